"""Adam for sparse gradients: only the rows of a gradient, and their moments, are updated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ndgrad.optim.optimizer import Group, Optimizer, State, check_settings, fresh, tensors_of

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim.optimizer import Params, Rate

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that updates the moments of a row only if the row has a gradient ("lazy" Adam), for embeddings with
    sparse=True.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate, above 0.
        betas: decays of the running means of gradients and of their squares, each in [0, 1).
        eps: number added to the denominator, above 0.
        maximize: whether steps go up the gradient.

    Raises:
        RuntimeError: if a gradient is dense, in `step`.

    >>> import ndgrad
    >>> table = ndgrad.nn.Embedding(4, 1, sparse=True)
    >>> _ = ndgrad.nn.init.ones_(table.weight)
    >>> optimizer = ndgrad.optim.SparseAdam(table.parameters(), lr=0.25)
    >>> table(ndgrad.tensor([2])).sum().backward()
    >>> optimizer.step()
    >>> table.weight.detach().T
    tensor([[1.0000, 1.0000, 0.7500, 1.0000]])
    """

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        settings = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        if not float(lr) > 0.0:
            raise ValueError(f"SparseAdam: Invalid learning rate: {lr}. It must be positive. [nd-range]")
        if not eps > 0.0:
            raise ValueError(f"SparseAdam: Invalid epsilon value: {eps}. It must be positive. [nd-range]")
        super().__init__(params, check_settings("SparseAdam", settings))
        sparse = [number for number, p in enumerate(tensors_of(self.param_groups)) if p.is_sparse]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors [nd-optimizer]"
            )
        complex_ones = [number for number, p in enumerate(tensors_of(self.param_groups)) if p.is_complex()]
        if complex_ones:
            raise ValueError(
                f"Complex params at indices {complex_ones}: SparseAdam does not support complex parameters [nd-complex]"
            )

    def _start(self, p: Tensor, group: Group) -> State:
        return fresh(p, "exp_avg", "exp_avg_sq") | {"step": 0}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead: a parameter of shape "
            f"{tuple(p.shape)} has one. [nd-sparse-grad]"
        )

    def _update_sparse(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        state["step"] = step = state["step"] + 1
        grad = grad.coalesce()
        values = grad.values()
        if not values.numel():
            return
        rows = tuple(grad.indices())
        beta1, beta2 = group["betas"]
        # Each row occurs once, so values are read, changed and written back.
        mean = state["exp_avg"][rows] * beta1 + values * (1 - beta1)
        square = state["exp_avg_sq"][rows] * beta2 + values * values * (1 - beta2)
        state["exp_avg"][rows] = mean
        state["exp_avg_sq"][rows] = square
        size = group["lr"] * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        p[rows] = p[rows] - mean / (square.sqrt() + group["eps"]) * size
