"""A run with members of every origin: two models of relens, two of PyKEEN, and scorers of a Python module."""

from pathlib import Path

import torch

from relens.data.dataset import Dataset
from relens.ensemble.search import search
from relens.runs import Run
from tests.cli.commands import succeed
from tests.pykeen_folders import ring, save, train, write_graph

GRAPH: Dataset = ring("ring", 40, list(range(2, 119, 3)))
INPUTS = ("rank", "log", "score")
MODULE = "scorers_of_others"
"""A module that tests write where Python finds it; it says on a file that it was imported."""
SOURCE = '''
import pathlib

import numpy as np

pathlib.Path(__file__).with_name("imported").touch()


class Frequency:
    """Score an entity by how often it answered the same relation in training."""

    def __init__(self, dataset, scale=1.0, offset=0, dtype="float32"):
        asked = dataset.queries("train")
        self.counts = np.zeros((len(dataset.relations), 2, len(dataset.entities)), dtype=dtype)
        np.add.at(self.counts, (asked.relation, asked.direction, asked.answer), 1)
        # Positions break ties between counts. Beside a large offset, float32 would round counts and positions away.
        self.counts += np.linspace(0, 0.5, len(dataset.entities), dtype=dtype)
        self.scale, self.offset = scale, offset

    def score(self, queries):
        return self.offset + self.scale * self.counts[queries.relation, queries.direction]


class Mood(Frequency):
    """Fails as a file beside the module says."""

    def score(self, queries):
        scores = super().score(queries)
        mood = pathlib.Path(__file__).with_name("mood")
        what = mood.read_text() if mood.exists() else ""
        if what == "raises":
            raise KeyError("no such table")
        if what == "exits":
            raise SystemExit(3)
        if what == "nan":
            scores[0, 0] = np.nan
        return scores[:, 1:] if what == "shape" else scores.tolist() if what == "list" else scores


def broken(dataset):
    raise RuntimeError("no table of counts here")


def nothing(dataset):
    return None


number = 3
'''
SMALL = ("--preset", "demo", "--set", "dim=8", "--set", "steps=20", "--set", "validate_every=20", "--set", "batch=64")


def write_module(folder: Path) -> Path:
    """Write the module of scorers into a new folder, which must be put on the path."""
    folder.mkdir()
    (folder / f"{MODULE}.py").write_text(SOURCE)
    return folder


def save_models(folder: Path) -> Path:
    """Train two models with PyKEEN on the graph and save them."""
    return save(
        folder, pk_transe=train("TransE", dataset=GRAPH), pk_distmult=train("DistMult", dataset=GRAPH, inverse=True)
    )


def make_own(folder: Path, path: Path) -> Run:
    """Train and rank two models of relens."""
    torch.set_num_threads(1)
    graph = write_graph(folder / "ring", GRAPH)
    for model in ("transe", "complex"):
        succeed("train", graph, "--model", model, "--run", path, "--device", "cpu", *SMALL)
    succeed("rank", path, "--device", "cpu")
    return Run.open(path)


def fit(run: Run) -> None:
    """Fit weights of several inputs: by relation, and with equal weights so that every member has one."""
    for name in INPUTS:
        search(run.ranks("valid"), method="dsc", input=name, regularise="none").save(run.weights_path(f"dsc-{name}"))
        search(run.ranks("valid"), method="mean", input=name).save(run.weights_path(f"mean-{name}"))
