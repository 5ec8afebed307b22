"""``relens ranks``: import, pack, show and export ranks."""

import csv
import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path

import click

from relens.cli.console import TerminalProgress, emit, note
from relens.cli.options import device_option, jobs_option, json_option, models_option, option_decorator, run_argument
from relens.cli.ranks_import import force_option, import_, memory_option, run_option
from relens.cli.ranks_report import report
from relens.data.catalog import load_dataset
from relens.data.queries import DIRECTIONS, EVALUATED
from relens.devices import pick_device
from relens.errors import RanksError
from relens.evaluation import model_ranks
from relens.files import write_text
from relens.importers.arrays import ArrayOptions, check_models, read_arrays
from relens.importers.dense import Kind
from relens.importers.importer import DATA, FILTER, GAPS, RELATIONS, TRUST
from relens.importers.layouts.pykeen import MISSING, Missing, read_pykeen
from relens.packs.pack import PackedRanks
from relens.packs.reduced import read_reduced, write_reduced
from relens.packs.store import save_pack
from relens.packs.thinning import FINE, Reduction
from relens.pipeline.ranking import fill_run
from relens.runs import RECORD, Run


@click.group()
def ranks() -> None:
    """Import, pack, show and export ranks.

    Packed ranks keep only the candidates that weights can move. That is all an ensemble needs, in little space.
    """


ranks.add_command(import_)


@ranks.command()
@click.argument("arrays", metavar="NAME=FILE.npy...", nargs=-1, required=True)
@run_option
@click.option("--split", type=click.Choice(EVALUATED), required=True)
@click.option("--queries", "query_file", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Lines anchor TAB relation TAB direction TAB answer, or a .npy of ids.")  # fmt: skip
@click.option("--scores", "kind", flag_value="scores", default="scores", help="Files hold scores: higher is better.")
@click.option("--ranks", "kind", flag_value="ranks", help="Files hold ranks: 1 is best.")
@option_decorator("data", DATA)
@option_decorator("n_relations", RELATIONS)
@option_decorator("filtered", FILTER)
@option_decorator("gaps", GAPS)
@memory_option
@jobs_option
@force_option
@json_option
def pack(
    arrays: tuple[str, ...],
    run_path: Path,
    split: str,
    query_file: Path,
    kind: Kind,
    data: str | None,
    n_relations: int | None,
    filtered: bool | None,
    gaps: bool | None,
    memory: int,
    jobs: int,
    force: bool,
    as_json: bool,
) -> None:
    """Pack arrays (queries, entities) of one split, one NAME=FILE.npy per model, into a run."""
    progress = TerminalProgress()
    other = next(name for name in EVALUATED if name != split)
    options = ArrayOptions(load_dataset(data, progress=progress) if data else None, n_relations, filtered, gaps)
    dense = read_arrays(
        kind, _named(arrays), query_file, split, other=_packed_or_none(run_path, other), options=options
    )
    fill_run(run_path, {split: dense}, memory_budget=memory, jobs=jobs, force=force, progress=progress)
    report(run_path, jobs, as_json=as_json)


@ranks.command("from-pykeen")
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--dataset", "data", required=True, help="The data set that the models were trained on: a name, or a folder."
)
@run_option
@option_decorator("trust", TRUST)
@click.option("--names", metavar="A,B,…", help="Names of the models.  [default: the names of the folders]")
@option_decorator("missing", MISSING)
@device_option
@click.option("--gaps/--no-gaps", default=True, show_default=True, help="Keep score gaps beside the ranks.")
@memory_option
@jobs_option
@force_option
@json_option
def from_pykeen(
    folders: tuple[Path, ...],
    data: str,
    run_path: Path,
    trust: bool,
    names: str | None,
    missing: Missing,
    device: str,
    gaps: bool,
    memory: int,
    jobs: int,
    force: bool,
    as_json: bool,
) -> None:
    """Rank with trained PyKEEN models, all at once, and keep packed ranks in a run.

    DIR is a folder written by PyKEEN's pipeline_result.save_to_directory. Entities and relations are matched by label.
    Known answers of train, valid and test are left out.
    """
    progress = TerminalProgress()
    splits = read_pykeen(
        _named_folders(folders, names),
        load_dataset(data, progress=progress),
        trust=trust,
        missing=missing,
        gaps=gaps,
        device=pick_device(device),
        memory_budget=memory,
    )
    fill_run(run_path, splits, memory_budget=memory, jobs=jobs, force=force, progress=progress)
    report(run_path, jobs, as_json=as_json)


@ranks.command("show")
@run_argument
@jobs_option
@json_option
def show_(run_path: Path, jobs: int, as_json: bool) -> None:
    """Show the packed ranks of RUN: models, queries, contested candidates and provenance."""
    report(run_path, jobs, as_json=as_json)


@ranks.command()
@run_argument
@click.option("--split", type=click.Choice(EVALUATED), default="test", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.  [default: stdout]")
@jobs_option
@json_option
def export(run_path: Path, split: str, output: Path | None, jobs: int, as_json: bool) -> None:
    """Write each model's rank of the answer, query by query, as CSV (or JSON).

    Ranks are realistic: a tied block shares its mean rank. Relations are written as labels. Entities are written as
    ids, because packed ranks hold no entity labels; id e is the e-th label of the data set in sorted order.
    """
    packed = Run.open(run_path).ranks(split)
    headings = ["anchor", "relation", "direction", "answer", *packed.models]
    queries = packed.queries
    columns = [
        queries.anchor.tolist(),
        [packed.relations[relation] for relation in queries.relation.tolist()],
        [DIRECTIONS[direction] for direction in queries.direction.tolist()],
        queries.answer.tolist(),
        *(model_ranks(packed, model, jobs=jobs).realistic.tolist() for model in packed.models),
    ]
    rows = list(zip(*columns, strict=True))
    if as_json:
        text = json.dumps({**asdict(packed.provenance), "columns": headings, "rows": rows}, ensure_ascii=False)
    else:
        out = StringIO()
        csv.writer(out, lineterminator="\n").writerows([headings, *rows])
        text = out.getvalue().rstrip("\n")
    if output is None:
        emit(text)
    else:
        write_text(output, text + "\n")
        note(f"wrote the ranks of {len(rows):,} queries to {output}")


@ranks.command()
@run_argument
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The file to write (.npz).")
@click.option("--keep", type=click.IntRange(min=1), default=FINE.keep, show_default=True,
              help="Contested candidates to keep of each query: those with the best rank in any model.")  # fmt: skip
@click.option("--sample", type=click.IntRange(min=1), default=FINE.sample, show_default=True,
              help="How many of the others to keep, as a sample of all of them.")  # fmt: skip
@models_option
@jobs_option
def reduce(run_path: Path, output: Path, keep: int, sample: int, models: list[str], jobs: int) -> None:
    """Write the packed ranks of RUN to one small file, for searches elsewhere.

    Numbers computed from the file are close, not exact: score gaps are rounded, and a sample represents the last
    contested candidates of each query. `relens ranks expand` turns the file into a run.
    """
    run = Run.open(run_path)
    splits = {split: run.ranks(split) for split in EVALUATED if run.has_ranks(split)}
    if not splits:
        raise RanksError(f"{run_path} has no ranks yet: add them with `relens rank` or `relens ranks import`.")
    if models:
        splits = {split: packed.select_models(models) for split, packed in splits.items()}
    write_reduced(splits, output, Reduction(keep, sample), jobs=jobs)
    note(f"wrote the ranks of {' and '.join(splits)} to {output}, {output.stat().st_size / 1e6:,.1f} MB")


@ranks.command()
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@run_option
@models_option
@jobs_option
@force_option
@json_option
def expand(file: Path, run_path: Path, models: list[str], jobs: int, force: bool, as_json: bool) -> None:
    """Create a run from a FILE written by `relens ranks reduce`."""
    splits = read_reduced(file)
    name = next(iter(splits.values())).provenance.dataset
    with Run.receive_ranks(run_path, name, force=force) as stores:
        for split, packed in splits.items():
            save_pack(packed.select_models(models) if models else packed, stores / split)
    report(run_path, jobs, as_json=as_json)


def _named(arrays: tuple[str, ...]) -> dict[str, Path]:
    """Read NAME=FILE arguments."""
    named: dict[str, Path] = {}
    for text in arrays:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise click.UsageError(f"{text!r} is not NAME=FILE.npy")
        if name in named:
            raise RanksError(f"two models are called {name!r}: rename or leave out one.")
        named[name] = Path(file)
    return named


def _named_folders(folders: tuple[Path, ...], names: str | None) -> dict[str, Path]:
    """Return the folders by name: the names of ``--names`` in order, or the names of the folders."""
    if names is None:
        chosen = [folder.resolve().name for folder in folders]
    else:
        chosen = [name.strip() for name in names.split(",")]
        if len(chosen) != len(folders):
            raise click.UsageError(f"--names has {len(chosen)} of {len(folders)} names: expected one for each folder")
    return dict(zip(check_models(chosen), folders, strict=True))


def _packed_or_none(run_path: Path, split: str) -> PackedRanks | None:
    if not (run_path / RECORD).is_file():
        return None
    run = Run.open(run_path)
    return run.ranks(split) if run.has_ranks(split) else None
