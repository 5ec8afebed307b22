"""The fused kernels against plain torch, on a GPU, or in Triton's interpreter where there is none."""

import pytest
import torch

from relens.models import fused
from tests.models.small import OPTIONS, all_queries, make

pytest.importorskip("triton", reason="Triton is not installed")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# Queries, candidates as chunks × pool (None: all entities), complex coordinates: odd sizes around the tiles.
SIZES = [
    (5, (5, 1), 3),
    (1, (1, 1), 1),
    (6, (6, 17), 32),
    (34, (2, 16), 33),
    (19, (1, 35), 40),
    (16, (1, 16), 64),
    (3, None, 7),
]


def plain(vector, table, candidates, kind):
    """Return distances by materialised differences; absolute values have a zero gradient at zero, as the kernels'."""
    rows = table.unsqueeze(0) if candidates is None else table[candidates]
    chunks = vector.view(len(rows), -1, 1, vector.shape[1])
    if kind == fused.SCALED:
        chunks, scales = chunks.chunk(2, dim=-1)
        difference = (chunks - scales * rows.unsqueeze(1)).flatten(0, 1)
    else:
        difference = (chunks - rows.unsqueeze(1)).flatten(0, 1)
    if kind != fused.MODULUS:
        return difference.abs().sum(-1)
    return difference.unflatten(-1, (2, -1)).norm(dim=-2).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", [fused.L1, fused.MODULUS, fused.SCALED], ids=["l1", "modulus", "scaled"])
@pytest.mark.parametrize(("n", "layout", "half"), SIZES)
def test_kernels_equal_plain_torch(n, layout, half, kind, dtype):
    generator = torch.Generator().manual_seed(n)
    width = 2 * half if kind == fused.MODULUS else 2 * half - 1
    table = torch.randn(23, width, dtype=dtype, generator=generator)
    vector = torch.randn(n, width, dtype=dtype, generator=generator)
    candidates = None if layout is None else torch.randint(23, layout, generator=generator)
    vector[0] = table[0 if candidates is None else candidates[0, 0]]  # a distance of zero, and its gradient
    if kind == fused.SCALED:
        scale = torch.randn(n, width, dtype=dtype, generator=generator)
        scale[0] = 1
        vector = torch.cat([vector, scale], dim=1)
    weights = torch.randn(n, 23 if layout is None else layout[1], dtype=dtype, generator=generator).to(DEVICE)
    inputs = [part.to(DEVICE).requires_grad_() for part in (vector, table)]
    candidates = None if candidates is None else candidates.to(DEVICE)
    expected = plain(*inputs, candidates, kind)
    found = fused.distance(*inputs, candidates, kind)
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected)
    wanted = torch.autograd.grad((expected * weights).sum(), inputs)
    gradients = torch.autograd.grad((found * weights).sum(), inputs)
    torch.testing.assert_close(gradients, wanted)


def projected(vector, matrices, group, table, candidates):
    """Return the distances to projected candidates, all of them materialised."""
    rows = table.unsqueeze(0) if candidates is None else table[candidates]
    blocks = matrices.shape[1:3]
    chunks = rows.repeat_interleave(len(vector) // len(rows), dim=0).unflatten(2, blocks)  # (B, P, c, k)
    moved = torch.einsum("bpik,bilk->bpil", chunks, matrices[group])
    return (vector.unflatten(1, blocks).unsqueeze(1) - moved).norm(dim=-1).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(
    ("n", "layout", "blocks"), [(4, (4, 3), (2, 3)), (6, (2, 70), (35, 8)), (6, (3, 5), (2, 2)), (3, None, (2, 20))]
)
def test_projected_distances_equal_plain_torch(n, layout, blocks, dtype):
    if dtype == torch.float64 and DEVICE == "cuda" and blocks[1] not in (2, 8):
        pytest.skip("float64 products of this size are not for tensor cores")
    generator = torch.Generator().manual_seed(n)
    c, k = blocks
    sizes = {"vector": (n, c * k), "matrices": (4, c, k, k), "table": (23, c * k)}
    parts = [torch.randn(size, dtype=dtype, generator=generator).to(DEVICE) for size in sizes.values()]
    vector, matrices, table = (part.requires_grad_() for part in parts)
    group = torch.randint(4, (n,), generator=generator).to(DEVICE)
    candidates = None if layout is None else torch.randint(23, layout, generator=generator).to(DEVICE)
    expected = projected(vector, matrices, group, table, candidates)
    found = fused.block_distance(vector, matrices, group, table, candidates)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(found.shape, dtype=dtype, generator=generator).to(DEVICE)
    inputs = vector, matrices, table
    wanted = torch.autograd.grad((expected * weights).sum(), inputs)
    gradients = torch.autograd.grad((found * weights).sum(), inputs)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    torch.testing.assert_close(gradients, wanted, **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", [fused.REAL, fused.CONJUGATE], ids=["real", "conjugate"])
@pytest.mark.parametrize(("n_edges", "width"), [(300, 6), (1, 2), (40, 138)])
def test_product_sums_equal_plain_torch(n_edges, width, kind, dtype):
    generator = torch.Generator().manual_seed(n_edges)
    sizes = (9, 2, 12)  # few rows on the right: their edges come in several pieces
    ends = tuple(torch.randint(size, (n_edges,), generator=generator).to(DEVICE) for size in sizes)
    weight = torch.rand(n_edges, dtype=dtype, generator=generator).to(DEVICE)
    left, right, weights = (
        torch.randn(size, width, dtype=dtype, generator=generator).to(DEVICE).requires_grad_() for size in sizes
    )
    a, b = left[ends[0]], right[ends[1]]
    if kind == fused.REAL:
        products = a * b
    else:
        a, b = torch.complex(*a.chunk(2, dim=1)), torch.complex(*b.chunk(2, dim=1))
        product = a.conj() * b
        products = torch.cat([product.real, product.imag], dim=1)
    expected = torch.zeros_like(weights).index_add(0, ends[2], weight.unsqueeze(1) * products)
    found = fused.product_sums(left, right, fused.Trilinear.build(weight, ends, sizes), kind)
    torch.testing.assert_close(found, expected)
    wanted = torch.autograd.grad((expected * weights).sum(), (left, right))
    torch.testing.assert_close(torch.autograd.grad((found * weights).sum(), (left, right)), wanted)


def test_adagrad_equals_its_formula():
    parameter, gradient, total = (torch.randn(3, 700, device=DEVICE) for _ in range(3))
    total = total.square()
    squares = total + gradient.square()
    wanted = parameter - 0.3 * gradient / (squares.sqrt() + 1e-10)
    fused.adagrad(parameter, gradient, total, torch.tensor(0.3, device=DEVICE), 1e-10)
    torch.testing.assert_close(total, squares)
    torch.testing.assert_close(parameter, wanted)


def test_a_table_with_a_gradient_has_it_added_in_place():
    table, vector = torch.randn(6, 4, device=DEVICE, requires_grad=True), torch.randn(2, 4, device=DEVICE)
    candidates = torch.tensor([[1, 5]], device=DEVICE)
    plain(vector, table, candidates, fused.L1).sum().backward()
    wanted, table.grad = table.grad + 1, torch.ones_like(table)
    kept = table.grad
    fused.distance(vector, table, candidates, fused.L1).sum().backward()
    assert table.grad is kept
    torch.testing.assert_close(kept, wanted)


def test_strided_inputs_are_read_right():
    table, vector = torch.randn(6, 9, device=DEVICE).T, torch.randn(6, 4, device=DEVICE).T
    candidates = torch.tensor([[1], [7]], device=DEVICE).expand(2, 5)
    expected = plain(vector.contiguous(), table, candidates, fused.L1)
    torch.testing.assert_close(fused.distance(vector, table, candidates, fused.L1), expected)


def test_the_distances_do_not_depend_on_the_kernels():
    assert fused.usable(torch.zeros(1, 2, device=DEVICE)) == (DEVICE == "cuda")
    assert not fused.usable(torch.zeros(1, 2, device=DEVICE, dtype=torch.bfloat16))


@pytest.mark.parametrize("name", ["transe", "rotate", "house", "triplere", "stargraph", "interht"])
@pytest.mark.parametrize("candidates", [None, torch.arange(5).repeat(2, 1)], ids=["all", "given"])
def test_models_score_the_same_with_the_kernels(name, candidates, monkeypatch):
    options = OPTIONS[name][2 if name == "house" else 0]  # of HousE's, blocks that need no tensor cores
    model, queries = make(name, options).to(DEVICE), [part.to(DEVICE) for part in all_queries()]
    candidates = None if candidates is None else candidates.to(DEVICE)
    results = []
    for usable in (False, True):
        monkeypatch.setattr(fused, "usable", lambda vector, usable=usable: usable)
        model.zero_grad()
        scores = model.score(model.encode(*queries), candidates)
        (scores * torch.linspace(-1, 1, scores.numel(), device=DEVICE).view_as(scores)).sum().backward()
        results.append([scores.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)  # sums of many terms, in other orders
