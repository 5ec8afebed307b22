"""Metrics, read back by the rules of the text format."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest

from relens import __version__
from relens.serve.guard import Limits
from relens.serve.metrics import MEDIA_TYPE, SECONDS, Metrics
from tests.patience import HANG
from tests.serve.answers import Alphabetical
from tests.serve.serving import raw, serving

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')


def parsed(text: str) -> tuple[Samples, dict[str, str]]:
    """Return all samples, and the kind of each family; check what the format demands."""
    samples: Samples = {}
    kinds: dict[str, str] = {}
    about: set[str] = set()
    family = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in about
            about.add(family)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert (name, kind in ("counter", "gauge", "histogram")) == (family, True)
            kinds[family] = kind
        else:
            name, inside, value = SAMPLE.fullmatch(line).groups()  # type: ignore[union-attr]
            assert name == family or (
                kinds[family] == "histogram" and re.fullmatch(f"{family}_(bucket|sum|count)", name)
            )
            labels = tuple(LABEL.findall(inside or ""))
            assert ",".join(f'{key}="{text}"' for key, text in labels) == (inside or "")
            assert (name, labels) not in samples
            samples[name, labels] = float(value)
    assert kinds.keys() == about
    for family, kind in kinds.items():
        assert (kind == "counter") == family.endswith("_total")
        if kind == "histogram":
            check_histogram(family, samples)
    return samples, kinds


def check_histogram(family: str, samples: Samples) -> None:
    """Check that classes are cumulative, and that the last one holds everything."""
    for route in {dict(labels)["route"] for name, labels in samples if name == f"{family}_count"}:
        classes = {
            float(dict(labels)["le"]): value
            for (name, labels), value in samples.items()
            if name == f"{family}_bucket" and dict(labels)["route"] == route
        }
        assert list(classes) == sorted(classes) == [*SECONDS, float("inf")]
        assert list(classes.values()) == sorted(classes.values())
        assert classes[float("inf")] == samples[f"{family}_count", (("route", route),)]
        assert samples[f"{family}_sum", (("route", route),)] >= 0


def requests(samples: Samples) -> dict[tuple[str, str], float]:
    found = {
        name_labels[1]: value for name_labels, value in samples.items() if name_labels[0] == "relens_requests_total"
    }
    return {(dict(labels)["route"], dict(labels)["status"]): value for labels, value in found.items()}


def test_requests_are_counted_by_route_status_and_time():
    metrics = Metrics(["/a", "/b"])
    for path, status, seconds in (("/a", 200, 0.004), ("/a", 200, 0.005), ("/a", 404, 3.0), ("/b", None, 99.0)):
        metrics.count(path, status, seconds)
    metrics.count(None, 400, 0.0)
    samples, kinds = parsed(metrics.text(3))
    assert requests(samples) == {
        ("/a", "200"): 2, ("/a", "404"): 1, ("/b", "none"): 1, ("malformed", "400"): 1,
    }  # fmt: skip
    assert samples["relens_refused_total", ()] == 2
    assert samples["relens_request_seconds_bucket", (("route", "/a"), ("le", "0.005"))] == 2
    assert samples["relens_request_seconds_bucket", (("route", "/a"), ("le", "2.5"))] == 2
    assert samples["relens_request_seconds_bucket", (("route", "/a"), ("le", "5.0"))] == 3
    assert samples["relens_request_seconds_bucket", (("route", "/b"), ("le", "30.0"))] == 0
    assert samples["relens_request_seconds_sum", (("route", "/a"),)] == pytest.approx(3.009)
    assert samples["relens_predictions_in_line", ()] == 3
    assert samples["relens_info", (("version", __version__),)] == 1
    assert samples["relens_uptime_seconds", ()] >= 0
    assert samples["process_resident_memory_bytes", ()] > 2**20
    assert kinds["relens_requests_total"] == "counter"


def test_a_service_without_requests_has_metrics_too():
    samples, _ = parsed(Metrics([]).text(0))
    assert samples["relens_refused_total", ()] == 0


@pytest.fixture
def fresh() -> Iterator[httpx.Client]:
    with serving(Alphabetical()) as address, httpx.Client(base_url=address, timeout=HANG) as client:
        yield client


def test_the_service_counts_what_it_answers(fresh):
    assert fresh.get("/api/predict", params={"head": "ada", "relation": "likes"}).status_code == 200
    assert fresh.get("/api/predict", params={"head": "adda", "relation": "likes"}).status_code == 404
    assert fresh.head("/docs").status_code == 200
    assert raw(str(fresh.base_url), b"nonsense\r\n\r\n")[0] == 400
    response = fresh.get("/metrics")
    assert response.headers["content-type"] == MEDIA_TYPE
    samples, _ = parsed(response.text)
    assert requests(samples) == {
        ("/api/predict", "200"): 1, ("/api/predict", "404"): 1, ("/docs", "200"): 1, ("malformed", "400"): 1,
    }  # fmt: skip
    assert samples["relens_refused_total", ()] == 2
    assert samples["relens_answers_in_flight", ()] == 1  # this one
    assert requests(parsed(fresh.get("/metrics").text)[0])["/metrics", "200"] == 1


def test_clients_cannot_make_more_series(fresh):
    for number in range(50):
        fresh.request(f"M{number}", f"/nowhere/{number}?a={number}")
        fresh.get("/api/predict", params={"head": str(number), "relation": "likes"})
        fresh.get(f"/%22%0A{number}")
    samples, _ = parsed(fresh.get("/metrics").text)
    assert {route for route, _ in requests(samples)} == {"/api/predict", "other"}


def test_health_and_metrics_say_how_busy_the_service_is():
    ensemble = Alphabetical(gate=Event())
    with (
        serving(ensemble, Limits(in_line=1)) as address,
        httpx.Client(base_url=address, timeout=HANG) as client,
    ):
        assert client.get("/api/health").json() == {"status": "ready", "relens": __version__}
        with ThreadPoolExecutor(1) as other:
            asked = other.submit(httpx.get, f"{address}api/predict?head=ada&relation=likes", timeout=HANG)
            assert ensemble.begun.wait(HANG)
            assert client.get("/api/health").json() == {"status": "busy", "relens": __version__}
            samples, _ = parsed(client.get("/metrics").text)
            assert samples["relens_predictions_in_line", ()] == 1
            assert samples["relens_answers_in_flight", ()] == 2
            ensemble.gate.set()
            assert asked.result().status_code == 200
        assert client.get("/api/health").json()["status"] == "ready"
