"""The checks that gradcheck runs on one function at one point, and their errors.

Complex numbers are checked as pairs of real ones: for each part of a complex output the gradient of reverse
mode, for each part of a complex input the tangent of forward mode. So no convention can hide an error, and
functions need not be holomorphic.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import Variable, np_dtype, requires_grad, shape_of
from ndgrad._src.custom_functions.function import FunctionNode
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.transforms import vmap
from ndgrad.autograd.gradcheck.analytical import (
    as_tuple,
    differentiable,
    forward_jacobian,
    largest_difference,
    like,
    pull,
    push,
    reverse_jacobian,
    zero_tangents,
)
from ndgrad.autograd.gradcheck.numerical import (
    Array,
    Slopes,
    host_array,
    number_of_elements,
    numerical_directional,
    numerical_jacobian,
    values_of,
)
from ndgrad.autograd.gradcheck.progress import Progress

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

#: Number of cotangents or tangents in a check of batching.
_BATCH = 4


class GradcheckError(RuntimeError):
    """A derivative does not agree with finite differences.

    >>> import ndgrad
    >>> from ndgrad.autograd.gradcheck import GradcheckError, gradcheck
    >>> x = ndgrad.tensor([1.0], requires_grad=True)
    >>> try:
    ...     gradcheck(lambda x: x * x.detach(), x)
    ... except GradcheckError:
    ...     print("wrong")
    wrong
    """

    __module__ = "ndgrad.autograd.gradcheck"  # the module under which users import it


def random_like(random: np.random.Generator, t: Tensor) -> Array:
    values = random.standard_normal(tuple(t.shape))
    return values + 1j * random.standard_normal(tuple(t.shape)) if np_dtype(t).kind == "c" else np.asarray(values)


def name_of(func: Callable[..., Any]) -> str:
    func = inspect.unwrap(func)
    owner = getattr(func, "__self__", None)
    if inspect.isclass(owner):  # Function.apply
        return f"{owner.__name__}.{getattr(func, '__name__', '')}"
    return str(getattr(func, "__qualname__", None) or getattr(func, "__name__", None) or type(func).__name__)


class Check:
    """A function at one point, and the checks of its derivatives."""

    def __init__(self, func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.positions = [i for i, t in enumerate(inputs) if isinstance(t, Variable) and requires_grad(t)]
        self.names = _argument_names(func, len(inputs))
        self._check_inputs()
        self.wanted = [inputs[i] for i in self.positions]
        self.outputs = as_tuple(func(*inputs))
        for number, o in enumerate(self.outputs):
            if not isinstance(o, Variable):
                raise TypeError(
                    f"gradcheck: output {number} of {name_of(func)} is {type(o).__name__}. "
                    "Let the function return tensors alone. [nd-transform-result]"
                )
        self.differentiable = differentiable(self.outputs)
        self.random = np.random.default_rng(0)

    def _check_inputs(self) -> None:
        if not self.positions:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of them have "
                "requires_grad=True. Call requires_grad_() on the inputs to check. [nd-no-graph]"
            )
        for i in self.positions:
            t = self.inputs[i]
            if np_dtype(t) not in (np.float64, np.complex128):
                warnings.warn(
                    (
                        f"gradcheck: Input #{i} requires gradient and is not a double precision floating point or "
                        f"complex ({self.names[i]} is {np_dtype(t)}). Finite differences will likely be too rough. "
                        "Convert it to double first."
                    ),
                    UserWarning,
                    stacklevel=4,
                )
            strides = getattr(t._array, "strides", ())
            if any(s == 0 and n > 1 for s, n in zip(strides, t.shape, strict=True)) and math.prod(t.shape):
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0 ({self.names[i]}, of shape {tuple(t.shape)}), so "
                    "several of its elements are one place in memory and cannot be moved one by one. Call "
                    ".contiguous() on it before passing it to gradcheck. [nd-shared-memory]"
                )

    def call(self) -> list[Array]:
        """Return the values of all outputs for the present inputs, which finite differences move."""
        outputs = as_tuple(self.func(*self.inputs))
        self._check_metadata(outputs)
        return values_of(outputs)

    def _check_metadata(self, outputs: tuple[Any, ...]) -> None:
        """Raise if moved inputs give outputs of other shapes or dtypes: they have no difference quotient."""
        shapes, dtypes = ([read(o) for o in outputs] for read in (shape_of, np_dtype))
        for kind, got, want in (
            ("shape", shapes, [shape_of(o) for o in self.outputs]),
            ("dtype", dtypes, [np_dtype(o) for o in self.outputs]),
        ):
            if got != want:
                raise AssertionError(
                    f"gradcheck: Expected `func` to return outputs with the same {kind} when inputs are perturbed "
                    f"by {self.eps:g}, but {name_of(self.func)} returned {kind}s {got} instead of {want}. "
                    "Move the inputs away from the values at which they change. [nd-gradcheck]"
                )

    def nothing_to_differentiate(self) -> None:
        """Check a function whose outputs do not require grad: it must be constant, or a derivative was lost."""
        for i in self.positions:
            slopes = numerical_jacobian(self.call, self.inputs[i], self.names[i], self.eps)
            for number, s in enumerate(slopes):
                matrices = [s.real] if s.imaginary is None else [s.real, s.imaginary]
                worst = max((float(np.abs(m).max()) for m in matrices if m.size), default=0.0)
                if not worst <= self.atol:
                    raise GradcheckError(
                        "gradcheck: Numerical gradient for function expected to be zero: no output "
                        f"of {name_of(self.func)} requires grad, yet output {number} changes with {self.names[i]} "
                        f"(slope {worst:.6g}). Look for a detach(), a no_grad() or an op without a derivative. "
                        "[nd-gradcheck]"
                    )

    # ----- element by element -----

    def compare_elements(self, backward: bool, forward: bool, nondet_tol: float) -> None:
        runs = sum(number_of_elements(t) for t in self.wanted) * (1 + forward)
        runs += sum(number_of_elements(self.outputs[o]) for o in self.differentiable) * backward
        with Progress(f"gradcheck {name_of(self.func)}", runs) as progress:
            slopes = [
                numerical_jacobian(self.call, self.inputs[i], self.names[i], self.eps, progress.step)
                for i in self.positions
            ]
            if backward:
                self._compare_reverse(slopes, nondet_tol, progress)
            if forward:
                self._compare_forward(slopes, progress)

    def _compare_reverse(self, slopes: list[list[Slopes]], nondet_tol: float, progress: Progress) -> None:
        for number in self.differentiable:
            output = self.outputs[number]
            is_complex = np_dtype(output).kind == "c"
            for imaginary in (True, False) if is_complex else (False,):
                found, spread = reverse_jacobian(output, self.wanted, imaginary, progress.step)
                part = _part(imaginary, "outputs") if is_complex else ""
                for i, matrix, slope in zip(self.positions, found, slopes, strict=True):
                    self.agree(matrix, slope[number].of_output_part(imaginary), number, i, f"{part}Jacobian mismatch")
                self._repeatable(spread, nondet_tol, number)

    def _compare_forward(self, slopes: list[list[Slopes]], progress: Progress) -> None:
        for i, slope in zip(self.positions, slopes, strict=True):
            is_complex = np_dtype(self.inputs[i]).kind == "c"
            for imaginary in (True, False) if is_complex else (False,):
                found = forward_jacobian(self.func, self.inputs, i, self.positions, imaginary, progress.step)
                part = _part(imaginary, "inputs") if is_complex else ""
                for number in self.differentiable if found else ():
                    numerical = slope[number].imaginary if imaginary else slope[number].real
                    assert numerical is not None
                    matrix = found[number]
                    self.agree(
                        np.zeros_like(numerical) if matrix is None else matrix,
                        numerical,
                        number,
                        i,
                        f"{part}Jacobian computed with forward mode mismatch",
                    )

    def _repeatable(self, spread: float, nondet_tol: float, number: int) -> None:
        if not spread <= nondet_tol:
            raise GradcheckError(
                f"gradcheck: Backward is not reentrant: the same backward of {self.describe_output(number)}, "
                f"run twice, gave gradients that differ by {spread:.6g}, and nondet_tol is {nondet_tol:.6g}. "
                "Derivative and difference quotient agree. If the differences are expected, pass a larger nondet_tol. "
                "[nd-gradcheck]"
            )

    # ----- one direction -----

    def compare_directions(self, backward: bool, forward: bool, nondet_tol: float) -> None:
        """Compare all elements at once along one random direction; a failure is explained element by element."""
        directions = [self._direction(t) for t in self.wanted]
        weights = {o: self._direction(self.outputs[o]) * 2 for o in self.differentiable}
        slopes = [
            numerical_directional(self.call, self.inputs[i], self.names[i], u, self.eps)
            for i, u in zip(self.positions, directions, strict=True)
        ]
        got: Any
        for number in self.differentiable if backward else ():
            v = weights[number]
            once, again = (pull([self.outputs[number]], self.wanted, [like(self.outputs[number], v)]) for _ in range(2))
            for i, u, slope, g, h in zip(self.positions, directions, slopes, once, again, strict=True):
                slack = float(np.sum(np.abs(u)) * np.sum(np.abs(v)))
                got = 0.0 if g is None else _inner(host_array(g), u)
                self._agree_along(got, _inner(v, slope[number]), slack, number, i, "reverse mode")
                if g is not None:
                    self._repeatable(largest_difference(host_array(g), host_array(h)), nondet_tol, number)
        for i, u, slope in zip(self.positions, directions, slopes, strict=True) if forward else ():
            _, tangents = push(self.func, self.inputs, {**self._zeros(i), i: like(self.inputs[i], u)})
            for number in self.differentiable:
                got = np.zeros_like(slope[number]) if tangents[number] is None else host_array(tangents[number])
                self._agree_along(got, slope[number], float(np.sum(np.abs(u))), number, i, "forward mode")

    def _direction(self, t: Tensor) -> Array:
        """Return a random direction of positive numbers, which do not cancel, of length one."""
        values: Any = self.random.uniform(0.1, 1.0, tuple(t.shape))
        if np_dtype(t).kind == "c":
            values = values + 1j * self.random.uniform(0.1, 1.0, tuple(t.shape))
        return np.asarray(values / max(float(np.sqrt(np.sum(np.abs(values) ** 2))), 1e-300))

    def _agree_along(
        self, got: Array | complex, want: Array | complex, slack: float, number: int, i: int, mode: str
    ) -> None:
        if np.all(np.abs(got - want) <= self.atol * slack + self.rtol * np.abs(want)):
            return
        forward = mode == "forward mode"
        try:
            self.compare_elements(not forward, forward, math.inf)
        except GradcheckError as error:
            raise GradcheckError(
                f"gradcheck in fast mode failed along a random direction; element by element:\n{error}"
            ) from None
        raise GradcheckError(
            f"gradcheck in fast mode: {mode} gives {got} for {self.describe_output(number)} along a random "
            f"direction of {self.describe_input(i)}, and finite differences {want}; element by element they agree. "
            "Trust fast_mode=False, or loosen atol. [nd-gradcheck]"
        )

    # ----- what gradients must be besides right -----

    def zero_gives_zero(self) -> None:
        """Check that a zero cotangent gives zero gradients: they are linear in it."""
        outputs = [self.outputs[o] for o in self.differentiable]
        grads = pull(outputs, self.wanted, [like(o, np.zeros(tuple(o.shape))) for o in outputs])
        for i, g in zip(self.positions, grads, strict=True):
            if g is not None and not _no_more_than_zero(host_array(g)):
                raise GradcheckError(
                    "gradcheck: backward not multiplied by grad_output: "
                    f"zero gradients of the outputs gave a gradient of {self.describe_input(i)} that is not zero. "
                    f"Multiply the formula of {self.ops()} by the gradient it is given. [nd-gradcheck]"
                )

    def dtypes(self) -> None:
        outputs = [self.outputs[o] for o in self.differentiable]
        grads = pull(outputs, self.wanted, [like(o, np.ones(tuple(o.shape))) for o in outputs])
        for i, t, g in zip(self.positions, self.wanted, grads, strict=True):
            if g is not None and (np_dtype(g) != np_dtype(t) or tuple(g.shape) != tuple(t.shape)):
                raise GradcheckError(
                    f"gradcheck: the gradient of {self.describe_input(i)} has shape {tuple(g.shape)} and dtype "
                    f"{np_dtype(g)}. It must have the input's, {np_dtype(t)}. [nd-gradcheck]"
                )

    def missing_gradients(self) -> None:
        """Check that a backward accepts None as the gradient of outputs: of all outputs, and of all but one."""
        for number in self.differentiable:
            node = self.outputs[number]._node
            if isinstance(node, FunctionNode) and not node.materialize_grads:
                found = self._tolerates_missing(functools.partial(node._run, [None] * node.outputs))
                if any(g is not None and not _no_more_than_zero(host_array(g)) for g in found):
                    raise GradcheckError(
                        f"gradcheck: {node.name()} returned a gradient that is not zero though none of its outputs "
                        "had one. Expected all input grads to be undefined or zero when all output grads are: "
                        "return None or zeros where a gradient is None. [nd-gradcheck]"
                    )
        if len(self.differentiable) < 3:
            return  # each output alone has been differentiated already
        for left_out in self.differentiable:
            rest = [self.outputs[o] for o in self.differentiable if o != left_out]
            ones = [like(o, np.ones(tuple(o.shape))) for o in rest]
            self._tolerates_missing(functools.partial(pull, rest, self.wanted, ones))

    def _tolerates_missing(self, run: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        try:
            return run()
        except RuntimeError as error:
            raise GradcheckError(
                f"gradcheck: the backward of {self.ops()} raised when some outputs had no gradient: "
                f"{error}. Expected backward function to handle undefined output grads: check each for None, "
                "or leave set_materialize_grads(True) in force. [nd-gradcheck]"
            ) from error

    def missing_tangents(self) -> None:
        """Check that in forward mode a missing tangent is equivalent to a zero one."""
        if len(self.positions) < 2:
            return
        for i in self.positions:
            tangent = like(self.inputs[i], random_like(self.random, self.inputs[i]))
            _, without = push(self.func, self.inputs, {i: tangent})
            _, filled = push(self.func, self.inputs, {i: tangent, **self._zeros(i)})
            for number in self.differentiable:
                a, b = (0.0 if t is None else host_array(t) for t in (without[number], filled[number]))
                if not np.allclose(a, b, self.rtol, self.atol, equal_nan=True):
                    raise GradcheckError(
                        f"gradcheck: forward mode gives {self.describe_output(number)} another tangent when "
                        f"inputs other than {self.describe_input(i)} have a zero tangent instead of none. "
                        "Treat a tangent of None as zeros. [nd-gradcheck]"
                    )

    def _zeros(self, i: int) -> dict[int, Tensor]:
        """Return zero tangents of all differentiable inputs except input `i`."""
        return zero_tangents(self.inputs, [k for k in self.positions if k != i])

    # ----- batches -----

    def batched_backward(self) -> None:
        """Check that vmap over backward equals a loop over it."""
        for number in self.differentiable:
            output = self.outputs[number]
            cotangents = [like(output, random_like(self.random, output)) for _ in range(_BATCH)]
            rows = [pull([output], self.wanted, [c]) for c in cotangents]
            used = [k for k, g in enumerate(rows[0]) if g is not None]
            if not used:
                continue
            reached = [self.wanted[k] for k in used]
            try:
                got = vmap(lambda c, output=output, reached=reached: pull([output], reached, [c]))(_stack(cotangents))
            except RuntimeError as error:
                raise GradcheckError(
                    "gradcheck or gradgradcheck failed while testing batched gradient computation of "
                    f"{self.describe_output(number)}, got: {error} "
                    "Write the backward with ops that vmap knows, or pass check_batched_grad=False. [nd-gradcheck]"
                ) from error
            for k, g in zip(used, got, strict=True):
                want = np.stack([host_array(row[k]) for row in rows])
                self._same_batch(host_array(g), want, number, self.positions[k], "the batched gradient")

    def batched_forward(self) -> None:
        """Check that vmap over forward mode equals a loop over it."""
        for i in self.positions:
            tangents = [like(self.inputs[i], random_like(self.random, self.inputs[i])) for _ in range(_BATCH)]
            rows = [push(self.func, self.inputs, {i: t})[1] for t in tangents]
            used = [o for o in self.differentiable if rows[0][o] is not None]

            def one(t: Tensor, i: int = i, used: Sequence[int] = tuple(used)) -> tuple[Tensor, ...]:
                found = push(self.func, self.inputs, {i: t})[1]
                return tuple(found[o] for o in used)

            if not used:
                continue
            try:
                got = vmap(one)(_stack(tangents))
            except RuntimeError as error:
                raise GradcheckError(
                    "gradcheck failed while testing batched forward gradient computation along "
                    f"{self.describe_input(i)}, got: {error} "
                    "Write the jvp with ops that vmap knows, or pass check_batched_forward_grad=False. [nd-gradcheck]"
                ) from error
            for o, g in zip(used, got, strict=True):
                self._same_batch(
                    host_array(g), np.stack([host_array(row[o]) for row in rows]), o, i, "the batched tangent"
                )

    def _same_batch(self, got: Array, want: Array, number: int, i: int, what: str) -> None:
        if got.shape != want.shape or not np.allclose(got, want, self.rtol, self.atol, equal_nan=True):
            raise GradcheckError(
                f"gradcheck: {what} of {self.describe_output(number)} with respect to {self.describe_input(i)} "
                "is not what a loop gives:\n"
                "batched:\n"
                f"{got}\n"
                "loop:\n"
                f"{want} [nd-gradcheck]"
            )

    # ----- telling what is wrong -----

    def agree(self, analytical: Array, numerical: Array, number: int, i: int, mode: str) -> None:
        """Compare two Jacobians of shape (input elements, output elements)."""
        gap = np.abs(analytical - numerical)
        allowed = self.atol + self.rtol * np.abs(numerical)
        with np.errstate(invalid="ignore"):
            wrong = ~(gap <= allowed)
        if not wrong.any():
            return
        row, column = np.unravel_index(int(np.argmax(np.where(wrong, np.nan_to_num(gap, nan=np.inf), -1.0))), gap.shape)
        at_input = tuple(int(k) for k in np.unravel_index(int(row), tuple(self.inputs[i].shape)))
        at_output = tuple(int(k) for k in np.unravel_index(int(column), tuple(self.outputs[number].shape)))
        raise GradcheckError(
            f"gradcheck: {mode} for output {number} with respect to input {i}: "
            f"{self.describe_output(number)}, {self.describe_input(i)}.\n"
            f"At output index {at_output} and input index {at_input}: analytical {analytical[row, column]:.8g}, "
            f"numerical {numerical[row, column]:.8g}, difference {gap[row, column]:.3g}, "
            f"allowed {allowed[row, column]:.3g} ({int(wrong.sum())} of {wrong.size} elements differ; this one most).\n"
            "numerical:\n"
            f"{numerical}\n"
            "analytical:\n"
            f"{analytical}\n"
            f"Check the derivative of {self.ops(number)}, or, if the function has a kink or a steep place "
            "here, move the input away. [nd-gradcheck]"
        )

    def describe_output(self, number: int) -> str:
        o = self.outputs[number]
        return f"output {number} of {name_of(self.func)} (shape {tuple(o.shape)}, made by {self.ops(number)})"

    def describe_input(self, i: int) -> str:
        t = self.inputs[i]
        return f"{self.names[i]} (shape {tuple(t.shape)}, {np_dtype(t)})"

    def ops(self, number: int | None = None) -> str:
        numbers = self.differentiable if number is None else [number]
        nodes = [self.outputs[o].grad_fn for o in numbers]
        return ", ".join(dict.fromkeys("no op" if n is None else str(n.name()) for n in nodes))


def _argument_names(func: Callable[..., Any], count: int) -> list[str]:
    """Return names of the inputs for messages: by number, and by the function's own parameter if it has a name."""
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [f"input {i} ({named[i]})" if i < len(named) else f"input {i}" for i in range(count)]


def _part(imaginary: bool, what: str) -> str:
    return f"While considering the {'imaginary' if imaginary else 'real'} part of complex {what} only, "


def _inner(a: Array, b: Array) -> float:
    return float(np.sum(np.real(np.conj(a) * b)))


def _no_more_than_zero(a: Array) -> bool:
    """True if all are zero, or (0 times infinity at a singular point) not a number."""
    return not bool(np.any(np.isfinite(a) & (a != 0)))


def _stack(tensors: Sequence[Any]) -> Tensor:
    return tensor_ops.stack(*tensors, dim=0)
