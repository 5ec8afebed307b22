"""The Triton kernels behind ``relens.models.propagation``; imported only where they run.

``gather`` makes the statistics of every node from its in-edges, ``mix`` turns them into new states. Backward,
``mix_gradients`` turns gradients of states into gradients of statistics, ``weight_gradient`` sums up those of the
weights, and ``spread`` sends gradients back along the in-edges. It walks by destination like ``gather``: what belongs
to a destination is read once, and all that moves per edge is one row of states in, and one row of gradients out, which
is added where the edge comes from. (By source, six fields of the destination would have to be read per edge.)

A row is one node for all queries: C = B·d columns. Programs take one segment of in-edges and one block of columns;
blocks of columns come slowest, so that the rows of one block stay in the cache while all segments pass.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from relens.models.propagation import Graph, LayerTensors, Made, Places, Removal


class Tile(NamedTuple):
    """The part of the work that one program of a kernel does.

    Attributes:
        size: columns (``gather``, ``combine``, ``spread``), or rows of d numbers (the others).
        unroll: edges in flight at a time (``gather``, ``spread``), or statistics multiplied at a time (those of rows).
        warps: of 32 threads each. A thread reads 16 bytes at once where size is 256 · warps and states are bfloat16.
    """

    size: int
    unroll: int
    warps: int


NARROW = {"mix": Tile(128, 4, 8), "mix_gradients": Tile(128, 4, 4), "weight_gradient": Tile(64, 4, 8)}
WIDE = {"mix": Tile(64, 2, 4), "mix_gradients": Tile(64, 2, 4), "weight_gradient": Tile(64, 1, 8)}
"""Tiles of the kernels that take rows, by name, for states of at most ``NARROW_WIDTH`` numbers and for wider ones.

All four statistics of wide states, and their weights, do not fit into registers at once. No tile of WIDE spills any, as
compiled for an H200, and two programs or three fit on a multiprocessor.
"""
NARROW_WIDTH = 32
DENSE = {"gather": Tile(1024, 4, 4), "combine": Tile(512, 1, 2), "spread": Tile(512, 4, 2)}
SPARSE = {"gather": Tile(1024, 2, 4), "combine": Tile(512, 1, 2), "spread": Tile(1024, 2, 8)}
"""Tiles of the kernels that walk along edges, by name, where entities have many or few.

They and those of NARROW are the best of those that ``benchmarks/propagation`` tried at a width of 32, on FB15k-237
(DENSE) and on WN18RR (SPARSE); on NELL-995, those of SPARSE take at most 2 % longer than its own best.
"""
MANY_EDGES = 12
"""In-edges of an entity, on average, from which a graph counts as dense: FB15k-237 has 37, the other two 4."""


def tiles_of(graph: "Graph") -> dict[str, Tile]:
    """Return the tiles of the kernels that walk along the edges of a graph."""
    return DENSE if graph.n_edges >= MANY_EDGES * graph.n_entities else SPARSE


def row_tiles_of(width: int) -> dict[str, Tile]:
    """Return the tiles of the kernels that take rows of as many numbers."""
    return NARROW if width <= NARROW_WIDTH else WIDE


PROGRAMS = 264
"""Programs of ``weight_gradient``, two for each multiprocessor of an H200: each sums up on its own."""
STAGES = 3
"""Tiles of ``weight_gradient`` on their way at a time."""
SMALL_TILE = 16, 8
"""Rows and warps for numbers wider than bfloat16, which are for tests: tensor cores do not multiply them."""

TAG = tl.constexpr(0xFF)
"""The product of two bfloat16 leaves eight bits of a float32 empty: they hold the edge's place in its segment."""
LOWEST, HIGHEST = tl.constexpr(-8388608), tl.constexpr(2139095040)
"""The bits of −∞ and of ∞."""
EPSILON = tl.constexpr(1e-5)
"""Of the layer norm."""
SMALLEST_VARIANCE = tl.constexpr(1e-6)
SMALLEST_SCALE = tl.constexpr(0.01)


@triton.jit
def _boundary(query, anchor, node, column, inside, width: tl.constexpr):
    is_anchor = tl.load(anchor + column // width, mask=inside, other=-1) == node
    return tl.load(query + column, mask=inside & is_anchor, other=0.0)


@triton.jit
def _finish(
    total, squares, top, bottom, top_at, bottom_at, boundary, node, column, inside, columns, count, stats, winner,
    pna: tl.constexpr, tracked: tl.constexpr,
):  # fmt: skip
    # The boundary is one more element; on a tie an edge wins.
    total += boundary
    if pna:
        n = tl.load(count + node).to(total.dtype)
        mean = total / n
        variance = (squares + boundary * boundary) / n - mean * mean
        at = node * 4 * columns + column
        tl.store(stats + at, mean, mask=inside)
        tl.store(stats + at + columns, tl.maximum(top, boundary), mask=inside)
        tl.store(stats + at + 2 * columns, tl.minimum(bottom, boundary), mask=inside)
        tl.store(stats + at + 3 * columns, tl.sqrt(tl.maximum(variance, SMALLEST_VARIANCE)), mask=inside)
        if tracked:
            at = node * 2 * columns + column
            tl.store(winner + at, tl.where(boundary > top, -1, top_at), mask=inside)
            tl.store(winner + at + columns, tl.where(boundary < bottom, -1, bottom_at), mask=inside)
    else:
        tl.store(stats + node * columns + column, total, mask=inside)


@triton.jit
def _gather_kernel(
    state, edge, query, anchor, source, relation, keep, segment_node, segment_start, segment_stop, segment_part, offset,
    count, reached, stats, winner, part, part_winner, columns,
    width: tl.constexpr, pna: tl.constexpr, shared: tl.constexpr, first: tl.constexpr, tracked: tl.constexpr,
    packed: tl.constexpr, real: tl.constexpr, tile: tl.constexpr, unroll: tl.constexpr,
):  # fmt: skip
    segment = tl.program_id(0)
    column = tl.program_id(1) * tile + tl.arange(0, tile)
    inside = column < columns
    node = tl.load(segment_node + segment).to(tl.int64)
    start, stop = tl.load(segment_start + segment), tl.load(segment_stop + segment)
    if shared:
        edge += column % width
        edge_columns = width
    else:
        edge += column
        edge_columns = columns
    total, squares = tl.zeros((tile,), real), tl.zeros((tile,), real)
    top, bottom = tl.full((tile,), float("-inf"), real), tl.full((tile,), float("inf"), real)
    top_at, bottom_at = tl.full((tile,), -1, tl.int32), tl.full((tile,), -1, tl.int32)
    for begin in range(start, stop, unroll):
        for step in tl.static_range(unroll):
            place = begin + step
            live = place < stop
            live = live & (tl.load(keep + place, mask=live, other=0) != 0)
            u = tl.load(source + place, mask=live, other=0).to(tl.int64)
            r = tl.load(relation + place, mask=live, other=0).to(tl.int64)
            read = inside & live
            if first:  # states are zeros where they are not read
                read = read & (tl.load(reached + u * tl.num_programs(1) + tl.program_id(1), mask=live, other=0) != 0)
            x = tl.load(state + u * columns + column, mask=read, other=0.0).to(real)
            message = x * tl.load(edge + r * edge_columns, mask=read, other=0.0).to(real)
            total += message
            if pna:
                squares += message * message
                if packed:
                    bits = message.to(tl.int32, bitcast=True)
                    tag = place - start
                    # An edge that is not there has the message 0, which the bits of an infinity replace.
                    raised = (bits | tl.where(live, tag, LOWEST)).to(tl.float32, bitcast=True)
                    lowered = (bits | tl.where(live, tag, HIGHEST)).to(tl.float32, bitcast=True)
                    top, bottom = tl.maximum(top, raised), tl.minimum(bottom, lowered)
                else:
                    above, below = live & (message > top), live & (message < bottom)
                    top, bottom = tl.where(above, message, top), tl.where(below, message, bottom)
                    offered = place - tl.load(offset + node)
                    top_at, bottom_at = tl.where(above, offered, top_at), tl.where(below, offered, bottom_at)
    if pna and packed:
        bits, moved = top.to(tl.int32, bitcast=True), start - tl.load(offset + node)
        top, top_at = (bits & ~TAG).to(tl.float32, bitcast=True), (bits & TAG) + moved
        bits = bottom.to(tl.int32, bitcast=True)
        bottom, bottom_at = (bits & ~TAG).to(tl.float32, bitcast=True), (bits & TAG) + moved
    row = tl.load(segment_part + segment).to(tl.int64)
    if row < 0:
        boundary = _boundary(query, anchor, node, column, inside, width).to(real)
        _finish(
            total, squares, top, bottom, top_at, bottom_at, boundary, node, column, inside, columns, count, stats,
            winner, pna, tracked,
        )  # fmt: skip
    else:
        at = row * (4 if pna else 1) * columns + column
        tl.store(part + at, total, mask=inside)
        if pna:
            tl.store(part + at + columns, squares, mask=inside)
            tl.store(part + at + 2 * columns, top, mask=inside)
            tl.store(part + at + 3 * columns, bottom, mask=inside)
            if tracked:
                tl.store(part_winner + row * 2 * columns + column, top_at, mask=inside)
                tl.store(part_winner + row * 2 * columns + columns + column, bottom_at, mask=inside)


@triton.jit
def _combine_kernel(
    query, anchor, hub_node, hub_start, hub_stop, count, stats, winner, part, part_winner, columns,
    width: tl.constexpr, pna: tl.constexpr, tracked: tl.constexpr, real: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    # Nodes of several segments: put their parts together.
    hub = tl.program_id(0)
    column = tl.program_id(1) * tile + tl.arange(0, tile)
    inside = column < columns
    node = tl.load(hub_node + hub).to(tl.int64)
    total, squares = tl.zeros((tile,), real), tl.zeros((tile,), real)
    top, bottom = tl.full((tile,), float("-inf"), real), tl.full((tile,), float("inf"), real)
    top_at, bottom_at = tl.full((tile,), -1, tl.int32), tl.full((tile,), -1, tl.int32)
    wide = tl.full((tile,), columns, tl.int64)
    for row in range(tl.load(hub_start + hub), tl.load(hub_stop + hub)):
        at = row * wide * (4 if pna else 1) + column
        total += tl.load(part + at, mask=inside, other=0.0)
        if pna:
            squares += tl.load(part + at + columns, mask=inside, other=0.0)
            higher = tl.load(part + at + 2 * columns, mask=inside, other=0.0)
            lower = tl.load(part + at + 3 * columns, mask=inside, other=0.0)
            if tracked:
                at = row * wide * 2 + column
                higher_at = tl.load(part_winner + at, mask=inside, other=0)
                lower_at = tl.load(part_winner + at + columns, mask=inside, other=0)
                top_at = tl.where(higher > top, higher_at, top_at)
                bottom_at = tl.where(lower < bottom, lower_at, bottom_at)
            top, bottom = tl.maximum(top, higher), tl.minimum(bottom, lower)
    boundary = _boundary(query, anchor, node, column, inside, width).to(real)
    _finish(
        total, squares, top, bottom, top_at, bottom_at, boundary, node, column, inside, columns, count, stats, winner,
        pna, tracked,
    )  # fmt: skip


@triton.jit
def _spread_kernel(
    state, edge, stats, of_stats, winner, source, relation, keep, segment_node, segment_start, segment_stop, offset,
    count, reached, of_state, of_edge, columns, floor,
    width: tl.constexpr, pna: tl.constexpr, shared: tl.constexpr, first: tl.constexpr, to_states: tl.constexpr,
    to_edges: tl.constexpr, real: tl.constexpr, tile: tl.constexpr, unroll: tl.constexpr,
):  # fmt: skip
    # A message m has the gradient α + β·m, and what the node's maximum and minimum have where it won them.
    segment = tl.program_id(0)
    column = tl.program_id(1) * tile + tl.arange(0, tile)
    inside = column < columns
    node = tl.load(segment_node + segment).to(tl.int64)
    start, stop = tl.load(segment_start + segment), tl.load(segment_stop + segment)
    lane = tl.arange(0, width)
    if shared:
        edge += column % width
        edge_columns = width
    else:
        edge += column
        edge_columns = columns
    at = node * (4 if pna else 1) * columns + column
    alpha = tl.load(of_stats + at, mask=inside, other=0.0).to(real)
    if pna:
        n = tl.load(count + node).to(real)
        deviation = tl.load(stats + at + 3 * columns, mask=inside, other=1.0).to(real)
        beta = tl.load(of_stats + at + 3 * columns, mask=inside, other=0.0).to(real)
        beta = tl.where(deviation > floor, beta / deviation, 0.0) / n
        alpha = alpha / n - beta * tl.load(stats + at, mask=inside, other=0.0).to(real)
        of_top = tl.load(of_stats + at + columns, mask=inside, other=0.0).to(real)
        of_bottom = tl.load(of_stats + at + 2 * columns, mask=inside, other=0.0).to(real)
        at = node * 2 * columns + column
        moved = start - tl.load(offset + node)
        top_at = tl.load(winner + at, mask=inside, other=-1).to(tl.int32) - moved
        bottom_at = tl.load(winner + at + columns, mask=inside, other=-1).to(tl.int32) - moved
    gathered = tl.zeros((tile,), real)
    for begin in range(start, stop, unroll):
        for step in tl.static_range(unroll):
            place = begin + step
            there = place < stop
            live = there & (tl.load(keep + place, mask=there, other=0) != 0)
            u = tl.load(source + place, mask=there, other=0).to(tl.int64)
            r = tl.load(relation + place, mask=there, other=-1)
            if first:  # where states are zeros, nobody asks for their gradients, and edge vectors have none
                live = live & (tl.load(reached + u * tl.num_programs(1) + tl.program_id(1), mask=live, other=0) != 0)
            w = tl.load(edge + r.to(tl.int64) * edge_columns, mask=inside & live, other=0.0).to(real)
            if pna or to_edges:
                x = tl.load(state + u * columns + column, mask=inside & live, other=0.0).to(real)
            gradient = alpha
            if pna:
                gradient += beta * (x * w)
                gradient += tl.where(top_at == place - start, of_top, 0.0)
                gradient += tl.where(bottom_at == place - start, of_bottom, 0.0)
            if to_states:
                tl.atomic_add(of_state + u * columns + column, gradient * w, mask=inside & live, sem="relaxed")
            if to_edges:
                # In-edges of one relation follow each other: their sum is added once.
                gathered += gradient * x
                after = tl.load(relation + place + 1, mask=place + 1 < stop, other=-1)
                last = there & (after != r)
                if last:
                    if shared:
                        summed = tl.sum(tl.reshape(gathered, (tile // width, width)), axis=0)
                        tl.atomic_add(of_edge + r.to(tl.int64) * width + lane, summed, sem="relaxed")
                    else:
                        out = of_edge + r.to(tl.int64) * columns + column
                        tl.atomic_add(out, gathered, mask=inside, sem="relaxed")
                gathered = tl.where(last, 0.0, gathered)


@triton.jit
def _fields(row, batch, first, n_stats: tl.constexpr, unroll: tl.constexpr, width: tl.constexpr):
    # Where the statistics of rows are, as many as are unrolled: (rows, unroll · width).
    stat = tl.arange(0, unroll * width)
    at = ((row // batch * n_stats + first)[:, None] + (stat // width)[None, :]) * batch + (row % batch)[:, None]
    return at * width + (stat % width)[None, :]


@triton.jit
def _mixed(
    state, stats, scale, weight, bias, row, row_in, batch,
    width: tl.constexpr, pna: tl.constexpr, real: tl.constexpr, precision: tl.constexpr, unroll: tl.constexpr,
):  # fmt: skip
    # z = W₀·x + W₁·S + s·(W₂·S) + (1/s)·(W₃·S): scalers multiply rows of d numbers instead of 4d.
    n_stats: tl.constexpr = 4 if pna else 1
    step: tl.constexpr = 4 * width * width
    lane, stat = tl.arange(0, width), tl.arange(0, unroll * width)
    x = tl.load(state + row[:, None] * width + lane[None, :], mask=row_in[:, None], other=0.0)
    ratio = tl.load(scale + row // batch, mask=row_in, other=1.0).to(real)[:, None]
    inverse = 1 / tl.maximum(ratio, SMALLEST_SCALE)
    own = tl.load(weight + lane[:, None] * width + lane[None, :])
    z = tl.dot(x, own, input_precision=precision, out_dtype=real)
    for first in tl.static_range(0, n_stats, unroll):
        s = tl.load(stats + _fields(row, batch, first, n_stats, unroll, width), mask=row_in[:, None], other=0.0)
        block = weight + (1 + first) * width * width + stat[:, None] * width + lane[None, :]
        z = tl.dot(s, tl.load(block), z, input_precision=precision, out_dtype=real)
        if pna:
            z += ratio * tl.dot(s, tl.load(block + step), input_precision=precision, out_dtype=real)
            z += inverse * tl.dot(s, tl.load(block + 2 * step), input_precision=precision, out_dtype=real)
    z += tl.load(bias + lane).to(real)[None, :]
    centred = z - (tl.sum(z, axis=1) / width)[:, None]
    spread = tl.rsqrt(tl.sum(centred * centred, axis=1) / width + EPSILON)[:, None]
    return x, centred * spread, spread, ratio, inverse


@triton.jit
def _mix_kernel(
    state, stats, scale, weight, bias, gain, shift, out, n_rows, batch,
    width: tl.constexpr, pna: tl.constexpr, real: tl.constexpr, precision: tl.constexpr, tile: tl.constexpr,
    unroll: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    row_in = row < n_rows
    x, normal, _, _, _ = _mixed(
        state, stats, scale, weight, bias, row, row_in, batch, width, pna, real, precision, unroll
    )  # fmt: skip
    lane = tl.arange(0, width)
    y = normal * tl.load(gain + lane).to(real)[None, :] + tl.load(shift + lane).to(real)[None, :]
    y = tl.maximum(y, 0.0) + x.to(real)
    tl.store(out + row[:, None] * width + lane[None, :], y, mask=row_in[:, None])


@triton.jit
def _mix_gradient_kernel(
    state, stats, scale, weight, bias, gain, shift, gradient, of_state, of_stats, of_mixed, of_vectors, n_rows, batch,
    width: tl.constexpr, pna: tl.constexpr, real: tl.constexpr, precision: tl.constexpr, tile: tl.constexpr,
    unroll: tl.constexpr,
):  # fmt: skip
    n_stats: tl.constexpr = 4 if pna else 1
    step: tl.constexpr = 4 * width * width
    lane, stat = tl.arange(0, width), tl.arange(0, unroll * width)
    storage = state.dtype.element_ty
    row = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    row_in = row < n_rows
    _, normal, spread, ratio, inverse = _mixed(
        state, stats, scale, weight, bias, row, row_in, batch, width, pna, real, precision, unroll
    )  # fmt: skip
    at = row[:, None] * width + lane[None, :]
    g = tl.load(gradient + at, mask=row_in[:, None], other=0.0).to(real)
    gain_row = tl.load(gain + lane).to(real)[None, :]
    of_y = tl.where(normal * gain_row + tl.load(shift + lane).to(real)[None, :] > 0, g, 0.0)
    of_normal = of_y * gain_row
    along = tl.sum(of_normal * normal, axis=1) / width
    of_z = spread * (of_normal - (tl.sum(of_normal, axis=1) / width)[:, None] - normal * along[:, None])
    vector = of_vectors + tl.program_id(0) * 3 * width + lane
    tl.store(vector, tl.sum(of_z, axis=0))
    tl.store(vector + width, tl.sum(of_y * normal, axis=0))
    tl.store(vector + 2 * width, tl.sum(of_y, axis=0))
    z = of_z.to(storage)
    tl.store(of_mixed + at, z, mask=row_in[:, None])
    own = tl.load(weight + lane[None, :] * width + lane[:, None])  # transposed, as all weights here
    back = tl.dot(z, own, input_precision=precision, out_dtype=real)
    tl.store(of_state + at, g + back, mask=row_in[:, None])
    if pna:
        scaled, divided = (of_z * ratio).to(storage), (of_z * inverse).to(storage)
    for first in tl.static_range(0, n_stats, unroll):
        block = weight + (1 + first) * width * width + stat[None, :] * width + lane[:, None]
        back = tl.dot(z, tl.load(block), input_precision=precision, out_dtype=real)
        if pna:
            back = tl.dot(scaled, tl.load(block + step), back, input_precision=precision, out_dtype=real)
            back = tl.dot(divided, tl.load(block + 2 * step), back, input_precision=precision, out_dtype=real)
        tl.store(of_stats + _fields(row, batch, first, n_stats, unroll, width), back, mask=row_in[:, None])


@triton.jit
def _weight_gradient_kernel(
    state, stats, scale, of_mixed, of_weight, n_rows, batch,
    width: tl.constexpr, pna: tl.constexpr, real: tl.constexpr, precision: tl.constexpr, tile: tl.constexpr,
    unroll: tl.constexpr,
):  # fmt: skip
    # Programs next to each other take other statistics of the same rows, and the states of these in turns.
    n_stats: tl.constexpr = 4 if pna else 1
    lane, stat = tl.arange(0, width), tl.arange(0, unroll * width)
    storage = state.dtype.element_ty
    part, parts = tl.program_id(0), tl.num_programs(0)
    first = part * unroll
    own = tl.zeros((width, width), real)
    plain = tl.zeros((unroll * width, width), real)
    scaled = tl.zeros((unroll * width, width), real)
    divided = tl.zeros((unroll * width, width), real)
    for index in range(tl.program_id(1), tl.cdiv(n_rows, tile), tl.num_programs(1)):
        row = (index * tile + tl.arange(0, tile)).to(tl.int64)
        row_in = row < n_rows
        node, query = row // batch, row % batch
        at = row[:, None] * width + lane[None, :]
        z = tl.load(of_mixed + at, mask=row_in[:, None], other=0.0)
        turn = row_in & (index % parts == part)
        x = tl.load(state + row[None, :] * width + lane[:, None], mask=turn[None, :], other=0.0)
        field = ((node * n_stats + first)[None, :] + (stat // width)[:, None]) * batch + query[None, :]
        s = tl.load(stats + field * width + (stat % width)[:, None], mask=row_in[None, :], other=0.0)
        own = tl.dot(x, z, own, input_precision=precision, out_dtype=real)
        plain = tl.dot(s, z, plain, input_precision=precision, out_dtype=real)
        if pna:
            ratio = tl.load(scale + node, mask=row_in, other=1.0).to(real)[:, None]
            multiplied = (z.to(real) * ratio).to(storage)
            scaled = tl.dot(s, multiplied, scaled, input_precision=precision, out_dtype=real)
            quotient = (z.to(real) / tl.maximum(ratio, SMALLEST_SCALE)).to(storage)
            divided = tl.dot(s, quotient, divided, input_precision=precision, out_dtype=real)
    tl.atomic_add(of_weight + lane[:, None] * width + lane[None, :], own, sem="relaxed")
    block = of_weight + (1 + first) * width * width + stat[:, None] * width + lane[None, :]
    tl.atomic_add(block, plain, sem="relaxed")
    if pna:
        step: tl.constexpr = 4 * width * width
        tl.atomic_add(block + step, scaled, sem="relaxed")
        tl.atomic_add(block + 2 * step, divided, sem="relaxed")


def real_of(dtype: torch.dtype) -> torch.dtype:
    """Return the type sums are taken in for states of a type."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def floor_of(dtype: torch.dtype) -> float:
    """Return what deviations are above if they are not the smallest, 10⁻³, as it comes out of rounding to a type."""
    return 1.005e-3 if dtype == torch.bfloat16 else 1e-3 * (1 + 1e-6)


def _constants(state: Tensor, *, pna: bool) -> dict[str, Any]:
    """Return what all kernels are compiled for, beside their tiles; ``state`` is (N, B, d)."""
    real = tl.float64 if state.dtype == torch.float64 else tl.float32
    return {"width": state.shape[2], "pna": pna, "real": real}


def _columns_of(tile: Tile, columns: int, width: int) -> tuple[int, int]:
    """Return the columns of one program, and the number of programs that have all of them."""
    size = max(min(tile.size, triton.next_power_of_2(columns)), width)
    return size, triton.cdiv(columns, size)


def _reached(state: Tensor, anchor: Tensor | None, size: int, blocks: int) -> Tensor | None:
    """Return which blocks of columns have an entity as an anchor, (N, blocks) bytes; None for no anchors."""
    if anchor is None:
        return None
    reached = torch.zeros(len(state), blocks, dtype=torch.uint8, device=state.device)
    n_queries, width = state.shape[1:]
    block = torch.arange(n_queries, device=state.device) * width // size
    return reached.view(-1).index_fill_(0, anchor * blocks + block, 1).view_as(reached)


def gather(
    state: Tensor,
    layer: "LayerTensors",
    queries: tuple[Tensor, Tensor],
    places: "Places",
    *,
    first: bool,
    track: bool,
) -> tuple[Tensor, Tensor]:
    """Return statistics (N, 4, B, d), or sums (N, 1, B, d), and the winners of maxima and minima, (N, 2, B, d).

    A winner is an edge's place among its node's in-edges, −1 for the boundary.

    Args:
        state: (N, B, d).
        queries: vectors of the same type, (B, d), and anchors, (B,).
        first: whether states are those before the first layer, zeros but at the anchors.
        track: whether winners are wanted; they are empty where not.
    """
    (query, anchor), (graph, removal) = queries, places
    n_nodes, batch, width = state.shape
    columns, n_stats = batch * width, 4 if layer.pna else 1
    stats = state.new_empty(n_nodes, n_stats, batch, width)
    tracked = track and layer.pna
    shape = (n_nodes, 2, batch, width) if tracked else (0,)
    winner = torch.empty(shape, dtype=graph.winner_dtype, device=state.device)
    part = torch.empty(graph.n_parts, n_stats, columns, dtype=real_of(state.dtype), device=state.device)
    part_winner = torch.empty(graph.n_parts if tracked else 0, 2, columns, dtype=torch.int32, device=state.device)
    constants = _constants(state, pna=layer.pna)
    tiles = tiles_of(graph)
    tile = tiles["gather"]
    size, blocks = _columns_of(tile, columns, width)
    _gather_kernel[len(graph.segment_node), blocks](
        state, layer.edge, query, anchor, graph.source, graph.relation, removal.keep, graph.segment_node,
        graph.segment_start, graph.segment_stop, graph.segment_part, graph.offset, removal.elements,
        _reached(state, anchor if first else None, size, blocks), stats, winner, part, part_winner, columns,
        shared=layer.edge.dim() == 2, first=first, tracked=tracked, packed=state.dtype == torch.bfloat16,
        tile=size, unroll=tile.unroll, num_warps=tile.warps, **constants,
    )  # fmt: skip
    if graph.n_parts:
        tile = tiles["combine"]
        size, blocks = _columns_of(tile, columns, width)
        _combine_kernel[len(graph.hub_node), blocks](
            query, anchor, graph.hub_node, graph.hub_start, graph.hub_stop, removal.elements, stats, winner, part,
            part_winner, columns, tracked=tracked, tile=size, num_warps=tile.warps, **constants,
        )  # fmt: skip
    return stats, winner


def spread(
    made: "Made",
    layer: "LayerTensors",
    of_stats: Tensor,
    places: "Places",
    anchor: Tensor | None,
    of_state: Tensor | None,
    of_edge: Tensor | None,
) -> None:
    """Add the gradients of states (N, B, d) and of edge vectors, of their shape, to the tensors given for them.

    ``of_stats`` has the shape of statistics. With anchors (B,), as in the first layer, states are zeros elsewhere, and
    their gradients there are left as they are.
    """
    (state, stats, winner), (graph, removal) = made, places
    width, columns = state.shape[2], state.shape[1] * state.shape[2]
    tile = tiles_of(graph)["spread"]
    size, blocks = _columns_of(tile, columns, width)
    _spread_kernel[len(graph.segment_node), blocks](
        state, layer.edge, stats, of_stats, winner, graph.source, graph.relation, removal.keep, graph.segment_node,
        graph.segment_start, graph.segment_stop, graph.offset, removal.elements,
        _reached(state, anchor, size, blocks), of_state, of_edge, columns, floor_of(state.dtype),
        shared=layer.edge.dim() == 2, first=anchor is not None, to_states=of_state is not None,
        to_edges=of_edge is not None, tile=size, unroll=tile.unroll, num_warps=tile.warps,
        **_constants(state, pna=layer.pna),
    )  # fmt: skip


def _row_options(state: Tensor, layer: "LayerTensors", kernel: str) -> dict[str, Any]:
    """Return tile, precision and constants of a kernel whose programs take rows; sums are the only statistic."""
    tile = row_tiles_of(state.shape[2])[kernel]
    rows, warps = (tile.size, tile.warps) if state.dtype == torch.bfloat16 else SMALL_TILE
    unroll = tile.unroll if layer.pna else 1
    return {
        "tile": rows, "unroll": unroll, "num_warps": warps, "precision": "ieee",
        **_constants(state, pna=layer.pna),
    }  # fmt: skip


def mix(state: Tensor, stats: Tensor, layer: "LayerTensors", removal: "Removal") -> Tensor:
    """Return the new states, (N, B, d)."""
    out, n_rows = torch.empty_like(state), state.shape[0] * state.shape[1]
    options = _row_options(state, layer, "mix")
    _mix_kernel[(triton.cdiv(n_rows, options["tile"]),)](
        state, stats, removal.scale, layer.weight, layer.bias, layer.gain, layer.shift, out, n_rows, state.shape[1],
        **options,
    )  # fmt: skip
    return out


class Mixed(NamedTuple):
    """Gradients of what a layer mixes.

    Attributes:
        state: of the states, (N, B, d), float32 at least.
        stats: of the statistics, of their shape.
        mixed: of the mixture before the norm, (N, B, d).
        vectors: of bias, gain and shift, (3, d).
    """

    state: Tensor
    stats: Tensor
    mixed: Tensor
    vectors: Tensor


def mix_gradients(state: Tensor, stats: Tensor, layer: "LayerTensors", removal: "Removal", gradient: Tensor) -> Mixed:
    """Return the gradients for that of the new states, (N, B, d)."""
    real, n_rows = real_of(state.dtype), state.shape[0] * state.shape[1]
    options = _row_options(state, layer, "mix_gradients")
    n_programs = triton.cdiv(n_rows, options["tile"])
    vectors = torch.empty(n_programs, 3, state.shape[2], dtype=real, device=state.device)
    found = Mixed(torch.empty_like(state, dtype=real), torch.empty_like(stats), torch.empty_like(state), vectors)
    _mix_gradient_kernel[(n_programs,)](
        state, stats, removal.scale, layer.weight, layer.bias, layer.gain, layer.shift, gradient, *found, n_rows,
        state.shape[1], **options,
    )  # fmt: skip
    return found._replace(vectors=vectors.sum(dim=0))


def weight_gradient(
    state: Tensor, stats: Tensor, layer: "LayerTensors", removal: "Removal", of_mixed: Tensor
) -> Tensor:
    """Return the gradient of the weight, of its shape, for that of the mixture, (N, B, d)."""
    of_weight = torch.zeros_like(layer.weight, dtype=real_of(state.dtype))
    n_rows = state.shape[0] * state.shape[1]
    options = _row_options(state, layer, "weight_gradient")
    parts = stats.shape[1] // options["unroll"]
    _weight_gradient_kernel[parts, min(PROGRAMS // parts, triton.cdiv(n_rows, options["tile"]))](
        state, stats, removal.scale, of_mixed, of_weight, n_rows, state.shape[1], num_stages=STAGES, **options
    )
    return of_weight
