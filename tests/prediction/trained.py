"""A run of small models on the generated graph, trained for a few steps, with weights of several inputs."""

from pathlib import Path

import torch

from relens.ensemble.search import search
from relens.runs import Run
from tests.cli.commands import succeed

SMALL = ("--preset", "demo", "--set", "dim=16", "--set", "steps=60", "--set", "validate_every=60", "--set", "batch=128")
MODELS = ("transe", "complex", "rotate")
INPUTS = ("rank", "log", "score")


def make_run(path: Path) -> Run:
    """Train, rank and fit weights called dsc-INPUT."""
    torch.set_num_threads(1)
    for model in MODELS:
        succeed("train", "patterns", "--model", model, "--run", path, "--device", "cpu", *SMALL)
    succeed("rank", path, "--device", "cpu")
    run = Run.open(path)
    for name in INPUTS:
        search(run.ranks("valid"), method="dsc", input=name, regularise="none").save(run.weights_path(f"dsc-{name}"))
    return run


FIRMS, CITIES, PEOPLE, NEWCOMERS = 12, 5, 72, 12


def town_facts(person: int) -> list[tuple[str, str, str]]:
    """Return where someone works, and that they live where the firm is: ``lives_in`` is composed."""
    firm = person % FIRMS
    return [(f"person_{person}", "works_at", f"firm_{firm}"), (f"person_{person}", "lives_in", f"city_{firm % CITIES}")]


def make_town(folder: Path) -> Path:
    """Write a data set: firms in cities, people at firms. The homes of some people are held out."""
    firms = [(f"firm_{firm}", "located_in", f"city_{firm % CITIES}") for firm in range(FIRMS)]
    works, lives = zip(*(town_facts(person) for person in range(PEOPLE)), strict=True)
    folder.mkdir(parents=True)
    splits = {"train": [*firms, *works, *lives[24:]], "valid": lives[:12], "test": lives[12:24]}
    for split, rows in splits.items():
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    (folder / "labels.tsv").write_text("city_0\tOslo\n")
    return folder


PROPAGATING = ("width=16", "layers=3", "steps=80", "validate_every=80", "batch=16", "lr=0.01")


def make_town_run(folder: Path, path: Path) -> Run:
    """Train an embedding and a propagating model on the town, and give both a weight, or one of them alone."""
    torch.set_num_threads(1)
    changes = [word for change in PROPAGATING for word in ("--set", change)]
    succeed("train", folder, "--model", "nbfnet", "--run", path, "--device", "cpu", "--preset", "demo", *changes)
    succeed("train", folder, "--model", "transe", "--run", path, "--device", "cpu", *SMALL)
    succeed("rank", path, "--device", "cpu")
    run = Run.open(path)
    for name in INPUTS:
        search(run.ranks("valid"), method="mean", input=name).save(run.weights_path(name))
    for model in run.model_names:
        some = run.ranks("valid").select_models([model])
        search(some, method="mean", input="rank").save(run.weights_path(model))
    return run
