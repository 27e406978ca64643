"""Observation of every op below autograd, for profilers, dispatch modes and the compiler's recorder.

An observer is called instead of an op's forward function, with a function that runs it. It also sees in-place writes,
as separate ops (`mul_`). While an observer is active, backward runs its rules on tensors, so that the ops of the
backward pass are observed as well.

A dispatch mode is an observer that receives tensors and may return others. It runs below autograd: its ops are not
recorded, and the node of the observed op is made from its result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias

from ndgrad._src.arrays.library import is_raw_array, library_of
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import Block, Modes, process, restore, scope, thread
from ndgrad._src.core.record import run_forward
from ndgrad._src.core.subclass import dispatch_types, has_dispatch, present_call, registered_rule, run_dispatch
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.foundations import registry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Library, Payload


#: An op as observers see it: also the write of an op into a tensor, and a function that makes a tensor.
OpLike: TypeAlias = "Op | InPlaceForm | Factory"


class Observer(Protocol):
    def __call__(self, op: OpLike, arrays: list[Any], settings: dict[str, Any], run: Callable[[], Any]) -> Any: ...


class Tracer(Protocol):
    """An observer that needs the tensors of a call as well as their arrays."""

    wants_tensors: bool

    def __call__(
        self,
        op: OpLike,
        tensors: Sequence[Any],
        arrays: Sequence[Any],
        settings: dict[str, Any],
        run: Callable[[], Any],
    ) -> Any: ...


@contextmanager
def observing(observer: Observer | Tracer) -> Iterator[None]:
    """Run a block in which `observer` sees the ops of this thread. The innermost observer sees them first."""
    with _Observing(observer):
        yield


class _Observing(Block):
    def __init__(self, observer: Observer | Tracer) -> None:
        self.observer = observer

    def change(self, modes: Modes) -> None:
        modes.entered += 1
        modes.observers = (*modes.observers, self.observer)


def observed_forward(
    op: Op, library: Library, args: tuple[Any, ...], arrays: list[Any], settings: dict[str, Any]
) -> Payload:
    """Run an op's forward function under all observers."""
    if process.dispatching and dispatch_types(args):
        return _under_observers(
            op,
            args,
            arrays,
            settings,
            lambda: check_answer(op, "the dispatch of a tensor subclass", run_dispatch(op, args, settings)),
        )

    return _under_observers(op, args, arrays, settings, lambda: run_forward(op, library, args, arrays, settings))


def observed_write(
    op: Op, target: Variable, args: tuple[Any, ...], settings: dict[str, Any], perform: Callable[[], None]
) -> None:
    """Perform a write under all observers, which see the in-place form of the op."""
    arguments = (target, *args)

    def run() -> Payload:
        if process.dispatching and dispatch_types(arguments):
            run_dispatch(in_place_form(op), arguments, settings)
        else:
            perform()
        return target._array

    arrays = [a._array if isinstance(a, Variable) else a for a in arguments]
    _under_observers(in_place_form(op), arguments, arrays, settings, run)


def _under_observers(
    op: OpLike, args: tuple[Any, ...], arrays: list[Any], settings: dict[str, Any], bottom: Callable[[], Any]
) -> Payload:
    stack = thread.observers
    return _run_from(len(stack) - 1, stack, op, args, arrays, settings, bottom) if stack else bottom()


def _run_from(
    position: int,
    stack: tuple[Any, ...],
    op: OpLike,
    args: tuple[Any, ...],
    arrays: list[Any],
    settings: dict[str, Any],
    bottom: Callable[[], Any],
) -> Payload:
    """Return the result of one observer, or of the observers outside it.

    This is not a recursive closure, which would be a reference cycle that holds the arrays.
    """
    if position < 0:
        return bottom()
    observer = stack[position]
    outside = scope()
    try:
        restore(outside.with_observers(stack[:position]))
        if isinstance(observer, DispatchMode):
            return check_answer(op, type(observer).__name__, observer._handle(op, args, settings))
        if getattr(observer, "wants_tensors", False):
            return observer(
                op,
                args,
                arrays,
                settings,
                lambda: _arrays(_run_from(position - 1, stack, op, args, arrays, settings, bottom)),
            )
        return observer(
            op, arrays, settings, lambda: _arrays(_run_from(position - 1, stack, op, args, arrays, settings, bottom))
        )
    finally:
        restore(outside)
        del outside


def _arrays(out: Payload) -> Payload:
    if isinstance(out, (tuple, list)):
        return tuple(_arrays(o) for o in out)
    return out._array if isinstance(out, Variable) and not has_dispatch(type(out)) else out


# ----- dispatch modes -------------------------------------------------------------------------------------------------


class DispatchMode(Block):
    """A context manager that sees, and may replace, every op below autograd.

    Override `__ndgrad_dispatch__(func, types, args, kwargs)` (or torch's `__torch_dispatch__`). `func` is the op: call
    it to continue with the outer modes. `args` are the tensors of the call, `kwargs` its settings.

    >>> import ndgrad
    >>> from ndgrad.utils._python_dispatch import DispatchMode
    >>> class Log(DispatchMode):
    ...     def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> with Log():
    ...     y = (x * x).sin()
    mul
    sin
    """

    def __init__(self, *args: Any) -> None:
        pass

    def __ndgrad_dispatch__(
        self, func: Any, types: tuple[type[Any], ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.__torch_dispatch__(func, types, args, kwargs)

    def __torch_dispatch__(
        self, func: Any, types: tuple[type[Any], ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} overrides neither __ndgrad_dispatch__ nor __torch_dispatch__, "
            f"so it cannot handle {func!r}. [nd-dispatch]"
        )

    names_itself = True

    def change(self, modes: Modes) -> None:
        modes.entered += 1
        modes.observers = (*modes.observers, self)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a mode to enter: torch's old spelling of the constructor."""
        return cls(*args, **kwargs)

    def _handle(self, op: OpLike, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        args = tuple(wrap(registry.Tensor, a) if is_raw_array(a) else a for a in args)
        outside = scope()
        try:
            restore(outside.recording(False))
            func, args, settings = present_call(op, args, settings)
            rule = registered_rule(func, type(self))
            if rule is not None:
                return rule(self, func, dispatch_types(args), args, settings)
            return self.__ndgrad_dispatch__(func, dispatch_types(args), args, settings)
        finally:
            restore(outside)
            del outside


def check_answer(op: OpLike, who: str, answer: Any) -> Payload:
    """Check the result of a dispatch mode or class: tensors, whose memory the results of the op then share."""
    if op.outputs == 1:
        return _payload(op, who, answer)
    if not isinstance(answer, (tuple, list)):
        raise TypeError(
            f"{who} answered {type(answer).__name__} to {op.name}, which has several results. "
            "Return a tuple of tensors. [nd-dispatch]"
        )
    return tuple(_payload(op, who, a) for a in answer)


def _payload(op: OpLike, who: str, answer: Any) -> Payload:
    if isinstance(answer, Variable):
        return answer
    if answer is NotImplemented:
        raise TypeError(
            f"{who} answered NotImplemented to {op.name}, but there is no other handler. Call func(*args, **kwargs). "
            "[nd-dispatch]"
        )
    raise RuntimeError(
        f"{who} answered {type(answer).__name__} to {op.name}, whose result is a tensor. Return a tensor. [nd-dispatch]"
    )


class InPlaceForm:
    """The in-place form of an op, as observers see it: `mul_`."""

    outputs = 1

    def __init__(self, op: Op) -> None:
        self.op = op
        self.namespace = op.namespace
        self.name = self.__name__ = op.name + "_"

    def __call__(self, target: Variable, *args: Any, **settings: Any) -> Variable:
        torch_form = type(self.op).torch_form
        if torch_form is not None and not self.op.has_own_form((target, *args), settings):
            found: Variable = torch_form(self, (target, *args), settings)
            return found
        return write(self.op, target, args, {**self.op.settings, **settings})

    def forward_for(self, library: Library) -> Callable[..., Any]:
        """Return a function of raw arrays that writes into the first."""
        forward = self.op.forward_for(library)

        def run(target: NDArray[Any], *others: Any, **settings: Any) -> NDArray[Any]:
            if self.op.write_kernel is not None:
                self.op.write_kernel(library, target, *others, **settings)
            else:
                target[...] = forward(target, *others, **settings)
            return target

        return run

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> Any:
        return in_place_form, (self.op,)


class Factory:
    """One call of a function that makes a tensor without tensor arguments (`zeros`), as observers see it."""

    outputs = 1

    def __init__(self, name: str, array: NDArray[Any]) -> None:
        self.name = self.__name__ = name
        self.array = array
        self.args = (tuple(array.shape),)
        self.settings = {"dtype": array.dtype}

    def __call__(self, *args: Any, **settings: Any) -> Variable:
        if args != self.args or settings != self.settings:
            raise RuntimeError(
                f"a dispatch mode called {self.name} with other arguments than it was given. "
                f"Make another tensor by its public function (ndgrad.{self.name}) and return that. [nd-dispatch]"
            )
        return wrap(registry.Tensor, observed_factory(self.name, self.array))

    def forward_for(self, library: Library) -> Callable[..., Any]:
        return lambda *args, **settings: self.array.copy()

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def observed_factory(name: str, array: Payload) -> Payload:
    """Return the array of a new tensor, after all observers have seen its creation."""
    made = Factory(name, array)
    out = _arrays(_under_observers(made, made.args, list(made.args), made.settings, lambda: array))
    if tuple(out.shape) != tuple(array.shape) or out.dtype != array.dtype:
        raise RuntimeError(
            f"a dispatch mode answered a tensor of shape {tuple(out.shape)} and {out.dtype} to {name}, "
            f"which makes one of shape {tuple(array.shape)} and {array.dtype}. Answer one of the same. [nd-dispatch]"
        )
    return out


@functools.cache
def in_place_form(op: Op) -> InPlaceForm:
    """Return the in-place form of an op, one object per op."""
    return InPlaceForm(op)


# ----- recording ------------------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """One op of a recording. Arguments and results are numbers of values, or constants."""

    op: Any
    arguments: tuple[Any, ...]
    settings: dict[str, Any]
    results: tuple[int, ...]


class Value(NamedTuple):
    """Reference to a value of a recording, by number."""

    number: int


class Recording:
    """The ops that ran in a block, as a straight-line program that can run again on other arrays.

    >>> import numpy as np, ndgrad
    >>> from ndgrad._src.core.op_observers import Recording, observing
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> recording = Recording([x._array])
    >>> with observing(recording):
    ...     (g,) = ndgrad.autograd.grad((x * x).sum(), x)
    >>> recording.run([np.array([3.0, 4.0])], [g._array])
    [array([6., 8.])]
    """

    def __init__(self, inputs: list[Any]) -> None:
        self.calls: list[Call] = []
        self._kept: list[Any] = list(inputs)  # kept alive, so that identities stay unique
        self._numbers = {id(a): i for i, a in enumerate(inputs)}

    def __call__(self, op: OpLike, arrays: list[Any], settings: dict[str, Any], run: Callable[[], Any]) -> Any:
        out = run()
        arguments = tuple(self._reference(a) for a in arrays)
        results = tuple(self._define(o) for o in (out if isinstance(out, (tuple, list)) else (out,)))
        if isinstance(op, Factory):
            # Later writes change the array itself, so the recording keeps a copy.
            op = Factory(op.name, op.array.copy())
        self.calls.append(Call(op, arguments, settings, results))
        return out

    def _reference(self, array: Payload) -> Any:
        number = self._numbers.get(id(array))
        return array if number is None else Value(number)

    def _define(self, array: NDArray[Any]) -> int:
        number = self._numbers[id(array)] = len(self._kept)
        self._kept.append(array)
        return number

    def run(self, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        """Return the values of recorded arrays (`outputs`) for other inputs."""
        values: dict[int, Any] = dict(enumerate(inputs))
        library = library_of(inputs[0])
        for call in self.calls:
            arguments = [values[a.number] if isinstance(a, Value) else a for a in call.arguments]
            out = call.op.forward_for(library)(*arguments, **call.settings)
            for number, value in zip(call.results, out if isinstance(out, (tuple, list)) else (out,), strict=True):
                values[number] = value
        return [values[self._numbers[id(o)]] for o in outputs]
