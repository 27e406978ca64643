"""`utils._pytree`: trees with the way to each leaf, specs as text, registered classes."""

from __future__ import annotations

import collections
import dataclasses
import time
from importlib import import_module
from typing import NamedTuple

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour, says
from tests.torch_parity.side_by_side import Programs

PROGRAMS = Programs()
program = PROGRAMS.enter


def mod(m, n):
    return import_module(f"{m.__name__}.{n}")


def trees(m):
    return mod(m, "utils._pytree")


class Pt(NamedTuple):
    x: int
    y: int


@program
def tree_flatten_path(m):
    P = trees(m)
    t = {"a": [1, (2, Pt(3, 4))], "b": collections.OrderedDict(z=5), "c": collections.deque([6])}
    found, spec = P.tree_flatten_with_path(t)
    return (
        [(P.keystr(kp), v) for kp, v in found],
        [P.key_get(t, kp) for kp, _ in found],
        P.tree_unflatten([v for _, v in found], spec) == t,
    )


@program
def tree_leaves_path(m):
    P = trees(m)
    return [(P.keystr(k), v) for k, v in P.tree_leaves_with_path([1, {"q": 2}])]


@program
def tree_map_path(m):
    P = trees(m)
    return P.tree_map_with_path(lambda kp, x, y: (P.keystr(kp), x + y), {"a": [1, 2]}, {"a": [10, 20]})


@program
def tree_map_in_place(m):
    P = trees(m)
    t = [[1], [2]]
    seen = []
    r = P.tree_map_(lambda x: seen.append(x), t)
    return (r is t, seen)


@program
def tree_map_only_in_place(m):
    P = trees(m)
    t = [1, "a", 2.0]
    seen = []
    P.tree_map_only_(int, lambda x: seen.append(x), t)
    return seen


@program
def tree_only(m):
    P = trees(m)
    return (
        P.tree_all_only(int, lambda x: x > 0, [1, "a", 2]),
        P.tree_any_only(int, lambda x: x > 5, [1, "a", 2]),
        P.tree_map_only(int, lambda x: -x, [1, "a"]),
    )


@program
def tree_map_only_curried(m):
    P = trees(m)
    return P.tree_map(P.map_only(int)(lambda x: -x), [1, "a"])


@program
def tree_iter(m):
    P = trees(m)
    return (list(P.tree_iter([1, (2, {"a": 3})])), P.arg_tree_leaves(1, [2], k=(3,)))


@program
def is_leaf(m):
    P = trees(m)
    return (
        P.tree_is_leaf(3),
        P.tree_is_leaf([3]),
        P.tree_is_leaf([3], is_leaf=lambda x: True),
        P.tree_leaves([[1], [2]], is_leaf=lambda x: x == [1]),
        P.tree_is_leaf(None),
    )


@program
def namedtuples(m):
    P = trees(m)
    return (
        P.is_namedtuple(Pt),
        P.is_namedtuple(Pt(1, 2)),
        P.is_namedtuple_instance(Pt(1, 2)),
        P.is_namedtuple_class(Pt),
        P.is_namedtuple((1, 2)),
        P.is_structseq(time.localtime()),
        P.is_structseq_class(time.struct_time),
        P.is_structseq_instance((1,)),
    )


@program
def specs(m):
    P = trees(m)
    s = P.tree_structure({"a": 1, "b": [2, 3]})
    return (
        s.num_leaves,
        s.num_nodes,
        s.num_children,
        s.type is dict,
        s.is_leaf(),
        P.treespec_leaf().is_leaf(),
        s == P.tree_structure({"a": 4, "b": [5, 6]}),
        isinstance(P.treespec_leaf(), P.LeafSpec),
        isinstance(s, P.LeafSpec),
        isinstance(s, P.TreeSpec),
        s.child(1).num_leaves,
        len(s.children()),
        s.entries() if hasattr(s, "entries") else None,
    )


@program
def specs_made(m):
    P = trees(m)
    return (
        P.treespec_tuple([P.treespec_leaf(), P.treespec_leaf()]) == P.tree_structure((1, 2)),
        P.treespec_dict({"a": P.treespec_leaf()}) == P.tree_structure({"a": 1}),
        P.treespec_dict(a=P.treespec_leaf()).num_leaves,
    )


@program
def spec_dumps(m):
    P = trees(m)
    s = P.tree_structure({"a": 1, "b": [2, (3, None)]})
    d = P.treespec_dumps(s)
    return (d, P.treespec_loads(d) == s)


@program
def spec_dumps_kinds(m):
    P = trees(m)
    s = P.tree_structure([collections.OrderedDict(a=1), collections.deque([1], maxlen=3), collections.defaultdict(list, b=2)])
    d = P.treespec_dumps(s)
    return P.treespec_loads(d) == s


@program
def spec_dumps_bad(m):
    P = trees(m)
    return (says(lambda: P.treespec_dumps(3)), says(lambda: P.treespec_loads("nonsense")))


@program
def spec_pprint(m):
    P = trees(m)
    return isinstance(P.treespec_pprint(P.tree_structure([1, {"a": 2}])), str)


@program
def registering(m):
    P = trees(m)

    class Box:
        def __init__(self, a):
            self.a = a

    P.register_pytree_node(
        Box,
        lambda b: ([b.a], None),
        lambda c, _: Box(*c),
        serialized_type_name=f"{m.__name__}.Box",
        flatten_with_keys_fn=lambda b: ([(P.GetAttrKey("a"), b.a)], None),
    )
    b = P.tree_map(lambda x: x + 1, Box(1))
    return (
        b.a,
        [P.keystr(k) for k, _ in P.tree_leaves_with_path(Box(1))],
        says(lambda: P.register_pytree_node(Box, lambda b: ([b.a], None), lambda c, _: Box(*c))),
    )


@program
def registering_no_keys(m):
    P = trees(m)

    class Box2:
        def __init__(self, a):
            self.a = a

    P.register_pytree_node(Box2, lambda b: ([b.a], None), lambda c, _: Box2(*c))
    return says(lambda: P.tree_leaves_with_path(Box2(1)))


@program
def registering_dataclass(m):
    P = trees(m)

    @dataclasses.dataclass
    class D:
        x: int
        y: int = 2

    P.register_dataclass(D)
    d = P.tree_map(lambda v: v * 10, D(1))
    return (d.x, d.y, [P.keystr(k) for k, _ in P.tree_leaves_with_path(D(1))])


@program
def registering_constant(m):
    P = trees(m)

    @dataclasses.dataclass(frozen=True)
    class C:
        x: int

    P.register_constant(C)
    l, s = P.tree_flatten([C(1), 2])
    return (
        l,
        P.tree_unflatten(l, s) == [C(1), 2],
        P.is_constant_class(C),
        s == P.tree_structure([C(1), 3]),
        s == P.tree_structure([C(2), 3]),
    )


@program
def keys(m):
    P = trees(m)
    return (
        str(P.MappingKey("a")),
        str(P.SequenceKey(1)),
        str(P.GetAttrKey("f")),
        P.MappingKey("a") == P.MappingKey("a"),
        P.MappingKey("a").get({"a": 3}),
        P.SequenceKey(1).get([1, 2]),
        len({P.SequenceKey(1), P.SequenceKey(1)}),
    )


@program
def mismatched(m):
    P = trees(m)
    return (
        says(lambda: P.tree_map(lambda x, y: x, [1, 2], [1])).cls,
        says(lambda: P.tree_unflatten([1], P.tree_structure([1, 2]))).cls,
        says(lambda: P.tree_unflatten([1], 3)).cls,
    )


def dispatch_modes(m):
    return mod(m, "utils._python_dispatch")


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_behaviour(name):
    theirs, ours = (behaviour(PROGRAMS[name], m) for m in (torch, ndgrad))
    assert agree(theirs, ours), f"torch: {theirs}\nndgrad: {ours}"
