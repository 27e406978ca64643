"""Trees of containers, under torch's names. ndgrad.pytree has the trees themselves; this module adds rarely used
functions: the path to each leaf, specs as text, classes registered field by field.
"""

from __future__ import annotations

import importlib
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple, TypeAlias

from ndgrad._src.foundations import pytree
from ndgrad._src.foundations.pytree import (
    LEAF,
    IsLeaf,
    PyTree,
    TreeSpec,
    register_pytree_node,
    tree_unflatten,
)

__all__ = [
    "GetAttrKey", "KeyEntry", "LeafSpec", "MappingKey", "PyTree", "PyTreeSpec", "SequenceKey", "TreeSpec",
    "arg_tree_leaves", "is_constant_class", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance",
    "is_structseq", "is_structseq_class", "is_structseq_instance", "key_get", "keystr", "map_only", "register_constant",
    "register_dataclass", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
    "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path",
    "tree_map", "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure",
    "tree_unflatten", "treespec_dict", "treespec_dumps", "treespec_leaf", "treespec_loads", "treespec_pprint",
    "treespec_tuple",
]  # fmt: skip

Context: TypeAlias = Any
PyTreeSpec = TreeSpec
_register_pytree_node = register_pytree_node


class _LeafType(type):
    def __instancecheck__(cls, spec: object) -> bool:
        return isinstance(spec, TreeSpec) and spec.is_leaf()


class LeafSpec(metaclass=_LeafType):
    """The structure of a leaf: `LeafSpec()` creates it, and `isinstance(spec, LeafSpec)` tests for it.

    >>> from ndgrad.utils._pytree import LeafSpec, tree_structure
    >>> isinstance(tree_structure(3), LeafSpec), isinstance(tree_structure([3]), LeafSpec)
    (True, False)
    """

    def __new__(cls) -> Any:
        return LEAF


# ----- trees as in torch: a dataclass that is not registered is a leaf ------------------------------------------------


def _is_plain_dataclass(tree: PyTree) -> bool:
    return pytree._kind_of(type(tree)) is pytree._DATACLASS


def _with_dataclasses(is_leaf: IsLeaf) -> Callable[[PyTree], bool]:
    """Return the test for leaves: `is_leaf`, or a dataclass that is not registered."""
    if is_leaf is None:
        return _is_plain_dataclass
    test = is_leaf
    return lambda tree: _is_plain_dataclass(tree) or test(tree)


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree and its structure.

    >>> from ndgrad.utils._pytree import tree_flatten
    >>> tree_flatten({"a": 1, "b": (2, 3)})
    ([1, 2, 3], TreeSpec({'a': *, 'b': (*, *)}))
    """
    return pytree.tree_flatten(tree, _with_dataclasses(is_leaf))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec) -> list[Any] | None:
    """Return the leaf of a tree for each leaf of a structure below it; None if the tree does not fit."""
    try:
        return pytree.broadcast_prefix(tree, treespec, is_leaf=lambda leaf: leaf is None)
    except ValueError:
        return None


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree.

    >>> from ndgrad.utils._pytree import tree_leaves
    >>> tree_leaves([1, (2, 3)])
    [1, 2, 3]
    """
    return pytree.tree_leaves(tree, _with_dataclasses(is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the structure of a tree.

    >>> from ndgrad.utils._pytree import tree_structure
    >>> tree_structure([1, (2, 3)])
    TreeSpec([*, (*, *)])
    """
    return pytree.tree_structure(tree, _with_dataclasses(is_leaf))


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Return the tree of `func(leaf, ...)`, for the leaves of trees of one structure.

    >>> from ndgrad.utils._pytree import tree_map
    >>> tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    return pytree.tree_map(func, tree, *rests, is_leaf=_with_dataclasses(is_leaf))


def tree_map_only(only: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Apply `tree_map` to the leaves of the given type or types, or that satisfy a predicate.

    >>> from ndgrad.utils._pytree import tree_map_only
    >>> tree_map_only(int, lambda x: -x, [1, "a"])
    [-1, 'a']
    """
    return pytree.tree_map_only(only, func, tree, _with_dataclasses(is_leaf))


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """True if every leaf satisfies the predicate.

    >>> from ndgrad.utils._pytree import tree_all
    >>> tree_all(lambda x: x > 0, [1, (2,)])
    True
    """
    return pytree.tree_all(pred, tree, _with_dataclasses(is_leaf))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """True if some leaf satisfies the predicate.

    >>> from ndgrad.utils._pytree import tree_any
    >>> tree_any(lambda x: x > 1, [1, (2,)])
    True
    """
    return pytree.tree_any(pred, tree, _with_dataclasses(is_leaf))


# ----- the way to a leaf ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MappingKey:
    """The key of a value in a mapping.

    >>> from ndgrad.utils._pytree import MappingKey
    >>> str(MappingKey("a")), MappingKey("a").get({"a": 3})
    ("['a']", 3)
    """

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, parent: Any) -> Any:
        return parent[self.key]


@dataclass(frozen=True)
class SequenceKey:
    """The key of an item in a sequence.

    >>> from ndgrad.utils._pytree import SequenceKey
    >>> str(SequenceKey(1)), SequenceKey(1).get([5, 6])
    ('[1]', 6)
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, parent: Any) -> Any:
        return parent[self.idx]


@dataclass(frozen=True)
class GetAttrKey:
    """The key of an attribute.

    >>> from ndgrad.utils._pytree import GetAttrKey
    >>> str(GetAttrKey("real")), GetAttrKey("real").get(2j)
    ('.real', 0.0)
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, parent: Any) -> Any:
        return getattr(parent, self.name)


KeyEntry: TypeAlias = MappingKey | SequenceKey | GetAttrKey | Any
KeyPath: TypeAlias = tuple[KeyEntry, ...]


def keystr(kp: KeyPath) -> str:
    """Return a path to a leaf in Python's notation.

    >>> from ndgrad.utils._pytree import keystr, tree_leaves_with_path
    >>> [keystr(path) for path, _ in tree_leaves_with_path({"a": [1, 2]})]
    ["['a'][0]", "['a'][1]"]
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return the value at the end of a path.

    >>> from ndgrad.utils._pytree import MappingKey, SequenceKey, key_get
    >>> key_get({"a": [1, 2]}, (MappingKey("a"), SequenceKey(1)))
    2
    """
    for entry in kp:
        obj = entry.get(obj)
    return obj


def _with_keys(tree: PyTree) -> list[tuple[KeyEntry, Any]]:
    """Return the children of a node, each with its key."""
    cls = type(tree)
    kind = pytree._kind_of(cls)
    assert kind is not None
    if kind.with_keys is not None:
        return list(kind.with_keys(tree)[0])
    children, context = kind.flatten(tree)
    if kind is pytree._NAMED_TUPLE:
        return [(GetAttrKey(name), c) for name, c in zip(cls._fields, children)]
    if kind.keys is not None:
        return [(MappingKey(key), c) for key, c in zip(kind.keys(context), children)]
    if kind.written_as is not None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {cls}. Pass a flatten_with_keys_fn argument to "
            "register_pytree_node(). [nd-tree]"
        )
    return [(SequenceKey(i), c) for i, c in enumerate(children)]


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return the leaves of a tree, each with its path.

    >>> from ndgrad.utils._pytree import tree_leaves_with_path
    >>> tree_leaves_with_path([7])
    [((SequenceKey(idx=0),), 7)]
    """
    return list(_walk(tree, (), is_leaf))


def _walk(tree: PyTree, path: KeyPath, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    for key, child in _with_keys(tree):
        yield from _walk(child, (*path, key), is_leaf)


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return the leaves of a tree, each with its path, and its structure.

    >>> from ndgrad.utils._pytree import tree_flatten_with_path
    >>> tree_flatten_with_path((7,))
    ([((SequenceKey(idx=0),), 7)], TreeSpec((*,)))
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Return the tree of `func(path, leaf, ...)`.

    >>> from ndgrad.utils._pytree import keystr, tree_map_with_path
    >>> tree_map_with_path(lambda path, x: f"{keystr(path)}={x}", {"a": 1})
    {'a': "['a']=1"}
    """
    found, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(other) for other in rests]
    paths, leaves = [path for path, _ in found], [leaf for _, leaf in found]
    return spec.unflatten(map(func, paths, leaves, *columns))


# ----- leaves ---------------------------------------------------------------------------------------------------------


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """True if a value is a leaf.

    >>> from ndgrad.utils._pytree import tree_is_leaf
    >>> tree_is_leaf(1), tree_is_leaf([1])
    (True, False)
    """
    kind = pytree._kind_of(type(tree))
    return kind is None or kind is pytree._DATACLASS or (is_leaf is not None and is_leaf(tree))


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Yield the leaves of a tree.

    >>> from ndgrad.utils._pytree import tree_iter
    >>> next(tree_iter([1, [2]]))
    1
    """
    return iter(tree_leaves(tree, is_leaf))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """Return the leaves among the arguments of a call.

    >>> from ndgrad.utils._pytree import arg_tree_leaves
    >>> arg_tree_leaves([1, 2], key=3)
    [1, 2, 3]
    """
    return tree_leaves([*args, *kwargs.values()])


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call `func` for each leaf, for its side effects; return the tree itself.

    >>> from ndgrad.utils._pytree import tree_map_
    >>> tree_map_(print, [1])
    1
    [1]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    deque(map(func, leaves, *[spec.flatten_up_to(other) for other in rests]), maxlen=0)
    return tree


def tree_map_only_(only: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Apply `tree_map_` to the leaves of the given type or types, or that satisfy a predicate.

    >>> from ndgrad.utils._pytree import tree_map_only_
    >>> tree_map_only_(int, print, [1, "a"])
    1
    [1, 'a']
    """
    tree_map_only(only, func, tree, is_leaf)
    return tree


def map_only(only: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator that applies a function only to values of the given type or types, or that satisfy a
    predicate.

    >>> from ndgrad.utils._pytree import map_only, tree_map
    >>> tree_map(map_only(int)(lambda x: -x), [1, "a"])
    [-1, 'a']
    """
    return lambda func: lambda value: tree_map_only(only, func, value, is_leaf=lambda _: True)


def tree_all_only(only: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """True if every leaf of the given type or types satisfies the predicate.

    >>> from ndgrad.utils._pytree import tree_all_only
    >>> tree_all_only(int, lambda x: x > 0, [1, "a"])
    True
    """
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, only))


def tree_any_only(only: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """True if some leaf of the given type or types satisfies the predicate.

    >>> from ndgrad.utils._pytree import tree_any_only
    >>> tree_any_only(int, lambda x: x > 5, [1, "a"])
    False
    """
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, only))


# ----- kinds of tuples ------------------------------------------------------------------------------------------------


def is_namedtuple_class(cls: type) -> bool:
    """True if a class is a named tuple class.

    >>> from collections import namedtuple
    >>> from ndgrad.utils._pytree import is_namedtuple_class
    >>> is_namedtuple_class(namedtuple("P", "x")), is_namedtuple_class(tuple)
    (True, False)
    """
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple_instance(obj: object) -> bool:
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object) -> bool:
    """True if an object is a named tuple, or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """True if a class is one of Python's own sequences with names (`time.struct_time`).

    >>> import time
    >>> from ndgrad.utils._pytree import is_structseq_class
    >>> is_structseq_class(time.struct_time)
    True
    """
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, f"n_{what}fields", None), int) for what in ("", "sequence_", "unnamed_"))
    )


def is_structseq_instance(obj: object) -> bool:
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    """True if an object is one of Python's own sequences with names, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


# ----- registering ----------------------------------------------------------------------------------------------------


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass a node whose children are some of its fields, and that is rebuilt by its constructor. All
    dataclasses are nodes by default; this leaves fields out.

    Args:
        cls: dataclass, or another class whose fields are named.
        field_names: fields that the constructor takes. The default is those of the dataclass.
        drop_field_names: fields that are no children.
        serialized_type_name: name of the class in files.

    >>> import dataclasses
    >>> from ndgrad.utils._pytree import register_dataclass, tree_leaves
    >>> @dataclasses.dataclass
    ... class State:
    ...     x: int
    ...     note: str = ""
    >>> register_dataclass(State, drop_field_names=["note"])
    >>> tree_leaves(State(1, "a"))
    [1]
    """
    if is_dataclass(cls):
        every = [f.name for f in fields(cls) if f.init]
    elif field_names is None:
        raise ValueError(f"field_names must be specified with a list of all fields used to initialize {cls}. [nd-tree]")
    else:
        every = field_names
    dropped = set(drop_field_names or ())
    names = [name for name in field_names or every if name not in dropped]
    if unknown := {*names, *dropped} - {*every}:
        raise ValueError(f"register_dataclass(): {cls.__name__} has no field {', '.join(sorted(unknown))}. [nd-tree]")

    def flatten(obj: Any) -> tuple[list[Any], Context]:
        return [getattr(obj, name) for name in names], None

    register_pytree_node(
        cls,
        flatten,
        lambda children, _: cls(**dict(zip(names, children))),
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=lambda obj: ([(GetAttrKey(name), getattr(obj, name)) for name in names], None),
    )


_constants: set[type[Any]] = set()


def register_constant(cls: type[Any]) -> None:
    """Make instances of a class part of the structure: nodes without children. They must compare, and have a hash.

    >>> from ndgrad.utils._pytree import register_constant, tree_leaves
    >>> class Kind(str): ...
    >>> register_constant(Kind)
    >>> tree_leaves([Kind("a"), 2])
    [2]
    """
    if "__eq__" not in {name for base in cls.__mro__[:-1] for name in vars(base)} or cls.__hash__ is None:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__eq__` and a `__hash__`, and "
            f"{cls.__name__} has not. Define both: structures are compared by them. [nd-tree]"
        )
    register_pytree_node(
        cls, lambda obj: ([], obj), lambda children, obj: obj, flatten_with_keys_fn=lambda obj: ([], obj)
    )
    _constants.add(cls)


def is_constant_class(cls: type[Any]) -> bool:
    return cls in _constants


# ----- specs ----------------------------------------------------------------------------------------------------------


def treespec_leaf() -> TreeSpec:
    """Return the structure of a leaf."""
    return LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """Return the structure of a tuple of trees of these structures.

    >>> from ndgrad.utils._pytree import treespec_leaf, treespec_tuple
    >>> treespec_tuple([treespec_leaf()])
    TreeSpec((*,))
    """
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """Return the structure of a dict of trees of these structures.

    >>> from ndgrad.utils._pytree import treespec_dict, treespec_leaf
    >>> treespec_dict(a=treespec_leaf())
    TreeSpec({'a': *})
    """
    given = dict(mapping, **kwargs)
    return TreeSpec(dict, tuple(given), list(given.values()))


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return a structure as text, with `*` for each leaf.

    >>> from ndgrad.utils._pytree import tree_structure, treespec_pprint
    >>> treespec_pprint(tree_structure([1, {"a": 2}]))
    "[*, {'a': *}]"
    """
    return pytree._show(treespec)


#: Python's containers: the name in texts, the context as JSON, and back.
_WRITTEN: dict[Any, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    tuple: ("builtins.tuple", lambda c: None, lambda c: None),
    list: ("builtins.list", lambda c: None, lambda c: None),
    dict: ("builtins.dict", list, tuple),
    OrderedDict: ("collections.OrderedDict", list, tuple),
    deque: ("collections.deque", lambda c: c, lambda c: c),
    defaultdict: (
        "collections.defaultdict",
        lambda c: {
            "default_factory_module": c[0].__module__,
            "default_factory_name": c[0].__qualname__,
            "dict_context": list(c[1]),
        },
        lambda c: (
            getattr(importlib.import_module(c["default_factory_module"]), c["default_factory_name"]),
            tuple(c["dict_context"]),
        ),
    ),
}
_PROTOCOL = 1


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return a structure as text, for `treespec_loads`.

    >>> from ndgrad.utils._pytree import tree_structure, treespec_dumps, treespec_loads
    >>> treespec_loads(treespec_dumps(tree_structure({"a": [1, 2]})))
    TreeSpec({'a': [*, *]})
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "treespec_dumps(): Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}. [nd-type]"
        )
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]. [nd-option]")
    return json.dumps([_PROTOCOL, _dump_spec(treespec)])


def _dump_spec(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    name, dump, _ = _find_writer(spec.type, spec._kind)
    context = dump(spec.context) if dump is not None else spec.context
    if not isinstance(context, dict):  # torch writes the number itself
        context = json.dumps(context)
    return {"type": name, "context": context, "children_spec": [_dump_spec(c) for c in spec.children_specs]}


def _find_writer(cls: Any, kind: Any) -> tuple[str, Callable[[Any], Any] | None, Callable[[Any], Any] | None]:
    if cls in _WRITTEN:
        return _WRITTEN[cls]
    if kind.written_as is None or kind.written_as[0] is None:
        raise NotImplementedError(
            f"No registered serialization name for {cls} found. Register the class with register_pytree_node(..., "
            "serialized_type_name=...), which says how it is written. [nd-pickle]"
        )
    name, dump, load = kind.written_as
    return name, dump, load


def treespec_loads(serialized: str) -> TreeSpec:
    """Return a structure from the text of `treespec_dumps`.

    >>> from ndgrad.utils._pytree import tree_structure, treespec_dumps, treespec_loads
    >>> treespec_loads(treespec_dumps(tree_structure((1,))))
    TreeSpec((*,))
    """
    protocol, schema = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]. [nd-option]")
    return _load_spec(schema)


def _load_spec(schema: dict[str, Any]) -> TreeSpec:
    name = schema["type"]
    if name is None:
        return LEAF
    for cls, kind in pytree._kinds.items():
        written = _WRITTEN.get(cls) or kind.written_as
        if written is not None and written[0] == name:
            context, load = schema["context"], written[2]
            context = json.loads(context) if isinstance(context, str) else context
            children = [_load_spec(child) for child in schema["children_spec"]]
            return TreeSpec(cls, load(context) if load is not None else context, children)
    raise NotImplementedError(
        f"Deserializing `{name}` in pytree is not registered. Register its class with register_pytree_node(..., "
        f"serialized_type_name={name!r}) first. [nd-pickle]"
    )


# ----- torch's private names ------------------------------------------------------------------------------------------


class NodeDef(NamedTuple):
    """The functions of a class of nodes."""

    type: type[Any]
    flatten_fn: Callable[[Any], tuple[list[Any], Context]]
    unflatten_fn: Callable[[Iterable[Any], Context], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None


def _define_node(cls: type[Any], kind: Any) -> NodeDef:
    def flatten(tree: Any) -> tuple[list[Any], Context]:
        children, context = kind.flatten(tree)
        return list(children), list(context) if kind.keys is not None and type(context) is tuple else context

    def unflatten(children: Iterable[Any], context: Context) -> Any:
        return kind.unflatten(list(children), context)

    def flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Context]:
        return _with_keys(tree), flatten(tree)[1]

    if kind.written_as is not None:  # registered: the user's own functions
        return NodeDef(cls, kind.flatten, kind.unflatten, kind.with_keys)
    return NodeDef(cls, flatten, unflatten, flatten_with_keys)


class _Nodes(Mapping[type[Any], NodeDef]):
    """The registered classes of nodes, as they are at the moment."""

    def __getitem__(self, cls: type[Any]) -> NodeDef:
        return _define_node(cls, pytree._NAMED_TUPLE if cls is _NAMEDTUPLE else pytree._kinds[cls])

    def __iter__(self) -> Iterator[type[Any]]:
        return iter([*pytree._kinds, _NAMEDTUPLE])

    def __len__(self) -> int:
        return len(pytree._kinds) + 1


# The class under which torch lists all named tuples: the function `collections.namedtuple`.
_NAMEDTUPLE: Any = namedtuple  # noqa: PYI024  # the function itself
SUPPORTED_NODES: Mapping[type[Any], NodeDef] = _Nodes()
_dict_flatten, _dict_unflatten, _dict_flatten_with_keys = SUPPORTED_NODES[dict][1:]
_list_flatten, _list_unflatten, _list_flatten_with_keys = SUPPORTED_NODES[list][1:]
_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys = SUPPORTED_NODES[tuple][1:]
_ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys = SUPPORTED_NODES[OrderedDict][1:]
_namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys = SUPPORTED_NODES[_NAMEDTUPLE][1:]
_is_leaf = tree_is_leaf


def _get_node_type(tree: Any) -> Any:
    """Return the class of a node in `SUPPORTED_NODES`, which is `namedtuple` for all named tuples."""
    return _NAMEDTUPLE if is_namedtuple_instance(tree) and type(tree) not in pytree._kinds else type(tree)
