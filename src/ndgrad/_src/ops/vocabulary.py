"""Vocabularies: the table's ops as rules call them, on raw arrays or on tensors.

A rule that names `ops` receives a vocabulary. `RawOps(numpy).sum` is the forward function of op `sum`, so an ordinary
backward pass runs without wrappers. `TensorOps().sum` is the op itself, so the same rule records a graph. Names are
looked up once and cached on the instance.

A name with a trailing underscore (`ops.index_put_(g, ...)`) is the op that may change its first argument. It does so
only in a vocabulary that `owns` the gradient (see ndgrad._src.core.part_gradients). In other vocabularies it is the op
without the underscore.

The conjugate of a real value is the value itself, without an op: a second tensor over the same memory would not notice
writes to it.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy

from ndgrad._src import ops
from ndgrad._src.foundations import registry
from ndgrad._src.ops.table import Op, table


def find(name: str) -> Op:
    """Return the op with the given name. An unknown name may belong to a family that is not loaded yet."""
    if name not in table:
        load_all()
    found = table.get(name)
    if found is None:
        raise AttributeError(f"no op {name!r} in the table [nd-bug]")
    return found


def load_all() -> None:
    """Import every file of ops, so that the table is complete."""
    import pkgutil  # keeps the import of ndgrad fast

    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"ndgrad._src.ops.{module.name}")


def _is_complex(x: Any) -> bool:
    dtype = x.dtype  # torch's dtypes are classes of ndgrad, which hold a NumPy dtype
    return bool(getattr(dtype, "numpy", dtype).kind == "c")


class RawOps:
    """The ops' forward functions for one array library."""

    raw = True
    owns = False

    def __init__(self, library: Any) -> None:
        self.np = library

    def conj(self, x: Any) -> Any:
        return self.np.conjugate(x) if x.dtype.kind == "c" else x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        bound = self._bind_write(name[:-1]) if name.endswith("_") else self._bind(name)
        setattr(self, name, bound)
        return bound

    def _bind(self, name: str) -> Any:
        return find(name).forward_for(self.np)

    def _bind_write(self, name: str) -> Any:
        return self._bind(name)


class BareOps(RawOps):
    """The ops' forward functions on NumPy arrays that are never of half precision, for bodies of composite ops."""

    def _bind(self, name: str) -> Any:
        return find(name).bare_forward_for(self.np)


class OwningRawOps(RawOps):
    """Raw ops with in-place writes, for a gradient that the engine owns."""

    owns = True

    def _bind_write(self, name: str) -> Any:
        op = find(name)
        assert op.write_kernel is not None
        return functools.partial(op.write_kernel, self.np, **op.settings)


class TensorOps:
    """The ops themselves, on tensors."""

    raw = False
    owns = False

    def conj(self, x: Any) -> Any:
        return find("conj").eager(x) if _is_complex(x) else x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        eager = self._bind_write(name[:-1]) if name.endswith("_") else find(name).eager
        setattr(self, name, eager)
        return eager

    def _bind_write(self, name: str) -> Any:
        return find(name).eager


class OwningTensorOps(TensorOps):
    """Tensor ops with in-place writes, for a gradient that the engine owns."""

    owns = True

    def _bind_write(self, name: str) -> Any:
        op = find(name)
        write = registry.recorder.write
        return lambda target, *others, **settings: write(op, target, others, {**op.settings, **settings})


class PlainOps:
    """The ops on tensors that no mode and no transform level affects."""

    raw = False

    def conj(self, x: Any) -> Any:
        return find("conj").plain(x) if _is_complex(x) else x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        plain = find(name).plain
        setattr(self, name, plain)
        return plain


tensor_ops = TensorOps()
owning_tensor_ops = OwningTensorOps()
plain_ops = PlainOps()
_bare = BareOps(numpy)
_raw: dict[Any, RawOps] = {}
_owning: dict[Any, OwningRawOps] = {}


def raw_ops(library: Any) -> RawOps:
    made = _raw.get(library)
    if made is None:
        made = _raw[library] = RawOps(library)
    return made


def body_ops(library: Any) -> RawOps:
    """Return the vocabulary for the body of an op whose forward function never receives half precision."""
    return _bare if library is numpy else raw_ops(library)


def owning_raw_ops(library: Any) -> OwningRawOps:
    made = _owning.get(library)
    if made is None:
        made = _owning[library] = OwningRawOps(library)
    return made


def forget(name: str) -> None:
    """Drop cached functions of an op that was removed from the table."""
    for kept in (_bare, tensor_ops, owning_tensor_ops, plain_ops, *_raw.values(), *_owning.values()):
        vars(kept).pop(name, None)
        vars(kept).pop(name + "_", None)
