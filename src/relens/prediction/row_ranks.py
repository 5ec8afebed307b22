"""Ranks of many answers in a batch of queries of one group, by array operations on the device of the scores.

The ranks are those of ``CandidateRanking``, which ranks one query at a time: all entities compete but known answers.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.ensemble.inputs.base import Input
from relens.packs.packing import MAX_GAP
from relens.ranking.answer_ranks import doubled_rank

_CLOSE_SCORES = 2**26
"""Scores that are compared exactly at a time."""


class RowPlaces(NamedTuple):
    """The places of k entities in each of b queries, arrays (b, k).

    Attributes:
        ahead: candidates strictly ahead, int64.
        tied: other candidates level with the entity, int64.
        margin: how far its scores are above the median of the candidates, in interquartile ranges, float64: the
            weighted mean over the models.
    """

    ahead: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]
    margin: npt.NDArray[np.float64]


class RowRanks:
    """The candidates of b queries, ordered by the ensemble.

    Args:
        scores: the scores of each of n models, higher is better, (b, E) float32 without NaN; all on one device.
        known: the known answers, (b, E) bool, on that device.
        anchors: the anchors of the queries, (b,).
        weights: positive grid weights of the models, (n,) int64.
        input: what the weights are applied to.
        gap_scales: raw score difference of one unit of a gap, (n,); for an input of score gaps.
    """

    def __init__(
        self,
        scores: list[Tensor],
        known: Tensor,
        anchors: npt.NDArray[np.int64],
        weights: npt.NDArray[np.int64],
        input: Input,
        gap_scales: npt.NDArray[np.float64] | None = None,
    ) -> None:
        self.scores, self.known, self.weights = scores, known, weights.tolist()
        self.anchors = torch.as_tensor(anchors, device=known.device).unsqueeze(1)
        self.scales = np.ones(len(scores)).tolist() if gap_scales is None else gap_scales.tolist()
        table = input.cost_table(known.shape[1])
        self.table = None if table is None else torch.as_tensor(table.astype(np.int64), device=known.device)
        self.worst = np.inf if table is None else np.iinfo(np.int64).max
        self._quartiles: list[Tensor] = []
        costs = torch.zeros(known.shape, dtype=torch.float64 if table is None else torch.int64, device=known.device)
        for model in range(len(scores)):
            self._add_costs(model, costs)
        self.costs = costs.masked_fill_(known, self.worst)
        self.ordered = sorted_rows(self.costs)

    def best(self, depth: int, among: Tensor, *, with_anchor: bool) -> npt.NDArray[np.int64]:
        """Return the ``depth`` candidates with the lowest costs among some entities, (b, k), -1 after the last.

        They are in no order. Among equal costs, smaller ids are chosen first.

        Args:
            depth: how many, at most.
            among: ids of entities, sorted, (A,), on the device of the scores.
            with_anchor: whether the anchor may be among them.
        """
        costs = self.costs.index_select(1, among)
        if not with_anchor:
            costs.masked_fill_(among == self.anchors, self.worst)
        least, at = costs.topk(min(depth, costs.shape[1]), dim=1, largest=False)
        crowded = (costs <= least[:, -1:]).sum(dim=1) > at.shape[1]  # a tie runs over the end of the list
        if crowded.any():
            first = costs[crowded].sort(dim=1, stable=True)
            least[crowded], at[crowded] = (part[:, : at.shape[1]] for part in first)
        found: npt.NDArray[np.int64] = among[at].masked_fill(least == self.worst, -1).cpu().numpy()
        return found

    def places(self, entities: npt.NDArray[np.int64]) -> RowPlaces:
        """Return the places of candidates (b, k), given as ids; those of -1 have no meaning."""
        chosen = torch.as_tensor(entities, device=self.known.device).clamp(min=0)
        own = self.costs.gather(1, chosen)
        if self.table is None:
            ahead, tied = self._places_by_gaps(chosen, own)
        else:
            ahead = torch.searchsorted(self.ordered, own)
            tied = torch.searchsorted(self.ordered, own, right=True) - ahead - 1
        return RowPlaces(*(part.cpu().numpy() for part in (ahead, tied, self._margins(chosen))))

    def _add_costs(self, model: int, costs: Tensor) -> None:
        """Add the costs of all entities by one model, and keep the quartiles of its scores of the candidates."""
        values = self.scores[model].masked_fill(self.known, -torch.inf)
        if self.table is None:
            costs -= self.weights[model] / self.scales[model] * self.scores[model].double()
            self._quartiles.append(self._quartiles_of(sorted_rows(values)))
            return
        order = _order(values)
        ordered = values.gather(1, order)
        self._quartiles.append(self._quartiles_of(ordered))
        costs.scatter_add_(1, order, self.weights[model] * self.table[_doubled_ranks(ordered)])

    def _quartiles_of(self, ordered: Tensor) -> Tensor:
        """Return the quartiles of the candidates' scores, (b, 3) float64; known answers are at the front of a row."""
        n_known = self.known.sum(dim=1, keepdim=True)
        last = ordered.shape[1] - 1 - n_known
        at = n_known + torch.cat([last // 4, last // 2, 3 * last // 4], dim=1)
        return ordered.gather(1, at.clamp(max=ordered.shape[1] - 1)).double()

    def _margins(self, chosen: Tensor) -> Tensor:
        total = torch.zeros(chosen.shape, dtype=torch.float64, device=chosen.device)
        for scores, weight, quartiles in zip(self.scores, self.weights, self._quartiles, strict=True):
            lower, middle, upper = quartiles.unsqueeze(2).unbind(1)
            above = (scores.gather(1, chosen).double() - middle) / (upper - lower)
            total += weight * torch.where(upper > lower, above, torch.zeros_like(above))
        total /= sum(self.weights)
        return total

    def _places_by_gaps(self, chosen: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Count by costs who is ahead, and by whole units of gaps where costs are too close for that, (b, k) each."""
        size = self.costs.masked_fill(self.known, 0).abs().amax(dim=1, keepdim=True)
        slack = sum(self.weights) + 1e-9 * size
        ahead = torch.searchsorted(self.ordered, own - slack)
        tied = torch.zeros_like(ahead)
        close = torch.searchsorted(self.ordered, own + slack, right=True) - ahead > 1
        for scores, scale in zip(self.scores, self.scales, strict=True):
            low, high = scores.double().aminmax(dim=1, keepdim=True)
            close |= (high - low) / scale >= MAX_GAP  # such gaps are clipped
        rows, columns = (close & (own < self.worst)).nonzero(as_tuple=True)
        size_of_part = max(1, _CLOSE_SCORES // self.known.shape[1])
        for part in range(0, len(rows), size_of_part):
            row, column = rows[part : part + size_of_part], columns[part : part + size_of_part]
            entity = chosen[row, column].unsqueeze(1)
            lead, rival = self._lead(entity, row), ~self.known[row]
            rival.scatter_(1, entity, False)
            ahead[row, column] = ((lead > 0) & rival).sum(dim=1)
            tied[row, column] = ((lead == 0) & rival).sum(dim=1)
        return ahead, tied

    def _lead(self, over: Tensor, rows: Tensor) -> Tensor:
        """Return the lead of all entities over one in each of m queries, in weighted units of gaps, (m, E) float64.

        It is a whole number. ``over`` is (m, 1), ``rows`` are the queries, (m,).
        """
        lead = torch.zeros((len(rows), self.known.shape[1]), dtype=torch.float64, device=over.device)
        for scores, weight, scale in zip(self.scores, self.weights, self.scales, strict=True):
            scores = scores[rows].double()
            gap = scores - scores.gather(1, over)
            units = (gap / scale).round().clamp(-MAX_GAP, MAX_GAP)
            lead += weight * torch.where(units == 0, gap.sign(), units)
        return lead


def _doubled_ranks(ordered: Tensor) -> Tensor:
    """Return the doubled mean ranks of ascending scores, (b, E), or (1, E) if all rows have the same ones.

    Known answers, at -inf, have ranks without meaning.
    """
    n = ordered.shape[1]
    place = torch.arange(n, device=ordered.device).unsqueeze(0)
    level = ordered[:, 1:] == ordered[:, :-1]
    if not (level & (ordered[:, 1:] > -torch.inf)).any():
        return (2 * (n - place)).expand(ordered.shape)
    edge = torch.ones((len(ordered), 1), dtype=torch.bool, device=ordered.device)
    first = torch.where(torch.cat([edge, ~level], dim=1), place, 0).cummax(dim=1).values
    last = torch.where(torch.cat([~level, edge], dim=1), place, n).flip(1).cummin(dim=1).values.flip(1)
    doubled: Tensor = doubled_rank(n - 1 - last, last - first + 1)
    return doubled


def sorted_rows(values: Tensor) -> Tensor:
    """Sort each row, ascending. On a CPU, numpy does this many times faster than PyTorch."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.sort(values.numpy(), axis=1))
    return values.sort(dim=1).values


def _order(values: Tensor) -> Tensor:
    """Return the positions that sort each row, ascending; see ``sorted_rows``."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.argsort(values.numpy(), axis=1))
    return values.argsort(dim=1)
