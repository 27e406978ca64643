"""Adafactor: second moments of matrices kept as one number per row and one per column (Shazeer and Stern, 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import np_dtype
from ndgrad.optim.optimizer import (
    Group,
    Optimizer,
    State,
    at_least,
    at_most,
    check_settings,
    count_step,
    fresh,
    move,
    number,
    root,
)

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim.optimizer import Params, Rate

__all__ = ["Adafactor"]


def _rms(x: Tensor) -> Any:
    """Return the root of the mean square."""
    return x.norm(2) / x.numel() ** 0.5


class Adafactor(Optimizer):
    """Adam without a first moment, scaled by the size of the parameter, with moments in little memory.

    For a matrix, only the means of the squared gradients over rows and over columns are kept; their product represents
    each element. Steps shrink as 1 / sqrt(t) if lr is larger than that. A step whose root mean square exceeds `d` is
    scaled down to it.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: largest learning rate. The rate in step t is the smaller of `lr` and 1 / sqrt(t).
        beta2_decay: exponent, at most 0. The squares of step t have weight `t ** beta2_decay` in their running mean.
        eps: two bounds. The first is the smallest denominator, by default the machine epsilon of the parameter's dtype;
            the second is the smallest scale of a parameter.
        d: largest root mean square of a step before scaling, at least 1.
        weight_decay: factor of the decay, which multiplies parameters by `1 - lr * weight_decay` in each step.
        foreach: accepted as in torch; has no effect here, because parameters are updated one by one.
        maximize: whether steps go up the gradient.

    >>> import ndgrad
    >>> p = ndgrad.ones(2, 3, requires_grad=True)
    >>> optimizer = ndgrad.optim.Adafactor([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()[0], optimizer.state[p]["row_var"].shape
    (tensor([0.9000, 0.9000, 0.9000]), ndgrad.Size([2, 1]))
    """

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        settings = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        }  # fmt: skip
        if not beta2_decay <= 0.0:
            raise ValueError(f"Adafactor: beta2_decay should be <= 0 but is: {beta2_decay} [nd-range]")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"Adafactor: epsilon1 should be >= 0 but is: {eps[0]} [nd-range]")
        if not eps[1] >= 0.0:
            raise ValueError(f"Adafactor: epsilon2 should be >= 0 but is: {eps[1]} [nd-range]")
        if not d >= 1.0:
            raise ValueError(f"Adafactor: Clipping threshold d should be >= 1 but is: {d} [nd-range]")
        super().__init__(
            params, check_settings("Adafactor", {k: v for k, v in settings.items() if k != "eps"}) | {"eps": eps}
        )

    def _start(self, p: Tensor, group: Group) -> State:
        if p.is_complex():
            raise RuntimeError(
                "Adafactor does not support complex parameters. "
                "Optimize their real and imaginary parts (view_as_real). [nd-complex]"
            )
        if p.dim() < 2:
            return fresh(p, "variance")
        rows, columns = (*p.shape[:-1], 1), (*p.shape[:-2], 1, p.shape[-1])
        return {**fresh(p), "row_var": p.new_zeros(rows), "col_var": p.new_zeros(columns)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        step = count_step(state)
        smallest, least_scale = group["eps"]
        if smallest is None:
            smallest = float(np.finfo(np_dtype(p)).eps)
        new = step ** group["beta2_decay"]  # the weight of this step's squares
        rate = at_most(1 / root(step), number(group["lr"]))
        size = at_least(number(_rms(p)), least_scale)
        if group["weight_decay"] != 0:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        squares = grad * grad
        if p.dim() < 2:
            state["variance"] = estimate = state["variance"] * (1 - new) + squares * new
        else:
            state["row_var"] = rows = state["row_var"] * (1 - new) + squares.mean(-1, keepdim=True) * new
            state["col_var"] = columns = state["col_var"] * (1 - new) + squares.mean(-2, keepdim=True) * new
            estimate = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=smallest)
        update = grad * estimate.clamp(min=smallest * smallest).rsqrt()
        cut = at_least(number(_rms(update)) / group["d"], 1.0)
        move(p, update, -size * rate / cut)
