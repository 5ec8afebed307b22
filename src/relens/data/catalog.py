"""Data sets by name: where they are found, what they must contain, where they can be fetched."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from relens.data.candidate_files import RECORD as CANDIDATES_FILE
from relens.data.candidate_files import with_candidates, write_candidates
from relens.data.dataset import Dataset, read_folder, write_folder
from relens.data.download import download_archive, download_splits
from relens.data.ogb import is_ogb, read_ogb
from relens.data.patterns import patterns
from relens.data.queries import SPLITS
from relens.errors import DatasetError, RelensError, nearest
from relens.files import read_json, whole_folder
from relens.progress import SILENT, Progress
from relens.records import IMPORTED

RECORD = "imported.json"
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Entry:
    """A data set that has a name.

    Attributes:
        name: what users type, lower case.
        folder: its folder below ``RELENS_DATA`` or the cache, matched without regard to case.
        counts: entities, relations, train, valid, test.
        fingerprint: digest its content must have, see ``Dataset.fingerprint``; empty where only counts are known.
        sources: addresses of the files of each split, joined in order; empty where it cannot be fetched.
        generate: makes the data set in memory; None where it is read from files.
        archive: address of the zip archive that unpacks to OGB's layout, and its top folder; None for other data sets.
    """

    name: str
    folder: str
    counts: Mapping[str, int]
    fingerprint: str
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generate: Callable[[], Dataset] | None = None
    archive: tuple[str, str] | None = None


def _counts(entities: int, relations: int, train: int, valid: int, test: int) -> dict[str, int]:
    return {"entities": entities, "relations": relations, "train": train, "valid": valid, "test": test}


def _sources(repository: str, folder: str, **files: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the addresses of text files in a public repository, one per split unless ``files`` names others."""
    root = f"https://raw.githubusercontent.com/{repository}/{folder}"
    return {split: tuple(f"{root}/{file}.txt" for file in files.get(split, (split,))) for split in SPLITS}


# Where OGB 1.3.6 fetches its archives from.
_OGB = "http://snap.stanford.edu/ogb/data/linkproppred"

# Addresses name a commit, so that what they hold cannot change.
_ROTATE = "DeepGraphLearning/KnowledgeGraphEmbedding/617062aaedf53bf4d6b44450a580a96dc30e0632"
_RED_GNN = "LARS-research/RED-GNN/e064161e8d2b8b3e0ed17d7a746cbcb43b3c327e"
_VILLMOW = "villmow/datasets_knowledge_embedding/9e392453d6804d1f51c13e5650ae58ed48b638d5"

CATALOG: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "wn18rr",
            "WN18RR",
            _counts(40_943, 11, 86_835, 3_034, 3_134),
            "a2bb63b4b8487174",
            _sources(_ROTATE, "data/wn18rr"),
        ),
        Entry(
            "fb15k-237",
            "FB15k-237",
            _counts(14_541, 237, 272_115, 17_535, 20_466),
            "62be50d6a7fffcaf",
            _sources(_ROTATE, "data/FB15k-237"),
        ),
        # RED-GNN divides the training triples in two; the paper trains on both. DeepPath's release of the same
        # name has 75,492 entities and is another data set.
        Entry(
            "nell-995",
            "NELL-995",
            _counts(74_536, 200, 149_678, 543, 2_818),
            "6ff84b8150569bec",
            _sources(_RED_GNN, "transductive/data/nell", train=("facts", "train")),
        ),
        Entry(
            "umls",
            "UMLS",
            _counts(135, 46, 5_216, 652, 661),
            "1fe90ea68b5c9f41",
            _sources(_VILLMOW, "other/umls"),
        ),
        # Table of statistics in the paper. The files cannot be had where this was written, so there is no fingerprint.
        Entry(
            "ogbl-biokg",
            "ogbl_biokg",
            _counts(93_773, 51, 4_762_678, 162_886, 162_870),
            "",
            archive=(f"{_OGB}/biokg.zip", "biokg"),
        ),
        Entry(
            "ogbl-wikikg2",
            "ogbl_wikikg2",
            _counts(2_500_604, 535, 16_109_182, 429_456, 598_543),
            "",
            archive=(f"{_OGB}/wikikg-v2.zip", "wikikg-v2"),
        ),
        Entry("patterns", "patterns", _counts(1_023, 11, 4_289, 1_100, 1_100), "9f9948714836ed04", generate=patterns),
    )
}


def load_dataset(name_or_path: str | Path, *, offline: bool = False, progress: Progress = SILENT) -> Dataset:
    """Load a data set: a folder, a catalogued name or an imported name.

    A folder that exists wins. A name is looked up below ``RELENS_DATA``, then in the cache, then fetched into the
    cache unless ``offline``; wherever it was found, its content must be what the name promises. A generated data set
    is made in memory.
    """
    if Path(name_or_path).is_dir():
        return open_folder(Path(name_or_path))
    return load_entry(find(str(name_or_path)), offline=offline, progress=progress)


def origin(name_or_path: str) -> str:
    """Return what a data set was asked for as, so that it is found from any working directory: folders by full path."""
    return str(Path(name_or_path).resolve()) if Path(name_or_path).is_dir() else name_or_path


def open_folder(folder: Path, name: str | None = None, *, keep_repeats: bool = False) -> Dataset:
    """Read a folder of TSV files, with candidates where it has them, or one in OGB's layout.

    ``keep_repeats`` is for the second kind, see ``read_ogb``.
    """
    if is_ogb(folder):
        return read_ogb(folder, name, copies=cache_folder() / ".ogb-copies", keep_repeats=keep_repeats)
    dataset = read_folder(folder, name)
    return with_candidates(dataset, folder) if (folder / CANDIDATES_FILE).is_file() else dataset


def load_entry(
    entry: Entry, *, offline: bool = False, keep_repeats: bool = False, progress: Progress = SILENT
) -> Dataset:
    """Load a named data set even where a folder of that name lies in the working directory."""
    if keep_repeats and entry.archive is None:
        raise DatasetError(f"{entry.name} has no negatives of OGB: --keep-repeats is for ogbl-biokg and ogbl-wikikg2")
    if entry.generate is not None:
        return _checked(entry.generate(), entry, "its generator")
    folder = locate(entry)
    if folder is None:
        return _fetch(entry, offline, keep_repeats, progress)
    if entry.archive is not None and not is_ogb(folder):
        raise DatasetError(f"{folder} has no split/*/*.pt: expected OGB's layout. {_by_hand(entry, folder)}")
    return _checked(open_folder(folder, entry.name, keep_repeats=keep_repeats), entry, str(folder))


def find(name: str) -> Entry:
    """Return the entry of a catalogued or imported name, whatever its case."""
    if name.lower() in CATALOG:
        return CATALOG[name.lower()]
    known = CATALOG | imported()
    if name.lower() not in known:
        raise DatasetError(
            f"no data set {name!r}: it is neither a folder nor a known name (`relens data list` shows them, "
            f"`relens data import` adds yours); {nearest(name, known)}"
        )
    return known[name.lower()]


def locate(entry: Entry) -> Path | None:
    """Return the folder that holds a data set on this machine, or None; a generated one is in no folder."""
    if entry.generate is not None:
        return None
    for parent in _shelves() if entry.name in CATALOG else [cache_folder()]:
        for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
            if folder.name.lower() == entry.folder.lower() and folder.is_dir():
                return folder
    return None


def imported() -> dict[str, Entry]:
    """Return the data sets that were imported into the cache, by name."""
    found = {}
    # Hidden folders are what an interrupted import left.
    for record in sorted(cache_folder().glob(f"[!.]*/{RECORD}")):
        content = read_json(record, "the record of an imported data set")
        name = record.parent.name
        try:
            found[name] = Entry(name, name, dict(content["counts"]), str(content["fingerprint"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DatasetError(
                f"{record} lacks counts or a fingerprint. Import the data set again: "
                f"`relens data import FOLDER --name {name} --force`"
            ) from error
    return found


def import_folder(folder: Path, name: str, *, force: bool = False) -> Entry:
    """Check a user's folder and copy it into the cache, from where ``load`` finds it by name."""
    name = name.lower()
    target = cache_folder() / name
    if not NAME_PATTERN.fullmatch(name):
        raise DatasetError(
            f"{name!r} cannot name a data set: expected up to 64 letters, digits, dots, dashes, underscores"
        )
    if name in CATALOG:
        raise DatasetError(f"{name!r} is a catalogued data set and keeps its meaning: choose another --name")
    if target.exists() and not (force and (target / RECORD).is_file()):
        remedy = "pass --force to replace it, or choose" if (target / RECORD).is_file() else "choose"
        raise DatasetError(f"{target} exists already: {remedy} another --name")
    if is_ogb(folder):
        raise DatasetError(
            f"{folder} is in OGB's layout and is read where it is: give the folder itself wherever a data set is "
            f"asked for, or set RELENS_DATA to the folder that holds it"
        )
    dataset = open_folder(folder, name)
    with whole_folder(target) as aside:
        write_folder(dataset, aside)
        if dataset.candidates:
            write_candidates(dataset, dataset.candidates, aside)
        IMPORTED.write(aside / RECORD, {"counts": dataset.counts, "fingerprint": dataset.fingerprint})
    return Entry(name, name, dataset.counts, dataset.fingerprint)


def cache_folder() -> Path:
    """Return where fetched and imported data sets are kept: ``data`` below ``RELENS_HOME`` or ``~/.cache/relens``."""
    home = os.environ.get("RELENS_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "relens") / "data"


def _shelves() -> list[Path]:
    """Return the folders that may hold data sets, the user's own first."""
    given = os.environ.get("RELENS_DATA")
    if given and not Path(given).is_dir():
        raise DatasetError(f"RELENS_DATA is {given!r}, which is not a folder: set it to the parent of the data sets")
    return [Path(given), cache_folder()] if given else [cache_folder()]


def _fetch(entry: Entry, offline: bool, keep_repeats: bool, progress: Progress) -> Dataset:
    """Fetch a data set into the cache: whole and checked, or not at all."""
    target = cache_folder() / entry.folder
    by_hand = _by_hand(entry, target)
    if offline:
        raise DatasetError(f"{entry.name} is not on this machine and fetching was switched off. {by_hand}")
    if not entry.sources and entry.archive is None:
        raise DatasetError(f"{entry.name} is not on this machine and no address is known to fetch it from. {by_hand}")
    with whole_folder(target) as aside:
        try:
            if entry.archive is None:
                download_splits(entry.sources, aside, progress)
            else:
                download_archive(*entry.archive, aside, progress)
        except RelensError as error:
            raise RelensError(f"{error}. {by_hand}") from error
        addresses = " ".join([url for urls in entry.sources.values() for url in urls] + list(entry.archive or ())[:1])
        _checked(open_folder(aside, entry.name, keep_repeats=keep_repeats), entry, addresses)
    return open_folder(target, entry.name)


def _by_hand(entry: Entry, target: Path) -> str:
    """Say which files to put where when they cannot be fetched."""
    if entry.archive is not None:
        url, top = entry.archive
        return (
            f"Unpack {url.rpartition('/')[2]}, which OGB publishes at {url}, and move its folder {top} to {target}; or "
            f"set RELENS_DATA to a folder that holds {entry.folder}, such as the root that ogb was given."
        )
    files = {split: " followed by ".join(entry.sources.get(split, ())) for split in SPLITS}
    listed = ", ".join(f"{split}.txt" + (f" ({urls})" if urls else "") for split, urls in files.items())
    return f"Put {listed} into {target}, or set RELENS_DATA to a folder that holds {entry.folder}."


def _checked(dataset: Dataset, entry: Entry, where: str) -> Dataset:
    """Return the data set if its content is what the entry promises."""
    fingerprint = dataset.fingerprint if entry.fingerprint else ""
    if (dataset.counts, fingerprint) != (entry.counts, entry.fingerprint):
        raise DatasetError(
            f"what was found is not {entry.name}. Expected {_in_words(entry.counts, entry.fingerprint)}; "
            f"found {_in_words(dataset.counts, fingerprint)}, read from {where}. "
            f"Replace the files, or pass the folder instead of the name to use them as they are."
        )
    return dataset


def _in_words(counts: Mapping[str, int], fingerprint: str) -> str:
    numbers = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    return f"{numbers}, fingerprint {fingerprint}" if fingerprint else numbers
