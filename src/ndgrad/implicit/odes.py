"""`solve_ivp` with SciPy's signature, on structures of tensors, differentiable in all inputs of the solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgrad._src.arrays.precision import is_floating, result_dtype
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.foundations.pytree import tree_unflatten
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.implicit.batched_arrays import take_apart
from ndgrad.implicit.equations import Equations, carries_derivative
from ndgrad.implicit.initial_values import FlowRule, check_unbatched, flow, numbers, states_array, system_of
from ndgrad.implicit.integration import METHODS, Event, Settings, Trajectory, forward
from ndgrad.implicit.packing import Layout, PyTree, tensor_type_of_tree, tensors_of
from ndgrad.implicit.rewrapping import with_tensor_type
from ndgrad.implicit.roots import RootRule
from ndgrad.implicit.rules import Tensors, attach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Tensor, TensorLike


#: Times: one, or several in a sequence or a tensor.
Times: TypeAlias = "TensorLike | Sequence[TensorLike] | None"
#: Events: functions whose zeros are found.
Events: TypeAlias = "Callable[..., Any] | Sequence[Callable[..., Any]] | None"


class OdeResult(dict[str, Any]):
    """Result of `solve_ivp`: `t`, `y` (time last), `t_events`, `y_events`, and the status.

    >>> import ndgrad.numpy as np
    >>> from ndgrad import implicit
    >>> sol = implicit.solve_ivp(lambda t, y: -y, (0.0, 1.0), np.array([1.0]))
    >>> sol.success, sol.y.shape[0]
    (True, 1)
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self) -> str:
        return "\n".join(f"{key:>10}: {value!r}" for key, value in self.items())


def solve_ivp(
    fun: Callable[..., PyTree],
    t_span: Sequence[TensorLike],
    y0: PyTree,
    method: str = "RK45",
    t_eval: Times = None,
    dense_output: bool = False,
    events: Events = None,
    vectorized: bool = False,
    args: PyTree = None,
    *,
    rtol: float = 1e-3,
    atol: float = 1e-6,
    max_step: float = np.inf,
    first_step: float | None = None,
    checkpoints: int = 32,
    adjoint_options: dict[str, Any] | None = None,
) -> OdeResult:
    """Solve dy/dt = fun(t, y, *args), y(t_span[0]) = y0, as `scipy.integrate.solve_ivp` does, differentiably.

    The result is differentiable in `y0`, `args`, both ends of `t_span`, `t_eval` and captured variables of `fun`.
    Reverse mode solves the adjoint equation and forward mode the variational equation, with the same method and
    tolerances (`adjoint_options` may set `method`, `rtol`, `atol`, `max_step` of the adjoint). Stiff methods get exact
    Jacobians. The trajectory is not kept for backward; it is integrated again in pieces, with `checkpoints` stored
    states. `y0` may be any structure of tensors; the `y` of the result has that structure, with time as the last
    dimension. Event times (`t_events`, `y_events`) are differentiable too. Inside `vmap` all samples are integrated
    together, with common steps.

    Args:
        fun: right-hand side `fun(t, y, *args)`, with a result of the structure of `y0`.
        t_span: first and last time.
        y0: state at the first time: a tensor, or a structure of tensors.
        method: SciPy's method, such as `"RK45"`, `"DOP853"`, `"Radau"`, `"BDF"` or `"LSODA"`.
        t_eval: times of the result. None means those of the solver's steps.
        dense_output: accepted only as False, because interpolants have no derivatives.
        events: function or functions `event(t, y, *args)` whose zeros are found, with SciPy's attributes `terminal` and
            `direction`.
        vectorized: accepted only as False, because no finite differences are used.
        args: further arguments of `fun` and of the events, in a tuple or list.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
        max_step: largest step.
        first_step: first step. None lets the solver choose it.
        checkpoints: number of states that backward keeps to integrate the trajectory again in pieces.
        adjoint_options: `method`, `rtol`, `atol` and `max_step` of the adjoint equation. Missing ones are those of the
            call.

    >>> import ndgrad
    >>> k = ndgrad.tensor(0.5, requires_grad=True)
    >>> sol = ndgrad.implicit.solve_ivp(lambda t, y: -k * y, (0.0, 2.0), ndgrad.tensor([1.0]), rtol=1e-8, atol=1e-10)
    >>> sol.y[0, -1].backward()
    >>> k.grad
    tensor(-0.7358)
    """
    name = "implicit.solve_ivp"
    if method not in METHODS:
        raise ValueError(f"{name}: method is {method!r}. Choose one of {', '.join(METHODS)}. [nd-option]")
    if dense_output:
        raise ValueError(
            f"{name}: dense_output=True would hand out interpolants without derivatives. Ask for times with t_eval=. "
            "[nd-no-derivative]"
        )
    if vectorized:
        raise ValueError(
            f"{name}: vectorized=True is for finite differences, which are not used here. Leave it out. [nd-arguments]"
        )
    allowed = {"method", "rtol", "atol", "max_step"}
    if set(adjoint_options or {}) - allowed:
        raise ValueError(
            f"{name}: adjoint_options may hold {', '.join(sorted(allowed))}, and holds "
            f"{sorted(adjoint_options or {})}. [nd-option]"
        )
    settings = Settings(
        name, method, _positive(name, "rtol", rtol), _positive(name, "atol", atol), max_step, first_step, checkpoints,
        tuple((adjoint_options or {}).items()),
    )  # fmt: skip
    given = () if args is None else args if isinstance(args, (tuple, list)) else (args,)
    problem = _Problem(settings, fun, y0, tuple(given), t_span, t_eval)
    return problem.solve(_as_list(events))


def _positive(name: str, what: str, value: float) -> float:
    if np.ndim(value) or not float(value) > 0:
        raise ValueError(f"{name}: {what} is {value!r}. It must be one positive number. [nd-range]")
    return float(value)


def _as_list(events: Events) -> list[Callable[..., Any]]:
    return [] if events is None else [events] if callable(events) else list(events)


class _Problem:
    """A call of solve_ivp."""

    def __init__(
        self,
        settings: Settings,
        fun: Callable[..., PyTree],
        y0: PyTree,
        args: tuple[Any, ...],
        t_span: Sequence[TensorLike],
        t_eval: Times,
    ) -> None:
        self.settings, self.fun, self.name = settings, fun, settings.name
        self.equations = Equations(self.name, y0, args, tensor_type_of_tree(y0, args, t_span, t_eval))
        self.layout = self.equations.layout
        if len(t_span) != 2:
            raise ValueError(f"{self.name}: t_span has {len(t_span)} elements. It is (start, end). [nd-shape]")
        self.t0, self.t1 = (self._time("t_span", t, 0) for t in t_span)
        self.t_eval = None if t_eval is None else self._time("t_eval", t_eval, 1)
        self.start, self.end = float(numbers(self.t0)), float(numbers(self.t1))
        self._check_times()

    def _time(self, what: str, t: Times, ndim: int) -> Tensor:
        if isinstance(t, (list, tuple)) and any(isinstance(v, Variable) for v in t):
            t = tensor_ops.stack(*(self._time(what, v, 0) for v in t), dim=0)
        made: Tensor
        if isinstance(t, Variable):
            made = with_tensor_type(t, self.layout.tensor_type)
            check_unbatched(self.name, what, made)
        else:
            made = wrap(self.layout.tensor_type, np.asarray(t, np.float64))
        if len(made.shape) != ndim:
            raise ValueError(
                f"{self.name}: {what} has shape {tuple(made.shape)}; it must have {ndim} dimension{'s' * (ndim != 1)}. "
                "[nd-ndim]"
            )
        return made if is_floating(np_dtype(made)) else tensor_ops.cast(made, dtype=np.dtype(np.float64))

    def _check_times(self) -> None:
        if not (np.isfinite(self.start) and np.isfinite(self.end)):
            raise ValueError(f"{self.name}: t_span ({self.start}, {self.end}) is not finite. [nd-range]")
        if self.t_eval is None:
            return
        at, sign = numbers(self.t_eval), 1.0 if self.end >= self.start else -1.0
        if not len(at):
            raise ValueError(f"{self.name}: t_eval is empty. Give at least one time, or leave it out. [nd-too-few]")
        if (sign * at < sign * self.start).any() or (sign * at > sign * self.end).any():
            raise ValueError(
                f"{self.name}: "
                f"t_eval goes from {at.min()} to {at.max()}, outside of t_span ({self.start}, {self.end}). [nd-range]"
            )
        if (sign * np.diff(at) <= 0).any():
            raise ValueError(f"{self.name}: t_eval must be strictly monotonic, in the direction of t_span. [nd-values]")

    # ----- the right side -----

    def field(self, t: Tensor, vector: Tensor, *args: Any) -> Tensor:
        return self.layout.pack_result(
            f"{self.name}: fun",
            self.fun(with_tensor_type(t, self.layout.tensor_type), self.layout.unpack(vector), *args),
        )

    def pure(self, t: Tensor, vector: Tensor, params: Tensors) -> Tensor:
        return self.equations.apply_flat(self.field, (t, vector), params)

    def event_value(self, event: Callable[..., Any]) -> Callable[..., Any]:
        def value(t: Tensor, vector: Tensor, *args: Any) -> Tensor:
            tensor_type = self.layout.tensor_type
            found = tensors_of(
                f"{self.name}: an event",
                event(with_tensor_type(t, tensor_type), self.layout.unpack(vector), *args),
                tensor_type,
            )
            if len(found) != 1 or int(np.prod(found[0].shape)) != 1:
                shapes = [tuple(t.shape) for t in found]
                raise ValueError(
                    f"{self.name}: an event function returns one number, and this one returned shapes {shapes}. "
                    "[nd-problem]"
                )
            return tensor_ops.reshape(found[0], shape=())

        return value

    # ----- solving -----

    def solve(self, functions: list[Callable[..., Any]]) -> OdeResult:
        equations, layout = self.equations, self.layout
        y0 = layout.pack(layout.tensors)
        counts: dict[str, int] = {}

        def solver(start: NDArray[Any]) -> tuple[Trajectory, list[Event], tuple[int, ...]]:
            system = system_of(lambda t, y: equations.run_flat(self.field, t, y), equations.batch, y0, self.settings)
            if functions:
                system.rhs(self.start, start)  # notes captured tensors
                if equations.batch.levels:
                    raise ValueError(
                        f"{self.name}: events have other times for every sample, and this call is inside vmap. "
                        "Call it in a loop outside. [nd-vmap-refused]"
                    )
            events = [self._event(f, system.shape) for f in functions]
            wanted = None if self.t_eval is None else list(numbers(self.t_eval))
            found = forward(system, self.start, self.end, start, wanted, events)
            counts.update(nfev=system.evaluations, njev=system.jacobians, nlu=system.factorings)
            return found, events, system.shape

        found, events, shape = equations.solve(solver)
        params = equations.parameters()
        event_times = [self._event_times(f, e, y0, params) for f, e in zip(functions, events, strict=True)]
        t = self._reached(found, events, event_times)
        empty = not found.states
        if empty:
            y = self._rows(wrap(layout.tensor_type, np.zeros((0, layout.size), layout.dtype)))
        else:
            states = equations.batch.tensor(states_array(found.states, shape, layout.dtype), layout.tensor_type)
            y = self._rows(attach(states, (self.t0, t, y0, *params), FlowRule(self.pure, self.settings)))
        status = 1 if found.ended else 0
        message = (
            "A termination event occurred."
            if found.ended
            else "The solver successfully reached the end of the integration interval."
        )
        return OdeResult(
            t=t, y=y, sol=None,
            t_events=event_times if functions else None,
            y_events=[self._event_states(times, y0, params) for times in event_times] if functions else None,
            **counts, status=status, message=message, success=True,
        )  # fmt: skip

    def _event(self, function: Callable[..., Any], shape: tuple[int, ...]) -> Event:
        equations, layout, value = self.equations, self.layout, self.event_value(function)

        def number(t: float, y: NDArray[Any]) -> float:
            state = wrap(layout.tensor_type, np.asarray(y, layout.dtype).reshape(shape))
            return float(
                take_apart(equations.run_flat(value, wrap(layout.tensor_type, np.asarray(t, layout.dtype)), state))[0]
            )

        return Event(number, int(getattr(function, "terminal", 0)), float(getattr(function, "direction", 0)))

    def _event_times(self, function: Callable[..., Any], event: Event, y0: Tensor, params: list[Any]) -> Tensor:
        """Return the times of an event as roots of the event function along the solution."""
        layout = self.layout
        times = wrap(layout.tensor_type, np.array(event.times, layout.dtype))
        everything = (self.t0, y0, *params)
        if not event.times or not any(map(carries_derivative, everything)):
            return times
        value = self.event_value(function)

        def residual(at: Tensor, given: Tensors) -> Tensor:
            t0, start, *rest = given
            state = flow(self.pure, t0, at, start, rest, self.settings)
            one = self.equations.apply_flat(
                value, (tensor_ops.getitem(at, index=(0,)), tensor_ops.getitem(state, index=(0,))), rest
            )
            return tensor_ops.reshape(one, shape=(1,))

        rule = RootRule(f"{self.name}: an event", residual, "dense")
        found = [attach(wrap(layout.tensor_type, np.array([t], layout.dtype)), everything, rule) for t in event.times]
        return found[0] if len(found) == 1 else tensor_ops.cat(*found, dim=0)

    def _event_states(self, times: Tensor, y0: Tensor, params: list[Any]) -> PyTree:
        if not times.shape[0]:
            return self._rows(
                wrap(self.layout.tensor_type, np.zeros((0, self.layout.size), self.layout.dtype)), last=False
            )
        return self._rows(flow(self.pure, self.t0, times, y0, params, self.settings), last=False)

    def _reached(self, found: Trajectory, events: Sequence[Event], event_times: Sequence[Any]) -> Tensor:
        """Return the times of the result as tensors; times given by the user are the user's own."""
        count = len(found.times)
        if self.t_eval is not None:
            return (
                self.t_eval
                if count == self.t_eval.shape[0]
                else tensor_ops.getitem(self.t_eval, index=(slice(0, count),))
            )
        last = self.t1
        if found.ended:
            for event, times in zip(events, event_times, strict=True):
                if event.times and event.times[-1] == found.times[-1]:
                    last = tensor_ops.getitem(times, index=(len(event.times) - 1,))
        dtype = result_dtype(np_dtype(self.t0), np_dtype(last))
        between = wrap(self.layout.tensor_type, np.array(found.times[1:-1], dtype))
        ends = [
            tensor_ops.reshape(t if np_dtype(t) == dtype else tensor_ops.cast(t, dtype=dtype), shape=(1,))
            for t in (self.t0, last)
        ]
        return tensor_ops.cat(ends[0], between, ends[1], dim=0) if count > 1 else ends[0]

    def _rows(self, states: Tensor, last: bool = True) -> PyTree:
        """Return a matrix of states (time in front) in the structure of y0, with time as the last dimension of every
        leaf (or the first).
        """
        layout = self.layout
        count = int(states.shape[0])
        leaves, start = [], 0
        for shape, dtype, size in zip(layout.shapes, layout.dtypes, layout.sizes, strict=True):
            part = (
                states
                if size == layout.size
                else tensor_ops.getitem(states, index=(slice(None), slice(start, start + size)))
            )
            start += size
            one = Layout(self.name, [wrap(layout.tensor_type, np.zeros((count, *shape), dtype))], layout.tensor_type)
            if dtype.kind == "c":
                half = size // 2
                real, imag = (tensor_ops.getitem(part, index=(slice(None), slice(s, s + half))) for s in (0, half))
                part = tensor_ops.complex(real, imag)
            part = tensor_ops.reshape(with_tensor_type(part, layout.tensor_type), shape=one.shapes[0])
            if np_dtype(part) != dtype:
                part = tensor_ops.cast(part, dtype=dtype)
            leaves.append(tensor_ops.permute(part, dims=(*range(1, len(part.shape)), 0)) if last else part)
        return tree_unflatten(leaves, layout.spec)


__all__ = ["OdeResult", "solve_ivp"]
