"""Numbers that change between calls: inputs of one program from any slot, with values, gradients and dtypes of eager
code.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func

X = [1.0, -2.5, 4.0]
FLOATS = [0.5, 0.25, 3.0, 1.0, 0.0, -0.0, -2.0, math.inf, 1e-300]
scale = 1.0


def tensor(**options: Any) -> Any:
    return ndgrad.tensor(X, dtype=ndgrad.float64, **options)


def same(a: Any, b: Any) -> bool:
    """Check that two objects agree in class, dtype and every bit."""
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, ndgrad.Tensor):
        return type(a) is type(b) and repr(a) == repr(b)
    first, second = (np.asarray(t.detach()) for t in (a, b))
    return type(a) is type(b) and a.dtype == b.dtype and first.tobytes() == second.tobytes()


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")


# ----- places ---------------------------------------------------------------------------------------------------------


class Holder:
    rate = 1.0

    def __init__(self) -> None:
        self.k: Any = 1.0


class Slotted:
    __slots__ = ("k",)

    def __init__(self) -> None:
        self.k: Any = 1.0


@dataclass
class Data:
    k: Any = 1.0


def of_attribute(cls: type) -> tuple[Any, Any]:
    holder = cls()
    return lambda x: x * holder.k, lambda k: setattr(holder, "k", k)


def of_item(container: Any, key: Any) -> tuple[Any, Any]:
    return lambda x: x * container[key], lambda k: container.__setitem__(key, k)


def of_closure() -> tuple[Any, Any]:
    k: Any = 1.0

    def change(value: Any) -> None:
        nonlocal k
        k = value

    return lambda x: x * k, change


def of_class() -> tuple[Any, Any]:
    own = type("Own", (Holder,), {"__module__": __name__})
    return lambda x: x * own.rate, lambda k: setattr(own, "rate", k)  # type: ignore[attr-defined]


def of_global() -> tuple[Any, Any]:
    def helper(x: Any) -> Any:
        return x * scale

    return lambda x: helper(x) + scale * 0, lambda k: globals().__setitem__("scale", k)


def of_tuple() -> tuple[Any, Any]:
    holder = {"betas": (1.0, (2.0, "name"))}
    return lambda x: x * holder["betas"][0] + holder["betas"][1][0], lambda k: holder.update(betas=(k, (k, "name")))


def of_tensor() -> tuple[Any, Any]:
    t = tensor()
    t.k = 1.0
    return lambda x: x * t.k, lambda k: setattr(t, "k", k)


PLACES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "attribute": lambda: of_attribute(Holder),
    "slot": lambda: of_attribute(Slotted),
    "dataclass": lambda: of_attribute(Data),
    "dictionary": lambda: of_item({"k": 1.0, 3: None}, "k"),
    "list": lambda: of_item([None, 1.0], 1),
    "deque": lambda: of_item(deque([1.0, 2.0]), 0),
    "nested": lambda: of_item({"groups": [{"lr": 1.0}]}["groups"][0], "lr"),
    "closure": of_closure,
    "class": of_class,
    "global of two functions": of_global,
    "tuple": of_tuple,
    "attribute of a tensor": of_tensor,
}


@pytest.mark.parametrize("name", PLACES)
def test_a_number_is_an_input_wherever_it_is_read_from(name: str) -> None:
    f, change = PLACES[name]()
    g = ndgrad.compile(f)
    for k in FLOATS[:-2] + FLOATS[-1:]:
        change(k)
        a, b = tensor(requires_grad=True), tensor(requires_grad=True)
        found, expected = g(a), f(b)
        assert same(found, expected), k
        found.sum().backward()
        expected.sum().backward()
        assert same(a.grad, b.grad)
    assert g.traces <= 2
    for k in (1, 2, 3, True, False, np.float64(0.5), np.float32(0.5)):  # other classes need other programs
        change(k)
        assert same(g(tensor()), f(tensor())), k


def test_a_number_among_the_arguments() -> None:
    f = lambda x, k, *, options: x * k + options["n"] * options["w"][0]
    g = ndgrad.compile(f)
    for i, k in enumerate(FLOATS):
        args, options = (tensor(), k), {"n": i, "w": [0.5 + i]}
        assert same(g(*args, options=options), f(*args, options=options))
    assert g.traces == 2
    for k in (1, True, np.float64(2.0)):
        assert same(g(tensor(), k, options=options), f(tensor(), k, options=options))


@pytest.mark.parametrize("replay", ["0", "1"])
def test_rows_of_native_calls_read_numbers_anew(replay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", replay)
    holder = Holder()
    w = ndgrad.zeros(3, dtype=ndgrad.float64)

    def in_place(x: Any) -> None:
        w.add_(x, alpha=holder.k)

    def recorded(x: Any) -> Any:
        return (x * holder.k).sum()

    g, h = ndgrad.compile(in_place), ndgrad.compile(recorded)
    total = np.zeros(3)
    for i in [2, 3, 3, 3, 3, 3, 4, 5, 6, 3, 3, 3, 3, 8]:
        holder.k = float(i)
        g(tensor())
        total += np.array(X) * i
        np.testing.assert_allclose(w.numpy(), total, rtol=1e-12)
        x, y = tensor(requires_grad=True), tensor(requires_grad=True)
        first = h(x)
        holder.k = 100.0 + i
        second = h(y)
        first.backward()  # after a call with another number
        second.backward()
        assert x.grad.tolist() == [float(i)] * 3
        assert y.grad.tolist() == [100.0 + i] * 3
    assert g.traces <= 3
    assert h.traces <= 3


# ----- conditions -----------------------------------------------------------------------------------------------------


def test_a_condition_on_numbers_is_traced_for_each_outcome_alone() -> None:
    holder = Holder()

    def f(x: Any) -> Any:
        if holder.k < 5:
            return x * (holder.k / 5)
        return x * 0.5 * (1 + math.cos(math.pi * (holder.k - 5) / 20))

    g = ndgrad.compile(f)
    for k in [*range(20), *range(20)]:
        holder.k = k
        assert same(g(tensor()), f(tensor()))
    assert g.traces == 3  # by value, before the fifth step, and after it


CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "compared": lambda k: 1 if 0.2 < k <= 3 else 2,
    "truth": lambda k: 1 if k else 2,
    "min": lambda k: min(k, 0.75),
    "max of three": lambda k: max(0.1, k, 0.75),
    "min of a mixture": lambda k: min(k, 1),
    "sorted": lambda k: sorted([k, 0.3])[0],
    "in a list": lambda k: 1 if k in [0.5, 3] else 2,
    "in a set": lambda k: 1 if k in {0.5, 3} else 2,
    "equal to others": lambda k: (k == None, k != "a", k == 1j, k == np.float64(0.5)),  # noqa: E711
    "math": lambda k: (math.isnan(k), math.isinf(k), math.isfinite(k)),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions(name: str) -> None:
    holder = Holder()
    f = lambda x: (x * 2, CONDITIONS[name](holder.k))
    g = ndgrad.compile(f)
    for k in [*FLOATS, math.nan, *FLOATS]:
        holder.k = k
        assert same(g(tensor()), f(tensor())), k


# ----- numbers that are needed by value -------------------------------------------------------------------------------

NEEDED: dict[str, Callable[[Any, int], Any]] = {
    "size": lambda x, n: x.repeat(n),
    "range": lambda x, n: sum((x for _ in range(n)), x),
    "index": lambda x, n: x[n - 1],
    "dimension": lambda x, n: x.unsqueeze(n - 1) if n < 3 else x,
    "key": lambda x, n: x * {1: 2.0, 2: 3.0}.get(n, 4.0),
    "text": lambda x, n: x * len(f"{n}") + float(f"{n:.2f}"),
    "conversion": lambda x, n: x * float(n) * int(n) * complex(n).real,
    "function of NumPy": lambda x, n: x * np.sqrt(n),
    "array": lambda x, n: x + ndgrad.tensor([n] * 3),
    "setting": lambda x, n: x.std(correction=n - 1),
    "exponent": lambda x, n: x**n,
    "half": lambda x, n: x.half() * n,
    "complex": lambda x, n: x.to(ndgrad.complex128) * n,
}


@pytest.mark.parametrize("name", NEEDED)
def test_code_that_needs_the_number_itself_is_traced_for_it(name: str) -> None:
    holder = Holder()
    f = lambda x: NEEDED[name](x, holder.k)
    g = ndgrad.compile(f)
    h = ndgrad.compile(NEEDED[name])
    for n in (1, 2, 3, 1, 2, 3):
        holder.k = n
        assert same(g(tensor()), f(tensor()))
        assert same(h(tensor(), n), f(tensor()))
    assert g.traces == h.traces == 3


def test_a_place_that_is_needed_by_value_is_not_traced_for_ever() -> None:
    holder = Holder()
    holder.k = 0

    def f(x: Any) -> Any:
        holder.k += 1
        return x * len(str(holder.k))

    g = ndgrad.compile(f)
    with pytest.warns(UserWarning, match=r"runs eagerly from now on.*\.k has changed"):
        found = [g(tensor()) for _ in range(30)]
    assert same(found, [tensor() * len(str(n + 1)) for n in range(30)])
    assert holder.k == 30
    assert g.traces <= 6


# ----- gradients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "of", [lambda x, k: x * k, lambda x, k: k / x, lambda x, k: x / k - k, lambda x, k: k**x, lambda x, k: x * (1 - k * k) / 3 + int(k > 9)]
)
def test_derivatives_of_gradients_use_the_number_of_their_call(of: Any) -> None:
    holder = Holder()
    f = lambda x: (of(x, holder.k).sin() ** 3).sum() if holder.k > 0 else x.sum()
    g = ndgrad.compile(f)
    for k in (1.0, 2.0, 0.5):
        holder.k = k
        g(tensor(requires_grad=True))
    found = []
    for run in (f, g):
        x = tensor(requires_grad=True)
        holder.k = 0.7
        y = run(x)
        holder.k = 0.3
        run(tensor(requires_grad=True))
        (first,) = ndgrad.autograd.grad(y, x, create_graph=True)
        found.append([first, *ndgrad.autograd.grad((first * first).sum(), x)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)


def test_transforms_of_compiled_functions() -> None:
    holder = Holder()
    f = lambda x: ((x * holder.k) ** 3).sum()
    for transform in (func.grad, func.hessian, func.jacfwd):
        for g in (transform(ndgrad.compile(f)), ndgrad.compile(transform(f))):
            for k in (1.0, 2.0, 0.5, 0.25):
                holder.k = k
                np.testing.assert_allclose(g(tensor()).numpy(), transform(f)(tensor()).numpy(), rtol=1e-12)


def test_faces_and_dtypes() -> None:
    holder = Holder()

    def f(x: Any) -> Any:
        try:
            return x * holder.k, x + holder.k, holder.k - x, x / holder.k, x < holder.k, x.sum() * holder.k, x * (holder.k / 2)
        except OverflowError:  # an integer outside of the tensor's dtype
            return None

    for x in (
        ndgrad.tensor(X), tensor(), dnp.array(X), dnp.array(np.array(X, np.float32)), ndgrad.tensor([1, 2]),
        ndgrad.tensor([1, 2], dtype=ndgrad.int32), ndgrad.tensor([True]), ndgrad.tensor(X).half(), ndgrad.tensor([1j]).real,
    ):  # fmt: skip
        g = ndgrad.compile(f)
        for k in (0.1, 0.3, 7.7, 1, 3, 2**53, 2**60, -5):
            holder.k = k
            assert same(g(x), f(x)), (x, k)


# ----- errors and threads ---------------------------------------------------------------------------------------------


def test_errors_of_arithmetic_are_pythons() -> None:
    holder = Holder()

    def f(x: Any) -> Any:
        return x * (1 / holder.k)

    def caught(x: Any) -> Any:
        try:
            return x * (1 / holder.k)
        except ZeroDivisionError:
            return x

    g, h = ndgrad.compile(f), ndgrad.compile(caught)
    for k in (1.0, 2.0, 4.0, 0.0, 3.0, 0.0, 5.0, 6.0):
        holder.k = k
        assert same(h(tensor()), caught(tensor()))
        if k:
            assert same(g(tensor()), f(tensor()))
        else:
            with pytest.raises(ZeroDivisionError):
                g(tensor())


def test_another_thread_sees_numbers_while_a_function_is_traced() -> None:
    holder = Holder()
    seen: list[Any] = []

    def look() -> None:
        seen.append((holder.k + 1, float(holder.k), f"{holder.k:.1f}", holder.k < 3, tensor() * holder.k, {holder.k: 1}))

    def f(x: Any) -> Any:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return x * holder.k

    g = ndgrad.compile(f)
    for k in (1.0, 2.0, 2.5):
        seen.clear()
        holder.k = k
        g(tensor())
        for numbers in seen:
            assert same(numbers[:5], (k + 1, k, f"{k:.1f}", k < 3, tensor() * k))
            assert numbers[5] == {k: 1}


def test_no_placeholder_for_code_that_asks_for_types() -> None:
    holder = Holder()
    f = lambda x: x * holder.k if type(holder.k) is float else x
    g = ndgrad.compile(f)
    for k in (1.0, 2.0, 3, 4.0):
        holder.k = k
        assert same(g(tensor()), f(tensor()))
