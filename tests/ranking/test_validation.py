import numpy as np
import pytest
import torch
from torch import Tensor, nn

from relens.data.candidates import PADDING, Candidates
from relens.data.known_answers import KnownAnswers
from relens.data.queries import Queries
from relens.errors import RanksError
from relens.models.base import Drop, KGEModel, keep_all
from relens.models.embedding import Encoded
from relens.ranking.competition import Competition
from relens.ranking.memory import MEMORY_BUDGET
from relens.ranking.scoring import score_queries
from relens.ranking.validation import answer_ranks, mean_reciprocal_rank
from tests.training.graphs import N_ENTITIES, N_RELATIONS, random_triples


class TableModel(KGEModel):
    """Scores looked up in a table (E, 2R, E)."""

    def __init__(self, table: Tensor) -> None:
        super().__init__(table.shape[0], table.shape[1] // 2)
        self.entity = nn.Parameter(table)
        self.largest = 10**6

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


def against(triples: np.ndarray) -> Competition:
    """Ask both directions of some triples, which are all that is known."""
    return Competition(Queries.from_triples(triples), KnownAnswers.build([triples], N_ENTITIES, N_RELATIONS))


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
    ranks = answer_ranks(model(), Competition(Queries.from_triples(asked), known), memory=memory)
    assert ranks.realistic.tolist() == brute_force(model().entity.tolist(), asked, triples)


@pytest.mark.parametrize("memory", [1, 2_000, 2**30])
def test_ranks_among_candidates_are_brute_force(triples, memory) -> None:
    queries, rng = Queries.from_triples(triples[::3]), np.random.default_rng(1)
    others = [rng.permutation(np.setdiff1d(np.arange(N_ENTITIES), [answer])) for answer in queries.answer]
    negatives = np.stack(others)[:, :4].astype(np.int32)
    negatives[::5, 2:] = PADDING
    given = Competition(queries, candidates=Candidates(negatives, "by hand"))
    ranks = answer_ranks(model(), given, memory=memory)
    expected = []
    for q, row in enumerate(negatives.tolist()):
        relation = queries.relation[q] + N_RELATIONS * queries.direction[q]
        scores = model().entity[queries.anchor[q], relation].tolist()
        own, theirs = scores[queries.answer[q]], [scores[c] for c in row if c != PADDING]
        expected.append(1 + sum(score > own for score in theirs) + sum(score == own for score in theirs) / 2)
    assert ranks.realistic.tolist() == expected


@pytest.mark.parametrize("largest", [1, 2, 5, 7])
def test_chunks_are_halved_when_memory_runs_out(triples, largest) -> None:
    competition = against(triples)
    narrow = model()
    narrow.largest = largest
    found, expected = answer_ranks(narrow, competition), answer_ranks(model(), competition)
    assert np.array_equal(found.ahead, expected.ahead)
    assert np.array_equal(found.tied, expected.tied)


def test_memory_too_small_for_one_query_is_an_error(triples) -> None:
    narrow = model()
    narrow.largest = 0
    with pytest.raises(torch.OutOfMemoryError):
        answer_ranks(narrow, against(triples))


def test_other_errors_are_not_taken_for_memory(triples) -> None:
    broken = TableModel(torch.zeros(N_ENTITIES, 2 * N_RELATIONS, 3))
    with pytest.raises(RuntimeError, match="index"):
        answer_ranks(broken, against(triples))


def test_constant_model_ranks_in_the_middle() -> None:
    triples = np.array([[0, 0, 1]], dtype=np.int32)
    constant = TableModel(torch.zeros(N_ENTITIES, 2 * N_RELATIONS, N_ENTITIES))
    assert mean_reciprocal_rank(constant, against(triples)) == pytest.approx(2 / (N_ENTITIES + 1))


def test_scores_that_are_no_numbers_rank_last(triples) -> None:
    nothing = TableModel(torch.full((N_ENTITIES, 2 * N_RELATIONS, N_ENTITIES), torch.nan))
    known = KnownAnswers.build([], N_ENTITIES, N_RELATIONS)
    assert answer_ranks(nothing, Competition(Queries.from_triples(triples), known)).realistic.min() >= N_ENTITIES


def test_the_model_is_in_training_afterwards_if_it_was_before(triples) -> None:
    for mode in (True, False):
        trained = model().train(mode)
        answer_ranks(trained, against(triples))
        assert trained.training is mode


def test_a_competition_has_known_answers_or_candidates() -> None:
    queries = Queries.from_triples(np.array([[0, 0, 1]], dtype=np.int32))
    known = KnownAnswers.build([], N_ENTITIES, N_RELATIONS)
    given = Candidates(np.array([[2], [3]], dtype=np.int32), "by hand")
    for wrong in ((None, None), (known, given)):
        with pytest.raises(RanksError, match="takes known answers or candidates"):
            Competition(queries, *wrong)
    assert (Competition(queries, known).n_columns, Competition(queries, None, given).n_columns) == (N_ENTITIES, 2)


class Costly(TableModel):
    """Encodes few queries at a time, and notes how many."""

    bytes_per_query = MEMORY_BUDGET // 5

    def __init__(self, table: Tensor) -> None:
        super().__init__(table)
        self.sizes: list[int] = []

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        self.sizes.append(len(anchor))
        return super().encode(anchor, relation, drop)


def test_queries_that_are_costly_to_encode_are_encoded_once_and_few_at_a_time(triples) -> None:
    costly, competition = Costly(model().entity.detach()), against(np.concatenate([triples, triples]))
    assert answer_ranks(costly, competition).realistic.tolist() == answer_ranks(model(), competition).realistic.tolist()
    assert max(costly.sizes) <= 5
    assert sum(costly.sizes) < len(competition)


def test_scoring_is_halved_when_memory_runs_out_and_stays_so(triples) -> None:
    costly, queries = Costly(model().entity.detach()), Queries.from_triples(triples)
    costly.largest = 3
    expected = score_queries(model(), queries)
    assert torch.equal(score_queries(costly, queries), expected)
    assert costly.sizes[:3] == [5, 3, 3]
    costly.sizes.clear()
    assert torch.equal(score_queries(costly, queries), expected)
    assert set(costly.sizes) == {3}
