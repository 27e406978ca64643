"""Integrals over an interval, differentiable in their limits and in the parameters of the integrand.

d/dp of an integral is the integral of d/dp, by forward mode; its transpose, for reverse mode, integrates the
vector of all parameters' cotangents at once. Limits contribute the integrand's value there. As for flows, the reverse
integral is an op. Its derivatives are those of <w, integral of pulled cotangents>, again a scalar integral, so every
order exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import FLOATING, is_floating, result_dtype
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.transforms import jvp, vjp
from ndgrad.implicit.batched_arrays import Batch, take_apart
from ndgrad.implicit.convergence import check_on_failure, not_converged, scipy_module
from ndgrad.implicit.equations import Equations
from ndgrad.implicit.packing import Layout, PyTree, tensor_type_of_tree, tensors_of
from ndgrad.implicit.rewrapping import with_tensor_type
from ndgrad.implicit.rules import Rule, Tensors, attach, replace_some

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Tensor, TensorLike

#: integrand(x, parameters) -> a vector, on tensors
Integrand = Callable[[Any, Tensors], Any]


def quad(
    func: Callable[..., PyTree],
    a: TensorLike,
    b: TensorLike,
    args: PyTree = (),
    *,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 200,
    points: Sequence[float] | None = None,
    on_failure: str = "raise",
) -> tuple[PyTree, float]:
    """Return the integral of func(x, *args) from a to b and an estimate of its error, differentiable in a,
    b, args and func's closure.

    `func` may return a structure of tensors, whose parts are integrated together (by `scipy.integrate.quad_vec`).
    Limits may be infinite, then without a derivative. `points` split the interval, for example at kinks. Inside `vmap`,
    all samples with common limits are integrated together.

    Args:
        func: integrand `func(x, *args)`, with a tensor or a structure of tensors as result.
        a, b: limits of the integral.
        args: further arguments of `func`.
        epsabs: absolute tolerance.
        epsrel: relative tolerance.
        limit: largest number of intervals.
        points: points at which the interval is split.
        on_failure: `"raise"` for an error without convergence, `"warn"` for a warning.

    Raises:
        ConvergenceError: if the tolerance is not reached.

    >>> import ndgrad
    >>> k = ndgrad.tensor(2.0, requires_grad=True)
    >>> area, error = ndgrad.implicit.quad(lambda x: ndgrad.exp(-k * x), 0.0, float("inf"))
    >>> area.backward()
    >>> k.grad
    tensor(-0.2500)
    """
    name = "implicit.quad"
    check_on_failure(name, on_failure)
    given = args if isinstance(args, tuple) else (args,)
    tensor_type = tensor_type_of_tree(a, b, given)
    settings = _Settings(name, epsabs, epsrel, limit, points, on_failure)
    lower, upper = (_limit(name, what, value, tensor_type) for what, value in (("a", a), ("b", b)))
    kind = result_dtype(*(np_dtype(t) for t in (lower, upper) if isinstance(t, Variable)))
    equations = Equations(name, wrap(tensor_type, np.zeros((), kind)), given, tensor_type)
    outline: dict[str, Layout] = {}

    def integrand(x: Tensor, *given: Any) -> Tensor:
        result = func(with_tensor_type(x, tensor_type), *given)
        leaves = tensors_of(f"{name}: func", result, tensor_type)
        layout = Layout(f"{name}: func", tree_unflatten(leaves, tree_flatten(result)[1]), tensor_type_of_tree(leaves))
        outline["layout"] = layout
        layout.tensors = []  # they belong to this call, the layout outlives it
        return layout.pack(leaves)

    def solver(_: NDArray[Any]) -> tuple[Any, float]:
        return settings.integrate(
            lambda x: equations.run_flat(integrand, x), equations.batch, lower, upper, tensor_type
        )

    value, error = equations.solve(solver)
    rule = IntegralRule(lambda x, params: equations.apply_flat(integrand, (x,), params), settings)
    whole = attach(equations.batch.tensor(value, tensor_type), (lower, upper, *equations.parameters()), rule)
    return outline["layout"].unpack(whole), error


def _limit(name: str, what: str, value: TensorLike, tensor_type: type[Any]) -> Tensor:
    t = (
        with_tensor_type(value, tensor_type)
        if isinstance(value, Variable)
        else wrap(tensor_type, np.asarray(value, np.float64))
    )
    if len(t.shape) or np_dtype(t).kind not in "iu" + FLOATING:
        raise ValueError(
            f"{name}: the limit {what} has shape {tuple(t.shape)} and dtype {np_dtype(t)}. It must be one real number. "
            "[nd-shape]"
        )
    if take_apart(t)[1]:
        raise ValueError(
            f"{name}: the limit {what} is batched by vmap, and all samples are integrated together. "
            "Substitute x = a + (b - a) s, with s from 0 to 1. [nd-vmap-refused]"
        )
    return t if is_floating(np_dtype(t)) else tensor_ops.cast(t, dtype=np.dtype(np.float64))


class _Settings:
    """Settings of an integration."""

    def __init__(
        self, name: str, epsabs: float, epsrel: float, limit: int, points: Sequence[float] | None, on_failure: str,
    ) -> None:  # fmt: skip
        self.name, self.epsabs, self.epsrel, self.limit = name, epsabs, epsrel, limit
        self.points = None if points is None else [float(p) for p in points]
        self.on_failure = on_failure

    def integrate(
        self, f: Callable[[Any], Any], batch: Batch, a: Tensor, b: Tensor, tensor_type: type[Any]
    ) -> tuple[Any, float]:
        """Return the integral (an array with batches in front) of a function of plain tensors, and the error's
        estimate.
        """
        lower, upper = (float(take_apart(t)[0]) for t in (a, b))
        dtype = np_dtype(a)

        def on_arrays(x: float) -> NDArray[Any]:
            return np.array(batch.full(f(wrap(tensor_type, np.asarray(x, dtype)))), np.float64)

        probe = on_arrays(_inside(lower, upper))
        if lower == upper or not probe.size:
            return np.zeros(probe.shape, dtype), 0.0
        integrate = scipy_module("integrate", self.name)
        with np.errstate(over="ignore", under="ignore"):
            value, error, info = integrate.quad_vec(
                lambda x: on_arrays(x).reshape(-1), lower, upper, epsabs=self.epsabs, epsrel=self.epsrel,
                limit=self.limit, norm="max",
                points=self.points, full_output=True,
            )  # fmt: skip
        allowed = 10 * max(self.epsabs, self.epsrel * float(np.abs(value).max(initial=0.0)))
        if not (np.isfinite(value).all() and (info.success or error <= allowed)):
            remedy = (
                "Split the interval at difficult places with points=, raise limit, or loosen epsabs and epsrel. "
                "Does it exist?"
            )
            not_converged(self.name, info.message, float(error), remedy, value, self.on_failure)
        return value.reshape(probe.shape).astype(dtype), float(error)


def _inside(a: float, b: float) -> float:
    """Return a point between the limits, which may be infinite."""
    if np.isinf(a):
        return 0.0 if np.isinf(b) else b - 1.0
    return a + 1.0 if np.isinf(b) else 0.5 * (a + b)


def integral(f: Integrand, a: Tensor, b: Tensor, params: Tensors, settings: _Settings) -> Tensor:
    """Return the integral of a function of explicit parameters, as a differentiable vector."""
    batch = Batch()
    for t in params:
        batch.include(take_apart(t)[1])

    def run() -> NDArray[Any]:
        plain = [batch.plain(p) for p in params]
        return settings.integrate(lambda x: f(x, plain), batch, a, b, a.tensor_type)[0]

    return attach(batch.tensor(batch.solve(run), a.tensor_type), (a, b, *params), IntegralRule(f, settings))


class IntegralRule(Rule):
    """Rule of an integral with the parameters (a, b, *p)."""

    def __init__(self, f: Integrand, settings: _Settings) -> None:
        self.f, self.settings = f, settings

    def pull(self, out: Tensor, params: Tensors, g: Tensor, needs: Sequence[bool]) -> Tensors:
        a, b, *rest = params
        grads: list[Any] = [None] * len(params)
        for i, (limit, sign) in enumerate(((a, -1.0), (b, 1.0))):
            if needs[i]:
                grads[i] = sign * (g * self._evaluate_at(limit, rest)).sum()
        wanted = [i for i, need in enumerate(needs[2:]) if need]
        if wanted:
            layout = Layout(self.settings.name, [rest[i] for i in wanted], a.tensor_type)
            count = len(rest)

            def pulled(x: Tensor, given: Tensors) -> Tensor:
                values, g = list(given[:count]), given[count]
                back = vjp(lambda *ps: self.f(x, replace_some(values, wanted, ps)), *(values[i] for i in wanted))[1]
                return layout.pack(back(g))

            whole = integral(pulled, a, b, (*rest, g), self.settings)
            for i, t in zip(wanted, layout.unpack(whole), strict=True):
                grads[2 + i] = t
        return grads

    def push(self, out: Tensor, params: Tensors, tangents: Tensors) -> Tensor:
        a, b, *rest = params
        total = tensor_ops.zeros_like(out)
        for limit, t, sign in ((a, tangents[0], -1.0), (b, tangents[1], 1.0)):
            if t is not None:
                total = total + sign * self._evaluate_at(limit, rest) * t
        moving = [i for i, t in enumerate(tangents[2:]) if t is not None]
        if moving:
            count = len(rest)

            def pushed(x: Tensor, given: Tensors) -> Tensor:
                values, along = list(given[:count]), tuple(given[count:])
                primals = tuple(values[i] for i in moving)
                return jvp(lambda *ps: self.f(x, replace_some(values, moving, ps)), primals, along)[1]

            total = total + integral(pushed, a, b, (*rest, *(tangents[2 + i] for i in moving)), self.settings)
        return total

    def _evaluate_at(self, limit: Tensor, rest: Tensors) -> Tensor:
        """Return the integrand at a limit; at infinity it vanishes, or the integral would not exist."""
        if np.isinf(np.asarray(take_apart(limit)[0])).any():
            raise ValueError(
                f"{self.settings.name}: a derivative with respect to an infinite limit was asked "
                "for. Detach that limit. [nd-no-derivative]"
            )
        return self.f(limit, rest)


__all__ = ["integral", "quad"]
