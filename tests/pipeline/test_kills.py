"""Kills at random moments: a few of those that the campaign tries."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the processes in /proc")

from campaigns import kills, sessions  # noqa: E402


def test_two_kills_are_survived(tmp_path: Path) -> None:
    found = kills.campaign(2 / kills.KILLS, 10, tmp_path)
    assert {name: tally.defects for name, tally in found.items() if tally.defects} == {}
    assert {name: tally.survived for name, tally in found.items()} == {"run from the beginning": 1, "classify": 1}


def test_a_process_that_lives_on_is_found_and_ended() -> None:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        assert kills.members(process.pid) == [process.pid]
        assert kills.survivors(process.pid) == 1
    assert kills.members(process.pid) == []
    assert kills.survivors(process.pid) == 0


@pytest.mark.parametrize(
    ("change", "defect"),
    [
        (lambda folder: None, None),
        (lambda folder: (folder / "a.csv").unlink(), "afterwards there is no a.csv"),
        (lambda folder: (folder / ".a.csv.x.part").touch(), "afterwards there is also .a.csv.x.part"),
        (lambda folder: (folder / "sub" / ".b.x.old").mkdir(), "afterwards there is also sub/.b.x.old/"),
        (lambda folder: (folder / "a.csv").write_text("1\n"), "afterwards a.csv differ"),
        (lambda folder: (folder / "curves.json").write_text("{}"), None),
        (lambda folder: (folder / "c.json").write_text('{"a": 2}'), "afterwards c.json differ"),
    ],
)
def test_what_differs_after_a_kill_is_named(tmp_path: Path, change, defect) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.csv").write_text("0\n")
    (tmp_path / "c.json").write_text('{"a": 1}')
    expected = kills.left_behind(tmp_path)
    change(tmp_path)
    found = kills.compare("predict", expected, kills.left_behind(tmp_path))
    assert found == (defect and f"predict: {defect}")


def test_time_without_a_core_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        patience = sessions.Patience(process.pid, -1.0)
        assert patience.is_over()
        monkeypatch.setattr(sessions, "seconds_ready", lambda process: 1e6)
        assert not patience.is_over()
        process.kill()
    monkeypatch.undo()
    assert not patience.is_over(), "what processes waited before they ended counts, too"
