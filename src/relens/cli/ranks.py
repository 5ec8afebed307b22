"""``relens ranks``: import, pack, show and export ranks."""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np

from relens.cli.console import TerminalProgress, emit, note
from relens.cli.options import jobs_option, json_option, models_option, run_argument, show
from relens.data import catalog
from relens.data.dataset import Dataset
from relens.data.groups import Grouping
from relens.data.queries import DIRECTIONS
from relens.ensemble.baselines import model_mrrs
from relens.errors import RanksError
from relens.evaluate import model_ranks
from relens.files import write_text
from relens.ranks.authors import Form, read_authors
from relens.ranks.dense import Dense, Kind, pack_dense
from relens.ranks.model_files import SPLITS
from relens.ranks.packed import TIE_RULE, PackedRanks
from relens.ranks.scores import ArrayOptions, read_arrays, read_scores
from relens.ranks.store import n_bytes
from relens.run import RECORD, Run
from relens.tables.table import Column, Row, Table

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


class Bytes(click.ParamType[int]):
    """A size such as 512M or 1G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        match = re.fullmatch(r"(\d+)\s*([KMG]?)i?B?", str(value), re.IGNORECASE)
        if not match or not int(match[1]):
            self.fail(f"{value!r} is not a size: expected a number with K, M or G, such as 512M", param, ctx)
        return int(match[1]) * _UNITS[match[2].upper()]


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
    "--memory", type=Bytes(), default="1G", show_default=True, help="Working memory for packing; arrays may be larger."
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
    name = sources["valid"].header.provenance.dataset
    with Run.receive_ranks(run_path, name, force=force) as stores:
        for split, dense in sources.items():
            _pack(dense, stores / split, memory, jobs)
    _report(run_path, jobs, as_json)


@ranks.command()
@click.argument("arrays", metavar="NAME=FILE.npy...", nargs=-1, required=True)
@run_option
@click.option("--split", type=click.Choice(SPLITS), required=True)
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
    other = next(name for name in SPLITS if name != split)
    options = ArrayOptions(_load(data_name), n_relations, filtered, gaps)
    dense = read_arrays(
        kind, _named(arrays), query_file, split, other=_packed_or_none(run_path, other), options=options
    )
    with Run.receive_ranks(run_path, dense.header.provenance.dataset, split, force=force) as stores:
        _pack(dense, stores / split, memory, jobs)
    _report(run_path, jobs, as_json)


@ranks.command("show")
@run_argument
@jobs_option
@json_option
def show_(run_path: Path, jobs: int, as_json: bool) -> None:
    """Show the packed ranks of RUN: models, queries, how much of them is contested, where they come from."""
    _report(run_path, jobs, as_json)


@ranks.command()
@run_argument
@click.option("--split", type=click.Choice(SPLITS), default="test", show_default=True)
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


def _load(name: str | None) -> Dataset | None:
    return None if name is None else catalog.load(name, progress=TerminalProgress())


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


def _packed_or_none(run_path: Path, split: str) -> PackedRanks | None:
    if not (run_path / RECORD).is_file():
        return None
    run = Run.open(run_path)
    return run.ranks(split) if run.has_ranks(split) else None


def _pack(dense: Dense, path: Path, memory: int, jobs: int) -> None:
    pack_dense(dense, path, memory_budget=memory, n_jobs=jobs, progress=TerminalProgress())


def _report(run_path: Path, jobs: int, as_json: bool) -> None:
    """Print what packed ranks a run has."""
    run = Run.open(run_path)
    present = [split for split in SPLITS if run.has_ranks(split)]
    if not present:
        raise RanksError(f"{run_path} has no ranks yet: add them with `relens ranks import` or `relens ranks pack`.")
    splits = {split: _describe(run.ranks(split), run.ranks_path(split), jobs) for split in present}
    value = {"run": str(run.path), "name": run.name, "dataset": run.dataset, "splits": splits}
    show([_size_table(run, splits), _model_table(splits)], "json" if as_json else "text", None, value)


def _describe(packed: PackedRanks, path: Path, jobs: int) -> dict[str, Any]:
    """Return what there is to say about packed ranks, as plain JSON values."""
    counts = np.diff(packed.offsets)
    grouping = Grouping.by_relation_and_direction(packed.relations)
    return {
        "provenance": asdict(packed.provenance),
        "tie_rule": TIE_RULE,
        "queries": packed.n_queries,
        "relations": len(packed.relations),
        "groups_with_queries": len(np.unique(grouping.of(packed.queries))),
        "candidates": int(packed.n_candidates.sum(dtype=np.int64)),
        "contested": packed.n_contested,
        "contested_share": packed.n_contested / max(1, int(packed.n_candidates.sum(dtype=np.int64))),
        "contested_per_query": {"median": float(np.median(counts)), "mean": float(counts.mean())},
        "gaps": packed.gaps is not None,
        "bytes": n_bytes(path),
        "mrr": dict(zip(packed.models, model_mrrs(packed, jobs=jobs).tolist(), strict=True)),
    }


def _size_table(run: Run, splits: Mapping[str, dict[str, Any]]) -> Table:
    headings = ("queries", "groups", "candidates", "contested", "share", "median", "mean", "MB")
    specs = (",d", ",d", ",d", ",d", ".2%", ",.0f", ",.1f", ",.1f")
    rows = [
        Row(
            (
                split,
                facts["queries"],
                facts["groups_with_queries"],
                facts["candidates"],
                facts["contested"],
                facts["contested_share"],
                *facts["contested_per_query"].values(),
                facts["bytes"] / 1e6,
            )
        )
        for split, facts in splits.items()
    ]
    columns = (Column("split", align="left"), *(Column(h, spec) for h, spec in zip(headings, specs, strict=True)))
    notes = ("groups: pairs of relation and direction that have queries; median and mean: contested per query",)
    return Table(f"packed ranks of {run.path}", columns, tuple(rows), _facts(splits), notes)


def _model_table(splits: Mapping[str, dict[str, Any]]) -> Table:
    columns = (Column("model", align="left"), *(Column(f"{split} MRR", ".4f", better="higher") for split in splits))
    models = dict.fromkeys(model for facts in splits.values() for model in facts["mrr"])
    rows = tuple(Row((model, *(facts["mrr"].get(model) for facts in splits.values()))) for model in models)
    return Table("models", columns, rows, {"tie rule": TIE_RULE}, mark_best=True)


def _facts(splits: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    first = next(iter(splits.values()))
    provenance = first["provenance"]
    return {
        "data set": f"{provenance['dataset']} ({provenance['fingerprint']})",
        "relations": str(first["relations"]),
        "candidates": provenance["candidates"],
        "filtered here": ", ".join(provenance["filter_splits"]) or "no",
        "tie rule": TIE_RULE,
        "score gaps": "yes" if first["gaps"] else "no",
    }
