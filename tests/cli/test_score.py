"""``relens score``: a table for one triple, a stream for a file of them."""

import csv
import json

import pytest

from tests.cli.commands import fail, succeed

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens import score
from tests.cli.test_predict import ring  # noqa: F401


@pytest.fixture
def asked(tmp_path):
    path = tmp_path / "asked.tsv"
    path.write_text(
        "head\trelation\ttail\n" + "".join(f"s{i}\tnext\ts{i + 1}\ns2\ttwice\tStation {i}\n" for i in range(5))
    )
    return path


def test_one_triple_is_a_table(ring):  # noqa: F811
    command = ("score", ring, "--head", "Station 4", "--relation", "next", "--tail", "s7", "--device", "cpu")
    (one,) = score(ring, [("s4", "next", "s7")])
    shown = succeed(*command)
    (line,) = (line for line in shown.out.splitlines() if line.startswith(" s4 "))
    assert line.split()[:6] == ["s4", "next", "s7", f"{one.score:.4g}", f"{one.tail_rank:g}", f"{one.head_rank:g}"]
    assert succeed(*command, "--json").json == one.to_json()
    assert succeed(*command, "--format", "jsonl").json == one.to_json()


def test_a_file_gives_a_line_per_triple(ring, asked, tmp_path):  # noqa: F811
    found = score(ring, asked)
    outcome = succeed("score", ring, "--triples", asked, "--device", "cpu", "-o", tmp_path / "found.csv")
    assert outcome.err == f"relens: wrote {tmp_path / 'found.csv'}\n"
    with (tmp_path / "found.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["head"], row["tail"]) for row in rows] == [(one.head, one.tail) for one in found]
    assert [(float(row["tail_rank"]), float(row["head_rank"])) for row in rows] == [
        (one.tail_rank, one.head_rank) for one in found
    ]
    lines = succeed("score", ring, "--triples", asked, "--device", "cpu", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == [one.to_json() for one in found]


def test_wrong_questions_are_refused(ring, asked, tmp_path):  # noqa: F811
    whole = "give --head, --relation and --tail of one triple, or a file of --triples"
    fail(2, whole, "score", ring)
    fail(2, whole, "score", ring, "--head", "s1", "--tail", "s2")
    fail(2, whole, "score", ring, "--head", "s1", "--triples", asked)
    asked.write_text("s1\tnext\ts2\nnobody\tnxt\ts2\n")
    output = tmp_path / "found.tsv"
    one = fail(2, "unknown relation 'nex'; did you mean 'next'?", "score", ring, "--head", "s1", "--relation", "nex",
               "--tail", "s2")  # fmt: skip
    assert "--triples" not in one.err
    outcome = fail(2, "found 2 names that the graph does not have", "score", ring, "--triples", asked, "-o", output)
    assert f"{asked}, line 2: unknown relation 'nxt'; did you mean 'next'?" in outcome.err
    assert not output.exists()
    fail(2, "does not exist", "score", ring, "--triples", tmp_path / "none.tsv")
