"""``relens predict`` on a tiny graph: questions by name, answers with their reasons."""

import csv
import gzip
import json
import shutil

import pytest

from tests.cli.commands import fail, relens_process, succeed

torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.files import read_json  # noqa: E402
from relens.prediction import Ensemble  # noqa: E402
from relens.runs import MADE_BY  # noqa: E402

SMALL = ("--preset", "demo", "--set", "dim=8", "--set", "steps=20", "--set", "validate_every=10", "--set", "batch=64")
N = 12


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A run on a ring of stations; its folder of data has readable names."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("graphs") / "ring"
    folder.mkdir()
    rows = [(f"s{i}", "next", f"s{(i + 1) % N}") for i in range(N)]
    rows += [(f"s{i}", "twice", f"s{(2 * i) % N}") for i in range(N)]
    for split, part in (("train", rows[4:]), ("valid", rows[:2]), ("test", rows[2:4])):
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in part))
    (folder / "labels.tsv").write_text("".join(f"s{i}\tStation {i}\n" for i in range(N)))
    path = tmp_path_factory.mktemp("runs") / "ring"
    for model in ("transe", "complex"):
        succeed("train", folder, "--model", model, "--run", path, "--device", "cpu", *SMALL)
    succeed("rank", path, "--device", "cpu")
    succeed("search", path, "--method", "mean", "--input", "rank", "--jobs", 1)
    return path


@pytest.fixture
def asked(tmp_path):
    path = tmp_path / "asked.tsv"
    path.write_text(
        "anchor\trelation\tdirection\n" + "".join(f"s{i}\tnext\ttail\ns{i}\ttwice\thead\n" for i in range(N))
    )
    return path


def test_the_table_shows_answers_and_votes(ring):
    shown = succeed("predict", ring, "--head", "s4", "--relation", "next", "--top", 4, "--device", "cpu")
    lines = shown.out.splitlines()
    assert lines[0] == "(s4, next, ?)"
    assert {"complex", "transe"} <= set(shown.out.split())
    assert shown.out.count("×0.50") == 2
    found = Ensemble.open(ring).predict(head="s4", relation="next", top=4)
    rows = [line.split() for line in lines if " Station " in line]
    for row, prediction in zip(rows, found, strict=True):
        place = "–" if prediction.place is None else f"{prediction.place:g}"
        expected = [f"{prediction.rank:g}", place, prediction.entity, *prediction.name.split()]
        assert row[:6] == [*expected, prediction.known or "–"]
        assert row[-2:] == [f"{vote.rank:g}" for vote in prediction.votes]
    assert "data set: ring; weights: mean on rank; candidates: 11, known facts not counted" in shown.out
    assert "no confidence: `relens calibrate" in " ".join(shown.out.split())
    assert shown.err == ""


def test_new_answers_are_counted_and_known_facts_come_in_addition(ring):
    command = ("predict", ring, "--tail", "s4", "--relation", "twice", "--top", 1, "--device", "cpu")
    shown = succeed(*command)  # s2 and s8 are known
    assert [line.split()[5] for line in shown.out.splitlines() if " Station " in line].count("–") == 1
    assert sum(" Station " in line for line in shown.out.splitlines()) == 2
    assert "2 known facts, the best 1 shown" in shown.out
    assert "known facts, the best" not in succeed(*command[:-4], "--top", 2).out
    assert "known facts, the best" not in succeed(*command, "--known", "drop").out


def test_the_device_is_that_of_the_ranking(ring, tmp_path, monkeypatch):
    path = shutil.copytree(ring, tmp_path / "ring")
    command = ("predict", path, "--head", "s4", "--relation", "next")
    assert succeed(*command).err == ""
    record = path / "ranks" / MADE_BY
    record.write_text(json.dumps(read_json(record, "record") | {"device": "cuda"}))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for device in ("auto", "cpu"):
        outcome = succeed(*command, "--device", device)
        assert f"{path} was ranked on cuda, its models now run on cpu: scores may differ" in outcome.err
    record.unlink()
    assert succeed(*command, "--device", "cpu").err == ""


def test_json_holds_the_same(ring, tmp_path):
    command = ("predict", ring, "--tail", "station 7", "--relation", "twice", "--known", "drop", "--json")
    found = succeed(*command, "--device", "cpu").json
    assert found == Ensemble.open(ring).predict(tail="s7", relation="twice", known="drop").to_json()
    assert (found["anchor"], found["direction"], len(found["answers"])) == ("s7", "head", 10)
    outcome = succeed(*command, "--device", "cpu", "-o", tmp_path / "found.json")
    assert (outcome.out, read_json(tmp_path / "found.json", "record")) == ("", found)


def test_a_file_is_answered_in_json_lines(ring, asked):
    lines = succeed("predict", ring, "--queries", asked, "--json", "--top", 2, "--device", "cpu").out.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(row["anchor"], row["relation"], row["direction"]) for row in found] == [
        row for i in range(N) for row in ((f"s{i}", "next", "tail"), (f"s{i}", "twice", "head"))
    ]
    assert found[8] == Ensemble.open(ring).predict(head="s4", relation="next", top=2).to_json()


def test_a_file_is_answered_in_tab_separated_lines(ring, asked, tmp_path):
    output = tmp_path / "found.tsv"
    outcome = succeed(
        "predict", ring, "--queries", asked, "--top", 3, "--known", "drop", "--device", "cpu", "-o", output
    )
    assert (outcome.out, outcome.err) == ("", f"relens: wrote {output}\n")
    with output.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, dialect="excel-tab"))
    assert len(rows) == 3 * 2 * N
    first = Ensemble.open(ring).predict(head="s0", relation="next", top=3, known="drop")
    for row, prediction in zip(rows, first, strict=False):
        assert (row["anchor"], row["answer"], row["name"]) == ("s0", prediction.entity, prediction.name)
        assert (float(row["rank"]), row["known"]) == (prediction.rank, "")
        assert row["votes"] == " ".join(f"{v.model}:{v.rank:g}:{v.weight:.4f}" for v in prediction.votes)
    assert succeed("predict", ring, "--queries", asked, "--top", 3, "--known", "drop").out == output.read_text()


def test_wrong_questions_are_refused(ring, asked, tmp_path):
    fail(2, "unknown entity 'Statoin 4'; did you mean 'Station 4'", "predict", ring, "--head", "Statoin 4",
         "--relation", "next")  # fmt: skip
    fail(2, "unknown relation 'nxt'; did you mean 'next'?", "predict", ring, "--head", "s1", "--relation", "nxt")
    fail(2, "give one of --head, --tail and --queries", "predict", ring, "--relation", "next")
    fail(2, "No such option '--method'. Did you mean '--weights'", "predict", ring, "--head", "s1", "--method", "dsc")
    near = ring.with_name(ring.name[:-1])
    hint = f"{near} is not a run: it does not exist. Did you mean {ring}? Make one with `relens run DATASET`"
    fail(2, hint, "predict", near, "--head", "s1", "--relation", "next")
    fail(2, "give one of --head, --tail and --queries", "predict", ring, "--head", "s1", "--queries", asked)
    both = ("--head", "s1", "--tail", "s2")
    fail(2, "give one of --head, --tail and --queries", "predict", ring, *both, "--relation", "next")
    fail(2, "--explain shows paths to entities", "predict", ring, *both, "--explain")
    fail(2, "give --relation: the relation of the fact", "predict", ring, "--head", "s1")
    fail(2, "a file of --queries names its own", "predict", ring, "--queries", asked, "--relation", "next")
    fail(2, "has no weights 'dsc'", "predict", ring, "--head", "s1", "--relation", "next", "--weights", "dsc")
    asked.write_text(asked.read_text() + "s1\tnext\tsideways\n")
    output = tmp_path / "none.tsv"
    fail(2, "line 26: unknown direction 'sideways'", "predict", ring, "--queries", asked, "-o", output)
    assert not output.exists()


def test_ranks_without_models_cannot_predict(run_path):
    fail(2, "holds ranks only, and predictions need the models that made them: train some with `relens run DATASET`",
         "predict", run_path, "--head", "a", "--relation", "relation 0")  # fmt: skip


def test_it_works_in_a_process_of_its_own(ring):
    command = ("predict", ring, "--head", "s4", "--relation", "next", "--json", "--device", "cpu")
    outcome = relens_process(*command, OMP_NUM_THREADS="1")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.json == succeed(*command).json


def test_every_format_holds_the_same_answers(ring, asked, tmp_path):
    command = ("predict", ring, "--queries", asked, "--top", 2, "--device", "cpu")
    tsv = list(csv.reader(succeed(*command).out.splitlines(), dialect="excel-tab"))
    for arguments in (("--format", "csv"), ("-o", tmp_path / "found.csv"), ("-o", tmp_path / "found.csv.gz")):
        shown = succeed(*command, *arguments).out
        if arguments[0] == "-o":
            content = arguments[1].read_bytes()
            shown = (gzip.decompress(content) if arguments[1].suffix == ".gz" else content).decode()
        assert list(csv.reader(shown.splitlines())) == tsv
    succeed(*command, "-o", tmp_path / "found.jsonl")
    assert (tmp_path / "found.jsonl").read_text() == succeed(*command, "--json").out
    assert succeed(*command, "--format", "jsonl").out == succeed(*command, "--json").out
    fail(2, "--json and --format csv exclude each other", *command, "--json", "--format", "csv")
    fail(2, "Parquet is binary and is not written to stdout: give --output FILE.parquet", *command,
         "--format", "parquet")  # fmt: skip


def test_one_question_can_be_a_stream_too(ring, asked, tmp_path):
    command = ("predict", ring, "--head", "s0", "--relation", "next", "--device", "cpu")
    asked.write_text("s0\tnext\ttail\n")
    expected = succeed("predict", ring, "--queries", asked, "--device", "cpu").out
    assert succeed(*command, "--format", "tsv").out == expected
    succeed(*command, "-o", tmp_path / "found.tsv")
    assert (tmp_path / "found.tsv").read_text() == expected
    assert succeed(*command).out.startswith("(s0, next, ?)\n")


def test_head_and_tail_ask_for_the_relation(ring, tmp_path):
    command = ("predict", ring, "--head", "Station 4", "--tail", "s5", "--device", "cpu")
    found = Ensemble.open(ring).predict_relations(head="s4", tail="s5")
    shown = succeed(*command).out
    assert shown.startswith("(s4, ?, s5)\n")
    assert f"scale: {found.scale}" in shown
    for answer in found:
        (line,) = (line.split() for line in shown.splitlines() if f" {answer.relation} " in line)
        assert line[:4] == [f"{answer.rank:g}", answer.relation, answer.known or "–", f"{answer.score:.4g}"]
    assert succeed(*command, "--json").json == found.to_json()
    rows = list(csv.DictReader(succeed(*command, "--format", "csv").out.splitlines()))
    assert [(row["head"], row["tail"], row["relation"]) for row in rows] == [("s4", "s5", a.relation) for a in found]


def test_a_file_may_ask_for_relations(ring, tmp_path):
    asked = tmp_path / "asked.tsv"
    asked.write_text('head\ttail\trelation\ns4\ts5\trelation\n{"head": "s1", "tail": "station 3"}\n')
    command = ("predict", ring, "--queries", asked, "--device", "cpu", "--top", 1, "--known", "drop")
    lines = [json.loads(line) for line in succeed(*command, "--json").out.splitlines()]
    ensemble = Ensemble.open(ring)
    assert lines == [
        ensemble.predict_relations(head=head, tail=tail, top=1, known="drop").to_json()
        for head, tail in (("s4", "s5"), ("s1", "s3"))
    ]
    rows = list(csv.DictReader(succeed(*command).out.splitlines(), dialect="excel-tab"))
    assert [row["relation"] for row in rows] == [line["answers"][0]["relation"] for line in lines]
    fail(2, "--explain shows paths to entities", *command, "--explain")
    asked.write_text(asked.read_text() + "s4\tnext\ttail\n")
    fail(2, "line 4: found questions for entities and for relations", *command)
    asked.write_text("s4\tnowhere\trelation\n")
    fail(2, "line 1: unknown entity 'nowhere'", *command)
