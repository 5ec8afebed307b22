import gzip
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.data import vocabulary as vocabulary_module
from relens.data.dataset import Dataset, read_folder, sorted_rows, write_folder
from relens.data.labels import Labels
from relens.data.queries import SPLITS
from relens.data.vocabulary import Vocabulary
from relens.errors import DatasetError

TRAIN = [("b", "likes", "a"), ("a", "likes", "c"), ("c", "knows", "b")]
VALID = [("c", "likes", "a")]
TEST = [("a", "knows", "d"), ("b", "likes", "c")]


def write_split(folder: Path, file: str, rows: list[tuple[str, str, str]], end: str = "\n") -> None:
    content = "".join("\t".join(row) + end for row in rows).encode("utf-8")
    (folder / file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    folder.mkdir()
    for split, rows in zip(SPLITS, (TRAIN, VALID, TEST), strict=True):
        write_split(folder, f"{split}.txt", rows)
    return folder


def labelled(dataset: Dataset, split: str) -> list[tuple[str, str, str]]:
    entities, relations = dataset.entities.labels, dataset.relations.labels
    return [(entities[h], relations[r], entities[t]) for h, r, t in dataset.splits[split].tolist()]


def test_folder_gives_its_triples_in_file_order_with_ids_by_sorted_label(folder: Path) -> None:
    dataset = read_folder(folder)
    assert dataset.name == "toy"
    assert dataset.folder == folder
    assert dataset.entities.labels == ("a", "b", "c", "d")
    assert dataset.relations.labels == ("knows", "likes")
    assert dataset.train.tolist() == [[1, 1, 0], [0, 1, 2], [2, 0, 1]]
    assert [labelled(dataset, split) for split in SPLITS] == [TRAIN, VALID, TEST]
    assert dataset.counts == {"entities": 4, "relations": 2, "train": 3, "valid": 1, "test": 2}


def test_triples_are_int32_read_only_copies() -> None:
    mine = np.array([[0, 0, 1]])
    dataset = Dataset("x", Vocabulary("entity", ("a", "b")), Vocabulary("relation", ("r",)), mine, mine, mine)
    mine[0] = 7
    assert dataset.train.tolist() == [[0, 0, 1]]
    assert dataset.train.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        dataset.train[0, 0] = 1


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".tsv", ".tsv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_file_format_gives_the_same_fingerprint(folder: Path, tmp_path: Path, ending: str, end: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for split, rows in zip(SPLITS, (TRAIN, VALID, TEST), strict=True):
        write_split(other, split + ending, rows, end)
    assert read_folder(other).fingerprint == read_folder(folder).fingerprint


def test_byte_order_mark_empty_lines_and_missing_last_line_end_do_not_count(folder: Path) -> None:
    expected = read_folder(folder).fingerprint
    (folder / "train.txt").write_bytes(b"\xef\xbb\xbfb\tlikes\ta\n\na\tlikes\tc\nc\tknows\tb")
    assert read_folder(folder).fingerprint == expected


def test_labels_may_hold_spaces_and_unusual_line_separators(folder: Path) -> None:
    row = ("New York", "part of", "U\u2028S\x85A")
    write_split(folder, "train.txt", [row])
    assert labelled(read_folder(folder), "train") == [row]


def test_order_of_valid_counts_in_the_fingerprint_but_that_of_train_does_not() -> None:
    original = Dataset.from_labels("x", train=TRAIN, valid=TEST, test=VALID).fingerprint
    assert Dataset.from_labels("y", train=TRAIN[::-1], valid=TEST, test=VALID).fingerprint == original
    assert Dataset.from_labels("x", train=TRAIN, valid=TEST[::-1], test=VALID).fingerprint != original
    assert Dataset.from_labels("x", train=TRAIN, valid=VALID, test=TEST).fingerprint != original
    assert Dataset.from_labels("x", train=[*TRAIN, TRAIN[0]], valid=TEST, test=VALID).fingerprint != original


# U+FEFF at the start of a file is a byte-order mark and not part of a label.
characters = st.characters(exclude_characters="\t\n\r\ufeff", exclude_categories=["Cs"])
labels = st.text(characters, min_size=1, max_size=3).filter(str.strip)
triples = st.lists(st.tuples(labels, labels, labels), max_size=6)


@settings(deadline=None)
@given(train=triples, valid=triples, test=triples, seed=st.integers(0, 2**32))
def test_fingerprint_does_not_depend_on_the_numbering_of_ids(train, valid, test, seed) -> None:
    dataset = Dataset.from_labels("x", train=train, valid=valid, test=test)
    vocabularies = []
    for vocabulary in (dataset.entities, dataset.relations):
        shuffled = random.Random(seed).sample(vocabulary.labels, len(vocabulary))
        vocabularies.append(Vocabulary(vocabulary.kind, tuple(shuffled)))
    entities, relations = vocabularies
    renumbered = [
        [(entities.id_of(h), relations.id_of(r), entities.id_of(t)) for h, r, t in rows]
        for rows in (train, valid, test)
    ]
    assert Dataset("y", entities, relations, *map(np.array, renumbered)).fingerprint == dataset.fingerprint


@settings(deadline=None)
@given(train=triples.filter(bool), valid=triples, test=triples)
def test_written_folder_reads_back_the_same(tmp_path_factory, train, valid, test) -> None:
    dataset = Dataset.from_labels("x", train=train, valid=valid, test=test)
    folder = tmp_path_factory.mktemp("written")
    write_folder(dataset, folder)
    again = read_folder(folder)
    assert again.entities == dataset.entities
    assert again.relations == dataset.relations
    assert [labelled(again, split) for split in SPLITS] == [train, valid, test]
    assert again.fingerprint == dataset.fingerprint


def test_written_files_do_not_depend_on_the_clock(folder: Path, tmp_path: Path) -> None:
    copies = [tmp_path / "one", tmp_path / "two"]
    for copy in copies:
        copy.mkdir()
        write_folder(read_folder(folder), copy)
    assert (copies[0] / "train.txt.gz").read_bytes() == (copies[1] / "train.txt.gz").read_bytes()
    assert (copies[0] / "train.txt.gz").read_bytes()[4:8] == bytes(4)


def test_names_are_read_when_first_needed_and_travel_with_a_copy(folder: Path, tmp_path: Path) -> None:
    assert read_folder(folder).names == {}
    assert Dataset.from_labels("x", train=TRAIN).names == {}
    (folder / "labels.tsv").write_text("a\tAda\nb\tBob of Bath\n", encoding="utf-8")
    dataset = read_folder(folder)
    assert dataset.names == {"a": "Ada", "b": "Bob of Bath"}
    copy = tmp_path / "copy"
    copy.mkdir()
    write_folder(dataset, copy)
    assert (copy / "labels.tsv.gz").exists()
    assert read_folder(copy).names == dataset.names


def test_malformed_names_are_refused_by_line(folder: Path) -> None:
    (folder / "labels.tsv").write_text("a\tAda\nb Bob\n", encoding="utf-8")
    dataset = read_folder(folder)
    with pytest.raises(DatasetError, match=r"labels\.tsv, line 2: found 1 field in .* \(entity, name\)"):
        _ = dataset.names


def test_empty_valid_and_test_are_allowed(folder: Path) -> None:
    for split in ("valid", "test"):
        (folder / f"{split}.txt").write_bytes(b"")
    dataset = read_folder(folder)
    assert dataset.valid.shape == dataset.test.shape == (0, 3)
    assert len(dataset.queries("valid")) == 0


def test_queries_of_a_split_come_in_pairs(folder: Path) -> None:
    dataset = read_folder(folder)
    queries = dataset.queries("test")
    assert queries.anchor.tolist() == [0, 3, 1, 2]
    assert queries.answer.tolist() == [3, 0, 2, 1]
    with pytest.raises(DatasetError, match="unknown split 'tests'; did you mean 'test'"):
        dataset.queries("tests")


# What is wrong with a folder, and what the message must say.


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"nowhere is not a folder; expected one with train\.txt"):
        read_folder(tmp_path / "nowhere")


def test_missing_split(folder: Path) -> None:
    (folder / "valid.txt").rename(folder / "dev.txt")
    message = r"no file for valid: expected one of valid\.txt, .* the folder holds dev\.txt, test\.txt, train\.txt"
    with pytest.raises(DatasetError, match=message):
        read_folder(folder)


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no file for train: .* the folder holds nothing"):
        read_folder(tmp_path)


def test_two_files_for_one_split(folder: Path) -> None:
    shutil.copy(folder / "train.txt", folder / "train.tsv")
    with pytest.raises(DatasetError, match=r"has train\.txt and train\.tsv: expected one file for train\. Remove"):
        read_folder(folder)


def test_empty_train(folder: Path) -> None:
    (folder / "train.txt").write_bytes(b"\n\n")
    with pytest.raises(DatasetError, match=r"train\.txt is empty: expected at least one line head TAB relation"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a likes b", r"line 3: found 1 field in 'a likes b', .* may be separated by spaces: .*`tr"),
        ("a,likes,b", r"line 3: found 1 field in .* separated by commas: .*`tr.* `relens data prepare` reads"),
        ("a\tlikes", r"line 3: found 2 fields in .*, expected 3 fields separated by tabs \(head, relation, tail\)"),
        ("a\tlikes\tb\t2013", r"line 3: found 4 fields in .* Keep the first 3 .*`cat train\.txt \| cut -f1-3 > NEW"),
        ("a\t\tb", r"line 3: the relation is empty in 'a\\t\\tb', expected 3 fields .* Fill it in"),
        ("a\tlikes\t ", r"line 3: the tail is empty"),
    ],
)
def test_malformed_line_is_named(folder: Path, line: str, message: str) -> None:
    (folder / "train.txt").write_text(f"a\tlikes\tb\n\n{line}\nc d e\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=rf"train\.txt, {message}"):
        read_folder(folder)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_text_that_is_not_utf8_is_named_by_line(folder: Path, mark: bytes) -> None:
    (folder / "test.txt").write_bytes(mark + b"a\tlikes\tb\n\xe9\tlikes\tb\n")
    with pytest.raises(DatasetError, match=r"test\.txt, line 2: found byte 0xe9, expected UTF-8 text\. Convert"):
        read_folder(folder)


def damaged(content: bytes) -> bytes:
    return content[:12] + bytes(byte ^ 0xFF for byte in content[12:20]) + content[20:]


@pytest.mark.parametrize("damage", [lambda c: c[:-12], lambda c: b"a\tlikes\tb\n", damaged])
def test_damaged_gzip(folder: Path, damage) -> None:
    (folder / "train.txt").unlink()
    write_split(folder, "train.txt.gz", TRAIN * 20)
    file = folder / "train.txt.gz"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DatasetError, match=r"train\.txt\.gz is not a complete gzip file \(.*\)\. It is truncated"):
        read_folder(folder)


def test_false_triples_are_read_beside_the_splits_and_written_with_them(folder: Path, tmp_path: Path) -> None:
    assert read_folder(folder).negatives == {}
    dataset = read_folder(folder)
    entities, relations = dataset.entities.labels, dataset.relations.labels
    facts = {tuple(row) for triples in dataset.splits.values() for row in triples.tolist()}
    everything = [(h, r, t) for h in range(len(entities)) for r in range(len(relations)) for t in range(len(entities))]
    false = [row for row in everything if row not in facts][:3]
    lines = [(entities[h], relations[r], entities[t]) for h, r, t in false]
    write_split(folder, "valid_negatives.txt", lines[:1])
    write_split(folder, "test_negatives.txt.gz", [("head", "relation", "tail"), *lines[1:]])
    found = read_folder(folder)
    assert {split: rows.tolist() for split, rows in found.negatives.items()} == {
        "valid": [list(row) for row in false[:1]],
        "test": [list(row) for row in false[1:]],
    }
    assert found.fingerprint == dataset.fingerprint
    copy = tmp_path / "copy"
    copy.mkdir()
    write_folder(found, copy)
    again = read_folder(copy).negatives
    assert {split: rows.tolist() for split, rows in again.items()} == {
        split: rows.tolist() for split, rows in found.negatives.items()
    }


def test_false_triples_are_of_the_graph_and_no_facts(folder: Path) -> None:
    write_split(folder, "valid_negatives.txt", [("nobody", "likes", "nobody")])
    with pytest.raises(DatasetError, match=r"valid_negatives\.txt: unknown \w+ '.*False triples have entities"):
        _ = read_folder(folder).negatives
    write_split(folder, "valid_negatives.txt", TRAIN[:2])
    with pytest.raises(DatasetError, match=r"valid_negatives\.txt: found 2 facts of the data set among 2 triples"):
        _ = read_folder(folder).negatives


# Vocabularies and data sets made in memory.


def test_vocabulary_maps_labels_and_ids() -> None:
    vocabulary = Vocabulary.from_labels("entity", ["b", "a", "b"])
    assert vocabulary.labels == ("a", "b")
    assert len(vocabulary) == 2
    assert vocabulary.id_of("b") == 1
    assert vocabulary.ids_of(["b", "a", "b"]).tolist() == [1, 0, 1]
    assert "a" in vocabulary
    assert "c" not in vocabulary


def test_unknown_label_gets_the_nearest_ones() -> None:
    vocabulary = Vocabulary.from_labels("relation", ["likes", "knows"])
    with pytest.raises(DatasetError, match="unknown relation 'liked'; did you mean 'likes'"):
        vocabulary.id_of("liked")
    with pytest.raises(DatasetError, match="unknown relation 'zzz'; available: 'knows', 'likes'"):
        vocabulary.ids_of(["likes", "zzz"])


def test_vocabulary_refuses_repeated_and_unwritable_labels() -> None:
    with pytest.raises(DatasetError, match="the entity 'b' occurs twice"):
        Vocabulary("entity", ("a", "b", "c", "b"))
    for label in ("a\tb", "a\nb", " "):
        with pytest.raises(DatasetError, match="is not a valid relation label: expected text without tabs"):
            Vocabulary("relation", ("a", label))


@pytest.mark.parametrize("row", [[0, 0, 2], [0, 1, 0], [-1, 0, 0]])
def test_ids_outside_the_vocabulary_are_refused(row: list[int]) -> None:
    entities, relations = Vocabulary("entity", ("a", "b")), Vocabulary("relation", ("r",))
    good, bad = np.array([[0, 0, 1]]), np.array([row])
    with pytest.raises(DatasetError, match=r"valid of x has ids .* expected 0 to \[1 0 1\]: .* another vocabulary"):
        Dataset("x", entities, relations, good, bad, good)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_vocabulary_answers_the_same_from_texts_and_from_bytes(as_bytes: bool, monkeypatch) -> None:
    monkeypatch.setattr(vocabulary_module, "MOST_TEXTS", 0 if as_bytes else 10)
    texts = ["b", "é", "a", "Q17"]
    vocabulary = Vocabulary.from_bytes("entity", Labels.from_texts(texts))
    assert isinstance(vocabulary.labels, Labels) is as_bytes
    assert vocabulary == Vocabulary("entity", tuple(texts))
    assert hash(vocabulary) == hash(Vocabulary("entity", tuple(texts)))
    assert vocabulary.ids_of(["a", "é"]).tolist() == [2, 1]
    assert vocabulary.ids_of([]).tolist() == []
    assert vocabulary.find(["a", "?", "b"]).tolist() == [2, -1, 0]
    assert "Q17" in vocabulary
    assert 17 not in vocabulary
    assert vocabulary.order().tolist() == [3, 2, 0, 1]
    assert vocabulary.sorted_positions().tolist() == [2, 3, 1, 0]
    assert vocabulary.joined() == "b\né\na\nQ17\n".encode()
    assert vocabulary.joined(in_order=True) == "Q17\na\nb\né\n".encode()
    with pytest.raises(DatasetError, match=r"unknown entity 'Q18'; did you mean 'Q17'\?"):
        vocabulary.ids_of(["a", "Q18", "Q19"])
    for wrong, message in ((["a", "b", "a"], "the entity 'a' occurs twice"), (["a", " "], "' ' is not a valid entity")):
        with pytest.raises(DatasetError, match=message):
            Vocabulary.from_bytes("entity", Labels.from_texts(wrong))


def test_among_many_labels_those_around_are_suggested(monkeypatch) -> None:
    monkeypatch.setattr(vocabulary_module, "COMPARED", 10)
    vocabulary = Vocabulary("entity", tuple(f"Q{number}" for number in range(1000, 2000)))
    assert vocabulary.similar_to("Q12345") == "did you mean 'Q1235' or 'Q1234' or 'Q1239'?"
    assert vocabulary.similar_to("zzz") == "available: 'Q1995', 'Q1996', 'Q1997', 'Q1998', 'Q1999'"


def test_rows_sort_by_columns_whatever_their_numbers() -> None:
    rng = np.random.default_rng(0)
    for most in (1, 3, 50, 2**31 - 1):  # the last ones fit no key of 64 bits
        rows = rng.integers(most, size=(200, 3)).astype(np.int32)
        assert np.array_equal(sorted_rows(rows), rows[np.lexsort(rows.T)])
