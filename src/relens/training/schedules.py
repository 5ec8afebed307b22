"""Learning rates over a run, decided by the step and by validation."""

from dataclasses import asdict, dataclass
from typing import Any

from relens.training.settings import TrainSettings

IMPROVEMENT = 1e-4
"""Relative gain below which the plateau schedule sees no improvement (PyTorch's default, as KGTuner)."""


@dataclass
class Schedule:
    """The learning rate of each step; ``scale`` is what the plateau schedule has multiplied it with so far."""

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
        return settings.lr * share

    def forgets(self, step: int) -> bool:
        """Say whether the optimiser's state is cleared before a step, as HousE does when the rate drops."""
        return self.settings.schedule == "steps" and step in self.settings.milestones

    def validated(self, mrr: float) -> None:
        """Take note of a validation: after ``patience`` without a gain, the next without one lowers the rate."""
        if mrr > self.best * (1 + IMPROVEMENT):
            self.best, self.without_gain = mrr, 0
            return
        self.without_gain += 1
        if self.settings.schedule == "plateau" and self.without_gain > self.settings.patience:
            self.scale, self.without_gain = self.scale * self.settings.factor, 0

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs to know."""
        return {key: value for key, value in asdict(self).items() if key != "settings"}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what ``state`` returned."""
        for key, value in state.items():
            setattr(self, key, value)
