"""``relens`` in a process that dies where it is told to: ``python mortal.py PATTERN ARGUMENTS…``.

It kills itself, without warning, when it is about to write to, or to put in its place, anything whose path has the
regular expression PATTERN in it, or to remove a folder where the words ``remove PATH`` have it; ``^$`` lets it live.
Training keeps a checkpoint after every validation.
"""

import os
import re
import signal
import sys
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


if __name__ == "__main__":
    from relens.cli import main
    from relens.pipeline import training

    training.optimise = partial(training.optimise, checkpoint_seconds=0)
    sys.addaudithook(die)
    main()
