"""Optimizers with a step size for every element: Adagrad, Adadelta, RMSprop, Rprop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.tensor.functions.creation import full_like
from ndgrad._src.tensor.functions.sparse import sparse_coo_tensor
from ndgrad.optim.optimizer import (
    Group,
    Optimizer,
    State,
    add_weight_decay,
    check_settings,
    count_step,
    fresh,
    move,
    running_mean,
)

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim.optimizer import Params, Rate

__all__ = ["Adadelta", "Adagrad", "RMSprop", "Rprop"]


def _fill_like(p: Tensor, value: float) -> Tensor:
    """Return a value in the shape of a parameter; a complex one is updated as two real ones, so both parts get it."""
    return full_like(p, complex(value, value) if p.is_complex() else value)


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients so far (Duchi et al., 2011).

    Step t is `s += g ** 2` and `p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)`. A sparse gradient changes
    only its own entries.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        lr_decay: decay of the learning rate per step.
        weight_decay: factor of the L2 penalty, which adds `weight_decay * p` to the gradient.
        initial_accumulator_value: sum of squares before the first step.
        eps: number added to the denominator.
        foreach, fused: False for both updates parameters one by one. The default updates all parameters of a group
            together if they are dense arrays of one dtype. At most one of the two may be True.
        maximize: whether steps go up the gradient.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.Adagrad([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.9000])
    """

    _numbers_in_state = ("step",)

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        settings = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, check_settings("Adagrad", settings))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(self._start(p.detach().values() if p.is_nested else p, group))

    def _start(self, p: Tensor, group: Group) -> State:
        return {**fresh(p), "sum": _fill_like(p, group["initial_accumulator_value"])}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        step = count_step(state)
        grad = add_weight_decay(grad, p, group["weight_decay"])
        state["sum"] = state["sum"] + grad * grad
        move(p, grad / (state["sum"].sqrt() + group["eps"]), -group["lr"] / (1 + (step - 1) * group["lr_decay"]))

    def _update_sparse(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        """Update only the entries of a sparse gradient."""
        if group["weight_decay"] != 0:
            raise RuntimeError(
                "Adagrad: weight_decay option is not compatible with sparse gradients: it would move every element. "
                "Leave it out, or make the gradient dense. [nd-sparse-grad]"
            )
        step = count_step(state)
        grad = grad.coalesce()
        state["sum"] = state["sum"].add_(grad * grad)
        size = state["sum"].sparse_mask(grad)
        scaled = grad.values() / (size.values().sqrt() + group["eps"])
        made = sparse_coo_tensor(grad.indices(), scaled, tuple(grad.shape))
        move(p, made, -group["lr"] / (1 + (step - 1) * group["lr_decay"]))


class Adadelta(Optimizer):
    """Steps whose size depends on earlier steps, not on a learning rate (Zeiler, 2012).

    With running means u of squared gradients and d of squared steps, a step is `delta = sqrt(d + eps) / sqrt(u + eps) *
    g` and `p -= lr * delta`.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: factor of each step.
        rho: decay of both running means, in [0, 1].
        eps: number added under both roots.
        weight_decay: factor of the L2 penalty, which adds `weight_decay * p` to the gradient.
        foreach: False updates parameters one by one. The default updates all parameters of a group together if they are
            dense arrays of one dtype.
        capturable: accepted as in torch; has no effect here, because a CUDA graph can record every step.
        maximize: whether steps go up the gradient.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.Adadelta([p], lr=10.0)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.9684])
    """

    _numbers_in_state = ("step",)

    def __init__(
        self,
        params: Params,
        lr: Rate = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        settings = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Adadelta: Invalid rho value: {rho}. It must lie in [0, 1]. [nd-range]")
        super().__init__(params, check_settings("Adadelta", settings))

    def _start(self, p: Tensor, group: Group) -> State:
        return fresh(p, "square_avg", "acc_delta")

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        count_step(state)
        rho, eps = group["rho"], group["eps"]
        grad = add_weight_decay(grad, p, group["weight_decay"])
        squares = running_mean(state, "square_avg", rho, grad * grad)
        delta = (state["acc_delta"] + eps).sqrt() / (squares + eps).sqrt() * grad
        running_mean(state, "acc_delta", rho, delta * delta)
        move(p, delta, -group["lr"])


class RMSprop(Optimizer):
    """Steps divided by the root of the running mean of squared gradients.

    A step is `v = alpha * v + (1 - alpha) * g ** 2` and `p -= lr * g / (sqrt(v) + eps)`.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        alpha: decay of the running mean of squares.
        eps: number added to the denominator.
        weight_decay: factor of the L2 penalty, which adds `weight_decay * p` to the gradient.
        momentum: factor of the previous step in a running sum of steps.
        centered: whether v is replaced by an estimate of the variance, `v - mean(g) ** 2`.
        capturable: accepted as in torch; has no effect here, because a CUDA graph can record every step.
        foreach: False updates parameters one by one. The default updates all parameters of a group together if they are
            dense arrays of one dtype.
        maximize: whether steps go up the gradient.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.RMSprop([p], lr=0.01)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.9000])
    """

    _numbers_in_state = ("step",)

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        settings = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        if not alpha >= 0.0:
            raise ValueError(f"RMSprop: Invalid alpha value: {alpha}. It must be at least 0. [nd-range]")
        super().__init__(params, check_settings("RMSprop", settings))

    def _start(self, p: Tensor, group: Group) -> State:
        momentum = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return fresh(p, "square_avg", *momentum, *(("grad_avg",) if group["centered"] else ()))

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        count_step(state)
        alpha = group["alpha"]
        grad = add_weight_decay(grad, p, group["weight_decay"])
        squares = running_mean(state, "square_avg", alpha, grad * grad)
        if group["centered"]:
            mean = running_mean(state, "grad_avg", alpha, grad)
            squares = squares - mean * mean
        step = grad / (squares.sqrt() + group["eps"])
        if group["momentum"] > 0:
            state["momentum_buffer"] = step = state["momentum_buffer"] * group["momentum"] + step
        move(p, step, -group["lr"])


class Rprop(Optimizer):
    """Step sizes that grow while an element's gradient keeps its sign and shrink when it changes.

    Only the sign of the gradient counts (Riedmiller and Braun, 1993).

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: size of the first step of each element.
        etas: factors of the step size, (below 1, above 1), after a change of sign and without one.
        step_sizes: smallest and largest step size.
        capturable: accepted as in torch; has no effect here, because a CUDA graph can record every step.
        foreach: False updates parameters one by one. The default updates all parameters of a group together if they are
            dense arrays of one dtype.
        maximize: whether steps go up the gradient.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.Rprop([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.9000])
    """

    _numbers_in_state = ("step",)

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        settings = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(
                f"Rprop: Invalid eta values: {etas[0]}, {etas[1]}. The first must lie between 0 "
                "and 1, the second above 1. [nd-range]"
            )
        super().__init__(params, check_settings("Rprop", settings))

    def _start(self, p: Tensor, group: Group) -> State:
        return {**fresh(p, "prev"), "step_size": _fill_like(p, float(group["lr"]))}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        count_step(state)
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]
        kept = (grad * state["prev"]).sign()
        changed = kept < 0
        factor = kept.masked_fill(kept > 0, grow).masked_fill(changed, shrink).masked_fill(kept == 0, 1.0)
        state["step_size"] = size = (state["step_size"] * factor).clamp(min=smallest, max=largest)
        # If the sign has changed, the step is reverted: no step now, and no sign to compare with.
        state["prev"] = grad = grad.masked_fill(changed, 0.0)
        move(p, grad.sign() * size, -1.0)
