"""torch's `nn.attention`: which kernel computes `scaled_dot_product_attention`. There is one here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from ndgrad.absent import refuse_absent as _refuse_absent

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(Enum):
    """torch's kernels of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_DEFAULT = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION)
_chosen: ContextVar[tuple[SDPBackend, ...]] = ContextVar("ndgrad_sdpa_kernels", default=_DEFAULT)


@contextmanager
def sdpa_kernel(backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """A block in which attention may use only some of torch's kernels. The result is the same: all mean one here.

    >>> import ndgrad
    >>> from ndgrad.nn.attention import SDPBackend, sdpa_kernel
    >>> q = ndgrad.ones(1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     ndgrad.nn.functional.scaled_dot_product_attention(q, q, q).sum()
    tensor(8.)
    """
    wanted = tuple(backends) if isinstance(backends, (list, tuple)) else (backends,)
    if not wanted or not all(isinstance(b, SDPBackend) for b in wanted):
        raise AssertionError(
            f"sdpa_kernel: Backend must be an instance of SDPBackend or a list of them, and is {backends!r}."
        )
    token = _chosen.set(tuple(dict.fromkeys(wanted)))
    try:
        yield
    finally:
        _chosen.reset(token)


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The kernels that may be used."""
    return list(_chosen.get())


_refuse_absent(__name__)
