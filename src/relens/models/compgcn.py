"""CompGCN (Vashishth et al., 2020): entities are encoded from their neighbours, a ConvE-like network decodes."""

from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from relens.errors import InputError
from relens.models.base import Drop, keep_all
from relens.models.embedding import EmbeddingModel, Encoded, dot_scores, xavier_normal
from relens.models.entry import ModelEntry
from relens.models.graph import Composition, Edges, GraphLayer
from relens.models.layers import ChannelNorm
from relens.models.lookup import lookup
from relens.models.options import Probability, Range, Size


class CompGCN(EmbeddingModel):
    """s = ⟨f(x_h, z_r), x_t⟩ + bias_t, where x and z are the output of one or two graph layers.

    Anchors and candidates are rows of one dropped-out entity matrix per call of ``encode``. The output of the second
    layer has the dropout of the decoder's features, as in the first implementation. ``height`` is the image's height.
    """

    needs_triples: ClassVar[bool] = True
    rowwise: ClassVar[bool] = True

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        triples: Tensor,
        *,
        dim: Size = 200,
        init_dim: Size = 100,
        layers: Annotated[int, Range(1, 3)] = 2,
        composition: Composition = "corr",
        layer_dropout: Probability = 0.1,
        entity_dropout: Probability = 0.3,
        feature_dropout: Probability = 0.3,
        hidden_dropout: Probability = 0.3,
        filters: Size = 200,
        kernel: Size = 7,
        height: Size = 20,
    ) -> None:
        super().__init__(n_entities, n_relations, shared_inverse=False)
        width = 2 * dim // height
        if 2 * dim % height or min(height, width) < kernel:
            raise InputError(
                f"`dim={dim}`, `height={height}` and `kernel={kernel}` of CompGCN: expected an image of 2·dim numbers "
                f"in height full rows, no side shorter than the kernel"
            )
        self.make_tables(init_dim, init_dim)
        self.edges = Edges(triples, n_entities, n_relations)
        self.layers = nn.ModuleList(
            GraphLayer(init_dim if i == 0 else dim, dim, composition, layer_dropout) for i in range(layers)
        )
        self.dropouts = nn.ModuleList(nn.Dropout(p) for p in (entity_dropout, feature_dropout)[:layers])
        self.image_shape = (1, height, width)
        self.image_norm = ChannelNorm(1)
        self.convolution = nn.Conv2d(1, filters, kernel, bias=False)
        self.features = nn.Sequential(ChannelNorm(filters), nn.ReLU(), nn.Dropout(feature_dropout))
        self.linear = nn.Linear(filters * (height - kernel + 1) * (width - kernel + 1), dim)
        self.hidden = nn.Sequential(nn.Dropout(hidden_dropout), nn.BatchNorm1d(dim), nn.ReLU())
        self.bias = nn.Parameter(torch.zeros(n_entities))

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        """Draw tables and the graph layers' matrices with Xavier's normal; ``initialiser`` is not used."""
        super().initialise("x_norm", generator)
        for layer in self.modules():
            if isinstance(layer, GraphLayer):
                for matrix in layer.matrices():
                    xavier_normal(matrix, generator)

    def graph(self) -> tuple[Tensor, Tensor]:
        """Return the encoded entities (E, q) and relations (2R, q), kept at evaluation until a parameter changes."""
        return self.kept(self._graph)

    def _graph(self) -> tuple[Tensor, Tensor]:
        x, z = self.entity, self.relation
        for layer, dropout in zip(self.layers, self.dropouts, strict=True):
            x, z = layer(x, z, self.edges)
            x = dropout(x)
        return x, z

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Encode the graph, then decode the interleaved rows of anchor and relation; ``drop`` is not used."""
        del drop
        x, z = self.graph()
        image = torch.stack([lookup(x, anchor), lookup(z, relation)], dim=2).view(-1, *self.image_shape)
        features = self.features(self.convolution(self.image_norm(image)))
        return Encoded(self.hidden(self.linear(features.flatten(1))), relation, (), x)

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by dot product with the encoded entities, plus their bias; see ``KGEModel.score``."""
        del drop
        assert queries.table is not None
        return dot_scores(queries.vector, queries.table, candidates, keep_all, self.bias)


COMPGCN = ModelEntry(
    "compgcn",
    CompGCN,
    "a graph network encodes entities, a convolutional one decodes (Vashishth et al., 2020)",
    order=6,
)
