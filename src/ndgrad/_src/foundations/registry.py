"""What lower rooms call and higher rooms provide.

The rooms of the package are a stack (CONTRIBUTING.md has the map), and no room imports one above it. Where a
lower room must call upwards all the same, because a mode of debugging is on, a transform is open or a result
needs its class, it calls a name of this module. The room above registers its function under that name when it is
loaded, and it is loaded by then: either `import ndgrad` loads it, or it is the only one that can bring about the
state in which the call is made.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

# ----- by the core, for the op table: what is made of a block on first use -----
make_eager: Callable[..., Any]
widening: Callable[..., Any]
write: Callable[..., Any]
lift: Callable[..., Any]
innermost_array: Callable[..., Any]

# ----- by later files of the core, for earlier ones -----
accumulate_tensor: Callable[..., Any]
dispatch_as: Callable[..., Any]
unshared: Callable[..., Any]
register_node_hook: Callable[..., Any]
register_node_prehook: Callable[..., Any]
count_while_alive: Callable[..., Any]
move_retained: Callable[..., Any]

# ----- by the files that open a mode, for the calls that are made while it is open -----
dual_op: Callable[..., Any]
with_saved_tangents: Callable[..., Any]
level_number: Callable[[Any], int] = lambda t: 0  # before transforms are loaded, none has been open
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

#: What runs ops on duals of some open levels in place of forward mode: sparsity, Taylor series.
interpreters: dict[int, Any] = {}

# ----- by ndgrad._src.debug -----
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

# ----- by the faces: the class of a plain result, of a sparse one and a nested one, a new leaf, and what NumPy's
# face makes of lists -----
Tensor: type[Any]
SparseTensor: type[Any]
NestedTensor: type[Any]
sparse_ufunc: Callable[..., Any]
as_array: Callable[..., Any]
fresh: Callable[..., Any]

# ----- by rooms that few programs need, which are loaded when one of these names is first used -----
apply_in_transforms: Callable[..., Any]
array_function: Callable[..., Any]
array_ufunc: Callable[..., Any]
make_node_class: Callable[..., Any]
native_kernels: Callable[[], Any]
device_kernels: Callable[[], Any]
matmul_beside_tensors: Callable[..., Any]
namespace: Callable[..., Any]
scipy_special: Callable[..., Any]
to_array: Callable[..., Any]
to_tensor: Callable[..., Any]
vmap: Callable[..., Any]

#: These rooms: the only places above it that a lower room names.
LOADED_ON_DEMAND = {
    "apply_in_transforms": "ndgrad._src.transforms.custom_functions",
    "array_function": "ndgrad.numpy.dispatch",
    "array_ufunc": "ndgrad.numpy.ufuncs",
    "make_node_class": "ndgrad._src.core.node_classes",
    "native_kernels": "ndgrad._src.compiler.runtime.eager_kernels",
    "device_kernels": "ndgrad._src.compiler.runtime.eager_kernels",
    "matmul_beside_tensors": "ndgrad.scipy.sparse.arrays",
    "namespace": "ndgrad.array_api",
    "scipy_special": "ndgrad.scipy.special",
    "to_array": "ndgrad.numpy._array",
    "to_tensor": "ndgrad.numpy._array",
    "vmap": "ndgrad._src.transforms.transforms",
}

_NAMES = frozenset(__annotations__)


def register(**provided: Any) -> None:
    """Provide functions under their names here. Loading a module again replaces its own."""
    unknown = provided.keys() - _NAMES
    if unknown:
        raise NameError(
            f"ndgrad._src.foundations.registry declares no {', '.join(sorted(unknown))}: declare it there, "
            "with who provides it and when. [nd-bug]"
        )
    globals().update(provided)


if not TYPE_CHECKING:  # or a misspelt name would pass the type checker

    def __getattr__(name: str) -> Any:
        home = LOADED_ON_DEMAND.get(name)
        if home is None:
            known = "is declared, and its room is not loaded" if name in _NAMES else "is not declared"
            raise AttributeError(f"ndgrad._src.foundations.registry.{name} {known}. [nd-bug]")
        importlib.import_module(home)
        return globals()[name]
