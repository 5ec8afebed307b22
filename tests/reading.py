"""Reading sources in tests: the triples as labels, and the notes."""

from pathlib import Path
from typing import Any

from relens.data.preparation.settings import ReadSettings
from relens.data.preparation.sources import read_source
from relens.progress import SILENT

Row = tuple[str, str, str]


def read_parts(source: Any, **settings: Any) -> tuple[dict[str, list[Row]], list[str]]:
    """Return the triples of each split of a source, and the notes."""
    notes: list[str] = []
    graph = read_source(source, ReadSettings(**settings), notes, offline=True, progress=SILENT).graph
    parts = {
        split: [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in part.triples.tolist()]
        for split, part in graph.parts.items()
    }
    return parts, notes


def read(source: Any, **settings: Any) -> tuple[list[Row], list[str]]:
    """Return the triples of a source without splits, and the notes."""
    parts, notes = read_parts(source, **settings)
    assert list(parts) == ["train"]
    return parts["train"], notes


def put(path: Path, text: str, encoding: str = "utf-8") -> Path:
    """Write a text without changing its line ends, and return the path."""
    path.write_bytes(text.encode(encoding))
    return path
