"""Streams in backward: nodes run where their ops ran, and what crosses from one stream to another is waited for."""

from __future__ import annotations

import threading
from typing import ClassVar

import numpy as np
import pytest

import ndgrad
from ndgrad import cuda

cupy = pytest.importorskip("cupy")

IS_STAND_IN = not hasattr(cupy, "__version__") or not hasattr(cupy, "RawModule")


class Noting(ndgrad.autograd.Function):
    """x 2, noting the streams of both directions."""

    seen: ClassVar = []

    @staticmethod
    def forward(ctx, x):
        Noting.seen.append(("forward", cuda.current_stream()))
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Noting.seen.append(("backward", cuda.current_stream()))
        return g * 2


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_node_runs_on_the_stream_of_its_forward(create_graph):
    Noting.seen.clear()
    first, second = cuda.Stream(), cuda.Stream()
    x = ndgrad.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    leaves = []
    x.register_post_accumulate_grad_hook(lambda t: leaves.append(cuda.current_stream()))
    for s in (first, second):
        s.wait_stream(cuda.current_stream())
    with cuda.stream(first):
        y = Noting.apply(x)
    with cuda.stream(second):
        z = Noting.apply(x)
    for s in (first, second):
        cuda.current_stream().wait_stream(s)
    (y * z).sum().backward(create_graph=create_graph)
    assert sorted(map(repr, Noting.seen)) == sorted(
        repr((when, s)) for when in ("forward", "backward") for s in (first, second)
    )
    assert leaves == [cuda.default_stream()]
    np.testing.assert_array_equal(x.grad.detach().cpu().numpy(), [8.0, 16.0])  # the gradient of 4 x^2
    x.grad = None


@pytest.mark.skipif(not IS_STAND_IN, reason="a GPU keeps no log")
def test_what_crosses_is_waited_for_and_the_caller_waits_for_all():
    side, here = cuda.Stream(), cuda.default_stream()
    x = ndgrad.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    with cuda.stream(side):
        y = x.sin()
    loss = y.sum()
    log = type(side.stream).log
    log.clear()
    loss.backward()
    assert log[0] == (side.stream, here.stream)  # the gradient of y, which sum's node made on the default stream
    assert log[1] == (here.stream, side.stream)  # the stream of x
    assert (here.stream, side.stream) in log[2:]
    assert log[-1] == (side.stream, here.stream)
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.cos([1.0, 2.0]))


def test_gradients_of_two_streams_meet():
    """Large enough that a stream which did not wait would read what is not there yet."""
    n = 1 << (10 if IS_STAND_IN else 22)
    values = np.linspace(0.1, 1.0, n)
    x = ndgrad.tensor(values, device="cuda", requires_grad=True)
    streams = [cuda.Stream() for _ in range(3)]
    for _ in range(3):
        x.grad = None
        parts = []
        for k, s in enumerate(streams):
            s.wait_stream(cuda.current_stream())
            with cuda.stream(s):
                y = x
                for _ in range(10):
                    y = y * 1.01
                parts.append((y * (k + 1)).sin())
        for s in streams:
            cuda.current_stream().wait_stream(s)
        sum(parts).sum().backward()
        factor = 1.01**10
        want = sum(np.cos(values * factor * (k + 1)) * factor * (k + 1) for k in range(3))
        np.testing.assert_allclose(x.grad.cpu().numpy(), want, rtol=1e-9, atol=1e-9)


def test_backward_on_another_stream_than_forward():
    x = ndgrad.tensor([3.0], device="cuda", requires_grad=True)
    loss = (x * x).sum()
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        loss.backward()
        doubled = x.grad * 2
    cuda.current_stream().wait_stream(side)
    assert doubled.item() == 12.0


def test_two_threads_with_two_streams():
    errors, n = [], 1 << (8 if IS_STAND_IN else 18)

    def train(seed):
        try:
            s = cuda.Stream()
            with cuda.stream(s):
                w = ndgrad.full((n,), 1.0, device="cuda", requires_grad=True)
                for _ in range(20):
                    w.grad = None
                    (w * w * seed).sum().backward()
                    with ndgrad.no_grad():
                        w -= 0.1 / seed * w.grad
            s.synchronize()
            np.testing.assert_allclose(w.detach().cpu().numpy(), 0.8**20, rtol=1e-4)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=train, args=(k,)) for k in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
