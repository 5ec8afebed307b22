"""``relens ranks``: import, pack, show and export ranks."""

import csv
import json
import re
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import get_args

import click

from relens.cli.console import TerminalProgress, emit, note
from relens.cli.device import device_option
from relens.cli.options import jobs_option, json_option, models_option, run_argument
from relens.cli.ranks_report import report
from relens.data import catalog
from relens.data.dataset import Dataset
from relens.data.queries import DIRECTIONS, EVALUATED
from relens.devices import pick_device
from relens.errors import RanksError
from relens.evaluation import model_ranks
from relens.files import write_text
from relens.importers.authors import Form, read_authors
from relens.importers.dense import Dense, Kind, check_shapes, pack_dense
from relens.importers.model_files import check_models
from relens.importers.pykeen import Missing, PykeenFolder
from relens.importers.scorers import pack_scorers
from relens.importers.scores import ArrayOptions, read_arrays, read_scores
from relens.packs.pack import PackedRanks
from relens.packs.reduced import read_reduced, write_reduced
from relens.packs.store import save_pack
from relens.packs.thinning import FINE, Reduction
from relens.runs import RECORD, Run

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def _bytes(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Read a size such as 512M."""
    match = re.fullmatch(r"(\d+)([KMG]?)", value.strip().upper())
    if not match or not int(match[1]):
        raise click.BadParameter(f"{value!r} is not a size: expected a number with K, M or G, such as 512M", ctx, param)
    return int(match[1]) * _UNITS[match[2]]


run_option = click.option("--run", "run_path", required=True, type=click.Path(path_type=Path), help="The run to fill.")
data_option = click.option("--data", "data_name", metavar="DATASET", help="Data set, for labels and known answers.")
relations_option = click.option(
    "--relations", "n_relations", type=click.IntRange(min=1), help="Number of relations.  [default: found from the ids]"
)
gaps_option = click.option(
    "--gaps/--no-gaps", default=None, help="Keep score gaps beside the ranks.  [default: of scores]"
)
filter_option = click.option(
    "--filter/--no-filter", "filtered", default=None,
    help="Leave out known answers and rank the rest anew.  [default: scores with --data]",
)  # fmt: skip
memory_option = click.option(
    "--memory",
    callback=_bytes,
    default="1G",
    show_default=True,
    help="Memory for packing; arrays may be larger.",
)
force_option = click.option("--force", is_flag=True, help="Replace ranks that are there already.")


@click.group()
def ranks() -> None:
    """Import, pack, show and export ranks.

    Packed ranks keep, of all candidates, those that weights can move: all an ensemble needs, in little space.
    """


@ranks.command("import")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--layout", type=click.Choice(["authors", "scores"]), required=True, help="How DIR is laid out.")
@run_option
@click.option("--dataset", help="Folder below DIR/ranks, if there are several (authors).")
@click.option("--form", type=click.Choice(get_args(Form)), default="auto", show_default=True,
              help="What columns are (authors): all entities, or OGB's answers with samples.")  # fmt: skip
@data_option
@models_option
@relations_option
@filter_option
@gaps_option
@memory_option
@jobs_option
@force_option
@json_option
def import_(
    folder: Path,
    layout: str,
    run_path: Path,
    dataset: str | None,
    form: Form,
    data_name: str | None,
    models: list[str],
    n_relations: int | None,
    filtered: bool | None,
    gaps: bool | None,
    memory: int,
    jobs: int,
    force: bool,
    as_json: bool,
) -> None:
    """Import the rank or score files in DIR into a run.

    \b
    authors  DIR/ranks/DATASET/MODEL_{valid,test}_ranks.npy and DIR/dataset/DATASET/{valid,test}_triples.npy,
             as the paper's repository documents them
    scores   DIR/MODEL_{valid,test}_scores.npy and DIR/{valid,test}_queries.tsv (or .npy)
    """
    data = _load(data_name)
    if layout == "authors":
        if gaps:
            raise click.UsageError("--gaps needs scores; the authors' layout has ranks")
        sources = read_authors(
            folder,
            dataset,
            models=models or None,
            n_relations=n_relations,
            filtered=bool(filtered),
            form=form,
            data=data,
        )
    else:
        if dataset or form != "auto":
            raise click.UsageError("--dataset and --form belong to --layout authors")
        options = ArrayOptions(data, n_relations, filtered, gaps)
        sources = read_scores(folder, models=models or None, options=options)
    for dense in sources.values():
        check_shapes(dense)
    name = sources["valid"].header.provenance.dataset
    with Run.receive_ranks(run_path, name, force=force) as stores:
        for split, dense in sources.items():
            _pack(dense, stores / split, memory, jobs)
    report(run_path, jobs, as_json)


@ranks.command()
@click.argument("arrays", metavar="NAME=FILE.npy...", nargs=-1, required=True)
@run_option
@click.option("--split", type=click.Choice(EVALUATED), required=True)
@click.option("--queries", "query_file", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Lines anchor TAB relation TAB direction TAB answer, or a .npy of ids.")  # fmt: skip
@click.option("--scores", "kind", flag_value="scores", default="scores", help="Files hold scores: higher is better.")
@click.option("--ranks", "kind", flag_value="ranks", help="Files hold ranks: 1 is best.")
@data_option
@relations_option
@filter_option
@gaps_option
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
    data_name: str | None,
    n_relations: int | None,
    filtered: bool | None,
    gaps: bool | None,
    memory: int,
    jobs: int,
    force: bool,
    as_json: bool,
) -> None:
    """Pack arrays (queries, entities) of one split, one NAME=FILE.npy per model, into a run."""
    other = next(name for name in EVALUATED if name != split)
    options = ArrayOptions(_load(data_name), n_relations, filtered, gaps)
    dense = read_arrays(
        kind, _named(arrays), query_file, split, other=_packed_or_none(run_path, other), options=options
    )
    with Run.receive_ranks(run_path, dense.header.provenance.dataset, split, force=force) as stores:
        _pack(dense, stores / split, memory, jobs)
    report(run_path, jobs, as_json)


@ranks.command("from-pykeen")
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--dataset", "data_name", required=True, help="What the models were trained on: a name, or a folder.")
@run_option
@click.option("--trust", is_flag=True, help="Load the pickles in DIR, which can run any code: you know who made them.")
@click.option("--names", metavar="A,B,…", help="What to call the models.  [default: the names of the folders]")
@click.option("--missing", type=click.Choice(get_args(Missing)), default="refuse", show_default=True,
              help="Entities that a model was not trained with: refuse it, or rank them last.")  # fmt: skip
@device_option
@click.option("--gaps/--no-gaps", default=True, show_default=True, help="Keep score gaps beside the ranks.")
@memory_option
@jobs_option
@force_option
@json_option
def from_pykeen(
    folders: tuple[Path, ...],
    data_name: str,
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

    DIR is what PyKEEN's pipeline_result.save_to_directory writes. Entities and relations are matched by label. Known
    answers of train, valid and test are left out.
    """
    by_name = _named_folders(folders, names)
    dataset = catalog.load_dataset(data_name, progress=TerminalProgress())
    found = {name: PykeenFolder.open(folder, dataset, missing=missing) for name, folder in by_name.items()}
    chosen = pick_device(device)
    scorers = {name: model.load(chosen, trust=trust) for name, model in found.items()}
    with Run.receive_ranks(run_path, dataset.name, force=force) as stores:
        pack_scorers(scorers, dataset, stores, gaps=gaps, memory_budget=memory, progress=TerminalProgress())
    report(run_path, jobs, as_json)


@ranks.command("show")
@run_argument
@jobs_option
@json_option
def show_(run_path: Path, jobs: int, as_json: bool) -> None:
    """Show the packed ranks of RUN: models, queries, how much of them is contested, where they come from."""
    report(run_path, jobs, as_json)


@ranks.command()
@run_argument
@click.option("--split", type=click.Choice(EVALUATED), default="test", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.  [default: stdout]")
@jobs_option
@json_option
def export(run_path: Path, split: str, output: Path | None, jobs: int, as_json: bool) -> None:
    """Write each model's rank of the answer, query by query, as CSV (or JSON).

    Ranks are realistic: a tied block shares its mean rank. Entities are ids, relations are labels.
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
              help="How many of the others to keep; they stand for the rest.")  # fmt: skip
@models_option
@jobs_option
def reduce(run_path: Path, output: Path, keep: int, sample: int, models: list[str], jobs: int) -> None:
    """Write the packed ranks of RUN to one small file, for searches elsewhere.

    What is computed from it is close, not exact: score gaps are rounded, and of the contested candidates of a query
    the hindmost are represented by a sample. `relens ranks expand` makes a run of it.
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
    """Make a run from a FILE that `relens ranks reduce` wrote."""
    splits = read_reduced(file)
    name = next(iter(splits.values())).provenance.dataset
    with Run.receive_ranks(run_path, name, force=force) as stores:
        for split, packed in splits.items():
            save_pack(packed.select_models(models) if models else packed, stores / split)
    report(run_path, jobs, as_json)


def _load(name: str | None) -> Dataset | None:
    return None if name is None else catalog.load_dataset(name, progress=TerminalProgress())


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
    """Give each folder its name: those of ``--names`` in order, or its own."""
    if names is None:
        chosen = [folder.resolve().name for folder in folders]
    else:
        chosen = [name.strip() for name in names.split(",")]
        if len(chosen) != len(folders):
            raise click.UsageError(f"--names has {len(chosen)} names for {len(folders)} folders: expected one each")
    return dict(zip(check_models(chosen), folders, strict=True))


def _packed_or_none(run_path: Path, split: str) -> PackedRanks | None:
    if not (run_path / RECORD).is_file():
        return None
    run = Run.open(run_path)
    return run.ranks(split) if run.has_ranks(split) else None


def _pack(dense: Dense, path: Path, memory: int, jobs: int) -> None:
    pack_dense(dense, path, memory_budget=memory, jobs=jobs, progress=TerminalProgress())
