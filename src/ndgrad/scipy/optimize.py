"""`scipy.optimize` with exact derivatives: solvers get them, and solutions have them.

Functions are written for NumPy: they get Arrays, in the structure of x0. Their derivatives (gradients, Jacobians,
Hessian products) are computed and passed to SciPy. If an argument or a captured variable of the function requires grad,
the solution is a differentiable function of it (ndgrad.implicit). A failed solve then raises, since its derivative
would be meaningless. Otherwise results, including failures, are SciPy's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

import ndgrad.linalg
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.pytree import tree_flatten, tree_map
from ndgrad._src.transforms.jacobian import jacfwd
from ndgrad._src.transforms.transforms import grad
from ndgrad.implicit.constraints import constant
from ndgrad.implicit.convergence import ConvergenceError, ConvergenceWarning, SingularError, scipy_module
from ndgrad.implicit.equations import carries_derivative
from ndgrad.implicit.optima import cost_of, find_least_squares, find_minimum, flat_residuals, scalar_result
from ndgrad.implicit.packing import Layout, PyTree
from ndgrad.implicit.rewrapping import with_tensor_type
from ndgrad.implicit.roots import find_root
from ndgrad.numpy._array import Array
from ndgrad.scipy._arrays import as_array, as_arrays
from ndgrad.scipy._without_rules import public_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.optimize import OptimizeResult, RootResults

    from ndgrad._typing import ArrayLike, Tensor


#: torch's functions. They return Arrays for Arrays; their own types say Tensor.
_of_arrays: Any = ndgrad.linalg


def _optimize() -> Any:
    return scipy_module("optimize", "ndgrad.scipy.optimize")


def _tuple(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def _flat_derivative(derivative: Any, layout: Layout, args: tuple[Any, ...]) -> Any:
    """Wrap a user's gradient, Hessian or Hessian product for SciPy, which uses flat vectors."""
    if not callable(derivative):
        return derivative

    def call(x: Array, *vectors: Any) -> NDArray[Any]:
        structures = [layout.unpack(as_array(np.asarray(v, layout.dtype))) for v in (x, *vectors)]
        leaves = [
            np.asarray(getattr(leaf, "detach", lambda leaf=leaf: leaf)())
            for leaf in tree_flatten(derivative(*structures, *args))[0]
        ]
        return leaves[0] if len(leaves) == 1 else np.concatenate([leaf.reshape(-1) for leaf in leaves])

    return call


# ----- minimisation --------------------------------------------------------------------------------------------------


def minimize(
    fun: Callable[..., Any], x0: PyTree, args: Any = (), method: str | None = None,
    jac: Callable[..., Any] | bool | str | None = None, hess: Callable[..., Any] | str | None = None,
    hessp: Callable[..., Any] | None = None, bounds: Any = None, constraints: Any = (), tol: float | None = None,
    callback: Callable[..., Any] | None = None, options: dict[str, Any] | None = None,
) -> OptimizeResult:  # fmt: skip
    """Minimize a function of a nested structure, as `scipy.optimize.minimize` does, with exact derivatives.

    Every method that uses them gets them automatically; `jac`, `hess` and `hessp` are optional. With hess="sparse" the
    Hessian is computed sparse, by colouring, which suits large problems with method="trust-constr". The result's `x`
    has the structure of `x0`.

    Args:
        fun: objective `fun(x, *args)`, which returns one number.
        x0: start: an array or a nested structure of arrays.
        args: further arguments of the function. A single value stands for a tuple of one.
        method: name of a method of SciPy. The default depends on bounds and constraints.
        jac: gradient of the objective. True means that `fun` returns a tuple of value and gradient. The default is the
            exact gradient.
        hess: Hessian of the objective, or `"sparse"`. The default is the exact one.
        hessp: product of the Hessian and a vector. The default is the exact one.
        bounds: bounds of the variables, as in SciPy.
        constraints: constraints, as in SciPy. Their Jacobians are exact.
        tol: tolerance of the method.
        callback: function that is called with the current point after each step.
        options: further settings of the method.

    Returns:
        SciPy's result. Its `x` has the structure of `x0`, and is differentiable in `args` and in captured variables of
        `fun`.

    >>> from ndgrad.scipy import optimize
    >>> result = optimize.minimize(lambda p: (p["a"] - 3.0) ** 2 + (p["b"] ** 2).sum(), {"a": 0.0, "b": [1.0, 2.0]})
    >>> round(result.x["a"].item(), 4)
    3.0
    """
    structure = _at_least_one_axis(as_arrays(x0))
    given = _tuple(args)
    objective = (lambda *a: fun(*a)[0]) if jac is True else fun
    jac = None if jac is True or jac is False else jac
    layout = Layout("minimize: x0", structure, Array)
    x, result, _ = find_minimum(
        "optimize.minimize", objective, structure, given, method=method, bounds=bounds, constraints=constraints,
        tol=tol, options=options,
        linear=None, on_failure="return", jac=_flat_derivative(jac, layout, given),
        hess=hess if hess == "sparse" else _flat_derivative(hess, layout, given),
        hessp=_flat_derivative(hessp, layout, given),
        callback=_flat_derivative(callback, layout, ()) if callback is not None else None,
    )  # fmt: skip
    return _finish(result, x, layout, objective, given)


def _at_least_one_axis(x0: PyTree) -> PyTree:
    """Return a start of SciPy's methods, which give functions an array of at least one axis."""
    return x0.reshape(1) if isinstance(x0, Variable) and not x0.ndim else x0


def _finish(result: Any, x: PyTree, layout: Layout, fun: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return SciPy's result with the solution, and values of its shape, in the user's structure. If the solution
    carries a derivative, so do functions of it: the value, and the gradient, which does not vanish at bounds and
    constraints.
    """
    gradient = result.get("jac")
    shown = isinstance(gradient, np.ndarray) and gradient.shape == (layout.size,)
    if _carries(x):
        result.fun = fun(x, *args)
        if shown:
            result.jac = grad(lambda v: scalar_result("optimize.minimize", fun(v, *args), layout))(x)
        result = _withholding(
            result,
            "hess",
            "hess_inv",
            "direc",
            "final_simplex",
            "grad",
            "lagrangian_grad",
            "constr",
            "v",
            "multipliers",
        )
    elif shown:
        result.jac = layout.unpack(as_array(gradient.astype(layout.dtype)))
    result.x = x
    return result


def _carries(x: PyTree) -> bool:
    """True if a solution carries a derivative, in any mode."""
    return any(carries_derivative(leaf) for leaf in tree_flatten(x)[0])


def _withholding(result: Any, *names: str) -> Any:
    """Return SciPy's result without numbers that depend on the parameters but have no derivative here. They are shown
    when the result is printed; reading one would silently lose its derivative.
    """

    class Result(type(result)):  # type: ignore[misc]  # SciPy's class, which is known when SciPy is imported
        def __getitem__(self, name: str) -> Any:
            if name in names and name in self:
                raise NotImplementedError(
                    f"the field {name!r} of {type(result).__name__} depends on the parameters of a solution "
                    "that carries a derivative, but has none itself: the solver's own numbers. Instead: "
                    "compute it from result.x (func.hessian, func.jacfwd), or detach() the parameters. "
                    "[nd-no-derivative]"
                )
            return super().__getitem__(name)

        def __getattr__(self, name: str) -> Any:
            if name not in self:
                raise AttributeError(name)
            return self[name]

    Result.__name__ = Result.__qualname__ = type(result).__name__
    return Result(result)


def minimize_scalar(
    fun: Callable[..., Any], bracket: Sequence[float] | None = None, bounds: Sequence[float] | None = None,
    args: Any = (), method: str | None = None, tol: float | None = None, options: dict[str, Any] | None = None,
) -> OptimizeResult:  # fmt: skip
    """Minimize a function of one number, as `scipy.optimize.minimize_scalar` does.

    Args:
        fun: objective `fun(x, *args)`.
        bracket: two or three points that bracket the minimum, for Brent's method and golden sections.
        bounds: interval of the search.
        args: further arguments of the function. A single value stands for a tuple of one.
        method: `"brent"`, `"golden"` or `"bounded"`. The default depends on `bounds`.
        tol: tolerance of the method.
        options: further settings of the method.

    Returns:
        SciPy's result. Its `x` is differentiable in `args` and in captured variables of `fun`.

    >>> from ndgrad.scipy import optimize
    >>> optimize.minimize_scalar(lambda x: (x - 2.0) ** 2).x.round(6)
    array(2.)
    """
    given = _tuple(args)

    limits: tuple[Any, ...] | None = (
        None if bounds is None else tuple(float(constant("optimize.minimize_scalar", "a bound", b)) for b in bounds)
    )

    def search(f: Callable[..., Any], x0: Array, args: Any = (), **_: Any) -> OptimizeResult:
        found = _optimize().minimize_scalar(
            lambda v: float(f(np.array([v]))), bracket=bracket, bounds=limits, method=method, tol=tol, options=options
        )
        found.x = np.atleast_1d(np.asarray(found.x, np.float64))
        return found

    start = as_array(
        float(np.mean(limits)) if limits is not None else float(bracket[0]) if bracket is not None else 0.0
    )
    x, result, layout = find_minimum(
        "optimize.minimize_scalar", fun, start, given, method=search, bounds=limits, constraints=(), tol=None,
        options=None, linear=None,
        on_failure="return",
    )  # fmt: skip
    return _finish(result, x, layout, fun, given)


def least_squares(
    fun: Callable[..., PyTree], x0: PyTree, jac: Callable[..., Any] | bool | str | None = None, bounds: Any = None,
    method: str = "trf", ftol: float | None = 1e-8, xtol: float | None = 1e-8, gtol: float | None = 1e-8,
    x_scale: ArrayLike = 1.0, loss: str = "linear", f_scale: float = 1.0, max_nfev: int | None = None, verbose: int = 0,
    args: Any = (), kwargs: dict[str, Any] | None = None, **options: Any,
) -> OptimizeResult:  # fmt: skip
    """Minimize a sum of squared residuals, as `scipy.optimize.least_squares` does, with exact Jacobians.

    Args:
        fun: residuals `fun(x, *args, **kwargs)`.
        x0: start: an array or a nested structure of arrays.
        jac: Jacobian of the residuals. The default is the exact one.
        bounds: lower and upper bounds of the variables.
        method: `"trf"`, `"dogbox"` or `"lm"`.
        ftol: tolerance for the change of the cost.
        xtol: tolerance for the change of the variables.
        gtol: tolerance for the norm of the gradient.
        x_scale: characteristic size of each variable.
        loss: function of squared residuals: `"linear"`, `"soft_l1"`, `"huber"`, `"cauchy"` or `"arctan"`.
        f_scale: residual at which `loss` separates inliers from outliers.
        max_nfev: largest number of evaluations.
        verbose: 0 for no messages, 1 for a report, 2 for one line per step.
        args: further arguments of the function. A single value stands for a tuple of one.
        kwargs: keyword arguments of `fun`.
        options: further settings of the method.

    Returns:
        SciPy's result. Its `x` has the structure of `x0`, and is differentiable in `args` and in captured variables of
        `fun`.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import optimize
    >>> optimize.least_squares(lambda p: p - np.array([1.0, 2.0]), [0.0, 0.0]).x.round(6)
    array([1., 2.])
    """
    structure, given = as_arrays(x0), _tuple(args)
    function = (lambda *a: fun(*a, **kwargs)) if kwargs else fun
    settings = {
        "ftol": ftol,
        "xtol": xtol,
        "gtol": gtol,
        "x_scale": x_scale,
        "max_nfev": max_nfev,
        "verbose": verbose,
        **options,
    }
    layout = Layout("least_squares: x0", structure, Array)
    x, result, _ = find_least_squares(
        "optimize.least_squares", function, structure, given, bounds=bounds, method=method, loss=loss, f_scale=f_scale,
        options=settings,
        linear=None, on_failure="return", jac=_flat_derivative(jac, layout, given),
    )  # fmt: skip
    if _carries(x):

        def residuals(v: Tensor) -> Tensor:
            return flat_residuals("optimize.least_squares", function, layout.unpack(v), given, layout)

        def cost(v: Tensor) -> Tensor:
            return cost_of(residuals(v), loss, f_scale)

        at = layout.pack(tree_flatten(x)[0])
        result.fun, result.cost, result.grad = residuals(at), cost(at), grad(cost)(at)
        if loss == "linear":
            result.jac = jacfwd(residuals)(at)
        else:  # SciPy scales its rows by the loss
            result = _withholding(result, "jac")
    result.x = x
    return result


def curve_fit(
    f: Callable[..., Any], xdata: ArrayLike, ydata: ArrayLike, p0: ArrayLike | None = None,
    sigma: ArrayLike | None = None, absolute_sigma: bool = False, *, bounds: Any = None, method: str | None = None,
    **options: Any,
) -> tuple[Array, Array]:  # fmt: skip
    """Fit a curve to data, as `scipy.optimize.curve_fit` does.

    Both are differentiable in `xdata`, `ydata`, `sigma` and captured variables of `f`. `sigma` holds standard
    deviations, or a covariance matrix.

    Args:
        f: model `f(xdata, *p)`.
        xdata: points at which data was measured.
        ydata: data.
        p0: start of the parameters. The default is ones.
        sigma: standard deviations of the data, or their covariance matrix.
        absolute_sigma: whether `sigma` is absolute. The covariance is scaled by the residuals otherwise.
        bounds: lower and upper bounds of the parameters.
        method: `"lm"`, `"trf"` or `"dogbox"`. The default is `"lm"`, and `"trf"` with bounds.
        options: further settings of the method.

    Returns:
        The parameters and their covariance matrix.

    >>> from ndgrad.scipy import optimize
    >>> p, covariance = optimize.curve_fit(lambda x, a, b: a * x + b, [0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
    >>> p.round(6)
    array([2., 1.])
    """
    x = as_array(xdata) if not callable(getattr(xdata, "keys", None)) else xdata
    y = as_array(ydata)
    if p0 is None:
        import inspect

        parameters = inspect.signature(f).parameters.values()
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters) or len(parameters) < 2:
            raise ValueError("curve_fit: unable to determine the number of fit parameters. Give p0. [nd-arguments]")
        p0 = np.ones(len(parameters) - 1)
    start = as_array(p0)
    start = start if start.ndim else start[None]
    weights = None if sigma is None else as_array(sigma)

    def residuals(p: Array, x: Array, y: Array, *weights: Any) -> Array:
        r = with_tensor_type(f(x, *(p[i] for i in range(p.shape[0]))), Array) - y
        if not weights:
            return r.ravel()
        (s,) = weights
        if s.ndim == 1 or s.ndim == 0:
            return (r / s).ravel()
        return _of_arrays.solve_triangular(_of_arrays.cholesky(s), r.reshape(-1, 1), upper=False).reshape(-1)

    given = (x, y) if weights is None else (x, y, weights)
    settings = {"bounds": bounds, "method": method or ("lm" if bounds is None else "trf")}
    popt, result, _ = find_least_squares(
        "optimize.curve_fit", residuals, start, given, loss="linear", f_scale=1.0, options=options, linear=None,
        on_failure="return",
        **settings,
    )  # fmt: skip
    if not result.success:
        raise RuntimeError(
            f"curve_fit: optimal parameters not found: {result.message} Give a better p0, or raise max_nfev. "
            "[nd-no-convergence]"
        )
    jacobian = jacfwd(residuals)(popt, *given)
    covariance = _of_arrays.pinv(jacobian.T @ jacobian)
    count, size = int(np.prod(y.shape)), int(popt.shape[0])
    if not absolute_sigma:
        if count <= size:
            return popt, covariance * np.inf
        covariance = covariance * ((residuals(popt, *given) ** 2).sum() / (count - size))
    return popt, covariance


# ----- roots ---------------------------------------------------------------------------------------------------------


def root(
    fun: Callable[..., PyTree], x0: PyTree, args: Any = (), method: str | None = "hybr",
    jac: Callable[..., Any] | bool | str | None = None, tol: float | None = None,
    callback: Callable[..., Any] | None = None, options: dict[str, Any] | None = None,
) -> OptimizeResult:  # fmt: skip
    """Find a root of a system of equations, as `scipy.optimize.root` does, with exact Jacobians.

    Args:
        fun: residuals `fun(x, *args)`, of the structure of `x0`.
        x0: start: an array or a nested structure of arrays. A number stands for an array of one element.
        args: further arguments of the function. A single value stands for a tuple of one.
        method: name of a method of SciPy.
        jac: True means that `fun` returns a tuple of residuals and Jacobian. Other values have no effect, because the
            Jacobian is exact.
        tol: tolerance of the method.
        callback: must be None, because callbacks are not passed on.
        options: further settings of the method.

    Returns:
        SciPy's result. Its `x` has the structure of `x0`, and is differentiable (see `ndgrad.implicit.root`).

    >>> from ndgrad.scipy import optimize
    >>> optimize.root(lambda x: x**2 - 4.0, [1.0]).x.round(6)
    array([2.])
    """
    optimize = _optimize()
    given = _tuple(args)
    function = (lambda *a: fun(*a)[0]) if jac is True else fun
    settings = dict(options or {})
    if callback is not None:
        raise ValueError(
            "optimize.root: callbacks are not passed on. Count the calls in the function instead. [nd-unsupported]"
        )
    start = _at_least_one_axis(as_arrays(x0))
    x, found = find_root("optimize.root", function, start, given, method, tol, settings, None, "return")
    result = (
        found.result
        if isinstance(found.result, optimize.OptimizeResult)
        else optimize.OptimizeResult(message=found.message)
    )
    # The residual is zero at the root for all parameters, so its derivative is zero.
    result.x, result.fun, result.success = x, np.array(found.residual), found.success
    return _withholding(result, "jac", "fjac", "r", "qtf", "cov_x") if _carries(x) else result


def fsolve(
    func: Callable[..., Any], x0: ArrayLike, args: Any = (), fprime: Any = None, full_output: bool = False,
    col_deriv: bool = False, xtol: float = 1.49012e-08, maxfev: int = 0, band: Any = None, epsfcn: Any = None,
    factor: float = 100, diag: Any = None,
) -> Any:  # fmt: skip
    """Find a root of a system of equations, as `scipy.optimize.fsolve` does, with exact Jacobians.

    Args:
        func: residuals `func(x, *args)`.
        x0: start.
        args: further arguments of the function. A single value stands for a tuple of one.
        fprime: accepted as in SciPy; has no effect, because the Jacobian is exact.
        full_output: whether a dict of details, a code (1 for success) and a message are returned too.
        col_deriv: accepted as in SciPy; has no effect.
        xtol: relative tolerance of the root.
        maxfev: largest number of evaluations. 0 leaves the choice to SciPy.
        band: accepted as in SciPy; has no effect, because it serves finite differences.
        epsfcn: accepted as in SciPy; has no effect, because it serves finite differences.
        factor: bound of the first step.
        diag: scale factors of the variables.

    >>> from ndgrad.scipy import optimize
    >>> optimize.fsolve(lambda x: x**2 - 4.0, 1.0).round(6)
    array([2.])
    """
    options = {"xtol": xtol, "maxfev": maxfev, "factor": factor, "diag": diag}
    start = np.atleast_1d(as_array(x0)).ravel()
    found = root(lambda x, *given: np.atleast_1d(func(x, *given)), start, args, "hybr", options=options)
    if full_output:
        info = {"nfev": found.get("nfev"), "fvec": found.fun}
        return found.x, info, 1 if found.success else 5, found.message
    if not found.success:
        warnings.warn(found.message, RuntimeWarning, stacklevel=2)
    return found.x


def _scalar_root(
    name: str, f: Callable[..., Any], x0: ArrayLike | None, args: Any, search: Callable[..., Any], full_output: bool,
    disp: bool,
) -> Any:  # fmt: skip
    """Find a root of a function of one number, by a SciPy search that is called with the function and its
    derivative.
    """
    report: dict[str, Any] = {}

    def solver(function: Any, start: NDArray[Any]) -> NDArray[Any]:
        value = lambda v: float(function(np.array([v], np.float64))[0])
        slope = lambda v: float(function.jacobian(np.array([v], np.float64))[0, 0])
        found, report["r"] = search(value, slope)
        return np.array([found], np.float64)

    x, found = find_root(name, f, as_array(0.0 if x0 is None else x0), _tuple(args), solver, None, {}, None, "return")
    if not found.success and disp:
        raise RuntimeError(f"{name}: failed to converge: {found.message}. [nd-no-convergence]")
    if full_output:
        report["r"].root = x
        return x, report["r"]
    return x


class _Bracketed(Protocol):
    def __call__(
        self, f: Callable[..., Any], a: ArrayLike, b: ArrayLike, args: Any = (), xtol: float = 2e-12,
        rtol: float = 8.881784197001252e-16, maxiter: int = 100, full_output: bool = False, disp: bool = True,
    ) -> Any: ...  # fmt: skip


def _make_bracketing(name: str, method: str) -> _Bracketed:
    def search(
        f: Callable[..., Any], a: ArrayLike, b: ArrayLike, args: Any = (), xtol: float = 2e-12,
        rtol: float = 8.881784197001252e-16, maxiter: int = 100, full_output: bool = False, disp: bool = True,
    ) -> Any:  # fmt: skip
        low, high = (float(v.detach().item()) if isinstance(v, Variable) else float(v) for v in (a, b))  # type: ignore[arg-type]
        tool = getattr(_optimize(), name)
        settings = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter, "full_output": True, "disp": disp}
        return _scalar_root(
            f"optimize.{name}",
            f,
            0.5 * (low + high),
            args,
            lambda g, _: tool(g, low, high, **settings),
            full_output,
            disp,
        )

    search.__name__ = search.__qualname__ = name
    search.__doc__ = f"""Find a root between a and b by {method}. It is differentiable in `args` and in captured
    variables of `f`, but not in a and b.

    Args:
        f: function `f(x, *args)`.
        a: one end of the interval.
        b: other end of the interval, at which `f` has the other sign.
        args: further arguments of `f`. A single value stands for a tuple of one.
        xtol: absolute tolerance of the root.
        rtol: relative tolerance of the root.
        maxiter: largest number of steps.
        full_output: whether SciPy's report is returned too.
        disp: whether a search that does not converge raises RuntimeError.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import optimize
    >>> square = np.array(9.0).requires_grad_()
    >>> root = optimize.{name}(lambda x, c: x * x - c, 0.0, 5.0, args=(square,))
    >>> root.backward()
    >>> root.detach().round(6), square.grad.round(6)
    (array(3.), array(0.166667))
    """
    return search


brentq = _make_bracketing("brentq", "Brent's method")
brenth = _make_bracketing("brenth", "Brent's method with hyperbolic extrapolation")
ridder = _make_bracketing("ridder", "Ridder's method")
bisect = _make_bracketing("bisect", "bisection")


def newton(
    func: Callable[..., Any], x0: ArrayLike, fprime: Callable[..., Any] | bool | None = None, args: Any = (),
    tol: float = 1.48e-8, maxiter: int = 50, fprime2: Callable[..., Any] | bool | None = None,
    x1: ArrayLike | None = None, rtol: float = 0.0, full_output: bool = False, disp: bool = True,
) -> Any:  # fmt: skip
    """Find a root near a start, as `scipy.optimize.newton` does, with the exact derivative. With `x1` it is the secant
    method. An array x0 holds independent problems, which are solved together.

    Args:
        func: function `func(x, *args)`.
        x0: start.
        fprime: accepted as in SciPy; has no effect, because the derivative is exact.
        args: further arguments of the function. A single value stands for a tuple of one.
        tol: tolerance of the root.
        maxiter: largest number of steps.
        fprime2: accepted as in SciPy; has no effect.
        x1: second start of the secant method.
        rtol: relative tolerance of the root.
        full_output: whether SciPy's report is returned too.
        disp: whether a search that does not converge raises RuntimeError.

    >>> from ndgrad.scipy import optimize
    >>> optimize.newton(lambda x: x**2 - 4.0, 1.0).round(6)
    array(2.)
    """
    start = as_array(x0)
    if start.ndim:
        if full_output:
            raise ValueError(
                "optimize.newton: full_output is for one number. Ask optimize.root for a report. [nd-unsupported]"
            )
        x, found = find_root(
            "optimize.newton", func, start, _tuple(args), "newton", tol, {"maxiter": maxiter}, None, "return"
        )
        if not found.success and disp:
            raise RuntimeError(f"optimize.newton: failed to converge: {found.message}. [nd-no-convergence]")
        return x
    first = float(start.detach().item())

    def search(value: Callable[[float], float], slope: Callable[[float], float]) -> tuple[float, RootResults]:
        derivative = slope if x1 is None else None
        return _optimize().newton(
            value, first, fprime=derivative, x1=x1, tol=tol, maxiter=maxiter, rtol=rtol, full_output=True, disp=disp
        )

    return _scalar_root("optimize.newton", func, first, args, search, full_output, disp)


def root_scalar(
    f: Callable[..., Any], args: Any = (), method: str | None = None, bracket: Sequence[float] | None = None,
    fprime: Callable[..., Any] | bool | None = None, fprime2: Callable[..., Any] | bool | None = None,
    x0: ArrayLike | None = None, x1: ArrayLike | None = None, xtol: float | None = None, rtol: float | None = None,
    maxiter: int | None = None, options: dict[str, Any] | None = None,
) -> RootResults:  # fmt: skip
    """Find a root of a function of one number, as `scipy.optimize.root_scalar` does, with the exact derivative.

    Args:
        f: function `f(x, *args)`.
        args: further arguments of the function. A single value stands for a tuple of one.
        method: name of a method of SciPy, but not `"halley"`. The default depends on the other arguments.
        bracket: interval at whose ends `f` has different signs.
        fprime: accepted as in SciPy; has no effect, because the derivative is exact.
        fprime2: accepted as in SciPy; has no effect.
        x0: start.
        x1: second start of the secant method.
        xtol: absolute tolerance of the root.
        rtol: relative tolerance of the root.
        maxiter: largest number of steps.
        options: further settings of the method.

    Returns:
        SciPy's report. Its `root` is differentiable in `args` and in captured variables of `f`.

    >>> from ndgrad.scipy import optimize
    >>> optimize.root_scalar(lambda x: x**2 - 4.0, bracket=(0.0, 5.0)).root.round(6)
    array(2.)
    """
    settings = {
        "bracket": bracket, "x0": x0, "x1": x1, "xtol": xtol, "rtol": rtol, "maxiter": maxiter, "options": options,
    }  # fmt: skip
    if method == "halley":
        raise ValueError(
            "optimize.root_scalar: Halley's method needs second derivatives of one number. Use method='newton'. "
            "[nd-unsupported]"
        )

    def search(value: Callable[[float], float], slope: Callable[[float], float]) -> tuple[float, RootResults]:
        derivative = slope if method == "newton" or (method is None and bracket is None and x1 is None) else None
        found = _optimize().root_scalar(value, method=method, fprime=derivative, **settings)
        return found.root, found

    start = 0.5 * (float(bracket[0]) + float(bracket[1])) if bracket is not None else x0
    return _scalar_root("optimize.root_scalar", f, start, args, search, True, False)[1]


def fixed_point(
    func: Callable[..., Any], x0: PyTree, args: Any = (), xtol: float = 1e-8, maxiter: int = 500, method: str = "del2",
) -> PyTree:  # fmt: skip
    """Find x with func(x) = x, as `scipy.optimize.fixed_point` does. It is differentiable in `args` and in captured
    variables of `func`.

    Args:
        func: function `func(x, *args)`.
        x0: start: an array or a nested structure of arrays.
        args: further arguments of the function. A single value stands for a tuple of one.
        xtol: relative tolerance of the fixed point.
        maxiter: largest number of steps.
        method: `"del2"` for Steffensen's acceleration, or `"iteration"`.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import optimize
    >>> optimize.fixed_point(lambda x: np.cos(x), 1.0).round(6)
    array(0.739085)
    """
    start = as_arrays(x0)

    def residual(x: PyTree, *given: Any) -> PyTree:
        return tree_map(lambda new, old: new - old, func(x, *given), x)

    def solver(function: Callable[[NDArray[Any]], NDArray[Any]], start: NDArray[Any]) -> NDArray[Any]:
        return _optimize().fixed_point(lambda v: v + function(v), start, xtol=xtol, maxiter=maxiter, method=method)

    return find_root("optimize.fixed_point", residual, start, _tuple(args), solver, None, {}, None, "return")[0]


def __getattr__(name: str) -> Any:
    """Return SciPy's own names for objects without numbers (Bounds, constraints, result classes)."""
    if name in (
        "Bounds",
        "LinearConstraint",
        "NonlinearConstraint",
        "OptimizeResult",
        "OptimizeWarning",
        "RootResults",
    ):
        return getattr(_optimize(), name)
    raise AttributeError(f"module 'ndgrad.scipy.optimize' has no attribute {name!r}")


__dir__ = public_of(__name__)
__all__ = [
    "ConvergenceError", "ConvergenceWarning", "SingularError", "bisect", "brenth", "brentq", "curve_fit", "fixed_point",
    "fsolve", "least_squares", "minimize", "minimize_scalar", "newton", "ridder", "root", "root_scalar",
]  # fmt: skip
