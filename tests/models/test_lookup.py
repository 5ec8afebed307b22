"""Rows of tables and products with them, and their gradients."""

import pytest
import torch

from relens.models.lookup import all_dots, lookup

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))]
IDS = torch.tensor([[4, 0], [4, 4]])


def looked_up(vector, table):
    return (vector[:2].unsqueeze(1) * lookup(table, IDS.to(table.device))).sum(-1)


def indexed(vector, table):
    return (vector[:2].unsqueeze(1) * table[IDS.to(table.device)]).sum(-1)


def products(vector, table):
    return vector @ table.T


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("function", "plain"), [(looked_up, indexed), (all_dots, products)], ids=["lookup", "dots"])
@pytest.mark.parametrize("in_place", [False, True])
def test_values_and_gradients_are_those_of_plain_torch(function, plain, in_place, device):
    generator = torch.Generator().manual_seed(0)
    vector, table = (torch.randn(n, 3, dtype=torch.float64, generator=generator).to(device) for n in (5, 7))
    vector.requires_grad_()
    table.requires_grad_()
    expected = plain(vector, table)
    weights = torch.randn(expected.shape, dtype=torch.float64, generator=generator).to(device)
    wanted = torch.autograd.grad((expected * weights).sum(), (vector, table))
    table.grad = kept = torch.zeros_like(table) if in_place else None
    found = function(vector, table)
    torch.testing.assert_close(found, expected)
    (found * weights).sum().backward()
    torch.testing.assert_close((vector.grad, table.grad), wanted)
    assert (table.grad is kept) == in_place


def test_a_table_that_is_no_parameter_passes_its_gradient_on():
    table = torch.ones(4, 2, requires_grad=True)
    (lookup(2 * table, torch.tensor([1, 1])).sum() + all_dots(torch.ones(1, 2), 3 * table).sum()).backward()
    torch.testing.assert_close(table.grad, torch.tensor([[3.0, 3], [7, 7], [3, 3], [3, 3]]))
