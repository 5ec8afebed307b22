"""Rank the given answers of many queries at once, by the rules of the evaluation and as fast as a run is ranked.

Each distinct query is scored once, by the models with a weight for it. Only contested candidates are ranked
(``relens.packs``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from relens.data.known_answers import KnownAnswers
from relens.data.queries import SPLITS, Queries, query_key
from relens.data.restriction import Restriction
from relens.ensemble.inputs import INPUTS
from relens.ensemble.objective import answer_ranks
from relens.ensemble.weights import EnsembleWeights
from relens.packs.pack import PackArrays, PackedRanks, PackHeader
from relens.packs.packing import pack_scores
from relens.prediction.candidate_ranking import score_of
from relens.prediction.members import LoadedModels
from relens.progress import SILENT, Progress
from relens.ranking.answer_ranks import AnswerRanks
from relens.ranking.competition import Exclusions
from relens.records import Provenance


class RankedAnswers(NamedTuple):
    """The ranks and scores of the answers to Q queries.

    Attributes:
        ranks: other known answers removed, (Q,).
        scores: the weighted mean of the inputs, (Q,) float64; comparable within one query.
    """

    ranks: AnswerRanks
    scores: npt.NDArray[np.float64]


@dataclass(frozen=True)
class AnswerRanker:
    """The models and weights of an ensemble, ready to rank answers.

    Attributes:
        models: the models; they were trained on all entities.
        weights: their weights.
        groups: the group of each relation and direction of the data set, (R, 2).
        known: the known answers.
        restriction: the entities that compete with an answer; None for all.
    """

    models: LoadedModels
    weights: EnsembleWeights
    groups: npt.NDArray[np.int32]
    known: KnownAnswers
    restriction: Restriction | None = None

    def rank(self, queries: Queries, *, progress: Progress = SILENT) -> RankedAnswers:
        """Rank the answers of Q queries; a query may occur with several answers."""
        ahead, tied = np.zeros((2, len(queries)), dtype=np.int64)
        scores = np.zeros(len(queries))
        with progress.task("ranking answers", len(queries)) as advance:
            for used, batch in self._batches(queries):
                asked, row = _distinct(queries[batch])
                raw = np.stack([self.models.scores(self.weights.models[i], asked) for i in used])
                for begin in range(0, len(batch), self.models.rows):
                    part = slice(begin, begin + self.models.rows)
                    found = self._rank(used, raw[:, row[part]], queries[batch[part]])
                    ahead[batch[part]], tied[batch[part]] = found.ranks.ahead, found.ranks.tied
                    scores[batch[part]] = found.scores
                advance(len(batch))
        return RankedAnswers(AnswerRanks(ahead, tied), scores)

    def _batches(self, queries: Queries) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield positions of models, and positions of the queries that these models answer.

        Queries of one batch have at most ``models.rows`` different (anchor, relation, direction).
        """
        group = self.groups[queries.relation, queries.direction]
        patterns, pattern = np.unique(self.weights.table > 0, axis=0, return_inverse=True)
        pattern = pattern.reshape(-1)[group]
        keys = _keys(queries, len(self.groups))
        for number, used in enumerate(patterns):
            mine = np.flatnonzero(pattern == number)
            mine = mine[np.argsort(keys[mine], kind="stable")]
            begins = np.flatnonzero(np.diff(keys[mine], prepend=-1))
            for part in np.split(mine, begins[self.models.rows :: self.models.rows]) if len(mine) else ():
                yield np.flatnonzero(used), part

    def _rank(self, used: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], queries: Queries) -> RankedAnswers:
        """Rank b answers by the scores (n, b, E) of the models at ``used`` (n,)."""
        input, weights = INPUTS[self.weights.input], self.weights.table[:, used]
        scales = None if self.weights.gap_scales is None else self.weights.gap_scales[used]
        excluded: Exclusions = self.known.other_answers(queries)
        if self.restriction is not None:
            excluded = self.restriction.excluded(queries, excluded)
        block = pack_scores(scores, queries.answer, excluded, scales)
        header = PackHeader(
            models=tuple(self.weights.models[i] for i in used),
            relations=self.weights.relations,
            queries=queries,
            provenance=Provenance(*self.weights.dataset, "questions", SPLITS),
            gap_scales=scales,
        )
        group = self.groups[queries.relation, queries.direction]
        ranks = answer_ranks(PackedRanks(header, PackArrays.from_block(block)), weights, group, input=input)
        table = input.cost_table(scores.shape[2])
        if table is None:
            assert scales is not None  # weights of score gaps have their scales
            costs = -np.take_along_axis(scores, queries.answer[None, :, None], axis=2)[:, :, 0] / scales[:, None]
        else:
            costs = table[block.answer].astype(np.float64)
        mine = weights[group].T  # (n, b)
        mean = np.sum(mine * costs, axis=0)
        return RankedAnswers(ranks, score_of(mean, mine, input))


def _distinct(queries: Queries) -> tuple[Queries, npt.NDArray[np.int64]]:
    """Return the distinct ones of queries that are sorted by their keys, and the position of each among them."""
    columns = queries.columns()[:3]
    new = np.append(True, (columns[:, 1:] != columns[:, :-1]).any(axis=0))
    return queries[new], np.cumsum(new) - 1


def _keys(queries: Queries, n_relations: int) -> npt.NDArray[np.int64]:
    """Return a key per query that does not depend on its answer, (Q,)."""
    keys: npt.NDArray[np.int64] = query_key(
        queries.anchor.astype(np.int64), queries.relation, queries.direction, n_relations
    )
    return keys
