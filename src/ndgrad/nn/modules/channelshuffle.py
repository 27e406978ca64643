"""Interleaved channels of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad.nn import functional as F
from ndgrad.nn.modules.module import Module, settings_text

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Interleave the channels of several groups.

    Args:
        groups: number of groups, a divisor of the number of channels.

    >>> import ndgrad
    >>> ndgrad.nn.ChannelShuffle(2)(ndgrad.arange(4).reshape(1, 4, 1)).flatten()
    tensor([0, 2, 1, 3])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Interleave the channels.

        Args:
            input: tensor of shape (N, C, ...) with at least three dimensions.
        """
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return settings_text(self, "groups")
