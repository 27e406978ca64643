"""The custom function that most tests need: one that saves its input."""

from __future__ import annotations

import ndgrad


class Square(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g
