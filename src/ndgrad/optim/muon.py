"""Muon: momentum made orthogonal, for the matrices inside a network (Jordan et al., 2024)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ndgrad._src.arrays.dtypes import float32
from ndgrad.optim.optimizer import Group, Optimizer, State, check_settings, move, running_mean, tensors_of

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim.optimizer import Params

__all__ = ["Muon"]


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Return approximately the nearest matrix with all singular values one: a polynomial in X X^T that is near one on
    (0, 1], applied repeatedly (Newton-Schulz).
    """
    if steps >= 100:
        raise ValueError(
            f"Number of steps must be less than 100 for computational efficiency, but is {steps}. [nd-range]"
        )
    if matrix.dim() != 2:
        raise ValueError(f"Input tensor gradient must be a 2D matrix, but has shape {tuple(matrix.shape)}. [nd-ndim]")
    a, b, c = coefficients
    x = matrix.to(float32) if matrix.dtype.itemsize < 4 else matrix
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = x * a + (gram * b + (gram @ gram) * c) @ x
    return (x.T if tall else x).to(matrix.dtype)


class Muon(Optimizer):
    """Steps along the momentum with singular values near one, for parameters that are matrices.

    Use another optimizer for embeddings, heads, biases and similar parameters.

    Args:
        params: matrices to optimize, pairs of name and matrix, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        weight_decay: factor of the decay, which multiplies parameters by `1 - lr * weight_decay` in each step.
        momentum: decay of the running mean of gradients.
        nesterov: whether a step mixes the present gradient into the mean once more.
        ns_coefficients: coefficients (a, b, c) of an iteration `X = a X + (b A + c A^2) X` with `A = X X^T`.
        eps: smallest norm by which a matrix is divided before the iterations.
        ns_steps: number of iterations, below 100.
        adjust_lr_fn: scale of the learning rate by the shape of a matrix. `"original"`, the default, is `sqrt(max(1,
            rows / columns))`. `"match_rms_adamw"` is `0.2 * sqrt(max(rows, columns))`, with which settings of AdamW can
            be kept.

    Raises:
        ValueError: if a parameter is not a matrix.

    >>> import ndgrad
    >>> p = ndgrad.eye(2).requires_grad_()
    >>> optimizer = ndgrad.optim.Muon([p], lr=0.1, weight_decay=0.0)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> bool((p[0, 0] < 0.95) & (p[0, 1] == 0))
    True
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        settings = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported: give 'original' or 'match_rms_adamw'. "
                "[nd-option]"
            )
        super().__init__(params, check_settings("Muon", settings))
        for p in tensors_of(self.param_groups):
            if p.dim() != 2:
                raise ValueError(
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {tuple(p.shape)}. Give "
                    "it to another optimizer. [nd-optimizer]"
                )

    def _start(self, p: Tensor, group: Group) -> State:
        if p.is_complex():
            raise RuntimeError(f"Muon does not support complex parameters, and one has dtype {p.dtype}. [nd-complex]")
        return {"momentum_buffer": p.new_zeros(p.shape)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        momentum = group["momentum"]
        mean = running_mean(state, "momentum_buffer", momentum, grad)
        direction = mean * momentum + grad * (1 - momentum) if group["nesterov"] else mean
        direction = _orthogonal(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            scale = 0.2 * math.sqrt(max(rows, columns))
        else:
            scale = math.sqrt(max(1, rows / columns))
        p.mul_(1 - group["lr"] * group["weight_decay"])
        move(p, direction, -group["lr"] * scale)
