"""Predictions: the answers to a query, each with the votes of the models."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
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
class Prediction:
    """One answer to a query.

    Attributes:
        entity: its label.
        name: its readable name; None if the data set has none.
        rank: its rank under the ensemble, other known answers removed; 1 is best, a tied block shares its mean rank.
        score: the weighted mean of the inputs that the weights apply to, higher is better; comparable within one list.
        known: the first split that contains this fact; None for a new answer.
        confidence: the share of validation queries whose answer had this rank; None if there are too few of them.
        votes: the votes of the models with a weight, highest weight first.
    """

    entity: str
    name: str | None
    rank: float
    score: float
    known: str | None
    confidence: float | None
    votes: tuple[Vote, ...]


@dataclass(frozen=True)
class Predictions(Sequence[Prediction]):
    """The best answers to one query, best first.

    Attributes:
        anchor: label of the given entity: the head of a question for tails, the tail of a question for heads.
        relation: label of the relation.
        direction: the missing side, ``tail`` or ``head``.
        candidates: how many entities were ranked, without known answers.
        answers: the predictions; known facts come in addition to the requested number of new answers.
        anchor_rank: the rank that the anchor itself holds, if it is left out of ``answers``; otherwise None.
    """

    anchor: str
    relation: str
    direction: Direction
    candidates: int
    answers: tuple[Prediction, ...]
    anchor_rank: float | None = None

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
        return [{**asdict(answer), "votes": [asdict(vote) for vote in answer.votes]} for answer in self.answers]

    def to_json(self) -> dict[str, Any]:
        """Return the query and its answers as plain JSON values."""
        return {
            "anchor": self.anchor,
            "relation": self.relation,
            "direction": self.direction,
            "candidates": self.candidates,
            "answers": self.to_records(),
        }

    def to_pandas(self) -> Any:
        """Return a data frame with a row per answer, and columns ``rank MODEL`` and ``weight MODEL`` for each model."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise RelensError("a data frame of predictions needs pandas: pip install pandas") from error
        rows = []
        for record in self.to_records():
            votes = record.pop("votes")
            rows.append(record | {f"{field} {v['model']}": v[field] for v in votes for field in ("rank", "weight")})
        return pandas.DataFrame(rows)
