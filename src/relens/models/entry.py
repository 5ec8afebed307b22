"""Entries of the table of models: the name, description, options and capabilities of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from relens.errors import InputError
from relens.models.base import KGEModel
from relens.models.embedding import EmbeddingModel
from relens.models.options import option_defaults, resolve_options
from relens.registry import AFTER_OURS


@dataclass(frozen=True, eq=False)
class ModelEntry:
    """A model that users choose by name. Options are the keyword arguments of the class's constructor.

    Attributes:
        name: what users type, in lower case.
        model: the class.
        description: one line for help texts and docs.
        order: position in lists.
        presets: settings of a model outside relens, by preset, then by data set (or ``default``), then by key, as in
            the files of ``relens.presets``. relens's own models have their settings in those files.
    """

    name: str
    model: type[KGEModel]
    description: str
    order: int = AFTER_OURS
    presets: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def needs_triples(self) -> bool:
        """Whether the model is built from the training triples."""
        return self.model.needs_triples

    @property
    def propagates(self) -> bool:
        """Whether the model explains its scores by paths, and reads graphs that it was not trained on."""
        return self.model.propagates

    @property
    def has_tables(self) -> bool:
        """Whether the model has tables of entity and relation embeddings, for regularisers and initialisers."""
        return issubclass(self.model, EmbeddingModel)

    @property
    def scores_relations(self) -> bool:
        """Whether the model can be trained to predict relations."""
        return (
            issubclass(self.model, EmbeddingModel) and self.model.score_relations is not EmbeddingModel.score_relations
        )

    @property
    def options(self) -> dict[str, Any]:
        """The default of each option."""
        return option_defaults(self.model.__init__)

    def resolve_options(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Return all options: the given ones, checked, and defaults for the others."""
        return resolve_options(self.model.__init__, given, self.model.__name__)

    def build(
        self,
        n_entities: int,
        n_relations: int,
        options: Mapping[str, object] | None = None,
        triples: Tensor | None = None,
    ) -> KGEModel:
        """Return a model whose parameters are not drawn yet.

        Args:
            n_entities: E.
            n_relations: R.
            options: the options that differ from their defaults.
            triples: of train, (n, 3) ids; only needed if ``needs_triples``.
        """
        construct: Callable[..., KGEModel] = self.model
        resolved = self.resolve_options(options or {})
        if not self.needs_triples:
            return construct(n_entities, n_relations, **resolved)
        if triples is None:
            raise InputError(f"{self.model.__name__} encodes the training graph: pass `triples=…`")
        return construct(n_entities, n_relations, triples, **resolved)
