"""NumPy's ufuncs on Arrays: the op of each one, and its keyword arguments.

A plain call goes through one dictionary directly to the op's eager function, because every line of user code takes this
path. Rarer calls (`out=`, `where=`, `dtype=`, lists, torch's tensor class) take `general`. NumPy itself gives the
dtypes of a call (`ufunc.resolve_dtypes`), so promotion and casting errors are NumPy's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import FLOATING, is_inexact, is_number
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.plain_arrays import NotNumbers, check_plain
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.debug.scipy_calls import lift_line
from ndgrad._src.foundations import package_name
from ndgrad._src.ops import (
    arithmetic,
    bitwise,
    comparison,
    exponential,
    extremum,
    product,
    rounding,
    selection,
    trigonometric,
)
from ndgrad._src.ops import cast as cast_ops
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import reduce as reduce_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.storage import is_open, layout_sample
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.numpy._array import Array
from ndgrad.numpy.coercion import (
    as_array,
    as_arrays,
    broadcast,
    constant,
    deliver,
    flat,
    operands,
    plain,
    refuse_loss_in_memory,
    take_copy,
    with_dtype,
)
from ndgrad.numpy.constant_tensors import are_constants_of_torch, call_ufunc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._src.ops.table import Op
    from ndgrad._typing import ArrayLike, Dtype, Out

_SCALARS = (bool, int, float, complex)

#: Classes that an eager function accepts directly.
READY = frozenset((Array, Tensor, bool, int, float))

# ----- ufuncs that are ops --------------------------------------------------------------------------------------------

#: NumPy's name -> the op, if both have the same meaning for every dtype.
_OPS: dict[str, Any] = {
    "add": arithmetic.add, "subtract": arithmetic.sub, "multiply": arithmetic.mul, "divide": arithmetic.div,
    "floor_divide": arithmetic.floor_divide, "remainder": arithmetic.remainder, "fmod": arithmetic.fmod,
    "negative": arithmetic.neg, "power": arithmetic.pow, "square": arithmetic.square, "sqrt": arithmetic.sqrt,
    "cbrt": arithmetic.cbrt, "ldexp": arithmetic.ldexp, "reciprocal": arithmetic.reciprocal,
    "absolute": complex_ops.abs, "conjugate": complex_ops.conj, "sign": complex_ops.sgn,
    "exp": exponential.exp, "exp2": exponential.exp2, "expm1": exponential.expm1, "log": exponential.log,
    "log2": exponential.log2, "log10": exponential.log10, "log1p": exponential.log1p,
    "logaddexp": exponential.logaddexp, "logaddexp2": exponential.logaddexp2,
    "sin": trigonometric.sin, "cos": trigonometric.cos, "tan": trigonometric.tan, "arcsin": trigonometric.asin,
    "arccos": trigonometric.acos, "arctan": trigonometric.atan, "arctan2": trigonometric.atan2,
    "hypot": trigonometric.hypot, "sinh": trigonometric.sinh, "cosh": trigonometric.cosh, "tanh": trigonometric.tanh,
    "arcsinh": trigonometric.asinh, "arccosh": trigonometric.acosh, "arctanh": trigonometric.atanh,
    "deg2rad": trigonometric.deg2rad, "rad2deg": trigonometric.rad2deg, "radians": trigonometric.deg2rad,
    "degrees": trigonometric.rad2deg, "floor": rounding.floor, "ceil": rounding.ceil, "trunc": rounding.trunc,
    "rint": rounding.round, "copysign": rounding.copysign, "nextafter": rounding.nextafter,
    "maximum": selection.maximum, "minimum": selection.minimum, "fmax": selection.fmax, "fmin": selection.fmin,
    "equal": comparison.eq, "not_equal": comparison.ne, "less": comparison.lt, "less_equal": comparison.le,
    "greater": comparison.gt, "greater_equal": comparison.ge, "isnan": comparison.isnan, "isinf": comparison.isinf,
    "isfinite": comparison.isfinite, "signbit": comparison.signbit, "logical_and": comparison.logical_and,
    "logical_or": comparison.logical_or, "logical_xor": comparison.logical_xor, "logical_not": comparison.logical_not,
    "bitwise_and": bitwise.bitwise_and, "bitwise_or": bitwise.bitwise_or, "bitwise_xor": bitwise.bitwise_xor,
    "invert": bitwise.bitwise_not, "left_shift": bitwise.bitwise_left_shift, "right_shift": bitwise.bitwise_right_shift,
}  # fmt: skip

# ----- ufuncs that are a few ops --------------------------------------------------------------------------------------


def _heaviside(x: Array, values: Any) -> Array:
    return rounding.heaviside(x if isinstance(x, Variable) else constant(np.asarray(x)), values)


def _divmod(x: Any, y: Any) -> tuple[Array, Array]:
    return arithmetic.floor_divide(x, y), arithmetic.remainder(x, y)


def _modf(x: Array) -> tuple[Array, Array]:
    whole = rounding.trunc(x)
    return rounding.copysign(selection.where(comparison.isinf(x), 0.0, x - whole), x), whole


def _frexp(x: Array) -> tuple[Array, Array]:
    """Return mantissa and exponent of x = mantissa 2^exponent. Between powers of two the exponent is constant, so the
    mantissa has slope 2^-exponent.
    """
    exponent = rounding.binary_exponent(x)
    return arithmetic.ldexp(x, -exponent), exponent


def _matvec(x: Array, y: Array) -> Array:
    return product.matmul(x, y[..., None])[..., 0]


def _conjugate_if_complex(x: Array) -> Array:
    return complex_ops.conj(x) if np_dtype(x).kind == "c" else x


def _conjugate(x: Array) -> Array:
    """Return a new array, also for real numbers."""
    return complex_ops.conj(x) if np_dtype(x).kind == "c" else cast_ops.clone(x)


def _vecmat(x: Array, y: Array) -> Array:
    return product.matmul(_conjugate_if_complex(x)[..., None, :], y)[..., 0, :]


def _vecdot(x: Array, y: Array) -> Array:
    terms = _conjugate_if_complex(x) * y
    return reduce_ops.sum(terms, dim=(terms.ndim - 1,), dtype=None if is_inexact(np_dtype(terms)) else np_dtype(terms))


def _elsewhere(name: str) -> Callable[..., Any]:
    """Return a ufunc without a derivative: NumPy computes it from the values."""
    ufunc = getattr(np, name)
    return lambda *inputs: as_arrays(np.asarray(ufunc(*plain(inputs))))


_COMPOSED: dict[str, Callable[..., Any]] = {
    "conjugate": _conjugate, "heaviside": _heaviside, "positive": cast_ops.clone, "fabs": complex_ops.abs,
    "float_power": arithmetic.pow, "divmod": _divmod, "modf": _modf, "frexp": _frexp,
    "gcd": bitwise.gcd, "lcm": bitwise.lcm,
    "matmul": product.matmul, "matvec": _matvec, "vecmat": _vecmat, "vecdot": _vecdot,
    **{name: _elsewhere(name) for name in ("spacing", "bitwise_count") if hasattr(np, name)},
}  # fmt: skip

#: Ufuncs that are refused, and their replacements.
REFUSED = {"isnat": "it is for dates, which tensors do not hold. For numbers use numpy.isnan"}

#: Core dimensions of a gufunc's operands and result (negative, from the end).
_CORE = {"matmul": ((-2, -1), (-2, -1), (-2, -1)), "vecdot": ((-1,), (-1,), ()), "matvec": ((-2, -1), (-1,), (-1,)),
         "vecmat": ((-1,), (-2, -1), (-1,))}  # fmt: skip


def ufuncs() -> dict[str, np.ufunc]:
    """Return every ufunc of the installed NumPy, by its own name."""
    return {f.__name__: f for f in vars(np).values() if isinstance(f, np.ufunc)}


#: ufunc -> implementation for Arrays and numbers of the right dtypes
IMPLEMENTATIONS: dict[Any, Callable[..., Any]] = {
    f: _COMPOSED.get(name) or _OPS[name] for name, f in ufuncs().items() if name in _OPS or name in _COMPOSED
}


def _straight(ufunc: np.ufunc, op: Op) -> Callable[..., Any]:
    """Return the op's eager function, after a check of the dtypes if op and ufunc differ for dtypes other than
    floats.
    """
    eager: Callable[..., Any] = op.eager
    if ufunc.__name__ not in ("conjugate", "logaddexp", "rint"):
        return eager
    kinds = "c" if ufunc.__name__ == "conjugate" else FLOATING

    def run_checked(*values: Any) -> Any:
        same = all(v.__class__ is Array and np_dtype(v).kind in kinds for v in values)
        return eager(*values) if same else call(ufunc, *values)

    return run_checked


#: ufunc -> op that takes NumPy's arguments directly
_STRAIGHT_OPS: dict[Any, Any] = {
    f: op
    for name, f in ufuncs().items()
    if (op := {**_OPS, "matmul": product.matmul}.get(name)) is not None and name not in ("reciprocal", "ldexp")
}


def straight(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """Return the function for a plain call of a ufunc on Arrays, if any; created at the first call of the ufunc."""
    found = _quick.get(ufunc)
    if found is None and ufunc in _STRAIGHT_OPS:
        found = _quick[ufunc] = _straight(ufunc, _STRAIGHT_OPS[ufunc])
    return found


#: Ufuncs that Python calls for operators with an ndarray on the left.
_OPERATORS = frozenset(
    getattr(np, name)
    for name in (
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "matmul", "divmod", "equal",
        "not_equal", "less", "less_equal", "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor",
        "left_shift", "right_shift",
    )
)  # fmt: skip

#: ufunc -> eager function, filled at the first call
_quick: dict[Any, Callable[..., Any]] = {}


# ----- entry point ---------------------------------------------------------------------------------------------------


def array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Implement `__array_ufunc__`: NumPy calls it if a tensor is among the arguments of a ufunc."""
    if method == "__call__" and not kwargs and self.__class__ is Array:
        # The first call takes the same path as later ones: hooks on saved tensors see the same tensors.
        run = _quick.get(ufunc) or straight(ufunc)
        if run is not None:
            if len(inputs) == 1:
                return run(self)
            x, y = inputs
            if (x.__class__ in READY or _is_ready(x)) and (y.__class__ in READY or _is_ready(y)):
                return run(x, y)
    if _has_foreign_rules(inputs, kwargs.get("out")):
        return NotImplemented
    if method == "__call__" and _is_left_operand(ufunc, inputs, kwargs):
        return _operate(ufunc, inputs)
    if package_name.package == "torch" and are_constants_of_torch(inputs, kwargs):
        return call_ufunc(self, ufunc, method, inputs, kwargs)
    if method == "__call__":
        return call(ufunc, *inputs, **kwargs)
    from ndgrad.numpy import ufunc_methods  # avoids an import cycle

    out = kwargs.pop("out", None)
    if out is not None:
        kwargs["out"] = out[0] if isinstance(out, tuple) else out
    name = {"reduce": "reduce_along", "at": "apply_at"}.get(method, method)
    return getattr(ufunc_methods, name)(ufunc, *inputs, **kwargs)


def _is_ready(x: object) -> bool:
    return x.__class__ is np.ndarray and is_number(x.dtype) and x.dtype.isnative


def _has_foreign_rules(inputs: tuple[Any, ...], out: Out) -> bool:
    """True if an operand has its own rules for ufuncs (units, data frames, other libraries) and should handle the
    call.
    """
    for x in (*inputs, *(out or ())):
        if not isinstance(x, (Variable, np.generic)):
            theirs = getattr(type(x), "__array_ufunc__", None)
            if theirs is not None and theirs is not np.ndarray.__array_ufunc__:
                return True
    return False


def _is_left_operand(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True for `ndarray + t` with a torch-style tensor.

    NumPy's functions return Arrays, but operators also come here, and NumPy does not tell the two apart. With an
    ndarray on the left of a torch-style tensor, the result is such a tensor, as for `t + ndarray`.
    """
    return (
        ufunc in _OPERATORS
        and not kwargs
        and isinstance(inputs[0], (np.ndarray, np.generic))
        and not isinstance(inputs[1], Array)
    )


def _operate(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    left = check_plain(np.asarray(inputs[0]) if isinstance(inputs[0], np.generic) else inputs[0])
    return IMPLEMENTATIONS[ufunc](left, inputs[1])


# ----- calls ----------------------------------------------------------------------------------------------------------


def call(
    ufunc: np.ufunc, *inputs: Any, out: Out = None, where: ArrayLike = True, dtype: Dtype = None,
    casting: str = "same_kind", order: str = "K", subok: bool = True, signature: Any = None, sig: Any = None,
    axes: Any = None, axis: int | None = None, keepdims: bool = False,
) -> Any:  # fmt: skip
    """Call `ufunc(*inputs, ...)` with NumPy's meaning of each keyword."""
    run = implementation(ufunc)
    given, outs = inputs[: ufunc.nin], _outputs(ufunc, inputs, out)
    if len(given) != ufunc.nin:
        raise TypeError(
            f"{ufunc.__name__}() takes from {ufunc.nin} to {ufunc.nin + ufunc.nout} positional arguments but "
            f"{len(inputs)} were given [nd-arguments]"
        )
    values = [x if x.__class__ in _SCALARS else as_array(x) for x in given]
    if all(isinstance(v, _SCALARS) for v in values):
        values = [constant(np.asarray(v)) for v in values]
    loop = _loop_dtypes(ufunc, values, dtype, signature if signature is not None else sig, casting)
    values = [_cast_to_loop(v, d) for v, d in zip(values, loop, strict=False)]
    if ufunc.signature is not None:
        result: Any = _run_on_axes(ufunc, run, values, axes, axis, keepdims)
    elif where is not True:
        result = _run_masked(run, values, where, outs, loop[ufunc.nin :])
    else:
        result = run(*values)
    results: tuple[Any, ...] = result if isinstance(result, tuple) else (result,)
    results = tuple(with_dtype(r, d) for r, d in zip(results, loop[ufunc.nin :], strict=True))
    if order != "K":
        results = tuple(r._in_memory_order(order) for r in results)
    delivered = tuple(_deliver_result(ufunc, r, o, casting) for r, o in zip(results, outs, strict=True))
    return delivered if ufunc.nout > 1 else delivered[0]


def implementation(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the implementation of a ufunc, or raise a clear error if there is none."""
    found = IMPLEMENTATIONS.get(ufunc)
    if found is None:
        found = _special(ufunc)
    if found is None:
        name = ufunc.__name__
        if name in REFUSED:
            raise NotNumbers(f"numpy.{name}() does not take tensors: {REFUSED[name]}. [nd-no-derivative]")
        raise TypeError(
            f"the ufunc {name!r} has no derivative that ndgrad knows, and computing it on plain values would drop "
            f"the graph. {_nearest(ufunc)}{lift_line()} [nd-no-derivative]"
        )
    return found


def _nearest(ufunc: np.ufunc) -> str:
    if ufunc.types and all(set(t) <= set("O->") for t in ufunc.types):
        return (
            "It was made of a Python function (numpy.frompyfunc): call that function on the Array itself, "
            "or wrap it with ndgrad.numpy.vectorize."
        )
    return (
        "Write it with NumPy's functions, give it a rule with ndgrad.autograd.Function, or pass t.detach() "
        "if no gradient is meant to pass."
    )


def _special(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """Return the implementation of one of SciPy's special functions, which are ufuncs too, from ndgrad.special or
    ndgrad.scipy.special.
    """
    scipy_special = sys.modules.get("scipy.special")
    name = ufunc.__name__
    if scipy_special is None or getattr(scipy_special, name, None) is not ufunc:
        return None
    from ndgrad import special  # loaded when SciPy's special functions meet an Array

    found: Any = getattr(special, _SCIPY_NAMES.get(name, name), None) if name not in _OTHER_MEANING else None
    if found is None:
        from ndgrad.scipy.special import scipy_special as find_special  # loaded with the first such function

        found = find_special(name)
    if found is None:
        return None
    IMPLEMENTATIONS[ufunc] = run = lambda *values: found(
        *(v if isinstance(v, Variable) else constant(np.asarray(v)) for v in values)
    )
    return run


_SCIPY_NAMES = {"j0": "bessel_j0", "j1": "bessel_j1", "y0": "bessel_y0", "y1": "bessel_y1",
                "k0": "modified_bessel_k0", "k1": "modified_bessel_k1", "k0e": "scaled_modified_bessel_k0",
                "k1e": "scaled_modified_bessel_k1"}  # fmt: skip
#: Names with a meaning in torch's namespace that differs from SciPy's.
_OTHER_MEANING = frozenset(("logit", "round"))


def _outputs(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Out) -> tuple[Any, ...]:
    """Return one output, or None, for each result; outputs may be positional too."""
    extra = inputs[ufunc.nin :]
    if extra and out is not None:
        raise TypeError(f"{ufunc.__name__}(): out= was given by position and by keyword. Give it once. [nd-out]")
    places = extra if out is None else out if isinstance(out, tuple) else (out,)
    return (*places, *(None,) * (ufunc.nout - len(places)))


def _deliver_result(ufunc: np.ufunc, result: Array, out: Any, casting: str) -> Array:
    if out is not None and not isinstance(out, Variable):
        call = f"numpy.{ufunc.__name__}(out=ndarray), which is also what `ndarray {_symbol(ufunc)}= tensor` calls"
        refuse_loss_in_memory(call, out, result)
    return deliver(ufunc.__name__, result, out, casting, broadcasts=ufunc.signature is None)


def _symbol(ufunc: np.ufunc) -> str:
    return {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "remainder": "%"}.get(
        ufunc.__name__, "op"
    )


# ----- dtypes ---------------------------------------------------------------------------------------------------------


def _loop_dtypes(ufunc: np.ufunc, values: list[Any], dtype: Dtype, signature: Any, casting: str) -> tuple[Any, ...]:
    """Return the dtypes of inputs and outputs that NumPy would use."""
    given = [
        type(v) if v.__class__ in (int, float, complex) else np.dtype(bool) if v.__class__ is bool else np_dtype(v)
        for v in values
    ]
    extension = next((g for g in given if isinstance(g, np.dtype) and g.kind == "V"), None)
    if extension is not None:  # with bfloat16, NumPy treats Python floats as float32
        given = [extension if g in (int, float) else g for g in given]
    if signature is None and dtype is not None:
        signature = (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
    elif isinstance(signature, str):
        signature = tuple(np.dtype(c) for c in signature.replace("->", ""))
    options = {} if signature is None else {"signature": signature}
    try:
        # The stubs require a literal.
        found: tuple[Any, ...] = ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout), casting=casting, **options)  # type: ignore[arg-type]
    except TypeError as error:
        kinds = ", ".join(str(g) for g in given)
        raise TypeError(f"{ufunc.__name__}() has no way to compute with ({kinds}): {error} [nd-dtype]") from None
    return found


def _cast_to_loop(value: Any, dtype: np.dtype[Any]) -> Any:
    if not isinstance(value, Variable):
        # Keep a Python float if that means the same: it is the fast path through every op.
        return value if is_inexact(dtype) and isinstance(value, float) else constant(np.asarray(value, dtype))
    have = np_dtype(value)
    return value if have == dtype else cast_ops.cast(value, dtype=dtype)


# ----- where= and gufuncs ---------------------------------------------------------------------------------------------


def _run_masked(
    run: Callable[..., Any], values: list[Any], where: ArrayLike, outs: tuple[Any, ...], dtypes: tuple[Any, ...]
) -> tuple[Array, ...]:
    """Compute only the chosen elements: elsewhere the function may have no value, and its derivative may not be
    finite.
    """
    mask = as_array(where)
    if np_dtype(mask).kind != "b":
        raise TypeError(
            f"where= must be an array of booleans, but is {np_dtype(mask)}. Compare to make a mask. [nd-dtype]"
        )
    values = [v if isinstance(v, Variable) else constant(np.asarray(v)) for v in values]
    shape = np.broadcast_shapes(
        mask.shape, *(v.shape for v in values), *(tuple(o.shape) for o in outs if o is not None)
    )
    bases = [
        constant(_zeros_beside(values, dtype)) if out is None else with_dtype(cast_ops.clone(as_array(out)), dtype)
        for out, dtype in zip(outs, dtypes, strict=True)
    ]
    if is_open(mask):
        chosen = broadcast(mask, shape)
        made = run(*_with_chosen(chosen, [broadcast(v, shape) for v in values]))
        parts = made if isinstance(made, tuple) else (made,)
        return tuple([selection.where(chosen, part, base) for part, base in zip(parts, bases, strict=True)])
    where_ = np.broadcast_to(plain(mask), shape)
    made = run(*(broadcast(v, shape)[where_] for v in values))
    for part, base in zip(made if isinstance(made, tuple) else (made,), bases, strict=True):
        base[where_] = part
    return tuple(bases)


def _with_chosen(chosen: Array, values: list[Any]) -> list[Any]:
    """Replace all elements that are not chosen by a chosen one, for which the function has a value. No gradient reaches
    the replaced elements.
    """
    if not chosen.size:
        return values
    with no_grad():
        line = flat(chosen)
        place = extremum.argmax(cast_ops.cast(line, dtype=np.dtype(np.int8)), dim=0, keepdim=True)
        there = take_copy(line, 0, place)  # True if any is chosen
        safe = [shape_ops.reshape(selection.where(there, take_copy(flat(v), 0, place), 1), shape=()) for v in values]
    return [selection.where(chosen, v, one) for v, one in zip(values, safe, strict=True)]


def _zeros_beside(values: list[Array], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeros in the shape and memory order of NumPy's result for the operands."""
    samples: list[Any] = [layout_sample(v) for v in values]
    flags = [*(["readonly"] for _ in values), ["writeonly", "allocate"]]
    # The stubs do not allow None.
    made = np.nditer([*samples, None], ["zerosize_ok"], flags, [*(None for _ in values), dtype])  # type: ignore[arg-type]
    return np.zeros_like(made.operands[-1])


def _run_on_axes(
    ufunc: np.ufunc, run: Callable[..., Any], values: list[Any], axes: Any, axis: int | None, keepdims: bool
) -> Array:
    """Apply a gufunc to other axes than the last ones: they are moved there and back."""
    core = _CORE[ufunc.__name__]
    values = operands(*values)
    for v, c in zip(values, core, strict=False):
        if v.ndim < len(c) and not (ufunc.__name__ == "matmul" and v.ndim == 1):
            raise ValueError(
                f"{ufunc.__name__}(): an operand of shape {v.shape} does not have enough dimensions (has {v.ndim}, "
                f"and needs {len(c)}). Add dimensions with [None]. [nd-ndim]"
            )
    if axis is not None:
        if any(len(c) > 1 for c in core):
            raise TypeError(f"{ufunc.__name__}(): axis= is for functions of one core dimension. Use axes=. [nd-type]")
        axes = [axis, axis] + ([axis] if keepdims else [])
    if axes is not None:
        groups = [(a,) if np.ndim(a) == 0 else tuple(a) for a in axes]
        values = [_move_to_end(v, g) for v, g in zip(values, groups, strict=False)]
    result = run(*values)
    if keepdims:
        if core[2]:
            raise TypeError(f"{ufunc.__name__} does not reduce, so it takes no keepdims=. [nd-arguments]")
        result = result[..., None]
    if axes is not None and len(axes) > 2 and (core[2] or keepdims):
        result = _move_from_end(result, groups[2])
    return result


def _move_from_end(t: Array, axes: tuple[int, ...]) -> Array:
    """Move the last axes to the given positions."""
    places = [a % t.ndim for a in axes]
    rest = iter(range(t.ndim - len(places)))
    order = [t.ndim - len(places) + places.index(d) if d in places else next(rest) for d in range(t.ndim)]
    return shape_ops.permute(t, dims=tuple(order))


def _move_to_end(t: Array, axes: tuple[int, ...]) -> Array:
    order = [a % t.ndim for a in axes]
    return shape_ops.permute(t, dims=(*(d for d in range(t.ndim) if d not in order), *order))


