"""The procedure of the paper's authors, done kindly: what a search costs without packed ranks.

The published notebook takes the weighted average of the models' dense ranks of a group, sorts every row of it, looks
up the answers' positions, and lets hyperopt's TPE propose 300 weight vectors, one group after the other. Here it gets
every kindness that keeps it the same procedure: the group's ranks wait in memory as contiguous float32, the average is
one matrix product, rows are handled in blocks that suit the cache, hyperopt is called directly rather than through Ray
Tune, groups are spread over worker processes, and numpy sorts with the instructions that are fastest on this machine.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from hyperopt import fmin, hp, tpe
from scipy.stats import rankdata

from relens.data.queries import Queries
from relens.packs.simulation import BLOCK, Simulation
from relens.seeding import generator

QueryIndex = npt.NDArray[np.int64]
Environment = dict[str, str]

TRIALS = 300
STARTUP_TRIALS = 64
ROWS = 16
"""Rows averaged and sorted at a time."""
CALIBRATION_QUERIES = 64
CALIBRATION_SECONDS = 2.0


@dataclass(frozen=True)
class Searched:
    """The result of the procedure for one group.

    Attributes:
        queries: the group's queries.
        weights: the best weights it saw, (N,) in [0, 1].
        mrr: their MRR by the procedure's own count, ties broken by position.
        objective_seconds: time inside the objective, all trials together.
        search_seconds: time of the whole search, hyperopt's own included.
    """

    queries: int
    weights: npt.NDArray[np.float64]
    mrr: float
    objective_seconds: float
    search_seconds: float

    @property
    def overhead_seconds(self) -> float:
        """Time that hyperopt itself took."""
        return self.search_seconds - self.objective_seconds


@dataclass(frozen=True)
class Source:
    """Where dense ranks come from: a simulation and the queries of one of its splits."""

    simulation: Simulation
    queries: Queries
    split: str


@dataclass(frozen=True)
class Group:
    """The dense ranks of one group: ``ranks`` (n, N, C) float32 by the mean rule, ``answer`` (n,)."""

    ranks: npt.NDArray[np.float32]
    answer: npt.NDArray[np.int32]

    @classmethod
    def simulate(cls, source: Source, members: QueryIndex) -> "Group":
        """Draw the scores of the group's queries once more and rank them."""
        simulation, queries = source.simulation, source.queries
        ranks = np.empty((len(members), len(simulation.models), simulation.n_entities), dtype=np.float32)
        for block in np.unique(members // BLOCK):
            mine = np.flatnonzero(members // BLOCK == block)
            scores = simulation.scores(queries, source.split, int(block))[:, members[mine] % BLOCK]
            ranks[mine] = rankdata(-scores, axis=2).swapaxes(0, 1)
        return cls(ranks, queries.answer[members])

    def mrr(self, weights: npt.NDArray[np.float64]) -> float:
        """Return the MRR of weights (N,): average, sort, look up."""
        total = 0.0
        single = weights.astype(np.float32)
        for first in range(0, len(self.answer), ROWS):
            average = np.matmul(single, self.ranks[first : first + ROWS])
            order = np.argsort(average, axis=1)
            position = np.argmax(order == self.answer[first : first + ROWS, None], axis=1)
            total += float(np.sum(1.0 / (1.0 + position)))
        return total / len(self.answer)

    def mrr_as_published(self, weights: npt.NDArray[np.float64]) -> float:
        """Return the same without the kindness: ``np.average`` in float64 over all rows at once."""
        average = np.average(self.ranks, axis=1, weights=weights)
        order = np.argsort(average, axis=1)
        position = np.argmax(order == self.answer[:, None], axis=1)
        return float(np.mean(1.0 / (1.0 + position)))


class Procedure:
    """The procedure on some machine: it finds out first how numpy sorts fastest there."""

    def __init__(self, source: Source, jobs: int, seed: int) -> None:
        self.source, self.jobs, self.seed = source, jobs, seed
        self.rates = {name: self._rates(environment) for name, environment in instruction_sets().items()}
        self.kindest = min(self.rates, key=lambda name: self.rates[name]["kindly"])

    def search(self, members: Sequence[QueryIndex], trials: int = TRIALS) -> list[Searched]:
        """Search the weights of each group, the largest first, one worker to a group."""
        order = sorted(range(len(members)), key=lambda g: -len(members[g]))
        with _workers(self.jobs, instruction_sets()[self.kindest]) as pool:
            running = {g: pool.submit(_search, self.source, members[g], trials, self.seed + g) for g in order}
            return [running[g].result() for g in range(len(members))]

    def extrapolate(self, found: Sequence[Searched], trials: int, n_groups: int) -> dict[str, Any]:
        """Return what all groups would cost: the objective by its work, hyperopt by its trials, no worker ever idle."""
        n_queries, n_candidates = len(self.source.queries), self.source.simulation.n_entities
        sampled = sum(searched.queries for searched in found)
        per_cell = sum(searched.objective_seconds for searched in found) / (sampled * n_candidates * trials)
        per_trial = sum(searched.overhead_seconds for searched in found) / (len(found) * trials)
        objective = per_cell * n_queries * n_candidates * trials
        overhead = per_trial * n_groups * trials
        slower = {kind: self.rates["as it comes"][kind] / self.rates[self.kindest]["kindly"] for kind in OBJECTIVES}
        return {
            "trials": trials,
            "objective_seconds_per_query_candidate_trial": per_cell,
            "hyperopt_seconds_per_trial": per_trial,
            "objective_worker_seconds": objective,
            "hyperopt_worker_seconds": overhead,
            "workers": self.jobs,
            "seconds": (objective + overhead) / self.jobs,
            "seconds_numpy_as_it_comes": (objective * slower["kindly"] + overhead) / self.jobs,
            "seconds_as_published": (objective * slower["as published"] + overhead) / self.jobs,
            "how": (
                "objective seconds per query, candidate and trial times all queries, candidates and trials, plus "
                "hyperopt seconds per trial times the trials of all groups with queries, divided by the workers"
            ),
        }

    def _rates(self, environment: Environment) -> dict[str, float]:
        """Return the seconds per query and candidate of one trial, all workers busy; the median worker's."""
        n = min(CALIBRATION_QUERIES, len(self.source.queries))
        members = np.linspace(0, len(self.source.queries) - 1, n).astype(np.int64)
        with _workers(self.jobs, environment) as pool:
            running = [pool.submit(_calibrate, self.source, members) for _ in range(self.jobs)]
            of_workers = [worker.result() for worker in running]
        return {kind: float(np.median([rates[kind] for rates in of_workers])) for kind in OBJECTIVES}


OBJECTIVES: dict[str, Callable[[Group, npt.NDArray[np.float64]], float]] = {
    "kindly": Group.mrr,
    "as published": Group.mrr_as_published,
}


def instruction_sets() -> dict[str, Environment]:
    """Return environments for worker processes: numpy as it comes, and without AVX-512 where it would use that.

    On some processors AVX-512 makes numpy's argsort twice as slow as AVX2 does.
    """
    wide = [name for name, found in np._core._multiarray_umath.__cpu_features__.items() if found and _is_wide(name)]
    disabled = " ".join(name for name in wide if name in np._core._multiarray_umath.__cpu_dispatch__)
    without = {"without AVX-512": {"NPY_DISABLE_CPU_FEATURES": disabled}} if disabled else {}
    return {"as it comes": {}, **without}


def _is_wide(feature: str) -> bool:
    return feature.startswith("AVX512") or feature == "X86_V4"


def stratified_sample(sizes: npt.NDArray[np.int64], n: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the positions of ``n`` groups, one at random from each of ``n`` strata of the groups sorted by size."""
    rng = generator(seed, "sample of groups")
    strata = np.array_split(np.argsort(sizes, kind="stable"), min(n, len(sizes)))
    return np.array([rng.choice(stratum) for stratum in strata])


@contextmanager
def _workers(jobs: int, environment: Environment) -> Iterator[Executor]:
    """Start processes that import numpy under ``environment`` and use one thread each."""
    before = dict(os.environ)
    os.environ.update(environment, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    try:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            yield pool
    finally:
        os.environ.clear()
        os.environ.update(before)


def _calibrate(source: Source, members: QueryIndex) -> dict[str, float]:
    """Return the seconds per query and candidate of either objective."""
    group = Group.simulate(source, members)
    weights = generator(0, "calibration").random(group.ranks.shape[1])
    rates = {}
    for kind, objective in OBJECTIVES.items():
        objective(group, weights)
        begun, calls = perf_counter(), 0
        while (elapsed := perf_counter() - begun) < CALIBRATION_SECONDS and calls < TRIALS:
            objective(group, weights)
            calls += 1
        rates[kind] = elapsed / (calls * group.ranks.shape[0] * group.ranks.shape[2])
    return rates


def _search(source: Source, members: QueryIndex, trials: int, seed: int) -> Searched:
    group = Group.simulate(source, members)
    names = [f"w{i}" for i in range(group.ranks.shape[1])]
    objective_seconds = 0.0

    def loss(point: dict[str, float]) -> float:
        nonlocal objective_seconds
        begun = perf_counter()
        value = -group.mrr(np.array([point[name] for name in names]))
        objective_seconds += perf_counter() - begun
        return value

    begun = perf_counter()
    best = fmin(
        loss, {name: hp.uniform(name, 0.0, 1.0) for name in names}, max_evals=trials,
        algo=partial(tpe.suggest, n_startup_jobs=STARTUP_TRIALS), rstate=np.random.default_rng(seed),
        show_progressbar=False, verbose=False,
    )  # fmt: skip
    seconds = perf_counter() - begun
    weights = np.array([best[name] for name in names])
    return Searched(len(members), weights, group.mrr(weights), objective_seconds, seconds)
