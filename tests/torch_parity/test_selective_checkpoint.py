"""Selective checkpointing, and what checkpoints refuse."""

from __future__ import annotations

import functools
from importlib import import_module

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour
from tests.torch_parity.side_by_side import Programs, leaf, ones

PROGRAMS = Programs()
program = PROGRAMS.enter


def ck(m):
    return import_module(m.__name__ + ".utils.checkpoint")


def pyd(m):
    return import_module(m.__name__ + ".utils._python_dispatch")


def counter(m, log):

    class C(pyd(m).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(func.__name__.split(".")[0])
            return func(*args, **kwargs or {})

    return C()


def policy_for(m, names, save="MUST_SAVE", log=None):
    P = ck(m).CheckpointPolicy

    def policy(ctx, op, *args, **kwargs):
        name = op.__name__.split(".")[0]
        if log is not None:
            log.append((name, ctx.is_recompute))
        return getattr(P, save) if name in names else P.PREFER_RECOMPUTE

    return policy


def run(m, policy, f=None, x=None, log=None, retain=False, **kw):
    C = ck(m)
    x = leaf(m, 2, 2) if x is None else x
    f = f or (lambda x: x.sin().cos().sin())
    out = C.checkpoint(f, x, use_reentrant=False, context_fn=functools.partial(C.create_selective_checkpoint_contexts, policy, **kw))
    log2 = []
    with counter(m, log2):
        out.sum().backward(retain_graph=retain)
    return (x.grad, [n for n in log2 if n in ("sin", "cos", "mm", "exp", "sigmoid", "matmul", "relu")])


@program
def save_sin(m):
    return run(m, policy_for(m, ["sin"]))


@program
def prefer_save(m):
    return run(m, policy_for(m, ["sin"], "PREFER_SAVE"))


@program
def policy_calls(m):
    log = []
    r = run(m, policy_for(m, ["sin"], log=log))
    return (r, [l for l in log if l[0] in ("sin", "cos")])


@program
def bool_policy(m):
    return run(m, lambda ctx, op, *a, **k: op.__name__.startswith("sin"))


@program
def list_policy(m):
    return run(m, [m.ops.aten.sin.default])


@program
def bad_list(m):
    return run(m, [3])


@program
def bad_type(m):
    return run(m, 3)


@program
def inconsistent(m):
    P = ck(m).CheckpointPolicy

    def policy(ctx, op, *a, **k):
        return P.MUST_RECOMPUTE if ctx.is_recompute else P.MUST_SAVE

    return run(m, policy)


@program
def mutated(m):

    def f(x):
        y = x.sin()
        z = y * y.cos()
        y.mul_(2)
        return z.sin()

    return run(m, policy_for(m, ["sin"]), f)


@program
def mutated_allowed(m):

    def f(x):
        y = x.sin()
        z = y.exp()
        z2 = z.cos()
        y.mul_(2)
        return z2.sin()

    return run(m, policy_for(m, ["sin"]), f, allow_cache_entry_mutation=True)


@program
def mutated2(m):

    def f(x):
        y = x.sin()
        z = y.exp()
        z2 = z.cos()
        y.mul_(2)
        return z2.sin()

    return run(m, policy_for(m, ["sin"]), f)


@program
def saved_output_mutated(m):

    def f(x):
        y = x.sin().exp()
        y.mul_(3)
        return y

    return run(m, policy_for(m, ["exp"]), f)


@program
def ctx_attrs(m):
    C = ck(m).SelectiveCheckpointContext(is_recompute=True)
    return (C.is_recompute, list(vars(C)))


@program
def policies(m):
    return [p.name for p in ck(m).CheckpointPolicy]


@program
def inplace_must_save(m):

    def f(x):
        return x.sin().mul_(2).cos()

    P = ck(m).CheckpointPolicy
    return run(m, lambda ctx, op, *a, **k: P.MUST_SAVE, f)


@program
def inplace_prefer_save(m):

    def f(x):
        return x.sin().mul_(2).cos()

    P = ck(m).CheckpointPolicy
    return run(m, lambda ctx, op, *a, **k: P.PREFER_SAVE, f)


@program
def early_stop_off(m):
    C = ck(m)
    with C.set_checkpoint_early_stop(False):
        return run(m, policy_for(m, ["sin"]))


@program
def reentrant_context_fn(m):
    C = ck(m)
    return C.checkpoint(lambda x: x.sin(), leaf(m, 2), use_reentrant=True, context_fn=lambda: (1, 2))


@program
def context_fn_bad(m):
    C = ck(m)
    return C.checkpoint(lambda x: x.sin(), leaf(m, 2), use_reentrant=False, context_fn=lambda: 3)


@program
def context_fn_bad2(m):
    C = ck(m)
    return C.checkpoint(lambda x: x.sin(), leaf(m, 2), use_reentrant=False, context_fn=lambda: (3, 3, 3))


@program
def unexpected_kw(m):
    C = ck(m)
    return C.checkpoint(lambda x: x.sin(), leaf(m, 2), use_reentrant=True, foo=3)


@program
def unexpected_kw2(m):
    C = ck(m)
    return C.checkpoint(lambda x: x.sin(), leaf(m, 2), use_reentrant=False, foo=3)


@program
def det_check(m):
    C = ck(m)
    return C.checkpoint(lambda x: x.sin(), leaf(m, 2), use_reentrant=False, determinism_check="foo")


@program
def sequential(m):
    C = ck(m)
    x = leaf(m, 2)
    y = C.checkpoint_sequential([m.nn.Identity(), m.nn.ReLU(), m.nn.Tanh()], 2, x, use_reentrant=False)
    y.sum().backward()
    return x.grad


@program
def sequential_kw(m):
    C = ck(m)
    x = leaf(m, 2)
    C.checkpoint_sequential([m.nn.Identity(), m.nn.ReLU(), m.nn.Tanh()], 2, input=x, foo=2, use_reentrant=False)


@program
def reentrant_grad(m):
    C = ck(m)
    x = leaf(m, 2)
    y = C.checkpoint(lambda x: x.sin(), x, use_reentrant=True)
    m.autograd.grad(y.sum(), x)


@program
def detach_variable(m):
    C = ck(m)
    x = leaf(m, 2)
    r = C.detach_variable((x, 3))
    return (r[0].requires_grad, r[0].is_leaf, r[1])


@program
def detach_variable_bad(m):
    C = ck(m)
    C.detach_variable(leaf(m, 2))


@program
def check_backward_validity(m):
    C = ck(m)
    return C.check_backward_validity([ones(m, 2)])


@program
def get_states(m):
    C = ck(m)
    return C.get_device_states(ones(m, 2), 3)[0]


@program
def noop(m):
    C = ck(m)
    a, b = C.noop_context_fn()
    with a, b:
        return 1


@program
def recompute_once(m):
    n = [0]

    def f(x):
        n[0] += 1
        a = x.sin()
        b = a.cos()
        return a.exp() * b

    C = ck(m)
    x = leaf(m, 2)
    y = C.checkpoint(f, x, use_reentrant=False)
    y.sum().backward(retain_graph=True)
    k = n[0]
    y.sum().backward()
    return (k, n[0], x.grad)


@program
def recompute_partial(m):
    n = [0]

    def f(x, y):
        n[0] += 1
        return (x.sin().exp(), y.sin().exp())

    C = ck(m)
    x, y = (leaf(m, 2), leaf(m, 2))
    a, b = C.checkpoint(f, x, y, use_reentrant=False)
    a.sum().backward()
    b.sum().backward()
    return (n[0], x.grad, y.grad)


@program
def unpack_twice(m):
    C = ck(m)
    x = leaf(m, 2)
    y = C.checkpoint(lambda x: x.exp(), x, use_reentrant=False)
    s = y.grad_fn._saved_result
    return s


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_behaviour(name):
    theirs, ours = (behaviour(PROGRAMS[name], m) for m in (torch, ndgrad))
    assert agree(theirs, ours), f"torch: {theirs}\nndgrad: {ours}"
