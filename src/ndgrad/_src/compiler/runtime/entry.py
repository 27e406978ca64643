"""`ndgrad.compile` and its companions `disable`, `is_compiling`, `reset` and `explain`."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.loop_source import LoopLog
from ndgrad._src.compiler.capture.random_draws import restore_states
from ndgrad._src.compiler.capture.reachable_objects import GLOBAL_HOOKS
from ndgrad._src.compiler.native.phases import Times
from ndgrad._src.compiler.runtime.execution_notes import describe_control_flow
from ndgrad._src.compiler.runtime.function import CompiledFunction, compiled_functions
from ndgrad._src.compiler.runtime.options import resolve_options
from ndgrad._src.compiler.runtime.specialization import Specialisation
from ndgrad._src.core.modes import modes
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.pytree import tree_flatten

__all__ = ["Explanation", "compile", "disable", "explain", "is_compiling", "reset"]

if TYPE_CHECKING:
    from ndgrad.nn import Module

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound="Module")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Compiled(Protocol[P, R_co]):
    """A compiled function, as type checkers see it: the function with its reports."""

    traces: int

    @property
    def last_reason(self) -> str | None: ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., R_co]: ...

    def graph(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...

    def kernels(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...

    def reset(self) -> None: ...


class CompileDecorator(Protocol):
    """The result of `compile` without a function."""

    @overload
    def __call__(self, f: M) -> M: ...
    @overload
    def __call__(self, f: Callable[P, R_co]) -> Compiled[P, R_co]: ...


@overload
def compile(
    f: M, *, fullgraph: bool = False, dynamic: bool | None = None, backend: str = "ndgrad", mode: str | None = None,
    options: Mapping[str, Any] | None = None, disable: bool = False, strict: bool = False, threads: int | None = None,
) -> M: ...  # fmt: skip
@overload
def compile(
    f: Callable[P, R_co], *, fullgraph: bool = False, dynamic: bool | None = None, backend: str = "ndgrad",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None, disable: bool = False, strict: bool = False, threads: int | None = None,
) -> Compiled[P, R_co]: ...  # fmt: skip
@overload
def compile(
    f: None = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: str = "ndgrad",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None, disable: bool = False, strict: bool = False, threads: int | None = None,
) -> CompileDecorator: ...  # fmt: skip
@set_module("ndgrad")
def compile(
    f: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: str = "ndgrad",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None, disable: bool = False, strict: bool = False, threads: int | None = None,
) -> Any:  # fmt: skip
    """Return a function, method or module that is traced once for each kind of arguments and then runs as a program.

    The compiled function returns the same results as `f`, with the same gradients to any order, and writes the same
    memory. A call is traced again if shapes, dtypes, layouts, requires_grad, Python values among the arguments or other
    objects that `f` reaches (closures, globals, attributes) differ from all previous calls. Eight kinds of calls are
    kept. Some actions cannot be part of a program (values read by Python, prints, side effects). Such a kind of call
    runs eagerly; `ndgrad.compiler.explain(f, *args)` gives the reason, and with `fullgraph` it is an error.
    Functions with `functools.lru_cache` keep their results: a call that finds none there runs eagerly in any case.

    Args:
        f: function, method, module or other callable. Without it, the result is a decorator.
        fullgraph: whether a call that cannot be a program raises instead of running eagerly.
        dynamic: when calls that differ in the sizes of tensors share their machine code: from the second size on
            (None), from the first (True), or never (False).
        backend: `"ndgrad"` or `"inductor"` for native code, `"numpy"` or `"aot_eager"` as `strict`, `"eager"` as
            `disable`.
        mode: one of torch's modes. All modes are the same here.
        options: a mapping that may have `"strict"` and `"threads"`. Other entries are refused.
        disable: whether `f` is returned unchanged.
        strict: whether the program runs op by op on NumPy, so that sums are in NumPy's order.
        threads: maximum number of threads of native code.

    Returns:
        A callable with two methods for inspection, `graph(*args)` and `kernels(*args)`.

    >>> import ndgrad
    >>> @ndgrad.compile
    ... def loss(x):
    ...     return (x * x).sum()
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> loss(x).backward()
    >>> x.grad
    tensor([2., 4.])
    """
    resolved_options = resolve_options(
        mode, backend, options, {"fullgraph": fullgraph, "dynamic": dynamic, "strict": strict, "threads": threads}
    )
    if f is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable,
            strict=strict,
            threads=threads,
        )  # fmt: skip
    if isinstance(f, CompiledFunction):
        return f
    if not callable(f):
        raise TypeError(
            f"compile() takes a function, a method or a module, but got {type(f).__name__}. "
            "Give it something that can be called. [nd-type]"
        )
    if disable or resolved_options is None:
        return f
    module = sys.modules.get("ndgrad.nn.modules.module")
    if module is not None and isinstance(f, module.Module):
        from ndgrad.nn.modules.compiled import CompiledModule  # only needed for modules

        return f if isinstance(f, CompiledModule) else CompiledModule(f, resolved_options)
    return compiled_function(f, resolved_options)


def compiled_function(f: Callable[..., Any], options: dict[str, Any]) -> CompiledFunction:
    """Return the compiled form of a callable."""
    made = CompiledFunction(f, **options)
    compiled_functions.add(made)
    return made


@set_module("ndgrad.compiler")
def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return a function that is never compiled. A compiled function that calls it runs eagerly.

    Args:
        fn: function. Without it, the result is a decorator.
        recursive: whether compiled functions that it calls run eagerly too.
        reason: text for the explanation of a function that runs eagerly.

    >>> import ndgrad
    >>> @ndgrad.compiler.disable
    ... def shown(x):
    ...     print("called")
    ...     return x
    >>> ndgrad.compile(lambda x: shown(x) * 2)(ndgrad.ones(1))
    called
    tensor([2.])
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    inner = fn.function if isinstance(fn, CompiledFunction) else fn

    @functools.wraps(inner)
    def run(*args: Any, **kwargs: Any) -> Any:
        if current_tracer.get() is not None:
            raise GraphBreak(reason or f"{getattr(inner, '__qualname__', inner)} is not to be compiled")
        if not recursive:
            return inner(*args, **kwargs)
        token = CompiledFunction.disabled.set(True)
        try:
            return inner(*args, **kwargs)
        finally:
            CompiledFunction.disabled.reset(token)

    return run


@set_module("ndgrad.compiler")
def is_compiling() -> bool:
    """True if the calling code is being traced.

    >>> import ndgrad
    >>> ndgrad.compiler.is_compiling()
    False
    """
    return current_tracer.get() is not None


@set_module("ndgrad.compiler")
def reset() -> None:
    """Drop the traces of all compiled functions.

    >>> import ndgrad
    >>> ndgrad.compiler.reset()
    """
    for made in list(compiled_functions):
        made.reset()


#: Number of guards in a printed explanation. A training step has hundreds.
SHOWN_GUARDS = 8


@dataclass
class Explanation:
    """Result of `explain`: the size of the program, or the reason for running eagerly; and the guards of a call."""

    #: True if a call of this kind runs as a program.
    compiled: bool
    #: Reason for running eagerly, and the source line that causes it.
    reason: str | None
    where: str | None
    #: Numbers of instructions of both programs.
    forward_ops: int
    backward_ops: int
    #: Number of input tensors apart from the arguments.
    captured: int
    #: Descriptions of the slots and tensors compared before each call.
    guards: list[str]
    #: Number of specialisations of the function.
    specialisations: int
    #: Program as text.
    program: str
    #: Times of tracing and of code generation for both programs.
    times: Times
    #: Execution of loops and branches, and outcomes of conditions; on a device, execution of the programs.
    control_flow: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.compiled:
            head = f"runs eagerly: {self.reason}{f' ({self.where})' if self.where else ''}"
            return "\n".join([head, *[f"  {line}" for line in self.control_flow]])
        head = (
            f"compiled: {self.forward_ops} ops forward, {self.backward_ops} backward, "
            f"{self.captured} tensors from outside, "
        )
        head += f"{len(self.guards)} guards, {self.specialisations} specialisations"
        counts = Counter(self.control_flow)
        lines = [f"took {self.times}", *[f"{n} times: {line}" if n > 1 else line for line, n in counts.items()]]
        # Every program compares the empty lists of global hooks. Objects of the user's program say more.
        guards = [g for g in self.guards if not g.startswith(GLOBAL_HOOKS)]
        lines += [f"guard: {g}" for g in guards[:SHOWN_GUARDS]]
        if len(self.guards) > (shown := len(guards[:SHOWN_GUARDS])):
            lines.append(f"and {len(self.guards) - shown} more guards, listed in .guards")
        return "\n".join([head, *[f"  {line}" for line in lines]])


@set_module("ndgrad.compiler")
def explain(f: Any, *args: Any, **kwargs: Any) -> Explanation:
    """Explain the compilation of a function for these arguments: the size of the program and the compile times, or the
    reason why there is none. The program does not run.

    Args:
        f: function or module, compiled or not.
        args, kwargs: arguments of the call.

    >>> import ndgrad
    >>> print(ndgrad.compiler.explain(lambda x: x * float(x.sum()), ndgrad.ones(2)))
    runs eagerly: the function needs a number that is read of a tensor...
    >>> ndgrad.compiler.explain(lambda x: x * 2, ndgrad.ones(2)).forward_ops
    1
    """
    f = getattr(f, "compiled_forward", f)
    made = f if isinstance(f, CompiledFunction) else CompiledFunction(f)
    flat, spec = tree_flatten((args, kwargs))
    entry, flat = made.explain_entry(flat, spec, modes().grad_enabled)
    if entry.specialisation is None:
        broken = entry.broken
        assert broken is not None
        loops = [] if entry.environment is None else _describe_loops(entry.environment.loops)
        return Explanation(False, broken.reason, broken.where, 0, 0, 0, [], len(made.entries), "", Times(), loops)
    found = entry.specialisation
    guards = [
        slots.label(i) for slots in found.traced.environment.captured for i in range(len(slots.then)) if slots.label(i)
    ]
    guards += [
        f"{label}: shape, dtype, strides, requires_grad" for _, _, _, label in found.traced.environment.tensors.values()
    ]
    captured = sum(kind in ("environment", "grad") for kind, _ in found.trace.sources)
    runners = [found.plan.run_forward, *([found.plan.run_backward] if found.plan.backward.outputs else [])]
    notes = _describe_device(found, flat) if found.trace.place is not CPU else []
    for runner in runners if found.trace.place is CPU else ():
        _ = runner.executable
    times = sum([runner.times for runner in runners], found.times)
    unrolled = _describe_loops(found.traced.environment.loops)
    decided = [f"for calls in which the condition at {where} is {outcome}" for where, outcome in found.trace.decided]
    return Explanation(
        True, None, None, len(found.plan.forward.instructions), len(found.plan.backward.instructions),
        captured, list(dict.fromkeys(guards)), len(made.entries), str(found.plan.program), times,
        [*(notes or describe_control_flow(*runners)), *unrolled, *decided],
    )  # fmt: skip


def _describe_loops(loops: LoopLog) -> list[str]:
    """Describe the Python loops that are not rolled up, with reasons."""
    return [f"loop at {where} is traced round by round: {reason}" for where, reason in loops.refused.items()]


def _describe_device(found: Specialisation, flat: Sequence[Any]) -> list[str]:
    """Describe the execution of programs on a device, as far as it is known."""
    from ndgrad._src.compiler.report.cuda_inspection import describe  # needed on devices only

    states = found.trace.tape.states()
    arrays = [t._array for t in found.inputs_of(flat)]
    restore_states(states)
    programs = [found.plan.run_forward.on_device(arrays)]
    others = [found.plan.run_backward, *([found.plan.whole.runner] if found.plan.whole is not None else [])]
    return [describe(p) for p in (*programs, *[r.known_on_device for r in others]) if p is not None]


# torch programs expect these functions as attributes of `compile`.
compile.explain = explain  # type: ignore[attr-defined]
