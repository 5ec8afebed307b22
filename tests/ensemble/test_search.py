"""The search: every method from ranks to weights, with settings that say how they were found."""

import inspect
import json
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from relens.ensemble.context import SearchResult
from relens.ensemble.grid import WEIGHT_LIMIT, uniform, vertices
from relens.ensemble.inputs import INPUTS
from relens.ensemble.methods import METHODS
from relens.ensemble.methods import base as methods_base
from relens.ensemble.objective import model_mrrs, reciprocal_sums
from relens.ensemble.regularisation import KAPPAS, Shrinkage, choose
from relens.ensemble.search import search
from relens.ensemble.settings import SearchSettings, setting_options
from relens.ensemble.sweep import sweep, sweep_groups
from relens.errors import DatasetError, InputError, RanksError
from relens.metrics.mrr import mrr
from relens.packs.packing import UNITS_PER_GAP, fit_gap_scales
from relens.packs.simulation import Simulation
from relens.packs.thinning import ContestedViews
from tests.ensemble.cases import (
    NAMES,
    Recorder,
    context_of,
    group_of,
    groups_of,
    pack,
    queries_of,
    random_case,
    without_gaps,
)
from tests.random_packs import changed

WAYS = [
    *((method, "sweep") for method in METHODS if method != "basic"),
    *((method, sampler) for method in ("simple", "basic", "dsc") for sampler in ("tpe", "random")),
]


def tiny(shape):
    """Return packed ranks at the edge of what makes sense."""
    cases = {
        "plain": random_case(1),
        "one model": random_case(2, n_models=1),
        "one relation": random_case(3, n_relations=1),
        "one triple": random_case(4, n_queries=2),
        "one query": random_case(5, n_queries=1),
        "one candidate": random_case(6, n_candidates=1),
        "all tied": pack([np.zeros((4, 5))] * 2, [0, 1, 2, 3]),
        "nothing contested": pack([np.array([[3.0, 1.0, 2.0]] * 4)] * 2, [0, 1, 2, 0]),
    }
    return cases[shape].packed


# --- every method ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize(
    "shape",
    ["plain", "one model", "one relation", "one triple", "one query", "one candidate", "all tied", "nothing contested"],
)
def test_every_method_fits_the_smallest_packs(shape, way, gaps):
    method, searcher = way
    packed = tiny(shape) if gaps else without_gaps(tiny(shape))
    fitted = search(packed, method=method, searcher=searcher, trials=3)
    n_groups = 2 * len(packed.relations)
    assert fitted.table.shape == (n_groups, packed.n_models)
    assert fitted.table.dtype == np.int64
    assert (fitted.table.min() >= 0, fitted.table.max() <= WEIGHT_LIMIT) == (True, True)
    assert (fitted.table.max(axis=1) > 0).all()
    group = 2 * packed.queries.relation + packed.queries.direction
    assert fitted.support.tolist() == np.bincount(group, minlength=n_groups).tolist()
    own = fitted.support > 0 if method in ("dsc", "basic") else np.zeros(n_groups, dtype=bool)
    assert np.array_equal(fitted.own, own)
    assert all(np.array_equal(row, fitted.fallback) for row in fitted.table[~own])
    assert fitted.models == packed.models
    assert fitted.relations == packed.relations
    assert fitted.dataset == ("toy", "f00d")
    assert 0 < mrr(fitted.answer_ranks(packed).realistic) <= 1
    assert fitted.settings["method"] == method
    json.dumps(fitted.to_json(), allow_nan=False)


@pytest.mark.kernels
def test_the_default_is_dsc_with_everything_cross_validated():
    packed = random_case(7, n_queries=14, n_candidates=8).packed
    fitted = search(packed)
    assert fitted.settings["method"] == "dsc"
    assert fitted.settings["searcher"] == "sweep"
    assert set(fitted.settings["cross_validation"]) == set(NAMES)
    assert set(fitted.settings["cross_validation"]["rank"]) == {str(kappa) for kappa in KAPPAS}
    choice = choose(context_of(packed, group=group_of(packed)), [INPUTS[name] for name in NAMES], KAPPAS)
    assert fitted.input == fitted.settings["input"] == choice.input.name
    assert fitted.settings["kappa"] == ("inf" if math.isinf(choice.kappa) else choice.kappa)


@pytest.mark.parametrize(
    ("method", "searcher", "jobs"),
    [
        *((method, "sweep", jobs) for method in METHODS if method != "basic" for jobs in (2, 4)),
        *((method, "random", 2) for method in ("simple", "basic", "dsc")),
    ],
)
def test_workers_change_nothing(method, searcher, jobs):
    packed = random_case(3, n_queries=16, n_relations=3).packed
    one, many = (search(packed, method=method, searcher=searcher, trials=5, jobs=j) for j in (1, jobs))
    assert np.array_equal(one.table, many.table)
    assert np.array_equal(one.fallback, many.fallback)
    assert one.settings == many.settings
    assert one.notes == many.notes
    # Groups end in any order, and floats add up to almost the same in any order.
    assert one.trace[-1:, 1:] == pytest.approx(many.trace[-1:, 1:], rel=1e-12)


def test_the_baselines_are_the_functions_of_their_names():
    packed = random_case(4, n_queries=16).packed
    context = context_of(packed, "sqrt", seed=2)
    expected = {
        "mean": uniform(3),
        **{name: METHODS[name].search(context).common for name in ("mrr-mean", "best-single", "greedy", "stacking")},
        "simple": sweep(context, [np.arange(16)])[0].weights,
    }
    for method, weights in expected.items():
        fitted = search(packed, method=method, input="sqrt", seed=2)
        assert np.array_equal(fitted.fallback, weights)
        assert np.array_equal(fitted.table, np.tile(weights, (4, 1)))
        assert fitted.input == "sqrt"


@pytest.mark.parametrize("method", ["mean", "mrr-mean", "stacking", "best-single", "greedy"])
def test_baselines_use_ranks_unless_told(method):
    assert search(random_case(1).packed, method=method).input == "rank"
    assert search(random_case(1).packed, method=method, input="score").input == "score"


@pytest.mark.parametrize("searcher", ["tpe", "random"])
def test_sampled_searches_use_ranks_and_no_shrinkage_unless_told(searcher):
    fitted = search(random_case(1).packed, searcher=searcher, trials=3)
    assert fitted.settings == {
        "method": "dsc",
        "input": "rank",
        "seed": 0,
        "searcher": searcher,
        "grouping": "relation-direction",
        "trials": 3,
        **({"startup_trials": 20} if searcher == "tpe" else {}),
        "kappa": 0.0,
    }


def test_notes_of_stacking_travel():
    ranks = [np.array([[5, 1, 5, 1, 5]] * 4), np.array([[5, 5, 1, 5, 1]] * 4)]
    packed = pack(ranks, [0] * 4, scores=False).packed
    fitted = search(packed, method="stacking")
    assert fitted.notes == ("stacking: no model got a positive weight, so all weights are equal",)
    assert fitted.table.tolist() == [[1, 1], [1, 1]]


def test_sampling_follows_the_seed():
    packed = random_case(8, n_queries=20, levels=None).packed
    for method in ("simple", "basic", "dsc"):
        one, again, other = (
            search(packed, method=method, searcher="random", trials=8, seed=seed).table for seed in (0, 0, 1)
        )
        assert np.array_equal(one, again)
        assert not np.array_equal(one, other)


# --- the promise of no regularisation -------------------------------------------------------------------------------


@pytest.mark.kernels
@pytest.mark.parametrize("name", NAMES)
def test_without_regularisation_no_group_is_worse_than_global_mean_or_its_best_model(name):
    for seed in range(3):
        case = random_case(seed, n_models=3, n_queries=12, n_candidates=10)
        dsc = search(case.packed, input=name, regularise="none")
        simple = search(case.packed, method="simple", input=name)
        assert np.array_equal(dsc.fallback, simple.fallback)
        group = 2 * case.packed.queries.relation + case.packed.queries.direction
        for members in groups_of(case):
            mine = dsc.table[group[members[0]]]
            known = [simple.fallback, uniform(3), *vertices(3)]
            found, *others = reciprocal_sums(case.packed, members, INPUTS[name], [mine, *known])
            assert found >= max(others) - 1e-12


def test_the_parts_are_at_least_the_whole_on_simulated_models():
    packed = Simulation(("a", "b", "c"), (12, 6, 3, 1), 40, level=(2.0, 1.0), skill=0.8, seed=3).packed("valid")
    scores = {
        method: mrr(search(packed, method=method, input="rank", regularise="none").answer_ranks(packed).realistic)
        for method in ("mean", "best-single", "simple", "dsc")
    }
    assert scores["best-single"] == pytest.approx(max(model_mrrs(packed)))
    assert max(scores["mean"], scores["best-single"]) <= scores["simple"] <= scores["dsc"]


# --- shrinkage ------------------------------------------------------------------------------------------------------


def test_shrunk_weights_are_the_groups_and_the_global_ones_mixed():
    packed = random_case(5, n_queries=18, n_candidates=12).packed
    raw, half, all_ = (search(packed, input="log", regularise=kappa) for kappa in ("none", 7.0, math.inf))
    shrinkage = Shrinkage.from_pairs(ContestedViews(packed), np.arange(18), INPUTS["log"])
    expected = shrinkage.shrink(raw.table, raw.fallback, raw.support, 7.0)
    assert np.array_equal(half.table[half.own], expected[raw.own])
    assert np.array_equal(all_.table, np.tile(raw.fallback, (4, 1)))
    assert [w.settings["kappa"] for w in (raw, half, all_)] == [0.0, 7.0, "inf"]
    assert search(packed, input="log", regularise="7").settings["kappa"] == 7.0


# --- groups without validation queries ------------------------------------------------------------------------------


@pytest.fixture
def sparse():
    """Ranks that ask relation 1 for tails only and relation 2 not at all."""
    packed = random_case(6, n_queries=9, n_candidates=10).packed
    queries = queries_of([0, 0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 0, 0, 0, 0, 0], [0] * 9)
    return changed(packed, queries=queries, relations=("r0", "r1", "r2"))


@pytest.mark.parametrize("searcher", ["sweep", "random"])
def test_groups_without_validation_queries_get_the_global_weights(sparse, searcher):
    fitted = search(sparse, searcher=searcher, input="rank", regularise="none", trials=5)
    simple = search(sparse, method="simple", searcher=searcher, input="rank", trials=5)
    assert fitted.own.tolist() == [True, True, True, False, False, False]
    assert np.array_equal(fitted.fallback, simple.fallback)
    assert np.array_equal(fitted.table[3:], np.tile(simple.fallback, (3, 1)))
    assert fitted.notes == ("3 of 6 groups have no validation queries: global weights",)


def test_or_equal_weights_if_asked(sparse):
    fitted = search(sparse, fallback="uniform", input="rank", regularise="none")
    assert fitted.fallback.tolist() == [1, 1, 1]
    assert fitted.table[3:].tolist() == [[1, 1, 1]] * 3
    assert fitted.notes == ("3 of 6 groups have no validation queries: uniform weights",)
    simple = search(sparse, method="simple", fallback="uniform", input="rank")
    assert simple.fallback.tolist() == search(sparse, method="simple", input="rank").fallback.tolist()
    assert simple.notes == ()


def test_basic_knows_no_global_weights(sparse):
    fitted = search(sparse, method="basic", searcher="random", trials=4)
    assert fitted.own.tolist() == [True, True, True, False, False, False]
    assert fitted.table[3:].tolist() == [[1, 1, 1]] * 3
    assert fitted.notes == ("3 of 6 groups have no validation queries: uniform weights",)


# --- groupings ------------------------------------------------------------------------------------------------------


def test_one_group_per_relation():
    packed = random_case(3, n_queries=12).packed
    fitted = search(packed, group="relation", input="rank", regularise="none")
    assert fitted.grouping.labels == ("r0", "r1")
    assert fitted.settings["grouping"] == "relation"
    members = [np.flatnonzero(packed.queries.relation == r) for r in (0, 1)]
    _, found = sweep_groups(context_of(packed), np.arange(12), members)
    assert fitted.table.tolist() == [result.weights.tolist() for result in found]


def test_a_users_groups(tmp_path):
    file = tmp_path / "groups.tsv"
    file.write_text("r0\tboth\nr1\tboth\n")
    packed = changed(random_case(3, n_queries=12).packed, relations=("r0", "r1", "r2"))
    fitted = search(packed, group=str(file), input="rank", regularise="none")
    assert fitted.grouping.labels == ("both", "r2")
    assert fitted.support.tolist() == [12, 0]
    assert fitted.own.tolist() == [True, False]
    simple = search(packed, method="simple", input="rank")
    assert mrr(fitted.answer_ranks(packed).realistic) >= mrr(simple.answer_ranks(packed).realistic)


def test_unknown_groupings_are_refused():
    with pytest.raises(DatasetError, match="unknown grouping 'relatoin': expected 'relation-direction', 'relation'"):
        search(random_case(0).packed, group="relatoin")


# --- traces ---------------------------------------------------------------------------------------------------------


def assert_monotone(trace):
    assert trace.shape[1] == 3
    assert (np.diff(trace, axis=0) >= -1e-15).all()
    assert (trace >= 0).all()


@pytest.mark.parametrize(("method", "searcher"), [("simple", "sweep"), ("dsc", "sweep"), ("simple", "random"),
                                                  ("dsc", "random"), ("basic", "random"), ("dsc", "tpe")])  # fmt: skip
def test_traces_rise_from_equal_weights_to_the_validation_mrr(method, searcher):
    packed = random_case(9, n_queries=20, n_candidates=15).packed
    fitted = search(packed, method=method, searcher=searcher, input="log", regularise="none", trials=7)
    assert_monotone(fitted.trace)
    equal = search(packed, method="mean", input="log")
    assert fitted.trace[0, 2] == pytest.approx(mrr(equal.answer_ranks(packed).realistic), rel=1e-12)
    assert fitted.trace[-1, 2] == pytest.approx(mrr(fitted.answer_ranks(packed).realistic), rel=1e-12)
    if searcher != "sweep":
        assert fitted.trace[-1, 1] == 7 * (fitted.own.sum() if method == "dsc" else 1)


def test_a_fit_that_ends_at_the_global_weights_has_the_trace_of_their_search():
    packed = random_case(9, n_queries=20, n_candidates=15).packed
    fitted = search(packed, input="log", regularise="inf")
    assert_monotone(fitted.trace)
    assert len(fitted.trace) >= 2
    assert fitted.trace[-1, 2] == pytest.approx(mrr(fitted.answer_ranks(packed).realistic), rel=1e-12)


def test_baselines_have_no_trace():
    assert search(random_case(1).packed, method="mean").trace.shape == (0, 3)


def test_groups_traces_are_merged_in_time_and_thinned(monkeypatch):
    found = [
        SearchResult(uniform(2), 3.0, np.array([[0.5, 1.0, 1.0], [1.0, 4.0, 2.0], [3.0, 6.0, 3.0]])),
        SearchResult(uniform(2), 2.0, np.array([[0.1, 1.0, 2.0], [2.0, 9.0, 2.0]])),
    ]
    expected = [[0.0, 2.0, 0.6], [1.0, 5.0, 0.8], [2.0, 13.0, 0.8], [3.0, 15.0, 1.0]]
    assert methods_base.overall_trace(found, 5) == pytest.approx(np.array(expected))
    monkeypatch.setattr(methods_base, "TRACE_POINTS", 2)
    assert methods_base.overall_trace(found, 5) == pytest.approx(np.array([expected[0], expected[-1]]))


# --- progress -------------------------------------------------------------------------------------------------------


def test_progress_is_told_of_every_phase():
    progress = Recorder()
    search(random_case(3, n_queries=12).packed, progress=progress)
    described = [description for description, _, _ in progress.tasks]
    assert described[0] == "cross-validation"
    assert {"searching weights", "finishing exactly"} <= set(described)
    for _, total, done in progress.tasks:
        assert sum(done) == pytest.approx(total)


# --- wrong requests -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "dcs"}, "unknown method 'dcs'; did you mean 'dsc'?"),
        ({"method": "everything"}, "unknown method 'everything'; available: 'mean', 'mrr-mean', 'stacking'"),
        ({"searcher": "sweap"}, "unknown searcher 'sweap'; did you mean 'sweep'?"),
        ({"input": "scores"}, "unknown input 'scores'; did you mean 'score'?"),
        ({"fallback": "mean"}, "unknown fallback 'mean'; available: 'global', 'uniform'"),
        ({"trials": 0}, "trials is 0, expected at least 1"),
        ({"seed": -1}, "seed is -1, expected at least 0"),
        ({"method": "basic"}, "method 'basic' searches all groups jointly, and with the sweep that would be 'dsc'"),
        ({"regularise": "some"}, "regularise is 'some', expected auto, none, or a number κ of at least 0"),
        ({"regularise": -0.5}, "regularise is -0.5, expected auto, none, or a number κ of at least 0"),
        ({"regularise": "nan"}, "regularise is 'nan', expected"),
        ({"regularise": None}, "regularise is None, expected"),
        ({"regularise": "some", "method": "simple"}, "regularise is 'some', expected"),
        ({"regularise": "some", "searcher": "tpe"}, "regularise is 'some', expected"),
        ({"trials": "many"}, "trials is 'many', expected a whole number"),
        ({"seed": 1.5}, "seed is 1.5, expected a whole number"),
        ({"jobs": 0}, "jobs is 0, expected at least 1"),
        ({"jobs": -1}, "jobs is -1, expected at least 1"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        search(random_case(0).packed, **changes)


def test_an_unknown_argument_is_a_type_error_with_a_hint():
    with pytest.raises(TypeError, match=r"search\(\) has no argument 'tirals'; did you mean 'trials'\?"):
        search(random_case(0).packed, tirals=3)
    with pytest.raises(InputError, match="neither the method 'dsc' nor the searcher 'sweep' has an option 'tirals'"):
        SearchSettings(options={"tirals": 3})


def test_settings_are_arguments():
    settings = SearchSettings(method="mean", input="log")
    assert search(random_case(0).packed, **settings.arguments()).input == "log"


def test_the_arguments_of_the_search_are_the_settings_with_their_defaults():
    parameters = inspect.signature(search).parameters
    for name, option in setting_options().items():
        assert parameters[name].default == option.default
        assert name in search.__doc__
    assert SearchSettings().arguments() == {name: option.default for name, option in setting_options().items()}


@pytest.mark.parametrize(
    ("settings", "kappas"),
    [
        ({}, KAPPAS),
        ({"regularise": "none"}, (0.0,)),
        ({"searcher": "tpe"}, (0.0,)),
        ({"searcher": "tpe", "regularise": "2.5"}, (2.5,)),
        ({"regularise": "inf"}, (math.inf,)),
        ({"regularise": 0}, (0.0,)),
        ({"method": "simple"}, (math.inf,)),
        ({"method": "simple", "regularise": 3}, (math.inf,)),
    ],
)
def test_strengths_to_choose_from(settings, kappas):
    assert SearchSettings(**settings).kappas() == kappas


def test_inputs_to_choose_from():
    packed = random_case(0).packed

    def names(ranks, **changes):
        return tuple(input.name for input in SearchSettings(**changes).inputs(ranks))

    assert names(packed) == NAMES
    assert names(without_gaps(packed)) == NAMES[:-1]
    assert names(packed, searcher="random") == ("rank",)
    assert names(packed, method="greedy") == ("rank",)
    assert names(packed, method="greedy", input="score") == ("score",)


def test_scores_need_gaps():
    with pytest.raises(RanksError, match="input 'score' needs score gaps, and these packed ranks have none"):
        search(without_gaps(random_case(0).packed), input="score")


@pytest.mark.parametrize("method", ["dsc", "mean"])
def test_an_empty_validation_split_is_refused(method):
    empty = random_case(0).packed.select_queries(np.array([], dtype=np.int64))
    with pytest.raises(RanksError, match="the valid split of 'toy' has no queries, and weights are fitted on them"):
        search(empty, method=method)


@pytest.mark.parametrize("method", ["dsc", "mean"])
def test_too_many_models_are_refused(method):
    packed = random_case(0).packed
    many = changed(
        packed,
        models=tuple(f"m{i}" for i in range(128)),
        answer=np.tile(packed.answer[:1], (128, 1)),
        contested=np.tile(packed.contested[:1], (128, 1)),
    )
    with pytest.raises(RanksError, match="128 models are too many for exact sums"):
        search(without_gaps(many), method=method)


@pytest.mark.parametrize("wrong", ["runs/patterns", None, random_case(0)])
def test_anything_but_packed_ranks_raises_an_error_that_says_what_to_pass(wrong):
    with pytest.raises(
        InputError, match=r'expected the packed ranks of the validation split: pass `run\.ranks\("valid"\)`'
    ):
        search(wrong)


def test_ranks_of_the_test_split_cause_a_warning_unless_nothing_is_learnt():
    packed = random_case(0).packed
    test = changed(packed, provenance=replace(packed.provenance, split="test"))
    with pytest.warns(UserWarning, match="the weights are searched on the test split of 'toy'") as caught:
        search(test, method="best-single")
    assert caught[0].filename == __file__
    search(test, method="mean")


def masked_case(scale):
    """Return scores of two good models, of which the second has one masked entity; ``scale`` fits the scales."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(40, 60)) for _ in range(2)]
    for rows in values:
        rows[:, 0] += 1.5
    values[1][:, 7] = -1e9
    return pack(values, [0] * 40, scales=scale(values).tolist()).packed


def mean_scale(values):
    return np.array([np.abs(rows - rows[:, :1]).mean() / UNITS_PER_GAP for rows in values])


def test_one_masked_entity_does_not_flatten_the_score_gaps_of_its_model():
    mrrs = {}
    for name, scale in (("median", lambda values: fit_gap_scales(values, np.zeros(40, int))), ("mean", mean_scale)):
        packed = masked_case(scale)
        with warnings.catch_warnings():
            warnings.simplefilter("error" if name == "median" else "ignore")
            found = search(packed, method="mean", input="score")
        mrrs[name] = mrr(found.answer_ranks(packed).realistic)
    assert mrrs["median"] > mrrs["mean"] + 0.05


def test_a_model_whose_gaps_are_saturated_is_named_in_a_warning():
    packed = masked_case(lambda values: np.array([1.0, 1e6]) / UNITS_PER_GAP * 64)
    with pytest.warns(UserWarning, match="of the score gaps of model 'm1' are as small or as large") as caught:
        search(packed, method="mean", input="score")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(packed, method="mean", input="rank")
