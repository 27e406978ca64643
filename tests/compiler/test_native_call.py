"""Calls that run without Python: the native guards hold only if Python's comparison would."""

from __future__ import annotations

import collections
import functools
import gc
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ndgrad
from ndgrad import Tensor, nn, optim
from ndgrad._src.compiler.capture.environment import Environment
from ndgrad._src.compiler.native import c_interface
from ndgrad._src.compiler.native.calls import make_comparison
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.compiler.runtime.guard_source import GuardSource
from ndgrad._src.compiler.runtime.native_call import NativeCall
from ndgrad._src.compiler.runtime.state_guards import Snapshot, compare_quickly, require_facts

pytestmark = pytest.mark.skipif(c_interface.problem() is not None, reason=str(c_interface.problem()))


# ----- objects that a function reaches ----------------------------------------------------------------------------------


def quick_test(environment: Environment) -> Callable[[], bool]:
    """True if the guards find the environment unchanged."""
    snapshot, source = Snapshot(environment), GuardSource()
    source.require(f"{source.name(make_comparison(snapshot.checks))}()")
    tensors = [(source.name(t), known) for t, known, _, _ in environment.tensors.values() if known is not None]
    require_facts(source, tensors)
    fits = source.function("True", "found")
    return lambda: fits() is True and snapshot.rest_is_the_same()


class Layer:
    scale = 2.0

    def __init__(self) -> None:
        self.weight = ndgrad.ones(3, requires_grad=True)
        self.sizes = [1, 2]
        self.options = {"a": 1, "b": 2}

    def forward(self, x: Any) -> Any:
        return x * self.weight * self.scale * sum(self.sizes) * self.options["a"]


class Other(Layer):
    pass


class Slotted:
    __slots__ = ("first", "second")

    def __init__(self) -> None:
        self.first = [1]


class Slotted2:
    __slots__ = ("first", "second")


class Slotted3:
    __slots__ = ("__weakref__",)


class Computed:
    def __init__(self) -> None:
        self.value = 1

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


def _function(body: str, **space: Any) -> Any:
    """Return a function in a module of its own."""
    module = types.ModuleType("users_module")
    module.__dict__.update(space)
    exec(f"def f(x):\n    return {body}\n", module.__dict__)
    return module.f


def _closure(value: Any) -> Any:
    def f(x: Any) -> Any:
        return x, value

    return f


def _defaults(f: Any) -> tuple[Any, Callable[[], None]]:
    def give(x: Any, y: Any = 1, *, z: Any = 2) -> Any:
        return x, y, z

    return give, lambda: f(give)


def setting(holder: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(holder, name, value)


def cases() -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Functions, each with a change of its captured state."""
    found: dict[str, tuple[Any, Callable[[], Any]]] = {}
    other = _function("x + 1")
    found["code"] = (f := _function("x * 2"), setting(f, "__code__", other.__code__))
    found["defaults"] = _defaults(lambda f: setattr(f, "__defaults__", (3,)))
    found["no defaults"] = _defaults(lambda f: setattr(f, "__defaults__", None))
    found["defaults of keywords"] = _defaults(lambda f: setattr(f, "__kwdefaults__", {"z": 3}))
    found["item of the defaults of keywords"] = _defaults(lambda f: f.__kwdefaults__.update(z=3))
    f = _closure(1.5)
    found["cell"] = f, setting(f.__closure__[0], "cell_contents", 2.5)
    f = _closure([1])
    found["cell, by another list"] = f, setting(f.__closure__[0], "cell_contents", [2])
    f = _closure(1.5)
    found["cell emptied"] = f, functools.partial(delattr, f.__closure__[0], "cell_contents")
    f = _function("x * factor", factor=2.0)
    found["global"] = f, functools.partial(f.__globals__.update, factor=3.0)
    f = _function("x * factor", factor=2.0)
    found["global deleted"] = f, functools.partial(f.__globals__.pop, "factor")
    f = _function("abs(x)")
    found["builtin shadowed"] = f, functools.partial(f.__globals__.update, abs=min)
    module = types.ModuleType("users_other_module")
    module.factor = 2.0  # type: ignore[attr-defined]
    found["attribute of a module"] = _function("x * module.factor", module=module), setting(module, "factor", 3.0)
    inner = _function("x * 2")
    found["function that is called"] = _function("inner(x)", inner=inner), setting(inner, "__code__", other.__code__)

    for name, change in {
        "attribute": lambda layer: setattr(layer, "weight", 3),
        "attribute added": lambda layer: setattr(layer, "more", 3),
        "attribute deleted": lambda layer: delattr(layer, "sizes"),
        "attributes in another order": lambda layer: layer.__dict__.update(weight=layer.__dict__.pop("weight")),
        "dictionary of attributes": lambda layer: setattr(layer, "__dict__", dict(layer.__dict__, weight=1)),
        "class of an object": lambda layer: setattr(layer, "__class__", Other),
        "item of a list": lambda layer: layer.sizes.__setitem__(0, 5),
        "longer list": lambda layer: layer.sizes.append(5),
        "shorter list": lambda layer: layer.sizes.pop(),
        "item of a dictionary": lambda layer: layer.options.update(a=5),
        "item of a dictionary added": lambda layer: layer.options.update(c=5),
        "item of a dictionary deleted": lambda layer: layer.options.pop("a"),
        "items of a dictionary in another order": lambda layer: layer.options.update(a=layer.options.pop("a")),
        "dictionary filled anew": lambda layer: (layer.options.clear(), layer.options.update(a=7, b=2)),
        "requires_grad": lambda layer: layer.weight.requires_grad_(False),
        "shape of a tensor": lambda layer: setattr(layer.weight, "data", ndgrad.ones(4)),
        "dtype of a tensor": lambda layer: setattr(layer.weight, "data", ndgrad.ones(3, dtype=ndgrad.float32)),
        "strides of a tensor": lambda layer: setattr(layer.weight, "data", ndgrad.ones(6)[::2]),
        "attribute of a tensor": lambda layer: layer.weight.__dict__.update(mark=2),
    }.items():
        layer = Layer()
        layer.weight.mark = 1  # type: ignore[attr-defined]
        found[name] = layer.forward, functools.partial(change, layer)

    user_class = type("UserClass", (Layer,), {"__module__": __name__, "method": _function("2")})
    found["attribute of a class"] = _function("made.method(x)", made=user_class()), setting(user_class, "method", _function("3"))
    layer = Layer()
    found["attribute of a class overridden"] = _function("made.scale * x", made=layer), setting(layer, "scale", 3.0)
    slotted = Slotted()
    found["slot"] = _function("x * s.first", s=slotted), setting(slotted, "first", 3)
    slotted = Slotted()
    found["slot filled"] = _function("x * s.second", s=slotted), setting(slotted, "second", 3)
    slotted = Slotted()
    found["slot emptied"] = _function("x * s.first", s=slotted), functools.partial(delattr, slotted, "first")
    slotted = Slotted()
    found["list in a slot"] = _function("x * s.first", s=slotted), functools.partial(slotted.first.append, 3)
    slotted = Slotted()
    found["class of an object with slots"] = _function("x * s.first", s=slotted), setting(slotted, "__class__", Slotted2)
    computed = Computed()
    found["attributes by __getattribute__"] = _function("x * c.value", c=computed), setting(computed, "value", 3)
    array = np.arange(5.0)
    found["values of an array"] = _function("x * a", a=array), functools.partial(array.__setitem__, 4, 7.0)
    array2 = np.arange(7, dtype=np.int8)
    found["last value of an array of bytes"] = _function("x * a", a=array2), functools.partial(array2.__setitem__, 6, 9)
    array3 = np.arange(6.0)
    found["shape of an array"] = _function("x * a", a=array3), setting(array3, "shape", (2, 3))
    array4 = np.arange(12.0)[::2]
    found["values of an array with gaps"] = _function("x * a", a=array4), functools.partial(array4.__setitem__, 2, 7.0)
    items: set[Any] = {1, 2}
    found["set"] = _function("x * len(s)", s=items), functools.partial(items.add, 3)
    nothing: set[Any] = set()
    found["empty set filled"] = _function("x * len(s)", s=nothing), functools.partial(nothing.add, 3)
    queue = collections.deque([1, 2])
    found["queue"] = _function("x * s[0]", s=queue), functools.partial(queue.rotate, 1)
    ordered = collections.OrderedDict(a=1, b=2)
    found["order of an OrderedDict"] = _function("x * next(iter(s))", s=ordered), functools.partial(ordered.move_to_end, "a")
    made = collections.defaultdict(int, a=1)
    found["defaultdict that has made an item"] = _function("x * s['b']", s=made), functools.partial(made.__getitem__, "b")
    empty: Any = collections.OrderedDict()
    found["empty OrderedDict filled"] = _function("x * len(s)", s=empty), functools.partial(empty.__setitem__, 1, 1)
    deep = ((1, [2, {"k": [3]}]),)
    found["list inside tuples"] = _function("x * t[0][1]", t=deep), functools.partial(deep[0][1][1]["k"].append, 4)  # type: ignore[index]
    part = functools.partial(_function("x"), [1])
    found["argument of a partial"] = _function("p(x)", p=part), functools.partial(part.args[0].append, 2)
    bound = Layer()
    found["object of a bound method"] = _function("m(x)", m=bound.forward), functools.partial(bound.sizes.append, 2)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    found["mode of a module"] = _function("m(x)", m=model), model.eval
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    found["hook of a module"] = _function("m(x)", m=model), lambda m=model: m[0].register_forward_hook(lambda *a: None)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    found["another layer"] = _function("m(x)", m=model), lambda m=model: m.__setitem__(1, nn.Tanh())
    model = nn.Sequential(nn.Linear(2, 2))
    found["frozen parameter"] = _function("m(x)", m=model), lambda m=model: m.requires_grad_(False)
    base = ndgrad.zeros(4)
    view = base[1:3]
    found["a view whose base comes to require grad"] = (
        _function("x * v", v=view),
        lambda: base.mul_(ndgrad.ones(4, requires_grad=True)),
    )
    return found


@pytest.mark.parametrize("case", cases())
def test_the_quick_test_notices_what_python_notices(case: str):
    f, change = cases()[case]
    environment = Environment([("the function", f)])
    assert environment.check() is None
    is_same = quick_test(environment)
    assert is_same()
    change()
    assert not is_same()
    assert environment.check() is not None


@pytest.mark.parametrize("case", cases())
def test_a_comparison_that_is_mostly_native_notices_the_same(case: str):
    f, change = cases()[case]
    environment = Environment([("the function", f)])
    compare_quickly(environment)
    assert environment.quick is not None
    assert environment.quick()
    assert environment.check() is None
    change()
    assert environment.check() is not None


def test_tensors_that_are_replaced_and_come_back():
    layer = Layer()
    layer.state = {"a": ndgrad.zeros(3), "b": ndgrad.zeros(3)}  # type: ignore[attr-defined]
    state: dict[str, Any] = layer.state  # type: ignore[attr-defined]
    first, second, weight = state["a"], ndgrad.ones(3), layer.weight
    environment = Environment([("the function", layer.forward), ("", layer)])
    entry = environment.find_entry(first)
    assert entry is not None
    for _ in range(3):  # at first no slot is known to move
        compare_quickly(environment)
        for t in (second, first, second, first):
            state["a"] = t
            assert environment.check() is None
            assert entry[0] is t
    assert environment.quick is not None
    layer.weight = ndgrad.zeros(3, requires_grad=True)
    assert environment.check() is None
    assert environment.quick is None
    compare_quickly(environment)
    layer.weight = weight
    assert environment.check() is None
    assert environment.find_entry(weight) is not None
    state["a"] = state["b"]
    assert environment.check() is not None
    state["a"] = ndgrad.zeros(4)
    assert environment.check() is not None


@pytest.mark.parametrize("draws", [False, True])
def test_a_training_step_is_a_native_call_or_compares_natively_what_it_reaches(draws: bool):

    def trained(compiles: bool) -> list[float]:
        ndgrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5 if draws else 0.0), nn.Tanh(), nn.Linear(5, 2))
        optimizer = optim.AdamW(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (model(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run: Any = CompiledFunction(step) if compiles else step
        losses = []
        for i in range(9):
            if i == 7:
                optimizer.param_groups[0]["lr"] = 0.01
            losses.append(run(ndgrad.tensor(np.random.default_rng(i).normal(size=(4, 3)))).item())
        if compiles and draws:
            assert any(e.specialisation is not None and e.comparisons for e in run.entries)
        elif compiles:
            assert hits(run) >= 1
        return losses

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-9)


def _updates(optimizer: Any) -> tuple[Any, Any]:
    """Return a compiled optimizer step that has a row, and a function that counts the uses of the row."""
    step: Any = CompiledFunction(optimizer.step)
    for _ in range(4):
        step()
    assert hits(step)
    return step, lambda: hits(step)


def _parameters() -> list[Any]:
    found = [nn.Parameter(ndgrad.tensor(np.random.default_rng(n).normal(size=(n, 3)))) for n in (2, 30)]
    for p in found:
        p.grad = ndgrad.tensor(np.random.default_rng(len(p)).normal(size=p.shape))
    return found


def test_an_optimizer_step_is_a_native_call_that_writes_in_place():
    ours, theirs = _parameters(), _parameters()
    eager = optim.AdamW(theirs, lr=0.1)
    step, taken = _updates(optim.AdamW(ours, lr=0.1))
    memory = [p.data_ptr() for p in ours]
    for _ in range(4):
        eager.step()
    before = taken()
    for number in range(5):
        for p, q in zip(ours, theirs, strict=True):
            p.grad, q.grad = p.grad * number, q.grad * number  # another tensor in each call
        assert step() is None
        eager.step()
    assert taken() == before + 5
    for p, q, place in zip(ours, theirs, memory, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12)
        assert p.data_ptr() == place
        assert p._version == q._version


def test_memory_that_may_not_be_written_in_place_is_left_to_python():
    def fresh() -> tuple[list[Any], Any, Any]:
        parameters = _parameters()
        return parameters, *_updates(optim.SGD(parameters, lr=0.5))

    parameters, step, taken = fresh()
    whole, before = ndgrad.zeros(40, 3, dtype=ndgrad.float64), taken()
    parameters[1].data = whole[5:35]  # a part of other memory
    step()
    assert taken() == before
    np.testing.assert_allclose(whole[5:35].numpy(), -0.5 * parameters[1].grad.numpy())
    assert not whole[:5].any()

    parameters, step, taken = fresh()
    before, old = taken(), parameters[0].detach().clone()
    parameters[0].grad = parameters[0].detach()  # the written memory is also read
    step()
    assert taken() == before
    np.testing.assert_allclose(parameters[0].detach().numpy(), 0.5 * old.numpy())

    parameters, step, taken = fresh()
    before, saved = taken(), (parameters[1] ** 2).sum()
    step()
    assert taken() == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation|has been written"):
        saved.backward()

    parameters, step, taken = fresh()
    before, old = taken(), parameters[0].detach().clone()
    with ndgrad.autograd.graph.allow_mutation_on_saved_tensors():
        saved = (parameters[0] ** 2).sum()
        step()
        saved.backward()
    assert taken() == before
    np.testing.assert_allclose(parameters[0].grad.numpy(), _parameters()[0].grad.numpy() + 2 * old.numpy())

    parameters, step, taken = fresh()
    before, old = taken(), [p.detach().clone() for p in parameters]
    parameters[0].grad = None
    step()  # another program
    assert taken() == before
    assert (parameters[0] == old[0]).all()
    np.testing.assert_allclose(
        parameters[1].detach().numpy(), old[1].numpy() - 0.5 * parameters[1].grad.numpy(), rtol=1e-12
    )


def test_a_tensor_in_the_place_of_another_is_left_to_python():
    layer = Layer()
    environment = Environment([("the function", layer.forward)])
    is_same = quick_test(environment)
    layer.weight = ndgrad.zeros(3, requires_grad=True)
    assert not is_same()
    assert environment.check() is None
    assert quick_test(environment)()


def test_equal_values_are_left_to_python_once():
    f = _function("x * factor", factor=2.5)
    environment = Environment([("the function", f)])
    is_same = quick_test(environment)
    f.__globals__["factor"] = float("2.5")
    assert not is_same()
    assert environment.check() is None
    assert quick_test(environment)()


def test_what_is_unrelated_may_change():
    f = _function("x * factor", factor=2.0, unrelated=1)
    environment = Environment([("the function", f)])
    is_same = quick_test(environment)
    f.__globals__.update({f"name{i}": i for i in range(1000)}, unrelated=2)
    assert is_same()


def test_what_was_compared_stays_alive_while_it_is_compared():
    layer = Layer()
    layer.marker = Slotted3()  # type: ignore[attr-defined]
    alive = weakref.ref(layer.marker)  # type: ignore[attr-defined]
    is_same = quick_test(Environment([("the function", layer.forward)]))
    del layer.marker  # type: ignore[attr-defined]
    gc.collect()
    for _ in range(1000):  # none of these may reuse the address
        layer.marker = Slotted3()  # type: ignore[attr-defined]
        assert not is_same()
    assert alive() is not None


# ----- whole calls ------------------------------------------------------------------------------------------------------


def hits(f: Any) -> int:
    """Number of native calls of a function in this test."""
    return CALLED.count(id(f.function))


#: Identities of the functions that native calls have run. References would keep them alive.
CALLED: list[int] = []


def warm(f: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a call that is native by then."""
    for _ in range(4):
        result = f(*args, **kwargs)
    assert hits(f), "no call was native"
    return result


@pytest.fixture(autouse=True)
def _native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)
    original = NativeCall.finish

    def call(self: Any, *args: Any) -> Any:
        CALLED.append(id(self.specialisation.traced.function))
        return original(self, *args)

    monkeypatch.setattr(NativeCall, "finish", call)
    CALLED.clear()


def is_native_call(f: Any, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
    before = hits(f)
    result = f(*args, **kwargs)
    return result, hits(f) > before


def test_results_and_gradients_are_those_of_the_function():
    def f(x: Any, y: Any) -> Any:
        return ((x * y).sin() + x).sum()

    compiled = CompiledFunction(f)
    for i in range(12):
        x, y = (ndgrad.tensor(np.random.default_rng(i + k).normal(size=(3, 4)), requires_grad=True) for k in (0, 50))
        out = compiled(x, y)
        out.backward()
        found = out.item(), x.grad, y.grad
        x.grad = y.grad = None
        f(x, y).backward()
        assert np.isclose(found[0], f(x, y).item())
        for a, b in zip(found[1:], (x.grad, y.grad), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
    assert hits(compiled) >= 6


def test_arguments_of_all_forms():
    def f(data: Any, factor: float, *rest: Any, mode: str = "a", more: Any = None) -> Any:
        x, (y, named) = data
        return {"sum": x * factor + y, "rest": [named["k"] - r for r in rest], "mode": mode, "more": more}

    compiled = CompiledFunction(f)
    x, y, z = (ndgrad.tensor([1.0, 2.0, float(k)]) for k in range(3))

    def same(a: Any, b: Any) -> bool:
        return str(a) == str(b)

    args: tuple[Any, ...] = ([x, (y, {"k": z})], 2.0, x.clone(), y.clone())
    warm(compiled, *args, mode="b", more=z.clone())
    for arguments, kwargs in [
        (args, {"mode": "b", "more": z.clone()}),
        (([y, (x, {"k": z})], 2.0, x.clone(), y.clone()), {"mode": "b", "more": z.clone()}),
        (([x, (y, {"k": z})], 3.0, x.clone(), y.clone()), {"mode": "b", "more": z.clone()}),
        (([x, (y, {"k": z})], 2, x.clone(), y.clone()), {"mode": "b", "more": z.clone()}),
        (([x, (y, {"k": z})], 2.0, x.clone(), y.clone()), {"mode": "c", "more": z.clone()}),
        (([x, (y, {"k": z})], 2.0, x.clone(), y.clone()), {"more": z.clone(), "mode": "b"}),
        (([x, (y, {"k": z})], 2.0, x.clone()), {"mode": "b", "more": z.clone()}),
        (([x, [y, {"k": z}]], 2.0, x.clone(), y.clone()), {"mode": "b", "more": z.clone()}),
        (([x, (y, {"k": z, "l": 1})], 2.0, x.clone(), y.clone()), {"mode": "b", "more": z.clone()}),
        (([x, (y, {"k": z})], 2.0, x.clone(), y.clone()), {"mode": "b", "more": None}),
        (([x, (y, {"k": z})], 2.0, x, y.clone()), {"mode": "b", "more": z}),
        (([x.float(), (y, {"k": z})], 2.0, x.clone(), y.clone()), {"mode": "b", "more": z.clone()}),
    ]:
        assert same(compiled(*arguments, **kwargs), f(*arguments, **kwargs)), (arguments, kwargs)
    warm(compiled, *args, mode="b", more=z.clone())
    assert is_native_call(compiled, *args, mode="b", more=z.clone())[1]


def test_two_tensors_that_become_one():
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    compiled = CompiledFunction(f)
    for _ in range(5):
        x, y = ndgrad.ones(3), ndgrad.ones(3)
        assert compiled(x, y).tolist() == [2, 2, 2]
        assert x.tolist() == [2, 2, 2]
    x = ndgrad.ones(3)
    assert compiled(x, x).tolist() == [4, 4, 4]
    whole = ndgrad.ones(4)
    assert compiled(whole[:3], whole[1:]).tolist() == [4, 4, 2]


def test_an_argument_that_the_function_also_reaches():
    w = ndgrad.ones(3)

    def f(x: Any) -> Any:
        x.add_(1)
        return x * w

    compiled = CompiledFunction(f)
    for _ in range(4):
        assert compiled(ndgrad.ones(3)).tolist() == [2, 2, 2]
    assert compiled(w).tolist() == [4, 4, 4]
    assert w.tolist() == [2, 2, 2]


def test_modes_and_defaults_are_seen():
    w = ndgrad.ones(3, requires_grad=True)
    compiled = CompiledFunction(lambda x: (x * w + ndgrad.ones(3)).sum())
    x = ndgrad.ones(3)
    assert warm(compiled, x).requires_grad
    with ndgrad.no_grad():
        out, _ = is_native_call(compiled, x)
        assert not out.requires_grad
        warm(compiled, x)
        assert is_native_call(compiled, x)[1]
    assert is_native_call(compiled, x)[1]
    with ndgrad.inference_mode():
        assert compiled(x).is_inference()
    ndgrad.set_default_dtype(ndgrad.float32)
    try:
        assert CompiledFunction(lambda: ndgrad.ones(3) * 1.0)().dtype is ndgrad.float32
        made = CompiledFunction(lambda x: x.sum() + ndgrad.ones(()))
        assert warm(made, ndgrad.ones(3)).dtype is ndgrad.float32
    finally:
        ndgrad.set_default_dtype(ndgrad.float64)
    assert made(ndgrad.ones(3, dtype=ndgrad.float32)).dtype is ndgrad.float64
    with pytest.warns(UserWarning, match="Anomaly"), ndgrad.autograd.detect_anomaly():
        assert not is_native_call(compiled, x)[1]
    token = CompiledFunction.disabled.set(True)
    try:
        assert not is_native_call(compiled, x)[1]
    finally:
        CompiledFunction.disabled.reset(token)
    g = ndgrad.func.grad(compiled)(x)
    np.testing.assert_allclose(g.detach(), np.ones(3))
    assert is_native_call(compiled, x)[1]


def test_a_function_that_writes_its_inputs_and_leaves_tensors_behind():
    buffer, total = ndgrad.zeros(3), ndgrad.zeros(())

    def f(x: Any) -> Any:
        buffer.mul_(0.5).add_(x)
        total.add_(x.sum())
        return buffer * 2

    compiled = CompiledFunction(f)
    expected, sum_ = np.zeros(3), 0.0
    for i in range(8):
        x = np.full(3, float(i))
        expected, sum_ = expected * 0.5 + x, sum_ + x.sum()
        out = compiled(ndgrad.tensor(x))
        np.testing.assert_allclose(out, expected * 2)
        np.testing.assert_allclose(buffer, expected)
        assert total.item() == sum_
    assert hits(compiled)


def test_an_argument_that_a_call_gives_a_history():
    w = ndgrad.ones(3, requires_grad=True)
    compiled = CompiledFunction(lambda x: x.mul_(w).sum())
    for i in range(6):
        x = ndgrad.full((3,), float(i))
        w.grad = None
        compiled(x).backward()
        assert x.requires_grad
        np.testing.assert_allclose(w.grad, np.full(3, float(i)))
    x = ndgrad.ones(3, requires_grad=True) * 2
    compiled(x).backward()
    compiled(ndgrad.full((3,), 4.0)).backward()
    np.testing.assert_allclose(w.grad, np.full(3, 5.0 + 2 + 4))


def test_replaced_tensors_and_changed_globals():
    layer = Layer()
    compiled = CompiledFunction(layer.forward)
    x = ndgrad.ones(3)
    warm(compiled, x)
    for i in range(2, 6):
        layer.weight = ndgrad.full((3,), float(i), requires_grad=True)
        for _ in range(3):
            np.testing.assert_allclose(compiled(x).detach(), np.full(3, i * 6.0))
    layer.sizes[0] = 3
    np.testing.assert_allclose(compiled(x).detach(), np.full(3, 5 * 2 * 5.0))
    with ndgrad.no_grad():
        layer.weight.fill_(1.0)
    np.testing.assert_allclose(warm(compiled, x).detach(), np.full(3, 10.0))
    assert is_native_call(compiled, x)[1]


def test_names_of_dimensions_are_left_to_python():
    from ndgrad._src.core.modes import process

    compiled = CompiledFunction(lambda x: x * 2)
    x = ndgrad.ones(2, 3)
    warm(compiled, x)
    before = process.named
    try:
        x.names = ("a", "b")
        assert process.named
        out, was_native = is_native_call(compiled, x)
        assert not was_native
        assert out.names == (x * 2).names
    finally:
        process.named = before


def test_views_strides_and_scalars_as_arguments():
    def f(x: Any) -> Any:
        return x * 2 + 1

    compiled = CompiledFunction(f)
    whole = ndgrad.tensor(np.arange(24.0).reshape(4, 6))
    leaf = ndgrad.ones(4, 6, requires_grad=True)
    arguments = [whole[1:3], whole.T, whole.sum(), ndgrad.tensor(2.0), whole[0, 0], leaf, leaf[1:3], leaf * 2]
    for _ in range(4):
        for x in arguments:
            out = compiled(x)
            np.testing.assert_allclose(out.detach(), f(x).detach())
            assert out.requires_grad is x.requires_grad
    assert is_native_call(compiled, whole[2:4])[1]
    view = whole[2:4]
    warm(compiled, view)
    whole.mul_(leaf)  # the view now has a history
    assert compiled(view).requires_grad


def test_numpy_namespace():
    anp = ndgrad.numpy

    def f(x: Any) -> Any:
        return (anp.sin(x) * x).sum()

    compiled = CompiledFunction(f)
    x = anp.array([1.0, 2.0, 3.0])
    for _ in range(5):
        assert np.isclose(float(compiled(x)), float(f(x)))
    np.testing.assert_allclose(ndgrad.func.grad(compiled)(x), ndgrad.func.grad(f)(x))
    x[0] = 5.0
    assert np.isclose(float(compiled(x)), float(f(x)))
    assert hits(compiled)


def test_memory_that_is_written_between_forward_and_backward_is_noticed():
    w = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    compiled = CompiledFunction(lambda x: (w * x).exp())
    x = ndgrad.tensor([1.0, 3.0])
    for _ in range(5):
        out = compiled(x)
        out.sum().backward()
    assert hits(compiled)
    out = compiled(x)
    with ndgrad.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified|overwritten|written"):
        out.sum().backward()


def test_threads_that_call_at_once():
    def f(x: Any) -> Any:
        return ((x * 2).sin() @ (x + 1)).sum()

    compiled = CompiledFunction(f)
    xs = [ndgrad.tensor(np.random.default_rng(i).normal(size=(40, 40)), requires_grad=True) for i in range(4)]
    expected = [ndgrad.func.grad(f)(x) for x in xs]
    warm(compiled, xs[0])
    failures: list[str] = []

    def work(i: int) -> None:
        for _ in range(60):
            (g,) = ndgrad.autograd.grad(compiled(xs[i]), xs[i])
            if not np.allclose(g, expected[i]):
                failures.append(f"thread {i}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures


def test_nothing_is_kept_of_a_call():
    w = ndgrad.ones(50, requires_grad=True)
    compiled = CompiledFunction(lambda x: (x * w).sum())
    for _ in range(6):
        compiled(ndgrad.ones(50)).backward()
    x = ndgrad.ones(50)
    out = compiled(x)
    alive = weakref.ref(x), weakref.ref(out), weakref.ref(out._node)
    del x, out
    assert [ref() for ref in alive] == [None, None, None]
    alive_function = weakref.ref(compiled.function)
    del compiled
    gc.collect()
    assert alive_function() is None


# ----- backward of one program ------------------------------------------------------------------------------------------


def _loss() -> tuple[Any, Tensor, Tensor]:
    a, b = ndgrad.tensor([1.0, 2.0], requires_grad=True), ndgrad.tensor([3.0, 4.0], requires_grad=True)
    compiled = CompiledFunction(lambda: (a * b * b).sum())
    for _ in range(5):
        compiled().backward()
    a.grad = b.grad = None
    return compiled, a, b


def test_gradients_are_added_and_are_memory_of_their_own():
    compiled, a, b = _loss()
    out = compiled()
    out.backward(retain_graph=True)
    first = a.grad
    out.backward()
    assert a.grad is first
    np.testing.assert_allclose(a.grad, 2 * np.array([9.0, 16.0]))
    np.testing.assert_allclose(b.grad, 2 * np.array([6.0, 16.0]))
    with pytest.raises(RuntimeError, match="second time|freed"):
        out.backward()
    compiled().backward()
    np.testing.assert_allclose(a.grad, 3 * np.array([9.0, 16.0]))
    c = compiled()
    c.backward()
    assert not np.shares_memory(a.grad.numpy(), b.grad.numpy())


def test_hooks_of_leaves_results_and_nodes_run():
    compiled, a, b = _loss()
    seen: list[Any] = []
    handle = a.register_hook(lambda g: seen.append("leaf") or g * 10)
    compiled().backward()
    np.testing.assert_allclose(a.grad, 10 * np.array([9.0, 16.0]))
    handle.remove()
    b.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
    out = compiled()
    out.register_hook(lambda g: seen.append("result") or g * 2)
    out.backward()
    np.testing.assert_allclose(b.grad, 3 * np.array([6.0, 16.0]))
    out = compiled()
    out.grad_fn.register_hook(lambda *_: seen.append("node"))
    out.retain_grad()
    out.backward()
    assert out.grad.item() == 1
    assert seen == ["leaf", "result", "accumulated", "node", "accumulated"]


def test_gradients_for_another_gradient_and_second_derivatives():
    compiled, a, b = _loss()
    compiled().backward(ndgrad.tensor(3.0))
    np.testing.assert_allclose(a.grad, 3 * np.array([9.0, 16.0]))
    (g,) = ndgrad.autograd.grad(compiled(), b, create_graph=True)
    (gg,) = ndgrad.autograd.grad(g.sum(), b)
    np.testing.assert_allclose(gg, [2.0, 4.0])
    (g,) = ndgrad.autograd.grad(compiled() * 2, a)
    np.testing.assert_allclose(g, [18.0, 32.0])


def test_backward_of_a_program_behind_other_ops():
    a = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    compiled = CompiledFunction(lambda x: (x * x).sum())
    for _ in range(6):
        a.grad = None
        compiled(a * 3).backward()
        np.testing.assert_allclose(a.grad, [18.0, 36.0])


def test_a_leaf_that_no_longer_requires_grad_gets_none():
    compiled, a, b = _loss()
    out = compiled()
    a.requires_grad_(False)
    out.backward()
    assert a.grad is None
    np.testing.assert_allclose(b.grad, [6.0, 16.0])


def test_anomaly_mode_and_inner_passes():
    compiled, a, _ = _loss()

    class Inner(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            with ndgrad.enable_grad():
                compiled().backward()
            return g

    x = ndgrad.tensor(1.0, requires_grad=True)
    Inner.apply(x).backward()
    np.testing.assert_allclose(a.grad, [9.0, 16.0])
    with pytest.warns(UserWarning, match="Anomaly"), ndgrad.autograd.detect_anomaly():
        compiled().backward()
    np.testing.assert_allclose(a.grad, [18.0, 32.0])


def interrupt_at(number: int, action: Callable[[], Any]) -> bool:
    """Raise KeyboardInterrupt at a line that an action runs, by number. True if the action had so many lines."""
    left, before = number, sys.gettrace()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(before)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupted_call_leaves_no_trace():
    compiled, a, b = _loss()
    version, lines = a._version, 0
    while interrupt_at(lines, compiled):
        lines += 1
        assert a.grad is b.grad is None
        assert a._version == version
        assert compiled().item() == 41.0
    assert lines > 10
    assert hits(compiled) > lines


def test_an_interrupted_backward_pass_gives_gradients_to_all_leaves_or_to_none():
    compiled, a, b = _loss()
    lines, given = 0, []
    while True:
        for _ in range(4):  # whether calls compute gradients as well depends on the calls before
            compiled().backward()
        a.grad = b.grad = None
        if not interrupt_at(lines, compiled().backward):
            break
        lines += 1
        given.append(a.grad is not None)
        assert (b.grad is not None) is given[-1]
    assert {True, False} == {*given}
    np.testing.assert_allclose(a.grad, [9.0, 16.0])


def test_checks_of_values_that_fail_say_what_eager_says():
    import ndgrad.nn.functional as F

    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(x, y)

    compiled = CompiledFunction(loss)
    x = ndgrad.tensor(np.random.default_rng(0).normal(size=(4, 3)), requires_grad=True)
    for _ in range(5):
        found = compiled(x, ndgrad.tensor([0, 1, 2, 1]))
    assert np.isclose(found.item(), loss(x, ndgrad.tensor([0, 1, 2, 1])).item())
    bad = ndgrad.tensor([0, 1, 7, 1])
    messages = []
    for function in (compiled, loss):
        with pytest.raises(IndexError) as caught:
            function(x, bad)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert np.isclose(compiled(x, ndgrad.tensor([0, 1, 2, 1])).item(), found.item())
