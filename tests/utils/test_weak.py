"""Weak dictionaries of tensors, the names of running modules, and blocks without dispatch."""

from __future__ import annotations

import copy

import pytest

import ndgrad
from ndgrad.autograd._functions import Resize
from ndgrad.utils._mode_utils import no_dispatch
from ndgrad.utils._python_dispatch import TorchDispatchMode
from ndgrad.utils.module_tracker import ModuleTracker
from ndgrad.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakTensorKeyDictionary


def test_equal_tensors_are_different_keys():
    x, y = ndgrad.ones(2), ndgrad.ones(2)
    names = WeakTensorKeyDictionary({x: "x"})
    names[y] = "y"
    assert (names[x], names[y], len(names)) == ("x", "y", 2)
    assert names.pop(x) == "x"
    assert x not in names
    assert y in names
    assert 3 not in names


def test_an_entry_ends_with_its_key():
    x = ndgrad.ones(2)
    names, ref = WeakIdKeyDictionary({x: 1}), TensorWeakRef(x)
    doubled = names | {ndgrad.ones: 2}
    assert ref() is x
    assert len(doubled) == 2
    del x
    assert ref() is None
    assert not names
    assert list(doubled.values()) == [2]


def test_a_deep_copy_keeps_keys_and_copies_values():
    x, value = ndgrad.ones(2), [1]
    copied = copy.deepcopy(WeakIdKeyDictionary({x: value}))
    assert copied[x] == [1]
    assert copied[x] is not value


def test_module_tracker_names_modules_in_forward_and_backward():
    seen = []
    net = ndgrad.nn.Sequential(ndgrad.nn.Linear(2, 2), ndgrad.nn.Tanh())
    with ModuleTracker() as tracker:
        net[1].register_forward_pre_hook(lambda *_: seen.append(set(tracker.parents)))
        y = net(ndgrad.ones(1, 2, requires_grad=True))
        y.register_hook(lambda g: seen.append(set(tracker.parents)))
        y.sum().backward()
    assert seen[0] == {"Global", "Sequential", "Sequential.1"}
    assert "Sequential" in seen[1]
    assert tracker.parents == {"Global"}


def test_no_dispatch_hides_modes():
    class Count(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += 1
            return func(*args, **(kwargs or {}))

    with Count() as mode:
        ndgrad.ones(1) + 1
        before = mode.count
        with no_dispatch():
            ndgrad.ones(1) + 1
        assert mode.count == before > 0


def test_resize_changes_the_shape_and_its_gradient():
    x = ndgrad.arange(4.0).requires_grad_()
    y = Resize.apply(x, (2, 2))
    (y * ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(RuntimeError, match="requested resize"):
        Resize.apply(x, (3,))


def test_calculate_shape_of_tensors_edges_and_nested_tensors():
    calculate = ndgrad.autograd._calculate_shape
    x = ndgrad.ones(2, 3, requires_grad=True)
    assert calculate(x, ndgrad.ones(4, 2, 3), True) == ((2, 3), (2, 3))
    assert calculate(ndgrad.autograd.graph.get_gradient_edge(x), ndgrad.ones(3), False) == ((2, 3), (3,))
    parts = ndgrad.nested.as_nested_tensor([ndgrad.ones(1, 2), ndgrad.ones(3, 2)])
    assert calculate(parts, parts, False)[0].tolist() == [[1, 2], [3, 2]]
