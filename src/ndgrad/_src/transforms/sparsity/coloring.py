"""Colouring: groups of columns of a sparse matrix that can share one product.

Columns without a common row can be summed and separated again, so a Jacobian costs as many products as a colouring of
its columns has colours. A symmetric matrix is cheaper: an entry can be read in its row or in its column, so a colour
may meet a row twice if the mirrored position is clear. Both colourings are greedy. Each tries two orders: the given one
(good for banded matrices) and one by falling degree (good for matrices with some dense rows). Both keep the colours in
use at a vertex as the bits of one integer: a step costs a few operations on integers per entry, for any degrees.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from ndgrad._src.arrays.integers import count_places
from ndgrad._src.transforms.sparsity.sets import Ids
from ndgrad._src.transforms.sparsity.trace import Pattern, pattern_of


def _orders(degrees: Ids) -> list[list[int]]:
    falling = np.argsort(-degrees, kind="stable")
    orders = [np.arange(len(degrees), dtype=np.int64)]
    if not np.array_equal(falling, orders[0]):
        orders.append(falling)
    return [order.tolist() for order in orders]


def _neighbours(pattern: Pattern) -> list[list[int]]:
    """Return the columns of each row's entries as lists: single Python integers are faster than NumPy's."""
    indices, starts = pattern.indices.tolist(), pattern.starts.tolist()
    return [indices[a:b] for a, b in pairwise(starts)]


def _lowest_free(taken: int) -> int:
    """Return the lowest bit that is not set."""
    return (~taken & (taken + 1)).bit_length() - 1


# ----- columns without a common row -----------------------------------------------------------------------------------


def color_columns(pattern: Pattern) -> Ids:
    """Return a colour per column, such that two columns of one colour have no common row."""
    fewest = int(np.diff(pattern.starts).max(initial=0))  # the entries of one row need different colours
    inhabited = np.unique(pattern.indices)
    if fewest == len(inhabited):
        colors = np.zeros(pattern.shape[1], np.int64)
        colors[inhabited] = np.arange(fewest, dtype=np.int64)
        return colors
    rows_of = _neighbours(pattern.transpose())
    best = None
    for order in _orders(np.array([len(rows) for rows in rows_of], np.int64)):
        found = _distance_two(rows_of, order, pattern.shape[0])
        if best is None or found.max(initial=0) < best.max(initial=0):
            best = found
        if best.max(initial=-1) + 1 <= fewest:
            break
    return np.zeros(0, np.int64) if best is None else best


def _distance_two(rows_of: list[list[int]], order: Iterable[int], rows: int) -> Ids:
    used = [0] * rows  # colours of the columns that meet a row
    colors = np.zeros(len(rows_of), np.int64)
    for column in order:
        taken = 0
        for row in rows_of[column]:
            taken |= used[row]
        color = _lowest_free(taken)
        colors[column] = color
        for row in rows_of[column]:
            used[row] |= 1 << color
    return colors


# ----- star colouring of a symmetric pattern --------------------------------------------------------------------------


def color_symmetric(pattern: Pattern) -> Ids:
    """Return a star colouring: a colour per column, such that every entry of a symmetric matrix can be read in its
    row or in its column.

    Vertices are columns, edges the entries off the diagonal. Neighbours differ in colour, and no path of
    four vertices has only two colours. Then the vertices of any two colours form stars, and an edge is read
    at the end that is not the centre.
    """
    off_diagonal = pattern.rows != pattern.indices
    edges = _neighbours(pattern_of(pattern.rows[off_diagonal], pattern.indices[off_diagonal], pattern.shape))
    best = None
    for order in _orders(np.array([len(e) for e in edges], np.int64)):
        found = _star(edges, order)
        if best is None or found.max(initial=0) < best.max(initial=0):
            best = found
    return np.zeros(0, np.int64) if best is None else best


def _star(edges: list[list[int]], order: Iterable[int]) -> Ids:
    """Compute a greedy star colouring.

    In a path a - b - c - d with two colours, the vertex v that is coloured last is an end or an inner vertex. End, v -
    b - c - d: v must not take the colour of c if d has that of b, that is, if b's colour occurs twice around c.
    `blocked[b]` collects these colours. Inner vertex, a - v - c - d: if a and c have one colour (it occurs twice around
    v), v must not take a colour that occurs around c.
    """
    n = len(edges)
    colors = [-1] * n
    once, twice, blocked = [0] * n, [0] * n, [0] * n
    for v in order:
        taken, repeated = once[v], twice[v]
        for w in edges[v]:
            if colors[w] >= 0:
                taken |= blocked[w]
                if repeated >> colors[w] & 1:
                    taken |= once[w]
        color = _lowest_free(taken)
        colors[v], mine = color, 1 << color
        for w in edges[v]:
            if colors[w] >= 0 and repeated >> colors[w] & 1:
                blocked[w] |= mine
            if not once[w] & mine:
                once[w] |= mine
            elif not twice[w] & mine:
                twice[w] |= mine
                if colors[w] >= 0:
                    for u in edges[w]:
                        if colors[u] == color:
                            blocked[u] |= 1 << colors[w]
            elif colors[w] >= 0:
                blocked[v] |= 1 << colors[w]
    return np.array(colors, np.int64)


def find_entry_positions(pattern: Pattern, colors: Ids) -> tuple[Ids, Ids]:
    """Return the row and colour of each entry of a symmetric matrix in the compressed product (columns summed by
    colour).

    The entry (i, j) is in row i, unless another entry of that row has the colour of j. Then its mirror image is
    used, in row j.
    """
    rows, columns = pattern.rows, pattern.indices
    count = int(colors.max(initial=0)) + 1
    met = count_places(rows * count + colors[columns], pattern.shape[0] * count)
    clear = met[rows * count + colors[columns]] == 1
    mirrored = met[columns * count + colors[rows]] == 1
    if not (clear | mirrored).all():
        raise AssertionError("a star colouring left an entry that can be read on neither side [nd-bug]")
    return np.where(clear, rows, columns), np.where(clear, colors[columns], colors[rows])
