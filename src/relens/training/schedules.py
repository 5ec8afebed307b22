"""Learning rates: a function of the step and of the validations so far."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from relens.records import number, whole
from relens.training.settings import TrainSettings

IMPROVEMENT = 1e-4
"""The plateau schedule ignores relative gains below this (PyTorch's default, as in KGTuner)."""


@dataclass
class Schedule:
    """The learning rate of each step; ``scale`` is the product of all factors that plateau has applied."""

    settings: TrainSettings
    scale: float = 1.0
    best: float = 0.0
    without_gain: int = 0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step; steps count from 0."""
        settings = self.settings
        share = self.scale
        if settings.schedule == "steps":
            share = settings.factor ** sum(step >= milestone for milestone in settings.milestones)
        elif settings.schedule == "linear" and settings.hold < 1:
            share = min(1.0, (1 - step / settings.steps) / (1 - settings.hold))
        elif settings.schedule == "cosine":
            fallen = (1 - math.cos(math.pi * step / settings.steps)) / 2
            share = 1 - (1 - settings.floor) * fallen
        if step < settings.warm_up:
            share *= (step + 1) / settings.warm_up
        return settings.lr * share

    def forgets(self, step: int) -> bool:
        """Say whether the optimiser's state is cleared before a step, as in HousE when the rate drops."""
        return self.settings.schedule == "steps" and step in self.settings.milestones

    def record_validation(self, mrr: float) -> None:
        """Record a validation: after ``patience`` validations without a gain, the next one without lowers the rate."""
        if mrr > self.best * (1 + IMPROVEMENT):
            self.best, self.without_gain = mrr, 0
            return
        self.without_gain += 1
        if self.settings.schedule == "plateau" and self.without_gain > self.settings.patience:
            self.scale, self.without_gain = self.scale * self.settings.factor, 0

    def state(self) -> dict[str, Any]:
        """Return the values that a resumed run needs."""
        return {key: value for key, value in asdict(self).items() if key != "settings"}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state``."""
        self.scale, self.best = number(state["scale"]), number(state["best"])
        self.without_gain = whole(state["without_gain"])


def agree(one: TrainSettings, other: TrainSettings, step: int) -> bool:
    """Say whether two trainings have the same learning rates in their first steps, up to ``step``."""
    first, second = Schedule(one), Schedule(other)
    return all(first.rate(at) == second.rate(at) and first.forgets(at) == second.forgets(at) for at in range(step))
