"""The fused kernels against plain torch, on a GPU or in Triton's interpreter (``TRITON_INTERPRET=1``)."""

import os

import pytest
import torch

from relens.models import fused

pytest.importorskip("triton", reason="Triton is not installed")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(
    DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1", reason="no GPU, and TRITON_INTERPRET is not 1"
)

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
    difference = (chunks - rows.unsqueeze(1)).flatten(0, 1)
    if kind == fused.L1:
        return difference.abs().sum(-1)
    return difference.unflatten(-1, (2, -1)).norm(dim=-2).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", [fused.L1, fused.MODULUS], ids=["l1", "modulus"])
@pytest.mark.parametrize(("n", "layout", "half"), SIZES)
def test_kernels_equal_plain_torch(n, layout, half, kind, dtype):
    generator = torch.Generator().manual_seed(n)
    width = 2 * half if kind == fused.MODULUS else 2 * half - 1
    table = torch.randn(23, width, dtype=dtype, generator=generator)
    vector = torch.randn(n, width, dtype=dtype, generator=generator)
    candidates = None if layout is None else torch.randint(23, layout, generator=generator)
    vector[0] = table[0 if candidates is None else candidates[0, 0]]  # a distance of zero, and its gradient
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


def test_strided_inputs_are_read_right():
    table, vector = torch.randn(6, 9, device=DEVICE).T, torch.randn(6, 4, device=DEVICE).T
    candidates = torch.tensor([[1], [7]], device=DEVICE).expand(2, 5)
    expected = plain(vector.contiguous(), table, candidates, fused.L1)
    torch.testing.assert_close(fused.distance(vector, table, candidates, fused.L1), expected)


def test_the_distances_do_not_depend_on_the_kernels():
    assert fused.usable(torch.zeros(1, 2, device=DEVICE)) == (DEVICE == "cuda")
    assert not fused.usable(torch.zeros(1, 2, device=DEVICE, dtype=torch.bfloat16))
