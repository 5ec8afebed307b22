"""Trainings that turn out slower or faster than planned: with a clock that tests move, they end in time."""

import pytest

from relens.pipeline.pacing import Expected, Timetable
from relens.pipeline.sizes import with_steps
from relens.training.pace import Pace
from relens.training.schedules import agree
from relens.training.settings import TrainSettings

PACE = Pace(begin=1.0, step=0.1, validation=2.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def settings(steps=800, **others):
    return with_steps(TrainSettings("transe", steps=steps, **others), steps)


def seconds(asked):
    return PACE.seconds(asked)


def train(clock, table, name, asked, waiting, speed, ends=()):
    """Train a model whose steps take ``speed`` times what was measured; return its steps."""
    asked, end = table.begin(name, asked, waiting, list(ends))
    began, step = clock.now, 0
    clock.now += PACE.begin * speed
    while step < asked.steps:
        step += 1
        clock.now += PACE.step * speed
        if step % asked.validate_every == 0 or step == asked.steps:
            clock.now += PACE.validation * speed
        if step % asked.log_every == 0 and step < asked.steps:
            asked = table.revise(name, end, asked, step, clock.now - began)
    return asked


@pytest.mark.parametrize("schedule", [None, "linear"])
@pytest.mark.parametrize("speed", [0.5, 0.8, 1.0, 1.3, 2.0])
def test_one_model_ends_in_time_at_any_speed(clock, schedule, speed):
    asked = settings(schedule=schedule)
    table = Timetable(clock.now + seconds(asked), {"a": Expected(PACE, seconds(asked))}, clock)
    done = train(clock, table, "a", asked, [], speed)
    assert clock.now == pytest.approx(table.deadline, abs=0.07 * seconds(asked))
    assert (done.steps < asked.steps) == (speed > 1) or speed == 1


@pytest.mark.parametrize("speed", [0.6, 1.0, 1.5])
def test_later_models_make_up_for_one_whose_rates_cannot_change(clock, speed):
    """Half a wave of a cosine leaves no choice after the first step."""
    fixed, free = settings(schedule="cosine"), settings()
    expected = {"a": Expected(PACE, seconds(fixed)), "b": Expected(PACE, seconds(free))}
    table = Timetable(clock.now + 2 * seconds(free), expected, clock)
    assert train(clock, table, "a", fixed, ["b"], speed).steps == fixed.steps
    train(clock, table, "b", free, [], speed)
    assert clock.now == pytest.approx(table.deadline, abs=0.1 * 2 * seconds(free))


def test_a_model_begins_with_what_the_other_places_leave(clock):
    asked = settings()
    table = Timetable(clock.now + 100, {name: Expected(PACE, 100) for name in "abc"}, clock)
    longer, end = table.begin("a", asked, [], [clock.now + 50])
    assert (longer, end) == (asked, clock.now + 100)
    clock.now += 50
    assert table.begin("b", asked, [], [])[0].steps == 400
    # Two wait for two places: each gets what is left; three trainings on two places get half of it.
    assert table.begin("b", asked, ["c"], [clock.now])[0].steps == 400
    assert table.begin("a", asked, ["b", "c"], [clock.now])[0].steps == 200


def test_given_steps_stay(clock):
    asked = settings()
    table = Timetable(clock.now + 10, {"a": Expected(PACE, 100, ("steps",))}, clock)
    assert table.begin("a", asked, [], []) == (asked, clock.now + 100)
    assert table.revise("a", clock.now, asked, 500, 50) == asked


def test_nothing_changes_before_the_pace_is_known_or_for_a_small_difference(clock):
    asked = settings(schedule="linear")
    table = Timetable(clock.now + 97, {"a": Expected(PACE, 97)}, clock)
    assert table.revise("a", clock.now + 1, asked, 79, 1000) == asked
    assert table.revise("a", clock.now + 86.5, asked, 100, 13) == asked
    assert table.revise("a", clock.now + 40, asked, 100, 13).steps < asked.steps


def test_rates_that_have_fallen_are_never_changed(clock):
    asked = settings(schedule="linear", hold=0.5)
    table = Timetable(clock.now, {"a": Expected(PACE, 97)}, clock)
    assert table.revise("a", clock.now + 40, asked, 300, 37).steps == 300 + 333
    shorter = table.revise("a", clock.now + 5, asked, 300, 37)  # with fewer steps, rates would have fallen by now
    assert 600 <= shorter.steps < 700
    assert agree(asked, shorter, 300)
    assert table.revise("a", clock.now + 5, asked, 500, 63) == asked
