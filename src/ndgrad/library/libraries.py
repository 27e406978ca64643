"""`Library`: definitions and kernels of ops by dispatch key, which end with the library.

Keys with a meaning here: "CPU", "CUDA", "Meta", "CompositeExplicitAutograd" and "" (all devices),
"CompositeImplicitAutograd" (a composite of other ops), "Autograd" with its device forms (a function above the kernels),
and "FuncTorchBatched" (a batching rule). Other keys of torch name parts of its dispatcher, and are refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ndgrad.library.custom_op import _parse_name, _register_fake, as_overload, set_kernel
from ndgrad.library.overloads import (
    OpOverload,
    OpOverloadPacket,
    add_overload,
    find_overload,
    remove_overload,
    when_defined,
)
from ndgrad.library.schema import parse_schema

__all__ = ["Library", "define", "fallthrough_kernel", "impl"]

#: torch's dispatch keys that have a meaning, with the key under which they are kept.
_KEYS = {
    "": "CompositeExplicitAutograd", "CompositeExplicitAutograd": "CompositeExplicitAutograd",
    "CompositeImplicitAutograd": "CompositeImplicitAutograd", "CPU": "CPU", "CUDA": "CUDA", "Meta": "Meta",
    "Autograd": "Autograd", "AutogradCPU": "Autograd", "AutogradCUDA": "Autograd",
    "CompositeExplicitAutogradNonFunctional": "CompositeExplicitAutograd", "FuncTorchBatched": "FuncTorchBatched",
}  # fmt: skip
_OF_DISPATCHER = frozenset(
    "ADInplaceOrView BackendSelect Functionalize AutocastCPU AutocastCUDA Python PreDispatch Conjugate Negative "
    "ZeroTensor Undefined SparseCPU SparseCUDA MPS XPU XLA PrivateUse1 QuantizedCPU QuantizedCUDA NestedTensorCPU "
    "AutogradXPU AutogradMPS AutogradXLA AutogradPrivateUse1 AutogradOther AutogradNestedTensor SparseCsrCPU MkldnnCPU "
    "Tracer FuncTorchVmapMode HPU AutogradHPU Vulkan IPU MTIA FPGA Lazy".split()
)
#: Namespaces in which a "DEF" library is alive.
_defining: dict[str, Library] = {}


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """Mark a dispatch key as passed over. Registering it removes the function of the key.

    Args:
        *args, **kwargs: accepted for the error message of a direct call.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called. [nd-op-block]")


def _parse_key(key: str) -> str:
    found = _KEYS.get(key)
    if found is not None:
        return found
    if key in _OF_DISPATCHER:
        raise NotImplementedError(
            f"the dispatch key {key} names a part of torch's dispatcher that has no counterpart here. The keys are "
            f"{', '.join(k for k in _KEYS if k)}. [nd-unsupported]"
        )
    raise RuntimeError(f"could not parse dispatch key: {key} [nd-arguments]")


class Library:
    """Definitions and kernels of ops in a namespace.

    Args:
        ns: namespace of the ops.
        kind: `"DEF"` (the one library that defines the namespace), `"FRAGMENT"` (more definitions) or `"IMPL"` (kernels
            only).
        dispatch_key: dispatch key of kernels that are registered without one.

    >>> import ndgrad
    >>> lib = ndgrad.library.Library("doc", "FRAGMENT")
    >>> lib.define("add_n(Tensor x, int n=1) -> Tensor")
    'add_n'
    >>> lib.impl("add_n", lambda x, n=1: x + n, "CompositeImplicitAutograd")
    >>> ndgrad.ops.doc.add_n(ndgrad.ones(1), 3)
    tensor([4.])
    >>> lib._destroy()
    >>> hasattr(ndgrad.ops.doc, "add_n")
    False
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind} [nd-arguments]")
        if ns in ("prim", "ndgrad") or (ns == "aten" and kind != "IMPL"):
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name. [nd-op-block]"
            )
        if kind == "DEF":
            if ns in _defining:
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your "
                    "definitions in a single TORCH_LIBRARY block, or use the kind 'FRAGMENT'. [nd-op-block]"
                )
            _defining[ns] = self
        if dispatch_key:
            _parse_key(dispatch_key)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        #: Functions that take back what the library registered, in the order of registration.
        self._undo: list[Callable[[], Any]] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an op by its schema, and return its name.

        Args:
            schema: name and types of the op, such as `"f(Tensor x) -> Tensor"`.
            alias_analysis: accepted as in torch: `""`, `"FROM_SCHEMA"` or `"CONSERVATIVE"`. It has no effect, because
                the schema declares aliases.
            tags: tag or tags of the op.
        """
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis} [nd-arguments]")
        if self.kind == "IMPL":
            raise RuntimeError(
                f"Library({self.ns!r}, 'IMPL') implements ops and defines none. Use the kind 'FRAGMENT'. [nd-op-block]"
            )
        parsed = parse_schema(schema)
        made = add_overload(self.ns, parsed, (tags,) if not isinstance(tags, (tuple, list)) else tags)
        self._undo.append(lambda: remove_overload(made))
        return parsed.name.partition("::")[2] or parsed.name

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Register a function of an op for a dispatch key, in place of an earlier one. The op may be defined later.

        Args:
            op_name: name of the op, with or without the namespace, or the op.
            fn: kernel of the op.
            dispatch_key: dispatch key of the kernel. The default is that of the library.
            with_keyset: accepted only as False, because there is no set of dispatch keys.
            allow_override: accepted as in torch. It has no effect: a later function always replaces an earlier one.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)} [nd-type]")
        if with_keyset:
            raise NotImplementedError(
                "impl(with_keyset=True) passes torch's set of dispatch keys. There is none here. [nd-unsupported]"
            )
        key = _parse_key(dispatch_key or self.dispatch_key)
        name = op_name.name() if isinstance(op_name, OpOverload) else op_name
        full = name if "::" in name else f"{self.ns}::{name}"
        if self.ns == "aten" or full.startswith("aten::"):
            raise NotImplementedError(
                f"{full}: the ops of ndgrad cannot be replaced by a kernel. Use a dispatch mode, which sees every op: "
                "ndgrad.utils._python_dispatch.TorchDispatchMode. [nd-unsupported]"
            )
        if key == "FuncTorchBatched":
            raise NotImplementedError(
                f"{full}: a kernel for FuncTorchBatched receives torch's batched tensors. Register a rule instead: "
                "ndgrad.library.register_vmap. [nd-unsupported]"
            )
        if fn is fallthrough_kernel:
            when_defined(full, lambda overload: overload.kernels.pop(key, None) and None)
        else:
            when_defined(full, lambda overload: set_kernel(overload, key, fn, self))

    def _register_fake(self, op_name: str, fn: Callable[..., Any], _stacklevel: int = 1, **_: Any) -> None:
        _register_fake(find_overload(f"{self.ns}::{op_name}"), fn, self)

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Refuse a function for all ops of a dispatch key.

        Args:
            fn: accepted for the error message.
            dispatch_key: accepted for the error message.
            with_keyset: accepted for the error message.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"fallback for {dispatch_key or 'a dispatch key'} (with_keyset={with_keyset}, {fn!r}): there is no "
            "dispatcher by keys. Use a dispatch mode: ndgrad.utils._python_dispatch.TorchDispatchMode. [nd-unsupported]"
        )

    def _destroy(self) -> None:
        """Take back everything that the library registered."""
        while self._undo:
            self._undo.pop()()
        if _defining.get(self.ns) is self:
            del _defining[self.ns]


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """Return a library that is destroyed at the end of the block."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()


#: Libraries of `define` and `impl` calls without a library; they are never destroyed.
_kept: dict[str, Library] = {}


def _library_for(ns: str, lib: Library | None) -> Library:
    if lib is not None:
        return lib
    return _kept.get(ns) or _kept.setdefault(ns, Library(ns, "FRAGMENT"))


def define(
    qualname: Any, schema: Any = None, alias_analysis: str = "", *, lib: Library | None = None, tags: Any = ()
) -> Any:
    """Define an op without a kernel: `define("mylib::f", "(Tensor x) -> Tensor")`.

    With a library as the first argument, it is a decorator of the function: `define(lib, "f(Tensor x) -> Tensor")`.

    Args:
        qualname: name `"library::name"` or `"library::name.overload"`, or a Library.
        schema: types of the op, such as `"(Tensor x) -> Tensor"`. With a Library, the name comes first.
        alias_analysis: accepted as in torch. It has no effect, because the schema declares aliases.
        lib: library that the definition ends with. None means that it stays.
        tags: tag or tags of the op.

    >>> import ndgrad
    >>> ndgrad.library.define("doc::first", "(Tensor x) -> Tensor")
    >>> @ndgrad.library.impl("doc::first", "cpu")
    ... def first(x):
    ...     return x[0].clone()
    >>> ndgrad.ops.doc.first(ndgrad.tensor([5.0, 6.0]))
    tensor(5.)
    """
    if isinstance(qualname, Library):
        name = qualname.define(schema, alias_analysis, tags=tags)

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(name, function)
            return function

        return register
    namespace, short = _parse_name(str(qualname), with_overload=True)
    if not isinstance(schema, str) or not schema.lstrip().startswith("("):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got '
            f"{schema!r} [nd-op-block]"
        )
    _library_for(namespace, lib).define(short + schema, tags=tags)
    return None


_DEVICE_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "default": "CompositeExplicitAutograd"}


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Register the function of an op for device types: `impl("mylib::f", "cpu")`; a decorator without `func`.

    `types` is a device type, "default" for all, or a dispatch key. With a library as the first argument the form is
    `impl(lib, "f", "CPU")`.

    Args:
        qualname: name `"library::name"` or op, or a Library.
        types: device type or types, `"default"` for all, or dispatch keys. With a Library, the name of the op.
        func: kernel of the op. None gives a decorator. With a Library, the dispatch key.
        lib: library that the registration ends with. None means that it stays.

    >>> import ndgrad
    >>> ndgrad.library.define("doc::last", "(Tensor x) -> Tensor")
    >>> ndgrad.library.impl("doc::last", "default", lambda x: x[-1].clone())
    >>> ndgrad.ops.doc.last(ndgrad.tensor([5.0, 6.0]))
    tensor(6.)
    """
    if isinstance(qualname, Library):
        home, name = qualname, types
        key = "" if func is None else func

        def register_in(function: Callable[..., Any]) -> Callable[..., Any]:
            home.impl(name, function, key)
            return function

        return register_in
    found = as_overload(qualname) if not isinstance(qualname, (OpOverload, OpOverloadPacket)) else qualname
    overload = as_overload(found)
    keys = [types] if isinstance(types, str) else list(types)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        target = _library_for(overload.namespace, lib)
        for key in keys:
            target.impl(overload.name(), function, _DEVICE_KEYS.get(key, key), allow_override=True)
        return function

    if func is None:
        return register
    register(func)
    return None
