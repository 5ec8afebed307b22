"""A bound on the time of a training step: the work it needs, at the speed of the device.

A step has three phases, each of which needs the result of the one before: scores and loss, gradients, and the
optimiser. For each, the functions below count the bytes that must pass through memory, and the operations. A phase
cannot take less time than the slowest of its parts, all of them overlapping, would at the rates measured here.

What is counted is the least that a step needs which keeps scores, features and gradients in memory: a table is read
once however many of its rows are asked for twice, and whatever fits into registers on the way is free. Tables are taken
to be larger than the caches; where they are not, a step may take less than its bound.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch

from relens.training.settings import SAMPLED_LOSSES, TrainSettings

NUMBER = 4
"""Bytes of a float32, and of an id that need not be larger."""
PASSES = {"adam": 7, "adagrad": 5}
"""Times an optimiser reads or writes every parameter: itself, its gradient and one or two moments; all but the gradient
are written back."""
REPEATS = 5
CONVE_KERNEL = 3


@dataclass(frozen=True)
class Work:
    """The needs of a phase.

    Attributes:
        bytes: read from and written to memory.
        multiply_adds: float32 operations outside of matrix products; an addition alone counts as one, too.
        roots: (reciprocal) square roots, which GPUs have a unit of their own for.
        products: multiply-adds within matrix products, which GPUs have yet another unit for.
    """

    bytes: float = 0.0
    multiply_adds: float = 0.0
    roots: float = 0.0
    products: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.bytes + other.bytes,
            self.multiply_adds + other.multiply_adds,
            self.roots + other.roots,
            self.products + other.products,
        )

    def seconds(self, ceilings: "Ceilings") -> dict[str, float]:
        """Return how long each part takes at least."""
        return {
            "bytes": self.bytes / ceilings.bytes,
            "multiply_adds": self.multiply_adds / ceilings.multiply_adds,
            "roots": self.roots / ceilings.roots,
            "products": self.products / ceilings.products,
        }


@dataclass(frozen=True)
class Phases:
    """The work of a training step, phase by phase."""

    forward: Work
    backward: Work
    optimiser: Work = Work()

    def __add__(self, other: "Phases") -> "Phases":
        return Phases(self.forward + other.forward, self.backward + other.backward, self.optimiser + other.optimiser)

    def bound(self, ceilings: "Ceilings") -> dict[str, Any]:
        """Return the bound of a step in seconds, and what each phase is bound by."""
        phases = {}
        for name, work in (("forward", self.forward), ("backward", self.backward), ("optimiser", self.optimiser)):
            seconds = work.seconds(ceilings)
            slowest = max(seconds, key=seconds.__getitem__)
            phases[name] = {**asdict(work), "seconds": seconds[slowest], "bound_by": slowest}
        return {"seconds": sum(phase["seconds"] for phase in phases.values()), "phases": phases}


@dataclass(frozen=True)
class Case:
    """A model in training on a graph.

    Attributes:
        settings: of the run; its options are complete.
        n_entities: E.
        n_relations: R.
        n_triples: n, of train.
        n_parameters: trainable numbers.
    """

    settings: TrainSettings
    n_entities: int
    n_relations: int
    n_triples: int
    n_parameters: int

    def option(self, name: str) -> Any:
        """Return an option of the model."""
        return self.settings.options[name]

    @property
    def pairs(self) -> int:
        """Queries times candidates that are compared: the answer and the negatives, or all entities."""
        return self.settings.batch * (1 + self.settings.negatives if self.samples else self.n_entities)

    @property
    def samples(self) -> bool:
        """Whether candidates are drawn, instead of all being scored."""
        return self.settings.loss in SAMPLED_LOSSES and not self.settings.score_all

    @property
    def rows(self) -> float:
        """Entities among the candidates of a step, those drawn twice counted once."""
        if not self.samples:
            return self.n_entities
        drawn = self.settings.batch // self.settings.pool_rows * self.settings.negatives
        return self.n_entities * (1 - (1 - 1 / self.n_entities) ** drawn)


def step(case: Case) -> Phases:
    """Return the work of one training step."""
    return MODELS[case.settings.model](case) + _updates(case)


def _updates(case: Case) -> Phases:
    """Every gradient is cleared or written, and the optimiser passes over all parameters."""
    table = NUMBER * case.n_parameters
    return Phases(Work(), Work(bytes=table), Work(bytes=PASSES[case.settings.optimiser] * table))


def _compared(case: Case, width: int) -> Phases:
    """The bytes that pass through memory when queries are compared with candidates of ``width`` numbers.

    Scores are written and read by the loss, likewise their gradients. Queries are written and read in both phases. Rows
    of candidates are read in both; where only some have a gradient it is read and written besides being cleared.
    """
    scores, rows = NUMBER * case.pairs, NUMBER * case.rows * width
    queries = NUMBER * case.settings.batch * width
    added = 2 * rows if case.samples else 0
    moved = 2 * scores + rows + 2 * queries
    return Phases(Work(bytes=moved), Work(bytes=moved + added))


def _multiplied(case: Case, width: int) -> Phases:
    """Scores that are dot products: one matrix product, and one for either gradient."""
    products = case.pairs * width
    return _compared(case, width) + Phases(Work(products=products), Work(products=2 * products))


def transe(case: Case) -> Phases:
    """Per pair and coordinate: subtract and add up; subtract again, take the sign, and add to two gradients."""
    coordinates = case.pairs * case.option("dim")
    operations = Phases(Work(multiply_adds=2 * coordinates), Work(multiply_adds=4 * coordinates))
    return _compared(case, case.option("dim")) + operations


def rotate(case: Case) -> Phases:
    """Per pair and complex coordinate: two differences, their squares, the root, the sum.

    Back again: differences, squares and the reciprocal root, its product with the gradient of the score, and two
    additions to either gradient.
    """
    coordinates = case.pairs * case.option("dim") // 2
    operations = Phases(
        Work(multiply_adds=5 * coordinates, roots=coordinates), Work(multiply_adds=9 * coordinates, roots=coordinates)
    )
    return _compared(case, case.option("dim")) + operations


def house(case: Case) -> Phases:
    """Per pair and block: a small matrix times the candidate, a difference and its norm.

    Back again: the same once more, which costs less than keeping it, then products with the matrix for the candidate
    and with the candidate for the matrix. The matrices themselves are left out: they are made once per relation.
    """
    block = case.option("block")
    width = case.option("dim") // block * block
    coordinates = case.pairs * width
    products = coordinates * block
    operations = Phases(
        Work(multiply_adds=2 * coordinates, roots=coordinates // block, products=products),
        Work(multiply_adds=4 * coordinates, roots=coordinates // block, products=3 * products),
    )
    return _compared(case, width) + operations


def complex_(case: Case) -> Phases:
    """Dot products; what makes queries of anchors and relations is left out."""
    return _multiplied(case, case.option("dim"))


def bilinear_with_relations(case: Case) -> Phases:
    """Dot products with all entities, and with all relations where those are predicted."""
    phases = complex_(case)
    if case.settings.relation_weight:
        rows = case.n_relations * (1 if case.option("shared_inverse") else 2)
        products = case.settings.batch * rows * case.option("dim")
        phases = phases + Phases(Work(products=products), Work(products=2 * products))
    return phases


def triplere(case: Case) -> Phases:
    """Per pair and coordinate: a multiply-add and an addition; the first again, the sign, and three gradients."""
    coordinates = case.pairs * case.option("dim")
    operations = Phases(Work(multiply_adds=2 * coordinates), Work(multiply_adds=5 * coordinates))
    return _compared(case, case.option("dim")) + operations


def of_tokens(case: Case) -> Phases:
    """As TripleRE, and a block over the tokens of every anchor, answer and candidate; its features stay in caches."""
    options = case.settings.options
    near = sum(options.get(name, 0) for name in ("neighbours", "outgoing", "incoming", "nearest"))
    drawn = case.settings.batch // case.settings.pool_rows * case.settings.negatives
    encoded = case.settings.batch + (
        case.settings.batch + min(drawn, case.n_entities) if case.samples else case.n_entities
    )
    tokens, dim = encoded * (1 + near), case.option("dim")
    products = tokens * (12 * dim * dim + 2 * (1 + near) * dim)
    return triplere(case) + Phases(Work(products=products), Work(products=2 * products))


def conve(case: Case) -> Phases:
    """A convolution, a linear layer and dot products."""
    height, width = 2 * case.option("height"), case.option("dim") // case.option("height")
    return _decoder(case, case.option("channels"), CONVE_KERNEL, height, width)


def compgcn(case: Case) -> Phases:
    """Graph layers over all edges and entities, then as in ConvE."""
    height = case.option("height")
    phases = _decoder(case, case.option("filters"), case.option("kernel"), height, 2 * case.option("dim") // height)
    widths = [case.option("init_dim"), *[case.option("dim")] * case.option("layers")]
    for before, after in pairwise(widths):
        phases = phases + _graph_layer(case, before, after)
    return phases


def _decoder(case: Case, channels: int, kernel: int, height: int, width: int) -> Phases:
    """A network that reads images (height, width), and dot products with what it makes of them.

    Its features are written, read for the batch norm's statistics, and read once more; likewise their gradients.
    """
    places = (height - kernel + 1) * (width - kernel + 1)
    features = case.settings.batch * channels * places
    products = features * kernel**2 + features * case.option("dim")
    passes = 3 * NUMBER * features
    network = Phases(Work(bytes=passes, products=products), Work(bytes=passes, products=2 * products))
    return network + _multiplied(case, case.option("dim"))


def _graph_layer(case: Case, before: int, after: int) -> Phases:
    """Messages over 2n edges are composed, weighted and summed; three maps of entities, one of relations.

    An edge has two ids. Rows of the senders come from caches; tables and sums pass through memory once. A correlation
    is a product of complex numbers, half as many: two operations for each real number, one otherwise. The Fourier
    transforms are left out.
    """
    edges, entities = 2 * case.n_triples, case.n_entities
    operations = edges * before * (3 if case.option("composition") == "corr" else 2)
    products = (3 * entities + 2 * case.n_relations) * before * after
    moved = NUMBER * (2 * edges + entities * (3 * before + after))
    return Phases(
        Work(bytes=moved, multiply_adds=operations, products=products),
        Work(bytes=moved, multiply_adds=2 * operations, products=2 * products),
    )


def nbfnet(case: Case) -> Phases:
    """Layers over all edges and entities for every query, with rows of bfloat16, then a network over all states.

    A row is the state of an entity for all queries. Rows of the senders come from caches; states, statistics, winners
    and their gradients pass through memory once for each kernel that reads or writes them. A message takes two
    operations for its sum, and five for four statistics; twice that for the gradients.
    """
    width, batch, pna = case.option("width"), case.settings.batch, case.option("aggregate") == "pna"
    n_stats, operations, n_rows = (4, 5, 13) if pna else (1, 2, 2)
    numbers = case.n_entities * batch * width
    winners = 2 if pna else 0
    messages = 2 * case.n_triples * batch * width * operations
    dependent = case.option("edge_vectors") == "dependent"
    products = numbers * n_rows * width + dependent * 2 * case.n_relations * batch * width**2
    row = NUMBER / 2 * numbers
    forward = Work((2 + 2 * n_stats + winners) * row, messages, 0, products)
    backward = Work((10 + 4 * n_stats + winners) * row, 2 * messages, 0, 2 * products)
    scored = numbers * (2 * width + 2)
    network = Phases(Work(bytes=4 * row, products=scored), Work(bytes=8 * row, products=2 * scored))
    for _ in range(case.option("layers")):
        network = network + Phases(forward, backward)
    return network


MODELS: dict[str, Callable[[Case], Phases]] = {
    "transe": transe,
    "rotate": rotate,
    "house": house,
    "complex": complex_,
    "conve": conve,
    "compgcn": compgcn,
    "autoblm": bilinear_with_relations,
    "complex-rp": bilinear_with_relations,
    "triplere": triplere,
    "stargraph": of_tokens,
    "interht": of_tokens,
    "nbfnet": nbfnet,
}


@dataclass(frozen=True)
class Ceilings:
    """The measured rates of the device: the best of several runs each.

    Attributes:
        bytes: read plus written by a large copy on the device.
        multiply_adds: float32, the better of a matrix product and, on CUDA, a chain of them in registers.
        roots: reciprocal square roots of float32.
        products: multiply-adds of a matrix product as training has them: TensorFloat-32 on CUDA.
        float32_products: multiply-adds of a matrix product in full float32.
    """

    bytes: float
    multiply_adds: float
    roots: float
    products: float
    float32_products: float

    def to_json(self) -> Mapping[str, float]:
        """Return the rates by name."""
        return asdict(self)


def measure(device: torch.device) -> Ceilings:
    """Measure what bounds are taken from."""
    on_gpu = device.type == "cuda"
    plain = _product_rate(device, "highest")
    multiply_adds, roots = _chain_rates(device) if on_gpu else (plain, _root_rate(device))
    return Ceilings(
        bytes=_copy_rate(device),
        multiply_adds=max(plain, multiply_adds),
        roots=roots,
        products=_product_rate(device, "high") if on_gpu else plain,
        float32_products=plain,
    )


def wait(device: torch.device) -> None:
    """Wait until the device has done all it was asked."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _best(function: Callable[[], Any], device: torch.device, calls: int = 1) -> float:
    """Return the seconds of one call, the best of several runs of ``calls`` calls after one for warming up."""
    function()
    found = []
    for _ in range(REPEATS):
        wait(device)
        begun = perf_counter()
        for _ in range(calls):
            function()
        wait(device)
        found.append((perf_counter() - begun) / calls)
    return min(found)


def _copy_rate(device: torch.device) -> float:
    numbers = 2**28 if device.type == "cuda" else 2**25
    source = torch.rand(numbers, device=device)
    target = torch.empty_like(source)
    return 2 * NUMBER * numbers / _best(lambda: target.copy_(source), device)


def _product_rate(device: torch.device, precision: str) -> float:
    """Return the multiply-adds per second of a product of square matrices, random because zeros may be faster."""
    side = 8192 if device.type == "cuda" else 1024
    left, right = torch.rand(2, side, side, device=device)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        return float(side**3 / _best(lambda: left @ right, device))
    finally:
        torch.set_float32_matmul_precision(before)


def _root_rate(device: torch.device) -> float:
    """Return the roots per second of numbers that stay in the cache."""
    numbers = 1 + torch.rand(2**17, device=device)
    return numbers.numel() / _best(lambda: torch.rsqrt(numbers, out=numbers), device, calls=20)


def _chain_rates(device: torch.device) -> tuple[float, float]:
    """Return multiply-adds and roots per second, kept in registers."""
    from chains import MULTIPLY_ADDS, ROOTS, buffers, chain  # needs triton, which only CUDA machines have

    source, out = buffers(device, blocks=2**14)
    rounds = {MULTIPLY_ADDS: 256, ROOTS: 64}
    multiply_adds, roots = (
        chain(source, out, rounds[kind], kind) / _best(lambda kind=kind: chain(source, out, rounds[kind], kind), device)
        for kind in (MULTIPLY_ADDS, ROOTS)
    )
    return multiply_adds, roots
