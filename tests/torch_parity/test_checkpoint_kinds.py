"""Checkpointed sequences, the reentrant kind and selective policies: the same programs on torch and on ndgrad."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.checkpoints import again, counting, old, rounded, tools
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import Programs, leaf, on_both

PROGRAMS = Programs()
program = PROGRAMS.enter


# ----- sequences --------------------------------------------------------------------------------------------------------


@program
def a_sequence_in_segments(m):
    x = leaf(m, 2)
    steps = [counting(lambda x: (x / 2).sin()) for _ in range(7)]
    tools(m).checkpoint_sequential([f for f, _ in steps], 3, x, use_reentrant=False).sum().backward()
    return [len(calls) for _, calls in steps], rounded(x.grad)


@program
def a_sequence_of_the_old_kind(m):
    x = leaf(m, 2)
    steps = [counting(lambda x: (x / 2).sin()) for _ in range(5)]
    tools(m).checkpoint_sequential([f for f, _ in steps], 2, x, use_reentrant=True).sum().backward()
    return [len(calls) for _, calls in steps], rounded(x.grad)


@program
def a_sequence_takes_no_other_arguments(m):
    tools(m).checkpoint_sequential([m.sin, m.cos], 1, leaf(m, 2), use_reentrant=False, colour="red")


@program
def more_segments_than_functions(m):
    tools(m).checkpoint_sequential([m.sin, m.cos], 3, leaf(m, 2), use_reentrant=False)


# ----- the reentrant kind -----------------------------------------------------------------------------------------------


@program
def reentrant_gradients(m):
    x, w = leaf(m, 3), leaf(m, 3)
    f, calls = counting(lambda x: (x * w).sin().exp())
    y = old(m, f, x)
    y.sum().backward()
    return y.grad_fn.name(), len(calls), rounded(x.grad, w.grad)


@program
def reentrant_nested(m):
    x = leaf(m, 3)
    old(m, lambda x: old(m, lambda x: x.sin(), x.exp() / 9).cos(), x).sum().backward()
    return rounded(x.grad)


@program
def reentrant_in_a_chain(m):
    x = leaf(m, 2)
    h = x
    for _ in range(50):
        h = old(m, lambda h: (h / 2).sin() + h / 2, h)
    h.sum().backward()
    return rounded(x.grad)


@program
def reentrant_with_autograd_grad(m):
    x = leaf(m, 3)
    m.autograd.grad(old(m, lambda x: x.sin(), x).sum(), x)


@program
def reentrant_with_inputs(m):
    x = leaf(m, 3)
    old(m, lambda x: x.sin(), x).sum().backward(inputs=[x])


def test_a_reentrant_one_of_constants_keeps_what_its_function_closes_over():
    deliberate("checkpoint-strict")

    def run(m):
        w = leaf(m, 3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = old(m, lambda x: (x * w).sin(), m.ones(3, dtype=m.float64))
        return y.requires_grad, [w.category.__name__ for w in caught]

    assert run(torch) == (False, ["UserWarning"])
    assert run(ndgrad) == (True, [])


@program
def reentrant_with_keywords(m):
    old(m, lambda x, n: x * n, leaf(m, 3), n=2)


@program
def reentrant_with_contexts(m):
    old(m, lambda x: x.sin(), leaf(m, 3), context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()))


@program
def reentrant_with_debug(m):
    old(m, lambda x: x.sin(), leaf(m, 3), debug=True)


@program
def reentrant_results_that_are_detached(m):
    old(m, lambda x: x.sin().detach(), leaf(m, 3)).sum().backward()


@program
def reentrant_results_some_of_which_are_detached(m):
    x = leaf(m, 3)
    a, _ = old(m, lambda x: (x.sin(), x.detach()), x)
    a.sum().backward()
    return rounded(x.grad)


@program
def reentrant_results_that_are_no_tensors(m):
    x = leaf(m, 3)
    a, n, nothing = old(m, lambda x: (x.sin(), 3, None), x)
    a.sum().backward()
    return n, nothing, rounded(x.grad)


@program
def reentrant_random_numbers(m):
    drawn = []

    def f(x):
        drawn.append(m.rand(3, dtype=m.float64).tolist())
        return x.sin()

    old(m, f, leaf(m, 3)).sum().backward()
    return drawn[0] == drawn[1]


@program
def leaves_made_of_arguments(m):
    x = leaf(m, 3)
    a, b, c = tools(m).detach_variable((x, x.detach(), 3))
    return a is x, a.is_leaf, a.requires_grad, b.requires_grad, c


@program
def leaves_made_of_a_list(m):
    tools(m).detach_variable([leaf(m, 3)])


# ----- selective --------------------------------------------------------------------------------------------------------


def policy_for(m, *names):
    """A policy that keeps the results of some ops, and the list of ops that it was asked about."""
    policies, seen = tools(m).CheckpointPolicy, []

    def policy(ctx, op, *args, **kwargs):
        name = getattr(op, "__name__", "").split(".")[0]
        seen.append((name, ctx.is_recompute))
        return policies.MUST_SAVE if name in names else policies.PREFER_RECOMPUTE

    return policy, seen


class Counting:
    """A dispatch mode inside the function that counts the ops that are really run."""

    def __new__(cls, m):
        base = importlib.import_module(f"{m.__name__}.utils._python_dispatch").TorchDispatchMode

        class Mode(base):
            def __init__(self):
                super().__init__()
                self.names = []

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                self.names.append(func.__name__.split(".")[0])
                return func(*args, **(kwargs or {}))

        return Mode()


@program
def selective_keeps_what_the_policy_says(m):
    x = leaf(m, 3)
    policy, asked = policy_for(m, "sin")
    outside = Counting(m)
    with outside:
        y = again(m, lambda x: x.sin().exp().cos(), x, context_fn=lambda: tools(m).create_selective_checkpoint_contexts(policy))
        ran = len(outside.names)
        y.sum().backward()
    forward_ops = [name for name in outside.names[:ran] if name in ("sin", "exp", "cos")]
    return forward_ops, [a for a in asked if a[0] in ("sin", "exp", "cos")], rounded(x.grad)


@program
def selective_recomputation_skips_what_was_kept(m):
    x = leaf(m, 3)
    policy, _ = policy_for(m, "tanh")
    y = again(m, lambda x: x.tanh().sinh().cosh(), x, context_fn=lambda: tools(m).create_selective_checkpoint_contexts(policy))
    outside = Counting(m)
    with outside:
        y.sum().backward()
    return outside.names.count("tanh"), rounded(x.grad)


@program
def selective_with_a_policy_of_bools(m):
    x = leaf(m, 3)

    def context():
        return tools(m).create_selective_checkpoint_contexts(lambda ctx, op, *args, **kwargs: True)

    again(m, lambda x: (x.sin() * x).exp(), x, context_fn=context).sum().backward()
    return rounded(x.grad)


@program
def selective_mutation_of_what_was_kept(m):
    x = leaf(m, 3)
    policy, _ = policy_for(m, "sin")

    def f(x):
        y = x.sin()
        z = y.exp()
        with m.no_grad():
            y.mul_(2.0)
        return z.cos()

    again(m, f, x, context_fn=lambda: tools(m).create_selective_checkpoint_contexts(policy)).sum().backward()


@program
def policies_have_these_names(m):
    return [(p.name, p.value) for p in tools(m).CheckpointPolicy]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs
