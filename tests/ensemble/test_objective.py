"""The objective: packed = dense for every input, every weight vector and all three tie rules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.ensemble import objective
from relens.ensemble.grid import uniform, vertices
from relens.ensemble.inputs import INPUTS
from relens.ensemble.objective import answer_ranks, reciprocal_sums
from relens.metrics.hits import hits
from relens.metrics.mrr import mrr
from tests import strategies
from tests.ensemble import oracles
from tests.ensemble.cases import NAMES, cases, pack, random_case, rank_cases
from tests.oracles import mean_rank, tie_rules
from tests.random_packs import changed

pytestmark = pytest.mark.kernels
few = settings(max_examples=40, deadline=None)
RULES = ("optimistic", "realistic", "pessimistic")


def assert_ranks_equal_the_oracles(case, weights, name):
    """Ranks, MRR and Hit@k under all three tie rules."""
    found = answer_ranks(case.packed, np.array(weights, dtype=np.int64), input=INPUTS[name])
    expected = [tie_rules(*oracles.ahead_and_tied(case, q, weights, name)) for q in range(len(case.answers))]
    for rule in RULES:
        ranks, exact = getattr(found, rule), [ranks[rule] for ranks in expected]
        assert ranks.tolist() == [float(rank) for rank in exact]
        assert mrr(ranks) == pytest.approx(float(sum(1 / rank for rank in exact) / len(exact)), rel=1e-12)
        for k in (1, 3, 10):
            assert hits(ranks, k) == pytest.approx(sum(rank <= k for rank in exact) / len(exact), rel=1e-12)


@few
@given(st.data(), st.sampled_from(NAMES))
def test_packed_equals_dense_for_scores(data, name):
    case = data.draw(cases())
    n = case.packed.n_models
    for weights in ([1] * n, data.draw(strategies.weights(n)), data.draw(strategies.weights(n))):
        assert_ranks_equal_the_oracles(case, weights, name)


@few
@given(st.data(), st.sampled_from(NAMES[:-1]))
def test_packed_equals_dense_for_ranks_taken_as_they_are(data, name):
    case = data.draw(rank_cases())
    n = case.packed.n_models
    for weights in ([1] * n, data.draw(strategies.weights(n))):
        assert_ranks_equal_the_oracles(case, weights, name)


@few
@given(st.data(), st.sampled_from(NAMES), st.integers(1, 5))
def test_long_queries_are_summed_block_by_block(data, name, block):
    case = data.draw(cases())
    weights = np.array(data.draw(strategies.weights(case.packed.n_models)))
    whole = answer_ranks(case.packed, weights, input=INPUTS[name])
    with pytest.MonkeyPatch.context() as patch:
        # A constant is compiled in: this shrinks the blocks only where the JIT is off.
        patch.setattr(objective, "BLOCK", block)
        parts = answer_ranks(case.packed, weights, input=INPUTS[name])
    assert np.array_equal(whole.ahead, parts.ahead)
    assert np.array_equal(whole.tied, parts.tied)


def test_more_candidates_than_a_block_holds():
    rng = np.random.default_rng(3)
    values = [rng.permuted(np.tile(np.arange(1, 2601), (2, 1)), axis=1) for _ in range(2)]
    case = pack(values, [5, 7], scores=False)
    assert np.diff(case.packed.offsets).max() > objective.BLOCK
    assert_ranks_equal_the_oracles(case, [2, 3], "rank")


@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_models_may_have_a_weight(name):
    case = random_case(2, n_models=8, n_queries=4, n_candidates=7)
    for n in range(1, 9):
        assert_ranks_equal_the_oracles(case, [3] * n + [0] * (8 - n), name)
        assert_ranks_equal_the_oracles(case, [0] * (8 - n) + [1 + i for i in range(n)], name)


@pytest.mark.parametrize("name", NAMES)
def test_groups_that_trust_many_and_few_models_do_not_disturb_each_other(name):
    """Queries follow each other in one pass, whatever number of models their groups trust."""
    case = random_case(3, n_models=14, n_queries=12, n_candidates=9)
    rng = np.random.default_rng(0)
    table = np.array([rng.integers(1, 9, 14) * (rng.permutation(14) < n) for n in (14, 1, 13, 7, 6, 2, 12)])
    group = np.arange(12) % 7
    found = answer_ranks(case.packed, table, group.astype(np.int32), input=INPUTS[name])
    expected = [oracles.ahead_and_tied(case, q, table[group[q]].tolist(), name) for q in range(12)]
    assert list(zip(found.ahead.tolist(), found.tied.tolist(), strict=True)) == expected


@few
@given(cases(), st.sampled_from(NAMES))
def test_one_hot_weights_give_back_the_base_model(case, name):
    for i, vertex in enumerate(vertices(case.packed.n_models)):
        found = answer_ranks(case.packed, vertex, input=INPUTS[name]).realistic
        assert found.tolist() == [case.dense[q][i][answer] / 2 for q, answer in enumerate(case.answers)]
        assert found.tolist() == (case.packed.answer[i] / 2).tolist()


def test_one_hot_weights_give_back_the_mean_rank_of_raw_scores():
    rng = np.random.default_rng(1)
    values = [rng.integers(0, 4, (6, 9)) / 1.0 for _ in range(3)]
    answers = rng.integers(0, 9, 6)
    packed = pack(values, answers.tolist()).packed
    for i, vertex in enumerate(vertices(3)):
        expected = [float(mean_rank(values[i][q].tolist(), int(a))) for q, a in enumerate(answers)]
        for name in NAMES:
            assert answer_ranks(packed, vertex, input=INPUTS[name]).realistic.tolist() == expected


@few
@given(st.data(), st.sampled_from(NAMES), st.integers(2, 1000))
def test_scaling_the_weights_changes_nothing(data, name, factor):
    case = data.draw(cases())
    weights = np.minimum(data.draw(strategies.weights(case.packed.n_models)), 2**20 // factor)
    once, scaled = (answer_ranks(case.packed, w, input=INPUTS[name]) for w in (weights, weights * factor))
    assert np.array_equal(once.ahead, scaled.ahead)
    assert np.array_equal(once.tied, scaled.tied)


@few
@given(st.data(), st.sampled_from(NAMES))
def test_a_model_of_weight_zero_might_as_well_not_be_there(data, name):
    case = data.draw(cases())
    n = case.packed.n_models
    weights = data.draw(strategies.weights(n))
    trusted = [i for i in range(n) if weights[i]]
    chosen = case.packed.select_models([case.packed.models[i] for i in trusted])
    whole = answer_ranks(case.packed, np.array(weights), input=INPUTS[name])
    part = answer_ranks(chosen, np.array([weights[i] for i in trusted]), input=INPUTS[name])
    assert np.array_equal(whole.ahead, part.ahead)
    assert np.array_equal(whole.tied, part.tied)


@few
@given(st.data(), st.sampled_from(NAMES))
def test_each_query_uses_the_weights_of_its_group_in_any_selection_of_queries(data, name):
    case = data.draw(cases())
    n_queries, n = case.packed.n_queries, case.packed.n_models
    table = [data.draw(strategies.weights(n)) for _ in range(3)]
    group = data.draw(st.lists(st.integers(0, 2), min_size=n_queries, max_size=n_queries))
    queries = data.draw(st.lists(st.integers(0, n_queries - 1), max_size=6))
    index = np.array(queries, dtype=np.int64)
    found = answer_ranks(
        case.packed, np.array(table), np.array(group, dtype=np.int32), input=INPUTS[name], queries=index
    )
    expected = [oracles.ahead_and_tied(case, q, table[group[q]], name) for q in queries]
    assert list(zip(found.ahead.tolist(), found.tied.tolist(), strict=True)) == expected


@few
@given(st.data(), st.sampled_from(NAMES))
def test_selecting_queries_before_or_while_ranking_is_the_same(data, name):
    case = data.draw(cases())
    index = np.array(data.draw(st.lists(st.integers(0, case.packed.n_queries - 1), max_size=6)), dtype=np.int64)
    weights = np.array(data.draw(strategies.weights(case.packed.n_models)))
    before = answer_ranks(case.packed.select_queries(index), weights, input=INPUTS[name])
    during = answer_ranks(case.packed, weights, input=INPUTS[name], queries=index)
    assert np.array_equal(before.ahead, during.ahead)
    assert np.array_equal(before.tied, during.tied)


def test_a_transform_does_not_depend_on_the_longest_query_of_the_pack():
    """The costs of ranks must be those of the whole pack where a search sees the queries of one group alone."""
    case = random_case(4, n_models=4, n_queries=40, n_candidates=25, levels=None)
    counts = np.where(np.arange(40) == 0, 2000, case.packed.n_candidates).astype(np.int32)
    packed = changed(case.packed, n_candidates=counts)
    some = np.arange(1, 40)
    rng = np.random.default_rng(0)
    for name in ("log", "sqrt", "rrf"):
        for _ in range(50):
            weights = rng.integers(0, 5, 4) + np.array([1, 0, 0, 0])
            before = answer_ranks(packed.select_queries(some), weights, input=INPUTS[name])
            during = answer_ranks(packed, weights, input=INPUTS[name], queries=some)
            assert np.array_equal(before.realistic, during.realistic)


@pytest.mark.parametrize("jobs", [2, 3, 50])
@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_changes_nothing(jobs, name):
    case = random_case(7, n_queries=23)
    group = np.arange(23, dtype=np.int32) % 2
    table = np.array([[3, 1, 0], [1, 1, 1]])
    for queries in (None, np.array([5, 5, 1, 22]), np.array([], dtype=np.int64)):
        one = answer_ranks(case.packed, table, group, input=INPUTS[name], queries=queries)
        many = answer_ranks(case.packed, table, group, input=INPUTS[name], queries=queries, jobs=jobs)
        assert np.array_equal(one.ahead, many.ahead)
        assert np.array_equal(one.tied, many.tied)


def test_threads_share_queries_without_contested_candidates():
    values = [np.array([[3.0, 1.0, 2.0]] * 5)] * 2
    packed = pack(values, [0] * 5).packed
    assert packed.n_contested == 0
    assert answer_ranks(packed, uniform(2), jobs=3).realistic.tolist() == [1.0] * 5


def test_all_candidates_tied_give_twice_over_candidates_plus_one():
    packed = pack([np.zeros((1, 7))] * 3, [3]).packed
    for name in NAMES:
        assert mrr(answer_ranks(packed, uniform(3), input=INPUTS[name]).realistic) == 2 / 8


def test_equal_weights_tie_what_floats_would_not():
    """Ranks 1, 2, 6 against 3, 3, 3: thirds of them do not add up to the same float."""
    values = [np.array([[1, 3]]), np.array([[2, 3]]), np.array([[6, 3]])]
    values = [np.repeat(v, [1, 5], axis=1) for v in values]
    found = answer_ranks(pack(values, [0], scores=False).packed, uniform(3))
    assert (found.ahead.tolist(), found.tied.tolist()) == ([0], [5])


@few
@given(st.data(), st.sampled_from(NAMES))
def test_reciprocal_sums_are_those_of_the_oracle(data, name):
    case = data.draw(cases())
    candidates = [data.draw(strategies.weights(case.packed.n_models)) for _ in range(3)]
    queries = np.array(data.draw(st.lists(st.integers(0, case.packed.n_queries - 1), max_size=5)), dtype=np.int64)
    found = reciprocal_sums(case.packed, queries, INPUTS[name], [np.array(weights) for weights in candidates])
    expected = [float(oracles.reciprocal_sum(case, queries, weights, name)) for weights in candidates]
    assert found == pytest.approx(expected, rel=1e-12)


def test_weights_of_zero_read_nothing_beyond_the_ranks():
    packed = random_case(3, n_queries=6).packed
    found = answer_ranks(packed, np.zeros(packed.n_models, dtype=np.int64))
    assert found.ahead.tolist() == packed.always_ahead.tolist()
    assert found.tied.tolist() == np.diff(packed.offsets).tolist()
