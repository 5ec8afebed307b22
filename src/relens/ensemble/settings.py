"""The settings of a search: checked when made, and described beside each field."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from relens.ensemble.inputs import INPUTS, available_inputs, check_input
from relens.ensemble.inputs.base import Input
from relens.ensemble.inputs.rank import RANK
from relens.ensemble.methods import METHODS
from relens.ensemble.methods.base import Method
from relens.ensemble.regularisation import KAPPAS
from relens.ensemble.searchers import SEARCHERS
from relens.ensemble.searchers.base import Searcher
from relens.errors import InputError, nearest
from relens.options import Option, option_of
from relens.packs.pack import PackedRanks

AUTO = "auto"
"""Leaves a choice to cross-validation."""


@dataclass(frozen=True)
class SearchSettings:
    """How weights are found. ``relens.search`` takes the fields as arguments, and the entries of ``options``, too.

    Attributes:
        options: values of the options that the method and the searcher declare themselves.
    """

    method: str = Option("How weights are found.", "dsc", table=METHODS).field()
    searcher: str = Option("How a weight vector is searched.", "sweep", table=SEARCHERS).field()
    input: str = Option(
        "What the weights are applied to. auto: cross-validation chooses, if the searcher can be used for that; "
        "otherwise the rank.",
        AUTO, table=INPUTS, words=(AUTO,),
    ).field()  # fmt: skip
    regularise: str | float = Option(
        "Strength of the shrinkage of a group's weights towards the global ones. auto: cross-validation chooses, if "
        "the searcher can be used for that; otherwise none.",
        AUTO, metavar="auto|none|KAPPA",
    ).field()  # fmt: skip
    group: str = Option(
        "Which queries share weights; FILE has lines 'relation TAB group'.",
        "relation-direction", metavar="relation-direction|relation|FILE",
    ).field()  # fmt: skip
    fallback: str = Option(
        "Weights of groups without validation queries.", "global", words=("global", "uniform")
    ).field()  # fmt: skip
    trials: int = Option(
        "Samples of each search.", 100, int, minimum=1,
        users=lambda: [searcher.name for searcher in SEARCHERS.values() if searcher.samples],
    ).field()  # fmt: skip
    seed: int = Option("Root of all randomness.", 0, int, minimum=0).field()
    max_models: int | None = Option(
        "Most models with a weight in a group; few make predictions cheap.", None, int, minimum=1, unset="all"
    ).field()  # fmt: skip
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, option in setting_options().items():
            option.check(name, getattr(self, name))
        if self.max_models is not None and self.fallback == "uniform":
            raise InputError("fallback 'uniform' gives every model a weight: with max_models the fallback is 'global'")
        own = self.own_options()
        for name, value in self.options.items():
            if name not in own:
                hint = nearest(name, [*setting_options(), *own])
                raise InputError(
                    f"neither the method {self.method!r} nor the searcher {self.searcher!r} has an option {name!r}; "
                    f"{hint}"
                )
            own[name].check(name, value)
        self.method_entry.check_searcher(self.searcher_entry)
        self._asked_strengths()

    @property
    def method_entry(self) -> Method:
        """The method itself."""
        return METHODS[self.method]

    @property
    def searcher_entry(self) -> Searcher:
        """The searcher itself."""
        return SEARCHERS[self.searcher]

    def own_options(self) -> dict[str, Option]:
        """Return the options that the method and the searcher declare, by name."""
        return {**self.searcher_entry.options, **self.method_entry.options}

    def own_values(self) -> dict[str, Any]:
        """Return the values of these options: those set, and the defaults of the others."""
        return {name: self.options.get(name, option.default) for name, option in self.own_options().items()}

    def arguments(self) -> dict[str, Any]:
        """Return the settings as keyword arguments of ``relens.search``."""
        return {name: getattr(self, name) for name in setting_options()} | dict(self.options)

    def default_name(self) -> str:
        """Return how the weights are called unless told otherwise: the method, and a searcher that is not the default.

        A method that does not search is called by its name alone.
        """
        plain = self.searcher == setting_options()["searcher"].default or not self.method_entry.searches
        return self.method if plain else f"{self.method}-{self.searcher}"

    def kappas(self) -> tuple[float, ...]:
        """Return the strengths of shrinkage to choose from."""
        return self.method_entry.strengths(self._asked_strengths())

    def _asked_strengths(self) -> tuple[float, ...]:
        if self.regularise == AUTO:
            return KAPPAS if self.searcher_entry.cross_validates else (0.0,)
        try:
            kappa = 0.0 if self.regularise == "none" else float(self.regularise)
        except (TypeError, ValueError):
            kappa = math.nan
        if not kappa >= 0:
            raise InputError(f"regularise is {self.regularise!r}, expected auto, none, or a number κ of at least 0")
        return (kappa,)

    def inputs(self, packed: PackedRanks) -> tuple[Input, ...]:
        """Return the inputs to choose from."""
        if self.input != AUTO:
            chosen: tuple[Input, ...] = (INPUTS[self.input],)
        elif self.method_entry.cross_validated and self.searcher_entry.cross_validates:
            chosen = available_inputs(packed)
        else:
            chosen = (RANK,)
        for input in chosen:
            check_input(input, packed)
        return chosen


def setting_options() -> dict[str, Option]:
    """Return the option behind each field of ``SearchSettings``, by name."""
    return {found.name: option_of(found) for found in fields(SearchSettings) if "option" in found.metadata}


def declared_options() -> dict[str, Option]:
    """Return the options that any method or searcher declares itself, by name."""
    entries: list[Method | Searcher] = [*SEARCHERS.values(), *METHODS.values()]
    return {name: option for entry in entries for name, option in entry.options.items()}
