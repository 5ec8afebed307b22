"""``relens data``: list, show, fetch and import data sets, and draw negatives for them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.data.candidates import Candidates
from relens.data.catalog import CATALOG, Entry, find, import_folder, imported, load_dataset, load_entry, locate
from relens.data.checks import describe
from relens.data.negatives import write_sampled

PIPED_WIDTH = 160
TEXT_COLUMNS = ("data set", "where", "what", "class", "relation")

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
offline = click.option("--offline", is_flag=True, help="Never use the network; fail if the data set is not here.")


@click.group()
def data() -> None:
    """List, show, fetch and import data sets.

    A data set is a folder with three files, train.txt, valid.txt and test.txt (.tsv and .gz are fine too). Each line
    is one triple: head, relation and tail, separated by tabs. Every command that asks for a data set takes such
    a folder, one that an archive of OGB unpacks to, or a name that `relens data list` shows.

    Names are looked up in the folder that the environment variable RELENS_DATA points to, then in the cache
    (RELENS_HOME, or ~/.cache/relens).
    """


@data.command("list")
@as_json
def list_(as_json: bool) -> None:
    """List the data sets that have a name, and where they are."""
    entries = [_entry_row(entry) for entry in (CATALOG | imported()).values()]
    if as_json:
        emit_json({"datasets": entries})
        return
    table = _table("data set", "entities", "relations", "train", "valid", "test", "where")
    for row in entries:
        remedy = "generated" if row["generated"] else f"not here; `relens data get {row['name']}` fetches it"
        table.add_row(escape(row["name"]), *_numbers(row["counts"]), escape(row["folder"] or remedy))
    _print(table)


@data.command()
@click.argument("dataset", metavar="NAME_OR_PATH")
@click.option("--relations", default=20, show_default=True, help="Show this many of the most frequent relations.")
@offline
@as_json
def show(dataset: str, relations: int, offline: bool, as_json: bool) -> None:
    """Show what a data set contains: sizes, repeated triples, unseen entities, relations.

    NAME_OR_PATH is a name that `relens data list` shows, or a folder with train, valid and test files. A relation's
    class says how many answers it has: 1-N means one head per tail and many tails per head.
    """
    loaded = load_dataset(dataset, offline=offline, progress=TerminalProgress())
    facts = describe(loaded)
    if as_json:
        folder = None if loaded.folder is None else str(loaded.folder)
        emit_json({"folder": folder, **facts, "candidates": _candidate_facts(loaded.candidates)})
        return
    origin = "generated" if loaded.folder is None else f"read from {loaded.folder}"
    emit(f"{facts['name']}, fingerprint {facts['fingerprint']}, {origin}")
    _print(_summary(facts))
    for split, about in _candidate_facts(loaded.candidates).items():
        fewer = f", with fewer in {about['short_queries']:,} queries" if about["short_queries"] else ""
        emit(f"{split}: answers compete with {about['per_query']:,} sampled entities each{fewer} ({about['source']})")
    if relations > 0:
        _print(_relations(facts["relations"], relations))


@data.command()
@click.argument("name")
@click.option(
    "--keep-repeats",
    is_flag=True,
    help="Of OGB's negatives, accept repeats and the answer itself; each counts, as it does for OGB's evaluator.",
)
@offline
@as_json
def get(name: str, keep_repeats: bool, offline: bool, as_json: bool) -> None:
    """Fetch a data set once, check its content, and print the folder that holds it.

    NAME is one that `relens data list` shows. A data set that is here already is checked, not fetched again. One that
    is generated needs no folder, and none is printed.
    """
    entry = find(name)
    was_here = entry.generate is not None or locate(entry) is not None
    loaded = load_entry(entry, offline=offline, keep_repeats=keep_repeats, progress=TerminalProgress())
    how = "is generated when needed" if entry.generate else "was here already" if was_here else "was fetched"
    checked = "content is" if entry.fingerprint else "counts are"
    note(f"{entry.name} {how}; its {checked} as expected")
    if as_json:
        emit_json({**_entry_row(entry), "fetched": not was_here})
    elif loaded.folder is not None:
        emit(str(loaded.folder))


@data.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--name", required=True, help="The name to give it; case does not matter.")
@click.option("--force", is_flag=True, help="Replace a data set that was imported under this name before.")
@as_json
def import_(folder: Path, name: str, force: bool, as_json: bool) -> None:
    """Check your own FOLDER and copy it into the cache under a name.

    FOLDER holds train, valid and test as .txt or .tsv, plain or .gz, with one triple per line: head, relation and
    tail separated by tabs; labels.tsv (entity, tab, readable name) is optional. The folder itself is not changed, and
    later commands take the name.
    """
    row = _entry_row(import_folder(folder, name, force=force))
    note(f"imported {folder} as {row['name']}; `relens data show {row['name']}` describes it")
    if as_json:
        emit_json(row)
    else:
        emit(row["folder"])


@data.command("sample-negatives")
@click.argument("dataset", metavar="NAME_OR_PATH")
@click.option("--per-query", type=click.IntRange(min=1), default=500, show_default=True, help="Negatives per query.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Root seed.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Folder to make.  [default: ./NAME-sampled-PER_QUERY]"
)
@click.option("--force", is_flag=True, help="Replace a folder that this command made before.")
@offline
@as_json
def sample_negatives(
    dataset: str, per_query: int, seed: int, output: Path | None, force: bool, offline: bool, as_json: bool
) -> None:
    """Draw negatives for the validation and test queries of a data set, as OGB does for its own.

    For each query the same number of entities is drawn, known answers excluded. The folder that is made is a data set
    like the one given, in which answers compete with their negatives only: `relens run FOLDER` trains and ranks on it,
    and `relens rank RUN --candidates FOLDER` ranks models that were trained on the data set itself. What is computed
    from such ranks is higher than among all entities, and every table says that its candidates are sampled.
    """
    loaded = load_dataset(dataset, offline=offline, progress=TerminalProgress())
    target = output or Path(f"{loaded.name}-sampled-{per_query}")
    made = write_sampled(loaded, target, per_query, seed, force=force, progress=TerminalProgress())
    facts = _candidate_facts(made.candidates)
    for split, about in facts.items():
        if about["short_queries"]:
            note(
                f"{about['short_queries']:,} of {about['queries']:,} {split} queries have fewer than {per_query:,} "
                f"negatives: no more entities are left besides their known answers"
            )
    note(f"made {target}; rank on it with `relens run {target}` or `relens rank RUN --candidates {target}`")
    if as_json:
        emit_json({"folder": str(target), "fingerprint": made.fingerprint, "candidates": facts})
    else:
        emit(str(target))


def _candidate_facts(candidates: Mapping[str, Candidates]) -> dict[str, Any]:
    """Return what is known about the candidates of each split."""
    return {
        split: {
            "queries": len(chosen),
            "per_query": chosen.per_query,
            "short_queries": len(chosen.short()),
            "source": chosen.source,
        }
        for split, chosen in candidates.items()
    }


def _entry_row(entry: Entry) -> dict[str, Any]:
    """Return what is known about a named data set without reading it; ``folder`` is None where it is not here."""
    folder = locate(entry)
    return {
        "name": entry.name,
        "catalogued": entry.name in CATALOG,
        "generated": entry.generate is not None,
        "folder": None if folder is None else str(folder),
        "counts": dict(entry.counts),
        "fingerprint": entry.fingerprint,
    }


def _summary(facts: dict[str, Any]) -> Table:
    """Lay out the sizes of a data set and what may surprise in it."""
    table = _table("number", "what")
    for what, number in facts["counts"].items():
        table.add_row(f"{number:,}", what if what in ("entities", "relations") else f"{what} triples")
    for split, number in facts["unseen_entities"].items():
        table.add_row(f"{number:,}", f"{split} triples with an entity that train lacks")
    table.add_row(f"{len(facts['relations_absent_from_valid']):,}", "relations that valid lacks")
    table.add_row(f"{facts['duplicates']['within_splits']:,}", "triples repeated within a split")
    table.add_row(f"{facts['duplicates']['across_splits']:,}", "triples repeated in another split")
    return table


def _relations(rows: list[dict[str, Any]], limit: int) -> Table:
    """Lay out the relations with most training triples."""
    table = _table("class", "train", "valid", "test", "relation")
    table.title = f"{min(limit, len(rows))} of {len(rows)} relations, by training triples"
    for row in sorted(rows, key=lambda row: -int(row["train"]))[:limit]:
        splits = {split: row[split] for split in ("train", "valid", "test")}
        table.add_row(row["class"] or "unknown", *_numbers(splits), escape(row["relation"]))
    return table


def _table(*headers: str) -> Table:
    """Return an empty table: text to the left, numbers to the right, nothing cut off."""
    table = Table(box=None, title_justify="left", pad_edge=False)
    for header in headers:
        table.add_column(header, justify="left" if header in TEXT_COLUMNS else "right", overflow="fold")
    return table


def _numbers(counts: dict[str, int]) -> list[str]:
    return [f"{number:,}" for number in counts.values()]


def _print(table: Table) -> None:
    """Print a table on stdout, wide where nobody's terminal limits it."""
    Console(width=None if sys.stdout.isatty() else PIPED_WIDTH).print(table)
