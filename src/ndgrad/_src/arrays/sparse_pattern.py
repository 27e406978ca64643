"""The pattern of a sparse matrix, and products and solves with numbers on it.

A pattern is a constant: rows and columns of the entries, in the order of their numbers. The data that SciPy's kernels
need (the order by rows, the pointers) is computed once and cached. A stack of matrices of one pattern is a block
diagonal matrix, so it needs only one call. Without SciPy, products are gathers and sums; solves need SciPy.
"""

from __future__ import annotations

import functools
import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.meta import zeros_on_same_device

if TYPE_CHECKING:
    from ndgrad._typing import Payload


class Pattern:
    """The positions of a sparse matrix's entries. Entries at repeated positions add up, as in SciPy."""

    def __init__(self, rows: Payload, columns: Payload, shape: tuple[int, int]) -> None:
        self.rows, self.columns = (np.ascontiguousarray(v, np.intp) for v in (rows, columns))
        self.shape = (int(shape[0]), int(shape[1]))
        if self.rows.shape != self.columns.shape or self.rows.ndim != 1:
            raise ValueError(
                f"a sparse matrix needs as many rows as columns of entries, but got {self.rows.shape} "
                f"and {self.columns.shape}. [nd-sparse-parts]"
            )
        for name, places, size in (("row", self.rows, self.shape[0]), ("column", self.columns, self.shape[1])):
            if places.size and (places.min() < 0 or places.max() >= size):
                raise ValueError(
                    f"a {name} index lies outside of a matrix of shape {self.shape}: {places.min()} to {places.max()}. "
                    "[nd-sparse-parts]"
                )
        self._factor: tuple[Any, Any] | None = None

    def __repr__(self) -> str:
        return f"<pattern of {self.rows.size} entries, shape {self.shape}>"

    @functools.cached_property
    def transposed(self) -> Pattern:
        made = Pattern(self.columns, self.rows, self.shape[::-1])
        made.__dict__["transposed"] = self
        return made

    @functools.cached_property
    def by_rows(self) -> tuple[Any, Any, Any]:
        """Return the order of entries by rows, their columns in it, and the start of each row."""
        order = np.lexsort((self.columns, self.rows))
        starts = np.zeros(self.shape[0] + 1, np.intp)
        np.cumsum(np.bincount(self.rows, minlength=self.shape[0]), out=starts[1:])
        return order, self.columns[order], starts

    def repeat(self, count: int) -> Pattern:
        """Return the pattern of a block diagonal matrix with `count` copies of this one."""
        if count == 1:
            return self
        steps = np.arange(count)[:, None]
        rows, columns = (self.rows + steps * self.shape[0]).ravel(), (self.columns + steps * self.shape[1]).ravel()
        return Pattern(rows, columns, (count * self.shape[0], count * self.shape[1]))

    # ----- with numbers -----

    def product(self, data: Payload, x: Payload) -> Payload:
        """Return the matrix times columns."""
        dtype = np.result_type(data, x)
        try:
            sparse = importlib.import_module("scipy.sparse")
        except ImportError:
            out = zeros_on_same_device(np, x, (self.shape[0], x.shape[1]), dtype)
            np.add.at(out, self.rows, data[:, None] * x[self.columns])
            return out
        order, columns, starts = self.by_rows
        return (sparse.csr_array((data[order], columns, starts), shape=self.shape) @ x).astype(dtype, copy=False)

    def solve(self, data: Payload, b: Payload, adjoint: bool) -> Payload:
        """Return the solution x of A x = b, or of A^H x = b."""
        dtype = np.result_type(data, b)
        wide = np.result_type(dtype, np.float64)
        lu = self._factorize(data.astype(np.result_type(data, np.float64), copy=False))
        trans = "H" if adjoint else "N"
        if wide.kind == "c" and data.dtype.kind != "c":
            return (
                lu.solve(np.ascontiguousarray(b.real, float), trans)
                + 1j * lu.solve(np.ascontiguousarray(b.imag, float), trans)
            ).astype(dtype)
        return lu.solve(np.ascontiguousarray(b.astype(wide)), trans).astype(dtype, copy=False)

    def _factorize(self, data: Payload) -> Any:
        """Return SuperLU's factors. They are cached for the next solve with the same numbers, as in the backward
        pass.
        """
        kept = self._factor
        if kept is not None and kept[0].dtype == data.dtype and np.array_equal(kept[0], data):
            return kept[1]
        try:
            sparse = importlib.import_module("scipy.sparse")
            linalg = importlib.import_module("scipy.sparse.linalg")
        except ImportError as error:
            raise ImportError(
                f"sparse solves come from SciPy, which could not be imported ({error}). "
            'Install it: pip install scipy. [nd-install]'
            ) from None
        matrix = sparse.coo_array((data, (self.rows, self.columns)), shape=self.shape).tocsc()
        try:
            lu = linalg.splu(matrix)
        except RuntimeError as error:
            raise np.linalg.LinAlgError(
                f"sparse solve: the matrix of shape {self.shape} is singular ({error}). "
                "Check its pattern, or regularise it. [nd-singular]"
            ) from None
        self._factor = (data.copy(), lu)
        return lu


def run_stacked(data: Payload, x: Payload, run: Any, pattern: Pattern, rows: int) -> Payload:
    """Run a kernel of single matrices on stacks: of columns (joined) or of numbers (block diagonal)."""
    lead = np.broadcast_shapes(data.shape[:-1], x.shape[:-2])
    count = math.prod(lead)
    k = x.shape[-1]
    if not lead:
        return run(pattern, data, x)
    if not count:
        return np.zeros((*lead, rows, k), np.result_type(data, x))
    x = np.broadcast_to(x, (*lead, *x.shape[-2:]))
    if data.ndim == 1:
        joined = np.moveaxis(x.reshape((count, *x.shape[-2:])), 0, 1).reshape((x.shape[-2], count * k))
        return np.moveaxis(run(pattern, data, np.ascontiguousarray(joined)).reshape((rows, count, k)), 1, 0).reshape(
            (*lead, rows, k)
        )
    numbers = np.broadcast_to(data, (*lead, data.shape[-1])).reshape(-1)
    return run(pattern.repeat(count), numbers, np.ascontiguousarray(x).reshape((count * x.shape[-2], k))).reshape(
        (*lead, rows, k)
    )


__all__ = ["Pattern", "run_stacked"]
