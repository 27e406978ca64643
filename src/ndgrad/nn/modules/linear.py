"""Linear layers: affine maps of the last dimension."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.module import Module, new_parameter
from ndgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Tensor

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Return the input.

    Constructor arguments are accepted, so that it can replace another module.

    Args:
        *args, **kwargs: arguments of the replaced module; have no effect.

    >>> import ndgrad
    >>> ndgrad.nn.Identity(3, 2)(ndgrad.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return the input.

        Args:
            input: value of any type.
        """
        return input


class Linear(Module):
    """Apply an affine map to the last dimension: `x @ weight.T + bias`.

    Args:
        in_features: number of input features.
        out_features: number of output features.
        bias: whether a bias is added.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Shape:
        input (..., in_features), output (..., out_features), weight (out_features, in_features).

    >>> import ndgrad
    >>> ndgrad.nn.Linear(3, 2)(ndgrad.ones(5, 3)).shape
    ndgrad.Size([5, 2])
    """

    in_features: int
    out_features: int
    weight: Parameter
    bias: Parameter  # None with bias=False

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Device = None, dtype: Dtype = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = new_parameter(out_features, in_features, device=device, dtype=dtype)
        if bias:
            self.bias = new_parameter(out_features, device=device, dtype=dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill with uniform numbers up to 1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the map.

        Args:
            input: tensor of shape (..., in_features).
        """
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The output layer of attention: a `Linear` with its own name, by which torch's tools recognise it.

    Args:
        in_features: number of input features.
        out_features: number of output features.
        bias: whether a bias is added.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> ndgrad.nn.MultiheadAttention(4, 2).out_proj
    NonDynamicallyQuantizableLinear(in_features=4, out_features=4, bias=True)
    """


class Bilinear(Module):
    """Apply bilinear forms: `x1 @ weight[k] @ x2 + bias[k]` for each output k.

    Args:
        in1_features: number of features of the first input.
        in2_features: number of features of the second input.
        out_features: number of outputs.
        bias: whether a bias is added.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> ndgrad.nn.Bilinear(3, 4, 2)(ndgrad.ones(5, 3), ndgrad.ones(5, 4)).shape
    ndgrad.Size([5, 2])
    """

    weight: Parameter
    bias: Parameter  # None with bias=False

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}. [nd-range]")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = new_parameter(out_features, in1_features, in2_features, device=device, dtype=dtype)
        if bias:
            self.bias = new_parameter(out_features, device=device, dtype=dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill with uniform numbers up to 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return the values of the forms.

        Args:
            input1: tensor of shape (..., in1_features).
            input2: tensor of shape (..., in2_features), with the same leading dimensions.

        Returns:
            A tensor of shape (..., out_features).
        """
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
