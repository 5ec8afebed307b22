"""NBFNet (Zhu et al., 2021): messages along the edges, from the anchor to every entity; there is no entity table."""

from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from relens.errors import InputError
from relens.models import cpu_propagation
from relens.models.base import Drop, KGEModel, Objective, TrainingExamples, keep_all
from relens.models.edge_gradients import Trace, Walks
from relens.models.entry import ModelEntry
from relens.models.options import Probability, Range, Size
from relens.models.paths import Path, best_paths
from relens.models.propagation import Aggregate, Graph, LayerTensors, propagate

EdgeVectors = Literal["dependent", "independent"]
"""Whether the vectors of edges are made from the query's relation, or are the same for all queries."""
Removed = Literal["triple", "pair"]
"""The edges removed with a target: its triple and the inverse, or every edge between the two entities."""
OVER_ALL = "1vsall"
"""The loss that is the model's own: cross-entropy over all entities, with several targets per query."""


class Layer(nn.Module):
    """The parameters of one layer, for states of d numbers and 2R directed relations."""

    def __init__(self, width: int, n_relations: int, aggregate: Aggregate, edge_vectors: EdgeVectors) -> None:
        super().__init__()
        self.n_relations, self.width = n_relations, width
        self.linear = nn.Linear((13 if aggregate == "pna" else 2) * width, width)
        self.norm = nn.LayerNorm(width)
        dependent = edge_vectors == "dependent"
        self.edge = None if dependent else nn.Parameter(torch.empty(2 * n_relations, width))
        self.edge_of_query = nn.Linear(width, 2 * n_relations * width) if dependent else None

    def tensors(self, query: Tensor, drop: Drop) -> LayerTensors:
        """Return the layer's tensors for queries with vectors (B, d); ``drop`` applies to edge vectors."""
        if self.edge_of_query is None:
            assert self.edge is not None
            edge: Tensor = self.edge
        else:
            shape = 2 * self.n_relations, self.width, -1
            weight, bias = self.edge_of_query.weight.view(shape), self.edge_of_query.bias.view(shape)
            vectors = query.expand(2 * self.n_relations, *query.shape)
            edge = torch.baddbmm(bias.transpose(1, 2), vectors, weight.transpose(1, 2))  # (2R, B, d)
        return LayerTensors(drop(edge), self.linear.weight.T, self.linear.bias, self.norm.weight, self.norm.bias)


class Reached(NamedTuple):
    """The states of all entities, for B queries.

    Attributes:
        states: of every entity after the last layer, (N, B, d); bfloat16 where the kernels ran.
        query: the queries' vectors, (B, d).
    """

    states: Tensor
    query: Tensor


class NBFNet(KGEModel):
    """Scores of entities from states that travel from the anchor along the training edges.

    The query's vector starts at the anchor; after all layers a small network scores every entity's state beside the
    query's vector, in float32 whatever the states are stored in: scores of 8 bits would be tied where they are not.

    In training, the edges of the targets are removed for the whole batch (``removal``), with a share ``drop_edges`` of
    all others. With cross-entropy over all entities, targets are the drawn answer and a share ``target_share`` of the
    query's other known answers; the known answers that are left stay as edges, and do not compete.
    """

    needs_triples: ClassVar[bool] = True
    propagates: ClassVar[bool] = True

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        triples: Tensor,
        *,
        width: Size = 32,
        layers: Annotated[int, Range(1, 33)] = 6,
        aggregate: Aggregate = "pna",
        edge_vectors: EdgeVectors = "dependent",
        removal: Removed = "triple",
        target_share: Probability = 0.3,
        drop_edges: Probability = 0.0,
    ) -> None:
        super().__init__(n_entities, n_relations)
        self.removal, self.target_share, self.drop_edges = removal, target_share, drop_edges
        self.graph = Graph(triples, n_entities, n_relations)
        self.query = nn.Parameter(torch.empty(2 * n_relations, width))
        self.layers = nn.ModuleList(Layer(width, n_relations, aggregate, edge_vectors) for _ in range(layers))
        self.hidden = nn.Linear(2 * width, 2 * width)
        self.last = nn.Linear(2 * width, 1)

    def initialise(self, initialiser: str | None, generator: torch.Generator) -> None:
        """Draw vectors from N(0, 1), and layers with PyTorch's defaults."""
        super().initialise(initialiser, generator)
        nn.init.normal_(self.query, generator=generator)
        for layer in self.layers:
            if isinstance(layer, Layer) and layer.edge is not None:
                nn.init.normal_(layer.edge, generator=generator)

    def encode(self, anchor: Tensor, relation: Tensor, drop: Drop = keep_all) -> Reached:
        """Propagate B queries along all edges; ``drop`` applies to the vectors of edges."""
        return self.reach(anchor, relation, drop=drop)

    def reach(self, anchor: Tensor, relation: Tensor, removed: Tensor | None = None, drop: Drop = keep_all) -> Reached:
        """Propagate B queries along the edges where ``removed`` (E,) is zero; see ``Graph`` for their order."""
        query = self.query[relation]
        layers = [layer.tensors(query, drop) for layer in self.layers if isinstance(layer, Layer)]
        states = propagate(query, anchor, layers, self.graph, self.graph.without(removed, query.dtype))
        return Reached(states, query)

    def score(self, queries: Reached, candidates: Tensor | None = None, drop: Drop = keep_all) -> Tensor:
        """Score by the state and the query's vector; ``drop`` applies to the hidden layer. See ``KGEModel.score``."""
        states, query = queries
        of_state, of_query = self.hidden.weight.tensor_split(2, dim=1)
        # The query's half of the first layer is the same for all entities.
        offset = query @ of_query.T + self.hidden.bias
        if candidates is not None:
            rows = candidates.repeat_interleave(len(query) // len(candidates), dim=0)
            states = states[rows.T, torch.arange(len(query), device=query.device)]  # (P, B, d)
        if cpu_propagation.usable(query) and drop is keep_all:
            return cpu_propagation.hidden_scores(states, of_state, offset, self.last.weight[0], self.last.bias)
        hidden = drop((states.to(query.dtype) @ of_state.T + offset).relu_())
        scores: Tensor = hidden @ self.last.weight[0] + self.last.bias
        return scores.T

    def explain(self, anchor: int, relation: int, answer: int, limit: int) -> list[Path]:
        """Search paths by the gradient of the score; see ``relens.models.paths``."""
        return best_paths(*self.edge_gradients(anchor, relation, answer), limit)

    def edge_gradients(self, anchor: int, relation: int, answer: int) -> tuple[Walks, npt.NDArray[np.float64]]:
        """Return the edges on walks to an answer, and the gradients of its score by their factors, (L, m).

        Everything but the score itself is computed on the CPU; see ``relens.models.edge_gradients``.
        """
        query = self.query[[relation]].detach()
        layers = [layer.tensors(query, keep_all) for layer in self.layers if isinstance(layer, Layer)]
        trace = Trace(query, anchor, layers, self.graph)
        with torch.enable_grad():
            state = trace.states[-1][answer].to(self.device).requires_grad_()
            only = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
            score = self.score(Reached(state.view(1, 1, -1), query), only).squeeze()
            (of_answer,) = torch.autograd.grad(score, state)
        walks = Walks(self.graph, anchor, answer, len(layers))
        return walks, trace.gradients(of_answer.cpu(), walks)

    def read(self, triples: Tensor, n_entities: int) -> None:
        """Propagate along other triples from now on; no parameter belongs to an entity."""
        self.n_entities = n_entities
        self.graph = Graph(triples, n_entities, self.n_relations).to(self.device)

    def encode_examples(
        self, queries: TrainingExamples, examples: Tensor, drop: Drop = keep_all, *, all_answers: bool = False
    ) -> Reached:
        """Propagate training queries without the edges of their answers."""
        drawn = queries.anchor[examples], queries.relation[examples], queries.answer[examples]
        return self.reach(*drawn[:2], self._targets(drawn, 1.0 if all_answers else 0.0).removed, drop)

    def training_objective(self, queries: TrainingExamples, settings: Any) -> Objective | None:
        """Return the cross-entropy over all entities; the other losses are those of the settings."""
        if settings.loss != OVER_ALL:
            return None
        for name in ("label_smoothing", "row_weights"):
            if getattr(settings, name):
                raise InputError(f"`{name}={getattr(settings, name)}`, but NBFNet's `loss={OVER_ALL}` has no such term")
        drop: Drop = partial(functional.dropout, p=settings.dropout) if settings.dropout else keep_all

        def objective(examples: Tensor) -> Tensor:
            drawn = queries.anchor[examples], queries.relation[examples], queries.answer[examples]
            batch = self._targets(drawn, self.target_share)
            return cross_entropy(self.score(self.reach(*drawn[:2], batch.removed, drop), None, drop), batch)

        return objective

    def _targets(self, drawn: tuple[Tensor, Tensor, Tensor], share: float) -> "Targets":
        return choose_targets(drawn, self.graph, share, self.removal, self.drop_edges)

    @property
    def bytes_per_query(self) -> int:
        """Bytes of all entities' states, their statistics and the hidden layer, for one query."""
        return 40 * self.n_entities * self.query.shape[1]

    @property
    def bytes_per_candidate(self) -> int:
        """Bytes of a candidate's state and its hidden layer."""
        return 20 * self.query.shape[1]


class Targets(NamedTuple):
    """The targets of B training queries in one step.

    Attributes:
        answer: known answers of each query, padded, (B, K).
        target: which of them the query should find, (B, K).
        other: which of them are neither right nor wrong in this step, (B, K).
        removed: edges that are hidden in this step, (E,) bool.
    """

    answer: Tensor
    target: Tensor
    other: Tensor
    removed: Tensor


def choose_targets(
    queries: tuple[Tensor, Tensor, Tensor], graph: Graph, share: float, removal: Removed, drop_edges: float = 0.0
) -> Targets:
    """Choose the targets of B training queries, and the edges to remove; shapes do not depend on the values.

    Targets are the drawn answer and a random ``share`` of the other known ones. Edges of all targets are removed for
    the whole batch, and a random share ``drop_edges`` of all triples, or pairs.

    Args:
        queries: anchors, directed relations and drawn answers, (B,) each; every one is an edge of the graph.
    """
    anchor, relation, drawn = queries
    place, counts = graph.answers(anchor, relation)
    answer = graph.source[place].long()
    chosen = torch.rand(place.shape, device=place.device) < share
    target = counts & (chosen | (answer == drawn.unsqueeze(1)))
    group, n_groups = (graph.triple, graph.n_triples) if removal == "triple" else (graph.pair, graph.n_pairs)
    # One more group takes what is not to be removed: no shape depends on how many are.
    gone = torch.zeros(n_groups + 1, dtype=torch.bool, device=place.device)
    if drop_edges:
        gone = torch.rand(n_groups + 1, device=place.device) < drop_edges
    gone.index_fill_(0, group[place].where(target, n_groups).flatten().long(), True)
    return Targets(answer, target, counts & ~target, gone[group])


def cross_entropy(scores: Tensor, targets: Targets) -> Tensor:
    """Return the cross-entropy over all entities, averaged over each query's targets, then over queries.

    ``scores`` is (B, N). Other known answers do not compete.
    """
    n_rows, n_entities = scores.shape
    hidden = torch.zeros(n_rows, n_entities + 1, dtype=torch.bool, device=scores.device)
    hidden = hidden.scatter(1, targets.answer.where(targets.other, n_entities), True)
    # A triple may be given twice: where it is a target once, it is not hidden.
    hidden = hidden.scatter(1, targets.answer.where(targets.target, n_entities), False)
    logarithm = functional.log_softmax(scores.masked_fill(hidden[:, :-1], float("-inf")), dim=1)
    found = logarithm.gather(1, targets.answer).where(targets.target, 0)
    return -(found.sum(dim=1) / targets.target.sum(dim=1)).mean()


NBFNET = ModelEntry(
    "nbfnet", NBFNet, "scores an entity by the messages that reach it along the edges (Zhu et al., 2021)", order=12
)
