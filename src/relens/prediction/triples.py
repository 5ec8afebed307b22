"""Triples by name: read and check them, and give each a score, the rank of its tail and of its head."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import Queries
from relens.errors import DatasetError, counted
from relens.prediction.facts import Facts, read_triples
from relens.prediction.names import Names
from relens.prediction.questions import QueryIds
from relens.prediction.voting import Voting
from relens.progress import Progress

LISTED = 20
"""Unknown names that an error lists."""


@dataclass(frozen=True)
class ScoredTriple:
    """A triple with its score and ranks.

    Attributes:
        head, relation, tail: labels.
        score: the mean of the ensemble's scores of the tail and of the head; higher is better, comparable within one
            relation.
        tail_rank: the rank of the tail among all tails, other known answers removed, as in the evaluation.
        head_rank: the rank of the head among all heads.
        probability: how likely the fact is true, from validation; None if it is known, or if there is no evidence.
        known: the first split that contains the triple, ``facts`` if it was given; None for a new one.
        restriction: the name of the restriction of the candidates that ranks are among; None for all entities.
    """

    head: str
    relation: str
    tail: str
    score: float
    tail_rank: float
    head_rank: float
    probability: float | None
    known: str | None
    restriction: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def triples_in_ids(triples: Facts, names: Names) -> npt.NDArray[np.int32]:
    """Return triples as ids, (n, 3) int32; one error lists all names that are unknown or ambiguous.

    Args:
        triples: a file of tab-separated triples, or rows (head, relation, tail); labels or readable names.
        names: the names of the graph.
    """
    source, rows, places = read_triples(triples, "triple")
    entity = {name: names.find("entity", name) for name in {name for row in rows for name in (row[0], row[2])}}
    relation = {name: names.find("relation", name) for name in {row[1] for row in rows}}
    ids = [(entity[head], relation[name], entity[tail]) for head, name, tail in rows]
    unknown: dict[tuple[str, str], str] = {}
    for row, numbers, place in zip(rows, ids, places, strict=True):
        if None in numbers:
            for kind, name, number in zip(("entity", "relation", "entity"), row, numbers, strict=True):
                if number is None:
                    unknown.setdefault((kind, name), place)
    if unknown and len(rows) == 1:
        raise DatasetError("\n".join(_problem(names, *name) for name in unknown))
    if unknown:
        listed = [f"{place}: {_problem(names, *name)}" for name, place in list(unknown.items())[:LISTED]]
        more = f"\n… and {len(unknown) - LISTED:,} more" if len(unknown) > LISTED else ""
        raise DatasetError(
            f"{source}: found {counted(len(unknown), 'name')} that the graph does not have, or has more than once. "
            "Correct the names, or remove the lines.\n" + "\n".join(listed) + more
        )
    return np.array(ids, dtype=np.int32)


def score_triples(voting: Voting, ids: npt.NDArray[np.int32], progress: Progress) -> tuple[ScoredTriple, ...]:
    """Return the scores and ranks of triples in ids, (n, 3), in order."""
    queries = Queries.from_triples(ids)
    found = voting.rank_answers(queries, progress)
    known = voting.splits_of(ids)
    probabilities = _probabilities(voting, queries, known)
    entities, relations = voting.dataset.entities.labels, voting.dataset.relations.labels
    ranks, scores = found.ranks.realistic.reshape(-1, 2).tolist(), found.scores.reshape(-1, 2).mean(axis=1).tolist()
    return tuple(
        ScoredTriple(
            head=entities[head],
            relation=relations[relation],
            tail=entities[tail],
            score=score,
            tail_rank=of_tail,
            head_rank=of_head,
            probability=probability,
            known=split,
            restriction=None if voting.restriction is None else voting.restriction.name,
        )
        for (head, relation, tail), score, (of_tail, of_head), probability, split in zip(
            ids.tolist(), scores, ranks, probabilities, known, strict=True
        )
    )


def _probabilities(voting: Voting, queries: Queries, known: list[str | None]) -> list[float | None]:
    """Return how likely each of n triples is true; None for known ones, and where there is not enough evidence.

    It is the geometric mean of the probabilities of its tail and of its head.

    Args:
        voting: who ranks the candidates.
        queries: both directions of each triple, (2n,).
        known: the split of each triple that is known, n of them.
    """
    new = np.repeat([split is None for split in known], 2)
    found = np.full(len(queries), np.nan)
    rows = np.flatnonzero(new) if voting.confidence is not None else np.empty(0, dtype=np.int64)
    for begin in range(0, len(rows), voting.models.rows):
        part = rows[begin : begin + voting.models.rows]
        asked = [QueryIds(*row) for row in queries[part].columns()[:3].T.tolist()]
        for at, query, ranking in zip(part, asked, voting.rankings(asked), strict=True):
            found[at] = voting.probabilities(query, ranking, queries.answer[[at]].astype(np.int64))[0]
    both = np.sqrt(found[0::2] * found[1::2]).tolist()
    return [None if np.isnan(probability) else probability for probability in both]


def _problem(names: Names, kind: str, name: str) -> str:
    """Return the error about a name, with similar names."""
    find = names.entity if kind == "entity" else names.relation
    try:
        find(name)
    except DatasetError as error:
        return str(error)
    raise AssertionError(f"{name!r} is the name of one {kind}")
