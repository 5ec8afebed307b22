"""Reliability: bins and errors by loops, and on a trained run."""

import math

import numpy as np
import pytest

from relens.prediction.reliability import EDGES, Reliability


def by_loop(stated, true, weight):
    """Return the bins as (answers, weight, mean stated, share true), the share without a number, and the error."""
    bins, without = {}, 0.0
    for p, hit, w in zip(stated, true, weight, strict=True):
        if math.isnan(p):
            without += w
            continue
        place = max(i for i in range(len(EDGES) - 1) if EDGES[i] <= p)
        answers, total, sum_stated, hits = bins.get(place, (0, 0.0, 0.0, 0.0))
        bins[place] = answers + 1, total + w, sum_stated + w * p, hits + w * hit
    error = sum(abs(s - h) for _, _, s, h in bins.values()) / sum(total for _, total, _, _ in bins.values())
    return bins, without / sum(weight), error


@pytest.mark.parametrize("seed", range(8))
def test_bins_and_error_are_those_of_loops(seed):
    rng = np.random.default_rng(seed)
    stated = rng.choice([0.0, 0.01, 0.3, 0.55, 1.0, np.nan, *rng.random(5).tolist()], 200)
    true, weight = rng.random(200) < 0.4, rng.integers(1, 5, 200).astype(np.float64)
    found = Reliability.measure(stated, true, weight)
    bins, without, error = by_loop(stated.tolist(), true.tolist(), weight.tolist())
    assert found.without == pytest.approx(without)
    assert found.ece == pytest.approx(error)
    assert len(found.bins) == len(bins)
    for each, (place, (answers, total, sum_stated, hits)) in zip(found.bins, sorted(bins.items()), strict=True):
        assert (each.low, each.high, each.answers) == (EDGES[place], EDGES[place + 1], answers)
        assert (each.weight, each.stated, each.observed) == pytest.approx((total, sum_stated / total, hits / total))
    assert Reliability.from_json(found.to_json()) == found


def test_without_numbers_there_is_no_error():
    found = Reliability.measure(np.full(3, np.nan), np.zeros(3, dtype=bool), np.ones(3))
    assert (found.bins, found.without) == ((), 1.0)
    assert math.isnan(found.ece)
    assert found.to_json()["ece"] is None
    assert math.isnan(Reliability.from_json(found.to_json()).ece)
