"""Compiled kernels of ``relens.prediction.candidate_ranking``.

All of them take the scores of n models for E entities, (n, E), and the known answers as a mask, (E,) bool.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.compiled import njit
from relens.packs.packing import MAX_GAP
from relens.ranking.answer_ranks import doubled_rank

Reals = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DIGIT = 11
"""Bits of a key that a pass of sorting looks at."""
_PASSES, _BUCKETS = 3, 2**DIGIT
_SIGN, _ALL = np.uint32(2**31), np.uint32(2**32 - 1)

_doubled_rank = njit()(doubled_rank)


@njit()
def rank_rows(scores: npt.NDArray[np.float32], competing: Mask, out: npt.NDArray[np.int32]) -> None:
    """Fill ``out`` (n, E) with the doubled mean rank of each score of a row among the competing ones and itself.

    Higher scores are better. A score that is not a number does not compete; its own rank means nothing.
    """
    n_entities = scores.shape[1]
    keys, swapped_keys = np.empty(n_entities, np.uint32), np.empty(n_entities, np.uint32)
    ids, swapped_ids = np.empty(n_entities, np.int32), np.empty(n_entities, np.int32)
    for i in range(len(scores)):
        row, bits = scores[i], scores[i].view(np.uint32)
        n = 0
        for e in range(n_entities):
            out[i, e] = 2
            if not np.isnan(row[e]):
                # Keys are in the reverse order of scores. Zero has two signs and one key.
                sign = bits[e] & _SIGN
                keys[n] = bits[e] if sign and row[e] != 0 else _ALL ^ (_SIGN | bits[e])
                ids[n] = e
                n += 1
        _sort(keys[:n], ids[:n], swapped_keys[:n], swapped_ids[:n])
        above = begin = 0
        while begin < n:
            end = begin + 1
            level = int(competing[ids[begin]])
            while end < n and keys[end] == keys[begin]:
                level += competing[ids[end]]
                end += 1
            for at in range(begin, end):
                out[i, ids[at]] = _doubled_rank(above, level + (not competing[ids[at]]))
            above, begin = above + level, end


@njit()
def _sort(
    keys: npt.NDArray[np.uint32],
    ids: npt.NDArray[np.int32],
    other_keys: npt.NDArray[np.uint32],
    other_ids: npt.NDArray[np.int32],
) -> None:
    """Sort keys and their ids in place, the least key first; ``other_keys`` and ``other_ids`` are overwritten."""
    counts = np.zeros((_PASSES, _BUCKETS + 1), np.int64)
    mask = np.uint32(_BUCKETS - 1)
    for key in keys:
        for p in range(_PASSES):
            counts[p, 1 + ((key >> np.uint32(p * DIGIT)) & mask)] += 1
    source_keys, source_ids, target_keys, target_ids = keys, ids, other_keys, other_ids
    for p in range(_PASSES):
        place, shift = counts[p], np.uint32(p * DIGIT)
        for bucket in range(1, _BUCKETS):
            place[bucket] += place[bucket - 1]
        for at in range(len(source_keys)):
            key = source_keys[at]
            bucket = (key >> shift) & mask
            target_keys[place[bucket]], target_ids[place[bucket]] = key, source_ids[at]
            place[bucket] += 1
        source_keys, source_ids, target_keys, target_ids = target_keys, target_ids, source_keys, source_ids
    keys[:], ids[:] = source_keys, source_ids


@njit()
def weigh(doubled: npt.NDArray[np.int32], weights: Ints, table: npt.NDArray[np.int32]) -> Ints:
    """Return the weighted costs of doubled ranks (n, k), (k,); ``table`` has the cost of each doubled rank."""
    cost = np.zeros(doubled.shape[1], np.int64)
    for i in range(len(weights)):
        for e in range(doubled.shape[1]):
            cost[e] += weights[i] * table[doubled[i, e]]
    return cost


@njit()
def place_by_cost(
    scores: Reals,
    doubled: npt.NDArray[np.int32],
    known: Mask,
    weights: Ints,
    table: npt.NDArray[np.int32],
    cost: Ints,
    entity: int,
) -> tuple[int, int]:
    """Count the candidates with less cost than an entity, and the others with the same cost.

    A known answer joins the candidates, which takes their ranks down where it is ahead of them or level.
    """
    ahead = tied = 0
    own = cost[entity]
    if not known[entity]:
        for e in range(len(cost)):
            ahead += (not known[e]) & (cost[e] < own)
            tied += (not known[e]) & (cost[e] == own)
        return ahead, tied - 1
    for e in range(len(cost)):
        # One more candidate never improves a rank: an entity that is behind without it stays behind.
        if cost[e] > own or known[e]:
            continue
        theirs = np.int64(0)
        for i in range(len(weights)):
            mine, other = scores[i, entity], scores[i, e]
            joined = 2 if mine > other else int(mine == other)
            theirs += weights[i] * table[doubled[i, e] + joined]
        ahead += theirs < own
        tied += theirs == own
    return ahead, tied


@njit()
def lead(scores: Reals, gap_scales: Reals, weights: Ints, entity: int) -> Ints:
    """Return the lead of each entity over one of them, in weighted score gaps, (E,); see ``packing.scale_gaps``."""
    total = np.zeros(scores.shape[1], np.int64)
    for i in range(len(scores)):
        own, scale, weight = np.float64(scores[i, entity]), gap_scales[i], weights[i]
        for e in range(scores.shape[1]):
            gap = np.float64(scores[i, e]) - own
            units = min(max(np.rint(gap / scale), -MAX_GAP), MAX_GAP)
            whole = np.int64(units)
            if whole == 0:
                whole = np.int64(gap > 0) - np.int64(gap < 0)
            total[e] += weight * whole
    return total


@njit()
def first_by_gaps(
    scores: Reals,
    gap_scales: Reals,
    weights: Ints,
    known: Mask,
    cost: npt.NDArray[np.float64],
    ids: Ints,
    certain: Ints,
    beaten: Ints,
    top: int,
) -> Ints:
    """Return the best ``top`` of some entities by their ranks, best first, (k, 3): ahead, tied, entity.

    The entity that may have the best rank is placed next, until no other one can be better than those found. Among
    equal ranks the smaller cost comes first, then the smaller id.

    Args:
        scores: (n, E), all of them numbers.
        gap_scales, weights: of the models, (n,).
        known: the known answers, (E,).
        cost: (E,).
        ids: the entities to choose from, by cost and then by id, (k,).
        certain: twice the number of candidates certainly ahead of each of them, (k,).
        beaten: twice the number of placed candidates ahead of each entity, plus those level with it, (E,); updated.
        top: how many to choose.
    """
    waiting = np.ones(len(ids), np.bool_)
    found = np.empty((min(top, len(ids)), 3), np.int64)
    n_found = 0
    while True:
        at, least = -1, np.int64(0)  # the entity with the best doubled rank that may be
        for j in range(len(ids)):
            if waiting[j]:
                possible = _doubled_rank(0, 1) + max(certain[j], beaten[ids[j]])
                if at < 0 or possible < least:
                    at, least = j, possible
        if at < 0:
            break
        entity = int(ids[at])
        if n_found == len(found) and not _precedes(int(least), ids[at], found[n_found - 1], cost):
            break
        leads = lead(scores, gap_scales, weights, entity)
        ahead, tied = 0, -int(not known[entity])
        for e in range(len(leads)):
            if not known[e]:
                ahead += leads[e] > 0
                tied += leads[e] == 0
        doubled = _doubled_rank(ahead, tied + 1)
        n_alike = 0
        for j in range(len(ids)):
            if not waiting[j] or cost[ids[j]] != cost[entity] or not _alike(scores, ids[j], entity):
                continue
            waiting[j] = False
            n_alike += 1
            if n_found < len(found):
                n_found += 1
            elif not _precedes(doubled, ids[j], found[n_found - 1], cost):
                continue
            place = n_found - 1
            while place > 0 and _precedes(doubled, ids[j], found[place - 1], cost):
                found[place] = found[place - 1]
                place -= 1
            found[place, 0], found[place, 1], found[place, 2] = ahead, tied, ids[j]
        if not known[entity]:
            for e in range(len(leads)):
                beaten[e] += n_alike * (2 * int(leads[e] < 0) + int(leads[e] == 0))
    return found[:n_found]


@njit()
def _precedes(doubled: int, entity: int, row: Ints, cost: npt.NDArray[np.float64]) -> bool:
    """Say whether an entity with a doubled rank comes before a row (ahead, tied, entity)."""
    other = _doubled_rank(row[0], row[1] + 1)
    if doubled != other:
        return bool(doubled < other)
    if cost[entity] != cost[row[2]]:
        return bool(cost[entity] < cost[row[2]])
    return bool(entity <= row[2])


@njit()
def _alike(scores: Reals, one: int, other: int) -> bool:
    """Say whether two entities have the same scores."""
    return bool(np.all(scores[:, one] == scores[:, other]))


@njit()
def sum_scores(scores: Reals, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return minus the weighted sums of the scores, (E,), the same for entities with the same scores."""
    cost = np.zeros(scores.shape[1], np.float64)
    for i in range(len(scores)):
        for e in range(scores.shape[1]):
            cost[e] -= weights[i] * np.float64(scores[i, e])
    return cost
