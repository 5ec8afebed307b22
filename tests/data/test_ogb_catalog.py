"""OGB's data sets by name: found where OGB keeps them, fetched as an archive, checked by their counts."""

import functools
import hashlib
import http.server
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch to write OGB's files: pip install 'relens[train]'")

from relens.data import archives, download
from relens.data.catalog import CATALOG, CatalogEntry, import_folder, load_dataset, load_entry
from relens.data.negatives import write_sampled
from relens.errors import DatasetError, RelensError
from relens.records import FETCHED
from tests.cli.commands import fail, succeed
from tests.data.test_catalog import serving
from tests.data.test_negatives import graph
from tests.ogb_files import biokg_splits, wikikg_splits, write_biokg, write_wikikg

COUNTS = {"entities": 33, "relations": 4, "train": 40, "valid": 9, "test": 11}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RELENS_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> CatalogEntry:
    """ogbl-biokg with the counts of the small files."""
    entry = replace(CATALOG["ogbl-biokg"], counts=COUNTS)
    monkeypatch.setitem(CATALOG, "ogbl-biokg", entry)
    return entry


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address its files are served at."""
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with serving(functools.partial(Quiet, directory=folder)) as address:
        yield folder, address


@pytest.fixture
def remote(
    small: CatalogEntry, site: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CatalogEntry:
    """The small ogbl-biokg as an archive on the local server."""
    source = write_biokg(tmp_path / "packed")
    with zipfile.ZipFile(site[0] / "biokg.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.rglob("*")):
            archive.write(file, Path("biokg") / file.relative_to(source))
        archive.writestr("elsewhere/README", "not part of it")
    entry = replace(small, archive=(f"{site[1]}/biokg.zip", "biokg"))
    monkeypatch.setitem(CATALOG, "ogbl-biokg", entry)
    return entry


def test_counts_are_those_of_the_papers_table():
    assert list(CATALOG["ogbl-biokg"].counts.values()) == [93_773, 51, 4_762_678, 162_886, 162_870]
    assert list(CATALOG["ogbl-wikikg2"].counts.values()) == [2_500_604, 535, 16_109_182, 429_456, 598_543]


@pytest.mark.parametrize(
    ("name", "archive", "folder"),
    [("ogbl-biokg", "biokg", "ogbl_biokg"), ("ogbl-wikikg2", "wikikg-v2", "ogbl_wikikg2")],
)
def test_absent_files_say_where_they_belong_and_where_they_come_from(home, name, archive, folder):
    message = (
        rf"{name} is not on this machine and `offline=True` forbids the download\. "
        rf"Unpack {archive}\.zip, which OGB publishes at "
        rf"http://snap\.stanford\.edu/ogb/data/linkproppred/{archive}\.zip, and move its folder {archive} to "
        rf"{re.escape(str(home / 'data' / folder))}; or set RELENS_DATA to a folder that holds {folder}"
    )
    with pytest.raises(DatasetError, match=message):
        load_dataset(name, offline=True)


def test_they_are_found_in_ogbs_own_root(small, tmp_path, monkeypatch):
    write_biokg(tmp_path / "dataset")
    monkeypatch.setenv("RELENS_DATA", str(tmp_path / "dataset"))
    dataset = load_dataset("OGBL-biokg", offline=True)
    assert dataset.name == "ogbl-biokg"
    assert dataset.counts == COUNTS
    assert set(dataset.candidates) == {"valid", "test"}


def test_other_counts_are_refused(tmp_path, monkeypatch):
    write_wikikg(tmp_path / "dataset")
    monkeypatch.setenv("RELENS_DATA", str(tmp_path / "dataset"))
    message = r"this data is not ogbl-wikikg2\. Expected 2,500,604 entities, .*; found 30 entities, 4 rel"
    with pytest.raises(DatasetError, match=message):
        load_dataset("ogbl-wikikg2", offline=True)


def test_a_folder_of_that_name_without_splits_is_refused(tmp_path, monkeypatch):
    (tmp_path / "dataset" / "ogbl_biokg").mkdir(parents=True)
    monkeypatch.setenv("RELENS_DATA", str(tmp_path / "dataset"))
    with pytest.raises(DatasetError, match=r"ogbl_biokg has no split/\*/\*\.pt: expected OGB's layout\. Unpack"):
        load_dataset("ogbl-biokg")


def test_the_archive_is_fetched_unpacked_and_read_once(remote, site, home):
    dataset = load_dataset("ogbl-biokg")
    folder = home / "data" / "ogbl_biokg"
    assert dataset.folder == folder
    assert dataset.counts == COUNTS
    assert sorted(path.name for path in folder.iterdir()) == [
        "RELEASE_v1.txt", "mapping", "raw", "relens", "split",
    ]  # fmt: skip
    (site[0] / "biokg.zip").unlink()
    assert load_dataset("ogbl-biokg", offline=True).fingerprint == dataset.fingerprint


def test_an_archive_that_is_cut_short_leaves_nothing(remote, site, home):
    archive = site[0] / "biokg.zip"
    archive.write_bytes(archive.read_bytes()[:-300])
    with pytest.raises(RelensError, match=r"biokg\.zip sent no complete zip archive .*Unpack biokg\.zip, which OGB"):
        load_dataset("ogbl-biokg")
    assert list((home / "data").iterdir()) == []


def test_an_archive_of_something_else_leaves_nothing(remote, site, home, tmp_path):
    source = write_biokg(tmp_path / "other", {**biokg_splits(), "train": biokg_splits(seed=1)["valid"]})
    with zipfile.ZipFile(site[0] / "biokg.zip", "w") as archive:
        for file in sorted(source.rglob("*")):
            archive.write(file, Path("biokg") / file.relative_to(source))
    with pytest.raises(
        DatasetError, match=r"not ogbl-biokg\. .* found .* 9 train, .* read from http://127.*biokg\.zip"
    ):
        load_dataset("ogbl-biokg")
    assert list((home / "data").iterdir()) == []


@pytest.mark.parametrize("name", ["biokg/../../outside", "biokg/a\\b", "biokg/c:d"])
def test_an_archive_cannot_write_elsewhere(remote, site, home, name):
    with zipfile.ZipFile(site[0] / "biokg.zip", "a") as archive:
        archive.writestr(name, "gotcha")
    with pytest.raises(RelensError, match=r"the archive holds .*, a path outside"):
        load_dataset("ogbl-biokg")
    assert not list(home.rglob("outside"))
    assert list((home / "data").iterdir()) == []


def test_an_archive_of_zeros_is_refused_before_it_fills_the_disk(remote, site, home):
    with zipfile.ZipFile(site[0] / "biokg.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("biokg/split/random/train.pt", bytes(2**24 + 1))
    with pytest.raises(RelensError, match=r"archive\.zip has [\d,]+ bytes and unpacks to more than 16,777,216, the"):
        load_dataset("ogbl-biokg")
    assert list((home / "data").iterdir()) == []


def test_an_archive_that_is_too_large_or_not_there_is_reported(remote, site, monkeypatch):
    monkeypatch.setattr(download, "MAX_ARCHIVE_BYTES", 100)
    with pytest.raises(RelensError, match=r"sends more than 100 bytes, too many for a data set\. Unpack biokg\.zip"):
        load_dataset("ogbl-biokg")
    (site[0] / "biokg.zip").unlink()
    with pytest.raises(RelensError, match=r"cannot fetch http://127.*biokg\.zip: HTTP Error 404.*\. Unpack biokg\.zip"):
        load_dataset("ogbl-biokg")


def test_repeats_are_kept_for_ogbs_data_only(small, tmp_path, monkeypatch):
    splits = biokg_splits()
    splits["test"]["tail_neg"][2, 1] = splits["test"]["tail_neg"][2, 0]
    write_biokg(tmp_path / "dataset", splits)
    monkeypatch.setenv("RELENS_DATA", str(tmp_path / "dataset"))
    with pytest.raises(DatasetError, match=r"occurs more than once .*`relens data get NAME --keep-repeats`"):
        load_dataset("ogbl-biokg")
    assert load_entry(small, keep_repeats=True).counts == COUNTS
    assert load_dataset("ogbl-biokg").counts == COUNTS
    with pytest.raises(DatasetError, match="patterns does not come with OGB's negatives: `keep_repeats=True` is for"):
        load_entry(CATALOG["patterns"], keep_repeats=True)


def test_an_ogb_folder_is_not_imported_but_used_where_it_is(tmp_path):
    folder = write_wikikg(tmp_path)
    with pytest.raises(DatasetError, match="is in OGB's layout, which needs no import: pass the folder itself"):
        import_folder(folder, "mine")
    assert len(load_dataset(folder).test) == len(wikikg_splits()["test"]["head"])


def test_an_imported_data_set_keeps_its_candidates(tmp_path):
    write_sampled(graph(), tmp_path / "sampled", 4)
    import_folder(tmp_path / "sampled", "mine")
    found = load_dataset("mine")
    assert found.candidates["test"].negatives.tolist() == load_dataset("sampled").candidates["test"].negatives.tolist()


# Digests of archives.


def digest_of(site: tuple[Path, str]) -> str:
    return hashlib.sha256((site[0] / "biokg.zip").read_bytes()).hexdigest()


@pytest.fixture
def record(home: Path) -> Path:
    return home / "data" / "ogbl_biokg.archive.json"


@pytest.fixture
def changed(remote: CatalogEntry, site: tuple[Path, str], home: Path) -> tuple[str, str]:
    """Fetch the archive, remove the data set, change the archive, and return the digests before and after."""
    load_dataset("ogbl-biokg")
    before = digest_of(site)
    shutil.rmtree(home / "data" / "ogbl_biokg")
    with (site[0] / "biokg.zip").open("r+b") as file:  # a comment at the end: the content stays the same
        file.seek(-2, 2)
        file.write(b"\x01\x00!")
    assert digest_of(site) != before
    return before, digest_of(site)


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The archives that are unpacked."""
    found: list[Path] = []
    unpack = archives.unpack
    monkeypatch.setattr(archives, "unpack", lambda file, *rest: found.append(file) or unpack(file, *rest))
    return found


def test_the_first_fetch_is_recorded_and_the_same_archive_accepted_later(remote, site, home, record):
    assert not record.exists()
    load_dataset("ogbl-biokg")
    content = FETCHED.read(record)
    assert (content["sha256"], content["url"]) == (digest_of(site), f"{site[1]}/biokg.zip")
    shutil.rmtree(home / "data" / "ogbl_biokg")
    assert load_dataset("ogbl-biokg").counts == COUNTS


def test_another_archive_is_refused_with_both_digests_and_the_way_to_accept_it(home, record, changed, unpacked):
    before, after = changed
    message = (
        rf"biokg\.zip sent an archive with SHA-256 {after}, expected {before}, that of the first fetch "
        rf"\({re.escape(str(record))}\)\. Nothing was unpacked\. .* If you know from another source that "
        rf"the new one is right, accept it: `relens data get ogbl-biokg --sha256 {after}`"
    )
    with pytest.raises(DatasetError, match=message):
        load_dataset("ogbl-biokg")
    assert unpacked == []
    assert list((home / "data").iterdir()) == [record]
    assert FETCHED.read(record)["sha256"] == before


def test_a_new_archive_is_accepted_by_its_digest(home, record, changed):
    before, after = changed
    fail(2, f"SHA-256 {after}, expected {before}", "data", "get", "ogbl-biokg")
    succeed("data", "get", "ogbl-biokg", "--sha256", after.upper())
    assert FETCHED.read(record)["sha256"] == after
    shutil.rmtree(home / "data" / "ogbl_biokg")
    succeed("data", "get", "ogbl-biokg")


def test_a_given_digest_is_checked_at_the_first_fetch(remote, site, home, record, unpacked):
    wrong = "0" * 64
    with pytest.raises(DatasetError, match=rf"SHA-256 {digest_of(site)}, expected {wrong}, the one you gave\. Nothing"):
        load_entry(remote, sha256=wrong)
    assert (unpacked, list((home / "data").iterdir())) == ([], [])
    assert load_entry(remote, sha256=digest_of(site)).counts == COUNTS
    assert len(unpacked) == 1


def test_a_given_digest_is_compared_with_the_archive_of_a_data_set_that_is_here(remote, site, record):
    load_entry(remote)
    assert load_entry(remote, sha256=digest_of(site)).counts == COUNTS
    wrong = "0" * 64
    with pytest.raises(
        DatasetError, match=rf"came from an archive with SHA-256 {digest_of(site)}, expected {wrong}\. Rem"
    ):
        load_entry(remote, sha256=wrong)
    record.unlink()
    with pytest.raises(
        DatasetError, match=rf"ogbl_biokg has no record of its archive, expected {wrong}\. Remove the fo"
    ):
        load_entry(remote, sha256=wrong)


def test_an_archive_of_something_else_is_not_recorded(remote, site, record, monkeypatch):
    monkeypatch.setitem(remote.counts, "train", 41)
    with pytest.raises(DatasetError, match="this data is not ogbl-biokg"):
        load_entry(remote, sha256=digest_of(site))
    assert not record.exists()


@pytest.mark.parametrize("digest", ["", "abc", "g" * 64, "0" * 63, "0" * 65])
def test_what_is_no_digest_is_refused(remote, digest):
    with pytest.raises(DatasetError, match=r"is not a SHA-256: expected 64 hexadecimal digits, as sha256sum prints"):
        load_entry(remote, sha256=digest)


def test_only_archives_have_digests():
    for name in ("patterns", "wn18rr"):
        with pytest.raises(
            DatasetError, match=f"{name} does not come as an archive: `sha256=HEX` is for ogbl-biokg and"
        ):
            load_entry(CATALOG[name], sha256="0" * 64)


@pytest.mark.parametrize("content", ["{}", "nonsense", '{"kind": "relens fetched archive", "format": 1}',
                                     '{"kind": "relens fetched archive", "format": 1, "sha256": "x"}'])  # fmt: skip
def test_a_damaged_record_is_an_error_with_the_remedy(remote, site, home, record, content):
    load_entry(remote)
    shutil.rmtree(home / "data" / "ogbl_biokg")
    record.write_text(content)
    with pytest.raises(ValueError, match=r"ogbl_biokg\.archive\.json") as caught:
        load_entry(remote)
    # What cannot be read as JSON at all is reported by the reader of all JSON files.
    assert content == "nonsense" or "emove it to trust the next fetch, or name the digest" in str(caught.value)
    assert load_entry(remote, sha256=digest_of(site)).counts == COUNTS
    assert FETCHED.read(record)["sha256"] == digest_of(site)
