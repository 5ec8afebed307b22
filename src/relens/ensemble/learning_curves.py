"""Learning curves of the search: the best validation MRR so far against time, measured or replayed.

They compare the paper's searches with the sweep on the ranks of a run, as in the paper's Figures 2 and 5.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import cpu_count

from relens.data.grouping import Grouping
from relens.ensemble.context import SearchContext, split_by_group
from relens.ensemble.inputs.rank import RANK
from relens.ensemble.search import search
from relens.ensemble.searchers.tpe import TPE, startup_trials
from relens.ensemble.settings import SearchSettings
from relens.packs.pack import PackedRanks
from relens.packs.thinning import ContestedViews
from relens.progress import SILENT, Progress
from relens.records import CURVES, number, text, whole

TRIALS = (50, 100)
"""Samples of each search by TPE; the paper's Q."""
WORKERS = (1, 2, 5)
POINTS = 300
"""Steps that a curve keeps at most."""

Trace = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The best validation MRR so far.

    Attributes:
        method: ``simple``, ``basic`` or ``dsc``.
        searcher: ``tpe`` or ``sweep``.
        trials: samples of the search by TPE, the paper's Q; 0 for the sweep, which does not sample.
        workers: number of workers that searched at the same time.
        replayed: whether the times are computed from the trial times of one worker instead of measured.
        seconds, mrr: the steps of the curve.
    """

    method: str
    searcher: str
    trials: int
    workers: int
    replayed: bool
    seconds: list[float]
    mrr: list[float]

    @property
    def label(self) -> str:
        """The name of the curve in figures and tables."""
        workers = f", {self.workers} workers" if self.workers > 1 else ""
        return f"{self.method}, {self.searcher}{workers}{' (replayed)' if self.replayed else ''}"


def measure_curves(
    valid: PackedRanks, *, group: str = "relation-direction", seed: int = 0, progress: Progress = SILENT
) -> list[Curve]:
    """Search the weights of ``valid`` by TPE as in the paper's Figures 2 and 5, and by the sweep.

    All searches use ranks and no shrinkage, as in the paper. Curves of more workers than the machine has cores are
    replayed. ``simple`` and ``basic`` are one search each and have one worker.

    Args:
        valid: validation ranks.
        group: grouping of the queries, see ``SearchSettings``.
        seed: root seed of the searches.
        progress: where to show progress.
    """
    curves = [_sweep(valid, method, group, seed, progress) for method in ("simple", "dsc")]
    for trials in TRIALS:
        curves += [_one_search(valid, method, trials, group, seed, progress) for method in ("simple", "basic")]
        curves += _divided(valid, trials, group, seed, progress)
    return curves


def _sweep(valid: PackedRanks, method: str, group: str, seed: int, progress: Progress) -> Curve:
    settings = SearchSettings(method=method, input="rank", regularise="none", group=group, seed=seed)
    return _curve(_trace(valid, settings, progress), method, "sweep", 0)


def _one_search(valid: PackedRanks, method: str, trials: int, group: str, seed: int, progress: Progress) -> Curve:
    settings = SearchSettings(method=method, searcher="tpe", input="rank", trials=trials, group=group, seed=seed)
    return _curve(_trace(valid, settings, progress), method, "tpe", trials)


def _trace(valid: PackedRanks, settings: SearchSettings, progress: Progress) -> Trace:
    """Search, and return the seconds and the best MRR so far, (steps, 2).

    The same search on two queries precedes it, to compile the kernels and import TPE before the clock starts.
    """
    search(valid.select_queries(np.arange(min(2, valid.n_queries))), **settings.arguments())
    return search(valid, **settings.arguments(), progress=progress).trace[:, [0, 2]]


def _divided(valid: PackedRanks, trials: int, group: str, seed: int, progress: Progress) -> list[Curve]:
    """Search every group on its own (dsc), once for each number of workers; replay those beyond the number of cores."""
    grouping = Grouping.from_spec(group, valid.relations)
    _, members = split_by_group(grouping.groups_of(valid.queries), np.arange(valid.n_queries))
    curves = []
    serial: list[Trace] = []
    for workers in WORKERS:
        replayed = workers > cpu_count()
        if not replayed:
            # A short search first starts the workers and compiles the kernels. It has one trial more than the random
            # ones, so that TPE imports its modules, too, before the clock starts.
            context = SearchContext(
                ContestedViews(valid), RANK, TPE, trials=trials, seed=seed, jobs=workers, progress=progress
            )
            TPE.search(replace(context, trials=startup_trials(trials) + 1, progress=SILENT), members[:workers])
            found = TPE.search(context, members)
            traces = [result.trace for result in found]
            serial = traces if workers == 1 else serial
        else:
            traces = replay(serial, workers)
        curves.append(_curve(merged(traces, valid.n_queries), "dsc", "tpe", trials, workers, replayed=replayed))
    return curves


def replay(traces: list[Trace], workers: int) -> list[Trace]:
    """Return the traces that ``workers`` would have left, computed from the traces of one worker.

    Each trace (steps, 3) is of one task: seconds since the first task began, evaluations, value. A task takes the time
    it took with one worker, and the worker that is free first takes the next task.
    """
    free = [0.0] * workers
    begun, moved = 0.0, []
    for trace in traces:
        worker = free.index(min(free))
        shift = free[worker] - begun
        moved.append(trace + np.array([shift, 0.0, 0.0]))
        free[worker] += trace[-1, 0] - begun
        begun = trace[-1, 0]
    return moved


def merged(traces: list[Trace], n_queries: int) -> Trace:
    """Merge the traces (steps, 3) of all groups into one curve (steps, 2): seconds, overall MRR.

    Before its search begins, a group counts with the first value of its trace, which is that of equal weights.
    """
    moments = np.concatenate([np.stack([t[1:, 0], np.diff(t[:, 2])], axis=1) for t in traces])
    moments = moments[np.argsort(moments[:, 0], kind="stable")]
    curve = np.concatenate([[[0.0, sum(trace[0, 2] for trace in traces)]], moments])
    curve[:, 1] = np.cumsum(curve[:, 1]) / n_queries
    return curve


def _curve(steps: Trace, method: str, searcher: str, trials: int, workers: int = 1, *, replayed: bool = False) -> Curve:
    kept = steps[np.unique(np.linspace(0, len(steps) - 1, POINTS).round().astype(np.int64))]
    return Curve(method, searcher, trials, workers, replayed, kept[:, 0].tolist(), kept[:, 1].tolist())


def curves_to_json(curves: list[Curve], valid: PackedRanks) -> dict[str, Any]:
    """Return the curves and the digest of their ranks as plain JSON values."""
    return CURVES.stamp({"of": valid.digest, "curves": [asdict(curve) for curve in curves]})


def curves_from_json(
    value: dict[str, Any], valid: PackedRanks, where: str = "the learning curves"
) -> list[Curve] | None:
    """Rebuild curves from the result of ``curves_to_json``; None if they have another format or are of other ranks.

    ``where`` names them in errors.
    """
    if not CURVES.matches(value) or not valid.is_named(str(value.get("of"))):
        return None
    with CURVES.parsing(where):
        return [_curve_from_json(curve) for curve in value["curves"]]


def _curve_from_json(value: Any) -> Curve:
    seconds, mrr = ([number(entry) for entry in value[axis]] for axis in ("seconds", "mrr"))
    if not seconds or len(seconds) != len(mrr):
        raise ValueError(f"a curve has {len(seconds)} times and {len(mrr)} values")
    return Curve(
        method=text(value["method"]),
        searcher=text(value["searcher"]),
        trials=whole(value["trials"]),
        workers=whole(value["workers"]),
        replayed=bool(value["replayed"]),
        seconds=seconds,
        mrr=mrr,
    )
