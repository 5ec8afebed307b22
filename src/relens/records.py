"""Records: the JSON files that relens writes. Each names its kind, its format and the relens that wrote it.

A format number rises when old files can no longer be read as they are. ``relens.pipeline.upgrade`` has a converter for
each step, and ``relens upgrade RUN`` applies them.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from relens import __version__
from relens.errors import DatasetError, InputError, RanksError, WeightsError
from relens.files import read_json, write_json

TIE_RULE = "mean"
"""The tie rule of all stored ranks: a tied block shares its mean rank."""


REDUCED_TO = ", reduced to "
"""Follows the candidates of ranks in the provenance of those that ``relens ranks reduce`` made of them."""


def text(value: Any) -> str:
    """Return a value of a record that must be a text."""
    if not isinstance(value, str):
        raise TypeError(f"found {value!r}, expected a text")
    return value


def texts(values: Any) -> tuple[str, ...]:
    """Return a value of a record that must be a list of texts."""
    if not isinstance(values, list | tuple):
        raise TypeError(f"found {values!r}, expected a list of texts")
    return tuple(map(text, values))


def whole(value: Any, least: int = 0) -> int:
    """Return a value of a record that must be a whole number of 64 bits, ``least`` or more."""
    if type(value) is not int or not least <= value < 2**63:
        raise ValueError(f"found {value!r}, expected a whole number of at least {least}")
    return value


def number(value: Any) -> float:
    """Return a value of a record that must be a finite number."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"found {value!r}, expected a finite number")
    return value  # type: ignore[no-any-return]


def mapping(value: Any) -> dict[str, Any]:
    """Return a value of a record that must be an object."""
    if not isinstance(value, dict):
        raise TypeError(f"found {value!r}, expected an object")
    return value


@dataclass(frozen=True)
class Provenance:
    """The origin of ranks. Every number computed from them names it.

    Attributes:
        dataset: the name of the data set.
        fingerprint: digest of the data set, or of the query list where no data set was at hand.
        split: the split of the queries.
        filter_splits: splits whose known answers were removed; empty if the ranks were imported unchanged.
        candidates: ``all`` entities, ``sampled`` (a fixed list of negatives per query), or the name of a restriction.
        outside: how many answers a restriction does not allow, which compete all the same; None without a restriction.
    """

    dataset: str
    fingerprint: str
    split: str
    filter_splits: tuple[str, ...] = ()
    candidates: str = "all"
    outside: int | None = None

    def among(self, n_queries: int) -> str:
        """Return the candidates, with the number and share of the answers outside of them if there is a restriction."""
        if self.outside is None:
            return self.candidates
        share = self.outside / max(1, n_queries)
        return f"{self.candidates}, {self.outside:,} of {n_queries:,} answers ({share:.1%}) outside of them"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; ``outside`` only where there is a restriction, as in records of an older relens."""
        values = {**asdict(self), "filter_splits": list(self.filter_splits)}
        if self.outside is None:
            del values["outside"]
        return values

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild from the result of ``to_json``; other keys are ignored."""
        found = {field.name: value[field.name] for field in fields(cls) if field.name != "outside"}
        filtered = texts(found.pop("filter_splits"))
        outside = None if value.get("outside") is None else whole(value["outside"])
        return cls(**{name: text(entry) for name, entry in found.items()}, filter_splits=filtered, outside=outside)


@dataclass(frozen=True)
class RecordKind:
    """A kind of record.

    Attributes:
        name: the value of ``kind`` in the file.
        format: the format that this relens reads and writes.
        remedy: how to make the record again, as a sentence.
        error: the error to raise if a record cannot be used.
    """

    name: str
    format: int
    remedy: str
    error: type[InputError] = InputError

    def stamp(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values, preceded by kind, format and version."""
        return {"kind": self.name, "format": self.format, "relens": __version__, **values}

    def matches(self, value: Mapping[str, Any]) -> bool:
        """Say whether a value is a record of this kind and format."""
        return (value.get("kind"), value.get("format")) == (self.name, self.format)

    def check(self, value: Mapping[str, Any], where: str) -> None:
        """Raise an error if a value is another kind of record, or has another format; ``where`` names it."""
        if not isinstance(value, Mapping):
            raise self.error(f"{where} holds {type(value).__name__}, expected a {self.name!r} record. {self.remedy}")
        if self.matches(value):
            return
        remedy = f"{self.remedy[0].lower()}{self.remedy[1:]}"
        found = value.get("format")
        if value.get("kind") != self.name:
            # relens 0.1.0 wrote some records without a kind.
            upgrade = "" if "kind" in value else "Convert a run of an older relens with `relens upgrade RUN`, or "
            raise self.error(
                f"{where} is not a {self.name!r} record: its kind is {value.get('kind')!r}. "
                f"{upgrade + remedy if upgrade else self.remedy}"
            )
        older = isinstance(found, int) and found < self.format
        way_out = "Convert the run with `relens upgrade RUN`, or" if older else f"Use {_writer(value)}, or"
        raise self.error(f"{where} has format {found!r}, this relens reads format {self.format}. {way_out} {remedy}")

    def write(self, path: Path, values: Mapping[str, Any]) -> None:
        """Write a record atomically."""
        write_json(path, self.stamp(values))

    def read(self, path: Path) -> dict[str, Any]:
        """Read and check a record."""
        value = read_json(path, self.name.removeprefix("relens "), self.remedy)
        self.check(value, str(path))
        return value

    @contextmanager
    def parsing(self, where: str) -> Iterator[None]:
        """Turn errors about a missing or malformed part of a record into one that names the record."""
        try:
            yield
        except InputError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
            raise self.error(f"{where} is damaged ({error!r}). {self.remedy}") from error


def _writer(value: Mapping[str, Any]) -> str:
    return f"relens {value['relens']}, which wrote it" if "relens" in value else "the relens that wrote it"


RUN = RecordKind(
    "relens run",
    3,
    "`relens run DATASET --run RUN` writes this record again and keeps all that is whole. For a run of imported ranks, "
    "import them again with another `--run`.",
)
PACK = RecordKind(
    "relens packed ranks",
    1,
    "Make these ranks again: repeat the `relens run` that made them, `relens rank RUN --force`, or the import with "
    "`--force`.",
    RanksError,
)
REDUCED = RecordKind("relens reduced ranks", 1, "Reduce the ranks again with `relens ranks reduce`.", RanksError)
RANKED_BY = RecordKind("relens origin of ranks", 1, "Rank again with `relens rank RUN --force`.", RanksError)
WEIGHTS = RecordKind("relens weights", 1, "Search again with `relens search`.", WeightsError)
CALIBRATION = RecordKind("relens calibration", 1, "Calibrate again with `relens calibrate RUN`.")
THRESHOLDS = RecordKind("relens thresholds", 1, "Fit them again with `relens calibrate RUN`.")
RELATION_SCALE = RecordKind("relens scale of relations", 1, "Choose it again with `relens calibrate RUN`.")
RELIABILITY = RecordKind("relens reliability", 1, "Measure it again with `relens report RUN`.")
EVALUATION = RecordKind("relens evaluation", 1, "Evaluate again with `relens evaluate RUN`.")
RELATIONS = RecordKind(
    "relens evaluation of relations", 1, "Evaluate again with `relens evaluate RUN --question relation`."
)
CLASSIFICATION = RecordKind(
    "relens evaluation of classification", 1, "Evaluate again with `relens evaluate RUN --question classify`."
)
COMPARISON = RecordKind(
    "relens comparison",
    1,
    "Repeat the `relens run` that made it, or remove it: `relens report` then compares the default methods.",
)
CURVES = RecordKind("relens learning curves", 1, "Measure them again with `relens report RUN --curves`.")
PLAN = RecordKind("relens plan", 1, "Choose another run with `run=PATH`, or pass `force=train` to plan and train anew.")
STAGE = RecordKind("relens stage", 1, "Repeat the stage: pass `force=STAGE`.")
TRAINED = RecordKind(
    "relens trained model",
    4,
    "Train the model again: repeat the `relens run` or the `relens train` that made it. Both notice the damage.",
)
MEMBER = RecordKind(
    "relens member",
    1,
    "Copy the whole folder of the member again, or remove it and add the member again with `relens ranks add`.",
)
CHECKPOINT = RecordKind("relens checkpoint", 3, "Remove the folder to start anew.")
GRAPH = RecordKind("relens graph", 1, "Add the graph again with `relens upgrade RUN --data DATASET`.", DatasetError)
CANDIDATES = RecordKind(
    "relens candidates", 1, "Make them again with `relens data sample-negatives DATASET`.", DatasetError
)
OGB_COPY = RecordKind(
    "relens copy of an OGB data set", 1, "Remove the copy; the next read writes it again.", DatasetError
)
PREPARED = RecordKind("relens prepared data set", 1, "Prepare it again with `relens data prepare`.", DatasetError)
IMPORTED = RecordKind("relens imported data set", 1, "Import it again with `relens data import`.", DatasetError)
DISCOVERY = RecordKind("relens discovery", 1, "Remove the folder to begin the discovery anew.")
FETCHED = RecordKind(
    "relens fetched archive",
    1,
    "Remove it to trust the next fetch, or name the digest with `relens data get NAME --sha256 HEX`.",
    DatasetError,
)
