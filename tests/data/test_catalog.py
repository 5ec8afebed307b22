import functools
import http.server
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relens.data import catalog, download
from relens.data.catalog import (
    CATALOG,
    CatalogEntry,
    cache_folder,
    find_entry,
    import_folder,
    imported_entries,
    load_dataset,
    load_entry,
    locate_folder,
)
from relens.data.checks import describe
from relens.data.dataset import Dataset, read_folder, write_folder
from relens.errors import DatasetError, InputError, RelensError
from relens.progress import SILENT

FACTS = [("b", "likes", "a"), ("a", "likes", "c")]
TRAIN = [("c", "knows", "b")]
VALID = [("c", "likes", "a")]
TEST = [("a", "knows", "d")]
TOY = Dataset.from_labels("toy", train=FACTS + TRAIN, valid=VALID, test=TEST)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for every test, no data folder, no proxy before the local server."""
    monkeypatch.setenv("RELENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RELENS_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def put(folder: Path, dataset: Dataset = TOY) -> Path:
    folder.mkdir(parents=True)
    write_folder(dataset, folder)
    return folder


@contextmanager
def serving(handler) -> Iterator[str]:
    """Serve on the loopback interface and yield the address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Answering(http.server.BaseHTTPRequestHandler):
    """Answer every request with ``body`` under a Content-Length of ``length`` (none where it is None)."""

    body = b"a\tlikes\tb\n"
    length: int | None = len(body)

    def do_GET(self) -> None:
        self.send_response(200)
        if self.length is not None:
            self.send_header("Content-Length", str(self.length))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder of plain files and the address they are served at; train comes as facts and train."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name, rows in (("facts", FACTS), ("train", TRAIN), ("valid", VALID), ("test", TEST)):
        # No line end after the last triple, as in some published files.
        (folder / f"{name}.txt").write_text("\n".join("\t".join(row) for row in rows), encoding="utf-8")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with serving(functools.partial(Quiet, directory=folder)) as address:
        yield folder, address


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> CatalogEntry:
    """A catalogued toy that cannot be fetched."""
    entry = CatalogEntry("toy", "TOY", TOY.counts, TOY.fingerprint)
    monkeypatch.setitem(CATALOG, "toy", entry)
    return entry


@pytest.fixture
def remote_toy(site: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> CatalogEntry:
    """A catalogued toy with addresses on the local server."""
    files = {"train": ("facts", "train"), "valid": ("valid",), "test": ("test",)}
    sources = {split: tuple(f"{site[1]}/{name}.txt" for name in names) for split, names in files.items()}
    entry = CatalogEntry("toy", "TOY", TOY.counts, TOY.fingerprint, sources)
    monkeypatch.setitem(CATALOG, "toy", entry)
    return entry


# Where a data set is found.


def test_folder_wins_over_a_name(toy: CatalogEntry, tmp_path: Path) -> None:
    other = Dataset.from_labels("x", train=TEST)
    put(tmp_path / "toy", other)
    assert load_dataset("toy").fingerprint == other.fingerprint
    assert load_dataset(tmp_path / "toy").fingerprint == other.fingerprint
    with pytest.raises(DatasetError, match="toy is not on this machine"):
        load_entry(toy, offline=True)


def test_data_folder_comes_before_the_cache_whatever_the_case(
    toy: CatalogEntry, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = put(home / "data" / "TOY")
    assert load_dataset("Toy").folder == cached
    mine = put(tmp_path / "shelf" / "tOy")
    monkeypatch.setenv("RELENS_DATA", str(tmp_path / "shelf"))
    dataset = load_dataset("TOY")
    assert dataset.folder == mine
    assert dataset.name == "toy"


def test_cache_lies_in_the_home_folder_unless_told(monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path) -> None:
    assert cache_folder() == home / "data"
    monkeypatch.delenv("RELENS_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "relens" / "data"


def test_data_folder_that_is_not_one_is_refused(toy: CatalogEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELENS_DATA", "nowhere")
    with pytest.raises(DatasetError, match="RELENS_DATA is 'nowhere', which is not a folder: set it to the parent"):
        load_dataset("toy")


def test_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(DatasetError, match=r"no data set 'wn18r': it is neither a folder .* did you mean 'wn18rr'"):
        load_dataset("wn18r")


@pytest.mark.parametrize("name", ["1" * 5000, "wn18\0rr"])
def test_a_name_that_no_file_can_have_is_unknown(name: str) -> None:
    with pytest.raises(DatasetError, match="no data set"):
        load_dataset(name)


# What a name promises.


def test_content_under_a_known_name_is_checked(toy: CatalogEntry, home: Path) -> None:
    other = Dataset.from_labels("x", train=FACTS, valid=VALID, test=TEST)
    folder = put(home / "data" / "TOY", other)
    message = (
        rf"not toy\. Expected 4 entities, 2 relations, 3 train, 1 valid, 1 test, fingerprint {TOY.fingerprint}; "
        rf"found 4 entities, 2 relations, 2 train, 1 valid, 1 test, fingerprint {other.fingerprint}, read from {folder}"
    )
    with pytest.raises(DatasetError, match=message):
        load_dataset("toy")


def test_same_counts_with_other_content_are_refused(toy: CatalogEntry, home: Path) -> None:
    put(home / "data" / "TOY", Dataset.from_labels("x", train=FACTS + TRAIN, valid=[("c", "likes", "b")], test=TEST))
    with pytest.raises(DatasetError, match="this data is not toy"):
        load_dataset("toy")


def test_catalogue_is_coherent() -> None:
    assert list(CATALOG) == ["wn18rr", "fb15k-237", "nell-995", "umls", "ogbl-biokg", "ogbl-wikikg2", "patterns"]
    for name, entry in CATALOG.items():
        assert entry.name == name == entry.folder.lower().replace("_", "-")
        assert list(entry.sources) == ([] if entry.generate or entry.archive else ["train", "valid", "test"])
        assert bool(entry.fingerprint) == (entry.archive is None)
        assert all(url.startswith("https://") for urls in entry.sources.values() for url in urls)
    names = [url.rpartition("/")[2] for url in CATALOG["nell-995"].sources["train"]]
    assert names == ["facts.txt", "train.txt"]


# Fetching, from a server on this machine.


def test_missing_data_set_is_fetched_once(remote_toy: CatalogEntry, site: tuple[Path, str], home: Path) -> None:
    dataset = load_dataset("toy")
    assert dataset.fingerprint == TOY.fingerprint
    assert dataset.folder == home / "data" / "TOY"
    assert sorted(file.name for file in dataset.folder.iterdir()) == ["test.txt", "train.txt", "valid.txt"]
    assert (dataset.folder / "train.txt").read_text(encoding="utf-8") == "b\tlikes\ta\na\tlikes\tc\nc\tknows\tb\n"
    shutil.rmtree(site[0])
    assert load_dataset("toy", offline=True).fingerprint == TOY.fingerprint


def test_other_content_at_the_address_leaves_nothing_behind(
    remote_toy: CatalogEntry, site: tuple[Path, str], home: Path
) -> None:
    (site[0] / "valid.txt").write_text("c\tlikes\tb\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=rf"not toy\. Expected .* read from {site[1]}/facts\.txt {site[1]}/train"):
        load_dataset("toy")
    assert list((home / "data").iterdir()) == []


def test_failed_fetch_says_what_to_put_where(remote_toy: CatalogEntry, site: tuple[Path, str], home: Path) -> None:
    (site[0] / "test.txt").unlink()
    message = (
        rf"cannot fetch {site[1]}/test\.txt: HTTP Error 404.*\. Put train\.txt \({site[1]}/facts\.txt followed by "
        rf"{site[1]}/train\.txt\), valid\.txt .* into {home}/data/TOY, or set RELENS_DATA to a folder that holds TOY"
    )
    with pytest.raises(RelensError, match=message) as caught:
        load_dataset("toy")
    assert not isinstance(caught.value, InputError)
    assert list((home / "data").iterdir()) == []


def test_offline_never_fetches(remote_toy: CatalogEntry, home: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"toy is not on this machine and `offline=True` forbids the download\. Put train"
    ):
        load_dataset("toy", offline=True)
    assert not home.exists()


def test_data_set_without_an_address_is_asked_for_by_hand(toy: CatalogEntry, home: Path) -> None:
    message = rf"has no known URL\. Put train\.txt, valid\.txt, test\.txt into {home}/data/TOY"
    with pytest.raises(DatasetError, match=message):
        load_dataset("toy")


def test_unreachable_server_is_reported_by_address() -> None:
    with serving(Answering) as address:
        pass
    with pytest.raises(RelensError, match=rf"cannot fetch {address}/x\.txt: .*refused"):
        download.fetch(f"{address}/x.txt", SILENT)


def test_connection_that_closes_early_is_reported() -> None:
    class Short(Answering):
        length = 100

    with serving(Short) as address, pytest.raises(RelensError, match=r"got 10 of 100 bytes before the connection"):
        download.fetch(f"{address}/x.txt", SILENT)


def test_broken_answer_is_reported() -> None:
    class Nonsense(Answering):
        def do_GET(self) -> None:
            self.wfile.write(b"nonsense\r\n\r\n")

    with serving(Nonsense) as address, pytest.raises(RelensError, match=r"cannot fetch .*/x\.txt: nonsense"):
        download.fetch(f"{address}/x.txt", SILENT)


def test_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = threading.Event()

    class Stuck(Answering):
        def do_GET(self) -> None:
            gone.wait()

    monkeypatch.setattr(download, "TIMEOUT_S", 0.1)
    with serving(Stuck) as address:
        try:
            with pytest.raises(RelensError, match=r"cannot fetch .*timed out"):
                download.fetch(f"{address}/x.txt", SILENT)
        finally:
            gone.set()


@pytest.mark.parametrize("length", [10, None])
def test_too_large_an_answer_is_refused(monkeypatch: pytest.MonkeyPatch, length: int | None) -> None:
    handler = type("Large", (Answering,), {"length": length})
    monkeypatch.setattr(download, "MAX_BYTES", 9)
    with serving(handler) as address, pytest.raises(RelensError, match="sends more than 9 bytes, too many"):
        download.fetch(f"{address}/x.txt", SILENT)


@pytest.mark.parametrize(("length", "expected"), [(10, ("fetching x.txt", 10, 10)), (None, ("fetching x.txt", 1, 0))])
def test_progress_counts_bytes_where_their_number_is_known(length: int | None, expected: tuple[str, int, int]) -> None:
    seen: list[float] = []

    class Recorder:
        @contextmanager
        def task(self, description: str, total: float):
            seen.extend([description, total, 0])

            def advance(amount: float) -> None:
                seen[2] += amount

            yield advance

    with serving(type("Plain", (Answering,), {"length": length})) as address:
        assert download.fetch(f"{address}/x.txt", Recorder()) == Answering.body
    assert tuple(seen) == expected


# Importing.


def test_imported_folder_is_known_by_its_name(tmp_path: Path, home: Path) -> None:
    source = put(tmp_path / "mine")
    (source / "labels.tsv").write_text("a\tAda\n", encoding="utf-8")
    entry = import_folder(source, "Kin-2.0")
    shutil.rmtree(source)
    assert entry == find_entry("KIN-2.0") == imported_entries()["kin-2.0"]
    dataset = load_dataset("kin-2.0", offline=True)
    assert dataset.name == "kin-2.0"
    assert dataset.folder == home / "data" / "kin-2.0" == locate_folder(entry)
    assert dataset.fingerprint == TOY.fingerprint
    assert dataset.names == {"a": "Ada"}


def test_remains_of_an_interrupted_import_are_not_a_data_set(tmp_path: Path, home: Path) -> None:
    import_folder(put(tmp_path / "mine"), "kin")
    shutil.copytree(home / "data" / "kin", home / "data" / ".kin.x1.part")
    assert list(imported_entries()) == ["kin"]


def test_imported_content_is_checked_against_its_record(tmp_path: Path, home: Path) -> None:
    import_folder(put(tmp_path / "mine"), "kin")
    write_folder(Dataset.from_labels("x", train=FACTS), home / "data" / "kin")
    with pytest.raises(DatasetError, match=rf"not kin\. Expected .*{TOY.fingerprint}; found 3 entities"):
        load_dataset("kin")


def test_imported_name_is_not_looked_for_in_the_data_folder(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_folder(put(tmp_path / "mine"), "kin")
    put(tmp_path / "shelf" / "kin", Dataset.from_labels("x", train=FACTS))
    monkeypatch.setenv("RELENS_DATA", str(tmp_path / "shelf"))
    assert load_dataset("kin").folder == home / "data" / "kin"


def test_import_replaces_only_by_force(tmp_path: Path) -> None:
    import_folder(put(tmp_path / "one"), "kin")
    other = Dataset.from_labels("x", train=FACTS)
    second = put(tmp_path / "two", other)
    with pytest.raises(DatasetError, match=r"kin exists already: pass `force=True` to .* choose another `name=…`"):
        import_folder(second, "KIN")
    assert load_dataset("kin").fingerprint == TOY.fingerprint
    import_folder(second, "KIN", force=True)
    assert load_dataset("kin").fingerprint == other.fingerprint


def test_import_never_replaces_what_it_did_not_write(tmp_path: Path, home: Path) -> None:
    put(home / "data" / "kin")
    with pytest.raises(DatasetError, match="kin exists already: choose another `name=…`"):
        import_folder(put(tmp_path / "mine"), "kin", force=True)


def test_import_refuses_catalogued_and_impossible_names(tmp_path: Path) -> None:
    source = put(tmp_path / "mine")
    with pytest.raises(DatasetError, match="'wn18rr' is the name of a catalogued data set: choose another `name=…`"):
        import_folder(source, "WN18RR", force=True)
    for name in ("", "../kin", ".kin", "a b", "k" * 65):
        with pytest.raises(DatasetError, match=r"is not a valid name: expected up to 64 letters"):
            import_folder(source, name)


def test_import_of_a_malformed_folder_leaves_nothing_behind(tmp_path: Path, home: Path) -> None:
    source = put(tmp_path / "mine")
    (source / "valid.txt.gz").unlink()
    with pytest.raises(DatasetError, match="no file for valid"):
        import_folder(source, "kin")
    assert not home.exists()


COUNTS = {"entities": 1, "relations": 1, "train": 1, "valid": 1}


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"counts": {}},
        {"counts": 3, "fingerprint": ""},
        {"counts": {**COUNTS, "test": {}}, "fingerprint": ""},
        {"counts": {**COUNTS, "test": 1, "more": "x"}, "fingerprint": ""},
        {"counts": {**COUNTS, "test": 1}, "fingerprint": []},
    ],
)
def test_damaged_record_is_named(tmp_path: Path, home: Path, record: dict[str, object]) -> None:
    import_folder(put(tmp_path / "mine"), "kin")
    (home / "data" / "kin" / catalog.RECORD).write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(
        DatasetError, match=r"imported\.json lacks counts or a fingerprint\. Import .*--name kin --force"
    ):
        load_dataset("kin")
    assert find_entry("umls").name == "umls"


# The published data sets.

SHELF = os.environ.get("RELENS_DATA")
needs_published = pytest.mark.skipif(
    not SHELF, reason="set RELENS_DATA to a folder that holds WN18RR, FB15k-237, NELL-995 and UMLS"
)
UNSEEN = {"wn18rr": (210, 210), "fb15k-237": (9, 28), "nell-995": (102, 0), "umls": (0, 0)}


@needs_published
@pytest.mark.parametrize("name", list(UNSEEN))
def test_published_data_set_is_what_the_catalogue_promises(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELENS_DATA", str(SHELF))
    dataset = load_dataset(name, offline=True)
    facts = describe(dataset)
    assert dataset.counts == CATALOG[name].counts
    assert facts["duplicates"] == {"within_splits": 0, "across_splits": 0}
    assert (facts["unseen_entities"]["valid"], facts["unseen_entities"]["test"]) == UNSEEN[name]


@needs_published
def test_published_data_set_survives_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    source = locate_published("umls", monkeypatch)
    import_folder(source, "copy")
    assert load_dataset("copy").fingerprint == read_folder(source).fingerprint == CATALOG["umls"].fingerprint


def locate_published(name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELENS_DATA", str(SHELF))
    folder = locate_folder(CATALOG[name])
    assert folder is not None
    return folder


def test_a_file_is_no_data_set_but_can_become_one(tmp_path: Path) -> None:
    path = tmp_path / "my graph.csv"
    path.write_text("a,r,b\n", encoding="utf-8")
    with pytest.raises(
        DatasetError, match=r"is a file, expected a folder .* `relens data prepare '.*my graph.csv' FOLDER`"
    ):
        load_dataset(path)
