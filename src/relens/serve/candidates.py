"""The candidates of a request: who may be an answer, and the ensemble that ranks them."""

from typing import Annotated, Literal

from pydantic import Field

from relens.prediction import Ensemble
from relens.serve.lookup import GraphLookup

NAMES_LIMIT = 1000
"""Entities that a request may name as candidates."""

Word = Literal["all", "observed", "types"]
Words = Annotated[
    Word | None,
    Field(
        description="The entities that compete: all, those that train has on that side of the relation (observed), or "
        "those that share a type with one of them (types). Without it, those of the service."
    ),
]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Names = Annotated[list[Name], Field(min_length=1, max_length=NAMES_LIMIT)]
WordsOrNames = Annotated[
    Word | Names | None,
    Field(description=f"As for one question; or a list of up to {NAMES_LIMIT:,} entities."),
]
Candidates = Word | tuple[str, ...] | None
"""Candidates by word, by the labels of entities, or those of the service."""


def known_candidates(graph: GraphLookup, asked: str | list[str] | None) -> Candidates:
    """Return candidates with labels of the graph, or refuse the first unknown name."""
    if isinstance(asked, list):
        return tuple(graph.known_entity(name, f"candidates.{place}: ") for place, name in enumerate(asked))
    return asked  # type: ignore[return-value]  # the forms of requests allow these words only


class Among:
    """The ensembles of one service by candidates. Those of a word are made once; one thread makes them."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._own = ensemble
        self._by_word: dict[str, Ensemble] = {}

    def __call__(self, candidates: Candidates) -> Ensemble:
        """Return the ensemble that answers among some candidates."""
        if candidates is None:
            return self._own
        if not isinstance(candidates, str):
            return self._own.among(list(candidates))
        if candidates not in self._by_word:
            self._by_word[candidates] = self._own.among(None if candidates == "all" else candidates)
        return self._by_word[candidates]
