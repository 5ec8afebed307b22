"""Measuring for a budget: presets that cannot fit are looked at in parts, and larger ones not at all."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch

from relens.data.catalog import load_dataset
from relens.pipeline import measuring
from relens.pipeline.measuring import measure_paces, rehearse_search
from relens.training.pace import Pace
from tests.pipeline.graph import write_ring
from tests.training.graphs import small_settings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return load_dataset(str(write_ring(tmp_path_factory.mktemp("graphs") / "ring")))


def presets(model, *steps):
    return [(f"of-{n}", small_settings(model, f"steps={n}")) for n in steps]


def test_each_member_is_measured_in_each_preset(dataset):
    members = {"a": presets("complex", 10, 20), "b": presets("transe", 10)}
    found = measure_paces(dataset, members, [CPU, CPU], 600)
    assert {name: list(paces) for name, paces in found.items()} == {"a": ["of-10", "of-20"], "b": ["of-10"]}
    assert all(pace.exact and pace.step > 0 for paces in found.values() for pace in paces.values())


def test_presets_beyond_the_first_that_cannot_fit_are_not_measured(dataset, monkeypatch):
    asked = []

    def measure(dataset, settings, device, *, seconds, longest_step):
        asked.append((settings.steps, seconds, longest_step))
        return Pace(1, 1, 1, exact=settings.steps < 20)

    monkeypatch.setattr(measuring, "measure_pace", measure)
    (found,) = measure_paces(dataset, {"a": presets("complex", 10, 20, 40)}, [CPU], 60).values()
    assert list(found) == ["of-10", "of-20"]
    # A share of a quarter of the first preset's steps must fit, or of one half of the second's.
    assert asked == [(10, 1.0, 60 / 2.5), (20, 1.0, 60 / 10)]


def test_the_search_is_rehearsed_in_proportion(dataset, monkeypatch):
    seen = []

    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    clock = Clock()

    def compare(valid, test, methods, jobs):
        seen.append((valid.n_queries, test.n_queries, len(valid.models), methods, jobs))
        clock.now += 3.0

    monkeypatch.setattr(measuring, "time", clock)
    monkeypatch.setattr(measuring, "compare", compare)
    monkeypatch.setattr(measuring, "REHEARSED", 2)
    assert len(dataset.valid) == len(dataset.test) == 5
    assert (
        rehearse_search(dataset, 3, ("dsc",), 2) == 3.0 * 5 / 3
    )  # of two relations, 1 and 2 triples after rounding up
    assert seen[-1] == (6, 6, 3, ("dsc",), 2)
