"""A time budget: a plan is made from measured paces, kept in the run, and carried out again by the same command."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from relens.errors import InputError, counted
from relens.pipeline.pacing import Expected, Timetable
from relens.pipeline.planner import Chosen, Room, Sizes, choose, makespan, needed, stretch
from relens.pipeline.sizes import same_but_length, with_steps
from relens.pipeline.training import training_progress
from relens.records import PLAN, mapping, number, text, texts
from relens.runs import PLAN as FILE
from relens.runs import Run
from relens.tables import Column, Row, Table
from relens.training.checkpoint import newest_settings, newest_step
from relens.training.log import readable_duration
from relens.training.pace import Pace
from relens.training.settings import TrainSettings

AIM = 0.97
"""The share of a budget that a plan fills."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)([smhd]))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)


def parse_budget(value: str) -> float:
    """Return the seconds of a budget such as ``90s``, ``15m`` or ``1h30m``."""
    compact = value.replace(" ", "").lower()
    seconds = sum(float(n) * UNITS[unit] for n, unit in _PART.findall(compact))
    if not _DURATION.fullmatch(compact) or not 0 < seconds < 1e9:
        raise InputError(f"`budget={value}`: expected a time, for instance 90s, 15m or 1h30m")
    return seconds


@dataclass(frozen=True)
class PlannedMember:
    """A member of a plan.

    Attributes:
        preset: the preset that its settings come from.
        settings: its settings.
        pace: its measured pace.
        seconds: the time that its training should take.
        rank: the time that ranking with it should take.
        kept: settings that the user chose.
    """

    preset: str
    settings: TrainSettings
    pace: Pace
    seconds: float
    rank: float
    kept: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**vars(self), "settings": self.settings.as_dict(), "pace": self.pace.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Rebuild from the result of ``to_json``."""
        return cls(
            preset=text(value["preset"]),
            settings=TrainSettings.from_dict(mapping(value["settings"])),
            pace=Pace.from_json(mapping(value["pace"])),
            seconds=number(value["seconds"]),
            rank=number(value["rank"]),
            kept=texts(value["kept"]),
        )


@dataclass(frozen=True)
class BudgetPlan:
    """A plan for a time budget.

    Attributes:
        request: what the user fixed, as plain JSON values; another request needs another plan.
        seconds: the budget.
        places: how many models train at a time.
        members: the members by name.
        rest: the time from the end of the ranking on.
        more: what twice the time would buy, as a sentence.
        deadline: when training should end, by ``time.time``; None for a plan that goes on after an interruption, whose
            trainings take what was planned for the rest of them.
    """

    request: dict[str, Any]
    seconds: float
    places: int
    members: dict[str, PlannedMember]
    rest: float
    more: str
    deadline: float | None = None

    @property
    def settings(self) -> dict[str, TrainSettings]:
        """The settings of each member."""
        return {name: member.settings for name, member in self.members.items()}

    @property
    def after(self) -> float:
        """The time from the end of training on."""
        return self.rest + sum(member.rank for member in self.members.values())

    def save(self, run: Run) -> None:
        """Keep the plan in its run."""
        values = {key: value for key, value in vars(self).items() if key != "deadline"}
        members = {name: member.to_json() for name, member in self.members.items()}
        PLAN.write(run.path / FILE, {**values, "members": members})

    @classmethod
    def open(cls, run: Run) -> Self | None:
        """Return the plan of a run; None if it has none."""
        path = run.path / FILE
        if not path.is_file():
            return None
        value = PLAN.read(path)
        with PLAN.parsing(str(path)):
            return cls(
                request=mapping(value["request"]),
                seconds=number(value["seconds"]),
                places=int(number(value["places"])),
                members={name: PlannedMember.from_json(entry) for name, entry in mapping(value["members"]).items()},
                rest=number(value["rest"]),
                more=text(value["more"]),
            )

    def carried_on(self, run: Run) -> "BudgetPlan":
        """Return the plan with the lengths that trainings have, or were begun with, in the run."""
        found = dict(self.members)
        for name, member in self.members.items():
            folder = run.model_path(name)
            complete = training_progress(run, name, member.settings) == "complete"
            begun = run.model(name).settings if complete else newest_settings(folder)
            if begun is not None and same_but_length(begun, member.settings):
                longer = begun.steps / member.settings.steps
                found[name] = replace(member, settings=begun, seconds=member.seconds * longer)
        return replace(self, members=found)

    def timetable(self, run: Run, names: Sequence[str]) -> Timetable:
        """Return the timetable of trainings that are not complete, the longest first."""
        expected = {}
        for name in names:
            member = self.members[name]
            left = 1 - newest_step(run.model_path(name)) / member.settings.steps
            expected[name] = Expected(member.pace, member.seconds * left, member.kept)
        times = [entry.seconds for entry in expected.values()]
        deadline = time.time() + makespan(times, self.places) if self.deadline is None else self.deadline
        longest = sorted(expected, key=lambda name: -expected[name].seconds)
        return Timetable(deadline, {name: expected[name] for name in longest}, time.time)

    def used(self, seconds: float) -> str:
        """Return a sentence about the time that the run took in this call."""
        if self.deadline is None:
            return f"this part of the run took {readable_duration(seconds)}"
        share = seconds / self.seconds
        return f"took {readable_duration(seconds)} of {readable_duration(self.seconds)} ({share:.0%}). {self.more}"

    def table(self) -> Table:
        """Return the members with their sizes, steps and times."""
        columns = (
            Column("member", align="left"), Column("model", align="left"), Column("size", align="left"),
            Column("steps", ",d"), Column("expected s", ",.0f"),
        )  # fmt: skip
        rows = [
            Row((name, member.settings.model, member.preset, member.settings.steps, member.seconds))
            for name, member in self.members.items()
        ]
        training = makespan([member.seconds for member in self.members.values()], self.places)
        notes = (
            f"training {counted(self.places, 'model')} at a time: about {readable_duration(training)}; ranking, "
            f"search, evaluation and report: about {readable_duration(self.after)}",
        )
        return Table(f"Plan for {readable_duration(self.seconds)}", columns, tuple(rows), notes=notes)


@dataclass(frozen=True)
class Offer:
    """What a plan chooses from.

    Attributes:
        first: the sizes of the members.
        then: sizes of further seeds of them, for time that is left.
        paces: the pace of each member, by preset.
        required: whether no member may be left out.
    """

    first: Sizes
    then: Sizes
    paces: Mapping[str, Mapping[str, Pace]]
    required: bool


def make_plan(offer: Offer, room: Room, request: dict[str, Any], seconds: float) -> BudgetPlan:
    """Return the plan for a room; if it has room for no member, or not for all required ones, raise an error.

    Args:
        offer: what to choose from.
        room: the time, and what the stages after training take of it.
        request: what the user fixed.
        seconds: the budget.
    """
    chosen = choose(offer.first, offer.then, room)
    if not chosen or (offer.required and any(name not in chosen for name in offer.first)):
        raise InputError(_too_small(offer, room, chosen, seconds))
    sizes = {**offer.first, **offer.then}
    members = {}
    for name, steps in stretch(chosen, sizes, room).items():
        size = sizes[name][chosen[name]]
        settings = with_steps(size.settings, steps, size.kept) if size.per_step else size.settings
        grown = (steps - size.settings.steps) * size.per_step
        pace = offer.paces[name][size.preset]
        members[name] = PlannedMember(size.preset, settings, pace, size.train + grown, size.rank, size.kept)
    rest = room.rest + room.per_member * len(members)
    return BudgetPlan(request, seconds, room.places, members, rest, _more(offer, room, members))


def _more(offer: Offer, room: Room, members: Mapping[str, PlannedMember]) -> str:
    """Return what twice the time would buy."""
    larger = replace(room, seconds=2 * room.seconds)
    chosen, sizes = choose(offer.first, offer.then, larger), {**offer.first, **offer.then}
    changes = []
    for name, steps in stretch(chosen, sizes, larger).items():
        preset, now = sizes[name][chosen[name]].preset, members.get(name)
        if now is None:
            changes.append(f"add {name} ({preset}, {steps:,} steps)")
        elif now.preset != preset:
            changes.append(f"train {name} in the size {preset} instead of {now.preset}")
        elif steps > now.settings.steps:
            changes.append(f"train {name} for {steps:,} steps instead of {now.settings.steps:,}")
    return f"Twice the time would {'; '.join(changes)}." if changes else "More time would change nothing."


def _too_small(offer: Offer, room: Room, chosen: Chosen, seconds: float) -> str:
    """Return an error that says what a budget would have to be."""
    spent = seconds * AIM - room.seconds
    sizes = {**offer.first, **offer.then}

    def budget_of(plan: Chosen) -> str:
        return readable_duration((spent + needed(plan, sizes, room)) / AIM * 1.05)

    every: Chosen = dict.fromkeys(offer.first, 0)
    lead = f"a budget of {readable_duration(seconds)} is too small for "
    if offer.required and chosen:
        missing = ", ".join(name for name in offer.first if name not in chosen)
        return (
            f"{lead}{', '.join(offer.first)} on this graph and machine: {missing} would not fit, although "
            f"{', '.join(chosen)} would. All in their smallest sizes take about {budget_of(every)}: raise "
            f"`budget=TIME`, or name fewer with `models=NAMES`."
        )
    fastest = min(offer.first, key=lambda name: needed({name: 0}, sizes, room))
    return (
        f"{lead}any model on this graph and machine. The fastest, {fastest}, takes about "
        f"{budget_of({fastest: 0})} with ranking, search and report; all of {', '.join(every)} in their smallest sizes "
        f"take about {budget_of(every)}. Raise `budget=TIME`."
    )
