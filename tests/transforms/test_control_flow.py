"""Loops and branches as functions, run eagerly: compared with plain Python, with derivatives, batches and bad input."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.foundations.pytree import tree_flatten
from ndgrad._src.interpreters import forward_ad
from ndgrad.func import associative_scan, cond, fori_loop, functionalize, grad, hessian, jacfwd, jacrev, jvp, scan, vjp, vmap, while_loop

RNG = np.random.default_rng(7)
ROWS = RNG.standard_normal((6, 3))
WEIGHTS = RNG.standard_normal(3)


def tensor(values: Any, **options: Any) -> Any:
    return ndgrad.tensor(values, dtype=ndgrad.float64, **options)


def close(a: Any, b: Any, rtol: float = 1e-12) -> None:
    """Assert that two structures of tensors are close."""
    left, spec = tree_flatten(a)
    right, other = tree_flatten(b)
    assert spec == other
    for s, t in zip(left, right, strict=True):
        assert (s.dtype, s.shape, type(s)) == (t.dtype, t.shape, type(t))
        np.testing.assert_allclose(s.detach().numpy(), t.detach().numpy(), rtol=rtol, atol=1e-13)


# ----- scan --------------------------------------------------------------------------------------------------------------


def step(carry: Any, x: Any, w: Any) -> Any:
    a, b = carry["a"], carry["b"]
    a = (a * w + x["row"]).tanh()
    b = b + (a * x["scale"]).sum()
    return {"a": a, "b": b}, (a * b, None, b)


def by_scan(w: Any, rows: Any, scales: Any, reverse: bool = False, **options: Any) -> Any:
    start = {"a": w * 0.5, "b": w.sum()}
    return scan(lambda c, x: step(c, x, w), start, {"row": rows, "scale": scales}, reverse=reverse, **options)


def by_loop(w: Any, rows: Any, scales: Any, reverse: bool = False, **options: Any) -> Any:
    carry, ys = {"a": w * 0.5, "b": w.sum()}, []
    for t in reversed(range(len(rows))) if reverse else range(len(rows)):
        carry, y = step(carry, {"row": rows[t], "scale": scales[t]}, w)
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    return carry, (ndgrad.stack([y[0] for y in ys]), None, ndgrad.stack([y[2] for y in ys]))


def total(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        carry, (first, _, last) = f(*args, **options)
        return (carry["a"] * first).sum() + carry["b"] * last.sin().sum()

    return run


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": lambda f: grad(f, argnums=(0, 1, 2)),
    "jvp": lambda f: lambda *args: jvp(f, args, args),
    "hessian": lambda f: hessian(f),
    "reverse over reverse": lambda f: jacrev(jacrev(f, argnums=1)),
    "forward over forward": lambda f: jacfwd(jacfwd(f)),
    "reverse over forward": lambda f: jacrev(jacfwd(f), argnums=2),
    "vmap": lambda f: lambda w, r, s: vmap(f, in_dims=(0, None, 1))(ndgrad.stack([w, -w]), r, ndgrad.stack([s, s * 2], 1)),
    "vmap of grad": lambda f: lambda w, r, s: vmap(grad(f, argnums=(0, 1)), in_dims=(None, 0, None))(w, ndgrad.stack([r, -r]), s),
    "grad of vmap": lambda f: lambda w, r, s: grad(lambda w: vmap(f, in_dims=(None, 0, None))(w, ndgrad.stack([r, -r]), s).sum())(w),
    "checkpoint": lambda f: grad(lambda *args: checkpoint(f, *args)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_the_python_loop(transform: str, reverse: bool) -> None:
    args = tensor(WEIGHTS), tensor(ROWS), tensor(ROWS[:, 0])
    change = TRANSFORMS[transform]
    close(change(total(by_scan, reverse=reverse))(*args), change(total(by_loop, reverse=reverse))(*args))


def test_results_have_the_structures_of_what_the_function_returns() -> None:
    args = tensor(WEIGHTS), tensor(ROWS), tensor(ROWS[:, 0])
    carry, (first, nothing, last) = by_scan(*args)
    assert nothing is None
    expected, (a, _, b) = by_loop(*args)
    close((carry, first, last), (expected, a, b))


@pytest.mark.parametrize("every", [True, 1, 2, 4, 6, 50])
def test_checkpoints_change_no_gradient(every: Any) -> None:
    for reverse in (False, True):
        args = [tensor(a, requires_grad=True) for a in (WEIGHTS, ROWS, ROWS[:, 0])]
        out = total(by_scan, reverse=reverse, checkpoint=every)(*args)
        expected = ndgrad.autograd.grad(total(by_loop, reverse=reverse)(*args), args)
        close(ndgrad.autograd.grad(out, args), expected)
    f = total(by_scan, checkpoint=every)
    close(hessian(f)(*[a.detach() for a in args]), hessian(total(by_loop))(*[a.detach() for a in args]))


def test_checkpoints_bound_the_memory_by_the_square_root_of_the_rounds() -> None:
    def peak(rounds: int, every: Any) -> int:
        x = ndgrad.ones(20_000, requires_grad=True)
        tracemalloc.start()
        scan(lambda c, _: (c * c * c, None), x, length=rounds, checkpoint=every)[0].sum().backward()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    whole, some = peak(64, False), peak(64, True)
    assert some < whole / 2.5
    assert peak(16, True) > some / 3  # 16 rounds need half as much as 64, not a quarter


def test_no_rounds_return_the_start_and_empty_results() -> None:
    w = tensor(WEIGHTS, requires_grad=True)
    carry, (first, nothing, last) = by_scan(w, tensor(np.zeros((0, 3))), tensor(np.zeros(0)))
    assert nothing is None
    assert first.shape == (0, 3)
    assert last.shape == (0,)
    assert first.dtype == ndgrad.float64
    close(carry["a"], w * 0.5)
    carry["a"].sum().backward()
    close(w.grad, tensor([0.5, 0.5, 0.5]))


def test_length_alone_gives_rounds_without_rows() -> None:
    last, ys = scan(lambda c, x: (c * 2, c if x is None else None), tensor(1.0), length=4)
    close((last, ys), (tensor(16.0), tensor([1.0, 2.0, 4.0, 8.0])))


def test_what_the_function_closes_over_gets_its_gradient() -> None:
    w, rows = tensor(WEIGHTS, requires_grad=True), tensor(ROWS)
    last, _ = scan(lambda c, x: ((c * w + x).sin(), None), tensor(np.ones(3)), rows)
    (g,) = ndgrad.autograd.grad(last.sum(), w, create_graph=True)
    (second,) = ndgrad.autograd.grad((g * g).sum(), w)
    c = tensor(np.ones(3))
    for t in range(len(rows)):
        c = (c * w + rows[t]).sin()
    (expected,) = ndgrad.autograd.grad(c.sum(), w, create_graph=True)
    close(g, expected)
    close(second, ndgrad.autograd.grad((expected * expected).sum(), w)[0])


def test_tangents_go_through_rounds() -> None:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(tensor(0.5), tensor(2.0))
        last, _ = scan(lambda c, _: (c * c, None), x, length=3)
        close(forward_ad.unpack_dual(last).tangent, tensor(8 * 0.5**7 * 2))


def test_arrays_on_numpys_class_stay_there() -> None:
    rows = dnp.array(ROWS)
    last, ys = scan(lambda c, x: (c + dnp.sum(x), c * 2), 0.0, rows)
    assert isinstance(last, dnp.ndarray)
    assert isinstance(ys, dnp.ndarray)
    np.testing.assert_allclose(np.asarray(last), ROWS.sum())
    found = func.map(lambda x: dnp.cos(x).sum(), rows)
    np.testing.assert_allclose(np.asarray(found), np.cos(ROWS).sum(1))
    g = grad(lambda r: scan(lambda c, x: (c * dnp.sum(x), None), dnp.array(1.0), r)[0])(rows)
    np.testing.assert_allclose(np.asarray(g)[:, 0], ROWS.sum(1).prod() / ROWS.sum(1))


class State(NamedTuple):
    position: Any
    speed: Any


def test_errors_name_the_leaf() -> None:
    start = State(tensor([1.0, 2.0]), {"v": tensor(0.0)})
    rows = tensor(ROWS)

    def run(f: Callable[..., Any], *args: Any, error: type[Exception] = TypeError, match: str, **options: Any) -> None:
        with pytest.raises(error, match=match):
            scan(f, *args, **options)

    run(lambda c, x: (State(c.position[:1], c.speed), None), start, rows, match=r"the carry\.position before the round has shape \(2,\)")
    run(lambda c, x: (State(c.position, {"v": c.speed["v"].float()}), None), start, rows, match=r"the carry\.speed\['v'\].*float32")
    run(lambda c, x: (State(c.position, c.speed["v"]), None), start, rows, match="has the structure .*but the function returned")
    run(lambda c, x: (State(c.position, {"v": None}), None), start, rows, match="no place|with tensors at")
    run(lambda c, x: c.position, start, rows, match=r"must return a pair \(carry, y\)")
    run(lambda c, x: (c, "text"), start, rows, match="y is str")
    run(lambda c, x: (c, x), {"a": "text"}, rows, match=r"the carry\['a'\] is str")
    run(lambda c, x: (c, x), start, None, error=ValueError, match="Pass length=")
    run(lambda c, x: (c, x), start, (rows, rows[:2]), error=ValueError, match=r"xs\[1\] has 2 rows .*xs\[0\] has 6")
    run(lambda c, x: (c, x), start, rows, length=3, error=ValueError, match="xs has 6 rows .*length is 3")
    run(lambda c, x: (c, x), start, tensor(1.0), error=ValueError, match="xs has no dimensions")
    run(lambda c, x: (c, x), start, length=-1, error=ValueError, match="length is -1")
    run(lambda c, x: (c, x), start, rows, checkpoint=0, error=ValueError, match="checkpoint is 0")
    sizes = iter([1, 2])
    run(lambda c, x: (c, tensor(np.ones(next(sizes)))), start, rows, match=r"y of the first round has shape \(1,\).*\(2,\)")


# ----- map, fori_loop ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [None, 1, 2, 4, 6, 9])
def test_map_is_the_function_of_each_row(size: int | None) -> None:
    def f(xs: Any) -> Any:
        return func.map(lambda x: {"sum": (x["a"] * x["b"]).sum(), "b": x["b"].exp()}, xs, batch_size=size)

    xs = {"a": tensor(ROWS), "b": tensor(ROWS[:, 0])}
    expected = {"sum": ROWS.sum(1) * ROWS[:, 0], "b": np.exp(ROWS[:, 0])}
    close(f(xs), {k: tensor(v) for k, v in expected.items()})
    g = grad(lambda xs: f(xs)["sum"].sum())(xs)
    close(g["b"], tensor(ROWS.sum(1)))
    assert f({"a": tensor(ROWS[:0]), "b": tensor(ROWS[:0, 0])})["sum"].shape == (0,)


def test_fori_loop_counts_from_the_lower_bound_to_the_upper() -> None:
    seen: list[int] = []

    def body(i: Any, total: Any) -> Any:
        seen.append(i.item())
        return total * 2 + i

    close(fori_loop(2, 5, body, tensor(1.0)), tensor(((1 * 2 + 2) * 2 + 3) * 2 + 4))
    assert seen == [2, 3, 4]
    close(fori_loop(ndgrad.tensor(2), ndgrad.tensor(5), body, tensor(1.0)), tensor(26.0))
    close(fori_loop(5, 2, body, tensor(1.0)), tensor(1.0))
    close(grad(lambda x: fori_loop(0, 4, lambda i, c: c * x, tensor(1.0)))(tensor(3.0)), tensor(4 * 27.0))
    found = vmap(lambda n, x: fori_loop(0, n, lambda i, c: c * x, x))(ndgrad.tensor([0, 1, 3]), tensor([2.0, 3.0, 4.0]))
    close(found, tensor([2.0, 9.0, 256.0]))
    with pytest.raises(TypeError, match=r"upper is a tensor of shape \(2,\)"):
        fori_loop(0, ndgrad.tensor([1, 2]), body, tensor(1.0))


# ----- cond --------------------------------------------------------------------------------------------------------------


def root_or_square(x: Any) -> Any:
    return cond(x > 0, lambda x: x.sqrt(), lambda x: x * x, x)


def test_cond_runs_one_branch() -> None:
    def never(x: Any) -> Any:
        raise AssertionError

    close(cond(tensor(1.0) > 0, lambda x: x * 2, never, tensor(3.0)), tensor(6.0))
    close(cond(False, never, lambda x, y: (x, y), tensor(3.0), tensor(4.0)), (tensor(3.0), tensor(4.0)))
    close(grad(root_or_square)(tensor(4.0)), tensor(0.25))
    close(hessian(root_or_square)(tensor(-4.0)), tensor(2.0))


@pytest.mark.parametrize("transform", [lambda f: f, grad, lambda f: grad(grad(f)), jacfwd, hessian])
def test_each_sample_of_a_batch_takes_its_branch(transform: Callable[[Any], Any]) -> None:
    xs = [4.0, -1.0, 0.25, -3.0]
    one = transform(root_or_square)
    close(vmap(one)(tensor(xs)), ndgrad.stack([one(tensor(x)) for x in xs]))
    for same in ([4.0, 1.0], [-4.0, -1.0]):  # no sample takes the other branch
        close(vmap(one)(tensor(same)), ndgrad.stack([one(tensor(x)) for x in same]))


def test_a_branch_does_nothing_for_samples_that_do_not_take_it() -> None:
    def f(x: Any, w: Any) -> Any:  # derivatives of the root at 0 and of x/0 are infinite
        inside = cond(x > 0, lambda: (w * x).sqrt() + w / x, lambda: w * 0 + x)  # by closures
        return inside + cond(x > 0, lambda x, w: x.log() * w, lambda x, w: x * w, x, w)

    x, w = tensor([0.0, 2.0, -1.0, 0.0]), tensor(0.5)
    gx, gw = grad(lambda x, w: vmap(f, in_dims=(0, None))(x, w).sum(), argnums=(0, 1))(x, w)
    each = [grad(f, argnums=(0, 1))(a, w) for a in x]
    close(gx, ndgrad.stack([g for g, _ in each]))
    close(gw, sum(g for _, g in each))
    with np.errstate(all="raise"):
        vmap(f, in_dims=(0, None))(x, w)


def test_conditions_batched_by_several_vmaps() -> None:
    x, y = tensor([1.0, -2.0, 3.0]), tensor([-1.0, 2.0])

    def f(x: Any, y: Any) -> Any:
        return cond(x + y > 0, lambda x: (x + y).sqrt(), lambda x: x * y, x)

    table = vmap(vmap(f, in_dims=(None, 0)), in_dims=(0, None))
    expected = ndgrad.stack([ndgrad.stack([f(a, b) for b in y]) for a in x])
    close(table(x, y), expected)
    got = grad(lambda x, y: table(x, y).sum(), argnums=(0, 1))(x, y)
    close(got, grad(lambda x, y: sum(f(a, b) for a in x for b in y), argnums=(0, 1))(x, y))
    inner = vmap(grad(lambda x: vmap(lambda b: f(x, b))(y).sum()))(x)
    close(inner, got[0])


def test_branches_return_structures() -> None:
    def f(x: Any) -> Any:
        found = cond(x > 0, lambda: {"a": (x, None), "b": 1}, lambda: {"a": (-x, None), "b": 2})
        assert found["a"][1] is None
        return found["a"][0], found["b"]

    close(vmap(f)(tensor([1.0, -2.0])), (tensor([1.0, 2.0]), ndgrad.tensor([1, 2])))


def test_cond_refuses_what_decides_nothing() -> None:
    x = tensor([1.0, -1.0])
    with pytest.raises(TypeError, match=r"pred is a tensor of shape \(2,\), which is no single value"):
        cond(x > 0, lambda: x, lambda: -x)
    with pytest.raises(TypeError, match="pred is of class str"):
        cond("yes", lambda: x, lambda: -x)
    with pytest.raises(TypeError, match=r"the result of true_fun has shape \(\).*float32"):
        vmap(lambda x: cond(x > 0, lambda: x, lambda: x.float()))(x)
    with pytest.raises(TypeError, match="the result of true_fun has the structure"):
        vmap(lambda x: cond(x > 0, lambda: x, lambda: (x, x)))(x)


# ----- while_loop --------------------------------------------------------------------------------------------------------


def square_root(a: Any) -> Any:
    """Newton's iteration, with a different number of rounds for each a."""

    def body(c: Any) -> Any:
        return {"x": 0.5 * (c["x"] + a / c["x"]), "rounds": c["rounds"] + 1}

    start = {"x": ndgrad.ones_like(a), "rounds": ndgrad.tensor(0)}
    return while_loop(lambda c: (c["x"] * c["x"] - a).abs() > 1e-12 * a, body, start)


def test_while_loop_runs_while_the_condition_holds() -> None:
    found = square_root(tensor(9.0))
    close(found["x"], tensor(3.0))
    assert found["rounds"].item() == 6
    close(while_loop(lambda c: False, lambda c: c + 1, tensor(1.0)), tensor(1.0))
    x = tensor(1.5, requires_grad=True)
    y = while_loop(lambda c: c < 100, lambda c: c * x, x)  # x ** 12
    y.backward()
    close(x.grad, 12 * x.detach() ** 11)


@pytest.mark.parametrize("transform", [lambda f: f, grad, jacfwd, hessian, lambda f: jacrev(jacrev(f))])
def test_each_sample_runs_until_it_is_done(transform: Callable[[Any], Any]) -> None:
    one = transform(lambda a: square_root(a)["x"])
    values = [1.0, 4.0, 1e4, 0.01]
    close(vmap(one)(tensor(values)), ndgrad.stack([one(tensor(a)) for a in values]), rtol=1e-9)


def test_samples_that_are_done_keep_their_values() -> None:
    values = [1.0, 4.0, 1e4, 0.01]
    rounds = vmap(lambda a: square_root(a)["rounds"])(tensor(values))
    assert rounds.tolist() == [square_root(tensor(a))["rounds"].item() for a in values]
    assert len({*rounds.tolist()}) > 2

    def down(x: Any) -> Any:  # one more round would take the root of a negative number
        return while_loop(lambda c: c > 1, lambda c: (c - 1).sqrt(), x)

    x = tensor([1.0, 5.0, 30.0])
    with np.errstate(all="raise"):
        g = grad(lambda x: vmap(down)(x).sum())(x)
    close(g, ndgrad.stack([grad(down)(a) for a in x]))


def test_a_loop_whose_condition_becomes_batched_on_the_way() -> None:
    def f(a: Any) -> Any:  # the carry starts as a value shared by all samples
        return while_loop(lambda c: c < 10, lambda c: c * a, tensor(1.0))

    a = tensor([2.0, 3.0, 11.0])
    close(vmap(f)(a), tensor([16.0, 27.0, 11.0]))
    close(vmap(grad(f))(a), tensor([32.0, 27.0, 1.0]))


def test_while_loop_keeps_what_it_carries() -> None:
    with pytest.raises(TypeError, match=r"val\[0\] before the round has shape \(2,\)"):
        while_loop(lambda c: True, lambda c: (c[0][:1],), (tensor([1.0, 2.0]),))
    with pytest.raises(TypeError, match=r"cond_fun returned a tensor of shape \(2,\)"):
        while_loop(lambda c: c > 0, lambda c: c - 1, tensor([1.0, 2.0]))


# ----- associative_scan ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(10))
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_is_the_running_product(n: int, reverse: bool) -> None:
    """The elements are matrices, which do not commute."""
    matrices = RNG.standard_normal((n, 2, 2))
    found = associative_scan(lambda a, b: a @ b, tensor(matrices), reverse=reverse)
    expected = matrices[::-1].copy() if reverse else matrices.copy()
    for i in range(1, n):
        expected[i] = expected[i - 1] @ expected[i]
    np.testing.assert_allclose(found.numpy(), expected[::-1] if reverse else expected, rtol=1e-11)


def test_associative_scan_of_structures_along_an_axis() -> None:
    """The linear recurrence h = a h + b."""
    a, b = tensor(RNG.standard_normal((2, 7))), tensor(RNG.standard_normal((2, 7)))

    def f(a: Any, b: Any) -> Any:
        return associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b), axis=-1)[1]

    def loop(a: Any, b: Any) -> Any:
        h, out = b[:, 0], [b[:, 0]]
        for t in range(1, 7):
            h = a[:, t] * h + b[:, t]
            out.append(h)
        return ndgrad.stack(out, 1)

    close(f(a, b), loop(a, b))
    close(vmap(f)(a[:, None], b[:, None])[:, 0], loop(a, b))
    for change in (lambda f: grad(f, argnums=(0, 1)), lambda f: lambda *args: jvp(f, args, args), hessian):
        close(change(lambda a, b: f(a, b).sin().sum())(a, b), change(lambda a, b: loop(a, b).sin().sum())(a, b))


def test_associative_scan_refuses_what_it_cannot_combine() -> None:
    x = tensor(ROWS)
    with pytest.raises(ValueError, match=r"axis is 2, but elems has 2 dimensions"):
        associative_scan(ndgrad.add, x, axis=2)
    with pytest.raises(ValueError, match=r"have \[6, 3\] elements along axis 0"):
        associative_scan(lambda a, b: a, (x, x[:3]))
    with pytest.raises(TypeError, match="combines elements one by one"):
        associative_scan(lambda a, b: a[:1], x)


# ----- among others ------------------------------------------------------------------------------------------------------


def test_loops_inside_branches_inside_loops() -> None:
    def f(x: Any, rows: Any) -> Any:
        def one(c: Any, row: Any) -> Any:
            c = cond(row.sum() > 0, lambda c: fori_loop(0, 2, lambda i, c: c * row.sin() + i, c), lambda c: c - row, c)
            return c, c.sum()

        return scan(one, x, rows)[1].sum()

    def plain(x: Any, rows: Any) -> Any:
        found = tensor(0.0)
        for row in rows:
            x = (x * row.sin()) * row.sin() + 1 if row.sum() > 0 else x - row
            found = found + x.sum()
        return found

    x, rows = tensor(WEIGHTS), tensor(ROWS)
    for change in (lambda f: f, lambda f: grad(f, argnums=(0, 1)), hessian):
        close(change(f)(x, rows), change(plain)(x, rows))
    batch = ndgrad.stack([rows, -rows])
    close(vmap(grad(f), in_dims=(None, 0))(x, batch), ndgrad.stack([grad(plain)(x, r) for r in (rows, -rows)]))


def test_functionalize_sees_the_rounds() -> None:
    def f(x: Any, rows: Any) -> Any:
        return scan(lambda c, row: (c.clone().mul_(row).add_(1.0), c), x, rows)

    x, rows = tensor(WEIGHTS), tensor(ROWS)
    close(functionalize(f)(x, rows), f(x, rows))
    close(grad(functionalize(lambda x: f(x, rows)[1].sum()))(x), grad(lambda x: f(x, rows)[1].sum())(x))


def test_vjp_and_derivatives_by_differences() -> None:
    def f(x: Any) -> Any:
        last, ys = scan(lambda c, _: (cond(c.sum() > 1, lambda c: c * 0.7, lambda c: c.exp(), c), c.sum()), x, length=5)
        return last.sum() + while_loop(lambda c: c < 20, lambda c: c * 1.5 + ys.sum() * 0.01, ys[0] + 2)

    x = tensor([0.1, 0.25], requires_grad=True)
    assert ndgrad.autograd.gradcheck(f, (x,), check_forward_ad=True, check_batched_grad=False)
    assert ndgrad.autograd.gradgradcheck(f, (x,))
    value, pull = vjp(f, x.detach())
    close(value, f(x.detach()))
    close(pull(tensor(2.0))[0], 2 * grad(f)(x.detach()))
