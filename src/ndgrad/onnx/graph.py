"""The graph of a model under construction: nodes with their names, and values of the traced program by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.compiler.program.program import Value
from ndgrad.onnx.sizes import OpenSize, Varying

if TYPE_CHECKING:
    import onnx

#: The largest integer means "to the end" in a slice.
END = np.iinfo(np.int64).max


class OnnxExporterError(RuntimeError):
    """A function cannot be written as an ONNX model."""


class Graph:
    """Collects nodes and initializers. `node` returns names, which other nodes take."""

    def __init__(self, library: Any, sizes: Sequence[OpenSize]) -> None:
        self.library, self.sizes = library, sizes
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.names: dict[Value, str] = {}
        self.shapes: dict[Value, tuple[int, ...]] = {}
        self.input_names: list[str] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._open: list[str | None] = [None] * len(sizes)
        self._count = 0

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return the name of its output, or a list of them."""
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(self.library.helper.make_node(kind, list(inputs), names, **given))
        return names[0] if outputs == 1 else names

    def constant(self, array: Any, dtype: Any = None) -> str:
        """Return the name of a constant array in the model; equal ones are shared."""
        held = np.ascontiguousarray(array, dtype=dtype).reshape(np.shape(array))
        key = (held.dtype.str + held.dtype.name, held.shape, held.tobytes())
        if key not in self._constants:
            name = self._constants[key] = self.fresh("constant")
            self.initializers.append(self.tensor(name, held))
        return self._constants[key]

    def tensor(self, name: str, array: Any) -> onnx.TensorProto:
        made = self.library.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        return made

    # ----- arguments --------------------------------------------------------------------------------------------------

    def argument(self, value: Any, dtype: Any) -> str:
        """Return the name of an argument, as an array of this dtype."""
        if isinstance(value, Value):
            name = self.names[value]
            return name if value.dtype == dtype else self.cast(name, dtype)
        if isinstance(value, Varying):
            return self.cast(self.node("Squeeze", self.numbers([value])), dtype)
        return self.constant(np.asarray(value), dtype)

    def cast(self, name: str, dtype: Any) -> str:
        made: str = self.node("Cast", name, to=self.kind(dtype))
        return made

    def kind(self, dtype: Any) -> int:
        """Return ONNX's number for a dtype."""
        found: int = self.library.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return found

    def shape(self, value: Value) -> tuple[int, ...]:
        """Return a shape, in which open sizes are `Varying`."""
        return self.shapes[value]

    # ----- whole numbers, among them open sizes -----------------------------------------------------------------------

    def numbers(self, values: Sequence[int]) -> str:
        """Return the name of a one-dimensional array of int64."""
        if not any(isinstance(v, Varying) for v in values):
            return self.constant(np.asarray(values, np.int64))
        parts = [
            self._number(v) if isinstance(v, Varying) else self.constant(np.asarray([v], np.int64)) for v in values
        ]
        made: str = parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)
        return made

    def require_fixed(self, values: Any, what: str) -> Any:
        """Return numbers for a node's attributes, which cannot follow open sizes."""
        for v in values if isinstance(values, (tuple, list)) else (values,):
            if isinstance(v, Varying):
                raise OnnxExporterError(
                    f"ndgrad.onnx.export: {what} depends on a size that is open, and ONNX wants a number there. "
                    "Leave that size out of dynamic_axes and dynamic_shapes. [nd-onnx]"
                )
        return list(values) if isinstance(values, (tuple, list)) else values

    def _number(self, value: Varying) -> str:
        total: str | None = None if value.constant == 0 else self.constant(np.asarray([value.constant], np.int64))
        for i, factor in enumerate(value.factors):
            if factor:
                size = self._size(i)
                term = size if factor == 1 else self.node("Mul", size, self.constant(np.asarray([factor], np.int64)))
                total = term if total is None else self.node("Add", total, term)
        assert total is not None
        return total

    def _size(self, i: int) -> str:
        if self._open[i] is None:
            size = self.sizes[i]
            self._open[i] = self.node("Shape", self.input_names[size.input], start=size.axis, end=size.axis + 1)
        found = self._open[i]
        assert found is not None
        return found
