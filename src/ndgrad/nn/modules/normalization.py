"""Normalisation within a sample, without running statistics: training and evaluation are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.tensor.functions.creation import arange
from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.module import Module, new_parameter
from ndgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Shape, Tensor

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _sizes(normalized_shape: Shape) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class _Scaled(Module):
    """A scale and, in most norms, a shift; None if disabled."""

    weight: Parameter
    bias: Parameter

    def _make(self, shape: tuple[int, ...], device: Device, dtype: Dtype, **wanted: bool) -> None:
        for name, here in wanted.items():
            self.register_parameter(name, new_parameter(*shape, device=device, dtype=dtype) if here else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset scale to 1 and shift to 0."""
        for name, fill in (("weight", init.ones_), ("bias", init.zeros_)):
            parameter = getattr(self, name, None)
            if parameter is not None:
                fill(parameter)


class LayerNorm(_Scaled):
    """Normalise the last dimensions to mean 0 and variance 1, then scale and shift.

    The result is `(x - mean) / sqrt(var + eps) * weight + bias`.

    Args:
        normalized_shape: sizes of the dimensions that are normalised together.
        eps: number added to the variance.
        elementwise_affine: whether there is a learned scale, and a shift if `bias` is True.
        bias: whether there is a learned shift.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> ndgrad.nn.LayerNorm(2, eps=0.0)(ndgrad.tensor([[1.0, 3.0]])).detach()
    tensor([[-1.,  1.]])
    """

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make(self.normalized_shape, device, dtype, weight=elementwise_affine, bias=elementwise_affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the input.

        Args:
            input: tensor of shape (..., *normalized_shape).
        """
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine, bias = self.elementwise_affine, self.bias is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}, bias={bias}"


class RMSNorm(_Scaled):
    """Normalise the last dimensions to mean square 1, then scale.

    The result is `x / sqrt(mean(x * x) + eps) * weight`.

    Args:
        normalized_shape: sizes of the dimensions that are normalised together.
        eps: number added to the mean square. The default is the machine epsilon of the input's dtype.
        elementwise_affine: whether there is a learned scale.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> ndgrad.nn.RMSNorm(2)(ndgrad.tensor([[1.0, 7.0]])).detach()
    tensor([[0.2000, 1.4000]])
    """

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make(self.normalized_shape, device, dtype, weight=elementwise_affine)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the input.

        Args:
            x: tensor of shape (..., *normalized_shape).
        """
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Scaled):
    """Normalise groups of channels to mean 0 and variance 1, then scale and shift per channel.

    Args:
        num_groups: number of groups, a divisor of `num_channels`.
        num_channels: number C of channels.
        eps: number added to the variance.
        affine: whether each channel has a learned scale, and a shift if `bias` is True.
        device: device of the parameters.
        dtype: dtype of the parameters.
        bias: whether each channel has a learned shift.

    >>> import ndgrad
    >>> ndgrad.nn.GroupNorm(2, 4, eps=0.0)(ndgrad.tensor([[1.0, 3.0, 10.0, 30.0]])).detach()
    tensor([[-1.,  1., -1.,  1.]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device = None,
        dtype: Dtype = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups}). [nd-divisible]"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make((num_channels,), device, dtype, weight=affine, bias=affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the input.

        Args:
            input: tensor of shape (N, C, ...).
        """
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divide elements by a power of the mean of squares over neighbouring channels.

    The result is `x / (k + alpha * mean(x ** 2)) ** beta`.

    Args:
        size: number of channels in a mean.
        alpha: factor of the mean.
        beta: exponent.
        k: number added to the mean.

    >>> import ndgrad
    >>> ndgrad.nn.LocalResponseNorm(2, alpha=1.0)(ndgrad.tensor([[[1.0], [2.0]]]))
    tensor([[[0.7378],
             [0.7816]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the input.

        Args:
            input: tensor of shape (N, C, L, ...).
        """
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Local response normalisation over neighbouring channels of (N, C, H, W), as in Lua torch.

    The result is x / (k + alpha / size * s)^beta, where s is the sum of squares over the channels less than (size + 1)
    // 2 away. As in torch, the first channel never leaves the sum; `LocalResponseNorm` differs in this.

    Args:
        size: number of channels in a mean.
        alpha: factor of the mean.
        beta: exponent.
        k: number added to the mean.

    >>> import ndgrad
    >>> ndgrad.nn.CrossMapLRN2d(1, alpha=3.0, beta=0.5)(ndgrad.ones(1, 1, 1, 1)).item()
    0.5
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the input.

        Args:
            input: tensor of shape (N, C, H, W).
        """
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead. [nd-ndim]")
        batch, channels = input.shape[:2]
        places = arange(channels, device=input.device)
        near = (places[:, None] - places).abs() < int((self.size - 1) / 2 + 1)
        window = (near | (places == 0)).to(input.dtype)
        total = (window @ (input * input).reshape(batch, channels, -1)).reshape(input.shape)
        return input * (total * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
