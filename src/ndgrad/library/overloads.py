"""Ops of other libraries under `ndgrad.ops`: namespaces, packets of overloads, and the path of a call.

An overload has a schema and rules: kernels per device, a fake kernel for tensors without data, a derivative, a
batching rule. A call takes these steps:

    bind        arguments are converted to the types of the schema
    overrides   function modes and tensor subclasses see the call
    autograd    a custom function records the call, if a derivative is registered or the op is opaque (`custom_op`)
    observers   the compiler's tracer and dispatch modes see one op of the table, `CallOp`
    kernel      the function for the device of the arguments runs without recording

Note [Transparent kernels]
A kernel without a derivative of its own, registered through `Library`, is an ordinary function of tensors: its ops are
recorded and batched. A kernel registered through `custom_op` is opaque: a derivative exists only if it is registered.
"""

from __future__ import annotations

import contextvars
import functools
import operator
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Never

import numpy as np

import ndgrad
from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.arrays.meta import MetaArray
from ndgrad._src.core.modes import process, restore, scope, thread
from ndgrad._src.core.subclass import ask, dispatch_types, overriding_types
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.interpreters.batching import BatchLevel
from ndgrad._src.interpreters.levels import top_level
from ndgrad._src.ops import table as _table
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, VARIABLE, Op
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad._src.transforms.custom_functions import VmapInfo, _apply_batched
from ndgrad.autograd.graph import increment_version
from ndgrad.library.schema import FunctionSchema

if TYPE_CHECKING:
    from ndgrad._typing import Payload

__all__ = ["OpNamespace", "OpOverload", "OpOverloadPacket", "find_namespace", "find_overload"]

#: True inside `_AutoDispatchBelowAutograd`: calls of ops go to their kernels.
_below_autograd: contextvars.ContextVar[bool] = contextvars.ContextVar("ndgrad_below_autograd", default=False)


@contextmanager
def below_autograd() -> Iterator[None]:
    """Run a block in which calls of registered ops skip their derivative, as inside an "Autograd" kernel."""
    token = _below_autograd.set(True)
    try:
        yield
    finally:
        _below_autograd.reset(token)


# ----- the arguments of a call ----------------------------------------------------------------------------------------


class _Hole:
    """A tensor in the form of a call."""

    def __repr__(self) -> str:
        return "Tensor"


_HOLE = _Hole()


class CallForm:
    """The arguments of a call with holes for its tensors. Forms are equal if all other arguments are."""

    __slots__ = ("_key", "spec", "values")

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self._key = tuple([_freeze(v) for v in values])
        #: The structure of the result: None for a tensor or number, the length of a list. Known after the call.
        self.spec: tuple[int | None, ...] = ()

    @classmethod
    def split(cls, schema: FunctionSchema, values: Sequence[Any]) -> tuple[CallForm, tuple[Any, ...]]:
        """Return the form of a call, and its tensors in order."""
        tensors: list[Any] = []

        def leave_hole(value: object) -> Any:
            if isinstance(value, Variable):
                tensors.append(value)
                return _HOLE
            return value

        form = [[leave_hole(v) for v in value] if isinstance(value, list) else leave_hole(value) for value in values]
        return cls(form), tuple(tensors)

    def fill(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the arguments with tensors, or anything that stands for them, in the holes."""
        given = iter(tensors)

        def take(value: object) -> Any:
            return next(given) if value is _HOLE else value

        return [[take(v) for v in value] if isinstance(value, list) else take(value) for value in self.values]

    def group(self, parts: Sequence[Any], others: object = None) -> list[Any]:
        """Return parts in the places of tensors, and `others` in those of all other arguments."""
        filled = self.fill(parts)
        return [
            [f if v is _HOLE else others for v, f in zip(value, found, strict=True)]
            if isinstance(value, list) and _HOLE in value
            else found
            if value is _HOLE
            else others
            for value, found in zip(self.values, filled, strict=True)
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallForm) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.values))})"


def _freeze(value: object) -> Any:
    if isinstance(value, list):
        return (list, tuple([_freeze(v) for v in value]))
    try:
        hash(value)
    except TypeError:
        return (type(value), id(value))
    return (type(value), value)


def _as_tuple(value: object) -> tuple[Any, ...]:
    return () if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)


# ----- overloads ------------------------------------------------------------------------------------------------------


class OpOverload:
    """One overload of an op: a function with a schema, as in `ndgrad.ops.mylib.f.default`.

    >>> import ndgrad
    >>> with ndgrad.library._scoped_library("doc", "FRAGMENT") as lib:
    ...     _ = lib.define("twice(Tensor x, int times=1) -> Tensor")
    ...     lib.impl("twice", lambda x, times=1: x * 2**times, "CompositeExplicitAutograd")
    ...     print(ndgrad.ops.doc.twice.default._schema)
    ...     print(ndgrad.ops.doc.twice.default(ndgrad.ones(2), times=3))
    doc::twice(Tensor x, int times=1) -> Tensor
    tensor([8., 8.])
    """

    def __init__(self, packet: OpOverloadPacket, schema: FunctionSchema, tags: Sequence[Any] = ()) -> None:
        self._packet = packet
        self._schema = schema
        self.tags = list(tags)
        self._overloadname = schema.overload_name or "default"
        self.namespace = packet.namespace
        self.__name__ = f"{packet.__name__}.{self._overloadname}"
        self.__qualname__ = self.__name__
        self.__module__ = f"ndgrad.ops.{packet.namespace}"
        #: Functions by torch's dispatch key.
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap_rule: Callable[..., Any] | None = None
        self.dispatch_rules: dict[type, Callable[..., Any]] = {}
        #: Device type -> dtype of inputs under autocast.
        self.autocast: dict[str, Any] = {}
        #: True for `custom_op`: gradients do not pass through the kernel.
        self.is_opaque = False
        #: Called before the default kernel of a `custom_op`; returns the kernel to use, or None.
        self.choose_kernel: Callable[[str], Callable[..., Any] | None] | None = None
        #: The custom function that records a call; its arguments are the form of the call and the tensors.
        self.function = _make_function(self)
        # Made at once, since the compiler takes a change of a reachable object during a call for a side effect.
        self._op = CallOp(self, schema.is_mutable)

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of the op."""
        return self._packet

    @property
    def _opname(self) -> str:
        return self._packet.__name__

    def name(self) -> str:
        """Return `namespace::name`, with the name of the overload if it has one."""
        schema = self._schema
        return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name

    @property
    def is_view(self) -> bool:
        """True if a result is declared as an alias of an argument that is not written."""
        return any(a.alias_info is not None and not a.is_write for a in self._schema.arguments)

    def has_kernel_for_dispatch_key(self, k: object) -> bool:
        """True if a function is registered under a dispatch key."""
        key = getattr(k, "name", str(k))
        return key in self.kernels or (key == "Meta" and self.fake is not None)

    def has_kernel_for_any_dispatch_key(self, ks: Any) -> bool:
        """True if a function is registered under one of some dispatch keys."""
        return any(self.has_kernel_for_dispatch_key(k) for k in ks)

    def redispatch(self, keyset: object, /, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel below autograd."""
        with below_autograd():
            return self(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __reduce__(self) -> Any:
        return find_overload, (self.name(),)

    def __deepcopy__(self, memo: object) -> OpOverload:
        return self

    # ----- calls ------------------------------------------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        modes_see = bool(thread.function_modes)
        found = () if thread.functions_disabled else overriding_types((*args, *kwargs.values()))
        if modes_see or found:
            return ask(self, found, args, kwargs)
        return self.run(self._schema.bind(args, kwargs))

    def run(self, values: list[Any]) -> Any:
        """Run the op on bound arguments."""
        schema, kernels = self._schema, self.kernels
        if thread.observers:
            self._guard_rules()
        if self.autocast:
            cast = self._find_autocast(values)
            if cast is not None:
                return cast
        form, tensors = CallForm.split(schema, values)
        if _below_autograd.get():
            return self._run_observed(form, tensors)
        own = kernels.get("Autograd")
        if own is not None:
            args, named = schema.unbind(values)
            return own(*args, **named)
        level = top_level(tensors) if thread.levels else None
        records = thread.grad_enabled and any(t.requires_grad for t in tensors)
        is_special = records or level is not None or thread.dual_levels or process.open
        has_function = self.backward is not None or (self.is_opaque and schema.is_functional and bool(schema.returns))
        if has_function and is_special:
            out = self.function.apply(form, *tensors)
            return _rebuild(form.spec, out)
        if isinstance(level, BatchLevel) and (self.vmap_rule is not None or "CompositeImplicitAutograd" not in kernels):
            return _rebuild(form.spec, _apply_batched(level, self.function, (form, *tensors), {}))
        if "CompositeImplicitAutograd" in kernels:
            args, named = schema.unbind(values)
            return kernels["CompositeImplicitAutograd"](*args, **named)
        if self.is_opaque or has_function:
            outside = scope()
            try:
                restore(outside.recording(False))
                return self._run_observed(form, tensors)
            finally:
                restore(outside)
                del outside
        if is_special:
            return self._warn_without_derivative(self.run_kernel(values, tensors), tensors, records)
        return self._run_observed(form, tensors)

    def _guard_rules(self) -> None:
        """Let traces depend on the rules that they follow."""
        for observer in thread.observers:
            if getattr(observer, "is_tracer", False):
                observer.guard(f"the registrations of {self}", self._describe_rules)

    def _describe_rules(self) -> tuple[Any, ...]:
        """Return the rules that a trace may follow."""
        own = self.backward, self.setup_context, self.vmap_rule, self.fake, self._find_kernel_or_none("cpu")
        return tuple([id(rule) for rule in (*own, *self.kernels.values(), *self.dispatch_rules.values())])

    def _find_kernel_or_none(self, kind: str) -> Callable[..., Any] | None:
        return None if self.choose_kernel is None else self.choose_kernel(kind)

    def _find_autocast(self, values: list[Any]) -> Any:
        """Return the result of a call under autocast, with floating inputs cast; None if autocast is off."""
        for kind, to in self.autocast.items():
            if ndgrad.is_autocast_enabled(kind):
                cast = functools.partial(_cast_input, kind, to)
                with ndgrad.autocast(kind, enabled=False):
                    return self.run([[cast(v) for v in x] if isinstance(x, list) else cast(x) for x in values])
        return None

    def _run_observed(self, form: CallForm, tensors: tuple[Any, ...]) -> Any:
        """Run the kernel. The tracer and dispatch modes see one op, if its results can be described to them."""
        values = form.fill(tensors)
        if tensors and (thread.observers or (process.dispatching and dispatch_types(tensors))):
            is_traced = any(getattr(o, "is_tracer", False) for o in thread.observers)
            if self._has_tensor_results and not (is_traced and self.fake is None and "Meta" not in self.kernels):
                if not self._schema.is_mutable:
                    flat = self._op(*tensors, call=form)
                    return self._rebuild_flat(flat if isinstance(flat, (tuple, list)) else (flat,))
                if is_traced:
                    return self._run_functional(form, tensors)
        return self.run_kernel(values, tensors)

    def _run_functional(self, form: CallForm, tensors: tuple[Any, ...]) -> Any:
        """Run an op that writes to arguments as an op that returns the written values, which are then copied."""
        written = self._written_tensors(form.fill(tensors))
        found = self._op(*tensors, call=form)
        cut = len(found) - len(written)
        for target, value in zip(written, found[cut:], strict=True):
            target.copy_(value)
        return self._rebuild_flat(found[:cut])

    def _written_tensors(self, values: Sequence[Any], kind: type = Variable) -> list[Any]:
        """Return the tensors among arguments, or other objects in their places, that the op writes to."""
        parts = [values[i] for i in self._schema.written]
        return [t for part in parts for t in (part if isinstance(part, list) else [part]) if isinstance(t, kind)]

    @property
    def _has_tensor_results(self) -> bool:
        """True if all results are tensors, of which at most one is a list."""
        returns = self._schema.returns
        lists = [r for r in returns if r.type.name == "List"]
        return (
            all(r.type.holds_tensors for r in returns) and len(lists) < 2 and bool(returns or self._schema.is_mutable)
        )

    def _rebuild_flat(self, flat: Sequence[Any]) -> Any:
        """Return the results of the op, whose tensors are given in order."""
        returns = self._schema.returns
        rest = len(flat) - (len(returns) - 1)
        return _rebuild(tuple([rest if r.type.name == "List" else None for r in returns]), tuple(flat))

    def run_kernel(self, values: list[Any], tensors: tuple[Any, ...]) -> Any:
        """Run the function registered for the device of the arguments."""
        kind = self._find_device(values, tensors)
        args, named = self._schema.unbind(values)
        kernel = self._find_kernel(kind)
        out = kernel(*args, **named)
        if self.is_opaque:
            if kind != "meta":
                self._check_aliases(out, tensors)
            if written := self._written_tensors(values):
                increment_version(written)
        return out

    def _find_device(self, values: list[Any], tensors: tuple[Any, ...]) -> str:
        if tensors:
            kinds = {t.device.type for t in tensors}
            return "cpu" if kinds == {"cpu"} else next(k for k in kinds if k != "cpu")
        return next((v.type for v in values if isinstance(v, ndgrad.device)), "cpu")

    def _find_kernel(self, kind: str) -> Callable[..., Any]:
        kernels = self.kernels
        if kind == "meta" and (self.fake is not None or "Meta" in kernels):
            return kernels["Meta"] if self.fake is None else self.fake
        if self.choose_kernel is not None and kind != "meta":
            chosen = self.choose_kernel(kind)
            if chosen is not None:
                return chosen
        for key in (kind.upper(), "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            if key in kernels and not (kind == "meta" and self.is_opaque):
                return kernels[key]
        if kind == "meta":
            raise NotImplementedError(
                f"{self.name()}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta "
                "kernel registered. Register one: ndgrad.library.register_fake. [nd-op-block]"
            )
        known = ", ".join(kernels) or "none"
        raise NotImplementedError(
            f"Could not run '{self.name()}' with arguments from the '{kind.upper()}' backend. It is only available for "
            f"these backends: [{known}]. Register a kernel: ndgrad.library.register_kernel. [nd-op-block]"
        )

    def _check_aliases(self, out: object, tensors: tuple[Any, ...]) -> None:
        seen = [t._array for t in tensors]
        for result in _as_tuple(out):
            for t in _as_tuple(result):
                if not isinstance(t, Variable):
                    continue
                array = t._array
                if isinstance(array, np.ndarray):
                    if array.size and any(isinstance(s, np.ndarray) and np.may_share_memory(array, s) for s in seen):
                        self._refuse_alias()
                elif any(array is s for s in seen):
                    self._refuse_alias()
                seen.append(array)

    def _refuse_alias(self) -> Never:
        raise RuntimeError(
            f"{self.name()}: The output of this custom operator (1) must not also be an input to this custom operator "
            "and (2) may not alias any inputs to this custom operator or other returns. The most common way to trigger "
            "this error is if we have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone "
            "of the offending output tensor(s) (e.g. return x.clone()). [nd-op-block]"
        )

    def _warn_without_derivative(self, out: object, tensors: tuple[Any, ...], records: bool) -> Any:
        """Return results; those that lost their history get one that warns in backward, as in torch."""
        if not records:
            return out

        def attach(t: Any) -> Any:
            if isinstance(t, Tensor) and not t.requires_grad and (t.is_floating_point() or t.is_complex()):
                return _WarnNotImplemented.apply(self.name(), t, *tensors)
            return t

        if isinstance(out, (tuple, list)):
            return type(out)([attach(t) for t in out])
        return attach(out)

    # ----- transforms -------------------------------------------------------------------------------------------------

    def run_batched(self, info: VmapInfo, in_dims: tuple[Any, ...], form: CallForm, tensors: tuple[Any, ...]) -> Any:
        """Run the op on batched tensors: by its rule, or on one sample after another."""
        values = form.fill(tensors)
        if self.vmap_rule is not None:
            args, named = self._schema.unbind(values)
            dims = tuple(form.group(in_dims)[: len(args)])
            answer = self.vmap_rule(info, dims, *args, **named)
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise RuntimeError(
                    f"{self.name()}: Expected the vmap function to have two returns, got {type(answer).__name__}. "
                    "Return an output and its out_dims. [nd-function-transform]"
                )
            return answer
        if self._schema.is_mutable or self.is_view:
            raise RuntimeError(
                f"Batching rule not implemented for {self.name()}; the fallback path doesn't work on out= or view ops. "
                "Register a rule: ndgrad.library.register_vmap. [nd-function-transform]"
            )
        samples = []
        for i in range(info.batch_size):
            parts = [t if d is None else t.select(d, i) for t, d in zip(tensors, in_dims, strict=True)]
            samples.append(self.run(form.fill(parts)))
        if not samples:
            raise RuntimeError(
                f"vmap over {self.name()} with a batch of size 0 needs a batching rule. Register one: "
                "ndgrad.library.register_vmap. [nd-function-transform]"
            )
        return _stack_samples(samples), 0


def _cast_input(kind: str, to: Any, value: Any) -> Any:
    """Return an input under autocast of a device type: floating tensors there are cast, except float64."""
    fits = isinstance(value, Tensor) and value.is_floating_point() and value.device.type == kind
    return value.to(to) if fits and value.dtype != ndgrad.float64 else value


def _stack_samples(samples: list[Any]) -> Any:
    first = samples[0]
    if isinstance(first, (tuple, list)):
        return type(first)([_stack_samples([s[i] for s in samples]) for i in range(len(first))])
    return ndgrad.stack(samples) if isinstance(first, Variable) else first


def _flatten(out: object, form: CallForm) -> tuple[Any, ...]:
    """Return the results of an op as one tuple, and note their structure in the form."""
    parts = out if isinstance(out, tuple) else (out,)
    form.spec = tuple([len(p) if isinstance(p, (list, tuple)) else None for p in parts])
    return tuple([t for p in parts for t in (p if isinstance(p, (list, tuple)) else (p,))])


def _rebuild(spec: tuple[int | None, ...], flat: Any) -> Any:
    """Return flat results in the structure of the op's results."""
    given = iter(flat if isinstance(flat, (tuple, list)) else (flat,))
    parts = [next(given) if n is None else [next(given) for _ in range(n)] for n in spec]
    return None if not parts else parts[0] if len(parts) == 1 else tuple(parts)


class _OpContext:
    """The context of a custom function as the rules of an op see it: needs are given per argument of the op."""

    def __init__(self, ctx: Any, form: CallForm, count: int) -> None:
        object.__setattr__(self, "_ctx", ctx)
        object.__setattr__(self, "_form", form)
        object.__setattr__(self, "_count", count)

    @property
    def needs_input_grad(self) -> tuple[Any, ...]:
        """True for arguments that need a gradient; a list for a list of tensors."""
        return tuple(self._form.group(self._ctx.needs_input_grad[1:], False)[: self._count])

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_ctx"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._ctx, name, value)


def _make_function(overload: OpOverload) -> type[Function]:
    schema = overload._schema
    count = len(schema.positional)

    class Generated(Function):
        @staticmethod
        def forward(form: CallForm, *tensors: Any) -> Any:
            flat = _flatten(overload._run_observed(form, tensors), form)
            return flat[0] if len(flat) == 1 else flat

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            form, tensors = inputs[0], inputs[1:]
            ctx._call, ctx._spec = form, form.spec
            if overload.setup_context is None:
                return
            values = form.fill(tensors)
            given: dict[str, Any] = {"inputs": tuple(values[:count]), "output": _rebuild(form.spec, output)}
            if count < len(values):
                given["keyword_only_inputs"] = {
                    a.name: v for a, v in zip(schema.arguments[count:], values[count:], strict=True)
                }
            overload.setup_context(ctx=_OpContext(ctx, form, count), **given)

        @staticmethod
        def backward(ctx: Any, *grads: Any, **options: Any) -> Any:
            if overload.backward is None:
                raise RuntimeError(
                    f"Trying to backward through {overload} but no autograd formula was registered. Please use "
                    "register_autograd to add one. [nd-no-derivative]"
                )
            given = _rebuild(ctx._spec, grads)
            given = given if len(ctx._spec) > 1 else (given,)
            found = overload.backward(_OpContext(ctx, ctx._call, count), *given)
            return (None, *_flatten_gradients(overload, ctx._call, found))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any, **options: Any) -> Any:
            raise NotImplementedError(
                f"{overload} has no forward-mode derivative, and torch has no way to register one. Use reverse mode, "
                "or register the op with ndgrad.library.op. [nd-no-derivative]"
            )

        @staticmethod
        def vmap(info: VmapInfo, in_dims: tuple[Any, ...], form: CallForm, *tensors: Any) -> Any:
            out, dims = overload.run_batched(info, in_dims[1:], form, tensors)
            flat = _flatten(out, form)
            own = _flatten_dims(dims, form.spec)
            return (flat[0], own[0]) if len(flat) == 1 else (flat, own)

    Generated.__name__ = f"GeneratedBackwardFor_{overload.namespace}_{overload._opname}_{overload._overloadname}"
    Generated._backward_cls.__name__ = Generated.__name__ + "Backward"
    return Generated


def _flatten_dims(dims: Any, spec: tuple[int | None, ...]) -> tuple[Any, ...]:
    """Return one batch dimension per flat result; a dimension given for several holds for all of them."""
    parts = list(dims) if isinstance(dims, (tuple, list)) and (len(spec) > 1 or isinstance(dims, tuple)) else [dims]
    if len(parts) != len(spec):
        parts = [dims] * len(spec)
    flat: list[Any] = []
    for part, n in zip(parts, spec, strict=True):
        if n is None:
            flat.append(part)
        else:
            flat.extend(part if isinstance(part, (tuple, list)) else [part] * n)
    return tuple(flat)


def _flatten_gradients(overload: OpOverload, form: CallForm, found: Any) -> list[Any]:
    """Return one gradient per tensor of a call, from one per argument as the user's backward returns them."""
    count = len(overload._schema.positional)
    parts = list(found) if isinstance(found, (tuple, list)) else [found]
    if count == 1 and isinstance(found, list) and isinstance(form.values[0], list):
        parts = [found]
    if len(parts) != count:
        raise RuntimeError(
            f"{overload}: Expected the return from backward to be of the same structure as the inputs: it returned "
            f"{len(parts)} gradients for {count} arguments. [nd-function]"
        )
    flat: list[Any] = []
    for number, value in enumerate(form.values):
        part = parts[number] if number < count else None
        if value is _HOLE:
            flat.append(part)
        elif isinstance(value, list) and _HOLE in value:
            own = [None] * len(value) if part is None else part
            if not isinstance(own, (tuple, list)) or len(own) != len(value):
                raise RuntimeError(
                    f"{overload}: Expected the return from backward to be of the same structure as the inputs: "
                    f"argument {number} is a list of {len(value)} tensors, and its gradient is {type(part).__name__}. "
                    "[nd-function]"
                )
            flat.extend(g for g, v in zip(own, value, strict=True) if v is _HOLE)
        elif part is not None:
            raise RuntimeError(
                f"{overload}: backward returned a gradient for argument {number}, which is not a tensor. Return None. "
                "[nd-function]"
            )
    return flat


class _WarnNotImplemented(Function):
    """The history of a result that a kernel made without recording: a warning in backward, and no gradient."""

    @staticmethod
    def forward(name: str, result: Any, *tensors: Any) -> Any:
        return result.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.name, ctx.count = inputs[0], len(inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any, **options: Any) -> Any:
        warnings.warn(
            f"{ctx.name}: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop "
            "through it. This may lead to silently incorrect behavior. Register a derivative: "
            "ndgrad.library.register_autograd.",
            UserWarning,
            stacklevel=2,
        )
        return (None,) * ctx.count


# ----- one op of the table --------------------------------------------------------------------------------------------


def _never_batched(*args: Any, **settings: Any) -> Never:
    raise RuntimeError("an op of ndgrad.library is batched by its custom function [nd-bug]")


def _as_contiguous(array: Payload) -> Payload:
    """Return an array in C order, which a compiled program relies on."""
    return np.ascontiguousarray(array).reshape(array.shape) if isinstance(array, np.ndarray) else array


class CallOp(Op):
    """A call of an overload as an op of the table: observers see it, and a compiled program calls it.

    If it is `functional`, arguments that the op writes to are copied, and the written copies are further results.
    """

    def __init__(self, overload: OpOverload, functional: bool) -> None:
        returns = overload._schema.returns
        fixed = not functional and not any(r.type.name == "List" for r in returns)
        name = f"{overload.namespace}_{overload._opname}_{overload._overloadname}" + (
            "_functional" if functional else ""
        )
        self.overload, self.functional = overload, functional

        def forward(*arrays: Any, call: Any = None) -> Any:
            return self._run_on_arrays(call, arrays)

        super().__init__(
            name,
            ["xs"],
            {"call": None},
            forward,
            vjp=NOT_DIFFERENTIABLE,
            jvp=NOT_DIFFERENTIABLE,
            batch=_never_batched,
            outputs=len(returns) if fixed else VARIABLE,
            variadic=True,
            halves=True,
            halves_on_device=True,
            memory_order="contiguous",
        )
        del _table.table[name]  # found through its overload, not by name

    def _run_on_arrays(self, call: CallForm, arrays: tuple[Any, ...]) -> Any:
        """Run the kernel on arrays; on arrays without data, run the fake kernel."""
        tensors = tuple(
            [wrap(Tensor, a if is_raw_array(a) or isinstance(a, MetaArray) else np.asarray(a)) for a in arrays]
        )
        if self.functional:
            written = {id(t) for t in self.overload._written_tensors(call.fill(tensors))}
            tensors = tuple([t.clone() if id(t) in written else t for t in tensors])
        values = call.fill(tensors)
        outside = scope()
        try:
            restore(outside.recording(False).with_observers(()))
            out = self.overload.run_kernel(values, tensors)
        finally:
            restore(outside)
            del outside
        parts = [t for part in _as_tuple(out) for t in _as_tuple(part)]
        if self.functional:
            parts += self.overload._written_tensors(values)
        for t in parts:
            if not isinstance(t, Variable):
                raise TypeError(
                    f"{self.overload}: the kernel returned {type(t).__name__} where its schema has a Tensor: "
                    f"{self.overload._schema} [nd-type]"
                )
        results = tuple([_as_contiguous(t._array) for t in parts])
        return results[0] if self.outputs == 1 else results

    def present_call(
        self, args: tuple[Any, ...], settings: dict[str, Any]
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Return the overload and the arguments of a call as its callers write them."""
        positional, named = self.overload._schema.unbind(settings["call"].fill(args))
        return self.overload, positional, named

    def __reduce__(self) -> Any:
        return operator.attrgetter("_op"), (self.overload,)


# ----- packets and namespaces -----------------------------------------------------------------------------------------


class OpOverloadPacket:
    """All overloads of an op, as in `ndgrad.ops.mylib.f`. A call takes the first overload whose schema fits."""

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.__name__ = name
        self.__qualname__ = name
        self.__module__ = f"ndgrad.ops.{namespace}"
        self._overloads: dict[str, OpOverload] = {}

    @property
    def _qualified_op_name(self) -> str:
        return f"{self.namespace}::{self.__name__}"

    def overloads(self) -> list[str]:
        """Return the names of the overloads."""
        return list(self._overloads)

    @property
    def _schemas(self) -> dict[str, FunctionSchema]:
        return {o._schema.overload_name: o._schema for o in self._overloads.values()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._overloads)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._overloads]

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._overloads.get(name)
        if found is None:
            raise AttributeError(
                f"The underlying op of '{self.namespace}.{self.__name__}' has no overload name '{name}' [nd-absent]"
            )
        return found

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        overloads = list(self._overloads.values())
        if len(overloads) == 1:
            return overloads[0](*args, **kwargs)
        found = () if thread.functions_disabled else overriding_types((*args, *kwargs.values()))
        if thread.function_modes or found:
            return ask(self, found, args, kwargs)
        refusals = []
        for overload in overloads:
            try:
                values = overload._schema.bind(args, kwargs)
            except RuntimeError as error:
                refusals.append(str(error))
                continue
            return overload.run(values)
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n"
            + "\n\n".join(refusals)
            + " [nd-arguments]"
        )

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self.__name__}')>"

    def __reduce__(self) -> Any:
        return _find_packet, (self.namespace, self.__name__)

    def __deepcopy__(self, memo: object) -> OpOverloadPacket:
        return self


class OpNamespace(types.ModuleType):
    """The ops of one library, as in `ndgrad.ops.mylib`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"ndgrad.ops.{name}")
        self._name = name
        self._packets: dict[str, OpOverloadPacket] = {}
        self.__file__ = "ndgrad.ops"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found: Any = self._packets.get(name)
        if found is None:
            from ndgrad.library.table_ops import registered  # ops of the table's own language

            entry = registered().get(f"{self._name}::{name}")
            if entry is None:
                raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}' [nd-absent]")
            found = entry.function
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._packets)

    def __dir__(self) -> list[str]:
        return list(self._packets)

    def __reduce__(self) -> Any:
        return find_namespace, (self._name,)


_namespaces: dict[str, OpNamespace] = {}


def find_namespace(name: str) -> OpNamespace:
    """Return the namespace of a library, empty if it has registered nothing."""
    return _namespaces.get(name) or _namespaces.setdefault(name, OpNamespace(name))


def _find_packet(namespace: str, name: str) -> Any:
    return getattr(find_namespace(namespace), name)


#: Paths of compiled libraries that were refused. Ops that they define do not exist.
refused_libraries: list[str] = []


def is_defined(qualname: str) -> bool:
    """True if the overload `namespace::name` or `namespace::name.overload` exists."""
    namespace, _, rest = qualname.partition("::")
    name, _, overload = rest.partition(".")
    packet = find_namespace(namespace)._packets.get(name)
    return packet is not None and (overload or "default") in packet._overloads


def find_overload(qualname: str) -> OpOverload:
    """Return the overload `namespace::name` or `namespace::name.overload`."""
    namespace, _, rest = qualname.partition("::")
    name, _, overload = rest.partition(".")
    packet = find_namespace(namespace)._packets.get(name)
    found = None if packet is None else packet._overloads.get(overload or "default")
    if found is None:
        raise RuntimeError(
            f"operator {qualname} does not exist. Define it first: ndgrad.library.define or ndgrad.library.custom_op. "
            "[nd-key]"
        )
    return found


def add_overload(namespace: str, schema: FunctionSchema, tags: Sequence[Any] = ()) -> OpOverload:
    """Define an overload. Its name must be new."""
    home = find_namespace(namespace)
    short = schema.name.partition("::")[2] or schema.name
    packet = home._packets.get(short) or OpOverloadPacket(namespace, short)
    full = FunctionSchema(f"{namespace}::{short}", schema.overload_name, schema.arguments, schema.returns)
    name = schema.overload_name or "default"
    if name in packet._overloads:
        raise RuntimeError(
            f"Tried to register an operator ({full}) with the same name and overload name multiple times. Each "
            "overload's schema should only be registered with a single call to def(). [nd-op-block]"
        )
    made = OpOverload(packet, full, tags)
    packet._overloads[name] = made
    home._packets[short] = packet
    for register in _pending.pop(made.name(), ()):
        register(made)
    return made


#: Registrations for ops that are not defined yet, by name.
_pending: dict[str, list[Callable[[OpOverload], None]]] = {}


def when_defined(qualname: str, register: Callable[[OpOverload], None]) -> None:
    """Call a function with an overload, now or when it is defined."""
    try:
        found = find_overload(qualname)
    except RuntimeError:
        _pending.setdefault(qualname, []).append(register)
    else:
        register(found)


def remove_overload(overload: OpOverload) -> None:
    """Remove an overload; objects that refer to it keep it."""
    packet = overload._packet
    if packet._overloads.get(overload._overloadname) is overload:
        del packet._overloads[overload._overloadname]
        if not packet._overloads:
            find_namespace(packet.namespace)._packets.pop(packet.__name__, None)
