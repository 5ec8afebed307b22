"""The campaign on disks, in short: two of its verbs, and what it calls a defect."""

from pathlib import Path

import pytest

from campaigns import disks
from campaigns.disks import CommandResult


def test_a_run_and_a_report_survive_a_full_disk(tmp_path: Path) -> None:
    tallies = disks.campaign(0.06, 0, tmp_path)
    assert {name: (tally.tried, tally.survived) for name, tally in tallies.items() if tally.tried} == {
        "run": (1, 1), "report": (1, 1),
    }, [tally.defects for tally in tallies.values()]  # fmt: skip


@pytest.mark.parametrize(
    ("ended", "defect"),
    [
        (CommandResult(0, "fine"), None),
        (
            CommandResult(
                1, "relens: error: cannot write run/a: No space left. Nothing changed there; free\nsome space"
            ),
            None,
        ),
        (CommandResult(1, "relens: error: [Errno 28]"), "does not say what to do: relens: error: [Errno 28]"),
        (CommandResult(1, "Traceback (most recent call last): free some space"), "prints a traceback: Traceback"),
        (CommandResult(-7, "boom"), "ends with -7, expected 1: boom"),
        (CommandResult(2, "free some space"), "ends with 2, expected 1"),
    ],
)
def test_what_a_command_may_say(ended: CommandResult, defect: str | None) -> None:
    found = disks._badly_ended(ended)
    assert found is None if defect is None else str(found).startswith(defect)


def test_what_is_half_written_is_found(tmp_path: Path) -> None:
    before, result = {"a": b"old", "b": b"kept"}, {"a": b"new", "b": b"kept", "c": b"made"}
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "b").write_bytes(b"kept")
    assert disks._half_written(tmp_path, before, result, 1) is None
    assert disks._half_written(tmp_path, before, result, 0) == "with little space: files differ: c"
    (tmp_path / "a").write_bytes(b"ne")
    assert disks._half_written(tmp_path, before, result, 1) == "leaves a half-written: b'ne'"
    (tmp_path / ".c.1.part").touch()
    assert disks._half_written(tmp_path, before, result, 1) == "leaves .c.1.part"
