"""Where and with what a benchmark ran, how it says so, and how it takes the time."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

PACKAGES = ("relens", "numpy", "numba", "joblib", "optuna", "hyperopt", "scipy")


@dataclass(frozen=True)
class Target:
    """A figure to reach: ``value`` is to be ``at least`` or ``at most`` the ``bound``."""

    name: str
    value: float
    kind: str
    bound: float

    def to_json(self) -> dict[str, Any]:
        """Return the target and whether it was reached."""
        reached = self.value >= self.bound if self.kind == "at least" else self.value <= self.bound
        return {**asdict(self), "reached": bool(reached)}


@dataclass(frozen=True)
class Timing:
    """The seconds of several runs of one thing."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Seconds, median over the runs."""
        return float(np.median(self.seconds))

    def to_json(self) -> dict[str, Any]:
        """Return median, extremes and all runs."""
        return {
            "median_seconds": self.median,
            "min_seconds": min(self.seconds),
            "max_seconds": max(self.seconds),
            "seconds": list(self.seconds),
        }


def seconds_of(function: Callable[[], Any]) -> float:
    """Return how long one call takes."""
    begun = perf_counter()
    function()
    return perf_counter() - begun


def time_in_turn(functions: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Timing]:
    """Time several functions, ``repeats`` calls each, in turn: what slows the machine down slows down all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            seconds[name].append(seconds_of(function))
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def alone(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a process of its own, so that its peak of memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def describe() -> dict[str, Any]:
    """Return commit, machine and versions."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "--", "src", "benchmarks").splitlines()),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_average": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def write(report: dict[str, Any], output: Path | None) -> None:
    """Write a report as JSON to a file, or to stdout."""
    text = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")


def say(text: str) -> None:
    """Tell a person, on stderr."""
    print(text, file=sys.stderr, flush=True)


def say_targets(targets: list[Target]) -> None:
    """Tell a person which targets were reached."""
    for target in (target.to_json() for target in targets):
        mark = "reached" if target["reached"] else "MISSED "
        say(f"  {mark} {target['name']}: {target['value']:.4g}, {target['kind']} {target['bound']:g}")


def memory_status(field: str) -> int:
    """Return a size from the kernel's account of this process, in bytes; ``VmHWM`` is the most that was resident.

    That counts the pages of mapped files. (A peak by getrusage would be that of the parent process, where it was
    larger.)
    """
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def growth_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the p for which the costs grow like n^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def _git(*arguments: str) -> str:
    root = Path(__file__).resolve().parent.parent
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.rstrip()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
