"""Distances in plain torch, and their gradients."""

import pytest
import torch

from relens.models import distance as distances
from relens.models.distance import l1_distance, modulus_distance, scaled_distance

LAYOUTS = [None, (1, 5), (2, 3), (6, 4)]


def by_loop(vector, table, candidates, size):
    """Return distances pair by pair."""
    ids = torch.arange(len(table)).unsqueeze(0) if candidates is None else candidates
    per_chunk = len(vector) // len(ids)
    return torch.tensor([[size(v - table[i]) for i in ids[b // per_chunk]] for b, v in enumerate(vector)])


def l1(difference):
    return sum(abs(x) for x in difference.tolist())


def modulus(difference):
    real, imaginary = difference.chunk(2)
    return sum(abs(complex(a, b)) for a, b in zip(real.tolist(), imaginary.tolist(), strict=True))


@pytest.mark.parametrize(("distance", "size"), [(l1_distance, l1), (modulus_distance, modulus)], ids=["l1", "modulus"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("piece", [1, 100, 10**6])
def test_distances_and_gradients(distance, size, layout, piece, monkeypatch):
    monkeypatch.setitem(distances.PIECE, "cpu", piece)
    generator = torch.Generator().manual_seed(0)
    vector = torch.randn(6, 4, generator=generator, requires_grad=True)
    table = torch.randn(7, 4, generator=generator, requires_grad=True)
    candidates = None if layout is None else torch.randint(7, layout, generator=generator)
    expected = by_loop(vector.detach(), table.detach(), candidates, size)
    torch.testing.assert_close(distance(vector, table, candidates).detach(), expected)
    assert torch.autograd.gradcheck(lambda v, x: distance(v, x, candidates), (vector, table))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("piece", [1, 100, 10**6])
def test_scaled_distances_and_gradients(layout, piece, monkeypatch):
    monkeypatch.setitem(distances.PIECE, "cpu", piece)
    generator = torch.Generator().manual_seed(0)
    vector, scale, table = (torch.randn(n, 4, generator=generator, requires_grad=True) for n in (6, 6, 7))
    candidates = None if layout is None else torch.randint(7, layout, generator=generator)
    ids = [list(range(7))] if layout is None else candidates.tolist()
    expected = [
        [l1(v - s * table[i]) for i in ids[b * len(ids) // len(vector)]]
        for b, (v, s) in enumerate(zip(vector.detach(), scale.detach(), strict=True))
    ]
    torch.testing.assert_close(scaled_distance(vector, scale, table, candidates).detach(), torch.tensor(expected))
    assert torch.autograd.gradcheck(lambda *parts: scaled_distance(*parts, candidates), (vector, scale, table))
