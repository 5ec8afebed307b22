"""Compiled comparisons of queries with candidates on a CPU; imported when they are first used.

A number of the result is made by one loop over the coordinates of one query and one candidate. The same instructions
run for every pair, so no bit depends on the other queries or candidates of a call, or on how a call is split.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from relens.compiled import njit
from relens.models.cpu import L1, MODULUS

Reals = npt.NDArray[np.float32]

WIDTH = 128
"""Rows of a table that products take at a time."""
STEP = 4
"""Rows and columns of a matrix that are multiplied at a time; both are filled up with zeros to a multiple of it."""
# Sums may be reordered to fit vector registers, in the same way in every call. Values that are not finite stay so.
_MATH = {"reassoc", "contract", "nsz"}


@njit(fastmath=_MATH)
def _modulus(a: Any, b: Any, c: Any, d: Any) -> Any:
    return np.sqrt((a - b) * (a - b) + (c - d) * (c - d))


@njit(fastmath=_MATH)
def compare(kind: int, vector: Reals, table: Reals, out: Reals, begin: int, end: int) -> None:
    """Compare vectors (B, d) with the rows ``begin`` to ``end`` of a table (E, d); fill these columns of (B, E)."""
    n, width = vector.shape
    half = width // 2
    for e in range(begin, end, 4):
        # Four rows stay in the first cache while all queries pass. The last four may repeat a row.
        e1, e2, e3 = min(e + 1, end - 1), min(e + 2, end - 1), min(e + 3, end - 1)
        x0, x1, x2, x3 = table[e], table[e1], table[e2], table[e3]
        for q in range(n):
            v = vector[q]
            s0 = s1 = s2 = s3 = np.float32(0)
            if kind == L1:
                for k in range(width):
                    s0 += abs(v[k] - x0[k])
                    s1 += abs(v[k] - x1[k])
                    s2 += abs(v[k] - x2[k])
                    s3 += abs(v[k] - x3[k])
            elif kind == MODULUS:
                for k in range(half):
                    real, imaginary = v[k], v[half + k]
                    s0 += _modulus(real, x0[k], imaginary, x0[half + k])
                    s1 += _modulus(real, x1[k], imaginary, x1[half + k])
                    s2 += _modulus(real, x2[k], imaginary, x2[half + k])
                    s3 += _modulus(real, x3[k], imaginary, x3[half + k])
            else:
                for k in range(width):
                    s0 += v[k] * x0[k]
                    s1 += v[k] * x1[k]
                    s2 += v[k] * x2[k]
                    s3 += v[k] * x3[k]
            out[q, e], out[q, e1], out[q, e2], out[q, e3] = s0, s1, s2, s3


@njit(fastmath=_MATH)
def add_product(matrix: Reals, rows: Reals, out: Reals) -> None:
    """Add the product of a matrix (I, J) with ``rows`` (J, WIDTH) to ``out`` (I, WIDTH).

    Sixteen numbers of the matrix stay in registers while the rows pass. I and J are multiples of ``STEP``.
    """
    for i in range(0, len(matrix), STEP):
        m0, m1, m2, m3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        # Rows of one slice are a known distance apart, so they need not be checked for overlaps.
        y = out[i : i + STEP].reshape(STEP * WIDTH)
        for j in range(0, matrix.shape[1], STEP):
            x = rows[j : j + STEP].reshape(STEP * WIDTH)
            a0, b0, c0, d0 = m0[j], m0[j + 1], m0[j + 2], m0[j + 3]
            a1, b1, c1, d1 = m1[j], m1[j + 1], m1[j + 2], m1[j + 3]
            a2, b2, c2, d2 = m2[j], m2[j + 1], m2[j + 2], m2[j + 3]
            a3, b3, c3, d3 = m3[j], m3[j + 1], m3[j + 2], m3[j + 3]
            for at in range(WIDTH):
                x0, x1, x2, x3 = x[at], x[WIDTH + at], x[2 * WIDTH + at], x[3 * WIDTH + at]
                y[at] += a0 * x0 + b0 * x1 + c0 * x2 + d0 * x3
                y[WIDTH + at] += a1 * x0 + b1 * x1 + c1 * x2 + d1 * x3
                y[2 * WIDTH + at] += a2 * x0 + b2 * x1 + c2 * x2 + d2 * x3
                y[3 * WIDTH + at] += a3 * x0 + b3 * x1 + c3 * x2 + d3 * x3


@njit(fastmath=_MATH)
def turn(vector: Reals, matrices: Reals, group: npt.NDArray[np.int64], turned: Reals, squares: Reals) -> None:
    """Multiply vectors with transposed matrices, block by block: fill ``turned`` with -2·Mᵀv and ``squares`` with ‖v‖².

    Args:
        vector: (B, c, k).
        matrices: (G, c, k, k).
        group: the matrices of each vector, (B,).
        turned: (c, B', K), zeros where there is no vector or coordinate.
        squares: (c, B).
    """
    n, n_blocks, k = vector.shape
    for q in range(n):
        for i in range(n_blocks):
            own, matrix, out = vector[q, i], matrices[group[q], i], turned[i, q]
            square = np.float32(0)
            for j in range(k):
                square += own[j] * own[j]
            squares[i, q] = square
            for j in range(k):
                row, twice = matrix[j], np.float32(-2) * own[j]
                for m in range(k):
                    out[m] += twice * row[m]


@njit(fastmath=_MATH)
def square_blocks(forms: Reals, slot: npt.NDArray[np.int64], tiles: Reals, norms: Reals, begin: int, end: int) -> None:
    """Fill rows of ``norms`` (S, c, T·WIDTH) with xᵀ·F·x of every block and row, for the tiles ``begin`` to ``end``.

    Args:
        forms: (G, c, K, K), see ``_add_form``; K is a multiple of ``STEP``.
        slot: where the results of each form go, (G,).
        tiles: the table, (T, c, K, WIDTH).
    """
    for tile in range(begin, end):
        for i in range(forms.shape[1]):
            for g in range(len(forms)):
                total = norms[slot[g], i, tile * WIDTH : (tile + 1) * WIDTH]
                total[:] = 0
                _add_form(forms[g, i], tiles[tile, i], total)


@njit(fastmath=_MATH)
def _add_form(form: Reals, rows: Reals, total: Reals) -> None:
    """Add xᵀ·F·x of every column x of ``rows`` (K, WIDTH) to ``total`` (WIDTH,).

    Blocks of ``STEP`` rows and columns below the diagonal are not read: those above hold the sum of both.
    """
    for i in range(0, len(form), STEP):
        m0, m1, m2, m3 = form[i], form[i + 1], form[i + 2], form[i + 3]
        y = rows[i : i + STEP].reshape(STEP * WIDTH)
        for j in range(i, len(form), STEP):
            x = rows[j : j + STEP].reshape(STEP * WIDTH)
            a0, b0, c0, d0 = m0[j], m0[j + 1], m0[j + 2], m0[j + 3]
            a1, b1, c1, d1 = m1[j], m1[j + 1], m1[j + 2], m1[j + 3]
            a2, b2, c2, d2 = m2[j], m2[j + 1], m2[j + 2], m2[j + 3]
            a3, b3, c3, d3 = m3[j], m3[j + 1], m3[j + 2], m3[j + 3]
            for at in range(WIDTH):
                x0, x1, x2, x3 = x[at], x[WIDTH + at], x[2 * WIDTH + at], x[3 * WIDTH + at]
                first = y[at] * (a0 * x0 + b0 * x1 + c0 * x2 + d0 * x3)
                second = y[WIDTH + at] * (a1 * x0 + b1 * x1 + c1 * x2 + d1 * x3)
                third = y[2 * WIDTH + at] * (a2 * x0 + b2 * x1 + c2 * x2 + d2 * x3)
                fourth = y[3 * WIDTH + at] * (a3 * x0 + b3 * x1 + c3 * x2 + d3 * x3)
                total[at] += (first + second) + (third + fourth)


@njit(fastmath=_MATH)
def compare_blocks(
    queries: tuple[Reals, Reals],
    norms: Reals,
    slot: npt.NDArray[np.int64],
    tiles: Reals,
    out: Reals,
    begin: int,
    end: int,
) -> None:
    """Fill columns of ``out`` (B, E) with Σᵢ ‖vᵢ − Mᵢ·xᵢ‖ over c blocks, for the tiles ``begin`` to ``end``.

    The square of a block is ‖v‖² − 2·⟨Mᵀv, x⟩ + ‖M·x‖².

    Args:
        queries: (c, B', K) and (c, B), see ``turn``.
        norms: (S, c, T·WIDTH), see ``square_blocks``.
        slot: the norms of each query, (B,).
        tiles: the table, (T, c, K, WIDTH).
        begin, end: tiles.
    """
    turned, squares = queries
    n, n_entities = out.shape
    products = np.empty((turned.shape[1], WIDTH), np.float32)
    sums = np.empty((n, WIDTH), np.float32)
    for tile in range(begin, end):
        first = tile * WIDTH
        sums[:] = 0
        for i in range(len(turned)):
            products[:] = 0
            add_product(turned[i], tiles[tile, i], products)
            for q in range(n):
                own, total, product = squares[i, q], sums[q], products[q]
                of_rows = norms[slot[q], i, first : first + WIDTH]
                for at in range(WIDTH):
                    square = (own + of_rows[at]) + product[at]
                    # Rounding may take a square below zero. One that is not a number stays so.
                    total[at] += np.sqrt(np.float32(0) if square < 0 else square)
        size = min(WIDTH, n_entities - first)
        out[:, first : first + size] = sums[:, :size]
