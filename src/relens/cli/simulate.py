"""``relens simulate``: all stages after training, on simulated models, in seconds and without data."""

import shlex
from pathlib import Path

import click

from relens.cli.compare import present
from relens.cli.console import TerminalProgress, note
from relens.cli.options import hold, jobs_option, json_option, seed_option
from relens.comparison import compare
from relens.data.queries import EVALUATED
from relens.ensemble.settings import SearchSettings
from relens.errors import InputError
from relens.packs.simulation import Simulation
from relens.packs.store import save_pack
from relens.runs import RECORD, Run

DATASET = "simulated"
MODELS = ("translation", "rotation", "bilinear", "convolution", "graph")
TRIPLES = (400, 320, 260, 220, 180, 150, 120, 100, 80, 60, 40, 20)


@click.command()
@click.option(
    "--run", "run_path", type=click.Path(path_type=Path), default=Path("runs/simulated"), show_default=True,
    help="The run for ranks and weights; an earlier simulation there is replaced.",
)  # fmt: skip
@seed_option
@jobs_option
@json_option
def simulate(run_path: Path, seed: int, jobs: int, as_json: bool) -> None:
    """Simulate five models that are good at different relations, and compare methods to combine them.

    The scores of the models are random numbers, with a skill that depends on the relation. The later stages are real:
    packing, search on the validation split, evaluation on the test split.
    """
    if (run_path / RECORD).is_file() and Run.open(run_path).dataset != DATASET:
        raise InputError(f"{run_path} holds ranks that are not simulated: choose another place with --run")
    simulation = Simulation(
        MODELS, TRIPLES, n_entities=2000, level=(2.4, 1.1), skill=0.45, noise=0.5, agreement=0.6, seed=seed
    )
    note(f"simulating {len(MODELS)} models on {2 * sum(TRIPLES):,} queries per split, {len(TRIPLES)} relations")
    progress = TerminalProgress()
    packed = {split: simulation.packed(split, jobs=jobs, progress=progress) for split in EVALUATED}
    with Run.receive_ranks(run_path, DATASET, force=True) as folder:
        for split, ranks in packed.items():
            save_pack(ranks, folder / split)
    comparison = compare(
        packed["valid"], packed["test"], settings=SearchSettings(seed=seed), jobs=jobs, progress=progress
    )
    run = hold(run_path)
    comparison.weights["dsc"].save(run.weights_path("dsc"))
    present(comparison, packed["valid"], "json" if as_json else "text")
    where = shlex.quote(str(run_path))
    note(f"next: relens weights show {where}; relens evaluate {where} --by relation; relens ranks show {where}")
