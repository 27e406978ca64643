"""Loops and branches inside compiled functions: traced once, run by the program, with the values and derivatives of
eager code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func, nn, optim
from ndgrad._src.compiler.lower.loops import Pieces
from ndgrad._src.compiler.native.target import available
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.text import parse_program
from ndgrad._src.foundations.pytree import tree_flatten
from ndgrad.autograd import Function
from ndgrad.func import associative_scan, cond, fori_loop, grad, hessian, jacfwd, jacrev, jvp, scan, vmap, while_loop

RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((5, 3))
WEIGHTS = RNG.standard_normal(3)


@pytest.fixture(params=["numpy", "native"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test natively and on NumPy."""
    if request.param == "native" and not available():
        pytest.skip("llvmlite is not installed")
    if request.param == "numpy":
        monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    return str(request.param)


def tensor(values: Any, **options: Any) -> Any:
    return ndgrad.tensor(values, dtype=ndgrad.float64, **options)


def close(a: Any, b: Any, rtol: float = 1e-11) -> None:
    left, spec = tree_flatten(a)
    right, other = tree_flatten(b)
    assert spec == other
    for s, t in zip(left, right, strict=True):
        assert (s.dtype, s.shape, type(s)) == (t.dtype, t.shape, type(t))
        np.testing.assert_allclose(s.detach().numpy(), t.detach().numpy(), rtol=rtol, atol=1e-13)


def same(f: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Check that a function gives its eager result when compiled, without running eagerly."""
    compiled = ndgrad.compile(f, fullgraph=True)
    expected = f(*args)
    for _ in range(2):
        close(compiled(*args), expected, **options)


def specialise(f: Callable[..., Any], *args: Any) -> Any:
    """Return the specialisation of a function."""
    compiled = ndgrad.compile(f, fullgraph=True)
    compiled(*args)
    return compiled.entries[-1].specialisation


# ----- scan --------------------------------------------------------------------------------------------------------------


def recurrent(w: Any, rows: Any, **options: Any) -> Any:
    """A state of several tensors, one of them of integers, with results of every round."""

    def step(c: Any, x: Any) -> Any:
        h = (c["h"] * w + x).tanh()
        return {"h": h, "n": c["n"] + 1}, {"sum": (h * x).sum() * (c["n"] + 1), "h": h}

    last, ys = scan(step, {"h": w * 0.5, "n": ndgrad.tensor(0)}, rows, **options)
    return (last["h"] * ys["h"]).sum() + (ys["sum"] ** 2).sum() + last["n"]


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": lambda f: grad(f, argnums=(0, 1)),
    "jvp": lambda f: lambda *args: jvp(f, args, args),
    "hessian": lambda f: hessian(f),
    "reverse over reverse": lambda f: jacrev(jacrev(f, argnums=1)),
    "forward over forward": lambda f: jacfwd(jacfwd(f)),
    "vmap": lambda f: lambda w, r: vmap(f, in_dims=(0, None))(ndgrad.stack([w, -w]), r),
    "vmap of rows": lambda f: lambda w, r: vmap(f, in_dims=(None, 1))(w, ndgrad.stack([r, -r], 1)),
    "vmap of grad": lambda f: lambda w, r: vmap(grad(f, argnums=(0, 1)), in_dims=(None, 0))(w, ndgrad.stack([r, -r])),
    "grad of vmap": lambda f: lambda w, r: grad(lambda w: vmap(f, in_dims=(None, 0))(w, ndgrad.stack([r, -r])).sum())(w),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_scan_compiled_is_scan(transform: str, way: str) -> None:
    same(TRANSFORMS[transform](recurrent), tensor(WEIGHTS), tensor(ROWS))


OPTIONS = {"reverse": {"reverse": True}, "unroll": {"unroll": 2}, "checkpoint": {"checkpoint": 2, "reverse": True}}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_scan_compiled(name: str, way: str) -> None:
    options: Any = OPTIONS[name]

    def f(w: Any, rows: Any) -> Any:
        return grad(lambda w, rows: recurrent(w, rows, **options), argnums=(0, 1))(w, rows)

    same(f, tensor(WEIGHTS), tensor(ROWS))


def test_backward_of_a_compiled_scan(way: str) -> None:
    w, rows = tensor(WEIGHTS, requires_grad=True), tensor(ROWS, requires_grad=True)
    compiled = ndgrad.compile(recurrent, fullgraph=True)
    expected = ndgrad.autograd.grad(recurrent(w, rows), (w, rows), create_graph=True)
    for _ in range(5):  # the last calls compute the gradients in forward
        close(ndgrad.autograd.grad(compiled(w, rows), (w, rows)), expected)
    again = ndgrad.autograd.grad(compiled(w, rows), (w, rows), create_graph=True)
    close(again, expected)
    first, second = (ndgrad.autograd.grad((g[0].sin() * g[1].sum()).sum(), (w, rows)) for g in (again, expected))
    close(first, second)


def test_a_body_is_traced_once_however_many_rounds() -> None:
    sizes = []
    for n in (4, 4000):
        weights = tensor(WEIGHTS, requires_grad=True)
        found = specialise(lambda x, n=n: scan(lambda c, _: (c * 0.9 + c.sin(), None), x, length=n)[0].sum(), weights)
        sizes.append((len(found.plan.program.instructions), [len(b.instructions) for b in bodies(found.plan.program)]))
    assert sizes[0] == sizes[1]
    assert len(sizes[0][1]) == 2  # forward and backward


def bodies(program: Program) -> list[Program]:
    found = [s for i in program.instructions for s in i.settings.values() if isinstance(s, Program)]
    return [*found, *[inner for body in found for inner in bodies(body)]]


def test_loops_are_native_forward_and_backward() -> None:
    if not available():
        pytest.skip("llvmlite is not installed")
    from ndgrad._src.compiler.lower.loops import Loop

    w, rows = tensor(WEIGHTS, requires_grad=True), tensor(ROWS)
    compiled = ndgrad.compile(lambda w, rows: scan(lambda c, x: ((c * w + x).tanh(), None), w, rows)[0].sum(), fullgraph=True)
    compiled(w, rows).backward()
    specialisation = compiled.entries[-1].specialisation
    for runner in (specialisation.plan.run_forward, specialisation.plan.run_backward):
        assert [type(s) for s in runner.executable.groups.steps].count(Loop) == 1
        assert not any(hasattr(s, "forward") for s in runner.executable.steps)
    assert "loop of 5 rounds: native" in str(ndgrad.compiler.explain(compiled, w, rows))


def test_a_body_that_needs_numpy_runs_round_by_round(way: str) -> None:
    def f(a: Any) -> Any:
        return scan(lambda c, x: (ndgrad.linalg.solve(x @ x.T + ndgrad.eye(3, dtype=ndgrad.float64) * 2, c), None), a[0, 0], a)[0].sum()

    a = tensor(RNG.standard_normal((4, 3, 3)), requires_grad=True)
    same(f, a)
    same(grad(f), a.detach())
    if way == "native":
        assert "runs round by round: it calls " in str(ndgrad.compiler.explain(f, a))


def test_rows_read_by_a_counter(way: str) -> None:
    def f(rows: Any, w: Any) -> Any:
        return fori_loop(1, 5, lambda i, c: c * w + rows[i] * i, w).sum()

    same(f, tensor(ROWS), tensor(WEIGHTS))
    same(grad(f, argnums=(0, 1)), tensor(ROWS), tensor(WEIGHTS))


def test_constants_that_a_body_shares_with_what_is_done_before_it(way: str) -> None:
    """Computations that do not depend on the round are done once, before the loop. Their constant is used in every
    round, too.
    """

    def f(w: Any, rows: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            k = tensor([1.0, 2.0, -1.0])
            return (c * k + (w * k).exp() + x).sin(), None

        return scan(step, w, rows)[0].sum()

    same(f, tensor(WEIGHTS), tensor(ROWS))
    same(grad(f), tensor(WEIGHTS), tensor(ROWS))


def test_map_and_associative_scan_compiled(way: str) -> None:
    same(grad(lambda r: func.map(lambda x: (x * x).sum().sin(), r).sum()), tensor(ROWS))
    same(grad(lambda r: func.map(lambda x: (x * x).sum().sin(), r, batch_size=2).sum()), tensor(ROWS))
    same(grad(lambda r: associative_scan(lambda a, b: a * b + a + b, r, reverse=True).cos().sum()), tensor(ROWS))


def test_no_gradient_goes_where_eager_lets_none_go(way: str) -> None:
    class Doubled(Function):
        """A function with a custom derivative."""

        @staticmethod
        def forward(x: Any) -> Any:
            return x.sin()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * g

    def f(w: Any, rows: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            with ndgrad.no_grad():
                scale = (c * w).sum()
            return Doubled.apply(c * w) * scale + x.detach() * c.detach(), None

        return scan(step, w, rows)[0].sum()

    w, rows = tensor(WEIGHTS, requires_grad=True), tensor(ROWS, requires_grad=True)
    compiled = ndgrad.compile(f, fullgraph=True)
    close(compiled(w, rows), f(w, rows))
    found, expected = (ndgrad.autograd.grad(g(w, rows), (w, rows), allow_unused=True) for g in (compiled, f))
    assert found[1] is None or not found[1].any()
    assert expected[1] is None
    close(found[0], expected[0])


@pytest.mark.parametrize("dtype", ["float32", "complex128", "bool", "int64"])
def test_carries_of_any_dtype(dtype: str, way: str) -> None:
    start = ndgrad.tensor(np.array([1, 0, 1]).astype(dtype))
    rows = ndgrad.tensor((ROWS * 3).astype(dtype))

    def f(start: Any, rows: Any) -> Any:
        return scan(lambda c, x: ((c ^ x, c & x) if dtype == "bool" else (c * x + c, c - x)), start, rows)

    same(f, start, rows, rtol=1e-5)


def test_arrays_on_numpys_class_compiled(way: str) -> None:
    def f(rows: Any) -> Any:
        last, ys = scan(lambda c, x: (dnp.tanh(c + x), dnp.sum(c)), dnp.zeros(3), rows)
        return dnp.sum(last) + dnp.sum(ys)

    rows = dnp.array(ROWS)
    same(f, rows)
    same(grad(f), rows)


def test_a_training_step_with_a_scan_inside(way: str) -> None:
    def losses(compiled: bool) -> list[float]:
        ndgrad.manual_seed(0)
        cell, head = nn.Linear(6, 4, dtype=ndgrad.float64), nn.Linear(4, 1, dtype=ndgrad.float64)
        optimizer = optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)

        def step(xs: Any, y: Any) -> Any:
            optimizer.zero_grad()
            h, _ = scan(lambda h, x: (cell(ndgrad.cat([h, x], 1)).tanh(), None), ndgrad.zeros(3, 4, dtype=ndgrad.float64), xs)
            loss = ((head(h) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        xs, y = tensor(np.random.default_rng(0).standard_normal((7, 3, 2))), tensor(np.ones((3, 1)))
        step(xs, y)  # recorded by the optimizer
        run = ndgrad.compile(step, fullgraph=True) if compiled else step
        return [run(xs, y).item() for _ in range(4)]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-10)


# ----- cond and while_loop -------------------------------------------------------------------------------------------------


def root_or_square(x: Any, w: Any) -> Any:
    return cond(x.sum() > 0, lambda x: (x * x).sum().sqrt() * w, lambda x: (x * w).sin().sum(), x)


@pytest.mark.parametrize("transform", ["value", "grad", "jvp", "hessian", "reverse over reverse", "forward over forward"])
def test_cond_compiled_takes_the_branch_of_the_call(transform: str, way: str) -> None:
    f = ndgrad.compile(TRANSFORMS[transform](root_or_square), fullgraph=True)
    for x in ([1.0, 2.0, 0.5], [-1.0, -2.0, 0.5]):
        args = tensor(x), tensor(0.3)
        close(f(*args), TRANSFORMS[transform](root_or_square)(*args))
    assert f.traces == 1


def test_branches_of_samples_compiled(way: str) -> None:
    def f(x: Any) -> Any:
        return cond(x > 0, lambda: x.sqrt() / x, lambda: x * 3)

    for x in ([4.0, 0.0, 0.25, -3.0], [1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 0.0, -4.0]):
        for g in (vmap(f), vmap(grad(f)), grad(lambda x: vmap(f)(x).sum())):
            same(g, tensor(x))


def newton(a: Any) -> Any:
    start = a * 0 + 1, ndgrad.tensor(0)
    return while_loop(lambda c: (c[0] ** 2 - a).abs() > 1e-11 * a, lambda c: (0.5 * (c[0] + a / c[0]), c[1] + 1), start)


def test_while_loop_compiled_runs_as_long_as_the_call_needs(way: str) -> None:
    f = ndgrad.compile(newton, fullgraph=True)
    for a in (1.0, 4.0, 1e4):
        close(f(tensor(a)), newton(tensor(a)))
    assert f.traces == 1
    root = lambda a: newton(a)[0]
    for g in (grad(root), jacfwd(root), jacfwd(jacfwd(root)), lambda a: jvp(root, (a,), (a,))):
        same(g, tensor(7.0), rtol=1e-9)
    for g in (vmap(root), vmap(grad(root)), grad(lambda a: vmap(root)(a).sum()), vmap(jacfwd(root))):
        same(g, tensor([1.0, 4.0, 1e4]), rtol=1e-9)


def test_a_native_while_loop_runs_any_number_of_rounds() -> None:
    """The native loop returns now and then, so that Ctrl-C works. Two buffers alternate, whichever was written last."""
    if not available():
        pytest.skip("llvmlite is not installed")
    f = ndgrad.compile(lambda n, x: while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + x), (n * 0, x * 0)), fullgraph=True)
    x = tensor([1.0, -2.0])
    for n in (0, 1, 2, Pieces.MOST - 1, Pieces.MOST, Pieces.MOST + 1, 3 * Pieces.MOST + 5):
        count, total = f(ndgrad.tensor(n), x)
        assert count.item() == n
        assert total.tolist() == [n, -2.0 * n]
    assert f.traces == 1
    assert "while: native" in str(ndgrad.compiler.explain(f, ndgrad.tensor(3), x))


def test_gradients_of_what_a_compiled_while_loop_captures(way: str) -> None:
    def f(x: Any, w: Any, shift: Any) -> Any:
        return while_loop(lambda c: (c * c).sum() < 50, lambda c: c * w + shift, x).sum()

    args = [tensor(a, requires_grad=True) for a in (WEIGHTS, [1.5, -1.2, 1.1], 0.1)]
    close(ndgrad.autograd.grad(ndgrad.compile(f, fullgraph=True)(*args), args), ndgrad.autograd.grad(f(*args), args))
    batch = tensor(RNG.standard_normal((4, 3)))
    same(lambda b: grad(lambda w: vmap(lambda x: f(x, w, args[2].detach()))(b).sum())(args[1].detach()), batch)


def halved(x: Any, w: Any, shift: Any) -> Any:
    """A loop with nonlinear rounds, a carry without derivative, and a carry that only the condition reads."""

    def body(c: Any) -> Any:
        y, total, count = c
        return (y * w).sin() * 0.3 + y * 0.6, total + (y * shift).sum(), count + 1

    y, total, count = while_loop(lambda c: (c[0] * c[0]).sum() > 0.5, body, (x, shift * 0, ndgrad.tensor(0)))
    return (y * w).sum() + total * total + count * shift


SECOND = {
    "hessian": lambda f: hessian(f, argnums=(0, 1, 2)),
    "reverse over reverse": lambda f: jacrev(jacrev(f, argnums=(0, 1, 2)), argnums=(0, 1, 2)),
    "reverse over forward": lambda f: jacrev(jacfwd(f, argnums=(0, 2)), argnums=1),
    "third, reverse alone": lambda f: grad(lambda *a: grad(lambda *a: grad(f)(*a).sum())(*a).sum()),
    "third, mixed": lambda f: jacfwd(lambda *a: jacrev(lambda *a: grad(f, 1)(*a).sum())(*a).sum(), 2),
    "vmap of hessian": lambda f: lambda x, w, s: vmap(hessian(f), in_dims=(0, None, None))(ndgrad.stack([x, x * 9, x * 0]), w, s),
    "hessian of vmap": lambda f: lambda x, w, s: hessian(
        lambda w: vmap(f, in_dims=(0, None, None))(ndgrad.stack([x, x * 9, x * 0]), w, s).sum()
    )(w),
    "vmap of reverse over reverse": lambda f: lambda x, w, s: vmap(jacrev(grad(f, 1), 1), in_dims=(None, 0, None))(
        x, ndgrad.stack([w, w * 0.5]), s
    ),
}


@pytest.mark.parametrize("transform", SECOND)
def test_higher_derivatives_of_a_compiled_while_loop(transform: str, way: str) -> None:
    args = tensor([1.0, 0.8, -0.9]), tensor([0.4, -0.3, -0.6]), tensor(0.3)
    same(SECOND[transform](halved), *args, rtol=1e-9)


def test_the_gradient_of_a_compiled_while_loop_is_differentiated_again(way: str) -> None:
    args = [tensor(a, requires_grad=True) for a in ([1.0, 0.8, -0.9], [0.4, -0.3, -0.6], 0.3)]
    found = []
    for f in (ndgrad.compile(halved, fullgraph=True), halved):
        first = ndgrad.autograd.grad(f(*args), args, create_graph=True)
        second = ndgrad.autograd.grad(sum(g.sum() for g in first), args, create_graph=True)
        found.append([first, second, ndgrad.autograd.grad(sum(g.sum() for g in second), args)])
    close(*found, rtol=1e-9)


def test_second_derivatives_of_a_loop_without_rounds(way: str) -> None:
    args = tensor([0.1, 0.2, 0.1]), tensor([0.4, -0.3, -0.6]), tensor(0.3)
    same(SECOND["hessian"](halved), *args)
    same(SECOND["reverse over reverse"](halved), *args)


def test_sweeps_keep_only_rows_that_are_read() -> None:
    """The gradient of a linear loop reads no rows, and that of a product reads the rows of one factor."""

    def linear(x: Any) -> Any:
        return while_loop(lambda c: c.sum() < 50, lambda c: c * 1.5 + 1, x).sum()

    (found,) = [i for i in specialise(linear, tensor(WEIGHTS, requires_grad=True)).plan.program.instructions if i.op.name == "sweeps"]
    assert found.settings["reads"] == ((),)


def test_a_picture_of_a_program_with_a_while_loop() -> None:
    graph = ndgrad.compiler.graph(halved, tensor([1.0, 0.8, -0.9]), tensor([0.4, -0.3, -0.6]), tensor(0.3))
    assert "while" in graph._repr_html_()


def test_a_gradient_of_some_results_of_a_compiled_while_loop(way: str) -> None:
    def f(a: Any) -> Any:
        return newton(a)[0], a * 2

    a = tensor(7.0, requires_grad=True)
    for number in (0, 1):
        found, expected = (ndgrad.autograd.grad(g(a)[number], a) for g in (ndgrad.compile(f, fullgraph=True), f))
        close(found, expected, rtol=1e-9)


def test_pullbacks_of_a_compiled_function_inside_transforms(way: str) -> None:
    """Cotangents are batched, or have tangents, after the call. Its gradients are then computed by ops."""

    def f(x: Any, rows: Any) -> Any:
        c = scan(lambda c, row: (cond(row.sum() > 0, lambda c: c * row, lambda c: c.sin(), c), None), x, rows)[0]
        return while_loop(lambda c: (c * c).sum() < 50, lambda c: c * 1.5 + x, c)

    x, rows = tensor(WEIGHTS), tensor(ROWS)
    some = tensor(np.eye(3))
    found, expected = (func.vjp(g, x, rows)[1] for g in (ndgrad.compile(f, fullgraph=True), f))
    close(vmap(found)(some), vmap(expected)(some))
    close(jvp(found, (some[0],), (some[1],)), jvp(expected, (some[0],), (some[1],)))
    leaf = tensor(WEIGHTS, requires_grad=True)
    outs = [g(leaf, rows) for g in (ndgrad.compile(f, fullgraph=True), f)]
    found, expected = (ndgrad.autograd.grad(o, leaf, some, is_grads_batched=True) for o in outs)
    close(found, expected)


def test_a_bound_that_is_a_tensor_compiled(way: str) -> None:
    f = ndgrad.compile(lambda x, n: fori_loop(0, n, lambda i, c: c * x + i, x), fullgraph=True)
    for n in (0, 1, 5):
        close(f(tensor(WEIGHTS), ndgrad.tensor(n)), fori_loop(0, n, lambda i, c: c * tensor(WEIGHTS) + i, tensor(WEIGHTS)))
    assert f.traces == 1


def test_loops_and_branches_in_one_another_compiled(way: str) -> None:
    def f(x: Any, rows: Any) -> Any:
        def one(c: Any, row: Any) -> Any:
            c = cond(row.sum() > 0, lambda c: scan(lambda d, r: (d * row.sin() + r, None), c, rows)[0], lambda c: c - row * x, c)
            return c, while_loop(lambda s: s < 30, lambda s: s * 2 + 1, (c * c).sum())

        return scan(one, x, rows)[1].sum()

    x, rows = tensor(WEIGHTS * 0.1), tensor(ROWS)
    same(f, x, rows)
    same(grad(f, argnums=(0, 1)), x, rows, rtol=1e-9)
    same(vmap(grad(f), in_dims=(None, 0)), x, ndgrad.stack([rows, -rows]), rtol=1e-9)


def test_tensors_from_outside_that_no_op_of_a_body_touches(way: str) -> None:
    """A body that returns a captured tensor, starts an inner loop with it, or branches on it."""

    def f(w: Any, rows: Any) -> Any:
        first, seen = scan(lambda c, x: (w, c * x), w * 2, rows)
        inner = func.map(lambda x: scan(lambda c, y: (c * y, None), w, rows)[0].sum() * x.sum(), rows)
        either = cond(w.sum() > 0, lambda: w, lambda: first)
        return (first * seen).sum() + inner.sum() + either.sum()

    w, rows = tensor(WEIGHTS, requires_grad=True), tensor(ROWS)
    same(grad(f), w.detach(), rows)
    found, expected = (ndgrad.autograd.grad(g(w, rows), w) for g in (ndgrad.compile(f, fullgraph=True), f))
    close(found, expected)
    flags = ndgrad.tensor([True, False])
    same(lambda w: vmap(lambda p: func.map(lambda x: cond(p, lambda: x * w, lambda: x), rows).sum())(flags), w.detach())


# ----- code that a program cannot hold -------------------------------------------------------------------------------------


def test_what_a_body_may_not_do_makes_the_function_run_eagerly() -> None:
    x, rows = tensor(WEIGHTS), tensor(ROWS)
    outside = tensor(np.zeros(3))

    def writes(x: Any, rows: Any) -> Any:
        return scan(lambda c, r: (outside.add_(r), None), x, rows)[0]

    def writes_its_carry(x: Any, rows: Any) -> Any:
        return scan(lambda c, r: (c.add_(r), None), x.clone(), rows)[0]

    def reads(x: Any, rows: Any) -> Any:
        return scan(lambda c, r: (c + r if r.sum().item() > 0 else c, None), x, rows)[0]

    for f, reason in ((writes, "from outside"), (writes_its_carry, "writes what it is given"), (reads, "values")):
        explanation = ndgrad.compiler.explain(f, x, rows)
        assert not explanation.compiled
        assert reason in str(explanation.reason)
        outside.zero_()
        found = ndgrad.compile(f)(x, rows).clone()
        outside.zero_()
        close(found, f(x, rows).clone())


def test_an_error_in_a_body_is_the_eager_one() -> None:
    f = ndgrad.compile(lambda x: scan(lambda c, _: (c[:1], None), x, length=2))
    for _ in range(2):
        with pytest.raises(TypeError, match=r"the carry before the round has shape \(3,\)"):
            f(tensor(WEIGHTS))


def test_programs_with_branches_and_loops_are_read_back_from_their_text() -> None:
    def f(x: Any) -> Any:
        y = while_loop(lambda c: c.sum() < 5, lambda c: c * c + 1, x)
        return scan(lambda c, _: (cond(c.sum() > 1, lambda c: c * 2, lambda c: -c, c), None), y, length=3)[0].sum()

    program = specialise(f, tensor(WEIGHTS, requires_grad=True)).plan.program
    assert {i.op.name for i in program.instructions} >= {"loop", "while", "sweeps"}
    assert str(parse_program(str(program))) == str(program)


def test_a_rule_that_runs_out_of_items_is_a_break_as_any_other_failure() -> None:
    class Exhausted(Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 1

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return next(iter(()))

    compiled = ndgrad.compile(grad(lambda x: cond(x.sum() > 0, Exhausted.apply, lambda s: s, x).sum()), fullgraph=True)
    with pytest.raises(RuntimeError, match="StopIteration in the derivative of a loop or branch"):
        compiled(tensor(WEIGHTS))
