"""``relens classify``: verdicts as a table or as a stream."""

import csv

import pytest

from tests.cli.commands import fail, succeed

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens import classify
from tests.cli.test_predict import ring  # noqa: F401


def test_one_triple_is_a_table_and_a_file_gives_a_line_each(ring, tmp_path):  # noqa: F811
    path = tmp_path / "asked.tsv"
    path.write_text("head\trelation\ttail\n" + "".join(f"s{i}\tnext\ts{i + 1}\n" for i in range(6)))
    found = classify(ring, path)
    outcome = succeed("classify", ring, "--triples", path, "--device", "cpu", "-o", tmp_path / "found.csv")
    fitting, wrote = outcome.err.splitlines()
    assert fitting.startswith("relens: fitting the thresholds of verdicts on validation; `relens calibrate ")
    assert wrote == f"relens: wrote {tmp_path / 'found.csv'}"
    with (tmp_path / "found.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["head"], row["true"], row["own"]) for row in rows] == [
        (one.head, str(one.true).lower(), str(one.own).lower()) for one in found
    ]
    command = ("classify", ring, "--head", "s2", "--relation", "next", "--tail", "Station 3", "--device", "cpu")
    (line,) = (line for line in succeed(*command).out.splitlines() if line.startswith(" s2 "))
    assert line.split()[3] == str(found[2].true).lower()
    assert succeed(*command, "--json").json == found[2].to_json()
    fail(2, "give --head, --relation and --tail of one triple, or a file of --triples", "classify", ring)
