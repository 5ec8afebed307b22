"""Keeping trainings within their time: a model's steps are set when it begins, and again while its rates allow it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from relens.pipeline.planner import STRETCH, allotted
from relens.pipeline.sizes import with_steps
from relens.training.pace import Pace
from relens.training.schedules import agree
from relens.training.settings import TrainSettings

TOLERANCE = 0.05
"""Smaller differences between the steps that fit and those planned change nothing."""
TRUSTED = 0.1
"""A training is believed to have found its pace after this share of its steps."""


@dataclass(frozen=True)
class Expected:
    """The training of a model as it was planned.

    Attributes:
        pace: its pace when it was measured.
        seconds: the time that its training takes, or what is left of it.
        kept: settings that the user chose, which stay.
    """

    pace: Pace
    seconds: float
    kept: tuple[str, ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether the steps stay."""
        return "steps" in self.kept


@dataclass(frozen=True)
class Timetable:
    """When trainings are to be complete. Workers share it.

    Attributes:
        deadline: when the last one should end, by the clock.
        expected: the trainings by name.
        clock: returns the time in seconds; the same one in all processes.
    """

    deadline: float
    expected: Mapping[str, Expected]
    clock: Callable[[], float]

    def begin(
        self, name: str, settings: TrainSettings, waiting: Sequence[str], ends: Sequence[float]
    ) -> tuple[TrainSettings, float]:
        """Return the settings with which a model begins now, and when its training ends.

        Args:
            name: the model.
            settings: its settings so far.
            waiting: the models that nobody trains yet.
            ends: when the trainings on the other places end.
        """
        now, expected = self.clock(), self.expected[name]
        if expected.fixed:
            return settings, now + expected.seconds
        others = [self.expected[other].seconds for other in waiting]
        seconds = allotted(expected.seconds, others, now, ends, self.deadline)
        scale = seconds / expected.seconds
        if abs(scale - 1) < TOLERANCE:
            return settings, now + seconds
        return with_steps(settings, max(1, round(settings.steps * scale)), expected.kept), now + seconds

    def revise(self, name: str, end: float, settings: TrainSettings, step: int, seconds: float) -> TrainSettings:
        """Return the settings for the rest of a training, so that it ends in time.

        Training is the same as with these settings from the first step: the rates up to ``step`` are equal, and the
        steps between validations stay.

        Args:
            name: the model.
            end: when its training should end.
            settings: its settings so far.
            step: steps taken.
            seconds: the time that they took.
        """
        expected = self.expected[name]
        if expected.fixed or step < TRUSTED * settings.steps:
            return settings
        pace = expected.pace
        planned = pace.begin + step * pace.step + step // settings.validate_every * pace.validation
        per_step = pace.per_step(settings) * seconds / max(planned, 1e-9)
        left = max(1, int((end - self.clock()) / max(per_step, 1e-9)))
        steps = min(step + left, int(STRETCH * settings.steps))
        if abs(steps / settings.steps - 1) < TOLERANCE:
            return settings
        revised = _of_length(settings, steps)
        while steps < settings.steps - 1 and not agree(settings, revised, step):  # rates have fallen: not that short
            steps = (steps + settings.steps) // 2
            revised = _of_length(settings, steps)
        return revised if agree(settings, revised, step) else settings


def _of_length(settings: TrainSettings, steps: int) -> TrainSettings:
    """Return settings for another number of steps with the same steps between validations."""
    return replace(settings, steps=steps, milestones=with_steps(settings, steps).milestones)
