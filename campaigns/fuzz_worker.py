"""The process that attacks a reader: it makes inputs, reads them under limits, and says what went wrong."""

import contextlib
import errno
import importlib
import os
import random
import re
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from campaigns.mutations import mutated
from campaigns.target import Files, Target
from relens.errors import RelensError

RENEW = 3
"""The exit code of a process that has taken too much memory: a new one goes on."""
CPU_S = 20
"""Most computing time for an input."""
MEMORY = 2 * 2**30
"""Most memory for an input, beyond what the process had."""
SPARE = 2**29
"""Address space beyond ``MEMORY``: what asks for more gets a ``MemoryError``, which is a defect as well."""
FILE_BYTES = 2**30
"""Most bytes of a file that a reader may write."""
POOL = 400
"""Most inputs to change."""
TRACED = 8
"""One of so many inputs is read line by line, to see whether it reaches new lines."""
NOTED = 200
"""Inputs between two messages."""
LONGEST = 20_000
"""Most characters of an error message."""
_VARIABLE = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[-\d.]+|/\S+")
_RELENS = f"{os.sep}relens{os.sep}"
MODULES = tuple(f"campaigns.{kind}_targets" for kind in ("text", "array", "question", "source"))
"""Modules with targets."""


@dataclass(frozen=True)
class Job:
    """Inputs of one target, numbered: its seeds, its bombs, then changed inputs.

    Attributes:
        target: the name.
        seed: of all random choices.
        inputs: how many changed inputs.
        begin: the first to try.
        modules: modules with targets, one of which has this one.
    """

    target: str
    seed: int
    inputs: int
    begin: int = 0
    modules: tuple[str, ...] = MODULES


def find_targets(modules: Sequence[str] = MODULES) -> list[Target]:
    """Return the targets of some modules."""
    return [target for module in modules for target in importlib.import_module(module).targets()]


class Message(NamedTuple):
    """What a worker says: the next input, what was wrong with the one before it, and whether the job is done."""

    next: int
    cause: str | None = None
    done: bool = False


def attack(place: Path, at: Any, pipe: Any) -> None:
    """Do jobs in a process of its own, until nobody gives more.

    Args:
        place: a folder for the current input and for defects.
        at: gets the number of the current input.
        pipe: brings jobs, and gets what was found.
    """
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # what readers print does not matter
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _do(pipe.recv(), place, at, pipe)


def _do(job: Job, place: Path, at: Any, pipe: Any) -> None:
    """Try the inputs of a job."""
    _lift_limits()
    (target,) = (target for target in find_targets(job.modules) if target.name == job.target)
    inputs = _Inputs(target, job.seed)
    reader = _Reader(target, place)
    reader.warm_up(inputs.seeds)
    found: set[str] = set()
    for number in range(job.begin, len(inputs.first) + job.inputs):
        at.value = number
        files = inputs.make(number)
        outcome = reader.outcome(files, traced=number % TRACED == 0, valid=number < len(inputs.seeds))
        inputs.judge(files, outcome)
        cause = outcome.defect
        if cause is not None and cause not in found:
            found.add(cause)
            _write(files, place / f"defect-{number}")
        if cause is not None or number % NOTED == 0:
            pipe.send(Message(number + 1, cause))
        if reader.grown():
            os._exit(RENEW)
    pipe.send(Message(len(inputs.first) + job.inputs, done=True))


def _lift_limits() -> None:
    """Let inputs be made and kernels be compiled without the limits of an input of an earlier job."""
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
        resource.setrlimit(limit, (resource.RLIM_INFINITY,) * 2)


@dataclass(frozen=True)
class _Outcome:
    """What came of an input: a text that equal outcomes share, the lines reached if it was traced, and the defect."""

    text: str
    lines: frozenset[tuple[str, int]] = frozenset()
    defect: str | None = None


class _Inputs:
    """The inputs of a target by number, and the pool that changed inputs come from."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target, self._seed = target, seed
        self.seeds = list(target.seeds())
        self.first = [*self.seeds, *target.bombs().values()]
        self._pool: list[Files] = [*self.seeds, *self.seeds]
        self._outcomes: set[str] = set()
        self._lines: set[tuple[str, int]] = set()

    def make(self, number: int) -> Files:
        """Return an input."""
        if number < len(self.first):
            return self.first[number]
        self._rng = rng = random.Random(f"{self._seed} {self._target.name} {number}")
        origin = rng.choice(self.seeds) if rng.random() < 0.3 else rng.choice(self._pool)
        return mutated(rng, origin, self._target.tokens, rng.choice(self._pool))

    def judge(self, files: Files, outcome: _Outcome) -> None:
        """Keep an input with a new outcome or new lines. Those that took too much are no origin of others."""
        new = outcome.text not in self._outcomes or not outcome.lines <= self._lines
        self._outcomes.add(outcome.text)
        self._lines |= outcome.lines
        if new and files not in self.first and sum(map(len, files.values())) < 50_000:
            if len(self._pool) < POOL:
                self._pool.append(files)
            else:
                self._pool[self._rng.randrange(POOL)] = files


class _Reader:
    """Reads inputs of a target under limits."""

    def __init__(self, target: Target, place: Path) -> None:
        self._target, self._folder = target, place / "input"
        self._most = 0

    def warm_up(self, seeds: Sequence[Files]) -> None:
        """Import and compile what reading needs. From now on, memory and files are limited."""
        for files in seeds:
            with contextlib.suppress(Exception):
                self.read(files, set())
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY + SPARE, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._most = _peak() + MEMORY

    def grown(self) -> bool:
        """Say whether the process has taken so much memory that it cannot measure any more."""
        return self._most < _peak()

    def outcome(self, files: Files, *, traced: bool, valid: bool) -> _Outcome:
        """Read an input; a ``valid`` one must be read without an error."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(used.ru_utime + used.ru_stime) + CPU_S + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        lines = set[tuple[str, int]]()
        try:
            self.read(files, lines if traced else None)
            outcome = _Outcome("read")
        except BaseException as error:
            outcome = _judged(error, valid=valid)
        if self.grown():
            return _Outcome("memory", defect=f"took more than {MEMORY / 2**30:g} GiB of memory")
        return replace(outcome, lines=frozenset(lines))

    def read(self, files: Files, lines: set[tuple[str, int]] | None) -> None:
        """Write an input and read it; add the lines of relens that this reaches to ``lines``."""
        shutil.rmtree(self._folder, ignore_errors=True)
        _write(files, self._folder)
        with contextlib.nullcontext() if lines is None else _traced(lines):
            self._target.read(self._folder)


def _judged(error: BaseException, *, valid: bool) -> _Outcome:
    """Return what an error means."""
    kind = type(error).__name__
    for cause in _chain(error):
        too_much = isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno == errno.EFBIG)
        if too_much:
            return _Outcome("memory", defect=f"asked for more than {MEMORY / 2**30:g} GiB: {_place(cause)}")
    if not isinstance(error, RelensError):
        text = f"{kind}: {_VARIABLE.sub('…', str(error))[:200]} {_place(error)}"
        return _Outcome(text, defect=text)
    message = str(error)
    text = f"{kind}: {_VARIABLE.sub('…', message[:2000])}"
    if valid:
        return _Outcome(text, defect=f"refuses a valid input: {message[:300]}")
    if len(message) > LONGEST:
        return _Outcome(text, defect=f"writes a message of more than {LONGEST:,} characters: {_place(error)}")
    return _Outcome(text)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what led to it."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _place(error: BaseException) -> str:
    """Return the last line of relens that an error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _RELENS in frame.filename] or list(frames)
    where = f"{ours[-1].filename.rpartition(_RELENS)[2].rpartition('/tests/')[2]}:{ours[-1].lineno}" if ours else "?"
    return f"({where})"


@contextlib.contextmanager
def _traced(reached: set[tuple[str, int]]) -> Iterator[None]:
    """Add the lines of relens that are reached meanwhile."""

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        return line(frame, event, argument) if _RELENS in frame.f_code.co_filename else None

    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(None)


def _write(files: Files, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        if path.parent != folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    status = Path("/proc/self/status").read_bytes()
    at = status.index(b"VmHWM:") + len(b"VmHWM:")
    return int(status[at : status.index(b"kB", at)]) * 1024
