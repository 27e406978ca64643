"""Bad input to the transforms: the class of the error, the content of its message, and that no level is left open.

Each call is also made inside other transforms, by a function that catches the error and continues: the result is as if nothing had
happened.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.core.modes import process, thread
from ndgrad.func import (
    chunk_vmap,
    debug_unwrap,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    rearrange,
    vjp,
    vmap,
)

X = np.array([0.6, -0.3, 0.9])


def state() -> tuple[Any, ...]:
    return (
        thread.levels, thread.dual_levels, thread.dual_stack, thread.transforms, thread.grad_enabled, thread.forward_grad_enabled,
        thread.task, thread.in_custom_forward, len(process.busy),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before = state()
    yield
    assert state() == before


def x() -> Any:
    return ndgrad.tensor(X)


def batch() -> Any:
    return ndgrad.tensor(np.stack([X, -X]))


def loop(y):
    while y.sum() < 10:
        y = y * 2
    return y


OUTER = ndgrad.zeros(3)

#: name -> (call, class, words that the message must contain)
CALLS: dict[str, tuple[Any, type[Exception], str]] = {
    # results of the function
    "vector from grad": (lambda: grad(lambda y: y * 2)(x()), RuntimeError, r"scalar.*\(3,\).*\.sum\(\)"),
    "number from grad": (lambda: grad(lambda y: 3.0)(x()), RuntimeError, "float"),
    "tuple from grad": (lambda: grad(lambda y: (y.sum(), y))(x()), RuntimeError, "has_aux"),
    "complex from grad": (lambda: grad(lambda y: (y * 1j).sum())(x()), RuntimeError, "complex128"),
    "no aux": (lambda: grad_and_value(lambda y: y.sum(), has_aux=True)(x()), RuntimeError, "has_aux"),
    "number from vjp": (lambda: vjp(lambda y: (y, 1), x()), RuntimeError, "int"),
    "indices from vjp": (lambda: vjp(lambda y: y.argmax(), x()), RuntimeError, "int64.*aux"),
    "nothing from jvp": (lambda: jvp(lambda y: (), (x(),), (x(),)), RuntimeError, "no tensor"),
    "number from vmap": (lambda: vmap(lambda y: 3)(x()), ValueError, "int"),
    "indices from jacrev": (lambda: jacrev(lambda y: y.argsort())(x()), RuntimeError, "int64"),
    # differentiated arguments
    "integers in grad": (lambda: grad(lambda y: y.sum())(x().long()), RuntimeError, "int64.*floating"),
    "integers in jvp": (lambda: jvp(lambda y: y, (x().long(),), (x(),)), ValueError, "int64.*floating"),
    "integers in jacfwd": (lambda: jacfwd(lambda y: y * 1.0)(x().long()), ValueError, "int64.*floating"),
    "integers in hessian": (lambda: hessian(lambda y: y.sum())(x().long()), ValueError, "int64.*floating"),
    "numbers in grad": (lambda: grad(lambda y: y)(2), ValueError, "int.*as_tensor"),
    "numbers in jacfwd": (lambda: jacfwd(lambda y: y)(["1.0"]), ValueError, "str.*as_tensor"),
    "text in linearize": (lambda: linearize(ndgrad.sin, "1.0"), ValueError, "str.*as_tensor"),
    "argnums too large": (lambda: grad(lambda y: y.sum(), argnums=1)(x()), RuntimeError, "argnum=1.*1 positional"),
    "argnums of no kind": (lambda: jacrev(lambda y: y, argnums="0")(x()), RuntimeError, "argnums.*'0'"),
    "no argnums": (lambda: jacfwd(lambda y: y, argnums=())(x()), RuntimeError, r"argnums.*\(\)"),
    "argnums twice": (lambda: grad(lambda a, b: (a * b).sum(), argnums=(0, -2))(x(), x()), RuntimeError, "twice"),
    # directions
    "long tangent": (lambda: jvp(ndgrad.sin, (x(),), (ndgrad.ones(4),)), RuntimeError, r"\(4,\).*\(3,\)"),
    "two tangents": (lambda: jvp(ndgrad.sin, (x(),), (x(), x())), RuntimeError, "structure"),
    "bare primals": (lambda: jvp(ndgrad.sin, x(), x()), RuntimeError, r"Tensor.*\(x,\)"),
    "no tangent": (lambda: jvp(ndgrad.sin, (x(),), (None,)), RuntimeError, "NoneType"),
    "strict": (lambda: jvp(lambda y: ndgrad.ones(2), (x(),), (x(),), strict=True), RuntimeError, "does not depend"),
    "long cotangent": (lambda: vjp(ndgrad.sin, x())[1](ndgrad.ones(4)), RuntimeError, r"\[4\].*\[3\]"),
    "cotangent of no kind": (lambda: vjp(ndgrad.sin, x())[1](1.0), TypeError, "float.*as_tensor"),
    "cotangents of another form": (lambda: vjp(ndgrad.sin, x())[1]((x(), x())), RuntimeError, "structure"),
    "tangent of another precision": (lambda: linearize(ndgrad.sin, x())[1](x().float()), RuntimeError, "float32.*float64"),
    "hvp along a matrix": (lambda: hvp(lambda y: y.sum(), (x(),), (ndgrad.ones(3, 3),)), RuntimeError, r"\(3, 3\).*\(3,\)"),
    # batch dimensions
    "in_dims too large": (lambda: vmap(ndgrad.sin, in_dims=1)(x()), ValueError, r"in_dim=1.*\(3,\).*-1 <= in_dim < 1"),
    "in_dims of no kind": (lambda: vmap(ndgrad.sin, in_dims="0")(x()), ValueError, "in_dims=0.*int or a"),
    "in_dims of a number": (lambda: vmap(lambda a, b: a)(x(), 2.0), ValueError, "float.*None"),
    "no in_dims": (lambda: vmap(ndgrad.sin, in_dims=None)(x()), ValueError, "in_dims=None.*at least one argument"),
    "in_dims of another form": (lambda: vmap(lambda d: d["a"], in_dims=({"b": 0},))({"a": x()}), ValueError, "trees"),
    "different sizes": (lambda: vmap(lambda a, b: a + b)(x(), ndgrad.ones(4)), ValueError, r"\[3, 4\]"),
    "sizes in a structure": (lambda: vmap(lambda d: d["a"])({"a": x(), "b": ndgrad.ones(2)}), ValueError, r"\[3, 2\]"),
    "a scalar": (lambda: vmap(ndgrad.sin)(ndgrad.tensor(1.0)), ValueError, r"dimensionality 0"),
    "out_dims too large": (lambda: vmap(ndgrad.sin, out_dims=2)(x()), IndexError, "out_dims is 2"),
    "out_dims of no kind": (lambda: vmap(ndgrad.sin, out_dims=0.5)(x()), ValueError, "out_dims.*0.5"),
    "out_dims of another form": (lambda: vmap(lambda y: (y, y), out_dims=(0, 0, 0))(x()), ValueError, "trees"),
    "no out_dims": (lambda: vmap(ndgrad.sin, out_dims=None)(x()), ValueError, "out_dims is None"),
    "randomness": (lambda: vmap(ndgrad.sin, randomness="none"), RuntimeError, "'different'.*'none'"),
    "chunk_size": (lambda: vmap(ndgrad.sin, chunk_size=0), ValueError, "chunk_size.*got 0"),
    "chunks": (lambda: chunk_vmap(ndgrad.sin, chunks=0), ValueError, "chunks is 0"),
    "chunk_size of jacfwd": (lambda: jacfwd(ndgrad.sin, chunk_size=-1), ValueError, "chunk_size.*got -1"),
    # functions that cannot be batched
    "item": (lambda: vmap(lambda y: y.item())(x()), RuntimeError, "vmap"),
    "float": (lambda: vmap(lambda y: ndgrad.tensor(float(y)))(x()), RuntimeError, "vmap"),
    "numpy": (lambda: vmap(lambda y: ndgrad.tensor(y.numpy()))(batch()), RuntimeError, "vmap"),
    "branch": (lambda: vmap(lambda y: y if y > 0 else -y)(x()), RuntimeError, "vmap.*where"),
    "loop": (lambda: vmap(loop)(batch()), RuntimeError, "vmap"),
    "nonzero": (lambda: vmap(lambda y: y.nonzero())(batch()), RuntimeError, "nonzero.*where"),
    "mask": (lambda: vmap(lambda y: y[y > 0])(batch()), RuntimeError, "vmap"),
    "random": (lambda: vmap(lambda y: y + ndgrad.rand(3))(batch()), RuntimeError, "randomness='different'"),
    "same bernoulli": (lambda: vmap(ndgrad.bernoulli, randomness="same")(batch().abs()), RuntimeError, "bernoulli.*'different'"),
    "write to an outer tensor": (lambda: vmap(lambda y: OUTER.add_(y))(batch()), RuntimeError, "from outside"),
    "write in grad": (lambda: grad(lambda y: OUTER.copy_(y).sum())(x()), RuntimeError, "from outside"),
    "write to the argument": (lambda: grad(lambda y: y.mul_(2).sum())(x()), RuntimeError, "leaf"),
    "shapes inside": (lambda: vmap(lambda y: y + ndgrad.ones(2))(batch()), RuntimeError, r"\(2\)|\(2,\)"),
    # small functions
    "debug_unwrap": (lambda: debug_unwrap(1.0), TypeError, "float"),
    "functionalize": (lambda: functionalize(ndgrad.sin, remove="views"), RuntimeError, "'views'.*'mutations'"),
    "rearrange": (lambda: rearrange(x(), "a b -> b a"), ValueError, r"a b.*\(3,\)"),
}  # fmt: skip


def message_of(name: str) -> str:
    call, error, words = CALLS[name]
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert re.search(words, text, flags=re.DOTALL), text
    return text


@pytest.mark.parametrize("name", CALLS)
def test_message_names_the_matter_and_a_way_out(name):
    text = message_of(name)
    assert len(re.findall(r"[.!?]( |$|\n)", text)) >= 2 or ":" in text, text
    assert OUTER.tolist() == [0.0, 0.0, 0.0]


#: Functions of a vector that meet an error, catch it and continue; the results are known.
AROUND: dict[str, tuple[Any, Any]] = {
    "grad": (lambda go_on: grad(lambda y: (go_on(y) * y).sum())(x()), 2 * X),
    "grad of grad": (lambda go_on: grad(lambda y: (grad(lambda z: (go_on(z) ** 3).sum())(y)).sum())(x()), 6 * X),
    "vmap": (lambda go_on: vmap(lambda y: go_on(y) * 2)(batch()), np.stack([2 * X, -2 * X])),
    "jvp": (lambda go_on: jvp(lambda y: go_on(y) * y, (x(),), (ndgrad.ones(3),))[1], 2 * X),
    "vmap of grad": (lambda go_on: vmap(grad(lambda y: (go_on(y) * y).sum()))(batch()), np.stack([2 * X, -2 * X])),
    "hessian": (lambda go_on: hessian(lambda y: (go_on(y) * y).sum())(x()), 2 * np.eye(3)),
    "functionalize": (lambda go_on: functionalize(lambda y: go_on(y).clone().mul_(2))(x()), 2 * X),
    "backward": (lambda go_on: _backward(go_on), 2 * X),
}


def _backward(go_on):
    leaf = x().requires_grad_()
    (go_on(leaf) * leaf).sum().backward()
    return leaf.grad


@pytest.mark.parametrize("around", AROUND)
def test_an_error_that_is_caught_inside_a_transform_leaves_it_as_it_was(around):
    run, expected = AROUND[around]
    for name, (call, error, _) in CALLS.items():

        def go_on(y, call=call, error=error):
            inside = state()
            with pytest.raises(error):
                call()
            assert state() == inside
            return y

        found = run(go_on)
        np.testing.assert_allclose(found.numpy(), expected, err_msg=name)


# ----- tensors that leave their level -----------------------------------------------------------------------------------------------


def kept_from(transform: Any) -> list[Any]:
    """Return an argument, a result and a view, of a level that is closed."""
    kept: list[Any] = []
    transform(lambda y: (kept.extend([y, y * 2, y[:2]]), y.sum())[1])
    return kept


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: vmap(f)(batch()),
        lambda f: vmap(vmap(lambda y: f(ndgrad.stack([y, y, y]))))(batch()),
        lambda f: vmap(grad(f))(batch()),
        lambda f: grad(lambda b: vmap(f)(b).sum())(batch()),
        lambda f: jacfwd(lambda y: vmap(f)(ndgrad.stack([y, y])))(x()),
    ],
)
def test_a_batched_tensor_is_of_no_use_outside(transform):
    for t in kept_from(transform):
        for use in (
            lambda t: t.sum(),
            lambda t: t + 1,
            lambda t: t @ t,
            lambda t: t[0],
            lambda t: t.clone().add_(1),
            lambda t: vmap(lambda y: y + t)(batch()),
        ):
            with pytest.raises(RuntimeError, match="after the transform had ended"):
                use(t)


def test_a_tensor_of_grad_has_its_value_outside_and_no_gradient():
    for t in kept_from(lambda f: grad(f)(x())):
        values = t.detach().numpy()
        np.testing.assert_allclose((t * 2).detach().numpy(), 2 * values)
        with pytest.raises(RuntimeError, match="after the transform had ended"):
            t.sum().backward()
        with pytest.raises(RuntimeError, match="after the transform had ended"):
            grad(lambda y, t=t: (y * t.sum()).sum())(x())



def test_an_interrupt_closes_all_levels():
    def interrupted(y):
        raise KeyboardInterrupt

    for run in (lambda: vmap(grad(interrupted))(batch()), lambda: hessian(interrupted)(x()), lambda: functionalize(interrupted)(x())):
        with pytest.raises(KeyboardInterrupt):
            run()
        assert thread.levels == ()


def test_a_failing_backward_closes_all_levels():
    class Broken(ndgrad.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(y):
            return y * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

        @staticmethod
        def jvp(ctx, t):
            return t * 1

    f = lambda y: Broken.apply(y).sum()
    for run in (lambda: grad(f)(x()), lambda: vmap(grad(f))(batch()), lambda: jacrev(jacrev(f))(x()), lambda: hvp(f, (x(),), (x(),))):
        before = state()
        with pytest.raises(KeyError):
            run()
        assert state() == before
    np.testing.assert_allclose(grad(lambda y: (y * y).sum())(x()).numpy(), 2 * X)
