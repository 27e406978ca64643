"""Methods of `torch.nested` on dense tensors; nested tensors override them (see ndgrad.nested)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Number, Tensor

METHODS = ("to_padded_tensor",)


def to_padded_tensor(self: Tensor, padding: Number, output_size: Sequence[int] | None = None) -> Tensor:
    """A dense tensor with all components of a nested one, padded by `padding`.

    Args:
        self: nested tensor.
        padding: number for elements that a component lacks.
        output_size: shape of the result. The default is the smallest that fits.

    >>> import ndgrad
    >>> ndgrad.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=ndgrad.jagged).to_padded_tensor(-1.0)
    tensor([[ 1.,  2.],
            [ 3., -1.]])
    """
    raise NotImplementedError(
        f"to_padded_tensor(): a dense tensor of shape {tuple(self.shape)} has no components to pad. Use "
        "nn.functional.pad(). [nd-nested]"
    )
