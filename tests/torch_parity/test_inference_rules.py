"""Inference mode, as a matrix: kinds of tensor x what is done with them x inside or outside the mode, and a second step outside.

A program is one cell: it says of what came out, and of the tensor it was done to, whether it is an inference tensor, requires grad,
is a leaf, is a view, has a node; or which error there was.
"""

from __future__ import annotations

import copy
import itertools

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour, says
from tests.torch_parity.side_by_side import Programs

PROGRAMS = Programs()

KINDS = {
    "leaf": lambda m: m.ones(2, 3, requires_grad=True),
    "result": lambda m: m.ones(2, 3, requires_grad=True) * 1,
    "plain": lambda m: m.ones(2, 3),
    "inference": lambda m: m.inference_mode()(lambda: m.ones(2, 3))(),
}


def weight(m, like=None):
    return m.ones(like.shape if like is not None else (2, 3), requires_grad=True)


#: name -> what is done with a tensor of shape (2, 3), or of another
STEPS = {
    "mul": lambda m, t: t * 2,
    "view": lambda m, t: t.view(6),
    "index": lambda m, t: t[0],
    "transpose": lambda m, t: t.mT,
    "expand": lambda m, t: t.expand(2, 2, 3),
    "reshape": lambda m, t: t.reshape(3, 2),
    "unbind": lambda m, t: t.unbind(0)[0],
    "contiguous": lambda m, t: t.contiguous(),
    "to": lambda m, t: t.to(m.float32),
    "clone": lambda m, t: t.clone(),
    "detach": lambda m, t: t.detach(),
    "detach_": lambda m, t: t.detach_(),
    "data": lambda m, t: t.data,
    "set data": lambda m, t: setattr(t, "data", m.ones(2, 3)),
    "deepcopy": lambda m, t: copy.deepcopy(t),
    "add_": lambda m, t: t.add_(1),
    "zero_": lambda m, t: t.zero_(),
    "t_": lambda m, t: t.t_(),
    "unsqueeze_": lambda m, t: t.unsqueeze_(0),
    "setitem": lambda m, t: t.__setitem__(0, 5.0),
    "add_ to a view": lambda m, t: t.view(6).add_(1),
    "add_ to a part": lambda m, t: t[0].add_(1),
    "add_ to one of several views": lambda m, t: t.unbind(0)[0].add_(1),
    "copy_ from": lambda m, t: m.zeros(t.shape).copy_(t),
    "copy_ into": lambda m, t: t.copy_(m.zeros(t.shape)),
    "out": lambda m, t: m.add(m.ones(2, 3), m.ones(2, 3), out=t),
    "requires_grad_": lambda m, t: t.requires_grad_(),
    "set grad": lambda m, t: setattr(t, "grad", m.ones(2, 3)),
    "hook": lambda m, t: t.register_hook(lambda g: g) and None,
    "version": lambda m, t: t._version,
    "times a weight": lambda m, t: weight(m, t) * t,
    "plus a weight": lambda m, t: weight(m, t) + t,
    "add_ a weight": lambda m, t: t.add_(weight(m, t)),
    "added to a result": lambda m, t: (weight(m, t) * 1).add_(t),
    "multiplied into a result": lambda m, t: (weight(m, t) * 1).mul_(t),
    "cat": lambda m, t: m.cat([t, weight(m)]),
    "backward": lambda m, t: t.sum().backward(),
    "numpy": lambda m, t: t.numpy(),
}
#: Steps inside, before the second step outside.
FIRST = ("mul", "view", "index", "add_", "detach", "unbind", "transpose")
SECOND = ("mul", "add_", "index", "times a weight", "requires_grad_", "add_ a weight")


def facts(m, value):
    if isinstance(value, m.Tensor):
        return [value.is_inference(), value.requires_grad, value.is_leaf, value._is_view(), value.grad_fn is not None]
    return value


def cell(kind, first, inside, second=None):
    def run(m):
        t = KINDS[kind](m)
        with m.inference_mode(inside):
            r = STEPS[first](m, t)
        if second is not None:
            t, r = r, STEPS[second](m, r)
        return facts(m, r), facts(m, t)

    run.__name__ = f"{kind}: {first} {'inside' if inside else 'outside'}{'' if second is None else f', {second}'}"
    return PROGRAMS.enter(run)


for _kind, _first in itertools.product(KINDS, STEPS):
    cell(_kind, _first, True)
for _first in STEPS:
    cell("inference", _first, False)
for _kind, _first, _second in itertools.product(KINDS, FIRST, SECOND):
    cell(_kind, _first, True, _second)


@pytest.mark.parametrize("kind", KINDS)
def test_same_behaviour(kind):
    for name, run in PROGRAMS.items():
        if name.startswith(f"{kind}:"):
            theirs, ours = (behaviour(run, m) for m in (torch, ndgrad))
            assert agree(theirs, ours), f"{name}\n  torch: {theirs}\n  ndgrad: {ours}"


def test_a_write_in_inference_mode_to_a_view_from_before_is_found_out():
    def write(m):
        x = m.ones(2, 2, requires_grad=True)
        with m.inference_mode():
            view = x[0]
            view.add_(1)
        return says(lambda: view * 2), x._version

    assert agree(behaviour(write, torch), behaviour(write, ndgrad))
