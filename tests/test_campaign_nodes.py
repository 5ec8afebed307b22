"""The campaign on nodes, in short: one loss of a worker and one of a scheduler, and what it calls a defect."""

from pathlib import Path

import pytest

from campaigns import nodes

RESUME = "run the same command again"


def test_a_lost_worker_and_a_lost_scheduler_are_survived(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs relens[dask]")
    tallies = nodes.campaign(0.13, 0, tmp_path)
    assert {name: (tally.tried, tally.survived) for name, tally in tallies.items() if tally.tried} == {
        "dask: worker killed": (1, 1), "dask: scheduler killed": (1, 1),
    }, [tally.defects for tally in tallies.values()]  # fmt: skip


@pytest.mark.parametrize(
    ("ended", "lines", "defect"),
    [
        ((0, ""), "", None),
        ((1, RESUME), "one\ntwo\nthr", None),
        ((1, RESUME), "one\n", "2 results were kept, and are not any more"),
        ((1, "lost"), "one\ntwo\n", "does not say what to do: lost"),
        ((2, "wrong"), "one\ntwo\n", "ends with 2: wrong"),
        ((-6, "crash"), "one\ntwo\n", "ends with -6: crash"),
        ((1, f"Traceback {RESUME}"), "one\ntwo\n", "ends with 1: Traceback"),
        ((None, "still here"), "one\ntwo\n", "hangs: still here"),
    ],
)
def test_how_a_command_may_end(tmp_path: Path, ended, lines: str, defect: str | None) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "search.jsonl").write_text(lines)
    found = nodes._badly_ended(ended, tmp_path, ["one\n", "two\n"])
    assert found is None if defect is None else str(found).startswith(defect)
