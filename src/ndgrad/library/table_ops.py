"""Ops of other projects: registered by name, complete by rule, tested by ndgrad's own checks.

A registered op is an op of the table (`ndgrad._src.ops.table` is the manual of its language): forward, reverse rule,
forward-mode rule and batching rule. From these follow derivatives of any order, every transform, saved-tensor hooks,
checkpointing, both tensor classes and both devices. This file adds a namespace, so that two libraries do not collide;
an early check of the names in rules; a method on tensors; and samples, on which `check` tests everything that is
promised.

    ndgrad.library.elementwise("mylib::softer", forward, x=rule)
    ndgrad.library.op("mylib::moment", "x", forward, vjp=..., jvp=..., batch=...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ndgrad._src.core.generate import make_eager
from ndgrad._src.core.generated_names import check_names
from ndgrad._src.ops import table as _table
from ndgrad._src.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, RANDOM, VARIABLE, Op
from ndgrad._src.ops.vocabulary import forget
from ndgrad._src.tensor.public import in_place
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.testing.op_checks import Failure, check_op
from ndgrad.testing.op_checks import checks as checks_of

__all__ = [
    "DATA_DEPENDENT", "NOT_DIFFERENTIABLE", "RANDOM", "VARIABLE", "Registered", "check", "checks", "elementwise", "op",
    "registered", "remove",
]  # fmt: skip

if TYPE_CHECKING:
    from ndgrad._src.ops.table import _Word
    from ndgrad.testing.op_checks import Sample

#: Rules of an op, as in the manual in ndgrad._src.ops.table: by argument, jointly, or a word.
Rules: TypeAlias = "Mapping[str, Callable[..., Any]] | Callable[..., Any] | str | _Word | None"


class Registered(NamedTuple):
    """A registered op: the function that users call, the op behind it, its method on tensors, and its samples.

    Args:
        function: function that users call.
        op: op of the table.
        method: name of the method on tensors, or None.
        samples: samples for the checks.

    >>> import ndgrad
    >>> _ = ndgrad.library.elementwise("doc::twice", lambda np, x: x + x, x=lambda t: t + t, method="twice")
    >>> ndgrad.library.registered()["doc::twice"].method
    'twice'
    >>> ndgrad.library.remove("doc::twice")
    """

    function: Callable[..., Any]
    op: Op
    method: str | None
    samples: tuple[Sample, ...]


_registered: dict[str, Registered] = {}


def registered() -> dict[str, Registered]:
    """Return the ops registered so far, by name.

    >>> import ndgrad
    >>> isinstance(ndgrad.library.registered(), dict)
    True
    """
    return dict(_registered)


def elementwise(
    name: str,
    forward: str | Callable[..., Any],
    *,
    args: str = "x",
    settings: Mapping[str, Any] | None = None,
    vjp: Mapping[str, Callable[..., Any]] | None = None,
    jvp: Mapping[str, Callable[..., Any]] | None = None,
    method: str | None = None,
    inplace: bool = True,
    samples: Sequence[Sample] = (),
    **partials: Callable[..., Any],
) -> Callable[..., Tensor]:
    """Register an elementwise op from its partial derivatives times `t`, one keyword per argument.

    Reverse mode, forward mode, batching and broadcasting follow. If the function is not holomorphic on complex numbers,
    give `vjp` and `jvp` instead. Without any rule the op has no derivative. `method` adds it to tensors, with its
    in-place form.

    Args:
        name: name `"library::name"`.
        forward: function of arrays, or the name of one of NumPy's.
        args: names of the arguments, separated by spaces.
        settings: settings of the op with their defaults.
        vjp: reverse rules by argument, for a function that is not holomorphic.
        jvp: forward rules by argument. They come together with `vjp`.
        method: name of the method on tensors. None adds none.
        inplace: whether the op has an in-place form.
        samples: samples for `check`.
        **partials: for each argument a rule that returns the partial derivative times `t`.

    Raises:
        ValueError: if the name is taken, or a rule names an unknown parameter.

    >>> import numpy as np, ndgrad
    >>> softer = ndgrad.library.elementwise(
    ...     "doc::softer", lambda np, x: x / (1 + np.abs(x)),
    ...     x=lambda t, x, ops: t / (1.0 + ops.abs(x)) ** 2, method="softer",
    ... )
    >>> x = ndgrad.tensor([1.0, -3.0], requires_grad=True)
    >>> softer(x).sum().backward()
    >>> x.grad, x.detach().softer()
    (tensor([0.2500, 0.0625]), tensor([ 0.5000, -0.7500]))
    >>> ndgrad.library.remove("doc::softer")
    """
    own = _own_name(name)
    for given, what in ((vjp, "vjp"), (jvp, "jvp")):
        if partials and given is not None:
            raise ValueError(f"{name}: rules are given by argument and as {what}. Give one or the other. [nd-op-block]")
    if (vjp is None) != (jvp is None):
        raise ValueError(
            f"{name}: vjp and jvp come together. Give both, or one rule per argument, which serves as both. "
            "[nd-op-block]"
        )
    _check_forward(name, forward)
    names = args.split()
    known = _saved_names(names, settings or {}, 1)
    for arg, rule in {**partials, **(vjp or {}), **(jvp or {})}.items():
        if arg not in names:
            raise ValueError(
                f"{name}: there is a rule for {arg!r}, and the arguments are {', '.join(names)}. "
                "Name the rule after one. [nd-op-block]"
            )
        _check_rule(name, arg, rule, known | {"t", "g"})
    rules: dict[str, Any] = partials
    made = _table.elementwise(
        own,
        forward,
        args=args,
        settings=settings,
        vjp=vjp,
        jvp=jvp,
        backward_name=None,
        inplace=inplace,
        halves=None,
        **rules,
    )
    _check_names(name, made)
    return _publish(name, made, make_eager(made, public=True), method, samples)


def op(
    name: str,
    args: str,
    forward: str | Callable[..., Any],
    *,
    vjp: Mapping[str, Callable[..., Any]] | Callable[..., Any] | _Word,
    jvp: Rules = None,
    batch: str | Callable[..., Any] | _Word,
    settings: Mapping[str, Any] | None = None,
    constant: str = "",
    optional: str = "",
    outputs: int = 1,
    discrete_outputs: Sequence[int] = (),
    variadic: bool = False,
    view: bool = False,
    method: str | None = None,
    samples: Sequence[Sample] = (),
) -> Callable[..., Any]:
    """Register an op of any kind. `vjp`, `jvp` and `batch` follow the manual in `ndgrad._src.ops.table`; use
    NOT_DIFFERENTIABLE or DATA_DEPENDENT if there is none.

    Args:
        name: name `"library::name"`.
        args: names of the arguments, separated by spaces.
        forward: function of arrays, or the name of one of NumPy's.
        vjp: reverse rules: a dict by argument, one function for all, or NOT_DIFFERENTIABLE.
        jvp: forward rules: a dict by argument, one function for all, or a word of the manual such as `"linear"`.
        batch: batching rule: `"elementwise"`, `"leading"`, `"dims"`, a function, or DATA_DEPENDENT.
        settings: settings of the op with their defaults.
        constant: names of arguments without a derivative, separated by spaces.
        optional: names of arguments that may be None, separated by spaces.
        outputs: number of outputs, or VARIABLE.
        discrete_outputs: positions of outputs without a derivative.
        variadic: whether the last argument stands for any number of tensors.
        view: whether the output is a view of the first argument.
        method: name of the method on tensors. None adds none.
        samples: samples for `check`.

    Raises:
        ValueError: if the name is taken, or a rule names an unknown parameter.

    >>> import ndgrad
    >>> def moment(np, x, *, order):
    ...     return (x**order).sum(-1)
    >>> f = ndgrad.library.op(
    ...     "doc::moment", "x", moment, settings={"order": 2},
    ...     vjp={"x": lambda g, x, order, ops: ops.unsqueeze(g, dim=len(x.shape) - 1) * order * x ** (order - 1)},
    ...     jvp={"x": lambda t, x, order, ops: ops.sum(t * order * x ** (order - 1), dim=(len(x.shape) - 1,))},
    ...     batch="leading",
    ... )
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> f(x, order=3).backward()
    >>> x.grad
    tensor([ 3., 12.])
    >>> ndgrad.library.remove("doc::moment")
    """
    own = _own_name(name)
    _check_forward(name, forward)
    names = args.split()
    known = _saved_names(names, settings or {}, outputs)
    gradients = {"g"} if outputs == 1 else {"gs"} if outputs == VARIABLE else {f"g{i}" for i in range(outputs)}
    _check_rules(name, "vjp", vjp, names, known | gradients, known | gradients | {"needs"})
    _check_rules(name, "jvp", jvp, names, known | {"t"}, known | {f"{a}_t" for a in names} | {"ts"})
    if callable(batch):
        _check_rule(name, "batch", batch, set(names) | set(settings or {}) | {"ops", "batched"})
    elif batch not in ("elementwise", "leading", "dims", DATA_DEPENDENT, RANDOM):
        raise ValueError(
            f"{name}: batch={batch!r} is no batching rule. Give 'elementwise', 'leading', 'dims', "
            "DATA_DEPENDENT or a function. [nd-op-block]"
        )
    made = _table.op(
        own, args, forward,
        vjp=vjp, jvp=jvp, batch=batch, settings=settings, constant=constant, optional=optional, outputs=outputs,
        discrete_outputs=discrete_outputs, variadic=variadic, view=view,
    )  # fmt: skip
    _check_names(name, made)
    return _publish(name, made, made.eager, method, samples)


# ----- names and places -----------------------------------------------------------------------------------------------


def _own_name(name: str) -> str:
    """Return the name in the table of an op called "library::name"."""
    library, separator, short = name.partition("::")
    if not separator or not library.isidentifier() or not short.isidentifier():
        raise ValueError(
            f"an op is registered as 'library::name', so that libraries do not collide, and this one is {name!r}. "
            "[nd-op-block]"
        )
    if library in ("ndgrad", "aten") or library in _own_modules():
        raise ValueError(
            f"{name!r}: ops of the namespace {library!r} are the project's own. Choose the name of your library. "
            "[nd-op-block]"
        )
    if name in _registered:
        raise ValueError(
            f"{name!r} is registered already. Call ndgrad.library.remove({name!r}) first, or choose another name. "
            "[nd-op-block]"
        )
    return f"{library}_{short}"


def _own_modules() -> frozenset[str]:
    import pkgutil

    from ndgrad._src import ops  # only for names of its files

    return frozenset(module.name for module in pkgutil.iter_modules(ops.__path__))


def _publish(
    name: str, made: Op, function: Callable[..., Any], method: str | None, samples: Sequence[Sample]
) -> Callable[..., Any]:
    if method is not None and (not method.isidentifier() or hasattr(Tensor, method)):
        del _table.table[made.name]
        raise ValueError(
            f"{name}: tensors have {method!r} already, or it is no name. Choose another for method=. [nd-op-block]"
        )
    function.op = made  # type: ignore[attr-defined]  # functions take attributes
    if method is not None:
        setattr(Tensor, method, function)
        if made.inplace:
            setattr(Tensor, method + "_", in_place(function))
    _registered[name] = Registered(function, made, method, tuple(samples))
    return function


def remove(name: str) -> None:
    """Remove a registered op, with its method. Existing results stay valid.

    Args:
        name: name `"library::name"`.

    Raises:
        KeyError: if no op of that name is registered.

    >>> import ndgrad
    >>> _ = ndgrad.library.elementwise("doc::half", lambda np, x: x / 2, x=lambda t: t / 2)
    >>> ndgrad.library.remove("doc::half")
    >>> "doc::half" in ndgrad.library.registered()
    False
    """
    entry = _registered.pop(name, None)
    if entry is None:
        raise KeyError(f"no op {name!r} is registered; there are {', '.join(_registered) or 'none'} [nd-key]")
    del _table.table[entry.op.name]
    forget(entry.op.name)
    if entry.method is not None:
        delattr(Tensor, entry.method)
        if entry.op.inplace:
            delattr(Tensor, entry.method + "_")


def _check_names(name: str, made: Op) -> None:
    """Refuse an op whose names the generated code uses for something else."""
    try:
        check_names(made)
    except ValueError as error:
        del _table.table[made.name]
        raise ValueError(f"{name}: {error}") from None


# ----- names that rules may use ---------------------------------------------------------------------------------------


def _saved_names(args: Sequence[str], settings: Mapping[str, Any], outputs: int) -> set[str]:
    out = {"out"} if outputs == 1 else {f"out{i}" for i in range(outputs)}
    facts = {f"{a}_{fact}" for a in args for fact in ("shape", "dtype", "ndim")}
    return {*args, *out, *facts, *settings, "ops"}


def _check_forward(name: str, forward: object) -> None:
    if isinstance(forward, str):
        if not hasattr(np, forward):
            raise ValueError(
                f"{name}: forward={forward!r} names a function of the array library, and NumPy has none. "
                "Give a function. [nd-op-block]"
            )
    elif not callable(forward):
        raise TypeError(
            f"{name}: forward is {type(forward).__name__}. Give a function of arrays, or the name of one of NumPy's. "
            "[nd-op-block]"
        )


def _check_rules(name: str, kind: str, rules: Rules, args: Sequence[str], single: set[str], joint: set[str]) -> None:
    if isinstance(rules, Mapping):
        for arg, rule in rules.items():
            if arg not in args:
                raise ValueError(
                    f"{name}: {kind} has a rule for {arg!r}, and the arguments are {', '.join(args)}. [nd-op-block]"
                )
            _check_rule(name, f"{kind} of {arg}", rule, single)
    elif callable(rules):
        _check_rule(name, kind, rules, joint)
    elif (
        rules is not None and rules is not NOT_DIFFERENTIABLE and rules not in ("linear", "multilinear", "elementwise")
    ):
        raise ValueError(
            f"{name}: {kind}={rules!r} is no rule. Give a dict of functions, a function, "
            "a word of the manual, or NOT_DIFFERENTIABLE. [nd-op-block]"
        )


def _check_rule(name: str, which: str, rule: Callable[..., Any], known: set[str]) -> None:
    """Refuse a rule with unknown parameter names, which would otherwise only fail in backward."""
    try:
        wanted = _table.parameter_names(rule)
    except AttributeError:
        raise TypeError(
            f"{name}: the rule for {which} is {rule!r}. Give a Python function: "
            "the names of its parameters say what is saved. [nd-op-block]"
        ) from None
    unknown = [n for n in wanted if n not in known]
    if unknown:
        raise ValueError(
            f"{name}: the rule for {which} names {', '.join(unknown)}, and a rule can name {', '.join(sorted(known))}. "
            "Rename the parameter, or declare the setting. [nd-op-block]"
        )


# ----- checks ---------------------------------------------------------------------------------------------------------


def checks(name: str | None = None) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield all checks of registered ops on their samples, one by one, for parametrised tests.

    Args:
        name: name of one op. None means all.

    >>> import pytest, ndgrad
    >>> @pytest.mark.parametrize(("label", "run"), ndgrad.library.checks())
    ... def test_my_ops(label, run):
    ...     run()
    """
    for registered_as, entry in list(_registered.items()):
        if name is None or name == registered_as:
            for number, sample in enumerate(entry.samples):
                for what, run in checks_of(entry.op, sample):
                    yield f"{registered_as}[{number}] {what}", run


def check(function: str | Callable[..., Any], *samples: Sample) -> list[str]:
    """Check everything that the table promises of a registered op, on the given samples or on its own; return the
    checks that ran.

    Values against the sample's reference, forward mode against differences, reverse mode as its transpose, second
    derivatives, batching against a loop.

    Args:
        function: registered function, or its name.
        *samples: samples to check. Without any, those of the registration are used.

    Raises:
        Failure: if a check fails.

    >>> import numpy as np, ndgrad
    >>> from ndgrad.testing import Sample
    >>> _ = ndgrad.library.elementwise("doc::cube", lambda np, x: x * x * x, x=lambda t, x: 3.0 * t * x * x)
    >>> ran = ndgrad.library.check("doc::cube", Sample((np.array([0.5, 2.0]),), reference=lambda x: x**3))
    >>> len(ran) > 3
    True
    >>> ndgrad.library.remove("doc::cube")
    """
    name = (
        function
        if isinstance(function, str)
        else next((n for n, e in _registered.items() if e.function is function), None)
    )
    if name is None or name not in _registered:
        raise KeyError(f"{function!r} is no registered op; there are {', '.join(_registered) or 'none'} [nd-key]")
    entry = _registered[name]
    chosen = samples or entry.samples
    if not chosen:
        raise Failure(
            f"{name}: there is no sample to check it on. Give some: check(f, Sample((array,), reference=...)). "
            "[nd-op-check]"
        )
    return [what for sample in chosen for what in check_op(entry.op, sample)]
