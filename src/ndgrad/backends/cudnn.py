"""cuDNN, which computes convolution on a GPU if its library is installed, and attention if its Python front end is too
(both come with `cupy-cuda12x`).

With `enabled=False`, ndgrad's own kernels compute them. With `allow_tf32`, as in torch, convolution of single precision
rounds its operands to ten bits for the tensor cores. `benchmark` and `deterministic` can be set without effect: cuDNN's
own rules choose plans, and `use_deterministic_algorithms` requests repeatable ones.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ndgrad import cuda
from ndgrad._src.arrays.gpu_switches import cudnn as _switches
from ndgrad._src.foundations.switches import give_switches

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

give_switches(__name__, _switches)


def is_available() -> bool:
    """True if cuDNN and a GPU are available.

    >>> import ndgrad
    >>> ndgrad.backends.cudnn.is_available() and not ndgrad.cuda.is_available()
    False
    """
    return version() is not None


def version() -> int | None:
    """Return the version of cuDNN, such as 91900, or None if it is missing."""
    if not cuda.is_available():
        return None
    from ndgrad._src.compiler.cuda import cudnn, cudnn_backend  # only with a GPU

    found = cudnn.front_end()
    if found is not None:
        return int(found.backend_version())
    alone = cudnn_backend.functions()
    return None if alone is None else int(alone.cudnnGetVersion())


def is_acceptable(tensor: Tensor) -> bool:
    """True if cuDNN would compute with a tensor: of floats, on a GPU.

    Args:
        tensor: tensor in question.
    """
    return tensor.is_cuda and tensor.is_floating_point() and is_available()


def set_flags(
    _enabled: bool | None = None, _benchmark: bool | None = None, _benchmark_limit: int | None = None,
    _deterministic: bool | None = None, _allow_tf32: bool | None = None,
) -> tuple[bool, bool, int, bool, bool]:  # fmt: skip
    """Set several switches, and return their old values."""
    before = _switches.set(
        enabled=_enabled, benchmark=_benchmark, benchmark_limit=_benchmark_limit, deterministic=_deterministic,
        allow_tf32=_allow_tf32,
    )  # fmt: skip
    return tuple(before.values())  # in the order of the arguments


def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:  # fmt: skip
    """Return a context in which the switches are set.

    Args:
        enabled: whether cuDNN may be used.
        benchmark: whether algorithms are chosen by measuring.
        benchmark_limit: number of algorithms to measure.
        deterministic: whether algorithms must be deterministic.
        allow_tf32: whether products may use TF32.

    >>> import ndgrad
    >>> with ndgrad.backends.cudnn.flags(deterministic=True):
    ...     ndgrad.backends.cudnn.deterministic
    True
    """
    return _switches.during(
        enabled=enabled, benchmark=benchmark, benchmark_limit=benchmark_limit, deterministic=deterministic,
        allow_tf32=allow_tf32,
    )  # fmt: skip
