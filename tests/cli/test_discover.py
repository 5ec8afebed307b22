"""``relens discover``: streams of facts, interruptions and wrong requests."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.runs import Run
from tests.cli.commands import fail, succeed
from tests.patience import HANG
from tests.prediction.trained import make_town, make_town_run

ASKED = ("--weights", "rank", "--device", "cpu", "--top", 30, "--depth", 5)
COLUMNS = "head relation tail head_name relation_name tail_name confidence tail_rank head_rank margin"


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_town(tmp_path_factory.mktemp("graphs") / "town")
    return make_town_run(folder, tmp_path_factory.mktemp("runs") / "town").path


def known_facts(run):
    graph = Run.open(run).graph()
    labels, relations = graph.entities.labels, graph.relations.labels
    rows = np.concatenate(list(graph.splits.values())).tolist()
    return {(labels[head], relations[relation], labels[tail]) for head, relation, tail in rows}


def test_facts_are_a_stream_of_new_ones(town, tmp_path):
    out = succeed("discover", town, *ASKED).out
    rows = list(csv.DictReader(out.splitlines(), dialect="excel-tab"))
    assert out.splitlines()[0].split("\t") == COLUMNS.split()
    facts = [(row["head"], row["relation"], row["tail"]) for row in rows]
    assert len(set(facts)) == len(facts) == 30
    assert not set(facts) & known_facts(town)
    assert all(head != tail for head, _, tail in facts)

    lines = [json.loads(line) for line in succeed("discover", town, *ASKED, "--json").out.splitlines()]
    assert [(line["head"], line["relation"], line["tail"]) for line in lines] == facts
    assert [f"{line['margin']:.4g}" for line in lines] == [row["margin"] for row in rows]

    outcome = succeed("discover", town, *ASKED, "-o", tmp_path / "found.tsv")
    assert outcome.out == ""
    assert outcome.err.endswith(f"relens: wrote {tmp_path / 'found.tsv'}\n")
    assert (tmp_path / "found.tsv").read_text() == out
    assert [entry.name for entry in tmp_path.iterdir()] == ["found.tsv"], "no parts are left"
    succeed("discover", town, *ASKED, "-o", tmp_path / "found.csv")
    assert list(csv.DictReader((tmp_path / "found.csv").read_text().splitlines())) == rows


def test_relations_entities_and_each(town):
    one = succeed("discover", town, *ASKED[:4], "--relation", "lives_in", "--entity", "oslo", "--top", 3).out
    rows = list(csv.DictReader(one.splitlines(), dialect="excel-tab"))
    assert [(row["relation"], row["tail"], row["tail_name"]) for row in rows] == [("lives_in", "city_0", "Oslo")] * 3
    each = succeed("discover", town, *ASKED[:4], "--each", "--top", 2).out
    relations = [row["relation"] for row in csv.DictReader(each.splitlines(), dialect="excel-tab")]
    assert relations == ["lives_in"] * 2 + ["located_in"] * 2 + ["works_at"] * 2


@pytest.mark.parametrize(
    "pattern",
    [
        "discovery.json$",
        r"000001-\w+\.npy$",
        r"parts/\.000002-",
        r"\.found.tsv\..*part$",
        "found.tsv$",
        "remove .*parts$",
    ],
)
def test_a_killed_discovery_resumes_with_the_same_command(pattern, town, tmp_path):
    command = [str(word) for word in ("discover", town, *ASKED, "-o", tmp_path / "found.tsv")]
    mortal = Path(__file__).parent.parent / "pipeline" / "mortal.py"
    done = subprocess.run(
        [sys.executable, str(mortal), pattern, *command], capture_output=True, text=True, timeout=HANG, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    succeed(*command)
    assert (tmp_path / "found.tsv").read_text() == succeed("discover", town, *ASKED).out
    assert [entry.name for entry in tmp_path.iterdir()] == ["found.tsv"]


def test_parts_of_another_discovery_are_not_resumed(town, tmp_path):
    output = tmp_path / "found.tsv"
    parts = tmp_path / "found.tsv.parts"
    parts.mkdir()
    (parts / "mine.txt").write_text("dear")
    fail(2, f"{parts} holds no parts of a discovery", "discover", town, *ASKED, "-o", output)
    fail(2, f"{parts} holds no parts of a discovery", "discover", town, *ASKED, "-o", output, "--force")
    (parts / "mine.txt").unlink()
    from relens.prediction import Ensemble

    facts = Ensemble.open(town, "rank", "cpu").discover(top=30, depth=4, parts=parts)
    next(facts)
    del facts  # it was interrupted
    fail(2, "parts of another discovery: depth 4 there, 5 here.", "discover", town, *ASKED, "-o", output)
    outcome = fail(2, "or discard its parts with --force", "discover", town, *ASKED, "-o", output)
    assert not output.exists(), outcome.err
    succeed("discover", town, *ASKED, "-o", output, "--force")
    assert [entry.name for entry in tmp_path.iterdir()] == ["found.tsv"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--top", "0"), "Invalid value for '--top'"),
        (("--confidence", "7"), "--confidence 7 is no share: expected more than 0, and 1 at most"),
        (("--relation", "lifes_in"), "unknown relation 'lifes_in'; did you mean 'lives_in'?"),
        (("--entity", "nobody"), "unknown entity 'nobody'"),
        (("--candidates", "lucky"), "or one of the words likely and all"),
        (("--candidates", "types"), "expected the file types.tsv"),
        (("--relation", "works_at", "--entity", "city_1", "--candidates", "observed"),
         "--candidates observed leaves nobody: none of the given entities can be a head or tail of 'works_at'. "
         "Consider all entities with --candidates all."),
        (("-o", "."), ". is a folder: expected the name of a file, --output FILE"),
    ],
)  # fmt: skip
def test_wrong_requests(town, words, message):
    fail(2, message, "discover", town, "--weights", "rank", *words)


def test_a_run_without_models_says_so(run_path):
    fail(2, "predictions need the models", "discover", run_path)


def test_a_list_of_candidates(town, tmp_path):
    (tmp_path / "some.txt").write_text("Oslo\ncity_1\nfirm_0\nfirm_1\nperson_3\n")
    out = succeed("discover", town, *ASKED, "--candidates", tmp_path / "some.txt").out
    rows = list(csv.DictReader(out.splitlines(), dialect="excel-tab"))
    assert {end for row in rows for end in (row["head"], row["tail"])} <= {
        "city_0", "city_1", "firm_0", "firm_1", "person_3"
    }  # fmt: skip
    assert rows
