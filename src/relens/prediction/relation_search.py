"""The new facts of one relation: the best answers to the queries of both directions, each with its values in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from relens.data.queries import TAIL, Queries
from relens.ensemble.inputs import INPUTS
from relens.errors import RelensError
from relens.prediction.evidence import FEATURES, Evidence, self_related
from relens.prediction.questions import QueryIds
from relens.progress import Advance

if TYPE_CHECKING:
    from relens.prediction.ensemble import Ensemble
    from relens.prediction.row_ranks import RowRanks

PAIRS = 2**22
"""Pairs that the lists of one relation and direction hold; relations with more anchors have shorter lists."""
MEMORY = 2**31
"""Bytes that a batch of queries may take."""
ON_GPU = 8
"""Batches of a model that are ranked together on a GPU, to keep it busy."""

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Side:
    """One direction of one relation.

    Attributes:
        relation: its id.
        direction: 0 for tails, 1 for heads.
        anchors: the anchors whose best answers are considered, sorted, (A,).
        answers: the entities that are considered as answers, sorted, (C,).
    """

    relation: int
    direction: int
    anchors: Ids
    answers: Ids

    def keys(self, anchors: Ids, answers: Ids, n_entities: int) -> Ids:
        """Return the key of each pair of anchor and answer, see ``Pairs``."""
        heads, tails = (anchors, answers) if self.direction == TAIL else (answers, anchors)
        return heads * n_entities + tails

    def ends(self, keys: Ids, n_entities: int) -> tuple[Ids, Ids]:
        """Return the anchors and the answers of pairs."""
        heads, tails = np.divmod(keys, n_entities)
        return (heads, tails) if self.direction == TAIL else (tails, heads)


@dataclass(frozen=True, eq=False)
class Pairs:
    """P pairs of head and tail of one relation, and their values in the queries of one direction.

    Attributes:
        keys: ``head · E + tail``, (P,) int64.
        rank: the rank of the answer, (P,) float64.
        confidence: its confidence, (P,) float64; NaN where there is none.
        margin: its margin, (P,) float64.
    """

    keys: Ids
    rank: Floats
    confidence: Floats
    margin: Floats

    @classmethod
    def join(cls, parts: "Sequence[Pairs]") -> "Pairs":
        """Join parts, sorted and each pair once: it has the same values in all of them."""
        keys = np.concatenate([np.empty(0, dtype=np.int64), *(part.keys for part in parts)])
        values = [np.stack([part.rank, part.confidence, part.margin]) for part in parts]
        keys, first = np.unique(keys, return_index=True)
        return cls(keys, *np.concatenate([np.empty((3, 0)), *values], axis=1)[:, first])


@dataclass(frozen=True, eq=False)
class _Batch:
    """The queries of b anchors.

    Attributes:
        anchors: their ids, (b,).
        listed: the anchors whose best answers are considered, (b,) bool.
        answers: further answers, anchor by anchor, (m,).
        counts: how many of them each anchor has, (b,).
    """

    anchors: Ids
    listed: npt.NDArray[np.bool_]
    answers: Ids
    counts: Ids

    def padded_answers(self) -> Ids:
        """Return the further answers as an array (b, k), with -1 after the last one of an anchor."""
        padded = np.full((len(self.anchors), self.counts.max(initial=0)), -1, dtype=np.int64)
        padded[np.arange(padded.shape[1]) < self.counts[:, None]] = self.answers
        return padded


class RelationSearch:
    """The search for new facts with an ensemble, one relation at a time.

    Args:
        ensemble: the ensemble.
        depth: how many of the best answers of a query are considered.
        advance: called after each batch of queries with the number of anchors whose best answers it considered.
    """

    def __init__(self, ensemble: "Ensemble", depth: int, advance: Advance) -> None:
        self.ensemble, self.depth, self._advance = ensemble, depth, advance
        self.n_entities = len(ensemble.dataset.entities)
        self.loops = self_related(ensemble.dataset)

    def both_sides(self, tail_side: Side, head_side: Side) -> tuple[Pairs, Pairs]:
        """Return the pairs that are among the best answers of a listed anchor, with their values in both directions.

        Both results have the same pairs, sorted.
        """
        nobody = np.empty(0, dtype=np.int64)
        by_tail = self._scored(tail_side, tail_side.anchors, nobody)
        by_head = self._scored(head_side, head_side.anchors, by_tail.keys)
        lacking = np.setdiff1d(by_head.keys, by_tail.keys, assume_unique=True)
        return Pairs.join([by_tail, self._scored(tail_side, nobody, lacking)]), by_head

    def _scored(self, side: Side, anchors: Ids, wanted: Ids) -> Pairs:
        """Return the best answers to the queries of ``anchors``, and the pairs with the keys ``wanted``."""
        asked, answers = side.ends(wanted, self.n_entities)
        by_anchor = np.argsort(asked, kind="stable")
        asked, answers = asked[by_anchor], answers[by_anchor]
        rows = np.union1d(anchors, asked)
        listed = np.isin(rows, anchors, assume_unique=True)
        borders = np.searchsorted(asked, np.append(rows, self.n_entities))
        size, found = self._batch_size(), []
        for begin in range(0, len(rows), size):
            part = slice(begin, min(begin + size, len(rows)))
            further = answers[borders[part.start] : borders[part.stop]]
            counts = np.diff(borders[part.start : part.stop + 1])
            found.append(self._scored_batch(side, _Batch(rows[part], listed[part], further, counts)))
            self._advance(int(listed[part].sum()))
        return Pairs.join(found)

    def _batch_size(self) -> int:
        """Return how many queries are ranked together."""
        models = self.ensemble.models
        at_once = 1 if str(models.device).startswith("cpu") else ON_GPU
        per_query = self.n_entities * (4 * len(self.ensemble.weights.models) + 48)
        return max(1, min(at_once * models.rows, MEMORY // per_query))

    def _scored_batch(self, side: Side, batch: _Batch) -> Pairs:
        """Return the best answers to the listed queries of a batch, and its further answers."""
        import torch

        group = int(self.ensemble.voting.groups[side.relation, side.direction])
        ranks = self._ranked(side, batch, group)
        answers = batch.padded_answers()
        if batch.listed.any():
            depth = max(1, min(self.depth, PAIRS // len(side.anchors)))
            among = torch.as_tensor(side.answers, device=ranks.known.device)
            best = ranks.best(depth, among, with_anchor=bool(self.loops[side.relation]))
            answers = np.concatenate([answers, np.where(batch.listed[:, None], best, -1)], axis=1)
        places, chosen = ranks.places(answers), answers >= 0
        ahead, tied = places.ahead[chosen], places.tied[chosen]
        rank = ahead + tied / 2 + 1
        anchors = np.broadcast_to(batch.anchors[:, None], chosen.shape)[chosen]
        confidence = self._confidence(side, batch, ranks, answers)[chosen]
        keys = side.keys(anchors, answers[chosen], self.n_entities)
        return Pairs.join([Pairs(keys, rank, confidence, places.margin[chosen])])

    def _confidence(self, side: Side, batch: _Batch, ranks: "RowRanks", answers: Ids) -> Floats:
        """Return the confidence of the answers (b, k) to the queries of a batch; NaN where there is none."""
        from relens.prediction.row_evidence import row_evidence

        confidence = self.ensemble.confidence
        if confidence is None:
            return np.full(answers.shape, np.nan)
        queries = (QueryIds(anchor, side.relation, side.direction) for anchor in batch.anchors.tolist())
        compared = [self.ensemble.voting.compared(query) for query in queries]
        group = int(self.ensemble.voting.groups[side.relation, side.direction])
        scales = confidence.scales[self.ensemble.weights.table[group] > 0]
        found = row_evidence(ranks, answers, compared, scales, with_anchor=bool(self.loops[side.relation]))
        flat = Evidence(found.places.reshape(-1), found.features.reshape(-1, len(FEATURES)))
        answered = np.repeat([len(known) > 0 for known in compared], answers.shape[1])
        return confidence.of_evidence(group, flat, answered).reshape(answers.shape)

    def _ranked(self, side: Side, batch: _Batch, group: int) -> "RowRanks":
        """Rank all entities in the queries of a batch."""
        import torch

        from relens.prediction.row_ranks import RowRanks

        weights, models = self.ensemble.weights, self.ensemble.models
        n = len(batch.anchors)
        columns = [batch.anchors, *(np.full(n, value) for value in (side.relation, side.direction, 0, 0))]
        queries = Queries.from_columns(np.stack(columns))  # answer and triple are not read
        used = np.flatnonzero(weights.table[group])
        scores = [models.scores_on_device(weights.models[model], queries) for model in used.tolist()]
        for model, of_model in zip(used.tolist(), scores, strict=True):
            if not of_model.isfinite().all():
                raise RelensError(
                    f"{self.ensemble.run.path}: model {weights.models[model]!r} gives scores that are no finite "
                    f"numbers. Train it again, or search weights without it."
                )
        offsets, answers = self.ensemble.dataset.known_answers.answers_to(queries)
        known = torch.zeros(scores[0].shape, dtype=torch.bool, device=scores[0].device)
        rows = np.repeat(np.arange(n), np.diff(offsets))
        row, column = (torch.as_tensor(index, device=known.device).long() for index in (rows, answers))
        known[row, column] = True
        scales = None if weights.gap_scales is None else weights.gap_scales[used]
        return RowRanks(scores, known, batch.anchors, weights.table[group, used], INPUTS[weights.input], scales)
