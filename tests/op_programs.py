"""The table's samples as functions of tensors, for tests that put every op through a transform."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np

import ndgrad
from ndgrad._src import ops
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.ops.table import Op
from ndgrad.testing.op_checks import Sample
from tests.ops import samples

for _module in pkgutil.iter_modules(ops.__path__):
    importlib.import_module(f"ndgrad._src.ops.{_module.name}")

#: The samples of each op, by name.
SAMPLES: dict[str, list[Sample]] = {}
for _module in pkgutil.iter_modules(samples.__path__):
    for _name, _found in importlib.import_module(f"tests.ops.samples.{_module.name}").SAMPLES.items():
        SAMPLES.setdefault(_name, []).extend(_found)


def various(samples: list[Sample]) -> list[Sample]:
    """The samples of an op in another order: one of each combination of dtypes first, so that the first few differ."""
    first = {tuple(a.dtype.char for a in s.args if isinstance(a, (np.ndarray, np.generic))): s for s in reversed(samples)}
    return sorted(samples, key=lambda s: all(s is not f for f in first.values()))


def differentiable(op: Op, sample: Sample) -> list[int]:
    """The positions of the arguments that can be differentiated."""
    chosen = op.differentiable_positions(len(sample.args))
    return [i for i in chosen if isinstance(sample.args[i], np.ndarray) and is_inexact(sample.args[i].dtype)]


def program_of(op: Op, sample: Sample) -> tuple[Callable[..., tuple[Any, ...]], list[Any]]:
    """The op as a function of its differentiable arguments, which returns the outputs that have derivatives; and the arguments."""
    positions = differentiable(op, sample)
    tensors = [ndgrad.tensor(a) if isinstance(a, np.ndarray) else a for a in sample.args]

    def program(*inputs: Any) -> tuple[Any, ...]:
        args: Any = list(tensors)
        for i, t in zip(positions, inputs, strict=True):
            args[i] = t
        if sample.prepare is not None:
            args = sample.prepare(*args)
            args = args if isinstance(args, tuple) else (args,)
        out = op(*args, **{**op.settings, **sample.settings})
        return tuple(o for o in (out if isinstance(out, tuple) else (out,)) if o.dtype.is_floating_point or o.dtype.is_complex)

    return program, [tensors[i] for i in positions]
