"""Questions: queries by name and by id, options of a prediction, and files of questions.

A line of a file has the tab-separated fields ``anchor relation direction``, or a JSON object with those keys. If the
missing side is the relation, the fields are ``head tail relation``, or the keys ``head`` and ``tail``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from relens.data.queries import DIRECTIONS
from relens.data.tsv import read_lines
from relens.errors import InputError, RelensError, counted

if TYPE_CHECKING:
    from relens.prediction.ensemble import Ensemble

KnownFacts = Literal["drop", "mark"]
KNOWN: tuple[KnownFacts, KnownFacts] = ("drop", "mark")
Question = tuple[str, str, str]
"""Labels of the anchor and the relation, and the direction; or of head and tail, and ``relation``."""
RELATION = "relation"
"""The missing side of questions for relations."""


@dataclass(frozen=True)
class QueryIds:
    """A query in ids; ``direction`` is 0 for tails, 1 for heads."""

    anchor: int
    relation: int
    direction: int


class Asked(NamedTuple):
    """The options of a prediction, see ``Ensemble.predict``."""

    top: int = 10
    known: KnownFacts = "mark"
    explain: bool = False


FIELDS = ("anchor", "relation", "direction")
EXPECTED = f"{', '.join(FIELDS)} (the missing side: {' or '.join(DIRECTIONS)})"
HEADINGS = (FIELDS, ("head", "tail", RELATION))


def read_questions(path: Path, ensemble: "Ensemble") -> list[Question]:
    """Return all questions of a file. Every name is checked; an error names the first wrong line."""
    questions: list[Question] = []
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        question = _from_json(line, where) if line.startswith("{") else _from_tabs(line, where)
        if question in HEADINGS and not questions:
            continue
        if questions and (question[2] == RELATION) != (questions[0][2] == RELATION):
            raise InputError(
                f"{where}: found questions for entities and for relations, whose answers have other columns: put them "
                f"into two files"
            )
        try:
            if question[2] == RELATION:
                ensemble.resolve_pair(*question[:2])
            else:
                ensemble.resolve(*question)
        except InputError as error:
            raise type(error)(f"{where}: {error}") from None
        questions.append(question)
    if not questions:
        raise InputError(f"{path} has no questions: expected one line per question with {EXPECTED}")
    return questions


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the non-empty lines, numbered from 1."""
    try:
        lines = read_lines(path)
    except OSError as error:
        raise RelensError(f"{path} cannot be read: {error.strerror or error}") from error
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _from_tabs(line: str, where: str) -> Question:
    values = line.split("\t")
    if len(values) != len(FIELDS):
        raise InputError(
            f"{where}: found {counted(len(values), 'field')} in {line!r}, expected three separated by tabs: {EXPECTED}"
        )
    return values[0], values[1], values[2]


def _from_json(line: str, where: str) -> Question:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not readable JSON ({error}); expected an object with {EXPECTED}") from error
    if isinstance(value.get("head"), str) and isinstance(value.get("tail"), str):
        return value["head"], value["tail"], RELATION
    missing = [field for field in FIELDS if not isinstance(value.get(field), str)]
    if missing:
        raise InputError(f"{where}: no text under {missing[0]!r} in {line}; expected an object with {EXPECTED}")
    return value["anchor"], value["relation"], value["direction"]
