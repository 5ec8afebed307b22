"""A stored graph is the data set that was written, whatever its labels, and equal data gives equal files."""

import gzip
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relens.data import stored
from relens.data.candidates import PADDING, Candidates
from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset, optional_files, read_folder
from relens.data.patterns import patterns
from relens.data.queries import SPLITS
from relens.data.stored import RECORD, holds, is_graph, keeps_candidates, read_graph, write_graph
from relens.errors import DatasetError, InputError
from relens.files import json_text, read_json
from tests.hostile import HOSTILE

ODD = (
    "\ufeffmark",
    "\ufeff",
    "a b",
    "a",
    "A",
    "l\u2028s",
    "x\x85y",
    "v\x0bt",
    "ü",
    "u\u0308",
    '"q"',
    "\\t",
    "#",
    "0",
    "00",
    "-1",
    *HOSTILE,
)
NEGATIVES = {
    "valid": np.array([[0, 1], [2, PADDING]], dtype=np.int32),
    "test": np.array([[3, 3], [PADDING, PADDING]], dtype=np.int32),
}


def odd_graph() -> Dataset:
    """Return a graph whose labels of entities and relations are odd; valid and test have one triple each."""
    n = len(ODD)
    train = [(ODD[i], ODD[(i * 3) % n], ODD[(i + 1) % n]) for i in range(n)]
    return Dataset.from_labels("odd", train=train[::-1], valid=[train[2]], test=[(ODD[0], ODD[1], ODD[4])])


def with_negatives(dataset: Dataset) -> Dataset:
    """Return a data set with one triple in valid and test, and negatives that repeat, equal the answer, and are few."""
    return replace(
        dataset,
        candidates={split: Candidates(rows, f"by hand {split}", ("train",)) for split, rows in NEGATIVES.items()},
    )


def assert_equal(found: Dataset, expected: Dataset) -> None:
    """Assert that two data sets have the same ids, labels, order of triples, fingerprint and candidates."""
    assert found.name == expected.name
    assert found.entities == expected.entities
    assert found.relations == expected.relations
    for split in SPLITS:
        assert found.splits[split].dtype == np.int32
        assert found.splits[split].tolist() == expected.splits[split].tolist()
    assert found.fingerprint == expected.fingerprint
    assert found.identity == expected.identity
    assert found.candidates.keys() == expected.candidates.keys()
    for split, candidates in expected.candidates.items():
        assert found.candidates[split].negatives.tolist() == candidates.negatives.tolist()
        assert (found.candidates[split].source, found.candidates[split].filter_splits) == (
            candidates.source,
            candidates.filter_splits,
        )


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a folder by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def umls() -> Dataset:
    """Return UMLS where the tests find real data sets."""
    if not os.environ.get("RELENS_DATA"):
        pytest.skip("needs RELENS_DATA with UMLS")
    return load_dataset("umls", offline=True)


@pytest.mark.parametrize("make", [patterns, odd_graph, lambda: with_negatives(odd_graph()), umls])
def test_what_is_read_is_what_was_written(tmp_path, make):
    dataset = make()
    assert not is_graph(tmp_path / "graph")
    write_graph(dataset, tmp_path / "graph")
    assert is_graph(tmp_path / "graph")
    assert_equal(read_graph(tmp_path / "graph"), dataset)
    assert_equal(load_dataset(tmp_path / "graph"), dataset)
    assert holds(tmp_path / "graph", dataset)
    write_graph(read_graph(tmp_path / "graph"), tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "graph")


def test_ids_in_another_order_and_entities_without_triples_are_kept(tmp_path):
    sorted_ids = odd_graph()
    entities = replace(sorted_ids.entities, labels=(*sorted_ids.entities.labels[::-1], "alone"))
    dataset = replace(sorted_ids, entities=entities)
    write_graph(dataset, tmp_path / "graph")
    assert_equal(read_graph(tmp_path / "graph"), dataset)


def test_empty_splits_are_kept(tmp_path):
    dataset = Dataset.from_labels("train only", train=[("a", "r", "b")])
    write_graph(dataset, tmp_path / "graph")
    assert_equal(read_graph(tmp_path / "graph"), dataset)


def test_optional_files_are_kept_and_equal_data_gives_equal_files(tmp_path):
    texts = {
        "train": "b\tr\ta\na\tr\tc\n", "valid": "a\tr\tb\n", "test": "c\tr\tb\n",
        "labels": "a\tAlpha\nb\t\x1b[2J\n", "relation_labels": "r\trelated to\n", "types": "a\tT\na\tU\n\nb\tT\n",
        "valid_negatives": "a\tr\ta\n", "test_negatives": "c\tr\tc\n",
    }  # fmt: skip
    for place, ending, line_end, mode in (("one/g", ".tsv", "\n", open), ("two/g", ".tsv.gz", "\r\n", gzip.open)):
        (tmp_path / place).mkdir(parents=True)
        for stem, text in texts.items():
            with mode(tmp_path / place / (stem + ending), "wb") as file:
                file.write(text.replace("\n", line_end).encode())
        write_graph(read_folder(tmp_path / place), tmp_path / "stored" / place)
    one, two = (contents(tmp_path / "stored" / place) for place in ("one/g", "two/g"))
    assert one == two
    found = read_graph(tmp_path / "stored" / "one/g")
    assert found.names == {"a": "Alpha", "b": "\x1b[2J"}
    kept = {stem: gzip.decompress(file.read_bytes()).decode() for stem, file in optional_files(found.folder).items()}
    assert kept == {stem: text.replace("\n\n", "\n") for stem, text in texts.items() if stem not in SPLITS}
    assert not any(b"one/g" in content or str(tmp_path).encode() in content for content in one.values())


def test_readable_names_that_are_not_in_a_file_are_kept(tmp_path):
    dataset = replace(odd_graph(), read_names=lambda: {"\ufeff": "first", "a": "se\tc\nond"})
    write_graph(dataset, tmp_path / "graph")
    assert read_graph(tmp_path / "graph").names == {"\ufeff": "first", "a": "se c ond"}


def test_a_graph_without_entropy_is_read_again(tmp_path):
    n = 1_500_000  # compresses to less than a hundredth, and unpacks to more than 16 MiB
    train = np.zeros((n, 3), dtype=np.int32)
    dataset = replace(odd_graph(), train=train)
    write_graph(dataset, tmp_path / "graph")
    assert (read_graph(tmp_path / "graph").train == train).all()


def test_large_candidates_are_left_out_and_the_error_says_so(tmp_path, monkeypatch):
    dataset = with_negatives(odd_graph())
    monkeypatch.setattr(stored, "MOST_CANDIDATES", 31)  # the two splits take 32 bytes
    write_graph(dataset, tmp_path / "graph")
    assert not list((tmp_path / "graph").glob("*.npy"))
    assert not keeps_candidates(tmp_path / "graph")
    assert holds(tmp_path / "graph", dataset)
    assert not holds(tmp_path / "graph", odd_graph())
    with pytest.raises(
        DatasetError, match="no copy of the candidates of odd, which take more than 0 MiB: pass the data"
    ):
        read_graph(tmp_path / "graph")
    assert_equal(read_graph(tmp_path / "graph", candidates=False), odd_graph())
    monkeypatch.setattr(stored, "MOST_CANDIDATES", 32)
    write_graph(dataset, tmp_path / "graph")
    assert_equal(read_graph(tmp_path / "graph"), dataset)


def test_a_graph_holds_only_what_it_was_written_from(tmp_path):
    dataset = odd_graph()
    write_graph(dataset, tmp_path / "graph")
    assert not holds(tmp_path / "missing", dataset)
    assert not holds(tmp_path / "graph", replace(dataset, name="even"))
    assert not holds(tmp_path / "graph", replace(dataset, valid=dataset.valid[:0]))
    assert not holds(tmp_path / "graph", with_negatives(dataset))
    assert not holds(tmp_path / "graph", replace(dataset, read_names=lambda: {"a": "b"}))
    renumbered = replace(dataset, entities=replace(dataset.entities, labels=dataset.entities.labels[::-1]))
    assert not holds(tmp_path / "graph", renumbered)


@pytest.mark.parametrize("file", ["train.bin.gz", "entities.txt.gz", "labels.tsv.gz", "test_candidates.npy"])
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_a_damaged_file_is_named(tmp_path, file, damage):
    dataset = with_negatives(replace(odd_graph(), read_names=lambda: {"a": "b"}))
    write_graph(dataset, tmp_path)
    content = bytearray((tmp_path / file).read_bytes())
    if damage == "missing":
        (tmp_path / file).unlink()
    else:
        content[len(content) // 2] ^= 1
        (tmp_path / file).write_bytes(content[:-3] if damage == "cut" else content)
    with pytest.raises(InputError, match=rf"{file} .*Add the graph again with `relens upgrade RUN --data DATASET`"):
        read_graph(tmp_path)
    assert not holds(tmp_path, dataset)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "counts",
            {"entities": 1, "relations": 1, "train": 1, "valid": 1, "test": 1},
            "entities.txt.gz has .* expected 1",
        ),
        ("counts", {}, r"graph.json is damaged \(KeyError"),
        ("counts", {"entities": -1}, r"graph.json is damaged \(ValueError"),
        ("files", [], r"graph.json is damaged \(TypeError"),
        ("files", {"../../outside": "0"}, "outside cannot be read: No such file"),
        (
            "candidates",
            {"valid": {"shape": [2, 3]}},
            r"valid_candidates.npy has shape \(2, 2\) of int32, .* says \[2, 3\]",
        ),
        ("dataset", 3, r"graph.json is damaged \(TypeError"),
        ("format", 9, "graph.json has format 9, this relens reads format 1"),
    ],
)
def test_a_record_that_does_not_fit_is_named(tmp_path, key, value, message):
    write_graph(with_negatives(odd_graph()), tmp_path / "graph")
    file = tmp_path / "graph" / RECORD
    file.write_text(json_text({**read_json(file, "graph"), key: value}))
    with pytest.raises(DatasetError, match=message):
        read_graph(tmp_path / "graph")


def test_ids_outside_the_graph_are_refused_even_without_verification(tmp_path, monkeypatch):
    monkeypatch.setenv("RELENS_VERIFY", "0")
    write_graph(with_negatives(odd_graph()), tmp_path)
    for split, entity in (("valid", 10**6), ("test", -2)):
        shutil.copy(tmp_path / "valid_candidates.npy", tmp_path / "kept.npy")
        np.save(tmp_path / f"{split}_candidates.npy", np.full((2, 2), entity, dtype=np.int32))
        with pytest.raises(DatasetError, match=f"{split}_candidates.npy does not hold ids of the"):
            read_graph(tmp_path)
        np.save(tmp_path / f"{split}_candidates.npy", NEGATIVES[split])
    (tmp_path / "train.bin.gz").write_bytes(gzip.compress(b"\0" * 12))
    with pytest.raises(DatasetError, match=r"train\.bin\.gz has 12 bytes, expected 12 for"):
        read_graph(tmp_path)


def test_a_failed_write_leaves_the_earlier_graph(tmp_path, monkeypatch):
    write_graph(patterns(), tmp_path / "graph")
    before = contents(tmp_path / "graph")
    monkeypatch.setattr(stored, "_tables", lambda *given: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(Exception, match="No space left"):
        write_graph(odd_graph(), tmp_path / "graph")
    assert contents(tmp_path / "graph") == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph"]
