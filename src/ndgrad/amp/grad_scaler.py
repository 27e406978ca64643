"""Scaling of losses, so that gradients in half precision do not underflow: `GradScaler`.

The loss is multiplied by a scale, so gradients are that much larger. Before the step they are divided by it. A step
whose gradients have an infinity or a NaN is skipped, and the scale decreases. After enough good steps it increases.
This works on CPU and GPU: gradients are divided in place.

The scale, the number of good steps and the flag for infinite gradients are tensors, as in torch. A compiled step reads
and writes them like parameters; its only condition is whether the optimizer steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.gpus import devices_or_none
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations.devices import device as as_device
from ndgrad._src.tensor.functions.creation import full
from ndgrad._src.tensor.functions.elementwise import where

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim import Optimizer

__all__ = ["GradScaler", "OptState"]

class OptState(Enum):
    """Progress of an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2

class _Optimizer:
    """State of an optimizer between two updates."""

    __slots__ = ("found_inf", "stage")

    def __init__(self) -> None:
        self.stage = OptState.READY
        #: True if its gradients have an infinity or a NaN; None before the check, or if it has none.
        self.found_inf: Tensor | None = None

class GradScaler:
    """Scale a loss, divide gradients before the step, and skip steps whose gradients are not finite.

    Args:
        device: kind of device, `"cpu"` or `"cuda"`. Scaling is off, with a warning, if there is no such device.
        init_scale: first scale.
        growth_factor: factor of the scale after `growth_interval` good steps, above 1.
        backoff_factor: factor of the scale after a step that was skipped, below 1.
        growth_interval: number of good steps in a row before the scale grows.
        enabled: whether losses are scaled. With False all methods do nothing or only call the optimizer.

    >>> import ndgrad
    >>> p = ndgrad.nn.Parameter(ndgrad.tensor([1.0, 2.0]))
    >>> optimizer = ndgrad.optim.SGD([p], lr=0.5)
    >>> scaler = ndgrad.amp.GradScaler("cpu", init_scale=1024.0)
    >>> scaler.scale((p * p).sum()).backward()
    >>> p.grad
    tensor([2048., 4096.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> p.detach()
    tensor([0., 0.])
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        self._device = as_device(device).type
        self._enabled = enabled
        if enabled and self._device == "cuda" and not devices_or_none()[1]:
            warnings.warn(
                "GradScaler is enabled, but CUDA is not available. Disabling.", UserWarning, stacklevel=2
            )
            self._enabled = False
        if not self._enabled:
            return
        assert growth_factor > 1.0, "The growth factor must be > 1.0."
        assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._init_scale = float(init_scale)
        #: None before the first loss was scaled.
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._optimizers: dict[int, _Optimizer] = {}

    def _begun(self, what: str) -> tuple[Tensor, Tensor]:
        """Return the scale and the number of good steps since it last changed."""
        assert self._scale is not None, (
            f"Attempted {what} but _scale is None.  This may indicate your script did not use "
            "scaler.scale(loss or outputs) earlier in the iteration."
        )
        assert self._growth_tracker is not None
        return self._scale, self._growth_tracker

    def _begin(self, device: Any) -> Tensor:
        if self._scale is None:
            self._scale = full((), self._init_scale, dtype=dtypes.float32, device=device)
            self._growth_tracker = full((), self._init_growth_tracker, dtype=dtypes.int32, device=device)
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """Multiply one or several losses by the scale.

        Args:
            outputs: loss, or an iterable of losses.

        Returns:
            The scaled loss, or losses in a container of the same kind.

        >>> import ndgrad
        >>> ndgrad.amp.GradScaler("cpu", init_scale=4.0).scale(ndgrad.tensor(2.0))
        tensor(8.)
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Variable):
            return outputs * self._begin(outputs.device).to(outputs.device)
        if isinstance(outputs, Iterable):
            scaled = [self.scale(o) for o in outputs]
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else iter(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors [nd-type]")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide an optimizer's gradients by the scale, for example before clipping.

        Args:
            optimizer: optimizer whose gradients are divided, in place.

        Raises:
            RuntimeError: if they were divided already since the last `update`.
        """
        if not self._enabled:
            return
        scale, _ = self._begun("unscale_")
        known = self._state_of(optimizer)
        if known.stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update(). [nd-call-order]"
            )
        if known.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step(). [nd-call-order]")
        known.found_inf = _divide(optimizer, scale)
        known.stage = OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Run the optimizer's step with gradients divided by the scale.

        The step is skipped if a gradient is not finite.

        Args:
            optimizer: optimizer to step.
            *args, **kwargs: arguments of its `step`. A `closure` is not supported.

        Returns:
            The result of the step, or None if it was skipped.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled. [nd-call-order]")
        self._begun("step")
        known = self._state_of(optimizer)
        if known.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update(). [nd-call-order]")
        if known.stage is OptState.READY:
            self.unscale_(optimizer)
        assert known.found_inf is not None, "No inf checks were recorded for this optimizer."
        result = None if bool(known.found_inf) else optimizer.step(*args, **kwargs)
        known.stage = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """End an iteration: decrease the scale after a skipped step, and increase it after enough good steps.

        Args:
            new_scale: scale to set instead.
        """
        if not self._enabled:
            return
        scale, count = self._begun("update")
        with no_grad():
            if isinstance(new_scale, Variable):
                scale.copy_(new_scale)
            elif new_scale is not None:
                scale.fill_(new_scale)
            else:
                self._adapt(scale, count)
        self._optimizers.clear()

    def _adapt(self, scale: Tensor, count: Tensor) -> None:
        """Decrease the scale if a gradient was not finite, and increase it after enough good steps."""
        flags = [o.found_inf for o in self._optimizers.values() if o.found_inf is not None]
        assert flags, "No inf checks were recorded prior to update."
        found_inf = flags[0].to(scale.device)
        for flag in flags[1:]:
            found_inf = found_inf | flag.to(scale.device)
        steps = count + 1
        is_due = steps >= self._growth_interval
        grown = scale * self._growth_factor
        larger = where(is_due & grown.isfinite(), grown, scale)
        scale.copy_(where(found_inf, scale * self._backoff_factor, larger))
        count.copy_(where(found_inf | is_due, 0, steps))

    def _state_of(self, optimizer: Optimizer) -> _Optimizer:
        return self._optimizers.setdefault(id(optimizer), _Optimizer())

    # ----- settings -----

    def get_scale(self) -> float:
        """Return the scale; 1 if scaling is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_growth_tracker(self) -> int:
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker)

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows.

        Args:
            new_factor: factor, above 1.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale decreases.

        Args:
            new_factor: factor, below 1.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of good steps before the scale grows.

        Args:
            new_interval: number of steps.
        """
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """True if losses are scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the state for `load_state_dict`; empty if scaling is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a result of `state_dict`.

        Args:
            state_dict: result of `state_dict()`.

        Raises:
            RuntimeError: if it is empty, because scaling was off.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler. "
                "[nd-state-dict]"
            )
        self._init_scale = float(state_dict["scale"])
        self._init_growth_tracker = int(state_dict["_growth_tracker"])
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

    def __getstate__(self) -> dict[str, Any]:
        if self._enabled and self._optimizers:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update(). [nd-pickle]"
            )
        if not self._enabled:
            return dict(vars(self))
        begun = {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker()}
        return {**vars(self), **begun, "_scale": None, "_growth_tracker": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

def _divide(optimizer: Optimizer, scale: Tensor) -> Tensor | None:
    """Divide all gradients of an optimizer in place; return whether one is not finite, or None if there are none."""
    found: Tensor | None = None
    factor = scale.double().reciprocal().float()
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is None:
                continue
            if np_dtype(p.grad) == dtypes.float16.numpy:
                raise ValueError(
                    "Attempting to unscale FP16 gradients. Keep parameters in float32, and let autocast cast them. "
                    "[nd-dtype]"
                )
            gradient = p.grad.detach()
            flag = ~gradient.isfinite().all()
            found = flag if found is None else found | flag.to(found.device)
            gradient.mul_(factor.to(gradient.device))
    return found
