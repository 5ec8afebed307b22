"""Sparse weights: no more models than wanted, and no worse than what is left without them."""

import numpy as np
import pytest

from relens.comparison import parse_spec
from relens.ensemble.grid import uniform, vertices
from relens.ensemble.inputs.rank import RANK
from relens.ensemble.methods import METHODS
from relens.ensemble.objective import reciprocal_sums
from relens.ensemble.pairs import Pairs
from relens.ensemble.search import search
from relens.ensemble.settings import SearchSettings
from relens.ensemble.sparse import _least_missed, sparsify
from relens.errors import InputError
from relens.packs.simulation import Simulation
from relens.packs.thinning import ContestedViews
from tests.ensemble.cases import context_of, random_case

PACKED = Simulation(
    models=("a", "b", "c", "d", "e"), triples_per_relation=(40, 20, 8), n_entities=120, level=(2.0, 1.0)
).packed("valid")


def value(queries, weights):
    return float(reciprocal_sums(PACKED, queries, RANK, [weights])[0])


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_few_models_keep_a_weight_and_no_group_is_worse_than_its_best_model(limit, jobs):
    members = [np.arange(PACKED.n_queries), np.arange(10), np.arange(10, 40)]
    given = [uniform(5), np.array([0, 7, 0, 9, 0]), np.array([1, 2, 3, 4, 5])]
    found = sparsify(context_of(PACKED, jobs=jobs), members, given, limit)
    for queries, own, before in zip(members, found, given, strict=True):
        assert 1 <= np.count_nonzero(own) <= limit
        if np.count_nonzero(before) <= limit:
            np.testing.assert_array_equal(own, before)
        else:
            assert value(queries, own) >= max(value(queries, vertex) for vertex in vertices(5))


@pytest.mark.parametrize("seed", range(5))
def test_the_model_that_goes_is_the_one_whose_loss_costs_least(seed):
    packed = random_case(seed, n_models=4).packed
    views, queries = ContestedViews(packed), np.arange(packed.n_queries)
    pairs = Pairs.gather(packed, views.lossless, queries, RANK)
    weights = np.random.default_rng(seed).integers(1, 100, 4)
    without = [np.where(np.arange(4) == i, 0, weights) for i in range(4)]
    values = reciprocal_sums(packed, queries, RANK, without)
    best = [i for i in range(4) if values[i] == pytest.approx(values.max(), abs=1e-12)]
    assert _least_missed(pairs, weights) == min(best, key=lambda i: weights[i])


@pytest.mark.parametrize("method", [method for method in METHODS if method != "basic"])
def test_every_method_can_be_sparse(method):
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'relens[stacking]'")
    fitted = search(PACKED, method=method, input="rank", max_models=2)
    assert np.count_nonzero(fitted.table, axis=1).max() <= 2
    assert np.count_nonzero(fitted.fallback) <= 2
    assert fitted.settings["max_models"] == 2


def test_more_models_than_there_are_change_nothing():
    np.testing.assert_array_equal(search(PACKED, max_models=5).table, search(PACKED).table)


def test_settings_are_checked_and_parsed():
    assert parse_spec("dsc:max_models=3", SearchSettings()).max_models == 3
    with pytest.raises(InputError, match="max_models is 0, expected at least 1"):
        SearchSettings(max_models=0)
    with pytest.raises(InputError, match="fallback 'uniform' gives every model a weight"):
        SearchSettings(max_models=2, fallback="uniform")
    with pytest.raises(InputError, match="expected a whole number"):
        parse_spec("dsc:max_models=few", SearchSettings())
