"""The floods, for two seconds: the campaign itself runs for as long as one likes."""

import random
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads the resources of a process in /proc"
)

from campaigns import floods  # noqa: E402


def test_the_service_survives_two_seconds_of_attacks(tmp_path: Path) -> None:
    found = floods.campaign(2.0 / floods.SECONDS, 0, tmp_path)
    assert {name: tally.defects for name, tally in found.items() if tally.defects} == {}
    assert [name for name, tally in found.items() if not 0 < tally.tried == tally.survived] == []
    assert set(found) == {attack.__name__ for attack in floods.ATTACKS} | {"aftermath"}


def test_a_failure_and_a_wrong_answer_are_defects() -> None:
    assert floods.complaint(b"HTTP/1.1 500 Internal Server Error") is not None
    assert floods.complaint(b"Traceback") is not None
    assert floods.complaint(b"HTTP/1.1 400 Bad Request") is None
    tally = floods.side_by_side(0.0, random.Random(0), lambda own: "wrong" if own.random() < 2 else None, width=3)
    assert (tally.tried, tally.survived, tally.defects) == (3, 0, ["wrong"] * 3)
    assert threading.active_count() < 50


def test_changes_are_those_of_the_seed() -> None:
    first, again = ([floods.mutated(floods.VALID[0], random.Random(7)) for _ in range(3)] for _ in range(2))
    assert first == again != [floods.VALID[0]] * 3
