"""Fill the tables and figures of README.md and docs/*.md from the committed results.

    python benchmarks/pages.py            # writes them into the pages
    python benchmarks/pages.py --check    # lists those that are out of date, and fails if there are any

A table is between ``<!-- table NAME -->`` and ``<!-- /table -->``, each on a line of its own. A figure is inside a
sentence, between ``<!-- figure NAME -->`` and ``<!-- /figure -->``. The names are those of ``page_tables``, some with
further words: ``training wn18rr``, ``test wn18rr dsc``. Words with spaces are in quotation marks. The rest of a page is
written by hand and left unchanged.
"""

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
from page_tables import FIGURES, TABLES

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"table": TABLES, "figure": FIGURES}
TAG = re.compile(r"<!--\s*(/?)(table|figure)\b\s*(.*?)\s*-->", re.DOTALL)
NO_WORDS = re.compile(r"\s*(?:[-*+>]|\d+[.)])?\s*")
"""Matches the beginning of a line before its first word."""


class Mark(NamedTuple):
    """A pair of marks: its kind and name, and the position of its content in the page."""

    kind: str
    name: str
    start: int
    end: int


class Filled(NamedTuple):
    """A page as it should be, the marks that differed, and the marks that cannot be filled."""

    text: str
    outdated: list[str]
    wrong: list[str]


def pages() -> list[Path]:
    """Return all pages."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; list the marks that are out of date, and fail.")
def main(check: bool) -> None:
    """Fill the marks of all pages."""
    filled = {page: fill(page.read_text(encoding="utf-8"), page.name) for page in pages()}
    wrong = [line for found in filled.values() for line in found.wrong]
    outdated = [line for found in filled.values() for line in found.outdated]
    if wrong or (check and outdated):
        raise click.ClickException("\n".join([*wrong, *outdated]))
    for page, found in filled.items():
        if found.outdated:
            page.write_text(found.text, encoding="utf-8")


def fill(text: str, page: str) -> Filled:
    """Return a page with all its marks filled; ``page`` is its name in messages."""
    found = Filled("", [], [])
    parts, position = [], 0
    for mark in _marks(text, page, found.wrong):
        here = f"{page}:{_line(text, mark.start)}: {mark.kind} {mark.name}"
        content = text[mark.start : mark.end]
        try:
            wanted = render(mark)
        except (LookupError, OSError, ValueError) as error:
            found.wrong.append(f"{here}: cannot be filled: {error}")
            continue
        if mark.kind == "table":
            wanted = f"\n{wanted}\n"
        elif content.split() == wanted.split():  # equal but for line breaks, which the author may choose
            continue
        if content != wanted:
            found.outdated.append(f"{here}: out of date")
            parts += [text[position : mark.start], wanted]
            position = mark.end
    return found._replace(text="".join([*parts, text[position:]]))


def render(mark: Mark) -> str:
    """Return the content of a pair of marks."""
    family, *words = shlex.split(mark.name) or [""]
    if family not in KINDS[mark.kind]:
        raise LookupError(f"unknown name {family!r}")
    fills = KINDS[mark.kind][family]
    try:
        inspect.signature(fills).bind(*words)
    except TypeError as error:
        raise LookupError(f"{error} after {family!r}") from error
    return fills(*words)


def _marks(text: str, page: str, wrong: list[str]) -> Iterator[Mark]:
    """Yield the pairs of marks in a page; add a message to ``wrong`` for every other mark."""
    opened: re.Match[str] | None = None
    for tag in TAG.finditer(text):
        closing, kind, name = tag[1] == "/", tag[2], " ".join(tag[3].split())
        here = f"{page}:{_line(text, tag.start())}: "
        if opened is not None and not (closing and kind == opened[2]):
            wrong.append(f"{page}:{_line(text, opened.start())}: {opened[2]} {opened[3]}: not closed")
            opened = None
        elif closing and opened is not None:
            yield Mark(kind, " ".join(opened[3].split()), opened.end(), tag.start())
            opened = None
            continue
        if closing:
            wrong.append(f"{here}/{kind}: closes nothing")
            continue
        if "--" in name:
            wrong.append(f"{here}{kind} {name}: has two hyphens in a row, which Markdown forbids in comments")
        if kind == "figure" and NO_WORDS.fullmatch(text, text.rfind("\n", 0, tag.start()) + 1, tag.start()):
            wrong.append(f"{here}figure {name}: begins a line, where Markdown ends the paragraph: put a word before it")
        opened = tag
    if opened is not None:
        wrong.append(f"{page}:{_line(text, opened.start())}: {opened[2]} {opened[3]}: not closed")


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


if __name__ == "__main__":
    main()
