"""The base models: one file each, and the table they are found in."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from relens.errors import InputError, nearest
from relens.models import options as model_options
from relens.models.autoblm import AutoBLM
from relens.models.base import Drop, Encoded, KGEModel, keep_all
from relens.models.compgcn import CompGCN
from relens.models.complex import ComplEx
from relens.models.conve import ConvE
from relens.models.house import HousE
from relens.models.interht import InterHT
from relens.models.rotate import RotatE
from relens.models.stargraph import StarGraph
from relens.models.transe import TransE
from relens.models.triplere import TripleRE

__all__ = [
    "MODELS",
    "Drop",
    "Encoded",
    "KGEModel",
    "build",
    "keep_all",
    "relation_scorers",
    "resolve_name",
    "resolve_options",
]

MODELS: dict[str, type[KGEModel]] = {
    "transe": TransE,
    "rotate": RotatE,
    "house": HousE,
    "complex": ComplEx,
    "conve": ConvE,
    "compgcn": CompGCN,
    "autoblm": AutoBLM,
    "complex-rp": ComplEx,  # trained to predict relations, too: what differs stands in the presets
    "triplere": TripleRE,
    "stargraph": StarGraph,
    "interht": InterHT,
}


def resolve_name(name: str) -> str:
    """Return the key of a model in ``MODELS``; upper and lower case are the same."""
    if name.lower() not in MODELS:
        raise InputError(f"there is no model {name!r}: {nearest(name, MODELS)}")
    return name.lower()


def resolve_options(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Return all options of a model: those given, checked, and defaults for the others."""
    model = MODELS[resolve_name(name)]
    return model_options.resolve(model.__init__, options, model.__name__)


def relation_scorers() -> list[str]:
    """Return the names of the models that score relations."""
    return [name for name, model in MODELS.items() if model.score_relations is not KGEModel.score_relations]


def build(
    name: str,
    n_entities: int,
    n_relations: int,
    options: Mapping[str, object] | None = None,
    triples: Tensor | None = None,
) -> KGEModel:
    """Return a model by name, its tables still empty; ``triples`` (n, 3) are ids of train, for those that need them."""
    model = MODELS[resolve_name(name)]
    construct: Callable[..., KGEModel] = model
    resolved = resolve_options(name, options or {})
    if not model.needs_triples:
        return construct(n_entities, n_relations, **resolved)
    if triples is None:
        raise InputError(f"{model.__name__} encodes the training graph: pass the training triples")
    return construct(n_entities, n_relations, triples, **resolved)
