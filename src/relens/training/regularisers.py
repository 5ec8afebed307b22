"""Regularisers: penalties on the looked-up rows of a batch, averaged over its examples, or on whole tables."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """The input of a penalty.

    Attributes:
        vector: query vectors, (B, d).
        inputs: looked-up (dropped-out) anchor and relation rows, (B, …) each.
        answers: looked-up (dropped-out) rows of the answers, (B, d).
        table: all entities, (E, d).
        relations: the relation table, (R, …) or (2R, …).
    """

    vector: Tensor
    inputs: tuple[Tensor, ...]
    answers: Tensor
    table: Tensor
    relations: Tensor


Penalty = Callable[[Rows], Tensor]


def frobenius(rows: Rows) -> Tensor:
    """FRO: squared norms of anchor, relation and answer."""
    return _total([part.square().sum() for part in (*rows.inputs, rows.answers)]) / len(rows.answers)


def nuclear(rows: Rows) -> Tensor:
    """NUC: cubes of the absolute values of all real entries of anchor, relation and answer."""
    return _total([part.abs().pow(3).sum() for part in (*rows.inputs, rows.answers)]) / len(rows.answers)


def dura(rows: Rows) -> Tensor:
    """DURA: squared norms of the query vector and the answer; the inverse query brings the other direction."""
    return (rows.vector.square().sum() + rows.answers.square().sum()) / len(rows.answers)


def n3(rows: Rows) -> Tensor:
    """N3: cubes of the moduli of complex coordinates (real halves, then imaginary halves)."""
    # Squares, because the gradient of a modulus is NaN at a coordinate that dropout set to 0.
    halves = [part.chunk(2, dim=-1) for part in (*rows.inputs, rows.answers)]
    cubes = [(real.square() + imaginary.square()).pow(1.5).sum() for real, imaginary in halves]
    return _total(cubes) / len(rows.answers)


def entity_norms(rows: Rows) -> Tensor:
    """HousE: the mean norm (not squared) of all entities, in the batch or not."""
    norms: Tensor = torch.linalg.vector_norm(rows.table, dim=-1)
    return norms.mean()


def table_cubes(rows: Rows) -> Tensor:
    """AutoBLM: a third of the cubed absolute values of all entries of both tables; entities count twice."""
    return (rows.relations.abs().pow(3).sum() + 2 * rows.table.abs().pow(3).sum()) / 3


def _total(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).sum()


REGULARISERS: dict[str, Penalty] = {
    "fro": frobenius,
    "nuc": nuclear,
    "dura": dura,
    "n3": n3,
    "norms": entity_norms,
    "cubes": table_cubes,
}
PER_ANSWER = frozenset({"fro", "nuc", "dura", "n3"})
"""Penalties that look at the answer of each example, and therefore need one answer per example."""
