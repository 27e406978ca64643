"""Hooks that let a lower layer call a function of a higher layer.

The layers of the package are a stack (see the map in CONTRIBUTING.md), and no layer imports one above it. A lower layer
sometimes must call upwards: a debug mode is on, a transform is open, or a result needs its class. It then calls a name
of this module. The higher layer registers its function under that name when it is loaded. It is always loaded in time:
either `import ndgrad` loads it, or only this layer can create the state in which the hook is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

# ----- provided by the core to the op table: functions generated from an op's block on first use -----
make_eager: Callable[..., Any]
make_widening: Callable[..., Any]
write: Callable[..., Any]
lift: Callable[..., Any]
innermost_array: Callable[..., Any]

# ----- provided by later files of the core to earlier ones -----
accumulate_tensor: Callable[..., Any]
dispatch_as: Callable[..., Any]
unshared: Callable[..., Any]
register_node_hook: Callable[..., Any]
register_node_prehook: Callable[..., Any]
count_while_alive: Callable[..., Any]
move_retained: Callable[..., Any]

# ----- provided by the files that open a mode, for calls made while it is open -----
dual_op: Callable[..., Any]
with_saved_tangents: Callable[..., Any]
level_number: Callable[[Any], int] = lambda t: 0  # no transform is open before transforms are loaded
pack: Callable[..., Any]
pack_input: Callable[..., Any]
pack_output: Callable[..., Any]
watched_op: Callable[..., Any]
watched_write: Callable[..., Any]
evaluation: Callable[..., Any]
accumulate_leaves: Callable[..., Any]
observed_forward: Callable[..., Any]
observed_write: Callable[..., Any]
autocast_call: Callable[..., Any]

#: Interpreters that replace forward mode for the duals of an open level: sparsity, Taylor series.
interpreters: dict[int, Any] = {}

# ----- provided by ndgrad._src.debug -----
remember_call: Callable[..., Any]
user_frames: Callable[..., Any]
innermost: Callable[..., Any]
place_of: Callable[..., Any]
note_results: Callable[..., Any]
note_write: Callable[..., Any]
note_function: Callable[..., Any]
note_data: Callable[..., Any]
note_departure: Callable[..., Any]
guard_saved: Callable[..., Any]
guarded: Callable[..., Any]
watch_for_anomalies: Callable[..., Any]

# ----- provided by the tensor classes: classes of dense, sparse and nested results, new leaves, and conversion of lists
# to NumPy-style arrays -----
Tensor: type[Any]
SparseTensor: type[Any]
NestedTensor: type[Any]
sparse_ufunc: Callable[..., Any]
as_array: Callable[..., Any]
fresh: Callable[..., Any]

# ----- provided by rarely needed layers, which are loaded when one of these names is first used -----
apply_in_transforms: Callable[..., Any]
array_function: Callable[..., Any]
array_ufunc: Callable[..., Any]
make_node_class: Callable[..., Any]
native_kernels: Callable[[], Any]
device_kernels: Callable[[], Any]
matmul_with_tensors: Callable[..., Any]
namespace: Callable[..., Any]
scipy_special: Callable[..., Any]
to_array: Callable[..., Any]
to_tensor: Callable[..., Any]
vmap: Callable[..., Any]

#: The modules loaded on demand: the only modules of higher layers that this layer names.
LOADED_ON_DEMAND = {
    "apply_in_transforms": "ndgrad._src.transforms.custom_functions",
    "array_function": "ndgrad.numpy.dispatch",
    "array_ufunc": "ndgrad.numpy.ufuncs",
    "make_node_class": "ndgrad._src.core.node_classes",
    "native_kernels": "ndgrad._src.compiler.runtime.eager_kernels",
    "device_kernels": "ndgrad._src.compiler.runtime.eager_kernels",
    "matmul_with_tensors": "ndgrad.scipy.sparse.arrays",
    "namespace": "ndgrad.array_api",
    "scipy_special": "ndgrad.scipy.special",
    "to_array": "ndgrad.numpy._array",
    "to_tensor": "ndgrad.numpy._array",
    "vmap": "ndgrad._src.transforms.transforms",
}

_NAMES = frozenset(__annotations__)


def register(**provided: Any) -> None:
    """Provide functions under names declared here. A reloaded module replaces its own functions."""
    unknown = provided.keys() - _NAMES
    if unknown:
        raise NameError(
            f"ndgrad._src.foundations.registry declares no {', '.join(sorted(unknown))}: declare it there, "
            "in the section of the layer that provides it. [nd-bug]"
        )
    globals().update(provided)


if not TYPE_CHECKING:  # hidden, because type checkers would otherwise accept misspelt names

    def __getattr__(name: str) -> Any:
        home = LOADED_ON_DEMAND.get(name)
        if home is None:
            known = "is declared, but its layer is not loaded" if name in _NAMES else "is not declared"
            raise AttributeError(f"ndgrad._src.foundations.registry.{name} {known}. [nd-bug]")
        importlib.import_module(home)
        return globals()[name]
