"""Inputs: the values that weights are applied to. Each module holds one; see ``base`` for how to write another."""

from relens.ensemble.grid import MODEL_LIMIT
from relens.ensemble.inputs.base import Input
from relens.errors import RanksError
from relens.packs.pack import PackedRanks
from relens.registry import Registry

INPUTS: Registry[Input] = Registry("input", "inputs", Input, __name__)  # type: ignore[type-abstract]  # a base class


def available_inputs(packed: PackedRanks) -> tuple[Input, ...]:
    """Return the inputs that ``packed`` has the data for."""
    return tuple(input for input in INPUTS.values() if packed.gaps is not None or not input.needs_gaps)


def check_input(input: Input, packed: PackedRanks) -> None:
    """Raise an error if ``packed`` lacks the data for an input, or has too many models."""
    if input.needs_gaps and packed.gaps is None:
        others = ", ".join(other.name for other in available_inputs(packed))
        raise RanksError(
            f"input {input.name!r} needs score gaps, and these packed ranks have none. "
            f"Pack the models' scores with gaps, or choose one of {others}."
        )
    if packed.n_models > MODEL_LIMIT:
        raise RanksError(f"{packed.n_models} models are too many for exact sums: the most is {MODEL_LIMIT}")
