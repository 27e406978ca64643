"""Adam and its variants: steps scaled by running moments of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from ndgrad.optim.optimizer import (
    Group,
    Optimizer,
    State,
    add_weight_decay,
    as_state,
    check_settings,
    count_step,
    either,
    fresh,
    move,
    number,
    root,
    running_mean,
    scalar,
)

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim.optimizer import Params, Rate

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


class _Adaptive(Optimizer):
    """An optimizer with running means of the gradient and of its square."""

    _numbers_in_state: ClassVar[tuple[str, ...] | None] = ("step",)

    def _start(self, p: Tensor, group: Group) -> State:
        return fresh(p, "exp_avg", "exp_avg_sq")

    def _advance(self, p: Tensor, grad: Tensor, state: State, group: Group) -> tuple[Any, Tensor, Tensor, Tensor]:
        """Begin a step: return the step count, the gradient after weight decay, its mean and that of its square.

        The decay acts on the parameter itself, or through the gradient.
        """
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - group["lr"] * group["weight_decay"])
            else:
                grad = add_weight_decay(grad, p, group["weight_decay"])
        beta1, beta2 = group["betas"]
        mean = running_mean(state, "exp_avg", beta1, grad)
        return count_step(state), grad, mean, running_mean(state, "exp_avg_sq", beta2, grad * grad)


class Adam(_Adaptive):
    """Adam: steps along mean(g) / sqrt(mean(g^2)), with running means (Kingma and Ba, 2014).

    A step is `m = beta1 * m + (1 - beta1) * g`, `v = beta2 * v + (1 - beta2) * g ** 2` and `p -= lr * m' / (sqrt(v') +
    eps)`. The corrected means are `m' = m / (1 - beta1 ** t)` and `v' = v / (1 - beta2 ** t)` in step t.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        betas: decays of the running means of gradients and of their squares, each in [0, 1).
        eps: number added to the denominator.
        weight_decay: factor of the decay of parameters.
        decoupled_weight_decay: whether the decay multiplies parameters by `1 - lr * weight_decay`, as in AdamW, instead
            of adding `weight_decay * p` to the gradient.
        amsgrad: whether the largest v so far is used instead of v.
        foreach, fused: False for both updates parameters one by one. The default updates all parameters of a group
            together if they are dense arrays of one dtype. At most one of the two may be True.
        maximize: whether steps go up the gradient.
        capturable: accepted as in torch; has no effect here, because a CUDA graph can record every step.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.Adam([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.9000])
    """

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-3,
        betas: tuple[Rate, Rate] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        settings = {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, check_settings(type(self).__name__, settings))

    def _start(self, p: Tensor, group: Group) -> State:
        return fresh(p, "exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        step, grad, mean, square = self._advance(p, grad, state, group)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = state["max_exp_avg_sq"].maximum(square)
        bias1, bias2 = 1 - beta1**step, 1 - beta2**step
        scale = square.sqrt() / root(bias2) + group["eps"]
        move(p, mean / scale, -group["lr"] / bias1)


class AdamW(Adam):
    """Adam whose weight decay acts on the parameters, not through the moments (Loshchilov and Hutter, 2017).

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        betas: decays of the running means of gradients and of their squares, each in [0, 1).
        eps: number added to the denominator.
        weight_decay: factor of the decay, which multiplies parameters by `1 - lr * weight_decay` in each step.
        amsgrad: whether the largest mean of squares so far is used instead of the present one.
        maximize: whether steps go up the gradient.
        foreach, fused: False for both updates parameters one by one. The default updates all parameters of a group
            together if they are dense arrays of one dtype. At most one of the two may be True.
        capturable: accepted as in torch; has no effect here, because a CUDA graph can record every step.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.AdamW([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.8990])
    """

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-3,
        betas: tuple[Rate, Rate] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip


class Adamax(Optimizer):
    """Adam with the running maximum of |g| in place of the root of the mean square.

    Step t is `m = beta1 * m + (1 - beta1) * g`, `u = max(beta2 * u, |g| + eps)` and `p -= lr / (1 - beta1 ** t) * m /
    u`.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        betas: decays of the running mean of gradients and of the running maximum, each in [0, 1).
        eps: number added to |g|.
        weight_decay: factor of the L2 penalty, which adds `weight_decay * p` to the gradient.
        foreach: False updates parameters one by one. The default updates all parameters of a group together if they are
            dense arrays of one dtype.
        maximize: whether steps go up the gradient.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.
        capturable: accepted as in torch; has no effect here, because a CUDA graph can record every step.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.Adamax([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.9000])
    """

    _numbers_in_state = ("step",)

    def __init__(
        self,
        params: Params,
        lr: Rate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        settings = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, check_settings("Adamax", settings))

    def _start(self, p: Tensor, group: Group) -> State:
        return fresh(p, "exp_avg", "exp_inf")

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        step = count_step(state)
        mean = running_mean(state, "exp_avg", beta1, grad := add_weight_decay(grad, p, group["weight_decay"]))
        largest = (state["exp_inf"] * beta2).maximum(grad.abs() + group["eps"])
        state["exp_inf"] = largest
        move(p, mean / largest, -group["lr"] / (1 - beta1**step))


class NAdam(_Adaptive):
    """Adam with Nesterov momentum (Dozat, 2016).

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        betas: decays of the running means of gradients and of their squares, each in [0, 1).
        eps: number added to the denominator.
        weight_decay: factor of the decay of parameters.
        decoupled_weight_decay: whether the decay multiplies parameters by `1 - lr * weight_decay`, as in AdamW, instead
            of adding `weight_decay * p` to the gradient.
        momentum_decay: speed at which the momentum approaches betas[0]. In step t it is `betas[0] * (1 - 0.96 ** (t *
            momentum_decay) / 2)`.
        foreach: False updates parameters one by one. The default updates all parameters of a group together if they are
            dense arrays of one dtype.
        maximize: whether steps go up the gradient.
        capturable: accepted as in torch; has no effect here, because a CUDA graph can record every step.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.NAdam([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.8944])
    """

    _numbers_in_state = ("step", "mu_product")

    def __init__(
        self,
        params: Params,
        lr: Rate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        settings = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, check_settings("NAdam", settings))

    def _start(self, p: Tensor, group: Group) -> State:
        return {**fresh(p), "mu_product": scalar(1.0), **super()._start(p, group)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        step, grad, mean, square = self._advance(p, grad, state, group)
        now, after = (beta1 * (1.0 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (step, step + 1))
        product = number(state["mu_product"]) * now
        state["mu_product"] = as_state(product, state["mu_product"])
        scale = (square / (1 - beta2**step)).sqrt() + group["eps"]
        move(p, grad / scale, -group["lr"] * (1.0 - now) / (1.0 - product))
        move(p, mean / scale, -group["lr"] * after / (1.0 - product * after))


class RAdam(_Adaptive):
    """Adam that starts its scaling when the estimate of the second moment is reliable (Liu et al., 2019).

    The first steps, whose second moment is estimated from few gradients, are those of momentum without scaling.

    Args:
        params: tensors to optimize, pairs of name and tensor, or dicts with "params" and own settings, one per group.
        lr: learning rate.
        betas: decays of the running means of gradients and of their squares, each in [0, 1).
        eps: number added to the denominator.
        weight_decay: factor of the decay of parameters.
        decoupled_weight_decay: whether the decay multiplies parameters by `1 - lr * weight_decay`, as in AdamW, instead
            of adding `weight_decay * p` to the gradient.
        foreach: False updates parameters one by one. The default updates all parameters of a group together if they are
            dense arrays of one dtype.
        maximize: whether steps go up the gradient.
        capturable: accepted as in torch; has no effect here, because a CUDA graph can record every step.
        differentiable: whether steps are recorded for autograd, so that gradients pass through them.

    >>> import ndgrad
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.RAdam([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.8000])
    """

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        settings = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, check_settings("RAdam", settings))

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        step, grad, mean, square = self._advance(p, grad, state, group)
        bias2 = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        # length of the moving average equivalent to the second moment
        length = longest - 2 * step * beta2**step / bias2
        is_known = length > 5

        def where_known(value: Callable[[], Any]) -> Any:
            return either(is_known, value, lambda: 1.0)

        ratio = where_known(lambda: (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
        # Take no root of unused values: its derivative at 0 would be infinite.
        spread = where_known(lambda: root(where_known(lambda: square)) + group["eps"])
        scale = root(ratio * where_known(lambda: bias2))
        move(p, mean / spread, -group["lr"] * scale / (1 - beta1**step))
