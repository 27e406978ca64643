"""Pickles of plain values and tensors, read without running their code.

A pickle is a program. Its GLOBAL fetches any object by name, REDUCE calls one, BUILD changes one, and the containers'
opcodes call methods of any object on the stack. So this reader does less than Python's:

* a name must be in a table, and its object can be called only through the table's function, which checks its
  arguments and allocates no more memory than they hold;
* BUILD sets attributes of instances of a few classes, and only attributes that hide nothing of the class;
* items go only into lists, dicts and sets;
* a key is a plain value, since hashing nested tuples that share their parts can take forever.

So the resources of a program are bounded by its length. Every failure raises an UnpicklingError.
"""

from __future__ import annotations

import pickle
import struct
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from ndgrad._src.foundations.sizes import Size
from ndgrad._src.tensor.tensor_class import Tensor

#: Total number of values in all keys that are tuples or frozensets, counting a value as often as it is reached.
_COMPOUND_KEYS = 30_000

# Use the Python implementation, since the other one does not allow overriding opcodes.
_PythonUnpickler: Any = vars(pickle)["_Unpickler"]


class PlainUnpickler(_PythonUnpickler):  # type: ignore[misc]  # not in the stubs
    """Read a pickle whose names are in a table: from "module.name" to a value, or to the `Callee` that REDUCE may call.
    In addition, `vouched` has names of classes and functions that the user trusts; they are called and filled as by
    Python's own unpickler.
    """

    def __init__(
        self,
        file: Any,
        known: Callable[[str, str], Any],
        fetch: Callable[[Any], Any],
        vouched: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(file)
        self._known, self._fetch, self._vouched = known, fetch, vouched
        self._key = _Keys().check
        self._containers = containers(self._key)

    def load(self) -> Any:
        try:
            return super().load()
        except (pickle.UnpicklingError, UsersError):
            raise
        except EOFError:
            raise pickle.UnpicklingError(
                "the pickle in the file ends too early. The file is damaged: save it again. [nd-file-damaged]"
            ) from None
        except Exception as error:
            raise damage_error(f"{type(error).__name__}: {error}") from error

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in self._vouched:
            return self._vouched[full]
        found = self._containers.get(full) or self._known(module, name)
        if found is None:
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file wants {full}, which could run code of the file's author. If you "
                "know it to be harmless, allow it: ndgrad.serialization.safe_globals([...]). If you trust where the "
                "file comes from, pass weights_only=False. [nd-file-unsafe]"
            )
        return found

    def persistent_load(self, identity: Any) -> Any:
        return self._fetch(identity)

    # ----- the opcodes that call something ---------------------------------------------------------------------------

    def _reduce(self) -> None:
        args, function = self.stack.pop(), self.stack[-1]
        self.stack[-1] = self._call(function, args)

    def _new_object(self) -> None:
        args, kind = self.stack.pop(), self.stack[-1]
        made_by = kind.__new__ if self._is_vouched(kind) and isinstance(kind, type) else None
        self.stack[-1] = self._call(kind, args) if made_by is None else made_by(kind, *args)

    def _is_vouched(self, value: Any) -> bool:
        return any(value is known for known in self._vouched.values())

    def _call(self, function: Any, args: Any) -> Any:
        if type(function) is not Callee and self._is_vouched(function):
            return function(*args)
        if type(function) is not Callee:
            raise damage_error(
                f"it calls {_describe(function)}, which is not among the functions that tensors "
                "and containers are made by"
            )
        if type(args) is not tuple:
            raise damage_error(f"it calls {function.name} with {_describe(args)} for a tuple of arguments")
        return function.call(*args)

    def _build(self) -> None:
        if self._is_vouched(type(self.stack[-2])):
            _PythonUnpickler.load_build(self)
            return
        state = self.stack.pop()
        set_attributes(self.stack[-1], state)

    def _refuse(self) -> None:
        raise damage_error("it uses an opcode of pickle that no file of tensors has")

    def _byte_array(self) -> None:
        (length,) = struct.unpack("<Q", self.read(8))
        # Python's implementation allocates the memory first and reads afterwards
        data = self.read(min(length, sys.maxsize))
        if len(data) < length:
            raise EOFError
        self.stack.append(bytearray(data))

    # ----- the opcodes that fill containers -------------------------------------------------------------------------

    def _append(self) -> None:
        value = self.stack.pop()
        self._target(list).append(value)

    def _appends(self) -> None:
        items = self.pop_mark()
        self._target(list).extend(items)

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._target(dict)[self._key(key)] = value

    def _set_items(self) -> None:
        items = self.pop_mark()
        self._fill(self._target(dict), items)

    def _dict(self) -> None:
        items = self.pop_mark()
        self.stack.append(self._fill({}, items))

    def _add_items(self) -> None:
        items = self.pop_mark()
        self._target(set).update([self._key(item) for item in items])

    def _frozen_set(self) -> None:
        items = self.pop_mark()
        self.stack.append(frozenset([self._key(item) for item in items]))

    def _fill(self, target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self._key(key)] = value
        return target

    def _target(self, kind: type[Any]) -> Any:
        target = self.stack[-1]
        if self._is_vouched(type(target)):
            return target
        if type(target) is not kind and not (kind is dict and type(target) in (OrderedDict, Counter)):
            raise damage_error(f"it puts items into {_describe(target)} as into a {kind.__name__}")
        return target

    # ----- meaning of each opcode ------------------------------------------------------------------------------------

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)
    dispatch.update({
        opcode[0]: handler
        for opcode, handler in {
            pickle.REDUCE: _reduce, pickle.NEWOBJ: _new_object, pickle.BUILD: _build,
            pickle.APPEND: _append, pickle.APPENDS: _appends, pickle.SETITEM: _set_item, pickle.SETITEMS: _set_items,
            pickle.DICT: _dict, pickle.ADDITEMS: _add_items, pickle.FROZENSET: _frozen_set,
            pickle.BYTEARRAY8: _byte_array,
            pickle.INST: _refuse, pickle.OBJ: _refuse, pickle.NEWOBJ_EX: _refuse, pickle.EXT1: _refuse,
            pickle.EXT2: _refuse,
            pickle.EXT4: _refuse, pickle.NEXT_BUFFER: _refuse, pickle.READONLY_BUFFER: _refuse,
        }.items()
    })  # fmt: skip


class Callee:
    """A function that a pickle may call, under its name there. It must check its arguments, and must not return a
    class.
    """

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name, self.call = name, call

    def __repr__(self) -> str:
        return f"<the name {self.name} in a file>"


class Forgotten:
    """Placeholder for a torch object that does not describe a tensor (such as limits of its compiler for a size): its
    state in the file is ignored.
    """

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        """Ignore the state."""


class _Keys:
    """Check keys of a file before hashing, with a budget for keys that hash part by part: such hashes can also be made
    to collide.
    """

    def __init__(self) -> None:
        self.left = _COMPOUND_KEYS

    def check(self, key: Any) -> Any:
        if isinstance(key, (tuple, frozenset, complex)):
            self.left -= _weight(key, self.left)
            if self.left < 0:
                raise damage_error(
                    "the tuples that are keys of its dicts and items of its sets hold more than "
                    f"{_COMPOUND_KEYS:,} values"
                )
        elif type(key) is int and key.bit_length() > 64:
            raise damage_error(f"a key in it is an integer of {key.bit_length()} bits")
        return key


class UsersError(Exception):
    """Carries an error of the user's own function (map_location) past handlers of damaged files."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def damage_error(what: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(
        f"Weights only load failed: {what}. The file is damaged or was tampered with: save it "
        "again, and do not load an untrusted file in any other way. [nd-file-unsafe]"
    )


def _describe(value: Any) -> str:
    return repr(value) if type(value) is Callee else f"a {type(value).__name__}"


def _weight(key: Any, limit: int) -> int:
    """Return the number of values in a key, each counted as often as it is reached, up to a little more than
    `limit`.
    """
    count, left = 0, [key]
    while left and count <= limit:
        value = left.pop()
        count += 1
        if isinstance(value, (tuple, frozenset)):
            if len(value) > limit:
                return limit + 1
            left.extend(value)
        elif isinstance(value, int) and value.bit_length() > 64:
            count += value.bit_length()
    return count


def set_attributes(instance: Any, state: Any) -> None:
    """Set attributes of an object from a file, if they hide nothing of its class."""
    if type(instance) is Forgotten:
        return
    if not (type(instance) is OrderedDict or isinstance(instance, Tensor)):
        raise damage_error(
            f"it sets attributes of {_describe(instance)}, and only ordered dicts and tensors have any in a file"
        )
    if type(state) not in (dict, OrderedDict):
        raise damage_error(f"it sets attributes of a {type(instance).__name__} from {_describe(state)}")
    for name in state:
        if type(name) is not str or not name.isidentifier() or (name.startswith("__") or hasattr(type(instance), name)):
            called = repr(name[:100]) if type(name) is str else _describe(name)
            raise damage_error(
                f"it sets the attribute {called} of a {type(instance).__name__}, which would "
                "change what the object does"
            )
    vars(instance).update(state)


# ----- containers -----------------------------------------------------------------------------------------------------


def containers(key: Callable[[Any], Any]) -> Mapping[str, Callee]:
    """Return the containers and numbers that pickles create by calling their classes; `key` checks values before
    hashing.
    """

    def check_items(name: str, items: Any) -> Any:
        if type(items) not in (list, tuple, set, frozenset):
            raise damage_error(f"it makes a {name} of {_describe(items)}")
        return items

    def ordered_dict(pairs: Any = ()) -> Any:
        return OrderedDict([(key(k), v) for k, v in check_items("OrderedDict", pairs)])

    def counter(counts: Any = None) -> Any:
        if counts is not None and type(counts) is not dict:
            raise damage_error(f"it makes a Counter of {_describe(counts)}")
        return Counter(counts)

    def complex_number(real: float = 0.0, imaginary: float = 0.0) -> complex:
        return complex(float(real), float(imaginary))

    def integers(name: str, args: tuple[Any, ...], *, or_none: bool = False) -> tuple[Any, ...]:
        if not all(type(a) is int or (a is None and or_none) for a in args):
            raise damage_error(f"it makes a {name} of {', '.join(map(_describe, args))}")
        return args

    def byte_array(data: Any = b"", encoding: str = "latin-1") -> bytearray:
        if type(data) is str:
            return bytearray(encode(data, encoding))
        if type(data) not in (bytes, bytearray):  # bytes(number) would allocate that many bytes
            raise damage_error(f"it makes a bytearray of {_describe(data)}")
        return bytearray(data)

    def encode(text: Any, encoding: Any = "latin-1") -> bytes:
        """Return bytes as old pickles hold them."""
        if type(text) is not str or type(encoding) is not str or encoding not in ("latin1", "latin-1"):
            raise damage_error(f"it holds bytes as {_describe(text)} in an encoding that is not latin-1")
        return text.encode("latin-1")

    def size(dims: Any = ()) -> Size:
        return Size(integers("Size", tuple(check_items("Size", dims))))

    table: dict[str, Callable[..., Any]] = {
        "collections.OrderedDict": ordered_dict,
        "collections.Counter": counter,
        "builtins.complex": complex_number,
        "builtins.set": lambda items=(): {key(item) for item in check_items("set", items)},
        "builtins.frozenset": lambda items=(): frozenset([key(item) for item in check_items("frozenset", items)]),
        "builtins.bytearray": byte_array,
        "builtins.slice": lambda *args: slice(*integers("slice", args, or_none=True)),
        "builtins.range": lambda *args: range(*integers("range", args)),
        "_codecs.encode": encode,
        "torch.Size": size,
    }
    # Pickles of protocol 2 have Python 2's names.
    table |= {
        name.replace("builtins", "__builtin__"): made for name, made in table.items() if name.startswith("builtins.")
    } | {"__builtin__.xrange": table["builtins.range"]}
    return {name: Callee(name, made) for name, made in table.items()}
