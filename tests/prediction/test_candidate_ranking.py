"""CandidateRanking against loops over Python integers, on scores full of ties."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.ensemble.inputs import INPUTS
from relens.packs.packing import MAX_GAP, UNITS_PER_GAP
from relens.prediction import ranking_kernels as kernels
from relens.prediction.candidate_ranking import CandidateRanking, Newcomers, Place
from tests.oracles import doubled_ranks, mean_rank


def as_python(kernel):
    """Return the function behind a kernel, which is one already where the JIT is switched off."""
    return getattr(kernel, "py_func", kernel)


def cost_by_loop(case, entity, among):
    """Cost of one entity when ``among`` is ranked as the answer beside the candidates."""
    scores, known, weights, name, scales = case
    if name == "score":
        return -sum(
            float(w) / s * float(row[entity]) for w, s, row in zip(weights, scales, scores.tolist(), strict=True)
        )
    table = INPUTS[name].cost_table(scores.shape[1]).tolist()
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
    return scores, known, weights, draw(st.sampled_from(list(INPUTS))), scales


def standing_of(case):
    scores, known, weights, name, scales = case
    return CandidateRanking(scores, np.array(sorted(known), dtype=np.int64), weights, INPUTS[name], scales)


@given(cases())
def test_every_entity_stands_where_a_loop_puts_it(case):
    standing = standing_of(case)
    scores, known = case[:2]
    for entity in range(scores.shape[1]):
        assert standing.place(entity) == place_by_loop(case, entity)
        expected = [doubled_ranks(row, entity, known)[entity] / 2 for row in scores.tolist()]
        assert standing.model_ranks(entity) == expected
    assert standing.n_candidates == scores.shape[1] - len(known)


def best_by_sorting(standing, top, with_known):
    """Place everybody; take the best new ones and, in addition, the best known ones."""
    rows = [(standing.place(e), standing.cost[e], e) for e in range(len(standing.known))]
    rows.sort(key=lambda row: (row[0].rank, *row[1:]))
    parts = [[row for row in rows if bool(standing.known[row[2]]) is known][:top] for known in (False, True)]
    chosen = parts[0] + (parts[1] if with_known else [])
    return [(e, place) for place, _, e in sorted(chosen, key=lambda row: (row[0].rank, *row[1:]))]


@given(cases(), st.integers(1, 14), st.booleans())
def test_the_best_are_those_of_a_sorted_list(case, top, with_known):
    standing = standing_of(case)
    assert standing.best(top, with_known=with_known) == best_by_sorting(standing, top, with_known)


@pytest.mark.parametrize("spread", [0.1, 1000.0, 5000.0, 10.0**6])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_are_found_where_scores_spread_over_a_thousand_mean_gaps(seed, spread):
    # Gaps are cut off at 1,024 typical gaps: then no sum puts the entities in the order of their ranks.
    rng = np.random.default_rng(seed)
    scores = (rng.standard_t(2, (3, 150)) * spread).astype(np.float32)
    scores[:, 140:] = scores[:, :10]
    scores[1] = np.round(scores[1])
    known = rng.choice(150, 30, replace=False)
    standing = CandidateRanking(
        scores, known, np.array([3, 2, 2]), INPUTS["score"], np.array([1.0, 0.5, 2.0]) / UNITS_PER_GAP
    )
    for top in (1, 5, 40):
        for with_known in (False, True):
            assert standing.best(top, with_known=with_known) == best_by_sorting(standing, top, with_known)


@pytest.mark.parametrize("name", INPUTS)
def test_only_candidates_that_can_be_best_are_ranked(name, monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 2000)).astype(np.float32)
    scores[:, 1000:1200] = 9.0  # one block
    scores[0, 400], scores[1, 1900] = -1e6, -1e5  # far beyond where gaps are cut off
    standing = CandidateRanking(scores, np.arange(500), np.array([3, 2, 2]), INPUTS[name], np.ones(3) / UNITS_PER_GAP)
    owner, method = (kernels, "lead") if name == "score" else (CandidateRanking, "place")
    placed, place = [], getattr(owner, method)
    monkeypatch.setattr(owner, method, lambda *arguments: placed.append(arguments[-1]) or place(*arguments))
    monkeypatch.setattr(kernels, "first_by_gaps", as_python(kernels.first_by_gaps))
    assert len(standing.best(5, with_known=True)) == 10
    assert len(placed) <= 20


@given(cases(), st.integers(1, 14))
def test_new_answers_are_as_many_as_asked_for(case, top):
    standing = standing_of(case)
    dropped, marked = (standing.best(top, with_known=with_known) for with_known in (False, True))
    assert [row for row in marked if row[0] not in case[1]] == dropped
    assert len(dropped) == min(top, standing.n_candidates)
    assert len(marked) == len(dropped) + min(top, len(case[1]))


@given(cases())
def test_known_answers_do_not_change_other_places(case):
    standing = standing_of(case)
    n_entities = case[0].shape[1]
    dropped = standing.best(n_entities, with_known=False)
    marked = standing.best(2 * n_entities, with_known=True)
    assert [row for row in marked if row[0] not in case[1]] == dropped
    assert {entity for entity, _ in marked} == set(range(n_entities))


def test_the_score_is_the_weighted_mean_of_the_input():
    scores = np.array([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0]], dtype=np.float32)
    nothing, weights = np.array([], dtype=np.int64), np.array([3, 1])
    by_rank = CandidateRanking(scores, nothing, weights)
    assert [by_rank.score(e) for e in range(3)] == [-(3 * 1 + 3) / 4, -(3 * 2 + 1) / 4, -(3 * 3 + 2) / 4]
    by_score = CandidateRanking(scores, nothing, weights, INPUTS["score"], np.array([1.0, 0.5]) / 2**16)
    assert [by_score.score(e) for e in range(3)] == [(3 * 3 + 2) / 4, (3 * 2 + 6) / 4, (3 * 1 + 4) / 4]
    by_log = CandidateRanking(scores, nothing, weights, INPUTS["log"])
    assert 0 >= by_log.score(0) > by_log.score(1) > by_log.score(2) > -1


def test_a_tied_block_shares_its_mean_rank():
    standing = CandidateRanking(np.zeros((1, 4), dtype=np.float32), np.array([3]), np.array([1]))
    assert [(entity, place.rank) for entity, place in standing.best(4, with_known=True)] == [
        (0, 2.0), (1, 2.0), (2, 2.0), (3, 2.5),
    ]  # fmt: skip
    assert standing.place(3) == Place(0, 3)
    with pytest.raises(IndexError):
        standing.place(4)


# ---- models that abstain on newcomers ------------------------------------------------------------------------------


@st.composite
def cases_with_newcomers(draw):
    """Return a case in which some models have no score for some entities, and the weights of the others for these."""
    scores, known, weights, _, scales = draw(cases().filter(lambda case: len(case[0]) > 1))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    new = rng.random(scores.shape[1]) < 0.4
    voting = np.arange(len(weights)) < draw(st.integers(1, len(weights) - 1))
    scores[np.ix_(~voting, new)] = np.nan
    for_new = np.where(voting, weights, 0)
    if draw(st.booleans()):
        weights, for_new = np.where(voting, 0, weights), np.where(voting, rng.integers(1, 9, len(weights)), 0)
    name = draw(st.sampled_from([name for name, input in INPUTS.items() if not input.needs_gaps]))
    return (scores, known, weights, name, scales), Newcomers(new, for_new)


def mean_cost_by_loop(case, newcomers, entity, among):
    """Return the weighted mean of the costs by the models that vote on an entity, as a fraction."""
    scores, known, weights, name, _ = case
    weights = newcomers.weights if newcomers.mask[entity] else weights
    table = INPUTS[name].cost_table(scores.shape[1]).tolist()
    total = Fraction(0)
    for weight, row in zip(weights.tolist(), scores.tolist(), strict=True):
        if weight:
            silent = {e for e, score in enumerate(row) if score != score}
            total += weight * table[int(2 * mean_rank(row, entity, (known - {among}) | silent))]
    return total / int(weights.sum())


@given(cases_with_newcomers(), st.integers(1, 14))
def test_the_weight_of_models_that_abstain_goes_to_the_others(case, top):
    case, newcomers = case
    scores, known, weights, name, scales = case
    standing = CandidateRanking(
        scores, np.array(sorted(known), dtype=np.int64), weights, INPUTS[name], scales, newcomers
    )  # fmt: skip
    for entity in range(scores.shape[1]):
        own = mean_cost_by_loop(case, newcomers, entity, entity)
        rivals = [e for e in range(scores.shape[1]) if e != entity and e not in known]
        costs = [mean_cost_by_loop(case, newcomers, e, entity) for e in rivals]
        assert standing.place(entity) == Place(sum(c < own for c in costs), sum(c == own for c in costs))
        assert [rank is None for rank in standing.model_ranks(entity)] == np.isnan(scores[:, entity]).tolist()
        assert standing.score(entity) == pytest.approx(float(-own / INPUTS[name].unit))
    assert standing.best(top, with_known=True) == best_by_sorting(standing, top, True)


def test_gaps_of_models_that_abstain_are_the_mean_of_the_others():
    scores = np.array([[4, 2, 0, 6], [1, 0, -1, np.nan], [10, 5, 0, 25]], dtype=np.float32)
    weights, scales = np.array([1, 5, 3]), np.array([2.0, 0.5, 5.0])
    newcomers = Newcomers(np.array([False, False, False, True]), np.array([1, 0, 3]))
    standing = CandidateRanking(scores, np.array([], dtype=np.int64), weights, INPUTS["score"], scales, newcomers)
    # 2 and 4 gaps above the medians 2 and 5, on average (1·2 + 3·4) / 4; the median of the silent model is 0.
    assert standing.scores[1, 3] == 3.5 * 0.5
    assert standing.model_ranks(3) == [1, None, 1]
    assert standing.model_ranks(0) == [2, 1, 2]
    assert standing.place(3) == Place(0, 0)


def test_a_fraction_of_a_cost_decides_a_rank():
    scores = np.array([[4, 3, 2, 1], [3, 4, 2, 1], [1, np.nan, 2, 1]], dtype=np.float32)
    newcomers = Newcomers(np.array([False, True, False, False]), np.array([3, 2, 0]))
    nobody = np.array([], dtype=np.int64)
    standing = CandidateRanking(scores, nobody, np.array([3, 2, 1]), INPUTS["rank"], newcomers=newcomers)
    # Doubled ranks (2, 4, 5) cost 19. The newcomer's (4, 2) cost 16 · 6 / 5 = 19.2, which is more.
    assert (standing.place(0), standing.place(1)) == (Place(0, 0), Place(1, 0))
