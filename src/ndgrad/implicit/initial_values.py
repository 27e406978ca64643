"""Solutions of initial value problems as differentiable functions of initial state, times and parameters.

Phi is the map from (t0, times, y0, p) to the states at the times. Its tangents solve the variational equation, an
initial value problem of twice the size, so pushing forward is another call of the same function. Its cotangents solve
the adjoint equation, which is integrated on arrays (ndgrad.implicit.integration).

Note [Higher orders of a flow]
The adjoint sweep is a separate op, Psi(p, g) = D Phi(p)^T g, and its derivatives need no new equation. For any w,
<w, Psi(p, g)> = <g, D Phi(p) w>, and D Phi(p) w is the pushed-forward tangent, a flow again. So the cotangents of (p,
g) for a cotangent w of Psi are the gradient of <g, push(p, w)>, and the tangent of Psi along (dp, dg) is Psi(p, dg)
plus the gradient of <g, push(p, dp)> in p. Every order consists of flows and sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import np_dtype, wrap
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.jacobian import jacfwd
from ndgrad._src.transforms.transforms import grad, jvp, vjp, vmap
from ndgrad.implicit.batched_arrays import Batch, take_apart
from ndgrad.implicit.integration import Adjoint, Settings, System, forward
from ndgrad.implicit.linear import unit_vectors
from ndgrad.implicit.packing import Layout
from ndgrad.implicit.rules import Rule, Tensors, attach, replace_some

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Tensor

#: Right side f(t, y, parameters) on tensors, where y is a vector.
Field = Callable[[Any, Any, Tensors], Any]


def flow(
    f: Field, t0: Tensor, times: Tensor, y0: Tensor, params: Tensors, settings: Settings, groups: Sequence[int] = (),
) -> Tensor:  # fmt: skip
    """Return the states (times, n) at `times`, from y0 at t0, differentiable in all of them and in the parameters."""
    batch = batch_of(settings.name, t0, times, (y0, *params))

    def run() -> NDArray[Any]:
        plain = [batch.plain(p) for p in params]
        system = system_of(lambda t, y: f(t, y, plain), batch, y0, settings, groups)
        at = numbers(times)
        found = forward(system, float(numbers(t0)), float(at[-1]), batch.full(batch.plain(y0)), list(at))
        return states_array(found.states, system.shape, np_dtype(y0))

    states = batch.solve(run)
    return attach(batch.tensor(states, y0.tensor_type), (t0, times, y0, *params), FlowRule(f, settings))


def numbers(t: Tensor) -> NDArray[Any]:
    """Return the values of times, as float64."""
    return np.asarray(take_apart(t)[0], np.float64)


def check_unbatched(name: str, what: str, t: Tensor) -> None:
    if take_apart(t)[1]:
        raise ValueError(
            f"{name}: {what} is batched by vmap, and all samples are integrated together, over the same times. "
            "Rescale time: with s = (t - t0) / (t1 - t0), dy/ds = (t1 - t0) f(t0 + s (t1 - t0), y) "
            "has the same interval for all. [nd-vmap-refused]"
        )


def batch_of(name: str, t0: Tensor, times: Tensor, tensors: Sequence[Any]) -> Batch:
    check_unbatched(name, "t0", t0)
    check_unbatched(name, "the times", times)
    batch = Batch()
    for t in tensors:
        batch.include(take_apart(t)[1])
    return batch


def states_array(states: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return states as one array: batches, then time, then the state."""
    stacked = np.stack([s.reshape(shape) for s in states])
    return np.ascontiguousarray(np.moveaxis(stacked, 0, -2).astype(dtype))


def system_of(
    f: Callable[[Any, Any], Any], batch: Batch, y0: Tensor, settings: Settings, groups: Sequence[int] = (),
) -> System:  # fmt: skip
    """Return a right side of plain tensors as a system of arrays."""
    tensor_type, dtype = y0.tensor_type, np_dtype(y0)

    def rhs(t: float, y: NDArray[Any]) -> NDArray[Any]:
        return batch.full(f(_time(t, dtype, tensor_type), batch.tensor(y.astype(dtype), tensor_type)))

    def jacobian(t: float, y: NDArray[Any]) -> NDArray[Any]:
        at = _time(t, dtype, tensor_type)
        return batch.full(jacfwd(lambda v: f(at, v))(batch.tensor(y.astype(dtype), tensor_type)))

    return System(rhs, jacobian, (*batch.sizes, int(y0.shape[0])), settings, groups)


def _time(t: float, dtype: np.dtype[Any], tensor_type: type[Any]) -> Tensor:
    return wrap(tensor_type, np.asarray(t, dtype))


# ----- derivatives ---------------------------------------------------------------------------------------------------


class FlowRule(Rule):
    """Rule of a flow with the parameters (t0, times, y0, *p)."""

    def __init__(self, f: Field, settings: Settings) -> None:
        self.f, self.settings = f, settings

    def pull(self, out: Tensor, params: Tensors, g: Tensor, needs: Sequence[bool]) -> Tensors:
        t0, times, y0, *rest = params
        wanted = [i for i, need in enumerate(needs[3:]) if need]
        grads: list[Any] = [None] * len(params)
        if any(needs[i] for i in (0, 2)) or wanted:
            swept = self.sweep(params, g, wanted)
            n = y0.shape[0]
            start = tensor_ops.getitem(swept, index=(slice(0, n),))
            if needs[0]:
                # A later start is an earlier state: y(t; t0 + d, y0) = y(t; t0, y0 - f(t0, y0) d).
                grads[0] = -(start * self.f(t0, y0, rest)).sum()
            grads[2] = start if needs[2] else None
            if wanted:
                layout = Layout(self.settings.name, [rest[i] for i in wanted], y0.tensor_type)
                found = layout.unpack(tensor_ops.getitem(swept, index=(slice(n, None),)))
                for i, t in zip(wanted, found, strict=True):
                    grads[3 + i] = t
        if needs[1]:
            grads[1] = tensor_ops.sum(g * self.slopes(times, out, rest), dim=(1,), keepdim=False)
        return grads

    def slopes(self, times: Tensor, states: Tensor, rest: Tensors) -> Tensor:
        """Return dy/dt at the times."""
        return vmap(lambda t, y: self.f(t, y, rest))(times, states)

    def sweep(self, params: Tensors, g: Tensor, wanted: Sequence[int]) -> Tensor:
        """Return cotangents of y0 and of the wanted parameters, as one vector."""
        t0, times, y0, *rest = params
        batch = batch_of(self.settings.name, t0, times, (y0, g, *rest))

        def run() -> NDArray[Any]:
            plain = [batch.plain(p) for p in rest]
            values = list(numbers(times))
            y = batch.full(batch.plain(y0))
            cotangents = np.moveaxis(np.array(batch.full(batch.plain(g)), np.float64), -2, 0)
            adjoint = self.adjoint_of(batch, y0, plain, wanted)
            start, along = adjoint.run(float(numbers(t0)), y, values, cotangents)
            return np.concatenate([start, along], axis=-1).astype(np_dtype(y0))

        found = batch.solve(run)
        return attach(batch.tensor(found, y0.tensor_type), (*params, g), SweepRule(self, wanted))

    def adjoint_of(self, batch: Batch, y0: Tensor, plain: Tensors, wanted: Sequence[int]) -> Adjoint:
        tensor_type, dtype, f = y0.tensor_type, np_dtype(y0), self.f
        layout = Layout(self.settings.name, [plain[i] for i in wanted], tensor_type) if wanted else None

        def pulled(t: Tensor, y: Tensor) -> Callable[[Any], tuple[Any, ...]]:
            back = vjp(lambda v, *ps: f(t, v, replace_some(plain, wanted, ps)), y, *(plain[i] for i in wanted))[1]

            def both(lam: Tensor) -> tuple[Any, ...]:
                along_y, *along_p = back(lam)
                return (along_y, layout.pack(along_p)) if layout is not None else (along_y,)

            return both

        def pull(t: float, y: NDArray[Any], lam: NDArray[Any]) -> tuple[Any, Any]:
            both = pulled(_time(t, dtype, tensor_type), batch.tensor(y.astype(dtype), tensor_type))
            found = both(batch.tensor(lam.astype(dtype), tensor_type))
            none = np.zeros((*y.shape[:-1], 0))
            return batch.full(found[0]), batch.full(found[1]) if layout is not None else none

        def matrices(t: float, y: NDArray[Any]) -> tuple[Any, Any]:
            at, state = _time(t, dtype, tensor_type), batch.tensor(y.astype(dtype), tensor_type)
            dy = batch.full(jacfwd(lambda v: f(at, v, plain))(state))
            if layout is None:
                return dy, np.zeros((*dy.shape[:-1], 0))
            both = pulled(at, state)
            return dy, batch.full(vmap(lambda c: both(c)[1])(unit_vectors(state)))

        system = system_of(lambda t, y: f(t, y, plain), batch, y0, self.settings.tighter())
        return Adjoint(system, pull, matrices, 0 if layout is None else layout.size)

    def push(self, out: Tensor, params: Tensors, tangents: Tensors) -> Tensor:
        return self.tangent(out, params, tangents)

    def tangent(self, out: Tensor | None, params: Tensors, tangents: Tensors) -> Tensor:
        """Return the tangent of the states: that of the variational equation, plus the contribution of moving times."""
        t0, times, y0, *rest = params
        t0_t, times_t, y0_t, *rest_t = tangents
        moving = [i for i, t in enumerate(rest_t) if t is not None]
        total = None
        if t0_t is not None or y0_t is not None or moving:
            start = tensor_ops.zeros_like(y0) if y0_t is None else y0_t
            if t0_t is not None:
                start = start - self.f(t0, y0, rest) * t0_t
            total = self._variation(t0, times, y0, rest, start, moving, [rest_t[i] for i in moving])
        if times_t is not None and out is not None:
            along = self.slopes(times, out, rest) * tensor_ops.reshape(times_t, shape=(times_t.shape[0], 1))
            total = along if total is None else total + along
        return tensor_ops.zeros_like(out) if total is None else total

    def _variation(
        self,
        t0: Tensor,
        times: Tensor,
        y0: Tensor,
        rest: Tensors,
        start: Tensor,
        moving: Sequence[int],
        along: Sequence[Any],
    ) -> Tensor:
        n, count, f = int(y0.shape[0]), len(rest), self.f
        # The equation is linear in the tangents: they are normalised, so that absolute tolerances mean the same for
        # all.
        size = max((float(np.abs(take_apart(t)[0]).max(initial=0.0)) for t in (start, *along)), default=0.0)
        size = size if 0.0 < size < np.inf else 1.0

        def pair(t: Tensor, state: Tensor, params: Tensors) -> Tensor:
            y = tensor_ops.getitem(state, index=(slice(0, n),))
            s = tensor_ops.getitem(state, index=(slice(n, 2 * n),))
            values, directions = list(params[:count]), params[count:]
            moved = [values[i] for i in moving]
            both = jvp(lambda v, *ps: f(t, v, replace_some(values, moving, ps)), (y, *moved), (s, *directions))
            return tensor_ops.cat(*both, dim=0)

        joined = tensor_ops.cat(y0, start / size, dim=0)
        states = flow(pair, t0, times, joined, (*rest, *(t / size for t in along)), self.settings, (n, 2 * n))
        return tensor_ops.getitem(states, index=(slice(None), slice(n, 2 * n))) * size


class SweepRule(Rule):
    """The adjoint sweep as a function of (t0, times, y0, *p, g): see Note [Higher orders of a flow]."""

    def __init__(self, flow: FlowRule, wanted: Sequence[int]) -> None:
        self.flow, self.wanted = flow, list(wanted)

    def paired(self, params: Tensors, tangents: Tensors) -> Tensor:
        """Return <g, push(params, tangents)>."""
        *inner, g = params
        states = (
            flow(self.flow.f, inner[0], inner[1], inner[2], inner[3:], self.flow.settings)
            if tangents[1] is not None
            else None
        )
        return (g * self.flow.tangent(states, inner, tangents)).sum()

    def _layout(self, params: Tensors) -> Layout | None:
        chosen = [params[3 + i] for i in self.wanted]
        return Layout(self.flow.settings.name, chosen, params[2].tensor_type) if chosen else None

    def pull(self, out: Tensor, params: Tensors, g: Tensor, needs: Sequence[bool]) -> Tensors:
        n, layout = int(params[2].shape[0]), self._layout(params)
        tangents: list[Any] = [None] * (len(params) - 1)
        tangents[2] = tensor_ops.getitem(g, index=(slice(0, n),))
        if layout is not None:
            for i, t in zip(self.wanted, layout.unpack(tensor_ops.getitem(g, index=(slice(n, None),))), strict=True):
                tangents[3 + i] = t
        places = [i for i, need in enumerate(needs) if need]
        if not places:
            return (None,) * len(needs)
        numbered = tuple(range(len(places)))
        paired = grad(lambda *ps: self.paired(replace_some(params, places, ps), tangents), numbered)
        found = iter(paired(*(params[i] for i in places)))
        return tuple(next(found) if need else None for need in needs)

    def push(self, out: Tensor, params: Tensors, tangents: Tensors) -> Tensor:
        *inner_t, g_t = tangents
        total = None
        if g_t is not None:
            total = self.flow.sweep(params[:-1], g_t, self.wanted)
        if any(t is not None for t in inner_t):
            places = [2, *(3 + i for i in self.wanted)]
            numbered = tuple(range(len(places)))
            start, *along = grad(lambda *ps: self.paired(replace_some(params, places, ps), inner_t), numbered)(
                *(params[i] for i in places)
            )
            layout = self._layout(params)
            part = start if layout is None else tensor_ops.cat(start, layout.pack(along), dim=0)
            total = part if total is None else total + part
        return tensor_ops.zeros_like(out) if total is None else total


__all__ = ["FlowRule", "check_unbatched", "flow", "numbers", "states_array", "system_of"]
