"""L-BFGS: a quasi-Newton method that estimates the curvature from the last few steps (Nocedal, 1980).

A step of the optimizer is a whole run of iterations, so the closure, which computes the loss and the gradients, is
needed. All parameters are handled as one vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ndgrad._src.core.grad_mode import enable_grad, no_grad
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.join import cat
from ndgrad.optim.optimizer import Optimizer, check_settings

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.optim.optimizer import Params, Rate

    Closure: TypeAlias = Callable[[], Tensor | float]
    #: Functions along a line: from a length to loss, gradient and slope there; and a length with these.
    Probe: TypeAlias = Callable[[float], tuple[float, Tensor, float]]
    Point: TypeAlias = tuple[float, float, Tensor, float]

__all__ = ["LBFGS"]

#: Wolfe conditions: the required share of the predicted descent, and the required flattening of the slope.
_DESCENT, _CURVATURE = 1e-4, 0.9


class LBFGS(Optimizer):
    """Quasi-Newton steps (L-BFGS), with an estimate of the curvature from the last steps.

    All parameters are one vector, so there is one group. `step` runs up to `max_iter` iterations and needs a closure.

    Args:
        params: tensors to optimize, or one dict with "params" and settings.
        lr: length of each step as a factor of the quasi-Newton direction, or the first length that the line search
            tries.
        max_iter: largest number of iterations in one call of `step`.
        max_eval: number of evaluations of the closure after which `step` stops. The default is 1.25 * max_iter.
        tolerance_grad: largest element of the gradient at which `step` stops.
        tolerance_change: change of the parameters or of the loss below which `step` stops.
        history_size: number of earlier steps that the estimate uses.
        line_search_fn: `"strong_wolfe"` for a line search, or None for steps of fixed length.

    >>> import ndgrad
    >>> x = ndgrad.tensor([-1.0, 2.0], requires_grad=True)
    >>> optimizer = ndgrad.optim.LBFGS([x], max_iter=50, line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> [round(v, 3) for v in x.tolist()]
    [1.0, 1.0]
    """

    def __init__(
        self,
        params: Params,
        lr: Rate = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        settings = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, check_settings("LBFGS", settings))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS takes one parameter group: all parameters are one vector. [nd-optimizer]")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # ----- parameters as one vector -----

    def _flat_gradient(self) -> Tensor:
        parts = [p.new_zeros(p.numel()) if p.grad is None else p.grad.to_dense().reshape(-1) for p in self._params]
        return cat([_as_real(part) for part in parts])

    def _walk(self, direction: Tensor, length: float) -> None:
        start = 0
        for p in self._params:
            target = _as_real(p)
            count = target.numel()
            target.add_(direction[start : start + count].view_as(target), alpha=length)
            start += count

    def _probe(self, closure: Closure, direction: Tensor) -> Probe:
        """Return loss, gradient and slope at a distance along the direction; the parameters are restored."""
        home = [p.clone() for p in self._params]

        def probe(length: float) -> tuple[float, Tensor, float]:
            self._walk(direction, length)
            loss = _evaluate(closure)
            gradient = self._flat_gradient()
            for p, value in zip(self._params, home, strict=True):
                p.copy_(value)
            return loss, gradient, float(gradient.dot(direction))

        return probe

    # ----- iterations -----

    def step(self, closure: Closure) -> Tensor | float:  # type: ignore[override]  # needs its closure, as torch's does
        """Run up to `max_iter` iterations.

        Args:
            closure: function that clears the gradients, computes the loss and its gradients, and returns the loss. It
                is called several times.

        Returns:
            The loss at the start.
        """
        with no_grad():
            return self._run(closure)

    def _run(self, closure: Closure) -> Tensor | float:
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            first_loss = closure()
        loss = _number(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        gradient = self._flat_gradient()
        if float(gradient.abs().max()) <= group["tolerance_grad"]:
            return first_loss
        memory: dict[str, Any] = {
            name: state.get(name)
            for name in ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")
        }
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            _renew_direction(memory, gradient, state["n_iter"], group["history_size"])
            memory["prev_flat_grad"], memory["prev_loss"] = gradient.clone(), loss
            direction = memory["d"]
            lr = float(group["lr"])
            length = min(1.0, 1.0 / float(gradient.abs().sum())) * lr if state["n_iter"] == 1 else lr
            memory["t"] = length
            slope = float(gradient.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            used = 0
            if group["line_search_fn"] is None:
                self._walk(direction, length)
                if iteration != group["max_iter"]:
                    loss = _evaluate(closure)
                    gradient = self._flat_gradient()
                    used = 1
            elif group["line_search_fn"] == "strong_wolfe":
                probe = self._probe(closure, direction)
                limit = group["tolerance_change"] / float(direction.abs().max())
                loss, gradient, length, used = strong_wolfe(probe, loss, gradient, slope, length, limit)
                memory["t"] = length
                self._walk(direction, length)
            else:
                raise RuntimeError(
                    f"line_search_fn must be 'strong_wolfe' or None, but is {group['line_search_fn']!r}. [nd-option]"
                )
            evaluations += used
            state["func_evals"] += used
            flat = float(gradient.abs().max()) <= group["tolerance_grad"]
            moved = float((direction * length).abs().max())
            if evaluations >= group["max_eval"] or flat or moved <= group["tolerance_change"]:
                break
            if abs(loss - memory["prev_loss"]) < group["tolerance_change"]:
                break
        state.update(memory)
        return first_loss


def _as_real(t: Tensor) -> Tensor:
    from ndgrad import view_as_real  # only complex parameters need it

    return view_as_real(t).reshape(-1) if t.is_complex() else t.reshape(-1) if t.dim() != 1 else t


def _number(loss: Tensor | float) -> float:
    return float(loss.detach() if isinstance(loss, Variable) else loss)


def _evaluate(closure: Closure) -> float:
    with enable_grad():
        return _number(closure())


def _renew_direction(memory: dict[str, Any], gradient: Tensor, iteration: int, history_size: int) -> None:
    """Return the next direction: minus the gradient at first, then minus the estimated inverse Hessian times the
    gradient.
    """
    if iteration == 1:
        memory.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
        return
    y = gradient - memory["prev_flat_grad"]
    s = memory["d"] * memory["t"]
    curvature = float(y.dot(s))
    if curvature > 1e-10:  # otherwise the pair would make the Hessian indefinite
        if len(memory["old_dirs"]) == history_size:
            for name in ("old_dirs", "old_stps", "ro"):
                memory[name].pop(0)
        memory["old_dirs"].append(y)
        memory["old_stps"].append(s)
        memory["ro"].append(1.0 / curvature)
        memory["H_diag"] = curvature / float(y.dot(y))
    pairs = list(zip(memory["old_dirs"], memory["old_stps"], memory["ro"], strict=True))
    q = -gradient
    weights = []
    for y, s, ro in reversed(pairs):
        weights.append(float(s.dot(q)) * ro)
        q = q - y * weights[-1]
    d = q * memory["H_diag"]
    for (y, s, ro), weight in zip(pairs, reversed(weights), strict=True):
        d = d + s * (weight - float(y.dot(d)) * ro)
    memory["d"] = d


# ----- line search ----------------------------------------------------------------------------------------------------


def _cubic_minimum(a: tuple[float, float, float], b: tuple[float, float, float], low: float, high: float) -> float:
    """Return the minimum of the cubic through two points (position, value, slope), clamped to [low, high]."""
    (x1, f1, g1), (x2, f2, g2) = (a, b) if a[0] <= b[0] else (b, a)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    return min(max(x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)), low), high)


def _cubic_interpolate(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """torch's form of `_cubic_minimum`: without bounds, the result is between the two points."""
    low, high = bounds or (min(x1, x2), max(x1, x2))
    return _cubic_minimum((x1, f1, g1), (x2, f2, g2), low, high)


def _strong_wolfe(
    obj_func: Callable[..., tuple[float, Tensor]], x: Any, t: float, d: Tensor, f: float, g: Tensor, gtd: Tensor,
    c1: float = _DESCENT, c2: float = _CURVATURE, tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:  # fmt: skip
    """torch's form of `strong_wolfe`, for optimizers of other libraries: `obj_func(x, t, d)` returns the loss and the
    gradient at `x + t * d`.
    """

    def probe(length: float) -> tuple[float, Tensor, float]:
        loss, gradient = obj_func(x, length, d)
        return float(loss), gradient.clone(), float(gradient.dot(d))

    longest = float(d.abs().max())
    limit = tolerance_change / longest if longest else math.inf  # no step along 0 is too short
    return strong_wolfe(probe, float(f), g, float(gtd), float(t), limit, max_ls, (c1, c2))


def strong_wolfe(
    at: Probe,
    loss: float,
    gradient: Tensor,
    slope: float,
    length: float,
    tolerance: float,
    max_probes: int = 25,
    conditions: tuple[float, float] = (_DESCENT, _CURVATURE),
) -> tuple[float, Tensor, float, int]:
    """Return a length at which the loss has fallen enough and the slope is flat enough, with loss, gradient and number
    of probes. `tolerance` is the shortest bracket.

    First the length grows until such a length must lie between the last two (Nocedal and Wright, algorithm 3.5); then
    that bracket shrinks around it (algorithm 3.6), by cubic interpolation, with bisection where that makes no progress.
    """
    start = (0.0, loss, gradient, slope)
    before, probes = start, 0
    bracket: list[Point] = []
    while probes < max_probes:
        now = (length, *at(length))
        probes += 1
        if now[1] > loss + conditions[0] * length * slope or (probes > 1 and now[1] >= before[1]) or now[1] != now[1]:
            bracket = [before, now]
            break
        if abs(now[3]) <= -conditions[1] * slope:
            return now[1], now[2], now[0], probes
        if now[3] >= 0:
            bracket = [before, now]
            break
        low, high = length + 0.01 * (length - before[0]), length * 10
        length = _cubic_minimum((before[0], before[1], before[3]), (now[0], now[1], now[3]), low, high)
        before = now
    if not bracket:
        bracket = [start, before]
    return _shrunk(at, bracket, start, tolerance, probes, max_probes, conditions)


def _shrunk(
    at: Probe,
    bracket: list[Point],
    start: Point,
    tolerance: float,
    probes: int,
    max_probes: int,
    conditions: tuple[float, float],
) -> tuple[float, Tensor, float, int]:
    _, loss, _, slope = start
    best, other = sorted(bracket, key=lambda point: (point[1] != point[1], point[1]))
    stuck = False
    while probes < max_probes and abs(other[0] - best[0]) >= tolerance:
        low, high = sorted((best[0], other[0]))
        if other[1] != other[1] or other[3] != other[3]:
            length = (low + high) / 2
        else:
            length = _cubic_minimum((best[0], best[1], best[3]), (other[0], other[1], other[3]), low, high)
        margin = 0.1 * (high - low)
        if min(high - length, length - low) < margin:
            if stuck or length >= high or length <= low:
                length = high - margin if abs(length - high) < abs(length - low) else low + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = (length, *at(length))
        probes += 1
        if not (now[1] <= loss + conditions[0] * length * slope and now[1] < best[1]):
            other = now
            continue
        if abs(now[3]) <= -conditions[1] * slope:
            best = now
            break
        if now[3] * (other[0] - best[0]) >= 0:
            other = best
        best = now
    return best[1], best[2], best[0], probes
