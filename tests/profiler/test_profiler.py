"""The profiler: what is measured, in threads, backward passes, transforms and failures; and that nothing is left behind."""

from __future__ import annotations

import gc
import gzip
import json
import threading
import weakref

import numpy as np
import pytest

import ndgrad
from ndgrad._src.core.call_watchers import watching
from ndgrad._src.core.modes import ThreadState, process, thread
from ndgrad.autograd.profiler import profile, record_function
from ndgrad.autograd.profiler_util import EventList, FunctionEvent
from ndgrad.utils._python_dispatch import DispatchMode


@pytest.fixture(autouse=True)
def nothing_is_left():
    busy = len(process.busy)
    yield
    assert len(process.busy) == busy
    assert ThreadState.watchers == ()


def leaf(*shape):
    return ndgrad.ones(*shape, requires_grad=True)


def events_named(p, name):
    return [e for e in p.function_events if e.name == name]


# ----- recorded calls ------------------------------------------------------------------------------------------------


def test_gradients_under_a_profile_are_those_without():
    def step():
        x, w = leaf(4, 3), leaf(3, 3)
        h = (x @ w).tanh()
        v = h.clone()
        v[0] = h[1] * 2
        a, b = v.unbind()[:2]
        (a * b).sum().backward()
        return x.grad.numpy(), w.grad.numpy()

    plain = step()
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True):
        seen = step()
    for a, b in zip(plain, seen, strict=True):
        np.testing.assert_array_equal(a, b)


def test_backward_runs_in_the_lane_in_which_it_always_runs():
    lanes = []
    x = leaf(3)
    y = x * 2
    y.register_hook(lambda g: lanes.append(thread.task.path))
    with profile():
        y.sum().backward()
    assert lanes == ["arrays"]


def test_first_gradient_of_a_leaf_is_still_taken_without_a_copy():
    """A watcher that held the gradient would force a copy: see Note [Steal or copy]."""
    from ndgrad._src.engine import accumulate

    copies = []
    original = accumulate.copy_like

    def counting(*args):
        copies.append(1)
        return original(*args)

    x = leaf(1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accumulate, "copy_like", counting)
        (x * 3.0).sum().backward()
        without = len(copies)
        x.grad = None
        with profile(profile_memory=True):
            (x * 3.0).sum().backward()
    assert len(copies) == 2 * without


def test_factories_are_seen_with_their_memory():
    with profile(profile_memory=True) as p:
        made = [ndgrad.zeros(10), ndgrad.arange(10.0), ndgrad.tensor([1.0, 2.0]), ndgrad.randn(10), ndgrad.full((5,), 2.0)]
    assert [(e.name, e.cpu_memory_usage) for e in p.function_events] == [
        ("aten::zeros", 80), ("aten::arange", 80), ("aten::tensor", 16), ("aten::normal", 80), ("aten::full", 40),
    ]  # fmt: skip
    assert len(made) == 5


def test_writes_are_seen():
    x = ndgrad.ones(4)
    with profile() as p:
        x.add_(1)
        x[1:3] = ndgrad.zeros(2)
        x += x
        x.zero_().fill_(2.0)
        x.copy_(x)
    names = "add_ zeros copy_ add_ zero_ fill_ copy_".split()
    assert [e.name for e in p.function_events] == [f"aten::{name}" for name in names]


def test_hooks_belong_to_the_evaluation_and_not_to_the_node():
    x = leaf(3)
    y = x * 2
    y.register_hook(lambda g: g.exp())
    with profile() as p:
        y.sum().backward()
    (exp,) = events_named(p, "aten::exp")
    assert exp.cpu_parent.name == "autograd::engine::evaluate_function: MulBackward0"
    assert events_named(p, "MulBackward0")[0].cpu_children == []


def test_leaf_with_a_hook_is_seen_the_moment_it_is_complete():
    x = leaf(3)

    def after(t):
        t.grad.neg()

    x.register_post_accumulate_grad_hook(after)
    with profile() as p:
        (x * x).sum().backward()
    (neg,) = events_named(p, "aten::neg")
    assert neg.cpu_parent.name == "AccumulateGrad"
    assert len(events_named(p, "AccumulateGrad")) == 1


def test_saved_bytes_belong_to_the_op_that_saved():
    x = leaf(100)
    with profile(profile_memory=True) as p:
        y = (x * x).exp()
        y.sum()
    found = {e.name: e.saved_bytes for e in p.function_events if e.name.startswith("aten::")}
    assert found == {"aten::mul": 800, "aten::exp": 800, "aten::sum": 0}


def test_memory_of_a_call_is_what_it_made_less_what_was_freed_in_it():
    class Waste(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.exp()
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with profile(profile_memory=True) as p:
        y = Waste.apply(leaf(100))
    (call,) = events_named(p, "Waste")
    assert call.cpu_memory_usage == 800
    assert call.self_cpu_memory_usage == -800
    assert y.shape == (100,)


def test_views_take_no_memory():
    x = leaf(10, 10)
    with profile(profile_memory=True) as p:
        parts = [x.reshape(100), x[0], x.transpose(0, 1), *x.unbind()]
    assert sum(e.cpu_memory_usage for e in p.function_events) == 0
    assert len(parts) == 13


def test_lines_of_the_user_are_those_of_the_forward():
    x = leaf(3)

    def model(x):
        return x * x

    with profile(with_stack=True) as p:
        model(x).sum().backward()
    for name in ("aten::mul", "MulBackward0"):
        frame, outer = events_named(p, name)[0].stack[:2]
        assert frame.startswith(__file__)
        assert frame.endswith("model")
        assert outer.endswith("test_lines_of_the_user_are_those_of_the_forward")
    rows = p.key_averages(group_by_stack_n=2)
    assert [len(r.stack) for r in rows if r.key == "aten::mul"] == [2]
    assert "Source Location" in rows.table()


def test_shapes_of_backward_nodes_are_those_of_gradients():
    x = leaf(2, 3)
    with profile(record_shapes=True) as p:
        (x * x).sum().backward()
    assert events_named(p, "MulBackward0")[0].input_shapes == [[2, 3]]


def test_dispatch_modes_and_profiles_see_the_same_ops():
    seen = []

    class Log(DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = leaf(3)
    with profile() as p, Log():
        (x * x).exp()
    assert seen == ["mul", "exp"]
    assert [e.name for e in p.function_events] == ["aten::mul", "aten::exp"]


def test_transforms_nest_their_ops_in_the_profile():
    x = ndgrad.ones(4, 3)
    with profile() as p:
        ndgrad.func.vmap(ndgrad.func.grad(lambda a: (a * a).sum()))(x)
        ndgrad.func.jvp(lambda a: a.exp(), (x,), (x,))
    assert len(events_named(p, "aten::sum")) == 1
    assert len(events_named(p, "MulBackward0")) == 1
    assert events_named(p, "aten::exp")


# ----- threads -------------------------------------------------------------------------------------------------------


def test_every_thread_has_its_own_nesting(tmp_path):
    ready = threading.Barrier(4)

    def work(number):
        x = leaf(3)
        ready.wait()
        for _ in range(20):
            with record_function(f"work {number}"):
                (x * x).sum().backward()

    with profile() as p:
        workers = [threading.Thread(target=work, args=(n,), name=f"worker-{n}") for n in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    for n in range(4):
        ranges = events_named(p, f"work {n}")
        assert len(ranges) == 20
        assert len({e.thread for e in ranges}) == 1
        for e in ranges:
            assert [c.name for c in e.cpu_children][:2] == ["aten::mul", "aten::sum"]
            assert all(c.thread == e.thread for c in e.cpu_children)
    path = tmp_path / "trace.json"
    p.export_chrome_trace(path)
    entries = json.loads(path.read_text())["traceEvents"]
    found = {e["args"]["name"].split(" ")[0] for e in entries if e["name"] == "thread_name"}
    assert {f"worker-{n}" for n in range(4)} <= found


def test_call_that_another_thread_has_not_finished_ends_with_the_profile():
    inside, leave = threading.Event(), threading.Event()

    def work():
        with record_function("long"):
            inside.set()
            leave.wait()

    worker = threading.Thread(target=work)
    with profile() as p:
        worker.start()
        inside.wait()
    leave.set()
    worker.join()
    (event,) = events_named(p, "long")
    assert event.cpu_time_total >= 0


def test_range_may_be_closed_by_another_thread():
    with profile() as p:
        handle = ndgrad.ops.profiler._record_function_enter("r")
        closer = threading.Thread(target=ndgrad.ops.profiler._record_function_exit, args=(handle,))
        closer.start()
        closer.join()
        ndgrad.ones(2)
    assert [(e.name, e.cpu_parent) for e in p.function_events] == [("r", None), ("aten::ones", None)]


# ----- failures ------------------------------------------------------------------------------------------------------


def test_failing_calls_are_there_and_the_profile_goes_on():
    x = leaf(3)
    with profile(profile_memory=True, record_shapes=True) as p:
        with pytest.raises(RuntimeError):
            x * ndgrad.ones(2)
        with pytest.raises(RuntimeError):
            x.add_(1)  # a leaf
        y = (x * x).sum()
        y.backward()
        with pytest.raises(RuntimeError):
            y.backward()
        x.exp()
    assert events_named(p, "aten::exp")[0].cpu_parent is None


def test_watcher_that_raises_leaves_the_others_balanced():
    class Bad:
        def __init__(self, when):
            self.when = when

        def begin(self, kind, name, subject, args):
            if self.when == "begin":
                raise KeyError("begin")

        def end(self, token, results):
            if self.when == "end":
                raise KeyError("end")

    x = leaf(3)
    for when in ("begin", "end"):
        with profile() as p:
            with watching(Bad(when)), pytest.raises(KeyError, match=when):
                x * x
            x + x
        assert [(e.name, e.cpu_parent) for e in p.function_events] == [("aten::mul", None), ("aten::add", None)]
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_profile_holds_neither_tensors_nor_nodes():
    x = leaf(3)
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as p:
        y = x.exp()
        refs = [weakref.ref(y), weakref.ref(y.grad_fn)]
        y.sum().backward()
    del y
    gc.collect()
    assert [r() for r in refs] == [None, None]
    assert p.function_events


def test_profiles_may_overlap_in_any_order():
    x = leaf(3)
    a, b = profile(), profile()
    a.__enter__()
    x * x
    b.__enter__()
    x + x
    a.__exit__(None, None, None)
    x - x
    b.__exit__(None, None, None)
    assert [e.name for e in a.function_events] == ["aten::mul", "aten::add"]
    assert [e.name for e in b.function_events] == ["aten::add", "aten::sub"]


def test_decorated_generators_are_ranges_while_their_own_code_runs():
    @record_function("gen")
    def numbers(x):
        yield x * 1.0
        yield x * 2.0

    x = ndgrad.ones(2)
    with profile() as p:
        for _ in numbers(x):
            x.exp()
    assert [e.cpu_parent and e.cpu_parent.name for e in p.function_events if e.name == "aten::exp"] == [None, None]
    assert [e.cpu_parent.name for e in p.function_events if e.name == "aten::mul"] == ["gen", "gen"]


# ----- tables and files ----------------------------------------------------------------------------------------------


def test_self_times_add_up():
    x = leaf(50, 50)
    with profile() as p, record_function("all"):
        for _ in range(5):
            (x @ x).tanh().sum().backward()
    (whole,) = events_named(p, "all")
    assert p.self_cpu_time_total == pytest.approx(whole.cpu_time_total)
    assert sum(e.self_cpu_time_total for e in p.key_averages()) == pytest.approx(whole.cpu_time_total)
    for event in p.function_events:
        assert event.self_cpu_time_total >= 0
        assert event.cpu_time_total == pytest.approx(event.self_cpu_time_total + sum(c.cpu_time_total for c in event.cpu_children))


def test_table_has_a_column_for_what_was_asked():
    x = leaf(10, 10)
    with profile(record_shapes=True, profile_memory=True, with_flops=True) as p:
        y = x @ x
    table = p.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_memory_usage", header="one product")
    for title in ("Name", "Self CPU %", "CPU total", "# of Calls", "CPU Mem", "Saved", "Input Shapes", "Total FLOPs", "one product"):
        assert title in table
    assert "[[10, 10], [10, 10]]" in table
    assert "2.000 K" in table
    assert len({len(line) for line in table.splitlines()[3:7]}) == 1
    assert y.shape == (10, 10)


def test_long_names_are_cut_and_rows_limited():
    events = EventList([FunctionEvent(i, "n" * 100, 0, 10 * i, 10 * i + 5) for i in range(10)])
    table = events.table(row_limit=3, max_name_column_width=20)
    assert table.count("n" * 17 + "...") == 3
    assert events.table(row_limit=-1).count("5.000us") > 10


def test_trace_file_is_valid_and_nested(tmp_path):
    x = leaf(10)
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as p, record_function("step"):
        (x * x).exp().sum().backward()
    p.export_chrome_trace(tmp_path / "trace.json")
    p.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert json.load(file) == trace
    calls = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert all(isinstance(e["ts"], float) and e["dur"] >= 0 and {"pid", "tid", "name", "cat", "args"} <= e.keys() for e in calls)
    stack = []
    for e in sorted(calls, key=lambda e: (e["ts"], -e["dur"])):  # calls of one thread contain each other or are apart
        while stack and e["ts"] >= stack[-1]:
            stack.pop()
        assert not stack or e["ts"] + e["dur"] <= stack[-1] + 1e-6
        stack.append(e["ts"] + e["dur"])
    arrows = [(e["ph"], e["id"]) for e in trace["traceEvents"] if e.get("cat") == "fwdbwd"]
    assert sorted(i for ph, i in arrows if ph == "s") == sorted(i for ph, i in arrows if ph == "f")
    assert len(arrows) == 6
    curve = [e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C"]
    assert max(curve) >= 160
    assert min(curve) >= 0
    mul = next(e for e in calls if e["name"] == "aten::mul")
    assert mul["args"]["Input Dims"] == [[10], [10]]
    assert "test_trace_file" in mul["args"]["Call stack"]


def test_stacks_for_flame_graphs(tmp_path):
    x = leaf(200, 200)
    with profile(with_stack=True) as p:
        (x @ x).sum().backward()
    p.export_stacks(tmp_path / "stacks.txt")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert any("test_stacks_for_flame_graphs" in line and ";aten::matmul " in line for line in lines)
    assert all(line.rsplit(" ", 1)[1].isdigit() and line.count(" ") == 1 for line in lines)
    with pytest.raises(ValueError, match="metric should be one of"):
        p.export_stacks(tmp_path / "other.txt", "bogus")


def test_schedule_measures_some_steps(tmp_path):
    from ndgrad import profiler

    x = leaf(3)
    kept = []
    steps = profiler.schedule(wait=2, warmup=1, active=2, repeat=1)
    with profiler.profile(schedule=steps, on_trace_ready=lambda p: kept.append([e.name for e in p.events()]), profile_memory=True) as p:
        for _ in range(8):
            assert bool(ThreadState.watchers) == (steps(p.step_num) is not profiler.ProfilerAction.NONE)
            x * x
            p.step()
    assert kept == [["ProfilerStep#3", "aten::mul", "ProfilerStep#4", "aten::mul"]]
    p.export_chrome_trace(tmp_path / "t.json")
    assert (tmp_path / "t.json").exists()


def test_schedule_that_is_cut_short_hands_over_what_there_is():
    from ndgrad import profiler

    x = leaf(3)
    kept = []
    with profiler.profile(
        schedule=profiler.schedule(wait=0, warmup=0, active=5), on_trace_ready=lambda p: kept.append(len(p.events()))
    ) as p:
        x * x
        p.step()
        x * x
    assert kept == [4]
