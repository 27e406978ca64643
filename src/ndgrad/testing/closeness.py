"""assert_close: compare two values, or two structures of values, up to rounding.

Comparisons and tolerances are torch's: tensors, arrays and numbers in sequences and mappings of any depth. The graph is
ignored. A failure states the number of different elements, the largest difference, and its position in the structure.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.placement import CPU, move_to
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.variable import Variable, np_dtype

#: dtype -> (rtol, atol); zero for all others.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def default_tolerances(
    *inputs: Any, dtype_precisions: Mapping[Any, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """Return the largest relative and absolute tolerance of the dtypes of tensors, or of dtypes.

    Args:
        *inputs: tensors or dtypes.
        dtype_precisions: tolerances by dtype instead of those of `assert_close`.
    """
    found = [i.dtype if isinstance(i, Variable) else i for i in inputs]
    if not all(isinstance(d, dtypes.dtype) for d in found):
        raise TypeError("default_tolerances() takes tensors and dtypes only [nd-type]")
    table = _TOLERANCES if dtype_precisions is None else {d.name: pair for d, pair in dtype_precisions.items()}
    pairs = [table.get(d.name, (0.0, 0.0)) for d in found]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def get_tolerances(
    *inputs: Any, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """Return the given tolerances, or those of the dtypes if both are None.

    Args:
        *inputs: tensors or dtypes.
        rtol: relative tolerance.
        atol: absolute tolerance.
        id: position of the values in a structure, for the message of an error.

    Raises:
        ValueError: if only one tolerance is given.
    """
    if (rtol is None) != (atol is None):
        place = f", item {id}" if id else ""
        raise ValueError(f"rtol and atol come together: give both or none, not {rtol} and {atol}{place} [nd-arguments]")
    return default_tolerances(*inputs) if rtol is None or atol is None else (rtol, atol)


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an AssertionError unless `|actual - expected| <= atol + rtol * |expected|` everywhere.

    Sequences are compared item by item, mappings key by key. Without tolerances, those of the dtype are used: 1e-7 for
    double precision, exact equality for integers. `msg` replaces the message of a failure, or is a function that makes
    it from the standard one.

    Args:
        actual: value to check: a tensor, array, number, sequence or mapping.
        expected: expected value.
        allow_subclasses: whether the classes of tensors may differ, if one derives from the other.
        rtol: relative tolerance. None takes that of the dtype.
        atol: absolute tolerance. None takes that of the dtype. Both tolerances come together.
        equal_nan: whether NaN equals NaN.
        check_device: whether devices must be equal.
        check_dtype: whether dtypes must be equal.
        check_layout: whether layouts must be equal.
        check_stride: whether strides must be equal.
        msg: message of a failure, or a function of the standard message.

    >>> from ndgrad.testing import assert_close
    >>> assert_close({"x": [ndgrad.tensor([1.0, 2.0])]}, {"x": [ndgrad.tensor([1.0, 2.0 + 1e-9])]})
    >>> assert_close(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 2.5]))
    Traceback (most recent call last):
    ...
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    1 of 2 elements differ (50.0%).
    The largest absolute difference is 0.5 at index (1,) (1e-05 is allowed).
    The largest relative difference is 0.2 at index (1,) (1.3e-06 is allowed). [nd-not-close]
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"assert_close: {missing} is missing. Give both rtol and atol, or neither. [nd-exclusive]")
    if (rtol or 0) < 0 or (atol or 0) < 0:
        raise RuntimeError(f"assert_close: rtol is {rtol} and atol {atol}. Tolerances cannot be negative. [nd-range]")
    _Comparison(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, msg
    ).run(actual, expected, "")


def assert_allclose(
    actual: object,
    expected: object,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated form of `assert_close`, for anything that can be converted to a tensor, of any dtype.

    Args:
        actual: value to check.
        expected: expected value.
        rtol: relative tolerance.
        atol: absolute tolerance. Without both tolerances they are 1e-7.
        equal_nan: whether NaN equals NaN.
        msg: message of a failure. The empty string means the standard one.

    >>> import ndgrad
    >>> ndgrad.testing.assert_allclose([1.0, 2.0], ndgrad.tensor([1.0, 2.0]))
    """
    import ndgrad  # the whole namespace is a layer above

    warnings.warn("assert_allclose() is the older form of assert_close(). Use that.", FutureWarning, stacklevel=2)
    given = [v if isinstance(v, Variable) else ndgrad.as_tensor(v) for v in (actual, expected)]
    if rtol is None and atol is None:
        rtol, atol = 1e-7, 1e-7
    assert_close(
        *given,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


class _Comparison:
    """The options of one call, and the walk through both structures."""

    def __init__(
        self, subclasses: bool, rtol: float | None, atol: float | None, equal_nan: bool, device: bool, dtype: bool,
        layout: bool,
        stride: bool, msg: str | Callable[[str], str] | None,
    ) -> None:  # fmt: skip
        self.subclasses, self.rtol, self.atol, self.equal_nan = subclasses, rtol, atol, equal_nan
        self.device, self.dtype, self.layout, self.stride, self.msg = device, dtype, layout, stride, msg

    def run(self, actual: object, expected: object, where: str) -> None:
        if isinstance(actual, str) or isinstance(expected, str):
            self.refuse(actual, expected, where)
        if isinstance(actual, Sequence) and isinstance(expected, Sequence):
            if len(actual) != len(expected):
                self.fail(f"The lengths of the sequences differ: {len(actual)} and {len(expected)}.", where)
            for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
                self.run(a, e, f"{where}[{i}]")
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            missing, extra = [k for k in expected if k not in actual], [k for k in actual if k not in expected]
            if missing or extra:
                self.fail(f"The keys of the mappings differ: {missing} are missing, {extra} are too many.", where)
            for key in expected:
                self.run(actual[key], expected[key], f"{where}[{key!r}]")
        else:
            self.leaf(actual, expected, where)

    def leaf(self, actual: object, expected: object, where: str) -> None:
        if actual is None or expected is None:
            if actual is not expected:
                self.fail(f"None mismatch: {actual!r} is not {expected!r}.", where)
        elif isinstance(actual, (bool, np.bool)) and isinstance(expected, (bool, np.bool)):
            if bool(actual) is not bool(expected):
                self.fail(f"Booleans mismatch: {actual} is not {expected}.", where)
        elif isinstance(actual, (int, float, complex)) and isinstance(expected, (int, float, complex)):
            self.numbers(actual, expected, where)
        elif self.comparable(actual, expected):
            self.arrays(actual, expected, where)
        else:
            self.refuse(actual, expected, where)

    def comparable(self, actual: object, expected: object) -> bool:
        """True if both are tensors, or both arrays; related by inheritance, unless that is not allowed."""
        a, e = type(actual), type(expected)
        if not all(issubclass(c, (Variable, np.ndarray, np.generic)) for c in (a, e)):
            return False
        if not self.subclasses:
            return a is e
        return issubclass(a, e) or issubclass(e, a)

    def numbers(self, actual: Any, expected: Any, where: str) -> None:
        if self.dtype and type(actual) is not type(expected):
            self.fail(f"The types do not match: {type(actual).__name__} and {type(expected).__name__}.", where)
        rtol, atol = self.tolerances([np.asarray(actual).dtype, np.asarray(expected).dtype])
        if bool(np.isclose(actual, expected, rtol, atol, self.equal_nan)):
            return
        gap = abs(actual - expected)
        relative = gap / abs(expected) if expected else float("inf")
        kind = "equal" if rtol == atol == 0 else "close"
        self.fail(
            (
                f"Scalars are not {kind}!\n"
                "\n"
                f"Expected {expected} but got {actual}.\n"
                f"The absolute difference is {gap} ({atol} is allowed).\n"
                f"The relative difference is {relative} ({rtol} is allowed)."
            ),
            where,
        )

    def arrays(self, actual: object, expected: object, where: str) -> None:
        twins = [getattr(t, "graph_twin", None) for t in (actual, expected)]
        if any(twins):
            self.compare_spread(actual, expected, where)
            return
        a, e = (_Facts(t) for t in (actual, expected))
        for name in ("shape", *(n for n in ("device", "layout", "dtype", "stride") if getattr(self, n))):
            if getattr(a, name) != getattr(e, name):
                self.fail(
                    f"The values of the attribute {name!r} do not match: {getattr(a, name)} and {getattr(e, name)}.",
                    where,
                )
        if "meta" in (str(a.device), str(e.device)):
            self.fail("Tensors on the device meta have no values to compare.", where)
        got, want = a.values(), e.values()
        rtol, atol = self.tolerances([got.dtype, want.dtype])
        if not is_inexact(got.dtype) or not is_inexact(want.dtype):
            got, want = (
                v.astype(object) if v.dtype.kind in "iu" else v.astype(np.float64) if v.dtype.kind == "b" else v
                for v in (got, want)
            )
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(got - want)
            # The bound of an infinite value is infinite, and no finite value is near it.
            close = np.asarray((got == want) | ((gap <= atol + rtol * np.abs(want)) & (gap < np.inf)), bool)
        if self.equal_nan:
            close |= np.asarray((got != got) & (want != want), bool)
        if bool(close.all()):
            return
        kind = "equal" if rtol == atol == 0 else "close"
        if not got.ndim:
            what = f"Scalars are not {kind}!\n\nExpected {want} but got {got}."
        else:
            count = int((~close).sum())
            what = (
                f"Tensor-likes are not {kind}!\n"
                "\n"
                f"{count} of {close.size} elements differ ({100 * count / close.size:.1f}%)."
            )
        with np.errstate(all="ignore"):
            sizes = gap.astype(np.float64)
            relative = sizes / np.abs(want.astype(got.dtype if want.dtype == object else want.dtype)).astype(np.float64)
        for name, values, allowed in (("absolute", sizes, atol), ("relative", relative, rtol)):
            index = np.unravel_index(
                int(np.argmax(np.where(close, -1.0, np.nan_to_num(values, nan=np.inf)))), got.shape
            )
            place = f" at index {tuple(int(i) for i in index)}" if got.ndim else ""
            limit = f" ({allowed} is allowed)" if kind == "close" else ""
            what += f"\nThe largest {name} difference is {values[index]:.10g}{place}{limit}."
        self.fail(what, where)

    def compare_spread(self, actual: Any, expected: Any, where: str) -> None:
        """Compare tensors that are spread over ranks: meshes and placements, then this rank's parts."""
        if type(actual) is not type(expected):
            self.fail(f"The types do not match: {type(actual).__name__} and {type(expected).__name__}.", where)
        for name in ("shape", "device_mesh", "placements"):
            a, e = getattr(actual, name), getattr(expected, name)
            if a != e:
                self.fail(f"The values of the attribute {name!r} do not match: {a} and {e}.", where)
        self.arrays(actual.graph_twin(), expected.graph_twin(), where)

    def tolerances(self, dtypes: list[Any]) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        pairs = [_TOLERANCES.get(str(d), (0.0, 0.0)) for d in dtypes]
        return max(p[0] for p in pairs), max(p[1] for p in pairs)

    def fail(self, what: str, where: str) -> NoReturn:
        if where:
            what += f"\n\nThe failure occurred for item {where}"
        what += " [nd-not-close]"
        if callable(self.msg):
            what = self.msg(what)
        elif self.msg is not None:
            what = self.msg
        raise AssertionError(what)

    def refuse(self, actual: object, expected: object, where: str) -> NoReturn:
        at = f" (item {where})" if where else ""
        raise TypeError(
            f"assert_close: {type(actual).__name__} and {type(expected).__name__} cannot be compared{at}. "
            "Give two tensors, two arrays, two numbers, or sequences or mappings of these. [nd-type]"
        )


class _Facts:
    """The compared attributes of a tensor or array."""

    def __init__(self, value: Any) -> None:
        self.value = value
        tensor = isinstance(value, Variable)
        array = value._array if tensor else value
        self.shape = tuple(value.shape)
        self.dtype = np_dtype(value) if tensor else value.dtype
        self.device = value.device if tensor else "cpu"
        self.layout = str(getattr(value, "layout", "strided")) if tensor else "strided"
        self.sparse = self.layout.rpartition(".")[2].startswith("sparse")
        self.stride = (
            ()
            if self.sparse
            else tuple(value.stride()) if tensor else tuple(s // array.itemsize for s in getattr(array, "strides", ()))
        )

    def values(self) -> Any:
        if not isinstance(self.value, Variable):
            return np.asarray(self.value)
        array = self.value.detach().to_dense() if self.sparse else self.value.detach()
        if isinstance(array._array, Variable):
            raise RuntimeError(
                "assert_close: a tensor inside a function transform has no values of its own. Compare outside of it. "
                "[nd-in-transform]"
            )
        values = np.asarray(move_to(array._array, CPU))
        # bfloat16 computes in single precision.
        return values.astype(np.float32) if values.dtype.kind == "V" else values


__all__ = ["assert_allclose", "assert_close"]
