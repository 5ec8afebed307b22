"""Flips: damage every file of a finished run, and check that no command takes the damage for data.

``python -m campaigns flips --seed 0`` flips single bits at random, then bits that matter, cuts files and swaps files of
equal size. After each damage, every command that reads the file must end with an error that names it, or give exactly
what it gives for the intact run. ``relens run`` may also make the file again. Files named as logs are damaged like all
others, but they are no output.
"""

import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from campaigns.reading import VERBS, Answer
from campaigns.tally import Tally
from campaigns.tiny import write_ring
from relens.files import LOCK
from relens.runs import is_log

FLIPS = 1000
"""Random flips of the full campaign, and as many targeted ones."""
RUN_EVERY = 40
"""Of so many damages, one is also shown to ``relens run``, which may have to train and draw again."""
PROCESSES = 2
PATIENCE_S = 600.0
"""Only a hang takes this long for one damage."""
ENDS = 16
"""Bytes at both ends of a file that count as its header and its trailer."""


@dataclass(frozen=True)
class Damage:
    """What happens to the files of a run.

    Attributes:
        attack: ``random`` or ``targeted``.
        kind: ``flip`` (``at`` is the number of a bit), ``cut`` (``at`` is the new length) or ``swap``.
        file: the path in the run.
        at: where.
        other: the file that ``file`` is swapped with.
        run: whether ``relens run`` is tried, too.
    """

    attack: str
    kind: str
    file: str
    at: int = 0
    other: str = ""
    run: bool = False

    def __str__(self) -> str:
        """Return a line that is enough to do the same again."""
        place = {"flip": f"at bit {self.at}", "cut": f"to {self.at} bytes", "swap": f"with {self.other}"}[self.kind]
        return f"{self.kind} {self.file} {place}"

    @property
    def files(self) -> list[str]:
        """The damaged files."""
        return [self.file, self.other] if self.other else [self.file]

    def apply(self, run: Path) -> None:
        """Damage the files of a run. Their times stay as they are."""
        content = bytearray((run / self.file).read_bytes())
        if self.kind == "swap":
            content, old = bytearray((run / self.other).read_bytes()), content
            _replace(run / self.other, old)
        elif self.kind == "cut":
            del content[self.at :]
        else:
            content[self.at // 8] ^= 1 << self.at % 8
        _replace(run / self.file, content)


def _replace(file: Path, content: bytes | bytearray) -> None:
    """Replace the content of a file; its time stays as it is."""
    state = file.stat()
    file.unlink()  # it may be a link to the file of the intact run
    file.write_bytes(content)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def _copied(source: str, target: str) -> None:
    """Copy a file: by a link, unless commands write into files of its kind."""
    if Path(source).name == LOCK or source.endswith(".jsonl"):
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def random_flips(run: Path, amount: int, draw: random.Random) -> Iterator[Damage]:
    """Yield flips of random bits of random files; small files are as likely as large ones."""
    files = _files(run)
    for number in range(amount):
        file, size = draw.choice(files)
        yield Damage("random", "flip", file, draw.randrange(8 * size), run=number % RUN_EVERY == 0)


def targeted(run: Path, amount: int, draw: random.Random) -> Iterator[Damage]:
    """Yield damages in the order of files: each gets its share of bits that matter, cuts and swaps."""
    files = _files(run)
    draw.shuffle(files)
    by_size = defaultdict(list)
    for file, size in files:
        by_size[size].append(file)
    for number in range(amount):
        file, size = files[number % len(files)]
        others = [other for other in by_size[size] if other != file and not is_log(Path(other))]
        kind = draw.choice(["flip"] * 6 + ["cut"] + ["swap"] * bool(others))
        # In the first turn, each file is shown to ``relens run``.
        run_too = number < len(files) or number % RUN_EVERY == 0
        if kind == "swap":
            yield Damage("targeted", kind, file, other=draw.choice(others), run=run_too)
        elif kind == "cut":
            yield Damage(
                "targeted", kind, file, draw.choice([0, size // 2, size - 1, draw.randrange(size)]), run=run_too
            )
        else:
            content = (run / file).read_bytes()
            yield Damage("targeted", kind, file, 8 * _place(content, draw) + draw.randrange(8), run=run_too)


def _place(content: bytes, draw: random.Random) -> int:
    """Return the position of a byte that matters: at an end, in a header, a number, a digest or a checksum."""
    last = len(content) - 1
    digits = [at for at in range(max(0, last - 2**16), last + 1) if 48 <= content[at] < 58]
    places = [0, last, draw.randrange(min(ENDS, last + 1)), last - draw.randrange(min(ENDS, last + 1))]
    places += [draw.choice(digits)] * 2 if digits else []
    at = content.rfind(b'"checksum"')
    places += [at + draw.randrange(last + 1 - at)] * 2 if at >= 0 else []
    return draw.choice(places)


def _files(run: Path) -> list[tuple[str, int]]:
    """Return the path and the size of each file of a run that is not empty, in order."""
    files = ((path, path.stat().st_size) for path in sorted(run.rglob("*")) if path.is_file())
    return [(str(path.relative_to(run)), size) for path, size in files if size]


class Bench:
    """A place to damage copies of a run, and what each command gives for the intact run.

    Attributes:
        readers: the commands that read a file, by its path.
    """

    def __init__(self, graph: Path, run: Path, folder: Path) -> None:
        """Try all commands on the intact run, and record what they read."""
        self._graph, self._run, self._folder = graph, run, folder
        self._opened: set[str] = set()
        self.readers: defaultdict[str, list[str]] = defaultdict(list)
        self._intact: dict[str, Answer] = {}
        sys.addaudithook(self._watch)
        for name in VERBS:
            self._intact[name] = self._answer(name, None)
            if self._intact[name].code:
                raise SystemExit(f"{name} fails on the intact run:\n{self._intact[name].said}")
            for file in self._opened:
                self.readers[file].append(name)

    def _watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record which files of the copy are opened."""
        if event == "open" and isinstance(arguments[0], str | os.PathLike):
            path = os.path.relpath(os.fspath(arguments[0]), self._copy)
            if not path.startswith(".."):
                self._opened.add(path)

    @property
    def _copy(self) -> Path:
        return self._folder / "run"

    def _answer(self, name: str, damage: Damage | None) -> Answer:
        """Call a command on a fresh copy of the run."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._run, self._copy, copy_function=_copied)
        (self._folder / "out").mkdir()
        if damage is not None:
            damage.apply(self._copy)
        self._opened.clear()
        return VERBS[name](self._graph, self._copy, self._folder / "out")

    def defects(self, damage: Damage) -> list[str]:
        """Return a sentence for each command that does not notice a damage, or breaks."""
        names = dict.fromkeys(name for file in damage.files for name in self.readers[file])
        found = []
        for name in names:
            if name == "run" and not damage.run:
                continue
            answer = self._answer(name, damage)
            wrong = self._wrong(name, damage, answer)
            if wrong:
                found.append(f"{damage}: {name}: {wrong}")
        return found

    def _wrong(self, name: str, damage: Damage, answer: Answer) -> str:
        """Return what is wrong with the answer of a command; empty if nothing."""
        if answer.code is None or "Traceback" in answer.said:
            return f"ends with a traceback: {answer.said[-300:]}"
        if answer.code == 0:
            return "" if answer.output == self._intact[name].output else "is silent, and gives something else"
        said = "".join(answer.said.split())
        if not any(str(self._copy / file) in said for file in damage.files):
            return f"ends with an error that does not name the file: {answer.said[-300:]}"
        return ""


def work(graph: Path, run: Path, folder: Path, damages: Sequence[Damage], results: Path) -> None:
    """Try damages, and write a line before and after each: this process may crash."""
    import torch

    torch.set_num_threads(1)
    os.environ["COLUMNS"] = "120"
    bench = Bench(graph, run, folder)
    with results.open("a", encoding="utf-8") as file:
        for damage in damages:
            print(json.dumps({"begun": asdict(damage)}), file=file, flush=True)
            print(json.dumps({"done": bench.defects(damage)}), file=file, flush=True)


def tried(graph: Path, run: Path, folder: Path, damages: Sequence[Damage]) -> Iterator[tuple[Damage, list[str]]]:
    """Yield damages with their defects, from processes that are replaced when they crash or hang."""
    folder.mkdir()
    left, results = list(damages), folder / "results"
    while left:
        results.unlink(missing_ok=True)
        place = (graph, run, folder / "copy", left, results)
        worker = multiprocessing.get_context("spawn").Process(target=work, args=place)
        worker.start()
        seen, since = 0, time.monotonic()
        while worker.is_alive() and time.monotonic() < since + PATIENCE_S:
            worker.join(0.2)
            size = results.stat().st_size if results.exists() else 0
            seen, since = (size, time.monotonic()) if size != seen else (seen, since)
        hangs = worker.is_alive()
        worker.kill()
        worker.join()
        lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        if not lines:
            raise SystemExit("a process of the flips ended before its first damage")
        outcomes = [line["done"] for line in lines if "done" in line]
        if len(lines) % 2:
            what = f"hangs for {PATIENCE_S:g} s" if hangs else f"kills the process with {worker.exitcode}"
            outcomes.append([f"{left[len(outcomes)]}: {what}"])
        yield from zip(left, outcomes, strict=False)
        left = left[len(outcomes) :]


def make_run(folder: Path) -> tuple[Path, Path]:
    """Make a run with everything that a run can hold, in a process of its own; return its graph and the run."""
    graph, run = write_ring(folder), folder / "run"
    command = [sys.executable, "-m", "campaigns.reading", str(graph), str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the run that the flips need cannot be made:\n{done.stderr}")
    return graph, run


def campaign(amount: float, seed: int, folder: Path) -> dict[str, Tally]:
    """Damage the files of a run, and return the tally of random flips and of targeted damages.

    Args:
        amount: the share of the full campaign, which tries ``FLIPS`` of both.
        seed: of the places.
        folder: an empty folder for runs.
    """
    graph, run = make_run(folder)
    draw, each = random.Random(seed), max(1, round(amount * FLIPS))
    damages = [*random_flips(run, each, draw), *targeted(run, each, draw)]
    tallies = {"random": Tally(), "targeted": Tally()}

    def part(number: int) -> Iterable[tuple[Damage, list[str]]]:
        return list(tried(graph, run, folder / f"part-{number}", damages[number::PROCESSES]))

    with ThreadPoolExecutor(PROCESSES) as pool:
        for outcomes in pool.map(part, range(min(PROCESSES, len(damages)))):
            for damage, defects in outcomes:
                tallies[damage.attack].note("; ".join(defects) or None)
    return tallies
