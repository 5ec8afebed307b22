"""Nodes: lose workers, schedulers and head nodes in the middle of a search, by a kill or a stop, and finish it.

``python -m campaigns nodes --seed 0`` starts clusters of two workers on this machine. An engine that is not installed
is left out. Not for Windows.
"""

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from campaigns.clusters import HANG_S, MODULES, Running, start
from campaigns.tally import Tally
from relens.files import read_json
from relens.packs.simulation import Simulation
from relens.packs.store import save_pack
from relens.runs import Run

ATTACKS = {
    "dask": ("worker killed", "scheduler killed", "worker stopped", "scheduler stopped"),
    "ray": ("node killed", "head node killed", "node stopped", "head node stopped"),
}
TRIES = {"dask": (4, 4, 2, 1), "ray": (2, 2, 1, 1)}
"""How often each attack is tried in the full campaign."""
SIMULATION = Simulation(("a", "b", "c"), (9,) * 12, 40, level=(1.2, 1.0), skill=0.8, noise=0.5, agreement=0.3, seed=3)
GROUPS = 24
SEARCH = ("--input", "rank", "--regularise", "none", "--searcher", "random", "--trials", "8000", "--jobs", "1",
          "--name", "found")  # fmt: skip
IMPATIENT = ("--patience", "3")
"""Seconds that a worker may hang. A busy machine may take longer, and then the command says so and resumes."""
RESUMED = 5
"""How often a command that ended with a message may be needed until it finishes."""


@dataclass(frozen=True)
class Search:
    """The search under attack: its run, the weights it must find, and the folder of its tries."""

    run: Path
    weights: object
    folder: Path


def campaign(amount: float, seed: int, folder: Path) -> dict[str, Tally]:
    """Attack searches on both engines at the same time."""
    engines = []
    for backend, module in MODULES.items():
        if importlib.util.find_spec(module) is None:
            print(f"nodes: {backend} is not installed, so its clusters are not attacked", flush=True)
        else:
            engines.append(backend)
    run = _write_run(folder / "run")
    _expect(_ended(_relens("search", str(run), *SEARCH)))
    weights = _weights(run)
    (run / "weights" / "found.json").unlink()
    search = Search(run, weights, folder)
    with ThreadPoolExecutor(len(ATTACKS)) as pool:
        found = pool.map(lambda backend: _attacked(backend, amount, seed, search), engines)
        return {name: tally for tallies in found for name, tally in tallies.items()}


def _write_run(path: Path) -> Path:
    with Run.receive_ranks(path, "simulated") as stores:
        for split in ("valid", "test"):
            save_pack(SIMULATION.packed(split), stores / split)
    return path


def _attacked(backend: str, amount: float, seed: int, search: Search) -> dict[str, Tally]:
    tallies = {}
    for attack, tries in zip(ATTACKS[backend], TRIES[backend], strict=True):
        chosen = random.Random(f"{seed} {backend} {attack}")
        tally = tallies[f"{backend}: {attack}"] = Tally()
        for number in range(round(amount * tries)):
            # Before the first result nothing is known about hanging: the command waits for minutes.
            results = chosen.randrange(1 if "stopped" in attack else 0, GROUPS // 2)
            defect = _attempt(backend, attack, results, search, search.folder / f"{backend} {attack} {number}")
            place = f"{backend}, {attack} after {results} results"
            tally.note(None if defect is None else f"{place}: {defect}")
    return tallies


def _attempt(backend: str, attack: str, results: int, search: Search, folder: Path) -> str | None:
    """Attack one search, finish it by the same command, and return the defect."""
    run = Path(shutil.copytree(search.run, folder / "run"))
    with _cluster(backend, folder / "first") as running:
        process = _relens("search", str(run), *SEARCH, *IMPATIENT, "--backend", backend, "--address", running.address)
        while process.poll() is None and len(_lines(run)) < results:
            time.sleep(0.01)
        kept = _lines(run)
        lost = running.second if attack.startswith(("worker", "node")) else running.head
        os.killpg(lost.pid, signal.SIGSTOP if attack.endswith("stopped") else signal.SIGKILL)
        try:
            first = _ended(process)
        finally:
            os.killpg(lost.pid, signal.SIGKILL)
        if defect := _badly_ended(first, run, kept):
            return defect
        if first[0] and lost is running.second:
            return _finish(backend, running, run, search)
    if first[0]:
        with _cluster(backend, folder / "second") as running:
            return _finish(backend, running, run, search)
    return _wrong(run, search)


def _cluster(backend: str, folder: Path) -> AbstractContextManager[Running]:
    folder.mkdir()
    return start(backend, folder)


def _lines(run: Path) -> list[str]:
    """Return the complete lines of the journal."""
    journal = run / "search.jsonl"
    text = journal.read_text() if journal.exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _badly_ended(ended: tuple[int | None, str], run: Path, kept: Sequence[str]) -> str | None:
    code, text = ended
    if code is None:
        return f"hangs: {text}"
    if code and _lines(run)[: len(kept)] != kept:
        return f"{len(kept)} results were kept, and are not any more: {text}"
    if "Traceback" in text or code not in (0, 1, 2):
        return f"ends with {code}: {text}"
    if code == 1 and "the same command again" not in text:
        return f"does not say what to do: {text}"
    return f"ends with 2: {text}" if code == 2 and "Is it running, and is this its address?" not in text else None


def _finish(backend: str, running: Running, run: Path, search: Search) -> str | None:
    """Run the same command until it finishes."""
    for _ in range(RESUMED):
        kept = _lines(run)
        ended = _ended(_relens("search", str(run), *SEARCH, "--backend", backend, "--address", running.address))
        if ended[0] == 0:
            return _wrong(run, search)
        if defect := _badly_ended(ended, run, kept):
            return defect
    return f"the same command does not finish: {ended[1]}"


def _wrong(run: Path, search: Search) -> str | None:
    if (run / "search.jsonl").exists():
        return "the journal is left"
    return None if _weights(run) == search.weights else "finds other weights"


def _weights(run: Path) -> object:
    found = read_json(run / "weights" / "found.json", "weights")
    return found["groups"], found["fallback"]


def _relens(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "relens", *words]
    environment = os.environ | {"RAY_AUTH_MODE": "disabled", "COLUMNS": "1000"}
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def _ended(process: "subprocess.Popen[str]") -> tuple[int | None, str]:
    """Wait for a command; return its code, None for one that hangs, and its messages."""
    try:
        _, text = process.communicate(timeout=HANG_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, " ".join(process.communicate()[1].split())
    return process.returncode, " ".join(text.split()) if "Traceback" not in text else text


def _expect(ended: tuple[int | None, str]) -> None:
    if ended[0]:
        raise SystemExit(f"the search that the attacks need fails:\n{ended[1]}")
