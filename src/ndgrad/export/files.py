"""Files of exported programs: readable text and tensors, without code.

A file is a zip archive of three entries:

    version.json         the name of the format and its version
    program.json         inputs, one node per line, outputs, open sizes
    tensors.safetensors  parameters, buffers and constants

A target of a node is an op by name, so a file runs nothing but ops: those of the table, registered ones, and a few
functions of numbers. Loading evaluates no code.
"""

from __future__ import annotations

import io
import json
import math
import operator
import os
import zipfile
from typing import IO, Any

import numpy as np

import ndgrad
from ndgrad import safetensors
from ndgrad._src.arrays.dtypes import as_numpy_dtype, dtype
from ndgrad._src.core.op_observers import InPlaceForm, in_place_form
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.devices import device
from ndgrad._src.ops.table import Op
from ndgrad._src.ops.vocabulary import find
from ndgrad.export.dims import OpenSize, Symbol
from ndgrad.export.program import CallSpec, ExportedProgram, Leaf
from ndgrad.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from ndgrad.fx.graph import Graph
from ndgrad.fx.node import Node
from ndgrad.fx.programs import ValueMetadata
from ndgrad.library.overloads import OpOverload, find_overload
from ndgrad.nn.parameter import Parameter
from ndgrad.ops.aten import FunctionOverload, _find_function
from ndgrad.utils import _pytree

__all__ = ["load", "save"]

FORMAT, VERSION = "ndgrad.export", 1
#: Functions other than ops that nodes may call.
_FUNCTIONS = {
    **{f"operator.{name}": getattr(operator, name) for name in "add sub mul floordiv truediv pow getitem".split()},
    **{f"ndgrad.{name}": getattr(ndgrad, name) for name in ("full", "arange", "eye", "tensor")},
}  # fmt: skip


class _Encoder:
    """Writes values of a program as JSON; arrays go into the file's tensors."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def encode(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, (int, np.integer)) and not isinstance(value, np.bool_):
            return int(value)
        if isinstance(value, (float, np.floating)):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, Node):
            return {"node": value.name}
        if isinstance(value, list):
            return [self.encode(v) for v in value]
        if isinstance(value, tuple):
            return {"tuple": [self.encode(v) for v in value]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        if isinstance(value, slice):
            return {"slice": [self.encode(v) for v in (value.start, value.stop, value.step)]}
        if value is Ellipsis:
            return {"ellipsis": True}
        if isinstance(value, dtype):
            return {"dtype": as_numpy_dtype(value).name}
        if isinstance(value, np.dtype):
            return {"numpy_dtype": value.name}
        if isinstance(value, device):
            return {"device": str(value)}
        if isinstance(value, np.ndarray):
            name = f"array_{len(self.arrays)}"
            self.arrays[name] = ndgrad.as_tensor(value)
            return {"array": name}
        raise TypeError(
            f"save: a value of type {type(value).__name__} in the program cannot be written: {value!r}. [nd-export]"
        )

    def encode_target(self, target: Any) -> dict[str, str]:
        if isinstance(target, OpOverload):
            return {"call": target.name()}
        if isinstance(target, InPlaceForm):
            return {"in_place": target.op.name}
        if isinstance(target, Op):
            return {"op": target.name}
        if isinstance(target, FunctionOverload):
            return {"aten": target.name}
        for name, function in _FUNCTIONS.items():
            if function is target:
                return {"function": name}
        raise TypeError(
            f"save: {target!r} cannot be written: it is a loop or a branch of a program. Save the module's state_dict, "
            "and export again. [nd-export]"
        )


def _find_dtype(name: str) -> np.dtype[Any]:
    found = getattr(ndgrad, {"bool": "bool"}.get(name, name), None)
    if not isinstance(found, dtype):
        raise ValueError(f"load: the file names the dtype {name!r}, which does not exist. [nd-export]")
    return as_numpy_dtype(found)


class _Decoder:
    """Reads values that `_Encoder` wrote."""

    def __init__(self, nodes: dict[str, Any], tensors: dict[str, Any]) -> None:
        self.nodes, self._tensors = nodes, tensors

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(v) for v in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        match kind:
            case "float":
                return float(content)
            case "complex":
                return complex(*content)
            case "node":
                return self.nodes[content]
            case "tuple":
                return tuple([self.decode(v) for v in content])
            case "dict":
                return {self.decode(k): self.decode(v) for k, v in content}
            case "slice":
                return slice(*[self.decode(v) for v in content])
            case "ellipsis":
                return Ellipsis
            case "dtype":
                return getattr(ndgrad, _find_dtype(content).name)
            case "numpy_dtype":
                return _find_dtype(content)
            case "device":
                return device(content)
            case "array":
                return self._tensors[content].numpy()
        raise ValueError(f"load: the file has a value of the unknown kind {kind!r}. [nd-export]")

    def decode_target(self, target: dict[str, str]) -> Any:
        ((kind, name),) = target.items()
        match kind:
            case "call":
                return find_overload(name)
            case "op":
                return find(name)
            case "in_place":
                return in_place_form(find(name))
            case "aten":
                return _find_function(name)
        if kind != "function" or name not in _FUNCTIONS:
            raise ValueError(f"load: the file calls {name!r}, which is no op. [nd-export]")
        return _FUNCTIONS[name]


def _encode_argument(encoder: _Encoder, arg: Any) -> Any:
    return {"name": arg.name, **({"value": encoder.encode(arg.value)} if isinstance(arg, ConstantArgument) else {})}


def _decode_argument(decoder: _Decoder, arg: dict[str, Any]) -> Any:
    return (
        ConstantArgument(arg["name"], decoder.decode(arg["value"])) if "value" in arg else TensorArgument(arg["name"])
    )


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
) -> None:
    """Write an exported program to a file, by convention `.pt2`: text and tensors, in a format of ndgrad.

    Args:
        ep: program to write.
        f: path, or file that is open for bytes.
        extra_files: further texts to write, by name.
        opset_version: must be empty: ops have one version.

    >>> import io, ndgrad
    >>> program = ndgrad.export.export(ndgrad.nn.Linear(3, 2), (ndgrad.ones(4, 3),))
    >>> file = io.BytesIO()
    >>> ndgrad.export.save(program, file)
    >>> ndgrad.export.load(file).module()(ndgrad.ones(4, 3)).shape
    ndgrad.Size([4, 2])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead. [nd-type]"
        )
    if opset_version:
        raise NotImplementedError(
            "save: opset_version selects torch's ops; the ops here have one version. [nd-unsupported]"
        )
    contents = _write_program(ep, extra_files or {})
    if isinstance(f, (str, os.PathLike)):
        with open(f, "wb") as file:
            file.write(contents)
    else:
        f.write(contents)


def _write_program(ep: ExportedProgram, extra_files: dict[str, Any]) -> bytes:
    encoder = _Encoder()
    signature = ep.graph_signature
    nodes = [
        {
            "name": node.name,
            "target": encoder.encode_target(node.target),
            "args": encoder.encode(list(node.args)),
            **({"kwargs": encoder.encode(dict(node.kwargs))} if node.kwargs else {}),
            **_encode_shape(node),
        }
        for node in ep.graph.nodes
        if node.op == "call_function"
    ]
    example = None
    if ep.example_inputs is not None:
        leaves = _pytree.tree_leaves(ep.example_inputs)
        example = [encoder.encode(v.detach().numpy() if isinstance(v, Variable) else v) for v in leaves]
    parts: dict[str, Any] = {
        "arguments": ep._names,
        "in_spec": json.loads(_pytree.treespec_dumps(ep.call_spec.in_spec)),
        "out_spec": json.loads(_pytree.treespec_dumps(ep.call_spec.out_spec)),
        "symbols": [[s.name, s.min, s.max, s.example] for s in ep._symbols.values()],
        "sizes": [[s.leaf, s.dim, s.symbol, s.factor, s.offset] for s in ep._sizes],
        "leaves": [
            {"name": leaf.name, "shape": list(leaf.shape), "dtype": encoder.encode(leaf.dtype)}
            if leaf.shape is not None
            else {"name": leaf.name, "value": encoder.encode(leaf.value)}
            for leaf in ep._leaves
        ],
        "inputs": [
            {
                "kind": s.kind.name,
                "arg": _encode_argument(encoder, s.arg),
                "target": s.target,
                "persistent": s.persistent,
            }
            for s in signature.input_specs
        ],
        "nodes": nodes,
        "outputs": [
            {"kind": s.kind.name, "arg": _encode_argument(encoder, s.arg), "target": s.target}
            for s in signature.output_specs
        ],
        "results": encoder.encode(list(ep.graph.output_node().args[0])),
        "trained": [name for name, p in ep.named_parameters() if p.requires_grad],
        "example": example,
    }
    tensors = {f"state.{name}": t.detach() for name, t in ep.state_dict.items()}
    tensors |= {f"constant.{name}": t.detach() for name, t in ep.constants.items()}
    tensors |= encoder.arrays
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("version.json", json.dumps({"format": FORMAT, "version": VERSION}))
        archive.writestr("program.json", _format_json(parts))
        archive.writestr(
            "tensors.safetensors", safetensors.save({k: t.contiguous().clone() for k, t in tensors.items()})
        )
        for name, content in extra_files.items():
            archive.writestr(f"extra/{name}", content)
    return memory.getvalue()


def _encode_shape(node: Node) -> dict[str, Any]:
    found = node.meta.get("val")
    if not isinstance(found, ValueMetadata):
        return {}
    return {"shape": list(found.shape), "dtype": as_numpy_dtype(found.dtype).name}


def _format_json(parts: dict[str, Any]) -> str:
    """Return JSON with one entry of a list per line."""
    lines = []
    for key, value in parts.items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(v) for v in value)
            lines.append(f"{json.dumps(key)}: [\n  {items}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n".join(lines) + "}"


def load(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Return an exported program that `save` wrote. No code of the file runs.

    Args:
        f: path, or file that is open for bytes.
        extra_files: dict with names of texts to read. They become its values.
        expected_opset_version: must be empty: ops have one version.

    >>> import io, ndgrad
    >>> file = io.BytesIO()
    >>> ndgrad.export.save(ndgrad.export.export(lambda x: x + 1, (ndgrad.ones(2),)), file)
    >>> ndgrad.export.load(file).module()(ndgrad.zeros(2))
    tensor([1., 1.])
    """
    if expected_opset_version:
        raise NotImplementedError(
            "load: expected_opset_version names torch's ops; the ops here have one version. [nd-unsupported]"
        )
    if not isinstance(f, (str, os.PathLike)):
        f.seek(0)
    try:
        archive = zipfile.ZipFile(f)
        version = json.loads(archive.read("version.json"))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise RuntimeError(f"load: this is no file of ndgrad.export.save: {error} [nd-export]") from None
    with archive:
        if version.get("format") != FORMAT or version.get("version") != VERSION:
            raise RuntimeError(
                f"load: the file has the format {version.get('format')!r}, version {version.get('version')}; this "
                f"ndgrad reads {FORMAT!r}, version {VERSION}. [nd-export]"
            )
        parts = json.loads(archive.read("program.json"))
        tensors = safetensors.load(archive.read("tensors.safetensors"))
        for name in extra_files or {}:
            extra_files[name] = archive.read(f"extra/{name}").decode()  # type: ignore[index]  # it has the name
    return _read_program(parts, tensors)


def _read_program(parts: dict[str, Any], tensors: dict[str, Any]) -> ExportedProgram:
    graph = Graph()
    nodes: dict[str, Any] = {}
    decoder = _Decoder(nodes, tensors)
    inputs = [
        InputSpec(InputKind[p["kind"]], _decode_argument(decoder, p["arg"]), p["target"], p["persistent"])
        for p in parts["inputs"]
    ]
    for spec in inputs:
        nodes[spec.arg.name] = graph.placeholder(spec.arg.name)
    for part in parts["nodes"]:
        kwargs = decoder.decode(part.get("kwargs", {"dict": []}))
        target = decoder.decode_target(part["target"])
        node = graph.call_function(target, tuple(decoder.decode(part["args"])), kwargs, name=part["name"])
        if "shape" in part:
            kind = getattr(ndgrad, _find_dtype(part["dtype"]).name)
            node.meta["val"] = ValueMetadata(ndgrad.Size(part["shape"]), kind)
        nodes[part["name"]] = node
    graph.output(tuple(decoder.decode(parts["results"])))
    state = {k.removeprefix("state."): t for k, t in tensors.items() if k.startswith("state.")}
    for spec in inputs:
        if spec.kind is InputKind.PARAMETER and spec.target in state:
            state[spec.target] = Parameter(state[spec.target], requires_grad=spec.target in parts["trained"])
    constants = {k.removeprefix("constant."): t for k, t in tensors.items() if k.startswith("constant.")}
    outputs = [
        OutputSpec(OutputKind[p["kind"]], _decode_argument(decoder, p["arg"]), p["target"]) for p in parts["outputs"]
    ]
    leaves = [
        Leaf(p["name"], tuple(p["shape"]), decoder.decode(p["dtype"]))
        if "shape" in p
        else Leaf(p["name"], None, None, decoder.decode(p["value"]))
        for p in parts["leaves"]
    ]
    symbols = {name: Symbol(name, low, high, example) for name, low, high, example in parts["symbols"]}
    sizes = [OpenSize(*entry) for entry in parts["sizes"]]
    call = CallSpec(
        _pytree.treespec_loads(json.dumps(parts["in_spec"])), _pytree.treespec_loads(json.dumps(parts["out_spec"]))
    )
    example = None
    if parts["example"] is not None:
        values = [decoder.decode(v) for v in parts["example"]]
        values = [ndgrad.as_tensor(v) if isinstance(v, np.ndarray) else v for v in values]
        example = _pytree.tree_unflatten(values, call.in_spec)
    return ExportedProgram(
        graph, ExportGraphSignature(inputs, outputs), state, constants, leaves, symbols, sizes, parts["arguments"],
        call, example,
    )  # fmt: skip
