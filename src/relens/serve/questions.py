"""Requests and answers of the JSON interface, with their limits."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from relens.data.queries import Direction
from relens.prediction import KnownFacts

LABEL_LIMIT = 500
TOP_LIMIT = 1000
BATCH_LIMIT = 100
ANSWERS_LIMIT = 10_000
"""Limit of queries times answers of a batch."""

Label = Annotated[str, StringConstraints(min_length=1, max_length=LABEL_LIMIT)]
Top = Annotated[int, Field(ge=1, le=TOP_LIMIT, description="How many answers, best first.")]
KnownFactsField = Annotated[
    KnownFacts, Field(description="Leave known facts out, or mark them with the split they are in.")
]


class Query(BaseModel):
    """A relation and one of its two sides."""

    model_config = ConfigDict(extra="forbid")

    head: Label | None = Field(default=None, description="The head, to predict tails.")
    tail: Label | None = Field(default=None, description="The tail, to predict heads.")
    relation: Label

    @model_validator(mode="after")
    def _one_anchor(self) -> Self:
        if (self.head is None) == (self.tail is None):
            found = "neither" if self.head is None else "both"
            raise ValueError(f"expected either head or tail, found {found}")
        return self

    @property
    def anchor(self) -> str:
        """The given entity."""
        return self.head or self.tail or ""

    @property
    def direction(self) -> Direction:
        """The missing side."""
        return "head" if self.head is None else "tail"


class PredictQuery(Query):
    """One query, and options of its answer."""

    top: Top = 10
    known: KnownFactsField = "mark"


class Batch(BaseModel):
    """Several queries, answered in order."""

    model_config = ConfigDict(extra="forbid", strict=True)

    queries: list[Query] = Field(min_length=1, max_length=BATCH_LIMIT)
    top: Top = 10
    known: KnownFactsField = "mark"

    @model_validator(mode="after")
    def _not_too_much(self) -> Self:
        wanted = len(self.queries) * self.top
        if wanted > ANSWERS_LIMIT:
            raise ValueError(
                f"{len(self.queries)} queries with {self.top} answers each make {wanted}, "
                f"expected at most {ANSWERS_LIMIT}: ask for fewer at a time"
            )
        return self


class EntityQuery(BaseModel):
    """The beginning of an entity's label or name."""

    model_config = ConfigDict(extra="forbid")

    prefix: Annotated[str, StringConstraints(max_length=LABEL_LIMIT)] = ""
    limit: int = Field(default=12, ge=1, le=100)


class Vote(BaseModel):
    """One model's rank of one answer."""

    model: str
    rank: int | float | None = Field(description="The model's own rank of the answer; 1 is best.")
    weight: int | float = Field(description="The model's share of the weights for this relation and direction.")


class Answer(BaseModel):
    """An entity that may complete the triple."""

    entity: str
    name: str | None
    rank: int | float
    score: float | None
    known: str | None = Field(description="The split that contains the triple; null for a new one.")
    confidence: float | None = Field(
        description="How often a missing answer had this rank on validation; it means nothing if none is missing."
    )
    votes: list[Vote]


class Prediction(BaseModel):
    """The best answers to one query: the output of ``relens predict --json``, plus ``name`` and ``weights``."""

    anchor: str = Field(description="The label of the given entity.")
    name: str | None = Field(description="Its readable name, if the data set has one.")
    relation: str
    direction: Direction = Field(description="The missing side.")
    candidates: int
    weights: dict[str, float] = Field(description="The share of each model; shares sum to 1.")
    answers: list[Answer]


class Predictions(BaseModel):
    """The answers to a batch, in its order."""

    predictions: list[Prediction]
