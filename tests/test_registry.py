"""Tables of objects: entries of relens and of other packages, in order, with clear errors."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest

from relens.errors import InputError, RelensError
from relens.metrics.base import Metric
from relens.registry import AFTER_OURS, Registry


@dataclass(frozen=True, kw_only=True)
class Constant(Metric):
    def summarise(self, ranks):
        return 1.0


ONE = Constant(name="one", description="always 1", heading="1")
FIRST = Constant(name="first", description="listed first", heading="!", order=-1)
TAKEN = Constant(name="mrr", description="a name that is taken", heading="?")
NOT_A_METRIC = "mrr"


def table(monkeypatch, *points):
    """Return a new table of metrics to which another package adds entries of this module."""
    found = [EntryPoint(value.lower(), f"tests.test_registry:{value}", "relens.metrics") for value in points]
    monkeypatch.setattr("relens.registry.entry_points", lambda group: found if group == "relens.metrics" else [])
    return Registry("metric", "metrics", Metric, "relens.metrics")  # type: ignore[type-abstract]


def test_modules_of_the_package_are_found_in_order(monkeypatch):
    metrics = table(monkeypatch)
    assert list(metrics)[:4] == ["mrr", "hits_at_1", "hits_at_3", "hits_at_10"]
    assert len(metrics) == len(list(metrics))
    assert [entry.order for entry in metrics.values()] == sorted(entry.order for entry in metrics.values())


def test_entries_of_other_packages_come_after_ours_unless_they_say_otherwise(monkeypatch):
    metrics = table(monkeypatch, "ONE", "FIRST")
    assert next(iter(metrics)) == "first"
    assert list(metrics)[-1] == "one"
    assert metrics["one"].order == AFTER_OURS


def test_names_are_found_in_any_case_and_others_get_a_hint(monkeypatch):
    metrics = table(monkeypatch)
    assert metrics.find("MRR") is metrics["mrr"]
    with pytest.raises(InputError, match="unknown metric 'mr'; did you mean 'mrr'"):
        metrics.find("mr")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("TAKEN", "adds the metric 'mrr', but there is one of that name"),
        ("NOT_A_METRIC", "as str, expected an instance of relens.metrics.base.Metric"),
        ("MISSING", r"'missing', which cannot be loaded \(AttributeError"),
    ],
)
def test_errors_about_entry_points_name_the_package(monkeypatch, value, message):
    with pytest.raises(RelensError, match=message):
        list(table(monkeypatch, value))
