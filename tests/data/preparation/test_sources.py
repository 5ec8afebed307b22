"""Sources: files, folders with splits, data sets by name, and mappings."""

import pytest

from relens.data.dataset import Dataset, write_folder
from relens.data.patterns import patterns
from relens.data.stored import write_graph
from relens.errors import DatasetError
from tests.reading import put, read, read_parts

FACTS = "a,r,b\nb,r,c\n"


def test_a_folder_has_files_of_any_format_for_its_splits(tmp_path):
    put(tmp_path / "Train.csv", "head,relation,tail\n" + FACTS)
    put(tmp_path / "dev.tsv", "a\tr\tc\n")
    put(tmp_path / "test", "c r a\n")
    put(tmp_path / "labels.tsv", "a\tA\n")
    put(tmp_path / "notes.txt", "x")
    parts, notes = read_parts(tmp_path)
    assert parts == {"train": [("a", "r", "b"), ("b", "r", "c")], "valid": [("a", "r", "c")], "test": [("c", "r", "a")]}
    assert sum("is a heading" in note for note in notes) == 1
    (tmp_path / "dev.tsv").unlink()
    assert list(read_parts(tmp_path)[0]) == ["train", "test"]
    put(tmp_path / "train.tsv", FACTS)
    with pytest.raises(
        DatasetError, match=r"has Train.csv and train.tsv: expected one file for train. Remove or rename the"
    ):
        read_parts(tmp_path)


def test_a_folder_without_train_is_refused(tmp_path):
    put(tmp_path / "graph.csv", FACTS)
    with pytest.raises(
        DatasetError, match=r"has no file for train, such as .*; it holds graph.csv. Name the file with the"
    ):
        read_parts(tmp_path)


def test_data_sets_are_read_by_name_folder_or_value(tmp_path):
    expected = {"train": 4289, "valid": 1100, "test": 1100}
    write_graph(patterns(), tmp_path / "stored")
    (tmp_path / "plain").mkdir()
    write_folder(patterns(), tmp_path / "plain")
    found = [read_parts(source) for source in ("patterns", patterns(), tmp_path / "stored", str(tmp_path / "plain"))]
    for parts, notes in found:
        assert {split: len(rows) for split, rows in parts.items()} == expected
        assert parts == found[0][0]
        assert notes == []
    only = Dataset.from_labels("toy", train=[("a", "r", "b")], test=[("b", "r", "c")])
    assert list(read_parts(only)[0]) == ["train", "test"]


def test_mappings_name_the_files_of_splits(tmp_path):
    one, two = put(tmp_path / "one.csv", FACTS), put(tmp_path / "two.csv", "a,r,c\n")
    assert read_parts({"train": one, "test": two})[0]["test"] == [("a", "r", "c")]
    with pytest.raises(
        DatasetError, match="found the splits 'train', 'dev', expected train, and valid and test if any"
    ):
        read_parts({"train": one, "dev": two})
    with pytest.raises(DatasetError, match="found the splits 'test', expected train"):
        read_parts({"test": two})


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "g.rdf",
            {},
            r"g.rdf is in a format that relens does not read \(.rdf\): expected a text table, N-Triples, Turtle or",
        ),
        ("g.xlsx", {}, "does not read"),
        ("g.csv", {"format": "excel"}, "`format='excel'` is unknown; "),
        ("g.csv", {"literals": "keep"}, "`literals='keep'` is unknown"),
        ("g.csv", {"blank_nodes": "keep"}, "`blank_nodes='keep'` is unknown"),
        (
            "g.csv",
            {"delimiter": "ab"},
            "`delimiter='ab'` is not a delimiter: expected one character, or one of tab, comma",
        ),
        ("g.csv", {"columns": (1, 2)}, "names 2 columns, expected three"),
    ],
)
def test_formats_and_settings_that_do_not_exist(tmp_path, name, settings, message):
    with pytest.raises(DatasetError, match=message):
        read(put(tmp_path / name, FACTS), **settings)


def test_sources_that_do_not_exist(tmp_path):
    with pytest.raises(
        DatasetError, match=r"nowhere.csv does not exist: expected a file with triples, a folder, or the name"
    ):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(DatasetError, match="no data set 'paterns'"):
        read("paterns")
    with pytest.raises(DatasetError, match="patterns is a data set already: `columns=…`"):
        read("patterns", columns=(1, 2, 3))


def test_the_format_can_be_named(tmp_path):
    path = put(tmp_path / "g.json", FACTS)
    assert read(path, format="text")[0] == [("a", "r", "b"), ("b", "r", "c")]
