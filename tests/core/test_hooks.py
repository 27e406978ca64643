"""The table of docs/hooks.md, one test per row."""

from __future__ import annotations

import gc
import pickle
import re
import weakref
from pathlib import Path

import numpy as np
import pytest

import ndgrad
from ndgrad import autograd
from ndgrad._src.core.hooks import RemovableHandle
from ndgrad._src.core.modes import process
from ndgrad._src.engine.graph import register_multi_grad_hook

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hooks.md"
RULES = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text().split("## The rules")[1], flags=re.MULTILINE)


def leaf(*values):
    return ndgrad.tensor(np.array(values), requires_grad=True)


def test_every_rule_of_the_page_has_a_test_and_every_test_a_rule():
    tests = {name.removeprefix("test_rule_").replace("_", "-") for name in globals() if name.startswith("test_rule_")}
    assert len(RULES) == len(set(RULES)) >= 40
    assert tests == set(RULES)


# ----- order -----------------------------------------------------------------------------------------------------------


def test_rule_order():
    events = []
    x = leaf(1.0, 2.0)
    h = x * 2
    h.grad_fn.register_hook(lambda i, o: events.append("post"))
    h.grad_fn.register_prehook(lambda o: events.append(("pre", h.grad is not None)))
    h.retain_grad()
    h.register_hook(lambda g: events.append(("tensor", h.grad is None)))
    accumulator = h.grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda i, o: events.append("leaf post"))
    accumulator.register_prehook(lambda o: events.append("leaf pre"))
    x.register_post_accumulate_grad_hook(lambda t: events.append(("accumulated", t.grad is not None)))
    x.register_hook(lambda g: events.append(("leaf", x.grad is None)))
    h.sum().backward()
    assert events == [("tensor", True), ("pre", True), "post", ("leaf", True), "leaf pre", ("accumulated", True), "leaf post"]


def test_rule_several_in_order():
    events = []
    x = leaf(1.0)

    def same(g):
        events.append("same")

    for hook in (same, lambda g: events.append("other"), same):
        x.register_hook(hook)
    x.sum().backward()
    assert events == ["same", "other", "same"]


def test_rule_outputs_in_order():
    events = []
    a, b, c = ndgrad.ones(3, 2, requires_grad=True).unbind()
    for name, t in (("c", c), ("a", a), ("c again", c), ("b", b)):
        t.register_hook(lambda g, name=name: events.append(name))
    (a + b + c).sum().backward()
    assert events == ["c", "c again", "a", "b"]


# ----- arguments and results of a hook ---------------------------------------------------------------------------------


def test_rule_leaf():
    x, seen = leaf(1.0, 2.0), []
    x.register_hook(lambda g: seen.append((g.tolist(), x.grad is None)))
    (x * x + x * 3 + x.exp() * 0).sum().backward()
    (x * 5).sum().backward()
    assert seen == [([5.0, 7.0], True), ([5.0, 5.0], False)]
    assert x.grad.tolist() == [10.0, 12.0]


def test_rule_intermediate():
    x, seen = leaf(1.0, 2.0), []
    h = x * 2
    h.register_hook(lambda g: seen.append(g.tolist()))
    (h * h + h * 3).sum().backward()
    assert seen == [[7.0, 11.0]]


def test_rule_none_keeps():
    x = leaf(1.0, 2.0)
    h = x * 2
    h.register_hook(lambda g: None)
    x.register_hook(lambda g: None)
    h.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(("on_leaf", "seen_there", "gradient"), [(False, 10.0, 22.0), (True, 20.0, 21.0)])
def test_rule_replacement(on_leaf, seen_there, gradient):
    x, seen = leaf(1.0, 2.0), []
    h = x * 2
    t = x if on_leaf else h
    t.register_hook(lambda g: g * 10)
    t.register_hook(lambda g: seen.append(g.tolist()))
    t.register_hook(lambda g: g + 1)
    h.sum().backward()
    assert seen == [[seen_there] * 2]
    assert x.grad.tolist() == [gradient] * 2


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (lambda g: 3.0, TypeError, r"hook returned 'float'.*or a tensor to replace it"),
        (lambda g: g[:1], RuntimeError, r"changed the size.*\(2,\).*\(1,\)"),
        (lambda g: g.float(), RuntimeError, r"changed the type.*float64.*float32"),
    ],
)
@pytest.mark.parametrize("on_leaf", [True, False])
def test_rule_wrong_replacement(answer, error, words, on_leaf):
    x = leaf(1.0, 2.0)
    h = x * 2
    (x if on_leaf else h).register_hook(answer)
    with pytest.raises(error, match=words):
        h.sum().backward()
    assert x.grad is None


def test_rule_before_write():
    x, seen = leaf(1.0, 2.0), []
    h = x * 1
    h.register_hook(lambda g: seen.append(g.tolist()))
    h.mul_(3)
    (h * 5).sum().backward()
    assert seen == [[15.0, 15.0]]


def test_rule_after_write():
    x, seen = leaf(1.0, 2.0), []
    h = x * 1
    h.mul_(3)
    h.register_hook(lambda g: seen.append(g.tolist()))
    (h * 5).sum().backward()
    assert seen == [[5.0, 5.0]]


def test_rule_view_write():
    x, seen = leaf(1.0, 2.0), []
    h = x * 1
    h.register_hook(lambda g: seen.append(("before", g.tolist())))
    h[0].mul_(10)
    h.register_hook(lambda g: seen.append(("after", g.tolist())))
    h.sum().backward()
    assert seen == [("after", [1.0, 1.0]), ("before", [10.0, 1.0])]


# ----- retain_grad -----------------------------------------------------------------------------------------------------


def test_rule_retain_last():
    x = leaf(1.0, 2.0)
    h = x * 2
    h.retain_grad()
    h.register_hook(lambda g: g * 10)
    h.sum().backward()
    assert h.grad.tolist() == [10.0, 10.0]


def test_rule_retain_follows():
    x = leaf(1.0, 2.0)
    h = x * 1
    h.retain_grad()
    h.mul_(3)
    (h * 5).sum().backward()
    assert h.grad.tolist() == [5.0, 5.0]


def test_rule_retain_copies():
    x = leaf(1.0, 2.0)
    h = x * 1
    h.retain_grad()
    for _ in range(2):
        h.sum().backward(retain_graph=True)
        h.grad._array[0] = 100.0
    assert h.grad.tolist() == [100.0, 2.0]
    assert x.grad.tolist() == [2.0, 2.0]


# ----- handles ---------------------------------------------------------------------------------------------------------


def test_rule_removal():
    x, events = leaf(1.0), []
    h = x * 1
    handles = [
        x.register_hook(lambda g: events.append("leaf")),
        x.register_post_accumulate_grad_hook(lambda t: events.append("accumulated")),
        h.register_hook(lambda g: events.append("tensor")),
        h.grad_fn.register_hook(lambda i, o: events.append("post")),
        h.grad_fn.register_prehook(lambda o: events.append("pre")),
        register_multi_grad_hook([x, h], lambda gs: events.append("multi")),
    ]
    with handles[0] as inside:
        assert inside is handles[0]
        h.sum().backward(retain_graph=True)
    assert sorted(events) == ["accumulated", "leaf", "multi", "post", "pre", "tensor"]
    for handle in handles * 2:
        handle.remove()
    h.sum().backward()
    assert len(events) == 6
    assert all(isinstance(handle, RemovableHandle) for handle in handles)


def test_rule_handle_weak():
    class Hook:
        def __call__(self, g):
            pass

    for make in (lambda: leaf(1.0), lambda: leaf(1.0) * 2):
        t, hook = make(), Hook()
        handle = t.register_hook(hook)
        refs = [weakref.ref(t), weakref.ref(hook)]
        gc.disable()
        try:
            del t, hook
            assert [r() for r in refs] == [None, None]
        finally:
            gc.enable()
        handle.remove()
        copied = pickle.loads(pickle.dumps(handle))
        copied.remove()


@pytest.mark.parametrize("on_leaf", [True, False])
def test_rule_changes_while_running(on_leaf):
    x, events, handles = leaf(1.0), [], {}
    h = x * 2
    t = x if on_leaf else h

    def first(g):
        events.append("first")
        handles["second"].remove()
        t.register_hook(lambda g: events.append("third"))
        handles["first"].remove()

    handles["first"] = t.register_hook(first)
    handles["second"] = t.register_hook(lambda g: events.append("second"))
    h.sum().backward(retain_graph=True)
    events.append("|")
    h.sum().backward()
    assert events == ["first", "second", "|", "third"]


def test_rule_registered_late():
    x, events = leaf(1.0), []
    h = x * 2
    y = h.sum()
    h.register_hook(lambda g: events.append("result"))
    x.register_hook(lambda g: events.append("leaf"))
    y.backward()
    assert events == ["result", "leaf"]


def test_rule_leaf_outlives_graph():
    x, seen = leaf(1.0), []
    x.register_hook(lambda g: seen.append(g.item()))
    for factor in (2.0, 3.0):
        (x * factor).sum().backward()
    assert seen == [2.0, 3.0]


def test_rule_needs_grad():
    c = ndgrad.ones(2)
    for register in (c.register_hook, c.register_post_accumulate_grad_hook):
        with pytest.raises(RuntimeError, match=r"doesn't require gradient.*requires_grad_\(\)"):
            register(lambda g: None)
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        c.retain_grad()
    with pytest.raises(RuntimeError, match="does not require gradients"):
        register_multi_grad_hook([c], lambda gs: None)


# ----- after accumulation ----------------------------------------------------------------------------------------------


def test_rule_post_accumulate():
    x, seen = leaf(1.0), []
    x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.item())))
    x.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(10) and None)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 3).sum().backward()
    assert seen == [(True, 3.0), 30.0]
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(lambda t: None)
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="post accumulate grad hooks should return None"):
        x.sum().backward()


def test_rule_post_accumulate_moment():
    events = []
    x, w = leaf(1.0), leaf(1.0)
    a = x * 2
    a.register_hook(lambda g: events.append("a"))
    b = a * w
    w.register_post_accumulate_grad_hook(lambda t: events.append("w"))
    x.register_post_accumulate_grad_hook(lambda t: events.append("x"))
    b.sum().backward()
    assert events == ["w", "a", "x"]


def test_rule_optimizer_in_backward():
    # Gradients are counted as arrays: a leaf's gradient is taken over from the engine without a copy, and dies with `.grad = None`.
    layers = [ndgrad.full((64, 64), 0.01 * (k + 1), requires_grad=True) for k in range(6)]
    alive: set[int] = set()
    most = []

    def step(p):
        array = p.grad._array
        key = id(array)
        alive.add(key)
        weakref.finalize(array, alive.discard, key)
        del array
        most.append(len(alive))
        with ndgrad.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    expected = [p.detach().clone().requires_grad_() for p in layers]

    def forward(ps):
        y = ndgrad.ones(1, 64)
        for p in ps:
            y = (y @ p).tanh()
        return y.sum()

    forward(expected).backward()
    for p in layers:
        p.register_post_accumulate_grad_hook(step)
    forward(layers).backward()
    assert most == [1] * 6
    for p, e in zip(layers, expected, strict=True):
        assert np.allclose(p.detach().numpy(), (e - 0.1 * e.grad).detach().numpy())
        assert p.grad is None


def test_rule_post_accumulate_not_for_grad():
    x, seen = leaf(1.0), []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(1))
    autograd.grad(x.sum(), x)
    assert seen == []
    x.sum().backward(inputs=[x])
    assert seen == [1]


# ----- nodes -----------------------------------------------------------------------------------------------------------


def test_rule_node_post():
    x, w, seen = leaf(1.0, 2.0), leaf(3.0, 4.0), []
    y = x * w
    y.grad_fn.register_hook(lambda i, o: seen.append(([g.tolist() for g in i], [g.tolist() for g in o])))
    y.grad_fn.register_hook(lambda i, o: (i[0] * 10, i[1]))
    z = y * ndgrad.ones(2)
    z.grad_fn.register_hook(lambda i, o: seen.append(i[1]))
    z.sum().backward()
    assert seen == [None, ([[3.0, 4.0], [1.0, 2.0]], [[1.0, 1.0]])]
    assert x.grad.tolist() == [30.0, 40.0]
    assert w.grad.tolist() == [1.0, 2.0]


def test_rule_node_pre():
    x, seen = leaf(1.0, 2.0), []
    y = x * 3
    y.grad_fn.register_prehook(lambda o: (o[0] * 10,))
    y.grad_fn.register_prehook(lambda o: seen.append(o[0].tolist()))
    y.sum().backward()
    assert seen == [[10.0, 10.0]]
    assert x.grad.tolist() == [30.0, 30.0]


@pytest.mark.parametrize(
    ("kind", "answer", "error", "words"),
    [
        ("register_hook", lambda i, o: i[0], TypeError, "Tensor.*or a tuple with 2"),
        ("register_hook", lambda i, o: (i[0],), RuntimeError, "got 1, but expected 2"),
        ("register_hook", lambda i, o: (i[0], 3.0), TypeError, "hook returned 'float'"),
        ("register_prehook", lambda o: [o[0]], TypeError, "list"),
        ("register_prehook", lambda o: (o[0], o[0]), RuntimeError, "got 2, but expected 1"),
        ("register_prehook", lambda o: (o[0][:1],), RuntimeError, "changed the size"),
    ],
)
def test_rule_node_wrong_count(kind, answer, error, words):
    y = leaf(1.0, 2.0) * leaf(3.0, 4.0)
    getattr(y.grad_fn, kind)(answer)
    with pytest.raises(error, match=words):
        y.sum().backward()


def test_rule_accumulator_hooks():
    x, events = leaf(1.0, 2.0), []
    node = (x * 1).grad_fn.next_functions[0][0]
    node.register_prehook(lambda o: (events.append(("pre", x.grad)), (o[0] * 10,))[1])
    node.register_hook(lambda i, o: events.append(("post", i, o[0].tolist(), x.grad.tolist())))
    (x * 3).sum().backward()
    assert events == [("pre", None), ("post", (), [30.0, 30.0], [30.0, 30.0])]


def test_rule_accumulator_lifetime():
    x, seen = leaf(1.0), []
    h = x * 1
    h.grad_fn.next_functions[0][0].register_hook(lambda i, o: seen.append(1))
    (x * 2).sum().backward()
    assert seen == [1]
    del h
    (x * 2).sum().backward()
    assert seen == [1]


# ----- inputs= and create_graph ----------------------------------------------------------------------------------------


def test_rule_inputs_paths():
    x, w, events = leaf(1.0), leaf(2.0), []
    a, b = x * 2, w * 3
    for name, t in (("x", x), ("w", w), ("a", a), ("b", b)):
        t.register_hook(lambda g, name=name: events.append(name))
    y = (a * b).sum()
    y.backward(inputs=[x], retain_graph=True)
    autograd.grad(y, [w])
    assert events == ["a", "x", "b", "w"]


def test_rule_inputs_captured():
    x, events = leaf(1.0), []
    h = x * 2
    h.register_hook(lambda g: g * 10)
    h.grad_fn.register_prehook(lambda o: events.append("pre"))
    h.grad_fn.register_hook(lambda i, o: events.append("post"))
    x.register_hook(lambda g: g + 1)
    y = (h * 3).sum()
    assert autograd.grad(y, [h], retain_graph=True)[0].tolist() == [30.0]
    assert events == []
    assert [g.tolist() for g in autograd.grad(y, [h, x])] == [[30.0], [61.0]]
    assert events == ["pre", "post"]


def every_kind(x, h, hook):
    """Register `hook` in every possible way for one tensor hook; it is called with the arguments of its kind."""
    return {
        "leaf": lambda: x.register_hook(hook),
        "result": lambda: h.register_hook(hook),
        "post": lambda: h.grad_fn.register_hook(hook),
        "pre": lambda: h.grad_fn.register_prehook(hook),
        "accumulated": lambda: x.register_post_accumulate_grad_hook(hook),
        "accumulator pre": lambda: h.grad_fn.next_functions[0][0].register_prehook(hook),
        "accumulator post": lambda: h.grad_fn.next_functions[0][0].register_hook(hook),
        "all": lambda: register_multi_grad_hook([x, h], hook),
        "any": lambda: register_multi_grad_hook([x, h], hook, mode="any"),
        "callback": lambda: h.register_hook(lambda g: autograd.graph.queue_callback(hook)),
    }


KINDS = tuple(every_kind(leaf(1.0), leaf(1.0) * 1, None))


@pytest.mark.parametrize("kind", KINDS)
def test_rule_no_recording(kind):
    x, seen = leaf(1.0, 2.0), []
    h = x * x
    every_kind(x, h, lambda *args: seen.append((ndgrad.is_grad_enabled(), (x * 2).requires_grad)))[kind]()
    h.sum().backward()
    assert seen == [(False, False)]
    assert ndgrad.is_grad_enabled()


def test_rule_create_graph():
    x, seen = leaf(1.0, 2.0), []
    h = x * x
    h.register_hook(lambda g: g * x)
    h.grad_fn.register_prehook(lambda o: seen.append(ndgrad.is_grad_enabled()))
    (g,) = autograd.grad(h.sum(), x, create_graph=True)  # x * 2x
    (gg,) = autograd.grad(g.sum(), x)
    assert seen == [True]
    assert g.tolist() == [2.0, 8.0]
    assert gg.tolist() == [4.0, 8.0]


@pytest.mark.filterwarnings("ignore:backward.. with create_graph")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rule_raises(kind, create_graph):
    class Mine(Exception):
        pass

    x = leaf(1.0, 2.0)
    h = x * x
    y = h.sum()

    def fail(*args):
        raise Mine

    gc.collect()
    busy, counted = len(process.busy), len(process.leaf_hooks)
    handle = every_kind(x, h, fail)[kind]()
    with pytest.raises(Mine):
        y.backward(retain_graph=True, create_graph=create_graph)
    handle.remove()
    assert (len(process.busy), len(process.leaf_hooks)) == (busy, counted)
    assert ndgrad.is_grad_enabled()
    assert autograd.graph.current_graph_task_id() == -1
    x.grad = None
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


# ----- several tensors -------------------------------------------------------------------------------------------------


def test_rule_multi_all():
    a, b, c, seen = leaf(1.0), leaf(2.0), leaf(3.0), []
    h = a * b
    register_multi_grad_hook([c, h, a], lambda gs: seen.append([None if g is None else g.item() for g in gs]))
    (h * 2).sum().backward(retain_graph=True)
    (h * c).sum().backward()
    assert seen == [[None, 2.0, 4.0], [2.0, 3.0, 6.0]]
    first, second = ndgrad.ones(2, 1, requires_grad=True).unbind()
    register_multi_grad_hook([first, second], lambda gs: seen.append([None if g is None else g.item() for g in gs]))
    second.sum().backward()
    assert seen[2:] == [[None, 1.0]]


def test_rule_multi_any():
    a, b, seen = leaf(1.0), leaf(2.0), []
    h = a * b
    register_multi_grad_hook([a, b, h], lambda g: seen.append(g.item()), mode="any")
    (h * 5).sum().backward()
    (b * 7).sum().backward()
    assert seen == [5.0, 7.0]
    with pytest.raises(ValueError, match="some"):
        register_multi_grad_hook([a], lambda g: None, mode="some")


def test_rule_multi_no_cycle():
    for mode in ("all", "any"):
        x = leaf(1.0)
        h = x * 2
        register_multi_grad_hook([x, h], lambda g: None, mode=mode)
        h.sum().backward()
        refs = [weakref.ref(x), weakref.ref(h), weakref.ref(h.grad_fn)]
        gc.collect()
        gc.disable()
        try:
            del x, h
            assert [r() for r in refs] == [None, None, None]
        finally:
            gc.enable()


# ----- the rest --------------------------------------------------------------------------------------------------------


class Stop(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return None


def test_rule_no_gradient():
    x, seen = leaf(1.0), []
    h = x * 2
    h.register_hook(lambda g: seen.append("tensor"))
    x.register_hook(lambda g: seen.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
    h.grad_fn.register_prehook(lambda o: seen.append(o))
    h.grad_fn.register_hook(lambda i, o: seen.append((i, o)))
    Stop.apply(h).sum().backward()
    assert seen == [(None,), ((None, None), (None,))]
    assert x.grad is None


def test_rule_tensor_class():
    import ndgrad.numpy as anp

    x = anp.array([1.0, 2.0])
    x.requires_grad_()
    h = x * 2
    seen = []
    for t in (x, h):
        t.register_hook(lambda g: seen.append(type(g)))
    h.retain_grad()
    h.sum().backward()
    assert seen == [anp.Array, anp.Array]
    assert type(h.grad) is type(x.grad) is anp.Array


def test_rule_hooks_dict():
    x = leaf(1.0)
    for t in (x, x * 2):
        assert t._backward_hooks is None
        handle = t.register_hook(lambda g: None)
        assert list(t._backward_hooks) == [handle.id]
        handle.remove()
        assert len(t._backward_hooks) == 0
    h = x * 2
    h.register_hook(lambda g: None)
    h.mul_(2)
    assert h._backward_hooks is None
    seen = []
    h._backward_hooks = {0: lambda g: seen.append("given")}
    h.sum().backward()
    assert seen == ["given"]
    with pytest.raises(TypeError, match="dict"):
        h._backward_hooks = 3


def test_hooks_on_leaves_are_counted_exactly():
    """The engine takes its fast path again after the last hook is removed or its leaf has died."""
    gc.collect()
    before = len(process.leaf_hooks)
    x = leaf(1.0)
    handles = [x.register_hook(lambda g: None), x.register_post_accumulate_grad_hook(lambda t: None)]
    node = (x * 1).grad_fn.next_functions[0][0]
    handles.append(node.register_hook(lambda i, o: None))
    assert len(process.leaf_hooks) == before + 3
    handles[0].remove()
    handles[0].remove()
    assert len(process.leaf_hooks) == before + 2
    del node, x
    assert len(process.leaf_hooks) == before
    for handle in handles:
        handle.remove()
    assert len(process.leaf_hooks) == before


def test_switching_the_grad_mode_inside_a_hook_leaves_the_count_of_modes_right():
    x = leaf(1.0)
    h = x * 2
    h.register_hook(lambda g: ndgrad.set_grad_enabled(True) and None)
    busy = len(process.busy)
    h.sum().backward()
    assert len(process.busy) == busy
    assert ndgrad.is_grad_enabled()


def test_a_tensor_that_a_pack_hook_passed_on_and_a_transform_overwrote_is_found_out():
    """The write moves the tensor, made of outer values only, to the transform's level: it is not the saved tensor any more."""
    x = ndgrad.tensor([0.6, -0.4], dtype=ndgrad.float64, requires_grad=True)

    def f(z):
        with ndgrad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            b = x.tanh()
            out = z * b
            b[1:2] *= z[0:1]
        return out.sum()

    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        ndgrad.func.grad(f)(ndgrad.tensor([0.3, 0.9], dtype=ndgrad.float64))
