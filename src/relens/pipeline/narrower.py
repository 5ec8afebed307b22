"""A plan with fewer models or methods than an existing run has results of: an error says what would be lost."""

from collections.abc import Collection
from contextlib import suppress

from relens.data.queries import EVALUATED
from relens.errors import InputError
from relens.runs import Run
from relens.staleness import kept_comparison, page_comparison


def check_losses(run: Run, models: Collection[str], methods: Collection[str], repeated: Collection[str]) -> None:
    """Raise an error if carrying out a plan would replace results of models or methods that it does not have.

    Args:
        run: the run.
        models: the names of the models of the plan.
        methods: the methods of the plan.
        repeated: the stages that the user repeats: ``rank`` gives up ranks of other models and all that was made from
            them, ``search`` gives up results of other methods.
    """
    if "rank" in repeated:
        return
    ranked = _ranked(run)
    lost = [name for name in ranked if name not in models]
    if lost:
        weights = run.weights_names
        made = [f"the weights {', '.join(weights)} that were fitted on them", *_shown(run)] if weights else _shown(run)
        raise InputError(
            f"{run.path} has ranks of {', '.join(ranked)}. A run of {', '.join(models)} would replace "
            f"{_listed(['these ranks', *made])}, without {', '.join(lost)}. Choose another run with `run=PATH`, or "
            f"pass `force=rank` to replace them."
        )
    compared = [] if "search" in repeated else _compared(run)
    lost = [name for name in compared if name not in methods]
    if lost:
        raise InputError(
            f"{run.path} compares the methods {', '.join(compared)}. A run with {', '.join(methods)} would replace "
            f"{_listed(_shown(run))}, without {', '.join(lost)}. Choose another run with `run=PATH`, or pass "
            f"`force=search` to replace them."
        )


def _ranked(run: Run) -> list[str]:
    """Return the models of the run's ranks; damaged ranks have none to lose."""
    found: dict[str, None] = {}
    for split in EVALUATED:
        with suppress(InputError):
            found |= dict.fromkeys(run.ranks(split).models)
    return list(found)


def _compared(run: Run) -> list[str]:
    """Return the methods of the run's comparison; a damaged one has none to lose."""
    with suppress(InputError):
        comparison = kept_comparison(run)
        return [] if comparison is None else [name.removesuffix(" (ensemble)") for name in comparison.weights]
    return []


def _shown(run: Run) -> list[str]:
    """Return what a run has to show its results."""
    report = [] if page_comparison(run) is None else ["the report"]
    return ["the comparison", *report] if run.comparison_path.is_file() else report


def _listed(parts: list[str]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last
