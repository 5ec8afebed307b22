"""Choosing members and their sizes for a time: as much as fits, enlarged step by step. Nothing is measured here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from relens.training.settings import TrainSettings

STRETCH = 4.0
"""Time that no larger size fits into makes trainings longer, up to this factor."""


@dataclass(frozen=True)
class Size:
    """A size that a member may have.

    Attributes:
        preset: the preset that its settings come from.
        settings: its settings.
        train: seconds of its training.
        per_step: those of them that grow with its steps, for each step; 0 if its steps are fixed.
        rank: seconds of its ranking, after all trainings.
        kept: settings that the user chose, which stay.
    """

    preset: str
    settings: TrainSettings
    train: float
    per_step: float
    rank: float
    kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Room:
    """The time that a plan may fill.

    Attributes:
        seconds: until everything is done.
        places: how many models train at a time.
        rest: seconds for what follows the ranking, whatever the members are.
        per_member: seconds for what follows the ranking, for each member.
    """

    seconds: float
    places: int
    rest: float = 0.0
    per_member: float = 0.0


Sizes = Mapping[str, Sequence[Size]]
"""The sizes of each member that a plan may have, each slower than the one before."""
Chosen = dict[str, int]
"""The place of each chosen member's size among its sizes."""


def choose(first: Sizes, then: Sizes, room: Room) -> Chosen:
    """Choose members and their sizes so that they fit, and no single enlargement of them would.

    An enlargement adds a member in its smallest size, or gives one the next size. The members of ``first`` are added
    before any is enlarged, those with the fastest sizes first, and the one with the smallest size so far grows first.
    When all of them have their largest sizes, members of ``then`` are added.

    Returns:
        The chosen sizes; empty if no member fits.
    """
    sizes, chosen = {**first, **then}, Chosen()
    while True:
        for larger in enlargements(chosen, first, then):
            if needed(larger, sizes, room) <= room.seconds:
                chosen = larger
                break
        else:
            return {name: chosen[name] for name in sizes if name in chosen}


def enlargements(chosen: Chosen, first: Sizes, then: Sizes) -> Iterator[Chosen]:
    """Return the plans that a plan may become next, in the order in which they are tried."""
    absent = sorted((name for name in first if name not in chosen), key=lambda name: first[name][0].train)
    yield from ({**chosen, name: 0} for name in absent)
    sizes = {**first, **then}
    for name in sorted(chosen, key=lambda name: chosen[name]):
        if chosen[name] + 1 < len(sizes[name]):
            yield {**chosen, name: chosen[name] + 1}
    if all(chosen.get(name) == len(found) - 1 for name, found in first.items()):
        yield from ({**chosen, name: 0} for name in then if name not in chosen)


def needed(chosen: Chosen, sizes: Sizes, room: Room) -> float:
    """Return the seconds that a plan takes."""
    found = [sizes[name][place] for name, place in chosen.items()]
    ranking = sum(size.rank for size in found)
    return makespan([size.train for size in found], room.places) + ranking + room.rest + room.per_member * len(found)


def makespan(times: Sequence[float], places: int) -> float:
    """Return when the last training ends if each free place takes the longest one that is left."""
    return finish(sorted(times, reverse=True), [0.0] * places)


def finish(times: Sequence[float], free: Sequence[float]) -> float:
    """Return when the last of some trainings ends that are taken in this order by places as they become free."""
    places, last = list(free), 0.0
    heapify(places)
    for seconds in times:
        last = max(last, places[0] + seconds)
        heapreplace(places, places[0] + seconds)
    return last


def allotted(seconds: float, waiting: Sequence[float], now: float, others: Sequence[float], deadline: float) -> float:
    """Return the time that a training which begins now may take, so that all end at the deadline.

    Args:
        seconds: the time that it should take.
        waiting: those of the trainings that begin later, in their order.
        now: the time.
        others: when the trainings on the other places end.
        deadline: when the last one should end.
    """
    last = finish([seconds, *waiting], [now, *(max(now, end) for end in others)])
    return seconds * min(STRETCH, max(1 / STRETCH, (deadline - now) / max(last - now, 1e-9)))


def stretch(chosen: Chosen, sizes: Sizes, room: Room) -> dict[str, int]:
    """Return the steps of each chosen member, in the order of their training: they fill the time that is left."""
    found = {name: sizes[name][place] for name, place in chosen.items()}
    order = sorted(found, key=lambda name: -found[name].train)
    window = room.seconds - needed(chosen, sizes, room) + makespan([size.train for size in found.values()], room.places)
    free, steps = [0.0] * room.places, {}
    for number, name in enumerate(order):
        size, now = found[name], min(free)
        free.remove(now)
        waiting = [found[other].train for other in order[number + 1 :]]
        seconds = allotted(size.train, waiting, now, free, window) if size.per_step else size.train
        grown = int((seconds - size.train) / size.per_step) if size.per_step else 0
        steps[name] = max(1, size.settings.steps + grown)
        free.append(now + size.train + grown * size.per_step)
    return steps
