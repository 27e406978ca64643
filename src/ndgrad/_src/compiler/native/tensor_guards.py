"""Guards on tensors: the properties that a program depends on, and the distinctness of several.

    TensorAt(place, class, dtype, shape, strides, requires_grad, inference)     with a pointer for the kernel, or without
    Distinct(n)                    the first n tensors that yielded a pointer are distinct
    Outside(place, tensors)        none of these
    Writable(n, numbers)           the first n pointers lead to memory of one owner each, and some of it may be written

`requires_grad` is that of ndgrad._src.core.variable.requires_grad. For a view whose history may be out of date, Python
decides, unless nothing under it requires grad. The names of dimensions are not checked: users of these guards test
whether any tensor has ever had some (`process.named`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ndgrad._src.compiler.native.guards import DISTINCT, OUTSIDE, TENSOR, WRITABLE, Found, Place
from ndgrad._src.core.variable import BareTensor, Meta, requires_grad
from ndgrad._src.core.versions import InferenceStorage
from ndgrad._src.core.view import ViewInfo

#: Words that a row of this kind points at, followed by dimensions and strides.
CLASS, DTYPE, NDIM, SCALAR, RECORDED, INFERENCE, STORAGE, META, VIEW, TRUE, FALSE, NONE, NDARRAY, GIVES = range(14)
SIZES = 14


@dataclass(frozen=True, eq=False)
class TensorAt:
    """A tensor of this class over an array of this dtype, shape and layout, or over a NumPy scalar."""

    place: Place
    cls: type[Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool = False
    inference: bool = False
    gives_pointer: bool = True

    def find(self, arguments: tuple[Any, ...]) -> Found | None:
        t: Any = self.place.find(arguments)
        if t.__class__ is not self.cls:
            return None
        try:
            array, storage = t._array, t._storage
        except AttributeError:  # a slot that was never filled
            return None
        if type(array) is not np.ndarray and type(array) is not self.dtype.type:
            return None
        if (
            array.dtype is not self.dtype
            or array.shape != self.shape
            or array.strides != self.strides
            or not array.flags.aligned
        ):
            return None
        if requires_grad(t) is not self.requires_grad or (type(storage) is InferenceStorage) is not self.inference:
            return None
        array = np.asarray(array)
        return array.__array_interface__["data"][0], array

    def holds(self, arguments: tuple[Any, ...], found: list[Found]) -> bool:
        return self.find(arguments) is not None

    def row(self) -> tuple[list[int], list[Any]]:
        place, keeps = self.place.words()
        known = {
            CLASS: id(self.cls), DTYPE: id(self.dtype), NDIM: len(self.shape),
            SCALAR: 0 if self.shape else id(self.dtype.type),
            RECORDED: int(self.requires_grad), INFERENCE: int(self.inference), STORAGE: id(InferenceStorage),
            META: id(Meta),
            VIEW: id(ViewInfo), TRUE: id(True), FALSE: id(False), NONE: id(None), NDARRAY: id(np.ndarray),
            GIVES: int(self.gives_pointer),
        }  # fmt: skip
        words = np.array([*(known[i] for i in range(SIZES)), *self.shape, *self.strides], np.int64)
        return [TENSOR, *place, int(words.__array_interface__["data"][0])], [*keeps, self.cls, self.dtype, words]


@dataclass(frozen=True, eq=False)
class Distinct:
    """The first n tensors that yielded pointers are n distinct objects."""

    count: int

    place: Place = field(default=Place(), repr=False)
    gives_pointer = False

    def holds(self, arguments: tuple[Any, ...], found: list[Found]) -> bool:
        raise NotImplementedError("what gives a pointer in Python does not say which tensor it is of [nd-compiler]")

    def row(self) -> tuple[list[int], list[Any]]:
        place, _ = self.place.words()
        return [DISTINCT, *place, self.count], []


@dataclass(frozen=True, eq=False)
class Outside:
    """An argument that is none of these tensors."""

    place: Place
    tensors: tuple[BareTensor, ...]

    gives_pointer = False

    def holds(self, arguments: tuple[Any, ...], found: list[Found]) -> bool:
        value = self.place.find(arguments)
        return all(value is not t for t in self.tensors)

    def row(self) -> tuple[list[int], list[Any]]:
        place, keeps = self.place.words()
        words = np.array([id(t) for t in self.tensors], np.int64)
        return [OUTSIDE, *place, len(words), int(words.__array_interface__["data"][0])], [*keeps, words, self.tensors]


@dataclass(frozen=True, eq=False)
class Writable:
    """The arrays of the first n tensors that yielded pointers are distinct, and each owns its memory.

    A write to one is therefore no write to another. Some of them may be written, if their old contents are not needed.
    """

    count: int
    written: tuple[int, ...]

    place: Place = field(default=Place(), repr=False)
    gives_pointer = False

    def holds(self, arguments: tuple[Any, ...], found: list[Found]) -> bool:
        raise NotImplementedError("what gives a pointer in Python does not say which tensor it is of [nd-compiler]")

    def row(self) -> tuple[list[int], list[Any]]:
        place, _ = self.place.words()
        words = np.array([len(self.written), id(np.ndarray), id(None), id(False), *self.written], np.int64)
        # Size of a hash table of the arrays seen so far; at most half full.
        bits = max(self.count, 2).bit_length() + 1
        met = np.zeros(1 << bits, np.int64)
        addresses = [int(a.__array_interface__["data"][0]) for a in (words, met)]
        return [WRITABLE, *place, self.count, addresses[0], addresses[1], bits], [words, met]
