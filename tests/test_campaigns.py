"""The program that runs the campaigns. Each campaign has tests of its own beside the code that it attacks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from campaigns import __main__ as program
from campaigns import compared, floods
from campaigns.tally import Tally


def test_a_tally_counts_tries_and_defects() -> None:
    tally = Tally()
    for defect in (None, "leak", None):
        tally.note(defect)
    assert (tally.tried, tally.survived, tally.defects) == (3, 2, ["leak"])


@pytest.mark.parametrize(("tally", "code"), [(Tally(2, 2), 0), (Tally(3, 1, ["leak", "leak"]), 1)])
def test_the_program_ends_with_1_if_there_is_a_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tally: Tally, code: int
) -> None:
    monkeypatch.setattr(floods, "campaign", lambda amount, seed, folder: {"slow_crowd": tally})
    with pytest.raises(SystemExit) as ended:
        program.main(["floods", "--amount", "0.01", "--seed", "3", "--output", str(tmp_path / "tallies.json")])
    assert int(ended.value.code or 0) == code
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["floods", "slow", "crowd", str(tally.tried), str(tally.survived), str(len(tally.defects))] in lines
    assert lines.count(["floods,", "slow_crowd:", "leak"]) == code
    written = json.loads((tmp_path / "tallies.json").read_text())
    assert written["campaigns"]["floods"]["slow_crowd"] == vars(tally)
    assert (written["seed"], written["amount"]) == (3, 0.01)


def test_several_campaigns_run_in_processes_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One writes its tallies, the other fails itself, which is a defect."""

    def started(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[:3] == [sys.executable, "-m", "campaigns"]
        name, output = command[3], Path(command[-1])
        if name == "good":
            tallies = {"seed": 1, "campaigns": {"good": {"try": {"tried": 2, "survived": 2, "defects": []}}}}
            output.write_text(json.dumps(tallies))
        return subprocess.CompletedProcess(command, 0, "", "Traceback: boom")

    monkeypatch.setattr(program, "names", lambda: ["bad", "good"])
    monkeypatch.setattr(subprocess, "run", started)
    with pytest.raises(SystemExit) as ended:
        program.main(["--seed", "1"])
    assert int(ended.value.code or 0) == 1
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["good", "try", "2", "2", "0"] in lines
    assert ["bad", "campaign", "1", "0", "1"] in lines
    assert "bad, campaign: the campaign failed: Traceback: boom" in out


def test_contents_are_all_files_of_a_run_except_logs(tmp_path: Path) -> None:
    logs = (
        ".lock", "models/a/.lock", "models/a/log.jsonl", "weights/dsc+input-rank.log.jsonl", "curves.json",
        "report/log.html", "report/figures/curves.svg", "report/figures/curves.png",
    )  # fmt: skip
    others = (
        "run.json", "weights/log.json", "weights/curves.json", "report/figures/training.svg", "report/index.html",
        "models/a/trained/model.json", "models/a/.again", "weights/.dsc.json.x.part", "log.jsonl", "report/curves.svg",
    )  # fmt: skip
    for name in (*logs, *others):
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert compared.contents(tmp_path / "mine") == {name: name.encode() for name in others}
    assert compared.contents(tmp_path) == {f"mine/{name}": name.encode() for name in others}


def test_an_unknown_campaign_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(["flods"])
    assert "floods" in capsys.readouterr().err.replace("\n", " ").partition("available: ")[2]
