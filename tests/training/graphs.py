"""Tiny graphs and settings that the tests of training share."""

import numpy as np
import numpy.typing as npt

from relens.data.known_answers import KnownAnswers
from relens.data.queries import Queries
from relens.models.base import KGEModel
from relens.ranking.competition import Competition
from relens.ranking.validation import mean_reciprocal_rank
from relens.training.presets import resolve_settings
from relens.training.settings import TrainSettings

N_ENTITIES, N_RELATIONS = 12, 3
SMALL = {
    "transe": ["dim=32", "negatives=12", "pool_rows=8", "lr=0.02"],
    "rotate": ["dim=16", "negatives=12", "pool_rows=8"],
    "house": ["dim=24", "negatives=12", "pool_rows=8", "regulariser=none"],
    "complex": ["dim=16"],
    "complex-rp": ["dim=16"],
    "autoblm": ["dim=16"],
    "stargraph": ["dim=16", "token_dim=8", "heads=2", "negatives=12", "pool_rows=8", "token_dropout=0"],
    "interht": ["dim=16", "token_dim=8", "heads=2", "negatives=12", "pool_rows=8", "token_dropout=0"],
    "triplere": ["dim=32", "negatives=12", "pool_rows=8", "lr=0.02"],
    "conve": ["dim=32", "channels=4"],
    "compgcn": ["dim=32", "init_dim=16", "filters=8", "entity_dropout=0", "feature_dropout=0", "hidden_dropout=0"],
    "nbfnet": ["layers=3", "aggregate=pna"],
}


def random_triples(seed: int = 0, n: int = 24) -> npt.NDArray[np.int32]:
    """Return distinct random triples over 12 entities and 3 relations."""
    rows = np.random.default_rng(seed).integers(0, [N_ENTITIES, N_RELATIONS, N_ENTITIES], (n, 3))
    return np.unique(rows, axis=0).astype(np.int32)


def shifted_triples() -> npt.NDArray[np.int32]:
    """Return shifts along a line by 1, 2 and 5 places: every model can learn them by heart."""
    shifts = ((relation, shift) for relation, shift in enumerate((1, 2, 5)))
    rows = [(head, relation, head + shift) for relation, shift in shifts for head in range(N_ENTITIES - shift)]
    return np.array(rows, dtype=np.int32)


def small_settings(model: str, *changes: str) -> TrainSettings:
    """Return settings of a tiny model for a tiny graph."""
    return resolve_settings("tiny", model, "demo", ["batch=32", "validate_every=20", *SMALL[model], *changes])


class TrainMRR:
    """Validates on the training triples themselves."""

    def __init__(self, triples: npt.NDArray[np.int32]) -> None:
        known = KnownAnswers.build([triples], N_ENTITIES, N_RELATIONS)
        self.competition = Competition(Queries.from_triples(triples), known)

    def __call__(self, model: KGEModel) -> float:
        return mean_reciprocal_rank(model, self.competition)
