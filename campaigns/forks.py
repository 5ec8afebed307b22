"""A process that has imported relens and runs each command in a fork of itself, so that none takes seconds to start.

``python -m campaigns.forks`` reads a command per line, and prints the number of its process, then its exit code.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from campaigns.sessions import Patience

HEAVY = (
    "relens.packs.export", "relens.pipeline.members", "relens.pipeline.run", "relens.prediction.calibrating",
    "relens.prediction.classification", "relens.prediction.discovery", "relens.prediction.ensemble",
    "relens.prediction.questions", "relens.prediction.relations", "relens.reports.figures", "relens.reports.write",
    "relens.ensemble.search",
)  # fmt: skip
PATIENCE_S = 300.0
"""Limit of a wait for the end of a command; only a hang takes this long."""


class Server:
    """The process, as its user sees it; it runs one command at a time."""

    def __init__(self, temporary: Path) -> None:
        """Start the process; the temporary files of its commands go into a folder."""
        # Threads do not survive a fork.
        environment = {
            **os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-m", "campaigns.forks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment,
        )  # fmt: skip

    def start(self, words: Sequence[str], folder: Path, output: Path) -> int:
        """Start ``relens WORDS`` in a folder and a session of its own; return its process.

        Args:
            words: the words of the command line.
            folder: its current folder.
            output: a file for its output and its messages.
        """
        assert self._process.stdin is not None
        print(json.dumps([list(words), str(folder), str(output)]), file=self._process.stdin, flush=True)
        self._running = self._answer()
        return self._running

    def code(self) -> int:
        """Wait for the end of the command, and return its exit code; a signal has a negative one.

        A command that hangs is killed.
        """
        assert self._process.stdout is not None
        patience = Patience(self._running, PATIENCE_S)
        while not select.select([self._process.stdout], [], [], 1.0)[0]:
            if patience.is_over():
                os.kill(self._running, signal.SIGKILL)
                break
        return self._answer()

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the process that runs commands has ended")
        return int(line)


def warm_up() -> None:
    """Import what commands need."""
    from relens.cli import VERBS

    for module in {*HEAVY, *(module for module, _, _ in VERBS.values())}:
        import_module(module)


def serve() -> None:
    """Run the commands that are asked for."""
    warm_up()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(*json.loads(line))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def run(words: list[str], folder: str, output: str) -> Any:
    """Become ``relens WORDS``, as a shell with a terminal would have started it."""
    from relens.cli import main

    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, file), (2, file)):
        os.dup2(source, target)
    os.chdir(folder)
    sys.argv = ["relens", *words]
    main()


if __name__ == "__main__":
    serve()
