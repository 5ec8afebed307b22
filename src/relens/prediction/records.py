"""What a prediction says: plain records, with the vote of every model behind each answer."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, overload

from relens.data.queries import Direction
from relens.errors import RelensError


@dataclass(frozen=True)
class Vote:
    """Where one model puts an answer, and how much it counts.

    Attributes:
        model: the model's name.
        rank: its own rank of the answer, other known answers removed; 1 is best.
        weight: its share of the weights, which sum to 1 over the votes of an answer.
    """

    model: str
    rank: float
    weight: float


@dataclass(frozen=True)
class Prediction:
    """One answer to a query.

    Attributes:
        entity: its label.
        name: its readable name; None where the data set has none.
        rank: its rank under the ensemble, other known answers removed; 1 is best, a tied block shares its mean rank.
        score: the weighted mean of what the weights are applied to, higher is better; comparable within one list.
        known: the first split that states this fact, None for a new one.
        confidence: how often the missing answer stood at this rank on validation; None where that cannot be said.
        votes: of the models with a weight, the heaviest first.
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
        anchor: label of the entity asked about: the head where tails are asked for, the tail where heads are.
        relation: label of the relation.
        direction: what is asked for, ``tail`` or ``head``.
        candidates: how many entities were ranked, known answers not counted.
        answers: the predictions; known facts come in addition to the new answers asked for.
    """

    anchor: str
    relation: str
    direction: Direction
    candidates: int
    answers: tuple[Prediction, ...]

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
        """Return a data frame with a row per answer, each model in two columns: ``rank MODEL`` and ``weight MODEL``."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise RelensError("a data frame of predictions needs pandas: pip install pandas") from error
        rows = []
        for record in self.to_records():
            votes = record.pop("votes")
            rows.append(record | {f"{field} {v['model']}": v[field] for v in votes for field in ("rank", "weight")})
        return pandas.DataFrame(rows)
