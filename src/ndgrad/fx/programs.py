"""The compiler's programs as graphs, and graphs as programs.

A program (`ndgrad.compiler.graph(f, x).traced`) is a list of ops without writes, and so is a graph of `call_function`
nodes whose targets are ops. The conversion goes op by op: inputs are placeholders, constants are buffers, settings are
keyword arguments. A graph with other nodes is traced by the compiler instead.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import ndgrad
from ndgrad._src.arrays.dtypes import as_numpy_dtype, dtype
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.program.compiler_ops import CompilerOp
from ndgrad._src.compiler.program.inference import infer
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.compiler.program.replay import forward_of
from ndgrad._src.compiler.report.picture import ProgramPicture
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.ops.table import Op
from ndgrad._src.ops.vocabulary import find
from ndgrad.fx.graph import Graph
from ndgrad.fx.graph_module import GraphModule, _find
from ndgrad.fx.node import Argument, Node, map_aggregate, map_arg
from ndgrad.fx.proxy import TraceError
from ndgrad.nn.modules.module import Module
from ndgrad.onnx.tracing import Traced, trace_call

__all__ = ["from_program", "to_program"]


class ValueMetadata(NamedTuple):
    """Shape and dtype of a value, in `node.meta["val"]`."""

    shape: Size
    dtype: dtype


class ProgramOp:
    """An op that exists in programs only, such as a loop, as a function of tensors. It has no derivative."""

    def __init__(self, op: CompilerOp) -> None:
        self.op = op
        self.__name__ = op.name

    def __call__(self, *args: Any, **settings: Any) -> Any:
        if any(isinstance(a, Variable) and a.requires_grad for a in args) and ndgrad.is_grad_enabled():
            raise RuntimeError(
                f"{self.op.name}: this op of a compiled program has no derivative, and an argument requires grad. Run "
                "it under ndgrad.no_grad(), or make the program of the gradient: ndgrad.func.grad. [nd-no-derivative]"
            )
        arrays = [a.detach().numpy() if isinstance(a, Variable) else a for a in args]
        out = forward_of(self.op)(*arrays, **settings)
        return ndgrad.as_tensor(out) if self.op.outputs == 1 else tuple([ndgrad.as_tensor(o) for o in out])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramOp) and other.op is self.op

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return repr(self.op)


def _describe(value: Value) -> ValueMetadata:
    return ValueMetadata(Size(value.shape), ndgrad.as_tensor(np.empty((), value.dtype)).dtype)


def from_program(program: Program | ProgramPicture) -> GraphModule:
    """Return a module whose graph has the ops of a compiler's program; its result is the tuple of the outputs.

    Args:
        program: program of the compiler, or a picture of it.

    >>> import ndgrad
    >>> program = ndgrad.compiler.graph(lambda x: (x * 2).sum(), ndgrad.ones(3)).traced
    >>> module = ndgrad.fx.from_program(program)
    >>> module(ndgrad.ones(3))
    (tensor(6.),)
    """
    if isinstance(program, ProgramPicture):
        program = program.program
    graph = Graph()
    values: dict[str, Any] = {}
    nodes: dict[Value, Node] = {}
    for i, value in enumerate(program.inputs):
        nodes[value] = graph.placeholder(f"arg_{i}")
    for i, (value, array) in enumerate(program.constants.items()):
        values[f"constant_{i}"] = ndgrad.as_tensor(array)
        nodes[value] = graph.get_attr(f"constant_{i}")
    _add_instructions(graph, program, nodes)
    graph.output(tuple([nodes[v] for v in program.outputs]))
    for value, node in nodes.items():
        node.meta["val"] = _describe(value)
    return GraphModule(values, graph, program.name)


def _add_instructions(graph: Graph, program: Program, nodes: dict[Value, Node]) -> None:
    """Add a node for each instruction, and one for each result of an op with several results."""

    def node_of(argument: Argument) -> Argument:
        return nodes[argument] if argument.__class__ is Value else argument

    for instruction in program.instructions:
        op: Any = instruction.op
        target: Any = op if isinstance(op, Op) else ProgramOp(op)
        args = tuple([map_aggregate(a, node_of) for a in instruction.arguments])
        settings = dict(instruction.settings)
        if hasattr(op, "present_call"):  # an op of ndgrad.library, as its callers write it
            _add_call(graph, op, args, settings, instruction, nodes)
            continue
        node = graph.call_function(target, args, settings, name=op.name)
        if instruction.where is not None:
            node.meta["source"] = instruction.where
        if op.outputs == 1:
            nodes[instruction.result] = node
        else:
            for i, value in enumerate(instruction.results):
                nodes[value] = graph.call_function(operator.getitem, (node, i))
            node.meta["val"] = tuple([_describe(v) for v in instruction.results])


def _add_call(
    graph: Graph,
    op: Any,
    args: tuple[Any, ...],
    settings: dict[str, Any],
    instruction: Instruction,
    nodes: dict[Value, Node],
) -> None:
    """Add the call of an op of `ndgrad.library`, with a node for each tensor of its results.

    The op of a program returns the arguments that are written; the call writes to copies of them.
    """
    written: list[Node] = []
    if op.functional:
        form = settings["call"]
        marked = op.overload._written_tensors(form.fill([Marker(i) for i in range(len(args))]), Marker)
        for marker in marked:
            written.append(graph.call_function(find("clone"), (args[marker.number],)))
            args = (*args[: marker.number], written[-1], *args[marker.number + 1 :])
    target, positional, named = op.present_call(args, settings)
    call = graph.call_function(target, positional, named)
    if instruction.where is not None:
        call.meta["source"] = instruction.where
    returns = target._schema.returns
    results = list(instruction.results)
    for value, node in zip(results[len(results) - len(written) :], written, strict=True):
        nodes[value] = node
    del results[len(results) - len(written) :]
    for number, declared in enumerate(returns):
        part = call if len(returns) == 1 else graph.call_function(operator.getitem, (call, number))
        if declared.type.name != "List":
            nodes[results.pop(0)] = part
            continue
        for i in range(len(results) - (len(returns) - number - 1)):
            nodes[results.pop(0)] = graph.call_function(operator.getitem, (part, i))


class Marker(NamedTuple):
    """A tensor of a call, by its position."""

    number: int


def to_program(module: Module | Callable[..., Any], *args: Any) -> Program:
    """Return a graph module, or any function of tensors, as a program of the compiler.

    A graph of ops, as `from_program` and `make_fx` make it, is converted as it is; `args` may be left out. Any other
    module is traced with example arguments. Tensors that the module holds become constants of the program.

    Args:
        module: graph module, other module or function.
        args: example arguments. They may be left out for a graph of ops.

    >>> import ndgrad
    >>> print(ndgrad.fx.to_program(ndgrad.fx.symbolic_trace(lambda x: x.sin() + 1), ndgrad.ones(2)))
    program program(%0: float32[2])
      %1: float32[2] = sin(%0)...
      %2: float32[2] = add(%1, 1)...
      return %2
    <BLANKLINE>
    """
    if isinstance(module, GraphModule) and _is_of_ops(module.graph):
        return _convert(module, args)
    found = trace_program(module, args, {}, "program")
    program = found.program
    for value, tensor in zip(program.inputs[found.arguments :], found.held, strict=True):
        program.constants[value] = tensor.detach().numpy().copy()
    del program.inputs[found.arguments :]
    program.check()
    return program


def trace_program(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str, **allowed: bool
) -> Traced:
    """Return the ops of a call; TraceError if it does something that a graph cannot record."""
    try:
        return trace_call(function, args, kwargs, name, **allowed)
    except GraphBreak as error:
        raise TraceError(
            f"{getattr(function, '__name__', type(function).__name__)} cannot be recorded as a list of ops: {error}. "
            "Leave that part out, or use ndgrad.where and ndgrad.cond instead of branches. [nd-fx-trace]"
        ) from None


def _is_of_ops(graph: Graph) -> bool:
    """True if every call of a graph is a call of an op."""
    for node in graph.nodes:
        if node.op in ("call_module", "call_method"):
            return False
        if node.op == "call_function" and not isinstance(node.target, (Op, ProgramOp)):
            if node.target is not operator.getitem or not isinstance(node.args[1], int):
                return False
    return True


def _convert(module: GraphModule, args: tuple[Any, ...]) -> Program:
    values: dict[Node, Any] = {}
    program = Program([], [], name=type(module).__name__)
    given = iter(args)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            example = next(given, node.meta.get("val"))
            if example is None:
                raise ValueError(
                    f"to_program: the shape of the input {node.target} is not known. Pass example arguments. "
                    "[nd-arguments]"
                )
            values[node] = Value(tuple(example.shape), as_numpy_dtype(example.dtype))
            program.inputs.append(values[node])
        elif node.op == "get_attr":
            array = _find(module, str(node.target)).detach().numpy().copy()
            values[node] = Value(array.shape, array.dtype)
            program.constants[values[node]] = array
        elif node.op == "output":
            results = map_arg(node.args[0], lambda n: values[n])
            program.outputs = list(results) if isinstance(results, (list, tuple)) else [results]
        elif node.target is operator.getitem:
            values[node] = values[node.args[0]][node.args[1]]
        else:
            instruction = _convert_call(node, values)
            program.instructions.append(instruction)
            several = instruction.op.outputs != 1
            values[node] = instruction.results if several else instruction.result
    program.check()
    return program


def _convert_call(node: Node, values: dict[Node, Any]) -> Instruction:
    op: Any = node.target.op if isinstance(node.target, ProgramOp) else node.target
    arguments = tuple(map_arg(node.args, lambda n: values[n]))
    settings = {**op.settings, **node.kwargs} if isinstance(op, Op) else dict(node.kwargs)
    if isinstance(op, Op):
        _, found = infer(op, arguments, settings)
    else:
        known = node.meta["val"]
        described = [known] if op.outputs == 1 else list(known)
        found = tuple([(tuple(d.shape), as_numpy_dtype(d.dtype)) for d in described])
    results = tuple([Value(shape, kind) for shape, kind in found])
    return Instruction(op, arguments, settings, results, node.meta.get("source"))
