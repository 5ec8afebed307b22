"""The sweep of groups: results have the value they report, and are never worse than the weights known before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.ensemble import pairs as pairs_module
from relens.ensemble import sweep as search
from relens.ensemble.context import SearchResult
from relens.ensemble.grid import WEIGHT_LIMIT, near_vertices, uniform, vertices
from relens.ensemble.inputs import INPUTS
from relens.ensemble.sweep import sweep, sweep_groups
from relens.packs import thinning
from relens.packs.thinning import ContestedViews, Reduction
from tests.ensemble import oracles
from tests.ensemble.cases import NAMES, cases, context_of, groups_of, pack, problem, random_case

pytestmark = pytest.mark.kernels
few = settings(max_examples=25, deadline=None)


@pytest.fixture(params=["whole", "thinned"])
def reduction(request, monkeypatch):
    """Search on all pairs, or on far fewer in both phases."""
    if request.param == "thinned":
        thin_everything(monkeypatch)
    return request.param


def thin_everything(patch):
    patch.setattr(thinning, "WIDE", Reduction(1, 1))
    patch.setattr(thinning, "FINE", Reduction(2, 1))
    patch.setattr(search, "WIDE_PAIRS", 4)
    patch.setattr(search, "LOSSLESS_PAIRS", 0)


def assert_found(case, members, name, found: SearchResult, incumbents=()):
    """The value is the oracle's at the weights, and nothing known before is better."""
    n = case.packed.n_models
    assert found.weights.dtype == np.int64
    assert found.weights.shape == (n,)
    assert found.weights.min() >= 0
    assert 0 < found.weights.max() <= WEIGHT_LIMIT
    exact = oracles.reciprocal_sum(case, members, found.weights.tolist(), name)
    assert found.value == pytest.approx(float(exact), rel=1e-12)
    for known in (uniform(n), *vertices(n), *incumbents):
        assert exact >= oracles.reciprocal_sum(case, members, known.tolist(), name)
    start = oracles.reciprocal_sum(case, members, [1] * n, name)
    assert found.trace[0, 2] == pytest.approx(float(start), rel=1e-12)
    assert found.trace[-1, 2] == found.value
    assert (np.diff(found.trace, axis=0) >= 0).all()
    assert found.trace[0, 0] >= 0
    assert found.trace[0, 1] == 1


def assert_same(one, other):
    for left, right in zip(one, other, strict=True):
        assert np.array_equal(left.weights, right.weights)
        assert left.value == right.value
        assert np.array_equal(left.trace[:, 1:], right.trace[:, 1:])


@few
@given(cases(), st.sampled_from(NAMES), st.booleans())
def test_found_is_worth_its_value_and_never_less_than_what_was_known(case, name, thinned):
    groups = groups_of(case)
    with pytest.MonkeyPatch.context() as patch:
        if thinned:
            thin_everything(patch)
        found = sweep(context_of(case.packed, name), groups)
        overall, of_groups = sweep_groups(context_of(case.packed, name), case.everything, groups)
    assert_found(case, case.everything, name, overall)
    for members, result, beside in zip(groups, found, of_groups, strict=True):
        assert_found(case, members, name, result)
        assert_found(case, members, name, beside, [overall.weights])


@pytest.mark.parametrize("name", NAMES)
def test_longer_queries(name, reduction):
    case = random_case(3, n_models=4, n_queries=10, n_candidates=40, levels=None)
    groups = groups_of(case)
    for members, result in zip(groups, sweep(context_of(case.packed, name), groups), strict=True):
        assert_found(case, members, name, result)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_the_finish_ends_where_no_line_of_all_pairs_is_better(name, seed):
    """The last ascent uses every pair, including those that the wide view hides."""
    case = random_case(seed, n_models=3, n_queries=5, n_candidates=25, levels=9, n_relations=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thinning, "WIDE", Reduction(1, 1))
        (found,) = sweep(context_of(case.packed, name), [case.everything])
    pairs = pairs_module.Pairs.gather(case.packed, ContestedViews(case.packed).lossless, case.everything, INPUTS[name])
    oracles.assert_no_line_is_better(pairs, found.weights.tolist(), found.value, 5 * search.FINE_GAIN)


def test_the_global_weights_replace_what_a_poor_search_finds_in_a_group(monkeypatch):
    """Groups whose own ascent goes nowhere get the final global weights, not those they started from."""
    case = random_case(8, n_models=3, n_queries=14, n_candidates=30, levels=None)
    groups = groups_of(case)
    ascend = search._ascend

    def lame(pairs, start, gain):
        return ascend(pairs, start, gain if pairs.n_queries == 14 else 1e9)

    monkeypatch.setattr(search, "_ascend", lame)
    monkeypatch.setattr(thinning, "WIDE", Reduction(1, 1))
    (started_from,) = sweep(context_of(case.packed), [case.everything], lossless=False)
    overall, found = sweep_groups(context_of(case.packed), case.everything, groups)
    assert not np.array_equal(overall.weights, started_from.weights)
    for members, result in zip(groups, found, strict=True):
        assert_found(case, members, "rank", result, [overall.weights, started_from.weights])
    assert any(np.array_equal(result.weights, overall.weights) for result in found)


def test_groups_start_from_the_best_end_of_the_wide_global_search(monkeypatch):
    case = random_case(7, n_models=4, n_queries=10, n_candidates=40, levels=None)
    (best,) = sweep(context_of(case.packed), [case.everything], lossless=False)
    from_uniform = search._ascend(
        pairs_module.Pairs.gather(case.packed, ContestedViews(case.packed).wide, case.everything, INPUTS["rank"]),
        uniform(4),
        1e-5,
    )
    assert from_uniform.value < best.value
    seen = []
    climb = search._Search.climb

    def spy(self, members, incumbents=()):
        seen.append((len(members), [known.tolist() for known in incumbents]))
        return climb(self, members, incumbents)

    monkeypatch.setattr(search._Search, "climb", spy)
    sweep_groups(context_of(case.packed), case.everything, groups_of(case))
    assert seen == [(1, []), (len(groups_of(case)), [best.weights.tolist()])]


@pytest.mark.parametrize("n_models", [1, 2, 5])
@pytest.mark.parametrize("small", [True, False])
def test_starts_are_those_given_and_the_best_near_a_vertex_and_at_random(n_models, small, monkeypatch):
    monkeypatch.setattr(search, "SMALL_PAIRS", 10**9 if small else 0)
    case = random_case(3, n_models=n_models, n_queries=8, n_candidates=12)
    pairs = pairs_module.Pairs.gather(case.packed, ContestedViews(case.packed).wide, case.everything, INPUTS["rank"])
    given_, *others = search._starts(pairs, [uniform(n_models)])
    assert given_.tolist() == [1] * n_models
    expected = []
    for pool, n in ((near_vertices(n_models), search.NEAR_STARTS), (search._sampled(n_models), search.SAMPLED_STARTS)):
        values = [oracles.value_of_pairs(pairs, start.tolist()) for start in pool]
        expected += sorted(values, reverse=True)[:n] if n_models > 1 and (small or len(pool) == n_models) else []
    assert [oracles.value_of_pairs(pairs, start.tolist()) for start in others] == expected
    assert len({tuple(start) for start in others}) == len(others)


@pytest.mark.parametrize("name", ["rank", "log", "score"])
@pytest.mark.parametrize("lossless", [True, False])
def test_workers_change_nothing(name, lossless, reduction):
    case = random_case(5, n_models=3, n_queries=16, n_candidates=20, n_relations=3)
    groups = groups_of(case)
    for members in (groups, [case.everything]):
        one, many = (sweep(context_of(case.packed, name, jobs=jobs), members, lossless=lossless) for jobs in (1, 4))
        assert_same(one, many)
    (overall, one), (overall_too, many) = (
        sweep_groups(context_of(case.packed, name, jobs=jobs), case.everything, groups, lossless=lossless)
        for jobs in (1, 4)
    )
    assert_same([overall, *one], [overall_too, *many])


def test_the_global_search_is_the_same_with_and_without_groups(reduction):
    case = random_case(7, n_queries=16, n_candidates=20, n_relations=3)
    for lossless in (True, False):
        (alone,) = sweep(context_of(case.packed, "log"), [case.everything], lossless=lossless)
        beside, _ = sweep_groups(context_of(case.packed, "log"), case.everything, groups_of(case), lossless=lossless)
        without, none = sweep_groups(context_of(case.packed, "log"), case.everything, [], lossless=lossless)
        assert none == []
        for other in (beside, without):
            assert np.array_equal(alone.weights, other.weights)
            assert alone.value == other.value


def test_the_order_of_groups_and_their_company_change_nothing(reduction):
    case = random_case(6, n_queries=18, n_candidates=15, n_relations=3)
    groups = groups_of(case)
    forth = sweep(context_of(case.packed, "sqrt"), groups)
    back = sweep(context_of(case.packed, "sqrt"), groups[::-1])[::-1]
    alone = [sweep(context_of(case.packed, "sqrt"), [members])[0] for members in groups]
    for results in zip(forth, back, alone, strict=True):
        assert len({tuple(result.weights) for result in results}) == 1
        assert len({result.value for result in results}) == 1
    _, forth = sweep_groups(context_of(case.packed, "sqrt"), case.everything, groups)
    back = sweep_groups(context_of(case.packed, "sqrt"), case.everything, groups[::-1])[1][::-1]
    for results in zip(forth, back, strict=True):
        assert len({tuple(result.weights) for result in results}) == 1
        assert len({result.value for result in results}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_one_model_has_nothing_to_search(name):
    case = random_case(1, n_models=1, n_queries=5)
    (found,) = sweep(context_of(case.packed, name), [case.everything])
    assert found.weights.tolist() == [1]
    assert_found(case, case.everything, name, found)


@pytest.mark.parametrize("name", NAMES)
def test_one_query(name):
    case = random_case(2, n_queries=1, n_candidates=12)
    (found,) = sweep(context_of(case.packed, name), [np.array([0])])
    assert_found(case, [0], name, found)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_contested(name):
    case = pack([np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]])] * 2, [0, 0])
    assert case.packed.n_contested == 0
    found = sweep(context_of(case.packed, name, jobs=2), [np.array([0]), np.array([1])])
    assert [result.value for result in found] == [1.0, 1 / 3]
    assert [result.weights.tolist() for result in found] == [[1, 1], [1, 1]]


@pytest.mark.parametrize("name", NAMES)
def test_all_candidates_tied(name):
    case = pack([np.zeros((2, 7))] * 3, [3, 6])
    (found,) = sweep(context_of(case.packed, name), [np.arange(2)])
    assert found.value == 4 / 8
    assert_found(case, [0, 1], name, found)


@pytest.mark.parametrize("jobs", [1, 3])
def test_no_groups(jobs):
    assert sweep(context_of(random_case(0).packed, jobs=jobs), []) == []


def test_without_the_exact_finish_values_are_those_of_the_wide_view():
    case = random_case(8, n_models=4, n_queries=10, n_candidates=40, levels=None, n_relations=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thinning, "WIDE", Reduction(3, 2))
        views = ContestedViews(case.packed)
        (found,) = sweep(context_of(views), [case.everything], lossless=False)
    pairs = pairs_module.Pairs.gather(case.packed, views.wide, case.everything, INPUTS["rank"])
    assert found.value == pytest.approx(float(oracles.value_of_pairs(pairs, found.weights.tolist())), rel=1e-12)
    assert found.trace.shape == (1, 3)
    ends = [search._ascend(pairs, start, search.WIDE_GAIN).value for start in search._starts(pairs, [uniform(4)])]
    assert found.value == max(ends) > min(ends)


def test_large_groups_climb_on_an_even_sample_of_their_queries(monkeypatch):
    case = random_case(4, n_queries=20, n_candidates=25, levels=None, n_relations=1)
    views = ContestedViews(case.packed)
    seen = []
    gather = pairs_module.Pairs.gather

    def spy(packed, view, queries, input):
        seen.append((view is views.wide, queries.tolist()))
        return gather(packed, view, queries, input)

    monkeypatch.setattr(pairs_module.Pairs, "gather", spy)
    for limit, step in ((10**6, 1), (views.wide.n_pairs(case.everything) // 2, 3)):
        monkeypatch.setattr(search, "WIDE_PAIRS", limit)
        seen.clear()
        (found,) = sweep(context_of(views), [case.everything])
        assert seen == [(True, list(range(0, 20, step))), (False, list(range(20)))]
        assert_found(case, case.everything, "rank", found)


def test_intervals_between_the_points_of_the_grid_do_not_end_the_search():
    """Equal products have almost equal sums of rounded logarithms: no weights lie between their breakpoints."""
    stretch = (2**26 - 131073) / np.log(65541 / 6)
    ranks = [[[11, 35, 55, 4, 25, 75], [40, 13, 7, 75, 19, 4]], [[10, 85, 5, 25, 25, 15], [43, 3, 75, 19, 19, 35]]]
    costs = np.rint(np.log((np.array(ranks) + 5) / 6) * stretch).astype(int)
    advantage = np.hstack(list(costs[:, :, :1] - costs[:, :, 1:]))
    pairs = problem(advantage, [5, 5], [2, 2], [1] * 10)
    found = search._ascend(pairs, uniform(2), search.FINE_GAIN)
    steps = range(0, 1001, 10)
    rivals = [(1000, k) for k in steps] + [(k, 1000) for k in steps]
    assert found.value >= max(oracles.value_of_pairs(pairs, rival) for rival in rivals)


def test_complementary_models_are_combined():
    """Each model ranks half of the queries first and the rest second to one decoy: together they get all right."""
    first, second = np.zeros((4, 6)), np.zeros((4, 6))
    for q in range(4):
        sure, unsure = (first, second) if q % 2 else (second, first)
        sure[q, 0], sure[q, 1:] = 1.0, np.linspace(0.0, 0.3, 5)
        unsure[q, 0], unsure[q, 1:] = 0.5, [0.6, 0.1, 0.1, 0.1, 0.1]
    case = pack([first, second], [0] * 4, scales=[0.001, 0.001])
    (found,) = sweep(context_of(case.packed, "score"), [case.everything])
    assert found.value == 4.0
    assert max(oracles.reciprocal_sum(case, range(4), v.tolist(), "score") for v in vertices(2)) == 3
