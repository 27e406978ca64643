"""Normalisation over the batch or the instance, with running statistics for evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ndgrad._src.arrays.dtypes import int64
from ndgrad._src.tensor.functions.creation import ones, zeros
from ndgrad._src.tensor.functions.data import tensor
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.module import Module, new_parameter
from ndgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]


class _NormBase(Module):
    """Scale, shift and running statistics, one of each per channel."""

    # Batches are counted since version 2.
    _version = 2
    #: Allowed numbers of dimensions of an input.
    _dims: ClassVar[tuple[int, ...]]
    num_features: int
    momentum: float | None
    # None without track_running_stats, affine and bias.
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    weight: Parameter
    bias: Parameter

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: Dtype = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make_tensors(bias, device, dtype)
        self.reset_parameters()

    def _make_tensors(self, bias: bool, device: Device, dtype: Dtype) -> None:
        for name, wanted in (("weight", self.affine), ("bias", self.affine and bias)):
            self.register_parameter(
                name, new_parameter(self.num_features, device=device, dtype=dtype) if wanted else None
            )
        tracked = self.track_running_stats
        self.register_buffer("running_mean", zeros(self.num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(self.num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device) if tracked else None)

    def reset_running_stats(self) -> None:
        """Reset the running statistics: mean 0, variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset scale to 1, shift to 0, and the statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._dims:
            expected = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(
                f"expected {expected} input (got {input.dim()}D input of shape {tuple(input.shape)}) "
                f"to {type(self).__name__}. [nd-ndim]"
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                state_dict[key] = (
                    tensor(0, dtype=int64) if self.num_batches_tracked is None else self.num_batches_tracked.clone()
                )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


# ----- over the batch -------------------------------------------------------------------------------------------------


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """Normalise the input.

        Args:
            input: tensor of shape (N, C, ...).

        Raises:
            ValueError: if there is only one value per channel in training.
        """
        self._check_input_dim(input)
        counts = self.training and self.track_running_stats and self.num_batches_tracked is not None
        momentum = 0.0 if self.momentum is None else self.momentum
        if counts and self.momentum is None:
            momentum = 1.0 / (self.num_batches_tracked.item() + 1.0)  # the plain average of all batches
        # Without running statistics, evaluation too uses those of the batch.
        of_batch = self.training or (self.running_mean is None and self.running_var is None)
        remember = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if remember else (None, None)
        out = F.batch_norm(input, mean, var, self.weight, self.bias, of_batch, momentum, self.eps)
        if counts:
            self.num_batches_tracked.add_(1)
        return out


class BatchNorm1d(_BatchNorm):
    """Normalise each channel over the batch, then scale and shift.

    Training updates running statistics, which evaluation uses instead of the batch's.

    Args:
        num_features: number C of channels.
        eps: number added to the variance.
        momentum: weight of the batch in the running statistics. None computes their plain mean over all batches.
        affine: whether each channel has a learned scale and shift.
        track_running_stats: whether running statistics are kept for evaluation. Otherwise evaluation uses those of the
            batch.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether there is a shift if `affine` is True.

    Shape:
        input and output (N, C) or (N, C, L).

    >>> import ndgrad
    >>> norm = ndgrad.nn.BatchNorm1d(2, affine=False, eps=0.0)
    >>> norm(ndgrad.tensor([[1.0, 0.0], [3.0, 4.0]]))
    tensor([[-1., -1.],
            [ 1.,  1.]])
    >>> norm.running_mean
    tensor([0.2000, 0.2000])
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalise each channel over the batch, then scale and shift.

    Training updates running statistics, which evaluation uses instead of the batch's.

    Args:
        num_features: number C of channels.
        eps: number added to the variance.
        momentum: weight of the batch in the running statistics. None computes their plain mean over all batches.
        affine: whether each channel has a learned scale and shift.
        track_running_stats: whether running statistics are kept for evaluation. Otherwise evaluation uses those of the
            batch.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether there is a shift if `affine` is True.

    Shape:
        input and output (N, C, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.BatchNorm2d(3)(ndgrad.ones(2, 3, 4, 4)).shape
    ndgrad.Size([2, 3, 4, 4])
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalise each channel over the batch, then scale and shift.

    Training updates running statistics, which evaluation uses instead of the batch's.

    Args:
        num_features: number C of channels.
        eps: number added to the variance.
        momentum: weight of the batch in the running statistics. None computes their plain mean over all batches.
        affine: whether each channel has a learned scale and shift.
        track_running_stats: whether running statistics are kept for evaluation. Otherwise evaluation uses those of the
            batch.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether there is a shift if `affine` is True.

    Shape:
        input and output (N, C, D, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.BatchNorm3d(3)(ndgrad.ones(2, 3, 4, 4, 4)).shape
    ndgrad.Size([2, 3, 4, 4, 4])
    """

    _dims = (5,)
