"""The pace of a training: seconds of a step and of a validation, measured by a few of them."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from relens.data.dataset import Dataset
from relens.models.base import KGEModel, current
from relens.ranking.competition import Competition
from relens.ranking.validation import mean_reciprocal_rank
from relens.records import number
from relens.seeding import generator
from relens.training.loop import new_model
from relens.training.queries import TrainingQueries
from relens.training.settings import SAMPLED_LOSSES, TrainSettings
from relens.training.state import TrainingState, isolated
from relens.training.step import WARM_UP

PARTS = 16
"""A first look at a step takes this share of its batch: some models take a minute for a whole step on a CPU."""
MOST_STEPS = 20
VALIDATED = 400
"""Validation triples that a validation is measured on; its time grows with their number."""


@dataclass(frozen=True)
class Pace:
    """The times of a model in training, in seconds.

    Attributes:
        begin: until the first step is taken, with the time that kernels take to compile.
        step: for a step.
        validation: for a validation of the whole split.
        exact: whether whole steps were measured, and not parts of them.
    """

    begin: float
    step: float
    validation: float
    exact: bool = True

    def seconds(self, settings: TrainSettings) -> float:
        """Return the time of a whole training."""
        return self.begin + settings.steps * self.per_step(settings)

    def per_step(self, settings: TrainSettings) -> float:
        """Return the time of a step with its share of the validations."""
        validations = math.ceil(settings.steps / settings.validate_every)
        return self.step + validations * self.validation / settings.steps

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Rebuild from the result of ``to_json``."""
        times = {key: number(value[key]) for key in ("begin", "step", "validation")}
        return cls(**times, exact=value["exact"] is True)


def measure_pace(
    dataset: Dataset, settings: TrainSettings, device: torch.device, *, seconds: float, longest_step: float = math.inf
) -> Pace:
    """Measure some steps and a validation of a model that is thrown away.

    Args:
        dataset: the data.
        settings: of the model.
        device: where to train.
        seconds: the time to take steps for, about.
        longest_step: a step that would take longer is estimated from a part of its batch, and nothing else is measured.
    """
    with current(device), isolated(settings, device):
        begun = time.perf_counter()
        model = new_model(settings, dataset.train, len(dataset.entities), len(dataset.relations)).to(device)
        facts = torch.from_numpy(dataset.train.astype(np.int64)).to(device)
        queries = TrainingQueries.from_triples(facts, model.n_entities, model.n_relations)
        asked = np.unique(dataset.valid[:, 1]) if settings.focus else None
        share = _part(settings) / settings.batch
        part = TrainingState(model.train(), queries, replace(settings, batch=_part(settings)), asked)
        part.advance()
        step = _timed(device, part.advance) / share
        if step > longest_step:
            return Pace(time.perf_counter() - begun, step, 0.0, exact=False)
        state = TrainingState(model, queries, settings, asked)
        for _ in range(1 if device.type == "cpu" else WARM_UP + 2):  # compiling, and the capture of a graph
            state.advance()
        _wait(device)
        begin, taken, since = time.perf_counter() - begun, 0, time.perf_counter()
        while not taken or (taken < MOST_STEPS and time.perf_counter() - since < seconds):
            state.advance()
            taken += 1
        _wait(device)
        step = (time.perf_counter() - since) / taken
        return Pace(begin, step, _validation(dataset, model, state, settings))


def _part(settings: TrainSettings) -> int:
    """Return the batch of a first look: whole pools."""
    pool = settings.pool_rows if settings.loss in SAMPLED_LOSSES else 1
    return min(settings.batch, max(1, settings.batch // PARTS // pool) * pool)


def _timed(device: torch.device, work: Callable[[], object]) -> float:
    _wait(device)
    since = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - since


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _validation(dataset: Dataset, model: KGEModel, state: TrainingState, settings: TrainSettings) -> float:
    """Return the time of a validation, from a sample of the split's triples."""
    competition = Competition.from_dataset(dataset, "valid")
    n, whole = len(dataset.valid), len(competition)
    if n > VALIDATED and competition.candidates is None:
        triples = generator(settings.seed, "pace").permutation(n)[:VALIDATED]
        asked = dataset.queries("valid")
        rows = np.flatnonzero(np.isin(asked.triple, triples))
        competition = replace(competition, queries=asked[rows])
    with state.evaluation():
        if competition.candidates is None:
            mean_reciprocal_rank(model, replace(competition, queries=competition.queries[:2]))  # compiles kernels
        fixed = _timed(model.device, state.estimate_statistics)
        ranking = _timed(model.device, lambda: mean_reciprocal_rank(model, competition))
    return fixed + ranking * whole / len(competition)
