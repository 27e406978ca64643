"""Forward mode by dual levels: the same programs on torch and on ndgrad, by primals, tangents and classes of errors.

With reverse mode and with custom functions it is in test_forward_ad_compositions.
"""

from __future__ import annotations

import threading

import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.dual import forward_ad, in_level, settle, values
from tests.torch_parity.outcomes import compare
from tests.torch_parity.side_by_side import Programs

PROGRAMS = Programs()
program = PROGRAMS.enter


# ----- levels -----------------------------------------------------------------------------------------------------------


@program
def no_level_is_minus_one(m):
    return forward_ad(m)._current_level


@program
def a_level_ends_with_its_block(m):
    fw = forward_ad(m)
    with fw.dual_level() as level:
        same = fw._current_level == level
    return same, fw._current_level


@program
def a_level_ends_when_something_raises(m):
    fw = forward_ad(m)
    try:
        with fw.dual_level():
            raise ZeroDivisionError
    except ZeroDivisionError:
        return fw._current_level


@program
def enter_and_exit(m):
    fw = forward_ad(m)
    level = fw.enter_dual_level()
    fw.exit_dual_level(level=level)
    return fw._current_level


@program
def exit_without_a_level(m):
    forward_ad(m).exit_dual_level()


@program
def exit_of_another_level(m):
    fw = forward_ad(m)
    level = fw.enter_dual_level()
    try:
        fw.exit_dual_level(level=level + 5)
    finally:
        fw.exit_dual_level(level=level)


@program
def a_level_as_decorator(m):
    fw = forward_ad(m)
    x, v = values(m)

    @fw.dual_level()
    def run():
        return fw.unpack_dual(fw.make_dual(x, v) * 2).tangent

    return run(), run(), fw._current_level


@program
def make_dual_outside(m):
    return forward_ad(m).make_dual(*values(m))


@program
def make_dual_outside_with_a_level(m):
    return forward_ad(m).make_dual(*values(m), level=0)


@program
def unpack_dual_outside(m):
    return forward_ad(m).unpack_dual(values(m)[0]).tangent is None


@program
def tangents_go_with_the_level(m):
    fw = forward_ad(m)
    x, v = values(m)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        y = d * 2
    with fw.dual_level():
        return settle((fw.unpack_dual(y), fw.unpack_dual(d), fw.unpack_dual(y + d)))


@program
def a_graph_outlives_its_level(m):
    fw = forward_ad(m)
    x, v = values(m)
    x.requires_grad_()
    with fw.dual_level():
        y = (fw.make_dual(x, v) ** 3).sum()
    y.backward()
    return x.grad


# ----- making and taking apart ------------------------------------------------------------------------------------------


@program
@in_level
def unpack_a_plain_tensor(m, fw, x, v):
    return fw.unpack_dual(x)


@program
@in_level
def unpack_by_names(m, fw, x, v):
    u = fw.unpack_dual(fw.make_dual(x, v))
    return u.primal, u.tangent, u[0], u[1], type(u).__name__


@program
@in_level
def the_tangent_is_the_one_given(m, fw, x, v):
    return fw.unpack_dual(fw.make_dual(x, v)).tangent is v


@program
@in_level
def unpack_at_a_wrong_level(m, fw, x, v):
    return fw.unpack_dual(fw.make_dual(x, v), level=10**9)


@program
@in_level
def make_at_a_wrong_level(m, fw, x, v):
    return fw.make_dual(x, v, level=10**9)


@program
@in_level
def tangent_of_another_shape(m, fw, x, v):
    return fw.make_dual(x, v[:1])


@program
@in_level
def integer_primal(m, fw, x, v):
    return fw.make_dual(m.tensor([1, 2]), v)


@program
@in_level
def integer_tangent(m, fw, x, v):
    return fw.make_dual(x, m.tensor([1, 2]))


@program
@in_level
def unpack_a_number(m, fw, x, v):
    return fw.unpack_dual(1.0)


@program
@in_level
def a_dual_of_a_dual(m, fw, x, v):
    return fw.make_dual(fw.make_dual(x, v), v)


@program
@in_level
def a_tangent_that_is_dual(m, fw, x, v):
    return fw.make_dual(x, fw.make_dual(x, v))


@program
@in_level
def complex_duals(m, fw, x, v):
    z = fw.make_dual(x + 1j * v, v - 2j * x)
    return fw.unpack_dual(z * z), fw.unpack_dual(z.abs()), fw.unpack_dual(z.conj() * z), fw.unpack_dual(z.real)


@program
@in_level
def a_tangent_is_brought_to_the_layout_of_the_primal(m, fw, x, v):
    a, b = m.arange(6.0).reshape(2, 3), m.arange(6.0).reshape(3, 2).t()
    t = fw.unpack_dual(fw.make_dual(a, b)).tangent
    u = fw.unpack_dual(fw.make_dual(b, a)).tangent
    return t.stride(), t, u.stride(), u


@program
@in_level
def a_copied_tangent_sees_writes_through_views(m, fw, x, v):
    d = fw.make_dual(m.arange(6.0).reshape(2, 3), m.arange(6.0).reshape(3, 2).t())
    d.view(6)[4:].mul_(10.0)
    return fw.unpack_dual(d)


@program
@in_level
def results_have_the_layout_of_their_primal(m, fw, x, v):
    d = fw.make_dual(m.arange(6.0).reshape(3, 2).t(), m.arange(6.0).reshape(2, 3))
    y = fw.unpack_dual(d * 2)
    return y.primal.stride(), y.tangent.stride(), y


@program
@in_level
def an_expanded_tangent(m, fw, x, v):
    t = fw.unpack_dual(fw.make_dual(m.arange(3.0), m.ones(1).expand(3))).tangent
    return t.stride(), t


@program
@in_level
def text_of_a_dual(m, fw, x, v):
    return repr(fw.make_dual(x, v)).replace(" ", "")


# ----- modes ------------------------------------------------------------------------------------------------------------


@program
@in_level
def under_no_grad(m, fw, x, v):
    d = fw.make_dual(x, v)
    with m.no_grad():
        return fw.unpack_dual(d * 2)


@program
@in_level
def made_under_no_grad(m, fw, x, v):
    with m.no_grad():
        return fw.unpack_dual(fw.make_dual(x, v) * 2)


@program
@in_level
def in_inference_mode(m, fw, x, v):
    d = fw.make_dual(x, v)
    with m.inference_mode():
        return fw.unpack_dual(d * 2)


@program
@in_level
def switched_off(m, fw, x, v):
    d = fw.make_dual(x, v)
    with fw._set_fwd_grad_enabled(False):
        y, off = d * 2, fw._is_fwd_grad_enabled()
    return off, fw._is_fwd_grad_enabled(), fw.unpack_dual(y), fw.unpack_dual(y + d)


@program
@in_level
def made_while_switched_off(m, fw, x, v):
    with fw._set_fwd_grad_enabled(False):
        d = fw.make_dual(x, v)
        off = fw.unpack_dual(d)
    return off, fw.unpack_dual(d)


@program
def switched_off_by_a_call(m):
    fw = forward_ad(m)
    fw._set_fwd_grad_enabled(False)
    off = fw._is_fwd_grad_enabled()
    fw._set_fwd_grad_enabled(True)
    return off, fw._is_fwd_grad_enabled()


@program
def jvp_does_not_mind_the_switch(m):
    x, v = values(m)
    with forward_ad(m)._set_fwd_grad_enabled(False):
        return m.func.jvp(lambda z: z**3, (x,), (v,))


@program
@in_level
def detached(m, fw, x, v):
    d = fw.make_dual(x, v)
    return fw.unpack_dual(d.detach()), fw.unpack_dual(d.data), fw.unpack_dual(d.clone())


@program
@in_level
def detached_in_place(m, fw, x, v):
    d = fw.make_dual(x, v) * 1
    d.detach_()
    return fw.unpack_dual(d)


@program
@in_level
def numbers_of_a_dual(m, fw, x, v):
    d = fw.make_dual(x, v)
    return d.tolist(), d.sum().item()


@program
@in_level
def discrete_results(m, fw, x, v):
    d = fw.make_dual(x, v)
    return fw.unpack_dual(d.argmax()), fw.unpack_dual(d > 1), fw.unpack_dual(d.long()), fw.unpack_dual(d.round())


@program
@in_level
def casts(m, fw, x, v):
    d = fw.make_dual(x, v)
    return fw.unpack_dual(d.float()), fw.unpack_dual(d.to(m.complex128))


@program
@in_level
def out_arguments(m, fw, x, v):
    return m.mul(fw.make_dual(x, v), 2, out=m.empty(2))


@program
@in_level
def a_dual_as_out_argument(m, fw, x, v):
    return m.mul(x, 2, out=fw.make_dual(x.clone(), v.clone()))


# ----- views and writes -------------------------------------------------------------------------------------------------


@program
@in_level
def a_view_of_a_dual(m, fw, x, v):
    w = fw.make_dual(x, v)[1:]
    t = fw.unpack_dual(w).tangent
    t.mul_(7.0)
    return fw.unpack_dual(w), v


@program
@in_level
def several_views(m, fw, x, v):
    d = fw.make_dual(x, v)
    return [fw.unpack_dual(p) for p in (*d.unbind(), *d.split(1))]


@program
@in_level
def a_write_through_a_view_of_a_dual(m, fw, x, v):
    d = fw.make_dual(x, v)
    w = d[1:]
    w.mul_(10.0)
    return fw.unpack_dual(d), fw.unpack_dual(w)


@program
@in_level
def a_dual_written_into_a_view_of_a_plain_tensor(m, fw, x, v):
    b = m.zeros(3)
    w, u = b[1:], b[:2]
    w.copy_(fw.make_dual(x, v))
    return fw.unpack_dual(b), fw.unpack_dual(w), fw.unpack_dual(u), fw.unpack_dual(b[2])


@program
@in_level
def a_dual_written_into_a_base_with_views(m, fw, x, v):
    b = m.zeros(2)
    w = b[1:]
    b.add_(fw.make_dual(x, v))
    return fw.unpack_dual(b), fw.unpack_dual(w)


@program
@in_level
def a_plain_value_written_into_a_dual(m, fw, x, v):
    d = fw.make_dual(x, v) * 1
    w = d[:1]
    d.copy_(m.tensor([7.0, 8.0]))
    return fw.unpack_dual(d), fw.unpack_dual(w)


@program
@in_level
def assignments_to_parts(m, fw, x, v):
    b, d = m.zeros(3), fw.make_dual(x, v)
    b[:2] = d
    b[2] = d[0] * 5
    return fw.unpack_dual(b)


@program
@in_level
def fill_and_zero(m, fw, x, v):
    d, e = fw.make_dual(x, v) * 1, fw.make_dual(x, v) * 1
    d.zero_()
    e.fill_(3.0)
    return fw.unpack_dual(d), fw.unpack_dual(e)


@program
@in_level
def a_write_to_a_dual_reaches_the_tensor_and_the_tangent_given(m, fw, x, v):
    fw.make_dual(x, v).mul_(2.0)
    return x, v


@program
@in_level
def a_write_to_the_tensor_reaches_the_dual(m, fw, x, v):
    d = fw.make_dual(x, v)
    x.mul_(2.0)
    v.mul_(3.0)
    return fw.unpack_dual(d)


@program
@in_level
def a_dual_written_into_a_leaf(m, fw, x, v):
    x.clone().requires_grad_().mul_(fw.make_dual(x, v))


@program
@in_level
def in_place_chains(m, fw, x, v):
    d = fw.make_dual(x, v) * 1
    d.mul_(d.clone()).exp_().add_(x)
    d[0] -= d[1]
    return fw.unpack_dual(d)


@program
@in_level
def in_place_shapes(m, fw, x, v):
    d = fw.make_dual(x, v).view(1, 2)
    d.t_()
    return fw.unpack_dual(d)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    compare(PROGRAMS[name])
    assert forward_ad(ndgrad)._current_level == -1


# ----- programs that only ndgrad runs -----------------------------------------------------------------------------------


def test_levels_nest():
    deliberate("dual-levels-nest")
    fw = forward_ad(torch)
    with fw.dual_level(), pytest.raises(RuntimeError):
        fw.enter_dual_level()
    fw = forward_ad(ndgrad)
    x, v, w = ndgrad.tensor([2.0]), ndgrad.tensor([1.0]), ndgrad.tensor([5.0])
    with fw.dual_level() as outer:
        with fw.dual_level() as inner:
            y = fw.make_dual(fw.make_dual(x, v, level=outer), w, level=inner) ** 3
            t = fw.unpack_dual(y, level=inner).tangent
        mixed = fw.unpack_dual(t, level=outer).tangent
        plain = fw.unpack_dual(fw.unpack_dual(y, level=outer).tangent, level=outer).primal
    assert t.tolist() == [60.0]  # 3 x^2 w
    assert mixed.tolist() == [60.0]  # 6 x v w
    assert plain.tolist() == [12.0]  # 3 x^2 v


def test_a_level_belongs_to_its_thread():
    deliberate("dual-levels-nest")
    seen = []

    def look(fw, d):
        seen.append((fw._current_level, fw.unpack_dual(d * 2).tangent is None))

    for m in (torch, ndgrad):
        fw = forward_ad(m)
        with fw.dual_level():
            thread = threading.Thread(target=look, args=(fw, fw.make_dual(*values(m))))
            thread.start()
            thread.join()
    assert seen == [(0, False), (-1, False)]  # no level is open in the thread, but the dual number keeps its own
