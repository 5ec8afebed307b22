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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from campaigns.fuzz_worker import CPU_S, DONE, RENEW, Job, attack, find_targets
from campaigns.tally import Tally

INPUTS = 200_000
"""Inputs of the full campaign, over all readers."""
WORKERS = 2
PATIENCE_S = 600.0
"""Time without an end, and without the computing time that ends an input, after which an input counts as hanging."""


def campaign(amount: float, seed: int, folder: Path) -> dict[str, Tally]:
    """Attack all readers, and return a tally for each."""
    names = [target.name for target in find_targets()]
    return attack_readers(names, max(1, round(INPUTS * amount / len(names))), seed, folder)


def attack_readers(names: list[str], inputs: int, seed: int, folder: Path) -> dict[str, Tally]:
    """Attack some readers with their bombs and with ``inputs`` changed inputs each; return a tally for each."""
    waiting = deque(Job(name, seed, inputs) for name in names)
    tallies = {name: Tally() for name in names}
    kept = _Kept()
    memory = Path("/dev/shm")  # faster than a disk: every input is written
    with tempfile.TemporaryDirectory(prefix="relens-fuzz-", dir=memory if memory.is_dir() else folder) as places:
        workers: list[_Worker] = []
        try:
            while waiting or workers:
                while waiting and len(workers) < WORKERS:
                    workers.append(_Worker.start(waiting.popleft(), Path(tempfile.mkdtemp(dir=places))))
                multiprocessing.connection.wait([worker.pipe for worker in workers], timeout=1.0)
                for worker in list(workers):
                    if worker.listen(tallies[worker.job.target], kept):
                        workers.remove(worker)
                        if not worker.done:
                            waiting.appendleft(worker.job)
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.join()
    return tallies


class _Kept:
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


@dataclass
class _Worker:
    """A process that does a job, and what is known of it."""

    job: Job
    process: Any
    pipe: Any
    at: Any
    place: Path
    seen: tuple[int, float]
    done: bool = False

    @classmethod
    def start(cls, job: Job, place: Path) -> "_Worker":
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        at = context.Value("q", job.begin, lock=False)
        process = context.Process(target=attack, args=(job, place, at, theirs), daemon=True)
        process.start()
        theirs.close()
        return cls(job, process, ours, at, place, (job.begin, time.monotonic()))

    def listen(self, tally: Tally, kept: _Kept) -> bool:
        """Note what the process says, and return whether it has ended; then ``job`` is what is left of its job."""
        try:
            while self.pipe.poll():
                self._note(self.pipe.recv(), tally, kept)
        except EOFError:
            self._end(tally, kept)
            return True
        if self.seen[0] != self.at.value:
            self.seen = (self.at.value, time.monotonic())
        elif time.monotonic() - self.seen[1] > PATIENCE_S:
            self.process.kill()
        return False

    def _note(self, message: tuple[int, str | None], tally: Tally, kept: _Kept) -> None:
        """Note the first input that the process has not finished, and the defect of the one before it."""
        begin, cause = message
        for _ in range(begin - self.job.begin - (cause is not None)):
            tally.note(None)
        if cause is not None:
            files = self.place / f"defect-{begin - 1}"
            tally.note(kept.describe(f"{self.job.target}: {cause}", files))
            shutil.rmtree(files, ignore_errors=True)
        self.job = replace(self.job, begin=begin)

    def _end(self, tally: Tally, kept: _Kept) -> None:
        """Note how the process ended, if it was not by itself."""
        self.process.join()
        code, at = self.process.exitcode, int(self.at.value)
        if code in (DONE, RENEW):
            self.done = code == DONE
            return
        how = f"ended the process with exit code {code}"
        if code == -signal.SIGXCPU:
            how = f"took more than {CPU_S} s of computing time"
        elif code == -signal.SIGKILL:
            how = f"did not end within {PATIENCE_S:.0f} s, or was killed by the system"
        elif code < 0:
            with contextlib.suppress(ValueError):
                how = f"ended the process by {signal.Signals(-code).name}"
        self._note((at, None), tally, kept)
        (self.place / "input").rename(self.place / f"defect-{at}")
        self._note((at + 1, how), tally, kept)
