"""Worker processes end with their parent, however that ends, and whatever they do."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.patience import HANG

PARENT = """
import ctypes, os, sys, threading, time
from joblib import delayed
from relens.clusters.workers import start_workers

def sleep(nothing):
    print(os.getpid(), flush=True)
    {sleep}

def work():
    start_workers(2, backend="loky")(delayed(sleep)(number) for number in range(2))

{run}
"""
IN_MAIN, IN_THREAD = "work()", "thread = threading.Thread(target=work); thread.start(); thread.join()"
LONG = 3 * HANG
PLAIN, WITH_LOCK = f"time.sleep({LONG})", f"ctypes.PyDLL(None).sleep({LONG})"


@pytest.mark.parametrize(
    ("run", "sleep"),
    [
        (IN_MAIN, PLAIN),
        (IN_THREAD, PLAIN),  # the signal of Linux is off
        pytest.param(IN_MAIN, WITH_LOCK, marks=pytest.mark.skipif(sys.platform != "linux", reason="needs its signal")),
    ],
    ids=["both", "heartbeat", "signal"],
)
def test_workers_die_with_a_parent_that_is_killed(run, sleep):
    command = [sys.executable, "-c", PARENT.format(run=run, sleep=sleep)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        assert len({parent.pid, *workers}) == 3
        parent.kill()
        try:
            parent.communicate(timeout=HANG)  # the output ends with the last process that holds it
        finally:
            for worker in workers:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)


LATE = """
import sys, time
from relens.clusters import workers
workers.HEARTBEAT_S = 0.01
workers.end_with(int(sys.argv[1]))
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize(("parent", "seconds", "code"), [(os.getpid, 1, 0), (os.getppid, LONG, 1)])
def test_a_worker_that_starts_after_its_parent_has_ended_ends_too(parent, seconds, code):
    done = subprocess.run([sys.executable, "-c", LATE, str(parent()), str(seconds)], timeout=HANG, check=False)
    assert done.returncode == code
