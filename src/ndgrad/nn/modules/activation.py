"""Activations as modules: each holds the settings of a function of `nn.functional` and calls it."""

from __future__ import annotations

import warnings
from typing import Any

from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.module import Module, new_parameter, settings_text

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish",
    "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


# ----- piecewise linear ------------------------------------------------------------------------------------------------


class ReLU(Module):
    """max(x, 0)"""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class Hardtanh(Module):
    """x between min_val and max_val, these outside"""

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
                warnings.warn(f"keyword argument `{name}_value` is deprecated and renamed to `{name}_val`", FutureWarning, stacklevel=2)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "min_val", "max_val", "inplace")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)"""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def forward(self, input: Any) -> Any:
        return F.relu6(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class LeakyReLU(Module):
    """x where positive, negative_slope x elsewhere"""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "negative_slope", "inplace")


class PReLU(Module):
    """As LeakyReLU, with slopes that are learned: one for all, or one per channel"""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = new_parameter(num_parameters, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All slopes as given at first."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return settings_text(self, "num_parameters")


class RReLU(Module):
    """As LeakyReLU, with slopes drawn at random in training and their mean in evaluation"""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "lower", "upper", "inplace")


class Threshold(Module):
    """x where it is above the threshold, else the value"""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "threshold", "value", "inplace")


class Hardsigmoid(Module):
    """x / 6 + 1/2, cut at 0 and 1"""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(Module):
    """x times hardsigmoid(x)"""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.hardswish(input, self.inplace)


class Hardshrink(Module):
    """x where |x| > lambd, else 0"""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """x moved towards 0 by lambd"""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


# ----- exponential -----------------------------------------------------------------------------------------------------


class ELU(Module):
    """x where positive, alpha (exp(x) - 1) elsewhere"""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "alpha", "inplace")


class CELU(Module):
    """max(x, 0) + min(0, alpha (exp(x / alpha) - 1))"""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "alpha", "inplace")


class SELU(Module):
    """ELU scaled so that activations keep mean 0 and variance 1"""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.selu(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class Softplus(Module):
    """log(1 + exp(beta x)) / beta, which is x itself where beta x exceeds the threshold"""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return settings_text(self, "beta", "threshold")


class Sigmoid(Module):
    """1 / (1 + exp(-x))"""

    def forward(self, input: Any) -> Any:
        return F.sigmoid(input)


class LogSigmoid(Module):
    """log(sigmoid(x))"""

    def forward(self, input: Any) -> Any:
        return F.logsigmoid(input)


class Tanh(Module):
    """tanh(x)"""

    def forward(self, input: Any) -> Any:
        return F.tanh(input)


class Tanhshrink(Module):
    """x - tanh(x)"""

    def forward(self, input: Any) -> Any:
        return F.tanhshrink(input)


class Softsign(Module):
    """x / (1 + |x|)"""

    def forward(self, input: Any) -> Any:
        return F.softsign(input)


class SiLU(Module):
    """x sigmoid(x)"""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.silu(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class Mish(Module):
    """x tanh(softplus(x))"""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.mish(input, self.inplace)

    def extra_repr(self) -> str:
        return settings_text(self, "inplace")


class GELU(Module):
    """x times the normal distribution function of x, or its approximation by tanh"""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return settings_text(self, "approximate")


class GLU(Module):
    """The first half of the input times the sigmoid of the second"""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return settings_text(self, "dim")


# ----- along a dimension -------------------------------------------------------------------------------------------------


class _Along(Module):
    """A function along one dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return settings_text(self, "dim")


class Softmax(_Along):
    """exp(x) over its sum along `dim`"""

    def forward(self, input: Any) -> Any:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_Along):
    """log(softmax(x))"""

    def forward(self, input: Any) -> Any:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_Along):
    """softmax(-x)"""

    def forward(self, input: Any) -> Any:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of an image, at every place"""

    def forward(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D (shape {tuple(input.shape)}) instead.")
        return F.softmax(input, -3, _stacklevel=5)
