"""Packed = dense, for every weight vector."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.errors import RanksError
from relens.packs import packing
from relens.packs.kernels import within
from relens.packs.pack import PackedBlock
from relens.packs.packing import (
    MAX_GAP,
    fit_gap_scales,
    pack_ranks,
    pack_scores,
    rank_dtype,
    rerank,
    saturated_models,
)
from tests import oracles, strategies
from tests.ensemble.cases import pack

pytestmark = pytest.mark.kernels
few = settings(max_examples=60, deadline=None)


def one_hot(n_models: int) -> list[list[int]]:
    return [[int(i == j) for j in range(n_models)] for i in range(n_models)]


def query(block: PackedBlock, q: int) -> tuple[list[int], np.ndarray, int]:
    """Return the answer's doubled ranks (N,), the contested ones (N, k) and the always-ahead count of a query."""
    ends = np.concatenate([[0], np.cumsum(block.counts)])
    return block.answer[:, q].tolist(), block.contested[:, ends[q] : ends[q + 1]], int(block.always_ahead[q])


def assert_packed_equals_dense(packed: PackedBlock, dense: list[list[dict[int, int]]], block, all_weights) -> None:
    """``dense[q][i]`` maps the columns of query q to doubled ranks by model i."""
    for q, by_model in enumerate(dense):
        column = int(block.answer_column[q])
        answer, contested, always_ahead = query(packed, q)
        expected_ahead, expected = oracles.packed_row(by_model, column)
        assert answer == [ranks[column] for ranks in by_model]
        assert [tuple(row) for row in contested.T.tolist()] == expected
        assert always_ahead == expected_ahead
        assert packed.n_candidates[q] == len(by_model[0])
        columns = sorted(by_model[0])
        rows = [[ranks[j] for j in columns] for ranks in by_model]
        for weights in all_weights:
            found = oracles.packed_ensemble_rank(answer, contested, always_ahead, weights)
            assert found == oracles.ensemble_rank(rows, columns.index(column), weights)


@few
@given(st.data())
def test_packed_ranks_equal_dense_ranks_for_every_weight_vector(data):
    block = data.draw(strategies.rank_blocks())
    n = len(block.values)
    dense = [
        [{j: 2 * int(rank) for j, rank in enumerate(model[q])} for model in block.values]
        for q in range(len(block.answer_column))
    ]
    weights = [*one_hot(n), [1] * n, data.draw(strategies.weights(n))]
    assert_packed_equals_dense(pack_ranks(block.values, block.answer_column), dense, block, weights)


@few
@given(st.data(), st.sampled_from([0, 1, 64]), st.booleans())
def test_packed_scores_equal_dense_scores_for_every_weight_vector(data, counted, filtered):
    block = data.draw(strategies.score_blocks())
    n = len(block.values)
    dense = [
        [
            oracles.doubled_ranks(model[q].tolist(), int(column), block.known_of(q) if filtered else ())
            for model in block.values
        ]
        for q, column in enumerate(block.answer_column)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_COUNTED", counted)
        packed = pack_scores(block.values, block.answer_column, block.known if filtered else None)
    weights = [*one_hot(n), [1] * n, data.draw(strategies.weights(n))]
    assert_packed_equals_dense(packed, dense, block, weights)


@few
@given(st.data())
def test_reranked_ranks_equal_dense_ranks_without_known_answers(data):
    block = data.draw(strategies.rank_blocks())
    n = len(block.values)
    dense = [
        [oracles.doubled_ranks([-int(r) for r in model[q]], int(column), block.known_of(q)) for model in block.values]
        for q, column in enumerate(block.answer_column)
    ]
    packed = rerank(block.values, block.answer_column, block.known)
    assert_packed_equals_dense(packed, dense, block, [*one_hot(n), [1] * n])


@few
@given(strategies.score_blocks())
def test_one_hot_weights_give_back_the_mean_rank_of_the_base_model(block):
    packed = pack_scores(block.values, block.answer_column, block.known)
    for q, column in enumerate(block.answer_column):
        answer, contested, always_ahead = query(packed, q)
        for weights, model in zip(one_hot(len(block.values)), block.values, strict=True):
            ahead, tied = oracles.packed_ensemble_rank(answer, contested, always_ahead, weights)
            rank = oracles.mean_rank(model[q].tolist(), int(column), block.known_of(q) - {int(column)})
            assert oracles.tie_rules(ahead, tied)["realistic"] == rank


@few
@given(strategies.score_blocks(), st.sampled_from([1e-30, 1e-3, 1.0, 1e30]))
def test_gaps_keep_the_sign_of_the_raw_difference_and_agree_with_the_ranks(block, scale):
    packed = pack_scores(block.values, block.answer_column, block.known, np.full(len(block.values), scale))
    behind = packed.contested.astype(int) - np.repeat(packed.answer.astype(int), packed.counts, axis=1)
    assert packed.gaps.dtype == np.int32
    assert (np.sign(packed.gaps) == -np.sign(behind)).all()
    assert (np.abs(packed.gaps) <= MAX_GAP).all()


def test_gaps_are_rounded_clipped_and_never_lose_a_difference():
    scores = np.array([[0.0, 2.6, -0.1, 1e9, 0.0]])
    packed = pack_scores([scores, -scores], np.array([0]), None, np.array([1.0, 2.0]))
    assert packed.gaps.tolist() == [[3, -1, MAX_GAP, 0], [-1, 1, -MAX_GAP, 0]]


def test_gap_scales_make_the_median_gap_two_to_the_sixteen_units():
    scores = np.array([[0.0, 2.0, -1.0, 0.0, 100.0, 4.0]], dtype=np.float16)
    known = (np.array([0, 1]), np.array([4]))
    scales = fit_gap_scales([scores, np.zeros((1, 6), dtype=np.float32)], np.array([0]), known)
    assert scales.tolist() == [2.0 / 2**16, 1.0]


@few
@given(strategies.score_blocks())
def test_gap_scales_are_medians_of_medians_without_ties_and_outliers(block):
    found = fit_gap_scales(block.values, block.answer_column, block.known)
    for scale, rows in zip(found, block.values, strict=True):
        typical = []
        for q, row in enumerate(rows.tolist()):
            answer = int(block.answer_column[q])
            left_out = {int(j) for j in block.known[1][block.known[0][q] : block.known[0][q + 1]]} - {answer}
            sizes = sorted(abs(x - row[answer]) for j, x in enumerate(row) if j not in left_out and x != row[answer])
            kept = [size for size in sizes if size <= 1024 * sizes[len(sizes) // 10]]
            typical += [kept[(len(kept) - 1) // 2]] if kept else []
        typical.sort()
        assert scale == (typical[(len(typical) - 1) // 2] / 2**16 if typical else 1.0)


@pytest.mark.parametrize("n_masked", [1, 10, 80])
def test_masked_entities_leave_the_scale_as_it_is_without_them(n_masked):
    rng = np.random.default_rng(4)
    scores, columns = rng.normal(size=(9, 100)), np.full(9, 99)
    masked = scores.copy()
    masked[:, :n_masked] = -1e9
    rest = scores[:, n_masked:]
    expected = fit_gap_scales([rest], columns - n_masked)
    assert fit_gap_scales([masked], columns) == pytest.approx(expected, rel=0.2)


def packed_gaps(*gaps):
    """Return packed ranks whose models have the given gaps to the answer of one query."""
    scores = np.zeros((len(gaps), 1, 1 + len(gaps[0])))
    scores[:, 0, 1:] = gaps
    return pack(list(scores), [0], scales=[1.0] * len(gaps)).packed


def test_models_with_mostly_extreme_gaps_are_named():
    fine, tiny, huge = [5, -7, 1, MAX_GAP, 0, 0], [1, -0.25, 0.5, 9, 0, 0], [1e9, -1e9, 3, -1e10, 0, 0]
    packed = packed_gaps(fine, tiny, huge, [0] * 6)
    assert saturated_models(packed) == {"m1": 0.75, "m2": 0.75}
    assert saturated_models(packed.without_gaps()) == {}


def test_gap_scales_of_enormous_scores_stay_finite():
    scores = np.array([[-1.7e308, 1.7e308]])
    scales = fit_gap_scales([scores], np.array([0]))
    assert np.isfinite(scales).all()
    assert pack_scores([scores, -scores], np.array([0]), None, np.repeat(scales, 2)).gaps.tolist() == [
        [MAX_GAP],
        [-MAX_GAP],
    ]


def test_all_candidates_tied_are_all_contested_and_share_the_mean_rank():
    packed = pack_scores([np.zeros((1, 7))], np.array([3]))
    assert packed.counts.tolist() == [6]
    assert packed.answer.tolist() == [[8]]
    assert packed.always_ahead.tolist() == [0]


def test_contested_of_one_model_are_exactly_the_ties():
    packed = pack_ranks([np.array([[3, 1, 3, 2, 5]])], np.array([0]))
    assert (packed.contested.tolist(), packed.always_ahead.tolist()) == ([[6]], [2])


def test_an_answer_listed_as_known_stays_and_repeated_known_answers_count_once():
    packed = pack_scores([np.array([[1.0, 2.0, 3.0]])], np.array([0]), (np.array([0, 4]), np.array([0, 2, 2, 0])))
    assert (packed.n_candidates.tolist(), packed.answer.tolist()) == ([2], [[4]])


def test_long_rows_agree_with_the_oracle_for_crowded_and_sparse_queries():
    rng = np.random.default_rng(5)
    scores = [np.round(rng.normal(size=(3, 45)), 1).astype(np.float32) for _ in range(2)]
    scores[1][1] = scores[0][1] + 7.0
    columns = np.array([4, 44, 0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_COUNTED", 3)
        packed = pack_scores(scores, columns)
    dense = [[oracles.doubled_ranks(m[q].tolist(), int(c)) for m in scores] for q, c in enumerate(columns)]
    block = strategies.Block(scores, columns, (np.zeros(4, int), np.zeros(0, int)))
    assert_packed_equals_dense(packed, dense, block, [[1, 1], [1, 0], [3, 2]])


def test_rows_of_any_length_are_judged_to_their_last_candidate():
    """Candidates are judged in words of eight and chunks of 512: here with all kinds on both sides of every border."""
    rng = np.random.default_rng(6)
    for n_columns in (7, 8, 9, 511, 512, 513, 1100):
        # The second model mostly agrees with the first, so that there are chunks with nothing contested.
        first = np.argsort(rng.random((4, n_columns)), axis=1) + 1
        second = np.where(rng.random(first.shape) < 0.01, rng.integers(1, n_columns + 1, first.shape), first)
        columns = np.array([0, n_columns - 1, int(np.argmin(first[2])), int(np.argmax(first[3]))])
        dense = [[dict(enumerate((2 * model[q]).tolist())) for model in (first, second)] for q in range(4)]
        block = strategies.Block([first, second], columns, (np.zeros(5, int), np.zeros(0, int)))
        assert_packed_equals_dense(pack_ranks(block.values, columns), dense, block, [[1, 1], [0, 1]])


@pytest.mark.parametrize(
    "scores",
    [
        np.repeat(0.5, 40),
        np.repeat([0.0, 1.0], 20),
        np.array([*np.linspace(0, 1e-9, 39), 1e300]),
        np.array([-1.7e308, *np.linspace(-1, 1, 38), 1.7e308]),
        5e-324 * np.arange(40),
    ],
    ids=["all alike", "two values", "an outlier", "enormous", "tiny"],
)
def test_scores_of_any_distribution_are_ranked_exactly(scores):
    rows = [np.random.default_rng(seed).permutation(scores)[None] for seed in range(2)]
    column = np.array([int(np.argsort(rows[0][0])[15])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "_COUNTED", 2)
        packed = pack_scores(rows, column)
    dense = [[oracles.doubled_ranks(row[0].tolist(), int(column[0])) for row in rows]]
    block = strategies.Block(rows, column, (np.zeros(2, int), np.zeros(0, int)))
    assert_packed_equals_dense(packed, dense, block, [[1, 1], [2, 1]])


@pytest.mark.parametrize("n_columns", [32_768, 65_536])
def test_ranks_of_many_candidates_keep_their_full_width(n_columns):
    ranks = np.stack([np.arange(n_columns)[::-1], np.arange(n_columns)])[:, None] + 1
    packed = pack_ranks(ranks, np.array([n_columns - 1]))
    assert packed.contested.dtype == np.uint32
    assert packed.answer.tolist() == [[2], [2 * n_columns]]
    assert np.array_equal(packed.contested[1], 2 * np.arange(1, n_columns))


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
@pytest.mark.parametrize(("value", "fine"), [(1, True), (9, True), (0, False), (10, False)])
def test_ranks_beyond_the_candidates_are_seen(dtype, value, fine):
    ranks = np.full((3, 9), 4, dtype=dtype)
    ranks[2, 5] = value
    assert within(ranks, 9) is fine


@pytest.mark.parametrize(("n_candidates", "name"), [(1, "uint16"), (32767, "uint16"), (32768, "uint32")])
def test_ranks_are_as_narrow_as_the_doubled_candidates_allow(n_candidates, name):
    assert rank_dtype(n_candidates).name == name


def test_blocks_join_in_order():
    rng = np.random.default_rng(0)
    ranks = [rng.integers(1, 9, (6, 8)) for _ in range(3)]
    columns = rng.integers(0, 8, 6)
    whole = pack_ranks(ranks, columns)
    parts = PackedBlock.join([pack_ranks([m[a:b] for m in ranks], columns[a:b]) for a, b in [(0, 1), (1, 1), (1, 6)]])
    for name in ("answer", "n_candidates", "always_ahead", "counts", "contested"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
    assert parts.gaps is None


def test_blocks_with_and_without_gaps_do_not_join():
    scores, column = [np.array([[1.0, 2.0]])], np.array([0])
    with pytest.raises(RanksError, match="some blocks have score gaps and some have not"):
        PackedBlock.join([pack_scores(scores, column), pack_scores(scores, column, None, np.ones(1))])
