"""Plans for a time: they fit, no single enlargement of them would, and places are filled as evenly as simulated."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from relens.pipeline.planner import STRETCH, Room, Size, choose, needed, stretch
from relens.training.settings import TrainSettings

SETTINGS = TrainSettings("transe", steps=100)


def size(train: float, rank: float = 0.0, *, fixed: bool = False) -> Size:
    return Size("demo", SETTINGS, train, 0.0 if fixed else train / SETTINGS.steps, rank)


def simulated(times: list[float], places: int) -> float:
    """Let places take the longest training that is left, one event after the other."""
    waiting, ends, now = sorted(times, reverse=True), [0.0] * places, 0.0
    while waiting:
        now = min(ends)
        ends[ends.index(now)] = now + waiting.pop(0)
    return max(ends)


def plainly_needed(chosen, sizes, room):
    found = [sizes[name][place] for name, place in chosen.items()]
    after = room.rest + sum(each.rank + room.per_member for each in found)
    return simulated([each.train for each in found], room.places) + after


times = st.lists(st.integers(1, 40), min_size=1, max_size=4, unique=True).map(sorted)
members = st.lists(times, min_size=1, max_size=5).map(
    lambda each: {f"m{number}": [size(train, rank=train / 8) for train in found] for number, found in enumerate(each)}
)
rooms = st.builds(Room, st.integers(1, 200), st.integers(1, 3), st.integers(0, 5), st.integers(0, 2))


@given(members, rooms)
def test_a_plan_fits_and_no_single_enlargement_of_it_would(first, room):
    then = {f"{name}-2": [found[-1]] for name, found in first.items()}
    sizes = {**first, **then}
    chosen = choose(first, then, room)
    assert not chosen or plainly_needed(chosen, sizes, room) <= room.seconds
    complete = all(chosen.get(name) == len(found) - 1 for name, found in first.items())
    larger = [{**chosen, name: 0} for name in first if name not in chosen]
    larger += [{**chosen, name: at + 1} for name, at in chosen.items() if at + 1 < len(sizes[name])]
    larger += [{**chosen, name: 0} for name in then if complete and name not in chosen]
    assert all(plainly_needed(plan, sizes, room) > room.seconds for plan in larger)
    assert complete or not set(chosen) & set(then)  # seeds come last


@given(members, rooms)
def test_longer_trainings_fill_the_time_but_never_more(first, room):
    chosen = choose(first, {}, room)
    steps = stretch(chosen, first, room)
    longer = {name: first[name][chosen[name]].train * taken / SETTINGS.steps for name, taken in steps.items()}
    nominal = [first[name][at].train for name, at in chosen.items()]
    window = room.seconds - needed(chosen, first, room) + simulated(nominal, room.places)
    ends, shares = [0.0] * room.places, []
    for name, seconds in longer.items():  # in the order of training
        place = ends.index(min(ends))
        ends[place] += seconds
        shares.append(steps[name] / SETTINGS.steps)
    assert not chosen or max(ends) <= window + 1e-6
    if chosen and max(shares) < STRETCH - 0.01:
        assert max(ends) >= window - 0.01 * max(nominal) - 1e-6


def test_places_end_together():
    first = {"long": [size(30)], "middle": [size(20)], "short": [size(10)]}
    room = Room(60, 2)
    chosen = choose(first, {}, room)
    assert stretch(chosen, first, room) == {"long": 200, "middle": 200, "short": 200}


def test_steps_that_are_given_stay():
    first = {"given": [size(10, fixed=True)], "free": [size(10)]}
    assert stretch({"given": 0, "free": 0}, first, Room(20, 2)) == {"given": 100, "free": 200}


def test_members_come_before_sizes_and_the_smallest_grows_first():
    first = {"a": [size(2), size(4), size(8)], "b": [size(3), size(6)]}
    assert choose(first, {}, Room(2.5, 1)) == {"a": 0}
    assert choose(first, {}, Room(5, 1)) == {"a": 0, "b": 0}
    assert choose(first, {}, Room(7.5, 1)) == {"a": 1, "b": 0}
    assert choose(first, {}, Room(10, 1)) == {"a": 1, "b": 1}
    assert choose(first, {}, Room(1, 1)) == {}


def test_ranking_is_done_after_all_trainings_whatever_the_places():
    first = {"a": [size(2, rank=5)], "b": [size(2, rank=5)]}
    assert needed({"a": 0, "b": 0}, first, Room(0, 2, rest=1, per_member=0.5)) == 2 + 10 + 1 + 1
    assert choose(first, {}, Room(14, 2, rest=1, per_member=0.5)) == {"a": 0, "b": 0}
    assert choose(first, {}, replace(Room(14, 2, rest=1, per_member=0.5), seconds=13.9)) == {"a": 0}
