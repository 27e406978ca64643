"""Adam: steps scaled by running means of the gradient and its square, corrected for starting at zero."""

from __future__ import annotations

import ndgrad
from demo.model import Parameters


class Adam:
    """Updates leaf tensors in place from their `.grad`, and clears it."""

    def __init__(self, parameters: Parameters, decay: tuple[float, float] = (0.9, 0.99)) -> None:
        self.parameters = parameters
        self.decay = decay
        self.steps = 0
        self.mean = {name: ndgrad.zeros_like(tensor) for name, tensor in parameters.items()}
        self.square = {name: ndgrad.zeros_like(tensor) for name, tensor in parameters.items()}

    def step(self, rate: float) -> None:
        """Make one update, under no_grad because the update itself is not differentiated."""
        self.steps += 1
        first, second = self.decay
        with ndgrad.no_grad():
            for name, tensor in self.parameters.items():
                gradient = tensor.grad
                assert gradient is not None, f"{name} has no gradient: call backward() first"
                self.mean[name] = first * self.mean[name] + (1 - first) * gradient
                self.square[name] = second * self.square[name] + (1 - second) * gradient * gradient
                mean = self.mean[name] / (1 - first**self.steps)
                square = self.square[name] / (1 - second**self.steps)
                tensor -= rate * mean / (square.sqrt() + 1e-8)
                tensor.grad = None
