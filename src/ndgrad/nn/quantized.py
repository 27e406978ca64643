"""Modules of arithmetic between tensors, for networks that torch can quantise. They compute in floating point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.join import cat as _cat
from ndgrad.nn.modules.linear import Identity as _Identity
from ndgrad.nn.modules.module import Module as _Module

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["FloatFunctional"]


class FloatFunctional(_Module):
    """Arithmetic whose results pass through a submodule, `activation_post_process`. That is an identity at first.

    >>> import ndgrad
    >>> ndgrad.nn.quantized.FloatFunctional().add_relu(ndgrad.tensor([1.0, -3.0]), ndgrad.tensor([1.0, 1.0]))
    tensor([2., 0.])
    """

    activation_post_process: Any

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = _Identity()

    def forward(self, x: Any) -> NoReturn:
        """Raise an error, because the module is used by its methods.

        Args:
            x: any value.
        """
        raise RuntimeError(
            "FloatFunctional has no forward. Call add, mul, cat, matmul, add_relu, add_scalar or mul_scalar. "
            "[nd-module]"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `x + y`.

        Args:
            x: tensor.
            y: tensor.
        """
        return self._process(x + y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return `x + y`, without the submodule.

        Args:
            x: tensor.
            y: number.
        """
        return x + y

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `x * y`.

        Args:
            x: tensor.
            y: tensor.
        """
        return self._process(x * y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return `x * y`, without the submodule.

        Args:
            x: tensor.
            y: number.
        """
        return x * y

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `x @ y`.

        Args:
            x: tensor.
            y: tensor.
        """
        return self._process(x @ y)

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Return the tensors joined along a dimension.

        Args:
            x: tensors.
            dim: dimension.
        """
        return self._process(_cat(list(x), dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `relu(x + y)`.

        Args:
            x: tensor.
            y: tensor.
        """
        return self._process((x + y).relu())

    def _process(self, result: Tensor) -> Tensor:
        made: Tensor = self.activation_post_process(result)
        return made


_refuse_absent(__name__)
