"""ConvE (Dettmers et al., 2018): a small convolutional network reads anchor and relation as an image."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from relens.errors import InputError
from relens.models.base import Drop, keep_all
from relens.models.embedding import EmbeddingModel, Encoded, dot_scores
from relens.models.entry import ModelEntry
from relens.models.layers import ChannelNorm
from relens.models.lookup import lookup
from relens.models.options import Probability, Size

KERNEL = 3


class ConvE(EmbeddingModel):
    """s = ⟨f(h, r), t⟩ with f = image → convolution → linear layer.

    With ``shared_inverse``, queries for heads and for tails use the same vector, not inverted (KGTuner). ``original``
    is the layout of the first publication: batch norm of the image, and a bias per entity. Anchor and relation fill
    ``height`` rows of the image each.
    """

    rowwise: ClassVar[bool] = True

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        *,
        dim: Size = 500,
        shared_inverse: bool = True,
        original: bool = False,
        height: Size = 20,
        channels: Size = 32,
        image_dropout: Probability = 0.0,
        feature_dropout: Probability = 0.0,
        hidden_dropout: Probability = 0.0,
    ) -> None:
        super().__init__(n_entities, n_relations, shared_inverse=shared_inverse)
        width = dim // height
        if dim % height or width < KERNEL or 2 * height < KERNEL:
            raise InputError(
                f"`dim={dim}` and `height={height}` of ConvE: expected a height of at least 2, and a dim that is a "
                f"multiple of it, at least {KERNEL} times"
            )
        self.make_tables(dim, dim)
        self.image_shape = (1, height, width)
        self.bias = nn.Parameter(torch.zeros(n_entities)) if original else None
        self.image = nn.Sequential(ChannelNorm(1) if original else nn.Identity(), nn.Dropout(image_dropout))
        self.convolution = nn.Conv2d(1, channels, KERNEL, bias=False)
        self.features = nn.Sequential(ChannelNorm(channels), nn.ReLU(), nn.Dropout2d(feature_dropout))
        self.linear = nn.Linear(channels * (2 * height - KERNEL + 1) * (width - KERNEL + 1), dim)
        self.hidden = nn.Sequential(nn.Dropout(hidden_dropout), nn.BatchNorm1d(dim), nn.ReLU())

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Encoded:
        """Run the network on the images, the anchor's above the relation's."""
        row, _ = self.relation_rows(relation)
        rows = drop(lookup(self.entity, anchor)), drop(lookup(self.relation, row))
        image = torch.cat([torch.unflatten(part, 1, self.image_shape) for part in rows], dim=2)
        features = self.features(self.convolution(self.image(image)))
        return Encoded(self.hidden(self.linear(features.flatten(1))), relation, rows)

    def score(self, queries: Encoded, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by dot product; see ``KGEModel.score``."""
        return dot_scores(queries.vector, self.entity, candidates, drop, self.bias)


CONVE = ModelEntry("conve", ConvE, "a convolutional network reads anchor and relation (Dettmers et al., 2018)", order=5)
