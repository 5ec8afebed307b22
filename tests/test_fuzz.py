"""A short form of the fuzz campaign, and what the campaign must notice."""

import random
import re
import shutil
import sys
from pathlib import Path

import pytest

from campaigns.fuzz import attack_readers
from campaigns.fuzz_worker import find_targets
from campaigns.mutations import mutated
from campaigns.tally import Tally

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits what a process takes as Linux does")

SHORT = 200
"""Changed inputs for each reader."""


def test_hostile_files_end_with_a_result_or_a_sentence(tmp_path: Path) -> None:
    found = attack_readers(SHORT, 0, tmp_path)
    assert sum(tally.tried for tally in found.values()) > SHORT * len(found)
    assert {name: tally.defects for name, tally in found.items() if tally.defects} == {}


def test_the_campaign_notices_each_way_to_fail(tmp_path: Path) -> None:
    found = attack_readers(3, 1, tmp_path, ("tests.hostile_targets",))
    assert found.pop("well-behaved") == Tally(5, 5)
    expected = {
        "traceback": r"KeyError: … \(hostile_targets\.py:\d+\)",
        "memory": r"took more than 2 GiB of memory",
        "address space": r"asked for more than 2 GiB: \(hostile_targets\.py:\d+\)",
        "crash": r"ended the process by SIGABRT",
        "exit": r"ended the process with exit code 7",
    }
    assert found.keys() == expected.keys()
    for name, tally in found.items():
        assert (tally.tried, tally.survived, len(tally.defects)) == (5, 4, 1)
        text, input_ = tally.defects[0].split("; input: ")
        assert re.fullmatch(f"{name}: {expected[name]}", text)
        assert (Path(input_) / "file").read_bytes() == b"!"
    shutil.rmtree(Path(input_).parent)


def test_targets_have_names_of_their_own() -> None:
    names = [target.name for target in find_targets()]
    assert len(set(names)) == len(names)


def test_equal_seeds_give_equal_inputs() -> None:
    files = {"a.json": b'{"a": [1, 2.5, "x"]}', "b.tsv": b"a\tr\tb\nc\tr\td\n", "c": b"\x80\x02K\x01."}

    def inputs(seed: int) -> list[dict[str, bytes]]:
        return [mutated(random.Random(f"{seed} {number}"), files, (b"token",), files) for number in range(300)]

    assert inputs(1) == inputs(1) != inputs(2)
    assert sum(made != files for made in inputs(1)) > 250
    assert sum(b"token" in content for made in inputs(1) for content in made.values()) > 1
