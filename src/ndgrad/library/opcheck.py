"""`opcheck`: tests of an op's registrations on example arguments, under torch's names for the tests."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import ndgrad
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import pytree
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.library.custom_op import as_overload
from ndgrad.library.overloads import OpOverload
from ndgrad.testing import assert_close

__all__ = ["OpCheckError", "opcheck"]

_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """A registration of an op is wrong or missing."""


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Check the registrations of an op on example arguments; return the outcome of each test.

    The tests: "test_schema" (writes and aliases as declared), "test_autograd_registration" (a derivative is there),
    "test_faketensor" (the fake kernel gives the shapes of the real one), "test_aot_dispatch_dynamic" (compiled calls
    give the eager values and gradients). Derivatives themselves are checked by `ndgrad.autograd.gradcheck`.

    Args:
        op: name `"library::name"`, op, or result of `custom_op`.
        args: example arguments.
        kwargs: example keyword arguments.
        test_utils: name or names of the tests to run.
        raise_exception: whether a failure raises. Otherwise the error is the outcome of its test.
        atol, rtol: tolerances for compiled calls. None means those of the dtype.

    Returns:
        A dict from the names of the tests to `"SUCCESS"` or an error.

    Raises:
        OpCheckError: if a test fails.

    >>> import ndgrad
    >>> @ndgrad.library.custom_op("doc::thrice", mutates_args=())
    ... def thrice(x: ndgrad.Tensor) -> ndgrad.Tensor:
    ...     return 3 * x
    >>> _ = thrice.register_fake(lambda x: ndgrad.empty_like(x))
    >>> thrice.register_autograd(lambda ctx, g: 3 * g)
    >>> ndgrad.library.opcheck(thrice, (ndgrad.ones(2, requires_grad=True),))["test_schema"]
    'SUCCESS'
    """
    chosen = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    unknown = set(chosen) - set(_TESTS)
    if unknown:
        names = ", ".join(sorted(unknown))
        raise ValueError(f"opcheck: there is no test {names}; give some of {_TESTS}. [nd-arguments]")
    overload, named = as_overload(op), dict(kwargs or {})
    tests: dict[str, Callable[[], None]] = {
        "test_schema": lambda: _check_schema(overload, args, named),
        "test_autograd_registration": lambda: _check_registration(overload, args, named),
        "test_faketensor": lambda: _check_fake(overload, args, named),
        "test_aot_dispatch_dynamic": lambda: _check_compiled(overload, args, named, atol, rtol),
    }
    outcomes: dict[str, Any] = {}
    for name in chosen:
        try:
            tests[name]()
            outcomes[name] = "SUCCESS"
        except Exception as error:
            outcomes[name] = error
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace) [nd-op-check]"
                ) from error
    return outcomes


def _copy(tree: Any) -> Any:
    """Return arguments whose tensors are copies, leaves that require grad where the originals do."""
    return pytree.tree_map(
        lambda t: t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else copy.copy(t), tree
    )


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Variable)]


def _check_schema(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given, named = _copy((args, kwargs))
    values = overload._schema.bind(given, named)
    before = [[t.detach().clone() for t in _tensors(v)] for v in values]
    with ndgrad.no_grad():
        out = overload(*given, **named)
    for argument, value, old in zip(overload._schema.arguments, values, before, strict=True):
        for t, was in zip(_tensors(value), old, strict=True):
            same = t.shape == was.shape and bool(((t.detach() == was) | ((t != t) & (was != was))).all())
            if not same and not argument.is_write:
                raise RuntimeError(f"Argument {argument.name} is not defined as mutable but was mutated [nd-op-check]")
    inputs = {t.untyped_storage().data_ptr() for v in values for t in _tensors(v) if t.numel()}
    for result, declared in zip(out if isinstance(out, tuple) else (out,), overload._schema.returns, strict=False):
        if declared.alias_info is None and any(
            t.untyped_storage().data_ptr() in inputs for t in _tensors(result) if t.numel()
        ):
            raise RuntimeError(
                f"{overload.name()}: a result is an alias of an argument, and the schema does not say so [nd-op-check]"
            )


def _check_registration(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not any(t.requires_grad for t in _tensors((args, kwargs))):
        return
    known = overload.backward is not None or {"Autograd", "CompositeImplicitAutograd"} & overload.kernels.keys()
    given, named = _copy((args, kwargs))
    results = _tensors(overload(*given, **named))
    if not known and any(t.requires_grad for t in results):
        raise AssertionError(
            f"{overload.name()}: at least one output of this op requires grad but the op has no autograd kernel. "
            "Register one with register_autograd, or return results that do not require grad [nd-op-check]"
        )


def _check_fake(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given, named = _copy((args, kwargs))
    with ndgrad.no_grad():
        real = _tensors(overload(*given, **named))
        fake = _tensors(overload(*_as_meta(given), **_as_meta(named)))
    if len(real) != len(fake):
        raise AssertionError(f"the fake impl returns {len(fake)} tensors, the kernel {len(real)} [nd-op-check]")
    for number, (r, f) in enumerate(zip(real, fake, strict=True)):
        if r.shape != f.shape or r.dtype != f.dtype:
            raise AssertionError(
                f"output {number}: the kernel returns {r.dtype} of shape {tuple(r.shape)}, the fake impl {f.dtype} of "
                f"shape {tuple(f.shape)} [nd-op-check]"
            )


def _as_meta(tree: Any) -> Any:
    return pytree.tree_map(lambda t: t.detach().to("meta") if isinstance(t, Variable) else t, tree)


def _check_compiled(
    overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], atol: float | None, rtol: float | None
) -> None:
    compiled = ndgrad.compile(lambda *a, **k: overload(*a, **k))
    found = []
    for function in (overload, compiled):
        given, named = _copy((args, kwargs))
        inputs = [t for t in _tensors((given, named)) if t.requires_grad]
        results = _tensors(function(*given, **named))
        smooth = [t for t in results if t.requires_grad]
        grads = ndgrad.autograd.grad([t.sum() for t in smooth], inputs, allow_unused=True) if smooth and inputs else ()
        found.append([*[t.detach() for t in _tensors((given, named))], *[t.detach() for t in results], *grads])
    for eager, other in zip(*found, strict=True):
        if eager is None or other is None:
            if eager is not other:
                raise AssertionError("a gradient exists in only one of the eager and the compiled call [nd-op-check]")
        else:
            assert_close(other, eager, atol=atol, rtol=rtol)
