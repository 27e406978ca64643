"""Memory formats of convolution weights."""

from __future__ import annotations

from typing import Any, TypeVar

from ndgrad.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ndgrad.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

_M = TypeVar("_M", bound=Module)


def convert_conv2d_weight_memory_format(module: _M, memory_format: Any) -> _M:
    """Convert the weights of all two-dimensional convolutions to a memory format, in place.

    Args:
        module: module whose convolutions are converted.
        memory_format: new memory layout of the weights.

    Returns:
        The same module.

    >>> import ndgrad
    >>> layer = ndgrad.nn.Conv2d(2, 3, 2)
    >>> layer = ndgrad.nn.utils.convert_conv2d_weight_memory_format(layer, ndgrad.channels_last)
    >>> layer.weight.stride()
    (8, 1, 4, 2)
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: _M, memory_format: Any) -> _M:
    """Convert the weights of all three-dimensional convolutions to a memory format, in place.

    Args:
        module: module whose convolutions are converted.
        memory_format: new memory layout of the weights.

    Returns:
        The same module.

    >>> import ndgrad
    >>> layer = ndgrad.nn.Conv3d(2, 3, 2)
    >>> layer = ndgrad.nn.utils.convert_conv3d_weight_memory_format(layer, ndgrad.channels_last_3d)
    >>> layer.weight.stride()
    (16, 1, 8, 4, 2)
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)


def _convert(module: _M, kinds: tuple[type[Module], ...], memory_format: Any) -> _M:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module
