"""Saved tensors and their hooks: the same programs on torch and on ndgrad, compared by values, events, versions and errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import Programs, attempt, leaf, on_both, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


def hooks(m: Any, events: list[Any], name: str = "") -> Any:
    """A pair of hooks that pass values on and write down what they see."""

    def pack(t: Any) -> Any:
        events.append((name, "pack", list(t.shape), t.requires_grad, t.is_leaf, m.is_grad_enabled()))
        return t

    def unpack(t: Any) -> Any:
        events.append((name, "unpack", list(t.shape), m.is_grad_enabled()))
        return t

    return m.autograd.graph.saved_tensors_hooks(pack, unpack)


# ----- reading ---------------------------------------------------------------------------------------------------------------------


@program
def a_saved_input_is_the_tensor_itself(m):
    x = leaf(m, 3)
    h = x * 2
    y, z = x * x, h * h
    return y.grad_fn._saved_self is x, y.grad_fn._saved_other is x, z.grad_fn._saved_self is h


@program
def a_saved_view_is_the_view_itself(m):
    a = leaf(m, 2, 3) * 1
    v, (first, second) = a.t()[1], a.unbind(0)
    v.tag = "mine"
    saved = [(t * t).grad_fn._saved_self for t in (v, first, second)]
    return [s is t for s, t in zip(saved, (v, first, second), strict=True)], saved[0].tag, saved[0]._base is a, [s.output_nr for s in saved]


@program
def a_write_to_a_saved_view(m):
    x = leaf(m, 3)
    a = x * 1
    v = a[:2]
    y = v * v
    y.grad_fn._saved_self.mul_(2)
    return m.autograd.grad(a.sum(), x), attempt(lambda: m.autograd.grad(y.sum(), x))


@program
def a_saved_view_that_comes_to_require_grad(m):
    w, v = leaf(m, 2), m.ones(3, 2, dtype=m.float64)[1]
    y = (v * w * w).sum()
    v.requires_grad_()
    (g,) = m.autograd.grad(y, w, create_graph=True)
    return m.autograd.grad(g.sum(), v)


@program
def double_backward_through_views_of_views(m):
    x = leaf(m, 3, 4)
    a = x * 1
    w = a[1:].t()
    first, second, _ = a.unbind(0)
    y = (w[1] * w[1] * w[0]).sum() + (first * second * first).sum() + m.stack([a[0], a[1]]).prod(0).sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    return g, m.autograd.grad((g * g).sum(), x)


@program
def a_saved_result_is_another_tensor_of_the_same_node(m):
    y = leaf(m, 3).exp()
    s = y.grad_fn._saved_result
    return s is y, s.grad_fn is y.grad_fn, s, s.requires_grad, s._version


@program
def attributes_survive_the_last_name(m):
    h = leaf(m, 3) * 2
    h.tag = "mine"
    y = h * h
    del h
    return y.grad_fn._saved_self.tag, y.grad_fn._saved_other.tag


@program
def what_is_not_needed_is_none(m):
    x, c = leaf(m, 3), m.ones(3, dtype=m.float64)
    y = x * c
    return y.grad_fn._saved_self, y.grad_fn._saved_other is c, y.grad_fn._raw_saved_self.unpack()


@program
def numbers_that_were_saved(m):
    x = leaf(m, 3)
    return (x**3).grad_fn._saved_exponent, (x * 2).grad_fn._saved_other


@program
def settings_that_were_saved(m):
    x = leaf(m, 2, 3)
    a, b = x.sum(1), x.softmax(0)
    return list(a.grad_fn._saved_dim), a.grad_fn._saved_keepdim, list(a.grad_fn._saved_self_sym_sizes), b.grad_fn._saved_dim


@program
def indices_that_were_saved(m):
    x = leaf(m, 2, 3)
    values, order = x.sort(dim=1, descending=True)
    top = x.topk(2).values
    s = values.grad_fn._saved_indices
    return m.equal(s, order), s.requires_grad, top.grad_fn._saved_indices


@program
def names_of_factors_and_factorizations(m):
    a = leaf(m, 2, 2)
    spd = a @ a.T + 3 * m.eye(2, dtype=m.float64)
    q = m.linalg.qr(a)[0]
    w = m.linalg.eigh(spd)[0]
    low = m.linalg.cholesky(spd)
    return q.grad_fn._saved_Q.abs(), w.grad_fn._saved_eigenvalues, low.grad_fn._saved_L


@program
def reading_after_backward_has_freed(m):
    y = leaf(m, 3) ** 2
    y.sum().backward()
    return attempt(lambda: y.grad_fn._saved_self), attempt(lambda: y.grad_fn._raw_saved_self.unpack())


@program
def reading_after_a_backward_that_retained(m):
    x = leaf(m, 3)
    y = x**2
    y.sum().backward(retain_graph=True)
    return y.grad_fn._saved_self is x


@program
def reading_what_was_overwritten(m):
    h = leaf(m, 3) * 1
    y = h * h
    h.add_(1)
    return attempt(lambda: y.grad_fn._saved_self)


@program
def saved_values_cannot_be_assigned(m):
    y = leaf(m, 3).exp()
    return attempt(lambda: setattr(y.grad_fn, "_saved_result", 1)), attempt(lambda: y.grad_fn._saved_nothing)


@program
def saved_tensors_cannot_be_made(m):
    return attempt(lambda: m.autograd.SavedTensor()), isinstance((leaf(m, 2).exp()).grad_fn._raw_saved_result, m.autograd.SavedTensor)


# ----- hooks on one saved value ---------------------------------------------------------------------------------------------------


@program
def hooks_on_a_saved_input(m):
    x, events = leaf(m, 3), []
    y = x * x
    raw = y.grad_fn._raw_saved_self

    def pack(t):
        events.append(("pack", t is x, t.requires_grad, t.is_leaf))
        return t * 2

    raw.register_hooks(pack, lambda t: (events.append("unpack"), t)[1])
    s = y.grad_fn._saved_self
    y.sum().backward()
    return events, s, s is x, s.requires_grad, s.is_leaf, x.grad


@program
def hooks_on_a_saved_result(m):
    x, events = leaf(m, 3), []
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(
        lambda t: (events.append((t.requires_grad, t.is_leaf)), t + 1)[1], lambda t: (events.append("unpack"), t)[1]
    )
    s = y.grad_fn._saved_result
    y.sum().backward()
    return events, s.grad_fn is y.grad_fn, s.requires_grad, x.grad


@program
def hooks_on_a_saved_result_of_an_interior_node(m):
    x = leaf(m, 3)
    h = x * 1
    y = h**3
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t.clone(), lambda t: t)
    s = y.grad_fn._saved_self
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (g2,) = m.autograd.grad(g.sum(), x)
    return s is h, s.grad_fn is h.grad_fn, g, g2


@program
def hooks_can_be_set_once(m):
    y = leaf(m, 3) ** 2
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda t: t, lambda t: t)
    return attempt(lambda: raw.register_hooks(lambda t: t, lambda t: t))


@program
def hooks_cannot_be_set_on_values_saved_through_hooks(m):
    with hooks(m, []):
        y = leaf(m, 3) ** 2
    return attempt(lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t))


@program
def hooks_on_nothing_or_after_free(m):
    x = leaf(m, 3)
    y, z = x * 2, x**2
    none = attempt(lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t))
    z.sum().backward()
    return none, attempt(lambda: z.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t))


@program
def hooks_must_be_functions(m):
    y = leaf(m, 3) ** 2
    raw = y.grad_fn._raw_saved_self
    return attempt(lambda: raw.register_hooks(lambda t: t)), attempt(lambda: raw.register_hooks(lambda t: t, 3))


@program
def a_pack_hook_on_one_value_must_not_write(m):
    x = leaf(m, 3)
    y = x**2
    return attempt(lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t.mul_(2), lambda t: t))


@program
def hooks_on_a_custom_functions_saved_tensors(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y, None)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y, _ = ctx.saved_tensors
            return g * x * y

    x = leaf(m, 2)
    y = F.apply(x)
    raw = y.grad_fn._raw_saved_tensors
    raw[0].register_hooks(lambda t: t * 10, lambda t: t)
    s = y.grad_fn.saved_tensors
    y.sum().backward()
    return len(raw), s, s[1].grad_fn is y.grad_fn, x.grad, attempt(lambda: y.grad_fn._raw_saved_tensors)


# ----- saved_tensors_hooks ----------------------------------------------------------------------------------------------------------


@program
def order_of_packing_and_unpacking(m):
    a, b, events = leaf(m, 3, 1), leaf(m, 1, 4), []
    with hooks(m, events):
        y = m.atan2(a * b, a / b) + a**b
        z = y.exp().sum()
    events.append("backward")
    z.backward()
    return events


@program
def order_inside_a_custom_function(m):
    events: list[Any] = []

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y, x)
            events.append("forward")
            return y

        @staticmethod
        def backward(ctx, g):
            events.append("backward")
            y, _ = ctx.saved_tensors
            ctx.saved_tensors
            return g * y

    with hooks(m, events):
        z = F.apply(leaf(m, 2)).sum()
    z.backward()
    return events


@program
def the_innermost_pair_counts(m):
    x, events = leaf(m, 3), []
    with hooks(m, events, "a"):
        y = x.exp()
        with hooks(m, events, "b"):
            y = y.sin()
        y = y.cos()
    y.sum().backward()
    return events, x.grad


@program
def unpacking_happens_in_every_pass(m):
    x, events = leaf(m, 3), []
    with hooks(m, events):
        y = (x**2).sum()
    y.backward(retain_graph=True)
    y.backward()
    return events, x.grad


@program
def unpacking_under_create_graph(m):
    x, events = leaf(m, 3), []
    with hooks(m, events):
        y = (x**3).sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    (g2,) = m.autograd.grad(g.sum(), x)
    return events, g2


@program
def packing_into_anything(m):
    x = leaf(m, 3)
    with m.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda v: m.tensor(v, dtype=m.float64)):
        y = (x * x.sin()).exp().sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    return g, m.autograd.grad(g.sum(), x)


@program
def what_pack_hooks_compute_is_not_recorded_or_packed(m):
    x, seen = leaf(m, 3), []

    def pack(t):
        u = t * t
        seen.append(u.requires_grad)
        return u

    with m.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = x.sin()
    return seen, y.grad_fn._saved_self


@program
def a_pack_hook_must_not_write(m):
    x = leaf(m, 3)
    with m.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        return attempt(lambda: x * x), x._version


@program
def hooks_that_raise(m):
    x = leaf(m, 3)

    def fail(t):
        raise LookupError

    def packed_by(f):
        with m.autograd.graph.saved_tensors_hooks(f, fail):
            return (x * x).sum()

    first = attempt(lambda: packed_by(fail))
    y = packed_by(lambda t: t)
    second = attempt(y.backward)
    (x * x).sum().backward()
    return first, second, x.grad, m.is_grad_enabled()


@program
def unpack_hooks_must_return_tensors(m):
    x = leaf(m, 3)

    def run(value):
        with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: value):
            y = (x**2).sum()
        return attempt(y.backward)

    return run(3), run(None), run("t")


@program
def unpack_hooks_that_return_another_shape(m):
    x = leaf(m, 3)
    with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t[:2]):
        y = (x * x).sum()
    return attempt(y.backward)


@program
def integers_and_masks_are_packed_too(m):
    x, events = leaf(m, 3), []
    with hooks(m, events):
        m.where(x > 1, x, x * 2)
        x[m.tensor([0, 1])]
        x.masked_fill(x > 1, 0.0)
        x.sort()
    return [e for e in events if not e[3]]


@program
def in_place_ops_pack_the_value_they_leave(m):
    x, events = leaf(m, 3), []
    with hooks(m, events):
        y = x * 1
        y.exp_()
        y = y * 1
        y.mul_(x)
    y.sum().backward()
    return [e[1:3] for e in events], x.grad


@program
def versions_of_packed_results(m):
    x, kept = leaf(m, 3), []
    with m.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t), t.clone())[1], lambda t: t):
        y = x.exp()
    y.mul_(2)
    y.sum().backward()
    return kept[0]._version, y._version, x.grad


@program
def disabling_hooks(m):
    g = m.autograd.graph

    def inside():
        with g.disable_saved_tensors_hooks("not here"), hooks(m, []):
            pass

    def disable_inside():
        with hooks(m, []), g.disable_saved_tensors_hooks("not here"):
            pass

    def nested():
        with g.disable_saved_tensors_hooks("outer"):
            with g.disable_saved_tensors_hooks("inner"):
                pass
            with hooks(m, []):
                pass

    def message(f):
        try:
            f()
        except RuntimeError as error:
            return str(error)

    decorated = g.disable_saved_tensors_hooks("decorated")(lambda: message(lambda: hooks(m, []).__enter__()))
    with hooks(m, []):
        pass
    return message(inside), message(disable_inside), message(nested), decorated()


@program
def hooks_on_one_value_while_hooks_are_disabled(m):
    with m.autograd.graph.disable_saved_tensors_hooks("no"):
        y = leaf(m, 2) ** 2
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t)
    return y.grad_fn._saved_self


@program
def saving_on_the_cpu(m):
    x = leaf(m, 3)
    with m.autograd.graph.save_on_cpu():
        y = (x * x.exp()).sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    return g, m.autograd.grad(g.sum(), x)


@program
def allowed_mutation(m):
    x = leaf(m, 3)
    with m.autograd.graph.allow_mutation_on_saved_tensors():
        a, b = x.clone(), x.clone()
        r = a.exp()
        out = (a * b).sum() + (r * 2).sum()
        a.sin_()
        b.cos_()
        r.zero_()
        out.backward()
    return x.grad, a, b


@program
def allowed_mutation_does_not_nest(m):
    def nested():
        with m.autograd.graph.allow_mutation_on_saved_tensors(), m.autograd.graph.allow_mutation_on_saved_tensors():
            pass

    first = attempt(nested)
    with m.autograd.graph.allow_mutation_on_saved_tensors():
        pass
    return first


@program
def what_was_saved_before_is_not_protected(m):
    x = leaf(m, 3)
    a = x.clone()
    out = (a**2).sum()
    with m.autograd.graph.allow_mutation_on_saved_tensors():
        a.sin_()
        return attempt(out.backward)


# ----- further refusals --------------------------------------------------------------------------------------------------------------


@program
def inference_tensors_are_not_saved(m):
    x = leaf(m, 2)
    with m.inference_mode():
        i = m.ones(2, dtype=m.float64)

    def hooked():
        with hooks(m, []):
            return x * i

    return attempt(lambda: x * i), attempt(hooked), (x + i)


@program
def an_input_that_is_also_an_output(m):
    class Write(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x

    x = leaf(m, 3)
    h = x * 1
    y = Write.apply(h)
    s = y.grad_fn.saved_tensors[0]
    y.sum().backward()
    return y is h, y._version, s, s.grad_fn is y.grad_fn, x.grad


@program
def versions_at_which_values_were_saved(m):
    x = leaf(m, 3)
    h = x * 1
    h.add_(1)
    y = h * h
    seen = y.grad_fn._saved_self._version
    h.detach().add_(0)
    return seen, h._version, attempt(y.sum().backward)


@program
def graphs_die_when_their_results_do(m):
    gc.collect()
    gc.disable()
    try:
        y = leaf(m, 3).exp()
        y.grad_fn._saved_result
        y.grad_fn._raw_saved_result.register_hooks(lambda t: t.clone(), lambda t: t)
        seen = weakref.ref(y)
        del y
        return seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert _close(ours, theirs), (theirs, ours)


def _close(a: Any, b: Any) -> bool:
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(map(_close, a, b))
    return a == pytest.approx(b) if isinstance(b, float) else a == b


def test_a_write_behind_a_hook_that_keeps_the_tensor() -> None:
    """torch does not look at versions of what went through hooks."""
    deliberate("hooks-and-writes")

    def run(m):
        x = leaf(m, 3)
        with hooks(m, []):
            h = x * 1
            y = (h * h).sum()
        with m.no_grad():
            h.mul_(2)
        return attempt(lambda: (y.backward(), plain(x.grad))[1])

    assert run(torch) == [4.0, 8.0, 12.0]
    assert run(ndgrad) == "RuntimeError"


def test_mutation_is_still_allowed_for_after_the_block() -> None:
    """torch ties what it set aside to the context, and refuses backward outside it."""
    deliberate("mutation-outside")

    def run(m):
        x = leaf(m, 3)
        with m.autograd.graph.allow_mutation_on_saved_tensors():
            a = x.clone()
            out = (a**2).sum()
            a.sin_()
        return attempt(lambda: (out.backward(), plain(x.grad))[1])

    assert run(torch) == "AssertionError"
    assert run(ndgrad) == [2.0, 4.0, 6.0]


def test_what_a_write_sets_aside_belongs_to_the_graph_and_not_to_the_block() -> None:
    deliberate("mutation-outside")
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as block:
        assert len(block.cloned) == len(block.original) == 0
    with ndgrad.autograd.graph.allow_mutation_on_saved_tensors() as block:
        assert not hasattr(block, "cloned")


def test_attributes_of_a_saved_view_go_with_the_view() -> None:
    """torch keeps the view and its base, and with them, if the base is written, a cycle that only the collector finds."""
    deliberate("saved-views")

    def run(m):
        a = leaf(m, 2, 3) * 1
        v = a[0]
        v.tag = "mine"
        y = v * v
        del v
        return hasattr(y.grad_fn._saved_self, "tag"), attempt(lambda: y.grad_fn._saved_self.mul_(2) is not None)

    assert run(torch) == (True, True)
    assert run(ndgrad) == (False, "RuntimeError")
