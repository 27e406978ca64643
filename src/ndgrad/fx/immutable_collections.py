"""Lists and dictionaries inside the arguments of a node, which refuse to be changed.

A node registers itself as a user of the nodes among its arguments. A change inside a list of arguments would leave
these entries behind, so a change assigns new arguments instead: `node.args = ...`.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from ndgrad._src.foundations import pytree

__all__ = ["immutable_dict", "immutable_list"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def _refuse_mutation(self: object, *args: object, **kwargs: object) -> NoReturn:
    """Raise TypeError: the arguments of a node do not change.

    Args:
        args, kwargs: arguments of the method of a list or dict.
    """
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. If you are attempting to modify the kwargs or args "
        "of an fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n\n"
        "    new_args = ...  # copy and mutate args\n    node.args = new_args\n[nd-fx-graph]"
    )


class immutable_list(list[T]):  # torch's name
    """A list that cannot be changed.

    >>> from ndgrad.fx.immutable_collections import immutable_list
    >>> immutable_list([1, 2]) == [1, 2]
    True
    """

    def __hash__(self) -> int:  # type: ignore[override]  # its elements do not change
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[K, V]):  # torch's name
    """A dictionary that cannot be changed.

    >>> from ndgrad.fx.immutable_collections import immutable_dict
    >>> immutable_dict({"dim": 1})["dim"]
    1
    """

    def __hash__(self) -> int:  # type: ignore[override]  # its items do not change
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)


for _cls, _names in (
    (
        immutable_list,
        "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort",
    ),
    (immutable_dict, "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update"),
):
    for _name in _names.split():
        setattr(_cls, _name, _refuse_mutation)

pytree.register_pytree_node(immutable_list, lambda x: (list(x), None), lambda children, _: immutable_list(children))
pytree.register_pytree_node(
    immutable_dict,
    lambda d: (list(d.values()), list(d)),
    lambda children, keys: immutable_dict(zip(keys, children, strict=True)),
)
