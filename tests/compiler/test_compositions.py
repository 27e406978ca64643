"""Compiled functions inside and around other features: transforms, custom functions, hooks, modes, writes, views,
threads, forks.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func, nn
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.interpreters import forward_ad
from ndgrad.autograd import Function

X = np.array([0.5, -1.5, 2.0])
Y = np.array([1.5, 0.25, -0.75])


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", os.environ.get("NDGRAD_COMPILE_REPLAY", "1"))


def tensor(values: Any = X, **options: Any) -> Any:
    return ndgrad.tensor(values, dtype=ndgrad.float64, **options)


def equal(a: Any, b: Any) -> None:
    """Check that two trees of tensors agree: structure, classes, dtypes, requires_grad, and values to the last few
    bits.
    """
    left, spec = ndgrad.utils._pytree.tree_flatten(a)
    right, other = ndgrad.utils._pytree.tree_flatten(b)
    assert spec == other
    for s, t in zip(left, right, strict=True):
        assert type(s) is type(t)
        if isinstance(t, ndgrad.Tensor):
            assert (s.dtype, s.shape, s.requires_grad) == (t.dtype, t.shape, t.requires_grad)
            np.testing.assert_allclose(s.detach().numpy(), t.detach().numpy(), rtol=1e-13, atol=1e-14)
        else:
            assert s == t


def compiled(f: Any, broken: bool = False) -> Any:
    """Return a compiled function that must not run eagerly when it is called directly."""
    return ndgrad.compile(f, fullgraph=not broken)


def smooth(x: Any, y: Any) -> Any:
    return (x.sin() * y.exp() + x * y * y).sum()


# ----- transforms -----------------------------------------------------------------------------------------------------

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: func.grad(f, (0, 1)),
    "value_and_grad": lambda f: func.grad_and_value(f),
    "vjp": lambda f: lambda x, y: func.vjp(f, x, y)[1](tensor(1.0)),
    "jvp": lambda f: lambda x, y: func.jvp(f, (x, y), (y, x)),
    "hessian": lambda f: func.hessian(f, (0, 1)),
    "jacrev": lambda f: func.jacrev(lambda x, y: ndgrad.stack([f(x, y), x.sum()]), (0, 1)),
    "jacfwd": lambda f: func.jacfwd(f, (0, 1)),
    "vmap": lambda f: lambda x, y: func.vmap(f)(ndgrad.stack([x, y]), ndgrad.stack([y, x])),
    "vmap of grad": lambda f: lambda x, y: func.vmap(func.grad(f), (0, None))(ndgrad.stack([x, y]), y),
    "functionalize": lambda f: func.functionalize(f),
    "checkpoint": lambda f: lambda x, y: checkpoint(f, x, y, use_reentrant=False),
    "backward inside": lambda f: lambda x, y: _by_backward(f, x, y),
}


def _by_backward(f: Any, x: Any, y: Any) -> Any:
    a, b = x.detach().requires_grad_(), y.detach().requires_grad_()
    f(a, b).backward()
    return a.grad, b.grad


@pytest.mark.parametrize("name", TRANSFORMS)
def test_compile_of_a_transform(name: str):
    g = TRANSFORMS[name](smooth)
    c = compiled(g, broken=name == "checkpoint")
    for x, y in ((X, Y), (Y, X)):
        equal(c(tensor(x), tensor(y)), g(tensor(x), tensor(y)))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_of_compile(name: str):
    g = TRANSFORMS[name]
    for x, y in ((X, Y), (Y, X)):
        equal(g(compiled(smooth))(tensor(x), tensor(y)), g(smooth)(tensor(x), tensor(y)))


@pytest.mark.parametrize("outer", ["grad", "vmap", "jvp", "hessian"])
def test_compile_of_a_transform_of_compile(outer: str):
    g = TRANSFORMS[outer]
    equal(compiled(g(compiled(smooth)))(tensor(), tensor(Y)), g(smooth)(tensor(), tensor(Y)))


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "hessian", "jacfwd"])
def test_a_transform_of_a_compiled_function_is_compiled(name: str):
    made = TRANSFORMS[name](compiled(smooth))
    equal(made(tensor(), tensor(Y)), TRANSFORMS[name](smooth)(tensor(), tensor(Y)))
    assert [e.broken for e in made.entries] == [None]
    mapped = func.vmap(func.grad(compiled(smooth)))
    pair = ndgrad.stack([tensor(), tensor(Y)])
    equal(mapped(pair, pair), func.vmap(func.grad(smooth))(pair, pair))
    assert [e.broken for e in mapped.entries] == [None]


def test_dual_numbers_and_derivatives_of_third_order():
    c = compiled(smooth)
    with forward_ad.dual_level():
        out = c(forward_ad.make_dual(tensor(), tensor(Y)), tensor(Y))
        expected = smooth(forward_ad.make_dual(tensor(), tensor(Y)), tensor(Y))
        equal(tuple(forward_ad.unpack_dual(out)), tuple(forward_ad.unpack_dual(expected)))

    def third(f: Any) -> Any:
        x = tensor(requires_grad=True)
        y = tensor(Y, requires_grad=True)
        out = f(x, y)
        for _ in range(3):
            gx, gy = ndgrad.autograd.grad(out, (x, y), create_graph=True)
            out = (gx * gx).sum() + (gx * gy).sum()
        return out.detach(), gx.detach(), gy.detach()

    equal(third(c), third(smooth))


# ----- backward -------------------------------------------------------------------------------------------------------


def both(f: Any, run: Callable[[Any], Any], broken: bool = False) -> None:
    """Check that `run` gives the same result for the compiled function as for the function, in the first and in later
    calls.
    """
    c = compiled(f, broken)
    for _ in range(5):  # the fifth call computes gradients together with the value
        equal(run(c), run(f))


def test_backward_twice_needs_retain_graph():
    def run(f: Any) -> Any:
        x, y = tensor(requires_grad=True), tensor(Y, requires_grad=True)
        out = f(x, y)
        out.backward(retain_graph=True)
        out.backward()
        with pytest.raises(RuntimeError, match="second time"):
            out.backward()
        return x.grad, y.grad

    both(smooth, run)


def test_a_gradient_of_some_results_only():
    def f(x: Any, y: Any) -> Any:
        return (x * y).sum(), (x / (y - y)).sum(), x.exp()

    def run(g: Any) -> Any:
        x, y = tensor(requires_grad=True), tensor(Y, requires_grad=True)
        a, _, c = g(x, y)
        return ndgrad.autograd.grad(a + c.sum(), (x, y))

    with np.errstate(all="ignore"):
        both(f, run)


def test_hooks_and_retained_gradients():
    def run(f: Any) -> Any:
        seen: list[Any] = []
        x, y = tensor(requires_grad=True), tensor(Y, requires_grad=True)
        x.register_hook(lambda g: g * 2)
        h = y * 2
        h.retain_grad()
        h.register_hook(seen.append)
        out = f(x, h)
        out.register_hook(lambda g: g * 3)
        out.retain_grad()
        out.backward()
        return x.grad, y.grad, h.grad, out.grad, *seen

    both(smooth, run)


def test_hooks_on_tensors_from_outside_run_once():
    w = tensor(Y, requires_grad=True)
    seen: list[Any] = []
    w.register_hook(lambda g: seen.append(g) or g * 2)

    def run(f: Any) -> Any:
        w.grad = None
        seen.clear()
        f(tensor()).backward()
        assert len(seen) == 1
        return w.grad

    both(lambda x: (x * w).sin().sum(), run)


def test_tensors_from_outside_that_depend_on_each_other():
    def run(f: Any) -> Any:
        w.grad = None
        f(tensor()).backward(retain_graph=True)
        return w.grad

    w = tensor(Y, requires_grad=True)
    v = w * 3
    both(lambda x: (x * w * v).sin().sum(), run)


def test_results_that_are_needed_for_backward_may_be_written_as_in_eager():
    """Eager code raises for torch's tensor class. So does a compiled call, unless its backward recomputes the result.
    """
    c = compiled(lambda x: (x @ x.t()).exp())
    for _ in range(2):
        x = tensor([X, Y], requires_grad=True)
        out = c(x)
        total = (out * 1).sum()
        with ndgrad.no_grad():
            out.mul_(2)
        with contextlib.suppress(RuntimeError):
            total.backward()
            again = tensor([X, Y], requires_grad=True)
            equal(x.grad, ndgrad.autograd.grad((again @ again.t()).exp().sum(), again)[0])

    def on_numpys_class(f: Any) -> Any:
        x = dnp.array(X).requires_grad_()
        out = f(x)
        loss = (out * out).sum()
        out *= 2
        loss.backward()
        return x.grad

    both(lambda x: dnp.exp(x), on_numpys_class)


def test_inputs_that_are_written_after_the_call():
    def run(f: Any) -> Any:
        x, y = tensor(requires_grad=True), tensor(Y)
        out = f(x, y)
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            out.sum().backward()
        return y

    c = compiled(lambda x, y: x.sin() * y)
    for _ in range(2):
        equal(run(c), run(lambda x, y: x.sin() * y))


class Twice(Function):
    """Compute x * 2 forward, with a custom gradient: times 5."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 5 * x


def test_custom_functions_keep_their_own_backward_to_second_order():
    def run(f: Any) -> Any:
        x = tensor(requires_grad=True)
        (g,) = ndgrad.autograd.grad(f(x), x, create_graph=True)
        return g.detach(), *ndgrad.autograd.grad((g * g).sum(), x)

    both(lambda x: (Twice.apply(x) * x).sum(), run)
    both(lambda x: (x.detach() * x).sum() * x.sum(), run)

    def unrecorded(x: Any) -> Any:
        with ndgrad.no_grad():
            y = x * x
        return (y * x * x).sum()

    both(unrecorded, run)


# ----- modes ----------------------------------------------------------------------------------------------------------


def test_modes_around_and_inside():
    def f(x: Any) -> Any:
        with ndgrad.enable_grad():
            return (x * x).sum()

    c = compiled(f)
    with ndgrad.no_grad():
        equal(c(tensor(requires_grad=True)), f(tensor(requires_grad=True)))
        x = tensor(requires_grad=True)
        c(x).backward()
        np.testing.assert_array_equal(x.grad, 2 * X)
    with ndgrad.inference_mode():
        assert c(tensor()).is_inference()
    with ndgrad.autograd.detect_anomaly():
        x = tensor(requires_grad=True)
        c(x).backward()
        np.testing.assert_array_equal(x.grad, 2 * X)
    inference = ndgrad.inference_mode()
    with inference:
        t = tensor()
    equal(compiled(lambda x: x * 2, broken=True)(t), t * 2)


def test_tensors_without_memory_and_subclasses_run_eagerly():
    class Mine(ndgrad.Tensor):
        pass

    c = ndgrad.compile(lambda x: x * 2)
    assert c(ndgrad.zeros(3, device="meta")).device.type == "meta"
    assert type(c(ndgrad.Tensor._make_subclass(Mine, tensor()))) is type(ndgrad.Tensor._make_subclass(Mine, tensor()) * 2)


# ----- writes and views -----------------------------------------------------------------------------------------------


def test_writes_of_arguments():
    def f(x: Any, y: Any) -> Any:
        x.mul_(2)
        y[1:] += x[:-1]
        return x + y

    def run(g: Any) -> Any:
        x, y = tensor(), tensor(Y)
        out = g(x, y)
        return out, x, y, x._version > 0

    both(f, run)


def test_writes_through_views_of_arguments_and_shared_memory():
    def f(x: Any) -> Any:
        x[0].zero_()
        x.t()[1] = 5.0
        return x.sum()

    def run(g: Any) -> Any:
        whole = tensor(np.arange(12.0).reshape(4, 3))
        part = whole[1:3]
        return g(part), part, whole

    both(f, run)

    def check_shared(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    def overlapping(g: Any) -> Any:
        whole = tensor(np.arange(4.0))
        return g(whole[:3], whole[1:]), whole

    both(check_shared, overlapping, broken=True)


def test_written_arguments_with_a_history():
    def f(x: Any, w: Any) -> Any:
        x.mul_(w)
        return x.sum()

    def run(g: Any) -> Any:
        w = tensor(Y, requires_grad=True)
        x = tensor() * 1
        out = g(x, w)
        (out + x.sum()).backward()
        return w.grad

    both(f, run, broken=True)


def test_buffers_of_modules_are_updated():
    def run(wrapped: Any) -> Any:
        ndgrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh()).double()
        net = wrapped(model)
        for seed in range(3):
            net(tensor(np.random.default_rng(seed).standard_normal((5, 3)))).sum().backward()
        return [*model.buffers(), *[p.grad for p in model.parameters()]]

    equal(run(compiled), run(lambda model: model))


def test_results_that_are_arguments_views_or_share_memory():
    def f(x: Any) -> Any:
        y = x * 2
        return x, x[1:], y, y[0], y.t(), (y, y)

    def run(g: Any) -> Any:
        x = tensor(np.arange(6.0).reshape(2, 3))
        same, part, y, row, across, pair = g(x)
        assert same is x
        assert pair[0] is y
        assert pair[1] is y
        part.zero_()
        row.add_(100)
        return x, y, across

    both(f, run)


def test_views_of_results_have_gradients():
    def f(x: Any) -> Any:
        y = x * 2
        return y, y[1:]

    def run(g: Any) -> Any:
        x = tensor(requires_grad=True)
        y, part = g(x)
        (part * part).sum().backward()
        return x.grad, y.detach()

    both(f, run)


def test_constants_that_are_returned_are_new_each_time():
    c = compiled(lambda x: (ndgrad.zeros(2), ndgrad.tensor([1.0, 2.0]), x))
    for _ in range(3):
        zeros, numbers, _ = c(tensor())
        zeros.add_(1)
        numbers.mul_(3)
        assert zeros.tolist() == [1.0, 1.0]
        assert numbers.tolist() == [3.0, 6.0]


def test_tensors_that_a_function_makes_and_writes():
    def f(x: Any) -> Any:
        made = ndgrad.tensor([1.0, 2.0, 3.0], dtype=ndgrad.float64)
        made[0] = x.sum()
        made.add_(x)
        return made

    both(f, lambda g: g(tensor()))


def test_arrays_that_numpy_writes_while_tensors_share_them():
    buffer = np.zeros(3)

    def f(x: Any) -> Any:
        t = ndgrad.from_numpy(buffer)
        t.add_(x)
        return t * 2

    def run(g: Any) -> Any:
        buffer[...] = 0
        return g(tensor()).clone(), ndgrad.tensor(buffer)

    both(f, run, broken=True)

    def local(x: Any) -> Any:
        a = np.ones(3)
        y = x * a
        a[0] = 5.0
        return y + x * a

    both(local, lambda g: g(tensor()))


def test_out_ufunc_at_and_buffers_on_numpys_class():
    def f(x: Any) -> Any:
        out = dnp.zeros(3)
        np.add(x, 1.0, out=out)
        np.add.at(out, [0, 0, 2], x)
        u = dnp.empty_like(x)
        u[0] = x[0]
        for i in range(1, 3):
            u[i] = u[i - 1] * x[i] + out[i]
        out[:] = u * out
        return out

    def run(g: Any) -> Any:
        x = dnp.array(X).requires_grad_()
        out = g(x)
        out.sum().backward()
        return out.detach(), x.grad

    both(f, run)


def test_lifted_functions():
    def f(x: Any) -> Any:
        u = np.zeros(3)
        for i in range(1, 3):
            u[i] = u[i - 1] + x[i] ** 2
        return u

    def run(g: Any) -> Any:
        x = dnp.array(X).requires_grad_()
        out = g(x)
        out.sum().backward()
        return out.detach(), x.grad

    lifted = ndgrad.lift(f)
    equal(run(ndgrad.compile(lifted)), run(lifted))


# ----- Python ---------------------------------------------------------------------------------------------------------


def test_recursion_generators_and_nested_functions():
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    def parts(x: Any) -> Any:
        yield x.sin()
        yield x.cos()

    both(lambda x: power(x, 4) + sum(parts(x)), lambda g: g(tensor()))
    inner = compiled(lambda x: x.sin())
    both(lambda x: inner(x) * inner(x * 2), lambda g: g(tensor()))


def test_methods_and_decorated_methods():
    class Model:
        def __init__(self, k: float) -> None:
            self.k = k
            self.w = tensor(Y)

        @ndgrad.compile
        def scaled(self, x: Any) -> Any:
            return x * self.k * self.w

    first, second = Model(2.0), Model(3.0)
    for model in (first, second, first):
        equal(model.scaled(tensor()), tensor() * model.k * model.w)


def test_modules_keep_their_surface():
    model = nn.Linear(3, 2)
    c = ndgrad.compile(model)
    assert c.in_features == 3
    assert c._orig_mod is model
    assert c.weight is model.weight
    c.eval()
    assert not model.training
    c.train()
    assert model.training
    assert list(c.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    x = ndgrad.ones(1, 3)
    for other in (pickle.loads(pickle.dumps(c)), copy.deepcopy(c)):
        assert type(other) is type(c)
        assert other._orig_mod is not model
        equal(other(x), c(x))
    names = [name for name, _ in nn.Sequential(c).named_parameters()]
    assert names == ["0._orig_mod.weight", "0._orig_mod.bias"]


def test_an_interrupt_while_tracing_leaves_everything_usable():
    stop = [True]

    def f(x: Any) -> Any:
        y = x * w
        if stop[0]:
            raise KeyboardInterrupt
        return y.sum()

    w = tensor(Y, requires_grad=True)
    c = compiled(f)
    with pytest.raises(KeyboardInterrupt):
        c(tensor())
    assert w._array.__class__ is np.ndarray
    assert w.grad is None
    assert "_array" not in vars(ndgrad.Tensor)
    stop[0] = False
    equal(c(tensor()), (tensor() * w).sum())


def test_threads_trace_and_call_one_function():
    w = tensor(Y, requires_grad=True)
    c = compiled(lambda x: (x * w).sin().sum())
    found: list[Any] = []

    def work(k: int) -> None:
        for i in range(10):
            x = tensor(np.ones(2 + (k + i) % 3)[:3] * 1.0) if False else tensor(X * (i + 1))
            found.append(abs(float(c(x).detach()) - float(np.sin(X * (i + 1) * Y).sum())))
            float((w * 2).sum().detach())  # eager work during a trace

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 40
    assert max(found) < 1e-14
    assert "_array" not in vars(ndgrad.Tensor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_fork_while_another_thread_traces():
    inside, done = threading.Event(), threading.Event()

    def f(x: Any) -> Any:
        inside.set()
        done.wait(20)
        return x * 2

    thread = threading.Thread(target=lambda: ndgrad.compile(f)(tensor()))
    thread.start()
    inside.wait(20)
    child = os.fork()
    if child == 0:
        os._exit(0 if "_array" not in vars(ndgrad.Tensor) and (tensor() * 2).sum().item() == 2.0 else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "_array" not in vars(ndgrad.Tensor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_fork_after_compiling():
    c = compiled(lambda x: (x * x).sum())
    expected = float(c(tensor()))
    child = os.fork()
    if child == 0:
        os._exit(0 if float(c(tensor())) == expected and float(c(tensor([1.0, 2.0]))) == 5.0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ----- derivatives that cannot be traced --------------------------------------------------------------------------------


class Slope(ndgrad.autograd.Function):
    """Compute 3 x^2, with a backward that reads values."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return 3 * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return 6 * x * g if g.abs().max() > 0 else g


class Cube(ndgrad.autograd.Function):
    """Compute x^3. The function and its gradient can be traced; the gradient of the gradient cannot."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return Slope.apply(x) * g


def test_derivatives_that_ask_for_values_are_those_of_the_function() -> None:
    scale = ndgrad.tensor(1.5, requires_grad=True)

    def function(x: Any) -> Any:
        return (Cube.apply(x).sin() * scale).sum()

    compiled = ndgrad.compile(function, fullgraph=True)
    x = ndgrad.tensor(np.random.default_rng(3).standard_normal(4), requires_grad=True)
    for _ in range(2):
        outcomes = []
        for f in (function, compiled):
            first = ndgrad.autograd.grad(f(x), (x, scale), create_graph=True)
            second = ndgrad.autograd.grad(first[0].square().sum() + first[1], (x, scale), create_graph=True)
            third = ndgrad.autograd.grad(second[0].sum(), x)
            outcomes.append([*first, *second, *third])
        for found, expected in zip(*outcomes, strict=True):
            np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-9)


def test_such_a_function_that_draws_random_numbers_is_not_run_again() -> None:
    x = ndgrad.tensor(np.random.default_rng(3).standard_normal(4), requires_grad=True)
    y = ndgrad.compile(lambda x: (Cube.apply(x) * ndgrad.rand(4, dtype=x.dtype)).sum(), fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="it is not run again"):
        ndgrad.autograd.grad(y, x, create_graph=True)
