"""Triples by name: read and check them, and give each a score, the rank of its tail and of its head."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import Queries
from relens.errors import DatasetError, counted
from relens.prediction.facts import Facts, read_triples
from relens.prediction.names import Names
from relens.progress import Progress

if TYPE_CHECKING:
    from relens.prediction.ensemble import Ensemble

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
    """

    head: str
    relation: str
    tail: str
    score: float
    tail_rank: float
    head_rank: float
    probability: float | None
    known: str | None

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


def score_triples(ensemble: "Ensemble", ids: npt.NDArray[np.int32], progress: Progress) -> tuple[ScoredTriple, ...]:
    """Return the scores and ranks of triples in ids, (n, 3), in order."""
    queries = Queries.from_triples(ids)
    found = ensemble.rank_answers(queries, progress=progress)
    known = ensemble.splits_of(ids)
    probabilities = ensemble.triple_probabilities(queries, known)
    entities, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
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
        )
        for (head, relation, tail), score, (of_tail, of_head), probability, split in zip(
            ids.tolist(), scores, ranks, probabilities, known, strict=True
        )
    )


def _problem(names: Names, kind: str, name: str) -> str:
    """Return the error about a name, with similar names."""
    find = names.entity if kind == "entity" else names.relation
    try:
        find(name)
    except DatasetError as error:
        return str(error)
    raise AssertionError(f"{name!r} is the name of one {kind}")
