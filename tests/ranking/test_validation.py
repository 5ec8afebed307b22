import numpy as np
import pytest
import torch
from torch import Tensor, nn

from relens.data.candidates import PADDING, Candidates
from relens.data.known_answers import KnownAnswers
from relens.data.queries import Queries
from relens.models.base import Drop, KGEModel, keep_all
from relens.models.embedding import Encoded
from relens.ranking.validation import filtered_ranks, mean_reciprocal_rank
from tests.training.graphs import N_ENTITIES, N_RELATIONS, random_triples


class TableModel(KGEModel):
    """Scores looked up in a table (E, 2R, E)."""

    def __init__(self, table: Tensor) -> None:
        super().__init__(table.shape[0], table.shape[1] // 2)
        self.entity = nn.Parameter(table)
        self.largest = table.shape[0] * table.shape[1]

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        if len(anchor) > self.largest:
            raise torch.OutOfMemoryError("too many")
        return Encoded(self.entity[anchor, relation], relation, ())

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        return queries.vector.clone() if candidates is None else queries.vector.gather(1, candidates)


@pytest.fixture
def triples() -> np.ndarray:
    return random_triples(4, 40)


def model(seed: int = 0) -> TableModel:
    # Whole numbers from 0 to 4: many ties.
    rng = torch.Generator().manual_seed(seed)
    return TableModel(torch.randint(5, (N_ENTITIES, 2 * N_RELATIONS, N_ENTITIES), generator=rng).float())


def brute_force(table: list, triples: np.ndarray, known: np.ndarray) -> list[float]:
    facts = {tuple(row) for row in known.tolist()}
    ranks = []
    for h, r, t in triples.tolist():
        for anchor, relation, answer in ((h, r, t), (t, r + N_RELATIONS, h)):
            scores, rank = table[anchor][relation], 1.0
            for c in range(N_ENTITIES):
                true = (h, r, c) if answer is t and relation == r else (c, r, t)
                if c != answer and true not in facts:
                    rank += 1.0 if scores[c] > scores[answer] else 0.5 if scores[c] == scores[answer] else 0.0
            ranks.append(rank)
    return ranks


@pytest.mark.parametrize("memory", [1, 2_000, 2**30])
def test_filtered_ranks_are_brute_force(triples, memory) -> None:
    asked = triples[::3]
    known = KnownAnswers.build([triples], N_ENTITIES, N_RELATIONS)
    ranks = filtered_ranks(model(), Queries.from_triples(asked), known, memory=memory)
    assert ranks.tolist() == brute_force(model().entity.tolist(), asked, triples)


@pytest.mark.parametrize("memory", [1, 2_000, 2**30])
def test_ranks_among_candidates_are_brute_force(triples, memory) -> None:
    queries, rng = Queries.from_triples(triples[::3]), np.random.default_rng(1)
    others = [rng.permutation(np.setdiff1d(np.arange(N_ENTITIES), [answer])) for answer in queries.answer]
    negatives = np.stack(others)[:, :4].astype(np.int32)
    negatives[::5, 2:] = PADDING
    ranks = filtered_ranks(model(), queries, None, Candidates(negatives, "by hand"), memory=memory)
    expected = []
    for q, row in enumerate(negatives.tolist()):
        relation = queries.relation[q] + N_RELATIONS * queries.direction[q]
        scores = model().entity[queries.anchor[q], relation].tolist()
        own, theirs = scores[queries.answer[q]], [scores[c] for c in row if c != PADDING]
        expected.append(1 + sum(score > own for score in theirs) + sum(score == own for score in theirs) / 2)
    assert ranks.tolist() == expected


@pytest.mark.parametrize("largest", [1, 2, 5, 7])
def test_chunks_are_halved_when_memory_runs_out(triples, largest) -> None:
    known, queries = KnownAnswers.build([triples], N_ENTITIES, N_RELATIONS), Queries.from_triples(triples)
    narrow = model()
    narrow.largest = largest
    assert np.array_equal(filtered_ranks(narrow, queries, known), filtered_ranks(model(), queries, known))


def test_memory_too_small_for_one_query_is_an_error(triples) -> None:
    narrow = model()
    narrow.largest = 0
    known = KnownAnswers.build([triples], N_ENTITIES, N_RELATIONS)
    with pytest.raises(torch.OutOfMemoryError):
        filtered_ranks(narrow, Queries.from_triples(triples), known)


def test_other_errors_are_not_taken_for_memory(triples) -> None:
    broken = TableModel(torch.zeros(N_ENTITIES, 2 * N_RELATIONS, 3))
    known = KnownAnswers.build([triples], N_ENTITIES, N_RELATIONS)
    with pytest.raises(RuntimeError, match="index"):
        filtered_ranks(broken, Queries.from_triples(triples), known)


def test_constant_model_ranks_in_the_middle() -> None:
    triples = np.array([[0, 0, 1]], dtype=np.int32)
    constant = TableModel(torch.zeros(N_ENTITIES, 2 * N_RELATIONS, N_ENTITIES))
    mrr = mean_reciprocal_rank(
        constant, Queries.from_triples(triples), KnownAnswers.build([triples], N_ENTITIES, N_RELATIONS)
    )
    assert mrr == pytest.approx(2 / (N_ENTITIES + 1))


def test_scores_that_are_no_numbers_rank_last(triples) -> None:
    nothing = TableModel(torch.full((N_ENTITIES, 2 * N_RELATIONS, N_ENTITIES), torch.nan))
    known = KnownAnswers.build([], N_ENTITIES, N_RELATIONS)
    assert filtered_ranks(nothing, Queries.from_triples(triples), known).min() >= N_ENTITIES


def test_the_model_is_in_training_afterwards_if_it_was_before(triples) -> None:
    known = KnownAnswers.build([triples], N_ENTITIES, N_RELATIONS)
    for mode in (True, False):
        trained = model().train(mode)
        filtered_ranks(trained, Queries.from_triples(triples), known)
        assert trained.training is mode
