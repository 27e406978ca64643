"""`ndgrad.onnx.export`: a function or module as an ONNX model.

The compiler's tracer traces the function, and the writer of each op (`elementwise`, `arrays`, `networks`) writes it. An
op without a writer raises an error with its name and source line; no op is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.passes.rewrite import Rules, Walk
from ndgrad._src.compiler.passes.terms import TermOps, as_terms
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.atomic_files import open_replacement
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten
from ndgrad._src.tensor.functions.data import from_numpy
from ndgrad._src.tensor.storage import memory_of
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.onnx import arrays, elementwise, networks  # registers their writers # noqa: F401
from ndgrad.onnx.graph import Graph, OnnxExporterError
from ndgrad.onnx.registered_symbolics import registered
from ndgrad.onnx.sizes import Disagreement, Merging, OpenSize, Varying
from ndgrad.onnx.tracing import Traced, trace_call
from ndgrad.onnx.writers import WRITERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

__all__ = ["ONNXProgram", "export", "is_in_onnx_export"]

#: Supported versions of ONNX's op set.
_OPSETS = range(18, 22)
#: Versions of the file format, by the first op set that needs a newer one: files use the oldest possible version.
_FILE_FORMAT = 8

_exporting: ContextVar[bool] = ContextVar("exporting", default=False)


def is_in_onnx_export() -> bool:
    """True while a function is traced for an export.

    >>> ndgrad.onnx.is_in_onnx_export()
    False
    """
    return _exporting.get()


#: Torch's options that select its exporter, or tune it. The exported model does not depend on them.
_EXPORTER_OPTIONS = frozenset(
    "artifacts_dir autograd_inlining custom_opsets custom_translation_table do_constant_folding dump_exported_program "
    "dynamo export_modules_as_functions external_data fallback keep_initializers_as_inputs operator_export_type "
    "optimize profile report training verbose".split()
)
_SAVE_OPTIONS = frozenset(("external_data", "include_initializers", "keep_initializers_as_inputs"))


def _check_options(name: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(
            f"ndgrad.onnx.{name}: got an unexpected keyword argument {unknown[0]!r}. Leave it out. [nd-arguments]"
        )


class ONNXProgram:
    """Exported model: save it, or run it with onnxruntime.

    Args:
        model_proto: model as onnx's object.
    """

    def __init__(self, model_proto: onnx.ModelProto) -> None:
        self.model_proto = model_proto

    def save(self, destination: str | os.PathLike[str] | IO[bytes], **options: Any) -> None:
        """Write the model to a file; a path gets all of it or nothing.

        Args:
            destination: path, or file that is open for bytes.
            options: torch's options of storage, which have no effect. Unknown names raise TypeError.
        """
        _check_options("ONNXProgram.save", options, _SAVE_OPTIONS)
        data = self.model_proto.SerializeToString()
        if isinstance(destination, (str, os.PathLike)):
            with open_replacement(destination) as file:
                file.write(data)
        else:
            destination.write(data)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Run the model with onnxruntime, which must be installed, on tensors in the order of the inputs."""
        import onnxruntime  # separate package, only needed here

        session = onnxruntime.InferenceSession(self.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
        leaves = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Variable)]
        given = {i.name: np.asarray(memory_of(t)) for i, t in zip(session.get_inputs(), leaves, strict=True)}
        return tuple(from_numpy(np.array(made)) for made in session.run(None, given))

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        names = ", ".join(i.name for i in graph.input)
        return f"ONNXProgram({graph.name}({names}): {len(graph.node)} nodes, {len(graph.initializer)} initializers)"


def export(
    model: Callable[..., Any],
    args: tuple[Any, ...] | Tensor = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    dynamic_shapes: Any = None,
    export_params: bool = True,
    verify: bool = False,
    **options: Any,
) -> ONNXProgram:
    """Export a function or module as an ONNX model, traced with the given arguments.

    A module in training mode is put into eval mode for it. Sizes are those of the arguments, except for those in
    `dynamic_axes` ({"input": {0: "batch"}}) or `dynamic_shapes` (one dict from dimension to name for each tensor).
    Unsupported functions raise `OnnxExporterError`, and no file is written. Needs the package onnx (`pip install
    onnx`), and onnxruntime for `verify`. Torch's other options select its exporter, and are ignored.

    Args:
        model: function or module to export.
        args: example arguments. A tensor stands for a tuple of one.
        f: path or file that receives the model. None writes no file.
        kwargs: example keyword arguments.
        input_names: names of the tensors among the arguments.
        output_names: names of the results.
        opset_version: version of ONNX's ops, 18 to 21. The default is 18.
        dynamic_axes: names of open sizes, by the name of an input and the dimension.
        dynamic_shapes: names of open sizes: one dict from dimension to name for each tensor.
        export_params: must be True: a model holds its parameters.
        verify: whether onnxruntime runs the model on the arguments, and results are compared.
        options: torch's options of its exporter, which have no effect. Unknown names raise TypeError.

    >>> model = ndgrad.nn.Sequential(ndgrad.nn.Linear(3, 2), ndgrad.nn.ReLU())
    >>> ndgrad.onnx.export(model, (ndgrad.ones(1, 3),), input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    ONNXProgram(Sequential(x): 5 nodes, 2 initializers)
    """
    _check_options("export", options, _EXPORTER_OPTIONS)
    library = _library()
    opset = 18 if opset_version is None else opset_version
    if opset not in _OPSETS:
        raise OnnxExporterError(
            f"ndgrad.onnx.export: opset_version is {opset}, and models are written in {_OPSETS[0]} to "
            f"{_OPSETS[-1]}. Leave it out. [nd-onnx]"
        )
    given = args if isinstance(args, tuple) else (args,)
    named = dict(kwargs or {})
    if given and isinstance(given[-1], dict) and kwargs is None:  # torch accepts keywords in this form too
        named, given = given[-1], given[:-1]
    leaves, spec = tree_flatten((given, named))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Variable)]
    names = _names(input_names, len(tensors), "input")
    sizes = _open_sizes(tensors, names, dynamic_axes, dynamic_shapes)
    name = type(model).__name__ if hasattr(model, "named_parameters") else getattr(model, "__name__", "function")
    try:
        with _evaluating(model):
            merged = _trace_and_merge(model, leaves, spec, sizes, name)
        graph = _write_graph(library, merged, names, sizes, _parameter_names(model), export_params)
    except GraphBreak as broken:
        raise OnnxExporterError(
            f"ndgrad.onnx.export: {name} cannot be traced: {broken.reason}. Export the part of it that is a "
            "computation on its arguments alone. [nd-onnx]"
        ) from broken
    except Disagreement as error:
        raise OnnxExporterError(
            f"ndgrad.onnx.export: {name} does not leave the sizes {[s.name for s in sizes]} open: {error}. Export it "
            "with fixed sizes, or leave fewer of them open. [nd-onnx]"
        ) from error
    program = ONNXProgram(_model(library, graph, merged, names, output_names, sizes, opset, name))
    if verify:
        _verify(program, model, given, named)
    if f is not None:
        program.save(f)
    return program


def _library() -> Any:
    try:
        import onnx  # optional extra
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise OnnxExporterError(
            "ndgrad.onnx.export needs the package onnx, which could not be imported. Install it: pip install "
            "onnx. [nd-install]"
        ) from error
    return onnx


def _names(given: Sequence[str] | None, count: int, stem: str) -> list[str]:
    names = [*(given or ())]
    if len(names) > count or len(set(names)) < len(names):
        raise OnnxExporterError(
            f"ndgrad.onnx.export: {stem}_names are {names!r}, but there are {count} tensors to name. Give each a "
            f"name of its own. [nd-onnx]"
        )
    return [*names, *(f"{stem}_{i}" for i in range(len(names), count))]


def _parameter_names(model: Any) -> dict[int, str]:
    if not hasattr(model, "named_parameters"):
        return {}
    return {id(t): name for name, t in (*model.named_parameters(), *model.named_buffers())}


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Return a context in which a module is in eval mode and `is_in_onnx_export()` is true."""
    modes = {m: m.training for m in model.modules()} if hasattr(model, "modules") else {}
    token = _exporting.set(True)
    try:
        for module in modes:
            module.training = False
        yield
    finally:
        for module, training in modes.items():
            module.training = training
        _exporting.reset(token)


# ----- open sizes -----------------------------------------------------------------------------------------------------


def _open_sizes(tensors: Sequence[Any], names: Sequence[str], axes: Any, shapes: Any) -> list[OpenSize]:
    found: dict[str, OpenSize] = {}
    for place, axis, name in _named_axes(len(tensors), names, axes, shapes):
        shape = tensors[place].shape
        if not -len(shape) <= axis < len(shape):
            raise OnnxExporterError(
                f"ndgrad.onnx.export: {names[place]!r} has the shape {tuple(shape)}, and no dimension {axis} to "
                f"leave open. [nd-onnx]"
            )
        axis %= len(shape)
        size = found.setdefault(name, OpenSize(name, place, axis, int(shape[axis]), []))
        size.places.append((place, axis))
        if size.traced != shape[axis]:
            raise OnnxExporterError(
                f"ndgrad.onnx.export: the open size {name!r} is {size.traced} in one place and {shape[axis]} in "
                f"dimension {axis} of {names[place]!r}. Give sizes that can differ different names. [nd-onnx]"
            )
    return list(found.values())


def _named_axes(count: int, names: Sequence[str], axes: Any, shapes: Any) -> list[tuple[int, int, str]]:
    if axes and shapes:
        raise OnnxExporterError("ndgrad.onnx.export: give dynamic_axes or dynamic_shapes, not both. [nd-onnx]")
    found = []
    for key, dims in (axes or {}).items():
        if key in names:  # axes of outputs follow from those of inputs
            pairs = dims.items() if isinstance(dims, Mapping) else ((d, f"{key}_dim_{d}") for d in dims)
            found += [(names.index(key), int(d), str(n)) for d, n in pairs]
    if shapes:
        given = [*shapes.values()] if isinstance(shapes, Mapping) else [*shapes]
        if len(given) != count:
            raise OnnxExporterError(
                f"ndgrad.onnx.export: dynamic_shapes has {len(given)} entries, but there are {count} tensors "
                f"among the arguments. [nd-onnx]"
            )
        for place, dims in enumerate(given):
            for d, n in dims.items() if isinstance(dims, Mapping) else enumerate(dims or ()):
                if n is not None:
                    label = n if isinstance(n, str) else getattr(n, "__name__", "")
                    found.append((place, int(d), label if label.isidentifier() else f"{names[place]}_dim_{d}"))
    return found


class _Merged:
    """The program of all traces: that of the first, with numbers that follow open sizes."""

    def __init__(self, first: Traced) -> None:
        self.traced = first
        self.instructions: list[Instruction] = []
        self.shapes: dict[Value, tuple[int, ...]] = {}
        #: Constants, and the shapes of those that are one number over a varying shape.
        self.constants: dict[Value, tuple[Any, tuple[int, ...]]] = {}


def _trace_and_merge(model: Any, leaves: list[Any], spec: Any, sizes: Sequence[OpenSize], name: str) -> _Merged:
    merging = Merging(sizes)
    traces = []
    for change in merging.changes or [[]]:
        trial = {s.name: s.traced + more for s, more in zip(sizes, change, strict=True) if more}
        args, kwargs = tree_unflatten(_resize_arguments(leaves, sizes, trial), spec)
        traces.append(trace_call(model, args, kwargs, name, allow_writes=True))
    _check_agreement([t.program for t in traces])
    return _merge_traces(traces, merging)


def _check_agreement(programs: Sequence[Program]) -> None:
    first = programs[0]
    if any([i.op for i in p.instructions] != [i.op for i in first.instructions] for p in programs):
        raise Disagreement("other ops run for other sizes")
    if any(len(p.inputs) != len(first.inputs) or len(p.constants) != len(first.constants) for p in programs):
        raise Disagreement("other tensors take part for other sizes")


def _merge_traces(traces: Sequence[Traced], merging: Merging) -> _Merged:
    programs = [t.program for t in traces]
    made = _Merged(traces[0])
    for values in zip(*(p.inputs for p in programs), strict=True):
        made.shapes[values[0]] = merging.shape([v.shape for v in values])
    for values in zip(*(p.constants for p in programs), strict=True):
        shape = made.shapes[values[0]] = merging.shape([v.shape for v in values])
        made.constants[values[0]] = _constant([p.constants[v] for p, v in zip(programs, values)], shape)
    for each in zip(*(p.instructions for p in programs), strict=True):
        settings = {k: merging.setting([i.settings[k] for i in each]) for k in each[0].settings}
        plain = zip(*(i.arguments for i in each), strict=True)
        arguments = tuple(a[0] if isinstance(a[0], Value) else merging.setting(a) for a in plain)
        made.instructions.append(Instruction(each[0].op, arguments, settings, each[0].results, each[0].where))
        for results in zip(*(i.results for i in each), strict=True):
            made.shapes[results[0]] = merging.shape([v.shape for v in results])
    return made


def _resize_arguments(leaves: list[Any], sizes: Sequence[OpenSize], trial: dict[str, int]) -> list[Any]:
    """Return the arguments with other sizes, their values repeated: a trace does not depend on values."""
    found, place = [], -1
    by_name = {s.name: s for s in sizes}
    for leaf in leaves:
        if isinstance(leaf, Variable):
            place += 1
            for name, n in trial.items():
                for axis in [a for p, a in by_name[name].places if p == place]:
                    leaf = leaf.index_select(axis, from_numpy(np.arange(n) % max(leaf.shape[axis], 1)))
        found.append(leaf)
    return found


def _constant(arrays_: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    first = arrays_[0]
    if not any(isinstance(n, Varying) for n in shape):
        if not all(np.array_equal(first, a, equal_nan=first.dtype.kind in "fc") for a in arrays_):
            raise Disagreement(f"a constant of shape {first.shape} has other values for other sizes")
        return first, ()
    values = {a.ravel()[0].item() if a.size else None for a in arrays_}
    if len(values) != 1 or any(a.size and (a != a.ravel()[0]).any() for a in arrays_):
        raise Disagreement(f"a constant of shape {first.shape} has a size that is open, and different values")
    return first.ravel()[:1].reshape(()), shape


# ----- writing --------------------------------------------------------------------------------------------------------


def _write_graph(
    library: Any,
    merged: _Merged,
    names: Sequence[str],
    sizes: Sequence[OpenSize],
    parameters: dict[int, str],
    export_params: bool,
) -> Graph:
    g = Graph(library, sizes)
    program, count = merged.traced.program, merged.traced.arguments
    g.input_names = list(names)
    g.shapes = merged.shapes
    if not export_params:
        raise OnnxExporterError(
            "ndgrad.onnx.export: export_params=False is not written: a model holds its parameters. [nd-onnx]"
        )
    for value, name in zip(program.inputs[:count], names, strict=True):
        g.names[value] = name
    for value, t in zip(program.inputs[count:], merged.traced.held, strict=True):
        name = parameters.get(id(t)) or g.fresh("held")
        g.names[value] = name
        g.initializers.append(g.tensor(name, np.asarray(memory_of(t))))
    for value, (array, shape) in merged.constants.items():
        g.names[value] = g.node("Expand", g.constant(array), g.numbers(shape)) if shape else g.constant(array)
    needed = _find_needed(merged)
    for instruction in merged.instructions:
        if id(instruction) in needed:
            _write(g, instruction)
    return g


def _find_needed(merged: _Merged) -> set[int]:
    """Return the instructions on which an output depends, by identity."""
    wanted, found = set(merged.traced.program.outputs), set()
    for instruction in reversed(merged.instructions):
        if any(r in wanted for r in instruction.results):
            found.add(id(instruction))
            wanted.update(instruction.values())
    return found


def _write(g: Graph, i: Instruction) -> None:
    writer = WRITERS.get(i.op.name)
    if writer is None and i.op.body is not None:
        writer = _write_body
    place = f" ({i.where})" if i.where else ""
    if writer is None:
        theirs = " The translation registered for it builds nodes of torch's older exporter, which does not exist here."
        raise OnnxExporterError(
            f"ndgrad.onnx.export: the op {i.op.name}{place} is not written in ONNX here."
            f"{theirs if i.op.name in registered else ''} Use ops of the usual networks, or export the parts before "
            "and after it. [nd-onnx]"
        )
    try:
        made = writer(g, i)
    except KeyError as missing:
        if not isinstance(missing.args[0], Value):
            raise
        raise OnnxExporterError(
            f"ndgrad.onnx.export: {i.op.name}{place} uses the places that a pooling found, which ONNX counts in "
            "another way. Use its values alone. [nd-onnx]"
        ) from None
    for result, name in zip(i.results, (made,) if isinstance(made, str) else made, strict=True):
        if name:
            g.names[result] = name


def _write_body(g: Graph, i: Instruction) -> Sequence[str]:
    """Write a composite op by the ops of its body."""
    walk = Walk(Program([], []), Rules())
    out = i.op.body(TermOps(walk), as_terms(walk, i.arguments), i.settings)
    # The size of an intermediate value is open where an argument or the result of the same size has an open one.
    known = {v.shape: g.shapes[v] for v in (*i.values(), *i.results) if v in g.shapes}
    g.names.update({value: g.constant(array) for value, array in walk.constants.items()})
    for inner in walk.instructions:
        for v in inner.results:
            if v.shape in known or not g.sizes:
                g.shapes[v] = known.get(v.shape, v.shape)
        inner.where = i.where
        _write(g, inner)
    return [g.names[term.value] for term in (out if isinstance(out, tuple) else (out,))]


def _model(
    library: Any,
    g: Graph,
    merged: _Merged,
    names: Sequence[str],
    output_names: Sequence[str] | None,
    sizes: Sequence[OpenSize],
    opset: int,
    name: str,
) -> onnx.ModelProto:
    helper, program = library.helper, merged.traced.program
    outputs = _names(output_names, len(program.outputs), "output")
    for value, output in zip(program.outputs, outputs, strict=True):
        if value not in g.names:
            raise OnnxExporterError(
                f"ndgrad.onnx.export: {output} are the places that a pooling found, which ONNX counts in another "
                "way. Return its values alone. [nd-onnx]"
            )
        g.nodes.append(helper.make_node("Identity", [g.names[value]], [output]))

    def describe_value(value: Value, label: str) -> Any:
        shape = [_describe_size(n, sizes) for n in merged.shapes[value]]
        return helper.make_tensor_value_info(label, g.kind(value.dtype), shape)

    graph = helper.make_graph(
        g.nodes,
        name,
        [describe_value(v, n) for v, n in zip(program.inputs, names)],
        [describe_value(v, n) for v, n in zip(program.outputs, outputs, strict=True)],
        g.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="ndgrad")
    model.ir_version = _FILE_FORMAT if opset < 19 else 9 if opset < 21 else 10
    library.checker.check_model(model, full_check=True)
    return model


def _describe_size(n: int, sizes: Sequence[OpenSize]) -> int | str | None:
    """Return a size, the name of an open one, or None for one that depends on open ones."""
    if not isinstance(n, Varying):
        return n
    one = [s.name for s, f in zip(sizes, n.factors) if f]
    return one[0] if len(one) == 1 and n.constant == 0 and sum(n.factors) == 1 else None


def _verify(program: ONNXProgram, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    from ndgrad._src.core.grad_mode import no_grad  # only needed here

    with _evaluating(model), no_grad():
        want = [leaf for leaf in tree_flatten(model(*args, **kwargs))[0] if isinstance(leaf, Variable)]
    for i, (got, t) in enumerate(zip(program(*args, **kwargs), want, strict=True)):
        a, b = np.asarray(memory_of(got)), np.asarray(memory_of(t))
        if a.shape != b.shape or not np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True):
            worst = np.abs(a - b).max() if a.shape == b.shape else f"shapes {a.shape} and {b.shape}"
            raise OnnxExporterError(
                f"ndgrad.onnx.export: verify=True found that output {i} of the model differs: {worst}. Report "
                f"this as a bug. [nd-onnx]"
            )
