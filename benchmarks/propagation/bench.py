"""How fast NBFNet's propagation runs on one GPU, and how well it does after some seconds of training.

Parts, each written to the report as soon as it is done:

- check: the kernels against plain PyTorch in float64, on random graphs, states and all gradients;
- tiles: each kernel with several tiles; the best are used from there on;
- kernels: milliseconds per layer of each kernel, beside the time that its bytes take at the rate of a copy;
- step: milliseconds of a training step, captured in a CUDA graph;
- ranking: seconds to rank all queries of valid and test;
- messages: step and ranking with message tensors and scatter_reduce, in float32 and bfloat16, per query at the batch
  that suits them best, as a ratio;
- train: validation MRR on a sample over the seconds of training, then MRR on all of valid and test.

Bytes of a limit are those of rows, one for each edge they travel along, as if no cache kept them: where a cache does, a
kernel may take less time than its limit. With ``--tiny`` all of it runs on a random graph of a few entities; in
Triton's interpreter (TRITON_INTERPRET=1) that shows that the script works, not that bfloat16 does.

    RELENS_DATA=… PYTHONPATH=src:. python3 -m benchmarks.propagation.bench --parts check kernels --output out/p.json
"""

import argparse
import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.environment import describe, say, write
from relens.data.catalog import load_dataset
from relens.models import nbfnet, propagation
from relens.models.fused import propagation_kernels as kernels
from relens.models.fused.propagation_kernels import Tile
from relens.models.nbfnet import NBFNet, choose_targets, cross_entropy
from relens.models.propagation import Graph, LayerTensors, Removal

PARTS = ("check", "tiles", "kernels", "step", "ranking", "messages", "train")
GRAPHS = ("fb15k-237", "wn18rr", "nell-995")
PAIRS = ("fb15k-237",)
"""Graphs where all edges between two entities are removed with a target; elsewhere the triple and its inverse."""
STEP_GOALS = {"fb15k-237": 30.0, "wn18rr": 30.0, "nell-995": 45.0}
"""Milliseconds."""
RANKING_GOALS = {"fb15k-237": 12.0}
"""Seconds."""
COLUMNS = [(128, 1), (256, 1), (256, 2), (512, 2), (512, 4), (1024, 4), (1024, 8)]
ROWS = [(unroll, warps) for unroll in (1, 2, 4) for warps in (4, 8)]
TRIED = {
    "gather": [Tile(size, unroll, warps) for size, warps in COLUMNS for unroll in (2, 4, 8)],
    "spread": [Tile(size, unroll, warps) for size, warps in COLUMNS for unroll in (1, 2, 4)],
    "mix": [Tile(rows, *rest) for rows in (64, 128) for rest in ROWS],
    "mix_gradients": [Tile(rows, *rest) for rows in (64, 128) for rest in ROWS],
    "weight_gradient": [Tile(rows, *rest) for rows in (32, 64) for rest in ROWS],
}
MESSAGE_BATCHES = (2, 4, 8, 16, 32)
WARM_UP = 200
"""Steps in which the rate rises."""
BF16 = 2
"""Bytes."""


@dataclass(frozen=True)
class Case:
    """A data set as directed queries on the device.

    Attributes:
        train: triples on the CPU, (n, 3).
        valid, test: anchors, directed relations and answers, (2n, 3).
    """

    name: str
    n_entities: int
    n_relations: int
    train: Tensor
    valid: Tensor
    test: Tensor


@dataclass
class Bench:
    """Options, and the report that grows."""

    options: argparse.Namespace
    report: dict[str, Any]

    @property
    def device(self) -> torch.device:
        """Where everything runs."""
        return torch.device(self.options.device)

    def note(self, part: str, graph: str | None, found: Any) -> None:
        """Add what a part found, and write all that there is."""
        place = self.report.setdefault(part, {})
        if graph is None:
            self.report[part] = found
        else:
            place[graph] = found
        say(f"{part} {graph or ''}: {found}")
        write(self.report, self.options.output)


def main() -> None:
    """Run the chosen parts on the chosen graphs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS[:-1]))
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rank-batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--edge-vectors", choices=("dependent", "independent"), default="dependent")
    parser.add_argument("--seconds", type=float, default=60.0, help="of training, per graph")
    parser.add_argument("--evaluations", type=int, default=4, help="in that time")
    parser.add_argument("--sample", type=int, default=2000, help="validation queries per evaluation")
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--share", type=float, default=0.3, help="of other known answers that are targets")
    parser.add_argument("--focus", type=float, default=0.0, help="share of queries with relations of valid")
    parser.add_argument("--tile", nargs="+", default=[], metavar="KERNEL:SIZE:UNROLL:WARPS")
    parser.add_argument("--profile-rows", type=int, default=0, help="operations of a step to list")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="a random graph instead of data sets")
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args()
    for text in options.tile:
        name, *numbers = text.split(":")
        for table in (kernels.NARROW, kernels.WIDE, kernels.DENSE, kernels.SPARSE):
            if name in table:
                table[name] = Tile(*map(int, numbers))
    report = {
        "benchmark": "propagation",
        "settings": {**vars(options), "output": str(options.output)},
        "environment": {**describe(), **gpu(options.device)},
    }
    run(Bench(options, report))


def gpu(device: str) -> dict[str, Any]:
    """Return the device's name and the versions that matter."""
    import triton

    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return {"device": name, "torch": torch.__version__, "triton": triton.__version__}


def run(bench: Bench) -> None:
    """Run part after part, graph by graph, and go on where one fails."""
    options = bench.options
    if "check" in options.parts:
        attempt(bench, "check", None, lambda: check(bench.device, options.width))
    for name in ["tiny"] if options.tiny else options.graphs:
        case = tiny(bench.device) if options.tiny else read(name, bench.device)
        for part, function in FUNCTIONS.items():
            if part in options.parts:
                attempt(bench, part, name, lambda function=function, case=case: function(bench, case))
                gc.collect()
                if bench.device.type == "cuda":
                    torch.cuda.empty_cache()


def attempt(bench: Bench, part: str, graph: str | None, function: Callable[[], Any]) -> None:
    """Note what a part found, or why it failed."""
    begun = perf_counter()
    try:
        found = function()
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        found = {"error": f"{type(error).__name__}: {error}"[:2000]}
    if isinstance(found, dict):
        found["took_seconds"] = round(perf_counter() - begun, 1)
    bench.note(part, graph, found)


def directed(triples: Tensor, n_relations: int) -> Tensor:
    """Return both queries of every triple: anchor, directed relation, answer; (2n, 3)."""
    head, relation, tail = triples.T
    return torch.cat([triples, torch.stack([tail, relation + n_relations, head], dim=1)])


def read(name: str, device: torch.device) -> Case:
    """Read a data set from the folder that RELENS_DATA names."""
    dataset = load_dataset(name, offline=True)
    train, valid, test = (torch.tensor(part).long() for part in (dataset.train, dataset.valid, dataset.test))
    n_relations = len(dataset.relations)
    queries = (directed(part, n_relations).to(device) for part in (valid, test))
    return Case(dataset.name, len(dataset.entities), n_relations, train, *queries)


def tiny(device: torch.device) -> Case:
    """Return a random graph of few entities."""
    generator = torch.Generator().manual_seed(0)
    triples = torch.stack([torch.randint(n, (40,), generator=generator) for n in (15, 3, 15)], dim=1).unique(dim=0)
    queries = (directed(part, 3).to(device) for part in (triples[-6:-3], triples[-3:]))
    return Case("tiny", 15, 3, triples[:-6], *queries)


def wait() -> None:
    """Wait until the GPU has done all it was told to."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def milliseconds(function: Callable[[], Any], least: float = 0.1) -> float:
    """Return how long a call takes, the mean of as many as take about ``least`` seconds."""
    function()
    wait()
    begun = perf_counter()
    function()
    wait()
    repeats = max(1, min(50, int(least / max(perf_counter() - begun, 1e-6))))
    begun = perf_counter()
    for _ in range(repeats):
        function()
    wait()
    return 1e3 * (perf_counter() - begun) / repeats


def check(device: torch.device, width: int) -> dict[str, Any]:
    """Compare the kernels with plain PyTorch in float64; return relative errors of states and of all gradients."""
    types = (torch.float32, torch.bfloat16) if device.type == "cuda" else (torch.float32,)
    found = {}
    for dtype in types:
        for aggregate in ("pna", "sum"):
            for shared in (False, True):
                errors = compare(device, width, dtype, aggregate, shared)
                limit = 1e-4 if dtype == torch.float32 else 0.2
                name = f"{dtype}, {aggregate}, {'independent' if shared else 'dependent'}"
                found[name] = {"errors": errors, "good": max(errors.values()) < limit}
    return found


def compare(device: torch.device, width: int, dtype: torch.dtype, aggregate: str, shared: bool) -> dict[str, float]:
    """Return relative errors on a random graph with hubs, entities without edges, and removed edges."""
    generator = torch.Generator().manual_seed(1)
    n, n_relations, batch = (300, 5, 7) if device.type == "cuda" else (20, 3, 2)
    ids = [(torch.rand(8 * n, generator=generator) ** power * (n - 5)).long() for power in (1, 3)]
    triples = torch.stack([ids[0], torch.randint(n_relations, (8 * n,), generator=generator), ids[1]], dim=1)
    graph = Graph(triples, n, n_relations).to(device)
    removed = (torch.rand(graph.n_edges, generator=generator) < 0.1).to(device)
    rows = (13 if aggregate == "pna" else 2) * width

    def drawn(*shape: int) -> Tensor:
        # Numbers that bfloat16 holds: both sides start from the same.
        return torch.randn(shape, generator=generator).bfloat16().double().to(device).requires_grad_()

    queries = [] if shared else [batch]
    layers = [
        LayerTensors(drawn(2 * n_relations, *queries, width), drawn(rows, width), *(drawn(width) for _ in range(3)))
        for _ in range(2)
    ]
    query, anchor = drawn(batch, width), torch.randint(n, (batch,), generator=generator).to(device)
    inputs = {"query": query}
    for i, layer in enumerate(layers):
        inputs |= {f"{field} {i}": tensor for field, tensor in layer._asdict().items()}
    removal = graph.without(removed, torch.float64)
    wanted = propagation.plain(query, anchor, layers, graph, removal)
    found = propagation.fused(query, anchor, layers, graph, removal, dtype).double()
    weights = torch.randn(wanted.shape, generator=generator).double().to(device)
    gradients = [torch.autograd.grad((states * weights).sum(), list(inputs.values())) for states in (found, wanted)]
    errors = {"states": relative(found, wanted)}
    return errors | {name: relative(*pair) for name, *pair in zip(inputs, *gradients, strict=True)}


def relative(found: Tensor, wanted: Tensor) -> float:
    """Return the norm of the difference over that of what was wanted."""
    return round(float((found - wanted).detach().norm() / wanted.detach().norm().clamp(min=1e-30)), 8)


@dataclass
class LayerCase:
    """One layer in the middle of training: what each kernel is called with."""

    graph: Graph
    removal: Removal
    layer: LayerTensors
    query: Tensor
    anchor: Tensor
    state: Tensor

    @classmethod
    def build(cls, bench: Bench, case: Case) -> "LayerCase":
        """Return a layer with random parameters and states on a graph."""
        options, device = bench.options, bench.device
        graph = Graph(case.train, case.n_entities, case.n_relations).to(device)
        width, batch = options.width, options.batch
        queries = (batch,) if options.edge_vectors == "dependent" else ()
        layer = LayerTensors(
            torch.randn(2 * case.n_relations, *queries, width, device=device),
            torch.randn(13 * width, width, device=device) / math.sqrt(13 * width),
            *torch.randn(3, width, device=device),
        )
        state = torch.randn(case.n_entities, batch, width, device=device).relu().bfloat16()
        anchor = torch.randint(case.n_entities, (batch,), device=device)
        query = torch.randn(batch, width, device=device).bfloat16()
        return cls(graph, graph.without(None, torch.float32), layer.to(torch.bfloat16), query, anchor, state)

    def calls(self) -> dict[str, Callable[[], Any]]:
        """Return each kernel as a function without arguments, and ``spread`` in its two halves as well."""
        queries, places = (self.query, self.anchor), (self.graph, self.removal)
        stats, winner = kernels.gather(self.state, self.layer, queries, places, first=False, track=True)
        gradient = torch.randn_like(self.state, dtype=torch.float32)
        inputs = self.state, stats, self.layer, self.removal
        found = kernels.mix_gradients(*inputs, gradient)
        of_edge, made = torch.zeros_like(self.layer.edge, dtype=torch.float32), (self.state, stats, winner)

        def gather(first: bool, track: bool) -> None:
            kernels.gather(self.state, self.layer, queries, places, first=first, track=track)

        def spread(anchor: Tensor | None, of_state: Tensor | None, of_edges: Tensor | None) -> None:
            kernels.spread(made, self.layer, found.stats, places, anchor, of_state, of_edges)

        return {
            "gather": lambda: gather(False, True),
            "gather, first layer": lambda: gather(True, True),
            "gather without winners": lambda: gather(False, False),
            "mix": lambda: kernels.mix(*inputs),
            "mix_gradients": lambda: kernels.mix_gradients(*inputs, gradient),
            "weight_gradient": lambda: kernels.weight_gradient(*inputs, found.mixed),
            "spread": lambda: spread(None, gradient, of_edge),
            "spread, first layer": lambda: spread(self.anchor, gradient, of_edge),
            "spread, states only": lambda: spread(None, gradient, None),
            "spread, edge vectors only": lambda: spread(None, None, of_edge),
        }

    def gigabytes(self) -> dict[str, float]:
        """Return the bytes of each kernel, from rows of bfloat16: per node statistics and their gradients are four."""
        row = self.state.shape[1] * self.state.shape[2] * BF16 / 1e9
        nodes, edges = self.state.shape[0] * row, self.graph.n_edges * row
        winners = 2 * nodes * (1 if self.graph.winner_dtype == torch.int16 else 2)
        per_node = 2 * nodes + 4 * nodes + winners  # two statistics, four gradients
        return {
            "gather": edges + 4 * nodes + winners,
            "gather, first layer": 4 * nodes + winners,
            "gather without winners": edges + 4 * nodes,
            "mix": (1 + 4 + 1) * nodes,
            "mix_gradients": (1 + 4 + 2 + 2 + 4 + 1) * nodes,
            "weight_gradient": (1 + 4 + 1) * nodes,
            "spread": per_node + (1 + 2) * edges,
            "spread, first layer": per_node,
            "spread, states only": per_node + (1 + 2) * edges,
            "spread, edge vectors only": per_node + edges,
        }


def tune(bench: Bench, case: Case) -> dict[str, Any]:
    """Try the tiles of every kernel, and keep the best."""
    layer = LayerCase.build(bench, case)
    calls, found = layer.calls(), dict[str, Any]()
    for name, tiles in TRIED.items():
        times: dict[Tile, float] = {}
        used = kernels.tiles_of(layer.graph) if name in kernels.DENSE else kernels.row_tiles_of(bench.options.width)
        before = used[name]
        for tile in tiles[:2] if bench.options.tiny else tiles:
            used[name] = tile
            try:
                times[tile] = milliseconds(calls[name], 0.02)
            except Exception as error:  # a tile that does not compile, or needs more than the device has
                say(f"{name} {tuple(tile)}: {type(error).__name__}: {str(error)[:200]}")
        best = min(times, key=times.__getitem__, default=before)
        used[name] = best
        found[name] = {
            "best": tuple(best),
            "milliseconds": {str(tuple(tile)): round(t, 3) for tile, t in times.items()},
        }
        say(f"{name}: {found[name]}")
    return found


def copy_rate(device: torch.device) -> float:
    """Return the gigabytes per second that a copy reads and writes."""
    source = torch.zeros((1 << 31) if device.type == "cuda" else (1 << 20), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / 1e6 / milliseconds(lambda: target.copy_(source))


def measure_kernels(bench: Bench, case: Case) -> dict[str, Any]:
    """Time every kernel on one layer, beside the time its bytes take."""
    rate = copy_rate(bench.device)
    layer = LayerCase.build(bench, case)
    sizes = layer.gigabytes()
    tiles = kernels.row_tiles_of(bench.options.width) | kernels.tiles_of(layer.graph)
    rows: dict[str, Any] = {
        "copy_gigabytes_per_second": round(rate, 1),
        "tiles": {k: tuple(t) for k, t in tiles.items()},
    }
    for name, call in layer.calls().items():
        taken, limit = milliseconds(call), 1e3 * sizes[name] / rate
        rows[name] = {
            "milliseconds": round(taken, 3),
            "gigabytes": round(sizes[name], 3),
            "limit_milliseconds": round(limit, 3),
            "share_of_limit": round(limit / taken, 3),
        }
    return rows


class Training:
    """Steps of training with the recipe: everything from the draw to the optimiser is one recorded sequence."""

    def __init__(self, bench: Bench, case: Case, batch: int | None = None) -> None:
        options, device = bench.options, bench.device
        torch.manual_seed(options.seed)
        self.batch, self.share = batch or options.batch, options.share
        self.mode: nbfnet.Removed = "pair" if case.name in PAIRS else "triple"
        self.model = NBFNet(
            case.n_entities, case.n_relations, case.train, width=options.width, layers=options.layers,
            edge_vectors=options.edge_vectors,
        )  # fmt: skip
        self.model.initialise(None, torch.Generator().manual_seed(options.seed))
        self.model.to(device)
        self.graph = self.model.graph
        asked = torch.unique(case.valid[:, 1] % case.n_relations)
        self.focus = torch.isin(self.graph.relation % case.n_relations, asked).nonzero().squeeze(1)
        self.n_focused = int(self.batch * options.focus)
        self.rate = torch.tensor(options.rate, device=device)
        capturable = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=self.rate, weight_decay=0.0, capturable=capturable, fused=True
        )
        self.loss = torch.zeros((), device=device)
        self.recorded: torch.cuda.CUDAGraph | None = None

    def drawn(self) -> tuple[Tensor, Tensor, Tensor]:
        """Draw queries from all training edges, and some of them from those with relations of valid."""
        device, n_focused = self.graph.source.device, self.n_focused
        edges = torch.randint(self.graph.n_edges, (self.batch - n_focused,), device=device)
        if n_focused:
            chosen = torch.randint(len(self.focus), (n_focused,), device=device)
            edges = torch.cat([edges, self.focus[chosen]])
        source, relation, destination = (
            ids[edges].long() for ids in (self.graph.source, self.graph.relation, self.graph.destination)
        )
        return source, relation, destination

    def step(self) -> None:
        """Take a step, launching one operation after the other."""
        queries = self.drawn()
        batch = choose_targets(queries, self.graph, self.share, self.mode)
        self.optimiser.zero_grad(set_to_none=True)
        loss = cross_entropy(self.model.score(self.model.reach(*queries[:2], batch.removed)), batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.loss.copy_(loss.detach())

    def record(self) -> None:
        """Record a step as a CUDA graph; the steps before it count as training."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.recorded):
            self.step()

    def take(self) -> None:
        """Take a step, by replaying the record where there is one."""
        if self.recorded is None:
            self.step()
        else:
            self.recorded.replay()


def measure_step(bench: Bench, case: Case) -> dict[str, Any]:
    """Time a training step, operation by operation and recorded."""
    training = Training(bench, case)
    training.rate.fill_(1e-5)
    found: dict[str, Any] = {"parameters": sum(p.numel() for p in training.model.parameters())}
    found["launched_milliseconds"] = round(milliseconds(training.step, 0.5), 2)
    if bench.device.type == "cuda":
        training.record()
        found["milliseconds"] = round(milliseconds(training.take, 1.0), 2)
        found["memory_gigabytes"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
        if bench.options.profile_rows:
            found["profile"] = profile(training.step, bench.options.profile_rows)
    if case.name in STEP_GOALS and "milliseconds" in found:
        found["goal_milliseconds"] = STEP_GOALS[case.name]
    found["loss"] = round(float(training.loss), 4)
    return found


def profile(function: Callable[[], Any], n_rows: int) -> list[tuple[str, float, int]]:
    """Return the GPU's longest operations in one call: name, milliseconds, and how often."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA]) as recorded:
        function()
        wait()
    rows = sorted(recorded.key_averages(), key=lambda row: -row.self_device_time_total)
    return [(row.key[:60], round(row.self_device_time_total / 1e3, 3), row.count) for row in rows[:n_rows]]


def all_known(case: Case, device: torch.device) -> Graph:
    """Return the triples of all three splits, which tell the known answers."""
    others = (queries[queries[:, 1] < case.n_relations].cpu() for queries in (case.valid, case.test))
    return Graph(torch.cat([case.train, *others]), case.n_entities, case.n_relations).to(device)


@torch.no_grad()
def ranks(model: NBFNet, queries: Tensor, known: Graph, batch: int) -> Tensor:
    """Return the filtered ranks of queries (n, 3) among all entities, ties at their mean, (n,); each query once."""
    key = queries[:, 1] * model.n_entities + queries[:, 0]
    order = key.argsort()
    sorted_queries = queries[order]
    first, row = torch.unique_consecutive(key[order], return_inverse=True)
    starts = torch.searchsorted(row, torch.arange(len(first) + 1, device=row.device))
    bounds = starts.tolist()
    found = torch.empty(len(queries), device=queries.device)
    for begin in range(0, len(first), batch):
        end = min(begin + batch, len(first))
        asked = sorted_queries[starts[begin:end]]
        scores = model.score(model.encode(asked[:, 0], asked[:, 1]))
        place, counts = known.answers(asked[:, 0], asked[:, 1])
        hidden = torch.zeros(len(asked), model.n_entities + 1, dtype=torch.bool, device=scores.device)
        hidden.scatter_(1, known.source[place].long().where(counts, model.n_entities), True)
        rivals = scores.masked_fill(hidden[:, :-1], float("-inf"))
        here = slice(bounds[begin], bounds[end])
        at = row[here] - begin
        score = scores[at, sorted_queries[here, 2]].unsqueeze(1)
        compared = rivals[at]
        found[order[here]] = 1 + (compared > score).sum(1) + 0.5 * (compared == score).sum(1)
    return found


def measure_ranking(bench: Bench, case: Case) -> dict[str, Any]:
    """Time the ranking of valid and test."""
    model, known = Training(bench, case).model, all_known(case, bench.device)
    queries, batch = torch.cat([case.valid, case.test]), bench.options.rank_batch
    ranks(model, queries[: 2 * batch], known, batch)
    wait()
    begun = perf_counter()
    ranks(model, queries, known, batch)
    wait()
    taken = perf_counter() - begun
    found = {"seconds": round(taken, 2), "queries": len(queries), "batch": batch}
    found["distinct"] = len(torch.unique(queries[:, :2], dim=0))
    found["milliseconds_per_distinct_query"] = round(1e3 * taken / found["distinct"], 4)
    return found | ({"goal_seconds": RANKING_GOALS[case.name]} if case.name in RANKING_GOALS else {})


def by_messages(dtype: torch.dtype) -> Callable[..., Tensor]:
    """Return a stand-in for ``propagate`` that makes message tensors of a type, and reduces them one by one."""

    def layer_of(state: Tensor, boundary: Tensor, layer: LayerTensors, graph: Graph, removal: Removal) -> Tensor:
        edges = removal.keep.nonzero().squeeze(1)
        vectors = layer.edge.to(dtype) if layer.edge.dim() == 3 else layer.edge.to(dtype).unsqueeze(1)
        messages = state[graph.source[edges]] * vectors[graph.relation[edges]]
        to = graph.destination[edges].long()
        index, n = to.view(-1, 1, 1).expand_as(messages), removal.elements.view(-1, 1, 1)
        mean = boundary.float().index_add(0, to, messages.float()) / n
        squares = boundary.float().square().index_add(0, to, messages.float().square()) / n
        deviation = (squares - mean.square()).clamp(min=1e-6).sqrt()
        top, bottom = (boundary.scatter_reduce(0, index, messages, kind) for kind in ("amax", "amin"))
        stats = torch.cat([mean.to(dtype), top, bottom, deviation.to(dtype)], dim=2)
        scale = removal.scale.view(-1, 1, 1).to(dtype)
        parts = torch.cat([state, stats, scale * stats, stats / scale.clamp(min=0.01)], dim=2)
        mixed = parts @ layer.weight.to(dtype) + layer.bias.to(dtype)
        normal = functional.layer_norm(mixed.float(), mixed.shape[2:], layer.gain, layer.shift)
        return normal.relu().to(dtype) + state

    def run(query: Tensor, anchor: Tensor, layers: Sequence[LayerTensors], graph: Graph, removal: Removal) -> Tensor:
        place = anchor, torch.arange(len(query), device=query.device)
        boundary = query.new_zeros(graph.n_entities, *query.shape).index_put(place, query).to(dtype)
        state = boundary
        for layer in layers:
            state = layer_of(state, boundary, layer, graph, removal)
        return state

    return run


@contextmanager
def propagating(function: Callable[..., Tensor]) -> Iterator[None]:
    """Let NBFNet propagate with another function inside."""
    before, nbfnet.propagate = nbfnet.propagate, function
    try:
        yield
    finally:
        nbfnet.propagate = before


def measure_messages(bench: Bench, case: Case) -> dict[str, Any]:
    """Time step and ranking with message tensors, per query, at several batches; and the kernels' share of that."""
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        rows: dict[int, Any] = {}
        for batch in MESSAGE_BATCHES[:1] if bench.options.tiny else MESSAGE_BATCHES:
            try:
                rows[batch] = message_times(bench, case, dtype, batch)
            except torch.OutOfMemoryError:
                rows[batch] = {"error": "out of memory"}
            gc.collect()
            if bench.device.type == "cuda":
                torch.cuda.empty_cache()
        found[str(dtype)] = {"by_batch": rows} | {
            kind: min((row[kind] for row in rows.values() if kind in row), default=None)
            for kind in ("step_milliseconds_per_query", "ranking_milliseconds_per_query")
        }
    step = bench.report.get("step", {}).get(case.name, {}).get("milliseconds")
    ranked = bench.report.get("ranking", {}).get(case.name, {}).get("milliseconds_per_distinct_query")
    for row in list(found.values()):
        if step and row["step_milliseconds_per_query"]:
            row["step_ratio"] = round(row["step_milliseconds_per_query"] / (step / bench.options.batch), 1)
        if ranked and row["ranking_milliseconds_per_query"]:
            row["ranking_ratio"] = round(row["ranking_milliseconds_per_query"] / ranked, 1)
    return found


def message_times(bench: Bench, case: Case, dtype: torch.dtype, batch: int) -> dict[str, float]:
    """Return milliseconds per query of a step and of scoring with message tensors of a type."""
    with propagating(by_messages(dtype)):
        training = Training(bench, case, batch)
        step = milliseconds(training.step, 0.3) / batch
        anchor, relation, _ = training.drawn()
        training.optimiser.zero_grad(set_to_none=True)

        def score() -> None:
            with torch.no_grad():
                training.model.score(training.model.encode(anchor, relation))

        scored = milliseconds(score, 0.2) / batch
    return {"step_milliseconds_per_query": round(step, 4), "ranking_milliseconds_per_query": round(scored, 4)}


def train(bench: Bench, case: Case) -> dict[str, Any]:
    """Train for some seconds, evaluate on a sample on the way and on everything at the end."""
    options = bench.options
    training, known = Training(bench, case), all_known(case, bench.device)
    generator = torch.Generator().manual_seed(options.seed)
    sample = case.valid[torch.randperm(len(case.valid), generator=generator)[: options.sample].to(bench.device)]
    if bench.device.type == "cuda":
        training.record()
    curve: list[dict[str, float]] = []
    spent, steps = 0.0, 0
    while spent < options.seconds:
        wait()
        begun = perf_counter()
        for _ in range(20 if bench.device.type == "cuda" else 1):
            # The rate rises for some steps and falls with the time that is left, to 1 %.
            fallen = 0.505 + 0.495 * math.cos(math.pi * min(1.0, spent / options.seconds))
            training.rate.fill_(options.rate * min(1.0, (steps + 1) / WARM_UP) * fallen)
            training.take()
            steps += 1
        wait()
        spent += perf_counter() - begun
        if spent >= options.seconds * (len(curve) + 1) / options.evaluations:
            mrr = float((1 / ranks(training.model, sample, known, options.rank_batch)).mean())
            loss = round(float(training.loss), 4)
            curve.append({"seconds": round(spent, 1), "steps": steps, "loss": loss, "mrr": round(mrr, 4)})
            bench.note("train", case.name, {"curve": curve})
    found: dict[str, Any] = {"curve": curve, "steps": steps}
    for split, queries in (("valid", case.valid), ("test", case.test)):
        rank = ranks(training.model, queries, known, options.rank_batch)
        found[split] = {"mrr": round(float((1 / rank).mean()), 4)} | {
            f"hits{k}": round(float((rank <= k).double().mean()), 4) for k in (1, 3, 10)
        }
    return found


FUNCTIONS: dict[str, Callable[[Bench, Case], dict[str, Any]]] = {
    "tiles": tune,
    "kernels": measure_kernels,
    "step": measure_step,
    "ranking": measure_ranking,
    "messages": measure_messages,
    "train": train,
}

if __name__ == "__main__":
    main()
