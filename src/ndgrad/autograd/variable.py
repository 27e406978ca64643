"""`Variable`: the name of tensors before torch 0.4, which some code still uses.

Every tensor is an instance, and calling it creates a tensor; there is no object of this class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.core.variable import Variable as BareTensor
from ndgrad._src.engine.callbacks import execution_engine

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


class _VariableType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, BareTensor)

    def __call__(cls, data: Tensor, requires_grad: bool = False, volatile: object = None) -> Tensor:
        if not isinstance(data, BareTensor):
            raise TypeError(
                f"Variable data has to be a tensor, but got {type(data).__name__}. Wrap it with ndgrad.as_tensor(...). "
                "[nd-type]"
            )
        made = data.detach()
        return made.requires_grad_() if requires_grad else made


class Variable(metaclass=_VariableType):
    """A tensor, under its old name: `Variable(t, requires_grad=True)` is `t.detach().requires_grad_()`.

    >>> import ndgrad
    >>> from ndgrad.autograd import Variable
    >>> x = Variable(ndgrad.ones(2), requires_grad=True)
    >>> isinstance(x, Variable), type(x).__name__
    (True, 'Tensor')
    """

    _execution_engine = execution_engine
