"""Trees under torch's names: ways to leaves, structures as text, classes registered field by field."""

from __future__ import annotations

import collections
import dataclasses
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgrad.utils import _pytree as trees


class Point(NamedTuple):
    x: object
    y: object


CONTAINERS = st.recursive(
    st.integers(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.lists(inner, max_size=2).map(lambda items: collections.deque(items, maxlen=4)),
        st.dictionaries(st.text(max_size=2), inner, max_size=2).map(collections.OrderedDict),
    ),
    max_leaves=8,
)


@given(CONTAINERS)
def test_a_way_leads_to_its_leaf(tree):
    found, spec = trees.tree_flatten_with_path(tree)
    assert [leaf for _, leaf in found] == trees.tree_leaves(tree)
    assert all(trees.key_get(tree, path) == leaf for path, leaf in found)
    assert spec == trees.tree_structure(tree)


@given(CONTAINERS)
def test_a_structure_survives_being_text(tree):
    spec = trees.tree_structure(tree)
    assert trees.treespec_loads(trees.treespec_dumps(spec)) == spec


def test_named_tuples_and_dataclasses_are_led_to_by_name():
    @dataclasses.dataclass
    class State:
        p: object

    tree = State(Point(1, [2]))
    assert trees.tree_leaves(tree) == [tree]  # as in torch, a class without registration is a leaf
    trees.register_dataclass(State)
    assert [trees.keystr(path) for path, _ in trees.tree_leaves_with_path(tree)] == [".p.x", ".p.y[0]"]
    assert trees.tree_map_with_path(lambda path, leaf: len(path), tree) == State(Point(2, [3]))


def test_a_registered_class_without_keys_is_refused_and_with_keys_not():
    class Bare:
        def __init__(self, a):
            self.a = a

    class Keyed(Bare):
        pass

    trees.register_pytree_node(Bare, lambda b: ([b.a], None), lambda c, _: Bare(*c))
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        trees.tree_leaves_with_path(Bare(1))
    trees.register_pytree_node(
        Keyed, lambda b: ([b.a], None), lambda c, _: Keyed(*c),
        flatten_with_keys_fn=lambda b: ([(trees.GetAttrKey("a"), b.a)], None),
    )  # fmt: skip
    assert trees.keystr(trees.tree_leaves_with_path(Keyed(1))[0][0]) == ".a"


def test_texts_of_unknown_things_are_refused():
    spec = trees.tree_structure(Point(1, 2))
    with pytest.raises(NotImplementedError, match="serialization name"):
        trees.treespec_dumps(spec)
    with pytest.raises(NotImplementedError, match="not registered"):
        trees.treespec_loads('[1, {"type": "no.such", "context": "null", "children_spec": []}]')
    with pytest.raises(ValueError, match="protocol 7"):
        trees.treespec_loads("[7, {}]")
    with pytest.raises(TypeError, match="PyTreeSpec"):
        trees.treespec_dumps(3)


def test_constants_are_part_of_the_structure():
    @dataclasses.dataclass(frozen=True)
    class Unit:
        name: str

    trees.register_constant(Unit)
    leaves, spec = trees.tree_flatten([Unit("m"), 2])
    assert leaves == [2]
    assert spec.unflatten([3]) == [Unit("m"), 3]
    assert spec != trees.tree_structure([Unit("s"), 2])

    class Bare:
        pass

    with pytest.raises(TypeError, match="__eq__"):
        trees.register_constant(Bare)


def test_a_dataclass_may_leave_fields_out():
    @dataclasses.dataclass
    class Run:
        x: int
        note: str = "none"

    trees.register_dataclass(Run, drop_field_names=["note"])
    assert trees.tree_map(lambda v: v * 2, Run(2, "a")) == Run(4, "none")
    with pytest.raises(ValueError, match="no field z"):
        trees.register_dataclass(type("Other", (Run,), {}), drop_field_names=["z"])
