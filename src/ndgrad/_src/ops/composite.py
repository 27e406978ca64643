"""Composite ops: ops whose block gives a *body*, a formula in terms of other ops.

    silu = composite_elementwise("silu", lambda x, ops: x * ops.sigmoid(x), x=lambda t, x, ops: t * ops.silu_slope(x))

A body is written like a rule (ndgrad._src.ops.table). It names array arguments, settings and `ops`, and uses operators,
indexing and the vocabulary. Every backend runs it on values of its own:

    arrays               the forward function (NumPy and CuPy), unless the block gives a kernel
    values of a program  the decomposition of the op (_src.compiler.passes.decompose), and so its ONNX graph
    values of a kernel   native code and CUDA code of elementwise ops (_src.compiler.kernels.operations)
    the same, compiled   one kernel for eager calls on large arrays and on a GPU (_src.compiler.runtime.fused_ops)

So a formula is written once. `kernel` is a forward function of arrays that is faster than the body or more accurate. A
test compares both in every floating dtype.

Note [Bodies]
A body must not depend on values (no `if` on arrays), and not on `ops.raw`. Settings may be numbers known only when a
kernel runs, so a body may compare them only by `==` and `is`. In a kernel such a comparison is always False, and the
code for False must be right for every value. Constants are Python numbers, which do not widen a dtype. A condition on
elements is `ops.eq` or an operator such as `<`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.blockwise import blockwise
from ndgrad._src.arrays.device_kernels import cast_array
from ndgrad._src.arrays.native_kernels import with_kernel
from ndgrad._src.arrays.precision import has_half, widen
from ndgrad._src.arrays.scalar_operands import as_operands
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.table import Op, Traits, _Word, elementwise, op, parameter_names
from ndgrad._src.ops.vocabulary import body_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library


class Body:
    """The body of an op, as a function of a vocabulary, the array arguments and the settings."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[str],
        settings: Mapping[str, Any] | None,
        variadic: bool = False,
    ) -> None:
        self.name = name
        self.function = function
        self.defaults = dict(settings or {})
        self.variadic = variadic
        self._fixed = len(args) - variadic
        names = parameter_names(function)
        self.takes_ops = names[-1] == "ops"
        #: The settings that the body names, in order.
        self.settings = names[len(args) : len(names) - self.takes_ops]
        if names[: len(args)] != tuple(args) or not self.defaults.keys() >= set(self.settings):
            raise TypeError(
                f"op {name!r}: its body takes {', '.join(names)}, but a body takes the array arguments "
                f"({', '.join(args)}), then settings of the op, then ops [nd-op-block]"
            )

    def __call__(self, ops: Any, arguments: Sequence[Any], settings: Mapping[str, Any]) -> Any:
        """Run the body. A variadic body takes the arrays of its last argument as a tuple."""
        if self.variadic:
            arguments = (*arguments[: self._fixed], tuple(arguments[self._fixed :]))
        given = [settings[n] if n in settings else self.defaults[n] for n in self.settings] if self.settings else ()
        return self.function(*arguments, *given, ops) if self.takes_ops else self.function(*arguments, *given)

    def on_arrays(self, refuses_complex: bool = False, divides_by_zero: bool = False) -> Callable[..., Any]:
        """Return the body as a forward function of arrays. With `divides_by_zero`, NumPy does not warn of that."""
        function = self.function
        has_numbers = self._fixed > 1  # the first argument is an array
        if not (refuses_complex or divides_by_zero or self.settings or has_numbers or self.variadic) and self.takes_ops:
            return lambda np, x: function(x, body_ops(np))

        def forward(np: Library, *arrays: Any, **settings: Any) -> Any:
            if refuses_complex:
                refuse_complex(self.name, *arrays)
            if has_numbers:
                arrays = as_operands(np, *arrays)
            if not divides_by_zero:
                return self(body_ops(np), arrays, settings)
            with numpy.errstate(divide="ignore"):
                return self(body_ops(np), arrays, settings)

        return forward


def composite(
    name: str,
    args: str,
    body: Callable[..., Any],
    *,
    vjp: Mapping[str, Callable[..., Any]] | Callable[..., Any] | _Word,
    jvp: str | Mapping[str, Callable[..., Any]] | Callable[..., Any] | _Word | None = None,
    batch: str | Callable[..., Any] | _Word,
    settings: Mapping[str, Any] | None = None,
    kernel: Callable[..., Any] | None = None,
    refuses_complex: bool = False,
    fused: bool = False,
    small: bool = False,
    **traits: Unpack[Traits],
) -> Op:
    """Define an op by its body. `kernel` is a forward function of arrays to use instead of it.

    With `fused`, large arrays and arrays on a device are computed by one kernel made from the body, if it can be made;
    with `small`, small arrays too.
    """
    made = Body(name, body, args.split(), settings, traits.get("variadic", False))
    forward = made.on_arrays(refuses_complex) if kernel is None else kernel
    if fused:
        widens = traits.get("halves", False) and not traits.get("halves_on_device")
        forward = _prefer_fused(made, forward, widens, small)
    defined = op(name, args, forward, vjp=vjp, jvp=jvp, batch=batch, settings=settings, **traits)
    defined.body = made
    return defined


def _prefer_fused(
    body: Body, otherwise: Callable[..., Any], widens: bool | None, small: bool
) -> Callable[..., Any]:
    """Return a forward function that runs the body as one kernel if possible.

    With `widens`, halves are computed in single precision, and only the first result is rounded.
    """
    takes_library = parameter_names(otherwise)[:1] == ("np",)

    @functools.wraps(otherwise)
    def forward(np: Library, *arrays: Any, **settings: Any) -> Any:
        if small or native_kernels.is_any_large(arrays):
            is_narrow = widens and has_half(arrays)
            out = native_kernels.run_fused(body, [*map(widen, arrays)] if is_narrow else arrays, settings, small)
            if out is not None:
                return _round_first(out, arrays[0].dtype) if is_narrow else out
        return otherwise(np, *arrays, **settings) if takes_library else otherwise(*arrays, **settings)

    made: Any = forward
    made.__kwdefaults__ = otherwise.__kwdefaults__
    return forward


def _broadcast_in_kernel(body: Body, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward function that runs an elementwise body on large arrays of several shapes as one kernel."""

    @functools.wraps(otherwise)
    def forward(np: Library, x: Any, *others: Any, **settings: Any) -> Any:
        if x.__class__ is numpy.ndarray and x.size >= native_kernels.SMALLEST:
            arrays = [numpy.asarray(y, x.dtype) if y.__class__ in (float, int) else y for y in others]
            out = native_kernels.run_fused(body, (x, *arrays), settings)
            if out is not None:
                return out
        return otherwise(np, x, *others, **settings)

    return forward


def _round_first(out: Any, dtype: Any) -> Any:
    first, *rest = out if isinstance(out, tuple) else (out,)
    rounded = cast_array(first, dtype)
    return (rounded, *rest) if rest else rounded


def fused_rule(
    arrays: str, small: bool = False, only_on_device: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that runs a rule as one kernel on large arrays and on arrays on a device.

    `arrays` names the arguments that are arrays. The last argument of a rule is `ops`.
    With `small`, small arrays use the kernel, too. With `only_on_device`, NumPy's arrays never do.
    """

    def decorate(rule: Callable[..., Any]) -> Callable[..., Any]:
        names = parameter_names(rule)
        places = [names.index(name) for name in arrays.split()]
        rest = [(i, name) for i, name in enumerate(names[:-1]) if i not in places]

        def on_terms(ops: Any, given: Sequence[Any], settings: Mapping[str, Any]) -> Any:
            values: list[Any] = [None] * len(names)
            values[-1] = ops
            for i, value in zip(places, given, strict=True):
                values[i] = value
            for i, name in rest:
                values[i] = settings[name]
            return rule(*values)

        @functools.wraps(rule)
        def run(*values: Any) -> Any:
            if not values[-1].raw or (only_on_device and values[-1].np is numpy):
                return rule(*values)
            given = [values[i] for i in places]
            has_numbers = any(a.__class__ in (float, int) for a in given)
            if not has_numbers and (small or native_kernels.is_any_large(given)):
                out = native_kernels.run_fused(on_terms, given, {name: values[i] for i, name in rest}, small)
                if out is not None:
                    return out
            return rule(*[widen(value) if i in places else value for i, value in enumerate(values)])

        return run

    return decorate


def composite_elementwise(
    name: str,
    body: Callable[..., Any],
    *,
    args: str = "x",
    settings: Mapping[str, Any] | None = None,
    vjp: Mapping[str, Callable[..., Any]] | None = None,
    jvp: Mapping[str, Callable[..., Any]] | None = None,
    kernel: Callable[..., Any] | None = None,
    refuses_complex: bool = False,
    divides_by_zero: bool = False,
    inplace: bool = True,
    **partials_and_facts: Any,
) -> Op:
    """Define an elementwise op by its body and its partial derivatives (see `elementwise`).

    Large arrays are computed by one native kernel made from the body, without temporaries.
    """
    made = Body(name, body, args.split(), settings)
    if kernel is None:
        plain = made.on_arrays(refuses_complex, divides_by_zero)
        is_unary = len(args.split()) == 1
        kernel = blockwise(name)(plain) if is_unary else with_kernel(name)(_broadcast_in_kernel(made, plain))
    defined = elementwise(
        name, kernel, args=args, settings=settings, vjp=vjp, jvp=jvp, inplace=inplace, **partials_and_facts
    )
    defined.body = made
    return defined

