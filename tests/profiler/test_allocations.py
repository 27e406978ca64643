"""The trace of allocations: every piece of memory once, alive as long as it is, with the call and the line that made it."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import ndgrad
from ndgrad._src.core.modes import ThreadState, process
from ndgrad.autograd import graph


@pytest.fixture(autouse=True)
def nothing_is_left():
    busy = len(process.busy)
    yield
    assert len(process.busy) == busy
    assert ThreadState.watchers == ()


def leaf(*shape):
    return ndgrad.ones(*shape, requires_grad=True)


def ops(found):
    return [made.op for made in found]


def test_memory_lives_as_long_as_somebody_holds_it():
    x = leaf(1000)
    with graph.trace_allocations() as trace:
        a = x * 2
        assert (trace.alive_bytes, trace.peak_bytes) == (8000, 8000)
        b = a.exp()  # the node of mul does not need `a`
        del a
        assert (trace.alive_bytes, trace.peak_bytes) == (8000, 16000)
        del b
        gc.collect()
        assert (trace.alive_bytes, trace.total_bytes) == (0, 16000)
    assert [(m.op, m.nbytes, m.shape, m.dtype, m.is_alive) for m in trace.allocations] == [
        ("mul", 8000, (1000,), "float64", False), ("exp", 8000, (1000,), "float64", False),
    ]  # fmt: skip
    assert all(m.made_at <= m.freed_at for m in trace.allocations)


def test_saved_results_are_alive_through_the_graph():
    x = leaf(1000)
    with graph.trace_allocations() as trace:
        y = x.exp().sum()
        assert ops(trace.alive) == ["exp"]
        y.backward()
        assert [m.backward for m in trace.alive] == [True]  # the gradient, and nothing else


def test_memory_from_before_and_views_are_no_news():
    x = leaf(10, 10)
    with graph.trace_allocations() as trace:
        views = [x[0], x.reshape(100), x.detach(), ndgrad.from_numpy(np.zeros(3)), x.transpose(0, 1)[1:]]
        x.detach().add_(1)
    assert trace.allocations == []
    assert len(views) == 5
    assert str(trace) == "0 allocations, 0 B in all, 0 B at the peak, 0 B alive now"


def test_factories_and_copies_are_seen():
    with graph.trace_allocations() as trace:
        kept = [ndgrad.zeros(4), ndgrad.tensor([1.0, 2.0]), ndgrad.randn(3), ndgrad.ones(5).clone()]
    assert ops(trace.allocations) == ["zeros", "tensor", "normal", "ones", "clone"]
    assert trace.alive_bytes == 8 * (4 + 2 + 3 + 5)
    assert len(kept) == 4


def test_part_of_a_larger_memory_counts_as_the_whole():
    with graph.trace_allocations() as trace:
        first = ndgrad.cumsum(ndgrad.ones(10), 0)[:1]
        gc.collect()
        assert trace.alive_bytes == 80
    assert first.shape == (1,)


def test_gradients_are_told_from_results():
    x = leaf(100)
    with graph.trace_allocations() as trace:
        h = x.tanh()
        (h * h).sum().backward()
    forward = [m for m in trace.allocations if not m.backward]
    backward = [m for m in trace.allocations if m.backward]
    assert ops(forward) == ["tanh", "mul"]
    assert backward
    assert all(m.op.endswith("Backward0") or m.op in (".grad", "sum of gradients") for m in backward)
    assert sum(m.nbytes for m in trace.alive) == 1600  # tanh's result, which `h` holds, and the gradient


def test_sums_that_the_engine_makes_are_seen():
    x = leaf(100)
    with graph.trace_allocations() as trace:
        h = x * 2
        (h.exp() + h.sin()).sum().backward()
    assert "sum of gradients" in ops(trace.allocations)


def test_peak_and_who_was_there():
    with graph.trace_allocations() as trace:
        big = ndgrad.zeros(1000)
        small = ndgrad.ones(10)
        del big
        other = ndgrad.ones(500)
    assert trace.peak_bytes == 8080
    assert [(m.op, m.nbytes) for m in trace.at_peak] == [("zeros", 8000), ("ones", 80)]
    assert [(m.op, m.nbytes) for m in trace.alive] == [("ones", 4000), ("ones", 80)]
    assert [alive for _, alive in trace.timeline()] == [8000, 8080, 80, 4080]
    assert (small + 1).shape == (10,)
    assert other.shape == (500,)


def test_summary_groups_by_call_and_line():
    x = leaf(1000)
    with graph.trace_allocations() as trace:
        kept = [x.exp() for _ in range(3)]  # the line of interest
        more = x.sin()
    text = str(trace)
    lines = text.splitlines()
    assert lines[0] == "4 allocations, 32.0 kB in all, 32.0 kB at the peak, 32.0 kB alive now"
    assert "24.0 kB" in lines[2]
    assert "3 x exp" in lines[2]
    assert "the line of interest" in lines[2]
    assert "1 x sin" in lines[3]
    assert "8.0 kB in 1 more rows" in trace.summary(row_limit=1)
    assert len(kept) == 3
    assert more.shape == (1000,)


def test_lines_of_the_user_as_many_as_asked():
    def inner(x):
        return x * 2

    x = leaf(3)
    with graph.trace_allocations(frames=2) as trace:
        y = inner(x)
    (made,) = trace.allocations
    assert [p.function.split(".")[-1] for p in made.stack] == ["inner", "test_lines_of_the_user_as_many_as_asked"]
    assert made.place.text == "return x * 2"
    assert y.shape == (3,)


def test_callback_sees_each_allocation_at_once():
    seen = []
    x = leaf(3)
    with graph.trace_allocations(lambda m: seen.append((m.op, m.is_alive))) as trace:
        y = x * 2
        assert seen == [("mul", True)]
        y.exp()
    assert len(seen) == len(trace.allocations) == 2


def test_callback_that_raises_stops_the_call_and_harms_nothing():
    x = leaf(3)

    def limit(made):
        if made.nbytes > 100:
            raise MemoryError(f"{made.nbytes} bytes")

    with graph.trace_allocations(limit):
        y = x * 2
        with pytest.raises(MemoryError, match="800 bytes"):
            ndgrad.zeros(100)
        y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_traces_of_several_threads_count_everything():
    def work():
        for _ in range(50):
            ndgrad.zeros(10).exp()

    with graph.trace_allocations() as trace:
        workers = [threading.Thread(target=work) for _ in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        gc.collect()
        assert trace.alive_bytes == 0
    assert len(trace.allocations) == 400
    assert min(alive for _, alive in trace.timeline()) >= 0


def test_trace_beside_a_profile():
    x = leaf(100)
    with graph.trace_allocations() as trace, ndgrad.autograd.profiler.profile(profile_memory=True) as p:
        y = x * 2
    assert ops(trace.allocations) == ["mul"]
    assert [e.cpu_memory_usage for e in p.function_events] == [800]
    assert y.shape == (100,)


def test_trace_is_entered_once_and_takes_a_function():
    trace = graph.trace_allocations()
    with trace:
        x = ndgrad.zeros(2)
        with pytest.raises(RuntimeError, match="can be entered once"):
            trace.__enter__()
    with pytest.raises(RuntimeError, match="can be entered once"), trace:
        pass
    with pytest.raises(TypeError, match="takes a function"):
        graph.trace_allocations(3)
    assert x.shape == (2,)


def test_memory_of_checkpointing_is_seen_to_fall():
    from ndgrad._src.checkpoint import checkpoint

    def block(x):
        for _ in range(10):
            x = x.tanh()
        return x

    peaks = []
    for run in (block, lambda x: checkpoint(block, x, use_reentrant=False)):
        x = leaf(10_000)
        with graph.trace_allocations() as trace:
            y = x
            for _ in range(5):
                y = run(y)
            y.sum().backward()
        peaks.append(trace.peak_bytes)
    assert peaks[1] < 0.5 * peaks[0]
