"""Streams of records: the same records in every format, whole files or none, bounded memory."""

import csv
import gzip
import io
import json
import sys

import pytest

from relens.errors import InputError, MissingExtraError, RelensError
from relens.tables import streams
from relens.tables.streams import Field, form_of, record_stream, write_records

FIELDS = (
    Field("entity"),
    Field("rank", float, "g"),
    Field("score", float, ".3g"),
    Field("count", int),
    Field("known", bool),
)
ODD = 'tab\tquote"comma,line\nbell\x07'
RECORDS = [
    {"entity": "anna", "rank": 1.5, "score": 0.123456, "count": 3, "known": True},
    {"entity": ODD, "rank": 2.0, "score": -12345.678, "count": 0, "known": False},
    {"entity": None, "rank": None, "score": None, "count": None, "known": None},
]
CELLS = [
    ["anna", "1.5", "0.123", "3", "true"],
    [ODD, "2", "-1.23e+04", "0", "false"],
    ["", "", "", "", ""],
]


def test_the_format_is_the_one_that_is_asked_for_or_the_ending(tmp_path):
    assert form_of(None) == "tsv"
    assert form_of(None, "jsonl") == "jsonl"
    for name, form in {
        "a.tsv": "tsv", "a.CSV": "csv", "a.jsonl": "jsonl", "a.parquet": "parquet", "a.csv.gz": "csv",
        "a.jsonl.gz": "jsonl", "a.txt": "tsv", "csv": "tsv",
    }.items():  # fmt: skip
        assert form_of(tmp_path / name) == form
        assert form_of(tmp_path / name.removesuffix(".gz"), "csv") == "csv"


@pytest.mark.parametrize(("form", "dialect"), [("tsv", "excel-tab"), ("csv", "excel")])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_text_has_a_heading_and_a_line_per_record(tmp_path, form, dialect, ending):
    path = tmp_path / f"found.{form}{ending}"
    write_records(RECORDS, FIELDS, path)
    text = (gzip.decompress(path.read_bytes()) if ending else path.read_bytes()).decode()
    heading, *rows = csv.reader(io.StringIO(text, newline=""), dialect=dialect)
    assert heading == [field.name for field in FIELDS]
    assert rows == CELLS
    assert "\r" not in text


def test_json_lines_are_exact_and_keep_other_keys(tmp_path):
    path = tmp_path / "found.jsonl"
    records = [{**record, "votes": [{"model": "complex"}]} for record in RECORDS]
    write_records(records, FIELDS, path)
    lines = path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == records
    assert "\x07" not in path.read_text()


def test_equal_records_give_equal_compressed_bytes(tmp_path):
    for name in ("a.tsv.gz", "b.tsv.gz"):
        write_records(RECORDS, FIELDS, tmp_path / name)
    assert (tmp_path / "a.tsv.gz").read_bytes() == (tmp_path / "b.tsv.gz").read_bytes()


def test_stdout_gets_the_lines_as_they_come(capsys):
    with record_stream(FIELDS[:2]) as write:
        write(RECORDS[0])
        assert capsys.readouterr().out == "entity\trank\nanna\t1.5\n"


@pytest.mark.parametrize("name", ["found.tsv", "found.csv.gz", "found.jsonl"])
def test_a_failure_leaves_the_old_file(tmp_path, name):
    path = tmp_path / name
    path.write_text("old")
    with pytest.raises(KeyError, match="rank"):
        write_records([RECORDS[0], {"entity": "bert"}], FIELDS, path, "csv")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RelensError, match="cannot write"):
        write_records(RECORDS, FIELDS, tmp_path / "file" / "found.csv")


def test_wrong_requests_say_what_to_give(tmp_path):
    with pytest.raises(InputError, match=r"unknown format `form=jsnl`; did you mean 'jsonl'\?"):
        form_of(None, "jsnl")
    with pytest.raises(InputError, match=r"Parquet is binary and is not written to stdout: give `output=FILE.parquet`"):
        form_of(None, "parquet")
    with pytest.raises(InputError, match=r"leave out the ending \.gz"):
        form_of(tmp_path / "found.parquet.gz")


def test_parquet_without_pyarrow_names_the_extra_and_writes_nothing(tmp_path, monkeypatch):
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)  # as Python marks a module that is not there
    path = tmp_path / "found.parquet"
    with pytest.raises(MissingExtraError, match=r"writing Parquet needs an optional dependency: pip .*'\.\[parquet\]'"):
        write_records(RECORDS, FIELDS, path)
    assert list(tmp_path.iterdir()) == []


def test_parquet_is_typed_and_written_in_row_groups(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'relens[parquet]'")
    monkeypatch.setattr(streams, "ROW_GROUP", 2)
    path = tmp_path / "found.parquet"
    write_records(RECORDS, FIELDS, path)
    file = parquet.ParquetFile(path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)] == [2, 1]
    table = file.read()
    assert table.to_pylist() == RECORDS
    assert list(map(str, table.schema.types)) == ["string", "double", "double", "int64", "bool"]
    with pytest.raises(KeyError, match="rank"):
        write_records([RECORDS[0], {"entity": "bert"}], FIELDS, path)
    assert parquet.read_table(path).num_rows == 3
    write_records([], FIELDS, path)
    assert (parquet.read_table(path).num_rows, list(tmp_path.iterdir())) == (0, [path])
