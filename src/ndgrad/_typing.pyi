"""Types for annotations: arguments that many public functions share, and classes of higher layers.

A function of torch's tensor class takes a `Tensor`, and a number or plain array where torch takes a number. A function
of NumPy's tensor class takes an Array, and everything that NumPy converts to an array.

This is a stub without a module. An annotation with a type of a higher layer therefore imports nothing at run time.
"""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Protocol, SupportsIndex, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from ndgrad._src.tensor.tensor_class import Tensor as Tensor
from ndgrad._src.custom_functions.function import FunctionNode as FunctionNode
from ndgrad._src.core.save_plan import SavePlan as SavePlan
from ndgrad._src.engine.engine import GraphTask as GraphTask
from ndgrad._src.engine.graph import GradientEdge as GradientEdge
from ndgrad._src.core.input_metadata import InputMetadata as InputMetadata
from ndgrad._src.interpreters.levels import Level as Level
from ndgrad._src.core.node import Node
from ndgrad._src.core.versions import Storage as Storage
from ndgrad._src.core.view import ViewInfo as ViewInfo
from ndgrad._src.foundations.devices import device, layout, memory_format
from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.arrays.generator import Generator as Generator
from ndgrad.numpy._array import Array as Array
from ndgrad._src.ops.vocabulary import PlainOps, RawOps, TensorOps

__all__ = [
    "Array", "ArrayLike", "Axes", "Axis", "Device", "Dims", "Dtype", "FactoryOptions", "FunctionNode", "Generator",
    "GradientEdge", "GradNode", "GraphTask", "Index", "InputMetadata", "Layout", "Level", "Library", "MemoryFormat", "Number", "Out",
    "Payload", "RandomOptions", "RandomState", "SavePlan", "Shape", "SizedOptions", "Sizes", "Storage", "Tensor",
    "TensorLike", "Tensors", "ViewInfo", "Vocabulary",
]  # fmt: skip

#: A Python number.
Number: TypeAlias = bool | int | float | complex
#: A tensor, or a value that is converted to one: `ndgrad.where(x > 0, x, 0.0)`.
TensorLike: TypeAlias = Tensor | Number | np.generic | npt.NDArray[Any]
#: A tuple or list of tensors.
Tensors: TypeAlias = Sequence[Tensor]
#: One dimension or several. None usually means all.
Dims: TypeAlias = int | Sequence[int] | None
#: A size for each dimension, or the size of the only dimension.
Shape: TypeAlias = int | Sequence[int]
#: The size of every dimension, like NumPy's `shape`.
Sizes: TypeAlias = tuple[int, ...]
#: A dtype of ndgrad or NumPy, or Python's float, int, bool or complex. None keeps or infers it.
Dtype: TypeAlias = dtype | np.dtype[Any] | type[Any] | str | None
#: A device, its name ("cpu", "cuda:1") or the number of a GPU. None is the default device.
Device: TypeAlias = device | str | int | None
#: An array of NumPy, CuPy or another library, or a tensor of the level below.
Payload: TypeAlias = Any
#: Functions for rules: `ops.sin` of arrays, or of tensors (see ndgrad._src.ops.vocabulary).
Vocabulary: TypeAlias = RawOps | TensorOps | PlainOps
Layout: TypeAlias = layout | None
MemoryFormat: TypeAlias = memory_format | None

#: A value that is converted to an Array.
ArrayLike: TypeAlias = Array | Tensor | npt.ArrayLike
#: An axis. None usually means the flattened array.
Axis: TypeAlias = int | None
#: One axis or several; None means all.
Axes: TypeAlias = int | Sequence[int] | None
#: Destination of a result: an Array, which gets its history, or an ndarray if no derivative is lost.
Out: TypeAlias = Array | npt.NDArray[Any] | tuple[Array | npt.NDArray[Any] | None, ...] | None
#: A source of random numbers in SciPy: a seed, NumPy's generator or its older random state. None is the global state.
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
#: An index in brackets: x[1], x[2:, None], x[mask].
Index: TypeAlias = _Item | tuple[_Item, ...]
_Item: TypeAlias = SupportsIndex | slice | EllipsisType | ArrayLike | None

class Library(Protocol):
    """An array library: NumPy, CuPy, or a replacement of one."""

    def __getattr__(self, name: str) -> Any: ...

class GradNode(Node):
    """A node in user code. It also has the attributes of its op (`_saved_result`) or leaf (`variable`)."""

    # Any includes None here: programs read attributes of the result without a check, as of Tensor.grad_fn.
    @property
    def next_functions(self) -> tuple[tuple[GradNode | Any, int], ...]: ...
    def __getattr__(self, name: str) -> Any: ...

class FactoryOptions(TypedDict, total=False):
    """Keyword arguments of all factories: `ndgrad.zeros(3, dtype=ndgrad.float64)`."""

    out: Tensor | None
    dtype: Dtype
    layout: Layout
    device: Device
    requires_grad: bool
    pin_memory: bool
    names: Sequence[str | None] | None


class SizedOptions(FactoryOptions, total=False):
    """Keyword arguments of factories that also take the shape by name: `ndgrad.zeros(size=(2, 3))`."""

    size: Shape


class RandomOptions(FactoryOptions, total=False):
    """Keyword arguments of random factories: `ndgrad.rand(3, generator=g)`."""

    generator: Generator | None
