"""Ops between segments that our own kernels run on arrays, in the place of NumPy's functions: convolutions and their
gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.compiler.kernels import arrays
from ndgrad.compiler.program import Instruction


def kernel_call(instruction: Instruction) -> Callable[..., Any] | None:
    """A function of arrays for an instruction, None where there is no kernel for it."""
    made = _CALLS.get(instruction.op.name)
    if made is None:
        return None
    values = list(instruction.values())
    dtype = instruction.result.dtype
    if any(v.dtype != dtype or not v.size for v in values) or not instruction.result.size or not arrays.available(dtype, ("conv",)):
        return None
    return made


def _contiguous(array: Any) -> Any:
    return array if array.flags.c_contiguous else array.copy()


def _convolution(x: Any, w: Any, b: Any, *, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    out = arrays.conv(_contiguous(x), _contiguous(w), stride, padding, dilation, groups)
    if b is not None:
        out += np.reshape(b, (-1, *(1,) * (x.ndim - 2)))
    return out


def _convolution_input(y: Any, w: Any, *, x_shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    return arrays.conv_input_grad(_contiguous(y), _contiguous(w), x_shape, stride, padding, dilation, groups)


def _convolution_weight(y: Any, x: Any, *, w_shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    return arrays.conv_weight_grad(_contiguous(y), _contiguous(x), w_shape, stride, padding, dilation, groups)


_CALLS: dict[str, Callable[..., Any]] = {
    "convolution": _convolution,
    "convolution_input": _convolution_input,
    "convolution_weight": _convolution_weight,
}
