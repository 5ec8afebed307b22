"""The compiled reader gives what ``read_rows`` and ``Dataset.from_labels`` give, errors included."""

import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.data import dataset as datasets
from relens.data import tsv
from relens.data.dataset import FIELDS, Dataset, read_folder
from relens.data.queries import SPLITS
from relens.data.triple_files import read_triples
from relens.data.tsv import read_rows
from relens.errors import InputError

pytestmark = pytest.mark.kernels

FIELD = st.text(st.sampled_from("abé\u3000\u2028 \"'\x00\ufeff"), min_size=1, max_size=3)
LINE = st.builds("\t".join, st.lists(FIELD, min_size=3, max_size=3))
ODD = st.sampled_from(
    ["", "a\tb", "a\tb\tc\td", "a\t\tb", "\t\t", "a\tb\t \u3000", "a\r\tb\tc", "a b c", "a,b,c", "\r"]
)


@st.composite
def contents(draw, lines):
    """Draw the bytes of a file: lines with either end, the last one perhaps without, perhaps a mark at the start."""
    drawn = draw(st.lists(st.tuples(lines, st.sampled_from(["\n", "\r\n"]))))
    text = "".join(line + end for line, end in drawn)
    cut = draw(st.sampled_from([0, 0, 1, 2]))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text[: len(text) - cut].encode()


def outcome(function):
    """Return what a function returns, or the text of its error."""
    try:
        return function()
    except InputError as error:
        return str(error)


def simple(folder):
    rows = {split: read_rows(folder / f"{split}.txt", FIELDS) for split in SPLITS}
    if not rows["train"]:
        return "empty"
    return described(Dataset.from_labels("x", **rows))


def compiled(folder, monkeypatch):
    monkeypatch.setattr(datasets, "COMPILED_BYTES", 0)
    found = outcome(lambda: described(read_folder(folder, "x")))
    return "empty" if "expected at least one line" in found else found


def described(dataset):
    """Return everything that the files decide."""
    splits = {split: rows.tolist() for split, rows in dataset.splits.items()}
    return (
        tuple(dataset.entities.labels),
        tuple(dataset.relations.labels),
        splits,
        dataset.fingerprint,
        dataset.identity,
    )


@given(train=contents(LINE), valid=contents(LINE | ODD), block=st.sampled_from([1, 7, 2**22]))
def test_the_compiled_reader_agrees_with_the_simple_one(tmp_path_factory, train, valid, block):
    folder = tmp_path_factory.mktemp("graph")
    for split, content in zip(SPLITS, (train, valid, b""), strict=True):
        (folder / f"{split}.txt").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tsv, "BLOCK", block)
        assert compiled(folder, patch) == outcome(lambda: simple(folder))


@given(content=st.binary(max_size=12) | contents(ODD).map(lambda text: text + b"\xff"))
def test_bytes_that_are_no_text_give_the_same_error(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("graph") / "train.txt"
    file.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tsv, "BLOCK", 4)
        fast = outcome(lambda: read_triples({"train": file}, FIELDS)[2]["train"].shape)
    assert fast == outcome(lambda: (len(read_rows(file, FIELDS)), 3))


def test_many_labels_get_the_ids_of_the_simple_reader(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(9_000, size=(20_000, 3))
    text = "".join(f"Q{h}\tP{r % 5_000}\tQ{t}\n" for h, r, t in ids.tolist())
    for name, end in product(("train.txt", "train.txt.gz"), ("\n", "\r\n")):
        file, content = tmp_path / name, text.replace("\n", end).encode()
        file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
        entities, relations, triples = read_triples({"train": file}, FIELDS)
        expected = Dataset.from_labels("x", train=read_rows(file, FIELDS))
        assert entities == expected.entities.labels
        assert relations == expected.relations.labels
        assert np.array_equal(triples["train"], expected.train)


def test_the_last_lines_number_is_right_in_a_late_block(tmp_path, monkeypatch):
    monkeypatch.setattr(tsv, "BLOCK", 64)
    file = tmp_path / "train.txt"
    file.write_text("a\tr\tb\n\n" * 500 + "a\tr\n")
    assert "line 1001: found 2 fields" in outcome(lambda: read_triples({"train": file}, FIELDS))


def test_damaged_and_missing_files_are_named(tmp_path):
    file = tmp_path / "train.txt.gz"
    assert "does not exist" in outcome(lambda: read_triples({"train": file}, FIELDS))
    file.write_bytes(gzip.compress(b"a\tr\tb\n" * 1000)[:-9])
    assert "is not a complete gzip file" in outcome(lambda: read_triples({"train": file}, FIELDS))
    file.write_bytes(gzip.compress(b"a\tr\tb\n" * 2**23))
    assert "unpacks to more than" in outcome(lambda: read_triples({"train": file}, FIELDS))
