"""The paper's searcher: a tree-structured Parzen estimator (TPE), from Optuna."""

from typing import TYPE_CHECKING, Any

import numpy as np

from relens.ensemble.context import SearchContext
from relens.ensemble.sampling import Record, Sampler
from relens.errors import MissingExtraError

if TYPE_CHECKING:
    import optuna


class Tpe(Sampler):
    """TPE in the paper's mode: univariate, a fresh sampler for each search, no constant liar."""

    name = "tpe"
    description = "samples by a tree-structured Parzen estimator, as in the paper"
    order = 1
    extra = "tpe"

    def resolved_settings(self, context: SearchContext) -> dict[str, Any]:
        """Record the random trials at the start, too."""
        return super().resolved_settings(context) | {"startup_trials": startup_trials(context.trials)}

    def propose(self, record: Record, dimension: int, trials: int, rng: np.random.Generator) -> None:
        """Record equal weights, then Optuna's proposals."""
        try:
            import optuna
        except ImportError as error:
            raise MissingExtraError(f"searcher {self.name!r}", self.extra) from error
        names = [f"w{i}" for i in range(dimension)]

        def objective(trial: "optuna.Trial") -> float:
            return record(np.array([trial.suggest_float(name, 0.0, 1.0) for name in names]))

        sampler = optuna.samplers.TPESampler(
            n_startup_trials=startup_trials(trials), multivariate=False, constant_liar=False,
            seed=int(rng.integers(2**32)),
        )  # fmt: skip
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(direction="maximize", sampler=sampler)
            study.enqueue_trial(dict.fromkeys(names, 1.0 / dimension))
            study.optimize(objective, n_trials=trials)
        finally:
            optuna.logging.set_verbosity(verbosity)


def startup_trials(trials: int) -> int:
    """Return how many random trials start a TPE search: the paper's notebooks use 64 of 300, and 20 otherwise."""
    return 64 if trials >= 300 else 20


TPE = Tpe()
