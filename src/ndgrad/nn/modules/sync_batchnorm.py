"""Batch normalisation over the batches of all ranks together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.tensor.functions.data import tensor
from ndgrad.nn.modules.batchnorm import _BatchNorm

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Tensor

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """Normalise each channel of (N, C, ...) over the batches of all ranks of `process_group`, in training.

    The ranks exchange one sum for the mean and one for the variance, forward and backward. In evaluation, and in a
    world of one, it is an ordinary batch normalisation.

    Args:
        num_features: number C of channels.
        eps: number added to the variance.
        momentum: weight of the batch in the running statistics. None computes their plain mean over all batches.
        affine: whether each channel has a learned scale and shift.
        track_running_stats: whether running statistics are kept for evaluation. Otherwise evaluation uses those of the
            batch.
        process_group: ranks that share statistics. The default is all ranks.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether there is a shift if `affine` is True.

    >>> import ndgrad
    >>> net = ndgrad.nn.Sequential(ndgrad.nn.Linear(2, 3), ndgrad.nn.BatchNorm1d(3))
    >>> ndgrad.nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
    SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device = None,
        dtype: Dtype = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(
                f"expected at least 2D input (got {input.dim()}D input of shape {tuple(input.shape)}) to "
                "SyncBatchNorm. [nd-ndim]"
            )

    def forward(self, input: Tensor) -> Tensor:
        """Normalise by the statistics of all ranks in training.

        Args:
            input: tensor of shape (N, C, ...).

        Raises:
            ValueError: if there is only one value per channel in training.
        """
        from ndgrad import distributed  # a module of one process does not load it

        of_batch = self.training or (self.running_mean is None and self.running_var is None)
        if not of_batch or not distributed.is_initialized() or distributed.get_world_size(self.process_group) == 1:
            return super().forward(input)
        self._check_input_dim(input)
        dims = (0, *range(2, input.dim()))
        shape = (1, self.num_features, *(1,) * (input.dim() - 2))
        count = tensor([float(math.prod(input.shape) // max(input.shape[1], 1))], dtype=input.dtype)
        total = distributed.nn.functional.all_reduce
        distributed.all_reduce(count, group=self.process_group)
        if count.item() <= 1:
            raise ValueError(
                f"SyncBatchNorm: Expected more than 1 value per channel when training, got input size "
                f"{tuple(input.shape)} and one value on all ranks together. [nd-too-few]"
            )
        mean = total(input.sum(dims), group=self.process_group) / count
        centred = input - mean.reshape(shape)
        variance = total((centred * centred).sum(dims), group=self.process_group) / count
        out = centred * (variance + self.eps).rsqrt().reshape(shape)
        if self.weight is not None:
            out = out * self.weight.reshape(shape)
        if self.bias is not None:
            out = out + self.bias.reshape(shape)
        if self.training and self.track_running_stats:
            self._remember(mean, variance * (count / (count - 1)))
        return out

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics towards those of the batch."""
        with no_grad():
            self.num_batches_tracked.add_(1)
            momentum = 1.0 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            for running, found in ((self.running_mean, mean), (self.running_var, variance)):
                running.mul_(1.0 - momentum).add_(found.detach().to(running.dtype), alpha=momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Return a module with a `SyncBatchNorm` in place of each batch normalisation.

        Parameters and statistics stay the same objects.

        Args:
            module: module to convert, which is changed in place unless it is a batch normalisation itself.
            process_group: ranks that share statistics. The default is all ranks.
        """
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=module.bias is not None,
            )  # fmt: skip
            made.weight, made.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made

