"""The tiny graph and the tiny run that campaigns attack."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

MODELS = ("transe", "complex")
CHANGES = ("dim=8", "steps=20", "validate_every=10", "batch=64")
"""Settings that make training take less than a second."""


def write_ring(folder: Path) -> Path:
    """Write a graph with all optional files: a ring of twelve entities with two relations; return its folder."""
    graph = folder / "ring"
    graph.mkdir()
    rows = [
        (f"e{i}", relation, f"e{to % 12}") for i in range(12) for relation, to in (("next", i + 1), ("twice", 2 * i))
    ]
    for split, part in (("train", rows[8:]), ("valid", rows[:4]), ("test", rows[4:8])):
        (graph / f"{split}.txt").write_text(lines(part))
    for split, part in (("valid", rows[:4]), ("test", rows[4:8])):
        wrong = [(head, relation, f"e{(int(tail[1:]) + 5) % 12}") for head, relation, tail in part]
        (graph / f"{split}_negatives.txt").write_text(lines(wrong))
    (graph / "labels.tsv").write_text(lines((f"e{i}", f"Place {i}") for i in range(12)))
    (graph / "relation_labels.tsv").write_text(lines([("next", "is followed by"), ("twice", "doubles to")]))
    (graph / "types.tsv").write_text(lines((f"e{i}", ("even", "odd")[i % 2]) for i in range(12)))
    return graph


def lines(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a table of tab-separated fields."""
    return "".join("\t".join(row) + "\n" for row in rows)


def write_questions(folder: Path, graph: Path) -> None:
    """Write files of questions about the test triples of the ring: entities, relations, and the triples themselves."""
    triples = [line.split("\t") for line in (graph / "test.txt").read_text().splitlines()]
    rows = [row for h, r, t in triples for row in ((h, r, "tail"), (t, r, "head"))]
    (folder / "questions.tsv").write_text(lines(rows))
    (folder / "pairs.tsv").write_text(lines((h, t, "relation") for h, _, t in triples))
    (folder / "triples.tsv").write_text(lines([*triples, ("e1", "twice", "e7"), ("e5", "next", "e1")]))


def train(folder: Path) -> Path:
    """Train two models on the ring, fit the mean of their ranks, and return the run."""
    run = folder / "run"
    arguments = {
        "dataset": str(write_ring(folder)), "run": str(run), "models": [*MODELS], "preset": "demo", "device": "cpu",
        "jobs": 1, "changes": [*CHANGES], "methods": ["mean"], "report": False,
    }  # fmt: skip
    # In a process of its own: torch stays out of this one.
    command = [sys.executable, "-c", f"import relens; relens.run(**{arguments!r})"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the run that the attacks need cannot be trained:\n{done.stderr}")
    return run
