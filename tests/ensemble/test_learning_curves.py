import numpy as np
import pytest

from relens.ensemble import learning_curves
from relens.ensemble.learning_curves import Curve, curves_from_json, curves_to_json, measure_curves, merged, replay
from relens.ensemble.search import search
from relens.errors import InputError
from tests import simulated
from tests.random_packs import changed


def serial(durations):
    """Traces of tasks that one worker did one after the other: a first value, and a better one at the end."""
    ends = np.cumsum(durations)
    return [
        np.array([[end - duration / 2, 1, 1.0], [end, 2, 3.0]]) for end, duration in zip(ends, durations, strict=True)
    ]


def ends(traces):
    return [float(trace[-1, 0]) for trace in traces]


def test_one_worker_replays_what_it_did():
    traces = serial([3, 1, 2])
    for before, after in zip(traces, replay(traces, 1), strict=True):
        assert np.array_equal(before, after)


def test_whoever_is_free_first_takes_the_next_task():
    traces = replay(serial([4, 1, 2, 2]), 2)
    assert ends(traces) == [4, 1, 3, 5]
    assert [float(trace[0, 0]) for trace in traces] == [2, 0.5, 2, 4]  # half of its time into each task
    assert all(trace[:, 1:].tolist() == [[1, 1], [2, 3]] for trace in traces)


def test_workers_beyond_the_tasks_change_nothing():
    assert ends(replay(serial([4, 1, 2]), 3)) == ends(replay(serial([4, 1, 2]), 9)) == [4, 1, 2]


def test_a_group_counts_with_equal_weights_until_it_is_searched():
    curve = merged(serial([2, 2]), n_queries=4)
    assert curve.tolist() == [[0, 0.5], [2, 1.0], [4, 1.5]]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(learning_curves, "TRIALS", (3, 5))
    monkeypatch.setattr(learning_curves, "cpu_count", lambda: 1)


def test_curves_end_at_what_the_search_found(quick):
    valid = simulated.packed("valid")
    found = measure_curves(valid, seed=4)
    assert [(c.method, c.searcher, c.trials, c.workers, c.replayed) for c in found] == [
        ("simple", "sweep", 0, 1, False), ("dsc", "sweep", 0, 1, False),
        *(
            entry for q in (3, 5) for entry in [
                ("simple", "tpe", q, 1, False), ("basic", "tpe", q, 1, False), ("dsc", "tpe", q, 1, False),
                ("dsc", "tpe", q, 2, True), ("dsc", "tpe", q, 5, True),
            ]
        ),
    ]  # fmt: skip
    for curve in found:
        changes = {"trials": curve.trials} if curve.trials else {}
        weights = search(
            valid, method=curve.method, searcher=curve.searcher, input="rank", regularise="none", seed=4, **changes
        )
        assert curve.mrr[-1] == pytest.approx(weights.trace[-1, 2], abs=1e-12)
        assert curve.mrr == sorted(curve.mrr)
        assert curve.seconds == sorted(curve.seconds)
    one, two, five = (c for c in found if (c.method, c.trials) == ("dsc", 5))
    assert one.seconds[-1] > two.seconds[-1] > five.seconds[-1]


def test_curves_are_kept_for_the_ranks_they_were_measured_on():
    valid = simulated.packed("valid")
    curves = [Curve("dsc", "tpe", 50, 5, True, [0.0, 1.5], [0.2, 0.3])]
    value = curves_to_json(curves, valid)
    assert curves_from_json(value, valid) == curves
    assert curves_from_json(value, simulated.packed("test")) is None
    assert curves_from_json(value, valid.select_models(["beta", "alpha"])) is None
    renamed = changed(valid, models=(valid.models[1], valid.models[0], valid.models[2]))
    swapped = renamed.select_models(valid.models)  # other ranks of the same models, queries and contested candidates
    assert curves_from_json(value, swapped) is None
    assert curves_from_json({**value, "format": 0}, valid) is None


@pytest.mark.parametrize(
    "damage",
    [{"seconds": []}, {"seconds": [0.0]}, {"mrr": [0.2, None]}, {"method": 1}, {"trials": -1}, {"workers": "x"}],
)
def test_damaged_curves_are_refused(damage):
    valid = simulated.packed("valid")
    value = curves_to_json([Curve("dsc", "tpe", 50, 5, True, [0.0, 1.5], [0.2, 0.3])], valid)
    value["curves"][0] |= damage
    with pytest.raises(InputError, match=r"curves\.json is damaged"):
        curves_from_json(value, valid, "curves.json")
