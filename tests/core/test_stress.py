"""Many threads, many passes, many nodes."""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.threads import in_threads

import ndgrad
from ndgrad import autograd
from ndgrad._src.core import versions
from ndgrad._src.core.modes import process

pytestmark = pytest.mark.stress


def leaf(*values):
    return ndgrad.tensor(np.array(values), requires_grad=True)


def resident() -> int:
    """Return the bytes of memory of the process, or 0 if unknown."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.exists() else 0


# ----- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [1e-6, 5e-3])
@pytest.mark.parametrize("hooked", [False, True], ids=["plain", "hooked"])
def test_32_threads_on_shared_leaves_give_the_exact_sum(interval, hooked):
    """Integers are added, so the sum is exact in any order; a lost or doubled gradient would show."""
    leaves = [ndgrad.tensor(np.arange(1.0, 1.0 + n), requires_grad=True) for n in (1, 3, 5000)]
    seen = [0] * 32
    if hooked:
        for t in leaves:
            t.register_hook(lambda g: None)

    def work(i):
        for k in range(20):
            a, b, c = leaves
            y = (a * float(k) * b).sum() + (b.sum() * c * 2.0).sum() + (c[1:] * c[:-1]).sum()
            y.backward()
            if i % 4 == 0:
                autograd.grad((a * b).sum(), [a, b])
            seen[i] += 1

    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        in_threads(32, work)
    finally:
        sys.setswitchinterval(before)
    assert seen == [20] * 32
    a, b, c = (t.detach().numpy() for t in leaves)
    factors = 32 * sum(range(20))
    times = 32 * 20
    assert leaves[0].grad.tolist() == [factors * b.sum()]
    assert leaves[1].grad.tolist() == [factors * a[0] + times * 2.0 * c.sum()] * 3
    neighbours = np.append(c[1:], 0.0) + np.insert(c[:-1], 0, 0.0)
    assert leaves[2].grad.tolist() == (times * (2.0 * b.sum() + neighbours)).tolist()
    assert len(process.busy) == bool(process.shared)


def test_threads_that_view_one_tensor_agree_on_its_memory(monkeypatch):
    """With two storages, a value saved with one would seem overwritten with the other."""

    class Slow(versions.Storage):
        __slots__ = ()

        def __init__(self):
            super().__init__()
            time.sleep(0.01)  # all threads arrive while it is made

    x, views = leaf(1.0, 2.0, 3.0), [None] * 8
    monkeypatch.setattr(versions, "Storage", Slow)

    def view(i):
        views[i] = x[1:]

    in_threads(8, view)
    monkeypatch.undo()
    products = [v * x[:-1] for v in views]
    views[0].detach().add_(1.0)
    assert {v._version for v in views} == {x._version} == {1}
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        products[7].sum().backward()


def test_32_threads_on_one_graph_give_the_exact_sum():
    x, w = ndgrad.tensor(np.arange(1.0, 101.0), requires_grad=True), leaf(2.0)
    h = x * w
    for _ in range(20):
        h = h + x[0] * 2.0
    y = (h * x).sum()
    gx, gw = autograd.grad(y, [x, w], retain_graph=True)
    in_threads(32, lambda i: [y.backward(retain_graph=True) for _ in range(10)])
    assert x.grad.tolist() == [320 * g for g in gx.tolist()]
    assert w.grad.tolist() == [320 * g for g in gw.tolist()]


def test_threads_with_modes_levels_and_nested_passes():
    x = leaf(1.0, 2.0)

    def work(i):
        for _ in range(20):
            kind = i % 4
            if kind == 0:
                with ndgrad.no_grad():
                    assert not (x * 2).requires_grad
            elif kind == 1:
                assert ndgrad.func.grad(lambda t: (t * t).sum())(ndgrad.tensor([3.0])).tolist() == [6.0]
            elif kind == 2:
                h = x * 1.0
                h.register_hook(lambda g: nested())
                h.sum().backward()
            else:
                with autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
                    (x * x).sum().backward()

    def nested():
        with ndgrad.enable_grad():
            (x * 10.0).sum().backward()

    in_threads(32, work)
    assert x.grad.tolist() == [160 * 11.0 + 160 * 2.0, 160 * 11.0 + 160 * 4.0]
    assert len(process.busy) == bool(process.shared)


# ----- passes ----------------------------------------------------------------------------------------------------------


def plain_pass(x, w):
    (x * w).exp().sum().backward()


def pass_with_hooks(x, w):
    h = x * w
    h.retain_grad()
    with x.register_hook(lambda g: g), h.grad_fn.register_hook(lambda i, o: None):
        autograd.graph.register_multi_grad_hook([w, h], lambda gs: None).remove()
        h.sum().backward()


def pass_with_views(x, w):
    y = x * 1.0
    y[0].mul_(w[0])
    y.view(2)[1:].add_(1.0)
    (y * y).sum().backward()


def pass_to_second_order(x, w):
    (g,) = autograd.grad((x * x * w).sum(), x, create_graph=True)
    g.sum().backward()


def pass_that_fails(x, w):
    h = x * w
    h.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (h * h).sum().backward()


@pytest.mark.parametrize(
    ("one", "count"),
    [(plain_pass, 100_000), (pass_with_hooks, 20_000), (pass_with_views, 10_000), (pass_to_second_order, 10_000), (pass_that_fails, 5_000)],
)
def test_memory_stays_flat(one, count):
    x, w = leaf(0.1, 0.2), leaf(0.3, 0.4)
    gc.collect()
    gc.disable()  # memory that only the collector would free counts as lost
    try:
        for _ in range(500):
            one(x, w)
        objects, memory, hooks = len(gc.get_objects()), resident(), len(process.leaf_hooks)
        for _ in range(count):
            one(x, w)
            x.grad = w.grad = None
        assert len(gc.get_objects()) - objects < 50
        assert resident() - memory < 4_000_000
        assert len(process.leaf_hooks) == hooks
    finally:
        gc.enable()


# ----- nodes -----------------------------------------------------------------------------------------------------------


def a_million_nodes(x):
    """Chains that split and join again: every third node has two consumers, every third joins two."""
    y = x
    for _ in range(333_333):
        h = y * 1.0
        y = (h + h.neg()) + h
    return y


@pytest.mark.parametrize("how", ["backward", "counted", "grad"])
def test_a_graph_of_a_million_nodes(how):
    x = leaf(1.0)
    y = a_million_nodes(x)
    if how == "grad":
        assert autograd.grad(y.sum(), x)[0].tolist() == [1.0]
    else:
        handle = x.register_hook(lambda g: None) if how == "counted" else None
        y.sum().backward()
        assert x.grad.tolist() == [1.0]
        if handle is not None:
            handle.remove()


def test_a_graph_of_a_million_nodes_dies_without_backward():
    x = leaf(1.0)
    y = a_million_nodes(x)
    assert sum(1 for _ in autograd.graph.walk(y)) > 1_000_000
    del y


def test_a_leaf_with_a_hundred_thousand_uses():
    x = leaf(1.0, 2.0)
    total = x * 0.0
    for k in range(100_000):
        total = total + x * float(k % 3)
    total.sum().backward()
    assert x.grad.tolist() == [99_999.0] * 2
    (y,) = autograd.grad(ndgrad.stack([x] * 100_000).sum(), x)
    assert y.tolist() == [100_000.0] * 2


def test_a_hundred_thousand_writes_into_one_buffer():
    import ndgrad.numpy as anp

    x = anp.array([0.5])
    x.requires_grad_()
    u = anp.zeros(100_000)
    u[0] = x[0]
    for i in range(1, 100_000):
        u[i] = u[i - 1] * 1.0
    u[-1].backward()
    assert x.grad.tolist() == [1.0]
