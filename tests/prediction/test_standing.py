"""Standing against loops over Python integers, on scores full of ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.ensemble.inputs import INPUTS, cost_table
from relens.prediction.standing import Place, Standing
from relens.ranks.packing import MAX_GAP
from tests.oracles import doubled_ranks


def cost_by_loop(case, entity, among):
    """Cost of one entity when ``among`` is ranked as the answer beside the candidates."""
    scores, known, weights, name, scales = case
    if name == "score":
        return -sum(
            float(w) / s * float(row[entity]) for w, s, row in zip(weights, scales, scores.tolist(), strict=True)
        )
    table = cost_table(name, scores.shape[1]).tolist()
    rows = [doubled_ranks(row, among, known) for row in scores.tolist()]
    return sum(int(w) * table[row[entity]] for w, row in zip(weights, rows, strict=True))


def gap_by_loop(case, entity, answer):
    scores, _, weights, _, scales = case
    total = 0
    for row, weight, scale in zip(scores.tolist(), weights.tolist(), scales.tolist(), strict=True):
        raw = row[entity] - row[answer]
        units = max(-MAX_GAP, min(MAX_GAP, round(raw / scale)))
        total += weight * (units or (raw > 0) - (raw < 0))
    return total


def place_by_loop(case, answer):
    scores, known, _, name, _ = case
    rivals = [e for e in range(scores.shape[1]) if e != answer and e not in known]
    if name == "score":
        gaps = [gap_by_loop(case, e, answer) for e in rivals]
        return Place(sum(gap > 0 for gap in gaps), sum(gap == 0 for gap in gaps))
    own = cost_by_loop(case, answer, answer)
    costs = [cost_by_loop(case, e, answer) for e in rivals]
    return Place(sum(cost < own for cost in costs), sum(cost == own for cost in costs))


@st.composite
def cases(draw):
    n_models, n_entities = draw(st.integers(1, 4)), draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    # Quarters and powers of two, so that the sums of floats in the loops are exact.
    scores = rng.integers(-3, 4, (n_models, n_entities)).astype(np.float32) / 4
    known = set(np.flatnonzero(rng.random(n_entities) < draw(st.sampled_from([0.0, 0.3, 0.9]))).tolist())
    weights = rng.integers(1, 4, n_models)
    scales = 2.0 ** rng.integers(-4, 2, n_models)
    return scores, known, weights, draw(st.sampled_from(INPUTS)), scales


def standing_of(case):
    scores, known, weights, name, scales = case
    return Standing(scores, np.array(sorted(known), dtype=np.int64), weights, name, scales)


@given(cases())
def test_every_entity_stands_where_a_loop_puts_it(case):
    standing = standing_of(case)
    scores, known = case[:2]
    for entity in range(scores.shape[1]):
        assert standing.place(entity) == place_by_loop(case, entity)
        expected = [doubled_ranks(row, entity, known)[entity] / 2 for row in scores.tolist()]
        assert standing.model_ranks(entity) == expected
    assert standing.n_candidates == scores.shape[1] - len(known)


@given(cases(), st.integers(1, 14), st.booleans())
def test_the_best_are_those_of_a_sorted_list(case, top, with_known):
    known, n_entities = case[1], case[0].shape[1]

    def best(entities):
        return sorted(entities, key=lambda e: (cost_by_loop(case, e, e), e))[:top]

    # With e alone beside the candidates, e costs what it costs among them: the list is ordered by that.
    chosen = best([e for e in range(n_entities) if e not in known]) + (best(known) if with_known else [])
    rows = [(place_by_loop(case, e), e) for e in chosen]
    rows.sort(key=lambda row: (row[0].rank, cost_by_loop(case, row[1], row[1]), row[1]))
    assert standing_of(case).best(top, with_known=with_known) == [(e, place) for place, e in rows[:top]]


@given(cases())
def test_known_answers_move_nobody(case):
    standing = standing_of(case)
    n_entities = case[0].shape[1]
    dropped = standing.best(n_entities, with_known=False)
    marked = standing.best(2 * n_entities, with_known=True)
    assert [row for row in marked if row[0] not in case[1]] == dropped
    assert {entity for entity, _ in marked} == set(range(n_entities))


def test_the_score_is_the_weighted_mean_of_the_input():
    scores = np.array([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0]], dtype=np.float32)
    nothing, weights = np.array([], dtype=np.int64), np.array([3, 1])
    by_rank = Standing(scores, nothing, weights)
    assert [by_rank.score(e) for e in range(3)] == [-(3 * 1 + 3) / 4, -(3 * 2 + 1) / 4, -(3 * 3 + 2) / 4]
    by_score = Standing(scores, nothing, weights, "score", np.array([1.0, 0.5]) / 2**16)
    assert [by_score.score(e) for e in range(3)] == [(3 * 3 + 2) / 4, (3 * 2 + 6) / 4, (3 * 1 + 4) / 4]
    by_log = Standing(scores, nothing, weights, "log")
    assert 0 >= by_log.score(0) > by_log.score(1) > by_log.score(2) > -1


def test_a_tied_block_shares_its_mean_rank():
    standing = Standing(np.zeros((1, 4), dtype=np.float32), np.array([3]), np.array([1]))
    assert [(entity, place.rank) for entity, place in standing.best(4, with_known=True)] == [
        (0, 2.0), (1, 2.0), (2, 2.0), (3, 2.5),
    ]  # fmt: skip
    assert standing.place(3) == Place(0, 3)
    with pytest.raises(IndexError):
        standing.place(4)
