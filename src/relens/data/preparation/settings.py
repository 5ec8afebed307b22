"""How a source is read and split."""

from dataclasses import dataclass
from typing import Any, Literal

from relens.errors import DatasetError, nearest

Column = str | int
Size = int | float
Treatment = Literal["skip", "error"]

FORMATS = ("auto", "text", "ntriples", "turtle", "parquet")
TREATMENTS = ("skip", "error")
DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


def delimiter_name(delimiter: str) -> str:
    """Return the name of a delimiter for messages, such as ``tabs``."""
    names = {character: name for name, character in DELIMITERS.items()}
    return f"{names[delimiter]}s" if delimiter in names else repr(delimiter)


@dataclass(frozen=True)
class ReadSettings:
    """How to read a source; None means that relens finds out.

    Attributes:
        format: one of ``FORMATS``; ``auto`` goes by the name of the file and by its first lines.
        delimiter: one character, or a name in ``DELIMITERS``.
        quotes: whether fields may be quoted, as in CSV; None for all delimiters but tabs and spaces.
        header: whether the first line is a heading.
        columns: the columns of head, relation and tail, by name or by number from 1.
        time: the column with times, if any.
        strip: remove spaces around labels.
        encoding: of text files.
        literals: ``skip`` and count RDF triples with a literal, or raise an ``error``.
        blank_nodes: the same for blank nodes.
    """

    format: str = "auto"
    delimiter: str | None = None
    quotes: bool | None = None
    header: bool | None = None
    columns: tuple[Column, ...] | None = None
    time: Column | None = None
    strip: bool = True
    encoding: str = "utf-8"
    literals: str = "skip"
    blank_nodes: str = "skip"

    def __post_init__(self) -> None:
        _check_choice("format", self.format, FORMATS)
        _check_choice("literals", self.literals, TREATMENTS)
        _check_choice("blank_nodes", self.blank_nodes, TREATMENTS)
        if self.columns is not None and len(self.columns) != 3:
            raise DatasetError(
                f"`columns={self.columns!r}` names {len(self.columns)} columns, expected three: head, relation and tail"
            )
        if self.delimiter is not None:
            character = DELIMITERS.get(self.delimiter, "\t" if self.delimiter == "\\t" else self.delimiter)
            if len(character) != 1 or character in '\r\n"':
                names = ", ".join(DELIMITERS)
                raise DatasetError(
                    f"`delimiter={self.delimiter!r}` is not a delimiter: expected one character, or one of {names}"
                )
            object.__setattr__(self, "delimiter", character)
        try:
            "".encode(self.encoding)
        except LookupError:
            raise DatasetError(
                f"`encoding={self.encoding!r}` is unknown: expected a name such as utf-8, utf-16 or latin-1"
            ) from None


@dataclass(frozen=True)
class SplitSettings:
    """How to hold out triples for validation and test.

    Attributes:
        valid: how many; a whole number is a count, a number below 1 a share of the triples that may be held out. None
            for a tenth, at most ``splitting.DEFAULT_MOST``, or fewer if the constraints allow no more.
        test: the same for test.
        hold_out: relations whose triples may be held out; empty for all.
        stratify: hold out the same share of each relation.
        allow_unseen: let valid and test have entities and relations that train lacks.
        seed: the root of the random choice.
    """

    valid: Size | None = None
    test: Size | None = None
    hold_out: tuple[str, ...] = ()
    stratify: bool = False
    allow_unseen: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("valid", "test"):
            size = getattr(self, name)
            good = size is None or (not isinstance(size, bool) and isinstance(size, int | float) and (
                0 <= size < 1 or (size >= 1 and size == int(size) and size < 2**62)
            ))  # fmt: skip
            if not good:
                raise DatasetError(
                    f"`{name}={size!r}` is no size of a split: expected a count such as 500, or a share below 1 such "
                    f"as 0.1"
                )
        if len(set(self.hold_out)) != len(self.hold_out):
            raise DatasetError(f"`hold_out={self.hold_out!r}` names a relation twice: name each one once")


def _check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise DatasetError(f"`{name}={value!r}` is unknown; {nearest(str(value), known)}")
