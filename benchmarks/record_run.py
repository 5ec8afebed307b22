"""Write down what a run of ``relens run`` gave: how each model was trained, and what models and methods are worth on test.

    python benchmarks/record_run.py runs/fb15k-237 --command 'relens run …' --output docs/results/fb15k-237-h200.json

The printed JSON has the metrics of every relation as well, megabytes of them; this record leaves those out.
"""

import json
from pathlib import Path
from typing import Any

import click

from relens.files import read_json, write_json
from relens.run import COMPARISON, Run


@click.command()
@click.argument("path", metavar="RUN", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--command", required=True, help="The command that made the run.")
@click.option("--device", required=True, help="What it ran on, in words.")
@click.option("--output", required=True, type=click.Path(path_type=Path), help="The JSON file to write.")
def main(path: Path, command: str, device: str, output: Path) -> None:
    """Write a record of RUN."""
    run = Run.open(path)
    comparison = read_json(path / COMPARISON, "comparison")
    test = {entry["name"]: entry for entry in comparison["evaluations"]}
    record: dict[str, Any] = {
        "command": command,
        "device": device,
        "provenance": next(iter(test.values()))["provenance"],
        "models": {name: _model(run, name, test[name]) for name in run.model_names()},
        "methods": {name: _method(entry) for name, entry in test.items() if name in comparison["weights"]},
        "notes": comparison["notes"],
    }
    record["training_seconds"] = sum(model["seconds"] for model in record["models"].values())
    write_json(output, record)


def _model(run: Run, name: str, evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a model: its training, validation MRRs by step, test metrics, and settings."""
    folder = run.model_path(name)
    trained = read_json(folder / "trained" / "model.json", "trained model")
    records = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return {
        **trained["result"],
        "test": evaluation["overall"],
        "test_interval": evaluation["interval"],
        "validation_mrr_by_step": {r["step"]: round(r["mrr"], 4) for r in records if r["mrr"] is not None},
        "settings": trained["settings"],
    }


def _method(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return what a method gave on test, how it was fitted, and how it compares with the best single model."""
    return {
        "test": evaluation["overall"],
        "test_interval": evaluation["interval"],
        "paired": evaluation["paired"],
        "settings": evaluation["settings"],
    }


if __name__ == "__main__":
    main()
