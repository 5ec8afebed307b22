"""Record the results of ``relens run``: the training of each model, and the test metrics of models and methods.

    python benchmarks/record_run.py runs/fb15k-237 --command 'relens run …' --output results/fb15k-237.json

The record leaves out the metrics of every relation, which take megabytes. ``--ranks`` writes the rank of every answer
by every model and method, or by those of ``--columns``, to a second file, from which all metrics can be computed again.
``--models`` compares the methods again with only some of the models. If the ranks were made in another run than the
models, for instance among other candidates, ``--trained`` names the run of the models.
"""

from pathlib import Path
from typing import Any

import click
import numpy as np

from relens.cli.options import jobs_option, models_option, run_argument
from relens.comparison import Comparison, compare
from relens.evaluation import evaluate, model_ranks
from relens.files import read_json, whole_file, write_json
from relens.packs.pack import PackedRanks
from relens.ranking.answer_ranks import AnswerRanks
from relens.runs import COMPARISON, Run
from relens.training.log import LOG, read_log, training_seconds


@click.command()
@run_argument
@click.option("--command", required=True, help="The command that made the run.")
@click.option("--device", required=True, help="Description of the machine.")
@click.option("--trained", type=click.Path(path_type=Path), help="The run that trained the models.  [default: RUN]")
@models_option
@jobs_option
@click.option("--output", required=True, type=click.Path(path_type=Path), help="The JSON file to write.")
@click.option("--ranks", "ranks_path", type=click.Path(path_type=Path), help="The .npz file to write ranks to.")
@click.option("--columns", help="Models and methods whose ranks are written, separated by semicolons.  [default: all]")
def main(
    run_path: Path,
    command: str,
    device: str,
    trained: Path | None,
    models: list[str],
    jobs: int,
    output: Path,
    ranks_path: Path | None,
    columns: str | None,
) -> None:
    """Write a record of RUN."""
    run = Run.open(run_path)
    if models:
        valid, test = (run.ranks(split).select_models(models) for split in ("valid", "test"))
        comparison = compare(valid, test, jobs=jobs)
    else:
        comparison = Comparison.from_json(read_json(run_path / COMPARISON, "comparison"))
    metrics = {evaluation.name: evaluation.to_json() for evaluation in comparison.evaluations}
    source = Run.open(trained or run_path)
    recorded = {name: _model(source, name, entry) for name, entry in metrics.items() if name not in comparison.weights}
    record = {
        "command": command,
        "device": device,
        "provenance": next(iter(metrics.values()))["provenance"],
        "training_seconds": sum(model.get("seconds", 0) for model in recorded.values()),
        "models": recorded,
        "methods": {name: _test(metrics[name]) for name in comparison.weights},
        "notes": list(comparison.notes),
    }
    write_json(output, record)
    if ranks_path:
        packed = run.ranks("test")
        names = columns.split(";") if columns else list(metrics)
        _write_ranks(packed.select_models(models) if models else packed, comparison, names, ranks_path)


def _model(run: Run, name: str, evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the training of a model, its validation MRR by step, its test metrics, and its settings."""
    folder = run.model_path(name)
    if not folder.is_dir():  # trained elsewhere: the run has only its ranks
        return _test(evaluation)
    trained = read_json(folder / "trained" / "model.json", "trained model")
    records = read_log(folder / LOG)
    return {
        **trained["result"],
        "seconds": training_seconds(folder),
        **_test(evaluation),
        "validation_mrr_by_step": {r["step"]: round(r["mrr"], 4) for r in records if r["mrr"] is not None},
        "settings": trained["settings"],
    }


def _test(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the test metrics, the interval, the paired test, and the settings of the fit."""
    return {
        "test": evaluation["overall"],
        "test_interval": evaluation["interval"],
        "paired": evaluation["paired"],
        "fit": evaluation["settings"],
    }


def _write_ranks(test: PackedRanks, comparison: Comparison, names: list[str], path: Path) -> None:
    """Write the candidates ahead of and tied with each answer, (columns, Q), and the groups of the queries."""
    columns: dict[str, AnswerRanks] = {}
    for name in names:
        weights = comparison.weights.get(name)
        ranks = model_ranks(test, name) if weights is None else evaluate(test, weights).answer_ranks
        assert ranks is not None  # only evaluations that come from a file have none
        columns[name] = ranks
    ahead, tied = (np.stack([getattr(ranks, part) for ranks in columns.values()]) for part in ("ahead", "tied"))
    with whole_file(path) as aside, aside.open("wb") as file:
        np.savez_compressed(
            file, names=np.array(list(columns)), relations=np.array(test.relations), relation=test.queries.relation,
            direction=test.queries.direction, triple=test.queries.triple, ahead=_narrow(ahead), tied=_narrow(tied),
        )  # fmt: skip


def _narrow(counts: Any) -> Any:
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


if __name__ == "__main__":
    main()
