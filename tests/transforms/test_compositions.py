"""Random compositions of transforms, checkpoints, hooks and other wrappers (see tests/transforms/compositions.py)."""

from __future__ import annotations

import pytest

from tests.transforms.compositions import Failure, Function, Ours, Step, Vector, assert_right, check, draw_program, expected, minimise

SHORT, LONG = 16, 250  # programs per block


@pytest.mark.one_in(2)
@pytest.mark.parametrize("tensor_type", ["torch", "numpy"])
@pytest.mark.parametrize("block", range(8))
def test_random_compositions_have_exact_derivatives(tensor_type: str, block: int) -> None:
    ran = [assert_right(seed, lambda: Ours(tensor_type)) for seed in range(block * SHORT, (block + 1) * SHORT)]
    assert sum(ran) > SHORT // 4  # the rest is refused as documented, mostly for writes to saved values of a `Tensor`


@pytest.mark.slow
@pytest.mark.parametrize("tensor_type", ["torch", "numpy"])
@pytest.mark.parametrize("block", range(8))
def test_many_random_compositions_have_exact_derivatives(tensor_type: str, block: int) -> None:
    for seed in range(1000 + block * LONG, 1000 + (block + 1) * LONG):
        assert_right(seed, lambda: Ours(tensor_type))


# ----- faults that such programs have found -----------------------------------------------------------------------------------------------


class Text:
    """A program as text: lines of functions of one vector, inside each other."""

    def __init__(self, *calls: str) -> None:
        self.calls = calls

    def source(self) -> list[str]:
        """Each call `m.transform(f, ...)` takes a function `f` of `u`, whose body follows; the last line is an expression."""
        lines, depth = ["def program(m, x, y):"], 1
        for k in range(len(self.calls) - 1):
            name = f"u{k}" if k else "x"
            lines.append("    " * depth + f"def f(u{k + 1}, {name}={name}):")
            depth += 1
        lines.append("    " * depth + "return " + self.calls[-1])
        for call in reversed(self.calls[:-1]):
            depth -= 1
            lines.append("    " * depth + "return " + call)
        return lines


FOUND = {
    "autograd.grad of a saved result, two transforms deep": Text("m.hessian(f, y, x)", "m.autograd(f, u1)", "m.tanh(u2)"),
    "custom functions of what functionalize closes over": Text("m.linearize(f, x, x)", "m.functionalize(f, y)", "m.cube(m.grown(u1))"),
    "an op on what functionalize closes over": Text("m.pulls(f, y, x)", "m.jvp(f, x, u1)", "m.functionalize(f, u2)", "m.sin(u2)"),
    "a checkpoint in forward mode": Text("m.dual(f, x, x)", "m.checkpoint(f, x)", "u1.sum() * u1"),
    "a checkpoint in a batch of tangents": Text("m.jacfwd(f, y, y)", "m.checkpoint(f, u1)", "y * u2 * u1"),
    "a checkpoint in a thread": Text("m.batched_pushes(f, x, x)", "m.thread(f, x)", "m.checkpoint(f, x)", "u3 * m.exp(0.3 * u1)"),
    "a checkpoint in grad over a graph": Text("m.grad(f, x)", "m.checkpoint(f, u1)", "u2 * u2 * x"),
}


@pytest.mark.parametrize("tensor_type", ["torch", "numpy"])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", FOUND)
def test_compositions_that_once_failed(name: str, order: int, tensor_type: str) -> None:
    assert check(FOUND[name], lambda: Ours(tensor_type), order)


# ----- the oracle and the minimiser -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_exact_derivatives_agree_with_central_differences(seed: int) -> None:
    from tests.transforms import compositions

    program = draw_program(seed)
    if "detach" in "\n".join(program.source()):
        return  # invisible to differences
    exact, x, h = expected(program), compositions.X.copy(), 1e-5
    for i in range(2):
        moved = []
        for sign in (1, -1):
            compositions.X = x + sign * h * (compositions.np.arange(2) == i)
            moved.append(expected(program))
        compositions.X = x
        slope = (moved[0]["value"] - moved[1]["value"]) @ compositions.W / (2 * h)
        second = (moved[0]["slope"] - moved[1]["slope"]) @ compositions.W / (2 * h)
        compositions.np.testing.assert_allclose(slope, exact["slope"][i], rtol=1e-5, atol=1e-6)
        compositions.np.testing.assert_allclose(second, exact["second"][i], rtol=1e-4, atol=1e-5)


def test_a_failure_is_made_small() -> None:
    class Wrong(Ours):
        def cube(self, a: Vector) -> Vector:
            return a * a

    def wrong() -> Wrong:
        made = Wrong("torch")
        del made.__dict__["cube"]
        return made

    inner = Function("f1", ["v0"], [Step(["v1"], ["v1 = m.sin(v0)"], ["v0"]), Step(["v2"], ["v2 = m.cube(v0)"], ["v0"])], ["v1", "v2"])
    program = Function("program", ["x", "y"], [Step(["v3"], ["v3 = m.grad(f1, y)"], ["y"], inner)], ["v3", "x"])

    def fails(candidate: Function) -> str | None:
        try:
            check(candidate, wrong, 0)
        except Failure as failure:
            return str(failure)
        return None

    small, message = minimise(program, fails)
    assert "value: expected" in message
    assert small.source() == [
        "def program(m, x, y):",
        "    def f1(v0):",
        "        v2 = m.cube(v0)",
        "        return v2",
        "    v3 = m.grad(f1, y)",
        "    return v3",
    ]
