"""The sizes that a time budget chooses from: the settings of presets, with shares of their steps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from relens.pipeline.planner import Size
from relens.training.pace import Pace
from relens.training.settings import TrainSettings

VALIDATIONS = 8
"""Validations of a training whose length was chosen."""
RECORDS = 40
"""Records of the log of such a training."""
FIRST_SHARES, NEXT_SHARES, LAST_SHARES = (0.25, 0.5, 1.0), (0.5, 1.0), (2.0, 4.0)
"""Shares of a preset's steps: those of the smallest preset, of the others, and further ones of the largest."""
SLOWER = 1.15
"""A size takes at least this many times as long as the one before."""


def with_steps(settings: TrainSettings, steps: int, kept: Collection[str] = ()) -> TrainSettings:
    """Return settings for another number of steps: learning rates fall at the same shares of them.

    Early stopping is off: the time is given, and the parameters of the best validation are kept anyway.

    Args:
        settings: the settings.
        steps: the number of steps.
        kept: names of settings that stay as they are.
    """
    changes: dict[str, Any] = {
        "steps": steps,
        "milestones": tuple(sorted({max(1, each * steps // settings.steps) for each in settings.milestones})),
        "validate_every": max(1, -(-steps // VALIDATIONS)),
        "log_every": max(1, min(settings.log_every, steps // RECORDS)),
        "stop_after": None,
    }
    return replace(settings, **{name: value for name, value in changes.items() if name not in kept})


def same_but_length(one: TrainSettings, other: TrainSettings) -> bool:
    """Say whether settings differ in nothing but the number of steps, and what follows from it."""
    length = dict.fromkeys(("steps", "milestones", "validate_every", "log_every"))
    return {**one.as_dict(), **length} == {**other.as_dict(), **length}


def sizes_of(
    presets: Sequence[tuple[str, TrainSettings]],
    paces: Mapping[str, Pace],
    rank_share: float,
    kept: tuple[str, ...] = (),
) -> list[Size]:
    """Return the sizes of a member, each slower than the one before; at least one.

    Args:
        presets: names and settings of the presets, the smallest first.
        paces: the pace of each preset. Those that were too slow to be measured exactly are left out, but for the first.
        rank_share: seconds of ranking, as a multiple of those of a validation.
        kept: settings that the user chose, which stay.
    """
    found: list[Size] = []
    fixed = "steps" in kept
    for number, (preset, settings) in enumerate(presets):
        pace = paces.get(preset)
        if pace is None or (found and not pace.exact):
            break
        shares = [*(NEXT_SHARES if number else FIRST_SHARES), *(LAST_SHARES if number == len(presets) - 1 else ())]
        for share in [1.0] if fixed else shares:
            asked = with_steps(settings, max(1, round(settings.steps * share)), kept)
            per_step = 0.0 if fixed else pace.per_step(asked)
            size = Size(preset, asked, pace.seconds(asked), per_step, pace.validation * rank_share, kept)
            if not found or size.train >= SLOWER * found[-1].train:
                found.append(size)
    return found
