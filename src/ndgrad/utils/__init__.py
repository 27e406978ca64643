"""torch's `utils` namespace: checkpointing, data loading, dispatch modes, trees. Each part is loaded on first use."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

_SUBMODULES = frozenset(
    ("_mode_utils", "_python_dispatch", "_pytree", "checkpoint", "data", "dlpack", "hooks", "module_tracker", "weak")
)

if TYPE_CHECKING:
    from ndgrad.utils import _mode_utils as _mode_utils
    from ndgrad.utils import _python_dispatch as _python_dispatch
    from ndgrad.utils import _pytree as _pytree
    from ndgrad.utils import checkpoint as checkpoint
    from ndgrad.utils import data as data
    from ndgrad.utils import dlpack as dlpack
    from ndgrad.utils import hooks as hooks
    from ndgrad.utils import module_tracker as module_tracker
    from ndgrad.utils import weak as weak
else:

    def __getattr__(name: str) -> ModuleType:
        if name in _SUBMODULES:
            return importlib.import_module(f"ndgrad.utils.{name}")
        from ndgrad._src.foundations.missing_names import find_alias  # only for missing names

        found: ModuleType = find_alias(__name__, name)
        return found


def __dir__() -> list[str]:
    return sorted(_SUBMODULES)
