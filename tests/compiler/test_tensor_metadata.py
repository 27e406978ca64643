"""Metadata of tensors: a compiled function reads those of the call, and its changes take effect."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad._src.compiler.runtime.function import CompiledFunction


def leaf() -> Any:
    return ndgrad.ones(3, requires_grad=True)


def write() -> Any:
    return ndgrad.ones(3).add_(0)


def scaled(by: float) -> Any:
    t = ndgrad.ones(3)
    t.scale = by
    return t


def hooked() -> Any:
    t = leaf()
    t.register_hook(lambda g: g * 2)
    return t


def retained() -> Any:
    t = leaf() * 1
    t.retain_grad()
    return t


#: Tensors of one shape and dtype with different metadata.
TENSORS: list[Callable[[], Any]] = [
    lambda: ndgrad.ones(3), leaf, lambda: leaf() * 1, lambda: ndgrad.ones(6)[3:], write, lambda: scaled(3.0),
    lambda: scaled(4.0), hooked, retained, lambda: ndgrad.ones(6, requires_grad=True).split(3)[1],
]  # fmt: skip

READS: dict[str, Callable[[Any], Any]] = {
    "is_leaf": lambda x: x.is_leaf,
    "grad_fn": lambda x: "" if x.grad_fn is None else x.grad_fn.name(),
    "output_nr": lambda x: x.output_nr,
    "_version": lambda x: x._version,
    "version of a view": lambda x: x[:2]._version,
    "version of a detached tensor": lambda x: x.detach()._version,
    "attribute": lambda x: x.scale if hasattr(x, "scale") else 0.0,
    "getattr": lambda x: getattr(x, "scale", 1.0),
    "__dict__": lambda x: dict(x.__dict__),
    "vars": lambda x: sorted(vars(x)),
    "dir": lambda x: "scale" in dir(x),
    "retains_grad": lambda x: x.retains_grad,
    "hooks": lambda x: bool(x._backward_hooks),
    "_base": lambda x: x._base is None,
    "base of a view": lambda x: x[:2]._base is x,
    "_is_view": lambda x: x._is_view(),
    "storage_offset": lambda x: x.storage_offset(),
    "storage": lambda x: x.untyped_storage().nbytes(),
    "data_ptr": lambda x: x.data_ptr() == x[0].data_ptr(),
    "graph": lambda x: (x * 2).grad_fn.next_functions[0][0].name() if x.requires_grad else "",
}


@pytest.mark.parametrize("name", sorted(READS))
def test_what_is_read_of_an_argument(name: str) -> None:
    def f(x: Any) -> Any:
        return x * 2, READS[name](x)

    compiled = CompiledFunction(f)
    for make in (*TENSORS, *TENSORS[::-1]):
        assert compiled(make())[1] == f(make())[1]


def test_leaves_are_told_apart_in_native_calls() -> None:
    compiled = CompiledFunction(lambda x: x * 2 if x.is_leaf else x * 3)
    for _ in range(4):
        assert compiled(leaf()).tolist() == [2, 2, 2]
        assert compiled(leaf() * 1).tolist() == [3, 3, 3]
    assert all(entry.broken is None for entry in compiled.entries)


def test_attributes_of_captured_tensors_are_compared() -> None:
    w = ndgrad.ones(3)
    f = ndgrad.compile(lambda x: x * getattr(w, "scale", 2.0))
    assert f(ndgrad.ones(3)).tolist() == [2, 2, 2]
    assert ndgrad.compiler.explain(f, ndgrad.ones(3)).compiled
    for scale in (5.0, 6.0):
        w.scale = scale
        assert f(ndgrad.ones(3)).tolist() == [scale] * 3
    del w.scale
    assert f(ndgrad.ones(3)).tolist() == [2, 2, 2]


# ----- attributes that are set -------------------------------------------------------------------------------------------


def set_on_argument(x: Any) -> Any:
    x.tag = 5
    return x * 2


def set_and_deleted(x: Any) -> Any:
    x.tag = 5
    del x.tag
    return x * 2


def set_on_result(x: Any) -> Any:
    y = x * 2
    y.tag = 5
    return y


def retains(x: Any) -> Any:
    y = x * 2
    if y.requires_grad:
        y.retain_grad()
    return y


def hook_on_result(x: Any) -> Any:
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda g: g * 10)
    return y


def new_leaf(x: Any) -> Any:
    t = ndgrad.zeros(3).requires_grad_()
    return t, x * t


def new_parameter(x: Any) -> Any:
    return nn.Parameter(x.detach() * 2)


def gradient_of_result(x: Any) -> Any:
    y = x * 2
    y.grad = ndgrad.ones(3)
    return y


def written_result(x: Any) -> Any:
    return (x.detach() * 2).add_(1).mul_(2)


def written_argument(x: Any) -> Any:
    with ndgrad.no_grad():
        x.add_(1).mul_(2)
    return x * 2


def no_grad_view(x: Any) -> Any:
    with ndgrad.no_grad():
        return (x * 2)[:2]


SETS = (
    set_on_argument, set_and_deleted, set_on_result, retains, hook_on_result, new_leaf, new_parameter,
    gradient_of_result, written_result, written_argument, no_grad_view,
)  # fmt: skip


def observe(f: Any, make: Any) -> Any:
    """Return the visible metadata of the argument and the results of a call, and of a backward pass through them."""
    x = make()
    try:
        out = f(x)
    except RuntimeError as error:
        return str(error)
    results = out if isinstance(out, tuple) else (out,)
    found: list[Any] = [x.__dict__, x.requires_grad, x._version]
    for t in results:
        found += [t.__dict__, t.requires_grad, t.is_leaf, t.retains_grad, t._version, type(t), t.grad is None]
    if results[0].requires_grad:
        results[0].sum().backward()
        found += [None if t.grad is None else t.grad.tolist() for t in (x, *results)]
    try:
        results[0].mul_(ndgrad.ones(1, requires_grad=True))
    except RuntimeError as error:
        found.append(str(error))
    return found


@pytest.mark.filterwarnings("ignore:.*not a leaf Tensor.*")
@pytest.mark.parametrize("f", SETS)
def test_what_is_set_arrives(f: Any) -> None:
    for make in TENSORS:
        compiled = CompiledFunction(f)
        expected = observe(f, make)
        assert [observe(compiled, make) for _ in range(2)] == [expected] * 2


def test_a_trace_leaves_no_attribute_behind_and_hides_none_for_long() -> None:
    x = scaled(3.0)

    def f(t: Any) -> Any:
        t.tag = 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ndgrad.compile(f)(x)
    assert x.__dict__ == {"scale": 3.0, "tag": 1}
    assert type(x.__dict__) is dict
    assert not ndgrad.compiler.explain(f, scaled(3.0)).compiled
    assert copy.copy(x.__dict__) == {"scale": 3.0, "tag": 1}
    assert "__getattr__" not in vars(ndgrad.Tensor)


# ----- memory of results --------------------------------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: x.T * 2,
    "transposed": lambda x: (x * 2).T,
    "column": lambda x: (x * 2)[:, 1],
    "steps": lambda x: (x * 2)[:, ::2],
    "last row": lambda x: (x * 2)[-1],
    "expanded": lambda x: (x.sum(0) * 2).expand(2, 4),
    "permuted": lambda x: (x * 2).reshape(3, 2, 2).permute(2, 0, 1),
    "product": lambda x: x @ x.T,
    "product, transposed": lambda x: (x @ x.T).T,
    "several": lambda x: ((x * 2).T, (x * 2).T.square()),
    "parts of one": lambda x: (lambda y: (y[:, 0], y[1:], y.T))(x * 2),
    "reshaped": lambda x: (x.T * 2).reshape(2, 6),
    "flattened": lambda x: (x * 2).T.flatten(),
    "chunks": lambda x: (x * 2).chunk(2, dim=1)[1],
    "part of an argument": lambda x: x[:, 1:],
    "copy of a transposed": lambda x: x.T.contiguous() + 1,
    "clone": lambda x: x.T.clone(),
    "like": lambda x: ndgrad.zeros_like(x.T),
    "written": lambda x: (x.T * 2).add_(1),
}


@pytest.mark.parametrize("with_grad", [False, True])
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_results_lie_as_eager_ones(name: str, with_grad: bool) -> None:
    """Return strides, and the writes through a reshape of a result that reach it."""
    f = LAYOUTS[name]

    def look(run: Any) -> Any:
        x: Any = ndgrad.arange(12.0).reshape(3, 4).requires_grad_(with_grad)
        out = run(x)
        results = out if isinstance(out, tuple) else (out,)
        found: list[Any] = [(tuple(t.stride()), t.detach().tolist()) for t in results]
        for t in results:
            try:
                with ndgrad.no_grad():
                    t.detach().reshape(-1)[1:3] = -1.0
            except RuntimeError as error:
                found.append(str(error))
        found += [t.detach().tolist() for t in (*results, x)]
        if with_grad and results[0].requires_grad:
            (results[0] * ndgrad.arange(float(results[0].numel())).reshape(results[0].shape)).sum().backward()
            found.append(x.grad.tolist())
        return found

    compiled = CompiledFunction(f)
    expected = look(f)
    assert [look(compiled) for _ in range(4)] == [expected] * 4
    assert compiled.entries[0].broken is None


@pytest.mark.parametrize("name", ["column", "transposed", "parts of one", "several", "expanded"])
def test_second_derivatives_of_results_in_any_order(name: str) -> None:
    def second(run: Any) -> Any:
        x = ndgrad.arange(1.0, 13.0).reshape(3, 4).requires_grad_()
        out = run(x * x)
        found = []
        for t in out if isinstance(out, tuple) else (out,):
            (g,) = ndgrad.autograd.grad((t * t).sum(), x, create_graph=True)
            found += [g.detach().tolist(), *ndgrad.autograd.grad(g.exp().sum().log(), x, retain_graph=True)[0].tolist()]
        return found

    compiled = CompiledFunction(LAYOUTS[name])
    expected = second(LAYOUTS[name])
    for _ in range(2):
        for a, b in zip(second(compiled), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    assert compiled.entries[0].broken is None


@pytest.mark.parametrize("strict", [False, True])
def test_results_of_arrays_in_fortran_order_keep_it(strict: bool) -> None:
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    f = ndgrad.compile(lambda t: t * 2, strict=strict)
    for _ in range(4):
        made = f(ndgrad.from_numpy(x))
        assert made.stride() == (1, 2)
        np.testing.assert_array_equal(made.numpy(), x * 2)
