"""``relens data``: list, show, download and import data sets, and sample negatives; two more commands join them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from relens.cli.console import TerminalProgress, emit, emit_json, note
from relens.cli.data_prepare import check, prepare
from relens.cli.options import show
from relens.data.candidates import Candidates
from relens.data.catalog import (
    CATALOG,
    CatalogEntry,
    find_entry,
    import_folder,
    imported_entries,
    load_dataset,
    load_entry,
    locate_folder,
)
from relens.data.checks import check_data
from relens.data.negatives import write_sampled
from relens.data.queries import SPLITS
from relens.errors import counted
from relens.tables import Column, Row, Table

MISSING = "not here"

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
offline = click.option("--offline", is_flag=True, help="Never use the network; fail if the data set is not here.")


@click.group()
def data() -> None:
    """List, show, prepare, check, download and import data sets.

    A data set is a folder with three files: train.txt, valid.txt and test.txt (.tsv and .gz also work). Each line
    is one triple: head, relation and tail, separated by tabs. Every command with a data set argument accepts such a
    folder, a folder unpacked from one of OGB's archives, or a name from `relens data list`.

    Names are looked up in the folder RELENS_DATA (an environment variable), then in the cache (RELENS_HOME, or
    ~/.cache/relens).
    """


data.add_command(prepare)
data.add_command(check)


@data.command("list")
@as_json
def list_(as_json: bool) -> None:
    """List all named data sets and their locations."""
    entries = [_entry_row(entry) for entry in (CATALOG | imported_entries()).values()]
    if as_json:
        emit_json({"datasets": entries})
        return
    _print(_list_table(entries))


@data.command("show")
@click.argument("dataset", metavar="NAME_OR_PATH")
@click.option("--relations", default=20, show_default=True, help="Number of relations to show, most frequent first.")
@offline
@as_json
def show_(dataset: str, relations: int, offline: bool, as_json: bool) -> None:
    """Show the sizes and relations of a data set, and warnings about likely mistakes.

    NAME_OR_PATH is a name from `relens data list`, or a folder with train, valid and test files. The class of a
    relation is its number of answers on both sides: 1-N means one head per tail and many tails per head.
    """
    loaded = load_dataset(dataset, offline=offline, progress=TerminalProgress())
    checked = check_data(loaded)
    facts, warnings = checked.facts, list(checked.warnings)
    if as_json:
        folder = None if loaded.folder is None else str(loaded.folder)
        candidates = _candidate_facts(loaded.candidates)
        emit_json({"folder": folder, **facts, "candidates": candidates, "warnings": warnings})
        return
    origin = "generated" if loaded.folder is None else f"read from {loaded.folder}"
    emit(f"{facts['name']}, fingerprint {facts['fingerprint']}, {origin}")
    _print(_summary(facts))
    for split, about in _candidate_facts(loaded.candidates).items():
        short = f", {_queries(about['short_queries'])} with fewer" if about["short_queries"] else ""
        emit(f"{split}: {about['per_query']:,} sampled negatives per query{short} ({about['source']})")
    for text in warnings:
        emit(f"warning: {text}")
    if relations > 0:
        _print(_relations(facts["relations"], relations))


@data.command()
@click.argument("name")
@click.option(
    "--keep-repeats",
    is_flag=True,
    help="Accept OGB's negatives even if they repeat or include the answer; each one counts, as in OGB's evaluator.",
)
@click.option(
    "--sha256",
    metavar="HEX",
    help="SHA-256 of OGB's archive, checked before it is unpacked.  [default: that of the first fetch, if any]",
)
@offline
@as_json
def get(name: str, keep_repeats: bool, sha256: str | None, offline: bool, as_json: bool) -> None:
    """Download a data set once, check its content, and print its folder.

    NAME is a name from `relens data list`. A data set on this machine is checked, not downloaded again. A generated
    data set has no folder, and nothing is printed.

    OGB's archives come over plain http. The SHA-256 of the first fetch is recorded, and a later fetch of another
    archive is an error.
    """
    entry = find_entry(name)
    was_here = entry.generate is not None or locate_folder(entry) is not None
    loaded = load_entry(entry, offline=offline, keep_repeats=keep_repeats, sha256=sha256, progress=TerminalProgress())
    how = "is generated when needed" if entry.generate else "was here already" if was_here else "was downloaded"
    checked = "content is" if entry.fingerprint else "counts are"
    note(f"{entry.name} {how}; its {checked} as expected")
    if as_json:
        emit_json({**_entry_row(entry), "fetched": not was_here})
    elif loaded.folder is not None:
        emit(str(loaded.folder))


@data.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--name", required=True, help="Name of the data set; case does not matter.")
@click.option("--force", is_flag=True, help="Replace a data set imported under this name before.")
@as_json
def import_(folder: Path, name: str, force: bool, as_json: bool) -> None:
    """Check your own FOLDER and copy it into the cache under a name.

    FOLDER holds train, valid and test as .txt or .tsv, plain or .gz, with one triple per line: head, relation and
    tail, separated by tabs. labels.tsv (entity, tab, readable name), relation_labels.tsv and types.tsv
    (entity, tab, type) are optional. The folder itself is not changed.
    Later commands accept the name.
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
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder to write.  [default: ./NAME-sampled-PER_QUERY]",
)
@click.option("--force", is_flag=True, help="Replace a folder that this command wrote before.")
@offline
@as_json
def sample_negatives(
    dataset: str, per_query: int, seed: int, folder: Path | None, force: bool, offline: bool, as_json: bool
) -> None:
    """Sample negatives for the validation and test queries of a data set, as OGB does for its own.

    Each query gets the same number of entities, without known answers. The new folder is a copy of the data set in
    which answers compete only with these negatives. `relens run FOLDER` trains and ranks on it; `relens rank RUN
    --candidates FOLDER` ranks models trained on the original data set. Sampled metrics are higher than metrics among
    all entities, and every table states that its candidates are sampled.
    """
    loaded = load_dataset(dataset, offline=offline, progress=TerminalProgress())
    target = folder or Path(f"{loaded.name}-sampled-{per_query}")
    made = write_sampled(loaded, target, per_query, seed, force=force, progress=TerminalProgress())
    facts = _candidate_facts(made.candidates)
    for split, about in facts.items():
        if about["short_queries"]:
            note(
                f"{split}: {about['short_queries']:,} of {_queries(about['queries'])} got fewer than {per_query:,} "
                f"negatives, because all other entities are known answers"
            )
    note(f"wrote {target}; rank on it with `relens run {target}` or `relens rank RUN --candidates {target}`")
    if as_json:
        emit_json({"folder": str(target), "fingerprint": made.fingerprint, "candidates": facts})
    else:
        emit(str(target))


def _candidate_facts(candidates: Mapping[str, Candidates]) -> dict[str, Any]:
    """Return facts about the candidates of each split."""
    return {
        split: {
            "queries": len(chosen),
            "per_query": chosen.per_query,
            "short_queries": len(chosen.short_queries()),
            "source": chosen.source,
        }
        for split, chosen in candidates.items()
    }


def _entry_row(entry: CatalogEntry) -> dict[str, Any]:
    """Return facts about a named data set without reading it; ``folder`` is None if it is not on this machine."""
    folder = locate_folder(entry)
    return {
        "name": entry.name,
        "catalogued": entry.name in CATALOG,
        "generated": entry.generate is not None,
        "folder": None if folder is None else str(folder),
        "counts": dict(entry.counts),
        "fingerprint": entry.fingerprint,
    }


def _list_table(entries: list[dict[str, Any]]) -> Table:
    """Return a table of named data sets and their locations."""
    rows = tuple(Row((entry["name"], *entry["counts"].values(), _location(entry))) for entry in entries)
    missing = any(_location(entry) == MISSING for entry in entries)
    notes = (f"{MISSING}: download it with `relens data get NAME`",) if missing else ()
    numbers = [Column(heading, ",d") for heading in ("entities", "relations", *SPLITS)]
    columns = (Column("data set", align="left"), *numbers, Column("location", align="left"))
    return Table("Named data sets", columns, rows, notes=notes)


def _location(entry: dict[str, Any]) -> str:
    return entry["folder"] or ("generated" if entry["generated"] else MISSING)


def _summary(facts: dict[str, Any]) -> Table:
    """Return a table of the sizes of a data set, unseen entities and repeated triples."""
    numbers = {
        what if what in ("entities", "relations") else f"{what} triples": n for what, n in facts["counts"].items()
    }
    for split, number in facts["unseen_entities"].items():
        numbers[f"{split} triples with an entity that train lacks"] = number
    numbers["relations that valid lacks"] = len(facts["relations_absent_from_valid"])
    numbers["triples repeated within a split"] = facts["duplicates"]["within_splits"]
    numbers["triples repeated in another split"] = facts["duplicates"]["across_splits"]
    rows = tuple(Row((number, what)) for what, number in numbers.items())
    return Table("Sizes", (Column("number", ",d"), Column("of", align="left")), rows)


def _relations(facts: list[dict[str, Any]], limit: int) -> Table:
    """Return a table of the relations with most training triples."""
    largest = sorted(facts, key=lambda row: -int(row["train"]))[:limit]
    rows = (Row((row["class"] or "unknown", *(row[split] for split in SPLITS), row["relation"])) for row in largest)
    numbers = [Column(split, ",d") for split in SPLITS]
    columns = (Column("class", align="left"), *numbers, Column("relation", align="left"))
    return Table(f"{len(largest)} of {len(facts)} relations, by training triples", columns, tuple(rows))


def _print(table: Table) -> None:
    show([table], "text", None, None)


def _queries(number: int) -> str:
    return counted(number, "query", "queries")
