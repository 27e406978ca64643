"""Traces of a module for several sizes, merged to one graph with open sizes (Note [Programs of several sizes])."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ndgrad
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import pytree
from ndgrad._src.ops.table import Op
from ndgrad.export.dims import OpenSize, Symbol
from ndgrad.export.size_expressions import Expression, NoFit, fit, no_fit
from ndgrad.fx.graph import Graph
from ndgrad.fx.node import Node
from ndgrad.fx.programs import ProgramOp, _add_call, _describe, trace_program
from ndgrad.fx.proxy import TraceError
from ndgrad.library.overloads import CallForm
from ndgrad.onnx.tracing import Traced
from ndgrad.ops import aten


class ExportError(RuntimeError):
    """A module cannot be exported as asked."""


@dataclass
class Traces:
    """Traces of one module with the sizes of each; the first is that of the example."""

    found: list[Traced]
    samples: list[dict[str, int]]
    symbols: dict[str, Symbol]
    sizes: list[OpenSize]


# ----- traces ---------------------------------------------------------------------------------------------------------


def trace_sizes(
    function: Callable[..., Any],
    leaves: list[Any],
    spec: pytree.TreeSpec,
    symbols: dict[str, Symbol],
    sizes: list[OpenSize],
) -> Traces:
    """Trace a module for several sizes. Sizes with the hint AUTO become equal or fixed where the module needs that."""
    first = _trace(function, leaves, spec, {}, [])
    for attempt in _weaken(symbols, sizes, lambda own, open_sizes: _fits(function, leaves, spec, own, open_sizes)):
        own, open_sizes = attempt
        samples = _choose_samples(own)
        found = [first]
        try:
            found += [_trace(function, leaves, spec, sample, open_sizes) for sample in samples[1:]]
            traces = Traces(found, samples, own, open_sizes)
            Merged(traces)
            return traces
        except (NoFit, ExportError) as error:
            last: Exception = error
    if isinstance(last, ExportError):
        raise last
    raise ExportError(_explain_fixed(symbols, str(last)))


def _explain_fixed(symbols: dict[str, Symbol], why: str) -> str:
    names = ", ".join(symbols)
    parts = [f"{s.name} = {s.example}" for s in symbols.values()]
    return (
        f"Constraints violated ({names})! You marked {names} as dynamic but your code specialized it to be a constant "
        f"({why}). Mark it as Dim.STATIC or leave it out: {', '.join(parts)}; or use Dim.AUTO. [nd-export]"
    )


def _weaken(symbols: dict[str, Symbol], sizes: list[OpenSize], fits: Callable[..., bool]) -> Any:
    """Yield sizes to try: all that are asked for; those with the hint AUTO equal if their examples are; then without
    the sizes with the hint AUTO that cannot vary."""
    yield symbols, sizes
    automatic = {name for name, s in symbols.items() if s.is_auto}
    if not automatic:
        return
    merged, names = dict(symbols), {}
    for name in symbols:
        same = next(
            (n for n, s in merged.items() if n != name and s.example == symbols[name].example and n in names), None
        )
        names[name] = name
        if name in automatic and same is not None:
            names[name] = names[same]
            del merged[name]
    joined = [OpenSize(s.leaf, s.dim, names[s.symbol], s.factor, s.offset) for s in sizes]
    yield merged, joined
    kept = {n: s for n, s in merged.items() if not s.is_auto or fits({n: s}, [z for z in joined if z.symbol == n])}
    yield kept, [s for s in joined if s.symbol in kept]
    firm = {n: s for n, s in symbols.items() if not s.is_auto}
    yield firm, [s for s in sizes if s.symbol in firm]


def _fits(function: Any, leaves: list[Any], spec: Any, own: dict[str, Symbol], sizes: list[OpenSize]) -> bool:
    """True if the sizes can vary while all others are those of the example."""
    samples = _choose_samples(own)
    try:
        found = [_trace(function, leaves, spec, sample, sizes) for sample in samples]
        Merged(Traces(found, samples, own, sizes))
    except (NoFit, ExportError, TraceError):
        return False
    return True


def _choose_samples(symbols: dict[str, Symbol]) -> list[dict[str, int]]:
    """Return sizes to trace with: those of the example first, then others without common relations."""
    chosen = [{s.name: s.example for s in symbols.values()}]
    if not symbols:
        return chosen
    draw = random.Random(0)
    for _ in range(len(symbols) + 4):
        sample: dict[str, int] = {}
        for s in symbols.values():
            low, high = max(s.min, 2), min(s.max, 2 * max(s.example, 8) + 11)
            used = {c[s.name] for c in chosen} | set(sample.values())
            free = [n for n in range(min(low, high), high + 1) if n not in used] or list(range(s.min, high + 1))
            sample[s.name] = draw.choice(free)
        chosen.append(sample)
    return chosen


def _resize(t: Any, dim: int, size: int) -> Any:
    """Return a tensor with another size: its values repeated along a dimension."""
    own = t.shape[dim]
    if own == size:
        return t
    if own == 0:
        return t.new_zeros([size if d == dim else n for d, n in enumerate(t.shape)])
    return t.index_select(dim, ndgrad.arange(size) % own)


def _trace(function: Any, leaves: list[Any], spec: Any, sample: dict[str, int], sizes: list[OpenSize]) -> Traced:
    given = []
    with ndgrad.no_grad():
        for number, leaf in enumerate(leaves):
            if isinstance(leaf, Variable):
                own: Any = leaf.detach()
                for size in sizes:
                    if size.leaf == number and sample:
                        own = _resize(own, size.dim, size.factor * sample[size.symbol] + size.offset)
                leaf = own.clone()
            given.append(leaf)
    args, kwargs = pytree.tree_unflatten(given, spec)
    try:
        return trace_program(function, args, kwargs, "program", allow_constants=True, allow_writes=True)
    except TraceError as error:
        if not sample:
            raise
        shown = ", ".join(f"{name} = {value}" for name, value in sample.items())
        raise ExportError(
            f"Constraints violated ({', '.join(sample)})! With {shown} the module raises: {error} Fix the size, or "
            "give its bounds: Dim(name, min=..., max=...). [nd-export]"
        ) from error


# ----- one program from several ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """A value of a program, by its number in order of definition."""

    number: int


class Merged:
    """The common program of several traces: references to values, constants, and expressions of open sizes."""

    def __init__(self, traces: Traces) -> None:
        self.traces = traces
        self.base = traces.found[0]
        self._samples = traces.samples
        programs = [t.program for t in traces.found]
        self._numbers: list[dict[Any, int]] = []
        #: Products of sizes of the current call's arguments, as candidates for its numbers.
        self._products: list[tuple[tuple[Any, ...], list[int]]] = []
        for program in programs:
            values = [*program.inputs, *program.constants, *[v for i in program.instructions for v in i.results]]
            self._numbers.append({v: number for number, v in enumerate(values)})
        counts = {
            (len(p.inputs), len(p.constants), tuple([(i.op, len(i.results)) for i in p.instructions])) for p in programs
        }
        if len(counts) > 1:
            raise no_fit(self._find_difference(programs))
        self.constants = [
            self._merge_arrays(arrays) for arrays in zip(*[p.constants.values() for p in programs], strict=True)
        ]
        self.calls = []
        for instructions in zip(*[p.instructions for p in programs], strict=True):
            try:
                self._products = self._list_products(instructions)
                arguments = self.merge([i.arguments for i in instructions])
                settings = self.merge([i.settings for i in instructions])
            except NoFit as error:
                raise no_fit(f"{instructions[0].op.name} at {instructions[0].where}: {error}") from None
            self.calls.append((instructions[0], arguments, settings))
        self._products = []
        self.outputs = self.merge([p.outputs for p in programs])
        self.written = self.merge([dict(t.written) for t in traces.found])
        self.results = self.merge([dict(t.constants) for t in traces.found])

    def _list_products(self, instructions: Sequence[Any]) -> list[tuple[tuple[Any, ...], list[int]]]:
        """Return products of adjacent sizes of the arguments, with their values in all traces."""
        found = []
        for position, argument in enumerate(instructions[0].arguments):
            if argument.__class__ is not Value:
                continue
            number, shapes = self._numbers[0][argument], [i.arguments[position].shape for i in instructions]
            count = len(shapes[0])
            for first in range(count):
                for last in range(first + 1, count + 1):
                    names = tuple([(number, d) for d in range(first, last)])
                    found.append((names, [math.prod(shape[first:last]) for shape in shapes]))
        return found

    @staticmethod
    def _find_difference(programs: Sequence[Any]) -> str:
        for other in programs[1:]:
            for one, two in zip(programs[0].instructions, other.instructions, strict=False):
                if one.op is not two.op:
                    return f"other sizes take another path at {one.where}"
        return "other sizes take another path"

    def merge(self, values: Sequence[Any]) -> Any:
        """Return what several traces have in one place as one value."""
        first = values[0]
        if first.__class__ is Value:
            numbers = {own.get(v) for own, v in zip(self._numbers, values, strict=True)}
            if len(numbers) > 1:
                raise no_fit("other sizes read another value")
            return Reference(numbers.pop())  # type: ignore[arg-type]  # all values are known
        plain = (int, float, np.number)
        if len({type(v) for v in values}) > 1 and not all(isinstance(v, plain) for v in values):
            raise no_fit(f"a setting is {first!r} or {values[-1]!r}")
        if isinstance(first, (CallForm, tuple, list, dict, slice)):
            return self._merge_parts(first, values)
        if isinstance(first, np.ndarray):
            if not all(v.shape == first.shape and np.array_equal(v, first) for v in values):
                raise no_fit("an array among the settings depends on a size")
            return first
        if isinstance(first, plain):
            try:
                return fit(values, self._samples, self._products)
            except NoFit:
                raise no_fit(f"a number is {first!r} or {values[-1]!r}") from None
        if not all(v is first or v == first for v in values):
            raise no_fit(f"a setting is {first!r} or {values[-1]!r}")
        return first

    def _merge_parts(self, first: Any, values: Sequence[Any]) -> Any:
        """Return containers of one type as one container, whose items are merged."""
        if isinstance(first, CallForm):
            return CallForm(self._merge_items([v.values for v in values]))
        if isinstance(first, slice):
            return slice(*self._merge_items([(v.start, v.stop, v.step) for v in values]))
        if isinstance(first, dict):
            if any(v.keys() != first.keys() for v in values):
                raise no_fit("settings differ")
            return {key: self.merge([v[key] for v in values]) for key in first}
        if len({len(v) for v in values}) > 1:
            raise no_fit(f"a setting is {first!r} or {values[-1]!r}")
        return type(first)(self._merge_items(values))

    def _merge_items(self, values: Sequence[Sequence[Any]]) -> list[Any]:
        return [self.merge(items) for items in zip(*values, strict=True)]

    def _merge_arrays(self, arrays: Sequence[Any]) -> Any:
        """Return the array of a constant, or a description of an array that depends on sizes."""
        first = np.asarray(arrays[0])
        if all(
            a.shape == first.shape and a.dtype == first.dtype and a.tobytes() == first.tobytes()
            for a in map(np.asarray, arrays)
        ):
            return first
        arrays = [np.asarray(a) for a in arrays]
        if len({(a.ndim, a.dtype) for a in arrays}) > 1:
            raise no_fit("a constant depends on a size")
        shape = self.merge([a.shape for a in arrays])
        if all(a.size and (a == a.flat[0]).all() for a in arrays):
            return SizedConstant("full", shape, self.merge([a.flat[0].item() for a in arrays]), 0, first.dtype)
        if first.ndim == 1 and all(
            a.size > 1 and np.array_equal(a, a[0] + (a[1] - a[0]) * np.arange(a.size)) for a in arrays
        ):
            start, step = self.merge([a[0].item() for a in arrays]), self.merge([(a[1] - a[0]).item() for a in arrays])
            return SizedConstant("arange", shape, start, step, first.dtype)
        if first.ndim == 2 and all(np.array_equal(a, np.eye(*a.shape, dtype=a.dtype)) for a in arrays):
            return SizedConstant("eye", shape, 0, 0, first.dtype)
        raise no_fit("a constant depends on a size")


@dataclass
class SizedConstant:
    """An array that a program makes for its sizes: `full`, `arange` or `eye`."""

    kind: str
    shape: tuple[Any, ...]
    start: Any
    step: Any
    dtype: np.dtype[Any]


class GraphBuilder:
    """Writes a merged program into a graph whose placeholders exist."""

    def __init__(self, graph: Graph, merged: Merged, leaf_nodes: Sequence[Node]) -> None:
        self._graph, self._merged, self._leaf_nodes = graph, merged, leaf_nodes
        self._steps: dict[Any, Node] = {}
        self.values: dict[int, Node] = {}

    def add(self) -> None:
        """Add nodes for constants that depend on sizes, and for all ops. `values` must have the other inputs."""
        merged = self._merged
        count = len(merged.base.program.inputs)
        for number, constant in enumerate(merged.constants):
            if isinstance(constant, SizedConstant):
                self.values[count + number] = self._add_constant(constant)
        own = merged._numbers[0]
        for instruction, arguments, settings in merged.calls:
            self._add_instruction(instruction, self.resolve(arguments), self.resolve(settings), own)
        for value, number in own.items():
            if number in self.values:
                self.values[number].meta.setdefault("val", _describe(value))

    def _add_instruction(self, instruction: Any, args: Any, settings: Any, own: dict[Any, int]) -> None:
        graph, op = self._graph, instruction.op
        if hasattr(op, "present_call"):
            nodes: dict[Any, Node] = {}
            _add_call(graph, op, args, settings, instruction, nodes)
            self.values.update({own[v]: node for v, node in nodes.items()})
            return
        target: Any = op if isinstance(op, Op) else ProgramOp(op)
        node = graph.call_function(target, args, settings, name=op.name)
        if instruction.where is not None:
            node.meta["source"] = instruction.where
        if op.outputs == 1:
            self.values[own[instruction.result]] = node
            return
        node.meta["val"] = tuple([_describe(v) for v in instruction.results])
        for i, value in enumerate(instruction.results):
            self.values[own[value]] = self._step(operator.getitem, node, i)

    def _add_constant(self, constant: SizedConstant) -> Node:
        graph = self._graph
        kind = ndgrad.as_tensor(np.empty((), constant.dtype)).dtype
        shape = self.resolve(constant.shape)
        if constant.kind == "full":
            return graph.call_function(ndgrad.full, (list(shape), self.resolve(constant.start)), {"dtype": kind})
        if constant.kind == "eye":
            return graph.call_function(ndgrad.eye, tuple(shape), {"dtype": kind})
        node = graph.call_function(ndgrad.arange, tuple(shape), {"dtype": kind})
        start, step = self.resolve(constant.start), self.resolve(constant.step)
        if step != 1:
            node = graph.call_function(aten.mul.default, (node, step))
        return node if start == 0 else graph.call_function(aten.add.default, (node, start))

    def resolve(self, value: Any) -> Any:
        """Return a merged value with nodes for references and expressions."""
        if isinstance(value, Reference):
            return self.values[value.number]
        if isinstance(value, Expression):
            return value.build(self._symbol, self._step)
        if isinstance(value, CallForm):
            return CallForm([self.resolve(v) for v in value.values])
        if isinstance(value, (tuple, list)):
            return type(value)([self.resolve(v) for v in value])
        if isinstance(value, dict):
            return {key: self.resolve(v) for key, v in value.items()}
        if isinstance(value, slice):
            return slice(*[self.resolve(part) for part in (value.start, value.stop, value.step)])
        return value

    def _symbol(self, name: str | tuple[int, int]) -> Node:
        if isinstance(name, tuple):
            return self._step(aten.sym_size.int, self.values[name[0]], name[1])
        sizes = [s for s in self._merged.traces.sizes if s.symbol == name]
        size = min(sizes, key=lambda s: (s.factor, abs(s.offset)))
        node: Any = self._step(aten.sym_size.int, self._leaf_nodes[size.leaf], size.dim)
        if size.offset:
            node = self._step(operator.sub, node, size.offset)
        return node if size.factor == 1 else self._step(operator.floordiv, node, size.factor)

    def _step(self, function: Any, a: Any, b: Any) -> Node:
        key = (function, a, b)
        if key not in self._steps:
            self._steps[key] = self._graph.call_function(function, (a, b))
        return self._steps[key]
