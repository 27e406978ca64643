"""`autograd.graph` and what belongs to it: nodes, edges, hooks and their order, saved tensors, views replayed, the engine's log,
grad modes as decorators."""

from __future__ import annotations

import inspect
import logging
import re

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour, says, warned
from tests.torch_parity.side_by_side import Programs, leaf, ones

PROGRAMS = Programs()
program = PROGRAMS.enter


def graph(m):
    return m.autograd.graph


@program
def decorate_class(m):
    out = []
    for dec in (m.no_grad(), m.enable_grad(), m.inference_mode(), m.no_grad):

        def make(dec=dec):

            @dec
            class Foo:
                def __init__(self):
                    self.g = m.is_grad_enabled()

                def method(self):
                    return m.is_grad_enabled()

            o = Foo()
            return (inspect.isfunction(Foo), o.g, o.method())

        out.append(warned(make))
    return out


@program
def decorate_class_set(m):

    def make():

        @m.set_grad_enabled(False)
        class Foo:
            def __init__(self):
                self.g = m.is_grad_enabled()

            def method(self):
                return m.is_grad_enabled()

        return (Foo().g, Foo().method())

    return warned(make)


@program
def grad_mode_repr(m):
    return [
        m.no_grad().__class__.__name__,
        hasattr(m.no_grad(), "clone"),
        m.set_grad_enabled(True).clone().__class__.__name__,
        m.inference_mode(False).clone().mode if hasattr(m.inference_mode(), "clone") else None,
    ]


@program
def stream_switches(m):
    return (
        graph(m).set_warn_on_accumulate_grad_stream_mismatch(False),
        graph(m).set_warn_on_accumulate_grad_stream_mismatch(True),
        graph(m).set_override_stale_capture_stream(False),
    )


@program
def budget(m):
    with graph(m).region_activation_memory_budget(0.5):
        x = leaf(m, 2)
        (x * x).sum().backward()
        return x.grad


@program
def budget_bad(m):

    def f():
        with graph(m).region_activation_memory_budget(2.0):
            pass

    return says(f)


@program
def node_api(m):
    x = leaf(m, 2)
    n = x.exp().grad_fn
    return (
        n.name(),
        n.requires_grad,
        n.metadata,
        len(n.next_functions),
        isinstance(n, graph(m).Node),
        issubclass(type(n), graph(m).Node),
        isinstance(n.next_functions[0][0], graph(m).Node),
        n.next_functions[0][0].name().split("::")[-1],
        n.next_functions[0][1],
        type(n._sequence_nr()).__name__,
    )


@program
def node_metadata(m):
    n = leaf(m, 2).exp().grad_fn
    n.metadata["a"] = 1
    return n.metadata


@program
def node_hooks(m):
    x = leaf(m, 2)
    y = x.exp()
    log = []
    h = y.grad_fn.register_hook(lambda gi, go: log.append(("hook", [g.tolist() for g in gi], [g.tolist() for g in go])))
    h2 = y.grad_fn.register_prehook(lambda go: log.append(("pre", [g.tolist() for g in go])))
    y.sum().backward(retain_graph=True)
    h.remove()
    h2.remove()
    y.sum().backward()
    return log


@program
def node_prehook_replace(m):
    x = leaf(m, 2)
    y = x * 2
    y.grad_fn.register_prehook(lambda go: (go[0] * 10,))
    y.sum().backward()
    return x.grad


@program
def node_hook_replace(m):
    x = leaf(m, 2)
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 10, None))
    y.sum().backward()
    return x.grad


@program
def node_prehook_bad(m):
    x = leaf(m, 2)
    y = x * 2
    y.grad_fn.register_prehook(lambda go: 3)
    return says(lambda: y.sum().backward())


@program
def node_prehook_count(m):
    x = leaf(m, 2)
    y = x * 2
    y.grad_fn.register_prehook(lambda go: (go[0], go[0]))
    return says(lambda: y.sum().backward())


@program
def raw_saved(m):
    x = leaf(m, 2)
    y = x.exp()
    s = y.grad_fn._raw_saved_result
    s.register_hooks(lambda t: t * 2, lambda t: t / 2)
    y.sum().backward()
    return x.grad


@program
def raw_saved_inplace(m):
    x = leaf(m, 2)
    y = x.exp()
    s = y.grad_fn._raw_saved_result
    return says(lambda: s.register_hooks(lambda t: t.mul_(2), lambda t: t))


@program
def edges(m):
    x = leaf(m, 2)
    y = x * 2
    e = graph(m).get_gradient_edge(y)
    ex = graph(m).get_gradient_edge(x)
    (g,) = m.autograd.grad(e, ex, ones(m, 2))
    return (g, e.output_nr, ex.node.name().split("::")[-1], isinstance(e, tuple), e == graph(m).get_gradient_edge(y), len(e))


@program
def edge_backward(m):
    x = leaf(m, 2)
    y = x * 2
    e = graph(m).get_gradient_edge(y)
    m.autograd.backward(e, ones(m, 2))
    return x.grad


@program
def edge_inputs(m):
    x = leaf(m, 2)
    y = x * 2
    z = y * y
    e = graph(m).get_gradient_edge(y)
    return m.autograd.grad(z.sum(), e)


@program
def edge_implicit(m):
    x = leaf(m, 2)
    e = graph(m).get_gradient_edge((x * 2).sum())
    m.autograd.backward(e)
    return x.grad


@program
def edge_implicit_bad(m):
    x = leaf(m, 2)
    e = graph(m).get_gradient_edge(x * 2)
    return says(lambda: m.autograd.backward(e))


@program
def multi_hook_all(m):
    a, b, c = (leaf(m, 2), leaf(m, 2), leaf(m, 2))
    log = []
    h = graph(m).register_multi_grad_hook((a, b, c), lambda gs: log.append([None if g is None else g.tolist() for g in gs]))
    (a * b).sum().backward()
    (a * b * c).sum().backward()
    h.remove()
    (a * b).sum().backward()
    return log


@program
def multi_hook_any(m):
    a, b = (leaf(m, 2), leaf(m, 2))
    log = []
    x, y = (a * 2, b * 3)
    h = graph(m).register_multi_grad_hook((x, y), lambda g: log.append(g.tolist()), mode="any")
    (x * y).sum().backward(retain_graph=True)
    (x + 1).sum().backward()
    return (log, type(h).__name__)


@program
def increment(m):
    x = leaf(m, 2)
    y = x * 2
    z = y * y
    graph(m).increment_version(y)
    graph(m).increment_version([y, y])
    return (y._version, says(lambda: z.sum().backward()))


@program
def save_cpu(m):
    x = leaf(m, 2)
    with graph(m).save_on_cpu():
        y = x.exp() * x
    y.sum().backward()
    return x.grad


@program
def save_cpu_pin(m):
    x = leaf(m, 2)

    def f():
        with graph(m).save_on_cpu(pin_memory=False, device_type="cuda"):
            return (x.exp() * x).sum()

    f().backward()
    return x.grad


@program
def allow_mutation(m):
    with graph(m).allow_mutation_on_saved_tensors():
        x = leaf(m, 2)
        y = x * 1
        z = y.sin()
        y.mul_(3)
        z.sum().backward()
    return (x.grad, y)


@program
def allow_mutation_nested(m):

    def f():
        with graph(m).allow_mutation_on_saved_tensors(), graph(m).allow_mutation_on_saved_tensors():
            pass

    return says(f)


@program
def allow_mutation_views(m):
    with graph(m).allow_mutation_on_saved_tensors():
        x = leaf(m, 2, 2)
        y = x * 1
        v = y[0]
        z = (v.sin() * y).sum()
        v.mul_(2)
        y.add_(1)
        z.backward()
    return x.grad


@program
def allow_mutation_twice(m):
    with graph(m).allow_mutation_on_saved_tensors():
        x = leaf(m, 2)
        y = x * 1
        z = y.sin()
        y.mul_(3)
        w = y.cos()
        y.mul_(2)
        (z + w).sum().backward(retain_graph=True)
        (z + w).sum().backward()
    return x.grad


@program
def allow_mutation_leaf(m):
    with graph(m).allow_mutation_on_saved_tensors():
        x = leaf(m, 2)
        z = x.sin()
        with m.no_grad():
            x.mul_(2)
        z.sum().backward()
    return (x.grad, x)


@program
def view_func(m):
    x = leaf(m, 2, 3) * 1
    v = x.t()[1].view(2)
    nb = m.arange(6, dtype=m.float64).reshape(2, 3)
    r = v._view_func(nb)
    return (r, r._base is nb, v._base is x)


@program
def view_func_mismatch(m):
    x = leaf(m, 2, 3) * 1
    v = x[0]
    return (says(lambda: v._view_func(ones(m, 3, 3))), says(lambda: v._view_func_unsafe(ones(m, 2, 3))))


@program
def view_func_nonview(m):
    x = ones(m, 2)
    return says(lambda: x._view_func(ones(m, 2)))


@program
def view_func_visit(m):
    x = ones(m, 4, 3)
    v = x[1:3]
    r = v._view_func_unsafe(ones(m, 4, 3))
    return tuple(r.shape)


@program
def replay_switch(m):
    A = m.autograd
    out = [A.is_view_replay_enabled()]
    with A._force_original_view_tracking(True):
        out.append(A.is_view_replay_enabled())
    out.append(A.is_view_replay_enabled())

    @A._force_original_view_tracking(True)
    def f():
        return A.is_view_replay_enabled()

    out.append(f())
    out.append(A.is_view_replay_enabled())
    A._force_original_view_tracking(True)
    out.append(A.is_view_replay_enabled())
    A._force_original_view_tracking(False)
    out.append(A.is_view_replay_enabled())
    return out


@program
def replay_chain(m):
    with m.autograd._force_original_view_tracking(True):
        x = leaf(m, 4) * 1
        v = x.view(2, 2)
        w = v[0]
        x.mul_(2)
        return (w.grad_fn.name(), v.grad_fn.name())


@program
def retain_order(m):
    x = leaf(m, 2)
    y = x * 2
    log = []
    y.register_hook(lambda g: (log.append("hook1"), g * 2)[1])
    y.retain_grad()
    y.register_hook(lambda g: (log.append("hook2"), g * 3)[1])
    y.sum().backward()
    return (log, y.grad, x.grad)


@program
def retain_twice(m):
    x = leaf(m, 2)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.sum().backward()
    return (y.grad, y.retains_grad, x.retains_grad)


@program
def retain_inplace(m):
    x = leaf(m, 2)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.retain_grad()
    z = y * 1
    z.sum().backward()
    return (y.grad, y.retains_grad)


@program
def post_acc_order(m):
    a, b, c = (leaf(m, 2), leaf(m, 2), leaf(m, 2))
    log = []
    for n, t in zip("abc", (a, b, c)):
        t.register_hook(lambda g, n=n: log.append(n + " hook"))
        t.register_post_accumulate_grad_hook(lambda t, n=n: log.append(n + " post"))
        t.register_post_accumulate_grad_hook(lambda t, n=n: log.append(n + " post2"))
    ((a * b).sin() + c).sum().backward()
    return log


@program
def post_acc_remove(m):
    a = leaf(m, 2)
    log = []
    h = a.register_post_accumulate_grad_hook(lambda t: log.append(t.grad.tolist()))
    a.sum().backward()
    a.sum().backward()
    h.remove()
    a.sum().backward()
    return log


@program
def post_acc_modify(m):
    a = leaf(m, 2)
    a.register_post_accumulate_grad_hook(lambda t: setattr(t, "grad", None))
    a.sum().backward()
    return a.grad


@program
def post_acc_in_grad(m):
    a = leaf(m, 2)
    log = []
    a.register_post_accumulate_grad_hook(lambda t: log.append(1))
    m.autograd.grad(a.sum(), a)
    return log


@program
def post_acc_inputs(m):
    a, b = (leaf(m, 2), leaf(m, 2))
    log = []
    a.register_post_accumulate_grad_hook(lambda t: log.append("a"))
    b.register_post_accumulate_grad_hook(lambda t: log.append("b"))
    (a * b).sum().backward(inputs=[b])
    return log


@program
def hooks_prepend(m):
    x = leaf(m, 2)
    log = []
    x.register_hook(lambda g: log.append(1))
    h = x.register_hook(lambda g: log.append(2))
    return (len(x._backward_hooks), h.id in x._backward_hooks)


@program
def backward_hooks_attr(m):
    x = leaf(m, 2)
    return (x._backward_hooks is None, x._post_accumulate_grad_hooks is None)


@program
def engine_log(m):
    name = f"{m.__name__}.autograd.graph"
    logger = logging.getLogger(name)
    got = []

    class H(logging.Handler):
        def emit(self, r):
            got.append(r.getMessage())

    h = H()
    old = logger.level
    logger.addHandler(h)
    logger.setLevel(logging.DEBUG)
    try:
        x = leaf(m, 2)
        (x * x).sum().backward()
    finally:
        logger.removeHandler(h)
        logger.setLevel(old)
    return [re.sub("0x[0-9a-f]+|::", "", g).replace("torchautograd", "") for g in got]


@program
def whole_graph_hooks(m):
    x = leaf(m, 2)
    y = (x * x).sum()
    un = graph(m)._register_logging_hooks_on_whole_graph([y])
    y.backward(retain_graph=True)
    un()
    y.backward()
    return x.grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_behaviour(name):
    theirs, ours = (behaviour(PROGRAMS[name], m) for m in (torch, ndgrad))
    assert agree(theirs, ours), f"torch: {theirs}\nndgrad: {ours}"
