"""Types by name, for annotations: those of arguments that many public functions share, and those of rooms above the one
that names them.

What a function of torch's tensor class takes is a `Tensor`; a number or a plain array is taken too wherever torch takes a
number. What a function of NumPy's tensor class takes is whatever NumPy makes an array of, and Arrays.

A stub, since nothing of it is there at run time: naming the type of a higher room imports nothing.
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
#: A tensor, or what becomes one beside a tensor: `ndgrad.where(x > 0, x, 0.0)`.
TensorLike: TypeAlias = Tensor | Number | np.generic | npt.NDArray[Any]
#: Several tensors: a tuple or a list of them.
Tensors: TypeAlias = Sequence[Tensor]
#: One dimension or several; None means all of them, or what the function says.
Dims: TypeAlias = int | Sequence[int] | None
#: Sizes: one number, or one per dimension.
Shape: TypeAlias = int | Sequence[int]
#: The size of every dimension, as NumPy's `shape` is.
Sizes: TypeAlias = tuple[int, ...]
#: What names a dtype: ndgrad's, NumPy's, or Python's float, int, bool and complex. None keeps or infers it.
Dtype: TypeAlias = dtype | np.dtype[Any] | type[Any] | str | None
#: What names a device: "cpu", "cuda:1", the number of a GPU; None is the default one.
Device: TypeAlias = device | str | int | None
#: An array of NumPy, CuPy or another library, or a tensor of the level below.
Payload: TypeAlias = Any
#: What rules compute with: `ops.sin` of arrays, or of tensors (see ndgrad._src.ops.vocabulary).
Vocabulary: TypeAlias = RawOps | TensorOps | PlainOps
Layout: TypeAlias = layout | None
MemoryFormat: TypeAlias = memory_format | None

#: What NumPy's tensor class makes an Array of.
ArrayLike: TypeAlias = Array | Tensor | npt.ArrayLike
#: An axis; None means that the array is taken as flat, or what the function says.
Axis: TypeAlias = int | None
#: One axis or several; None means all.
Axes: TypeAlias = int | Sequence[int] | None
#: Where a result is written, if anywhere: into an Array with its history, into an ndarray only where no derivative
#: would be lost.
Out: TypeAlias = Array | npt.NDArray[Any] | tuple[Array | npt.NDArray[Any] | None, ...] | None
#: What SciPy draws by: a seed, NumPy's generator or its older random state; None is NumPy's global state.
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
#: What stands in brackets: x[1], x[2:, None], x[mask].
Index: TypeAlias = _Item | tuple[_Item, ...]
_Item: TypeAlias = SupportsIndex | slice | EllipsisType | ArrayLike | None

class Library(Protocol):
    """An array library: NumPy, CuPy, or what stands in for one."""

    def __getattr__(self, name: str) -> Any: ...

class GradNode(Node):
    """A node as programs see it: with the attributes of its op (`_saved_result`) or leaf (`variable`) beside those of
    all."""

    @property
    def next_functions(self) -> tuple[tuple[GradNode | Any, int], ...]: ...  # Any stands for None, as in Tensor.grad_fn
    def __getattr__(self, name: str) -> Any: ...

class FactoryOptions(TypedDict, total=False):
    """The keyword arguments that all factories share: `ndgrad.zeros(3, dtype=ndgrad.float64)`."""

    out: Tensor | None
    dtype: Dtype
    layout: Layout
    device: Device
    requires_grad: bool
    pin_memory: bool  # accepted for torch's sake
    names: Sequence[str | None] | None


class SizedOptions(FactoryOptions, total=False):
    """Those of factories that take the shape by name too: `ndgrad.zeros(size=(2, 3))`."""

    size: Shape


class RandomOptions(FactoryOptions, total=False):
    """Those of random factories: `ndgrad.rand(3, generator=g)`."""

    generator: Generator | None
