"""grad, jacobian, hessian and their variants, with HIPS autograd's signatures and conventions.

Each is a few lines over vjp and jvp of ndgrad.func. Two conventions differ from torch's: the value is the first result
of `value_and_grad` and the last of `make_vjp`, and gradients of complex arguments are df/dx - i df/dy, so that
`holomorphic_grad` is the derivative.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad import func
from ndgrad._src.arrays.precision import result_dtype
from ndgrad._src.checkpoint import checkpoint as run_checkpointed
from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations.pytree import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from ndgrad._src.interpreters.levels import level_number
from ndgrad.compat.autograd.boxes import as_tensors, box, conjugate, is_box, plain
from ndgrad.compat.autograd.extend import watch_primitives
from ndgrad.numpy.coercion import as_array

Function = Callable[..., Any]
#: The number of an argument, or of several.
Argnum = int | Sequence[int]

__all__ = [
    "checkpoint", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian",
    "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "jacobian", "make_ggnvp", "make_hvp",
    "make_jvp", "make_jvp_reversemode", "make_vjp", "multigrad_dict", "tensor_jacobian_product", "value_and_grad",
    "vector_jacobian_product",
]  # fmt: skip


def _unary(fun: Function, argnum: Argnum, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Function, Any]:
    """Return `fun` as a function of the arguments in `argnum` (a number, or several), and their values."""
    if isinstance(argnum, int):
        number, x = argnum, args[argnum]
        return lambda v: fun(*args[:number], v, *args[number:][1:], **kwargs), x
    numbers = tuple(argnum)

    def call_with(values: Any) -> Any:
        given = list(args)
        for n, v in zip(numbers, values, strict=True):
            given[n] = v
        return fun(*given, **kwargs)

    return call_with, tuple(args[n] for n in numbers)


def _name_derivative(fun: Function, prefix: str, argnum: Argnum = 0) -> Callable[[Function], Function]:
    """Give a derivative the name and the docstring of its function."""
    of = getattr(fun, "__name__", "function")

    def name(made: Function) -> Function:
        made.__name__ = made.__qualname__ = f"{prefix}_of_{of}_wrt_argnum_{argnum}"
        made.__doc__ = f"    {prefix} of function {of} with respect to argument number {argnum}.\n\n{fun.__doc__ or ''}"
        return made

    return name


class _Pullback:
    """A function's value at a point, and its pullback of cotangents."""

    def __init__(self, fun: Function, x: Any, has_aux: bool = False) -> None:
        self.x = box(x)
        self.depends = False
        self.aux: Any = None

        def run(v: Any) -> Any:
            result = fun(v)
            if has_aux:
                result, self.aux = result
                self.aux = tree_map(lambda t: t.detach() if isinstance(t, Variable) else t, self.aux)
            result = as_tensors(result)
            self.depends = any(level_number(t) == thread.levels[-1].number for t in tree_leaves(result))
            return result

        with watch_primitives() as seen:
            self.value, self._pull = func.vjp(run, self.x)
        self.batches = not seen

    def __call__(self, g: Any) -> Any:
        if not self.depends:
            warnings.warn("Output seems independent of input.", stacklevel=3)
            return tree_map(lambda t: t * 0.0, self.x)
        given = tree_map(lambda v, t: _cotangent(v, t), g, self.value)
        return conjugate(self._pull(conjugate(given))[0])

    def ones(self) -> Any:
        return tree_map(lambda t: as_array(np.ones(t.shape, np_dtype(t))), self.value)


def _cotangent(g: Any, t: Any) -> Any:
    made = as_array(g)
    if made.shape != t.shape and math.prod(made.shape) == math.prod(t.shape):
        made = made.reshape(t.shape)
    return made if np_dtype(made) == np_dtype(t) else made.astype(result_dtype(np_dtype(made), np_dtype(t)))


def _check_scalar(value: Any) -> None:
    if not isinstance(value, Variable) or math.prod(value.shape) != 1 or np_dtype(value).kind == "c":
        raise TypeError(
            (
                "Grad only applies to real scalar-output functions. Try jacobian, elementwise_grad or "
                "holomorphic_grad. The function returned "
            )
            + (
                f"{np_dtype(value)} of shape {tuple(value.shape)}."
                if isinstance(value, Variable)
                else f"{type(value).__name__}."
            )
            + " [nd-not-scalar]"
        )


# ----- gradients ------------------------------------------------------------------------------------------------------


def make_vjp(fun: Function, argnum: Argnum = 0) -> Function:
    """Return a function that returns (vjp, value): `vjp(g)` is g times the Jacobian.

    Args:
        fun: function of arrays.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> import ndgrad.compat.autograd.numpy as np
    >>> from ndgrad.compat.autograd import make_vjp
    >>> vjp, value = make_vjp(np.square)(3.0)
    >>> float(value), float(vjp(1.0))
    (9.0, 6.0)
    """

    def maker(*args: Any, **kwargs: Any) -> Any:
        pull = _Pullback(*_unary(fun, argnum, args, kwargs))
        return lambda g: plain(pull(g)), plain(pull.value)

    return maker


def grad(fun: Function, argnum: Argnum = 0) -> Function:
    """Return the gradient function of a scalar function in argument number `argnum`, with the structure of that
    argument.

    Args:
        fun: function of arrays with one number as value.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> import ndgrad.compat.autograd.numpy as np
    >>> from ndgrad.compat.autograd import grad
    >>> grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
    array([1., 1.])
    >>> grad(grad(np.tanh))(0.5).round(6)
    np.float64(-0.726862)
    """
    both = value_and_grad(fun, argnum)

    @_name_derivative(fun, "grad", argnum)
    def gradfun(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return gradfun


def value_and_grad(fun: Function, argnum: Argnum = 0) -> Function:
    """Return a function that returns the value and the gradient, as scipy.optimize takes it with jac=True.

    Args:
        fun: function of arrays with one number as value.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> from ndgrad.compat.autograd import value_and_grad
    >>> [float(part) for part in value_and_grad(lambda x: x**3)(2.0)]
    [8.0, 12.0]
    """

    @_name_derivative(fun, "value_and_grad", argnum)
    def both(*args: Any, **kwargs: Any) -> Any:
        pull = _Pullback(*_unary(fun, argnum, args, kwargs))
        _check_scalar(pull.value)
        return plain(pull.value), plain(pull(pull.ones()))

    return both


def grad_and_aux(fun: Function, argnum: Argnum = 0) -> Function:
    """Return a function that returns the gradient and the auxiliary value, for a function that returns (value,
    auxiliary).

    Args:
        fun: function of arrays that returns (value, auxiliary), the value a number.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> from ndgrad.compat.autograd import grad_and_aux
    >>> slope, seen = grad_and_aux(lambda x: (x**2, "seen"))(3.0)
    >>> float(slope), seen
    (6.0, 'seen')
    """

    @_name_derivative(fun, "grad_and_aux", argnum)
    def both(*args: Any, **kwargs: Any) -> Any:
        pull = _Pullback(*_unary(fun, argnum, args, kwargs), has_aux=True)
        _check_scalar(pull.value)
        return plain(pull(pull.ones())), plain(pull.aux)

    return both


def elementwise_grad(fun: Function, argnum: Argnum = 0) -> Function:
    """Return a function for the sums of the columns of the Jacobian, in one pass: the derivative of an elementwise
    function.

    Args:
        fun: function of arrays.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> import ndgrad.compat.autograd.numpy as np
    >>> from ndgrad.compat.autograd import elementwise_grad
    >>> elementwise_grad(np.square)(np.array([1.0, 2.0]))
    array([2., 4.])
    """

    @_name_derivative(fun, "elementwise_grad", argnum)
    def gradfun(*args: Any, **kwargs: Any) -> Any:
        pull = _Pullback(*_unary(fun, argnum, args, kwargs))
        if not isinstance(pull.value, Variable) or np_dtype(pull.value).kind == "c":
            raise TypeError(
                "Elementwise_grad only applies to real-output functions. Try holomorphic_grad or jacobian. "
                "[nd-transform-result]"
            )
        return plain(pull(pull.ones()))

    return gradfun


def holomorphic_grad(fun: Function, argnum: Argnum = 0) -> Function:
    """Return the derivative of a holomorphic function.

    Args:
        fun: holomorphic function of complex numbers.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> from ndgrad.compat.autograd import holomorphic_grad
    >>> complex(holomorphic_grad(lambda z: z**2)(1.0 + 1.0j))
    (2+2j)
    """

    def maker(*args: Any, **kwargs: Any) -> Any:
        of_one, x = _unary(fun, argnum, args, kwargs)
        if not any(np_dtype(t).kind == "c" for t in tree_leaves(box(x))):
            warnings.warn("Input to holomorphic_grad is not complex", stacklevel=2)
        return grad(lambda v: np.real(of_one(v)))(x)

    return _name_derivative(fun, "holomorphic_grad", argnum)(maker)


def grad_named(fun: Function, argname: str) -> Function:
    """Return the gradient in an argument given by name.

    Args:
        fun: function of arrays with one number as value.
        argname: name of the argument to differentiate in.

    >>> from ndgrad.compat.autograd import grad_named
    >>> float(grad_named(lambda x, y: x * y, "y")(2.0, 3.0))
    2.0
    """
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


def multigrad_dict(fun: Function) -> Function:
    """Return the gradients in all arguments, as a dict by name.

    Args:
        fun: function of arrays with one number as value.

    >>> from ndgrad.compat.autograd import multigrad_dict
    >>> {name: float(g) for name, g in multigrad_dict(lambda x, y: x * y)(2.0, 3.0).items()}
    {'x': 3.0, 'y': 2.0}
    """
    signature = inspect.signature(fun)

    @_name_derivative(fun, "multigrad_dict")
    def gradfun(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def call_with_dict(given: dict[str, Any]) -> Any:
            call = signature.bind(*args, **kwargs)
            call.arguments = dict(given)
            return fun(*call.args, **call.kwargs)

        return grad(call_with_dict)(dict(bound.arguments))

    return gradfun


# ----- Jacobians and Hessians -----------------------------------------------------------------------------------------


def jacobian(fun: Function, argnum: Argnum = 0) -> Function:
    """Return the Jacobian, of shape `value.shape + argument.shape`; for an argument with structure,
    one Jacobian for each part.

    Args:
        fun: function of arrays.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> import ndgrad.compat.autograd.numpy as np
    >>> from ndgrad.compat.autograd import jacobian
    >>> jacobian(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """

    @_name_derivative(fun, "jacobian", argnum)
    def jacfun(*args: Any, **kwargs: Any) -> Any:
        pull = _Pullback(*_unary(fun, argnum, args, kwargs))
        value = pull.value
        if not isinstance(value, Variable):
            raise TypeError(
                f"jacobian applies to functions that return one array, and this one returned {type(value).__name__}. "
                "[nd-transform-result]"
            )
        count = math.prod(value.shape)
        basis = as_array(np.eye(count, dtype=np_dtype(value)).reshape(count, *value.shape))
        if not pull.depends or not pull.batches or count < 2:
            rows = [tree_flatten(pull(basis[k]))[0] for k in range(count)]
            leaves = [np.stack([row[n] for row in rows]) for n in range(len(rows[0]))] if rows else []
        else:
            leaves = list(func.vmap(lambda g: tuple(tree_flatten(pull(g))[0]))(basis))
        shaped = [t.reshape(*value.shape, *t.shape[1:]) for t in leaves]
        return plain(tree_unflatten(shaped, tree_structure(pull.x)))

    return jacfun


def hessian(fun: Function, argnum: Argnum = 0) -> Function:
    """Return the Hessian: the Jacobian of the Jacobian.

    Args:
        fun: function of arrays with one number as value.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> import ndgrad.compat.autograd.numpy as np
    >>> from ndgrad.compat.autograd import hessian
    >>> hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    return jacobian(jacobian(fun, argnum), argnum)


def _last(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    return args[:-1], args[-1]


def hessian_tensor_product(fun: Function, argnum: Argnum = 0) -> Function:
    """Return a function of (*args, tensor): the Hessian times the tensor.

    Args:
        fun: function of arrays with one number as value.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> from ndgrad.compat.autograd import hessian_tensor_product
    >>> float(hessian_tensor_product(lambda x: x**3)(2.0, 1.0))
    12.0
    """
    gradfun = grad(fun, argnum)

    def product(*args: Any, **kwargs: Any) -> Any:
        args, tensor = _last(args)
        return make_jvp(gradfun, argnum)(*args, **kwargs)(tensor)[1]

    return product


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Function, argnum: Argnum = 0) -> Function:
    """Return a function of (*args, tensor): the tensor times the Jacobian.

    Args:
        fun: function of arrays.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> from ndgrad.compat.autograd import tensor_jacobian_product
    >>> float(tensor_jacobian_product(lambda x: x**3)(2.0, 1.0))
    12.0
    """

    def product(*args: Any, **kwargs: Any) -> Any:
        args, tensor = _last(args)
        rank = np.ndim(tensor)

        def contract(*given: Any, **options: Any) -> Any:
            """Return the function times the tensor, contracted over the tensor's dimensions."""
            return np.tensordot(tensor, fun(*given, **options), rank)

        return jacobian(contract, argnum)(*args, **kwargs)

    return product


vector_jacobian_product = tensor_jacobian_product


def make_hvp(fun: Function, argnum: Argnum = 0) -> Function:
    """Return a function that returns (hvp, gradient): `hvp(v)` is the Hessian at that point times v.

    Args:
        fun: function of arrays with one number as value.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> from ndgrad.compat.autograd import make_hvp
    >>> hvp, gradient = make_hvp(lambda x: x**3)(2.0)
    >>> float(hvp(1.0)), float(gradient)
    (12.0, 12.0)
    """
    return make_vjp(grad(fun, argnum), argnum)


def make_jvp(fun: Function, argnum: Argnum = 0) -> Function:
    """Return a function that returns jvp: `jvp(v)` is the value and the derivative along v, by forward mode.

    Args:
        fun: function of arrays.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> from ndgrad.compat.autograd import make_jvp
    >>> [float(part) for part in make_jvp(lambda x: x**3)(2.0)(1.0)]
    [8.0, 12.0]
    """

    def maker(*args: Any, **kwargs: Any) -> Any:
        of_one, x = _unary(fun, argnum, args, kwargs)
        at = box(x)

        def jvp(v: Any) -> Any:
            tangent = tree_map(lambda d, t: _cotangent(d, t), v, at)
            value, derivative = func.jvp(lambda t: as_tensors(of_one(t)), (at,), (tangent,))
            return plain(value), plain(derivative)

        return jvp

    return maker


def make_jvp_reversemode(fun: Function, argnum: Argnum = 0) -> Function:
    """Same as `make_jvp`, by two reverse modes, and without the value.

    Args:
        fun: function of arrays.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> from ndgrad.compat.autograd import make_jvp_reversemode
    >>> float(make_jvp_reversemode(lambda x: x**3)(2.0)(1.0))
    12.0
    """

    def maker(*args: Any, **kwargs: Any) -> Any:
        vjp, value = make_vjp(fun, argnum)(*args, **kwargs)
        pushed, _ = make_vjp(vjp)(tree_map(lambda t: t * 0.0, value))
        return pushed

    return maker


def deriv(fun: Function, argnum: Argnum = 0) -> Function:
    """Return the derivative along ones, by forward mode: the derivative of a function of one number.

    Args:
        fun: function of arrays.
        argnum: number of the argument to differentiate in, or several in a list or tuple.

    >>> import ndgrad.compat.autograd.numpy as np
    >>> from ndgrad.compat.autograd import deriv
    >>> float(deriv(np.exp)(0.0))
    1.0
    """

    @_name_derivative(fun, "deriv", argnum)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        _, x = _unary(fun, argnum, args, kwargs)
        along = tree_map(lambda t: as_array(np.ones(t.shape, np_dtype(t))), box(x))
        return make_jvp(fun, argnum)(*args, **kwargs)(along)[1]

    return derivative


def _half_square(x: Any) -> Any:
    return 0.5 * np.sum(x**2, axis=-1)


def make_ggnvp(f: Function, g: Function = _half_square, f_argnum: Argnum = 0) -> Function:
    """Return a function that returns the generalised Gauss-Newton product of g(f(x)) at a point: J' H J
    v, with H the Hessian of g.

    Args:
        f: inner function.
        g: outer function, with one number as value. The default is half the sum of squares.
        f_argnum: number of the argument of `f` to differentiate in.

    >>> from ndgrad.compat.autograd import make_ggnvp
    >>> float(make_ggnvp(lambda x: 3.0 * x)(2.0)(1.0))
    9.0
    """

    def maker(*args: Any, **kwargs: Any) -> Any:
        pull, value = make_vjp(f, f_argnum)(*args, **kwargs)
        push = make_jvp(f, f_argnum)(*args, **kwargs)
        curve, _ = make_hvp(g)(value)
        return lambda v: pull(curve(push(v)[1]))

    return maker


# ----- checkpoints ----------------------------------------------------------------------------------------------------


def checkpoint(fun: Function) -> Function:
    """Return `fun` without saved values for the gradient, which are recomputed when needed.

    Args:
        fun: function to run again in backward.

    >>> import ndgrad.compat.autograd.numpy as np
    >>> from ndgrad.compat.autograd import checkpoint, grad
    >>> float(grad(checkpoint(np.sin))(0.0))
    1.0
    """
    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(is_box(leaf) for leaf in tree_leaves((args, kwargs))):
            return fun(*args, **kwargs)
        return run_checkpointed(fun, *args, use_reentrant=False, **kwargs)

    return call
