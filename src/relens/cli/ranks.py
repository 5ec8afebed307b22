"""``relens ranks``: import, pack, show and export ranks."""

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import click

from relens.cli.console import TerminalProgress, emit_exactly, note
from relens.cli.options import (
    declaration,
    device_option,
    jobs_option,
    json_option,
    models_option,
    option_decorator,
    run_argument,
)
from relens.cli.ranks_report import report
from relens.data.catalog import load_dataset
from relens.data.queries import DIRECTIONS, EVALUATED
from relens.devices import pick_device
from relens.errors import RanksError, RelensError
from relens.evaluation import model_ranks
from relens.files import write_text
from relens.importers.arrays import ArrayOptions, check_models, read_arrays
from relens.importers.dense import Kind
from relens.importers.importer import DATA, FILTER, GAPS, IMPORTERS, RELATIONS, TRUST, Importer
from relens.importers.layouts.pykeen import MISSING, Missing, read_pykeen
from relens.options import Option
from relens.packs.pack import PackedRanks
from relens.packs.reduced import read_reduced, write_reduced
from relens.packs.store import save_pack
from relens.packs.thinning import FINE, Reduction
from relens.pipeline.ranking import fill_run, import_ranks
from relens.runs import RECORD, Run
from relens.visible import visible_json

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def _bytes(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Read a size such as 512M."""
    number, unit = value.strip().upper(), ""
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], number[-1]
    if not number.isdecimal() or not int(number):
        raise click.BadParameter(f"{value!r} is not a size: expected a number with K, M or G, such as 512M", ctx, param)
    return int(number) * _UNITS[unit]


run_option = click.option("--run", "run_path", required=True, type=click.Path(path_type=Path), help="The run to fill.")
memory_option = click.option(
    "--memory", callback=_bytes, default="1G", show_default=True, help="Memory for packing; arrays may be larger."
)
force_option = click.option("--force", is_flag=True, help="Replace ranks that are there already.")


class ImportCommand(click.Command):
    """Reads the table of importers when the command is used, and not before."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters: the folder, the layout, the options of all layouts, and the command's own."""
        folder, *own = super().get_params(ctx)
        layout = click.Option(
            ["--layout"], type=click.Choice(list(IMPORTERS)), required=True, help="The layout of DIR."
        )
        return [folder, layout, *self._layout_options(), *own]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text, with a list of all layouts."""
        super().format_help_text(ctx, formatter)
        with formatter.section("Layouts"):
            formatter.write_dl([(importer.name, _summary(importer)) for importer in IMPORTERS.values()])

    def _layout_options(self) -> list[click.Option]:
        """Return the options of all layouts, each once."""
        found: dict[str, Option] = {}
        layouts: dict[str, list[str]] = {}
        for importer in IMPORTERS.values():
            for name, option in importer.all_options.items():
                if found.setdefault(name, option) != option:
                    raise RelensError(
                        f"the layouts {layouts[name][0]} and {importer.name} declare the option {name!r} in different "
                        f"ways: rename one"
                    )
                layouts.setdefault(name, []).append(importer.name)
        options = []
        for name, option in found.items():
            users = layouts[name] if len(layouts[name]) < len(IMPORTERS) else ()
            declarations, attributes = declaration(name, option, option.default, users)
            options.append(click.Option(declarations, **attributes))
        return options


def _summary(importer: Importer) -> str:
    """Return the files of a layout and the options it needs, for the help text."""
    needs = [flag for flag, needed in (("--data", importer.needs_data), ("--trust", importer.needs_trust)) if needed]
    return f"{importer.description}; needs {' and '.join(needs)}" if needs else importer.description


@click.command("import", cls=ImportCommand)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@run_option
@memory_option
@jobs_option
@force_option
@json_option
def import_(
    folder: Path, layout: str, run_path: Path, memory: int, jobs: int, force: bool, as_json: bool, **options: Any
) -> None:
    """Import the rank or score files in DIR into a run."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    declared = {name: option for importer in IMPORTERS.values() for name, option in importer.all_options.items()}
    import_ranks(
        layout,
        folder,
        run=run_path,
        memory_budget=memory,
        jobs=jobs,
        force=force,
        progress=TerminalProgress(),
        **{name: value for name, value in values.items() if value != declared[name].default},
    )
    report(run_path, jobs, as_json=as_json)


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
        text = visible_json({**packed.provenance.to_json(), "columns": headings, "rows": rows})
    else:
        out = StringIO()
        csv.writer(out, lineterminator="\n").writerows([headings, *rows])
        text = out.getvalue().rstrip("\n")
    if output is None:
        emit_exactly(text)
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
