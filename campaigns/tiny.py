"""The tiny graph and the tiny run that campaigns attack."""

import subprocess
import sys
from pathlib import Path

MODELS = ("transe", "complex")
CHANGES = ("dim=8", "steps=20", "validate_every=10", "batch=64")
"""Settings that make training take less than a second."""


def write_ring(folder: Path) -> Path:
    """Write a graph: a ring of twelve entities with two relations, as three files of triples; return its folder."""
    graph = folder / "ring"
    graph.mkdir()
    rows = [
        (f"e{i}", relation, f"e{to % 12}") for i in range(12) for relation, to in (("next", i + 1), ("twice", 2 * i))
    ]
    for split, part in (("train", rows[8:]), ("valid", rows[:4]), ("test", rows[4:8])):
        (graph / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in part))
    return graph


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
