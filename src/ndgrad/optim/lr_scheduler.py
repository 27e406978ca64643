"""Learning rate schedules: each changes `lr` in the groups of an optimizer, once per call of `step()`.

If possible, a schedule computes the next rate from the present one, so that several schedules on one optimizer combine.
This is torch's "chainable form", with the same rounding.
"""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.optim.optimizer import Optimizer, as_float

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


#: torch's warning about `scheduler.step(epoch)`.
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler."
)


def _set_lr(group: dict[str, Any], lr: float) -> None:
    if isinstance(group["lr"], Variable):
        group["lr"].fill_(float(lr))
    else:
        group["lr"] = lr


def _count_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    optimizer.__dict__["_steps_taken"] += 1


class LRScheduler:
    """Base class of schedules: a subclass computes the rates at `last_epoch` in `get_lr`.

    Args:
        optimizer: optimizer whose learning rates are changed.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    Raises:
        KeyError: if the run continues and a group has no "initial_lr".

    >>> import ndgrad
    >>> class Halving(ndgrad.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate * 0.5**self.last_epoch for rate in self.base_lrs]
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> optimizer.param_groups[0]["lr"]
    0.5
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{type(optimizer).__name__} is not an Optimizer. Make the schedule with the optimizer "
                "whose rates it changes. [nd-type]"
            )
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Variable) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param_groups[{number}] has no 'initial_lr', which a schedule that goes on from epoch "
                    f"{last_epoch} starts from. [nd-schedule]"
                )
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._is_initial = True
        self._step_count = 0
        self._get_lr_called_within_step = False
        self._watch_steps()
        self.step()
        self._is_initial = False

    def _watch_steps(self) -> None:
        """Make the optimizer note whether it has taken a step, to warn of a schedule that runs ahead of it."""
        optimizer = self.optimizer
        if "_steps_taken" not in optimizer.__dict__:
            optimizer.__dict__["_steps_taken"] = 0

            optimizer.register_step_post_hook(_count_step)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the state of another schedule of the same kind.

        Args:
            state_dict: result of `state_dict()`.
        """
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """Return the rates set by the last step."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """Return the rates at `last_epoch`, one per group; subclasses define it (those of this file by `_next_lr`)."""
        if not self._get_lr_called_within_step:
            warnings.warn("get_lr() is for the scheduler itself. Use get_last_lr().", stacklevel=2)
        return self._next_lr()

    def _next_lr(self) -> list[float]:
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr(). [nd-define]")

    def _rates(self) -> list[float]:
        return [as_float(group["lr"]) for group in self.optimizer.param_groups]

    def _set_rates(self, compute: Callable[[], list[float]]) -> None:
        """Finish a step: compute the rates, and set them."""
        self._step_count += 1
        self._get_lr_called_within_step = True
        try:
            values = compute()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            _set_lr(group, lr)
        self._last_lr: list[float] = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """Advance by one epoch, or to a given one, and set the rates.

        Args:
            epoch: epoch to go to. The default is the next one.
        """
        if self._step_count == 1 and not self.optimizer.__dict__.get("_steps_taken", 1):
            warnings.warn(
                (
                    "lr_scheduler.step() is called before optimizer.step(). Call them in the opposite order, "
                    "or the first rate is skipped."
                ),
                stacklevel=2,
            )
        if epoch is None:
            self.last_epoch += 1
            self._set_rates(self.get_lr)
        else:
            self.last_epoch = epoch
            self._set_rates(getattr(self, "_get_closed_form_lr", self.get_lr))


# ----- factors --------------------------------------------------------------------------------------------------------


_LRScheduler = LRScheduler  # torch's name in old programs


class LambdaLR(LRScheduler):
    """Set the rate to the first rate times a function of the epoch.

    Args:
        optimizer: optimizer whose learning rates are changed.
        lr_lambda: function from the epoch to the factor, or one function per group.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 0.3333]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        functions = list(lr_lambda) if isinstance(lr_lambda, Sequence) else [lr_lambda] * groups
        if len(functions) != groups:
            raise ValueError(
                f"Expected {groups} lr_lambdas, but got {len(functions)}. Give one per group, or one for all. "
                "[nd-schedule]"
            )
        self.lr_lambdas: list[Callable[[int], float]] = functions
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and the functions; for callable objects, their attributes."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            dict(vars(f)) if hasattr(f, "__dict__") and not hasattr(f, "__code__") else None for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from another schedule's state; functions stay the ones given here.

        Args:
            state_dict: result of `state_dict()`. Attributes of callable objects are loaded, plain functions are not
                part of it.
        """
        state = dict(state_dict)
        for function, values in zip(self.lr_lambdas, state.pop("lr_lambdas", ()), strict=False):
            if values is not None:
                vars(function).update(values)
        self.__dict__.update(state)

    def _next_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(LambdaLR):
    """Multiply the rate by a function of the epoch, in every epoch.

    Args:
        optimizer: optimizer whose learning rates are changed.
        lr_lambda: function from the epoch to the factor, or one function per group. It is not called for epoch 0.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 0.25]
    """

    def _next_lr(self) -> list[float]:
        if self._is_initial:
            return self._rates()
        return [lr * f(self.last_epoch) for lr, f in zip(self._rates(), self.lr_lambdas, strict=True)]


class _FactorLR(LRScheduler):
    """Multiply the present rate by `_factor`, so that it is the first one times `_whole_factor`."""

    _factor: Callable[[], float]
    _whole_factor: Callable[[], float]

    def _next_lr(self) -> list[float]:
        return [lr * self._factor() for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self._whole_factor() for base in self.base_lrs]


class StepLR(_FactorLR):
    """Multiply the rate by `gamma` after every `step_size` epochs.

    Args:
        optimizer: optimizer whose learning rates are changed.
        step_size: number of epochs between two changes.
        gamma: factor of each change.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 1.0, 0.1, 0.1, 0.01]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return 1.0 if self.last_epoch == 0 or self.last_epoch % self.step_size else self.gamma

    def _whole_factor(self) -> float:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_FactorLR):
    """Multiply the rate by `gamma` at given epochs.

    Args:
        optimizer: optimizer whose learning rates are changed.
        milestones: epochs of the changes. An epoch that occurs twice counts twice.
        gamma: factor of each change.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        # Compare one by one: in a traced step the epoch is a placeholder without a hash.
        return self.gamma ** next((count for epoch, count in self.milestones.items() if epoch == self.last_epoch), 0)

    def _whole_factor(self) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ExponentialLR(_FactorLR):
    """Multiply the rate by `gamma` in every epoch.

    Args:
        optimizer: optimizer whose learning rates are changed.
        gamma: factor of each epoch.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return 1.0 if self._is_initial else self.gamma

    def _whole_factor(self) -> float:
        return self.gamma**self.last_epoch


class ConstantLR(_FactorLR):
    """Multiply the rate by a factor for the first `total_iters` epochs.

    Args:
        optimizer: optimizer whose learning rates are changed.
        factor: factor of the rate, in [0, 1].
        total_iters: number of epochs with the factor.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [0.5, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError(f"factor must lie in [0, 1], but is {factor}. [nd-range]")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else 1.0

    def _whole_factor(self) -> float:
        return self.factor if self.last_epoch < self.total_iters else 1.0


class LinearLR(_FactorLR):
    """Multiply the rate by a factor that changes linearly over `total_iters` epochs.

    Args:
        optimizer: optimizer whose learning rates are changed.
        start_factor: factor in the first epoch, in (0, 1].
        end_factor: factor from epoch `total_iters` on, in [0, 1].
        total_iters: number of epochs of the change.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [0.5, 0.75, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(f"start_factor must lie in (0, 1], but is {start_factor}. [nd-range]")
        if not 0 <= end_factor <= 1.0:
            raise ValueError(f"end_factor must lie in [0, 1], but is {end_factor}. [nd-range]")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _whole_factor(self) -> float:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done


class PolynomialLR(_FactorLR):
    """Lower the rate to zero over `total_iters` epochs, along a power of the remaining fraction.

    In epoch t the rate is the first one times `(1 - t / total_iters) ** power`.

    Args:
        optimizer: optimizer whose learning rates are changed.
        total_iters: number of epochs until the rate is zero.
        power: exponent of the remaining fraction.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5625, 0.25, 0.0625, 0.0]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _remaining_share(self, epoch: int) -> float:
        return 1.0 - epoch / self.total_iters

    def _factor(self) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        return as_float(
            (self._remaining_share(self.last_epoch) / self._remaining_share(self.last_epoch - 1)) ** self.power
        )

    def _whole_factor(self) -> float:
        return as_float(self._remaining_share(min(self.total_iters, self.last_epoch)) ** self.power)


# ----- waves ----------------------------------------------------------------------------------------------------------


class CosineAnnealingLR(LRScheduler):
    """Move the rate from the first one to `eta_min` along half a cosine, and back.

    In epoch t the rate is `eta_min + (first - eta_min) * (1 + cos(pi * t / T_max)) / 2`.

    Args:
        optimizer: optimizer whose learning rates are changed.
        T_max: number of epochs from the first rate to `eta_min`.
        eta_min: lowest rate.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 0.0, 0.5, 1.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _next_lr(self) -> list[float]:
        if self._is_initial:
            return self._rates()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [lr + (base - self.eta_min) * rise for lr, base in zip(self._rates(), self.base_lrs, strict=True)]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (lr - self.eta_min) + self.eta_min for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Lower the rate along half cosines that start again at the first rate (Loshchilov and Hutter, 2016).

    Args:
        optimizer: optimizer whose learning rates are changed.
        T_0: number of epochs of the first half cosine.
        T_mult: factor by which each half cosine is longer than the one before.
        eta_min: lowest rate.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"T_0 must be a positive int, but is {T_0}. [nd-range]")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"T_mult must be a positive int, but is {T_mult}. [nd-range]")
        if not isinstance(eta_min, (int, float)):
            raise ValueError(f"eta_min must be a number, but is {eta_min!r}. [nd-type]")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _next_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance by one epoch, or to a given one.

        Args:
            epoch: epoch to go to, which may be fractional. The default is the next one.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"epoch is negative: {epoch}. [nd-range]")
            self.T_cur, self.T_i = self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._set_rates(self.get_lr)

    def _place(self, epoch: float) -> tuple[float, int]:
        """Return the half cosine of an epoch, and the position in it."""
        if epoch < self.T_0:
            return epoch, self.T_0
        if self.T_mult == 1:
            return epoch % self.T_0, self.T_0
        number = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        begun = self.T_0 * (self.T_mult**number - 1) / (self.T_mult - 1)
        return epoch - begun, self.T_0 * self.T_mult**number


class OneCycleLR(LRScheduler):
    """Run one cycle: up to `max_lr`, then far below the first rate, with the opposite momentum (Smith and Topin, 2017).

    `step` is called after each batch. The momentum is `betas[0]` for optimizers with betas.

    Args:
        optimizer: optimizer whose learning rates are changed.
        max_lr: highest rate, or one per group.
        total_steps: number of steps of the cycle. The default is `epochs * steps_per_epoch`.
        epochs, steps_per_epoch: numbers from which `total_steps` is computed.
        pct_start: fraction of the steps in which the rate rises.
        anneal_strategy: shape of each phase, `"cos"` or `"linear"`.
        cycle_momentum: whether the momentum changes too.
        base_momentum: momentum at the highest rate, or one per group.
        max_momentum: momentum at the start and at the end, or one per group.
        div_factor: quotient of `max_lr` and the first rate.
        final_div_factor: quotient of the first and the last rate.
        three_phase: whether the rate goes back to the first one in a phase as long as the first, and to the last one
            after it.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    Raises:
        ValueError: if the number of steps is unknown, or if the optimizer has no momentum to change.

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5, cycle_momentum=False)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [0.04, 0.9505, 0.6113, 0.1883, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("give total_steps, or epochs and steps_per_epoch. [nd-schedule]")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"total_steps must be a positive int, but is {total_steps}. [nd-schedule]")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"pct_start must be a float in [0, 1], but is {pct_start}. [nd-range]")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear', but is {anneal_strategy!r}. [nd-option]")
        self.total_steps = total_steps
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        last, peak = total_steps - 1, pct_start * total_steps - 1
        phases: list[tuple[float, str]] = [(peak, "initial_lr max_lr max_momentum base_momentum")]
        if three_phase:
            phases.append((2 * peak, "max_lr initial_lr base_momentum max_momentum"))
            phases.append((last, "initial_lr min_lr max_momentum max_momentum"))
        else:
            phases.append((last, "max_lr min_lr base_momentum max_momentum"))
        names = "end_step start_lr end_lr start_momentum end_momentum".split()
        self._schedule_phases: list[dict[str, Any]] = [
            dict(zip(names, (end, *what.split()), strict=True)) for end, what in phases
        ]
        groups = optimizer.param_groups
        if last_epoch == -1:
            for group, top in zip(groups, _per_group(groups, "max_lr", max_lr), strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
                _set_lr(group, group["initial_lr"])
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError(
                    "the optimizer has neither momentum nor betas to cycle. Pass cycle_momentum=False. [nd-schedule]"
                )
            self.use_beta1 = "betas" in optimizer.defaults
            if last_epoch == -1:
                most, least = (
                    _per_group(groups, "max_momentum", max_momentum),
                    _per_group(groups, "base_momentum", base_momentum),
                )
                for group, high, low in zip(groups, most, least, strict=True):
                    _set_momentum(group, high, self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def _next_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"step {step} is beyond total_steps, {self.total_steps}. [nd-schedule]")
        rates = []
        for group in self.optimizer.param_groups:
            begun = 0.0
            for phase in self._schedule_phases:
                end = phase["end_step"]
                if step <= end or phase is self._schedule_phases[-1]:
                    part = (step - begun) / (end - begun)
                    rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], part))
                    if self.cycle_momentum:
                        momentum = self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], part)
                        _set_momentum(group, momentum, self.use_beta1)
                    break
                begun = end
        return rates


def _set_momentum(group: dict[str, Any], value: float, as_beta1: bool) -> None:
    if as_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """Move the rate from `base_lr` up to `max_lr` and down again, in cycles, with the opposite momentum (Smith, 2015).

    `step` is called after each batch. The momentum is `betas[0]` for optimizers with betas.

    Args:
        optimizer: optimizer whose learning rates are changed.
        base_lr: lowest rate, or one per group.
        max_lr: highest rate before scaling, or one per group.
        step_size_up: number of steps up.
        step_size_down: number of steps down. The default is `step_size_up`.
        mode: height of cycles. `"triangular"` is constant, `"triangular2"` is halved with each cycle, and `"exp_range"`
            is multiplied by `gamma` in each step.
        gamma: factor of each step for `"exp_range"`.
        scale_fn: function that returns the height and replaces `mode`.
        scale_mode: argument of `scale_fn`. `"cycle"` is the number of the cycle, from 1 on; `"iterations"` is the
            number of the step.
        cycle_momentum: whether the momentum changes too.
        base_momentum: momentum at the highest rate, or one per group.
        max_momentum: momentum at the lowest rate, or one per group.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    Raises:
        ValueError: if `mode` is unknown, or if the optimizer has no momentum to change.

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.CyclicLR(optimizer, 1.0, 2.0, step_size_up=2, cycle_momentum=False)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 1.5, 2.0, 1.5, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer [nd-type]")
        self.optimizer = optimizer
        groups = optimizer.param_groups
        lowest = _per_group(groups, "base_lr", base_lr)
        if last_epoch == -1:
            for group, low in zip(groups, lowest, strict=True):
                _set_lr(group, low)
        self.max_lrs = _per_group(groups, "max_lr", max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f"mode is invalid and scale_fn is None: {mode!r} is none of 'triangular', 'triangular2', 'exp_range'. "
                "[nd-option]"
            )
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError(
                    "the optimizer has neither momentum nor betas to cycle. Pass cycle_momentum=False. [nd-schedule]"
                )
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = _per_group(groups, "base_momentum", base_momentum)
            self.max_momentums = _per_group(groups, "max_momentum", max_momentum)
            if last_epoch == -1:
                for group, low, high in zip(groups, self.base_momentums, self.max_momentums, strict=True):
                    _set_momentum(group, high, self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def scale_fn(self, x: float) -> float:
        """Return the height of a cycle.

        Args:
            x: number of the cycle, from 1 on, or of the step, by `scale_mode`.
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return as_float(1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x)

    def _next_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        factor = height * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                _set_momentum(group, high - (high - low) * factor, self.use_beta1)
        return [low + (high - low) * factor for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer; for a `scale_fn` that is an object, its attributes, for a function
        nothing.
        """
        state = super().state_dict()
        scale = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None
        if scale is not None and not isinstance(scale, types.FunctionType):
            state["_scale_fn_custom"] = scale.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from another schedule's state.

        Args:
            state_dict: result of `state_dict()`. A `scale_fn` that is a function stays unchanged.
        """
        state = dict(state_dict)
        attributes = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


def _per_group(groups: list[dict[str, Any]], name: str, value: float | Sequence[float]) -> list[float]:
    if not isinstance(value, Sequence):
        return [value] * len(groups)
    if len(value) != len(groups):
        raise ValueError(f"{name} has {len(value)} values for {len(groups)} parameter groups. [nd-schedule]")
    return list(value)


# ----- several schedules ----------------------------------------------------------------------------------------------


def _check_schedulers(kind: str, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
    if len(schedulers) < 1:
        raise ValueError(f"{kind} needs at least one scheduler. [nd-schedule]")
    for number, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(
                f"{kind}: {scheduler!r} at index {number} is not a scheduler: it has no `optimizer`. [nd-schedule]"
            )
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{kind} does not support ReduceLROnPlateau, whose step() takes a measured value. [nd-schedule]"
            )
        if scheduler.optimizer is not (optimizer or schedulers[0].optimizer):
            raise ValueError(f"{kind}: scheduler {number} belongs to another optimizer. [nd-schedule]")


def _refuse_epoch(name: str, epoch: int | None) -> None:
    if epoch is not None:
        raise TypeError(
            f"{name}.step() takes no epoch, but got {epoch!r}. Call it once per epoch, without it. [nd-arguments]"
        )


class SequentialLR(LRScheduler):
    """Run schedules one after another, with changes at milestones.

    Args:
        optimizer: optimizer whose learning rates are changed.
        schedulers: schedules of this optimizer, in their order.
        milestones: epochs at which the next schedule begins, one fewer than schedules.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run.

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> from ndgrad.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> parts = [ConstantLR(optimizer, 0.5, total_iters=2), ExponentialLR(optimizer, 0.1)]
    >>> SequentialLR(optimizer, parts, milestones=[2]).get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        _check_schedulers("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR needs a milestone between every two schedulers: "
                f"{len(milestones)} for {len(schedulers)}. [nd-schedule]"
            )
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Creating the schedules has applied the first rates of all; only those of the first are wanted.
        for group in optimizer.param_groups:
            _set_lr(group, group["initial_lr"])
        for scheduler in self._schedulers:
            scheduler.last_epoch -= 1
        self._schedulers[0]._is_initial, self._schedulers[0]._step_count = True, 0
        self._schedulers[0].step()
        self._schedulers[0]._is_initial = False
        self._last_lr = list(self._schedulers[0].get_last_lr())

    def step(self, epoch: int | None = None) -> None:
        """Advance by one epoch.

        Args:
            epoch: must be None, because schedules in a sequence have no common epoch.
        """
        _refuse_epoch("SequentialLR", epoch)
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = list(scheduler.get_last_lr())

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer, with the schedules' own states."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return {**state, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from another schedule's state.

        Args:
            state_dict: result of `state_dict()`, of as many schedules of the same kinds.
        """
        state = dict(state_dict)
        for scheduler, values in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(values)
        self.__dict__.update(state)


class ChainedScheduler(LRScheduler):
    """Run several schedules at every step, so that their factors multiply.

    Args:
        schedulers: schedules of one optimizer.
        optimizer: optimizer of the schedules. The default is that of the first one.

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> from ndgrad.optim.lr_scheduler import ChainedScheduler, ExponentialLR
    >>> scheduler = ChainedScheduler([ExponentialLR(optimizer, 0.5), ExponentialLR(optimizer, 0.5)])
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        _check_schedulers("ChainedScheduler", schedulers, optimizer)
        optimizer = optimizer or schedulers[0].optimizer
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """Advance all schedules by one epoch.

        Args:
            epoch: must be None.
        """
        _refuse_epoch("ChainedScheduler", epoch)
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()

    state_dict = SequentialLR.state_dict
    load_state_dict = SequentialLR.load_state_dict


# ----- schedules by a measured quantity -------------------------------------------------------------------------------


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by a factor when a metric has not improved for more than `patience` epochs.

    Args:
        optimizer: optimizer whose learning rates are changed.
        mode: `"min"` if a smaller metric is better, `"max"` if a larger one is.
        factor: factor of the rate, below 1.
        patience: number of epochs without improvement that are tolerated.
        threshold: smallest change that counts as an improvement.
        threshold_mode: `"rel"` for a threshold relative to the best metric, `"abs"` for an absolute one.
        cooldown: number of epochs after a change in which the metric is not compared.
        min_lr: lowest rate, or one per group.
        eps: smallest change of a rate. Smaller changes are skipped.

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in [3.0, 3.0, 3.0]:
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"factor must be below 1, but is {factor}. [nd-range]")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer. [nd-type]")
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', but is {mode!r}. [nd-option]")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold_mode must be 'rel' or 'abs', but is {threshold_mode!r}. [nd-option]")
        self.optimizer = optimizer
        self.factor = factor
        self.default_min_lr = None if isinstance(min_lr, Sequence) else min_lr
        self.min_lrs = _per_group(optimizer.param_groups, "min_lr", min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._rates()
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    # Needs the metric, as in torch.
    def step(self, metrics: Tensor | float, epoch: int | None = None) -> None:  # type: ignore[override]
        """Compare a measured value with the best one, and lower the rates if it is time.

        Args:
            metrics: measured value, a number or a tensor of one element.
            epoch: number of the epoch. The default is the next one.
        """
        current = as_float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):  # some were added since
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"min_lrs has {len(self.min_lrs)} values for {len(groups)} parameter groups. Add to it. "
                    "[nd-schedule]"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = as_float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _set_lr(group, new)

    @property
    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """True if a value is better than the best by more than the threshold.

        Args:
            a: new value.
            best: best value so far.
        """
        if self.threshold_mode == "rel":
            sign = -1.0 if self.mode == "min" else 1.0
            bound = best * (1.0 + sign * self.threshold)
        else:
            bound = best + (-self.threshold if self.mode == "min" else self.threshold)
        return a < bound if self.mode == "min" else a > bound

_refuse_absent(__name__)
