"""The profiler: names, counts and nesting of events, what lists of events answer, and kinds of errors, on torch and on ndgrad alike."""

from __future__ import annotations

import importlib
import json
import threading
from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both

PROGRAMS = Programs()
program = PROGRAMS.enter

#: Inner ops of torch's ops and of its setup of gradients: ndgrad's ops are one call each.
INNER = {
    "aten::as_strided", "aten::fill_", "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::resolve_conj", "aten::ones_like",
    "aten::_to_copy", "aten::to", "aten::result_type", "aten::lift_fresh", "aten::detach", "detach", "aten::detach_", "detach_",
    "aten::zero_", "aten::expand",
}  # fmt: skip


def names(events):
    """The events in order, but for torch's inner ones and those inside backward nodes, which ndgrad does not tell apart."""
    out = []
    for e in events:
        if e.name not in INNER and not in_backward(e) and e.name != "[memory]":
            out.append(short(e.name))
    return out


def in_backward(event):
    """Whether an op runs inside a backward node."""
    parent = event.cpu_parent
    while parent is not None:
        if parent.name.startswith("autograd::engine") and event.name.startswith("aten::"):
            return True
        parent = parent.cpu_parent
    return False


def short(name):
    return name.replace("torch::autograd::", "")


def nesting(events):
    shown = [e for e in events if names([e])]
    return [[short(e.name), None if e.cpu_parent is None else short(e.cpu_parent.name)] for e in shown]


def util(m):
    return importlib.import_module(f"{m.__name__}.autograd.profiler_util")


def profile(m, **options):
    return m.autograd.profiler.profile(**options)


# -- which events there are --


@program
def names_of_ops_in_order(m):
    x = leaf(m, 3)
    with profile(m) as p:
        y = x * x
        z = y.exp() + x
        (z - x).sum()
    return names(p.function_events)


@program
def names_of_backward_nodes_in_order(m):
    x = leaf(m, 3)
    with profile(m) as p:
        (x * x).exp().sum().backward()
    return names(p.function_events)


@program
def an_op_twice_counts_twice(m):
    x = leaf(m, 3)
    with profile(m) as p:
        x * x
        x * x
        x + x
    return {e.key: e.count for e in p.key_averages()}


@program
def nothing_is_seen_outside_the_block(m):
    x = leaf(m, 3)
    x * x
    with profile(m) as p:
        x + x
    x - x
    return names(p.function_events)


@program
def an_empty_block(m):
    with profile(m) as p:
        pass
    return len(p.function_events), p.key_averages().table(), p.self_cpu_time_total


@program
def in_place_ops_have_their_names(m):
    x = leaf(m, 3) * 1
    with profile(m) as p:
        x.mul_(m.ones(3, dtype=m.float64))
    return names(p.function_events)[-1:]


@program
def ops_under_no_grad_are_seen(m):
    x = leaf(m, 3)
    with profile(m) as p, m.no_grad():
        x * x
    return names(p.function_events), [e.sequence_nr for e in p.function_events]


@program
def a_custom_function_and_its_backward(m):
    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            return g.sin()

    x = leaf(m, 3)
    with profile(m) as p:
        Double.apply(x).sum().backward()
    inner = [e.name for e in p.function_events if e.cpu_parent is not None and e.cpu_parent.name in ("Double", "DoubleBackward")]
    return names(p.function_events), inner


@program
def a_transform_shows_an_op_once(m):
    x = m.ones(3, 2, dtype=m.float64)
    with profile(m) as p:
        m.func.vmap(lambda a: a * a)(x)
    return [e.name for e in p.function_events if e.name == "aten::mul"]


@program
def grad_of_a_function(m):
    x = m.ones(3, dtype=m.float64)
    with profile(m) as p:
        m.func.grad(lambda a: (a * a).sum())(x)
    found = names(p.function_events)
    return [n for n in found if n in ("aten::mul", "aten::sum", "MulBackward0", "SumBackward0")]


@program
def a_second_backward_is_seen_again(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    with profile(m) as p:
        y.backward(retain_graph=True)
        y.backward()
    return {short(e.key): e.count for e in p.key_averages() if "Backward" in e.key or "Accumulate" in e.key}


@program
def double_backward_is_seen(m):
    x = leaf(m, 3)
    with profile(m) as p:
        (g,) = m.autograd.grad((x * x).sum(), x, create_graph=True)
        g.sum().backward()
    return sum(e.name == "MulBackward0" for e in p.function_events) >= 2


# -- ranges --


@program
def a_range_contains_what_runs_in_it(m):
    x = leaf(m, 3)
    with profile(m) as p:
        with m.autograd.profiler.record_function("outer"):
            x * x
            with m.autograd.profiler.record_function("inner"):
                x + x
        x - x
    return nesting(p.function_events)


@program
def a_range_has_no_backward(m):
    x = leaf(m, 3)
    with profile(m) as p:
        with m.autograd.profiler.record_function("forward"):
            y = (x * x).sum()
        with m.autograd.profiler.record_function("backward"):
            y.backward()
    return nesting(p.function_events)


@program
def a_range_as_decorator(m):
    @m.autograd.profiler.record_function("f")
    def f(x, factor=2):
        """Doc."""
        return x * factor

    x = leaf(m, 3)
    with profile(m) as p:
        f(x, x)
        f(x, factor=x)
    return names(p.function_events), f.__name__, f.__doc__


@program
def a_range_used_again(m):
    ranges = m.autograd.profiler.record_function("r")
    with profile(m) as p:
        with ranges:
            pass
        with ranges:
            pass
    return names(p.function_events)


@program
def a_range_without_a_profile(m):
    with m.autograd.profiler.record_function("r"):
        return m.autograd._profiler_enabled()


@program
def a_range_whose_name_is_no_text(m):
    with m.autograd.profiler.record_function(3):
        pass


@program
def a_range_without_a_name(m):
    m.autograd.profiler.record_function()


@program
def a_range_that_raises_is_there(m):
    p, x = profile(m), leaf(m, 3)
    try:
        with p, m.autograd.profiler.record_function("r"):
            x * x
            raise KeyError
    except KeyError:
        pass
    return names(p.function_events), m.autograd._profiler_enabled()


@program
def ranges_by_hand(m):
    x = leaf(m, 3)
    with profile(m) as p:
        handle = m.ops.profiler._record_function_enter("by hand", None)
        x * x
        m.ops.profiler._record_function_exit(handle)
    return nesting(p.function_events)


@program
def ranges_know_that_they_are_the_users(m):
    with profile(m) as p, m.autograd.profiler.record_function("r"):
        leaf(m, 3) * 2
    return [[e.name, e.is_user_annotation, e.scope] for e in p.function_events if e.name in ("r", "aten::mul")]


@program
def equal_ranges_inside_each_other_are_one(m):
    with profile(m) as p, m.autograd.profiler.record_function("r"), m.autograd.profiler.record_function("r"):
        leaf(m, 3) * 2
    return [e.name for e in p.function_events if e.name == "r"]


# -- what events know --


@program
def shapes_of_inputs(m):
    x, y = leaf(m, 2, 3), leaf(m, 3)
    with profile(m, record_shapes=True) as p:
        x * y
        x.exp()
    return [[e.name, e.input_shapes] for e in p.function_events if e.name in ("aten::mul", "aten::exp")]


@program
def no_shapes_unless_asked(m):
    with profile(m) as p:
        leaf(m, 2) * leaf(m, 2)
    return [e.input_shapes for e in p.function_events if e.name == "aten::mul"]


@program
def averages_by_shape(m):
    x, y = leaf(m, 2, 3), leaf(m, 3)
    with profile(m, record_shapes=True) as p:
        x * x
        x * x
        y * y
    found = [[e.key, e.count, e.input_shapes] for e in p.key_averages(group_by_input_shape=True) if e.key == "aten::mul"]
    return found, [e.count for e in p.key_averages() if e.key == "aten::mul"]


@program
def forward_and_backward_have_one_sequence_number(m):
    x = leaf(m, 3)
    with profile(m) as p:
        (x * x).exp().sum().backward()
    numbers = {e.name: e.sequence_nr for e in p.function_events if not in_backward(e)}
    pairs = [("aten::mul", "MulBackward0"), ("aten::exp", "ExpBackward0"), ("aten::sum", "SumBackward0")]
    return [numbers[a] == numbers[b] for a, b in pairs], numbers["aten::mul"] < numbers["aten::exp"] < numbers["aten::sum"]


@program
def the_thread_of_the_forward(m):
    x = leaf(m, 3)
    with profile(m) as p:
        (x * x).sum().backward()
    by_name = {e.name: e for e in p.function_events if not in_backward(e)}
    return by_name["MulBackward0"].fwd_thread == by_name["aten::mul"].thread, by_name["aten::mul"].fwd_thread


@program
def memory_of_results(m):
    x = m.ones(100, dtype=m.float64)
    with profile(m, profile_memory=True) as p:
        y = x * x
        z = y.exp()
        z.view(10, 10)
    return [[e.name, e.cpu_memory_usage, e.self_cpu_memory_usage] for e in p.function_events if e.name in ("aten::mul", "aten::exp")]


@program
def memory_that_is_freed_outside_of_calls(m):
    x = m.ones(100, dtype=m.float64)
    with profile(m, profile_memory=True) as p:
        y = x * x
        del y
    return [[e.name, e.cpu_memory_usage] for e in p.function_events if e.name in ("aten::mul", "[memory]")]


@program
def flops(m):
    x = m.ones(4, 5, dtype=m.float64)
    with profile(m, with_flops=True) as p:
        x * x
        x + x
        x.exp()
    return [[e.name, e.flops or 0] for e in p.function_events if e.name in ("aten::mul", "aten::add", "aten::exp")]


@program
def flops_of_products(m):
    x, y = m.ones(4, 5, dtype=m.float64), m.ones(5, 6, dtype=m.float64)
    image, kernel = m.ones(2, 3, 8, 8, dtype=m.float64), m.ones(4, 3, 3, 3, dtype=m.float64)
    with profile(m, with_flops=True) as p:
        x @ y
        m.nn.functional.conv2d(image, kernel)
        m.nn.functional.linear(x, y.t().contiguous())
    return sorted(e.flops for e in p.function_events if e.flops)


# -- lists of events --


def events(m, *spans):
    """Events by hand: (name, thread, begin, end)."""
    event = util(m).FunctionEvent
    return util(m).EventList([event(id=i, name=n, thread=t, start_us=a, end_us=b, stack=[]) for i, (n, t, a, b) in enumerate(spans)])


@program
def a_tree_of_events_made_by_hand(m):
    found = events(m, ("a", 0, 0, 10), ("b", 0, 2, 5), ("c", 0, 3, 4), ("d", 1, 3, 4), ("e", 0, 6, 9), ("f", 0, 20, 21))
    found._build_tree()
    parents = [None if e.cpu_parent is None else e.cpu_parent.name for e in found]
    return parents, [[c.name for c in e.cpu_children] for e in found], [e.self_cpu_time_total for e in found], found.self_cpu_time_total


@program
def times_of_an_event(m):
    (e,) = events(m, ("a", 0, 5, 10))
    return e.cpu_time, e.cpu_time_total, e.self_cpu_time_total, e.count, e.key, e.cpu_time_str, e.time_range.elapsed_us()


@program
def averages_of_events_made_by_hand(m):
    found = events(m, ("a", 0, 0, 10), ("b", 0, 1, 2), ("b", 0, 3, 6))
    found._build_tree()
    averages = found.key_averages()
    total = found.total_average()
    return (
        [[e.key, e.count, e.cpu_time_total, e.cpu_time, e.self_cpu_time_total] for e in averages],
        [total.key, total.count, total.cpu_time_total, total.self_cpu_time_total],
    )


@program
def children_by_hand(m):
    a, b = events(m, ("a", 0, 0, 10), ("b", 0, 1, 2))
    a.append_cpu_child(b)
    b.set_cpu_parent(a)
    return a.self_cpu_time_total, b.cpu_parent is a, attempt(lambda: a.append_cpu_child(3))


@program
def adding_averages(m):
    a, b, c = events(m, ("a", 0, 0, 10), ("a", 0, 12, 16), ("c", 0, 20, 30))
    average = util(m).FunctionEventAvg()
    average.add(a)
    average += b
    return average.count, average.cpu_time_total, average.cpu_time, attempt(lambda: average.add(c)), average.key


@program
def times_as_text(m):
    u = util(m)
    times = [u._format_time(t) for t in (0, 0.5, 999.4, 999.9999, 1000, 12345, 1e6, 1234567, 5e9)]
    sizes = [u._format_memory(n) for n in (0, 5, 1023, 1024, -2048, 1500000, 3 * 1024**3, 2 * 1024**4)]
    return times, sizes, u._format_time_share(1, 3), u._format_time_share(0, 0), attempt(lambda: u._format_time_share(1, 0))


@program
def rows_of_a_table(m):
    found = events(m, ("short", 0, 0, 10), ("longer name", 0, 20, 50), ("middle", 0, 60, 61))
    found._build_tree()
    table = found.table(sort_by="cpu_time_total", row_limit=2)
    rows = [line.split() for line in table.splitlines() if "us" in line]
    return [row[-7:] for row in rows], len(found.table(row_limit=-1).splitlines()), "HEAD" in found.table(header="HEAD")


@program
def a_table_sorted_by_what_does_not_exist(m):
    found = events(m, ("a", 0, 0, 10))
    found._build_tree()
    found.key_averages().table(sort_by="bogus")


@program
def a_table_of_nothing(m):
    return util(m).EventList([]).table(), len(util(m).EventList([]))


@program
def units_of_times_in_tables(m):
    found = events(m, ("a", 0, 0, 1500))
    found._build_tree()
    return [unit in found.table(time_unit=unit) for unit in ("us", "ms", "s")]


# -- the profile itself --


@program
def a_profile_that_is_disabled(m):
    with profile(m, enabled=False) as p:
        leaf(m, 3) * 2
    return p, m.autograd._profiler_enabled()


@program
def events_of_a_profile_that_is_disabled(m):
    p = profile(m, enabled=False)
    with p:
        leaf(m, 3) * 2
    return p.key_averages()


@program
def a_profile_is_entered_once(m):
    p = profile(m)
    with p:
        pass
    with p:
        pass


@program
def whether_a_profile_is_on(m):
    before = m.autograd._profiler_enabled()
    with profile(m):
        inside = m.autograd._profiler_enabled()
    return before, inside, m.autograd._profiler_enabled()


@program
def an_unknown_argument(m):
    profile(m, bogus=True)


@program
def a_profile_before_it_has_ended(m):
    with profile(m) as p:
        leaf(m, 3) * 2
        return len(p.function_events), len(p.key_averages())


@program
def exceptions_pass_through(m):
    with profile(m):
        leaf(m, 3) * leaf(m, 2)


@program
def an_op_that_raises_leaves_the_next_ones_at_the_top(m):
    x = leaf(m, 3)
    with profile(m) as p:
        attempt(lambda: x * leaf(m, 2))
        x + x
    return [e.cpu_parent for e in p.function_events if e.name == "aten::add"]


@program
def stacks_that_were_not_kept(m):
    with profile(m) as p:
        pass
    p.export_stacks("never written")


@program
def a_schedule(m):
    s = importlib.import_module(f"{m.__name__}.profiler").schedule
    a = s(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    b = s(wait=0, warmup=0, active=1)
    c = s(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1)
    return [[f(i).name for i in range(12)] for f in (a, b, c)]


@program
def a_schedule_of_nothing(m):
    importlib.import_module(f"{m.__name__}.profiler").schedule(wait=1, warmup=0, active=0)


@program
def a_profile_by_schedule(m):
    p = importlib.import_module(f"{m.__name__}.profiler")
    got = []
    x = leaf(m, 3)

    def note_counts(prof):
        got.append({e.key.split("#")[0].rstrip("*"): e.count for e in prof.key_averages() if e.key not in INNER})

    with p.profile(schedule=p.schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=note_counts) as prof:
        for _ in range(9):
            x * x
            prof.step()
    return [sorted(g) for g in got], [g["aten::mul"] for g in got], prof.step_num


@program
def a_profile_started_by_hand(m):
    prof = importlib.import_module(f"{m.__name__}.profiler").profile()
    early = attempt(prof.events)
    prof.start()
    leaf(m, 3) * 2
    prof.stop()
    return early, [e.name for e in prof.events() if e.name == "aten::mul"]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert not any(m.autograd._profiler_enabled() for m in MODULES)
    assert ours == theirs


def test_trace_files_have_the_same_kinds_of_entries(tmp_path, capfd) -> None:
    found = []
    for m in MODULES:
        x = leaf(m, 3)
        with profile(m) as p, m.autograd.profiler.record_function("r"):
            (x * x).sum().backward()
        path = tmp_path / f"{m.__name__}.json"
        p.export_chrome_trace(str(path))
        entries = json.loads(path.read_text())["traceEvents"]
        calls = {e["name"] for e in entries if e["ph"] == "X" and e["name"] in ("r", "aten::mul", "MulBackward0")}
        categories = {e["cat"] for e in entries if e["ph"] == "X" and e["name"] in calls}
        arrows = {e["ph"] for e in entries if e.get("cat") == "fwdbwd"}
        found.append((calls, categories, arrows))
    assert found[0] == found[1]


def test_every_thread_is_seen(capfd) -> None:
    assert deliberate("profiled-threads")
    found = []
    for m in MODULES:
        x = leaf(m, 3)
        with profile(m) as p:
            x + x
            worker = threading.Thread(target=lambda x=x: x * x)
            worker.start()
            worker.join()
        found.append([len({e.thread for e in p.function_events}), any(e.name == "aten::mul" for e in p.function_events)])
    assert found == [[1, False], [2, True]]


def test_a_profile_inside_another_is_measured_by_both(capfd) -> None:
    assert deliberate("profiled-threads")
    found = []
    for m in MODULES:
        x = leaf(m, 3)
        with profile(m) as outer, profile(m) as inner:
            x * x
        found.append([len(outer.function_events), len(inner.function_events)])
    assert found == [[0, 1], [1, 1]]


def test_ops_inside_a_backward_node_are_not_told_apart(capfd) -> None:
    assert deliberate("profiled-nodes")
    found = []
    for m in MODULES:
        x = leaf(m, 3)
        with profile(m) as p:
            (x * x).sum().backward()
        (node,) = [e for e in p.function_events if e.name == "MulBackward0"]
        found.append([c.name for c in node.cpu_children])
    assert found == [["aten::mul", "aten::mul"], []]
    x = leaf(ndgrad, 3)
    with profile(ndgrad) as p:
        ndgrad.autograd.grad((x * x).sum(), x, create_graph=True)
    (node,) = [e for e in p.function_events if e.name == "MulBackward0"]
    assert [c.name for c in node.cpu_children] == ["aten::mul", "aten::mul"]


def test_kineto_is_torchs() -> None:
    assert deliberate("profiled-nodes")
    assert torch.autograd.kineto_available() is True
    assert ndgrad.autograd.kineto_available() is False
