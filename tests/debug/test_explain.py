"""`explain(y, x)`: each way to lose a gradient is named, with its line if debug mode was on."""

from __future__ import annotations

import copy
import gc
import inspect
import warnings
import weakref

import numpy as np
import pytest

import ndgrad
from ndgrad._src.debug.provenance import departures
from ndgrad.autograd import explain


@pytest.fixture(autouse=True)
def fresh():
    departures.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    departures.clear()


class Silent(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        return None


class Marked(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x * 1.0
        ctx.mark_non_differentiable(out)
        return out

    @staticmethod
    def backward(ctx, g):
        return g


class Zeros(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        return g * 0.0


def through_no_grad(x, w):
    with ndgrad.no_grad():
        h = x * 2.0  # here
    return (h * w).sum()


def through_inference(x, w):
    with ndgrad.inference_mode():
        h = x * 2.0  # here
    return (h + w).sum()


def through_detach(x, w):
    h = x.sin()
    h = h.detach()  # here
    return (h * w).sum()


def through_data(x, w):
    h = x.data  # here
    return (h * w).sum()


def through_a_detached_leaf(x, w):
    h = x.clone().detach().requires_grad_()  # here
    return (h * 2.0).sum()


def through_argmax(x, w):
    i = x.argmax()  # here
    return w * i


def through_a_comparison(x, w):
    mask = x > 1.5  # here
    return (w * mask).sum()


def through_integers(x, w):
    i = (x * 2.0).long()  # here
    return (w * i).sum()


def through_an_index(x, w):
    i = (x * 0.0).long()  # here
    return w[i].sum()


def through_item(x, w):
    v = x.sum().item()  # here
    return w * v


def through_float(x, w):
    v = float(x.sum())  # here
    return w * v


def through_numpy(x, w):
    a = x.detach().numpy()  # here
    return (ndgrad.from_numpy(a) * w).sum()


def through_an_array_operand(x, w):
    a = x.detach().numpy()  # here
    return (w * a).sum()


def through_a_list_of_tensors(x, w):
    h = ndgrad.tensor([x[0], x[1]])  # here
    return (h * w).sum()


def through_a_write_under_no_grad(x, w):
    buffer = ndgrad.zeros(2)
    with ndgrad.no_grad():
        buffer.copy_(x)  # here
    return (buffer * w).sum()


def through_a_marked_result(x, w):
    h = Marked.apply(x)  # here
    return (h * w).sum()


CUTS = {
    through_no_grad: ("no_grad", "mul"),
    through_inference: ("inference", "mul"),
    through_detach: ("detach", "detach"),
    through_data: ("detach", "detach"),
    through_a_detached_leaf: ("detach", "detach"),
    through_argmax: ("discrete", "argmax"),
    through_a_comparison: ("discrete", "gt"),
    through_integers: ("integer", "to"),
    through_an_index: ("integer", "to"),
    through_item: ("plain", "item"),
    through_float: ("plain", None),
    through_numpy: ("plain", "numpy"),
    through_an_array_operand: ("plain", "numpy"),
    through_a_list_of_tensors: ("plain", "tensor"),
    through_a_write_under_no_grad: ("no_grad", "copy_"),
    through_a_marked_result: ("custom", "Marked"),
}


def tensors():
    return ndgrad.tensor([1.0, 2.0], requires_grad=True), ndgrad.tensor([3.0, 4.0], requires_grad=True)


def marked_line(f) -> int:
    lines, start = inspect.getsourcelines(f)
    return next(start + i for i, text in enumerate(lines) if "# here" in text)


@pytest.mark.parametrize("f", CUTS, ids=lambda f: f.__name__)
def test_a_cut_is_named_with_its_line(f):
    x, w = tensors()
    with ndgrad.autograd.debug():
        y = f(x, w)
    with pytest.raises(RuntimeError):
        ndgrad.autograd.grad(y.sum(), x)
    why = explain(y, x)
    kind, op = CUTS[f]
    assert why.kind == kind
    assert op is None or why.op == op
    assert why.certain
    assert (why.place.filename, why.place.line) == (__file__, marked_line(f))
    assert why.path
    text = str(why)
    assert f":{marked_line(f)} in {f.__name__}" in text
    assert "# here" in text
    assert why.advice in text


@pytest.mark.parametrize("f", CUTS, ids=lambda f: f.__name__)
def test_without_debug_mode_the_graph_says_what_it_can(f):
    x, w = tensors()
    y = f(x, w)
    why = explain(y, x)
    assert why.kind == ("copy" if f is through_a_detached_leaf else "unknown")
    assert not why.certain
    if why.kind == "unknown":
        assert "ndgrad.autograd.debug()" in str(why)


def test_numbers_that_were_computed_with_cannot_be_followed_but_are_suspected():
    x, w = tensors()
    with ndgrad.autograd.debug():
        v = x.sum().item() * 2
        y = w * v
    why = explain(y, x)
    assert why.kind == "plain"
    assert not why.certain
    assert why.place.text == "v = x.sum().item() * 2"


def test_a_tensor_that_is_not_used_is_not_blamed_on_numbers_that_left():
    x, w = tensors()
    with ndgrad.autograd.debug():
        y = w * 2.0
        print(x.sum().item())
    assert explain(y, x).kind == "unused"


def test_requires_grad_that_came_too_late():
    x, w = ndgrad.tensor([1.0, 5.0]), tensors()[1]
    with ndgrad.autograd.debug():
        y = (x * w).sum()
    x.requires_grad_()
    why = explain(y, x)
    assert why.kind == "requires_grad"
    assert "does now" in why.reason
    assert why.place.text == "y = (x * w).sum()"


def test_requires_grad_that_was_never_set():
    x, w = ndgrad.tensor([1.0, 5.0]), tensors()[1]
    assert explain((x * w).sum(), x).kind == "requires_grad"
    with ndgrad.autograd.debug():
        y = (x * w).sum()
    assert explain(y, x).kind == "requires_grad"


def test_an_integer_input():
    x = ndgrad.tensor([1, 2])
    assert explain((x * tensors()[1]).sum(), x).kind == "integer"


def test_an_integer_output():
    x, _ = tensors()
    assert explain(x.argmax(), x).kind == "integer"
    with ndgrad.autograd.debug():
        y = x.argmax()
    assert explain(y, x).kind == "discrete"


def test_a_copy_of_x_was_used():
    x, w = tensors()
    twin = copy.deepcopy(x)
    why = explain((twin * w).sum(), x)
    assert why.kind == "copy"
    assert not why.certain
    shared = x.detach().requires_grad_()
    assert explain((shared * w).sum(), x).kind == "copy"
    assert explain((shared * w).sum(), x).certain


def test_the_cut_nearest_to_x_is_named_and_later_ones_mentioned():
    x, w = tensors()
    with ndgrad.autograd.debug():
        with ndgrad.no_grad():
            h = x * 3.0
        y = (h.round().long() * w).sum()
    why = explain(y, x)
    assert why.kind == "no_grad"
    assert "to (integer) would lose it too" in why.reason
    assert [step.split()[0] for step in why.path] == ["mul", "round", "to", "to", "mul", "sum"]


def test_the_way_with_the_fewest_losses_is_shown():
    x, w = tensors()
    with ndgrad.autograd.debug():
        lossy = x.detach().long().double()
        good = x.detach()
        y = ((lossy + good) * w).sum()
    assert explain(y, x).kind == "detach"
    assert len(explain(y, x).path) == 4


def test_a_plain_result():
    x, _ = tensors()
    with ndgrad.autograd.debug():
        y = (x * 2.0).sum().item()
    why = explain(y, x)
    assert (why.kind, why.op) == ("plain", "item")
    assert explain(3.0, x).kind == "plain"
    with pytest.raises(TypeError, match="x must be a tensor"):
        explain(x, 3.0)


# ----- zero ------------------------------------------------------------------------------------------------------------------------


def overwritten(x):
    h = x * 1.0
    h.zero_()
    return h


def overwritten_part(x):
    h = x * 1.0
    h[:] = 5.0
    return h


ZEROS = {
    "dead relu": (lambda x: (x - 5.0).relu(), "relu", "nowhere positive"),
    "clamp": (lambda x: x.clamp(3.0, 4.0), "clamp", "beyond the bound"),
    "where": (lambda x: ndgrad.where(x > 100.0, x, 0.0), "where", "chosen nowhere"),
    "times zero": (lambda x: x * 0.0, "mul", "other factor is zero"),
    "round": (lambda x: x.round(), "round", "constant between its jumps"),
    "floor": (lambda x: x.floor() * 3.0, "floor", "constant between its jumps"),
    "sign": (lambda x: x.sign(), "sign", "constant between its jumps"),
    "saturation": (lambda x: (x * 1000.0).sigmoid(), "sigmoid", "saturated"),
    "stack": (lambda x: ndgrad.stack([x.sum(), ndgrad.tensor(100.0)]).max(), "stack", "other parts"),
    "zero_": (overwritten, "zero", "overwrites"),
    "assignment": (overwritten_part, None, ""),
    "custom": (Zeros.apply, "Zeros", "custom Function"),
}


@pytest.mark.parametrize("name", ZEROS)
@pytest.mark.parametrize("debug", [False, True])
def test_a_zero_gradient_is_explained(name, debug):
    f, op, reason = ZEROS[name]
    x, _ = tensors()
    with ndgrad.autograd.set_debug(debug):
        y = f(x)
    assert not np.any(ndgrad.autograd.grad(y.sum(), x, retain_graph=True)[0].numpy())
    why = explain(y, x)
    assert why.kind == "zero"
    assert op is None or why.op == op
    assert reason in why.reason
    assert why.gradient.tolist() == [0.0, 0.0]
    assert (why.place is not None) == debug


def test_contributions_that_cancel():
    x, _ = tensors()
    assert "cancel" in explain(x - x, x).reason


def test_a_custom_function_that_returns_none():
    x, w = tensors()
    why = explain((Silent.apply(x) * w).sum(), x)
    assert (why.kind, why.op) == ("custom", "Silent")
    assert "returned None" in why.reason


# ----- nothing is wrong ------------------------------------------------------------------------------------------------------------


def test_a_gradient_that_is_there_is_returned():
    x, w = tensors()
    why = explain((x * w).sum(), x)
    assert why.kind == "connected"
    assert why.gradient.tolist() == [3.0, 4.0]
    assert "1 of its 2 values are zero" in explain(x[0] * 2.0, x).reason


def test_a_result_is_told_to_retain_its_gradient():
    x, _ = tensors()
    h = x * 2.0
    assert "retain_grad()" in str(explain(h.sum(), h))


def test_hooks_are_mentioned_and_not_run():
    x, _ = tensors()
    h = x * 2.0
    h.register_hook(lambda g: 1 / 0)
    why = explain(h.sum(), x)
    assert why.kind == "connected"
    assert "hooks on the way (MulBackward0)" in str(why)


def test_explaining_frees_nothing_and_leaves_no_gradient():
    x, _ = tensors()
    y = (x.exp() * x).sum()
    explain(y, x)
    explain(y, x)
    assert x.grad is None
    y.backward()
    assert explain(y, x).kind == "freed"


def test_multi_output_ops_views_and_writes_on_the_way():
    x, w = tensors()
    h = x * 1.0
    h[1:] = h[:1] * 3.0
    a, b = h.split(1)
    values, _ = ndgrad.stack([a, b]).sort(0)
    why = explain((values * w).sum(), x)
    (g,) = ndgrad.autograd.grad((values * w).sum(), x)
    assert np.allclose(why.gradient.numpy(), g.numpy())


# ----- memory of debug mode ----------------------------------------------------------------------------------------------------


def test_origins_keep_no_tensor_alive():
    x, w = tensors()
    with ndgrad.autograd.debug():
        h = x.detach() * 2.0
        gone = weakref.ref(h)
        y = h.sum() + w.sum()
        del h
    assert gone() is None
    assert explain(y, x).kind == "detach"


def test_a_long_loop_in_debug_mode_is_bounded_and_freed_without_recursion():
    x = ndgrad.ones(1)
    with ndgrad.autograd.debug():
        for _ in range(20_000):
            x = x + 1.0
    assert x._meta.provenance.depth <= 5000
    node = x._meta.provenance
    del x
    gc.collect()
    del node
