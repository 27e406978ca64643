"""The registry of GPU programs, and the parts that programs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Step = Callable[[], Any]
Make = TypeVar("Make", bound=Callable[..., Step])


class DEVICE:
    """The device of all programs. On the CPU they can be tried without a GPU."""

    name = "cuda"


@dataclass(frozen=True)
class Row:
    """A named step; `make` takes the library's namespace."""

    name: str
    title: str
    make: Callable[[Any], Step]
    #: Largest difference of the losses of two libraries, relative to their size.
    tolerance: float = 1e-3
    #: True if the step is a recorded graph, which cannot be compiled.
    is_recorded: bool = False


ROWS: list[Row] = []


def row(name: str, title: str, tolerance: float = 1e-3) -> Callable[[Make], Make]:
    """Add a function to the table."""

    def enter(make: Make) -> Make:
        ROWS.append(Row(name, title, make, tolerance, name.endswith("-graph")))
        return make

    return enter


def on_device(torch: Any, array: np.ndarray, dtype: Any = None, leaf: bool = False) -> Any:
    t = torch.tensor(array, device=DEVICE.name)
    t = t if dtype is None else t.to(dtype)
    return t.requires_grad_() if leaf else t


def draw_normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def fill_parameters(torch: Any, model: Any, dtype: Any = None) -> Any:
    """Move a module to the device, with parameters that are the same for all libraries."""
    random = np.random.default_rng(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            shape = tuple(p.shape)
            values = (
                random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5
                if len(shape) > 1
                else np.full(shape, 0.0 if "bias" in name else 1.0)
            )
            p.copy_(torch.tensor(values.astype(np.float32)))
    return model.to(DEVICE.name) if dtype is None else model.to(DEVICE.name).to(dtype)


def backward_step(loss: Callable[[], Any], parameters: list[Any]) -> Step:
    def step() -> Any:
        for p in parameters:
            p.grad = None
        value = loss()
        value.backward()
        return value

    return step
