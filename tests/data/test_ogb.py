"""OGB's layout is read as ogb 1.3.6 reads it, once; what is wrong with the files is named."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch to write OGB's files: pip install 'relens[train]'")

from campaigns.disks import in_a_namespace, mountable_at
from relens.data import ogb
from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.ogb import is_ogb, read_ogb
from relens.data.queries import HEAD, TAIL
from relens.errors import DatasetError
from tests.ogb_files import (
    N_NEGATIVES,
    NODE_COUNTS,
    SIZES,
    biokg_splits,
    torch,
    wikikg_splits,
    write_biokg,
    write_csv,
    write_splits,
    write_wikikg,
)
from tests.ogb_package import read_with_ogb
from tests.patience import HANG

TYPES = sorted(NODE_COUNTS)


def label(columns: dict[str, Any], side: str, row: int, number: int) -> str:
    """Name an entity from OGB's columns by an obvious rule."""
    return f"{columns[f'{side}_type'][row]}:{number}" if f"{side}_type" in columns else str(number)


def agrees(dataset: Dataset, splits: dict[str, dict[str, Any]]) -> None:
    """Compare triples, queries and candidates with OGB's columns, one by one and by label."""
    entities = dataset.entities.labels
    for split, columns in splits.items():
        triples = dataset.splits[split].tolist()
        assert len(triples) == len(columns["head"]) == SIZES[split]
        for row, (head, relation, tail) in enumerate(triples):
            assert entities[head] == label(columns, "head", row, columns["head"][row])
            assert entities[tail] == label(columns, "tail", row, columns["tail"][row])
            assert relation == columns["relation"][row]
        if split == "train":
            continue
        queries, candidates = dataset.queries(split), dataset.candidates[split]
        assert candidates.negatives.shape == (2 * len(triples), N_NEGATIVES)
        for query, (triple, direction) in enumerate(zip(queries.triple, queries.direction, strict=True)):
            side = {TAIL: "tail", HEAD: "head"}[int(direction)]
            expected = [label(columns, side, triple, number) for number in columns[f"{side}_neg"][triple]]
            assert [entities[entity] for entity in candidates.negatives[query]] == expected


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize(("protocol", "zipped"), [(2, True), (4, True), (2, False), (4, False)])
def test_biokg_is_read_with_typed_entities(tmp_path, joint, protocol, zipped):
    saving = {"pickle_protocol": protocol, "_use_new_zipfile_serialization": zipped}
    folder = write_biokg(tmp_path, joint=joint, **saving)
    dataset = read_ogb(folder)
    assert dataset.name == "ogbl-biokg"
    assert dataset.entities.labels == tuple(f"{kind}:{i}" for kind in TYPES for i in range(NODE_COUNTS[kind]))
    assert dataset.relations.labels == ("disease-protein", "drug-disease", "drug-drug", "protein-protein")
    assert dataset.names["drug:3"] == "DR0003"
    assert len(dataset.names) == len(dataset.entities)
    agrees(dataset, biokg_splits())


@pytest.mark.parametrize(("protocol", "zipped"), [(2, True), (4, False)])
def test_wikikg_is_read_with_its_own_numbers(tmp_path, protocol, zipped):
    folder = write_wikikg(tmp_path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    dataset = read_ogb(folder)
    assert dataset.name == "ogbl-wikikg2"
    assert dataset.entities.labels == tuple(map(str, range(30)))
    assert dataset.relations.labels == ("P10", "P11", "P12", "P13")
    assert dataset.names["7"] == "Q107"
    agrees(dataset, wikikg_splits())


@pytest.mark.parametrize("name", ["ogbl-biokg", "ogbl-wikikg2"])
def test_the_reader_agrees_with_ogb_itself(tmp_path, monkeypatch, name):
    write = {"ogbl-biokg": write_biokg, "ogbl-wikikg2": write_wikikg}[name]
    folder = write(tmp_path)
    graph, splits = read_with_ogb(name, tmp_path, monkeypatch)
    dataset = read_ogb(folder)
    agrees(dataset, splits)
    if name == "ogbl-biokg":
        assert {k: sum(e.startswith(f"{k}:") for e in dataset.entities.labels) for k in TYPES} == graph[
            "num_nodes_dict"
        ]
    else:
        assert len(dataset.entities) == graph["num_nodes"]
        assert np.array_equal(dataset.train[:, [0, 2]].T, graph["edge_index"])
    # Without raw, what ogb itself has processed says how many nodes there are.
    shutil.rmtree(folder / "raw")
    assert (folder / "processed" / "data_processed").is_file()
    assert read_ogb(folder).entities == dataset.entities


def test_a_folder_in_ogbs_layout_is_a_data_set_anywhere(tmp_path):
    folder = write_wikikg(tmp_path)
    assert is_ogb(folder)
    assert not is_ogb(tmp_path)
    agrees(load_dataset(folder), wikikg_splits())
    renamed = folder.rename(tmp_path / "mine")
    assert load_dataset(str(renamed)).name == "mine"


def test_without_mapping_relations_are_numbers_and_entities_have_no_names(tmp_path):
    folder = write_biokg(tmp_path)
    shutil.rmtree(folder / "mapping")
    dataset = read_ogb(folder)
    assert dataset.relations.labels == ("0", "1", "2", "3")
    assert dataset.names == {}
    agrees(dataset, biokg_splits())


def test_relations_of_one_name_stay_apart(tmp_path):
    folder = write_wikikg(tmp_path)
    rows = [["reltype", "rel id"], [1, "P9"], [0, "P9"], [2, "P1"], [3, ""], [4, "never used"]]
    write_csv(folder / "mapping" / "reltype2relid.csv.gz", rows)
    assert read_ogb(folder).relations.labels == ("P9 (0)", "P9 (1)", "P1", "3", "never used")


# The copy.


def test_files_are_read_once_and_again_when_they_change(tmp_path, monkeypatch):
    folder = write_wikikg(tmp_path)
    reads: list[Path] = []
    read = ogb.read_saved
    monkeypatch.setattr(ogb, "read_saved", lambda path: reads.append(path) or read(path))
    read_ogb(folder)
    assert [path.name for path in reads] == ["train.pt", "valid.pt", "test.pt"]
    agrees(read_ogb(folder), wikikg_splits())
    assert len(reads) == 3
    write_splits(folder / "split" / "time", wikikg_splits(seed=1))
    agrees(read_ogb(folder), wikikg_splits(seed=1))
    assert len(reads) == 6
    manifest = folder / "relens" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 0}))
    agrees(read_ogb(folder), wikikg_splits(seed=1))
    assert len(reads) == 9


def test_a_joint_file_is_read_once(tmp_path, monkeypatch):
    folder = write_wikikg(tmp_path, joint=True)
    reads: list[Path] = []
    read = ogb.read_saved
    monkeypatch.setattr(ogb, "read_saved", lambda path: reads.append(path) or read(path))
    agrees(read_ogb(folder), wikikg_splits())
    assert [path.name for path in reads] == ["split_dict.pt"]


def test_negatives_are_mapped_and_not_held_in_memory(tmp_path):
    negatives = read_ogb(write_wikikg(tmp_path)).candidates["test"].negatives
    assert isinstance(negatives, np.memmap)
    assert negatives.dtype == np.int32
    assert not negatives.flags.writeable


def test_a_folder_that_cannot_be_written_to_is_copied_elsewhere(tmp_path, monkeypatch):
    folder = write_wikikg(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    agrees(read_ogb(folder, copies=tmp_path / "copies"), wikikg_splits())
    assert not (folder / "relens").exists()
    (copy,) = (tmp_path / "copies").iterdir()
    assert (copy / "manifest.json").is_file()
    agrees(read_ogb(folder, copies=tmp_path / "copies"), wikikg_splits())


def test_a_damaged_copy_is_refused_with_the_remedy(tmp_path):
    folder = write_wikikg(tmp_path)
    read_ogb(folder)
    np.save(folder / "relens" / "valid_candidates.npy", np.zeros((2, 4), dtype=np.int32))
    with pytest.raises(DatasetError, match=r"valid_candidates\.npy does not fit valid\.npy beside it: remove .*relens"):
        read_ogb(folder)


# Bad input: each file is refused, and nothing is left behind.


def spoilt(splits: dict[str, dict[str, Any]], split: str, **columns: Any) -> dict[str, dict[str, Any]]:
    return {**splits, split: {key: v for key, v in {**splits[split], **columns}.items() if v is not None}}


def changed(array: Any, place: tuple[int, ...], value: int) -> Any:
    array = array.copy()
    array[place] = value
    return array


BIO, WIKI = biokg_splits(), wikikg_splits()
VALID, TEST = BIO["valid"], WIKI["test"]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (
            spoilt(BIO, "valid", head=changed(VALID["head"], (2,), 12)),
            rf"valid\.pt \(valid\), triple 2: found head 12 of type '{VALID['head_type'][2]}', "
            rf"expected 0 to {NODE_COUNTS[VALID['head_type'][2]] - 1}\.",
        ),
        (
            spoilt(BIO, "valid", tail=changed(VALID["tail"], (8,), -1)),
            rf"triple 8: found tail -1 of type '{VALID['tail_type'][8]}', expected 0 to",
        ),
        (
            spoilt(BIO, "valid", tail_neg=changed(VALID["tail_neg"], (3, 1), 12)),
            rf"triple 3: found tail_neg 12 of type '{VALID['tail_type'][3]}', expected 0 to",
        ),
        (
            spoilt(BIO, "valid", head_neg=changed(VALID["head_neg"], (4, 0), int(VALID["head"][4]))),
            r"negatives of .*valid\.pt \(valid\), query 9 \(triple 4, head\): the answer, entity \d+, is among the "
            r"negatives\. Remove it; or, for OGB's own files, .*`keep_repeats=True`",
        ),
        (
            spoilt(WIKI, "test", tail_neg=changed(TEST["tail_neg"], (5, 3), int(TEST["tail_neg"][5, 1]))),
            rf"query 10 \(triple 5, tail\): entity {TEST['tail_neg'][5, 1]} occurs more than once among the negatives",
        ),
        (spoilt(WIKI, "test", head=changed(TEST["head"], (0,), 30)), "found head 30, expected 0 to 29"),
        (spoilt(WIKI, "test", head_neg=None), r"test\.pt \(test\) has no column head_neg: found head, relation, tail"),
        (spoilt(BIO, "valid", tail_neg=None), r"valid\.pt \(valid\) has no column tail_neg"),
        (spoilt(WIKI, "test", relation=None), "has no column relation"),
        (spoilt(WIKI, "test", tail_neg=TEST["tail_neg"][:-1]), "has 10 rows of tail_neg for 11 triples"),
        (spoilt(WIKI, "test", tail_neg=TEST["tail_neg"][:, 1:]), "{'tail': 3, 'head': 4} negatives per triple"),
        (spoilt(WIKI, "test", tail=TEST["tail"][1:]), "has 11 heads, 11 relations and 10 tails"),
        (spoilt(WIKI, "test", relation=TEST["relation"] - 9), "has relation -8 in triple 0, expected 0 to 2147483646"),
        (
            spoilt(WIKI, "test", head=TEST["head"] / 2),
            "head is shape .11,. of float64, expected 1-dimensional",
        ),
        (spoilt(WIKI, "test", head=TEST["head"].tolist()), "head is list, expected 1-dimensional integers"),
        (
            spoilt(BIO, "valid", head_type=["gene", *VALID["head_type"][1:]]),
            "has the head_type 'gene', expected one of",
        ),
        (spoilt(BIO, "valid", tail_type=VALID["tail_type"][1:]), "has 8 tail_type for 9 triples"),
        (
            spoilt(BIO, "valid", head_type=None),
            "has no column head_type, but .* are 'disease', 'drug'",
        ),
        (
            spoilt(WIKI, "train", head_type=["drug"] * 40),
            "has the column head_type, but .* are ''",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
@pytest.mark.parametrize("joint", [False, True])
def test_bad_columns_are_refused_and_nothing_is_left(tmp_path, splits, message, joint):
    write = write_biokg if "head_type" in splits["test"] else write_wikikg
    folder = write(tmp_path, splits, joint=joint)
    with pytest.raises(DatasetError, match=message.replace(r"valid\.pt", r"\w+\.pt").replace(r"test\.pt", r"\w+\.pt")):
        read_ogb(folder)
    assert not (folder / "relens").exists()
    assert not list(folder.glob(".*")), "nothing half-written"


def test_a_good_copy_survives_bad_files(tmp_path):
    folder = write_wikikg(tmp_path)
    read_ogb(folder)
    before = {file.name: file.read_bytes() for file in (folder / "relens").iterdir()}
    whole = (folder / "split" / "time" / "test.pt").read_bytes()
    (folder / "split" / "time" / "test.pt").write_bytes(whole[:-200])
    with pytest.raises(DatasetError, match=r"test\.pt cannot be read .*cut short or damaged|neither a zip"):
        read_ogb(folder)
    assert {file.name: file.read_bytes() for file in (folder / "relens").iterdir()} == before


@pytest.mark.parametrize("file", ["raw/num-node-list.csv.gz", "mapping/reltype2relid.csv.gz"])
def test_truncated_tables_are_refused(tmp_path, file):
    folder = write_wikikg(tmp_path)
    (folder / file).write_bytes((folder / file).read_bytes()[:-6])
    with pytest.raises(DatasetError, match=rf"{re.escape(file)} is not a complete gzip file"):
        read_ogb(folder)
    assert not (folder / "relens").exists()


@pytest.mark.parametrize(
    ("file", "rows", "message"),
    [
        ("raw/num-node-list.csv.gz", [["many"]], "lacks the number of nodes"),
        ("raw/num-node-list.csv.gz", [[1], [2]], "lacks the number of nodes"),
        ("raw/num-node-list.csv.gz", [[0]], "expected names of types with one node or more each, at most 2,147"),
        ("raw/num-node-dict.csv.gz", [["drug", "gene"], [4]], "lacks the number of nodes"),
        ("mapping/reltype2relid.csv.gz", [["reltype", "rel id"], [0, "P1"]], "has 1 of the 4 relations of the triples"),
        ("mapping/reltype2relid.csv.gz", [["reltype", "rel id"], [0, "P", 1]], r"row 2: found \['0', 'P', '1'\]"),
        ("mapping/reltype2relid.csv.gz", [["reltype", "rel id"], [0, "a"], [0, "b"]], "2 rows and 1 different numbers"),
        (
            "raw/num-node-list.csv.gz",
            [[10**9]],
            r"1,000,000,000 nodes, but all files together name nodes \d+ times",
        ),
        ("raw/num-node-list.csv.gz", [["9" * 100_000]], "lacks the number of nodes"),
        ("raw/num-node-list.csv.gz", [[2**31]], "expected names of types with one node or more each, at most 2,147"),
        (
            "mapping/reltype2relid.csv.gz",
            [["a", "b"], [0, "x" * 140_000]],
            r"comma-separated values \(field larger",
        ),
        ("mapping/reltype2relid.csv.gz", [["a", "b"], ["1" * 100_000, "P"]], r"row 2: found \['1111"),
    ],
)
def test_tables_that_say_something_else_are_refused(tmp_path, file, rows, message):
    folder = write_wikikg(tmp_path)
    write_csv(folder / file, rows)
    with pytest.raises(DatasetError, match=message):
        read_ogb(folder)


def test_a_relation_beyond_the_triples_is_refused(tmp_path):
    splits = wikikg_splits()
    splits["train"]["relation"][3] = 2**31 - 2
    folder = write_wikikg(tmp_path, splits)
    (folder / "mapping" / "reltype2relid.csv.gz").unlink()
    with pytest.raises(DatasetError, match=r"has relation 2,147,483,646 in 60 triples, and no names of relations in"):
        read_ogb(folder)
    assert not (folder / "relens").exists()


def test_a_copy_that_asks_for_the_world_is_refused(tmp_path):
    folder = write_wikikg(tmp_path)
    read_ogb(folder)
    record = json.loads((folder / "relens" / "manifest.json").read_text())
    del record["checksum"]
    (folder / "relens" / "manifest.json").write_text(json.dumps({**record, "node_counts": {"": 10**9}}))
    with pytest.raises(DatasetError, match=r"manifest\.json has more nodes than the arrays beside it name\. Remove"):
        read_ogb(folder)
    (folder / "relens" / "manifest.json").write_text(json.dumps({**record, "node_counts": {"": "x"}}))
    assert len(read_ogb(folder).entities) == 30, "it is made again"


def test_many_relations_of_one_name_are_told_apart_soon(tmp_path):
    folder = write_wikikg(tmp_path)
    write_csv(folder / "mapping" / "reltype2relid.csv.gz", [["a", "b"], *([number, "P"] for number in range(100_000))])
    assert read_ogb(folder).relations.labels[99_999] == "P (99999)"


def test_missing_files_are_named(tmp_path):
    folder = write_wikikg(tmp_path)
    (folder / "split" / "time" / "valid.pt").unlink()
    with pytest.raises(
        DatasetError, match=r"valid\.pt is missing: expected the triples of valid\. Unpack OGB's archive"
    ):
        read_ogb(folder)
    write_splits(folder / "split" / "random", WIKI)
    with pytest.raises(DatasetError, match=r"has these splits: random, time\. Expected one"):
        read_ogb(folder)
    shutil.rmtree(folder / "split" / "time")
    shutil.rmtree(folder / "raw")
    with pytest.raises(DatasetError, match=r"has none of raw/num-node-dict\.csv\.gz, .*: expected the number of nodes"):
        read_ogb(folder)


def test_names_of_other_entities_are_refused_when_they_are_asked_for(tmp_path):
    folder = write_wikikg(tmp_path)
    write_csv(folder / "mapping" / "nodeidx2entityid.csv.gz", [["node idx", "entity id"], [0, "Q1"]])
    with pytest.raises(DatasetError, match="has 1 of the 30 entities of the data set"):
        _ = read_ogb(folder).names


def test_repeats_are_kept_where_asked_and_counted_each(tmp_path):
    negatives = changed(changed(TEST["tail_neg"], (5, 3), int(TEST["tail_neg"][5, 1])), (0, 0), int(TEST["tail"][0]))
    folder = write_wikikg(tmp_path, spoilt(WIKI, "test", tail_neg=negatives))
    with pytest.raises(DatasetError, match="the answer"):
        read_ogb(folder)
    dataset = read_ogb(folder, keep_repeats=True)
    assert np.array_equal(dataset.candidates["test"].negatives[::2], negatives)
    # Said once, it holds for whoever reads the folder later.
    assert np.array_equal(read_ogb(folder).candidates["test"].negatives[::2], negatives)


def test_a_split_that_is_no_table_is_refused(tmp_path):
    folder = write_wikikg(tmp_path)
    torch.save([1, 2], folder / "split" / "time" / "valid.pt")
    with pytest.raises(DatasetError, match=r"valid\.pt holds list for valid, expected a dictionary of columns"):
        read_ogb(folder)
    write_splits(folder / "split" / "time", {"train": WIKI["train"], "valid": WIKI["valid"]}, joint=True)
    with pytest.raises(DatasetError, match=r"split_dict\.pt holds NoneType for test, expected a dictionary of columns"):
        read_ogb(folder)


def test_a_split_without_triples_has_no_candidates_to_rank(tmp_path):
    empty = {name: column[:0] for name, column in WIKI["valid"].items()}
    dataset = read_ogb(write_wikikg(tmp_path, {**WIKI, "valid": empty}))
    assert dataset.candidates["valid"].negatives.shape == (0, N_NEGATIVES)
    assert len(dataset.queries("valid")) == 0


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(tmp_path):
    """The converted negatives need more than there is."""
    source, disk = tmp_path / "source", tmp_path / "disk"
    disk.mkdir()
    if not mountable_at(disk):
        pytest.skip("needs a small file system: unshare and mount")
    splits = wikikg_splits()
    rng = np.random.default_rng(0)
    for split in ("valid", "test"):
        for side in ("head_neg", "tail_neg"):
            splits[split][side] = rng.integers(0, 8, (SIZES[split], 50_000))
    write_wikikg(source, splits)
    (folder,) = (path.parent for path in source.rglob("split") if path.is_dir())
    script = (
        f"import shutil, os; from pathlib import Path; from relens.data.ogb import read_ogb\n"
        f"folder = Path({str(disk)!r}, 'copy'); shutil.copytree({str(folder)!r}, folder)\n"
        f"space = os.statvfs(folder); free = space.f_bfree * space.f_frsize\n"
        f"Path({str(disk)!r}, 'filler').write_bytes(bytes(free - 65536))\n"
        f"read_ogb(folder, keep_repeats=True)"
    )
    command = in_a_namespace(disk, sys.executable, "-c", script)
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 1, done.stderr
    assert "RelensError: cannot write" in done.stderr
    assert "No space left on device. Nothing was changed there; free some space" in done.stderr
