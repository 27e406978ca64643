"""Exported programs: a graph of ops without state, its signature, and the tensors that it needs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import ndgrad
from ndgrad._src.core.op_observers import in_place_form
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import package_name, pytree
from ndgrad._src.ops.table import Op
from ndgrad._src.ops.vocabulary import find, tensor_ops
from ndgrad.export.dims import OpenSize, ShapesCollection, Symbol, assign_sizes
from ndgrad.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from ndgrad.export.tracing import GraphBuilder, Merged, Reference, Traces, trace_sizes
from ndgrad.fx._code import _PyTreeCodeGen, _PyTreeInfo
from ndgrad.fx.graph import Graph
from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.interpreter import Interpreter
from ndgrad.fx.node import Node, map_aggregate
from ndgrad.nn import Module
from ndgrad.nn.parameter import Parameter

__all__ = ["ExportedProgram", "export"]


class ValueRange(NamedTuple):
    """Bounds of an open size."""

    lower: int
    upper: int

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == sys.maxsize else self.upper}]"


class CallSpec(NamedTuple):
    """Structures of the arguments and of the result."""

    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec


@dataclass
class Leaf:
    """One leaf of the arguments: a tensor with its shape and dtype, or a value."""

    name: str
    shape: tuple[int, ...] | None
    dtype: Any = None
    value: Any = None


class _Guards(Module):
    """Checks the arguments of an exported program: fixed values and sizes, bounds and equality of open sizes."""

    _is_impure = True

    def __init__(self, leaves: list[Leaf], symbols: dict[str, Symbol], sizes: list[OpenSize]) -> None:
        super().__init__()
        self.leaves, self.symbols, self.sizes = leaves, symbols, {(s.leaf, s.dim): s for s in sizes}

    def forward(self, *values: Any) -> None:
        known: dict[str, tuple[int, str]] = {}
        for number, (leaf, value) in enumerate(zip(self.leaves, values, strict=True)):
            if leaf.shape is None:
                if not (leaf.value is value or (type(leaf.value) is type(value) and leaf.value == value)):
                    _fail(f"{leaf.name} == {leaf.value!r}", value)
                continue
            if not isinstance(value, Variable):
                _fail(f"isinstance({leaf.name}, Tensor)", type(value).__name__)
            if value.dim() != len(leaf.shape):
                _fail(f"{leaf.name}.dim() == {len(leaf.shape)}", value.dim())
            if value.dtype != leaf.dtype:
                _fail(f"{leaf.name}.dtype == {leaf.dtype}", value.dtype)
            for dim, (size, own) in enumerate(zip(leaf.shape, value.shape, strict=True)):
                text = f"{leaf.name}.size()[{dim}]"
                open_size = self.sizes.get((number, dim))
                if open_size is None:
                    if own != size:
                        _fail(f"{text} == {size}", own)
                else:
                    self._check_open(open_size, text, own, known)

    def _check_open(self, size: OpenSize, text: str, own: int, known: dict[str, tuple[int, str]]) -> None:
        symbol = self.symbols[size.symbol]
        root, rest = divmod(own - size.offset, size.factor)
        if rest:
            _fail(f"({text} - {size.offset}) % {size.factor} == 0", own)
        if size.symbol in known:
            value, first = known[size.symbol]
            if root != value:
                derived = first if size.factor == 1 else f"{size.factor}*{first}"
                _fail(f"{text} == {derived}{f' + {size.offset}' if size.offset else ''}", own)
            return
        known[size.symbol] = root, text
        if root < symbol.min:
            _fail(f"{text} >= {size.factor * symbol.min + size.offset}", own)
        if root > symbol.max:
            _fail(f"{text} <= {size.factor * symbol.max + size.offset}", own)


def _fail(condition: str, found: Any) -> None:
    shown = condition.replace("ndgrad.", f"{package_name.package}.")
    raise AssertionError(
        f"Guard failed: {shown} (it is {found}). Call the program with such arguments, or export it again. [nd-export]"
    )


class ExportedProgram:
    """Program exported from a module. `module()` runs it.

    Args:
        graph: graph of ops.
        graph_signature: meanings of the graph's inputs and outputs.
        state_dict: parameters and buffers by name.
        constants: other tensors by name.
        leaves: names, shapes and dtypes of the arguments' leaves.
        symbols: open sizes by name.
        sizes: dimensions of arguments that are open.
        names: names of the arguments.
        call_spec: structures of arguments and results.
        example_inputs: arguments and keyword arguments of the export.

    >>> import ndgrad
    >>> program = ndgrad.export.export(ndgrad.nn.Linear(3, 2), (ndgrad.ones(4, 3),))
    >>> program.graph_signature.parameters
    ('weight', 'bias')
    >>> program.module()(ndgrad.ones(4, 3)).shape
    ndgrad.Size([4, 2])
    """

    def __init__(
        self,
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        constants: dict[str, Any],
        leaves: list[Leaf],
        symbols: dict[str, Symbol],
        sizes: list[OpenSize],
        names: list[str],
        call_spec: CallSpec,
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None,
    ) -> None:
        self.graph_module = GraphModule({}, graph)
        self.graph_signature = graph_signature
        self.state_dict = state_dict
        self.constants = constants
        self.example_inputs = example_inputs
        self.call_spec = call_spec
        self._leaves, self._symbols, self._sizes, self._names = leaves, symbols, sizes, names

    @property
    def graph(self) -> Graph:
        """The graph, whose inputs are parameters, buffers, constants and the leaves of the arguments."""
        return self.graph_module.graph

    @property
    def range_constraints(self) -> dict[str, ValueRange]:
        """Bounds of the open sizes."""
        return {name: ValueRange(s.min, s.max) for name, s in self._symbols.items()}

    @property
    def dialect(self) -> str:
        """The vocabulary of the graph: the ops of ndgrad's table."""
        return "NDGRAD"

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """Same as `constants`."""
        return self.constants

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield the parameters with their names."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def parameters(self) -> Iterator[Any]:
        """Yield the parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Yield the buffers with their names."""
        for name in self.graph_signature.buffers:
            yield name, self.state_dict[name] if name in self.state_dict else self.constants[name]

    def buffers(self) -> Iterator[Any]:
        """Yield the buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead. [nd-export]"
        )

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False)
        body = "\n".join(f"    {line}" if line else "" for line in code.splitlines())
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return f"ExportedProgram:\n{body}\nGraph signature: {signature}\nRange constraints: {self.range_constraints}\n"

    __repr__ = __str__

    def validate(self) -> None:
        """Check the graph."""
        self.graph.lint()

    def module(self, check_guards: bool = True) -> GraphModule:
        """Return the program as a module with parameters and buffers of its own names. Arguments are checked, unless
        `check_guards` is False; buffers are updated as in the original.

        Args:
            check_guards: whether calls check shapes and dtypes of their arguments.
        """
        graph = Graph()
        nodes: dict[Node, Any] = {}
        values: dict[str, Any] = {}
        specs = {s.arg.name: s for s in self.graph_signature.input_specs}
        inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        leaf_nodes = [graph.placeholder(n.name) for n in inputs if specs[n.name].kind is InputKind.USER_INPUT]
        own = iter(leaf_nodes)
        for node in inputs:
            spec = specs[node.name]
            if spec.kind is InputKind.USER_INPUT:
                nodes[node] = next(own)
            elif node.users or any(spec.target == s.target for s in self.graph_signature.output_specs):
                path = str(spec.target)
                values[path] = self._find_tensor(path)
                nodes[node] = graph.get_attr(path)
        if check_guards:
            values["_guards_fn"] = _Guards(self._leaves, self._symbols, self._sizes)
            graph.call_module("_guards_fn", tuple(leaf_nodes))
        outputs: tuple[Any, ...] = ()
        for node in self.graph.nodes:
            if node.op == "output":
                outputs = map_aggregate(node.args[0], lambda v: nodes[v] if isinstance(v, Node) else v)
            elif node.op != "placeholder":
                nodes[node] = graph.node_copy(node, lambda n: nodes[n])
        by_target = {str(specs[n.name].target): nodes[n] for n in inputs if n in nodes}
        by_name = {n.name: nodes[n] for n in inputs if n in nodes}
        results: list[Any] = []
        for result, value in zip(self.graph_signature.output_specs, outputs, strict=True):
            if result.kind is OutputKind.USER_OUTPUT:
                results.append(value)
            else:
                is_user = result.kind is OutputKind.USER_INPUT_MUTATION
                target = by_name[str(result.target)] if is_user else by_target[str(result.target)]
                if result.kind is not OutputKind.USER_INPUT_MUTATION:  # modules update their buffers without recording
                    value = graph.call_function(find("detach"), (value,))
                graph.call_function(in_place_form(find("copy")), (target, value))
        graph.output(results)
        in_spec = self.call_spec.in_spec
        graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(list(self._names), _flat_spec(in_spec), self.call_spec.out_spec)))
        made = GraphModule(values, graph)
        for spec in self.graph_signature.input_specs:
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) or str(spec.target) in values:
                _assign(made, str(spec.target), self._find_tensor(str(spec.target)), spec)
        return made

    def _find_tensor(self, path: str) -> Any:
        return self.state_dict[path] if path in self.state_dict else self.constants[path]

    def run_decompositions(
        self, decomp_table: Mapping[Any, Callable[..., Any]] | None = None, decompose_custom_triton_ops: bool = False
    ) -> ExportedProgram:
        """Return the program with ops replaced by their definitions: by functions of tensors in `decomp_table` (op ->
        function), or, without a table, by the bodies of all composite ops.

        Args:
            decomp_table: functions that replace ops. The default is the bodies of all composite ops.
            decompose_custom_triton_ops: must be False.
        """
        if decompose_custom_triton_ops:
            raise NotImplementedError("there are no Triton ops to decompose [nd-unsupported]")
        if self.example_inputs is None:
            raise RuntimeError("run_decompositions: the program has no example inputs. Export it again. [nd-export]")
        own = self.module(check_guards=False)
        args, kwargs = self.example_inputs
        leaves, spec = pytree.tree_flatten((args, kwargs))
        decomposing = _Decomposing(own, decomp_table)

        def run(*given: Any, **named: Any) -> Any:
            return decomposing.run(*given, *named.values())

        traces = trace_sizes(run, leaves, spec, self._symbols, self._sizes)
        bound = dict(zip(self._names, (*args, *kwargs.values()), strict=True))
        constants = self.graph_signature.lifted_tensor_constants
        return _Writer(own, traces, leaves, spec, self._names, bound, constants).write(self.example_inputs)


class _Decomposing(Interpreter):
    """Runs a graph with the definitions of ops in place of the ops."""

    def __init__(self, module: GraphModule, table: Mapping[Any, Callable[..., Any]] | None) -> None:
        super().__init__(module)
        self._table = table

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rule = _find_decomposition(target, self._table)
        return super().call_function(target, args, kwargs) if rule is None else rule(*args, **kwargs)


def _flat_spec(in_spec: pytree.TreeSpec) -> pytree.TreeSpec:
    """Return the structure of the list of all arguments, from that of (args, kwargs)."""
    args, kwargs = in_spec.children()
    return pytree.tree_structure(
        [pytree.tree_unflatten([0] * c.num_leaves, c) for c in (*args.children(), *kwargs.children())]
    )


def _assign(module: Module, path: str, value: Any, spec: InputSpec) -> None:
    """Register a parameter or buffer at a path, with plain modules on the way."""
    *parents, name = path.split(".")
    owner = module
    for part in parents:
        inner = getattr(owner, part, None)
        if inner is None:
            inner = Module()
            owner.add_module(part, inner)
        owner = inner
    for table in (owner._parameters, owner._buffers, owner.__dict__):
        table.pop(name, None)
    if spec.kind is InputKind.PARAMETER:
        owner.register_parameter(name, value)
    else:
        owner.register_buffer(name, value, persistent=bool(spec.persistent))


def _find_decomposition(target: Any, table: Mapping[Any, Callable[..., Any]] | None) -> Callable[..., Any] | None:
    if table is not None:
        return next((rule for op, rule in table.items() if op is target or op == target), None)
    if isinstance(target, Op) and target.body is not None and target.outputs == 1:
        body, op = target.body, target
        return lambda *args, **settings: body(tensor_ops, args, {**op.settings, **settings})
    return None


# ----- export ---------------------------------------------------------------------------------------------------------


def export(
    mod: Module | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | tuple[Any, ...] | list[Any] | ShapesCollection | None = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Return a module, or a function of tensors, as a program: a graph of ops with a signature.

    The module runs on the given arguments. Branches on values of tensors, and random draws, are refused.
    `dynamic_shapes` names sizes that stay open: for each argument a dict of dimensions, or one entry per dimension.

    Args:
        mod: module or function to export.
        args: example arguments.
        kwargs: example keyword arguments.
        dynamic_shapes: sizes that stay open: for each argument a dict of dimensions, or one entry per dimension.
        strict: accepted as in torch; has no effect, because functions are traced in one way.
        preserve_module_call_signature: must be empty.
        prefer_deferred_runtime_asserts_over_guards: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> from ndgrad.export import Dim, export
    >>> batch = Dim("batch", min=1)
    >>> program = export(lambda x: (x * 2).reshape(-1), (ndgrad.ones(4, 3),), dynamic_shapes=({0: batch},))
    >>> print(program.graph_module.code.strip())
    def forward(self, x):
        mul = ndgrad.ops.aten.mul.default(x, 2)
        sym_size = ndgrad.ops.aten.sym_size.default(x, 0);  x = None
        mul_1 = sym_size * 3;  sym_size = None
        reshape = ndgrad.ops.aten.reshape.default(mul, shape = (mul_1,));  mul = mul_1 = None
        return (reshape,)
    >>> program.module()(ndgrad.ones(7, 3)).shape
    ndgrad.Size([21])
    """
    if not callable(mod):
        raise ValueError(
            f"Expected `mod` to be an instance of `torch.nn.Module` or a function, got {type(mod)}. [nd-type]"
        )
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)} [nd-type]")
    if preserve_module_call_signature:
        raise NotImplementedError(
            "preserve_module_call_signature keeps calls of submodules apart, and a program here is one graph. Export "
            "the submodules themselves. [nd-unsupported]"
        )
    named_args = dict(kwargs or {})
    leaves, spec = pytree.tree_flatten((args, named_args))
    names = _argument_names(mod, args, named_args)
    bound = dict(zip(names, (*args, *named_args.values()), strict=True))
    if len({id(leaf) for leaf in leaves if isinstance(leaf, Variable)}) < sum(isinstance(v, Variable) for v in leaves):
        raise ValueError("export: a tensor stands twice among the arguments. Pass a copy of it. [nd-arguments]")
    symbols, sizes = assign_sizes(dynamic_shapes, bound, leaves)
    traces = trace_sizes(mod, leaves, spec, symbols, sizes)
    return _Writer(mod, traces, leaves, spec, names, bound).write((args, named_args))


def _argument_names(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    function = mod.forward if isinstance(mod, Module) else mod
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    names = [*positional[: len(args)], *[f"{rest}_{i}" for i in range(len(args) - len(positional))]]
    return [*names, *kwargs]


class _Writer:
    """Writes the merged traces of a module as an exported program."""

    def __init__(
        self, mod: Any, traces: Traces, leaves: list[Any], spec: pytree.TreeSpec, names: list[str],
        bound: dict[str, Any], constants: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._constants = frozenset(constants)
        self._mod, self._traces, self._leaves, self._spec, self._names = mod, traces, leaves, spec, names
        self._merged = Merged(traces)
        self._graph = Graph()
        self._leaf_names = [
            name if pytree.tree_structure(tree).is_leaf() else f"{name}_{i}"
            for name, tree in bound.items()
            for i, _ in enumerate(pytree.tree_leaves(tree))
        ]

    def write(self, example: tuple[tuple[Any, ...], dict[str, Any]]) -> ExportedProgram:
        """Return the program."""
        graph, base = self._graph, self._merged.base
        inputs: list[InputSpec] = []
        state, constants = self._collect_state()
        count, held = base.arguments, {id(t): base.arguments + i for i, t in enumerate(base.held)}
        by_number: dict[int, Node] = {}
        targets: dict[int, InputSpec] = {}
        for path, tensor, kind, persistent in state:
            prefix = "p" if kind is InputKind.PARAMETER else "b"
            node = graph.placeholder(f"{prefix}_{path.replace('.', '_')}")
            spec = InputSpec(kind, TensorArgument(node.name), path, persistent)
            inputs.append(spec)
            if id(tensor) in held:
                by_number[held[id(tensor)]], targets[held[id(tensor)]] = node, spec
        tensors = {path: t for path, t, _, persistent in state if persistent is not False}
        loose = {path: t for path, t, _, persistent in state if persistent is False}
        own_names = {id(t): name for name, t in constants.items()}
        for tensor in base.held:
            number = held[id(tensor)]
            if number not in by_number:
                self._add_constant(inputs, by_number, targets, loose, own_names.get(id(tensor)), tensor, number)
        for i, constant in enumerate(self._merged.constants):
            if isinstance(constant, np.ndarray):
                number = len(base.program.inputs) + i
                self._add_constant(inputs, by_number, targets, loose, None, ndgrad.as_tensor(constant.copy()), number)
        described, leaf_nodes = self._add_leaves(inputs, by_number, targets)
        builder = GraphBuilder(graph, self._merged, leaf_nodes)
        builder.values.update(by_number)
        builder.add()
        outputs, values = self._list_outputs(builder, targets, count)
        graph.output(tuple(values))
        graph.eliminate_dead_code()
        signature = ExportGraphSignature(inputs, outputs)
        call = CallSpec(self._spec, base.result)
        traces = self._traces
        return ExportedProgram(
            graph, signature, tensors, loose, described, traces.symbols, traces.sizes, self._names, call, example
        )

    def _collect_state(self) -> tuple[list[tuple[str, Any, InputKind, bool | None]], dict[str, Any]]:
        if not isinstance(self._mod, Module):
            return [], {}
        state: list[tuple[str, Any, InputKind, bool | None]] = [
            (name, p, InputKind.PARAMETER, None) for name, p in self._mod.named_parameters()
        ]
        kept = self._mod.state_dict().keys()
        buffers = dict(self._mod.named_buffers())
        state += [
            (name, b, InputKind.BUFFER, name in kept) for name, b in buffers.items() if name not in self._constants
        ]
        loose = {
            f"{path}.{name}" if path else name: value
            for path, module in self._mod.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, Variable)
        }
        loose |= {name: b for name, b in buffers.items() if name in self._constants}
        return state, loose

    def _add_constant(
        self, inputs: list[InputSpec], by_number: dict[int, Node], targets: dict[int, InputSpec], loose: dict[str, Any],
        name: str | None, tensor: Any, number: int,
    ) -> None:  # fmt: skip
        path = name or f"lifted_tensor_{sum(k.startswith('lifted_tensor_') for k in loose)}"
        node = self._graph.placeholder(f"c_{path.replace('.', '_')}")
        spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), path)
        inputs.append(spec)
        loose[path] = tensor.detach() if not isinstance(tensor, Parameter) else tensor
        by_number[number], targets[number] = node, spec

    def _add_leaves(
        self, inputs: list[InputSpec], by_number: dict[int, Node], targets: dict[int, InputSpec]
    ) -> tuple[list[Leaf], list[Node]]:
        described: list[Leaf] = []
        nodes: list[Node] = []
        tensors = 0
        for name, leaf in zip(self._leaf_names, self._leaves, strict=True):
            node = self._graph.placeholder(name)
            nodes.append(node)
            if isinstance(leaf, Variable):
                spec = InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None)
                by_number[tensors], targets[tensors] = node, spec
                tensors += 1
                described.append(Leaf(name, tuple(leaf.shape), leaf.dtype))
            else:
                spec = InputSpec(InputKind.USER_INPUT, ConstantArgument(node.name, leaf), None)
                described.append(Leaf(name, None, None, leaf))
            inputs.append(spec)
        return described, nodes

    def _list_outputs(
        self, builder: GraphBuilder, targets: dict[int, InputSpec], count: int
    ) -> tuple[list[OutputSpec], list[Any]]:
        outputs: list[OutputSpec] = []
        values: list[Any] = []
        kinds = {InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION, InputKind.BUFFER: OutputKind.BUFFER_MUTATION}
        for number, reference in self._merged.written.items():
            spec, node = targets[number], builder.resolve(reference)
            is_user = spec.kind is InputKind.USER_INPUT
            if spec.kind is InputKind.CONSTANT_TENSOR:
                raise RuntimeError(
                    f"export: the module writes to the tensor {spec.target}, which is neither parameter nor buffer. "
                    "Register it: register_buffer. [nd-export]"
                )
            kind = OutputKind.USER_INPUT_MUTATION if is_user else kinds[spec.kind]
            outputs.append(OutputSpec(kind, TensorArgument(node.name), spec.arg.name if is_user else spec.target))
            values.append(node)
        tensors = iter(self._merged.outputs)
        for position in range(self._merged.base.result.num_leaves):
            if position in self._merged.base.constants:
                value = builder.resolve(self._merged.results[position])
            else:
                reference = next(tensors)
                assert isinstance(reference, Reference)
                value = builder.values[reference.number]
            arg = TensorArgument(value.name) if isinstance(value, Node) else ConstantArgument("", value)
            outputs.append(OutputSpec(OutputKind.USER_OUTPUT, arg, None))
            values.append(value)
        return outputs, values
