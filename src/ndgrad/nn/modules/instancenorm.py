"""Normalisation of each channel of each sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad.nn import functional as F
from ndgrad.nn.modules.batchnorm import _NormBase

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Tensor

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device = None,
        dtype: Dtype = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the input.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
        """
        self._check_input_dim(input)
        batched = input.dim() == self._dims[-1]
        channels = input.shape[1 if batched else 0]
        if channels != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={1 if batched else 0} to match num_features "
                f"({self.num_features}), but got: {channels}. [nd-shape]"
            )
        own = input if batched else input.unsqueeze(0)
        of_instance = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        out = F.instance_norm(
            own, self.running_mean, self.running_var, self.weight, self.bias, of_instance, momentum, self.eps
        )
        return out if batched else out.squeeze(0)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        # Checkpoints from before statistics became optional contain them even if this module has none.
        if local_metadata.get("version") is None and not self.track_running_stats:
            found = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if found:
                listed = " and ".join(f'"{prefix + name}"' for name in found)
                rest[-1].append(
                    f"Unexpected running stats buffer(s) {listed} for {type(self).__name__} with "
                    "track_running_stats=False. Remove these keys, or make the module with track_running_stats=True."
                )
                for name in found:
                    state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class InstanceNorm1d(_InstanceNorm):
    """Normalise each channel of each sample.

    Args:
        num_features: number C of channels.
        eps: number added to the variance.
        momentum: weight of the input in the running statistics.
        affine: whether each channel has a learned scale and shift.
        track_running_stats: whether running statistics are kept for evaluation. Otherwise evaluation uses those of the
            input.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether there is a shift if `affine` is True.

    Shape:
        input and output (N, C, L) or (C, L).

    >>> import ndgrad
    >>> ndgrad.nn.InstanceNorm1d(2, eps=0.0)(ndgrad.tensor([[[1.0, 3.0], [10.0, 30.0]]]))
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalise each channel of each sample.

    Args:
        num_features: number C of channels.
        eps: number added to the variance.
        momentum: weight of the input in the running statistics.
        affine: whether each channel has a learned scale and shift.
        track_running_stats: whether running statistics are kept for evaluation. Otherwise evaluation uses those of the
            input.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether there is a shift if `affine` is True.

    Shape:
        input and output (N, C, H, W) or (C, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.InstanceNorm2d(3)(ndgrad.ones(2, 3, 4, 4)).shape
    ndgrad.Size([2, 3, 4, 4])
    """

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalise each channel of each sample.

    Args:
        num_features: number C of channels.
        eps: number added to the variance.
        momentum: weight of the input in the running statistics.
        affine: whether each channel has a learned scale and shift.
        track_running_stats: whether running statistics are kept for evaluation. Otherwise evaluation uses those of the
            input.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether there is a shift if `affine` is True.

    Shape:
        input and output (N, C, D, H, W) or (C, D, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.InstanceNorm3d(3)(ndgrad.ones(2, 3, 4, 4, 4)).shape
    ndgrad.Size([2, 3, 4, 4, 4])
    """

    _dims = (4, 5)
