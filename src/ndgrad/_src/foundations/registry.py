"""Hooks: calls from a lower layer to a higher one.

A layer imports only lower layers (see ndgrad._src). A lower layer may need a function of a higher one because a mode is
on, a transform is open or a result needs its class. It calls the function through a module loaded on first use:
`registry.source_lines.remember_call(node)`. Type checkers know the modules, and an unused layer is never loaded.

Three values are registered instead, because the core needs them before their module may be loaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = [
    "Tensor",
    "accumulate",
    "anomaly",
    "array_api",
    "autocast",
    "checksum",
    "custom_functions",
    "data",
    "eager_kernels",
    "forward_ad",
    "interpreters",
    "level_number",
    "nested",
    "numpy_arguments",
    "numpy_array",
    "numpy_functions",
    "numpy_ufuncs",
    "provenance",
    "recorder",
    "register",
    "scipy_sparse",
    "source_lines",
    "sparse",
    "transforms",
]

#: Modules of higher layers, loaded when a lower layer first uses them.
MODULES = {
    "recorder": "ndgrad._src.core.recorder",
    "accumulate": "ndgrad._src.engine.accumulate",
    "forward_ad": "ndgrad._src.interpreters.forward_ad",
    "source_lines": "ndgrad._src.debug.source_lines",
    "provenance": "ndgrad._src.debug.provenance",
    "checksum": "ndgrad._src.debug.checksum",
    "anomaly": "ndgrad._src.debug.anomaly",
    "data": "ndgrad._src.tensor.functions.data",
    "custom_functions": "ndgrad._src.transforms.custom_functions",
    "transforms": "ndgrad._src.transforms.transforms",
    "eager_kernels": "ndgrad._src.compiler.runtime.eager_kernels",
    "autocast": "ndgrad.amp.autocast_mode",
    "array_api": "ndgrad.array_api.version",
    "nested": "ndgrad.nested.tensor",
    "sparse": "ndgrad.sparse.tensor",
    "numpy_array": "ndgrad.numpy._array",
    "numpy_arguments": "ndgrad.numpy.coercion",
    "numpy_functions": "ndgrad.numpy.dispatch",
    "numpy_ufuncs": "ndgrad.numpy.ufuncs",
    "scipy_sparse": "ndgrad.scipy.sparse.arrays",
}

#: The class of plain results, registered by the tensor layer.
Tensor: type[Any]
#: The number of a tensor's level, registered by the interpreters. Without open transforms it is 0.
level_number: Callable[[Any], int] = lambda t: 0
#: Interpreters of open levels in place of forward mode (sparsity, Taylor series), by the number of the level.
interpreters: dict[int, Any] = {}

_VALUES = frozenset(("Tensor", "level_number", "interpreters"))


def register(**provided: Any) -> None:
    """Provide values under their names here. Reloading a module replaces its values."""
    unknown = provided.keys() - _VALUES
    if unknown:
        raise NameError(
            f"ndgrad._src.foundations.registry declares no {', '.join(sorted(unknown))}: declare it there, "
            "with its provider. [nd-bug]"
        )
    globals().update(provided)


if TYPE_CHECKING:
    import ndgrad.amp.autocast_mode as autocast
    import ndgrad.array_api.version as array_api
    import ndgrad.nested.tensor as nested
    import ndgrad.numpy._array as numpy_array
    import ndgrad.numpy.coercion as numpy_arguments
    import ndgrad.numpy.dispatch as numpy_functions
    import ndgrad.numpy.ufuncs as numpy_ufuncs
    import ndgrad.scipy.sparse.arrays as scipy_sparse
    import ndgrad.sparse.tensor as sparse
    from ndgrad._src.compiler.runtime import eager_kernels as eager_kernels
    from ndgrad._src.core import recorder as recorder
    from ndgrad._src.debug import anomaly as anomaly
    from ndgrad._src.debug import checksum as checksum
    from ndgrad._src.debug import provenance as provenance
    from ndgrad._src.debug import source_lines as source_lines
    from ndgrad._src.engine import accumulate as accumulate
    from ndgrad._src.interpreters import forward_ad as forward_ad
    from ndgrad._src.tensor.functions import data as data
    from ndgrad._src.transforms import custom_functions as custom_functions
    from ndgrad._src.transforms import transforms as transforms
else:

    def __getattr__(name: str) -> Any:
        home = MODULES.get(name)
        if home is None:
            known = "is declared, and its layer is not loaded" if name in _VALUES else "is not declared"
            raise AttributeError(f"ndgrad._src.foundations.registry.{name} {known}. [nd-bug]")
        module = globals()[name] = importlib.import_module(home)
        return module
