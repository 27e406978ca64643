"""NumPy arrays in expressions with tensors: plain arrays are accepted; arrays that would lose a meaning are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays.precision import is_number
from ndgrad._src.core.variable import Variable


class NotNumbers(TypeError):
    """Error for data without derivatives. ndgrad.numpy's functions pass such calls to NumPy itself."""


def check_plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return a NumPy array as a plain ndarray in native byte order; raise if it cannot be combined with tensors."""
    dtype = array.dtype
    if not is_number(dtype):
        raise _not_numbers(array)
    if array.__class__ is not np.ndarray:
        array = _plain(array)
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _not_numbers(array: NDArray[Any]) -> TypeError:
    if array.dtype.kind == "O" and any(isinstance(item, Variable) for item in array.flat):
        return TypeError(
            f"an object array of shape {array.shape} holds tensors; NumPy would treat each as a Python object. "
            "Make one differentiable array of them: ndgrad.numpy.array([...]) or ndgrad.numpy.stack([...]). "
            "[nd-foreign-array]"
        )
    return NotNumbers(
        f"an array of dtype {array.dtype} and shape {array.shape} cannot take part in a differentiable computation. "
        "Convert it to numbers first (.astype(float), or a field of a structured array). [nd-foreign-array]"
    )


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return the ndarray under a subclass; raise if that loses information."""
    if isinstance(array, np.ma.MaskedArray):
        if array.mask is np.ma.nomask or not array.mask.any():
            return array.data  # nothing is masked
        raise TypeError(
            f"a masked array of shape {array.shape} met a tensor; its mask would be lost. "
            "Say what the masked places are: m.filled(0.0), or ndgrad.numpy.where(m.mask, other, m.data). "
            "[nd-foreign-array]"
        )
    if isinstance(array, np.matrix):
        raise TypeError(
            f"a numpy.matrix of shape {array.shape} met a tensor; its * is a matrix product while ours "
            "is elementwise. Convert it with numpy.asarray(m), and write @ for the product. [nd-foreign-array]"
        )
    if isinstance(array, np.generic):
        return np.asarray(array)
    if type(array).__array_ufunc__ is not np.ndarray.__array_ufunc__ or not isinstance(array, (np.memmap, np.recarray)):
        raise TypeError(
            f"a {type(array).__module__}.{type(array).__qualname__} met a tensor; its additions to ndarray would be "
            "lost. Convert it with numpy.asarray(x) if its plain values are meant. [nd-foreign-array]"
        )
    return array.view(np.ndarray)
