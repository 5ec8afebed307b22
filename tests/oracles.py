"""Oracles for the kernels: obvious loops over Python integers and fractions."""

from collections.abc import Collection, Sequence
from fractions import Fraction


def mean_rank(scores: Sequence[float], column: int, known: Collection[int] = frozenset()) -> Fraction:
    """Rank one candidate of a row of scores (higher is better) without the known ones; ties share their mean rank."""
    rest = [score for j, score in enumerate(scores) if j not in known or j == column]
    better = sum(score > scores[column] for score in rest)
    level = sum(score == scores[column] for score in rest)
    return Fraction(2 * better + level + 1, 2)


def doubled_ranks(scores: Sequence[float], answer: int, known: Collection[int] = frozenset()) -> dict[int, int]:
    """Rank every candidate of a row of scores that is not known (or is the answer): column -> doubled mean rank."""
    known = set(known) - {answer}
    return {j: int(2 * mean_rank(scores, j, known)) for j in range(len(scores)) if j not in known}


def packed_row(ranks_by_model: Sequence[dict[int, int]], answer: int) -> tuple[int, list[tuple[int, ...]]]:
    """Pack one query from the ranks of its candidates per model: (always ahead, contested rank tuples by column)."""
    always_ahead, contested = 0, []
    for j in sorted(ranks_by_model[0]):
        signs = [ranks[answer] - ranks[j] for ranks in ranks_by_model]
        if j == answer or all(sign < 0 for sign in signs):
            continue
        if all(sign > 0 for sign in signs):
            always_ahead += 1
        else:
            contested.append(tuple(ranks[j] for ranks in ranks_by_model))
    return always_ahead, contested


def ensemble_rank(
    ranks_by_model: Sequence[Sequence[int]], answer: int, weights: Sequence[int], known: Collection[int] = frozenset()
) -> tuple[int, int]:
    """Count the candidates (ahead of, level with) the answer by weighted sum of ranks, the known ones left out.

    The optimistic rank is 1 + ahead, the pessimistic 1 + ahead + tied, the realistic one their mean.
    """
    ahead = tied = 0
    target = sum(weight * ranks[answer] for weight, ranks in zip(weights, ranks_by_model, strict=True))
    for j in range(len(ranks_by_model[0])):
        if j == answer or j in known:
            continue
        total = sum(weight * ranks[j] for weight, ranks in zip(weights, ranks_by_model, strict=True))
        ahead += total < target
        tied += total == target
    return ahead, tied


def tie_rules(ahead: int, tied: int) -> dict[str, Fraction]:
    """Return the rank of an answer under the three tie rules."""
    return {
        "optimistic": Fraction(1 + ahead),
        "realistic": Fraction(2 * (1 + ahead) + tied, 2),
        "pessimistic": Fraction(1 + ahead + tied),
    }


def packed_ensemble_rank(
    answer: Sequence[int], contested: Sequence[Sequence[int]], always_ahead: int, weights: Sequence[int]
) -> tuple[int, int]:
    """Count (ahead, tied) from one packed query: doubled ranks of the answer (N,) and of each contested one (N, k)."""
    ahead, tied = int(always_ahead), 0
    target = sum(weight * int(rank) for weight, rank in zip(weights, answer, strict=True))
    for k in range(len(contested[0])):
        total = sum(weight * int(ranks[k]) for weight, ranks in zip(weights, contested, strict=True))
        ahead += total < target
        tied += total == target
    return ahead, tied
