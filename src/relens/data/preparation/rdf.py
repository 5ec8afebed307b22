"""RDF: N-Triples, read line by line, and Turtle. Only triples of three IRIs are facts about entities."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from relens.data.preparation.content import encoding_errors, open_text
from relens.data.preparation.facts import Block, Encoder, Facts
from relens.data.preparation.settings import ReadSettings
from relens.errors import DatasetError, MissingExtraError, counted

_LINE = re.compile(r"\s*(<[^<>\s]*>|_:\S+)\s+<[^<>\s]*>\s+\S.*\.\s*(#.*)?")
_NOT_IN_IRIS = re.compile(r'[\x00-\x20<>"{}|\\^`]')
_BLOCK = 2**11
_LITERAL = object()

Triple = tuple[str, str, str]
Numbered = tuple[int, Triple]


def looks_like_ntriples(line: str) -> bool:
    """Say whether a line of text is likely to be a triple in N-Triples."""
    return _LINE.fullmatch(line.rstrip("\r\n")) is not None


def read_ntriples(path: Path, content: bytes, settings: ReadSettings, encoder: Encoder, notes: list[str]) -> Facts:
    """Read N-Triples. An invalid line is an error that names it."""
    skipped: Counter[str] = Counter()
    with encoding_errors(path, content, "utf-8"), open_text(path, content, "utf-8") as lines, _without_warnings():
        rows = _statements(path, lines, settings, skipped)
        facts = encoder.collect(str(path), "line", _blocks(rows))
    notes += _skipped_note(path, skipped, len(facts))
    return facts


def read_turtle(path: Path, content: bytes, settings: ReadSettings, encoder: Encoder, notes: list[str]) -> Facts:
    """Read Turtle. A syntax error names the line."""
    skipped: Counter[str] = Counter()
    with encoding_errors(path, content, "utf-8"), open_text(path, content, "utf-8") as stream:
        text = stream.read()
    with _without_warnings():
        found = _parsed_turtle(path, text)
    rows = (
        (number, triple)
        for number, terms in enumerate(found, start=1)
        if (triple := _entities(terms, settings, skipped, f"{path}, triple {number:,}")) is not None
    )
    facts = encoder.collect(str(path), "triple", _blocks(rows))
    notes += _skipped_note(path, skipped, len(facts))
    return facts


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep rdflib from logging strange IRIs one by one: relens raises an error about them."""
    logger = logging.getLogger("rdflib.term")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _statements(path: Path, lines: Any, settings: ReadSettings, skipped: Counter[str]) -> Iterator[Numbered]:
    """Yield the number and the IRIs of each line whose terms are all entities."""
    ntriples = _rdflib("plugins.parsers.ntriples")
    parse = _line_parser(ntriples)
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number:,}"
        try:
            terms = parse(line.rstrip("\r\n"))
        except ntriples.ParseError as error:
            raise DatasetError(
                f"{where}: {line.strip()[:200]!r} is not valid N-Triples ({str(error)[:200]}), expected <head> "
                f"<relation> <tail> . with absolute IRIs. Correct or remove the line."
            ) from error
        if terms is not None and (triple := _entities(terms, settings, skipped, where)) is not None:
            yield number, triple


def _line_parser(ntriples: Any) -> Callable[[str], Any]:
    """Return a function that turns a line into its three terms, or None for an empty line or a comment."""

    class Parser(ntriples.W3CNTriplesParser):  # type: ignore[misc]
        """rdflib's parser of lines; literals are recognised without making their values, which may be invalid."""

        def literal(self) -> Any:
            return self.peek('"') and self.eat(ntriples.r_literal) and _LITERAL

    class Sink:
        """Keeps the last triple."""

        terms: Any = None

        def triple(self, *terms: Any) -> None:
            self.terms = terms

    sink = Sink()
    parser = Parser(sink)

    def parse(line: str) -> Any:
        sink.terms = None
        parser.line = line
        parser.parseline()
        return sink.terms

    return parse


def _parsed_turtle(path: Path, text: str) -> list[Any]:
    """Return the triples of a Turtle text as terms of rdflib, in the order of the text."""
    rdflib, notation3 = _rdflib(), _rdflib("plugins.parsers.notation3")

    class Collector(rdflib.Graph):  # type: ignore[misc, name-defined]
        """A graph that only remembers what is added."""

        def add(self, triple: Any) -> Any:
            found.append(triple)
            return self

    found: list[Any] = []
    try:
        Collector().parse(data=text + "\n", format="turtle", publicID=f"file:///{path.name}")
    except notation3.BadSyntax as error:
        number = min(error.lines, text.rstrip().count("\n")) + 1  # not the line after the last one
        raise DatasetError(f"{path}, line {number:,}: not valid Turtle ({error._why}). Correct the line.") from error
    except (rdflib.exceptions.Error, ValueError, LookupError, TypeError, AssertionError, RecursionError) as error:
        raise DatasetError(
            f"{path} is not valid Turtle ({type(error).__name__}: {str(error)[:200]}). Convert it to N-Triples, whose "
            f"errors name the line."
        ) from error
    return found


def _entities(terms: Any, settings: ReadSettings, skipped: Counter[str], where: str) -> Triple | None:
    """Return the IRIs of three terms, or None if one is a blank node or a literal that is to be skipped."""
    term = _rdflib("term")
    if any(found is _LITERAL or isinstance(found, term.Literal) for found in terms):
        kind, treatment, option = "literal", settings.literals, "literals"
    elif any(isinstance(found, term.BNode) for found in terms):
        kind, treatment, option = "blank node", settings.blank_nodes, "blank_nodes"
    else:
        head, relation, tail = map(str, terms)
        for iri in (head, relation, tail):
            if _NOT_IN_IRIS.search(iri):
                raise DatasetError(
                    f"{where}: {iri[:200]!r} is no IRI, which has no spaces, quotes or brackets. Correct the line."
                )
        return head, relation, tail
    if treatment == "error":
        raise DatasetError(
            f"{where}: found a {kind}, which is no entity of a graph. Remove the triple, or pass `{option}=skip` to "
            f"count and skip such triples."
        )
    skipped[kind] += 1
    return None


def _skipped_note(path: Path, skipped: Counter[str], kept: int) -> list[str]:
    if not skipped:
        return []
    what = " and ".join(
        f"{counted(skipped[kind], 'triple')} with a {kind}" for kind in ("literal", "blank node") if skipped[kind]
    )
    return [f"{path}: skipped {what}, kept {counted(kept, 'triple')} of IRIs"]


def _blocks(rows: Iterator[Numbered]) -> Iterator[Block]:
    """Yield heads, relations and tails, some rows at a time."""
    while some := list(islice(rows, _BLOCK)):
        numbers, triples = zip(*some, strict=True)
        yield Block(numbers, tuple(zip(*triples, strict=True)))


def _rdflib(module: str = "") -> Any:
    """Import rdflib, or one of its modules."""
    try:
        return import_module(f"rdflib.{module}" if module else "rdflib")
    except ImportError as error:
        raise MissingExtraError("reading RDF", "rdf") from error
