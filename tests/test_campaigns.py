"""The program that runs the campaigns. Each campaign has tests of its own beside the code that it attacks."""

import json
from pathlib import Path

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
    monkeypatch.setattr(floods, "campaign", lambda amount, seed, folder: {"crowd": tally})
    with pytest.raises(SystemExit) as ended:
        program.main(["floods", "--amount", "0.01", "--output", str(tmp_path / "tallies.json")])
    assert int(ended.value.code or 0) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"floods crowd: tried {tally.tried}, survived {tally.survived}, defects {len(tally.defects)}"
    assert lines[1:-1] == ["  leak"] * bool(code)
    assert json.loads((tmp_path / "tallies.json").read_text())["campaigns"]["floods"]["crowd"] == vars(tally)


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
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert compared.contents(tmp_path) == {name: name.encode() for name in others}


def test_an_unknown_campaign_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(["flods"])
    assert "available: floods" in capsys.readouterr().err.replace("\n", " ")
