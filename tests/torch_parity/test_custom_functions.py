"""Custom functions in depth: switches of ctx, classes, lifetimes, errors, compositions; torch and ndgrad alike.

The common cases are in test_function.
"""

from __future__ import annotations

import gc
import pickle
import traceback
import warnings
import weakref
from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.custom import keep, make, slope, with_setup
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


# ----- switches of ctx --------------------------------------------------------------------------------------------------


@program
def saved_tensors_cleared_on_access(m):
    events = []

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        events.append(attempt(lambda: ctx.saved_tensors))
        return 2 * x * g

    x = leaf(m, 2)
    f = make(m, keep, backward, clear_saved_tensors_on_access=True)
    y = f.apply(x).sum()
    y.backward(retain_graph=True)
    return events, x.grad, attempt(lambda: y.backward())


@program
def saved_tensors_can_be_read_twice_otherwise(m):
    def backward(ctx, g):
        (a,), (b,) = ctx.saved_tensors, ctx.saved_tensors
        return (a + b) * g

    x = leaf(m, 2)
    make(m, keep, backward).apply(x).sum().backward()
    return x.grad


@program
def maybe_clear_saved_tensors(m):
    events = []

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        ctx.maybe_clear_saved_tensors()
        events.append(isinstance(attempt(lambda: ctx.saved_tensors), str))
        return 2 * x * g

    f = make(m, keep, backward)
    f.apply(leaf(m, 2)).sum().backward()
    f.apply(leaf(m, 2)).sum().backward(retain_graph=True)
    return events


@program
def gradients_in_a_box(m):
    seen = []

    def backward(ctx, grads):
        seen.append((type(grads).__name__, len(grads)))
        a, b = grads
        grads.clear()
        return 2 * a + 3 * b

    x = leaf(m, 2)
    make(m, lambda ctx, x: (x * 2, x * 3), backward, boxed_grads_call=True).apply(x)[0].sum().backward()
    return [list(s) for s in seen], x.grad


@program
def gradients_of_marked_results_may_be_none(m):
    seen = []

    def forward(ctx, x, flag):
        ctx._materialize_non_diff_grads = flag
        b = x.round()
        ctx.mark_non_differentiable(b)
        return x * 2, b

    def backward(ctx, a, b):
        seen.append(b is None)
        return 2 * a, None

    for flag in (True, False):
        make(m, forward, backward).apply(leaf(m, 2), flag)[0].sum().backward()
    return seen


@program
def a_pure_view_may_be_written(m):
    def forward(ctx, x, pure):
        ctx._is_pure_view = pure
        return x.view(-1)

    found = []
    for pure in (True, False):
        x = leaf(m, 2)
        h = x * 1
        v = make(m, forward, lambda ctx, g: (g.view(2), None)).apply(h, pure)
        found.append(attempt(lambda v=v: v.mul_(3).sum().item()))
        if pure:
            h.sum().backward()
            found.append(plain(x.grad))
    return found


@program
def materializing_takes_a_bool(m):
    def forward(ctx, x):
        ctx.set_materialize_grads("no")
        return x * 2

    make(m, forward, lambda ctx, g: g).apply(leaf(m, 2))


@program
def what_ctx_can_be_asked_in_forward(m):
    seen = []

    def forward(ctx, x):
        seen.append((ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable, ctx.requires_grad, len(ctx.next_functions), ctx.name()))
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable()
        seen.append((len(ctx.to_save), ctx.non_differentiable))
        return x * 2

    y = make(m, forward, lambda ctx, g: g).apply(leaf(m, 2))
    seen.append((y.grad_fn.to_save, y.grad_fn.dirty_tensors))
    return [list(s) for s in seen]


@program
def what_ctx_can_be_asked_in_backward(m):
    seen = []

    def backward(ctx, g):
        seen.append((ctx.requires_grad, ctx.needs_input_grad[0], ctx.name(), len(ctx.next_functions), ctx.metadata))
        return g

    make(m, lambda ctx, x: x * 2, backward).apply(leaf(m, 2)).sum().backward()
    return [list(s) for s in seen]


@program
def shared_storage_needs_no_mark(m):
    def forward(ctx, x):
        ctx.mark_shared_storage((x, x))
        return x * 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(m, forward, lambda ctx, g: g).apply(leaf(m, 2))
    return [w.category.__name__ for w in caught]


@program
def attributes_that_collide_with_a_nodes_own(m):
    def forward(ctx, x):
        ctx.shape, ctx.dtype, ctx.seq, ctx.next = "shape", "dtype", "seq", "next"
        return x * 2

    def backward(ctx, g):
        return g * len(ctx.shape + ctx.dtype + ctx.seq + ctx.next)

    x = leaf(m, 2)
    make(m, forward, backward).apply(x).sum().backward()
    return x.grad


@program
def ctx_is_the_node(m):
    def forward(ctx, x):
        ctx.note = [1]
        return x * 2

    y = make(m, forward, lambda ctx, g: ctx.note.append(2) or g).apply(leaf(m, 2))
    y.sum().backward()
    return y.grad_fn.note, y.grad_fn._forward_cls.__name__


# ----- classes ----------------------------------------------------------------------------------------------------------


@program
def vjp_is_another_name_of_backward(m):
    f = type("F", (m.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2), "vjp": staticmethod(lambda ctx, g: g * 2)})
    x = leaf(m, 2)
    f.apply(x).sum().backward()
    return x.grad


@program
def both_backward_and_vjp(m):
    f = make(m, lambda ctx, x: x * 2, lambda ctx, g: g * 2, vjp=staticmethod(lambda ctx, g: g * 2))
    f.apply(leaf(m, 2)).sum().backward()


@program
def methods_that_are_not_static(m):
    class Old(m.autograd.Function):
        def forward(ctx, x):
            return x * 2

        def backward(ctx, g):
            return g * 2

    x = leaf(m, 2)
    Old.apply(x).sum().backward()
    return x.grad


@program
def a_function_of_a_function(m):
    class Base(m.autograd.Function):
        factor = 2.0

        @classmethod
        def forward(cls, ctx, x):
            return x * cls.factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx._forward_cls.factor

    class Derived(Base):
        factor = 5.0

    x = leaf(m, 2)
    y = Derived.apply(x)
    y.sum().backward()
    return y, x.grad, y.grad_fn.name()


@program
def without_a_forward(m):
    type("F", (m.autograd.Function,), {}).apply(leaf(m, 2))


@program
def instances_are_not_made(m):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        instance = make(m, keep, slope)()
    return [w.category.__name__ for w in caught], attempt(lambda: instance(leaf(m, 2)))


@program
def inplace_functions_have_a_flag(m):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return m.autograd.function.InplaceFunction(True).inplace, m.autograd.function.InplaceFunction().inplace


@program
def names_of_the_module(m):
    names = ("BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "NestedIOFunction", "once_differentiable")
    node = make(m, keep, slope).apply(leaf(m, 2)).grad_fn
    function = m.autograd.function
    return [hasattr(function, n) for n in names], isinstance(node, function.BackwardCFunction), isinstance(node, function.FunctionCtx)


@program
def whether_setup_context_is_defined(m):
    ask = m.autograd.function._is_setup_context_defined
    one = make(m, keep, slope)
    two = with_setup(m, lambda x: x * 2, lambda ctx, inputs, output: None, lambda ctx, g: g)
    return ask(one.setup_context), ask(two.setup_context)


# ----- lifetimes and errors ---------------------------------------------------------------------------------------------


@program
def ctx_lives_as_long_as_the_graph(m):
    class Token:
        pass

    refs = []

    def forward(ctx, x):
        ctx.token = Token()
        refs.append(weakref.ref(ctx.token))
        return x * 2

    y = make(m, forward, lambda ctx, g: g).apply(leaf(m, 2))
    alive = refs[0]() is not None
    y.sum().backward()
    after = refs[0]() is not None
    del y
    gc.collect()
    return alive, after, refs[0]() is None


@program
def without_a_graph_ctx_dies_at_once(m):
    class Token:
        pass

    refs = []

    def forward(ctx, x):
        ctx.token = Token()
        refs.append(weakref.ref(ctx.token))
        return x * 2

    y = make(m, forward, lambda ctx, g: g).apply(m.ones(2))
    gc.collect()
    return refs[0]() is None, y


@program
def what_was_saved_is_freed_after_backward(m):
    x = leaf(m, 2)
    h = x * 1
    ref = weakref.ref(h)
    y = make(m, keep, slope).apply(h).sum()
    del h
    alive = ref() is not None
    y.backward()
    gc.collect()
    return alive, ref() is None


@program
def reading_saved_tensors_after_backward(m):
    y = make(m, keep, slope).apply(leaf(m, 2))
    y.sum().backward()
    return y.grad_fn.saved_tensors


@program
def the_users_traceback_is_kept(m):
    def helper():
        raise KeyError("mine")

    def backward(ctx, g):
        helper()

    y = make(m, lambda ctx, x: x * 2, backward).apply(leaf(m, 2)).sum()
    try:
        y.backward()
    except KeyError as error:
        return [f.name for f in traceback.extract_tb(error.__traceback__) if f.name in ("helper", "backward")][-2:]


@program
def after_an_error_the_graph_still_works(m):
    state = {"fail": True}

    def backward(ctx, g):
        if state.pop("fail", False):
            raise KeyError("mine")
        return 2 * ctx.saved_tensors[0] * g

    x = leaf(m, 2)
    y = make(m, keep, backward).apply(x).sum()
    first = attempt(lambda: y.backward(retain_graph=True))
    y.backward()
    return first, x.grad, m.is_grad_enabled()


@program
def an_error_in_setup_context(m):
    def setup(ctx, inputs, output):
        raise KeyError("mine")

    f = with_setup(m, lambda x: x * 2, setup, lambda ctx, g: g)
    return attempt(lambda: f.apply(leaf(m, 2))), m.is_grad_enabled()


# ----- compositions -----------------------------------------------------------------------------------------------------


@program
def grad_inside_backward(m):
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with m.enable_grad():
            leaf_of_it = x.detach().requires_grad_()
            (d,) = m.autograd.grad((leaf_of_it**3).sum(), leaf_of_it)
        return d * g

    x = leaf(m, 2)
    make(m, lambda ctx, x: (ctx.save_for_backward(x), x**3)[1], backward).apply(x).sum().backward()
    return x.grad


@program
def a_function_inside_the_backward_of_another(m):
    square = make(m, keep, slope)
    f = make(m, lambda ctx, x: (ctx.save_for_backward(x), x**3)[1], lambda ctx, g: 3 * square.apply(ctx.saved_tensors[0]) * g)
    x = leaf(m, 2)
    (g,) = m.autograd.grad(f.apply(x).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return g, h


@program
def third_derivatives(m):
    square = make(m, keep, slope)
    x = leaf(m, 2)
    g = (square.apply(x) * x).sum()
    for _ in range(3):
        (g,) = m.autograd.grad(g.sum(), x, create_graph=True)
    return g


@program
def saved_tensors_hooks_around_a_function(m):
    events = []

    def pack(t):
        events.append(("pack", plain(t)))
        return t.detach().clone()

    def unpack(t):
        events.append(("unpack", plain(t)))
        return t

    x = leaf(m, 2)
    with m.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = make(m, keep, slope).apply(x)
    y.sum().backward()
    return [list(e) for e in events], x.grad


@program
def double_backward_through_saved_tensors_hooks(m):
    x = leaf(m, 2)
    with m.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = make(m, keep, slope).apply(x)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return g, h


@program
def gradients_reach_only_the_inputs_that_are_wanted(m):
    seen = []

    def backward(ctx, g):
        seen.append(list(ctx.needs_input_grad))
        return g, g

    x, w = leaf(m, 2), leaf(m, 2)
    y = make(m, lambda ctx, a, b: a * b, backward).apply(x, w)
    (g,) = m.autograd.grad(y.sum(), w)
    return seen, g


@program
def retained_gradients_of_results(m):
    x = leaf(m, 2)
    y = make(m, lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply(x)
    y.retain_grad()
    (y * 3).sum().backward()
    return y.grad, x.grad


@program
def hooks_on_results_and_nodes(m):
    events = []
    x = leaf(m, 2)
    y = make(m, lambda ctx, x: x * 2, lambda ctx, g: (events.append(("backward", plain(g))), g * 2)[1]).apply(x)
    y.register_hook(lambda g: (events.append(("tensor", plain(g))), g * 10)[1])
    y.grad_fn.register_prehook(lambda g: (events.append(("before", plain(g[0]))), None)[1])
    y.grad_fn.register_hook(lambda i, o: (events.append(("after", plain(i[0]), plain(o[0]))), None)[1])
    y.sum().backward()
    return [list(e) for e in events], x.grad


@program
def forward_mode_of_a_function(m):
    forward = m.autograd.forward_ad

    class Square(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

        @staticmethod
        def jvp(ctx, t):
            return 2 * ctx.saved_for_forward[0] * t

    with forward.dual_level():
        dual = forward.make_dual(m.tensor([1.0, 2.0]), m.tensor([3.0, 4.0]))
        return forward.unpack_dual(Square.apply(dual)).tangent


@program
def forward_mode_without_a_rule(m):
    forward = m.autograd.forward_ad
    with forward.dual_level():
        make(m, keep, slope).apply(forward.make_dual(m.ones(2), m.ones(2)))


@program
def in_inference_mode(m):
    with m.inference_mode():
        y = make(m, keep, slope).apply(leaf(m, 2))
        return y.is_inference(), y.requires_grad


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


class Pickled:
    torch: Any
    ndgrad: Any


for _m in MODULES:
    setattr(Pickled, _m.__name__, make(_m, keep, slope, name=_m.__name__, __module__=__name__, __qualname__=f"Pickled.{_m.__name__}"))


@pytest.mark.parametrize("m", MODULES, ids=lambda m: m.__name__)
def test_the_class_is_pickled_by_name(m):
    cls = getattr(Pickled, m.__name__)
    assert pickle.loads(pickle.dumps(cls)) is cls
    assert pickle.loads(pickle.dumps(cls.apply))(leaf(m, 2)).tolist() == [1.0, 4.0]


# ----- on purpose -------------------------------------------------------------------------------------------------------


def test_a_saved_intermediate_raises_in_a_double_backward():
    deliberate("saved-intermediates")

    def forward(ctx, x):
        d = 2 * x
        ctx.save_for_backward(d)
        return x * x

    def second(m):
        x = leaf(m, 2)
        y = make(m, forward, lambda ctx, g: ctx.saved_tensors[0] * g).apply(x)
        (g,) = m.autograd.grad((y * x).sum(), x, create_graph=True)
        return m.autograd.grad(g.sum(), x)[0]

    assert second(torch).tolist() == [4.0, 8.0]  # [6, 12] for x**3
    with pytest.raises(RuntimeError, match="save_constants"):
        second(ndgrad)


def test_a_function_that_is_differentiable_once_says_so_in_every_double_backward():
    deliberate("once-differentiable")

    def second(m):
        x = leaf(m, 2)
        f = make(m, keep, m.autograd.function.once_differentiable(slope))
        (g,) = m.autograd.grad(f.apply(x).sum(), x, create_graph=True)
        return m.autograd.grad((g * x).sum(), x)[0]

    assert second(torch).tolist() == [2.0, 4.0]  # 4 x for 2 x * x
    with pytest.raises(RuntimeError, match="once_differentiable"):
        second(ndgrad)
