"""Stochastic gradient descent, with momentum; and its averaged form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.tensor.functions.creation import zeros_like
from ndgrad.optim.optimizer import (
    Group,
    Optimizer,
    State,
    add_weight_decay,
    as_state,
    at_least,
    check_settings,
    count_step,
    either,
    fresh,
    move,
    number,
    scalar,
)

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim.optimizer import Params, Rate

__all__ = ["ASGD", "SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum.

    Without momentum a step is `p -= lr * g`. With momentum it is `p -= lr * v`, where `v = momentum * v + (1 -
    dampening) * g`, and `v = g` in the first step.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        momentum: factor of the previous velocity.
        dampening: fraction of the gradient that does not enter the velocity, from the second step on.
        weight_decay: factor of the L2 penalty, which adds `weight_decay * p` to the gradient.
        nesterov: whether a step is taken along `g + momentum * v` instead of v.
        maximize: whether steps go up the gradient.
        foreach, fused: False for both updates parameters one by one. The default updates all parameters of a group
            together if they are dense arrays of one dtype. At most one of the two may be True.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.

    Raises:
        ValueError: if `nesterov` is True without momentum or with dampening, or if a setting is negative.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.SGD([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.8000])
    """

    _complex_as_real = False
    _numbers_in_state = ()

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Rate = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        settings = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"Nesterov momentum requires a momentum and zero dampening, but they are {momentum} and {dampening}. "
                "[nd-exclusive]"
            )
        super().__init__(params, check_settings("SGD", settings))

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        grad = add_weight_decay(grad, p, group["weight_decay"])
        momentum = group["momentum"]
        if momentum != 0:
            velocity = state.get("momentum_buffer")
            if velocity is None:
                velocity = grad.clone() if group["differentiable"] else grad.detach().clone()
            else:
                velocity = velocity * momentum + (grad * (1 - group["dampening"]) if group["dampening"] else grad)
            state["momentum_buffer"] = velocity
            grad = grad + velocity * momentum if group["nesterov"] else velocity
        move(p, grad, -group["lr"])

    _update_sparse = _update  # sums and multiples of sparse tensors are sparse


class ASGD(Optimizer):
    """Stochastic gradient descent whose iterates are averaged from step t0 on (Polyak and Juditsky, 1992).

    A step multiplies p by `1 - lambd * eta` and subtracts `eta * g`, with `eta = lr / (1 + lambd * lr * t) ** alpha`.
    The average of p is `state[p]["ax"]`; parameters themselves are not replaced by it.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        lambd: factor of the decay of parameters and of the learning rate.
        alpha: power with which the learning rate decays.
        t0: number of steps before averaging begins.
        weight_decay: factor of the L2 penalty, which adds `weight_decay * p` to the gradient.
        foreach: False updates parameters one by one. The default updates all parameters of a group together if they are
            dense arrays of one dtype.
        maximize: whether steps go up the gradient.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.
        capturable: accepted as in torch; has no effect here, because a CUDA graph can record every step.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.ASGD([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.8000])
    """

    _numbers_in_state = ("step", "eta", "mu")

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        settings = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, check_settings("ASGD", settings))

    def _start(self, p: Tensor, group: Group) -> State:
        return {**fresh(p), "eta": scalar(float(group["lr"])), "mu": scalar(1.0), "ax": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        step = count_step(state)
        eta, mu = number(state["eta"]), number(state["mu"])
        grad = add_weight_decay(grad, p, group["weight_decay"])
        p.mul_(1 - group["lambd"] * eta)
        move(p, grad, -eta)
        average = state["ax"]
        state["ax"] = either(mu == 1, p.clone, lambda: average + (p - average) * mu)
        rate = number(group["lr"])
        state["eta"] = as_state(rate / (1 + group["lambd"] * rate * step) ** group["alpha"], state["eta"])
        state["mu"] = as_state(1 / at_least(step - group["t0"], 1), state["mu"])
