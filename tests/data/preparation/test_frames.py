"""Frames of pandas, tables of Arrow, and Parquet files."""

import sys

import pytest

from relens.data.preparation import frames
from relens.errors import DatasetError, MissingExtraError
from tests.reading import put, read, read_parts

COLUMNS = {"drug": ["a ", "b", "c"], "score": [0.5, 1.0, 0.25], "effect": ["r", "r", "s"], "disease": [1, 2, 3]}
ROWS = [("a", "r", "1"), ("b", "r", "2"), ("c", "s", "3")]
CHOICE = ("drug", "effect", "disease")


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas", reason="needs pandas")


@pytest.fixture
def arrow():
    pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'relens[parquet]'")
    return pytest.importorskip("pyarrow")


def test_frames_and_parquet_files_hold_the_same_triples(tmp_path, pandas, arrow, monkeypatch):
    monkeypatch.setattr(frames, "_BLOCK", 2)
    table = arrow.table(COLUMNS)
    arrow.parquet.write_table(table, tmp_path / "g.parquet")
    (tmp_path / "g.data").write_bytes((tmp_path / "g.parquet").read_bytes())
    for source in (pandas.DataFrame(COLUMNS), table, tmp_path / "g.parquet", tmp_path / "g.data"):
        for columns in (None, CHOICE, (1, 3, 4)):
            rows, notes = read(source, columns=columns)
            assert rows == ROWS
            assert notes[0].endswith(
                ": 4 columns, used as head 1 ('drug'), relation 3 ('effect'), tail 4 ('disease'); not used: 2 ('score')"
            )
            assert notes[1] == "removed the spaces around 1 label; `strip=False` keeps them"
    assert read(tmp_path / "g.parquet", columns=("disease", "effect", "drug"))[0] == [row[::-1] for row in ROWS]


def test_columns_of_frames_are_recognised_by_name(pandas):
    frame = pandas.DataFrame({"subject": ["a"], "object": ["b"], "predicate": ["r"]}, index=[17])
    assert read(frame)[0] == [("a", "r", "b")]
    categories = frame.astype("category")
    assert read_parts({"train": categories, "test": frame})[0] == {
        "train": [("a", "r", "b")],
        "test": [("a", "r", "b")],
    }
    numbered = pandas.DataFrame([["a", "r", "b"]])
    assert read(numbered)[0] == [("a", "r", "b")]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_values_name_their_row(tmp_path, pandas, arrow, missing):
    frame = pandas.DataFrame({"h": ["a", "b"], "r": ["r", missing], "t": ["c", "d"]})
    with pytest.raises(DatasetError, match=r"the frame, row 2: the relation is missing. Fill it in, or drop the row"):
        read(frame)
    arrow.parquet.write_table(arrow.table({"h": ["a", "b"], "r": ["r", None], "t": ["c", "d"]}), tmp_path / "g.parquet")
    with pytest.raises(DatasetError, match=r"g.parquet, row 2: the relation is missing"):
        read(tmp_path / "g.parquet")


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ({"a": ["x"], "b": ["y"]}, {}, "the frame has 2 columns, expected at least 3"),
        (
            {"h": ["x"], "r": ["y"], "t": ["\ud800"]},
            {},
            r"the frame, row 1: the tail '\\ud800' has a tab, a line end or half",
        ),
        ({"h": ["x"], "r": ["a\tb"], "t": ["z"]}, {}, r"the frame, row 1: the relation 'a\\tb' has a tab"),
        (
            {"h": ["x"], "r": ["y"], "t": ["z"]},
            {"header": False},
            "the frame has named columns, so `header=False` has no",
        ),
        ({"h": ["x"], "r": ["y"], "t": ["z"]}, {"columns": ("h", "r", "tt")}, "the frame has no column 'tt'; "),
        ({"h": [], "r": [], "t": []}, {}, "the frame has no triples: expected at least one"),
    ],
)
def test_frames_that_cannot_be_used(pandas, columns, settings, message):
    with pytest.raises(DatasetError, match=message):
        read(pandas.DataFrame(columns, dtype=object), **settings)


def test_damaged_parquet_and_a_missing_extra(tmp_path, arrow, monkeypatch):
    arrow.parquet.write_table(arrow.table(COLUMNS), tmp_path / "g.parquet")
    content = (tmp_path / "g.parquet").read_bytes()
    no_text = content.replace(b"drug", b"dr\xffg")
    for damaged in (content[:-10], content[: len(content) // 2], b"", content[:4] + bytes(60) + content[64:], no_text):
        (tmp_path / "g.parquet").write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"g.parquet is not a readable Parquet file"):
            read(tmp_path / "g.parquet")
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"reading Parquet needs an optional dependency: pip .*'\.\[parquet\]'"):
        read(put(tmp_path / "h.parquet", ""))
