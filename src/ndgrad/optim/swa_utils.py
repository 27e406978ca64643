"""Averages of a model's weights over training: stochastic weight averaging and exponential moving averages.

An `AveragedModel` is a copy of a model whose parameters are averages over all calls of `update_parameters`. `SWALR`
keeps the learning rate up meanwhile. `update_bn` computes the statistics of batch normalisation for the averages, for
which no forward pass has run.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ndgrad._src.arrays.dtypes import int64
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.data import tensor
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn.modules.batchnorm import _BatchNorm
from ndgrad.nn.modules.module import Module
from ndgrad.optim.lr_scheduler import LRScheduler, _per_group
from ndgrad.optim.optimizer import Optimizer, as_float

if TYPE_CHECKING:
    from ndgrad._typing import Device

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip

_Average = Callable[[Any, Any, Any], Any]
_Averages = Callable[[Sequence[Any], Sequence[Any], Any], None]


def _check_decay(decay: float) -> float:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range. [nd-range]")
    return decay


def get_ema_multi_avg_fn(decay: float = 0.999) -> _Averages:
    """Return a function that moves averages, in place, by 1 - decay towards the present values.

    Args:
        decay: weight of the averages, in [0, 1].

    Returns:
        A function of the averages, the present values and the number of updates before.

    >>> import ndgrad
    >>> from ndgrad.optim.swa_utils import get_ema_multi_avg_fn
    >>> average = ndgrad.zeros(2)
    >>> get_ema_multi_avg_fn(0.75)([average], [ndgrad.ones(2)], 1)
    >>> average
    tensor([0.2500, 0.2500])
    """
    return _make_in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> _Averages:
    """Return a function that updates averages of n values, in place, to those of n + 1.

    >>> import ndgrad
    >>> from ndgrad.optim.swa_utils import get_swa_multi_avg_fn
    >>> average = ndgrad.zeros(2)
    >>> get_swa_multi_avg_fn()([average], [ndgrad.ones(2)], 3)
    >>> average
    tensor([0.2500, 0.2500])
    """
    return _make_in_place(get_swa_avg_fn())


def get_ema_avg_fn(decay: float = 0.999) -> _Average:
    """Return a function for the exponential moving average of one parameter.

    Args:
        decay: weight of the average, in [0, 1].

    Returns:
        A function of the average, the present value and the number of updates before.

    >>> import ndgrad
    >>> ndgrad.optim.swa_utils.get_ema_avg_fn(0.75)(ndgrad.zeros(2), ndgrad.ones(2), 1)
    tensor([0.2500, 0.2500])
    """
    weight = _check_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return weight * ema_param + (1 - weight) * current_param

    return ema_update


def get_swa_avg_fn() -> _Average:
    """Return a function for the mean of one parameter over all updates.

    >>> import ndgrad
    >>> ndgrad.optim.swa_utils.get_swa_avg_fn()(ndgrad.zeros(2), ndgrad.ones(2), 3)
    tensor([0.2500, 0.2500])
    """

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _make_in_place(average: _Average) -> _Averages:
    """Return an in-place version for many parameters, written into the averages."""

    def update(averages: Sequence[Tensor], currents: Sequence[Tensor], num_averaged: Any) -> None:
        with no_grad():
            for mean, current in zip(averages, currents, strict=True):
                mean.copy_(average(mean, current, num_averaged))

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over all calls of `update_parameters`.

    Args:
        model: model whose parameters are averaged. It is copied and stays unchanged.
        device: device of the copy. The default is that of the model.
        avg_fn: function `(average, value, count)` that returns the next average of one parameter. The default is the
            mean of all values.
        multi_avg_fn: function `(averages, values, count)` that changes all averages in place. It excludes `avg_fn`.
        use_buffers: whether buffers are averaged like parameters. Otherwise they are copied from the model at each
            update.

    >>> import ndgrad
    >>> from ndgrad.optim.swa_utils import AveragedModel
    >>> model = ndgrad.nn.Linear(1, 1, bias=False)
    >>> averaged = AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = ndgrad.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Device = None,
        avg_fn: _Average | None = None,
        multi_avg_fn: _Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided [nd-exclusive]")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model.

        Args:
            *args, **kwargs: arguments of the model.
        """
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add the present parameters of a model to the averages.

        Args:
            model: model of the same structure.
        """
        means: list[Any]
        values: list[Any]
        if self.use_buffers:
            means, values = (list(itertools.chain(m.parameters(), m.buffers())) for m in (self.module, model))
        else:
            means, values = list(self.module.parameters()), list(model.parameters())
        currents = [value.detach().to(mean.device) for mean, value in zip(means, values, strict=True)]
        averages = [mean.detach() for mean in means]
        count = self.n_averaged
        if not count.item():
            with no_grad():
                for mean, current in zip(averages, currents, strict=True):
                    mean.copy_(current)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, currents, count.to(averages[0].device) if averages else count)
        else:
            (_make_in_place(self.avg_fn) if self.avg_fn is not None else get_swa_multi_avg_fn())(
                averages, currents, count
            )
        if not self.use_buffers:
            with no_grad():
                for mean, value in zip(self.module.buffers(), model.buffers(), strict=True):
                    mean.copy_(value.detach().to(mean.device))
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Device = None) -> None:
    """Recompute the running statistics of batch normalisation, by one pass over data in training mode.

    Args:
        loader: iterable of batches. If a batch is a tuple or a list, its first entry is the input.
        model: model whose statistics are replaced. Its training mode is restored afterwards.
        device: device to which inputs are moved.

    >>> import ndgrad
    >>> model = ndgrad.nn.BatchNorm1d(1)
    >>> ndgrad.optim.swa_utils.update_bn([ndgrad.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    momenta: dict[Any, float | None] = {}
    for part in model.modules():
        if isinstance(part, _BatchNorm):
            part.reset_running_stats()
            momenta[part] = part.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for part in momenta:
        part.momentum = None  # a mean over all batches
    try:
        with no_grad():
            for batch in loader:
                data = batch[0] if isinstance(batch, (list, tuple)) else batch
                if device is not None and isinstance(data, Variable):
                    data = data.to(device)
                model(data)
    finally:
        for part, momentum in momenta.items():
            part.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Anneal the learning rate to `swa_lr` within `anneal_epochs` steps, and keep it from then on.

    Args:
        optimizer: optimizer whose learning rates are changed.
        swa_lr: final rate, or one per group.
        anneal_epochs: number of steps until the final rate.
        anneal_strategy: shape of the change, `"cos"` or `"linear"`.
        last_epoch: number of the last epoch of a run that continues, or -1 for a new run. Groups of a continued run
            need an "initial_lr".

    >>> import ndgrad
    >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = ndgrad.optim.swa_utils.SWALR(optimizer, 0.2, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> round(scheduler.get_last_lr()[0], 4)
    0.2
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(
            optimizer.param_groups, _per_group(optimizer.param_groups, "swa_lr", swa_lr), strict=True
        ):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy} [nd-option]"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs} [nd-range]")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        """Return the fraction of the annealing that is complete after some steps."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return done if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def _next_lr(self) -> list[float]:
        step = self._step_count - 1
        if not self.anneal_epochs:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            last, present = as_float(group["swa_lr"]), as_float(group["lr"])
            first = last if before == 1 else (present - before * last) / (1 - before)
            rates.append(last * now + first * (1 - now))
        return rates
