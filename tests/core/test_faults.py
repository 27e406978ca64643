"""Exceptions at every point at which the library calls user code.

The points are not listed by hand. Each scene below is run once under a profile function that sees every call. A call is a point if
it enters this file and the last frame before it that belongs to the library or to this file belongs to the library. Then the
scene is run again for every point, with an exception raised at the beginning of the call, and once more with one at its end. After
each fault all modes must be as before, and the scene and a plain program must give the same results as without it.
`pytest -s -k every_point` prints the list.
"""

from __future__ import annotations

import copy
import gc
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import ndgrad
from ndgrad import autograd
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.op_observers import observing
from ndgrad._src.engine.graph import queue_callback, register_multi_grad_hook, saved_tensors_hooks
from ndgrad._src.interpreters import forward_ad
from ndgrad.overrides import TorchFunctionMode
from ndgrad.utils._python_dispatch import TorchDispatchMode

HERE = __file__
LIBRARY = str(Path(ndgrad.__file__).parent)
SCENES: dict[str, Callable[[], Any]] = {}


def scene(f: Callable[[], Any]) -> Callable[[], Any]:
    SCENES[f.__name__] = f
    return f


def leaf(*values):
    return ndgrad.tensor(np.array(values), requires_grad=True)


# ----- scenes: all calls of user code ----------------------------------------------------------------------------------


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class Pair(autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h

    @staticmethod
    def jvp(ctx, tx, ty):
        x, y = ctx.saved_tensors
        return tx * y + x * ty, tx + ty

    @staticmethod
    def vmap(info, in_dims, x, y):
        return Pair.apply(x, y), (0, 0)


class Written(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


@scene
def hooks_on_tensors_and_nodes():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * w
    h.retain_grad()
    h.register_hook(lambda g: g * 2)
    h.grad_fn.register_hook(lambda i, o: None)
    h.grad_fn.register_prehook(lambda o: (o[0] + 1,))
    x.register_hook(lambda g: g + 1)
    w.register_post_accumulate_grad_hook(lambda t: None)
    register_multi_grad_hook([x, h], lambda gs: None)
    register_multi_grad_hook([x, h], lambda g: None, mode="any")
    (h * h).sum().backward()
    return x.grad, w.grad, h.grad


@scene
def hooks_under_create_graph():
    x = leaf(1.0, 2.0)
    h = x * x
    h.register_hook(lambda g: g * x)
    h.grad_fn.register_prehook(lambda o: None)
    (g,) = autograd.grad(h.sum(), x, create_graph=True)
    g.register_hook(lambda g: None)
    (gg,) = autograd.grad(g.sum(), x)
    return g, gg


@scene
def hooks_with_inputs():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * w
    h.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g * 3)
    (h * h).sum().backward(inputs=[x, h])
    return x.grad, w.grad, h.grad


@scene
def callbacks():
    x = leaf(1.0, 2.0)
    h = x * 2
    h.register_hook(lambda g: queue_callback(lambda: queue_callback(lambda: None)))
    h.sum().backward()
    return x.grad


@scene
def saved_tensors():
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        y = (x * x).exp()
        with saved_tensors_hooks(lambda t: t.numpy(force=True), lambda a: ndgrad.tensor(a)):
            z = Cube.apply(y) * y.tanh()
    z.sum().backward()
    return x.grad


@scene
def hooks_on_one_saved_tensor():
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t + 1, lambda t: t - 1)
    y.sum().backward()
    return x.grad


@scene
def custom_functions():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    a, b = Pair.apply(Cube.apply(x), w)
    c = Written.apply(b * 1)
    (a * c).sum().backward()
    return x.grad, w.grad


@scene
def custom_functions_to_second_order():
    x = leaf(1.0, 2.0)
    (g,) = autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    return autograd.grad(g.sum(), x)


@scene
def custom_functions_in_transforms():
    x, w = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([3.0, 4.0])

    def f(x, w):
        a, b = Pair.apply(x, w)
        return (a * b).sum()

    batch = ndgrad.func.vmap(ndgrad.func.grad(f))(x.reshape(2, 1), w.reshape(2, 1))
    value, tangent = ndgrad.func.jvp(f, (x, w), (w, x))
    return batch, value, tangent, ndgrad.func.grad(ndgrad.func.grad(lambda t: f(t, t)))(ndgrad.tensor(2.0))


@scene
def transforms():
    x = ndgrad.tensor([1.0, 2.0, 3.0])

    def f(t):
        return (t.sin() * t).sum()

    value, pullback = ndgrad.func.vjp(lambda t: t.exp(), x)
    return (
        ndgrad.func.grad(f)(x),
        ndgrad.func.vmap(lambda t: ndgrad.func.grad(f)(t))(x.reshape(3, 1)),
        ndgrad.func.jacrev(lambda t: t * t)(x),
        ndgrad.func.jacfwd(lambda t: t * t)(x),
        ndgrad.func.hessian(f)(x),
        pullback(x),
        value,
    )


@scene
def forward_mode():
    x = ndgrad.tensor([1.0, 2.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, ndgrad.ones(2))
        a, b = Pair.apply(dual, dual)
        return forward_ad.unpack_dual(a * b).tangent


@scene
def checkpoints():
    x = leaf(1.0, 2.0)

    def body(t):
        return (t * t).sin() * t

    y = checkpoint(body, x, use_reentrant=False)
    z = checkpoint(lambda t: checkpoint(body, t, use_reentrant=False).exp(), y, use_reentrant=False)
    u = checkpoint(lambda t: t.tanh() * t, z, use_reentrant=True)
    u.sum().backward()
    return x.grad


@scene
def nested_passes():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)

    def inner(g):
        with ndgrad.enable_grad():
            k = w * w
            k.register_hook(lambda g: g * 2)
            k.sum().backward()

    h = x * x
    h.register_hook(inner)
    h.sum().backward()
    return x.grad, w.grad


@scene
def passes_deep_enough_for_another_thread():
    total = [0.0]

    def level(left):
        x = leaf(1.0)
        y = x * 2

        def deeper(g):
            if left:
                with ndgrad.enable_grad():
                    level(left - 1)

        y.register_hook(deeper)
        y.sum().backward()
        total[0] += x.grad.item()

    deep_frames(lambda: level(2))
    return ndgrad.tensor(total)


def deep_frames(f, frames=600):
    """Call f on a deep stack, so that the first nested pass runs in a new thread."""
    return f() if frames == 0 else deep_frames(f, frames - 1)


@scene
def other_threads():
    x, errors = leaf(1.0, 2.0), []

    def work():
        try:
            h = x * 2
            h.register_hook(lambda g: g * 3)
            h.sum().backward()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
        t.join()
    if errors:
        raise errors[0]
    return x.grad


@pytest.fixture(autouse=True, scope="module")
def no_classes_stay_behind():
    """While a class with overrides is alive, all public functions check for it."""
    yield
    gc.collect()


@scene
def subclasses():
    class Loud(ndgrad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    x = leaf(1.0, 2.0)
    y = (x.as_subclass(Loud) * 2).exp() + 1
    y.sum().backward()
    return x.grad


@scene
def subclasses_below_autograd():
    class Low(ndgrad.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    x = leaf(1.0, 2.0)
    y = (x * 1).as_subclass(Low)
    z = (y * y).sin()
    z.sum().backward()
    return x.grad


@scene
def modes_above_and_below():
    class Above(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Below(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = leaf(1.0, 2.0)
    with Above(), Below():
        y = (x * x).sin()
        y.sum().backward()
    return x.grad


@scene
def observers():
    x = leaf(1.0, 2.0)
    with observing(lambda op, arrays, settings, run: run()):
        y = x * x
        y.mul_(2)
        (y.exp() * y).sum().backward()
    return x.grad


def squared(np, x):
    return x * x


def squared_rule(t, x):
    return 2.0 * t * x


@scene
def ops_of_ones_own():
    ndgrad.library.elementwise("faults::squared", squared, x=squared_rule, method="faults_squared")
    try:
        x = leaf(1.0, 2.0)
        y = x.faults_squared()
        y.faults_squared_()
        y.sum().backward()
        second = ndgrad.func.grad(ndgrad.func.grad(lambda t: t.faults_squared().faults_squared()))(ndgrad.tensor(2.0))
        return x.grad, second, ndgrad.func.vmap(lambda t: t.faults_squared())(x.detach())
    finally:
        ndgrad.library.remove("faults::squared")


class Careful:
    """An attribute of a tensor with its own copy function."""

    def __init__(self, value):
        self.value = value

    def __deepcopy__(self, memo):
        return Careful(self.value)

    def __reduce__(self):
        return Careful, (self.value,)


@scene
def copies():
    x = leaf(1.0, 2.0)
    x.note = Careful(3)
    y = copy.deepcopy(x)
    (y * y).sum().backward()
    return y.grad, ndgrad.tensor(float(y.note.value))


@scene
def decorated_functions():
    @ndgrad.no_grad()
    def quiet(t):
        return t * 2

    @ndgrad.inference_mode()
    def quieter(t):
        return (t * 2).clone()

    @ndgrad.no_grad()
    def steps(t):
        yield t * 2
        yield t * 3

    x = leaf(1.0, 2.0)
    total = x * x
    for part in steps(x):
        total = total + part
    total = total + quiet(x) + quieter(x).tolist()[0]
    total.sum().backward()
    return x.grad


@scene
def gradient_checks():
    x = leaf(0.3, 0.5)
    assert autograd.gradcheck(lambda t: (t * t).sin(), (x,))
    return x.detach()


@scene
def anomalies():
    x = leaf(1.0, 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with autograd.detect_anomaly():
            h = Cube.apply(x)
            h.register_hook(lambda g: g * 2)
            h.sum().backward()
    return x.grad


# ----- points ----------------------------------------------------------------------------------------------------------


class Injected(Exception):
    """The exception raised at a point."""


class InjectedAbove(BaseException):
    """The same, as an exception that `except Exception` does not catch, like an interrupt."""


def entry(frame: Any) -> str | None:
    """Return caller and callee if the library makes the call of `frame`."""
    code = frame.f_code
    if code.co_filename != HERE or code.co_name in ("<module>", "deep_frames"):
        return None
    caller = frame.f_back
    while caller is not None:
        name = caller.f_code.co_filename
        if name == HERE:
            return None
        if name.startswith(LIBRARY):
            module = Path(name).relative_to(LIBRARY).with_suffix("").as_posix()
            return f"{module}.{caller.f_code.co_name} -> {code.co_qualname.replace('.<locals>', '')}"
        caller = caller.f_back
    return None


class Instrument:
    """Sees every call into this file. Raises `error` at call number `at`, at its beginning or end."""

    def __init__(self, at: int = -1, moment: str = "call", error: type[BaseException] = Injected) -> None:
        self.at, self.moment, self.error = at, moment, error
        self.points: list[str] = []
        self.target: Any = None
        self.lock = threading.Lock()

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            found = entry(frame)
            if found is None:
                return
            with self.lock:
                number = len(self.points)
                self.points.append(found)
            if number == self.at:
                if self.moment == "call":
                    raise self.error(found)
                self.target = frame
        elif event == "return" and frame is self.target:
            self.target = None
            raise self.error(self.points[self.at])

    def __enter__(self) -> Self:
        self.before = sys.getprofile()
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(self.before)
        threading.setprofile(None)


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return None if value is None else np.asarray(value.detach().numpy()).tolist()


def state() -> dict[str, Any]:
    """Return all modes of this thread and of the process."""
    kept = {name: getattr(thread, name) for name in vars(type(thread)) if not name.startswith("_")}
    kept.update(thread.__dict__)
    return {**kept, "busy": len(process.busy), "grad": ndgrad.is_grad_enabled(), "errors": np.geterr()}


def check_that_all_is_well(before: dict[str, Any], where: str) -> None:
    assert state() == before, where
    x = leaf(1.0, 2.0)
    y = x * 1
    version = y._version
    y.mul_(x)
    assert y._version == version + 1
    (y.exp() * x).sum().backward()
    e = np.exp([1.0, 4.0])
    assert np.allclose(x.grad.numpy(), e + np.array([1.0, 2.0]) * e * np.array([2.0, 4.0])), where
    (second,) = autograd.grad(autograd.grad((x**3).sum(), x, create_graph=True)[0].sum(), x)
    assert second.tolist() == [6.0, 12.0], where


@pytest.mark.parametrize("name", sorted(SCENES))
def test_a_fault_at_every_point_leaves_everything_as_it_was(name):
    run = SCENES[name]
    run()  # generated and imported on first use
    before = state()
    with Instrument() as found:
        expected = plain(run())
    points = found.points
    assert points, "the scene calls no user code"
    assert state() == before
    for at, moment in [(i, m) for i in range(len(points)) for m in ("call", "return")]:
        where = f"{name}: point {at} ({points[at]}) at its {moment}"
        error = InjectedAbove if at % 3 == 0 and name != "other_threads" else Injected
        with pytest.raises(error), Instrument(at, moment, error):
            run()
        check_that_all_is_well(before, where)
        assert plain(run()) == expected, where


def test_the_list_of_every_point():
    found: dict[str, list[str]] = {}
    for name, run in SCENES.items():
        run()
        with Instrument() as seen:
            run()
        for point in seen.points:
            found.setdefault(point, []).append(name)
    print()
    for point in sorted(found):
        print(f"  {point}   ({', '.join(sorted(set(found[point])))})")
    print(f"  {len(found)} kinds of calls into user code, {sum(map(len, found.values()))} points")
    entered = {point.split(" -> ")[1].split(".")[-1] for point in found}
    assert entered >= {
        "forward", "backward", "setup_context", "jvp", "vmap", "__torch_function__", "__torch_dispatch__", "__deepcopy__", "body", "inner",
        "deeper", "quiet", "quieter", "steps", "f", "squared", "squared_rule", "<lambda>",
    }  # fmt: skip
    modules = {point.split(" -> ")[0].removeprefix("_src/").split("/")[0] for point in found}
    assert modules >= {"core", "engine", "custom_functions", "transforms", "checkpoint"}


def test_a_fault_in_the_middle_of_a_pass_leaves_the_graph_usable():
    """With retain_graph, a failed pass can be repeated on the same graph, at whatever point it failed."""
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t.clone()):
        h = Cube.apply(x * w)
        k = h.exp() * 1e-9
    handles = [h.register_hook(lambda g: g * 2), k.grad_fn.register_hook(lambda i, o: None), k.grad_fn.register_prehook(lambda o: None)]
    y = (k * h).sum()
    with Instrument() as found:
        y.backward(retain_graph=True)
    expected = plain((x.grad, w.grad))
    for at, moment in [(i, m) for i in range(len(found.points)) for m in ("call", "return")]:
        x.grad = w.grad = None
        with pytest.raises(Injected), Instrument(at, moment):
            y.backward(retain_graph=True)
        assert x.grad is None
        assert w.grad is None
        y.backward(retain_graph=True)
        assert plain((x.grad, w.grad)) == expected
    for handle in handles:
        handle.remove()


def test_a_fault_in_a_pass_without_retain_graph_frees_only_what_it_passed():
    x = leaf(1.0, 2.0)
    h = x.exp()
    k = h.sin()
    k.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (k * k).sum().backward()
    h.sum().backward()
    assert np.allclose(x.grad.numpy(), np.exp([1.0, 2.0]))


@pytest.mark.parametrize("moment", ["before the write", "after the write"])
def test_an_observer_that_fails_around_a_write_leaves_a_tensor_that_tells_the_truth(moment):
    """Either nothing has happened, or the write has, with its version and history: never new values with an old history."""
    x = leaf(1.0, 2.0)
    y = x * 1
    squared = y * y

    def observer(op, arrays, settings, run):
        if op.name != "mul_":
            return run()
        if moment == "after the write":
            run()
        raise Injected

    with pytest.raises(Injected), observing(observer):
        y.mul_(10)
    if moment == "before the write":
        assert (y.tolist(), y._version) == ([1.0, 2.0], 0)
        squared.sum().backward()
        assert x.grad.tolist() == [2.0, 4.0]
    else:
        assert (y.tolist(), y._version) == ([10.0, 20.0], 1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            squared.sum().backward()
        y.sum().backward()
        assert x.grad.tolist() == [10.0, 10.0]


def test_a_pack_hook_that_fails_leaves_the_target_of_a_write_as_it_was():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 1

    def pack(t):
        raise Injected

    with pytest.raises(Injected), saved_tensors_hooks(pack, lambda t: t):
        y.mul_(w)
    assert (y.tolist(), y._version, y.grad_fn.name()) == ([1.0, 2.0], 0, "MulBackward0")
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
