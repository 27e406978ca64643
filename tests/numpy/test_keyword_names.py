"""`dim` and `keepdim` mean `axis` and `keepdims` on NumPy's tensor class, and the
other way round for torch's methods that Arrays have too.

The functions are found by their signatures, so that a new one cannot be left out.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as onp
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.foundations.pytree import tree_leaves
from ndgrad.numpy import Array

TORCH_NAME = {"axis": "dim", "axes": "dims", "keepdims": "keepdim", "axis1": "dim1", "axis2": "dim2"}
NUMPY_NAME = {"dim": "axis", "dims": "axes", "keepdim": "keepdims"}
A, B, V = onp.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]]), onp.array([[1.0, 0.5, 2.0], [0.3, 2.0, 1.0]]), onp.array([1.0, 2.0, 3.0])
SQUARE = onp.eye(3) + 0.1

#: Arguments of functions that need others than one matrix.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "packbits": (onp.array([[1, 0]], onp.uint8),),
    "unpackbits": (onp.array([[160]], onp.uint8),),
    "append": (A, B), "argpartition": (A, 1), "array_split": (A, 2), "compress": ([True, False], A), "concat": ([A, B],),
    "concatenate": ([A, B],), "cross": (A, B), "delete": (A, 0), "geomspace": (A, B + 1), "insert": (A, 0, 1.0), "lexsort": (A,),
    "linspace": (A, B), "logspace": (A, B), "nanpercentile": (A, 30), "nanquantile": (A, 0.3), "partition": (A, 1), "percentile": (A, 30),
    "put_along_axis": (A.copy(), onp.array([[0, 0, 0]]), 7.0), "quantile": (A, 0.3), "repeat": (A, 2), "roll": (A, 1), "rollaxis": (A,),
    "split": (A, 2), "squeeze": (A[None],), "stack": ([A, B],), "swapaxes": (A,), "take": (A, [0, 1]),
    "take_along_axis": (A, onp.array([[0, 0, 0]])), "tensordot": (A, B.T), "tensorsolve": (SQUARE, V), "trim_zeros": (A,),
    "vecdot": (A, B), "apply_over_axes": (dnp.sum, A), "matrix_norm": (A,),
}  # fmt: skip
#: Values of settings for which 0 makes no sense.
VALUES: dict[tuple[str, str], Any] = {
    ("cross", "axis"): 1, ("linspace", "axis"): 1, ("logspace", "axis"): 1, ("geomspace", "axis"): 1, ("permute_dims", "axes"): (1, 0),
    ("transpose", "axes"): (1, 0), ("rot90", "axes"): (1, 0), ("tensordot", "axes"): 1, ("tensorsolve", "axes"): None,
    ("apply_over_axes", "axes"): [0], ("swapaxes", "axis1"): 0, ("swapaxes", "axis2"): 1, ("diagonal", "axis1"): 1, ("trace", "axis1"): 1,
    ("diagonal", "axis2"): 0, ("trace", "axis2"): 0,
}  # fmt: skip
#: The keyword arguments of `apply_along_axis` belong to the function that it applies.
PASSES_KEYWORDS_ON = {"apply_along_axis"}
#: Methods whose settings have no other name in NumPy.
TORCH_ONLY = {"stride", "swapaxes_", "narrow_copy", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"}


def default(name: str, setting: str) -> Any:
    if (name, setting) in VALUES:
        return VALUES[name, setting]
    return True if setting.startswith("keepdim") else [0] if setting == "axes" else 0


def settings(function: Any, names: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.name in names and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def functions() -> list[Any]:
    found = []
    for prefix, module in {"": dnp, "linalg.": dnp.linalg, "fft.": dnp.fft}.items():
        for name in module.__all__:
            function = getattr(module, name)
            if not isinstance(function, type) and name not in PASSES_KEYWORDS_ON and (found_settings := settings(function, TORCH_NAME)):
                found.append(pytest.param(function, name, found_settings, id=prefix + name))
    return found


def methods(names: Any) -> list[Any]:
    found = {name: settings(getattr(Array, name), names) for name in dir(Array) if name not in TORCH_ONLY}
    return [pytest.param(name, of_method, id=name) for name, of_method in found.items() if of_method]


def same(left: Any, right: Any) -> None:
    left, right = tree_leaves(left), tree_leaves(right)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        onp.testing.assert_array_equal(onp.asarray(one), onp.asarray(other))


def test_the_usual_functions_are_found() -> None:
    names = {p.id for p in functions()}
    assert {"sum", "std", "median", "take", "stack", "roll", "linalg.norm", "fft.rfft2", "transpose"} <= names
    assert len(names) > 95
    assert {"sum", "cumsum", "argsort", "sort", "squeeze"} <= {p.id for p in methods(TORCH_NAME)}


@pytest.mark.parametrize(("function", "name", "numpy_settings"), functions())
def test_function_takes_torch_names(function: Any, name: str, numpy_settings: list[str]) -> None:
    def arguments() -> Any:
        return [a.copy() if isinstance(a, onp.ndarray) else a for a in ARGUMENTS.get(name, (A,))]

    given = {s: default(name, s) for s in numpy_settings}
    same(function(*arguments(), **given), function(*arguments(), **{TORCH_NAME[s]: v for s, v in given.items()}))


@pytest.mark.parametrize(("name", "numpy_settings"), methods(TORCH_NAME))
def test_method_takes_torch_names(name: str, numpy_settings: list[str]) -> None:
    arguments = {"compress": ([True, False],)}.get(name, ARGUMENTS.get(name, (A,))[1:])
    receiver = A[None] if name == "squeeze" else A
    given = {s: default(name, s) for s in numpy_settings}
    one, other = dnp.array(receiver), dnp.array(receiver)
    same(getattr(one, name)(*arguments, **given), getattr(other, name)(*arguments, **{TORCH_NAME[s]: v for s, v in given.items()}))
    same(one, other)


TORCH_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "chunk": (2,), "cross": (B,), "narrow": (0, 1), "select": (0,), "split": (1,), "split_with_sizes": ([1, 1],), "tensor_split": (2,),
    "unflatten": ((1, -1),), "permute": (), "cummax": (), "index_select": (onp.array([0]),),
}  # fmt: skip


I, ROW = onp.zeros((2, 3), onp.int64), onp.array([[7.0, 8.0, 9.0]])
#: Parameters that must be named, because the renamed dimension comes before them.
NAMED: dict[str, dict[str, Any]] = {
    "narrow": {"start": 0, "length": 1}, "select": {"index": 0}, "unflatten": {"sizes": (1, -1)}, "gather": {"index": I},
    "index_add": {"index": I[0, :1], "source": ROW}, "index_copy": {"index": I[0, :1], "source": ROW},
    "index_fill": {"index": I[0, :1], "value": 7.0}, "index_reduce": {"index": I[0, :1], "source": ROW, "reduce": "amax"},
    "index_select": {"index": I[0, :1]}, "kthvalue": {"k": 1}, "nanquantile": {"q": 0.3}, "quantile": {"q": 0.3},
    "renorm": {"p": 2, "maxnorm": 1.0}, "repeat_interleave": {"repeats": 2}, "roll": {"shifts": (1, 1)}, "rot90": {"k": 1},
    "scatter": {"index": I, "src": B}, "scatter_add": {"index": I, "src": B}, "scatter_reduce": {"index": I, "src": B, "reduce": "sum"},
    "select_scatter": {"src": ROW[0], "index": 0}, "slice_scatter": {"src": A}, "take_along_dim": {"indices": I}, "topk": {"k": 1},
}  # fmt: skip


@pytest.mark.parametrize(("name", "torch_settings"), methods(NUMPY_NAME))
def test_torch_method_of_arrays_takes_numpy_names(name: str, torch_settings: list[str]) -> None:
    given = {s: (1, 0) if s == "dims" else 1 if name == "cross" and s == "dim" else default(name, s) for s in torch_settings}
    arguments = [dnp.array(a) if isinstance(a, onp.ndarray) else a for a in TORCH_ARGUMENTS.get(name, ())]
    if name.rstrip("_") in NAMED:
        named = {k: dnp.array(v) if isinstance(v, onp.ndarray) else v for k, v in NAMED[name.rstrip("_")].items()}
        arguments, given = [], {**given, **named}
    one, other = dnp.array(A), dnp.array(A)
    expected = getattr(one, name)(*arguments, **given)
    same(expected, getattr(other, name)(*arguments, **{NUMPY_NAME.get(s, s): v for s, v in given.items()}))


def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(TypeError, match="both 'dim' and 'axis'"):
        dnp.array(A).sum(dim=0, axis=0)
    with pytest.raises(TypeError, match="both 'keepdim' and 'keepdims'"):
        dnp.max(A, keepdim=True, keepdims=True)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'dimension'. It takes: a, axis"):
        dnp.sum(A, dimension=0)


def test_torch_names_are_differentiable_and_keep_the_class() -> None:
    x = dnp.array(A).requires_grad_()
    y = x.sum(dim=1, keepdim=True)
    assert type(y) is Array
    assert y.shape == (2, 1)
    (y**2).sum().backward()
    onp.testing.assert_allclose(x.grad.numpy(), 2 * A.sum(axis=1, keepdims=True) * onp.ones_like(A))
    t = ndgrad.tensor(A)
    assert t.sum(axis=1, keepdims=True).shape == (2, 1)
