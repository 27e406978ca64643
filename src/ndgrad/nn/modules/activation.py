"""Activations as modules: each stores the settings of a function of `nn.functional` and calls it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.attention import MultiheadAttention as MultiheadAttention  # torch's place for it
from ndgrad.nn.modules.module import Module, new_parameter, settings_text

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


# ----- piecewise linear -----------------------------------------------------------------------------------------------


class ReLU(Module):
    """Apply relu: max(x, 0) for each element x.

    Args:
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.ReLU()(ndgrad.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class Hardtanh(Module):
    """Clamp elements to [`min_val`, `max_val`].

    Args:
        min_val: lower bound.
        max_val: upper bound, above the lower one.
        inplace: whether the result replaces the input.
        min_value, max_value: old names of `min_val` and `max_val`.

    >>> import ndgrad
    >>> ndgrad.nn.Hardtanh()(ndgrad.tensor([-1.0, 2.0]))
    tensor([-1.,  1.])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("min", min_value), ("max", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{name}_value` is deprecated and renamed to `{name}_val`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val}) [nd-range]")

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "min_val", "max_val", "inplace")


class ReLU6(Hardtanh):
    """Clamp elements to [0, 6].

    Args:
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.ReLU6()(ndgrad.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.relu6(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class LeakyReLU(Module):
    """Return x above 0, and `negative_slope * x` below.

    Args:
        negative_slope: factor of negative elements.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.LeakyReLU(0.1)(ndgrad.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "negative_slope", "inplace")


class PReLU(Module):
    """Return x above 0, and `weight * x` below, with learned slopes.

    Args:
        num_parameters: number of slopes: one for all, or one per channel (dimension 1).
        init: initial value of the slopes.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> ndgrad.nn.PReLU()(ndgrad.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = new_parameter(num_parameters, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all slopes to their initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of shape (N, C, ...), or any shape if there is one slope.
        """
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return settings_text(self, "num_parameters")


class RReLU(Module):
    """Apply a leaky relu with random slopes in training, and with their mean in evaluation.

    Args:
        lower, upper: bounds of the uniform distribution of slopes.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.RReLU(0.1, 0.3).eval()(ndgrad.tensor([-1.0, 2.0]))
    tensor([-0.2000,  2.0000])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "lower", "upper", "inplace")


class Threshold(Module):
    """Return x above the threshold, and `value` elsewhere.

    Args:
        threshold: bound above which elements are kept.
        value: replacement of other elements.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.Threshold(1.0, 0.0)(ndgrad.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "threshold", "value", "inplace")


class Hardsigmoid(Module):
    """Return `x / 6 + 1/2`, clamped to [0, 1].

    Args:
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.Hardsigmoid()(ndgrad.tensor([-4.0, 1.5]))
    tensor([0.0000, 0.7500])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.hardsigmoid(input, self.inplace)


class Hardswish(Module):
    """Return `x * hardsigmoid(x)`.

    Args:
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.Hardswish()(ndgrad.tensor([1.5, 4.0]))
    tensor([1.1250, 4.0000])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.hardswish(input, self.inplace)


class Hardshrink(Module):
    """Return x if |x| > lambd, and 0 otherwise.

    Args:
        lambd: half the width of the interval that becomes 0.

    >>> import ndgrad
    >>> ndgrad.nn.Hardshrink()(ndgrad.tensor([-1.0, 0.25]))
    tensor([-1.,  0.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """Move elements towards 0 by `lambd`. Elements with |x| < lambd become 0.

    Args:
        lambd: size of the shift, at least 0.

    >>> import ndgrad
    >>> ndgrad.nn.Softshrink()(ndgrad.tensor([-1.0, 0.25]))
    tensor([-0.5000,  0.0000])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


# ----- exponential ----------------------------------------------------------------------------------------------------


class ELU(Module):
    """Return x above 0, and `alpha * (exp(x) - 1)` below.

    Args:
        alpha: minus the limit for large negative elements.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.ELU()(ndgrad.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "alpha", "inplace")


class CELU(Module):
    """Return x above 0, and `alpha * (exp(x / alpha) - 1)` below.

    Args:
        alpha: minus the limit for large negative elements, not 0.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.CELU(alpha=2.0)(ndgrad.tensor([-1.0, 2.0]))
    tensor([-0.7869,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "alpha", "inplace")


class SELU(Module):
    """ELU scaled so that activations keep mean 0 and variance 1 (Klambauer et al. 2017).

    Args:
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.SELU()(ndgrad.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.selu(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class Softplus(Module):
    """Return `log(1 + exp(beta * x)) / beta`, a smooth form of relu.

    Args:
        beta: sharpness of the bend at 0.
        threshold: bound of `beta * x` above which the result is x itself.

    >>> import ndgrad
    >>> ndgrad.nn.Softplus()(ndgrad.tensor([0.0, 50.0]))
    tensor([ 0.6931, 50.0000])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return settings_text(self, "beta", "threshold")


class Sigmoid(Module):
    """Apply the logistic function 1 / (1 + exp(-x)).

    >>> import ndgrad
    >>> ndgrad.nn.Sigmoid()(ndgrad.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.sigmoid(input)


class LogSigmoid(Module):
    """Apply log(sigmoid(x)), without overflow.

    >>> import ndgrad
    >>> ndgrad.nn.LogSigmoid()(ndgrad.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.logsigmoid(input)


class Tanh(Module):
    """Apply the hyperbolic tangent.

    >>> import ndgrad
    >>> ndgrad.nn.Tanh()(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.tanh(input)


class Tanhshrink(Module):
    """Return x - tanh(x).

    >>> import ndgrad
    >>> ndgrad.nn.Tanhshrink()(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.tanhshrink(input)


class Softsign(Module):
    """Return x / (1 + |x|).

    >>> import ndgrad
    >>> ndgrad.nn.Softsign()(ndgrad.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.softsign(input)


class SiLU(Module):
    """Return `x * sigmoid(x)`, also called swish.

    Args:
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.SiLU()(ndgrad.tensor([-1.0, 1.0]))
    tensor([-0.2689,  0.7311])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.silu(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class Mish(Module):
    """Return `x * tanh(softplus(x))`.

    Args:
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.Mish()(ndgrad.tensor([-1.0, 1.0]))
    tensor([-0.3034,  0.8651])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.mish(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class GELU(Module):
    """Return x times the normal distribution function at x.

    Args:
        approximate: `"none"` for the exact function, `"tanh"` for an approximation with tanh.

    >>> import ndgrad
    >>> ndgrad.nn.GELU()(ndgrad.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return settings_text(self, "approximate")


class GLU(Module):
    """Return the first half of the input along a dimension, times the sigmoid of the second half.

    Args:
        dim: dimension that is halved.

    >>> import ndgrad
    >>> ndgrad.nn.GLU()(ndgrad.tensor([4.0, 6.0, 0.0, 0.0]))
    tensor([2., 3.])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor whose size along `dim` is even.
        """
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return settings_text(self, "dim")


# ----- along a dimension ----------------------------------------------------------------------------------------------


class _Along(Module):
    """A function along one dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return settings_text(self, "dim")


class Softmax(_Along):
    """Return exp(x), normalised to sum to one along a dimension.

    Args:
        dim: dimension along which the result sums to one. Without it a warning is given and 0 or 1 is chosen by the
            number of dimensions.

    >>> import ndgrad
    >>> ndgrad.nn.Softmax(dim=0)(ndgrad.tensor([0.0, 1.0]))
    tensor([0.2689, 0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_Along):
    """Return the logarithm of the softmax, without overflow.

    Args:
        dim: dimension along which the softmax sums to one. Without it a warning is given and 0 or 1 is chosen by the
            number of dimensions.

    >>> import ndgrad
    >>> ndgrad.nn.LogSoftmax(dim=0)(ndgrad.tensor([0.0, 1.0]))
    tensor([-1.3133, -0.3133])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_Along):
    """Return softmax(-x): the smallest element gets the largest share.

    Args:
        dim: dimension along which the result sums to one. Without it a warning is given and 0 or 1 is chosen by the
            number of dimensions.

    >>> import ndgrad
    >>> ndgrad.nn.Softmin(dim=0)(ndgrad.tensor([0.0, 1.0]))
    tensor([0.7311, 0.2689])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of any shape.
        """
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of images, at every pixel.

    >>> import ndgrad
    >>> ndgrad.nn.Softmax2d()(ndgrad.tensor([[[0.0]], [[0.0]]])).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation.

        Args:
            input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        """
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D (shape {tuple(input.shape)}) instead. "
                "[nd-ndim]"
            )
        return F.softmax(input, -3, _stacklevel=5)
