"""Attention variants, under torch's names: choice of the implementation, causal masks, modified scores."""

from __future__ import annotations

import contextlib
import enum
import importlib as _importlib
from collections.abc import Iterator
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndgrad.nn.attention import bias as bias
    from ndgrad.nn.attention import flex_attention as flex_attention

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.Enum):
    """torch's implementations of `scaled_dot_product_attention`. ndgrad has one implementation, which serves all of
    them.
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """Accept torch's choice of an attention implementation. ndgrad has only one, so nothing changes inside the block.

    Args:
        backends: implementation or list of implementations that torch may use.
        set_priority: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> from ndgrad.nn.attention import SDPBackend, sdpa_kernel
    >>> q = ndgrad.ones(1, 1, 2, 3)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     ndgrad.nn.functional.scaled_dot_product_attention(q, q, q).shape
    ndgrad.Size([1, 1, 2, 3])
    """
    given = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(given, list) or not all(isinstance(one, SDPBackend) for one in given):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__} [nd-type]"
        )
    yield


def __getattr__(name: str) -> _ModuleType:  # flex_attention needs vmap
    if name in ("bias", "flex_attention"):
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
