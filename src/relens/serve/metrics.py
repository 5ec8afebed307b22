"""Counts and times of requests, in the text format that Prometheus reads."""

import os
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from relens import __version__

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper limits of the classes of the latency histogram."""
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MALFORMED, OTHER, NO_STATUS = "malformed", "other", "none"


class Metrics:
    """Counters of one service. Labels take values from fixed lists only, whatever clients send."""

    def __init__(self, routes: Iterable[str]) -> None:
        self._routes = frozenset(routes)
        self._begun = time.time()
        self._requests: Counter[tuple[str, str]] = Counter()  # by route and status
        self._classes: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(SECONDS) + 1))  # by route
        self._seconds: Counter[str] = Counter()  # by route
        self.in_flight = 0

    def count(self, path: str | None, status: int | None, seconds: float) -> None:
        """Count a request: its path, None if it was malformed; the status, None if the client left before."""
        route = MALFORMED if path is None else path if path in self._routes else OTHER
        self._requests[route, NO_STATUS if status is None else str(status)] += 1
        self._classes[route][bisect_left(SECONDS, seconds)] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]

    def text(self, in_line: int) -> str:
        """Return all metrics; ``in_line`` is the number of predictions that wait or run."""
        requests = [({"route": r, "status": s}, n) for (r, s), n in sorted(self._requests.items())]
        refused = sum(n for (_, status), n in self._requests.items() if status >= "400" and status != NO_STATUS)
        lines = [
            *_family("relens_requests_total", "counter", "Requests by route and status.", requests),
            *_family("relens_refused_total", "counter", "Requests with a status of 400 or more.", [({}, refused)]),
            *_histogram("relens_request_seconds", "Time from a request to the end of its answer.", self._latencies()),
            *_family("relens_answers_in_flight", "gauge", "Requests being answered.", [({}, self.in_flight)]),
            *_family("relens_predictions_in_line", "gauge", "Predictions that wait or run.", [({}, in_line)]),
            *_family("relens_uptime_seconds", "gauge", "Time since the start.", [({}, time.time() - self._begun)]),
            *_family("relens_info", "gauge", "The version of relens.", [({"version": __version__}, 1)]),
        ]
        if (memory := resident_bytes()) is not None:
            about = "Memory of the process."
            lines += _family("process_resident_memory_bytes", "gauge", about, [({}, memory)])
        return "\n".join(lines) + "\n"

    def _latencies(self) -> Iterator[tuple[str, list[int], float]]:
        """Yield each route, its number of requests by class, and their seconds."""
        for route, classes in sorted(self._classes.items()):
            yield route, classes, float(self._seconds[route])


def resident_bytes() -> int | None:
    """Return the memory of this process; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _family(name: str, kind: str, about: str, samples: Iterable[tuple[Mapping[str, object], float]]) -> list[str]:
    return [*_head(name, kind, about), *(_sample(name, labels, value) for labels, value in samples)]


def _histogram(name: str, about: str, routes: Iterable[tuple[str, list[int], float]]) -> list[str]:
    """Return a histogram; each class counts all requests up to its limit."""
    lines = _head(name, "histogram", about)
    for route, classes, seconds in routes:
        total = 0
        for limit, number in zip((*SECONDS, "+Inf"), classes, strict=True):
            total += number
            lines.append(_sample(f"{name}_bucket", {"route": route, "le": limit}, total))
        lines.append(_sample(f"{name}_sum", {"route": route}, seconds))
        lines.append(_sample(f"{name}_count", {"route": route}, total))
    return lines


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _sample(name: str, labels: Mapping[str, object], value: float) -> str:
    """Return a line. Label values are ours and need no escapes."""
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"
