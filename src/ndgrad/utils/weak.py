"""Dictionaries whose keys are tensors, compared by identity and held weakly, under torch's names.

Tensors compare elementwise, so a plain `WeakKeyDictionary` cannot hold them: its lookup asks `==` for a single truth
value. The references of this module compare by identity.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Self

from ndgrad._src.core.variable import Variable

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that hashes by the identity of its object and equals other references to it.

    Args:
        key: object to refer to.
        callback: function of the reference that is called when the object ends.

    >>> import ndgrad
    >>> from ndgrad.utils.weak import WeakIdRef
    >>> x = ndgrad.ones(2)
    >>> WeakIdRef(x) == WeakIdRef(x)
    True
    """

    __slots__ = ("_id",)

    def __new__(cls, key: Any, callback: Any = None) -> Self:
        return super().__new__(cls, key, callback)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]  # the stubs know no __init__ of weakref.ref
        self._id = id(key)

    def __call__(self) -> Any:
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, weakref.ref) else None
        if mine is not None and theirs is not None:
            return mine is theirs
        return self is other  # a dead reference equals itself only, which lets the dictionary remove it


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary with weak keys that are compared by identity; an entry ends with its key.

    Args:
        dict: first entries.
        ref_type: class of the references to keys.

    >>> import ndgrad
    >>> from ndgrad.utils.weak import WeakIdKeyDictionary
    >>> x = ndgrad.ones(2)
    >>> names = WeakIdKeyDictionary({x: "x"})
    >>> names[x]
    'x'
    >>> del x
    >>> len(names)
    0
    """

    def __init__(self, dict: Mapping[Any, Any] | None = None, ref_type: type[WeakIdRef] = WeakIdRef) -> None:
        self.data: dict_type[WeakIdRef, Any] = {}
        self.ref_type = ref_type
        own = weakref.ref(self)

        def remove(reference: WeakIdRef) -> None:
            alive = own()
            if alive is not None:
                alive.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # an object without weak references is never a key
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} entries>"

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        joined = type(self)(other)
        joined.update(self)
        return joined

    def __ior__(  # type: ignore[misc]  # takes pairs too, as dict does
        self, other: Mapping[Any, Any] | Iterable[tuple[Any, Any]]
    ) -> Self:
        self.update(other)
        return self

    def copy(self) -> WeakIdKeyDictionary:
        """Return a dictionary with the same entries."""
        return type(self)(self)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        from copy import deepcopy

        made = type(self)()
        for key, value in self.items():
            made[key] = deepcopy(value, memo)
        return made

    def keyrefs(self) -> list[WeakIdRef]:
        """Return the weak references to the keys."""
        return list(self.data)


dict_type = dict
WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor.

    Args:
        tensor: tensor to refer to.

    >>> import ndgrad
    >>> from ndgrad.utils.weak import TensorWeakRef
    >>> x = ndgrad.ones(2)
    >>> TensorWeakRef(x)() is x
    True
    """

    def __init__(self, tensor: Variable) -> None:
        if not isinstance(tensor, Variable):
            raise TypeError(f"TensorWeakRef takes a tensor, but got {type(tensor).__name__} [nd-type]")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Variable | None:
        return self.ref()
