"""Retracing: a compiled function is traced again if any dependency has changed, and its results are those of eager
code.
"""

from __future__ import annotations

import datetime
import functools
import math
import os
import subprocess
import sys
import time
import types
from contextvars import ContextVar
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import nn

X = [0.5, -1.5, 2.0]
scale = 2.0
table = {"a": [1.0, 2.0]}
weights = np.array([1.0, 2.0, 3.0])
config = types.ModuleType("config")
config.rate = 0.5  # type: ignore[attr-defined]


def tensor(values: Any = X, **options: Any) -> Any:
    return ndgrad.tensor(values, dtype=ndgrad.float64, **options)


def same(compiled: Any, f: Any, *args: Any, **kwargs: Any) -> None:
    """Check that the compiled function gives the function's result, on NumPy in every bit."""
    a, b = compiled(*args, **kwargs), f(*args, **kwargs)
    assert a.dtype == b.dtype
    assert a.requires_grad == b.requires_grad
    np.testing.assert_allclose(np.asarray(a.detach()), np.asarray(b.detach()), rtol=0 if os.environ.get("NDGRAD_COMPILE_REPLAY") else 1e-6)


def traced(compiled: Any) -> int:
    assert all(e.broken is None for e in compiled.entries), [e.broken for e in compiled.entries]
    return int(compiled.traces)


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", os.environ.get("NDGRAD_COMPILE_REPLAY", "1"))


# ----- arguments ------------------------------------------------------------------------------------------------------


def test_shapes_dtypes_layouts_and_requires_grad_are_kinds():
    f = lambda x: x * 2 + 1
    g = ndgrad.compile(f)
    kinds = [
        tensor(), tensor([X, X]), tensor([X, X]).t(), tensor().float(), tensor(requires_grad=True), tensor()[::2], dnp.array(X),
    ]  # fmt: skip
    for count, x in enumerate(kinds, start=1):
        same(g, f, x)
        same(g, f, x)
        assert traced(g) == count


def test_numbers_are_kinds_by_type_and_by_value():
    f = lambda x, k: x * k if isinstance(k, bool) or not isinstance(k, int) else x - k
    g = ndgrad.compile(f)
    for count, k in enumerate([1, True, 1.0, 0.0, -0.0, math.inf, 2, np.float64(1.0), np.float32(1.0)], start=1):
        if count == 9:
            g.reset()
        same(g, f, tensor(), k)
        same(g, f, tensor(), k)
    assert np.signbit(g(tensor([0.0]), -0.0)._array).all()
    assert not np.signbit(g(tensor([0.0]), 0.0)._array).any()


def test_nan_is_equal_to_itself_as_a_number():
    g = ndgrad.compile(lambda x, k: x * k)
    assert np.isnan(g(tensor(), math.nan)._array).all()
    assert np.isnan(g(tensor(), math.nan)._array).all()
    assert traced(g) == 1


def test_the_same_tensor_twice_is_another_kind_than_two():
    f = lambda x, y: x.sin() if x is y else x.cos() * y
    g = ndgrad.compile(f)
    x, y = tensor(), tensor()
    for args in ((x, y), (x, x), (y, x), (y, y)):
        same(g, f, *args)
    assert traced(g) == 2


def test_structures_and_keywords():
    f = lambda x, *rest, flag=False, **more: sum(rest, x["a"] * 2 if flag else x["a"]) + sum(more.values())
    g = ndgrad.compile(f)
    x = {"a": tensor(), "b": None}
    for args, kwargs in [((x,), {}), ((x, tensor()), {}), ((x,), {"flag": True}), ((x,), {"z": tensor()})]:
        same(g, f, *args, **kwargs)
    assert traced(g) == 4


def test_grad_mode_and_default_dtype():
    f = lambda x: x * ndgrad.tensor(0.1) + ndgrad.ones(3)
    g = ndgrad.compile(f)
    x = tensor(requires_grad=True)
    same(g, f, x)
    with ndgrad.no_grad():
        same(g, f, x)
    try:
        ndgrad.set_default_dtype(ndgrad.float64)
        same(g, f, x)
    finally:
        ndgrad.set_default_dtype(ndgrad.float32)
    same(g, f, x)
    assert traced(g) == 3


def test_small_arrays_among_arguments_count_by_their_contents():
    f = lambda x, a: x * a * float(a[0])
    g = ndgrad.compile(f)
    a = np.array([1.0, 2.0, 3.0])
    for value in (1.0, 2.0, 1.0):
        a[0] = value
        same(g, f, tensor(), a)
    assert traced(g) == 3  # one trace shows that it reads their values
    large = np.ones(100_000)
    assert g(ndgrad.ones(100_000), large).sum().item() == 100_000
    assert "NumPy array" in ndgrad.compiler.explain(g, ndgrad.ones(100_000), large).reason


def test_large_arrays_from_outside_count_by_their_contents():
    data, twice = np.linspace(0.0, 1.0, 20_000), {"rows": np.ones((100, 200), np.float32)[:, ::2]}
    f = lambda x: (x * data).sum() + (data * 2.0)[5] + float(twice["rows"].sum())
    g = ndgrad.compile(f, fullgraph=True)
    x = ndgrad.tensor(np.ones(20_000), requires_grad=True)
    for change in (lambda: None, lambda: data.__setitem__(7, 5.0), lambda: None, lambda: twice["rows"].__imul__(3), lambda: None):
        change()
        same(g, f, x)
        x.grad = None
        g(x).backward()
        np.testing.assert_array_equal(x.grad.numpy(), data)
    assert traced(g) == 3
    data[3] = 0.0
    same(g, f, x)
    data[3] = -0.0
    count = traced(g)
    same(g, f, x)
    assert traced(g) == count + 1


# ----- objects that a function reaches --------------------------------------------------------------------------------


def changing(monkeypatch: pytest.MonkeyPatch, f: Any, *changes: Any) -> None:
    """Call the function through changes of its captured state."""
    g = ndgrad.compile(f)
    same(g, f, tensor())
    for count, change in enumerate(changes, start=2):
        change()
        same(g, f, tensor())
        same(g, f, tensor())
        assert traced(g) == count


def helper(x: Any) -> Any:
    return x * scale


def test_globals_of_functions_that_are_called(monkeypatch: pytest.MonkeyPatch):
    changing(monkeypatch, lambda x: helper(x) + 1, lambda: monkeypatch.setitem(globals(), "scale", 3.0))


def test_functions_are_replaced(monkeypatch: pytest.MonkeyPatch):
    changing(monkeypatch, lambda x: helper(x) + 1, lambda: monkeypatch.setitem(globals(), "helper", lambda x: x.exp()))


def test_items_of_containers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(globals(), "table", {"a": [1.0, 2.0]})
    changing(
        monkeypatch,
        lambda x: x * table["a"][0] + len(table),
        lambda: table["a"].__setitem__(0, 5.0),
        lambda: table.__setitem__("b", [1.0]),
    )


def test_modules_of_the_user(monkeypatch: pytest.MonkeyPatch):
    changing(monkeypatch, lambda x: x * config.rate, lambda: monkeypatch.setattr(config, "rate", 0.25))  # type: ignore[attr-defined]


def test_closures(monkeypatch: pytest.MonkeyPatch):
    factor = 2.0

    def change() -> None:
        nonlocal factor
        factor = 3.0

    changing(monkeypatch, lambda x: x * factor, change)


def test_defaults_and_partials(monkeypatch: pytest.MonkeyPatch):
    def f(x: Any, k: float = 2.0) -> Any:
        return x * k

    changing(monkeypatch, f, lambda: setattr(f, "__defaults__", (4.0,)))
    options = {"k": 5.0}
    g = ndgrad.compile(functools.partial(f, **options))
    same(g, functools.partial(f, **options), tensor())


def test_attributes_of_objects_and_classes(monkeypatch: pytest.MonkeyPatch):
    class Model:
        power = 2

        def __init__(self) -> None:
            self.bias = 1.0

        def shifted(self, x: Any) -> Any:
            return x + self.bias

        def __call__(self, x: Any) -> Any:
            return self.shifted(x) ** self.power

    model = Model()
    changing(
        monkeypatch,
        lambda x: model(x),
        lambda: setattr(model, "bias", 2.0),
        lambda: setattr(Model, "power", 3),
        lambda: setattr(Model, "shifted", lambda self, x: x - self.bias),
    )
    bound = ndgrad.compile(model.shifted)
    same(bound, model.shifted, tensor())


def test_arrays_that_a_function_reaches_count_by_their_contents(monkeypatch: pytest.MonkeyPatch):
    array = np.array([1.0, 2.0, 3.0])
    monkeypatch.setitem(globals(), "weights", array)
    changing(monkeypatch, lambda x: x * weights + np.sin(weights).sum(), lambda: array.__setitem__(1, 7.0))


def test_tensors_that_a_function_reaches_are_read_at_each_call():
    w = tensor([1.0, 2.0, 3.0], requires_grad=True)
    f = lambda x: x * w
    g = ndgrad.compile(f)
    x = tensor(requires_grad=True)
    same(g, f, x)
    with ndgrad.no_grad():
        w.mul_(2)
    same(g, f, x)
    w = tensor([4.0, 5.0, 6.0], requires_grad=True)
    same(g, f, x)
    assert traced(g) == 1
    g(x).sum().backward()
    np.testing.assert_array_equal(w.grad, X)
    w.requires_grad_(False)
    same(g, f, x)
    w = tensor([1.0])
    same(g, f, x)
    assert traced(g) == 3


def test_an_argument_that_is_also_reached_otherwise():
    w = tensor([1.0, 2.0, 3.0])
    f = lambda x: x * w + (1.0 if x is w else 0.0)
    g = ndgrad.compile(f)
    for x in (tensor(), w, tensor(), w):
        same(g, f, x)
    assert traced(g) == 2


def test_modules_follow_train_eval_parameters_and_hooks():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU())
    compiled = ndgrad.compile(model)
    x = ndgrad.tensor(np.random.default_rng(0).standard_normal((4, 3)))
    model.eval()
    same(compiled, model, x)
    handle = model[0].register_forward_hook(lambda module, args, out: out * 2)
    same(compiled, model, x)
    handle.remove()
    same(compiled, model, x)
    model[0].weight = nn.Parameter(ndgrad.ones(3, 3))
    same(compiled, model, x)
    model[2] = nn.Tanh()
    same(compiled, model, x)
    assert set(dict(compiled.named_parameters())) == {f"_orig_mod.{name}" for name, _ in model.named_parameters()}


def test_printed_explanation_shows_a_few_guards_and_the_number_of_the_others():
    model = ndgrad.nn.Sequential(*[ndgrad.nn.Linear(2, 2) for _ in range(3)])
    found = ndgrad.compiler.explain(model, ndgrad.ones(1, 2))
    printed = str(found).splitlines()
    shown = [line for line in printed if line.startswith("  guard: ")]
    own = [guard for guard in found.guards if not guard.startswith("a hook on all modules")]
    assert len(own) < len(found.guards)
    assert shown == [f"  guard: {guard}" for guard in own[: len(shown)]]
    assert 0 < len(shown) < 20 < len(found.guards)
    assert printed[-1] == f"  and {len(found.guards) - len(shown)} more guards, listed in .guards"


# ----- functions that cannot be compiled ------------------------------------------------------------------------------


def breaks(f: Any, *args: Any, reason: str) -> None:
    """Check that the function runs eagerly for this reason, and raises with fullgraph."""
    g = ndgrad.compile(f)
    for _ in range(2):
        a, b = g(*args), f(*args)
        np.testing.assert_array_equal(np.asarray(a.detach()), np.asarray(b.detach()))
    found = ndgrad.compiler.explain(f, *args)
    assert not found.compiled
    assert reason in found.reason
    with pytest.raises(RuntimeError, match="compile: "):
        ndgrad.compile(f, fullgraph=True)(*args)


def test_values_that_python_reads_of_arguments():
    breaks(lambda x: x * float(x[0]), tensor(), reason="needs a number")
    breaks(lambda x: x * sum(x.tolist()), tensor(), reason="asks for the values")
    breaks(lambda x: x * np.sum(x.numpy()), tensor(), reason="")
    breaks(lambda x: x * len(f"{x}"), tensor(), reason="")


w0 = ndgrad.tensor([2.0, 1.0, 0.0], dtype=ndgrad.float64)
n0 = ndgrad.tensor(1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * float(w0[0]),
        lambda x: x * w0.tolist()[0],
        lambda x: x * w0.numpy().sum(),
        lambda x: x * np.asarray(w0).sum(),
        lambda x: x[int(n0)],
        lambda x: x[[0, 1, 2][n0]],
        lambda x: x * len(str(w0)),
        lambda x: x * ndgrad.equal(w0, w0),
        lambda x: x * ndgrad.allclose(w0, w0),
        lambda x: x.reshape(n0, 3),
        lambda x: x * next(float(k) for k in w0),
        lambda x: x + ndgrad.arange(3) * int(w0.sum()),
        lambda x: x * w0.data_ptr() / w0.data_ptr(),
        lambda x: x + np.add(np.asarray(w0), 1.0),
    ],
)
def test_values_that_python_reads_of_other_tensors(f: Any):
    breaks(f, tensor(), reason="")


def test_prints_random_numbers_and_side_effects(capsys: pytest.CaptureFixture[str]):
    import random

    log: list[Any] = []
    state = {"calls": 0}

    def count_call(x: Any) -> Any:
        state["calls"] += 1
        return x * 2

    def logged(x: Any) -> Any:
        log.append(x)
        return x * 2

    g = ndgrad.compile(lambda x: print("once") or x * 2)
    g(tensor())
    g(tensor())
    assert capsys.readouterr().out == "once\nonce\n"
    g = ndgrad.compile(count_call)
    for _ in range(3):
        g(tensor())
    assert state["calls"] == 3
    g = ndgrad.compile(logged)
    for _ in range(3):
        g(tensor())
    assert len(log) == 3
    assert all(t._array.__class__ is np.ndarray for t in log)
    for draw in (random.random, np.random.rand, lambda: ndgrad.rand(1), lambda: dnp.random.rand(1)):
        ndgrad.manual_seed(0), random.seed(0), np.random.seed(0)
        expected = [float((tensor() * draw())[0]) for _ in range(3)]
        ndgrad.manual_seed(0), random.seed(0), np.random.seed(0)
        g = ndgrad.compile(lambda x, draw=draw: x * draw())
        assert [float(g(tensor())[0]) for _ in range(3)] == expected


def test_iterators_and_changed_arguments():
    steps = iter(range(10))
    g = ndgrad.compile(lambda x: x * next(steps))
    assert [g(tensor([1.0])).item() for _ in range(3)] == [0.0, 1.0, 2.0]
    out: list[Any] = []
    g = ndgrad.compile(lambda x, into: into.append(x * 2) or x)
    g(tensor(), out)
    g(tensor(), out)
    assert len(out) == 2


def test_a_break_that_the_function_catches_is_one():
    def f(x: Any) -> Any:
        try:
            return x * float(x.sum())
        except Exception:
            return -x

    breaks(f, tensor(), reason="needs a number")


def test_errors_are_those_of_the_function_and_leave_it_usable():
    f = lambda x, y: (x @ y).sum()
    g = ndgrad.compile(f)
    with pytest.raises(Exception) as expected:
        f(tensor(), tensor([1.0]))
    with pytest.raises(type(expected.value)) as found:
        g(tensor(), tensor([1.0]))
    assert str(found.value) == str(expected.value)
    same(g, f, tensor(), tensor())

    def raises(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ndgrad.compile(raises)(tensor())


def test_specialisations_are_bounded_and_thrashing_is_told():
    f = lambda x, k: x * float(str(k))
    g = ndgrad.compile(f)
    for k in range(31):
        same(g, f, tensor(), float(k))
    with pytest.warns(UserWarning, match="traced 32 times"):
        same(g, f, tensor(), 31.0)
    for k in range(32, 40):
        same(g, f, tensor(), float(k))
    assert len(g.entries) == 8
    same(g, f, tensor(), 31.0)


def test_disable_reset_and_is_compiling():
    f = lambda x: x * 3 if ndgrad.compiler.is_compiling() else x * 2
    g = ndgrad.compile(f)
    assert g(tensor()).tolist() == (tensor() * 3).tolist()
    assert f(tensor()).tolist() == (tensor() * 2).tolist()
    ndgrad.compiler.reset()
    assert not g.entries

    seen: list[bool] = []

    @ndgrad.compiler.disable
    def plain(x: Any) -> Any:
        seen.append(ndgrad.compiler.is_compiling())
        return g(x)

    breaks(lambda x: plain(x) + 1, tensor(), reason="not to be compiled")
    assert not any(seen)
    assert not g.entries


def test_hooks_on_all_modules_are_noticed():
    from ndgrad.nn.modules.module import register_module_forward_hook

    model = nn.Linear(3, 2)
    compiled = ndgrad.compile(model)
    x = ndgrad.ones(1, 3)
    same(compiled, model, x)
    with register_module_forward_hook(lambda module, args, out: out * 10):
        same(compiled, model, x)
    same(compiled, model, x)


def test_the_clock_and_files():
    breaks(lambda x: x * (time.perf_counter() > 0), tensor(), reason="outside of it")
    breaks(lambda x: x * (perf_counter() > 0), tensor(), reason="outside of it")
    breaks(lambda x: x * (datetime.datetime.now().year > 0), tensor(), reason="outside of it")
    breaks(lambda x: x * len(open(os.devnull).read()), tensor(), reason="outside of it")  # noqa: SIM115  # tests the function itself


def test_objects_that_are_returned():
    c = ndgrad.compile(lambda x: types.SimpleNamespace(y=x * 2))
    first, second = c(tensor()), c(tensor())
    assert first is not second
    np.testing.assert_array_equal(second.y, 2 * np.array(X))
    kept = [1, 2]
    c = ndgrad.compile(lambda x: (x * 2, kept, "text", ndgrad.float32, np.float64(1.0)), fullgraph=True)
    assert c(tensor())[1:] == ([1, 2], "text", ndgrad.float32, 1.0)
    c = ndgrad.compile(lambda x: np.ones(2))
    c(tensor())[0] = 5
    assert c(tensor())[0] == 1


def test_functions_that_remember_their_results():
    @functools.cache
    def table_of(n: int) -> Any:
        return ndgrad.arange(n) * 2.0

    f = lambda x: x * table_of(3)
    g = ndgrad.compile(f)
    for _ in range(3):
        same(g, f, tensor())
    assert table_of(3).tolist() == [0.0, 2.0, 4.0]


def test_class_attributes_that_a_function_changes():
    class Counter:
        calls = 0

    def f(x: Any) -> Any:
        Counter.calls += 1
        return x * 2

    g = ndgrad.compile(f)
    for _ in range(3):
        g(tensor())
    assert Counter.calls == 3


def test_side_effects_of_a_custom_backward():
    log: list[int] = []

    class Logged(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            log.append(1)
            return g * 2

    g = ndgrad.compile(lambda x: Logged.apply(x).sum())
    for _ in range(3):
        g(tensor(requires_grad=True)).backward()
    assert len(log) == 3


def test_default_device():
    f = lambda x: ndgrad.zeros(3)
    g = ndgrad.compile(f)
    assert g(tensor()).device.type == "cpu"
    with ndgrad.device("meta"):
        assert g(tensor()).device.type == "meta"
    assert g(tensor()).device.type == "cpu"


def test_functions_whose_code_is_written_when_they_are_first_called_may_be_held() -> None:
    """A new process, in which these ops have not been called before."""
    program = (
        "import ndgrad\n"
        "held = [ndgrad.asinh, ndgrad.Tensor.erfc, ndgrad.special.log_ndtr]\n"
        "def f(x):\n"
        "    for g in held:\n"
        "        x = g(x)\n"
        "    return x\n"
        "x = ndgrad.ones(3)\n"
        "assert ndgrad.compile(f, fullgraph=True)(x).tolist() == f(x).tolist()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "NDGRAD_COMPILE_REPLAY": "1"})


def test_a_new_dictionary_in_a_context_variable_is_not_mistaken_for_the_last_one() -> None:
    """Native calls compare the variable with its contents when they were made, not with those accepted since."""
    variable: ContextVar[dict[str, float]] = ContextVar("scales")
    f = ndgrad.compile(lambda x: x * variable.get()["scale"])
    x, found, expected = ndgrad.ones(()), [], []
    for k in (1.0, 2.0, 3.0, 3.0, 4.0, 4.0, 2.0):
        variable.set({"scale": k})
        for change in (0.0, 0.0, 0.5, 0.0):
            variable.get()["scale"] += change
            found.append(f(x).item())
            expected.append(variable.get()["scale"])
    assert found == expected


def test_changes_inside_the_default_of_a_context_variable_are_seen() -> None:
    variable: ContextVar[dict[str, float]] = ContextVar("scales", default={"scale": 1.0})  # noqa: B039
    f = ndgrad.compile(lambda x: x * variable.get()["scale"])
    found = []
    for k in (1.0, 1.0, 2.0, 3.0):
        variable.get()["scale"] = k
        found.append(f(ndgrad.ones(())).item())
    assert found == [1.0, 1.0, 2.0, 3.0]
