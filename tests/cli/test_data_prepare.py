"""``relens data prepare`` and ``relens data check``."""

from pathlib import Path

import pytest

from relens.data.catalog import load_dataset
from relens.data.checks import suspicions
from relens.data.dataset import write_folder
from relens.data.patterns import patterns
from tests.cli.commands import fail, relens
from tests.data.leaky import rows_of, with_counterparts
from tests.reading import put

FACTS = [row for split in patterns().splits for row in rows_of(patterns(), split)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return put(tmp_path / "g.csv", "tail;head;relation;weight\n" + "".join(f"{t};{h};{r};.5\n" for h, r, t in FACTS))


def test_a_csv_file_is_prepared_and_every_decision_is_said(source, tmp_path):
    done = relens("data", "prepare", source, tmp_path / "g", "--valid", "0.1", "--test", 300, "--seed", 1)
    assert (done.code, done.out) == (0, f"{tmp_path}/g\n")
    assert done.err.splitlines() == [
        f"relens: {source}: fields are separated by semicolons",
        f"relens: {source}: line 1 is a heading, not a triple (it names columns; --no-header reads it as a triple): "
        f"tail, "
        f"head, relation, weight",
        f"relens: {source}: 4 columns, used as head 2 ('head'), relation 3 ('relation'), tail 1 ('tail'); not used: 4 "
        f"('weight')",
        "relens: split with seed 1: train 5,540, valid 649, test 300",
        f"relens: wrote {tmp_path}/g; next: relens data check {tmp_path}/g; relens run {tmp_path}/g",
    ]
    assert load_dataset(tmp_path / "g").counts["test"] == 300


def test_options_decide_what_is_not_recognised(source, tmp_path):
    command = ("data", "prepare", source, tmp_path / "g", "--columns", '"head", 3,tail', "--header", "--json",
               "--hold-out", "likes", "--hold-out", "kind_of", "--valid", 20, "--test", 20, "--stratify")  # fmt: skip
    done = relens(*command)
    assert done.json["counts"]["valid"] == 20
    assert any("only triples of 'likes', 'kind_of' are held out; the same share of each relation" in note
               for note in done.json["notes"])  # fmt: skip
    held = load_dataset(tmp_path / "g")
    assert {r for _, r, _ in rows_of(held, "valid")} == {"likes", "kind_of"}
    fail(2, "exists already: pass --force to replace it", *command)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--valid", "much"), "'much' is neither a count such as 500 nor a share such as 0.1"),
        (("--valid", "1.5"), "--valid 1.5 is no size of a split"),
        (("--columns", "1,2"), "expected three columns: HEAD,RELATION,TAIL"),
        (("--encoding", "x"), "--encoding x is unknown"),
        (("--no-header", "--columns", "head,2,3"), "give its number from 1, or pass --header if the first line names"),
        (("--test", "6000"), "cannot hold out 649 for valid and 6,000 for test"),
        (("--valid", "5900", "--test", "500"), "or pass --allow-unseen"),
        (("--delimiter", "comma"), "g.csv has 1 column, expected at least 3"),
    ],
)
def test_errors_name_options_and_leave_nothing(source, tmp_path, arguments, message):
    fail(2, message, "data", "prepare", source, tmp_path / "g", *arguments)
    assert [file.name for file in tmp_path.iterdir()] == ["g.csv"]


def test_check_show_and_prepare_warn_of_the_same(tmp_path):
    folder = tmp_path / "leaky"
    folder.mkdir()
    write_folder(with_counterparts(inverse=True), folder)
    expected = suspicions(load_dataset(folder))
    assert any("has the inverse or a duplicate of" in text for text in expected)
    checked, shown = relens("data", "check", folder), relens("data", "show", folder)
    for done in (checked, shown):
        assert [
            line.removeprefix("warning: ") for line in done.out.splitlines() if line.startswith("warning: ")
        ] == list(expected)
    assert relens("data", "check", folder, "--json").json["warnings"] == expected
    prepared = relens("data", "prepare", folder, tmp_path / "copy")
    assert [line.removeprefix("relens: warning: ").replace("/copy", "/leaky") for line in prepared.err.splitlines()
            if "warning" in line] == expected  # fmt: skip
    dropped = relens("data", "prepare", folder, tmp_path / "mended", "--drop-leaks", "--drop-linked")
    assert "dropped 12 relations" in dropped.err
    assert "warning" not in dropped.err


def test_check_lists_what_train_gives_away():
    done = relens("data", "check", "patterns")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "patterns: triples that train gives away, of 1,100 valid, 1,100 test triples" in lines
    assert "train has its inverse, by two relations 200 18.2% 200 18.2%" in lines
    assert "train links the two entities by any relation 300 27.3% 300 27.3%" in lines
    assert "3 of 3 relations with counterparts" in lines
    assert "symmetric 648 100% opponent_of opponent_of" in lines
    assert lines[-1] == "no warnings"
    assert "counterparts" not in relens("data", "check", "patterns", "--relations", "0").out
