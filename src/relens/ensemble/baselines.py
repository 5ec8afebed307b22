"""Global weights without a search of the objective's landscape: the methods every ensemble is measured against."""

import warnings

import numpy as np
import numpy.typing as npt

from relens.ensemble.grid import Weights, to_grid, uniform, vertices
from relens.ensemble.inputs import Input
from relens.ensemble.objective import answer_ranks
from relens.errors import MissingExtraError
from relens.metrics.mrr import mrr
from relens.packs.pack import PackedRanks
from relens.progress import SILENT, Progress
from relens.seeding import generator

STACKING_CANDIDATES = 50
STACKING_ITERATIONS = 300
GREEDY_STEPS = 50
GREEDY_PATIENCE = 5


def model_mrrs(packed: PackedRanks, *, jobs: int = 1) -> npt.NDArray[np.float64]:
    """Return each model's own MRR, (N,)."""
    ranks = (answer_ranks(packed, vertex, jobs=jobs) for vertex in vertices(packed.n_models))
    return np.array([mrr(rank.realistic) for rank in ranks])


def best_single(packed: PackedRanks, *, jobs: int = 1) -> Weights:
    """Return the weights that trust the model with the best MRR alone."""
    return vertices(packed.n_models)[int(np.argmax(model_mrrs(packed, jobs=jobs)))]


def mrr_mean(packed: PackedRanks, *, jobs: int = 1) -> Weights:
    """Return weights in proportion to the models' MRR."""
    return to_grid(model_mrrs(packed, jobs=jobs))


def greedy(packed: PackedRanks, name: Input, *, jobs: int = 1, progress: Progress = SILENT) -> Weights:
    """Select models with replacement, each time the one that raises the MRR most (Caruana et al., 2004).

    Returns the counts of the best selection met; the search ends when no step has improved on it for a while.
    """
    counts = np.zeros(packed.n_models, dtype=np.int64)
    best, best_value, best_step = uniform(packed.n_models), -1.0, 0
    with progress.task("greedy selection", GREEDY_STEPS) as advance:
        for step in range(GREEDY_STEPS):
            options = [counts + vertex for vertex in vertices(packed.n_models)]
            values = [mrr(answer_ranks(packed, option, name=name, jobs=jobs).realistic) for option in options]
            counts = options[int(np.argmax(values))]
            if max(values) > best_value:
                best, best_value, best_step = counts, max(values), step
            if step - best_step >= GREEDY_PATIENCE:
                break
            advance(1)
    return best


def stacking(packed: PackedRanks, *, seed: int = 0) -> tuple[Weights, str | None]:
    """Fit a logistic regression that tells answers from candidates by the models' ranks (Wolpert, 1992).

    Up to 50 contested candidates per query stand against the answer; a model's weight is max(0, −coefficient).
    Returns the weights and, where no coefficient is negative and the mean takes their place, a note saying so.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtraError("method 'stacking'", "stacking") from error
    candidates = _sample_contested(packed, generator(seed, "stacking"))
    ranks = np.concatenate([packed.answer, packed.contested[:, candidates]], axis=1).T / 2.0  # (samples, N)
    is_answer = np.arange(len(ranks)) < packed.n_queries
    if is_answer.all():
        return uniform(packed.n_models), "stacking: no contested candidate to learn from, so all weights are equal"
    with warnings.catch_warnings():
        # The paper stops after 300 iterations too, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        coefficients = LogisticRegression(max_iter=STACKING_ITERATIONS).fit(ranks, is_answer).coef_[0]
    weights = np.maximum(0.0, -coefficients)
    if weights.max() == 0:
        return uniform(packed.n_models), "stacking: no model got a positive weight, so all weights are equal"
    return to_grid(weights), None


def _sample_contested(packed: PackedRanks, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return positions of up to 50 contested candidates of each query: all there are, or a draw with replacement."""
    counts = np.diff(packed.offsets)[:, None]
    place = np.tile(np.arange(STACKING_CANDIDATES), (packed.n_queries, 1))
    drawn = np.where(counts > STACKING_CANDIDATES, (rng.random(place.shape) * counts).astype(np.int64), place)
    return np.unique((packed.offsets[:-1, None] + drawn)[drawn < counts])
