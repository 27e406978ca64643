"""`torch.compiler`: compile functions, and inspect or control compiling. The compiler is in ndgrad._src.compiler."""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any  # underscored: not part of the namespace

_HOMES = {
    **dict.fromkeys(("compile", "disable", "explain", "is_compiling", "reset"), "ndgrad._src.compiler.runtime.entry"),
    **dict.fromkeys(("graph", "kernel_list"), "ndgrad._src.compiler.report.inspection"),
    **dict.fromkeys(
        (
            "allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "is_dynamo_compiling",
            "is_exporting", "list_backends", "nested_compile_region", "set_stance",
        ),
        "ndgrad._src.compiler.runtime.directives",
    ),
}  # fmt: skip
__all__ = [*_HOMES]


def __getattr__(name: str) -> _Any:
    home = _HOMES.get(name)
    if home is None:
        from ndgrad._src.foundations.missing_names import refusal  # only for missing names

        raise refusal(__name__, name)
    return getattr(_importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
