"""The benchmark programs run, and the figures of one run do not contradict each other."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def run(program: str, *arguments: str | Path) -> str:
    command = [sys.executable, str(BENCHMARKS / program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


@pytest.fixture(scope="module")
def search_file(folder: Path) -> Path:
    output = folder / "search.json"
    run(
        "bench_search.py", "--shape", "tiny", "--repeats", "1", "--sample-groups", "3", "--authors-trials", "70",
        "--tpe-trials", "22", "--cache", folder / "cache", "--output", output,
    )  # fmt: skip
    return output


@pytest.fixture(scope="module")
def search(search_file: Path) -> dict[str, Any]:
    return json.loads(search_file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pack(folder: Path) -> dict[str, Any]:
    return json.loads(run("bench_pack.py", "--shape", "tiny", "--size", "0.001", "--repeats", "1", "--cache", folder))


def test_a_search_report_has_all_parts(search: dict[str, Any]) -> None:
    parts = "shape settings environment sweep methods evaluation growth default_fit tpe authors targets"
    assert set(parts.split()) <= search.keys()
    assert search["environment"]["versions"]["relens"]
    assert search["shape"]["queries"] == 188
    assert search["shape"]["groups_with_queries"] == 12
    assert len(search["targets"]) == 9


def test_the_sweep_is_no_worse_than_anything_else(search: dict[str, Any]) -> None:
    best = search["sweep"]["mrr"]
    assert best == search["methods"]["dsc"]
    others = [search["methods"][name] for name in ("best_single", "mean", "simple")]
    assert best >= max(*others, search["tpe"]["mrr"])
    assert search["authors"]["mrr_sweep"] >= search["authors"]["mrr"]


def test_dense_ranks_and_packed_ranks_agree_on_the_authors_weights(search: dict[str, Any]) -> None:
    """Weights drawn at random tie hardly anything, so breaking ties by position makes no difference."""
    for row in search["authors"]["sample"]:
        assert row["mrr_dense"] == pytest.approx(row["mrr"], abs=1e-9)


def test_extrapolation_adds_up(search: dict[str, Any]) -> None:
    authors, shape = search["authors"], search["shape"]
    estimate = authors["extrapolated"]
    objective = sum(row["objective_seconds"] for row in authors["sample"])
    overhead = sum(row["hyperopt_seconds"] for row in authors["sample"])
    expected = objective * shape["queries"] / authors["sample_queries"]
    expected += overhead * shape["groups_with_queries"] / len(authors["sample"])
    assert estimate["seconds"] == pytest.approx(expected / estimate["workers"])


def test_growth_is_measured_on_whole_triples(search: dict[str, Any]) -> None:
    assert search["growth"]["queries"] == [12, 48, 188]


def test_packing_report_has_all_cases_and_stays_within_the_limit(pack: dict[str, Any]) -> None:
    assert list(pack["cases"]) == ["ranks", "scores", "scores with gaps"]
    for case in pack["cases"].values():
        assert case["ratio_to_best_read"] > 0
        assert case["peak_private_gb"] <= pack["settings"]["limit_gb"]
    # Scores hold twice the bytes of ranks per query, and gaps come on top of what a store holds anyway.
    assert pack["cases"]["ranks"]["queries"] == pytest.approx(2 * pack["cases"]["scores"]["queries"], abs=1)
    assert pack["cases"]["scores with gaps"]["store_bytes"] > pack["cases"]["scores"]["store_bytes"]


def test_tables_show_the_figures(folder: Path, search_file: Path, pack: dict[str, Any]) -> None:
    pack_file = folder / "pack.json"
    pack_file.write_text(json.dumps(pack), encoding="utf-8")
    text = run("tables.py", search_file, pack_file)
    mrr = json.loads(search_file.read_text(encoding="utf-8"))["sweep"]["mrr"]
    assert f"| dsc, sweep (c) | {mrr:.4f} |" in text
    assert "| scores with gaps |" in text
    assert "| times faster than relens tpe |" in text
