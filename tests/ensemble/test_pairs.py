"""Pairs: every contested candidate, or the best of them and a fair sample of the rest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.ensemble.inputs import INPUTS
from relens.ensemble.pairs import Pairs
from relens.errors import RanksError
from relens.packs.thinning import FINE, WIDE, ContestedView, ContestedViews
from tests import strategies
from tests.ensemble import oracles
from tests.ensemble.cases import NAMES, cases, pack, random_case
from tests.random_packs import changed

pytestmark = pytest.mark.kernels
few = settings(max_examples=40, deadline=None)


def advantages(packed, query, name):
    """Return the advantage tuples of all contested candidates of a query, in order."""
    rows = []
    for k in range(packed.offsets[query], packed.offsets[query + 1]):
        if name == "score":
            rows.append(tuple(int(gap) for gap in packed.gaps[:, k]))
        else:
            table = oracles.costs(name)
            rows.append(
                tuple(
                    table[int(packed.answer[i, query])] - table[int(packed.contested[i, k])]
                    for i in range(packed.n_models)
                )
            )
    return rows


def pairs_of(pairs, at):
    """Return the advantage tuples and multiplicities of the query at position ``at`` of the pairs."""
    mine = slice(pairs.offsets[at], pairs.offsets[at + 1])
    return [tuple(row) for row in pairs.advantage[:, mine].T.tolist()], pairs.multiplicity[mine].tolist()


@few
@given(st.data(), st.sampled_from(NAMES))
def test_lossless_pairs_are_everything(data, name):
    packed = data.draw(cases()).packed
    queries = np.array(data.draw(st.lists(st.integers(0, packed.n_queries - 1), max_size=6)), dtype=np.int64)
    view = ContestedView.lossless(packed)
    pairs = Pairs.gather(packed, view, queries, INPUTS[name])
    assert pairs.advantage.dtype == np.int32
    assert pairs.advantage.shape == (packed.n_models, pairs.n_pairs)
    assert (pairs.n_queries, pairs.n_pairs) == (len(queries), view.n_pairs(queries))
    assert pairs.multiplicity.tolist() == [1] * pairs.n_pairs
    assert pairs.floor.tolist() == [2 * (1 + int(packed.always_ahead[q])) for q in queries]
    for at, q in enumerate(queries):
        assert pairs_of(pairs, at)[0] == advantages(packed, q, name)


@few
@given(st.data(), st.sampled_from(NAMES))
def test_lossless_pairs_value_weights_like_the_dense_oracle(data, name):
    case = data.draw(cases())
    weights = data.draw(strategies.weights(case.packed.n_models))
    pairs = Pairs.gather(case.packed, ContestedView.lossless(case.packed), case.everything, INPUTS[name])
    assert oracles.value_of_pairs(pairs, weights) == oracles.reciprocal_sum(case, case.everything, weights, name)


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(NAMES), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_thinned_pairs_keep_the_best_and_a_sample_that_stands_for_the_rest(data, name, keep, sample, jobs):
    packed = data.draw(cases()).packed
    queries = np.array(data.draw(st.lists(st.integers(0, packed.n_queries - 1), max_size=5)), dtype=np.int64)
    view = ContestedView.thinned(packed, keep=keep, sample=sample, jobs=jobs)
    pairs = Pairs.gather(packed, view, queries, INPUTS[name])
    assert pairs.n_pairs == view.n_pairs(queries)
    for at, q in enumerate(queries):
        found, multiplicity = pairs_of(pairs, at)
        everything = advantages(packed, q, name)
        count = len(everything)
        assert len(found) <= keep + sample
        assert sum(multiplicity) == count
        if count <= keep + sample:
            assert (found, multiplicity) == (everything, [1] * count)
            continue
        # The best by best rank in any model, the first of equals, and every s-th of the others in order.
        best = packed.contested[:, packed.offsets[q] : packed.offsets[q + 1]].min(axis=0).tolist()
        kept = set(sorted(range(count), key=lambda k: (best[k], k))[:keep])
        rest = [k for k in range(count) if k not in kept]
        stride = -(-len(rest) // sample)
        stands_for = dict.fromkeys(kept, 1) | {rest[s]: len(rest[s : s + stride]) for s in range(0, len(rest), stride)}
        assert found == [everything[k] for k in sorted(stands_for)]
        assert multiplicity == [stands_for[k] for k in sorted(stands_for)]


def test_thinned_and_whole_queries_side_by_side():
    rng = np.random.default_rng(2)
    values = [rng.integers(0, 30, (6, 40)) / 1.0 for _ in range(3)]
    for model in values:
        model[[1, 4], 4:] = -1.0  # few candidates of these queries are contested
    packed = pack(values, [0] * 6).packed
    queries = np.array([4, 0, 1, 5, 0])
    view = ContestedView.thinned(packed, keep=3, sample=2)
    for name in NAMES:
        pairs = Pairs.gather(packed, view, queries, INPUTS[name])
        assert np.diff(pairs.offsets).tolist() == [min(5, len(advantages(packed, q, name))) for q in queries]
        for at, q in enumerate(queries):
            whole = advantages(packed, q, name)
            found, multiplicity = pairs_of(pairs, at)
            assert set(found) <= set(whole)
            assert sum(multiplicity) == len(whole)
        assert pairs_of(pairs, 1) == pairs_of(pairs, 4)


@pytest.mark.parametrize("jobs", [2, 3, 16])
def test_the_number_of_threads_changes_no_view(jobs):
    values = [np.random.default_rng(i).integers(0, 9, (9, 20)) / 1.0 for i in range(3)]
    for model in values:
        model[[0, 1, 4, 8], 1:] = -1.0  # nothing contested at either end
    packed = pack(values, [0] * 9).packed
    assert np.diff(packed.offsets)[[0, 1, 4, 8]].tolist() == [0] * 4
    one, many = (ContestedView.thinned(packed, keep=2, sample=2, jobs=j) for j in (1, jobs))
    for field in ("offsets", "rows", "multiplicity"):
        assert np.array_equal(getattr(one, field), getattr(many, field))


def test_no_contested_candidates_and_no_queries():
    packed = pack([np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]])] * 2, [0, 0]).packed
    for name in NAMES:
        for view in (ContestedView.lossless(packed), ContestedView.thinned(packed, keep=1, sample=1, jobs=2)):
            pairs = Pairs.gather(packed, view, np.arange(2), INPUTS[name])
            assert (pairs.n_pairs, pairs.floor.tolist()) == (0, [2, 6])
            none = Pairs.gather(packed, view, np.array([], dtype=np.int64), INPUTS[name])
            assert (none.n_queries, none.n_pairs, none.offsets.tolist()) == (0, 0, [0])


def test_wide_ranks_are_thinned_like_narrow_ones():
    packed = random_case(5, n_queries=4, n_candidates=30, levels=None).packed
    wider = changed(packed, answer=packed.answer.astype(np.uint32), contested=packed.contested.astype(np.uint32))
    narrow, wide = (ContestedView.thinned(p, keep=2, sample=2) for p in (packed, wider))
    assert len(narrow.rows) < packed.n_contested
    assert np.array_equal(narrow.rows, wide.rows)
    assert np.array_equal(narrow.multiplicity, wide.multiplicity)
    narrow_pairs, wide_pairs = (
        Pairs.gather(p, v, np.arange(4), INPUTS["log"]) for p, v in ((packed, narrow), (wider, wide))
    )
    assert np.array_equal(narrow_pairs.advantage, wide_pairs.advantage)


def test_views_are_made_once_and_get_finer():
    packed = random_case(6, n_queries=3, n_candidates=400, levels=None).packed
    views = ContestedViews(packed)
    assert views.wide is views.wide
    assert views.fine is views.fine
    queries = np.arange(3)
    assert views.lossless.n_pairs(queries) == packed.n_contested > views.fine.n_pairs(queries)
    assert WIDE.keep < views.wide.n_pairs(np.array([1])) <= sum(WIDE)
    assert FINE.keep < views.fine.n_pairs(np.array([1])) <= sum(FINE)
    assert views.wide.multiplicity.sum() == views.fine.multiplicity.sum() == packed.n_contested


@pytest.mark.parametrize(("keep", "sample"), [(0, 2), (2, 0), (-1, 2)])
def test_thinning_keeps_and_samples_at_least_one(keep, sample):
    with pytest.raises(RanksError, match=f"`keep={keep}`, `sample={sample}`: expected at least 1 of each"):
        ContestedView.thinned(random_case(0, n_queries=4).packed, keep=keep, sample=sample)
