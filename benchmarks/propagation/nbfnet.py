"""NBFNet (Zhu et al., 2021): an entity is scored by what reaches it from the anchor; there is no entity table."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.propagation.graph import Aggregate, Graph, LayerTensors, propagate
from relens.models.layers import reset_layers
from relens.models.options import Size

EdgeVectors = Literal["dependent", "independent"]
"""Whether the vectors of edges are made from the query's relation, or are the same for all queries."""
Removed = Literal["triple", "pair"]
"""The edges removed with a target: its triple and the inverse, or every edge between the two entities."""


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

    def tensors(self, query: Tensor) -> LayerTensors:
        """Return what the layer computes with for queries with vectors (B, d)."""
        if self.edge_of_query is None:
            assert self.edge is not None
            edge: Tensor = self.edge
        else:
            shape = 2 * self.n_relations, self.width, -1
            weight, bias = self.edge_of_query.weight.view(shape), self.edge_of_query.bias.view(shape)
            vectors = query.expand(2 * self.n_relations, *query.shape)
            edge = torch.baddbmm(bias.transpose(1, 2), vectors, weight.transpose(1, 2))  # (2R, B, d)
        return LayerTensors(edge, self.linear.weight.T, self.linear.bias, self.norm.weight, self.norm.bias)


class NBFNet(nn.Module):
    """Scores of all entities from states that travel from the anchor along the training edges.

    Queries are pairs (anchor, directed relation). The query's vector starts at the anchor; after all layers a small
    network scores every entity's state beside the query's vector, in float32 whatever the states are stored in: scores
    of 8 bits would be tied where they are not.
    """

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        triples: Tensor,
        *,
        width: Size = 32,
        layers: Size = 6,
        aggregate: Aggregate = "pna",
        edge_vectors: EdgeVectors = "dependent",
    ) -> None:
        super().__init__()
        self.n_entities, self.n_relations = n_entities, n_relations
        self.graph = Graph(triples, n_entities, n_relations)
        self.query = nn.Parameter(torch.empty(2 * n_relations, width))
        self.layers = nn.ModuleList(Layer(width, n_relations, aggregate, edge_vectors) for _ in range(layers))
        self.hidden = nn.Linear(2 * width, 2 * width)
        self.score = nn.Linear(2 * width, 1)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw vectors from N(0, 1), layers with PyTorch's defaults; meant for the CPU, as for every model."""
        reset_layers(self, generator)
        nn.init.normal_(self.query, generator=generator)
        for layer in self.layers:
            if isinstance(layer, Layer) and layer.edge is not None:
                nn.init.normal_(layer.edge, generator=generator)

    def score_all(self, anchor: Tensor, relation: Tensor, removed: Tensor | None = None) -> Tensor:
        """Score all entities for B queries, (B, N); ``removed`` (E,) is not zero for edges that are not to be used."""
        query = self.query[relation]
        removal = self.graph.without(removed, query.dtype)
        layers = [layer.tensors(query) for layer in self.layers if isinstance(layer, Layer)]
        states = propagate(query, anchor, layers, self.graph, removal)
        return self._scores(states.to(query.dtype), query)

    def _scores(self, states: Tensor, query: Tensor) -> Tensor:
        """Score states (N, B, d) beside queries (B, d): (B, N)."""
        of_state, of_query = self.hidden.weight.tensor_split(2, dim=1)
        # The query's half of the first layer is the same for all entities.
        hidden = states @ of_state.T + (query @ of_query.T + self.hidden.bias)
        scores: Tensor = hidden.relu_() @ self.score.weight[0] + self.score.bias
        return scores.T


class Answers(nn.Module):
    """The known answers of every query, as lists of one padded length.

    Attributes:
        key: queries as one number each, sorted, (Q,).
        start: where the answers of each begin, (Q + 1,).
        answer: all answers, by query, (n,).
        origin: the place of each among what the lists were made from, (n,).
    """

    key: Tensor
    start: Tensor
    answer: Tensor
    origin: Tensor

    def __init__(self, anchor: Tensor, relation: Tensor, answer: Tensor, n_relations: int) -> None:
        super().__init__()
        self.n_relations = n_relations
        keys = anchor.long() * (2 * n_relations) + relation
        order = keys.argsort(stable=True)
        key, n_answers = torch.unique_consecutive(keys[order], return_counts=True)
        self.longest = int(n_answers.max())
        self.register_buffer("key", key, persistent=False)
        start = torch.cat([n_answers.new_zeros(1), n_answers.cumsum(0)])
        self.register_buffer("start", start, persistent=False)
        self.register_buffer("answer", answer.long()[order], persistent=False)
        self.register_buffer("origin", order, persistent=False)

    def places_of(self, anchor: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return places in ``answer`` for B queries, and which of them count: (B, K), K being the longest list."""
        key = anchor * (2 * self.n_relations) + relation
        row = torch.searchsorted(self.key, key).clamp(max=len(self.key) - 1)
        known = self.key[row] == key
        place = self.start[row].unsqueeze(1) + torch.arange(self.longest, device=key.device)
        counts = known.unsqueeze(1) & (place < self.start[row + 1].unsqueeze(1))
        return place.where(counts, 0), counts


class Batch(NamedTuple):
    """The targets of one step, for B queries.

    Attributes:
        answer: known answers of each query, padded, (B, K).
        target: which of them it is to find, (B, K).
        other: which of them are neither right nor wrong in this step, (B, K).
        removed: 1 for edges that would tell, else 0, (E,) bytes.
    """

    answer: Tensor
    target: Tensor
    other: Tensor
    removed: Tensor


def answers_of(graph: Graph) -> Answers:
    """Return the known answers in training: the destinations of a query's edges, whose places are the edges'."""
    return Answers(graph.source, graph.relation, graph.destination, graph.n_relations)


def choose_targets(
    queries: tuple[Tensor, Tensor, Tensor], known: Answers, graph: Graph, chance: Tensor, share: float, mode: Removed
) -> Batch:
    """Choose the targets of B training queries, and the edges to remove; shapes do not depend on the values.

    Targets are the drawn answer and each other known one whose ``chance`` (B, K), uniform in [0, 1), is below
    ``share``. Edges of all targets are removed for the whole batch.

    Args:
        queries: anchors, directed relations and drawn answers, (B,) each; every one is an edge of the graph.
        known: made by ``answers_of`` from the same graph.
    """
    anchor, relation, drawn = queries
    place, counts = known.places_of(anchor, relation)
    answer = known.answer[place]
    target = counts & ((chance < share) | (answer == drawn.unsqueeze(1)))
    group, n_groups = (graph.triple, graph.n_triples) if mode == "triple" else (graph.pair, graph.n_pairs)
    # One more group takes what is not to be removed: no shape depends on how many are.
    gone = torch.zeros(n_groups + 1, dtype=torch.uint8, device=anchor.device)
    gone.index_fill_(0, group[known.origin[place]].where(target, n_groups).flatten().long(), 1)
    return Batch(answer, target, counts & ~target, gone[group])


def cross_entropy(scores: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy over all entities, averaged over each query's targets, then over queries.

    ``scores`` is (B, N). Other known answers do not compete.
    """
    n_rows, n_entities = scores.shape
    hidden = torch.zeros(n_rows, n_entities + 1, dtype=torch.bool, device=scores.device)
    hidden = hidden.scatter(1, batch.answer.where(batch.other, n_entities), True)
    # A triple may be given twice: where it is a target once, it is not hidden.
    hidden = hidden.scatter(1, batch.answer.where(batch.target, n_entities), False)
    logarithm = functional.log_softmax(scores.masked_fill(hidden[:, :-1], float("-inf")), dim=1)
    found = logarithm.gather(1, batch.answer).where(batch.target, 0)
    return -(found.sum(dim=1) / batch.target.sum(dim=1)).mean()
