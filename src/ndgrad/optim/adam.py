"""Adam and its relatives: steps scaled by running moments of the gradient."""

from __future__ import annotations

import math
from typing import Any

from ndgrad.api.creation import zeros_like
from ndgrad.api.data import tensor
from ndgrad.dtypes import get_default_dtype
from ndgrad.optim.optimizer import Group, Optimizer, State, checked, counted, decayed, first_step, move, running_mean

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]

_BETAS = (0.0, 1.0)


class _Adaptive(Optimizer):
    """An optimizer with running means of the gradient and of its square."""

    def _start(self, p: Any, group: Group) -> State:
        return {"step": first_step(), "exp_avg": zeros_like(p).detach(), "exp_avg_sq": zeros_like(p).detach()}

    def _decay(self, p: Any, grad: Any, group: Group) -> Any:
        """Weight decay on the parameter itself, or on the gradient; the gradient to go on with."""
        if group["weight_decay"] == 0:
            return grad
        if group.get("decoupled_weight_decay"):
            p.mul_(1 - group["lr"] * group["weight_decay"])
            return grad
        return decayed(grad, p, group["weight_decay"])


class Adam(_Adaptive):
    """Steps of size lr in the direction mean(g) / sqrt(mean(g^2)), means being running ones (Kingma and Ba, 2014)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
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
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, checked(type(self).__name__, settings, lr=0.0, eps=0.0, betas=_BETAS, weight_decay=0.0))

    def _start(self, p: Any, group: Group) -> State:
        state = super()._start(p, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(p).detach()
        return state

    def _update(self, p: Any, grad: Any, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        step = counted(state)
        grad = self._decay(p, grad, group)
        mean = running_mean(state, "exp_avg", beta1, grad)
        square = running_mean(state, "exp_avg_sq", beta2, grad * grad)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = state["max_exp_avg_sq"].maximum(square)
        bias1, bias2 = 1 - beta1**step, 1 - beta2**step
        scale = square.sqrt() / math.sqrt(bias2) + group["eps"]
        move(p, mean / scale, -group["lr"] / bias1)


class AdamW(Adam):
    """Adam whose weight decay acts on the parameters, not through the moments (Loshchilov and Hutter, 2017)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
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
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class Adamax(Optimizer):
    """Adam with the running maximum of |g| in place of the root of the mean square."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
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
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, checked("Adamax", settings, lr=0.0, eps=0.0, betas=_BETAS, weight_decay=0.0))

    def _start(self, p: Any, group: Group) -> State:
        return {"step": first_step(), "exp_avg": zeros_like(p).detach(), "exp_inf": zeros_like(p).detach()}

    def _update(self, p: Any, grad: Any, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        step = counted(state)
        mean = running_mean(state, "exp_avg", beta1, grad := decayed(grad, p, group["weight_decay"]))
        largest = (state["exp_inf"] * beta2).maximum(grad.abs() + group["eps"])
        state["exp_inf"] = largest
        move(p, mean / largest, -group["lr"] / (1 - beta1**step))


class NAdam(_Adaptive):
    """Adam with Nesterov momentum (Dozat, 2016)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
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
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        checked("NAdam", settings, lr=0.0, eps=0.0, betas=_BETAS, weight_decay=0.0, momentum_decay=0.0)
        super().__init__(params, settings)

    def _start(self, p: Any, group: Group) -> State:
        first = super()._start(p, group)
        return {"step": first.pop("step"), "mu_product": tensor(1.0, dtype=get_default_dtype()), **first}

    def _update(self, p: Any, grad: Any, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        step = counted(state)
        grad = self._decay(p, grad, group)
        now, after = (beta1 * (1.0 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (step, step + 1))
        product = float(state["mu_product"]) * now
        state["mu_product"] = tensor(product, dtype=state["mu_product"].dtype)
        mean = running_mean(state, "exp_avg", beta1, grad)
        square = running_mean(state, "exp_avg_sq", beta2, grad * grad)
        scale = (square / (1 - beta2**step)).sqrt() + group["eps"]
        move(p, grad / scale, -group["lr"] * (1.0 - now) / (1.0 - product))
        move(p, mean / scale, -group["lr"] * after / (1.0 - product * after))


class RAdam(_Adaptive):
    """Adam that waits with its scaling until the second moment is known well enough (Liu et al., 2019)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
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
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, checked("RAdam", settings, lr=0.0, eps=0.0, betas=_BETAS, weight_decay=0.0))

    def _update(self, p: Any, grad: Any, state: State, group: Group) -> None:
        beta1, beta2 = group["betas"]
        step = counted(state)
        grad = self._decay(p, grad, group)
        mean = running_mean(state, "exp_avg", beta1, grad)
        square = running_mean(state, "exp_avg_sq", beta2, grad * grad)
        bias2 = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / bias2  # of the moving average that the second moment is worth
        direction = mean
        scale = 1.0
        if length > 5:
            scale = math.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length) * bias2)
            direction = mean / (square.sqrt() + group["eps"])
        move(p, direction, -group["lr"] * scale / (1 - beta1**step))
