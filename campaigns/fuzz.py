"""Hostile files: readers get damaged, absurd and huge inputs, and must answer with a result or an error of relens.

``campaigns.mutations`` changes valid inputs. An input that leads to a new outcome, or to new lines of relens, joins the
inputs to change. An input is a defect if it raises anything else, if it takes more than 20 s of computing time or 2 GB
of memory beyond what the process had, or if it ends the process. It is kept in the folder that the defect names.

Linux only: other systems do not say, or do not limit, what a process takes.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import shutil
import signal
import tempfile
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

from campaigns.fuzz_worker import CPU_S, MODULES, RENEW, Job, Message, attack, find_targets
from campaigns.tally import Tally

INPUTS = 200_000
"""Inputs of the full campaign, over all readers."""
WORKERS = 2
PATIENCE_S = 600.0
"""Time without an end, and without the computing time that ends an input, after which an input counts as hanging."""


def campaign(amount: float, seed: int, folder: Path) -> dict[str, Tally]:
    """Attack all readers, and return a tally for each."""
    return attack_readers(max(1, round(INPUTS * amount / len(find_targets()))), seed, folder)


def attack_readers(inputs: int, seed: int, folder: Path, modules: tuple[str, ...] = MODULES) -> dict[str, Tally]:
    """Attack all readers with their bombs and with ``inputs`` changed inputs each; return a tally for each."""
    names = [target.name for target in find_targets(modules)]
    waiting = deque(Job(name, seed, inputs, modules=modules) for name in names)
    tallies = {name: Tally() for name in names}
    kept = DefectInputs()
    memory = Path("/dev/shm")  # faster than a disk: every input is written
    with tempfile.TemporaryDirectory(prefix="relens-fuzz-", dir=memory if memory.is_dir() else folder) as places:
        workers: list[_Worker] = []
        try:
            while waiting or any(worker.job for worker in workers):
                if waiting and len(workers) < WORKERS:
                    workers.append(_Worker(Path(tempfile.mkdtemp(dir=places))))
                for worker in workers:
                    if worker.job is None and waiting:
                        worker.give(waiting.popleft())
                multiprocessing.connection.wait([worker.pipe for worker in workers], timeout=1.0)
                for worker in list(workers):
                    if worker.job is not None and not worker.listen(tallies[worker.job.target], kept):
                        workers.remove(worker)
                        waiting.appendleft(worker.job)
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.join()
    return tallies


class DefectInputs:
    """The inputs that were defects, in a folder that stays: one for each cause."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._texts: dict[str, str] = {}

    def describe(self, cause: str, files: Path) -> str:
        """Keep an input, unless there is one with this cause already, and return the text of the defect."""
        if cause not in self._texts:
            self._folder = self._folder or Path(tempfile.mkdtemp(prefix="relens-fuzz-defects-"))
            place = self._folder / f"{len(self._texts):03}"
            shutil.copytree(files, place, dirs_exist_ok=True)
            self._texts[cause] = f"{cause}; input: {place}"
        return self._texts[cause]


class _Worker:
    """A process that does jobs, one after the other.

    Attributes:
        job: what is left of the current job; None if it is done.
        pipe: to send jobs and to hear what came of them.
    """

    def __init__(self, place: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.job: Job | None = None
        self.pipe, theirs = context.Pipe()
        self._at, self._place = context.Value("q", 0, lock=False), place
        self.process = context.Process(target=attack, args=(place, self._at, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self._seen = (0, time.monotonic())

    def give(self, job: Job) -> None:
        """Begin a job."""
        self.job = job
        self._seen = (-1, time.monotonic())
        self._at.value = -1
        with contextlib.suppress(BrokenPipeError):  # listening tells why
            self.pipe.send(job)

    def listen(self, tally: Tally, kept: DefectInputs) -> bool:
        """Note what the process says, and return whether it goes on; if not, ``job`` is what is left to do."""
        try:
            while self.job is not None and self.pipe.poll():
                found: Message = self.pipe.recv()
                self._note(found.next, found.cause, tally, kept)
                if found.done:
                    self.job = None
        except (EOFError, ConnectionResetError):
            self._end(tally, kept)
            return False
        if self._seen[0] != self._at.value:
            self._seen = (self._at.value, time.monotonic())
        elif time.monotonic() - self._seen[1] > PATIENCE_S:
            self.process.kill()
        return True

    def _note(self, begin: int, cause: str | None, tally: Tally, kept: DefectInputs) -> None:
        """Note that all inputs before ``begin`` are tried, and what was wrong with the last of them."""
        assert self.job is not None
        for _ in range(begin - self.job.begin - (cause is not None)):
            tally.note(None)
        if cause is not None:
            files = self._place / f"defect-{begin - 1}"
            tally.note(kept.describe(f"{self.job.target}: {cause}", files))
            shutil.rmtree(files, ignore_errors=True)
        self.job = replace(self.job, begin=begin)

    def _end(self, tally: Tally, kept: DefectInputs) -> None:
        """Note how the process ended, if it was not by itself."""
        self.process.join()
        code, at = self.process.exitcode, int(self._at.value)
        assert code is not None
        if code == RENEW:
            return
        if at < 0:
            raise SystemExit(f"{self.job and self.job.target} cannot be attacked: making its inputs ended with {code}")
        how = f"ended the process with exit code {code}"
        if code == -signal.SIGXCPU:
            how = f"took more than {CPU_S} s of computing time"
        elif code == -signal.SIGKILL:
            how = f"did not end within {PATIENCE_S:.0f} s, or was killed by the system"
        elif code < 0:
            with contextlib.suppress(ValueError):
                how = f"ended the process by {signal.Signals(-code).name}"
        self._note(at, None, tally, kept)
        (self._place / "input").rename(self._place / f"defect-{at}")
        self._note(at + 1, how, tally, kept)
