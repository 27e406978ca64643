"""Initial value problems on arrays: SciPy's step methods, forward in time and, for the adjoint equation, backward.

Note [Checkpoints of a trajectory]
The adjoint equation runs backward and needs the solution along the way. Keeping all of it would make memory grow with
the number of steps, and integrating it backward as well is unstable. So the forward integration is repeated in pieces.
While it runs, a few states are kept; if there are too many, every second one is dropped. Then each piece, last to
first, is integrated again from its first state. If its steps are few, their interpolants are kept, else the same method
is applied to the piece. The memory is `kept` states per level of this recursion plus the interpolants of one piece. So
it grows with the logarithm of the number of steps, and up to kept * PIECE steps the trajectory is computed twice in
total.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ndgrad.implicit.convergence import ConvergenceError, scipy_module

if TYPE_CHECKING:
    from numpy.typing import NDArray

METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")
STIFF = frozenset(("Radau", "BDF", "LSODA"))
#: Number of steps whose interpolants are kept at once.
PIECE = 64
#: Largest size with a dense Jacobian; above, it is sparse with blocks.
DENSE_JACOBIAN = 400


@dataclass(frozen=True)
class Settings:
    """Settings of an integration."""

    name: str
    method: str = "RK45"
    rtol: float = 1e-3
    atol: float = 1e-6
    max_step: float = np.inf
    first_step: float | None = None
    kept: int = 32
    #: Separate method and tolerances of the adjoint, if given.
    adjoint: tuple[tuple[str, Any], ...] = ()

    def tighter(self) -> Settings:
        """Return settings for the trajectory that the adjoint equation reads: its errors add to the adjoint's own, so
        both get a tenth.
        """
        return replace(self, rtol=self.rtol / 10, atol=self.atol / 10)

    def for_adjoint(self) -> Settings:
        return replace(self, **{"first_step": None, **dict(self.adjoint)})


class Stepper(Protocol):
    """The attributes of SciPy's `OdeSolver` that are read here, and a count of steps without progress."""

    t: float
    t_old: float  # None before the first step
    y: NDArray[Any]
    status: str
    direction: float
    stalled: int

    def step(self) -> str | None: ...
    def dense_output(self) -> Callable[[float], NDArray[Any]]: ...


class SparseMatrix(Protocol):
    """A sparse matrix of SciPy's."""

    def toarray(self) -> NDArray[Any]: ...


class System:
    """dy/dt = f(t, y) on arrays, with the batches in front of y; flat vectors for SciPy.

    Note [Sharing out tolerances]
    SciPy keeps the root mean square of all components' errors within the tolerances. Many exact or easy components
    would allow a few to be wrong: other samples of a batch, parameters without influence, cotangents that stay zero. So
    the tolerances are reduced until each of `groups` (parts of the last dimension, by their ends), of each sample,
    satisfies the user's tolerance by itself. Only active components count.
    """

    def __init__(
        self,
        rhs: Callable[[float, Any], Any],
        jacobian: Callable[[float, Any], Any],
        shape: tuple[int, ...],
        settings: Settings,
        groups: Sequence[int] = (),
    ) -> None:
        self.rhs, self.jacobian, self.shape, self.settings, self.groups = rhs, jacobian, shape, settings, groups
        self.evaluations = self.jacobians = self.factorings = 0

    def flat_rhs(self, t: float, y: NDArray[Any]) -> NDArray[Any]:
        self.evaluations += 1
        return np.array(self.rhs(t, y.reshape(self.shape)), np.float64).reshape(-1)

    def flat_jacobian(self, t: float, y: NDArray[Any]) -> NDArray[Any] | SparseMatrix:
        self.jacobians += 1
        blocks = np.array(self.jacobian(t, y.reshape(self.shape)), np.float64)
        n = self.shape[-1]
        return block_matrix(blocks.reshape(-1, n, n), dense=self.settings.method == "LSODA")

    @contextmanager
    def solver(self, t: float, y: NDArray[Any], end: float) -> Iterator[Any]:
        """Return one of SciPy's step methods, starting from (t, y) towards `end`.

        It is part of a reference cycle; it is emptied at the end, so that it does not keep states alive until garbage
        collection.
        """
        made = self._solver(t, y, end)
        try:
            yield made
        finally:
            self.factorings += int(getattr(made, "nlu", 0))
            vars(made).clear()

    def _solver(self, t: float, y: NDArray[Any], end: float) -> Stepper:
        s = self.settings
        integrate = scipy_module("integrate", s.name)
        share = self._share(t, y)
        more: dict[str, Any] = {"jac": self.flat_jacobian} if s.method in STIFF else {}
        span = abs(end - t)
        if s.first_step is not None and s.first_step < span:
            more["first_step"] = s.first_step
        rtol = max(s.rtol / share, 100 * float(np.finfo(np.float64).eps))
        return getattr(integrate, s.method)(
            self.flat_rhs,
            t,
            np.asarray(y, np.float64).reshape(-1),
            end,
            max_step=s.max_step,
            rtol=rtol,
            atol=s.atol / share,
            **more,
        )

    def _share(self, t: float, y: NDArray[Any]) -> float:
        """Return the factor by which tolerances must be smaller: see Note [Sharing out tolerances]."""
        samples = max(int(np.prod(self.shape[:-1])), 1)
        if not self.groups:
            return float(np.sqrt(samples))
        state = np.asarray(y).reshape(self.shape)
        at_work = (state != 0) | (np.asarray(self.rhs(t, state)) != 0)
        parts = np.split(at_work, list(self.groups[:-1]), axis=-1)
        counts = [int(part.sum(axis=-1).min(initial=part.shape[-1])) for part in parts if part.any()]
        return float(np.sqrt(at_work.size / max(min(counts, default=1), 1)))


def block_matrix(blocks: NDArray[Any], dense: bool) -> NDArray[Any] | SparseMatrix:
    """Return a block-diagonal matrix of equal blocks."""
    count, rows = blocks.shape[:2]
    if count == 1 and (dense or rows <= DENSE_JACOBIAN):
        return blocks[0]
    from scipy import sparse

    made = sparse.csc_matrix(sparse.block_diag([sparse.coo_array(block) for block in blocks]))
    return made.toarray() if dense else made


#: Allowed number of successive steps of a few units in the last place of t. Only LSODA takes them without end.
STALLED = 100


def advance(solver: Stepper, name: str) -> None:
    """Take one step, or raise an error with the reason of the failure."""
    message = solver.step()
    tiny = solver.t_old is not None and abs(solver.t - solver.t_old) <= 10 * abs(np.spacing(solver.t))
    solver.stalled = getattr(solver, "stalled", 0) + 1 if tiny else 0
    if solver.stalled > STALLED:
        message = f"the last {STALLED} steps have not moved on"
    if solver.status == "failed" or solver.stalled > STALLED or not np.isfinite(solver.y).all():
        raise ConvergenceError(
            (
                f"{name}: {type(solver).__name__} failed at t = {solver.t:.6g} "
                f"with steps of {abs(solver.t - (solver.t_old or solver.t)):.3g} "
                f"({(message or 'the solution is not finite').strip()}). The solution may leave every bound there: "
                "end before, try a stiff method ('Radau', 'BDF', 'LSODA'), or change rtol and atol. [nd-no-convergence]"
            ),
            solver.y,
        )


# ----- forward -------------------------------------------------------------------------------------------------------


class Event:
    """An event function, and the times of its sign changes."""

    def __init__(self, function: Callable[[float, Any], float], terminal: int, direction: float) -> None:
        self.function, self.terminal, self.direction = function, terminal, direction
        self.times: list[float] = []
        self.before = 0.0

    def crossing(self, old: float, t: float, now: float, sol: Callable[[float], Any]) -> float | None:
        """Return the time of a sign change in the step (old, t], if there is one in the wanted direction."""
        before, self.before = self.before, now
        up, down = before <= 0 <= now, before >= 0 >= now
        if before == now or not ((up and self.direction >= 0) or (down and self.direction <= 0)):
            return None
        optimize = scipy_module("optimize", "implicit.solve_ivp")
        eps = float(np.finfo(np.float64).eps)
        return float(optimize.brentq(lambda s: self.function(s, sol(s)), old, t, xtol=4 * eps, rtol=4 * eps))


@dataclass
class Trajectory:
    """Result of an integration: the times reached, the states there, and whether an event ended it."""

    times: list[float]
    states: list[Any]
    ended: bool


def forward(
    system: System,
    t0: float,
    end: float,
    y0: NDArray[Any],
    wanted: Sequence[float] | None,
    events: Sequence[Event] = (),
) -> Trajectory:
    """Return states at the wanted times (all steps if None), up to `end` or to a terminal event."""
    found = Trajectory([], [], False)
    state = np.asarray(y0, np.float64).reshape(-1)
    rest = None if wanted is None else list(wanted)
    if rest is None:
        found.times.append(t0)
        found.states.append(state.copy())
    while rest and rest[0] == t0:
        found.times.append(rest.pop(0))
        found.states.append(state.copy())
    for event in events:
        event.before = event.function(t0, state)
    if t0 == end or (rest is not None and not rest and not events):
        return found
    sign = 1.0 if end >= t0 else -1.0
    with system.solver(t0, state, end if events or rest is None else rest[-1]) as solver:
        while solver.status == "running" and not found.ended:
            advance(solver, system.settings.name)
            stop, sol = solver.t, _no_interpolant
            if events or (rest and sign * rest[0] < sign * solver.t):
                sol = solver.dense_output()
            if events:
                stop = _events_in_step(events, solver, sol, found)
            _record(found, rest, solver, sol, stop, sign)
    return found


def _no_interpolant(t: float) -> NDArray[Any]:
    raise AssertionError(f"no state was asked for inside the step, at t = {t} [nd-bug]")


def _events_in_step(
    events: Sequence[Event], solver: Stepper, sol: Callable[[float], NDArray[Any]], found: Trajectory
) -> float:
    """Search for events in the last step; return the end of the integration if one of them is terminal, else the end of
    the step.
    """
    sign = solver.direction
    crossings = []
    for event in events:
        at = event.crossing(solver.t_old, solver.t, event.function(solver.t, solver.y), sol)
        if at is not None:
            crossings.append((sign * at, at, event))
    for _, at, event in sorted(crossings, key=lambda c: c[0]):
        event.times.append(at)
        if event.terminal and len(event.times) >= event.terminal:
            found.ended = True
            return at
    return float(solver.t)


def _record(
    found: Trajectory,
    rest: list[float] | None,
    solver: Stepper,
    sol: Callable[[float], NDArray[Any]],
    stop: float,
    sign: float,
) -> None:
    if rest is None:
        found.times.append(stop)
        found.states.append(solver.y.copy() if stop == solver.t else sol(stop))
        return
    while rest and sign * rest[0] <= sign * stop:
        t = rest.pop(0)
        found.times.append(t)
        found.states.append(solver.y.copy() if t == solver.t else sol(t))


# ----- backward ------------------------------------------------------------------------------------------------------

Pull = Callable[[float, Any, Any], tuple[Any, Any]]
PullJacobian = Callable[[float, Any], tuple[Any, Any]]


class Adjoint:
    """The adjoint equation: lambda' = -(df/dy)^T lambda, and the parameters' cotangents, (df/dp)^T lambda integrated.

    `pull(t, y, lam)` returns (df/dy)^T lam and (df/dp)^T lam; `pull_jacobian(t, y)` the matrices themselves, for stiff
    methods. Arrays have the batches in front.
    """

    def __init__(self, system: System, pull: Pull, pull_jacobian: PullJacobian, parameters: int) -> None:
        self.system, self.pull, self.pull_jacobian = system, pull, pull_jacobian
        self.lead, self.n, self.parameters = system.shape[:-1], system.shape[-1], parameters
        self.at: Callable[[float], Any] = lambda t: None
        shape = (*self.lead, self.n + parameters)
        groups = (self.n, self.n + parameters) if parameters else (self.n,)
        # Functions instead of methods: a system made of its own methods would be a reference cycle.
        self.equation = System(
            _rhs_of(weakref.ref(self)), _jacobian_of(weakref.ref(self)), shape, system.settings.for_adjoint(), groups
        )

    def rhs(self, t: float, z: NDArray[Any]) -> NDArray[Any]:
        along_y, along_p = self.pull(t, self.at(t).reshape(self.system.shape), z[..., : self.n])
        return -np.concatenate([along_y, along_p], axis=-1)

    def matrix(self, t: float, z: NDArray[Any]) -> NDArray[Any]:
        dy, dp = self.pull_jacobian(t, self.at(t).reshape(self.system.shape))
        n, p = self.n, self.parameters
        out = np.zeros((*self.lead, n + p, n + p))
        out[..., :n, :n] = -np.swapaxes(dy, -1, -2)
        out[..., n:, :n] = -np.swapaxes(dp, -1, -2)
        return out

    def run(self, t0: float, y0: NDArray[Any], times: Sequence[float], cotangents: NDArray[Any]) -> tuple[Any, Any]:
        """Return cotangents of y0 and of the parameters for cotangents of the states at the times, time in front."""
        z = np.zeros(self.equation.shape)
        # The equation is linear, so absolute tolerances can be relative to the size of the cotangents.
        scale = float(np.abs(cotangents).max(initial=0.0))
        if scale == 0.0 or not len(times):
            return z[..., : self.n], z[..., self.n :]
        if not np.isfinite(scale):
            return np.full_like(z[..., : self.n], np.nan), np.full_like(z[..., self.n :], np.nan)
        jumps = [(t, g / scale) for t, g in zip(times, cotangents, strict=True)]
        if times[-1] != t0:
            z = self._sweep(t0, np.asarray(y0, np.float64).reshape(-1), times[-1], z, jumps)
        for t, g in jumps:
            if t == t0:
                z[..., : self.n] += g
        z = z * scale
        return z[..., : self.n], z[..., self.n :]

    def _sweep(
        self, start: float, y: NDArray[Any], end: float, z: NDArray[Any], jumps: list[tuple[float, Any]]
    ) -> NDArray[Any]:
        """Integrate z from `end` back to `start`, where the state is y (see Note [Checkpoints of a trajectory])."""
        name, kept = self.system.settings.name, max(self.system.settings.kept, 1)
        pieces: list[Any] | None = []
        edges = [start]
        marks, stride, count = [(start, y)], 1, 0
        with self.system.solver(start, y, end) as solver:
            while solver.status == "running":
                advance(solver, name)
                count += 1
                if pieces is not None:
                    pieces.append(solver.dense_output())
                    edges.append(solver.t)
                    if len(pieces) > PIECE:
                        pieces = None
                if count % stride == 0 and solver.t != end:
                    marks.append((solver.t, solver.y.copy()))
                    if len(marks) > 2 * kept:
                        marks, stride = marks[::2], stride * 2
        if pieces is not None:
            integrate = scipy_module("integrate", name)
            self.at = integrate.OdeSolution(edges, pieces)
            return self._back(start, end, z, jumps)
        stops = [*(t for t, _ in marks[1:]), end]
        while marks:
            t, state = marks.pop()
            z = self._sweep(t, state, stops.pop(), z, jumps)
        return z

    def _back(self, start: float, end: float, z: NDArray[Any], jumps: list[tuple[float, Any]]) -> NDArray[Any]:
        """Integrate the adjoint equation from `end` to `start`, stopping to add the cotangents of states in between."""
        sign = 1.0 if end >= start else -1.0
        here = end
        for t, g in reversed(jumps):
            if sign * t > sign * end or sign * t <= sign * start:
                continue
            z = self._integrate(here, t, z)
            z = z.copy()
            z[..., : self.n] += g
            here = t
        return self._integrate(here, start, z)

    def _integrate(self, here: float, there: float, z: NDArray[Any]) -> NDArray[Any]:
        if here == there or not z.any():
            return z  # before the first cotangent there is nothing to transport
        with self.equation.solver(here, z, there) as solver:
            while solver.status == "running":
                advance(solver, self.system.settings.name + " (adjoint equation)")
            return solver.y.reshape(z.shape)


def _rhs_of(adjoint: weakref.ref[Adjoint]) -> Callable[[float, Any], Any]:
    return lambda t, z: adjoint().rhs(t, z)  # type: ignore[union-attr]  # alive as long as the solver that calls this


def _jacobian_of(adjoint: weakref.ref[Adjoint]) -> Callable[[float, Any], Any]:
    # Alive as long as the solver that calls it.
    return lambda t, z: adjoint().matrix(t, z)  # type: ignore[union-attr]


__all__ = ["Adjoint", "Event", "METHODS", "STIFF", "Settings", "System", "Trajectory", "forward"]
