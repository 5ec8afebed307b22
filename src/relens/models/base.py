"""The contract of every model: encode queries, and score candidates for them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from relens.errors import InputError
from relens.models.layers import reset_layers

if TYPE_CHECKING:
    from relens.models.paths import Path

Drop = Callable[[Tensor], Tensor]
"""Embedding dropout, applied to looked-up rows; the identity at evaluation."""
Objective = Callable[[Tensor], Tensor]
"""A function from the examples of a batch, (B,) int64, to the number that training minimises, ()."""


def keep_all(rows: Tensor) -> Tensor:
    """Drop nothing."""
    return rows


def current(device: torch.device) -> AbstractContextManager[None]:
    """Make a GPU the current device of this thread; Triton kernels and recorded steps run on the current device.

    Code that trains or scores enters this context itself, because it may run in any thread: a service predicts in
    another thread than the one it was started in.
    """
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


class TrainingExamples(Protocol):
    """The training queries as a model sees them; ``relens.training.queries.TrainingQueries`` implements this.

    Attributes:
        anchor: ids, (Q,) int64.
        relation: directed ids, (Q,) int64.
        answer: ids, (Q,) int64.
    """

    @property
    def anchor(self) -> Tensor:  # noqa: D102
        ...

    @property
    def relation(self) -> Tensor:  # noqa: D102
        ...

    @property
    def answer(self) -> Tensor:  # noqa: D102
        ...

    def known(self, anchor: Tensor, relation: Tensor, candidates: Tensor) -> Tensor:
        """Say which candidates (C, P) are training answers of B queries, (B, P) bool."""
        ...


class KGEModel(nn.Module, ABC):
    """A model of a graph with E entities and R relations.

    Queries are pairs (anchor, directed relation): relation r asks for tails, r + R for heads. Scores are unbounded,
    higher is better. A model need not have an embedding per entity; those that do extend ``EmbeddingModel``.
    """

    needs_triples: ClassVar[bool] = False
    """Whether the constructor takes the training triples, (n, 3) ids, after the two counts."""
    propagates: ClassVar[bool] = False
    """Whether scores travel from the anchor along edges, and nothing is learnt about single entities.

    Such a model explains its scores by paths (``explain``), and reads graphs that it was not trained on (``read``).
    """

    def __init__(self, n_entities: int, n_relations: int) -> None:
        super().__init__()
        self.n_entities = n_entities
        self.n_relations = n_relations

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        """Draw all parameters; here, those of layers with PyTorch's defaults.

        A model with parameters outside layers draws them, too. ``initialiser`` names the initialiser of embedding
        tables; None is the model's own. Call this on the CPU, before the model is moved: a seed then gives the same
        parameters on every device.
        """
        del initialiser
        reset_layers(self, generator)

    @abstractmethod
    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Any:
        """Encode B queries; ``anchor`` and directed ``relation`` are (B,) ids.

        The result may be any object: only ``score`` of the same model reads it.
        """

    @abstractmethod
    def score(self, queries: Any, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score candidates of B encoded queries.

        ``candidates`` is None for all entities (result (B, E)), or ids (C, P): the queries then form C chunks of
        B/C consecutive ones, and each chunk is scored against its own P candidates (result (B, P)). C = B gives
        each query its own candidates, C = 1 one pool for all.
        """

    def encode_examples(
        self, queries: TrainingExamples, examples: Tensor, drop: Drop = keep_all, *, all_answers: bool = False
    ) -> Any:
        """Encode B training queries, given as places among all, (B,), for a loss that asks for their answers.

        The loss asks for one answer of each, that of the example, or for all that are known.
        A model overrides this if it must not see the answers, for instance to hide their edges while it propagates
        along the others.
        """
        return self.encode(queries.anchor[examples], queries.relation[examples], drop)

    def training_objective(self, queries: TrainingExamples, settings: Any) -> Objective | None:
        """Return the model's own objective, or None for the loss of the settings.

        A model overrides this if none of these losses suits it. Examples are as above. ``settings`` is the
        ``relens.training.settings.TrainSettings`` of the run. On CUDA the objective is recorded as a graph: shapes may
        not depend on values.
        """
        del queries, settings
        return None

    def explain(self, anchor: int, relation: int, answer: int, limit: int) -> "list[Path]":
        """Return the paths from an anchor to an answer that carried its score, at most ``limit``, best first.

        ``relation`` is directed. A model that does not propagate has no paths.
        """
        del anchor, relation, answer, limit
        return []

    def read(self, triples: Tensor, n_entities: int) -> None:
        """Replace the graph that a model propagates along by triples (n, 3) of E entities; relations stay the same."""
        raise InputError(f"{type(self).__name__} learnt its entities in training, and cannot read another graph")

    def tables_with_gradient_in_place(self) -> tuple[nn.Parameter, ...]:
        """Return the parameters whose gradients exist before the backward pass, which adds to them in place.

        See ``relens.models.lookup``. The other parameters get their gradients from PyTorch.
        """
        return ()

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    @property
    def n_parameters(self) -> int:
        """The number of trainable numbers."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    @property
    def bytes_per_query(self) -> int:
        """Bytes that one query takes while it is encoded, apart from those of its candidates."""
        return 0

    @property
    def bytes_per_candidate(self) -> int:
        """Bytes that one candidate of one query takes while it is scored among given candidates."""
        return 4
