"""Tensor subclasses: classes as they are, with functions of their own, with a dispatch of their own; torch and ndgrad alike."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import pytest

from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


def name_of(func):
    return func.__name__.split(".")[0]


def private(m):
    return importlib.import_module(f"{m.__name__}._C")


def subclass(m, name="Sub", base=None, **members):
    return type(name, (base or m.Tensor,), members)


def kinds(*values):
    return [type(v).__name__ for v in values]


REFLECTED = {
    "sub": lambda x: 2 - x, "pow": lambda x: 2**x, "truediv": lambda x: 2 / x,
    "add": lambda x: 2 + x, "mul": lambda x: 2 * x,
}  # fmt: skip


@program
def reflected_operators_of_a_class_that_sees_functions(m):
    seen = []

    def function(cls, func, types, args=(), kwargs=None):
        if func.__name__.startswith("__r"):
            seen.append([isinstance(a, cls) for a in args])
        return super(made, cls).__torch_function__(func, types, args, kwargs or {})

    made = subclass(m, __torch_function__=classmethod(function))
    values = []
    for f in REFLECTED.values():
        base = leaf(m, 3)
        y = f(base.as_subclass(made)).as_subclass(m.Tensor)
        y.sum().backward()
        values.append((y.detach(), base.grad))
    return values, seen


@program
def reflected_operators_under_a_function_mode(m):
    overrides = importlib.import_module(f"{m.__name__}.overrides")

    class Mode(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    values = []
    for f in REFLECTED.values():
        x = leaf(m, 3)
        with Mode():
            y = f(x)
        y.sum().backward()
        values.append((y.detach(), x.grad))
    with Mode():
        k = m.tensor([1, 2, 3])
        values += [1 << k, 64 >> k, 6 & k, 6 | k, 6 ^ k, 7 // k, 7 % k]
    return values


# ----- as they are -------------------------------------------------------------------------------------------------------


@program
def results_have_the_class(m):
    x = m.ones(2, 2, dtype=m.float64).as_subclass(subclass(m))
    return kinds(x + 1, 1 + x, x.sum(), x[0], x.view(4), x.clone(), x.detach(), m.stack([x, x]), x @ x, m.ones(2, 2, dtype=m.float64) * x)


@program
def several_results_have_the_class(m):
    x = m.arange(4.0, dtype=m.float64).as_subclass(subclass(m))
    values, index = x.max(0)
    return kinds(*x.split(2), *x.unbind(), values, index)


@program
def the_graph_goes_through_as_subclass(m):
    x = leaf(m, 3)
    y = (x * 2).as_subclass(subclass(m))
    (y * y).sum().backward()
    return y.requires_grad, y.is_leaf, x.grad, kinds(x.grad)


@program
def as_subclass_shares_memory(m):
    x = m.ones(2, dtype=m.float64)
    x.as_subclass(subclass(m))[0] = 5.0
    return x, x._version


@program
def as_subclass_of_what_is_no_tensor_class(m):
    m.ones(2).as_subclass(int)


@program
def make_subclass(m):
    x = m.ones(2, dtype=m.float64)
    t = m.Tensor._make_subclass(subclass(m), x, True)
    t.tag = "mine"
    y = (t * 3).sum()
    y.backward()
    return kinds(t, y, t.grad), t.is_leaf, t.requires_grad, t.grad, t.tag, t.data_ptr() == x.data_ptr()


@program
def writes_keep_the_object(m):
    t = m.ones(2, dtype=m.float64).as_subclass(subclass(m))
    t.tag = "mine"
    u = t.add_(1)
    return u is t, u.tag, t


@program
def classes_that_do_not_go_together(m):
    a, b = m.ones(2).as_subclass(subclass(m, "A")), m.ones(2).as_subclass(subclass(m, "B"))
    return a + b


@program
def the_more_special_class_wins(m):
    A = subclass(m, "A")
    B = subclass(m, "B", A)
    a, b = m.ones(2).as_subclass(A), m.ones(2).as_subclass(B)
    return kinds(a + b, b + a, m.stack([a, b]))


@program
def a_class_with_a_constructor(m):
    class Named(m.Tensor):
        @staticmethod
        def __new__(cls, data, name):
            return m.Tensor._make_subclass(cls, data)

        def __init__(self, data, name):
            self.name_of_it = name

    t = Named(m.ones(2, dtype=m.float64), "first")
    return kinds(t, t * 2), t.name_of_it, hasattr(t * 2, "name_of_it")


@program
def hooks_on_a_subclass(m):
    seen = []
    t = m.Tensor._make_subclass(subclass(m), m.ones(2, dtype=m.float64), True)
    t.register_hook(lambda g: seen.append(plain(g)))
    t.register_post_accumulate_grad_hook(lambda u: seen.append(u is t))
    (t * 2).sum().backward()
    return seen


# ----- functions of their own --------------------------------------------------------------------------------------------


def watching(m, log, then=None):
    """A class that notes what is called, and passes it on."""

    class Watching(m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append((name_of(func), [t.__name__ for t in types]))
            if then is not None:
                return then(cls, func, types, args, kwargs or {})
            return super().__torch_function__(func, types, args, kwargs or {})

    return Watching


@program
def functions_and_methods_ask(m):
    log = []
    x = m.ones(2, 2, dtype=m.float64).as_subclass(watching(m, log))
    log.clear()
    results = [
        x + 1,
        1 + x,
        m.ones(2, 2, dtype=m.float64) + x,
        x.sum(),
        m.sum(x, dim=0),
        m.stack([x, x]),
        x[0],
        x.add_(1),
        m.mul(2, other=x),
    ]
    return log, kinds(*results)


@program
def python_asks(m):
    log = []
    x = m.ones(1, dtype=m.float64).as_subclass(watching(m, log))
    log.clear()
    len(x), float(x), bool(x), x.tolist()
    return [name for name, _ in log]


@program
def a_class_may_answer_anything(m):
    x = m.ones(2).as_subclass(watching(m, [], lambda cls, func, types, args, kwargs: name_of(func)))
    return x + 1, m.sum(x), x.exp(), m.nn.functional.relu(x)


@program
def a_table_of_functions(m):
    table = {}

    def implements(function):
        return lambda f: table.setdefault(function, f)

    @implements(m.mean)
    def my_mean(x):
        return "my mean"

    def look_up(cls, func, types, args, kwargs):
        return table[func](*args, **kwargs) if func in table else NotImplemented

    x = m.ones(2).as_subclass(watching(m, [], look_up))
    return m.mean(x), attempt(lambda: m.sum(x))


@program
def a_table_filled_after_the_class(m):
    table = {}
    cls = watching(m, [], lambda cls, func, types, args, kwargs: table[func](*args, **kwargs))
    table[m.mean] = lambda x: "mean"
    table[m.Tensor.add] = lambda x, y: "add"
    table[m.Tensor.exp] = lambda x: "exp"
    x = m.ones(2).as_subclass(cls)
    return m.mean(x), x + 1, x.exp()


@program
def not_implemented_by_all(m):
    x = m.ones(2).as_subclass(watching(m, [], lambda *args: NotImplemented))
    m.sum(x)


@program
def the_subclass_is_asked_first(m):
    log = []

    def make(name, base):
        def function(cls, func, types, args=(), kwargs=None):
            log.append(name)
            return NotImplemented if name == "B" else "answer"

        return type(name, (base,), {"__torch_function__": classmethod(function)})

    A = make("A", m.Tensor)
    B = make("B", A)
    a, b = m.ones(2).as_subclass(A), m.ones(2).as_subclass(B)
    log.clear()
    return m.add(a, b), log


@program
def asking_can_be_switched_off(m):
    log = []
    x = m.ones(2).as_subclass(watching(m, log))
    log.clear()
    with private(m).DisableTorchFunctionSubclass():
        y = x + 1
    return log, kinds(y)


@program
def a_class_that_overrides_nothing(m):
    cls = subclass(m, "Plain", __torch_function__=private(m)._disabled_torch_function_impl)
    x = m.ones(2).as_subclass(cls)
    return kinds(x, x + 1, x.sin())


@program
def what_is_no_tensor_may_ask_too(m):
    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return name_of(func), [t.__name__ for t in types]

    return m.add(Duck(), 1), m.add(m.ones(1), Duck())


@program
def gradients_through_a_class_that_asks(m):
    log = []
    x = leaf(m, 3)
    y = (x * 2).as_subclass(watching(m, log))
    (y * y).sum().backward()
    return x.grad


@program
def a_class_that_keeps_an_attribute(m):
    class Units(m.Tensor):
        unit = None

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_function__(func, types, args, kwargs or {})
            if isinstance(out, cls):
                out.unit = next(a.unit for a in args if isinstance(a, cls))
            return out

    x = m.ones(2).as_subclass(Units)
    x.unit = "m"
    return (x * 2).unit, x.sum().unit, x[0].unit


@program
def has_torch_function(m):
    overrides = importlib.import_module(f"{m.__name__}.overrides")
    x = m.ones(2).as_subclass(watching(m, []))
    plain_tensor = m.ones(2)
    return (
        overrides.has_torch_function((x, 1)),
        overrides.has_torch_function((plain_tensor, 1)),
        overrides.is_tensor_like(x),
        overrides.is_tensor_like(plain_tensor),
        overrides.is_tensor_like(3),
    )


@program
def a_function_of_ones_own_asks(m):
    overrides = importlib.import_module(f"{m.__name__}.overrides")

    def mine(x, y):
        if overrides.has_torch_function((x, y)):
            return overrides.handle_torch_function(mine, (x, y), x, y)
        return "plain"

    x = m.ones(2).as_subclass(watching(m, [], lambda cls, func, types, args, kwargs: name_of(func)))
    return mine(x, 1), mine(m.ones(2), 1)


@program
def methods_are_told_from_functions(m):
    overrides = importlib.import_module(f"{m.__name__}.overrides")
    seen = []

    def look(cls, func, types, args, kwargs):
        seen.append(overrides.is_tensor_method_or_property(func))
        return None

    x = m.ones(2).as_subclass(watching(m, [], look))
    seen.clear()
    x.sin(), m.sin(x), x + 1
    return seen


# ----- a dispatch of their own -------------------------------------------------------------------------------------------


def wrapper(m, log):
    """A class that holds a tensor, and computes with that."""

    def each(f, value):
        return type(value)(each(f, v) for v in value) if isinstance(value, (tuple, list)) else f(value)

    class Wrapper(m.Tensor):
        __torch_function__ = private(m)._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, elem, requires_grad=False):
            return m.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype, device=elem.device, requires_grad=requires_grad)

        def __init__(self, elem, requires_grad=False):
            self.elem = elem

        def __repr__(self):
            return f"Wrapper({self.elem.tolist()})"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if name_of(func) != "detach":
                log.append(name_of(func))
            unwrap = lambda t: t.elem if isinstance(t, cls) else t
            out = func(*each(unwrap, args), **{k: each(unwrap, v) for k, v in (kwargs or {}).items()})
            if name_of(func).endswith("_"):
                return args[0]
            return each(lambda t: cls(t) if isinstance(t, m.Tensor) else t, out)

    return Wrapper


@program
def a_wrapper_has_what_it_was_told(m):
    w = wrapper(m, [])(m.ones(2, 3, dtype=m.float32), requires_grad=True)
    return list(w.shape), str(w.dtype).split(".")[-1], str(w.device), w.requires_grad, w.is_leaf, w.ndim, w.numel(), repr(w)


@program
def autograd_works_above_a_wrapper(m):
    log = []
    w = wrapper(m, log)(m.tensor([1.0, 2.0, 3.0], dtype=m.float64), requires_grad=True)
    y = (w * 2).sin().exp()
    forward = list(log)
    names = y.grad_fn.name(), y.grad_fn.next_functions[0][0].name()
    y.sum().backward()
    return kinds(y, w.grad), forward, names, [round(v, 9) for v in w.grad.elem.tolist()], "cos" in log


@program
def double_backward_through_a_wrapper(m):
    w = wrapper(m, [])(m.tensor([1.0, 2.0, 3.0], dtype=m.float64), requires_grad=True)
    (g,) = m.autograd.grad((w * w * w).sum(), w, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), w)
    return kinds(g, h), h.elem


@program
def a_wrapper_with_a_plain_tensor(m):
    x = leaf(m, 3)
    w = wrapper(m, [])(m.tensor([1.0, 2.0, 3.0], dtype=m.float64), requires_grad=True)
    (x * w).sum().backward()
    return kinds(x.grad, w.grad), x.grad.elem, w.grad.elem


@program
def writes_to_a_wrapper(m):
    log = []
    w = wrapper(m, log)(m.tensor([1.0, 2.0], dtype=m.float64))
    u = w.mul_(3)
    return u is w, log, w.elem, w._version


@program
def recorded_writes_to_a_wrapper(m):
    w = wrapper(m, [])(m.tensor([1.0, 2.0], dtype=m.float64), requires_grad=True)
    q = w * 1
    q.mul_(w)
    q.sum().backward()
    return w.grad.elem


@program
def several_results_of_a_wrapper(m):
    w = wrapper(m, [])(m.tensor([1.0, 2.0, 3.0], dtype=m.float64), requires_grad=True)
    a, b = w.split([1, 2])
    (a.sum() * 2 + b.sum()).backward()
    return kinds(a, b), w.grad.elem


@program
def attributes_of_a_wrapper_survive(m):
    w = wrapper(m, [])(m.tensor([1.0, 2.0], dtype=m.float64), requires_grad=True)
    w.tag = "mine"
    saved = (w * w).grad_fn._saved_self
    return saved is w, saved.tag


@program
def a_wrapper_under_no_grad(m):
    w = wrapper(m, [])(m.tensor([1.0, 2.0], dtype=m.float64), requires_grad=True)
    with m.no_grad():
        y = w + 1
    return kinds(y), y.requires_grad, y.elem


@program
def a_wrapper_that_answers_not_implemented(m):
    class Mute(m.Tensor):
        __torch_function__ = private(m)._disabled_torch_function_impl

        @staticmethod
        def __new__(cls):
            return m.Tensor._make_wrapper_subclass(cls, (2,), dtype=m.float64)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    Mute() * 2


@program
def a_wrapper_without_a_dispatch(m):
    m.Tensor._make_wrapper_subclass(subclass(m), (2,), dtype=m.float64)


@program
def wrappers_in_wrappers(m):
    outer_log, inner_log = [], []
    Outer, Inner = wrapper(m, outer_log), wrapper(m, inner_log)
    w = Outer(Inner(m.tensor([1.0, 2.0], dtype=m.float64)), requires_grad=True)
    y = w.sin()
    y.sum().backward()
    return kinds(y, y.elem), outer_log[0], inner_log[0], "cos" in inner_log, [round(v, 9) for v in w.grad.elem.elem.tolist()]


@program
def a_mode_comes_before_a_class(m):
    log = []
    w = wrapper(m, log)(m.tensor([1.0, 2.0], dtype=m.float64))

    class Mode(importlib.import_module(f"{m.__name__}.utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append("mode " + name_of(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        w.sin()
    return log[:2]


@program
def a_class_with_memory_and_a_dispatch(m):
    log = []

    class Seen(m.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            log.append(name_of(func))
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    t = m.Tensor._make_subclass(Seen, m.ones(2, dtype=m.float64), True)
    log.clear()
    y = (t * 2).sum()
    y.backward()
    return "mul" in log, y.item(), t.grad


@program
def a_dispatch_that_raises(m):
    state = {"fail": True}

    class Fails(wrapper(m, [])):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if state["fail"]:
                raise KeyError("mine")
            return super().__torch_dispatch__(func, types, args, kwargs)

    w = Fails(m.tensor([1.0, 2.0], dtype=m.float64), requires_grad=True)
    first = attempt(lambda: w * 2)
    state["fail"] = False
    (w * 2).sum().backward()
    return first, m.is_grad_enabled(), w.grad.elem


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


@pytest.mark.parametrize("m", MODULES, ids=lambda m: m.__name__)
def test_a_subclass_is_pickled_with_its_attributes(m):
    cls = subclass(m, "Pickled", __module__=__name__)
    globals()["Pickled"] = cls
    t = m.ones(2, dtype=m.float64).as_subclass(cls)
    t.tag = "mine"
    u = pickle.loads(pickle.dumps(t))
    assert type(u) is cls
    assert u.tag == "mine"
    assert u.tolist() == [1.0, 1.0]
