"""Trees: flattening, rebuilding, mapping, matching."""

from __future__ import annotations

import copy
import dataclasses
import gc
import operator
import pickle
import weakref
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgrad._src.foundations.pytree import (
    LEAF,
    TreeSpec,
    broadcast_prefix,
    register_pytree_node,
    tree_all,
    tree_any,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_structure,
    tree_unflatten,
)
from ndgrad._src.foundations.sizes import Size
from tests.naming import stable_id


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Layer:
    weight: Any
    bias: Any


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any = 2


@dataclass(slots=True)
class Slotted:
    a: Any
    b: Any


@dataclass
class Derived:
    scale: dataclasses.InitVar[float]
    a: Any
    name: ClassVar[str] = "class attribute"
    doubled: Any = field(init=False)
    never_set: Any = field(init=False)

    def __post_init__(self, scale: float) -> None:
        assert isinstance(self.a, float), "runs on what the user gave, not on what a map puts there"
        self.doubled = self.a * scale


class Pair:
    def __init__(self, first: Any, second: Any, tag: str = "") -> None:
        self.first, self.second, self.tag = first, second, tag


register_pytree_node(
    Pair,
    lambda p: ([p.first, p.second], p.tag),
    lambda c, tag: Pair(*c, tag),
    serialized_type_name="tests.Pair",
)

scalars = st.one_of(st.integers(), st.text(max_size=2), st.none(), st.floats(allow_nan=False))
trees = st.recursive(
    scalars,
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), children, max_size=3),
        st.dictionaries(st.integers(), children, max_size=3).map(OrderedDict),
        st.dictionaries(st.text(max_size=2), children, max_size=3).map(lambda d: defaultdict(list, d)),
        st.lists(children, max_size=3).map(lambda c: deque(c, maxlen=5)),
        st.builds(Point, children, children),
        st.builds(Layer, children, children),
        st.builds(Frozen, children, children),
    ),
    max_leaves=12,
)


# ----- laws -------------------------------------------------------------------------------------------------


@given(trees)
def test_unflatten_undoes_flatten(tree: Any) -> None:
    leaves, spec = tree_flatten(tree)
    again = tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec.num_leaves == len(leaves)
    assert spec == tree_structure(again)
    assert hash(spec) == hash(tree_structure(again))
    assert leaves == tree_leaves(tree)


@given(trees)
def test_map_equals_flatten_apply_unflatten(tree: Any) -> None:
    leaves, spec = tree_flatten(tree)
    expected = tree_unflatten([(leaf, 1) for leaf in leaves], spec)
    assert tree_map(lambda leaf: (leaf, 1), tree) == expected
    assert tree_map(lambda leaf, one: (leaf, one), tree, tree_map(lambda _: 1, tree)) == expected


@given(trees)
def test_every_tree_is_a_prefix_of_itself_and_a_leaf_of_every_tree(tree: Any) -> None:
    spec = tree_structure(tree)
    assert broadcast_prefix(tree, tree) == tree_leaves(tree)
    assert broadcast_prefix(0, spec) == [0] * spec.num_leaves
    assert broadcast_prefix([0, tree], (spec, tree_structure([tree, tree]))[1]) == [
        *[0] * spec.num_leaves,
        *tree_leaves(tree),
    ]


@given(trees)
def test_specs_pickle_and_copy(tree: Any) -> None:
    leaves, spec = tree_flatten(tree)
    for again in (pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):
        assert again == spec
        assert tree_unflatten(leaves, again) == tree
        assert repr(again) == repr(spec)


# ----- classes of nodes -------------------------------------------------------------------------------------


class ListSubclass(list[Any]):
    pass


@pytest.mark.parametrize("leaf", [None, 1, "text", {1, 2}, frozenset(), range(3), ListSubclass([1]), Layer, int], ids=stable_id)
def test_leaves_as_in_torch(leaf: Any) -> None:
    assert tree_flatten(leaf) == ([leaf], LEAF)
    assert tree_leaves([leaf]) == [leaf]
    assert tree_map(lambda x: [x], leaf) == [leaf]
    assert tree_structure(leaf).is_leaf()


@pytest.mark.parametrize(
    ("tree", "leaves", "text"),
    [
        ([], [], "[]"),
        ((), [], "()"),
        ({}, [], "{}"),
        ((1,), [1], "(*,)"),
        ([1, (2, 3)], [1, 2, 3], "[*, (*, *)]"),
        ({"b": 1, "a": [None]}, [1, None], "{'b': *, 'a': [*]}"),
        (OrderedDict(b=1, a=2), [1, 2], "OrderedDict({'b': *, 'a': *})"),
        (defaultdict(int, a=1), [1], "defaultdict({'a': *})"),
        (deque([1, 2], maxlen=3), [1, 2], "deque([*, *])"),
        (Size([2, 3]), [2, 3], "Size([*, *])"),
        (Point(1, (2,)), [1, 2], "Point(x=*, y=(*,))"),
        (Layer(1, [2]), [1, 2], "Layer(weight=*, bias=[*])"),
        (Pair(1, 2), [1, 2], "tests.Pair(*, *)"),
    ],
    ids=stable_id,
)
def test_flattens_and_prints(tree: Any, leaves: list[Any], text: str) -> None:
    found, spec = tree_flatten(tree)
    assert found == leaves
    assert repr(spec) == f"TreeSpec({text})"
    assert not spec.is_leaf()


def test_containers_keep_what_they_are() -> None:
    counts = tree_map(operator.neg, defaultdict(lambda: 7, a=1))
    assert counts == {"a": -1}
    assert counts["missing"] == 7
    assert tree_map(operator.neg, deque([1, 2], maxlen=2)).maxlen == 2
    assert list(tree_map(operator.neg, {"b": 1, "a": 2})) == ["b", "a"]
    assert type(tree_map(operator.neg, Point(1, 2))) is Point
    assert tree_map(operator.neg, Pair(1, 2, "tag")).tag == "tag"


def test_size_stays_a_size_while_it_holds_ints() -> None:
    assert type(tree_map(lambda n: n + 1, Size([2, 3]))) is Size
    halves = tree_map(lambda n: n / 2, Size([2, 3]))
    assert type(halves) is tuple
    assert halves == (1.0, 1.5)


# ----- dataclasses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [Layer, Frozen, Slotted])
def test_dataclasses_are_nodes_by_field(cls: Any) -> None:
    leaves, spec = tree_flatten(cls(1, [2, 3]))
    assert leaves == [1, 2, 3]
    assert tree_unflatten([4, 5, 6], spec) == cls(4, [5, 6])


def test_dataclass_fields_without_init_are_carried_and_post_init_is_not_run_again() -> None:
    tree = Derived(2.0, 1.5)
    leaves, spec = tree_flatten(tree)
    assert leaves == [1.5, 3.0]
    mapped = tree_map(str, tree)
    assert (mapped.a, mapped.doubled, mapped.name) == ("1.5", "3.0", "class attribute")
    assert not hasattr(mapped, "never_set")
    tree.never_set = 9
    assert tree_leaves(tree) == [1.5, 3.0, 9]
    assert tree_structure(tree) != spec


def test_registration_wins_over_dataclass_and_over_having_been_a_leaf() -> None:
    @dataclass
    class Opaque:
        a: int

    class Box:
        content = 1

    assert tree_leaves(Opaque(1)) == [1]
    box = Box()
    assert tree_leaves([box]) == [box]
    register_pytree_node(Opaque, lambda o: ((), o.a), lambda _, a: Opaque(a))
    register_pytree_node(Box, lambda b: ((b.content,), None), lambda c, _: Box())
    assert tree_leaves(Opaque(1)) == []
    assert tree_map(operator.neg, Opaque(1)) == Opaque(1)
    assert tree_leaves([box]) == [1]


def test_registering_twice_or_no_class_is_refused() -> None:
    for cls in (Pair, list):
        with pytest.raises(ValueError, match=r"is already registered as pytree node.*once"):
            register_pytree_node(cls, lambda p: ((), None), lambda c, _: None)
    with pytest.raises(TypeError, match="needs a class, but got 3"):
        register_pytree_node(3, lambda p: ((), None), lambda c, _: 3)


def test_classes_met_as_leaves_are_not_kept_for_ever() -> None:
    made = [type(f"Leaf{i}", (), {}) for i in range(3000)]
    references = [weakref.ref(cls) for cls in made]
    for cls in made:
        tree_leaves([cls()])
    del made, cls
    gc.collect()
    assert sum(reference() is not None for reference in references) <= 1000


# ----- mapping ----------------------------------------------------------------------------------------------


def test_is_leaf_keeps_nodes_closed() -> None:
    def is_pair(x: Any) -> bool:
        return isinstance(x, tuple)

    tree = [(1, 2), {"a": (3, 4)}, 5]
    assert tree_leaves(tree, is_leaf=is_pair) == [(1, 2), (3, 4), 5]
    assert tree_flatten(tree, is_pair)[1] == tree_structure([0, {"a": 0}, 0])
    assert tree_map(len, tree[:2], is_leaf=is_pair) == [2, {"a": 2}]
    assert tree_map(lambda a, b: (a, b), tree, [1, {"a": 2}, 3], is_leaf=is_pair) == [
        ((1, 2), 1),
        {"a": ((3, 4), 2)},
        (5, 3),
    ]


def test_map_gives_whole_subtrees_of_the_others() -> None:
    assert tree_map(lambda x, y: (x, y), (1, 2), ((1, 3), [1])) == ((1, (1, 3)), (2, [1]))


def test_map_matches_mappings_by_key() -> None:
    assert tree_map(operator.sub, {"a": 10, "b": 20}, {"b": 2, "a": 1}) == {"a": 9, "b": 18}
    assert tree_map(operator.sub, {"a": 10, "b": 20}, OrderedDict(b=2, a=1)) == {"a": 9, "b": 18}
    assert tree_map(operator.sub, deque([3], maxlen=2), deque([1])) == deque([2])


def test_map_only_by_type_union_and_predicate() -> None:
    tree = [1, "a", (2.5, None)]
    assert tree_map_only(int, operator.neg, tree) == [-1, "a", (2.5, None)]
    assert tree_map_only((int, float), operator.neg, tree) == [-1, "a", (-2.5, None)]
    assert tree_map_only(int | float, operator.neg, tree) == [-1, "a", (-2.5, None)]
    assert tree_map_only(lambda x: x == "a", str.upper, tree) == [1, "A", (2.5, None)]


def test_all_and_any() -> None:
    assert tree_all(lambda x: x > 0, [1, {"a": 2}])
    assert not tree_all(lambda x: x > 1, [1, {"a": 2}])
    assert tree_any(lambda x: x > 1, [1, {"a": 2}])
    assert not tree_any(lambda x: x > 2, [1, {"a": 2}])
    assert tree_all(bool, [])
    assert not tree_any(bool, [])


# ----- specs ------------------------------------------------------------------------------------------------


def test_specs_differ_by_type_length_keys_order_and_context() -> None:
    specs = [
        tree_structure(tree)
        for tree in (
            0, [], (), {}, [0], (0,), [0, 0], [[0]], {"a": 0}, {"b": 0}, {"a": 0, "b": 0}, {"b": 0, "a": 0},
            OrderedDict(a=0), defaultdict(int, a=0), defaultdict(list, a=0), deque([0]), deque([0], maxlen=1),
            Size([0]), Point(0, 0), Layer(0, 0), Frozen(0, 0), Pair(0, 0), Pair(0, 0, "tag"),
        )
    ]  # fmt: skip
    for i, a in enumerate(specs):
        assert [a == b for b in specs] == [i == j for j in range(len(specs))]
    assert len(set(specs)) == len(specs)
    assert tree_structure(0) != "TreeSpec(*)"


def test_specs_with_unhashable_contexts_hash() -> None:
    class Tagged:
        def __init__(self, child: Any, tags: list[str]) -> None:
            self.child, self.tags = child, tags

    register_pytree_node(Tagged, lambda t: ((t.child,), t.tags), lambda c, tags: Tagged(c[0], tags))
    a, b = tree_structure(Tagged(1, ["x"])), tree_structure(Tagged(2, ["x"]))
    assert a == b
    assert hash(a) == hash(b)
    assert a != tree_structure(Tagged(1, ["y"]))


def test_flatten_of_spec_parts() -> None:
    spec = tree_structure({"a": (1, 2), "b": 3})
    assert spec.type is dict
    assert spec.num_children == 2
    assert spec.children_specs == [tree_structure((0, 0)), LEAF]
    assert spec.flatten_up_to({"b": [5], "a": (3, 4)}) == [3, 4, [5]]
    assert spec.unflatten(iter([1, 2, 3])) == {"a": (1, 2), "b": 3}


def test_unflatten_refuses_the_wrong_number_and_the_wrong_order_of_arguments() -> None:
    spec = tree_structure([1, (2,)])
    for leaves in ([1], [1, 2, 3], []):
        with pytest.raises(ValueError, match=rf"^{len(leaves)} leaves .* the 2 of TreeSpec\(\[\*, \(\*,\)\]\)"):
            tree_unflatten(leaves, spec)
    with pytest.raises(TypeError, match=r"tree_unflatten\(leaves, treespec\)"):
        tree_unflatten(spec, [1, 2])


def test_spec_of_a_leaf_class_is_refused() -> None:
    with pytest.raises(TypeError, match=r"whose instances are leaves.*register_pytree_node"):
        TreeSpec(set, None, [])


# ----- prefixes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "tree", "expected"),
    [
        (0, [1, (2, 3)], [0, 0, 0]),
        (None, {"a": 1}, [None]),
        ((0, None), ([1, 2], {"a": 3}), [0, 0, None]),
        (({"w": 0, "b": None}, 1), ({"b": [1, 2], "w": 3}, (4, 5)), [None, None, 0, 1, 1]),
        ((0, (1, [2, None])), (9, (9, [9, (9, 9)])), [0, 1, 2, None, None]),
        (Layer(0, None), Layer([1, 2], 3), [0, 0, None]),
        (Point(0, 1), Point((), [2]), [1]),
        ((), (), []),
        ([0], [()], []),
    ],
    ids=stable_id,
)
def test_prefix_values_are_repeated_for_leaves(prefix: Any, tree: Any, expected: list[Any]) -> None:
    assert broadcast_prefix(prefix, tree) == expected
    assert broadcast_prefix(prefix, tree_structure(tree)) == expected


def test_prefix_nodes_may_be_declared_leaves() -> None:
    assert broadcast_prefix((1, 2), [5, 6], is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2), (1, 2)]


@pytest.mark.parametrize(
    ("prefix", "tree", "place", "first", "second"),
    [
        ((0, 0), (1,), "tree:", "(*, *)", "(*,)"),
        ([0, 0], (1, 2), "tree:", "[*, *]", "(*, *)"),
        ((0, (1, 2)), (1, 2), "tree[1]:", "(*, *)", "*"),
        ({"a": [0], "b": 0}, {"a": 1, "b": 2}, "tree['a']:", "[*]", "*"),
        ({"a": 0}, {"b": 0}, "tree:", "{'a': *}", "{'b': *}"),
        ({"a": 0}, [0], "tree:", "{'a': *}", "[*]"),
        ((0, Point(0, [1, 2])), (1, Point(1, [2])), "tree[1].y:", "[*, *]", "[*]"),
        (Layer(0, (1,)), Layer(0, 1), "tree.bias:", "(*,)", "*"),
        (Pair(0, 1, "a"), Pair(0, 1, "b"), "tree:", "tests.Pair(*, *)", "tests.Pair(*, *)"),
    ],
    ids=stable_id,
)
def test_mismatch_names_the_place_and_both_structures(prefix: Any, tree: Any, place: str, first: str, second: str) -> None:
    for attempt in (lambda: broadcast_prefix(prefix, tree), lambda: tree_map(lambda *_: 0, prefix, tree)):
        with pytest.raises(ValueError, match="do not match") as caught:
            attempt()
        message = str(caught.value)
        assert f"at {place}" in message
        assert f"has {first} there and the second {second}." in message
        assert repr(tree_structure(prefix)) in message
        assert repr(tree_structure(tree)) in message
        assert caught.value.__suppress_context__
