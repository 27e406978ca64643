"""Gradient check: compare gradients with the slope measured by moving parameters a little in both directions.

The measurement is independent of derivative rules: it only evaluates the loss. A loss near four is known to
about 1e-15 in float64, so a central difference over 2e-5 is accurate to about 1e-10. Expect relative errors of
that size divided by the size of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ndgrad
from demo.model import Parameters
from ndgrad import Tensor

STEP = 1e-5


@dataclass(frozen=True)
class Row:
    """One line of the comparison."""

    name: str
    analytic: float
    numeric: float

    @property
    def relative_error(self) -> float:
        """Return the distance divided by the magnitude."""
        return abs(self.analytic - self.numeric) / max(abs(self.analytic), abs(self.numeric))


def compare(loss: Callable[[], Tensor], parameters: Parameters, names: list[str]) -> list[Row]:
    """Return one row per named tensor, at its largest gradient; then one along a direction that moves everything."""
    gradients = dict(zip(parameters, ndgrad.autograd.grad(loss(), list(parameters.values())), strict=True))
    rows = []
    for name in names:
        gradient = gradients[name]
        flat = int(gradient.abs().argmax().item())
        direction = ndgrad.zeros_like(gradient)
        direction.view(-1)[flat] = 1.0
        label = f"{name}[{', '.join(map(str, _unravel(flat, gradient.shape)))}]"
        rows.append(Row(label, float(gradient.view(-1)[flat].item()), _slope(loss, parameters, {name: direction})))

    total = sum(tensor.numel() for tensor in parameters.values())
    everywhere = {name: ndgrad.randn_like(tensor) * total**-0.5 for name, tensor in parameters.items()}
    along = sum(float((gradients[name] * everywhere[name]).sum().item()) for name in parameters)
    rows.append(Row(f"all {total:,}, one random direction", along, _slope(loss, parameters, everywhere)))
    return rows


def _slope(loss: Callable[[], Tensor], parameters: Parameters, direction: Parameters) -> float:
    """Return the central difference of the loss along `direction`. The parameters end where they began."""

    def loss_at(offset: float) -> float:
        originals = {name: parameters[name].clone() for name in direction}
        for name, tensor in direction.items():
            parameters[name] += offset * tensor
        try:
            return float(loss().item())
        finally:
            for name, original in originals.items():
                parameters[name].copy_(original)

    with ndgrad.no_grad():
        return (loss_at(STEP) - loss_at(-STEP)) / (2 * STEP)


def _unravel(flat: int, shape: tuple[int, ...]) -> list[int]:
    index: list[int] = []
    for size in reversed(shape):
        flat, remainder = divmod(flat, size)
        index.insert(0, remainder)
    return index
