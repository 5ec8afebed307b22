"""Predictions: the answers to a query, each with the votes of the models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from typing import Any, overload

from relens.data.queries import Direction
from relens.errors import RelensError


@dataclass(frozen=True)
class Vote:
    """One model's rank of an answer, and its weight.

    Attributes:
        model: the model's name.
        rank: its own rank of the answer, other known answers removed; 1 is best.
        weight: its share of the weights; shares sum to 1 over the votes of an answer.
    """

    model: str
    rank: float
    weight: float


@dataclass(frozen=True)
class ScorePath:
    """A path through the graph that carried an answer's score by one model; its text is one line.

    Attributes:
        model: the model's name.
        importance: the mean gradient of the model's score by the messages along the path, at the best layers.
        entities: labels along the path, from the anchor of the query to the answer.
        relations: labels of the relations in between.
        inverse: for each of these, whether the path follows the fact from its tail to its head.
        names: readable names of the entities; None for those without.
        relation_names: readable names of the relations; None for those without.
    """

    model: str
    importance: float
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    inverse: tuple[bool, ...]
    names: tuple[str | None, ...]
    relation_names: tuple[str | None, ...]

    def __str__(self) -> str:
        shown = [name or label for label, name in zip(self.entities, self.names, strict=True)]
        steps = [name or label for label, name in zip(self.relations, self.relation_names, strict=True)]
        text = shown[0]
        for relation, inverse, entity in zip(steps, self.inverse, shown[1:], strict=True):
            text += f" ←[{relation}]– {entity}" if inverse else f" –[{relation}]→ {entity}"
        return text


@dataclass(frozen=True)
class Prediction:
    """One answer to a query.

    Attributes:
        entity: its label.
        name: its readable name; None if the data set has none.
        rank: its rank under the ensemble, other known answers removed; 1 is best, a tied block shares its mean rank.
        place: its place among what is possible: known answers and, where train relates no entity to itself, the anchor
            take none; 1 is best, a tied block shares its mean place. None for a known answer.
        score: the weighted mean of the inputs that the weights apply to, higher is better; comparable within one list.
        known: the first split that contains this fact, ``facts`` if it was given; None for a new answer.
        confidence: the probability that it is a fact, if as many are missing as validation has; None for a known
            answer, and where there is not enough evidence.
        votes: the votes of the models with a weight, highest weight first.
        abstained: models with a weight that do not vote, because the anchor or the answer is new to them.
        paths: the paths that carried its score, by model and most important first; None if nobody asked for them.
    """

    entity: str
    name: str | None
    rank: float
    place: float | None
    score: float
    known: str | None
    confidence: float | None
    votes: tuple[Vote, ...]
    abstained: tuple[str, ...] = ()
    paths: tuple[ScorePath, ...] | None = None


@dataclass(frozen=True)
class Predictions(Sequence[Prediction]):
    """The best answers to one query, best first.

    Attributes:
        anchor: label of the given entity: the head of a question for tails, the tail of a question for heads.
        relation: label of the relation.
        direction: the missing side, ``tail`` or ``head``.
        candidates: how many entities compete, without known answers.
        answers: the predictions; known facts come in addition to the requested number of new answers.
        anchor_rank: the rank that the anchor itself holds, if it is left out of ``answers``; otherwise None.
        notes: remarks for the reader, such as why there are no paths.
        restriction: the name of the restriction of the candidates; None if all entities are ranked.
        relation_name: readable name of the relation; None if the data set has none.
    """

    anchor: str
    relation: str
    direction: Direction
    candidates: int
    answers: tuple[Prediction, ...]
    anchor_rank: float | None = None
    notes: tuple[str, ...] = ()
    restriction: str | None = None
    relation_name: str | None = None

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Prediction, ...]: ...
    def __getitem__(self, index: int | slice) -> Prediction | tuple[Prediction, ...]:
        return self.answers[index]

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.answers)

    @property
    def question(self) -> str:
        """The query as a triple with a question mark, such as ``(paris, capital_of, ?)``."""
        head, tail = (self.anchor, "?") if self.direction == "tail" else ("?", self.anchor)
        return f"({head}, {self.relation}, {tail})"

    def to_records(self) -> list[dict[str, Any]]:
        """Return a dictionary of plain JSON values per answer."""
        return [_plain(answer) for answer in self.answers]

    def to_json(self) -> dict[str, Any]:
        """Return the query and its answers as plain JSON values."""
        return {
            "anchor": self.anchor,
            "relation": self.relation,
            "relation_name": self.relation_name,
            "direction": self.direction,
            "candidates": self.candidates,
            "restriction": self.restriction,
            "answers": self.to_records(),
            "notes": list(self.notes),
        }

    def to_pandas(self) -> Any:
        """Return a data frame with a row per answer, and columns ``rank MODEL`` and ``weight MODEL`` for each model."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise RelensError("a data frame of predictions needs pandas: pip install pandas") from error
        rows: list[dict[str, Any]] = []
        for record in self.to_records():
            votes = record.pop("votes")
            record["paths"] = None if record["paths"] is None else "; ".join(map(str, self[len(rows)].paths or ()))
            rows.append(record | {f"{field} {v['model']}": v[field] for v in votes for field in ("rank", "weight")})
        return pandas.DataFrame(rows)


def _plain(value: Any) -> Any:
    """Return plain JSON values: dictionaries for dataclasses, lists for tuples."""
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return {key: _plain(inner) for key, inner in vars(value).items()} if is_dataclass(value) else value
