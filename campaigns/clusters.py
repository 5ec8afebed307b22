"""Real clusters on loopback: two Dask workers, or two Ray nodes, each a process of its own that can be killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

HANG_S = 600
"""Limit of a wait; only a hang takes this long."""
STOP_S = 10
PORTS = 5
"""Ports that are tried."""
MODULES = {"dask": "distributed", "ray": "ray"}
"""The module that each engine needs."""
PYTHON = Path(sys.executable).parent
# Workers import this code, compile once for all of them, and do not take each other's cores.
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(sys.path), "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}  # fmt: skip


class Spawn(Protocol):
    """Starts a command of a cluster, which imports from a folder first, if one is given."""

    def __call__(self, *command: str, imports: Path | None = None) -> subprocess.Popen[bytes]:
        """Return its process."""
        ...


@dataclass(frozen=True)
class Running:
    """A cluster: its address, its scheduler (Dask) or head node (Ray), and one of its two workers or nodes."""

    backend: str
    address: str
    head: subprocess.Popen[bytes]
    second: subprocess.Popen[bytes]

    def lose_second(self) -> None:
        """Kill the second node with everything it runs."""
        self.lose(self.second)

    def lose(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process of the cluster with everything it runs."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(HANG_S)


@contextmanager
def start(backend: str, folder: Path, second_imports: Path | None = None) -> Iterator[Running]:
    """Start a cluster of two workers with a core each; the second imports from ``second_imports`` first, if given."""
    processes: list[subprocess.Popen[bytes]] = []

    def spawn(*command: str, imports: Path | None = None) -> subprocess.Popen[bytes]:
        path = ENVIRONMENT["PYTHONPATH"]
        with (folder / f"{len(processes)}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [str(PYTHON / command[0]), *command[1:]],
                    stdout=log,
                    stderr=log,
                    env=ENVIRONMENT | ({"PYTHONPATH": f"{imports}{os.pathsep}{path}"} if imports else {}),
                    start_new_session=True,
                )
            )
        return processes[-1]

    try:
        address, head, second = (_start_dask if backend == "dask" else _start_ray)(spawn, folder, second_imports)
        yield Running(backend, address, head, second)
    finally:
        for process in reversed(processes):
            _stop(process)


Started = tuple[str, subprocess.Popen[bytes], subprocess.Popen[bytes]]
"""The address of a cluster, its scheduler or head node, and its second worker or node."""


def _start_dask(spawn: Spawn, folder: Path, second_imports: Path | None) -> Started:
    command = ("dask", "scheduler", "--host", "127.0.0.1", "--no-dashboard", "--port")
    port, head = _start_head(spawn, lambda port: (*command, str(port)))
    address = f"tcp://127.0.0.1:{port}"
    for imports in (None, second_imports):
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
        worker = spawn("dask", "worker", address, *options, imports=imports)
    from distributed import Client

    with Client(address, timeout=HANG_S, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=HANG_S)
    return address, head, worker


def _start_ray(spawn: Spawn, folder: Path, second_imports: Path | None) -> Started:
    del folder
    # The system chooses all ports: other clusters on this machine may have those that Ray takes by default.
    common = (
        "--num-cpus=1", "--object-store-memory=100000000", "--block", "--disable-usage-stats", "--min-worker-port=0",
        "--max-worker-port=0", "--dashboard-agent-listen-port=0",
    )  # fmt: skip
    command = ("ray", "start", "--head", "--include-dashboard=false", *common)
    port, head = _start_head(spawn, lambda port: (*command, f"--port={port}", f"--dashboard-port={free_port()}"))
    address = f"127.0.0.1:{port}"
    second = spawn("ray", "start", f"--address={address}", *common, imports=second_imports)
    script = (
        "import ray, sys, time\n"
        f"end = time.monotonic() + {HANG_S}\n"
        "while not ray.is_initialized():\n"
        "    try:\n"
        f"        ray.init(address={address!r}, logging_level=40, log_to_driver=False)\n"
        "    except ConnectionError:\n"  # the head node listens before it is a node of the cluster
        "        if time.monotonic() > end: raise\n"
        "        time.sleep(0.2)\n"
        "while ray.cluster_resources().get('CPU', 0) < 2 and time.monotonic() < end: time.sleep(0.2)\n"
        "sys.exit(ray.cluster_resources().get('CPU', 0) < 2)\n"
    )
    subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, check=True, timeout=2 * HANG_S)
    return address, head, second


def _start_head(spawn: Spawn, command: Callable[[int], Sequence[str]]) -> tuple[int, subprocess.Popen[bytes]]:
    """Start a scheduler or head node, and return its port and process.

    Another process may take the free port first: then it starts again at another one.
    """
    for _ in range(PORTS):
        port = free_port()
        head, end = spawn(*command(port)), time.monotonic() + HANG_S
        while head.poll() is None:
            if _listens(port):
                return port, head
            if time.monotonic() > end:
                raise TimeoutError(f"nobody listens at port {port}")
            time.sleep(0.1)
    raise RuntimeError(f"{PORTS} times a cluster did not start: {' '.join(command(port))}")


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, then end its whole session."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(HANG_S)  # a process that is not waited for causes a warning in some later test
