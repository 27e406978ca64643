"""The aliasing table: a result shares memory with its argument exactly when NumPy's does, as a view that writes know of, and lies in memory
in NumPy's order, in which it will be a view or a copy later.
"""

from __future__ import annotations

import re
import types
import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as onp
import pytest

import ndgrad.numpy as dnp
from ndgrad import func
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.storage import batch_dims, memory_of
from tests.numpy.alias_samples import GROUPS, LAYOUTS, QUICK_LAYOUTS, laid_out
from tests.numpy.function_samples import DIFFERENTIABLE, DISCRETE
from tests.numpy.test_functions import exists

#: (Mode, expression) -> why the result is not what NumPy's is.
DIFFERENT = {
    ("functionalize", "np.nan_to_num(x, copy=False)"): "a write gives a tensor another value, which lies dense in memory",
    ("vmap", "x[np.argmax(x[:, 0])]"): "a part for each sample is a copy that behaves as a view does, and lies dense in memory",
    ("vmap", "x[np.argmax(x[:, 0]), 1:]"): "the same",
    ("vmap", "x[True]"): "what is picked by arrays lies dense in memory, sample by sample, whatever the order of x",
    ("plain", "np.histogram2d"): "NumPy's counts are the inner part of a larger array, which is not there in ours",
    ("plain", "np.histogramdd"): "the same",
}

#: Functions that take no array to share memory with, or hand out none, and `from_dlpack`, which is memory of another library's.
NO_ARGUMENT = frozenset(
    """arange bartlett base_repr binary_repr blackman broadcast_shapes diag_indices empty format_float_positional format_float_scientific
    from_dlpack frombuffer fromfile fromfunction fromiter fromregex fromstring full genfromtxt get_include get_printoptions getbufsize
    geterr geterrcall hamming hanning identity indices info isdtype isfortran isscalar issubdtype iterable kaiser load loadtxt mask_indices
    mintypecode ones printoptions set_printoptions setbufsize seterr seterrcall show_config show_runtime tri tril_indices triu_indices
    typename""".split()
)

#: False in older versions of NumPy, whose results of Fourier transforms always lie in C order. Ours lie as the input does.
FFT_KEEPS_ORDER = onp.fft.fft(onp.ones((3, 4), order="F")).flags.f_contiguous

WRITES_ONE_PLACE = "single memory location"
#: Mode -> words of the errors that are right there: writes to a leaf and to places that are one, and shapes that depend on values.
REFUSED = {
    "plain": [WRITES_ONE_PLACE], "requires_grad": [WRITES_ONE_PLACE, "leaf Variable"], "grad": [WRITES_ONE_PLACE, "leaf Variable"],
    "jvp": [WRITES_ONE_PLACE], "vmap": [WRITES_ONE_PLACE, "vmap"], "functionalize": [WRITES_ONE_PLACE],
}  # fmt: skip


def parts(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [r for part in result for r in parts(part)]
    return [result]


def evaluate(expression: str, np: Any, x: Any) -> list[Any]:
    names = {"np": np, "x": x, "i": np.arange(3)[1], "k": np.array([2, 0])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parts(eval(expression, names))


class Facts:
    """The facts about one result that the table compares."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], shares: bool) -> None:
        self.shape, self.shares = shape, shares
        self.strides = tuple(s for s, n in zip(strides, shape, strict=True) if n > 1) if 0 not in shape else ()

    def __str__(self) -> str:
        return f"{'view' if self.shares else 'copy'} of shape {self.shape} and strides {self.strides}"

    def agrees(self, other: Facts, exactly: bool, name: str) -> bool:
        if self.shape != other.shape or self.shares != other.shares:
            return False
        if "fft." in name and not FFT_KEEPS_ORDER:
            return True
        return self.strides == other.strides if exactly else _order(self.strides) == _order(other.strides)


def _order(strides: tuple[int, ...]) -> Any:
    return sorted(range(len(strides)), key=lambda d: -abs(strides[d])), [onp.sign(s) for s in strides]


def numpys(expression: str, x: Any) -> list[Facts | None] | None:
    """Return NumPy's result of an expression, with None for results that are no arrays. Return None if NumPy refuses it, or is too old
    to have the function."""
    try:
        for name in re.findall(r"\bnp\.([a-z_0-9.]+)\(", expression):
            attrgetter(name)(onp)
    except AttributeError:
        return None
    try:
        results = evaluate(expression, onp, x)
    except (IndexError, TypeError, ValueError, onp.linalg.LinAlgError):
        return None
    return [Facts(r.shape, r.strides, onp.shares_memory(r, x)) if isinstance(r, onp.ndarray) else None for r in results]


def ours(expression: str, x: Any, by_memory: bool) -> list[Facts | None]:
    """Return our result. A view must share versions too, or writes would go unseen. In functionalize only versions are shared."""
    made: list[Facts | None] = []
    for r in evaluate(expression, dnp, x):
        if not isinstance(r, Variable):
            made.append(None)
            continue
        memory, lead = memory_of(r), batch_dims(r)
        declared = r is x or (r._storage is not None and r._storage is x._storage)
        if r._meta is not None and r._meta.picked is not None:  # a part for each sample: a copy that behaves as a view does
            made.append(Facts(memory.shape[lead:], memory.strides[lead:], True))
            continue
        shares = bool(onp.shares_memory(memory, memory_of(x))) if by_memory or not memory.size else declared
        assert shares == declared or not memory.size, f"shares memory: {shares}, is known as a view: {declared}"
        made.append(Facts(memory.shape[lead:], memory.strides[lead:], shares))
    return made


Record = Callable[[Any], Any]


def _plain(x: Any, record: Record) -> None:
    record(dnp.asarray(x))


def _requires_grad(x: Any, record: Record) -> None:
    record(dnp.asarray(x).requires_grad_())


def _grad(x: Any, record: Record) -> None:
    func.grad(lambda t: (record(t), (t * t).sum().real)[1])(dnp.asarray(x))


def _jvp(x: Any, record: Record) -> None:
    func.jvp(lambda t: (record(t), t.sum())[1], (dnp.asarray(x),), (dnp.asarray(onp.ones_like(x)),))


def _vmap(x: Any, record: Record) -> None:
    func.vmap(lambda t: (record(t), t.sum())[1])(dnp.asarray(x))


def _functionalize(x: Any, record: Record) -> None:
    func.functionalize(lambda t: (record(t), t.sum())[1])(dnp.asarray(x))


MODES: dict[str, Callable[[Any, Record], None]] = {
    "plain": _plain, "requires_grad": _requires_grad, "grad": _grad, "jvp": _jvp, "vmap": _vmap, "functionalize": _functionalize,
}  # fmt: skip


def disagreements(group: str, layout: str, mode: str) -> list[str]:
    """Every expression of a group of which we make something else than NumPy."""
    shape, dtype, expressions = GROUPS[group]
    lead = (2,) if mode == "vmap" else ()
    found = []
    for expression in expressions:
        if (mode, expression) in DIFFERENT:
            continue
        x = laid_out(layout, shape, dtype, lead)
        expected = numpys(expression, x[0, ...] if lead else x)
        if expected is None:
            continue
        if group == "single":  # a 0-d Array stands for a scalar, which is copied when it gets dimensions
            for facts in expected:
                if facts is not None:
                    facts.shares = facts.shares and (not facts.shape or "broadcast" in expression)  # it is never written
        made: list[Any] = []

        def record(t: Any, made: list[Any] = made, expression: str = expression) -> None:
            try:
                made.append(ours(expression, t, mode != "functionalize"))
            except Exception as error:
                made.append(error)

        try:
            MODES[mode](x, record)
        except RuntimeError as error:
            if WRITES_ONE_PLACE not in str(error):
                raise
        (results,) = made
        if isinstance(results, Exception):
            if not any(reason in str(results) for reason in REFUSED[mode]):
                found.append(f"{expression}: {type(results).__name__}: {results}")
            continue
        for r, e in zip(results, expected, strict=True):
            if r is not None and e is not None and not r.agrees(e, mode != "vmap", expression):
                found.append(f"{expression}: a {r}, and NumPy's is a {e}")
    return found


QUICK = [
    *((g, layout, "plain") for g in GROUPS for layout in QUICK_LAYOUTS),
    *((g, "F", mode) for g in ("matrix", "complex") for mode in MODES if mode != "plain"),
]
WIDE = [(g, layout, mode) for g in GROUPS for layout in LAYOUTS for mode in MODES if (g, layout, mode) not in QUICK]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("group", "layout", "mode"), QUICK, ids=["-".join(case) for case in QUICK])
def test_results_share_memory_and_lie_in_memory_as_numpys_do(group: str, layout: str, mode: str) -> None:
    assert not disagreements(group, layout, mode)


@pytest.mark.slow
@pytest.mark.parametrize(("group", "layout", "mode"), WIDE, ids=["-".join(case) for case in WIDE])
def test_the_whole_aliasing_table(group: str, layout: str, mode: str) -> None:
    assert not disagreements(group, layout, mode)


# ----- the samples of all functions, in every layout ---------------------------------------------------------------------------


def _laid_like(values: Any, layout: str) -> Any:
    """Values in a layout; where several elements are one place, those of the first."""
    x = onp.asarray(values)
    made = laid_out(layout, x.shape, x.dtype)
    made[...] = x[:1] if layout == "broadcast" and x.ndim else x
    return made


SAMPLES = {n: calls for n, calls in {**DIFFERENTIABLE, **DISCRETE}.items() if exists(n) and ("plain", f"np.{n}") not in DIFFERENT}
QUICK_SAMPLES = ("F", "strided")


@pytest.mark.parametrize("layout", [n if n in QUICK_SAMPLES else pytest.param(n, marks=pytest.mark.slow) for n in LAYOUTS])
def test_samples_of_all_functions_share_memory_and_lie_in_memory_as_numpys_do(layout: str) -> None:
    found = []
    for name, calls in SAMPLES.items():
        for number, call in enumerate(calls):
            plain = [_laid_like(x, layout) for x in call.inputs]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    expected = parts(call.run(onp, onp, *plain))
            except (ValueError, onp.linalg.LinAlgError):
                continue  # a broadcast sample may be a singular matrix, or lines of equal numbers
            arrays = [dnp.asarray(x) for x in plain]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = parts(call.run(onp, dnp, *arrays))
            for r, e in zip(results, expected, strict=True):
                if not isinstance(e, onp.ndarray) or not isinstance(r, Variable):
                    continue
                for x, a in zip(plain, arrays, strict=True):
                    theirs = Facts(e.shape, e.strides, onp.shares_memory(e, x))
                    memory = memory_of(r)
                    mine = Facts(memory.shape, memory.strides, onp.shares_memory(memory, memory_of(a)))
                    if not mine.agrees(theirs, True, name):
                        found.append(f"{name}-{number}: a {mine}, and NumPy's is a {theirs}")
    assert not found


def test_every_function_that_hands_out_arrays_is_in_the_table() -> None:
    """Functions that NumPy does not dispatch (they make arrays of anything) are in the expressions, all others in the samples too."""
    text = "  ".join(expression for _, _, expressions in GROUPS.values() for expression in expressions)
    known = {*re.findall(r"np\.([a-z_0-9]+)", text), *DIFFERENTIABLE, *DISCRETE, *NO_ARGUMENT}
    known |= {name.removeprefix("np.") for _, name in DIFFERENT}
    functions = [name for name in dnp.__all__ if isinstance(getattr(dnp, name), types.FunctionType) and not _is_ufunc(name)]
    assert not [name for name in functions if name not in known]


def _is_ufunc(name: str) -> bool:
    """All of them are one implementation, of which the table has many."""
    return isinstance(getattr(onp, name, None), onp.ufunc)
