"""Comparisons on CPUs: those of plain loops, and the same bits in every batch."""

import numpy as np
import pytest
import torch

from relens.data.queries import Queries
from relens.models import cpu, cpu_blocks, cpu_kernels
from relens.models.embedding import ENCODED_ROWS
from relens.ranking.scoring import score_queries
from tests.models.small import CASES, IDS, N_ENTITIES, N_RELATIONS, make


def rows(n, width, seed):
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def by_loop(kind, vector, table):
    """Compare pair by pair, in double precision."""
    vector, table = vector.double(), table.double()
    half = vector.shape[1] // 2
    size = {
        cpu.L1: lambda v, x: (v - x).abs().sum(),
        cpu.MODULUS: lambda v, x: torch.hypot((v - x)[:half], (v - x)[half:]).sum(),
        cpu.DOT: lambda v, x: (v * x).sum(),
    }[kind]
    return torch.tensor([[float(size(v, x)) for x in table] for v in vector], dtype=torch.float32)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", [cpu.L1, cpu.MODULUS, cpu.DOT])
@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 6), (2, 9, 34)])
def test_comparisons_are_those_of_a_loop(kind, shape):
    vector, table = rows(shape[0], shape[2], 0), rows(shape[1], shape[2], 1)
    found = cpu.compare(kind, vector, table, None)
    torch.testing.assert_close(found, by_loop(kind, vector, table), rtol=1e-5, atol=1e-5)
    candidates = torch.tensor([[0, shape[1] - 1, 0]] * shape[0])
    torch.testing.assert_close(cpu.compare(kind, vector, table, candidates), found[:, [0, -1, 0]], rtol=0, atol=0)


def distance_by_loop(vector, matrices, group, table):
    """Return distances of blocks, pair by pair, in double precision."""
    found = torch.zeros(len(vector), len(table), dtype=torch.float32)
    n_blocks, k = matrices.shape[1:3]
    for q, v in enumerate(vector.double().view(-1, n_blocks, k)):
        for e, x in enumerate(table.double().view(-1, n_blocks, k)):
            differences = [v[i] - matrices[group[q], i].double() @ x[i] for i in range(n_blocks)]
            found[q, e] = sum(float(difference.norm()) for difference in differences)
    return found


@pytest.mark.kernels
@pytest.mark.parametrize("k", [1, 3, 4])
def test_distances_of_blocks_are_those_of_a_loop(k):
    vector, table = rows(5, 2 * k, 0), rows(7, 2 * k, 1)
    matrices = rows(3 * 2 * k, k, 2).view(3, 2, k, k)
    group = torch.tensor([2, 0, 2, 0, 0])
    found = cpu_blocks.block_distance(vector, matrices, group, table, None)
    torch.testing.assert_close(found, distance_by_loop(vector, matrices, group, table), rtol=1e-5, atol=1e-5)
    candidates = torch.tensor([[0, 6]] * 5)
    given = cpu_blocks.block_distance(vector, matrices, group, table, candidates)
    torch.testing.assert_close(given, found[:, [0, 6]], rtol=0, atol=0)


@pytest.mark.parametrize("kind", [cpu.L1, cpu.MODULUS, cpu.DOT])
@pytest.mark.parametrize("width", [2, 30, 62, 200, 514])
def test_no_bit_depends_on_the_batch_or_on_how_it_is_split(kind, width):
    vector, table = rows(19, width, 0), rows(301, width, 1)
    expected = cpu.compare(kind, vector, table, None)
    repeated = cpu.compare(kind, vector[[3] * 6], table[[7] * 5], None)
    assert torch.equal(repeated, expected[3, 7].expand(6, 5))
    for some in ([0], [18, 2], list(range(18, -1, -1))):
        assert torch.equal(cpu.compare(kind, vector[some], table, None), expected[some])
    out = np.zeros(expected.shape, np.float32)
    for begin, end in ((0, 1), (1, 6), (6, 130), (130, 301)):
        cpu_kernels.compare(kind, vector.numpy(), table.numpy(), out, begin, end)
    assert np.array_equal(out, expected.numpy())


@pytest.mark.parametrize("k", [3, 8, 20])
def test_no_bit_of_a_distance_of_blocks_depends_on_the_batch(k):
    vector, table = rows(11, 3 * k, 0), rows(300, 3 * k, 1)
    matrices = rows(4 * 3 * k, k, 2).view(4, 3, k, k)
    group = torch.arange(11) % 4
    expected = cpu_blocks.block_distance(vector, matrices, group, table, None)
    for some in ([0], [5, 1], list(range(10, -1, -1))):
        assert torch.equal(cpu_blocks.block_distance(vector[some], matrices, group[some], table, None), expected[some])
    assert torch.equal(cpu_blocks.block_distance(vector, matrices, group, table[:77], None), expected[:, :77])


@pytest.mark.parametrize("slots", [0, 1, 3, 4])
def test_kept_norms_change_no_bit(slots, monkeypatch):
    k = 3
    vector, table = rows(12, 2 * k, 0), rows(300, 2 * k, 1)
    matrices = rows(4 * 2 * k, k, 2).view(4, 2, k, k)
    group = torch.arange(12) % 4
    expected = cpu_blocks.block_distance(vector, matrices, group, table, None)
    norms = 4 * 384 * 2  # of one group: three tiles of 128 rows
    monkeypatch.setattr(cpu_blocks, "KEPT", slots * norms + (norms * k if slots else 0))
    monkeypatch.setattr(cpu_blocks.KeptNorms, "room", lambda self, *sizes: slots)
    kept = cpu_blocks.KeptNorms()
    for some in ([0, 4, 8], [1], [2, 3], [0, 1, 2], list(range(12)), [3, 0], [1, 1, 2, 2]):
        found = cpu_blocks.block_distance(vector[some], matrices, group[some], table, None, kept)
        assert torch.equal(found, expected[some])


def test_norms_are_kept_for_the_matrices_used_last(monkeypatch):
    matrices, table = rows(5 * 2 * 4, 4, 2).view(5, 2, 4, 4), rows(10, 8, 1)
    tiles, one = 4 * 128 * 8, 4 * 128 * 2
    kept, squared = cpu_blocks.KeptNorms(), []
    square = cpu_blocks._square
    monkeypatch.setattr(
        cpu_blocks, "_square", lambda own, numbers, *rest: squared.extend(numbers) or square(own, numbers, *rest)
    )
    monkeypatch.setattr(cpu_blocks, "KEPT", tiles + one)
    assert kept.room(matrices, len(table)) == 5
    monkeypatch.setattr(cpu_blocks, "KEPT", tiles - 1)
    assert kept.room(matrices, len(table)) == 0
    monkeypatch.setattr(cpu_blocks, "KEPT", 3 * one)
    monkeypatch.setattr(cpu_blocks.KeptNorms, "room", lambda self, *sizes: 3)
    for group, missing in (([0, 1], 2), ([2], 1), ([0], 0), ([3, 1], 1), ([0, 1, 3], 0), ([4], 1), ([0], 1)):
        squared.clear()
        kept.of(matrices, group, table)
        assert len(squared) == missing, group


def test_what_is_kept_ends_with_the_parameters():
    model = make("house", {"dim": 8, "block": 4}).float().eval()
    queries = Queries.from_columns(np.zeros((5, 1), int))
    before = score_queries(model, queries)
    with torch.no_grad():
        model.entity.add_(0.1)
        model.relation.mul_(-2.0)
    after = score_queries(model, queries)
    fresh = make("house", {"dim": 8, "block": 4}).float().eval()
    fresh.load_state_dict(model.state_dict())
    assert not torch.equal(before, after)
    assert torch.equal(after, score_queries(fresh, queries))


def test_a_table_that_is_large_is_read_in_pieces(monkeypatch):
    vector, table = rows(5, 8, 0), rows(700, 8, 1)
    matrices, group = rows(3 * 2 * 4, 4, 2).view(3, 2, 4, 4), torch.tensor([2, 0, 2, 1, 0])
    expected = cpu_blocks.block_distance(vector, matrices, group, table, None)
    monkeypatch.setattr(cpu_blocks, "KEPT", 4 * 2 * (4 + 3) * 200)
    found = cpu_blocks.block_distance(vector, matrices, group, table, None, cpu_blocks.KeptNorms())
    assert torch.equal(found, expected)


def test_several_threads_fill_what_one_fills(monkeypatch):
    vector, table = rows(9, 40, 0), rows(103, 40, 1)
    alone = cpu.compare(cpu.L1, vector, table, None)
    monkeypatch.setattr(cpu, "SMALL", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(cpu.compare(cpu.L1, vector, table, None), alone)


def test_scores_that_are_not_finite_stay_so():
    vector = torch.tensor([[1.0, torch.nan], [1.0, 2.0]], dtype=torch.float32)
    table = torch.tensor([[1.0, 2.0], [torch.inf, 0.0]], dtype=torch.float32)
    found = cpu.compare(cpu.L1, vector, table, None)
    assert found[0].isnan().all()
    assert found[1].tolist() == [0, torch.inf]


def test_gradients_and_double_precision_take_another_way():
    assert not cpu.usable(rows(1, 2, 0))
    with torch.no_grad():
        assert cpu.usable(rows(1, 2, 0))
        assert not cpu.usable(rows(1, 2, 0).double())


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_the_scores_of_a_query_are_the_same_in_every_batch(name, options):
    model = make(name, options).float().eval()
    if not getattr(model, "rowwise", False):
        pytest.skip("its batches are filled up to one shape")
    rng = np.random.default_rng(0)
    n = 2 * ENCODED_ROWS + 5
    columns = [rng.integers(size, size=n) for size in (N_ENTITIES, N_RELATIONS, 2)]
    queries = Queries.from_columns(np.array([*columns, np.zeros(n, int), np.zeros(n, int)]))
    together = score_queries(model, queries)
    for some in (np.array([4]), np.arange(n)[::-1].copy(), np.arange(ENCODED_ROWS, ENCODED_ROWS + 3)):
        assert torch.equal(score_queries(model, queries[some]), together[some])
