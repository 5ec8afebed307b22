"""``relens`` in a process without time that dies where it is told to: ``python mortal.py PATTERN ARGUMENTS…``.

It kills itself, without warning, when it is about to write to, or to put in its place, anything whose path has the
regular expression PATTERN in it, or to remove a folder where the words ``remove PATH`` have it; ``^$`` lets it live.
Its clock stands still, so that logs and traces, which hold seconds, are the same in each run; training keeps a
checkpoint after every validation all the same.
"""

import os
import re
import signal
import sys
import time
from functools import partial
from typing import Any

PATTERN = re.compile(sys.argv.pop(1))


def die(event: str, arguments: tuple[Any, ...]) -> None:
    """End the process before a file is opened for writing, a file or folder renamed, or a folder removed."""
    target = None
    if event == "os.rename":  # os.replace, too
        target = arguments[1]
    elif event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        target = arguments[0]
    elif event == "shutil.rmtree":
        target = f"remove {os.fspath(arguments[0])}"
    if isinstance(target, str | os.PathLike) and PATTERN.search(os.fspath(target)):
        os.kill(os.getpid(), signal.SIGKILL)


def stop_the_clock() -> None:
    """Let no time pass for whoever imports a clock from now on."""
    time.perf_counter = time.monotonic = lambda: 0.0


if __name__ == "__main__":
    stop_the_clock()
    from relens.cli import main
    from relens.pipeline import training

    training.optimise = partial(training.optimise, checkpoint_seconds=0)
    sys.addaudithook(die)
    main()
