"""Sparse Jacobians and Hessians: one product per colour of the pattern, and the entries read from these products.

Preparation costs one traced run of the function and a colouring. It returns an object that can be called at any
point. Products are batched by vmap, in chunks that limit the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype, wrap
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten
from ndgrad._src.interpreters.levels import level_number
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.sparsity import batched_tangents
from ndgrad._src.transforms.sparsity.coloring import color_columns, color_symmetric, find_entry_positions
from ndgrad._src.transforms.sparsity.rules import Array
from ndgrad._src.transforms.sparsity.sets import Ids
from ndgrad._src.transforms.sparsity.trace import Pattern, pattern_of, trace
from ndgrad._src.transforms.transforms import Argnums, _select, _substitute, grad, jvp, vjp, vmap

if TYPE_CHECKING:
    from ndgrad._typing import Payload

#: Elements of a batch of tangents that are processed together, unless `chunk_size` is given.
_AT_ONCE = 1 << 23
#: Sums of unit vectors up to this size are cached between evaluations.
_KEPT = 1 << 20

_FORMATS = ("csr", "csc", "coo")
_MODES = ("auto", "forward", "reverse")


class _Prepared:
    """Common part of Jacobians and Hessians: the function, the arguments it was prepared for, and the coloured
    pattern."""

    _name = "sparse_jacobian"
    _pattern: Pattern
    #: Product of each entry of the pattern, and its position in that product.
    _product: Ids
    _place: Ids
    #: The colour of each column (of each row, in reverse mode).
    colors: Ids

    def __init__(
        self, func: Callable[..., Any], args: tuple[Any, ...], argnums: Argnums, format: str, chunk_size: int | None
    ) -> None:
        if format not in _FORMATS:
            raise ValueError(
                f"{self._name}: format is {format!r}. Choose one of {', '.join(map(repr, _FORMATS))}. [nd-option]"
            )
        if chunk_size is not None and chunk_size <= 0:
            raise ValueError(
                f"{self._name}: chunk_size is {chunk_size}. It must be positive, or None for a choice by size. "
                "[nd-transform-args]"
            )
        _scipy_sparse(self._name)
        self.func = func
        self.argnums = argnums
        self.format = format
        self.chunk_size = chunk_size
        self._inputs, self._spec = self._flatten(args)
        for t in self._inputs:
            self._check(t)
        if thread.levels and any(level_number(t) for t in self._inputs):
            raise RuntimeError(
                f"{self._name}: the example belongs to an open transform (vmap, grad), where its values are not fixed. "
                "Prepare outside of the transform, and use .values(...) inside. [nd-in-transform]"
            )
        self._shapes = [tuple(t.shape) for t in self._inputs]
        self._uses_fast_path = True
        self._kept_seeds: tuple[Any, list[Array]] | None = None
        self._sizes = [math.prod(s) for s in self._shapes]

    # ----- public interface -------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix: elements of the outputs times elements of the inputs."""
        return self._pattern.shape

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return self._pattern.nnz

    @property
    def products(self) -> int:
        """The number of products of one evaluation."""
        return int(self.colors.max(initial=0)) + 1 if self._pattern.nnz else 0

    @property
    def pattern(self) -> Any:
        """The entries that may differ from zero, as a SciPy array of True in compressed rows."""
        return self._matrix(np.ones(self._pattern.nnz, bool), "csr")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the matrix at a point, as a SciPy sparse array."""
        inputs = self._check_inputs(args)
        if self._uses_fast_path and batched_tangents.applies(inputs):
            try:
                return self._matrix(self._numbers(inputs, self._flat_function(args, kwargs)), self.format)
            except Exception:
                # The general path handles everything that the fast path does not know, and reports errors of the
                # function itself.
                self._uses_fast_path = False
        found = self.values(*args, **kwargs)
        if thread.levels and level_number(found):
            raise RuntimeError(
                f"{self._name}: inside a transform (vmap, grad) the matrix cannot be a SciPy one, "
                "which holds plain numbers. Use .values(...), a tensor of its entries. [nd-in-transform]"
            )
        array = innermost_array(found)
        return self._matrix(np.asarray(array if library_of(array) is np else array.get()), self.format)

    def values(self, *args: Any, **kwargs: Any) -> Any:
        """Return the entries at a point as a tensor, in the order of `pattern.indices`: row by row. It can be
        differentiated further."""
        inputs = self._check_inputs(args)
        if not self._pattern.nnz:
            like = inputs[0]
            return wrap(like.tensor_type, library_of(innermost_array(like)).zeros(0, np_dtype(like)))
        compressed = self._products(inputs, self._flat_function(args, kwargs))
        return tensor_ops.index(compressed, *(_index_tensor(compressed, i) for i in (self._product, self._place)))

    def _numbers(self, inputs: list[Any], flat: Callable[..., Any]) -> Array:
        """Return the entries as numbers, by the fast path of ndgrad._src.transforms.sparsity.batched_tangents."""
        if not self._pattern.nnz:
            return np.zeros(0, np_dtype(inputs[0]))
        rows = []
        for seeds in self._seeds(inputs):
            pushed = batched_tangents.push(self._function_to_push(flat), inputs, seeds)
            made = [part.reshape(len(part), -1) for part in pushed]
            rows.append(made[0] if len(made) == 1 else np.concatenate(made, axis=1))
        compressed = rows[0] if len(rows) == 1 else np.concatenate(rows)
        if compressed.shape[1] != self.shape[0]:
            raise batched_tangents.UnknownHere
        entries: Array = compressed.reshape(-1).take(self._product * compressed.shape[1] + self._place)
        return entries

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<{type(self).__name__} {rows} x {columns}, {self.nnz} entries in {self.products} products>"

    # ----- the parts --------------------------------------------------------------------------------------------------

    def _check_inputs(self, args: tuple[Any, ...]) -> list[Any]:
        inputs, spec = self._flatten(args)
        if spec != self._spec or [tuple(getattr(t, "shape", ())) for t in inputs] != self._shapes:
            raise ValueError(
                f"{self._name}: it was prepared for arguments of shapes {self._shapes} in structure {self._spec}, "
                f"but called with shapes {[tuple(getattr(t, 'shape', ())) for t in inputs]} in structure "
                f"{spec}. Prepare it for these. [nd-transform-args]"
            )
        for t in inputs:
            self._check(t)
        return inputs

    def _flatten(self, args: tuple[Any, ...]) -> tuple[list[Any], Any]:
        return tree_flatten(_select(self.argnums, args)[1])

    def _check(self, t: object) -> None:
        if not isinstance(t, Variable):
            raise TypeError(
                f"{self._name}: expected tensors to differentiate, but got {type(t).__name__}. "
                "Wrap it with ndgrad.as_tensor(...). [nd-type]"
            )
        if not is_inexact(np_dtype(t)):
            raise RuntimeError(
                f"{self._name}: a tensor of dtype {np_dtype(t)} cannot be differentiated. "
                "Convert it to a floating dtype first. [nd-grad-dtype]"
            )

    def _flat_function(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
        """Return the function of the inputs alone, as a list."""
        numbers, _ = _select(self.argnums, args)

        def flat(*inputs: Any) -> Any:
            return self.func(*_substitute(args, numbers, tree_unflatten(list(inputs), self._spec)), **kwargs)

        return flat

    def _products(self, inputs: list[Any], flat: Callable[..., Any]) -> Any:
        """Return all products, one row each."""
        raise NotImplementedError

    def _function_to_push(self, flat: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function whose Jacobian is multiplied."""
        return flat

    def _push_seeds(self, likes: list[Any], push: Callable[..., Any]) -> Any:
        """Apply `push` to the sums of unit vectors of each colour; return a matrix with one row per colour.

        Its arguments are like the tensors `likes`, the parts of the coloured space.
        """
        rows = []
        for seeds in self._seeds(likes):
            made = vmap(push)(
                *(
                    wrap(t.tensor_type, library_of(innermost_array(t)).asarray(s))
                    for t, s in zip(likes, seeds, strict=True)
                )
            )
            rows.append(_join([tensor_ops.reshape(t, shape=(t.shape[0], math.prod(t.shape[1:]))) for t in made], 1))
        return _join(rows, 0)

    def _seeds(self, likes: list[Any]) -> Iterator[list[Array]]:
        """Yield, chunk by chunk, the sums of unit vectors of each colour: an array per tensor, the products in
        front."""
        dtypes = tuple(np_dtype(t) for t in likes)
        if self._kept_seeds is not None and self._kept_seeds[0] == dtypes:
            yield self._kept_seeds[1]
            return
        ends = np.cumsum([math.prod(t.shape) for t in likes], dtype=np.int64)
        # Unit vectors without entries are left out, because they only cost time.
        wanted = np.zeros(len(self.colors), bool)
        wanted[self._pattern.indices if self.colors_are_of == "columns" else self._pattern.rows] = True
        step = self.chunk_size or max(_AT_ONCE // max(*self._pattern.shape, 1), 1)
        for start in range(0, self.products, step):
            count = min(step, self.products - start)
            members = np.flatnonzero(wanted & (self.colors >= start) & (self.colors < start + count))
            seeds = np.zeros((count, len(self.colors)))
            seeds[self.colors[members] - start, members] = 1
            parts = [
                part.reshape((count, *t.shape)).astype(dtype)
                for part, t, dtype in zip(np.split(seeds, ends[:-1], axis=1), likes, dtypes, strict=True)
            ]
            if count == self.products and seeds.size <= _KEPT:
                self._kept_seeds = dtypes, parts
            yield parts

    #: Coloured objects: "columns" for products with vectors, "rows" for products from the left.
    colors_are_of = "columns"

    def _matrix(self, data: Any, format: str) -> Any:
        sparse = _scipy_sparse(self._name)
        made = sparse.csr_array(
            (data, self._pattern.indices.copy(), self._pattern.starts.copy()), shape=self._pattern.shape
        )
        return made if format == "csr" else made.asformat(format)


def _join(parts: list[Any], dim: int) -> Any:
    return parts[0] if len(parts) == 1 else tensor_ops.cat(*parts, dim=dim)


def _index_tensor(t: Variable, index: Ids) -> Any:
    return wrap(t.tensor_type, library_of(innermost_array(t)).asarray(index))


def _scipy_sparse(name: str) -> Any:
    try:
        import scipy.sparse
    except ImportError as error:
        raise ImportError(
            f"{name} returns SciPy's sparse matrices, but SciPy is not installed. "
            "Install it with pip install scipy. [nd-install]"
        ) from error
    return scipy.sparse


def _parse_pattern(name: str, pattern: object, columns: int) -> Pattern:
    """Parse a pattern given by the user: anything that SciPy converts to a sparse matrix. Values do not matter."""
    made = _scipy_sparse(name).coo_array(pattern)
    if len(made.shape) != 2 or made.shape[1] != columns:
        raise ValueError(
            f"{name}: the pattern has shape {tuple(made.shape)}, but the inputs have {columns} elements: "
            "one column for each. [nd-transform-args]"
        )
    rows, indices = made.coords
    return pattern_of(rows, indices, (int(made.shape[0]), columns))


# ----- Jacobians ------------------------------------------------------------------------------------------------------


@set_module("ndgrad.func")
class SparseJacobian(_Prepared):
    """The Jacobian of a function, if it is sparse, prepared by `sparse_jacobian`.

    Args:
        func: function that returns tensors.
        args: example of the arguments, whose shapes and dtypes are those of later calls.
        argnums: index of the positional argument to differentiate, or a tuple of several.
        mode: `"forward"` (jvp), `"reverse"` (vjp) or `"auto"`, which takes the one with fewer products.
        format: format of the result: `"csr"`, `"csc"` or `"coo"`.
        chunk_size: largest number of products that run together. None means all.
        pattern: sparse matrix with an entry wherever the Jacobian may differ from zero. None traces `func`.

    >>> import ndgrad
    >>> ndgrad.func.sparse_jacobian(lambda x: x[1:] * x[:-1], ndgrad.zeros(9))
    <SparseJacobian 8 x 9, 16 entries in 2 products>
    """

    def __init__(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        argnums: Argnums,
        mode: str,
        format: str,
        chunk_size: int | None,
        pattern: object,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(
                f"sparse_jacobian: mode is {mode!r}. Choose one of {', '.join(map(repr, _MODES))}. [nd-option]"
            )
        super().__init__(func, args, argnums, format, chunk_size)
        if any(np_dtype(t).kind == "c" for t in self._inputs):
            if mode == "reverse":
                raise ValueError(
                    "sparse_jacobian: mode='reverse' is for real inputs, but one is complex. Use mode='forward'. "
                    "[nd-complex]"
                )
            mode = "forward"
        if pattern is None:
            self._pattern = trace(self._flat_function(args, {}), self._inputs)
        else:
            self._pattern = _parse_pattern(self._name, pattern, sum(self._sizes))
        self.mode, self.colors = _choose(self._pattern, mode)
        self.colors_are_of = "columns" if self.mode == "forward" else "rows"
        rows, columns = self._pattern.rows, self._pattern.indices
        self._uses_fast_path = self.mode == "forward"
        self._product = self.colors[columns if self.mode == "forward" else rows]
        self._place = rows if self.mode == "forward" else columns

    def _products(self, inputs: list[Any], flat: Callable[..., Any]) -> Any:
        if self.mode == "forward":

            def push(*tangents: Any) -> tuple[Any, ...]:
                return tuple(tree_flatten(jvp(flat, tuple(inputs), tangents)[1])[0])

            return self._check_outputs(self._push_seeds(inputs, push))
        value, pull = vjp(flat, *inputs)
        outputs, spec = tree_flatten(value)
        count = sum(math.prod(o.shape) for o in outputs)
        if count != self.shape[0]:
            raise self._other_outputs(count)
        if any(np_dtype(o).kind == "c" for o in outputs):
            raise ValueError(
                "sparse_jacobian: mode='reverse' is for real outputs, but one is complex. Use mode='forward'. "
                "[nd-complex]"
            )

        def pull_all(*cotangents: Any) -> tuple[Any, ...]:
            return tuple(pull(tree_unflatten(list(cotangents), spec)))

        return self._push_seeds(outputs, pull_all)

    def _check_outputs(self, compressed: Payload) -> Any:
        if compressed.shape[1] != self.shape[0]:
            raise self._other_outputs(compressed.shape[1])
        return compressed

    def _other_outputs(self, count: int) -> ValueError:
        return ValueError(
            f"sparse_jacobian: the function returned {count} numbers, but {self.shape[0]} during preparation. "
            "Prepare it again for these arguments. [nd-transform-result]"
        )


def _choose(pattern: Pattern, mode: str) -> tuple[str, Ids]:
    """Return the mode with fewer products; on a tie forward mode, which keeps no graph."""
    by_column = color_columns(pattern) if mode != "reverse" else None
    if by_column is not None and (
        mode == "forward" or int(np.diff(pattern.transpose().starts).max(initial=0)) > by_column.max(initial=0)
    ):
        return "forward", by_column  # A column with as many rows as there are colours: rows need as many colours
    by_row = color_columns(pattern.transpose())
    if by_column is not None and by_column.max(initial=0) <= by_row.max(initial=0):
        return "forward", by_column
    return "reverse", by_row


@set_module("ndgrad.func")
def sparse_jacobian(
    func: Callable[..., Any],
    *args: Any,
    argnums: Argnums = 0,
    mode: str = "auto",
    format: str = "csr",
    chunk_size: int | None = None,
    pattern: object = None,
) -> SparseJacobian:
    """Prepare the Jacobian of `func` for arguments like `args`: find its possible nonzero entries, and colour it.

    The result is called at any point and returns a SciPy sparse array. A banded Jacobian of any size costs as many
    products as the band is wide. Rows are the elements of the outputs, columns those of the arguments in `argnums`, in
    the order of their structure.

    Args:
        func: function that returns tensors.
        *args: example of the arguments, whose shapes and dtypes are those of later calls.
        argnums: index of the positional argument to differentiate, or a tuple of several.
        mode: `"forward"` (jvp), `"reverse"` (vjp) or `"auto"`, which takes the one with fewer products.
        format: format of the result: `"csr"`, `"csc"` or `"coo"`.
        chunk_size: largest number of products that run together. None means all.
        pattern: sparse matrix with an entry wherever the Jacobian may differ from zero. None traces `func`.

    >>> import ndgrad
    >>> second_difference = lambda x: x[2:] - 2 * x[1:-1] ** 3 + x[:-2]
    >>> jacobian = ndgrad.func.sparse_jacobian(second_difference, ndgrad.zeros(1000))
    >>> jacobian
    <SparseJacobian 998 x 1000, 2994 entries in 3 products>
    >>> jacobian(ndgrad.ones(1000)).data[:3].tolist()
    [1.0, -6.0, 1.0]
    """
    return SparseJacobian(func, args, argnums, mode, format, chunk_size, pattern)


# ----- Hessians -------------------------------------------------------------------------------------------------------


@set_module("ndgrad.func")
class SparseHessian(_Prepared):
    """The Hessian of a scalar function, if it is sparse, prepared by `sparse_hessian`.

    Args:
        func: function that returns a 0-d tensor.
        args: example of the arguments, whose shapes and dtypes are those of later calls.
        argnums: index of the positional argument to differentiate, or a tuple of several.
        format: format of the result: `"csr"`, `"csc"` or `"coo"`.
        chunk_size: largest number of products that run together. None means all.
        pattern: sparse matrix with an entry wherever the Hessian may differ from zero. None traces `func`.

    >>> import ndgrad
    >>> ndgrad.func.sparse_hessian(lambda x: (x[1:] * x[:-1]).sum() + (x**3).sum(), ndgrad.zeros(9))
    <SparseHessian 9 x 9, 25 entries in 3 products>
    """

    _name = "sparse_hessian"

    def __init__(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        argnums: Argnums,
        format: str,
        chunk_size: int | None,
        pattern: object,
    ) -> None:
        super().__init__(func, args, argnums, format, chunk_size)
        if any(np_dtype(t).kind == "c" for t in self._inputs):
            raise ValueError(
                "sparse_hessian: one of the inputs is complex. Differentiate with respect to real and imaginary parts. "
                "[nd-complex]"
            )
        if pattern is None:
            found = trace(self._gradient(self._flat_function(args, {})), self._inputs)
        else:
            found = _parse_pattern(self._name, pattern, sum(self._sizes))
        # A Hessian is symmetric: if an entry's mirror image is zero, so is the entry.
        self._pattern = found.symmetric_part()
        self.colors = color_symmetric(self._pattern)
        self._place, self._product = find_entry_positions(self._pattern, self.colors)

    def _gradient(self, flat: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
        def scalar(*inputs: Any) -> Any:
            out = flat(*inputs)
            if not isinstance(out, Variable) or tuple(out.shape) != ():
                what = f"a tensor of shape {tuple(out.shape)}" if isinstance(out, Variable) else type(out).__name__
                raise RuntimeError(
                    f"sparse_hessian: the function must return a scalar (0-d) tensor, but returned {what}. "
                    "Reduce it, e.g. with .sum(). [nd-not-scalar]"
                )
            return out

        gradient: Callable[..., tuple[Any, ...]] = grad(scalar, tuple(range(len(self._sizes))))
        return gradient

    def _products(self, inputs: list[Any], flat: Callable[..., Any]) -> Any:
        gradient = self._gradient(flat)

        def push(*tangents: Any) -> tuple[Any, ...]:
            return tuple(jvp(gradient, tuple(inputs), tangents)[1])

        return self._push_seeds(inputs, push)

    def _function_to_push(self, flat: Callable[..., Any]) -> Callable[..., Any]:
        return self._gradient(flat)


@set_module("ndgrad.func")
def sparse_hessian(
    func: Callable[..., Any],
    *args: Any,
    argnums: Argnums = 0,
    format: str = "csr",
    chunk_size: int | None = None,
    pattern: object = None,
) -> SparseHessian:
    """Prepare the Hessian of a scalar function for arguments like `args`: find its possible nonzero entries, and
    colour it.

    The result is called at any point and returns a SciPy sparse array. It takes one Hessian-vector product per colour
    of a star colouring, which uses the symmetry. The pattern is that of the gradient's Jacobian: the index sets are
    propagated through the ops of the backward pass too, so linear parts add nothing.

    Args:
        func: function that returns a 0-d tensor.
        *args: example of the arguments, whose shapes and dtypes are those of later calls.
        argnums: index of the positional argument to differentiate, or a tuple of several.
        format: format of the result: `"csr"`, `"csc"` or `"coo"`.
        chunk_size: largest number of products that run together. None means all.
        pattern: sparse matrix with an entry wherever the Hessian may differ from zero. None traces `func`.

    >>> import ndgrad
    >>> rosenbrock = lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    >>> hessian = ndgrad.func.sparse_hessian(rosenbrock, ndgrad.zeros(10_000))
    >>> hessian
    <SparseHessian 10000 x 10000, 29998 entries in 3 products>
    >>> hessian(ndgrad.ones(10_000)).data[:2].tolist()
    [802.0, -400.0]
    """
    return SparseHessian(func, args, argnums, format, chunk_size, pattern)


__all__ = ["SparseHessian", "SparseJacobian", "sparse_hessian", "sparse_jacobian"]
