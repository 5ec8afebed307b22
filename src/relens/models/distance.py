"""Distances between query vectors and entity rows, without the (queries, candidates, dim) tensor in between."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from relens.models import cpu, cpu_blocks, fused
from relens.models.base import Drop, keep_all
from relens.models.lookup import lookup

PIECE = {"cpu": 2**20, "cuda": 2**28}
"""Differences held at a time without a fused kernel: about the size of a cache, and 1 GiB."""


def l1_distance(vector: Tensor, table: Tensor, candidates: Tensor | None) -> Tensor:
    """Return Σ|v − x|, (B, E) or (B, P), for ``vector`` (B, d), ``table`` (E, d), ``candidates`` None or (C, P)."""
    if fused.usable(vector):
        return fused.distance(vector, table, candidates, fused.L1)
    if cpu.usable(vector):
        return cpu.compare(cpu.L1, vector, table, candidates)
    chunks = in_chunks(vector, candidates)
    return torch.cdist(chunks, table.unsqueeze(0) if candidates is None else lookup(table, candidates), p=1).flatten(
        0, 1
    )


def modulus_distance(vector: Tensor, table: Tensor, candidates: Tensor | None) -> Tensor:
    """Return Σ|v − x| over complex coordinates (real halves, then imaginary halves); shapes as in ``l1_distance``."""
    if fused.usable(vector):
        return fused.distance(vector, table, candidates, fused.MODULUS)
    if cpu.usable(vector):
        return cpu.compare(cpu.MODULUS, vector, table, candidates)
    distance = partial(_Moduli.apply, in_chunks(vector, candidates))
    return in_pieces(distance, table, candidates, vector.numel())


def scaled_distance(vector: Tensor, scale: Tensor, table: Tensor, candidates: Tensor | None) -> Tensor:
    """Return Σ|v − s·x|, each query with scales ``scale`` (B, d) of its own; other shapes as in ``l1_distance``."""
    if fused.usable(vector):
        return fused.distance(torch.cat([vector, scale], dim=1), table, candidates, fused.SCALED)
    distance = partial(_Scaled.apply, in_chunks(vector, candidates), in_chunks(scale, candidates))
    return in_pieces(distance, table, candidates, vector.numel())


def dropped(table: Tensor, candidates: Tensor | None, drop: Drop) -> tuple[Tensor, Tensor | None]:
    """Return a table and candidates with dropout: of each candidate's row if candidates are few, else of all rows.

    In the second case a candidate's dropout is the same for all queries of a step. ``drop`` may be any function of
    rows.
    """
    if drop is keep_all:
        return table, candidates
    if candidates is None or candidates.numel() >= len(table):
        return drop(table), candidates
    rows = drop(lookup(table, candidates.flatten()))
    return rows, torch.arange(len(rows), device=rows.device).view_as(candidates)


def block_distance(
    vector: Tensor,
    matrices: Tensor,
    group: Tensor,
    table: Tensor,
    candidates: Tensor | None,
    kept: cpu_blocks.KeptNorms | None = None,
) -> Tensor:
    """Return Σᵢ ‖vᵢ − Mᵢ·xᵢ‖ over c blocks of k coordinates, (B, E) or (B, P).

    ``vector`` is (B, c·k), ``table`` (E, c·k), ``matrices`` (G, c, k, k), query b uses ``matrices[group[b]]``. A CPU
    adds to ``kept``, which belongs to the same matrices and the same table.
    """
    if fused.usable(vector):
        return fused.block_distance(vector, matrices, group, table, candidates)
    if cpu.usable(vector):
        return cpu_blocks.block_distance(vector, matrices, group, table, candidates, kept)
    blocks = matrices.shape[1:3]
    own = in_chunks(lookup(matrices, group), candidates)  # (C, b, c, k, k)
    chunks = in_chunks(torch.unflatten(vector, 1, blocks), candidates).unsqueeze(2)

    def distance(rows: Tensor) -> Tensor:
        projected = torch.einsum("npik,nbilk->nbpil", torch.unflatten(rows, 2, blocks), own)
        norms: Tensor = torch.linalg.vector_norm(chunks - projected, dim=-1)
        return norms.sum(dim=-1)

    return in_pieces(distance, table, candidates, vector.numel(), recompute=True)


class _Moduli(torch.autograd.Function):
    """Sums of moduli (C, b, P) for chunks (C, b, d) and rows (C, P, d).

    The backward pass recomputes the differences, and the gradient at 0 is 0 (that of hypot is NaN).
    """

    @staticmethod
    def forward(ctx: Any, chunks: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(chunks, rows)
        return torch.hypot(*_differences(chunks, rows)).sum(dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        real, imaginary = _differences(*ctx.saved_tensors)
        modulus = torch.hypot(real, imaginary)
        scale = gradients[0].unsqueeze(-1) / modulus.clamp_min_(torch.finfo(modulus.dtype).tiny)
        parts = real.mul_(scale), imaginary.mul_(scale)
        return torch.cat([part.sum(dim=2) for part in parts], dim=-1), -torch.cat([p.sum(dim=1) for p in parts], dim=-1)


def _differences(chunks: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return real and imaginary differences, (C, b, P, d/2) each."""
    (v_re, v_im), (x_re, x_im) = chunks.unsqueeze(2).chunk(2, dim=-1), rows.unsqueeze(1).chunk(2, dim=-1)
    return v_re - x_re, v_im - x_im


class _Scaled(torch.autograd.Function):
    """Sums (C, b, P) of |v − s·x| for chunks v and s (C, b, d) and rows x (C, P, d).

    The backward pass recomputes the differences instead of keeping them.
    """

    @staticmethod
    def forward(ctx: Any, chunks: Tensor, scales: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(chunks, scales, rows)
        return _scaled_differences(chunks, scales, rows).abs_().sum(dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        chunks, scales, rows = ctx.saved_tensors
        signed = _scaled_differences(chunks, scales, rows).sign_().mul_(gradients[0].unsqueeze(-1))
        of_scales = -torch.einsum("nbpd,npd->nbd", signed, rows.expand(len(signed), -1, -1))
        return signed.sum(dim=2), of_scales, -torch.einsum("nbpd,nbd->npd", signed, scales)


def _scaled_differences(chunks: Tensor, scales: Tensor, rows: Tensor) -> Tensor:
    """Return v − s·x, (C, b, P, d)."""
    return torch.addcmul(chunks.unsqueeze(2), scales.unsqueeze(2), rows.unsqueeze(1), value=-1)


def in_chunks(rows: Tensor, candidates: Tensor | None) -> Tensor:
    """Split values of B queries, (B, …), into the chunks that share candidates: (C, B/C, …)."""
    return torch.unflatten(rows, 0, (1 if candidates is None else len(candidates), -1))


def in_pieces(
    distance: Callable[[Tensor], Tensor],
    table: Tensor,
    candidates: Tensor | None,
    n_differences: int,
    *,
    recompute: bool = False,
) -> Tensor:
    """Return the distances (B, P) that ``distance`` gives, as (C, b, P), for rows (C, P, d) of ``table``.

    Candidates are taken in pieces, because each one costs ``n_differences`` numbers. With ``recompute`` the
    differences are computed again in the backward pass instead of being kept.
    """

    def piece(start: int, stop: int) -> Tensor:
        return distance(
            table[start:stop].unsqueeze(0) if candidates is None else lookup(table, candidates[:, start:stop])
        )

    n_candidates = len(table) if candidates is None else candidates.shape[1]
    step = max(1, PIECE.get(table.device.type, PIECE["cpu"]) // n_differences)
    if step >= n_candidates:
        return piece(0, n_candidates).flatten(0, 1)
    if recompute:
        piece = partial(checkpoint, piece, use_reentrant=False, preserve_rng_state=False)
    return torch.cat([piece(at, at + step) for at in range(0, n_candidates, step)], dim=2).flatten(0, 1)
