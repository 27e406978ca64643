"""Modules that mark the quantised part of a network. Before a conversion, which does not exist here, they return their
input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class _Stub(Module):
    def __init__(self, qconfig: None = None) -> None:
        super().__init__()
        if qconfig is not None:
            raise NotImplementedError(
                f"{type(self).__name__}: ndgrad does not quantise, so a qconfig has no meaning. Leave it out to "
                "compute in floating point. [nd-absent]"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the input.

        Args:
            x: tensor of any shape.
        """
        return x


class QuantStub(_Stub):
    """Beginning of the part of a network that may be quantised. It returns its input.

    Args:
        qconfig: None, because ndgrad does not quantise.

    >>> import ndgrad
    >>> ndgrad.ao.quantization.QuantStub()(ndgrad.ones(2))
    tensor([1., 1.])
    """


class DeQuantStub(_Stub):
    """End of the part of a network that may be quantised. It returns its input.

    Args:
        qconfig: None, because ndgrad does not quantise.

    >>> import ndgrad
    >>> ndgrad.ao.quantization.DeQuantStub()(ndgrad.ones(2))
    tensor([1., 1.])
    """


class QuantWrapper(Module):
    """A module between a `QuantStub` and a `DeQuantStub`.

    Args:
        module: the module.

    >>> import ndgrad
    >>> list(dict(ndgrad.ao.quantization.QuantWrapper(ndgrad.nn.ReLU()).named_children()))
    ['quant', 'dequant', 'module']
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.module = module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        """Return the module's output.

        Args:
            X: input of the module.
        """
        return self.dequant(self.module(self.quant(X)))


_refuse_absent(__name__)
