"""``relens weights``: show weights, and exchange them with other tools."""

from pathlib import Path

import click
import numpy as np

from relens.cli.console import emit_json, note
from relens.cli.evaluate import load_weights
from relens.cli.options import (
    format_option,
    hold,
    json_option,
    models_option,
    note_stale,
    output_option,
    run_argument,
    show,
    weights_option,
)
from relens.ensemble.exchange import IMPLIED_INPUT, export_csv, export_npy, import_csv, import_npy
from relens.ensemble.inputs import INPUTS
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, nearest
from relens.files import read_json, write_json, write_text
from relens.records import WEIGHTS
from relens.runs import Run
from relens.tables import Column, Row, Table


@click.group()
def weights() -> None:
    """Show, export and import ensemble weights."""


@weights.command("show")
@run_argument
@weights_option
@click.option("--relation", help="Only groups whose label contains this text.")
@format_option
@json_option
@output_option
def show_weights(
    run_path: Path, name: str | None, relation: str | None, form: str, as_json: bool, output: Path | None
) -> None:
    """Show each model's weight in each group; rows sum to 1."""
    run = Run.open(run_path)
    name, found = load_weights(run, name)
    value = {**found.to_json(), "name": name}
    if relation is not None:
        if not any(relation in label for label in found.grouping.labels):
            hint = nearest(relation, found.relations)
            raise InputError(f"no group of the weights {name!r} has {relation!r} in its label; {hint}")
        value["groups"] = {label: group for label, group in value["groups"].items() if relation in label}
    show([weights_table(found, name, relation)], "json" if as_json else form, output, value)


def weights_table(found: EnsembleWeights, name: str, containing: str | None = None) -> Table:
    """Return a table of normalised weights, largest groups first and the fallback last."""
    table = found.normalised()
    order = [g for g in np.argsort(-found.support, kind="stable") if found.own[g]]
    rows = [
        Row((found.grouping.labels[g], int(found.support[g]), *table[g].tolist()))
        for g in order
        if containing is None or containing in found.grouping.labels[g]
    ]
    rest = "all other groups" if order else "all groups"
    rows.append(Row((rest, None, *(found.fallback / found.fallback.sum()).tolist())))
    facts = {
        "data set": found.dataset[0],
        **({} if found.settings.get("method") == "imported" else {"fitted on": "valid"}),
        "input": found.input,
        "grouping": found.grouping.scheme,
        **{key: str(value) for key, value in found.settings.items() if key in ("method", "searcher", "kappa", "seed")},
    }
    columns = (Column("group", align="left"), Column("queries", ",d"), *(Column(m, ".3f") for m in found.models))
    return Table(f"Weights {name}", columns, tuple(rows), facts, found.notes)


@weights.command("export")
@run_argument
@weights_option
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="FILE.json, FILE.csv or FILE.npy.")
def export_weights(run_path: Path, name: str | None, output: Path) -> None:
    """Write weights to a file: .json (everything), .csv (a table), or .npy (the paper authors' format)."""
    run = Run.open(run_path)
    _, found = load_weights(run, name)
    if output.suffix == ".json":
        write_json(output, found.to_json())
    elif output.suffix == ".csv":
        write_text(output, export_csv(found))
    elif output.suffix == ".npy":
        export_npy(found, output)
    else:
        raise InputError(f"unknown format of {output}: expected a name that ends in .json, .csv or .npy")
    note(f"wrote {output}; models in order: {', '.join(found.models)}")
    if output.suffix != ".json" and found.input != IMPLIED_INPUT:
        note(
            f"the file does not say that the weights are for the input {found.input}: import with --input {found.input}"
        )


@weights.command("import")
@run_argument
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--name", help="Name of the weights in the run.  [default: the file's name]")
@models_option
@click.option(
    "--group", metavar="relation-direction|relation|FILE", default="relation-direction", show_default=True,
    help="Grouping of a .csv file's labels.",
)  # fmt: skip
@click.option(
    "--input", "input_name", type=click.Choice(list(INPUTS)), default=IMPLIED_INPUT, show_default=True,
    help="What the weights of a .csv or .npy file are applied to.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace weights of that name.")
@json_option
def import_weights(
    run_path: Path,
    file: Path,
    name: str | None,
    models: list[str],
    group: str,
    input_name: str,
    force: bool,
    as_json: bool,
) -> None:
    """Import weights from a file into RUN: .json as exported, .csv, or the paper authors' .npy table.

    The columns of an .npy table are the run's models in their order, or those of --models.
    """
    if models and file.suffix != ".npy":
        raise click.UsageError(f"--models names the columns of an .npy table; {file.name} names its models itself")
    run = hold(run_path)
    name = file.stem if name is None else name
    path = run.weights_path(name)
    if path.exists() and not force:
        raise InputError(f"{run.path} has weights {path.stem!r} already: give --force to replace them, or a new --name")
    split = "valid" if run.has_ranks("valid") else "test"
    packed = run.ranks(split)
    if file.suffix == ".json":
        found = EnsembleWeights.from_json(read_json(file, "weights", WEIGHTS.remedy), str(file))
    elif file.suffix == ".csv":
        found = import_csv(file, packed, group, input_name)
    elif file.suffix == ".npy":
        found = import_npy(file, packed, models or packed.models, input_name)
    else:
        raise InputError(f"unknown format of {file}: expected a name that ends in .json, .csv or .npy")
    found.aligned_to(packed.select_models(found.models))
    run.keep_weights(name, found)
    note_stale(run)
    if as_json:
        emit_json({"weights": str(path), "models": list(found.models), "groups": int(found.own.sum())})
    else:
        note(f"wrote {path}: {int(found.own.sum())} groups of {', '.join(found.models)}")
