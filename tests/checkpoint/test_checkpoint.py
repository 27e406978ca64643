"""Checkpointing beyond torch: memory, messages, transforms, `Array`, faults (torch_parity compares the common part)."""

from __future__ import annotations

import functools
import gc
import math
import threading
import traceback
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    GraphExecGroup,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
)
from ndgrad._src.core.modes import process, thread

A = np.array([0.3, -1.2, 2.0])


def leaf():
    return ndgrad.tensor(A, requires_grad=True)


def bump(x):
    return (x.sin() * x).exp()


BUMP_SLOPE = np.exp(np.sin(A) * A) * (np.cos(A) * A + np.sin(A))


def alternately(*functions):
    state = [0]

    def f(x):
        state[0] += 1
        return functions[min(state[0], len(functions)) - 1](x)

    return f


# ----- memory ------------------------------------------------------------------------------------------------------------


def peak_of_a_chain(depth, segments):
    """Return the peak memory of a chain of `depth` steps, in units of one activation."""
    size = 1 << 12

    def step(h):
        return (h * 1.01).tanh()

    x = ndgrad.ones(size, requires_grad=True)
    checkpoint_sequential([step] * 4, 2, x).sum().backward()  # warm-up
    gc.collect()
    tracemalloc.start()
    try:
        checkpoint_sequential([step] * depth, segments, x).sum().backward()
        return tracemalloc.get_traced_memory()[1] / (8 * size)
    finally:
        tracemalloc.stop()


def test_memory_of_a_deep_chain_grows_as_the_square_root():
    plain = [peak_of_a_chain(n, 1) for n in (64, 1024)]
    cut = [peak_of_a_chain(n, math.isqrt(n)) for n in (64, 1024)]
    assert plain[1] / plain[0] > 10  # sixteen times as deep
    assert cut[1] / cut[0] < 6  # four times, plus a constant part
    assert cut[1] < plain[1] / 8


def test_nested_checkpoints_hold_no_more_than_the_logarithm():
    def chain(n, h):
        return (h * 1.01).tanh() if n == 1 else checkpoint(lambda h: chain(n // 2, chain(n // 2, h)), h)

    def peak(n):
        x = ndgrad.ones(1 << 15, requires_grad=True)
        chain(4, x).sum().backward()
        gc.collect()
        tracemalloc.start()
        try:
            chain(n, x).sum().backward()
            return tracemalloc.get_traced_memory()[1] / (8 << 15)
        finally:
            tracemalloc.stop()

    assert peak(128) < 4 * peak(8)  # sixteen times as deep


def count_bytes(f, *args):
    """Return the bytes that a graph saves, as seen by saved-tensor hooks."""
    held = []
    with ndgrad.autograd.graph.saved_tensors_hooks(lambda t: held.append(t.nbytes) or t, lambda t: t):
        f(*args)
    return sum(held)


def test_a_checkpointed_call_saves_its_arguments_and_nothing_else():
    x = ndgrad.ones(1000, requires_grad=True)
    assert count_bytes(lambda: bump(bump(x))) > 5 * x.nbytes
    assert count_bytes(lambda: checkpoint(lambda x: bump(bump(x)), x)) == x.nbytes


def test_recomputed_values_are_freed_as_backward_uses_them():
    alive = []

    def f(x):
        y = x.sin()
        alive.append(weakref.ref(y))
        return y.exp()

    gc.disable()
    try:
        x = leaf()
        y = checkpoint(f, x).sum()
        y.backward(retain_graph=True)
        assert [ref() for ref in alive] == [None, None]
        holders = y.grad_fn.next_functions[0][0]._saved_result
        assert np.allclose(holders.detach().numpy(), np.exp(np.sin(A)))
    finally:
        gc.enable()


def test_a_graph_that_is_dropped_frees_the_arguments_by_reference_counting():
    gc.disable()
    try:
        h = leaf() * 1.0
        dead = weakref.ref(h)
        y = checkpoint(bump, h)
        del h
        assert dead() is not None
        del y
        assert dead() is None
    finally:
        gc.enable()


def test_values_recomputed_for_a_pass_that_failed_do_not_stay():
    made = []

    def f(x):
        y = x.sin()
        made.append(weakref.ref(y._array))
        return y * x.cos()

    class Fails(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    gc.disable()
    try:
        x = leaf()
        y = checkpoint(lambda x: f(Fails.apply(x)), x).sum()
        with pytest.raises(KeyError):
            y.backward()
        assert [ref() for ref in made] == [None, None]
    finally:
        gc.enable()


# ----- messages ----------------------------------------------------------------------------------------------------------


def test_the_error_says_which_op_differed():
    f = alternately(lambda x: x.sin() * x, lambda x: x.sin() * x[:2].sum())
    with pytest.raises(CheckpointError, match=r"(?s)Saved value number 1 .*MulBackward0 saved 'y', shape \(3,\).*'y', shape \(\)"):
        checkpoint(f, leaf()).sum().backward()


def test_another_op_of_the_same_shape_is_noticed():
    with pytest.raises(CheckpointError, match="(?s)forward: .*SinBackward0.*recomputation: ExpBackward0"):
        checkpoint(alternately(lambda x: x.sin(), lambda x: x.exp()), leaf()).sum().backward()


def test_the_check_can_be_left_out():
    x = leaf()
    f = alternately(lambda x: x.sin(), lambda x: (x + 1).sin())
    checkpoint(f, x, determinism_check="none").sum().backward()
    assert np.allclose(x.grad.numpy(), np.cos(A + 1))  # the requested value


def test_a_missing_value_is_named():
    with pytest.raises(CheckpointError, match="2 in the forward and 1 in the recomputation.*missing: CosBackward0"):
        checkpoint(alternately(lambda x: x.sin().cos(), lambda x: x.sin()), leaf()).sum().backward()


@pytest.mark.parametrize("how", ["argument", "context"])
def test_debug_shows_every_op_of_both_runs_with_the_line(how):
    f = alternately(lambda x: (x + 1).sin(), lambda x: (x[:2] - 1).sin())
    if how == "argument":
        y = checkpoint(f, leaf(), debug=True).sum()
    else:
        with set_checkpoint_debug_enabled(True):
            y = checkpoint(f, leaf()).sum()
    with pytest.raises(CheckpointError) as caught:
        y.backward()
    text = str(caught.value)
    assert "Ops of the forward (2 in all)" in text
    assert "> 0: add((3,), 1)" in text
    assert "> 0: getitem((3,))" in text
    assert "test_checkpoint.py" in text


def test_the_error_is_raised_at_the_users_line():
    f = alternately(lambda x: x.sin(), lambda x: x[:2].sin())
    with pytest.raises(CheckpointError) as caught:
        checkpoint(f, leaf()).sum().backward()
    lines = traceback.extract_tb(caught.tb)
    assert any(line.filename == __file__ and "x[:2].sin()" in str(line.line) for line in lines)


def test_a_user_who_catches_everything_does_not_hide_the_difference():
    def careless(x):
        try:
            return x[:2].sin()
        except Exception:
            return x.sin()

    with pytest.raises(CheckpointError):
        checkpoint(alternately(lambda x: x.sin(), careless), leaf()).sum().backward()


def test_a_user_who_catches_exceptions_does_not_catch_the_early_stop():
    caught = []

    def f(x):
        try:
            return x.sin()
        except Exception as error:
            caught.append(error)
            raise

    x = leaf()
    checkpoint(f, x).sum().backward()
    assert caught == []
    assert np.allclose(x.grad.numpy(), np.cos(A))


def test_a_recomputed_value_that_is_overwritten_raises_where_torch_goes_on():
    def f(x):
        h = x * 1.0
        y = h.sin()
        h.add_(1.0)
        return y.exp()

    x = leaf()
    with pytest.raises(CheckpointError, match=r"SinBackward0.*overwritten by add_"):
        checkpoint(f, x, early_stop=False).sum().backward()


def test_on_numpys_class_a_recomputed_value_that_is_overwritten_is_rebuilt():
    def f(x):
        h = x * 1.0
        y = h.sin()
        h[:] = 100.0
        return y.exp()

    x = dnp.array(A).requires_grad_()
    for early in (True, False):
        x.grad = None
        checkpoint(f, x, early_stop=early).sum().backward()
        assert np.allclose(np.asarray(x.grad.detach()), np.exp(np.sin(A)) * np.cos(A))


def test_on_numpys_class_an_argument_may_be_overwritten_after_the_call():
    x = dnp.array(A).requires_grad_()
    h = x * 1.0
    y = checkpoint(bump, h)
    h[:] = 100.0
    y.sum().backward()
    assert np.allclose(np.asarray(x.grad.detach()), BUMP_SLOPE)


# ----- compositions ------------------------------------------------------------------------------------------------------


def test_grad_hessian_vmap_and_jvp_of_a_checkpointed_function():
    func = ndgrad.func
    x = ndgrad.tensor(A)
    kept = lambda x: checkpoint(bump, x)
    assert np.allclose(func.grad(lambda x: kept(x).sum())(x).numpy(), BUMP_SLOPE)
    assert np.allclose(func.vmap(func.grad(kept))(x).numpy(), BUMP_SLOPE)
    assert np.allclose(func.jvp(kept, (x,), (ndgrad.ones(3),))[1].numpy(), BUMP_SLOPE)
    hessian = func.hessian(lambda x: kept(x).sum())(x).numpy()
    assert np.allclose(hessian, func.hessian(lambda x: bump(x).sum())(x).numpy())


def test_checkpoint_of_grad():
    x = leaf()
    inner = ndgrad.func.grad(lambda x: bump(x).sum())
    checkpoint(lambda x: inner(x) ** 2, x).sum().backward()
    y = leaf()
    (inner(y) ** 2).sum().backward()
    assert np.allclose(x.grad.numpy(), y.grad.numpy())


def test_a_generator_that_is_passed_draws_the_same_numbers_again():
    drawn = []

    def f(x, source):
        noise = ndgrad.rand(3, generator=source)
        drawn.append(noise.tolist())
        return (x * noise).sin()

    source = ndgrad.Generator().manual_seed(5)
    checkpoint(f, leaf(), source).sum().backward()
    assert drawn[0] == drawn[1]
    assert ndgrad.rand(3, generator=source).tolist() != drawn[0]


def test_custom_functions_may_read_saved_tensors_twice():
    class Sine(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (once,), (twice,) = ctx.saved_tensors, ctx.saved_tensors
            assert once.tolist() == twice.tolist()
            return g * once.cos()

    x = leaf()
    checkpoint(Sine.apply, x).sum().backward()
    assert np.allclose(x.grad.numpy(), np.cos(A))


def test_a_graph_shared_by_threads_is_recomputed_for_each_pass():
    x = leaf()
    y = checkpoint(bump, x).sum()
    threads = [threading.Thread(target=lambda: y.backward(retain_graph=True)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert np.allclose(x.grad.numpy(), 8 * BUMP_SLOPE)


def test_an_argument_keeps_its_identity_and_its_attributes():
    seen = []

    def f(x):
        seen.append((x, x.tag))
        return x.sin()

    x = leaf()
    x.tag = "mine"
    checkpoint(f, x).sum().backward()
    assert seen[0][0] is x
    assert seen[1][0] is x
    assert seen[1][1] == "mine"


def test_a_reentrant_checkpoint_refuses_to_be_differentiated_twice():
    x = leaf()
    y = checkpoint(bump, x, use_reentrant=True)
    with pytest.warns(UserWarning, match="create_graph"):
        y.sum().backward(create_graph=True)
    assert np.allclose(x.grad.detach().numpy(), BUMP_SLOPE)
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        x.grad.sum().backward()
    x.grad = None


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("moment", ["forward", "recomputation", "context"])
def test_an_exception_anywhere_leaves_modes_as_they_were(reentrant, moment):
    def fail(x):
        x.sin()
        raise KeyError("mine")

    class Around:
        def __enter__(self):
            if moment == "context":
                raise KeyError("mine")

        def __exit__(self, *exc):
            pass

    if reentrant and moment == "context":
        pytest.skip("takes no contexts")
    busy = len(process.busy)
    options = {} if reentrant else {"context_fn": lambda: (ndgrad.enable_grad(), Around())}
    f = fail if moment == "forward" else alternately(bump, fail, bump) if moment == "recomputation" else bump
    x = leaf()
    with pytest.raises(KeyError):
        checkpoint(f, x, use_reentrant=reentrant, **options).sum().backward()
    assert len(process.busy) == busy
    assert thread.grad_enabled
    assert thread.saved_hooks == ()
    assert thread.observers == ()
    assert GraphExecGroup.current() is None
    bump(x).sum().backward()
    assert np.allclose(x.grad.numpy(), BUMP_SLOPE)


# ----- selective ---------------------------------------------------------------------------------------------------------


def selective(policy, f, *args, **options):
    return checkpoint(f, *args, context_fn=functools.partial(create_selective_checkpoint_contexts, policy, **options))


def test_a_list_of_names_is_a_policy():
    ran = []

    class Log(ndgrad.utils._python_dispatch.DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(func.name)
            return func(*args, **(kwargs or {}))

    x, w = ndgrad.ones(3, 3, requires_grad=True), ndgrad.full((3, 3), 0.5, requires_grad=True)
    y = selective(["matmul"], lambda x: ((x @ w).sigmoid() @ w).sin(), x)
    with Log():
        y.grad_fn._saved_self  # the argument of sin; the whole function runs again for it
    assert ran == ["sigmoid", "sin"]
    y.sum().backward()
    z, v = ndgrad.ones(3, 3, requires_grad=True), ndgrad.full((3, 3), 0.5, requires_grad=True)
    ((z @ v).sigmoid() @ v).sin().sum().backward()
    assert np.allclose(x.grad.numpy(), z.grad.numpy())
    assert np.allclose(w.grad.numpy(), v.grad.numpy())


def test_ops_may_be_listed_as_torch_names_them():
    x = ndgrad.ones(2, 2, requires_grad=True)
    ops = [ndgrad.ops.aten.mm.default, ndgrad.ops.aten.sin, ndgrad.ops.aten.mul_.Tensor, ndgrad.ops.aten.exp.default]
    y = selective(ops, lambda x: (x @ x).sin(), x)
    ran = []

    class Log(ndgrad.utils._python_dispatch.DispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(func == ndgrad.ops.aten.sin)
            return func(*args, **(kwargs or {}))

    with Log():
        y.grad_fn._saved_self
    assert ran == []  # both were kept
    y.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("policy", list(CheckpointPolicy))
def test_gradients_do_not_depend_on_the_policy(policy):
    x = leaf()
    y = selective(lambda ctx, op, *args, **kwargs: policy, bump, x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert np.allclose(x.grad.numpy(), 2 * BUMP_SLOPE)


def test_double_backward_through_a_selective_checkpoint():
    x = leaf()
    (g,) = ndgrad.autograd.grad(selective(["sin"], bump, x).sum(), x, create_graph=True)
    (h,) = ndgrad.autograd.grad(g.sum(), x)
    y = leaf()
    (g,) = ndgrad.autograd.grad(bump(y).sum(), y, create_graph=True)
    assert np.allclose(h.numpy(), ndgrad.autograd.grad(g.sum(), y)[0].numpy())


def test_writes_are_run_again_whatever_the_policy():
    def f(x):
        h = x * 2.0
        h.add_(1.0)
        return h.sin() * h

    x = leaf()
    selective(lambda ctx, op, *args, **kwargs: op.name == "add_", f, x).sum().backward()
    h = 2 * A + 1
    assert np.allclose(x.grad.numpy(), 2 * (np.cos(h) * h + np.sin(h)))


def test_a_kept_result_may_be_mutated_if_the_user_says_so():
    def f(x):
        y = x.sin()
        z = y.exp()
        with ndgrad.no_grad():
            y.mul_(2.0)
        return z.cos()

    x = leaf()
    with pytest.raises(RuntimeError, match="sin.*mutated"):
        selective(["sin"], f, x).sum().backward()
    selective(["sin"], f, x, allow_cache_entry_mutation=True).sum().backward()


def test_another_op_in_the_recomputation_is_named():
    f = alternately(lambda x: x.sin().exp(), lambda x: x.cos().exp())
    with pytest.raises(CheckpointError, match="op number 0 of the recomputation is cos, but that of the forward was sin"):
        selective(["exp"], f, leaf()).sum().backward()


@pytest.mark.parametrize(("policy", "error"), [(3, TypeError), ([len], ValueError), (lambda *args, **kwargs: "save", TypeError)])
def test_policies_that_make_no_sense(policy, error):
    with pytest.raises(error):
        selective(policy, bump, leaf())


def test_a_batched_constant_inside_a_checkpoint_keeps_its_batch():
    rows, x = ndgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), ndgrad.tensor([0.1, 0.2, 0.3])

    def slope(wrapped, c):
        return ndgrad.func.grad(lambda x: wrapped(lambda x: (x * c).sin(), x).sum())(x)

    found = ndgrad.func.vmap(lambda c: slope(checkpoint, c))(rows)
    assert ndgrad.allclose(found, rows * (rows * x).cos())


# ----- transforms inside --------------------------------------------------------------------------------------------------------------


def _linearized(x):
    _, push = ndgrad.func.linearize(lambda u: u * u * x, x)
    return ndgrad.func.vjp(push, x)[1](x)[0]


#: Functions of x that transform functions which capture x, with their values and derivatives.
TRANSFORMING = {
    "grad": (lambda x: x * ndgrad.func.grad(lambda u: (u * u * x).sum())(x), lambda a: 2 * a**3, lambda a: 6 * a**2),
    "vjp": (lambda x: ndgrad.func.vjp(lambda u: u * u * x, x)[1](x)[0], lambda a: 2 * a**3, lambda a: 6 * a**2),
    "jvp": (lambda x: ndgrad.func.jvp(lambda u: u * u * x, (x,), (x,))[1], lambda a: 2 * a**3, lambda a: 6 * a**2),
    "vmap": (lambda x: ndgrad.func.vmap(lambda u: u * u * x)(x).diagonal(), lambda a: a**3, lambda a: 3 * a**2),
    "jacrev": (lambda x: ndgrad.func.jacrev(lambda u: u * u * x)(x).sum(0), lambda a: 2 * a**2, lambda a: 4 * a),
    "jacfwd": (lambda x: ndgrad.func.jacfwd(lambda u: u * u * x)(x).sum(0), lambda a: 2 * a**2, lambda a: 4 * a),
    "hessian": (lambda x: ndgrad.func.hessian(lambda u: (u**3 * x).sum())(x) @ x, lambda a: 6 * a**3, lambda a: 18 * a**2),
    "linearize": (_linearized, lambda a: 2 * a**3, lambda a: 6 * a**2),
    "functionalize": (lambda x: ndgrad.func.functionalize(lambda u: (u * x).mul_(u))(x), lambda a: a**3, lambda a: 3 * a**2),
    "grad of grad": (
        lambda x: ndgrad.func.grad(lambda u: (x * ndgrad.func.grad(lambda w: (w**3 * u * x).sum())(u)).sum())(x),
        lambda a: 9 * a**4, lambda a: 36 * a**3,
    ),
    "checkpoint in grad": (
        lambda x: ndgrad.func.grad(lambda u: checkpoint(lambda w: w * w * w * x, u, use_reentrant=False).sum())(x),
        lambda a: 3 * a**3, lambda a: 9 * a**2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMING)
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_function_that_transforms_others_inside_is_differentiated_as_without_checkpoint(name, use_reentrant):
    function, value, slope = TRANSFORMING[name]
    x = leaf()
    y = checkpoint(function, x, use_reentrant=use_reentrant)
    np.testing.assert_allclose(y.detach().numpy(), value(A), rtol=1e-12)
    if not use_reentrant:
        (g,) = ndgrad.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = ndgrad.autograd.grad(g.sum(), x)
        np.testing.assert_allclose(g.detach().numpy(), slope(A), rtol=1e-12)
        h = 1e-6
        np.testing.assert_allclose(second.numpy(), (slope(A + h) - slope(A - h)) / (2 * h), rtol=1e-6)
    checkpoint(function, x, use_reentrant=use_reentrant).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), slope(A), rtol=1e-12)


@pytest.mark.parametrize("name", TRANSFORMING)
def test_checkpoints_inside_transforms_around_functions_that_transform_others(name):
    function, value, slope = TRANSFORMING[name]
    inside = lambda x: checkpoint(lambda z: checkpoint(function, z, use_reentrant=False), x, use_reentrant=False)
    x = ndgrad.tensor(A)
    np.testing.assert_allclose(ndgrad.func.grad(lambda z: inside(z).sum())(x).numpy(), slope(A), rtol=1e-12)
    np.testing.assert_allclose(ndgrad.func.jvp(inside, (x,), (x,))[1].numpy(), slope(A) * A, rtol=1e-12)
    rows = ndgrad.stack([x, 2 * x])
    np.testing.assert_allclose(ndgrad.func.vmap(inside)(rows).numpy(), np.stack([value(A), value(2 * A)]), rtol=1e-12)


def test_a_frame_keeps_nothing_of_what_the_graph_around_it_saves_beside_a_transform():
    """A frame leaves out values saved by the graph around the call; values saved by the inner transform die with it."""
    kept = []

    def function(x):
        y = x.exp()
        kept.append(weakref.ref(y))
        return ndgrad.func.grad(lambda u: (u * u * y).sum())(y).sin()

    y = checkpoint(function, leaf(), use_reentrant=False)
    gc.collect()
    assert kept[0]() is None
    y.sum().backward()


def test_a_reentrant_checkpoint_that_closes_over_a_wanted_tensor_is_refused_and_not_skipped():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    leaf = ndgrad.tensor([3.0, 4.0], requires_grad=True)
    w = leaf * 1
    y = checkpoint(lambda a: a * w, x, use_reentrant=True)
    loss = (y * w).sum()
    for wanted in (w, leaf):
        with pytest.raises(RuntimeError, match="incompatible with .grad"):
            ndgrad.autograd.grad(loss, wanted, retain_graph=True)
    (of_y,) = ndgrad.autograd.grad(loss, y, retain_graph=True)  # y precedes the checkpoint
    assert of_y.tolist() == [3, 4]


def test_a_reentrant_checkpoint_of_constants_keeps_the_gradients_of_what_its_function_closes_over():
    w, constant = ndgrad.tensor([1.0, 2.0], requires_grad=True), ndgrad.tensor([3.0, 4.0])
    checkpoint(lambda x: (x * w * w).sum(), constant, use_reentrant=True).backward()
    assert w.grad.tolist() == [6.0, 16.0]


def test_a_rerun_is_inside_the_transforms_of_another_thread_that_the_function_worked_in():
    """A thread opens its own transforms inside one of the main thread, whose backward runs after all of them have ended."""

    def f(y, run):
        def inner(z):
            return ndgrad.func.jvp(lambda u: run(lambda w: (w * u * y).sin(), z), (z,), (z,))[1]

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: ndgrad.func.vmap(inner)(ndgrad.stack([y, 2 * y])).sum(0)).result()

    x = leaf().detach()
    plain = ndgrad.func.jacrev(lambda y: f(y, lambda g, z: g(z)))(x)
    found = ndgrad.func.jacrev(lambda y: f(y, lambda g, z: checkpoint(g, z, use_reentrant=False)))(x)
    np.testing.assert_allclose(found.numpy(), plain.numpy(), rtol=1e-12)


def test_a_recomputed_custom_function_dies_with_its_pass():
    made = []

    class Copy(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            ctx.save_for_backward(y)
            made.append(weakref.ref(y))
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    gc.collect()
    gc.disable()
    try:
        checkpoint(Copy.apply, leaf(), use_reentrant=False).sum().backward()
        assert [ref() for ref in made] == [None, None]
    finally:
        gc.enable()


def test_a_selective_checkpoint_keeps_ops_of_a_library():
    runs = []
    with ndgrad.library._scoped_library("kept", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")

        def twice(x):
            runs.append(1)
            return x * 2

        library.impl("twice", twice, "CompositeExplicitAutograd")
        ndgrad.library.register_autograd("kept::twice", lambda ctx, g: g * 2, lib=library)
        op = ndgrad.ops.kept.twice.default
        contexts = functools.partial(create_selective_checkpoint_contexts, [op])
        x = leaf()
        y = checkpoint(lambda x: op(x.sin()).exp(), x, use_reentrant=False, context_fn=contexts)
        y.sum().backward()
    assert len(runs) == 1
    np.testing.assert_allclose(x.grad.numpy(), np.exp(2 * np.sin(A)) * 2 * np.cos(A))
