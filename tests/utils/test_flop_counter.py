"""Counts of floating-point operations: known numbers of products, convolutions and attention."""

from __future__ import annotations

import ndgrad
from ndgrad import nn
from ndgrad.nn import functional as F
from ndgrad.utils.flop_counter import FlopCounterMode


def count(f):
    with FlopCounterMode(display=False) as counter:
        f()
    return counter.get_total_flops()


def test_counts_of_products_convolutions_and_attention():
    ones = ndgrad.ones
    assert count(lambda: ones(3, 4) @ ones(4, 5)) == 2 * 3 * 4 * 5
    assert count(lambda: F.linear(ones(3, 4), ones(5, 4))) == 2 * 3 * 4 * 5
    assert count(lambda: F.conv2d(ones(1, 2, 8, 8), ones(3, 2, 3, 3))) == 2 * 36 * 3 * 18
    assert count(lambda: F.scaled_dot_product_attention(*[ones(1, 2, 4, 8)] * 3)) == 2 * (2 * 2 * 4 * 4 * 8)
    assert count(lambda: ones(3).sin() + 1) == 0


def test_counts_by_module_and_of_backward(capsys):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with FlopCounterMode(model) as counter:
        model(ndgrad.ones(3, 4)).sum().backward()
    forward = {"Sequential": 288, "Sequential.0": 192, "Sequential.2": 96}
    assert {n: sum(c.values()) for n, c in counter.get_flop_counts().items() if n != "Global"} == forward
    assert counter.get_total_flops() == 288 + 288 + 96
    assert "Sequential.2" in capsys.readouterr().out


def test_custom_formulas():
    with FlopCounterMode(display=False, custom_mapping={ndgrad.ops.aten.sin: lambda x, out_shape=None: 7 * x[0]}) as counter:
        ndgrad.ones(3).sin()
    assert counter.get_total_flops() == 21
