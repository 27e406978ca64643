"""Registered Python ops in every mode: compiled, batched, differentiated, traced, in threads. NumPy is the oracle."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import ndgrad
from ndgrad import Tensor, library
from ndgrad._src.ops.table import table
from ndgrad.fx.experimental.proxy_tensor import make_fx

X = np.linspace(0.1, 1.3, 6, dtype=np.float32).reshape(2, 3)


def define_sine(name: str, *, fake: bool = True, derivative: bool = True) -> library.CustomOpDef:
    @library.custom_op(name, mutates_args=())
    def sine(x: Tensor, n: int = 2) -> Tensor:
        return ndgrad.from_numpy(np.sin(x.numpy()) * n)

    if fake:
        sine.register_fake(lambda x, n=2: ndgrad.empty_like(x))
    if derivative:

        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.n = inputs[1]

        sine.register_autograd(lambda ctx, g: (g * ctx.n * ctx.saved_tensors[0].cos(), None), setup_context=setup_context)
    return sine


def test_compiled_calls_and_gradients_are_the_eager_ones():
    sine = define_sine("tests::compiled")
    f = ndgrad.compile(lambda x: sine(x * 2, 3) + 1, fullgraph=True)
    x = ndgrad.tensor(X, requires_grad=True)
    for _ in range(2):
        np.testing.assert_allclose(f(x).detach().numpy(), np.sin(2 * X) * 3 + 1, rtol=1e-6)
        (g,) = ndgrad.autograd.grad(f(x).sum(), x)
        np.testing.assert_allclose(g.numpy(), 6 * np.cos(2 * X), rtol=1e-5)
    assert "tests_compiled_default" in str(ndgrad.compiler.graph(lambda x: sine(x), ndgrad.tensor(X)).traced)


def test_compile_without_fake_kernel_runs_eagerly():
    sine = define_sine("tests::without_fake", fake=False)
    f = ndgrad.compile(lambda x: sine(x) + 1)
    np.testing.assert_allclose(f(ndgrad.tensor(X)).numpy(), np.sin(X) * 2 + 1, rtol=1e-6)


def test_compiled_function_follows_later_registrations():
    sine = define_sine("tests::later")
    f = ndgrad.compile(lambda x: sine(x))
    x = ndgrad.tensor(X, requires_grad=True)
    f(x)
    sine.register_autograd(lambda ctx, g: (g * 100, None))
    (g,) = ndgrad.autograd.grad(f(x).sum(), x)
    np.testing.assert_array_equal(g.numpy(), np.full_like(X, 100))
    sine.register_kernel("cpu", lambda x, n=2: x + 7)
    np.testing.assert_allclose(f(x).detach().numpy(), X + 7)


def test_transforms_compose():
    sine = define_sine("tests::transforms")
    x = ndgrad.tensor(X)
    want = 2 * np.cos(X)
    total = lambda x: sine(x).sum()
    np.testing.assert_allclose(ndgrad.func.grad(total)(x).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(ndgrad.vmap(ndgrad.func.grad(total))(x).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(ndgrad.compile(ndgrad.func.grad(total), fullgraph=True)(x).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(ndgrad.func.grad(lambda x: ndgrad.func.grad(total)(x).sum())(x).numpy(), -2 * np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(ndgrad.func.jacrev(sine)(x[0]).numpy(), np.diag(want[0]), rtol=1e-6)
    np.testing.assert_allclose(ndgrad.vmap(sine, in_dims=1, out_dims=1)(x).numpy(), 2 * np.sin(X), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        ndgrad.func.jvp(sine, (x,), (x,))


def test_second_order_of_backward():
    sine = define_sine("tests::second")
    assert ndgrad.autograd.gradgradcheck(lambda x: sine(x), ndgrad.tensor(X.astype(np.float64), requires_grad=True))


def test_compiled_writes_reach_the_argument():
    @library.custom_op("tests::accumulate", mutates_args={"x"})
    def accumulate(x: Tensor, y: Tensor) -> Tensor:
        x.numpy()[...] += y.numpy()
        return y * 2

    accumulate.register_fake(lambda x, y: ndgrad.empty_like(y))

    def f(x, y):
        x = x.clone()
        z = accumulate(x, y)
        return x * 10 + z

    x = ndgrad.tensor(X)
    want = (X + 2 * X) * 10 + 4 * X
    np.testing.assert_allclose(f(x, x * 2).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(ndgrad.compile(f, fullgraph=True)(x, x * 2).numpy(), want, rtol=1e-6)
    traced = make_fx(f)(x, x)
    np.testing.assert_allclose(traced(x, x * 2).numpy(), want, rtol=1e-6)
    assert "ndgrad.ops.tests.accumulate.default(" in traced.code
    compiled, target = ndgrad.compile(lambda x, y: accumulate(x, y), fullgraph=True), ndgrad.zeros(2)
    for count in (1, 2):
        compiled(target, ndgrad.ones(2))
        assert target.tolist() == [count, count]


def test_lists_of_results_are_batched_traced_and_compiled():
    @library.custom_op("tests::multiples", mutates_args=())
    def multiples(xs: list[Tensor], n: int) -> tuple[Tensor, list[Tensor]]:
        return xs[0] * n, [x * n for x in xs]

    multiples.register_fake(lambda xs, n: (ndgrad.empty_like(xs[0]), [ndgrad.empty_like(x) for x in xs]))
    multiples.register_autograd(lambda ctx, g, gs: ([h * 3 + (g * 3 if i == 0 else 0) for i, h in enumerate(gs)], None))

    def f(x):
        first, rest = multiples([x, x * 2], 3)
        return first + sum(rest)

    x = ndgrad.tensor(X)
    for run in (f, ndgrad.vmap(f), ndgrad.compile(f, fullgraph=True), make_fx(f)(x)):
        np.testing.assert_allclose(run(x).numpy(), 12 * X, rtol=1e-6)
    np.testing.assert_allclose(ndgrad.func.grad(lambda x: f(x).sum())(x).numpy(), np.full_like(X, 12.0))


def test_make_fx_keeps_the_call():
    sine = define_sine("tests::kept")
    traced = make_fx(lambda x: sine(x * 2, 3) + 1)(ndgrad.tensor(X))
    assert "ndgrad.ops.tests.kept.default(mul, 3)" in traced.code
    np.testing.assert_allclose(traced(ndgrad.tensor(X)).numpy(), np.sin(2 * X) * 3 + 1, rtol=1e-6)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(traced))(ndgrad.tensor(X)).numpy(), np.sin(2 * X) * 3 + 1, rtol=1e-6)


def test_ops_are_copied_and_pickled_by_name():
    sine = define_sine("tests::pickled")
    for thing in (sine, ndgrad.ops.tests.pickled, ndgrad.ops.tests.pickled.default):
        assert pickle.loads(pickle.dumps(thing)) is thing
        assert copy.deepcopy(thing) is thing
    assert not [name for name in table if name.startswith("tests_pickled")]


def test_definition_again_replaces_the_op():
    define_sine("tests::again")
    again = library.custom_op("tests::again", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert ndgrad.ops.tests.again(ndgrad.zeros(1)).item() == 1.0
    assert str(again._opoverload._schema) == "tests::again(Tensor x) -> Tensor"


def test_threads_call_an_op_with_their_own_forms():
    sine = define_sine("tests::threads")
    failures = []

    def work(n: int) -> None:
        for _ in range(30):
            x = ndgrad.tensor(X, requires_grad=True)
            (g,) = ndgrad.autograd.grad(sine(x, n).sum(), x)
            if not np.allclose(g.numpy(), n * np.cos(X), rtol=1e-5):
                failures.append(n)

    workers = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3, 4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert not failures


def test_error_in_a_kernel_leaves_modes_intact():
    @library.custom_op("tests::raises", mutates_args=())
    def raises(x: Tensor) -> Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        raises(ndgrad.ones(1, requires_grad=True))
    with pytest.raises(ValueError, match="no"):
        ndgrad.vmap(raises)(ndgrad.ones(2, 1))
    assert ndgrad.is_grad_enabled()
    assert (ndgrad.ones(1, requires_grad=True) * 2).requires_grad


def test_autocast_casts_inputs():
    sine = define_sine("tests::autocast")
    seen = []
    sine.register_kernel("cpu", lambda x, n=2: (seen.append(x.dtype), x * n)[1])
    sine.register_autocast("cpu", ndgrad.bfloat16)
    with ndgrad.autocast("cpu", dtype=ndgrad.bfloat16):
        sine(ndgrad.ones(2, dtype=ndgrad.float32))
    sine(ndgrad.ones(2, dtype=ndgrad.float32))
    assert seen == [ndgrad.bfloat16, ndgrad.float32]


def test_tensor_subclass_with_a_rule():
    class Wrapped(ndgrad.Tensor):
        @staticmethod
        def __new__(cls, elem):
            return ndgrad.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype)

        def __init__(self, elem):
            self.elem = elem

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [a.elem if isinstance(a, cls) else a for a in args]
            return cls(func(*plain, **(kwargs or {})))

    sine = define_sine("tests::wrapped")
    np.testing.assert_allclose(sine(Wrapped(ndgrad.tensor(X))).elem.numpy(), 2 * np.sin(X), rtol=1e-6)
    sine.register_torch_dispatch(Wrapped, lambda func, types, args, kwargs: Wrapped(args[0].elem * 0))
    assert not sine(Wrapped(ndgrad.tensor(X))).elem.any()


def test_opcheck_runs_all_tests():
    sine = define_sine("tests::checked")
    outcomes = library.opcheck(sine, (ndgrad.tensor(X, requires_grad=True), 3))
    assert set(outcomes.values()) == {"SUCCESS"}
    assert len(outcomes) == 4
    bare = define_sine("tests::unregistered", derivative=False)
    with pytest.raises(library.OpCheckError, match="test_autograd_registration"):
        library.opcheck(bare, (ndgrad.tensor(X, requires_grad=True),))
    with pytest.raises(ValueError, match="test_nothing"):
        library.opcheck(sine, (ndgrad.tensor(X),), test_utils="test_nothing")


def test_refusals_name_a_way_out():
    lib = library.Library("tests_refusals", "FRAGMENT")
    lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="no counterpart"):
        lib.impl("f", lambda x: x, "ADInplaceOrView")
    with pytest.raises(NotImplementedError, match="dispatch mode"):
        library.Library("aten", "IMPL").impl("mul.Tensor", lambda x, y: x, "CPU")
    with pytest.raises(NotImplementedError, match="dispatch mode"):
        lib.fallback(lambda x: x)
    with pytest.raises(AttributeError, match="custom_op"):
        library.triton_op
    with pytest.raises(OSError, match="custom_op"):
        ndgrad.ops.load_library("x.so")
    lib._destroy()


def test_kernel_may_be_registered_before_the_definition():
    with library._scoped_library("tests_early", "FRAGMENT") as lib:
        lib.impl("f", lambda x: x + 1, "CPU")
        lib.define("f(Tensor x) -> Tensor")
        assert ndgrad.ops.tests_early.f(ndgrad.zeros(1)).item() == 1.0
    assert not hasattr(ndgrad.ops.tests_early, "f")


def test_an_overload_is_defined_by_its_name_and_writes_to_its_argument():
    library = ndgrad.library
    library.define("overloaded::mm", "(Tensor a, Tensor b) -> Tensor")
    library.define("overloaded::mm.out", "(Tensor a, Tensor b, Tensor! out) -> ()")
    library.register_kernel("overloaded::mm", "cpu", lambda a, b: a @ b)
    library.register_kernel("overloaded::mm.out", "cpu", lambda a, b, out: out.copy_(a @ b) and None)
    x, out = ndgrad.tensor([[2.0]]), ndgrad.zeros(1, 1)
    version = out._version
    assert ndgrad.ops.overloaded.mm.out(x, x, out) is None
    assert out.tolist() == ndgrad.ops.overloaded.mm(x, x).tolist() == [[4.0]]
    assert out._version > version
    assert [bool(a.alias_info and a.alias_info.is_write) for a in ndgrad.ops.overloaded.mm.out._schema.arguments] == [False, False, True]
    with pytest.raises(ValueError, match=r"overloaded::mm\.1a"):
        library.define("overloaded::mm.1a", "(Tensor a) -> Tensor")
