"""functorch's deprecated names: what they compute, and their warning."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour, says, warned
from tests.torch_parity.side_by_side import Programs, leaf, ones

PROGRAMS = Programs()
program = PROGRAMS.enter


def ft(m):
    return import_module("functorch" if m.__name__ == "torch" else "ndgrad.functorch")


@program
def transforms_warn(m):
    F = ft(m)
    f = lambda x: (x * x).sum()
    x = ones(m, 2)
    g = lambda x: x * x
    return [
        warned(lambda: F.grad(f)(x)),
        warned(lambda: F.grad_and_value(f)(x)),
        warned(lambda: F.vmap(g)(x)),
        warned(lambda: F.vjp(g, x)[0]),
        warned(lambda: F.jvp(g, (x,), (x,))),
        warned(lambda: F.jacrev(g)(x)),
        warned(lambda: F.jacfwd(g)(x)),
        warned(lambda: F.hessian(f)(x)),
        warned(lambda: F.functionalize(g)(x)),
    ]


def net(m):
    n = m.nn.Linear(2, 1).to(m.float64)
    with m.no_grad():
        n.weight.fill_(2.0)
        n.bias.fill_(1.0)
    return n


@program
def functional(m):
    f, p = ft(m).make_functional(net(m))
    f(p, ones(m, 3, 2)).sum().backward()
    return ([t.grad for t in p], [type(t).__name__ for t in p], [t.requires_grad for t in p], type(f).__name__)


@program
def functional_untracked(m):
    f, p = ft(m).make_functional(net(m), disable_autograd_tracking=True)
    return ([t.requires_grad for t in p], f(p, ones(m, 1, 2)))


@program
def functional_grad(m):
    f, p = ft(m).make_functional(net(m))
    return m.func.grad(lambda p: f(p, ones(m, 3, 2)).sum())(p)


@program
def functional_buffers(m):
    b = m.nn.BatchNorm1d(2).to(m.float64)
    f, p, bu = ft(m).make_functional_with_buffers(b)
    y = f(p, bu, leaf(m, 3, 2))
    return (y, len(bu), bu[0])


@program
def functional_refuses_buffers(m):
    return says(lambda: ft(m).make_functional(m.nn.BatchNorm1d(2)))


@program
def functional_count(m):
    f, p = ft(m).make_functional(net(m))
    return says(lambda: f(p[:1], ones(m, 1, 2))).__class__.__name__


@program
def ensemble(m):
    f, p, b = ft(m).combine_state_for_ensemble([net(m), net(m)])
    return (m.func.vmap(f, in_dims=(0, 0, None))(p, b, ones(m, 3, 2)), [tuple(t.shape) for t in p])


@program
def ensemble_bad(m):
    F = ft(m)
    return (
        says(lambda: F.combine_state_for_ensemble([])),
        says(lambda: F.combine_state_for_ensemble([net(m), m.nn.ReLU()])),
        says(lambda: F.combine_state_for_ensemble([net(m), net(m).eval()])),
    )


@program
def experimental(m):
    e = import_module(("functorch" if m.__name__ == "torch" else "ndgrad.functorch") + ".experimental")
    return sorted(
        k
        for k in dir(e)
        if not k.startswith("_") and k in ("chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_")
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_behaviour(name):
    theirs, ours = (behaviour(PROGRAMS[name], m) for m in (torch, ndgrad))
    assert agree(theirs, ours), f"torch: {theirs}\nndgrad: {ours}"
