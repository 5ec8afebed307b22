"""Random search."""

import numpy as np

from relens.ensemble.grid import uniform
from relens.ensemble.sampling import Record, Sampler


class Random(Sampler):
    """Uniform samples of (0, 1]^N."""

    name = "random"
    description = "random samples"
    order = 2

    def propose(self, record: Record, dimension: int, trials: int, rng: np.random.Generator) -> None:
        """Record equal weights, then random ones."""
        record(uniform(dimension) / dimension)
        for _ in range(trials - 1):
            record(1.0 - rng.random(dimension))


RANDOM = Random()
