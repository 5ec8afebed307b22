"""Workers on this machine: threads, or processes that end with the process that started them."""

import ctypes
import os
import signal
import sys
import time
from threading import Thread, current_thread, main_thread
from typing import Any

from joblib import Parallel

HEARTBEAT_S = 0.25
"""How often a worker process looks for its parent."""
_PR_SET_PDEATHSIG = 1


def start_workers(jobs: int, **options: Any) -> Parallel:
    """Return a pool of workers, each of which takes one task at a time.

    Processes among them end with this one, however it ends: a killed command leaves nothing that still computes, or
    that holds the lock of a folder.

    Args:
        jobs: the number of workers.
        options: further arguments of ``joblib.Parallel``.
    """
    # Linux signals the end of the thread that has started a worker. Only the main thread lasts as long as the process.
    end = end_at_once_with if current_thread() is main_thread() else end_with
    return Parallel(jobs, batch_size=1, initializer=end, initargs=(os.getpid(),), **options)


def end_with(parent: int) -> None:
    """Let this process end soon after its parent process, whose number is given.

    A thread looks for the parent, on any POSIX system.
    """
    Thread(target=_wait_for_the_end_of, args=(parent,), name="parent", daemon=True).start()


def end_at_once_with(parent: int) -> None:
    """Let this process end with its parent, on Linux even while compiled code holds Python's lock.

    The main thread of the parent must have started this process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    end_with(parent)  # which may have ended before


def _wait_for_the_end_of(parent: int) -> None:
    while os.getppid() == parent:  # orphans are adopted by another process
        time.sleep(HEARTBEAT_S)
    os._exit(1)
