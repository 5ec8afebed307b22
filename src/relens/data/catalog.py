"""Data sets by name: where to find or download them, and what they must contain."""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from relens.data.archives import ChangedError, checked_digest, fetch_and_unpack, record_digest, recorded_digest
from relens.data.candidates import RECORD as CANDIDATES_FILE
from relens.data.candidates import write_candidates
from relens.data.dataset import Dataset, read_folder, write_folder
from relens.data.download import download_splits
from relens.data.ogb import is_ogb, read_ogb
from relens.data.patterns import patterns
from relens.data.queries import SPLITS
from relens.data.stored import is_graph, read_graph
from relens.errors import DatasetError, RelensError, nearest
from relens.files import read_json, whole_folder
from relens.progress import SILENT, Progress
from relens.records import IMPORTED

RECORD = "imported.json"
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class CatalogEntry:
    """A named data set.

    Attributes:
        name: the name users type, in lower case.
        folder: its folder below ``RELENS_DATA`` or the cache; case does not matter.
        counts: numbers of entities, relations, and train, valid and test triples.
        fingerprint: expected ``Dataset.fingerprint``; empty if only the counts are known.
        sources: URLs of the files of each split, joined in order; empty if it cannot be downloaded as text files.
        generate: returns a generated data set; None for data sets in files.
        archive: URL of a zip archive in OGB's layout, and its top folder; None for other data sets.
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
    """Return the URLs of text files in a public repository, one per split unless ``files`` names others."""
    root = f"https://raw.githubusercontent.com/{repository}/{folder}"
    return {split: tuple(f"{root}/{file}.txt" for file in files.get(split, (split,))) for split in SPLITS}


# OGB 1.3.6 downloads its archives from here.
_OGB = "http://snap.stanford.edu/ogb/data/linkproppred"

# URLs name a commit, so their content cannot change.
_ROTATE = "DeepGraphLearning/KnowledgeGraphEmbedding/617062aaedf53bf4d6b44450a580a96dc30e0632"
_RED_GNN = "LARS-research/RED-GNN/e064161e8d2b8b3e0ed17d7a746cbcb43b3c327e"
_VILLMOW = "villmow/datasets_knowledge_embedding/9e392453d6804d1f51c13e5650ae58ed48b638d5"

CATALOG: dict[str, CatalogEntry] = {
    entry.name: entry
    for entry in (
        CatalogEntry(
            "wn18rr",
            "WN18RR",
            _counts(40_943, 11, 86_835, 3_034, 3_134),
            "a2bb63b4b8487174",
            _sources(_ROTATE, "data/wn18rr"),
        ),
        CatalogEntry(
            "fb15k-237",
            "FB15k-237",
            _counts(14_541, 237, 272_115, 17_535, 20_466),
            "62be50d6a7fffcaf",
            _sources(_ROTATE, "data/FB15k-237"),
        ),
        # RED-GNN splits the training triples into two files; the paper trains on both. DeepPath's release of the same
        # name has 75,492 entities and is a different data set.
        CatalogEntry(
            "nell-995",
            "NELL-995",
            _counts(74_536, 200, 149_678, 543, 2_818),
            "6ff84b8150569bec",
            _sources(_RED_GNN, "transductive/data/nell", train=("facts", "train")),
        ),
        CatalogEntry(
            "umls",
            "UMLS",
            _counts(135, 46, 5_216, 652, 661),
            "1fe90ea68b5c9f41",
            _sources(_VILLMOW, "other/umls"),
        ),
        # Counts from the paper's table of statistics. OGB's files were not available for a fingerprint.
        CatalogEntry(
            "ogbl-biokg",
            "ogbl_biokg",
            _counts(93_773, 51, 4_762_678, 162_886, 162_870),
            "",
            archive=(f"{_OGB}/biokg.zip", "biokg"),
        ),
        CatalogEntry(
            "ogbl-wikikg2",
            "ogbl_wikikg2",
            _counts(2_500_604, 535, 16_109_182, 429_456, 598_543),
            "",
            archive=(f"{_OGB}/wikikg-v2.zip", "wikikg-v2"),
        ),
        CatalogEntry(
            "patterns", "patterns", _counts(1_023, 11, 4_289, 1_100, 1_100), "9f9948714836ed04", generate=patterns
        ),
    )
}


def load_dataset(name_or_path: str | Path, *, offline: bool = False, progress: Progress = SILENT) -> Dataset:
    """Load a data set: a folder, a catalogued name or an imported name.

    An existing folder takes precedence. A name is looked up below ``RELENS_DATA``, then in the cache; otherwise the
    data set is downloaded into the cache unless ``offline``. The content of a named data set is checked against the
    catalogue. A generated data set is made in memory.
    """
    try:
        is_folder, is_file = Path(name_or_path).is_dir(), Path(name_or_path).is_file()
    except (OSError, ValueError):  # no path can be so long, or have such characters
        is_folder = is_file = False
    if is_folder:
        return open_folder(Path(name_or_path))
    if is_file:
        raise DatasetError(
            f"{name_or_path} is a file, expected a folder with train, valid and test, or the name of a data set: "
            f"make a folder of it with `relens data prepare {shlex.quote(str(name_or_path))} FOLDER`"
        )
    return load_entry(find_entry(str(name_or_path)), offline=offline, progress=progress)


def open_folder(folder: Path, name: str | None = None, *, keep_repeats: bool = False) -> Dataset:
    """Read a folder of TSV files, with its candidates if it has any, a folder in OGB's layout, or the graph of a run.

    ``keep_repeats`` applies to OGB's layout, see ``read_ogb``.
    """
    if is_graph(folder):
        return read_graph(folder, name)
    if is_ogb(folder):
        return read_ogb(folder, name, copies=cache_folder() / ".ogb-copies", keep_repeats=keep_repeats)
    dataset = read_folder(folder, name)
    return dataset.with_candidates(folder) if (folder / CANDIDATES_FILE).is_file() else dataset


def load_entry(
    entry: CatalogEntry,
    *,
    offline: bool = False,
    keep_repeats: bool = False,
    sha256: str | None = None,
    progress: Progress = SILENT,
) -> Dataset:
    """Load a named data set, ignoring any folder of that name in the working directory.

    ``sha256`` is the digest that its archive must have. Without it, the archive must have the digest of the first
    fetch.
    """
    if keep_repeats and entry.archive is None:
        raise DatasetError(
            f"{entry.name} does not come with OGB's negatives: `keep_repeats=True` is for ogbl-biokg and ogbl-wikikg2"
        )
    if sha256 is not None and entry.archive is None:
        raise DatasetError(f"{entry.name} does not come as an archive: `sha256=HEX` is for ogbl-biokg and ogbl-wikikg2")
    if entry.generate is not None:
        return _checked(entry.generate(), entry, "its generator")
    folder = locate_folder(entry)
    if folder is None:
        return _fetch(entry, progress, sha256, offline=offline, keep_repeats=keep_repeats)
    if sha256 is not None:
        _check_origin(entry, folder, checked_digest(sha256))
    if entry.archive is not None and not is_ogb(folder):
        raise DatasetError(f"{folder} has no split/*/*.pt: expected OGB's layout. {_by_hand(entry, folder)}")
    return _checked(open_folder(folder, entry.name, keep_repeats=keep_repeats), entry, str(folder))


def find_entry(name: str) -> CatalogEntry:
    """Return the entry of a catalogued or imported name, in any case."""
    if name.lower() in CATALOG:
        return CATALOG[name.lower()]
    entries = CATALOG | imported_entries()
    if name.lower() not in entries:
        raise DatasetError(
            f"no data set {name!r}: it is neither a folder nor the name of a data set (`relens data list` lists the "
            f"names, `relens data import` adds yours); {nearest(name, entries)}"
        )
    return entries[name.lower()]


def locate_folder(entry: CatalogEntry) -> Path | None:
    """Return the folder of a data set on this machine, or None. A generated data set has no folder."""
    if entry.generate is not None:
        return None
    for parent in _shelves() if entry.name in CATALOG else [cache_folder()]:
        for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
            if folder.name.lower() == entry.folder.lower() and folder.is_dir():
                return folder
    return None


def imported_entries() -> dict[str, CatalogEntry]:
    """Return the entries of all imported data sets, by name."""
    found = {}
    # Hidden folders are left over from interrupted imports.
    for record in sorted(cache_folder().glob(f"[!.]*/{RECORD}")):
        content = read_json(record, "the record of an imported data set")
        name = record.parent.name
        counts, fingerprint = content.get("counts"), content.get("fingerprint")
        if counts is None or not _are_counts(counts) or not isinstance(fingerprint, str):
            raise DatasetError(
                f"{record} lacks counts or a fingerprint. Import the data set again: "
                f"`relens data import FOLDER --name {name} --force`"
            )
        found[name] = CatalogEntry(name, name, counts, fingerprint)
    return found


def _are_counts(value: object) -> bool:
    """Say whether a value can be the counts of an entry."""
    if not isinstance(value, dict) or value.keys() != _counts(0, 0, 0, 0, 0).keys():
        return False
    return all(type(count) is int for count in value.values())


def import_folder(folder: Path, name: str, *, force: bool = False) -> CatalogEntry:
    """Check a user's folder and copy it into the cache, where ``load_dataset`` finds it by name."""
    name = name.lower()
    target = cache_folder() / name
    if not NAME_PATTERN.fullmatch(name):
        raise DatasetError(
            f"{name!r} is not a valid name: expected up to 64 letters, digits, dots, dashes or underscores"
        )
    if name in CATALOG:
        raise DatasetError(f"{name!r} is the name of a catalogued data set: choose another `name=…`")
    if target.exists() and not (force and (target / RECORD).is_file()):
        remedy = "pass `force=True` to replace it, or choose" if (target / RECORD).is_file() else "choose"
        raise DatasetError(f"{target} exists already: {remedy} another `name=…`")
    if is_ogb(folder):
        raise DatasetError(
            f"{folder} is in OGB's layout, which needs no import: pass the folder itself as the data set, or set "
            f"RELENS_DATA to its parent folder"
        )
    dataset = open_folder(folder, name)
    with whole_folder(target) as temporary:
        write_folder(dataset, temporary)
        if dataset.candidates:
            write_candidates(dataset.candidates, dataset.identity, temporary)
        IMPORTED.write(temporary / RECORD, {"counts": dataset.counts, "fingerprint": dataset.fingerprint})
    return CatalogEntry(name, name, dataset.counts, dataset.fingerprint)


def cache_folder() -> Path:
    """Return the folder of downloaded and imported data sets: ``data`` in ``RELENS_HOME`` or ``~/.cache/relens``."""
    home = os.environ.get("RELENS_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "relens") / "data"


def _shelves() -> list[Path]:
    """Return the folders to search for data sets, ``RELENS_DATA`` first."""
    given = os.environ.get("RELENS_DATA")
    if given and not Path(given).is_dir():
        raise DatasetError(
            f"RELENS_DATA is {given!r}, which is not a folder: set it to the parent folder of the data sets"
        )
    return [Path(given), cache_folder()] if given else [cache_folder()]


def _digest_record(entry: CatalogEntry) -> Path:
    """Return the file with the digest of an archive. It stays there when the data set is removed."""
    return cache_folder() / f"{entry.folder}.archive.json"


def _check_origin(entry: CatalogEntry, folder: Path, digest: str) -> None:
    """Raise an error unless the data set in a folder came from the archive with a digest."""
    fetched = folder.parent == cache_folder()  # not put elsewhere by hand
    recorded = recorded_digest(_digest_record(entry)) if fetched else None
    if digest != recorded:
        found = f"came from an archive with SHA-256 {recorded}" if recorded else "has no record of its archive"
        raise DatasetError(f"{folder} {found}, expected {digest}. Remove the folder to fetch the archive again.")


def _fetch(
    entry: CatalogEntry, progress: Progress, sha256: str | None, *, offline: bool, keep_repeats: bool
) -> Dataset:
    """Download and check a data set. It appears in the cache only if it is complete and correct."""
    target, record = cache_folder() / entry.folder, _digest_record(entry)
    by_hand = _by_hand(entry, target)
    if offline:
        raise DatasetError(f"{entry.name} is not on this machine and `offline=True` forbids the download. {by_hand}")
    if not entry.sources and entry.archive is None:
        raise DatasetError(f"{entry.name} is not on this machine and has no known URL. {by_hand}")
    expected = recorded_digest(record) if sha256 is None else checked_digest(sha256)
    with whole_folder(target) as temporary:
        try:
            if entry.archive is None:
                download_splits(entry.sources, temporary, progress)
            else:
                digest = fetch_and_unpack(entry.archive, temporary, expected, progress)
        except ChangedError as error:
            source = f"that of the first fetch ({record})" if sha256 is None else "the one you gave"
            raise DatasetError(
                f"{error}, {source}. Nothing was unpacked. Its publisher has replaced the archive, "
                f"or somebody has changed it on the way. If you know from another source that the new one is right, "
                f"accept it: `relens data get {entry.name} --sha256 {error.found}`"
            ) from error
        except RelensError as error:
            raise RelensError(f"{error}. {by_hand}") from error
        urls = " ".join([url for urls in entry.sources.values() for url in urls] + list(entry.archive or ())[:1])
        _checked(open_folder(temporary, entry.name, keep_repeats=keep_repeats), entry, urls)
        if entry.archive is not None:
            record_digest(record, entry.archive[0], digest)
    return open_folder(target, entry.name)


def _by_hand(entry: CatalogEntry, target: Path) -> str:
    """Return instructions for installing a data set by hand."""
    if entry.archive is not None:
        url, top = entry.archive
        return (
            f"Unpack {url.rpartition('/')[2]}, which OGB publishes at {url}, and move its folder {top} to {target}; or "
            f"set RELENS_DATA to a folder that holds {entry.folder}, such as the root folder of the package ogb."
        )
    files = {split: " followed by ".join(entry.sources.get(split, ())) for split in SPLITS}
    listed = ", ".join(f"{split}.txt" + (f" ({urls})" if urls else "") for split, urls in files.items())
    return f"Put {listed} into {target}, or set RELENS_DATA to a folder that holds {entry.folder}."


def _checked(dataset: Dataset, entry: CatalogEntry, where: str) -> Dataset:
    """Return the data set, or raise an error if its content does not match the entry."""
    fingerprint = dataset.fingerprint if entry.fingerprint else ""
    if (dataset.counts, fingerprint) != (entry.counts, entry.fingerprint):
        raise DatasetError(
            f"this data is not {entry.name}. Expected {_in_words(entry.counts, entry.fingerprint)}; "
            f"found {_in_words(dataset.counts, fingerprint)}, read from {where}. "
            f"Replace the files, or pass the folder instead of the name to use them as they are."
        )
    return dataset


def _in_words(counts: Mapping[str, int], fingerprint: str) -> str:
    numbers = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    return f"{numbers}, fingerprint {fingerprint}" if fingerprint else numbers
