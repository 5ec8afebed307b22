"""The models: one file each, which holds the class and its entry, and the table of all of them.

A module of this package may import nothing heavier than torch, because the table imports all of them; Triton kernels
are in ``relens.models.fused``. Other distributions add models through the entry-point group ``relens.models``.
"""

from relens.models.base import KGEModel, keep_all
from relens.models.embedding import EmbeddingModel, Encoded, dot_scores
from relens.models.entry import ModelEntry
from relens.models.lookup import lookup
from relens.models.options import Size
from relens.registry import Registry

__all__ = [
    "MODELS",
    "EmbeddingModel",
    "Encoded",
    "KGEModel",
    "ModelEntry",
    "Size",
    "dot_scores",
    "keep_all",
    "lookup",
]

MODELS = Registry("model", "models", ModelEntry, __name__)
