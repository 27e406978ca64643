"""Drawn programs, and the source of their sizes, dtypes and layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.libraries import Functional
from benchmarks.registry import Step

LAYOUTS = ("plain", "transposed", "stepped")


@dataclass
class Case:
    """A drawn program: leaves with their layouts, data, and the loss in each dialect."""

    title: str
    arrays: list[np.ndarray]
    layouts: list[str]
    data: list[np.ndarray]
    #: Takes a namespace of torch's dialect, the leaves in their layouts, and the data.
    torch_loss: Callable[[Any, list[Any], list[Any]], Any]
    functional_loss: Callable[[Functional, list[Any], list[Any]], Any]


@dataclass
class Transform:
    """A drawn program that is not a loss: a Hessian, gradients of each sample, Jacobians of each row."""

    title: str
    #: Takes a namespace of torch's dialect and returns the step.
    program: Callable[[Any], Step]
    functional: Callable[[Functional], Step]


class Draw:
    """A source of sizes, dtypes and arrays."""

    def __init__(self, seed: Sequence[int]) -> None:
        self.random = np.random.default_rng(seed)
        self.dtype = np.dtype(self.random.choice(["float32", "float64"]))

    def size(self, low: int = 3, high: int = 3000) -> int:
        """Draw a number on a logarithmic scale; two of three are odd."""
        found = int(np.exp(self.random.uniform(np.log(low), np.log(high))))
        return found | 1 if self.random.random() < 2 / 3 else found

    def batch(self, high: int) -> int:
        """Draw a size; every third is one."""
        return 1 if self.random.random() < 1 / 3 else self.size(2, high)

    def layout(self) -> str:
        return str(self.random.choice(LAYOUTS))

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * self.random.standard_normal(shape)).astype(self.dtype)

    def weight(self, fan_in: int, fan_out: int) -> np.ndarray:
        return self.normal(fan_in, fan_out, scale=fan_in**-0.5)


def store_in_layout(array: np.ndarray, layout: str) -> np.ndarray:
    """Return the leaf that gives this array when it is read in a layout."""
    if layout == "transposed":
        return np.ascontiguousarray(np.swapaxes(array, -2, -1)) if array.ndim > 1 else array
    return np.repeat(array, 2, axis=-1) if layout == "stepped" else array


def read_in_layout(leaf: Any, layout: str) -> Any:
    """Return a leaf as a program reads it in a layout."""
    if layout == "transposed":
        return leaf.swapaxes(-2, -1) if len(leaf.shape) > 1 else leaf
    return leaf[..., ::2] if layout == "stepped" else leaf
