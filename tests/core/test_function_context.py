"""Attributes that a custom function sets on its context belong to it, whatever their names."""

from __future__ import annotations

import pytest

import ndgrad

NAMES = (
    "shape",
    "dtype",
    "next",
    "seq",
    "extra",
    "level",
    "outputs",
    "name",
    "metadata",
    "op",
    "plan",
    "function",
    "apply",
    "release",
    "part",
)


@pytest.mark.parametrize("name", NAMES)
def test_attribute_of_context_does_not_reach_the_node(name):
    class Total(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            setattr(ctx, name, tuple(x.shape))
            return x.sum()

        @staticmethod
        def backward(ctx, g):
            return g.expand(getattr(ctx, name))

    x = ndgrad.ones(2, 3, requires_grad=True)
    y = Total.apply(x)
    (y * 2).backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2
    assert y.grad_fn.name() == "TotalBackward"


def test_attribute_can_be_read_from_the_node_deleted_and_missed():
    class F(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.kept = 5
            ctx.gone = 6
            del ctx.gone
            assert not hasattr(ctx, "gone")
            with pytest.raises(AttributeError):
                del ctx.gone
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.kept += 1
            return g * ctx.kept

    x = ndgrad.ones(2, requires_grad=True)
    y = F.apply(x)
    assert y.grad_fn.kept == 5
    with pytest.raises(AttributeError, match="never_set"):
        y.grad_fn.never_set
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [6.0, 6.0]
    y.sum().backward()
    assert x.grad.tolist() == [13.0, 13.0]


def test_settings_of_the_context_reach_the_node():
    seen = []

    class F(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.materialize_grads = False
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a is None, b is None))
            return a

    F.apply(ndgrad.ones(2, requires_grad=True))[0].sum().backward()
    assert seen == [(False, True)]
