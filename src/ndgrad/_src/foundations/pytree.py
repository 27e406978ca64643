"""Pytrees: flattening nested lists, tuples, dicts and dataclasses into leaves, and rebuilding them.

The constraint that shaped this file: transforms run it on every call, mostly on a tuple of tensors. So a tree is walked
once, with one dictionary lookup on the exact type of each node. A spec records whether its children are all leaves;
rebuilding is then a single call.

As in torch: `None` is a leaf; dicts keep insertion order; a subclass of list, tuple or dict is a leaf unless it is a
named tuple or registered. Beyond torch: dataclasses are nodes, field by field, without registering.
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.sizes import Size

__all__ = [
    "LEAF",
    "PyTree",
    "TreeSpec",
    "broadcast_prefix",
    "leaf_paths",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

PyTree: TypeAlias = Any
Context: TypeAlias = Any
IsLeaf: TypeAlias = "Callable[[PyTree], bool] | None"
Class: TypeAlias = type[Any]


# ----- kinds of nodes ---------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """The functions that flatten, rebuild and print nodes of one type."""

    flatten: Callable[[Any], tuple[Iterable[Any], Context]]
    unflatten: Callable[[list[Any], Context], Any]
    # Maps (type, context, texts of the children) to the text of the node.
    show: Callable[[Class, Context, list[str]], str]
    # Returns the keys of the children. Two nodes with keys match in any order.
    keys: Callable[[Context], tuple[Any, ...]] | None = None
    # For registered classes: children with their keys, and the functions that convert specs to text and back.
    with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Context]] | None = None
    written_as: tuple[str | None, Callable[[Context], Any] | None, Callable[[Any], Context] | None] | None = None


def _show_mapping(cls: Class, keys: Iterable[Any], children: list[str]) -> str:
    items = ", ".join(f"{key!r}: {child}" for key, child in zip(keys, children))
    return f"{{{items}}}" if cls is dict else f"{cls.__name__}({{{items}}})"


def _show_tuple(cls: Class, context: Context, children: list[str]) -> str:
    return f"({', '.join(children)}{',' if len(children) == 1 else ''})"


def _show_call(cls: Class, names: Iterable[str], children: list[str]) -> str:
    pairs = zip(names, children)
    return f"{cls.__name__}({', '.join(f'{name}={child}' for name, child in pairs)})"


def _unflatten_size(children: list[Any], context: Context) -> tuple[Any, ...]:
    # Mapped values may not be lengths; the node then becomes a plain tuple.
    return Size(children) if all(type(child) is int for child in children) else tuple(children)


def _flatten_dataclass(tree: Any) -> tuple[list[Any], Context]:
    import dataclasses  # already imported if a dataclass exists

    # A field declared with init=False may have no value. It is then no child.
    names = tuple(field.name for field in dataclasses.fields(tree) if hasattr(tree, field.name))
    return [getattr(tree, name) for name in names], (type(tree), names)


def _unflatten_dataclass(children: list[Any], context: Context) -> Any:
    # __init__ is not called: __post_init__ may check or derive things from leaves that are now indices or tracers, and
    # frozen or init=False fields could not be set. Derived fields are children like the others.
    cls, names = context
    made = cls.__new__(cls)
    for name, child in zip(names, children):
        object.__setattr__(made, name, child)
    return made


_kinds: dict[Class, _Kind] = {
    tuple: _Kind(lambda t: (t, None), lambda c, _: tuple(c), _show_tuple),
    list: _Kind(lambda t: (t, None), lambda c, _: list(c), lambda cls, _, c: f"[{', '.join(c)}]"),
    dict: _Kind(
        lambda t: (t.values(), tuple(t)),
        lambda c, k: dict(zip(k, c)),
        _show_mapping,
        keys=lambda k: k,
    ),
    OrderedDict: _Kind(
        lambda t: (t.values(), tuple(t)),
        lambda c, k: OrderedDict(zip(k, c)),
        _show_mapping,
        keys=lambda k: k,
    ),
    defaultdict: _Kind(
        lambda t: (t.values(), (t.default_factory, tuple(t))),
        lambda c, k: defaultdict(k[0], zip(k[1], c)),
        lambda cls, k, c: _show_mapping(cls, k[1], c),
        keys=lambda k: k[1],
    ),
    deque: _Kind(
        lambda t: (t, t.maxlen),
        lambda c, maxlen: deque(c, maxlen),
        lambda cls, _, c: f"deque([{', '.join(c)}])",
    ),
    Size: _Kind(lambda t: (t, None), _unflatten_size, lambda cls, _, c: f"Size([{', '.join(c)}])"),
}

# All named tuples share one kind, and so do all dataclasses, with the class in the context. So no registry keeps
# classes alive that are made at run time.
_NAMED_TUPLE = _Kind(lambda t: (t, type(t)), lambda c, cls: cls(*c), lambda cls, _, c: _show_call(cls, cls._fields, c))
_DATACLASS = _Kind(_flatten_dataclass, _unflatten_dataclass, lambda cls, context, c: _show_call(cls, context[1], c))


# Results of _kind_of for the classes met so far, including leaves (None). Looking up an attribute that a class lacks
# takes several times as long. The cache is emptied when it grows, so it keeps few classes alive.
_met: dict[Class, _Kind | None] = {}
_NOT_MET: Any = object()


def _kind_of(cls: Class) -> _Kind | None:
    kind: _Kind | None = _met.get(cls, _NOT_MET)
    if kind is not _NOT_MET:
        return kind
    kind = _kinds.get(cls)
    if kind is None and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        kind = _NAMED_TUPLE
    elif kind is None and hasattr(cls, "__dataclass_fields__"):
        kind = _DATACLASS
    make_room(_met, 1000)
    _met[cls] = kind
    return kind


_registration = make_lock()


@set_module("ndgrad.pytree")
def register_pytree_node(
    cls: Class,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]],
    unflatten_fn: Callable[[list[Any], Context], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Context]] | None = None,
) -> None:
    """Make instances of `cls` (of exactly that class) nodes of trees rather than leaves.

    `flatten_fn(obj)` returns the children and a context, which can be any comparable value. `unflatten_fn(children,
    context)` rebuilds the object. `serialized_type_name` is the name of the class in printed specs and in
    `treespec_dumps`; `to_dumpable_context` and `from_dumpable_context` convert the context to JSON and back.
    `flatten_with_keys_fn` works as `flatten_fn`, but returns each child with its key (ndgrad.utils._pytree).

    Args:
        cls: class of the nodes.
        flatten_fn: function of a node that returns its children and a context.
        unflatten_fn: function of children and context that returns the node.
        serialized_type_name: name of the class in printed specs and in `treespec_dumps`. None means its own name.
        to_dumpable_context: function that turns a context into JSON.
        from_dumpable_context: inverse of `to_dumpable_context`.
        flatten_with_keys_fn: function of a node that returns pairs of a key and a child, and the context.

    Raises:
        ValueError: if the class is registered already.

    >>> class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    >>> register_pytree_node(Interval, lambda i: ((i.low, i.high), None), lambda c, _: Interval(*c))
    >>> tree_leaves([Interval(1, 2), 3])
    [1, 2, 3]
    """
    if not isinstance(cls, type):
        raise TypeError(
            f"register_pytree_node() needs a class, but got {cls!r}. Pass the class of the nodes. [nd-tree]"
        )
    name = serialized_type_name or cls.__name__
    with _registration:
        if cls in _kinds:
            raise ValueError(
                f"register_pytree_node(): {cls!r} is already registered as pytree node. "
                "Trees flattened so far would no longer match: register a class once, where it is defined. [nd-tree]"
            )
        _kinds[cls] = _Kind(
            flatten_fn,
            unflatten_fn,
            lambda cls, _, c: f"{name}({', '.join(c)})",
            with_keys=flatten_with_keys_fn,
            written_as=(serialized_type_name, to_dumpable_context, from_dumpable_context),
        )
        _met.pop(cls, None)


# ----- specs ------------------------------------------------------------------------------------------------


@set_module("ndgrad.pytree")
class TreeSpec:
    """The structure of a tree without its leaves; it prints as the tree with `*` for each leaf.

    Args:
        type: class of the node.
        context: data of the node besides its children, such as the keys of a dict.
        children_specs: structures of the children.
        kind: rules for the class. None looks them up.

    >>> tree_structure({"a": 1, "b": (2, [3])})
    TreeSpec({'a': *, 'b': (*, [*])})
    """

    __slots__ = ("_is_flat", "_kind", "children_specs", "context", "num_leaves", "type")

    _kind: _Kind
    _is_flat: bool
    type: Class | None
    context: Context
    children_specs: list[TreeSpec]
    num_leaves: int

    def __init__(
        self, type: Class, context: Context, children_specs: list[TreeSpec], kind: _Kind | None = None
    ) -> None:
        if kind is None:
            kind = _kind_of(type)
            if kind is None:
                raise TypeError(
                    f"a TreeSpec cannot be made of {type!r}, whose instances are leaves in this process. "
                    "Register the class with register_pytree_node() first. [nd-tree]"
                )
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self._kind = kind
        # A loop is faster than sum() and all() over generators, and this runs for every node of every call.
        leaves, is_flat = 0, True
        for child in children_specs:
            if child is LEAF:
                leaves += 1
            else:
                leaves += child.num_leaves
                is_flat = False
        self.num_leaves = leaves
        self._is_flat = is_flat

    def is_leaf(self) -> bool:
        """True if this is the structure of a single leaf."""
        return self.type is None

    @property
    def num_children(self) -> int:
        return len(self.children_specs)

    @property
    def num_nodes(self) -> int:
        """The number of nodes and leaves, including this node."""
        return 1 + sum(child.num_nodes for child in self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """Return the structure of one child.

        Args:
            index: position of the child.
        """
        return self.children_specs[index]

    def children(self) -> list[TreeSpec]:
        return list(self.children_specs)

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """Return the tree with this structure and the given leaves.

        Args:
            leaves: values in the order of `tree_flatten`.

        Raises:
            ValueError: if there are too many or too few leaves.
        """
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"{len(leaves)} leaves were given to unflatten() for the {self.num_leaves} of {self!r}. "
                "Pass one value for each leaf, in the order in which tree_flatten() returned them. [nd-tree]"
            )
        if self._is_flat:
            return self._kind.unflatten(leaves, self.context)
        return _build(self, iter(leaves))

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """Return the subtrees of `tree` at the positions of this structure's leaves.

        Args:
            tree: tree with at least this structure.

        Raises:
            ValueError: if the tree has another structure.
        """
        found: list[PyTree] = []
        try:
            _match(self, tree, found)
        except _Mismatch as mismatch:
            raise mismatch.to_error(self, tree_structure(tree)) from None
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self is other or (
            self.type is other.type
            and self.num_leaves == other.num_leaves
            and bool(self.context == other.context)
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        try:
            context = hash(self.context)
        except TypeError:  # unhashable contexts, such as lists and arrays, do not enter the hash
            context = 0
        return hash((self.type, context, self.num_leaves, *self.children_specs))

    def __repr__(self) -> str:
        return f"TreeSpec({_show(self)})"

    def __reduce__(self) -> Any:
        if self.type is None:
            return "LEAF"
        return TreeSpec, (self.type, self.context, self.children_specs)


def _make_leaf() -> TreeSpec:
    leaf = object.__new__(TreeSpec)
    leaf.type = leaf.context = None
    leaf.children_specs = []
    leaf.num_leaves = 1
    leaf._is_flat = False
    return leaf


LEAF = _make_leaf()
"""The structure of a leaf. All leaves share it, and it has no kind."""


def _show(spec: TreeSpec) -> str:
    if spec.type is None:
        return "*"
    return spec._kind.show(spec.type, spec.context, [_show(child) for child in spec.children_specs])


def _build(spec: TreeSpec, leaves: Iterator[Any]) -> PyTree:
    if spec.type is None:
        return next(leaves)
    return spec._kind.unflatten([_build(child, leaves) for child in spec.children_specs], spec.context)


# ----- flattening and mapping -------------------------------------------------------------------------------


@set_module("ndgrad.pytree")
def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree, depth first, and its structure. Nodes for which `is_leaf` is true are not opened.

    Args:
        tree: nested containers, or a leaf.
        is_leaf: function that is true for nodes which count as leaves.

    >>> tree_flatten({"a": 1, "b": (2, None)})
    ([1, 2, None], TreeSpec({'a': *, 'b': (*, *)}))
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: PyTree, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    cls = type(tree)
    kind = _met.get(cls, _NOT_MET)
    if kind is _NOT_MET:
        kind = _kind_of(cls)
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LEAF
    children, context = kind.flatten(tree)
    specs = []
    for child in children:
        # Here and in _map, leaves of a known type need no call.
        if _met.get(type(child), _NOT_MET) is None:
            leaves.append(child)
            specs.append(LEAF)
        else:
            specs.append(_flatten(child, leaves, is_leaf))
    return TreeSpec(cls, context, specs, kind)


@set_module("ndgrad.pytree")
def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Return the tree with the structure `treespec` and the given leaves.

    Args:
        leaves: values in the order of `tree_flatten`.
        treespec: structure from `tree_flatten`.

    >>> tree_unflatten([1, 2], tree_structure({"a": 0, "b": (0,)}))
    {'a': 1, 'b': (2,)}
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten() needs a TreeSpec as its second argument, but got {type(treespec).__name__}. "
            "Call tree_unflatten(leaves, treespec), with the spec that tree_flatten() returned. [nd-type]"
        )
    return treespec.unflatten(leaves)


@set_module("ndgrad.pytree")
def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree, depth first.

    Args:
        tree: nested containers, or a leaf.
        is_leaf: function that is true for nodes which count as leaves.

    >>> from ndgrad.pytree import tree_leaves
    >>> tree_leaves({"a": [1, 2], "b": (3,)})
    [1, 2, 3]
    """
    leaves: list[Any] = []
    _collect_leaves(tree, leaves, is_leaf)
    return leaves


def _collect_leaves(tree: PyTree, leaves: list[Any], is_leaf: IsLeaf) -> None:
    kind = _kind_of(type(tree))
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
    else:
        for child in kind.flatten(tree)[0]:
            _collect_leaves(child, leaves, is_leaf)


@set_module("ndgrad.pytree")
def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the structure of a tree.

    Args:
        tree: nested containers, or a leaf.
        is_leaf: function that is true for nodes which count as leaves.

    >>> from ndgrad.pytree import tree_structure
    >>> tree_structure([1, 2]) == tree_structure([3, 4])
    True
    """
    return tree_flatten(tree, is_leaf)[1]


@set_module("ndgrad.pytree")
def tree_map(f: Callable[..., Any], tree: PyTree, *rest: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Return the tree of `f(leaf, ...)`, with the structure of `tree`.

    Each tree in `rest` has at least that structure; it may go deeper.

    Args:
        f: function of a leaf of `tree` and of its counterparts in `rest`.
        tree: nested containers, or a leaf.
        *rest: further trees.
        is_leaf: function that is true for nodes of `tree` which count as leaves.

    Raises:
        ValueError: if a tree in `rest` has another structure.

    >>> tree_map(lambda x, y: (x, y), {"a": 1, "b": [2]}, {"b": [{3}], "a": None})
    {'a': (1, None), 'b': [(2, {3})]}
    """
    if not rest:
        return _map(f, tree, is_leaf)
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(f, leaves, *[spec.flatten_up_to(other) for other in rest]))


def _map(f: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf) -> PyTree:
    kind = _kind_of(type(tree))
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        return f(tree)
    children, context = kind.flatten(tree)
    mapped = [f(child) if _met.get(type(child), _NOT_MET) is None else _map(f, child, is_leaf) for child in children]
    return kind.unflatten(mapped, context)


@set_module("ndgrad.pytree")
def tree_map_only(
    only: Class | tuple[Class, ...] | types.UnionType | Callable[[Any], bool],
    f: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:
    """Apply `f` to the leaves of the given types, or that satisfy a predicate. Other leaves stay unchanged.

    Args:
        only: class, classes, or predicate that selects leaves.
        f: function of a leaf.
        tree: nested containers, or a leaf.
        is_leaf: function that is true for nodes which count as leaves.

    >>> tree_map_only(int, lambda x: -x, [1, "a", 2.5])
    [-1, 'a', 2.5]
    """
    if isinstance(only, (type, tuple, types.UnionType)):
        return _map(lambda leaf: f(leaf) if isinstance(leaf, only) else leaf, tree, is_leaf)
    return _map(lambda leaf: f(leaf) if only(leaf) else leaf, tree, is_leaf)


@set_module("ndgrad.pytree")
def tree_all(predicate: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """True if every leaf satisfies the predicate.

    Args:
        predicate: function of a leaf.
        tree: nested containers, or a leaf.
        is_leaf: function that is true for nodes which count as leaves.

    >>> from ndgrad.pytree import tree_all
    >>> tree_all(lambda leaf: leaf > 0, [1, (2, 3)])
    True
    """
    return all(map(predicate, tree_leaves(tree, is_leaf)))


@set_module("ndgrad.pytree")
def tree_any(predicate: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """True if at least one leaf satisfies the predicate.

    Args:
        predicate: function of a leaf.
        tree: nested containers, or a leaf.
        is_leaf: function that is true for nodes which count as leaves.

    >>> from ndgrad.pytree import tree_any
    >>> tree_any(lambda leaf: leaf > 2, [1, (2, 3)])
    True
    """
    return any(map(predicate, tree_leaves(tree, is_leaf)))


# ----- matching two trees -----------------------------------------------------------------------------------


class _Mismatch(Exception):
    """Two nodes do not match. The path to them is filled in from the inside while the exception propagates."""

    def __init__(self, first: TreeSpec, second: TreeSpec) -> None:
        self.first, self.second = first, second
        self.path: list[str] = []

    def to_error(self, first: TreeSpec, second: TreeSpec) -> ValueError:
        return ValueError(
            f"two trees do not match at {''.join(['tree', *reversed(self.path)])}: the first has "
            f"{_show(self.first)} there and the second {_show(self.second)}. As a whole they are\n"
            f"  {first!r}\n  {second!r}\n"
            "The second needs every container of the first, with its type, length and keys; it may go deeper. [nd-tree]"
        )


def _counterparts(spec: TreeSpec, cls: Class, context: Context, count: int) -> Sequence[int] | None:
    """Return, for each child of a node of structure `spec`, the position of its counterpart in another node.

    Returns None if the nodes do not match. Mappings match by key, regardless of order and type. Deques match by length;
    their maximal length does not count.
    """
    keys = spec._kind.keys
    if keys is None:
        same = cls is spec.type and count == spec.num_children and (cls is deque or context == spec.context)
        return range(count) if same else None
    other = _kinds.get(cls)
    if other is None or other.keys is None:
        return None
    wanted = keys(spec.context)
    position = {key: i for i, key in enumerate(other.keys(context))}
    if position.keys() != set(wanted):
        return None
    return [position[key] for key in wanted]


def _match(spec: TreeSpec, tree: PyTree, found: list[PyTree]) -> None:
    """Append to `found` the subtree of `tree` at each leaf of `spec`."""
    if spec.type is None:
        found.append(tree)
        return
    kind, counterparts = _kind_of(type(tree)), None
    if kind is not None:
        values, context = kind.flatten(tree)
        children = list(values)
        counterparts = _counterparts(spec, type(tree), context, len(children))
    if counterparts is None:
        raise _Mismatch(spec, tree_structure(tree))
    for i, position in enumerate(counterparts):
        try:
            _match(spec.children_specs[i], children[position], found)
        except _Mismatch as mismatch:
            mismatch.path.append(_step(spec, i))
            raise


def _repeat_values(prefix: TreeSpec, values: list[Any], spec: TreeSpec) -> list[Any]:
    """Repeat the values at the leaves of `prefix` for the leaves of `spec` below them."""
    if prefix.type is None:
        return values * spec.num_leaves
    counterparts = None
    if spec.type is not None:
        counterparts = _counterparts(prefix, spec.type, spec.context, spec.num_children)
    if counterparts is None:
        raise _Mismatch(prefix, spec)
    # The parts follow the order of the tree's children. A prefix that is a dict may have its keys in another order.
    parts: list[list[Any]] = [[]] * spec.num_children
    start = 0
    for i, (child, position) in enumerate(zip(prefix.children_specs, counterparts)):
        stop = start + child.num_leaves
        try:
            parts[position] = _repeat_values(child, values[start:stop], spec.children_specs[position])
        except _Mismatch as mismatch:
            mismatch.path.append(_step(prefix, i))
            raise
        start = stop
    return [value for part in parts for value in part]


def _step(spec: TreeSpec, i: int) -> str:
    """Return the Python expression that leads from a node to its child `i`."""
    if spec._kind is _NAMED_TUPLE:
        return f".{spec.context._fields[i]}"
    if spec._kind is _DATACLASS:
        return f".{spec.context[1][i]}"
    return f"[{i if spec._kind.keys is None else spec._kind.keys(spec.context)[i]!r}]"


@set_module("ndgrad.pytree")
def leaf_paths(spec: TreeSpec) -> list[str]:
    """Return the Python expression that leads from the root to each leaf.

    Args:
        spec: structure of a tree.

    >>> leaf_paths(tree_structure({"a": (1, 2), "b": 3}))
    ["['a'][0]", "['a'][1]", "['b']"]
    """
    if spec.type is None:
        return [""]
    return [_step(spec, i) + path for i, child in enumerate(spec.children_specs) for path in leaf_paths(child)]


def flatten_up_to(spec: TreeSpec, tree: PyTree) -> list[PyTree]:
    """Return the subtree of `tree` at each leaf of `spec`."""
    found: list[PyTree] = []
    try:
        _match(spec, tree, found)
    except _Mismatch as mismatch:
        raise mismatch.to_error(spec, tree_structure(tree)) from None
    return found


@set_module("ndgrad.pytree")
def broadcast_prefix(prefix: PyTree, tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return, for each leaf of `tree`, the leaf of `prefix` at the same position or at a container around it.

    `tree` may be given as its TreeSpec. Nodes of the prefix for which `is_leaf` is true count as leaves.

    Args:
        prefix: tree whose leaves stand for whole parts of `tree`.
        tree: nested containers, or their TreeSpec.
        is_leaf: function that is true for nodes of the prefix which count as leaves.

    Raises:
        ValueError: if the prefix does not match the tree.

    >>> broadcast_prefix((0, None), ([1.5, 2.5], {"a": 3.5}))
    [0, 0, None]
    """
    spec = tree if isinstance(tree, TreeSpec) else tree_structure(tree)
    if _kind_of(type(prefix)) is None:
        return [prefix] * spec.num_leaves
    leaves, prefix_spec = tree_flatten(prefix, is_leaf)
    if prefix_spec == spec:
        return leaves
    try:
        return _repeat_values(prefix_spec, leaves, spec)
    except _Mismatch as mismatch:
        raise mismatch.to_error(prefix_spec, spec) from None
