"""ONNX writers of elementwise ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.compiler.program.program import Instruction, Value
from ndgrad.onnx.graph import Graph, OnnxExporterError
from ndgrad.onnx.writers import writes

# ----- one node -------------------------------------------------------------------------------------------------------

#: The node of an op, if it is a single one.
_NODES = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh",
    "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "log": "Log",
    "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid", "sign": "Sign", "sgn": "Sign",
    "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "mish": "Mish",
    "logical_not": "Not", "isnan": "IsNaN", "alias": "Identity", "clone": "Identity",
    "clone_ordered": "Identity", "detach": "Identity", "to_device": "Identity",
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "maximum": "Max", "minimum": "Min",
    "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor",
    "eq": "Equal", "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual",
}  # fmt: skip


@writes(*_NODES)
def _single(g: Graph, i: Instruction) -> str:
    kind = _NODES[i.op.name]
    if kind.startswith("Bitwise") and i.result.dtype == bool:
        made: str = g.node(kind.removeprefix("Bitwise"), *(_truth(g, a) for a in i.arguments))
        return made
    made = g.node(kind, *_operands(g, i))
    return made


def _operands(g: Graph, i: Instruction) -> list[str]:
    """Return the arguments in the dtype of the result; those of logical ops in bool, of comparisons in a common dtype,
    and of other conditions in their own.
    """
    dtype = i.results[0].dtype
    if i.op.of_truths:
        return [_truth(g, a) for a in i.arguments]
    if i.op.compares:
        numbers = [a for a in i.arguments if not isinstance(a, Value)]
        dtype = np.result_type(*[v.dtype for v in i.values()], *numbers)
    elif i.op.returns_bool:
        return [g.argument(a, a.dtype) for a in i.arguments]
    return [g.argument(a, dtype) for a in i.arguments]


def _truth(g: Graph, a: Any) -> str:
    return g.argument(a, np.dtype(bool))


# ----- several nodes --------------------------------------------------------------------------------------------------

#: A formula: takes functions that make a node and a constant of the result's dtype, and the arguments.
Formula = Callable[..., str]


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register `f(n, c, *arguments, **settings)` as a writer: `n` makes a node, `c` a constant of the result's
    dtype.
    """

    def register(f: Formula) -> Formula:
        def write(g: Graph, i: Instruction) -> str:
            dtype = i.results[0].dtype

            def constant(value: float) -> str:
                return g.constant(np.asarray(value), dtype)

            return f(g.node, constant, *(g.argument(a, dtype) for a in i.arguments), **i.settings)

        writes(*names)(write)
        return f

    return register


formula("square")(lambda n, c, x: n("Mul", x, x))
formula("rsqrt")(lambda n, c, x: n("Reciprocal", n("Sqrt", x)))
formula("exp2")(lambda n, c, x: n("Pow", c(2), x))
formula("expm1")(lambda n, c, x: n("Sub", n("Exp", x), c(1)))
formula("log1p")(lambda n, c, x: n("Log", n("Add", x, c(1))))
formula("log2")(lambda n, c, x: n("Mul", n("Log", x), c(1 / math.log(2))))
formula("log10")(lambda n, c, x: n("Mul", n("Log", x), c(1 / math.log(10))))
formula("ndtr")(lambda n, c, x: n("Mul", c(0.5), n("Add", c(1), n("Erf", n("Mul", x, c(math.sqrt(0.5)))))))
formula("erfc")(lambda n, c, x: n("Sub", c(1), n("Erf", x)))
formula("deg2rad")(lambda n, c, x: n("Mul", x, c(math.pi / 180)))
formula("rad2deg")(lambda n, c, x: n("Mul", x, c(180 / math.pi)))
formula("trunc")(lambda n, c, x: n("Mul", n("Sign", x), n("Floor", n("Abs", x))))
formula("hardsigmoid")(lambda n, c, x: n("HardSigmoid", x, alpha=1 / 6, beta=0.5))
formula("leaky_relu")(lambda n, c, x, negative_slope: n("LeakyRelu", x, alpha=negative_slope))
formula("hardtanh")(lambda n, c, x, min_val, max_val: n("Clip", x, c(min_val), c(max_val)))
formula("log_sigmoid")(lambda n, c, x: n("Neg", n("Softplus", n("Neg", x))))
formula("clamp_min")(lambda n, c, x, low: n("Max", x, low))
formula("clamp_max")(lambda n, c, x, high: n("Min", x, high))
formula("clamp")(lambda n, c, x, low, high: n("Min", n("Max", x, low), high))
formula("addcmul")(lambda n, c, x, a, b, value: n("Add", x, _scale(n, c, n("Mul", a, b), value)))
formula("addcdiv")(lambda n, c, x, a, b, value: n("Add", x, _scale(n, c, n("Div", a, b), value)))
formula("zeros_like", "zero")(lambda n, c, x: n("Expand", c(0), n("Shape", x)))
formula("fill")(lambda n, c, x, value: n("Expand", c(value), n("Shape", x)))
formula("floor_divide")(lambda n, c, x, y: n("Floor", n("Div", x, y)))
formula("softshrink")(lambda n, c, x, lambd: n("Shrink", x, lambd=lambd, bias=lambd))
formula("hardshrink")(lambda n, c, x, lambd: n("Shrink", x, lambd=lambd, bias=0.0))
formula("sinc")(lambda n, c, x, order: _sinc(n, c, x))
formula("logaddexp")(lambda n, c, x, y: n("Add", n("Max", x, y), n("Softplus", n("Neg", n("Abs", n("Sub", x, y))))))


def _sinc(n: Formula, c: Formula, x: str) -> str:
    turned = n("Mul", x, c(math.pi))
    at_zero = n("Equal", turned, c(0))
    return n("Where", at_zero, c(1), n("Div", n("Sin", turned), n("Where", at_zero, c(1), turned)))


def _scale(n: Formula, c: Formula, x: str, factor: float) -> str:
    return x if factor == 1 else n("Mul", x, c(factor))


@formula("softplus")
def _softplus(n: Formula, c: Formula, x: str, beta: float, threshold: float) -> str:
    if beta == 1:
        return n("Softplus", x)
    return n("Mul", n("Softplus", n("Mul", x, c(beta))), c(1 / beta))


@formula("round")
def _write_round(n: Formula, c: Formula, x: str, decimals: int) -> str:
    if decimals == 0:
        return n("Round", x)
    return n("Div", n("Round", n("Mul", x, c(10.0**decimals))), c(10.0**decimals))


@writes("bitwise_not")
def _bitwise_not(g: Graph, i: Instruction) -> str:
    made: str = g.node("Not" if i.result.dtype == bool else "BitwiseNot", g.names[i.arguments[0]])
    return made


@writes("ne")
def _ne(g: Graph, i: Instruction) -> str:
    made: str = g.node("Not", g.node("Equal", *_operands(g, i)))
    return made


@writes("isinf", "isfinite")
def _infinite(g: Graph, i: Instruction) -> str:
    x = g.names[i.arguments[0]]
    infinite = g.node("IsInf", x)
    made: str = infinite if i.op.name == "isinf" else g.node("Not", g.node("Or", infinite, g.node("IsNaN", x)))
    return made


@writes("remainder", "fmod")
def _remainder(g: Graph, i: Instruction) -> str:
    x, y = _operands(g, i)
    if i.op.name == "fmod":
        made: str = g.node("Mod", x, y, fmod=1)
        return made
    if i.results[0].dtype.kind != "f":
        made = g.node("Mod", x, y)
        return made
    made = g.node("Sub", x, g.node("Mul", y, g.node("Floor", g.node("Div", x, y))))
    return made


@writes("where")
def _where(g: Graph, i: Instruction) -> str:
    condition, x, y = i.arguments
    dtype = i.result.dtype
    made: str = g.node("Where", _truth(g, condition), g.argument(x, dtype), g.argument(y, dtype))
    return made


@writes("masked_fill")
def _masked_fill(g: Graph, i: Instruction) -> str:
    x, mask, y = i.arguments
    dtype = i.result.dtype
    made: str = g.node("Where", _truth(g, mask), g.argument(y, dtype), g.argument(x, dtype))
    return made


@writes("keep")
def _keep(g: Graph, i: Instruction) -> str:
    x, mask = i.arguments
    dtype = i.result.dtype
    made: str = g.node("Where", _truth(g, mask), g.argument(x, dtype), g.constant(np.asarray(0), dtype))
    return made


@writes("cast")
def _cast(g: Graph, i: Instruction) -> str:
    if i.result.dtype.kind == "c":
        raise OnnxExporterError(
            "ndgrad.onnx.export: ONNX has no complex numbers. Export real and imaginary parts. [nd-onnx]"
        )
    return g.cast(g.names[i.arguments[0]], i.result.dtype)


@writes("copy")
def _copy(g: Graph, i: Instruction) -> str:
    """Write an overwrite of a whole array: the other one, in its shape and dtype."""
    x, y = i.arguments
    made: str = g.node("Expand", g.argument(y, i.result.dtype), g.numbers(g.shape(x)))
    return made
