"""Random compositions of transforms, checkpoints, custom functions, hooks, in-place writes, functionalize and threads.

A program is a function of two vectors, with nested functions that capture surrounding values, to depth 4. It is rendered as the
source of a Python function over a vocabulary `m`, and runs with three of them: `Ours` (for `Tensor` or `Array`), `Exact` below, and
torch's (in tests/torch_parity). `Exact` computes with nested dual numbers in plain Python: it has no graph, saves nothing, batches
nothing and knows no thread, so it shares no mistake with the tested code. A failing program is minimised and printed.

    python -m tests.transforms.compositions --count 10000 --first 0        programs 0 to 9999, for both classes
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np

import ndgrad
import ndgrad.numpy as dnp

# ----- exact derivatives: nested dual numbers -----------------------------------------------------------------------------------------


class Dual:
    """A number with its derivative along one direction, identified by a tag; both may be dual numbers of older tags."""

    __slots__ = ("primal", "tag", "tangent")

    def __init__(self, primal: Any, tangent: Any, tag: int) -> None:
        self.primal, self.tangent, self.tag = primal, tangent, tag


def tag_of(a: Any) -> int:
    return a.tag if isinstance(a, Dual) else 0


def parts(a: Any, tag: int) -> tuple[Any, Any]:
    return (a.primal, a.tangent) if tag_of(a) == tag else (a, 0.0)


def add(a: Any, b: Any) -> Any:
    tag = max(tag_of(a), tag_of(b))
    if not tag:
        return a + b
    (a, s), (b, t) = parts(a, tag), parts(b, tag)
    return Dual(add(a, b), add(s, t), tag)


def mul(a: Any, b: Any) -> Any:
    tag = max(tag_of(a), tag_of(b))
    if not tag:
        return a * b
    (a, s), (b, t) = parts(a, tag), parts(b, tag)
    return Dual(mul(a, b), add(mul(a, t), mul(s, b)), tag)


def lift_to_duals(f: Callable[[float], float], slope: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return a function of dual numbers; its slope is given as a function of the argument and the result."""

    def apply(a: Any) -> Any:
        if not isinstance(a, Dual):
            return f(a)
        out = apply(a.primal)
        return Dual(out, mul(slope(a.primal, out), a.tangent), a.tag)

    return apply


sin = lift_to_duals(math.sin, lambda a, out: cos(a))
cos = lift_to_duals(math.cos, lambda a, out: mul(-1.0, sin(a)))
exp = lift_to_duals(math.exp, lambda a, out: out)
tanh = lift_to_duals(math.tanh, lambda a, out: add(1.0, mul(-1.0, mul(out, out))))
inverse = lift_to_duals(lambda a: 1.0 / a, lambda a, out: mul(-1.0, mul(out, out)))
sqrt = lift_to_duals(math.sqrt, lambda a, out: mul(0.5, inverse(out)))


def bare(a: Any) -> float:
    while isinstance(a, Dual):
        a = a.primal
    return float(a)


class Vector:
    """Elements in some memory; views show a part of it."""

    def __init__(self, memory: list[Any], places: range | None = None) -> None:
        self.memory, self.places = memory, range(len(memory)) if places is None else places

    def list(self) -> list[Any]:
        return [self.memory[i] for i in self.places]

    def _combine(self, f: Callable[[Any, Any], Any], other: Any) -> Vector:
        a, b = self.list(), other.list() if isinstance(other, Vector) else [other]
        n = max(len(a), len(b))
        return Vector([f(a[i % len(a)], b[i % len(b)]) for i in range(n)])

    def __add__(self, other: Any) -> Vector:
        return self._combine(add, other)

    def __mul__(self, other: Any) -> Vector:
        return self._combine(mul, other)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Vector:
        return self + other * -1.0

    def __truediv__(self, other: Vector) -> Vector:
        return self * Vector([inverse(a) for a in other.list()])

    def __getitem__(self, index: slice) -> Vector:
        return Vector(self.memory, self.places[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        places = self.places if index is ... else self.places[index]
        new = value.list() if isinstance(value, Vector) else [value]
        for k, i in enumerate(places):
            self.memory[i] = new[k % len(new)]

    def _become(self, new: Vector) -> Self:
        self[...] = new
        return self

    def __iadd__(self, other: Any) -> Self:
        return self._become(self + other)

    def __imul__(self, other: Any) -> Self:
        return self._become(self * other)

    def sum(self) -> Vector:
        total: Any = 0.0
        for a in self.list():
            total = add(total, a)
        return Vector([total])


class Exact:
    """The vocabulary over exact derivatives. It skips actions that change no value and no derivative."""

    def __init__(self) -> None:
        self.tags = 0

    def vector(self, values: Any) -> Vector:
        return Vector([float(v) for v in values])

    # ----- ops -----

    sin, exp, tanh, sqrt = (staticmethod(lambda a, f=f: Vector([f(e) for e in a.list()])) for f in (sin, exp, tanh, sqrt))
    copy = staticmethod(lambda a: Vector(a.list()))
    zeros_like = staticmethod(lambda a: Vector([0.0] * len(a.list())))
    flip = staticmethod(lambda a: Vector(a.list()[::-1]))
    detach = staticmethod(lambda a: Vector([bare(e) for e in a.list()]))

    def where(self, a: Vector, b: Vector, c: Vector) -> Vector:
        return Vector([x if bare(e) > 0.1 else y for e, x, y in zip(a.list(), b.list(), c.list(), strict=True)])

    def cumsum(self, a: Vector) -> Vector:
        x, y = a.list()
        return Vector([x, add(x, y)])

    def solve(self, a: Vector, b: Vector) -> Vector:
        """(a aᵀ + 2)⁻¹ b = (b - a (a·b) / (2 + a·a)) / 2."""
        inside = (a * b).sum() / (a * a).sum().__add__(2.0)
        return (b - a * inside) * 0.5

    def square(self, a: Vector) -> Vector:
        return a * a

    cube = staticmethod(lambda a: a * a * a)
    product = staticmethod(lambda a, b: a * b)
    both = staticmethod(lambda a, b: a * b + Exact.sin(a))
    grown = staticmethod(lambda a: Exact.exp(0.3 * a))
    old_square = square

    # ----- transforms -----

    def push(self, f: Callable[..., Vector], args: tuple[Vector, ...], tangents: tuple[Vector, ...]) -> tuple[Vector, Vector]:
        self.tags += 1
        tag = self.tags
        duals = [Vector([Dual(p, t, tag) for p, t in zip(a.list(), b.list(), strict=True)]) for a, b in zip(args, tangents, strict=True)]
        out = [parts(e, tag) for e in f(*duals).list()]
        return Vector([p for p, _ in out]), Vector([t for _, t in out])

    def columns(self, f: Callable[[Vector], Vector], a: Vector) -> list[Vector]:
        n = len(a.list())
        return [self.push(f, (a,), (Vector([float(i == j) for i in range(n)]),))[1] for j in range(n)]

    def grad(self, f: Callable[[Vector], Vector], a: Vector) -> Vector:
        return Vector([c.sum().list()[0] for c in self.columns(f, a)])

    def pull(self, f: Callable[[Vector], Vector], a: Vector, b: Vector) -> Vector:
        return Vector([(c * b).sum().list()[0] for c in self.columns(f, a)])

    autograd = grad
    vjp = lambda self, f, a, b: f(Exact.copy(a)) + self.pull(f, a, b)
    late_vjp = lambda self, f, a, b: self.vjp(lambda z: Exact.tanh(f(z)), a, b)
    jvp = lambda self, f, a, b: Vector.__add__(*self.push(f, (a,), (b,)))
    dual = jvp
    jacrev = lambda self, f, a, b: self.push(f, (a,), (b,))[1]
    jacfwd = linearize = batched_pushes = jacrev
    pulls = pull
    hessian = lambda self, f, a, b: self.push(lambda z: self.grad(f, z), (a,), (b,))[1]
    hvp = hessian
    vmap = lambda self, f, a, b: f(a) + f(b)
    functionalize = checkpoint = reentrant = thread = hook = saved_hooks = lambda self, f, a: f(a)


# ----- ours -----------------------------------------------------------------------------------------------------------------------------


def custom_functions(lib: Any) -> dict[str, Any]:
    """Return user-defined functions for torch and for ndgrad, by the values they save and by their batching."""

    class OldSquare(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            raise NotImplementedError("this one has no jvp")

    class OfInputs(lib.autograd.Function):
        """Saves its inputs."""

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

    class Square(OfInputs):
        """Has a vmap method of its own."""

        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * t

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return Square.apply(x), in_dims[0]

    class Cube(OfInputs):
        """Its derivatives call another custom function."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * Square.apply(ctx.saved_tensors[0]) * g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return 3 * Square.apply(ctx.saved_tensors[0]) * t

    class Product(OfInputs):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return (g * y if ctx.needs_input_grad[0] else None), (g * x if ctx.needs_input_grad[1] else None)

        @staticmethod
        def jvp(ctx: Any, s: Any, t: Any) -> Any:
            x, y = ctx.saved_tensors
            return s * y + x * t

    class Both(OfInputs):
        """Two outputs."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y, lib.sin(x)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y + h * lib.cos(x), g * x

        @staticmethod
        def jvp(ctx: Any, s: Any, t: Any) -> Any:
            x, y = ctx.saved_tensors
            return s * y + x * t, s * lib.cos(x)

    class Grown(lib.autograd.Function):
        """exp(0.3 x), which saves its output."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return lib.exp(0.3 * x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(output)
            ctx.save_for_forward(output)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 0.3 * ctx.saved_tensors[0] * g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return 0.3 * ctx.saved_tensors[0] * t

    return {
        "old_square": OldSquare.apply,
        "square": Square.apply,
        "cube": Cube.apply,
        "product": Product.apply,
        "both": lambda a, b: (lambda pair: pair[0] + pair[1])(Both.apply(a, b)),
        "grown": Grown.apply,
    }


class Vocabulary:
    """The common part of torch, `Tensor` and `Array`: transforms of `func` over tensors of `lib`."""

    def __init__(self, lib: Any, func: Any, checkpoint: Any) -> None:
        self.lib, self.func, self._checkpoint = lib, func, checkpoint
        self.__dict__.update(custom_functions(lib))

    def vector(self, values: Any) -> Any:
        return self.lib.tensor(np.asarray(values, dtype=float))

    def sin(self, a: Any) -> Any:
        return self.lib.sin(a)

    def exp(self, a: Any) -> Any:
        return self.lib.exp(a)

    def tanh(self, a: Any) -> Any:
        return self.lib.tanh(a)

    def sqrt(self, a: Any) -> Any:
        return self.lib.sqrt(a)

    def copy(self, a: Any) -> Any:
        return a.clone()

    def zeros_like(self, a: Any) -> Any:
        return self.lib.zeros_like(a)

    def flip(self, a: Any) -> Any:
        return a.flip(0)

    def detach(self, a: Any) -> Any:
        return a.detach()

    def where(self, a: Any, b: Any, c: Any) -> Any:
        return self.lib.where(a > 0.1, b, c)

    def cumsum(self, a: Any) -> Any:
        return self.lib.cumsum(a, 0)

    def solve(self, a: Any, b: Any) -> Any:
        return self.lib.linalg.solve(self.lib.outer(a, a) + 2 * self.lib.eye(2, dtype=self.lib.float64), b)

    # ----- transforms -----

    def grad(self, f: Any, a: Any) -> Any:
        return self.func.grad(lambda z: f(z).sum())(a)

    def autograd(self, f: Any, a: Any) -> Any:
        """Differentiate by a graph if there is one around, else by `grad`."""
        z = a * 1.0
        if not z.requires_grad:
            return self.grad(f, a)
        return self.lib.autograd.grad(f(z).sum() + 0.0 * z.sum(), z, create_graph=True)[0]

    def vjp(self, f: Any, a: Any, b: Any) -> Any:
        out, pull = self.func.vjp(f, a)
        return out + pull(b)[0]

    def late_vjp(self, f: Any, a: Any, b: Any) -> Any:
        """The result, which its node has saved, is written before the cotangent is pulled back."""
        out, pull = self.func.vjp(lambda z: self.tanh(f(z)), a)
        value = out * 1.0
        out *= 3.0
        return value + pull(b)[0]

    def pulls(self, f: Any, a: Any, b: Any) -> Any:
        _, pull = self.func.vjp(f, a)
        rows = self.func.vmap(lambda e: pull(e)[0])(self.lib.eye(2, dtype=self.lib.float64))
        return b @ rows

    def jvp(self, f: Any, a: Any, b: Any) -> Any:
        out, tangent = self.func.jvp(f, (a,), (b,))
        return out + tangent

    def linearize(self, f: Any, a: Any, b: Any) -> Any:
        return self.func.linearize(f, a)[1](b)

    def batched_pushes(self, f: Any, a: Any, b: Any) -> Any:
        columns = self.func.vmap(lambda e: self.func.jvp(f, (a,), (e,))[1], out_dims=1)(self.lib.eye(2, dtype=self.lib.float64))
        return columns @ b

    def jacrev(self, f: Any, a: Any, b: Any) -> Any:
        return self.func.jacrev(f)(a) @ b

    def jacfwd(self, f: Any, a: Any, b: Any) -> Any:
        return self.func.jacfwd(f)(a) @ b

    def hessian(self, f: Any, a: Any, b: Any) -> Any:
        return self.func.hessian(lambda z: f(z).sum())(a) @ b

    def hvp(self, f: Any, a: Any, b: Any) -> Any:
        return self.func.jvp(lambda z: self.grad(f, z), (a,), (b,))[1]

    def dual(self, f: Any, a: Any, b: Any) -> Any:
        with self.lib.autograd.forward_ad.dual_level():
            out, tangent = self.lib.autograd.forward_ad.unpack_dual(f(self.lib.autograd.forward_ad.make_dual(a, b)))
            return out if tangent is None else out + tangent

    def vmap(self, f: Any, a: Any, b: Any) -> Any:
        return self.func.vmap(f)(self.lib.stack([a, b])).sum(0)

    # ----- writes that change no value ---

    def functionalize(self, f: Any, a: Any) -> Any:
        return self.func.functionalize(f)(a)

    def checkpoint(self, f: Any, a: Any) -> Any:
        return self._checkpoint(f, a, use_reentrant=False)

    def reentrant(self, f: Any, a: Any) -> Any:
        return self._checkpoint(f, a, use_reentrant=True)

    def thread(self, f: Any, a: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(f, a).result()

    def hook(self, f: Any, a: Any) -> Any:
        out = f(a) * 1.0
        if out.requires_grad:
            out.register_hook(lambda g: g * 1.0)
        return out

    def saved_hooks(self, f: Any, a: Any) -> Any:
        with self.lib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return f(a)


class Ours(Vocabulary):
    def __init__(self, tensor_type: str) -> None:
        from ndgrad._src.checkpoint import checkpoint

        super().__init__(ndgrad, ndgrad.func, checkpoint)
        self.tensor_type = tensor_type
        if tensor_type == "numpy":
            self.__dict__.update(
                vector=lambda values: dnp.array(np.asarray(values, dtype=float)), sin=np.sin, exp=np.exp, tanh=np.tanh, sqrt=np.sqrt,
                copy=np.copy, zeros_like=np.zeros_like, flip=np.flip, cumsum=np.cumsum, where=lambda a, b, c: np.where(a > 0.1, b, c),
                solve=lambda a, b: np.linalg.solve(np.outer(a, a) + 2 * np.eye(2), b),
            )  # fmt: skip

    def hvp(self, f: Any, a: Any, b: Any) -> Any:
        return ndgrad.func.hvp(lambda z: f(z).sum(), (a,), (b,))


# ----- programs -------------------------------------------------------------------------------------------------------------------------

#: functions of up to three vectors
OPS = [
    "{0} * {1}", "{0} - 0.5 * {1}", "m.sin({0})", "m.exp(0.3 * {0})", "m.tanh({0})", "{0} / ({1} * {1} + 1.5)", "m.sqrt({0} * {0} + 0.7)",
    "m.flip({0})", "{0}.sum() * {1}", "m.where({0}, {1}, {2})", "m.cumsum({0})", "m.detach({0}) * {1}", "m.solve({0}, {1})",
    "m.square({0})", "m.cube({0})", "m.product({0}, {1})", "m.both({0}, {1})", "m.grown({0})",
]  # fmt: skip
#: Functions that only a plain graph supports.
OPS_OUTSIDE = ["m.old_square({0})"]
BUFFERS = ["{0} * 1.0", "m.copy({0})", "m.zeros_like({0})", "m.exp(0.3 * {0})", "m.tanh({0})", "m.grown({0})", "m.sqrt({0} * {0} + 0.7)"]
#: Actions on a buffer `b`, including a view `w` of a part of it; a use makes a new vector `{v}` from it.
WRITES = [
    "{b} *= {0}", "{b} += {0}", "{b} *= 0.7", "{b}[0:1] = {0}[1:2]", "{b}[1:2] *= {0}[0:1]", "{b}[...] = 0.5 * {0}", "{w} += {0}[0:1]",
    "{w} *= {0}[1:2]",
]  # fmt: skip
USES = ["m.sin({b})", "{b} * {0}", "m.exp(0.3 * {b})", "m.cube({b})", "m.product({0}, {b})", "{w} * {0}", "m.tanh({b})"]
#: Transforms of a function, by the number of vectors that they take in addition.
TRANSFORMS = {
    "grad": 1, "autograd": 1, "vjp": 2, "late_vjp": 2, "pulls": 2, "jvp": 2, "linearize": 2, "batched_pushes": 2, "jacrev": 2, "jacfwd": 2,
    "hessian": 2, "hvp": 2, "dual": 2, "vmap": 2, "functionalize": 1, "checkpoint": 1, "thread": 1, "hook": 1, "saved_hooks": 1,
}  # fmt: skip
#: Transforms in which the graph is still the ordinary one.
PLAIN = ("checkpoint", "reentrant", "thread", "hook", "saved_hooks", "autograd")


class Step:
    """One statement: lines that compute the vectors `makes` from `takes`; with a function, which is defined before."""

    def __init__(self, makes: list[str], lines: list[str], takes: list[str], inner: Function | None = None) -> None:
        self.makes, self.lines, self.takes, self.inner = makes, lines, takes, inner


class Function:
    def __init__(self, name: str, arguments: list[str], steps: list[Step], result: list[str]) -> None:
        self.name, self.arguments, self.steps, self.result = name, arguments, steps, result

    def source(self, indent: str = "") -> list[str]:
        first = "m, " if not indent else ""
        lines = [f"{indent}def {self.name}({first}{', '.join(self.arguments)}):"]
        for step in self.steps:
            if step.inner is not None:
                lines += step.inner.source(indent + "    ")
            lines += [f"{indent}    {line}" for line in step.lines]
        return [*lines, f"{indent}    return {' + '.join(self.result)}"]


def draw_program(seed: int) -> Function:
    draw = random.Random(seed)
    names = (f"v{i}" for i in range(10_000))
    return _function(draw, names, ["x", "y"], [], draw.choice([1, 2, 2, 3, 3, 4]), plain=True, reentrant=True, name="program")


def _function(
    draw: random.Random,
    names: Iterator[str],
    arguments: list[str],
    around: list[str],
    depth: int,
    *,
    plain: bool,
    reentrant: bool,
    name: str,
) -> Function:
    """`plain`: the graph is the ordinary one; `reentrant`: in addition, autograd.grad, which such a checkpoint refuses, is absent."""
    pool, steps = [*around, *arguments, *arguments], []
    kinds = ["op"] * draw.randrange(3) + ["buffer"] * draw.randrange(2) + (["transform"] if depth else [])
    draw.shuffle(kinds)
    kinds += ["op"] * draw.randrange(2)
    for kind in kinds:
        takes = [draw.choice(pool) for _ in range(3)]
        made = next(names)
        if kind == "op":
            expression = draw.choice(OPS + OPS_OUTSIDE * plain).format(*takes)
            step = Step([made], [f"{made} = {expression}"], takes)
        elif kind == "buffer":
            step = _buffer(draw, names, made, takes, pool)
        else:
            transform = draw.choice(sorted(TRANSFORMS) + ["reentrant"] * reentrant)
            still = plain and transform in PLAIN
            argument, inner_name = next(names), "f" + next(names)[1:]
            deeper = reentrant and still and transform != "autograd"
            inner = _function(draw, names, [argument], pool, depth - 1, plain=still, reentrant=deeper, name=inner_name)
            taken = takes[: TRANSFORMS.get(transform, 1)]
            step = Step([made], [f"{made} = m.{transform}({inner_name}, {', '.join(taken)})"], taken, inner)
        steps.append(step)
        pool += step.makes * 2
    return Function(name, arguments, steps, list(dict.fromkeys([pool[-1], draw.choice(pool), draw.choice(arguments)])))


def _buffer(draw: random.Random, names: Iterator[str], b: str, takes: list[str], pool: list[str]) -> Step:
    w, lines, makes = next(names), [f"{b} = {draw.choice(BUFFERS).format(*takes)}"], [b]
    lines.append(f"{w} = {b}[{draw.choice(['0:1', '1:2'])}]")
    for _ in range(draw.randrange(1, 5)):
        taken = draw.choice(pool)
        takes = [*takes, taken]
        if draw.random() < 0.6:
            lines.append(draw.choice(WRITES).format(taken, b=b, w=w))
        else:
            v = next(names)
            lines.append(f"{v} = {draw.choice(USES).format(taken, b=b, w=w)}")
            makes.append(v)
    return Step(makes, lines, takes)


# ----- running --------------------------------------------------------------------------------------------------------------------------

X, Y, W = np.array([0.6, -0.4]), np.array([0.3, 0.9]), np.array([0.8, -0.5])


def compiled(program: Function) -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(compile("\n".join(program.source()), "<program>", "exec"), space)
    found: Callable[..., Any] = space["program"]
    return found


def expected(program: Function) -> dict[str, np.ndarray]:
    """Return the value of a program, its gradient along W, and the second derivative of that along W."""
    m, f = Exact(), compiled(program)
    x, y, w = m.vector(X), m.vector(Y), m.vector(W)
    at_y = lambda z: f(m, z, y)
    found = {
        "value": f(m, x, y),
        "slope": m.pull(at_y, x, w),
        "other slope": m.pull(lambda z: f(m, x, z), y, w),
        "second": m.grad(lambda z: m.pull(at_y, z, w) * w, x),
    }
    return {name: np.array([bare(e) for e in v.list()]) for name, v in found.items()}


def compute_by(m: Any, program: Function, order: int) -> Iterator[tuple[str, Any]]:
    """Yield the same values by graphs, up to `order`."""
    f = compiled(program)
    x, y = (m.vector(a).requires_grad_() for a in (X, Y))
    w = m.vector(W)
    out = f(m, x, y)
    yield "value", out
    if order == 1:
        ((out * w).sum() + 0.0 * (x + y).sum()).backward()
        yield "slope", x.grad
        yield "other slope", y.grad
    elif order == 2:
        slopes = m.lib.autograd.grad((out * w).sum() + 0.0 * (x + y).sum(), (x, y), create_graph=True)
        yield "slope", slopes[0]
        yield "other slope", slopes[1]
        (second,) = m.lib.autograd.grad((slopes[0] * w).sum() + 0.0 * x.sum(), x)
        yield "second", second


#: Documented reasons for refusing a program.
REFUSALS = (
    "has been modified by an inplace operation",  # `Tensor` does not keep overwritten values
    "checkpoint is incompatible with .grad()",
    "a reentrant checkpoint cannot be differentiated twice",
    "must override the setup_context",
    "jvp function for custom autograd.Function",
    "this one has no jvp",
    "none of output has requires_grad=True",
    "before backward used it",  # the same for a value that a checkpoint has recomputed
)
#: Refusals that depend on the transforms in a program.
REFUSALS_OF = {
    # A reentrant checkpoint runs a backward inside backward, through all captured values.
    "m.reentrant(": ("Trying to backward through the graph a second time",),
    # The graph of autograd.grad is that of the innermost transform, to which the input may not belong.
    "m.autograd(": (
        "appears to not have been used in the graph", "does not require grad and does not have a grad_fn", "does not require grad (shape",
    ),
    # A hook that passes a tensor on does not protect it from writes.
    "m.saved_hooks(": ("was used after the transform had ended",),
}


class Failure(Exception):
    pass


def check(program: Function, vocabulary: Callable[[], Any], order: int, refusals: tuple[str, ...] = REFUSALS) -> bool:
    """Compare with the oracle; return True if the program ran to the end. A refusal is not a failure."""
    exact = expected(program)
    scale = max(1.0, *(float(np.abs(v).max()) for v in exact.values()))
    if not np.isfinite(scale) or scale > 1e6:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, value in compute_by(vocabulary(), program, order):
                array = np.asarray(value.detach().numpy())
                if array.shape != (2,) or not np.allclose(array, exact[name], rtol=1e-7, atol=1e-9 * scale):
                    raise Failure(f"{name}: expected {exact[name]}, found {array}")
    except Failure:
        raise
    except Exception as error:
        source = "\n".join(program.source())
        if any(words in str(error) for words in (*refusals, *(w for name, more in REFUSALS_OF.items() if name in source for w in more))):
            return False
        raise Failure(f"{type(error).__name__}: {error}") from error
    return True


# ----- making a failure small -------------------------------------------------------------------------------------------------------------


def smaller(program: Function) -> Iterator[Function]:
    """Yield programs with one part less."""
    for k in range(len(program.result)):
        if len(program.result) > 1:
            yield Function(program.name, program.arguments, program.steps, [r for i, r in enumerate(program.result) if i != k])
    for k, step in enumerate(program.steps):
        rest = [*program.steps[:k], *program.steps[k + 1 :]]
        away = dict.fromkeys(step.makes, program.arguments[0])
        yield Function(program.name, program.arguments, [renamed(s, away) for s in rest], [away.get(r, r) for r in program.result])
        for lines in _shorter(step):
            yield _replace_step(program, k, lines)
        if step.inner is None:
            continue
        for inner in smaller(step.inner):
            yield _replace_step(program, k, Step(step.makes, step.lines, step.takes, inner))
        if "m.thread(" not in step.lines[0]:
            continue
        yield _replace_step(program, k, Step(step.makes, [f"{step.makes[0]} = {step.inner.name}({step.takes[0]})"], step.takes, step.inner))


def _shorter(step: Step) -> Iterator[Step]:
    if len(step.lines) > 1:
        for i in range(1, len(step.lines)):
            yield Step(step.makes, [line for j, line in enumerate(step.lines) if j != i], step.takes)


def _replace_step(program: Function, k: int, step: Step) -> Function:
    return Function(program.name, program.arguments, [*program.steps[:k], step, *program.steps[k + 1 :]], program.result)


def renamed(step: Step, names: dict[str, str]) -> Step:
    def words(line: str) -> str:
        return re.sub(r"\bv\d+\b", lambda match: names.get(match[0], match[0]), line)

    inner = step.inner
    if inner is not None:
        inner = Function(inner.name, inner.arguments, [renamed(s, names) for s in inner.steps], [names.get(r, r) for r in inner.result])
    return Step(step.makes, [words(line) for line in step.lines], [names.get(t, t) for t in step.takes], inner)


def minimise(program: Function, fails: Callable[[Function], str | None]) -> tuple[Function, str]:
    """Return the smallest failing program, and its failure."""
    message = fails(program) or ""
    tries = 0
    while tries < 2000:
        for candidate in smaller(program):
            tries += 1
            found = fails(candidate)
            if found is not None:
                program, message = candidate, found
                break
        else:
            break
    return program, message


def failure_of(program: Function, vocabulary: Callable[[], Any], order: int, refusals: tuple[str, ...] = REFUSALS) -> str | None:
    try:
        check(program, vocabulary, order, refusals)
    except Failure as failure:
        return str(failure)
    except Exception:  # no longer a program
        return None
    return None


def assert_right(seed: int, vocabulary: Callable[[], Any], refusals: tuple[str, ...] = REFUSALS) -> bool:
    """Run program number `seed`; return True if it ran to the end. A failure raises with the smallest program that fails alike."""
    program, order = draw_program(seed), random.Random(seed).choice([0, 1, 2])
    try:
        return check(program, vocabulary, order, refusals)
    except Failure:
        small, message = minimise(program, lambda p: failure_of(p, vocabulary, order, refusals))
        raise AssertionError(f"program {seed}, order {order}: {message}\n" + "\n".join(small.source())) from None


def main() -> None:
    parser = argparse.ArgumentParser(description="Run random compositions of transforms against exact derivatives.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tensor_types", default="torch,numpy")
    options = parser.parse_args()
    ran = failed = 0
    for seed in range(options.first, options.first + options.count):
        for tensor_type in options.tensor_types.split(","):
            try:
                ran += assert_right(seed, functools.partial(Ours, tensor_type))
            except AssertionError as error:
                failed += 1
                print(f"----- {tensor_type} tensor_type: {error}", flush=True)
    print(f"{options.count} programs, {ran} runs to the end, {failed} failures")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
