"""Names that the user trusts: allowed in files in addition to tensors and containers, although no other code of a file
runs.
"""

from __future__ import annotations

import contextvars
import io
import pickletools
from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import os

__all__ = [
    "add_safe_globals", "clear_safe_globals", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "safe_globals",
]  # fmt: skip

#: A class or function, optionally with its name in files.
Vouched: TypeAlias = "Callable[..., Any] | tuple[Callable[..., Any], str]"

_always: list[Vouched] = []
#: Functions and classes of this package that files may use: they run no code of the file.
_own: list[Vouched] = []
_in_blocks: contextvars.ContextVar[tuple[Vouched, ...]] = contextvars.ContextVar("safe_globals", default=())


def add_safe_globals(safe_globals: list[Vouched]) -> None:
    """Allow files to use these classes and functions; `load` runs no other code in them.

    Args:
        safe_globals: classes and functions, or pairs of one and the name in files.

    >>> import collections
    >>> ndgrad.serialization.add_safe_globals([collections.deque])
    >>> collections.deque in ndgrad.serialization.get_safe_globals()
    True
    >>> ndgrad.serialization.clear_safe_globals()
    """
    _check_globals(safe_globals)
    _always.extend(g for g in safe_globals if g not in _always)


def trust_own(*functions: Callable[..., Any]) -> None:
    """Allow files to use functions and classes of this package."""
    _own.extend(functions)


def clear_safe_globals() -> None:
    """Forget the names given to `add_safe_globals`.

    >>> ndgrad.serialization.clear_safe_globals()
    """
    _always.clear()


def get_safe_globals() -> list[Vouched]:
    """Return the names that files may use in addition to tensors and containers.

    >>> ndgrad.serialization.get_safe_globals()
    []
    """
    return list(dict.fromkeys((*_always, *_in_blocks.get())))


class safe_globals:  # torch's name
    """Block in which files may use further classes and functions: `add_safe_globals` for one block.

    Args:
        safe_globals: classes and functions, or pairs of one and the name in files.

    >>> import collections, io
    >>> file = io.BytesIO()
    >>> ndgrad.save(collections.deque([1, 2]), file)
    >>> _ = file.seek(0)
    >>> with ndgrad.serialization.safe_globals([collections.deque]):
    ...     ndgrad.load(file)
    deque([1, 2])
    """

    def __init__(self, safe_globals: list[Vouched]) -> None:
        self.safe_globals = _check_globals(safe_globals)
        self._tokens: list[contextvars.Token[tuple[Vouched, ...]]] = []

    def __enter__(self) -> None:
        self._tokens.append(_in_blocks.set((*_in_blocks.get(), *self.safe_globals)))

    def __exit__(self, *error: object) -> None:
        _in_blocks.reset(self._tokens.pop())


def vouched_names() -> dict[str, Any]:
    """Return the trusted objects, by their names in files."""
    trusted = (*_own, *get_safe_globals())
    pairs = (g if isinstance(g, tuple) else (g, f"{g.__module__}.{g.__qualname__}") for g in trusted)
    found = {name: value for value, name in pairs}
    # Pickles of protocol 2 have Python 2's names.
    old = {name.replace("builtins.", "__builtin__.", 1): v for name, v in found.items() if name.startswith("builtins.")}
    return found | old


def _check_globals(given: Iterable[Vouched]) -> list[Vouched]:
    found = list(given)
    for item in found:
        value, name = item if isinstance(item, tuple) and len(item) == 2 else (item, "")
        if not callable(value) or not isinstance(name, str):
            raise TypeError(
                "safe globals: expected classes, functions, or pairs of one and its name in files, but got "
                f"{item!r:.100}. Pass the class itself. [nd-type]"
            )
    return found


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """Return the names in a file that `load` would refuse unless they are trusted; no code of the file runs.

    Args:
        f: path, or file that is open for bytes.

    >>> import collections, io
    >>> file = io.BytesIO()
    >>> ndgrad.save([ndgrad.ones(2), collections.deque()], file)
    >>> ndgrad.serialization.get_unsafe_globals_in_checkpoint(file)
    ['collections.deque']
    """
    from ndgrad.serialization.reading import known_names, pickle_in  # avoids an import cycle

    known = known_names() | vouched_names().keys()
    found: dict[str, None] = {}
    texts: list[str] = []
    for opcode, argument, _ in pickletools.genops(io.BytesIO(pickle_in(f))):
        if opcode.name in ("GLOBAL", "INST"):
            found[str(argument).replace(" ", ".", 1)] = None
        elif opcode.name == "STACK_GLOBAL" and len(texts) > 1:
            found[".".join(texts[-2:])] = None
        elif isinstance(argument, str):
            texts.append(argument)
    return [name for name in found if name not in known]
