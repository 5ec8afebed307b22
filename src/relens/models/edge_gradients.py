"""How much each message of a propagation counted: the gradient of a score by a factor of 1 on every message.

The gradient by the factor of a message m is the product ⟨∂score/∂m, m⟩. One backward pass to the messages gives all of
them, so no edge needs a vector of its own. Only edges on walks from the anchor to the answer take part, each in the
layers where a walk may pass it. Everything happens on the CPU.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relens.models.path_kernels import gather, send_back
from relens.models.propagation import SMALLEST_VARIANCE, Graph, LayerTensors, first_states, mix

Ids = npt.NDArray[np.int32]


class Walks:
    """The edges between an anchor and an answer: those on some walk with at most one edge per layer.

    Attributes:
        anchor, answer: where walks begin and end.
        edges: their places among the edges of the graph, (m,).
        source, relation, destination: of these edges, (m,).
        to_answer: distance of every entity from the answer, (N,); L + 1 stands for more than L layers.
        passable: whether a walk may pass an edge in a layer, (L, m).
        reachable: whether a walk may be at an entity after a layer, (L, N).
    """

    def __init__(self, graph: Graph, anchor: int, answer: int, n_layers: int) -> None:
        self.anchor, self.answer = anchor, answer
        source, relation, destination = (_on_cpu(ids) for ids in (graph.source, graph.relation, graph.destination))
        from_anchor, self.to_answer = (
            _distances((source, destination), graph.n_entities, end, n_layers) for end in (anchor, answer)
        )
        self.edges = np.flatnonzero(from_anchor[source] + 1 + self.to_answer[destination] <= n_layers)
        self.source, self.relation, self.destination = (ids[self.edges] for ids in (source, relation, destination))
        layer = np.arange(n_layers)[:, None]
        before, after = from_anchor[self.source], self.to_answer[self.destination]
        self.passable = (before <= layer) & (after < n_layers - layer)
        self.reachable = (from_anchor <= layer + 1) & (self.to_answer < n_layers - layer)


def _on_cpu(ids: Tensor) -> Ids:
    array: Ids = ids.cpu().numpy()
    return array


def _distances(edges: tuple[Ids, Ids], n_entities: int, start: int, limit: int) -> npt.NDArray[np.int64]:
    """Return how many edges lead from an entity to each one, (N,); limit + 1 stands for more than the limit."""
    source, destination = edges
    distance = np.full(n_entities, limit + 1, dtype=np.int64)
    distance[start] = 0
    for length in range(1, limit + 1):
        reached = destination[distance[source] == length - 1]
        distance[reached] = np.minimum(distance[reached], length)
    return distance


class Trace:
    """The states of all entities before and after every layer, for one query.

    Attributes:
        states: before the first layer, and after each one, (N, d) each, on the CPU.
    """

    def __init__(self, query: Tensor, anchor: int, layers: Sequence[LayerTensors], graph: Graph) -> None:
        """Propagate a query with the vector (1, d) along all edges; ``layers`` are those of this query."""
        removal = graph.without(None, query.dtype)
        self._elements, self._scale = removal.elements.cpu(), removal.scale.cpu()
        self._layers = [LayerTensors(*(tensor.detach().cpu().contiguous() for tensor in layer)) for layer in layers]
        self._vectors = [layer.edge.flatten(1).numpy() for layer in self._layers]
        self._boundary = query[0].detach().cpu().numpy(), anchor
        self._edges = [_on_cpu(ids) for ids in (graph.offset, graph.source, graph.relation)]
        first = first_states(query.detach().cpu(), torch.tensor([anchor]), graph.n_entities)
        self.states = [first.squeeze(1)]
        every = torch.arange(graph.n_entities)
        with torch.no_grad():
            for layer in range(len(layers)):
                statistics, _ = self._gather(layer, every)
                self.states.append(self._mix(layer, self.states[-1], statistics, every))

    def gradients(self, of_answer: Tensor, walks: Walks) -> npt.NDArray[np.float64]:
        """Return the gradients of a score by the factors of the walks' edges, (L, m); 0 where they are not passable.

        ``of_answer`` (d,) is the gradient of the score by the answer's last state.
        """
        found = np.zeros(walks.passable.shape)
        of_state = torch.zeros_like(self.states[-1])
        of_state[walks.answer] = of_answer
        for layer in reversed(range(len(self._layers))):
            nodes = torch.from_numpy(np.flatnonzero(walks.reachable[layer]))
            kept, won = self._gather(layer, nodes)
            with torch.enable_grad():
                inputs = self.states[layer][nodes].requires_grad_(), kept.requires_grad_()
                mixed = self._mix(layer, *inputs, nodes)
                of_own, of_kept = torch.autograd.grad(mixed, inputs, of_state[nodes])
            of_state = torch.zeros_like(of_state).index_copy_(0, nodes, of_own)
            row = torch.zeros(len(of_state), dtype=torch.int64).index_copy_(0, nodes, torch.arange(len(nodes))).numpy()
            now = np.flatnonzero(walks.passable[layer])
            edges = walks.edges[now], walks.source[now], walks.relation[now], row[walks.destination[now]]
            arrays = self.states[layer].numpy(), self._vectors[layer], of_kept.contiguous().numpy(), won
            found[layer, now] = send_back(*arrays, edges, of_state.numpy())
        return found

    def _gather(self, layer: int, nodes: Tensor) -> tuple[Tensor, Ids]:
        kept, won = gather(
            self.states[layer].numpy(), self._vectors[layer], *self._boundary, nodes.numpy(), *self._edges
        )
        return torch.from_numpy(kept), won

    def _mix(self, layer: int, state: Tensor, kept: Tensor, nodes: Tensor) -> Tensor:
        """Return the new states of n entities from their states (n, d) and what they gathered, (4, n, d)."""
        tensors = self._layers[layer]
        collected, squares, top, bottom = kept
        if tensors.pna:
            n = self._elements[nodes].unsqueeze(1)
            mean = collected / n
            deviation = (squares / n - mean.square()).clamp(min=SMALLEST_VARIANCE).sqrt()
            collected = torch.cat([mean, top, bottom, deviation], dim=1)
        return mix(state.unsqueeze(1), collected.unsqueeze(1), tensors, self._scale[nodes]).squeeze(1)
