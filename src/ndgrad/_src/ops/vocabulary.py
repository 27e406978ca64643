"""What rules compute with: the table's ops, on raw arrays or on tensors.

A rule that names `ops` is handed one of these. `RawOps(numpy).sum` is the forward function of op `sum`, so an ordinary
backward runs without wrappers; `TensorOps().sum` is the op itself, so the same rule records a graph. Names are looked
up once and kept on the instance.

A name with an underscore at its end (`ops.index_put_(g, ...)`) is the op that may change its first argument.
It does so only in a vocabulary that `owns` the gradient (see ndgrad._src.core.part_gradients); in the others it is the
op without the underscore.

The conjugate of a real value is that value, and no op: another tensor over the same memory would
not know of writes to it.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any

from ndgrad._src import ops
from ndgrad._src.foundations import registry
from ndgrad._src.ops.table import Op, table


def find(name: str) -> Op:
    """The op of a name. Families are loaded when first used, so a name that is unknown yet may
    come from one of them."""
    if name not in table:
        load_all()
    found = table.get(name)
    if found is None:
        raise AttributeError(f"no op {name!r} in the table [nd-bug]")
    return found


def load_all() -> None:
    """Import every file of ops, so that the table is complete."""
    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"ndgrad._src.ops.{module.name}")


def _is_complex(x: Any) -> bool:
    dtype = x.dtype  # torch's dtypes are ndgrad's own
    return bool(getattr(dtype, "numpy", dtype).kind == "c")


class RawOps:
    """The ops' forward functions over one array library."""

    raw = True
    owns = False

    def __init__(self, library: Any) -> None:
        self.np = library

    def conj(self, x: Any) -> Any:
        return self.np.conjugate(x) if x.dtype.kind == "c" else x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        bound = self._writing(name[:-1]) if name.endswith("_") else find(name).forward_for(self.np)
        setattr(self, name, bound)
        return bound

    def _writing(self, name: str) -> Any:
        return find(name).forward_for(self.np)


class OwningRawOps(RawOps):
    """The same for a gradient that may be changed."""

    owns = True

    def _writing(self, name: str) -> Any:
        op = find(name)
        assert op.write_kernel is not None
        return functools.partial(op.write_kernel, self.np, **op.settings)


class TensorOps:
    """The ops themselves."""

    raw = False
    owns = False

    def conj(self, x: Any) -> Any:
        return find("conj").eager(x) if _is_complex(x) else x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        eager = self._writing(name[:-1]) if name.endswith("_") else find(name).eager
        setattr(self, name, eager)
        return eager

    def _writing(self, name: str) -> Any:
        return find(name).eager


class OwningTensorOps(TensorOps):
    """The same for a gradient that may be changed."""

    owns = True

    def _writing(self, name: str) -> Any:
        op = find(name)
        write = registry.recorder.write
        return lambda target, *others, **settings: write(op, target, others, {**op.settings, **settings})


class PlainOps:
    """The ops on tensors of which it is known that no mode and no level concerns them."""

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
_raw: dict[Any, RawOps] = {}
_owning: dict[Any, OwningRawOps] = {}


def raw_ops(library: Any) -> RawOps:
    made = _raw.get(library)
    if made is None:
        made = _raw[library] = RawOps(library)
    return made


def owning_raw_ops(library: Any) -> OwningRawOps:
    made = _owning.get(library)
    if made is None:
        made = _owning[library] = OwningRawOps(library)
    return made


def forget(name: str) -> None:
    """Drop what is kept of an op that has been taken out of the table."""
    for kept in (tensor_ops, owning_tensor_ops, plain_ops, *_raw.values(), *_owning.values()):
        vars(kept).pop(name, None)
        vars(kept).pop(name + "_", None)
