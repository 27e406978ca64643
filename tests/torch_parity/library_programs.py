# ruff: noqa: UP006, UP007, UP045, UP035, B023
"""Programs that register ops and call them, on torch.library and on ndgrad.library alike.

A program gets the library and returns texts and values. Every program uses its own names of ops.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any, List, Optional, Tuple, Union

import numpy as np

from tests.torch_parity.side_by_side import Programs

library_programs = Programs()
program = library_programs.enter


def attempt(f: Any) -> Any:
    try:
        return f()
    except Exception as error:
        return type(error).__name__


def annotated(function: Any, **types: Any) -> Any:
    function.__annotations__ = types
    return function


def numpy_sin(m: Any, name: str) -> Any:
    def kernel(x, n=2, *, s=1.0):
        return m.from_numpy(np.sin(x.numpy()) * n * s)

    T = m.Tensor
    return m.library.custom_op(name, annotated(kernel, **{"x": T, "n": int, "s": float, "return": T}), mutates_args=())


def with_rules(m: Any, name: str) -> Any:
    f = numpy_sin(m, name)
    f.register_fake(lambda x, n=2, *, s=1.0: m.empty_like(x))

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.n, ctx.s = inputs[1], keyword_only_inputs["s"]

    f.register_autograd(
        lambda ctx, g: (g * ctx.n * ctx.s * ctx.saved_tensors[0].cos(), None), setup_context=setup_context
    )
    return f


@program
def names_and_schema_of_a_custom_op(m):
    f = numpy_sin(m, "nd_a::names")
    op = m.ops.nd_a.names
    return [
        repr(f), str(op), repr(op), repr(op.default), str(op.default), op.default.name(), op.overloads(),
        op.default._overloadname, op.default.__name__, op.__name__, op._qualified_op_name, str(op.default._schema),
        op.default.namespace, op.default.overloadpacket is op, copy.deepcopy(op.default) is op.default,
        hasattr(m.ops.nd_a, "other"), hasattr(m.ops.nd_nothing, "f"),
    ]  # fmt: skip


@program
def schemas_of_annotations(m):
    T = m.Tensor

    def f(a, b, c, d, e, f, g, h, i, j, k, l=None, q=3, n=2.0, o="x", p=True, *, r=None, s=1): ...

    types = {
        "a": T, "b": Optional[T], "c": List[T], "d": Sequence[int], "e": Optional[int], "f": float, "g": bool,
        "h": str, "i": m.dtype, "j": m.device, "k": Union[int, float, bool], "l": Optional[List[int]], "q": int,
        "n": float, "o": str, "p": bool, "r": Optional[float], "s": int | None,
        "return": Tuple[T, List[T], int, float, bool],
    }  # fmt: skip
    infer = m.library.infer_schema
    found = [infer(annotated(f, **types), mutates_args=()), infer(f, mutates_args={"a", "c"}), infer(f, mutates_args="unknown")]
    found.append(infer(f, mutates_args=(), op_name="lib::f"))
    found += [attempt(lambda: infer(f, mutates_args={"zz"})), attempt(lambda: infer(f, mutates_args={"q"}))]
    for wrong in ({"x": dict, "return": T}, {"x": T}, {"return": T}, {"x": T, "return": dict}, {"x": List[List[int]], "return": T}):
        found.append(attempt(lambda: infer(annotated(lambda x: x, **wrong), mutates_args=())))
    found.append(attempt(lambda: infer(annotated(lambda *x: x, x=T), mutates_args=())))
    return found


@program
def arguments_are_bound_by_the_schema(m):
    f = numpy_sin(m, "nd_a::bound")
    x = m.ones(2)
    return [
        f(x), f(x, 3), f(x=x, n=3, s=2), m.ops.nd_a.bound(x, n=4), f(x, True), attempt(lambda: f("a")),
        attempt(lambda: f(x, 2.5)), attempt(lambda: f(x, 2, 3.0)), attempt(lambda: f()), attempt(lambda: f(x, m=3)),
        attempt(lambda: f(x, x=x)), attempt(lambda: f(x, s="a")),
    ]  # fmt: skip


@program
def gradients_of_a_custom_op(m):
    f = with_rules(m, "nd_a::graded")
    x = m.tensor([0.5, 1.0], requires_grad=True)
    y = f(x, 3, s=2.0)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return [y, y.grad_fn.name(), g, h, f(x.detach()).requires_grad]


@program
def backward_without_a_formula(m):
    f = numpy_sin(m, "nd_a::no_formula")
    y = f(m.ones(2, requires_grad=True))
    return [y.requires_grad, attempt(lambda: y.sum().backward())]


@program
def setup_context_is_only_called_for_gradients(m):
    seen = []
    f = numpy_sin(m, "nd_a::setup")
    f.register_autograd(lambda ctx, g: (g, None), setup_context=lambda ctx, inputs, keyword_only_inputs, output: seen.append(1))
    f(m.ones(2))
    with m.no_grad():
        f(m.ones(2, requires_grad=True))
    before = len(seen)
    f(m.ones(2, requires_grad=True))
    return [before, len(seen)]


@program
def lists_of_tensors(m):
    T = m.Tensor
    f = annotated(lambda xs, n: [x * n for x in xs], **{"xs": List[T], "n": int, "return": List[T]})
    f = m.library.custom_op("nd_a::lists", f, mutates_args=())
    kinds = []

    def setup_context(ctx, inputs, output):
        kinds.extend([type(inputs[0]).__name__, type(output).__name__])
        ctx.n = inputs[1]

    f.register_autograd(lambda ctx, g: ([h * ctx.n for h in g], None), setup_context=setup_context)
    a, b = m.ones(2, requires_grad=True), m.ones(3, requires_grad=True)
    out = f([a, b], 3)
    return [out, m.autograd.grad(out[0].sum() + 2 * out[1].sum(), (a, b)), kinds, f([], 2)]


@program
def vmap_with_and_without_a_rule(m):
    f = with_rules(m, "nd_a::batched")
    x = m.arange(6.0).reshape(2, 3)
    before = m.vmap(f)(x)
    seen = []

    @f.register_vmap
    def rule(info, in_dims, x, n=2, *, s=1.0):
        seen.append((info.batch_size, info.randomness, in_dims, n, s))
        return f(x, n, s=s), in_dims[0]

    return [before, m.vmap(f)(x), m.vmap(lambda x: f(x, 5, s=2.0))(x), m.vmap(f, in_dims=1, out_dims=1)(x).shape, seen[:2]]


@program
def ops_that_write(m):
    T = m.Tensor

    def kernel(x, y):
        x.numpy()[...] += y.numpy()

    f = m.library.custom_op("nd_a::writes", annotated(kernel, **{"x": T, "y": T, "return": None}), mutates_args={"x"})
    x = m.ones(3)
    version = x._version
    saved = m.ones(3, requires_grad=True)
    product = saved * x
    f(x, m.ones(3))
    return [
        x, x._version > version, str(m.ops.nd_a.writes.default._schema), attempt(lambda: product.sum().backward()),
        attempt(lambda: f.register_autograd(lambda ctx, g: g)), attempt(lambda: m.vmap(lambda q: f(q, m.ones(3)))(m.ones(2, 3))),
    ]  # fmt: skip


@program
def results_must_not_alias_arguments(m):
    T = m.Tensor
    found = []
    for number, kernel in enumerate((lambda x: x, lambda x: x.view(-1), lambda x: x[1:])):
        f = m.library.custom_op(f"nd_a::alias{number}", annotated(kernel, **{"x": T, "return": T}), mutates_args=())
        found.append(attempt(lambda: f(m.ones(2))))
    return found


@program
def fake_kernels_serve_meta_tensors(m):
    f = numpy_sin(m, "nd_a::fake")
    missing = attempt(lambda: f(m.ones(3, device="meta"))) in ("RuntimeError", "NotImplementedError")
    f.register_fake(lambda x, n=2, *, s=1.0: x.new_empty(n, *x.shape))
    out = f(m.ones(3, device="meta"), 4)
    return [missing, out.shape, out.device.type]


@program
def kernels_per_device(m):
    f = numpy_sin(m, "nd_a::kernels")
    f.register_kernel("cpu")(lambda x, n=2, *, s=1.0: x + 100)
    with f.set_kernel_enabled("cpu", False):
        inside = f(m.zeros(2))
    T = m.Tensor
    g = m.library.custom_op("nd_a::cuda_only", annotated(lambda x: x + 1, **{"x": T, "return": T}), mutates_args=(), device_types="cuda")
    return [inside, f(m.zeros(2)), attempt(lambda: g(m.zeros(2)))]


@program
def libraries_define_and_implement(m):
    lib = m.library.Library("nd_b", "FRAGMENT")
    lib.define("g(Tensor x, Tensor? y=None, int[2] k=[1, 2], *, float eps=1e-05, str mode='a', bool b=False) -> Tensor")
    seen = []

    def kernel(x, y=None, k=(1, 2), *, eps=1e-5, mode="a", b=False):
        seen.append((y is None, list(k), eps, mode, b))
        return x * 2

    early = attempt(lambda: m.ops.nd_b.g(m.ones(2)))
    lib.impl("g", kernel, "CPU")
    x = m.ones(2, requires_grad=True)
    found = [str(m.ops.nd_b.g.default._schema), early, m.ops.nd_b.g(x, None, 3), m.ops.nd_b.g(x, k=[4, 5], mode="b")]
    found += [m.autograd.grad(m.ops.nd_b.g(x).sum(), x), attempt(lambda: m.ops.nd_b.g(m.ones(2, device="meta"))), seen]
    lib.define("h.Tensor(Tensor x, Tensor y) -> Tensor")
    lib.define("h.Scalar(Tensor x, Scalar y) -> Tensor")
    lib.impl("h.Tensor", lambda x, y: x + y, "CompositeExplicitAutograd")
    lib.impl("h.Scalar", lambda x, y: x - y, "CompositeImplicitAutograd")
    found += [m.ops.nd_b.h(x, x), m.ops.nd_b.h(x, 3), m.ops.nd_b.h.overloads(), attempt(lambda: m.ops.nd_b.h("s"))]
    found.append(attempt(lambda: lib.define("h.Tensor(Tensor x, Tensor y) -> Tensor")))
    found += [attempt(lambda: lib.define("q(Foo x) -> Tensor")), attempt(lambda: lib.impl("h.Tensor", lambda x, y: x, "Foo"))]
    found += [attempt(lambda: m.library.Library("nd_b", "ZZ")), attempt(lambda: m.library.Library("prim", "DEF"))]
    lib._destroy()
    return [*found, hasattr(m.ops.nd_b, "g")]


@program
def functions_of_the_module(m):
    lib = m.library.Library("nd_c", "FRAGMENT")
    m.library.define("nd_c::k", "(Tensor x) -> Tensor", lib=lib)

    @m.library.impl("nd_c::k", "cpu", lib=lib)
    def k(x):
        return x.detach().sin()

    x = m.ones(2, requires_grad=True)
    first = m.ops.nd_c.k(x).requires_grad
    m.library.register_autograd("nd_c::k", lambda ctx, g: g * 5, lib=lib)
    m.library.register_fake("nd_c::k", lambda x: m.empty_like(x), lib=lib)
    found = [first, m.autograd.grad(m.ops.nd_c.k(x).sum(), x), m.ops.nd_c.k(m.ones(3, device="meta")).shape]

    @m.library.impl(lib, "k", "Meta")
    def meta(x):
        return m.empty_like(x)

    found.append(attempt(lambda: m.library.register_fake("nd_c::nothing", lambda x: x)))
    lib._destroy()
    return found


@program
def autograd_kernels(m):
    lib = m.library.Library("nd_d", "DEF")
    lib.define("k(Tensor x) -> Tensor")
    lib.impl("k", lambda x: x.detach().sin(), "CPU")

    class Own(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with m._C._AutoDispatchBelowAutograd():
                return m.ops.nd_d.k(x)

        @staticmethod
        def backward(ctx, g):
            return g * 7

    lib.impl("k", Own.apply, "Autograd")
    x = m.ones(2, requires_grad=True)
    out = m.ops.nd_d.k(x)
    found = [out, m.autograd.grad(out.sum(), x), attempt(lambda: m.library.Library("nd_d", "DEF"))]
    lib._destroy()
    return found


@program
def opcheck_finds_wrong_registrations(m):
    T = m.Tensor
    x = m.ones(3, requires_grad=True)
    check = m.library.opcheck
    good = with_rules(m, "nd_a::good")
    found = [check(good, (x, 3), test_utils="test_schema")]

    def writes(x):
        x.detach().add_(1)
        return x.clone()

    wrong = m.library.custom_op("nd_a::wrong", annotated(writes, **{"x": T, "return": T}), mutates_args=())
    found.append(attempt(lambda: check(wrong, (m.ones(3),), test_utils="test_schema")))
    bare = numpy_sin(m, "nd_a::bare")
    bare.register_fake(lambda x, n=2, *, s=1.0: x.new_empty(7))
    found.append(attempt(lambda: check(bare, (m.ones(3),), test_utils="test_faketensor")))
    outcomes = check(bare, (m.ones(3),), test_utils="test_faketensor", raise_exception=False)
    return [*found, list(outcomes), isinstance(outcomes["test_faketensor"], Exception)]


@program
def graphs_show_one_node(m):
    f = with_rules(m, "nd_a::traced")
    traced = m.fx.symbolic_trace(lambda x: f(x * 2, 3) + 1)
    return [traced.code, str(traced.graph), traced(m.ones(2)), pickle.loads(pickle.dumps(traced))(m.ones(2))]


@program
def dispatch_modes_see_the_op(m):
    from importlib import import_module

    f = with_rules(m, "nd_a::seen")
    seen = []

    class Mode(import_module(f"{m.__name__}.utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is m.ops.nd_a.seen.default:
                seen.append((str(func), len(args), kwargs))
            return func(*args, **(kwargs or {}))

    with Mode():
        out = f(m.ones(2, requires_grad=True), 3, s=2.0)

    class Other(Mode):
        pass

    f.register_torch_dispatch(Other, lambda mode, func, types, args, kwargs: args[0] * 10)
    with Other():
        ruled = f(m.ones(2))
    return [out, out.requires_grad, seen, ruled]
