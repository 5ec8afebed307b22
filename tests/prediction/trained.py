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
