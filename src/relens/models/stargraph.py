"""StarGraph (Li et al., 2022): entities are encoded from neighbours and anchors, and scored like TripleRE."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from relens.errors import InputError
from relens.files import open_npy
from relens.models.base import Drop
from relens.models.entry import ModelEntry
from relens.models.lookup import lookup
from relens.models.options import Margin, Number, Probability, Size
from relens.models.token_model import TokenModel, rows_or_zeros
from relens.models.tokens import TokenBlock, nearest_anchors, neighbours_of


class StarGraph(TokenModel):
    """``TokenModel`` whose tokens are the entity, neighbours of highest degree, and the anchors nearest to it.

    Entities are rows of ``entity``, mapped to d numbers, and anchors are rows of ``anchor``; missing tokens are zeros.
    Each token gets a vector of its kind added.

    ``features`` is the path of an array (E, f), ``.npy``, one row per entity in the order of the data set's labels.
    These rows, for instance texts encoded by a language model, replace ``entity`` and are not trained.
    """

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        triples: Tensor,
        *,
        dim: Size = 256,
        token_dim: Size = 32,
        neighbours: Number = 5,
        anchors: Size = 20_000,
        nearest: Size = 20,
        heads: Size = 8,
        token_dropout: Probability = 0.05,
        gamma: Margin = 6.0,
        relation_scale: Margin = 0.1,
        shared_inverse: bool = False,
        features: str | None = None,
    ) -> None:
        super().__init__(n_entities, n_relations, shared_inverse=shared_inverse)
        if dim % heads:
            raise InputError(f"`dim={dim}` of StarGraph: expected a multiple of `heads={heads}`")
        self.gamma, self.relation_scale = gamma, relation_scale
        self.make_tables(token_dim, 3 * dim)
        self.features = features
        if features is not None:
            self.entity = nn.Parameter(read_features(features), requires_grad=False)
        n_anchors = min(anchors, n_entities)
        self.anchor = nn.Parameter(torch.empty(n_anchors, dim))
        self.kind = nn.Parameter(torch.empty(3, dim))
        self.linear = nn.Linear(self.entity.shape[1], dim)
        self.block = TokenBlock(dim, heads, token_dropout)
        itself = torch.arange(n_entities, device=triples.device).unsqueeze(1)
        near = neighbours_of(triples, n_entities, neighbours)
        # Not persistent: the triples belong to the data set, not to the parameters.
        self.register_buffer("entity_tokens", torch.cat([itself, near], dim=1), persistent=False)
        self.register_buffer(
            "anchor_tokens", nearest_anchors(triples, n_entities, n_anchors, nearest), persistent=False
        )
        kinds = torch.tensor([0] + [1] * neighbours + [2] * nearest)
        self.register_buffer("kinds", kinds, persistent=False)

    entity_tokens: Tensor
    anchor_tokens: Tensor
    kinds: Tensor

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        """Draw all tables as ``TokenModel`` does, except features."""
        features = self.entity.detach().clone()
        if self.features is not None and len(features) != self.n_entities:
            raise InputError(
                f"{self.features} has {len(features)} rows, expected {self.n_entities}: one per entity, in the order "
                f"of the labels"
            )
        super().initialise(initialiser, generator)
        if self.features is not None:
            with torch.no_grad():
                self.entity.copy_(features)

    def tokens(self, entities: Tensor, drop: Drop) -> tuple[Tensor, None]:
        """Look up the tokens of entities (n,); see ``TokenModel.tokens``."""
        parts = (
            self.linear(drop(rows_or_zeros(self.entity, self.entity_tokens[entities]))),
            drop(rows_or_zeros(self.anchor, self.anchor_tokens[entities])),
        )
        return torch.cat(parts, dim=1) + lookup(self.kind, self.kinds), None


STARGRAPH = ModelEntry(
    "stargraph", StarGraph, "entities are encoded from neighbours and anchors (Li et al., 2022)", order=10
)


def read_features(path: str) -> Tensor:
    """Read an array (m, f) of finite numbers from an ``.npy`` file."""
    values = np.array(open_npy(Path(path)))
    if values.ndim != 2 or values.dtype.kind != "f" or values.dtype.itemsize > 8:
        found = f"{values.dtype} of shape {values.shape}"
        raise InputError(f"{path} holds {found}, expected an array of real numbers, one row per entity")
    if not np.isfinite(values).all():
        raise InputError(f"{path} holds non-finite numbers, expected finite features")
    return torch.from_numpy(values).to(torch.get_default_dtype())
