"""Modes: inference, versions, detach, data, deepcopy, function modes and dispatch modes, on torch and on ndgrad alike."""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import warnings
import weakref
from typing import Any

import pytest

from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both

PROGRAMS = Programs()
program = PROGRAMS.enter


def module(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


def name_of(func):
    return func.__name__.split(".")[0]


def logging_mode(m, log, label=None, then=None):
    """A dispatch mode that notes the ops it sees."""

    class Log(module(m, "utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(name_of(func) if label is None else (label, name_of(func)))
            if then is not None:
                return then(func, args, kwargs or {})
            return func(*args, **(kwargs or {}))

    return Log()


def function_mode(m, log, label=None, then=None):
    class Log(module(m, "overrides").TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(name_of(func) if label is None else (label, name_of(func)))
            if then is not None:
                return then(func, args, kwargs or {})
            return func(*args, **(kwargs or {}))

    return Log()


# ----- inference mode ----------------------------------------------------------------------------------------------------


@program
def what_is_an_inference_tensor(m):
    x = leaf(m, 3)
    with m.inference_mode():
        made = [m.ones(2), x * 2, x.view(3), x.detach(), x[0], x.data, x]
        return [t.is_inference() for t in made], made[1].requires_grad, m.is_grad_enabled(), m.is_inference_mode_enabled()


@program
def outside_again(m):
    with m.inference_mode():
        t = m.ones(2, dtype=m.float64)
    return [u.is_inference() for u in (t, t + 1, t.clone(), t.view(2), t.detach(), t[0])], (t + 1).tolist()


@program
def inference_tensors_have_no_version(m):
    with m.inference_mode():
        t = m.ones(2)
        first = attempt(lambda: t._version)
    return first, attempt(lambda: t._version)


@program
def inference_tensors_are_not_written_outside(m):
    with m.inference_mode():
        t = m.ones(2)
        t.add_(1)
    t.add_(1)


@program
def inference_tensors_do_not_come_to_require_grad(m):
    with m.inference_mode():
        t = m.ones(2)
    return attempt(lambda: t.requires_grad_()), t.clone().requires_grad_().requires_grad


@program
def inference_tensors_may_require_grad_inside(m):
    with m.inference_mode():
        return m.ones(2).requires_grad_().requires_grad


@program
def inference_tensors_are_not_saved(m):
    with m.inference_mode():
        t = m.ones(3, dtype=m.float64)
    return leaf(m, 3) * t


@program
def inference_tensors_take_part_where_nothing_is_saved(m):
    with m.inference_mode():
        t = m.ones(3, dtype=m.float64)
    x = leaf(m, 3)
    (x + t).sum().backward()
    return x.grad


@program
def inference_mode_off_inside_on(m):
    x = leaf(m, 3)
    with m.inference_mode():
        with m.inference_mode(False):
            y = x * 2
            inside = y.is_inference(), y.requires_grad, m.is_grad_enabled(), m.is_inference_mode_enabled()
        return inside, m.is_inference_mode_enabled()


@program
def enable_grad_does_nothing_inside_inference_mode(m):
    x = leaf(m, 3)
    with m.inference_mode(), m.enable_grad():
        return (x * 2).requires_grad, m.is_grad_enabled()


@program
def inference_mode_as_decorator(m):
    @m.inference_mode()
    def f(x):
        return (x * 2).is_inference()

    @m.inference_mode
    def g(x):
        return (x * 2).is_inference()

    @m.inference_mode(mode=False)
    def h(x):
        return (x * 2).is_inference()

    return f(leaf(m, 2)), g(leaf(m, 2)), h(leaf(m, 2)), m.is_inference_mode_enabled()


@program
def views_of_ordinary_tensors_made_in_inference_mode(m):
    x = leaf(m, 3) * 1
    with m.inference_mode():
        v = x[:2]
    return v.is_inference(), attempt(lambda: v.add_(1))


@program
def inference_mode_ends_with_an_exception(m):
    def fail():
        with m.inference_mode():
            raise KeyError("mine")

    return attempt(fail), m.is_inference_mode_enabled(), (leaf(m, 2) * 2).requires_grad


# ----- versions, detach, data --------------------------------------------------------------------------------------------


@program
def versions_count_writes(m):
    x = m.ones(3, dtype=m.float64)
    view = x[:2]
    seen = [x._version]
    view.add_(1)
    seen.append(x._version)
    x.detach().mul_(2)
    seen.append((x._version, view._version))
    x.data.mul_(2)
    seen.append(x._version)
    return seen, x


@program
def detached_tensors_share_memory_and_version(m):
    x = leaf(m, 3)
    h = x * 1
    y = h * h
    h.detach().add_(1)
    return h._version, attempt(lambda: y.sum().backward())


@program
def writes_through_data_are_not_seen(m):
    x = leaf(m, 3)
    h = x * 1
    y = h * h
    h.data.mul_(10)
    y.sum().backward()
    return h._version, x.grad


@program
def a_hidden_write(m):
    x = leaf(m, 3)
    h = x * 1
    y = h * h
    with m.autograd._unsafe_preserve_version_counter(h):
        with m.no_grad():
            h.mul_(2)
        inside = h._version
    y.sum().backward()
    return inside, h._version, x.grad


@program
def hidden_writes_to_several(m):
    a, b = m.ones(2), m.ones(2)
    a.add_(1)
    with m.autograd._unsafe_preserve_version_counter((a, b)):
        a.add_(1)
        b.add_(1)
    return a._version, b._version, a, b


@program
def increments_of_the_version(m):
    x = m.ones(2)
    m.autograd.graph.increment_version(x)
    m.autograd.graph.increment_version([x, m.ones(1)])
    return x._version


@program
def data_of_a_leaf_may_be_written(m):
    x = leaf(m, 3)
    x.data.mul_(2)
    x.data[0] = 7.0
    return x, x._version, x.data.requires_grad


@program
def no_grad_views_may_not_be_written_with_history(m):
    base = leaf(m, 3) * 1
    with m.no_grad():
        v = base[:2]
        v.mul_(2)
    return base, attempt(lambda: v.mul_(leaf(m, 2)))


@program
def view_replay_is_a_switch(m):
    seen = [m.autograd.is_view_replay_enabled()]
    with m.autograd._force_original_view_tracking(True):
        seen.append(m.autograd.is_view_replay_enabled())
    seen.append(m.autograd.is_view_replay_enabled())
    return seen


@program
def the_layout_of_gradients_may_be_left(m):
    found = []
    for enforce in (True, False):
        p = m.empty(2, 3, 4).permute(2, 0, 1).detach().requires_grad_()
        with m.autograd.enforce_grad_layout_policy(enforce):
            (p * m.ones(4, 2, 3)).sum().backward()
        found.append(p.grad.stride() == p.stride())
    return found


@program
def the_gradient_of_a_result_warns(m):
    y = leaf(m, 2) * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y.grad
        y.retain_grad()
        y.grad
        leaf(m, 2).grad
        (y.detach() * 2).grad
    return [w.category.__name__ for w in caught]


# ----- copies ------------------------------------------------------------------------------------------------------------


@program
def leaves_are_deep_copied_with_gradient_and_attributes(m):
    x = leaf(m, 3)
    (x * x).sum().backward()
    x.tag = {"a": [1]}
    y = copy.deepcopy(x)
    y.tag["a"].append(2)
    return y.requires_grad, y.is_leaf, y.grad, y.grad is x.grad, x.tag, y.tag


@program
def results_are_not_deep_copied(m):
    copy.deepcopy(leaf(m, 3) * 2)


@program
def deep_copies_keep_sharing(m):
    x = m.ones(4, dtype=m.float64)
    a, b = copy.deepcopy([x, x[:2]])
    b[0] = 5.0
    return a, x


@program
def copies_share_memory(m):
    x = m.ones(3, dtype=m.float64)
    x.tag = "mine"
    y = copy.copy(x)
    y[0] = 5.0
    return x, y is x, y.tag


@program
def pickles_keep_what_they_should(m):
    x = leaf(m, 3)
    x.tag = "mine"
    y = pickle.loads(pickle.dumps(x))
    return y, y.requires_grad, y.is_leaf, getattr(y, "tag", None)


# ----- identity and attributes -------------------------------------------------------------------------------------------


@program
def weak_references_to_tensors(m):
    x = m.ones(2)
    ref = weakref.ref(x)
    first = ref() is x
    del x
    gc.collect()
    return first, ref() is None


@program
def a_saved_input_comes_back_as_itself(m):
    x = leaf(m, 3)
    x.tag = "mine"
    saved = (x * x).grad_fn._saved_self
    return saved is x, saved.tag


@program
def a_leaf_whose_last_name_is_gone_comes_back_with_its_attributes(m):
    def make():
        x = leaf(m, 3)
        x.tag = "mine"
        return x.exp().sin()

    y = make()
    gc.collect()
    found = y.grad_fn.next_functions[0][0].next_functions[0][0].variable
    return found.tag, found.requires_grad


@program
def a_result_whose_last_name_is_gone_comes_back_with_its_attributes(m):
    def make():
        x = leaf(m, 3) * 2
        x.tag = "mine"
        return x.sin()

    y = make()
    gc.collect()
    return y.grad_fn._saved_self.tag


@program
def weak_keys(m):
    table = weakref.WeakKeyDictionary()
    x, y = m.ones(2), m.ones(2)
    table[x] = "x"
    table[y] = "y"
    found = table[x], table[y], len(table)
    del x
    gc.collect()
    return found, len(table)


# ----- dispatch modes ----------------------------------------------------------------------------------------------------


@program
def a_dispatch_mode_sees_ops_below_autograd(m):
    log, x = [], leaf(m, 3)
    with logging_mode(m, log):
        y = (x * 2).sin().exp()
    return [n for n in log if n != "detach"], y.grad_fn.name()


@program
def modes_nest(m):
    log, x = [], leaf(m, 3)
    with logging_mode(m, log, "outer"), logging_mode(m, log, "inner"):
        x.sin()
    return log


@program
def modes_see_writes(m):
    log, x = [], m.ones(3)
    with logging_mode(m, log):
        x.mul_(2)
        x.add_(1).sin_()
    return log, x._version


@program
def modes_see_backward(m):
    log, x = [], leaf(m, 3)
    y = x.sin().sum()
    with logging_mode(m, log):
        y.backward()
    return [n for n in log if n in ("cos", "mul")], len(log) > 2


@program
def modes_see_the_tensors_themselves(m):
    seen, x = [], leaf(m, 3)
    with logging_mode(m, [], then=lambda func, args, kwargs: (seen.append(args[0] is x), func(*args, **kwargs))[1]):
        x * 2
    return seen


@program
def a_mode_may_answer_itself(m):
    x = leaf(m, 3)

    def seven(func, args, kwargs):
        return m.full((3,), 7.0, dtype=m.float64) if name_of(func) == "mul" else func(*args, **kwargs)

    with logging_mode(m, [], then=seven):
        y = x * 2
    y.sum().backward()
    return y, y.grad_fn.name(), x.grad


@program
def what_a_mode_computes_is_not_recorded(m):
    seen, x = [], leaf(m, 3)

    def look(func, args, kwargs):
        out = func(*args, **kwargs)
        seen.append((out * 2).requires_grad)
        return out

    with logging_mode(m, [], then=look):
        y = x.sin()
    return seen, y.requires_grad


@program
def a_mode_that_answers_what_is_no_tensor(m):
    with logging_mode(m, [], then=lambda func, args, kwargs: "text"):
        leaf(m, 3).sin()


@program
def a_mode_that_answers_not_implemented(m):
    with logging_mode(m, [], then=lambda func, args, kwargs: NotImplemented):
        leaf(m, 3).sin()


@program
def a_mode_without_a_method(m):
    class Empty(module(m, "utils._python_dispatch").TorchDispatchMode):
        pass

    with Empty():
        leaf(m, 3).sin()


@program
def the_stack_of_modes(m):
    tools = module(m, "utils._python_dispatch")
    outer, inner = logging_mode(m, []), logging_mode(m, [])
    seen = [tools._get_current_dispatch_mode() is None]
    with outer, inner:
        seen += [tools._get_current_dispatch_mode() is inner, tools._get_current_dispatch_mode_stack() == [outer, inner]]
    seen += [tools._get_current_dispatch_mode() is None]
    return seen


@program
def modes_can_be_set_aside(m):
    tools, log = module(m, "utils._python_dispatch"), []
    with logging_mode(m, log):
        with tools._disable_current_modes():
            m.ones(2).sin()
        m.ones(2).exp()
    return [n for n in log if n in ("sin", "exp")]


@program
def a_mode_that_raises(m):
    def fail(func, args, kwargs):
        raise KeyError("mine")

    def run():
        with logging_mode(m, [], then=fail):
            x.sin()

    x = leaf(m, 3)
    first = attempt(run)
    x.sin().sum().backward()
    return first, module(m, "utils._python_dispatch")._get_current_dispatch_mode() is None, m.is_grad_enabled()


@program
def modes_under_vmap(m):
    log = []
    with logging_mode(m, log):
        y = m.func.vmap(lambda x: x.sin())(m.ones(3, dtype=m.float64))
    return "sin" in log, tuple(y.shape)


@program
def a_mode_is_left_as_often_as_it_is_entered(m):
    log = []
    mode = logging_mode(m, log)
    with mode:
        with mode:
            m.ones(2).sin()
        m.ones(2).exp()
    m.ones(2).cos()
    return [n for n in log if n in ("sin", "exp", "cos")]


# ----- function modes ----------------------------------------------------------------------------------------------------


@program
def a_function_mode_sees_calls(m):
    log, a = [], m.tensor([1.0, 2.0], dtype=m.float64)
    with function_mode(m, log):
        b = m.ones(2) + 1
        1 - b
        a.sin()
        m.exp(a)
        m.mean(a, dim=0)
        a.sum()
        a[0]
        a[0] = 3.0
        a.mul_(2)
        m.nn.functional.relu(a)
        m.stack([a, a])
        a @ a
        a == a
        -a
    return log


@pytest.mark.parametrize("name", ["linalg.norm", "fft.fft", "special.erf"])
def test_functions_of_namespaces_are_seen(name):
    found = []
    for m in MODULES:
        log, a = [], m.tensor([1.0, 2.0], dtype=m.float64)
        function = name.split(".")
        with function_mode(m, log):
            getattr(getattr(m, function[0]), function[1])(a)
        found.append(log)
    assert found[0] == found[1]


@program
def operators_have_the_names_of_methods(m):
    log, a = [], m.tensor([2, 3])
    with function_mode(m, log):
        a + a, 2 + a, a - a, 2 - a, a * a, 2 * a, a % a, a**a, 2**a, a & a, a | 1, a ^ a, a != a, a < a, a > 2, a >= a, abs(a), ~a
    return log


@program
def operators_that_write_have_the_names_of_methods(m):
    log, a = [], m.tensor([2.0, 3.0])
    with function_mode(m, log):
        a += 1
        a -= 1
        a *= 2
        a /= 2
        a **= 2
    return log


@program
def python_asks_too(m):
    log, a = [], m.tensor([1.0])
    with function_mode(m, log):
        len(a), bool(a), float(a), int(a), 1.0 in a, repr(a)
        copy.deepcopy(a)
    return log


@program
def function_modes_nest(m):
    log, a = [], m.ones(2)
    with function_mode(m, log, "outer"), function_mode(m, log, "inner"):
        a.sin()
    return log


@program
def a_function_mode_may_answer_itself(m):
    with function_mode(m, [], then=lambda func, args, kwargs: "mine"):
        return m.ones(2)


@program
def functions_inside_functions_are_not_seen(m):
    log, a = [], m.tensor([[1.0, 2.0], [3.0, 4.0]])
    with function_mode(m, log):
        m.nn.functional.softmax(a, dim=0)
        m.einsum("ij,jk->ik", a, a)
    return log


@program
def a_function_mode_that_changes_arguments(m):
    def doubled(func, args, kwargs):
        return func(*(a * 2 if isinstance(a, m.Tensor) else a for a in args), **kwargs)

    x = leaf(m, 3)
    with function_mode(m, [], then=doubled):
        y = x.sum()
    y.backward()
    return y, x.grad


@program
def a_function_mode_that_raises(m):
    def fail(func, args, kwargs):
        raise KeyError("mine")

    def run():
        with function_mode(m, [], then=fail):
            m.ones(2)

    return attempt(run), m.ones(2)


@program
def keyword_arguments_arrive(m):
    seen, a = [], m.ones(2, 2)
    with function_mode(m, [], then=lambda func, args, kwargs: (seen.append((len(args), sorted(kwargs))), func(*args, **kwargs))[1]):
        m.sum(a, dim=0, keepdim=True)
        a.sum(dim=1)
    return seen


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


def test_attributes_are_not_asked_about():
    deliberate("asked-attributes")
    found = []
    for m in MODULES:
        log, a = [], m.ones(2)
        with function_mode(m, log):
            a.shape, a.requires_grad
        found.append(log)
    assert found == [["__get__", "__get__"], []]
