"""Evidence on many candidates of a batch of queries, by array operations on the device of the scores.

The evidence is that of ``relens.prediction.evidence``, which looks at one query at a time.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.prediction.evidence import AHEAD, FEATURES, Evidence
from relens.prediction.row_ranks import RowRanks, sorted_rows


def row_evidence(
    ranks: RowRanks,
    entities: npt.NDArray[np.int64],
    compared: Sequence[npt.NDArray[np.int64]],
    scales: npt.NDArray[np.float64],
    *,
    with_anchor: bool,
) -> Evidence:
    """Return the evidence on candidates (b, k), given as ids; that of -1 has no meaning.

    Args:
        ranks: the candidates of b queries.
        entities: the candidates to judge; none of them is a known answer.
        compared: ids of the known answers that candidates of each query are compared with, b arrays.
        scales: the unit of each model's scores, (n,).
        with_anchor: whether the anchor takes a place.

    Returns:
        Places (b, k) and features (b, k, F).
    """
    device = ranks.known.device
    chosen = torch.as_tensor(entities, device=device).clamp(min=0)
    left_out = ranks.known if with_anchor else ranks.known.scatter(1, ranks.anchors, True)
    mean = torch.zeros(ranks.known.shape, dtype=torch.float64, device=device)
    agreement = torch.zeros(chosen.shape, dtype=torch.float64, device=device)
    total = sum(ranks.weights)
    for scores, weight, scale in zip(ranks.scores, ranks.weights, scales.tolist(), strict=True):
        mean += weight / total / scale * scores.double()
        agreement -= weight / total * _places(-scores, chosen, left_out).log()
    places = _places(ranks.costs, chosen, left_out)
    own = mean.gather(1, chosen)
    lead = own - _best_others(ranks.costs, mean, chosen, left_out)
    features = torch.stack([-places.log(), lead, agreement, own], dim=2).cpu().numpy()
    usual = np.array([0.0 if not len(ids) else float(row[ids].mean()) for ids, row in zip(compared, mean, strict=True)])
    number = np.array([len(ids) for ids in compared])[:, None]
    margin = np.where(number > 0, features[:, :, 3] - usual[:, None], 0.0)
    known = np.broadcast_to(-np.log1p(number), margin.shape)
    found = np.concatenate([features, margin[:, :, None], known[:, :, None]], axis=2)
    assert found.shape[2] == len(FEATURES)
    return Evidence(places.cpu().numpy(), found)


def _places(costs: Tensor, chosen: Tensor, left_out: Tensor) -> Tensor:
    """Return the places of entities (b, k) among those that are not left out and themselves, (b, k) float64."""
    last = torch.inf if costs.is_floating_point() else torch.iinfo(costs.dtype).max
    ordered, own = sorted_rows(costs.masked_fill(left_out, last)), costs.gather(1, chosen)
    ahead = torch.searchsorted(ordered, own)
    level = torch.searchsorted(ordered, own, right=True) - ahead - (~left_out.gather(1, chosen)).long()
    return 1 + ahead + level.double() / 2


def _best_others(costs: Tensor, mean: Tensor, chosen: Tensor, left_out: Tensor) -> Tensor:
    """Return the mean score of the best ``AHEAD`` others than each of k entities, (b, k), or its own without others."""
    last = torch.inf if costs.is_floating_point() else torch.iinfo(costs.dtype).max
    costs = costs.masked_fill(left_out, last)
    size = min(AHEAD + 1, costs.shape[1])
    least, at = costs.topk(size, dim=1, largest=False)
    crowded = (costs <= least[:, -1:]).sum(dim=1) > size  # a tie runs over the end: the smallest ids are first
    if crowded.any():
        at[crowded] = costs[crowded].sort(dim=1, stable=True).indices[:, :size]
    # Known answers fill the list where there are fewer candidates.
    at = at.sort(dim=1).values
    at = at.gather(1, costs.gather(1, at).argsort(dim=1, stable=True))
    real = ~left_out.gather(1, at)
    values = mean.gather(1, at).masked_fill(~real, 0.0)
    inside = (chosen.unsqueeze(2) == at.unsqueeze(1)) & real.unsqueeze(1)
    inside, own = inside.any(dim=2), mean.gather(1, chosen)
    n = real.sum(dim=1, keepdim=True)
    others = torch.where(inside, n - 1, n.clamp(max=AHEAD))
    total = torch.where(inside, values.sum(1, keepdim=True) - own, values[:, :AHEAD].sum(1, keepdim=True))
    return torch.where(others > 0, total / others.clamp(min=1), own)
