"""The functions of torch's private `torch._tensor_str`: the text of a tensor, for classes that print themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor import printing as _printing
from ndgrad._src.tensor.printing import printoptions, set_printoptions

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["PRINT_OPTS", "printoptions", "set_printoptions"]


class _Options:
    """The current print options, readable and writable one by one."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_printing._current_options(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            raise AttributeError(f"there is no print option {name!r} [nd-option]")
        set_printoptions(**{**_printing.get_printoptions(), name: value})


PRINT_OPTS = _Options()


def _tensor_str(self: Tensor, indent: int) -> str:
    """Return the nested brackets of a tensor, each line after the first indented."""
    return _printing.format_array(self.detach()._array, indent=indent)


def _add_suffixes(tensor_str: str, suffixes: Iterable[str], indent: int, force_newline: bool) -> str:
    """Return the text of a tensor with its suffixes and the closing parenthesis."""
    return _printing.append_suffixes(tensor_str, suffixes, indent=indent, force_newline=force_newline)


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return the text of a tensor; with `tensor_contents`, that text in place of the elements."""
    text = repr(self)
    if tensor_contents is None:
        return text
    inner = _tensor_str(self, text.index("(") + 1)
    return text.replace(inner, tensor_contents, 1)


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return the text of a tensor; see `_str`."""
    return _str(inp, tensor_contents=tensor_contents)


_refuse_absent(__name__)
