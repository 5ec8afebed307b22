"""Preparing a data set: the folder, its record, tables beside the splits, and failures that leave nothing."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import relens
from relens.data import dataset as dataset_module
from relens.data.dataset import Dataset, read_folder
from relens.data.patterns import patterns
from relens.data.preparation import prepare
from relens.errors import DatasetError, RelensError
from tests.data.leaky import rows_of, with_counterparts
from tests.patience import HANG
from tests.reading import put
from tests.test_own_models_docs import ROOT, execute

FACTS = [row for split in patterns().splits for row in rows_of(patterns(), split)]


def csv_file(path: Path, rows=FACTS, heading="head,relation,tail\n") -> Path:
    return put(path, heading + "".join(",".join(row) + "\n" for row in rows))


def test_one_csv_file_becomes_a_folder_that_reads_back(tmp_path):
    made = relens.prepare_data(csv_file(tmp_path / "g.csv"), tmp_path / "g", valid=0.1, test=500, seed=3)
    read = read_folder(tmp_path / "g")
    assert made.folder == tmp_path / "g"
    assert read.fingerprint == made.dataset.fingerprint
    assert (read.name, read.counts) == ("g", made.dataset.counts)
    assert read.counts == {"entities": 1023, "relations": 11, "train": 6489 - 649 - 500, "valid": 649, "test": 500}
    every = [row for split in read.splits for row in rows_of(read, split)]
    assert sorted(every) == sorted(FACTS)
    record = json.loads((tmp_path / "g" / "prepared.json").read_text())
    assert record["kind"] == "relens prepared data set"
    assert record["fingerprint"] == read.fingerprint
    assert record["notes"] == list(made.notes)
    assert record["splitting"]["seed"] == 3
    assert made.check.warnings == relens.check_data(tmp_path / "g").warnings


def test_a_split_does_not_depend_on_the_order_or_the_format_of_a_file(tmp_path):
    shuffled = [*FACTS, *FACTS[:5]]
    random.Random(0).shuffle(shuffled)
    sources = {
        "csv": csv_file(tmp_path / "g.csv"),
        "tsv": put(tmp_path / "g.tsv", "".join("\t".join(row) + "\n" for row in shuffled)),
        "parts": Dataset.from_labels("parts", train=shuffled),
    }
    made = {name: relens.prepare_data(source, tmp_path / name) for name, source in sources.items()}
    assert len({found.dataset.fingerprint for found in made.values()}) == 1
    assert "left out 5 triples that repeat another one" in made["tsv"].notes
    other = relens.prepare_data(sources["csv"], tmp_path / "other", seed=1)
    assert other.dataset.fingerprint != made["csv"].dataset.fingerprint
    files = [[(tmp_path / name / f"{split}.txt.gz").read_bytes() for split in patterns().splits] for name in sources]
    assert files[0] == files[1] == files[2]


def test_ntriples_and_turtle_give_the_same_data_set(tmp_path):
    rdflib = pytest.importorskip("rdflib", reason="needs rdflib: pip install 'relens[rdf]'")
    graph = rdflib.Graph()
    for row in FACTS[:200]:
        graph.add(tuple(rdflib.URIRef(f"http://x.org/{label}") for label in row))
    graph.serialize(tmp_path / "g.nt", format="ntriples", encoding="utf-8")
    graph.serialize(tmp_path / "g.ttl", format="turtle")
    made = [
        relens.prepare_data(tmp_path / f"g.{ending}", tmp_path / ending, valid=10, test=10) for ending in ("nt", "ttl")
    ]
    assert made[0].dataset.fingerprint == made[1].dataset.fingerprint
    assert made[0].dataset.counts["train"] == 180


def test_splits_of_a_source_are_kept_in_their_order(tmp_path):
    made = relens.prepare_data("patterns", tmp_path / "copy")
    assert made.dataset.fingerprint == patterns().fingerprint
    only_test = Dataset.from_labels("t", train=FACTS[1000:], test=FACTS[:1000])
    made = relens.prepare_data(only_test, tmp_path / "valid", valid=100)
    assert rows_of(made.dataset, "test") == FACTS[:1000]
    assert len(made.dataset.valid) == 100
    train = {label for h, _, t in rows_of(made.dataset, "train") for label in (h, t)}
    assert {label for h, _, t in rows_of(made.dataset, "valid") for label in (h, t)} <= train


def test_only_given_relations_are_held_out(tmp_path):
    made = relens.prepare_data(csv_file(tmp_path / "g.csv"), tmp_path / "g", hold_out=["likes"], valid=0.2, test=30)
    n = sum(r == "likes" for _, r, _ in FACTS)
    assert (len(made.dataset.valid), len(made.dataset.test)) == (round(0.2 * n), 30)
    assert {r for split in ("valid", "test") for _, r, _ in rows_of(made.dataset, split)} == {"likes"}


def test_the_latest_facts_are_held_out_by_a_column_of_times(tmp_path):
    rows = [(*row, f"20{i % 30:02d}-0{1 + i % 9}-01") for i, row in enumerate(FACTS)]
    path = csv_file(tmp_path / "g.csv", [*rows, (*FACTS[7], "2099-01-01")], "head,relation,tail,when\n")
    made = relens.prepare_data(path, tmp_path / "g", time="when", valid=500, test=0.1)
    time_of = {row[:3]: row[3] for row in rows}
    when = {split: [time_of[row] for row in rows_of(made.dataset, split)] for split in made.dataset.splits}
    assert max(when["train"]) <= min(when["valid"]) <= max(when["valid"]) <= min(when["test"])
    assert any("the latest triples are held out" in note for note in made.notes)
    assert "left out 1 triple that repeats another one" in made.notes
    with pytest.raises(
        DatasetError, match=r"g.csv, line 2: found the time 'teaches'|found the time '\w+', expected a number"
    ):
        relens.prepare_data(path, tmp_path / "h", columns=(1, 2, 4), time=3)


@pytest.mark.parametrize("linked", [False, True])
def test_leaks_are_dropped(tmp_path, linked):
    made = relens.prepare_data(with_counterparts(inverse=True), tmp_path / "g", drop_leaks=True, drop_linked=linked)
    shares = made.check.shares()
    for split in ("valid", "test"):
        assert len(made.dataset.splits[split]) > 300
        assert sum(shares[split][kind] for kind in ("repeated", "inverse", "duplicate", "symmetric")) == 0
        assert not linked or shares[split]["linked"] == 0
    assert len(made.dataset.relations) == 10
    assert any(note.startswith("dropped 12 relations") for note in made.notes)


def test_tables_beside_the_splits_follow(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for split in ("train", "valid", "test"):
        csv_file(source / f"{split}.csv", rows_of(patterns(), split))
    put(source / "labels.tsv", "site_11_20\tA site\nnobody\tNobody\n")
    put(source / "relation_labels.tsv", "likes\tis fond of\nhates\tdislikes\n")
    put(source / "types.tsv", "site_11_20\tsite\nnobody\tperson\n")
    put(source / "test_negatives.txt", "a\tr\tb\n")
    made = relens.prepare_data(source, tmp_path / "g")
    read = read_folder(tmp_path / "g")
    assert read.fingerprint == patterns().fingerprint
    assert read.names == {"site_11_20": "A site"}
    assert read.relation_names == {"likes": "is fond of"}
    assert read.types is not None
    assert read.types.labels == ("site",)
    assert read.negatives == {}
    assert "test_negatives.txt was not copied: its triples belong to the splits of the source" in made.notes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"valid": 1.5}, "`valid=1.5` is no size of a split: expected a count such as 500, or a share below 1"),
        ({"test": -1}, "`test=-1` is no size"),
        ({"valid": float("nan")}, "`valid=nan` is no size"),
        ({"valid": True}, "`valid=True` is no size"),
        ({"hold_out": ["likes", "likes"]}, "names a relation twice"),
        ({"hold_out": ["like"]}, "cannot hold out the unknown relation 'like'; did you mean 'likes'"),
        ({"time": "when"}, "has no column 'when'"),
        ({"time": 2, "stratify": True}, "`time=…` and `stratify=True` exclude each other"),
        ({"valid": 6000}, "cannot hold out 6,000 for valid and 649 for test: "),
        ({"valid": 5900, "test": 500}, "train keeps all entities and relations only if at most"),
    ],
)
def test_failures_leave_nothing(tmp_path, settings, message):
    path = csv_file(tmp_path / "g.csv")
    with pytest.raises(DatasetError, match=message):
        relens.prepare_data(path, tmp_path / "out" / "g", **settings)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"valid": 10}, "the source has its own valid triples: leave out `valid=…`"),
        ({"hold_out": ["likes"]}, "the source is split already: `hold_out=…` is for sources without valid or test"),
        ({"stratify": True}, "`stratify=…` is for sources without valid or test"),
    ],
)
def test_a_source_with_splits_is_not_split_again(tmp_path, settings, message):
    with pytest.raises(DatasetError, match=message):
        relens.prepare_data("patterns", tmp_path / "g", **settings)


def test_an_existing_folder_is_replaced_on_request_if_relens_made_it(tmp_path):
    path = csv_file(tmp_path / "g.csv")
    relens.prepare_data(path, tmp_path / "g")
    with pytest.raises(DatasetError, match=r"g exists already: pass `force=True` to replace it, or choose another"):
        relens.prepare_data(path, tmp_path / "g")
    made = relens.prepare_data(path, tmp_path / "g", seed=1, force=True)
    assert read_folder(tmp_path / "g").fingerprint == made.dataset.fingerprint
    with pytest.raises(DatasetError, match=r"g holds the source .*g: choose another folder"):
        relens.prepare_data(tmp_path / "g", tmp_path / "g", force=True)
    (tmp_path / "mine").mkdir()
    with pytest.raises(DatasetError, match=r"mine exists already: choose another folder"):
        relens.prepare_data(path, tmp_path / "mine", force=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["g", "g.csv", "mine"]


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = csv_file(tmp_path / "g.csv")
    before = relens.prepare_data(path, tmp_path / "g").dataset.fingerprint

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dataset_module, "write_rows", full)
    with pytest.raises(RelensError, match=r"cannot write .*g: No space left on device. Nothing was changed there"):
        relens.prepare_data(path, tmp_path / "g", seed=1, force=True)
    assert read_folder(tmp_path / "g").fingerprint == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["g", "g.csv"]


KILLED = """
import os, signal, sys
from relens.data.preparation import prepare
write = prepare.write_folder
def interrupted(dataset, folder):
    write(dataset, folder)
    os.kill(os.getpid(), signal.SIGINT)
prepare.write_folder = interrupted
from relens.cli import main
sys.argv = ["relens", "data", "prepare", *sys.argv[1:]]
main()
"""


def test_an_interruption_leaves_nothing(tmp_path):
    path = csv_file(tmp_path / "g.csv")
    command = [sys.executable, "-c", KILLED, str(path), str(tmp_path / "g")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 130, done.stderr
    assert "nothing half-written was left behind" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["g.csv"]
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def test_notes_are_shown_while_work_goes_on(tmp_path):
    shown = []

    class Listening:
        task = prepare.SILENT.task

        def note(self, message: str) -> None:
            shown.append(message)

    made = relens.prepare_data(csv_file(tmp_path / "g.csv"), tmp_path / "g", progress=Listening())
    assert tuple(shown) == made.notes
    assert len(shown) == 3


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = execute(ROOT / "docs" / "data.md")
    assert namespace["made"].dataset.counts["relations"] == 10
    assert "200 ()" in capsys.readouterr().out
