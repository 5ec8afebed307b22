"""The flips, a few of them: the campaign itself tries thousands."""

import random
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")
pytest.importorskip("fastapi", reason="needs fastapi: pip install 'relens[serve]'")

from campaigns import flips
from campaigns.flips import Bench, Damage, random_flips, targeted
from campaigns.reading import Answer


def test_no_damage_of_a_run_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flips, "PROCESSES", 1)
    found = flips.campaign(6 / flips.FLIPS, 0, tmp_path)
    assert {name: tally.defects for name, tally in found.items()} == {"random": [], "targeted": []}
    assert {name: tally.tried for name, tally in found.items()} == {"random": 6, "targeted": 6}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    for name, content in (("a.json", b'{"a": 1, "checksum": "12"}'), ("b.bin", b"12345678"), ("c.bin", b"abcdefgh")):
        (run / name).write_bytes(content)
    return run


def test_damages_are_those_of_the_seed_and_change_the_file_but_not_its_time(files: Path, tmp_path: Path) -> None:
    drawn = [[*random_flips(files, 30, random.Random(s)), *targeted(files, 60, random.Random(s))] for s in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {damage.kind for damage in drawn[0]} == {"flip", "cut", "swap"}
    for number, damage in enumerate(drawn[0]):
        copy = shutil.copytree(files, tmp_path / str(number))
        damage.apply(copy)
        changed = [name.name for name in files.iterdir() if name.read_bytes() != (copy / name.name).read_bytes()]
        assert sorted(changed) == sorted(damage.files), damage
        assert (copy / damage.file).stat().st_mtime_ns == (files / damage.file).stat().st_mtime_ns


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (Answer(0, "right", ""), ""),
        (Answer(2, "", "relens: error: {file} is damaged"), ""),
        (Answer(0, "wrong", ""), "is silent"),
        (Answer(2, "", "relens: error: something is damaged"), "does not name the file"),
        (Answer(None, "", "Traceback"), "traceback"),
    ],
)
def test_silence_and_errors_without_a_name_are_defects(files: Path, answer: Answer, wrong: str) -> None:
    bench = Bench.__new__(Bench)
    bench._folder, bench._intact = files.parent, {"verb": Answer(0, "right", "")}
    said = Answer(answer.code, answer.output, answer.said.format(file=files / "a.json"))
    found = bench._wrong("verb", Damage("random", "flip", "a.json"), said)
    assert (wrong in found) if wrong else not found
