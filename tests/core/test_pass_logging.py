"""The engine logs the nodes that run, if the logger is enabled."""

from __future__ import annotations

import logging
import re

import ndgrad
from ndgrad._src.engine.graph import _register_logging_hooks_on_whole_graph

NAME = "ndgrad.autograd.graph"


def lines(caplog):
    return [re.sub(r" object at 0x[0-9a-f]+", "", r.getMessage()) for r in caplog.records if r.name == NAME]


def program():
    x = ndgrad.ones(2, 3, requires_grad=True)
    return x, (x * x).sum()


def test_each_node_is_named_with_its_gradients_while_the_level_is_debug(caplog):
    with caplog.at_level(logging.DEBUG, logger=NAME):
        x, y = program()
        y.backward()
        ndgrad.autograd.grad(program()[1].exp(), x, allow_unused=True)
    assert lines(caplog)[:3] == [
        "Executing: <SumBackward0> with grad_outputs: [f64[]]",
        "Executing: <MulBackward0> with grad_outputs: [f64[2, 3]]",
        "Executing: <AccumulateGrad> with grad_outputs: [f64[2, 3]]",
    ]
    assert x.grad.tolist() == [[2.0] * 3] * 2
    before = len(lines(caplog))
    program()[1].backward()
    assert len(lines(caplog)) == before


def test_a_graph_can_be_told_to_say_so_and_to_stop(caplog):
    x, y = program()
    stop = _register_logging_hooks_on_whole_graph([y])
    y.backward(retain_graph=True)  # no logger is enabled
    assert lines(caplog) == []
    logger = logging.getLogger(NAME)
    stop()
    with caplog.at_level(logging.DEBUG, logger=NAME):
        assert logger.isEnabledFor(logging.DEBUG)
        y.backward()
    assert len(lines(caplog)) == 3  # logged once, by the pass
    assert x.grad.tolist() == [[4.0] * 3] * 2
