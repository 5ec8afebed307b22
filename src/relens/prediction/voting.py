"""The votes of an ensemble: who votes on a query with which weight, and the candidates that they rank."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from relens.data.queries import SPLITS, Queries
from relens.data.restriction import Restriction
from relens.ensemble.inputs import INPUTS
from relens.ensemble.weights import EnsembleWeights
from relens.prediction.answer_ranking import AnswerRanker, RankedAnswers
from relens.prediction.candidate_ranking import CandidateRanking, Newcomers
from relens.prediction.confidence import Confidence
from relens.prediction.evidence import Candidates, self_related
from relens.prediction.facts import GIVEN
from relens.prediction.judging import compared_with
from relens.prediction.members import LoadedModels
from relens.prediction.predictions import Vote
from relens.prediction.questions import QueryIds
from relens.progress import SILENT, Progress
from relens.ranking.answer_ranks import AnswerRanks

T = TypeVar("T")
R = TypeVar("R")


class Voters(NamedTuple):
    """The grid weights of all models for one query, (N,) int64.

    Attributes:
        weights: for entities that all models were trained on.
        for_new: for new entities.
    """

    weights: npt.NDArray[np.int64]
    for_new: npt.NDArray[np.int64]

    @property
    def used(self) -> npt.NDArray[np.bool_]:
        """Which models have a weight for some entity, (N,)."""
        return (self.weights > 0) | (self.for_new > 0)


def in_threads(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return ``work(item)`` for all items, in as many threads as models have: for work that is mostly compiled code."""
    import torch

    n_threads = min(torch.get_num_threads(), len(items))
    if n_threads <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, items))


class Voting:
    """The models of a run and their weights, ready to rank candidates.

    Attributes:
        weights: the weights of each group.
        models: the models of the run.
        facts: facts that were given beside the graph of training, if any.
        trained: the graph of training.
        dataset: the graph with the given facts.
        groups: the group of each relation and direction in the weights, (R, 2) int32.
        loops: whether train relates some entity to itself, by relation, (R,) bool.
        confidence: the probability of answers; None if there is none.
        restriction: the entities that may be answers; None for all.
    """

    def __init__(
        self,
        weights: EnsembleWeights,
        models: LoadedModels,
        confidence: Confidence | None = None,
        restriction: Restriction | None = None,
    ) -> None:
        self.weights, self.models, self.facts = weights, models, models.facts
        self.confidence, self.restriction = confidence, restriction
        self.trained = models.dataset
        self.dataset = self.trained if self.facts is None else self.facts.dataset
        self.loops = self_related(self.dataset)
        place = {label: r for r, label in enumerate(weights.relations)}
        self.groups = weights.grouping.table[[place[label] for label in self.dataset.relations.labels]]  # (R, 2)

    @cached_property
    def propagating(self) -> tuple[str, ...]:
        """The names of the models with a weight in some group that score by paths through the graph."""
        used = self.weights.table.max(axis=0) > 0
        models = [model for model, weighed in zip(self.weights.models, used, strict=True) if weighed]
        return tuple(model for model in models if self.models.propagate(model))

    @property
    def newcomers(self) -> bool:
        """Whether given facts have entities that training has not seen."""
        return self.facts is not None and bool(self.facts.is_new.any())

    def rankings(self, batch: list[QueryIds]) -> list[CandidateRanking]:
        """Score up to ``models.rows`` queries, each with the models that have a weight for it."""
        voters = [self.voters(query) for query in batch]
        columns = np.array([(query.anchor, query.relation, query.direction, 0, 0) for query in batch]).T
        queries = Queries.from_columns(columns)  # answer and triple are unknown: 0
        rows: list[list[npt.NDArray[Any]]] = [[] for _ in batch]
        for model, of_model in zip(self.weights.models, np.array([of.used for of in voters]).T, strict=True):
            asking = np.flatnonzero(of_model)
            if len(asking):
                scores = self.models.scores(model, queries[asking])
                for position, row in zip(asking, scores, strict=True):
                    rows[position].append(row)
        return in_threads(
            lambda asked: self._ranking(*asked[:2], np.stack(asked[2])), list(zip(batch, voters, rows, strict=True))
        )

    def rank_answers(self, queries: Queries, progress: Progress = SILENT) -> RankedAnswers:
        """Return the ranks and scores of the answers to many queries in ids, as the evaluation ranks them."""
        if not self.newcomers:
            known = self.dataset.known_answers
            ranker = AnswerRanker(self.models, self.weights, self.groups, known, self.restriction)
            return ranker.rank(queries, progress=progress)
        places, scores = [], []
        with progress.task("ranking answers", len(queries)) as advance:
            for begin in range(0, len(queries), self.models.rows):
                rows = queries[begin : begin + self.models.rows].columns().T.tolist()
                rankings = self.rankings([QueryIds(*row[:3]) for row in rows])
                places += [ranking.place(row[3]) for ranking, row in zip(rankings, rows, strict=True)]
                scores += [ranking.score(row[3]) for ranking, row in zip(rankings, rows, strict=True)]
                advance(len(rows))
        return RankedAnswers(AnswerRanks(*np.array(places, dtype=np.int64).reshape(-1, 2).T), np.array(scores))

    def splits_of(self, triples: npt.NDArray[np.integer[Any]]) -> list[str | None]:
        """Return the first split that contains each triple in ids, (n, 3); ``facts`` if it was given, or None."""
        keys = self.dataset.triple_keys(triples)
        splits = dict(self.trained.splits)
        if self.facts is not None:
            splits[GIVEN] = self.facts.triples
        found = np.full(len(keys), None, dtype=object)
        for split, rows in reversed(splits.items()):
            found[np.isin(keys, self.dataset.triple_keys(rows))] = split
        return found.tolist()

    def probabilities(
        self, query: QueryIds, ranking: CandidateRanking, entities: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Return the probability that each of k entities is a missing fact, (k,) float64; see ``Confidence``.

        NaN says that there is not enough evidence, that the entity is a known answer, or that given facts have new
        entities, on which models abstain.

        Args:
            query: the query.
            ranking: its candidates.
            entities: ids, (k,).
        """
        found = np.full(len(entities), np.nan)
        if self.confidence is None or self.newcomers:
            return found
        hidden = None if self.loops[query.relation] else query.anchor
        asked = Candidates.of(ranking, hidden, self.compared(query))
        new = ~ranking.known[entities]
        found[new] = self.confidence.probability(self._group(query), asked, entities[new])
        return found

    def compared(self, query: QueryIds) -> npt.NDArray[np.int64]:
        """Return the known answers that probabilities compare the candidates of a query with, (m,)."""
        return compared_with(self.known(query), (*SPLITS, GIVEN))

    def known(self, query: QueryIds) -> dict[int, str]:
        """Return the split of each known answer to a query, by its id."""
        asked = query.anchor, query.relation, query.direction
        given = {} if self.facts is None else dict.fromkeys(self.facts.stated.answers_to(*asked), GIVEN)
        return given | self.trained.stated_answers.answers_to(*asked)

    def voters(self, query: QueryIds) -> Voters:
        """Return the weights of all models for a query; those without a vector for a new entity abstain on it."""
        weights = self.weights.table[self._group(query)]
        if self.facts is None or not self.newcomers:
            return Voters(weights, weights)
        reading = np.isin(self.weights.models, self.propagating)
        for_new = weights * reading if (weights * reading).any() else reading.astype(np.int64)
        return Voters(for_new if self.facts.is_new[query.anchor] else weights, for_new)

    def votes(self, query: QueryIds, entity: int, ranks: list[float | None]) -> tuple[Vote, ...]:
        """Return the votes on an entity, highest weight first, given its ``ranks`` by the models that are used."""
        voters = self.voters(query)
        new = self.facts is not None and self.facts.is_new[entity]
        weights = voters.for_new if new else voters.weights
        shares = (weights / weights.sum()).tolist()
        rows = zip(np.flatnonzero(voters.used).tolist(), ranks, strict=True)
        found = [Vote(self.weights.models[i], rank, shares[i]) for i, rank in rows if shares[i] and rank is not None]
        return tuple(sorted(found, key=lambda vote: -vote.weight))

    def abstaining(self, query: QueryIds, entity: int) -> tuple[str, ...]:
        """Return the models that do not vote, though they have a weight, because an entity is new to them."""
        if self.facts is None or not self.facts.is_new[[query.anchor, entity]].any():
            return ()
        voters = self.voters(query)
        silent = (self.weights.table[self._group(query)] > 0) & (voters.for_new == 0)
        return tuple(np.array(self.weights.models)[silent].tolist())

    def _group(self, query: QueryIds) -> int:
        return int(self.groups[query.relation, query.direction])

    def _ranking(self, query: QueryIds, voters: Voters, scores: npt.NDArray[Any]) -> CandidateRanking:
        used = voters.used
        scales = None if self.weights.gap_scales is None else self.weights.gap_scales[used]
        known = np.fromiter(self.known(query), dtype=np.int64)
        newcomers = None
        if self.facts is not None and not np.array_equal(*voters):
            newcomers = Newcomers(self.facts.is_new, voters.for_new[used])
        allowed = None if self.restriction is None else self.restriction.mask(query.relation, query.direction)
        return CandidateRanking(
            scores, known, voters.weights[used], INPUTS[self.weights.input], scales, newcomers, allowed
        )
