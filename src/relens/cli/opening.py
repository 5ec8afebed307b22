"""Open the ensemble of a run: the options of all commands that ask it, and what is noted about it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from relens.cli.console import note
from relens.cli.options import device_option, restriction_option, run_argument, trust_option, weights_option
from relens.prediction import Ensemble
from relens.runs import Run

F = TypeVar("F", bound=Callable[..., Any])

facts_option = click.option(
    "--facts", type=click.Path(path_type=Path), metavar="FILE",
    help="More facts, also of new entities: lines 'head TAB relation TAB tail'; .gz too. Models that propagate "
    "(nbfnet) read them, the others abstain on new entities.",
)  # fmt: skip


def loading_options(command: F) -> F:
    """Add the argument RUN, and the options that say how its models are loaded."""
    return run_argument(weights_option(device_option(trust_option(command))))


def opening_options(command: F) -> F:
    """Add the argument RUN, and all options that say how its ensemble is opened for questions."""
    return loading_options(facts_option(restriction_option(command)))


def open_ensemble(options: Mapping[str, Any]) -> Ensemble:
    """Open the ensemble that options ask for; note given facts, and other candidates or another device than before."""
    run = Run.open(options["run_path"])
    ensemble = Ensemble.open(
        run,
        options["name"],
        options["device"],
        facts=options.get("facts"),
        candidates=options.get("candidates"),
        trust=options["trust"],
    )
    among = "all" if ensemble.restriction is None else ensemble.restriction.name
    if ensemble.weights.fitted_among_others(among):
        note(
            f"the weights were fitted on ranks among other candidates ({ensemble.weights.candidates}) than these "
            f"({among}), so there is no confidence"
        )
    if ensemble.facts is not None:
        note(ensemble.facts.describe())
    ranked, used = (run.made_by() or {}).get("device"), str(ensemble.models.device).partition(":")[0]
    if ranked not in (None, used):
        note(
            f"{run.path} was ranked on {ranked}, its models now run on {used}: scores may differ in the last bit, so "
            f"ranks may differ from those of the evaluation"
        )
    return ensemble
