import pytest
import torch

from relens.training.regularisers import REGULARISERS, Rows

BATCH = 4


@pytest.fixture
def rows() -> Rows:
    rng = torch.Generator().manual_seed(2)

    def draw(n: int, d: int = 6) -> torch.Tensor:
        return torch.randn(n, d, generator=rng, dtype=torch.float64)

    return Rows(draw(BATCH), (draw(BATCH), draw(BATCH)), draw(BATCH), draw(9), draw(3, 4))


def entries(part: torch.Tensor) -> list[float]:
    return [float(x) for x in part.flatten()]


def test_fro_and_nuc_are_sums_of_powers(rows) -> None:
    parts = [x for part in (*rows.inputs, rows.answers) for x in entries(part)]
    assert float(REGULARISERS["fro"](rows)) == pytest.approx(sum(x**2 for x in parts) / BATCH)
    assert float(REGULARISERS["nuc"](rows)) == pytest.approx(sum(abs(x) ** 3 for x in parts) / BATCH)


def test_dura_looks_at_query_and_answer(rows) -> None:
    expected = sum(x**2 for x in entries(rows.vector) + entries(rows.answers)) / BATCH
    assert float(REGULARISERS["dura"](rows)) == pytest.approx(expected)


def test_n3_cubes_complex_moduli(rows) -> None:
    total = 0.0
    for part in (*rows.inputs, rows.answers):
        for row in part.tolist():
            total += sum(abs(complex(row[k], row[k + 3])) ** 3 for k in range(3))
    assert float(REGULARISERS["n3"](rows)) == pytest.approx(total / BATCH)


def test_norms_are_of_all_entities(rows) -> None:
    expected = sum(sum(x**2 for x in row) ** 0.5 for row in rows.table.tolist()) / len(rows.table)
    assert float(REGULARISERS["norms"](rows)) == pytest.approx(expected)


def test_cubes_are_of_both_tables(rows) -> None:
    expected = sum(abs(x) ** 3 for x in entries(rows.relations)) + 2 * sum(abs(x) ** 3 for x in entries(rows.table))
    assert float(REGULARISERS["cubes"](rows)) == pytest.approx(expected / 3)


@pytest.mark.parametrize("name", REGULARISERS)
def test_gradients_are_finite_at_zero(name) -> None:
    zero = torch.zeros(2, 4, requires_grad=True)
    REGULARISERS[name](Rows(zero * 1, (zero * 1,), zero * 1, zero * 1, zero * 1)).backward()
    assert torch.isfinite(zero.grad).all()
