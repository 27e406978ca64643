"""Switches and modes beyond torch: hidden writes in NumPy's namespace, blocks that fail, layouts of gradients."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.core.grad_mode import _enter_inference_mode, _exit_inference_mode
from ndgrad._src.core.modes import process, thread

A = np.array([0.3, -1.2, 2.0])


def test_a_hidden_write_puts_back_what_was_moved_away():
    x = ndgrad.tensor(A, requires_grad=True)
    h = x * 1.0
    y = h * h
    kept = h.detach().clone()
    with ndgrad.autograd._unsafe_preserve_version_counter(h), ndgrad.no_grad():
        h.zero_()
        h.copy_(kept)
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), 2 * A)


def test_a_hidden_write_on_numpys_class_is_hidden_too():
    x = dnp.array(A).requires_grad_()
    h = x * 1.0
    y = h * h
    with ndgrad.autograd._unsafe_preserve_version_counter(h), ndgrad.no_grad():
        h[:] = 10.0
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0, 20.0]  # the requested value


def test_the_version_is_put_back_when_the_block_fails():
    h = ndgrad.tensor(A)

    def fail():
        with ndgrad.autograd._unsafe_preserve_version_counter(h):
            h.add_(1.0)
            raise KeyError("mine")

    with pytest.raises(KeyError):
        fail()
    assert h._version == 0
    h.add_(1.0)
    assert h._version == 1


def test_inference_tensors_have_no_version_to_preserve():
    with ndgrad.inference_mode():
        t = ndgrad.ones(2)
    with pytest.raises(RuntimeError), ndgrad.autograd._unsafe_preserve_version_counter(t):
        pass


@pytest.mark.parametrize("name", ["_force_original_view_tracking", "enforce_grad_layout_policy", "set_multithreading_enabled"])
def test_switches_are_set_at_once_and_for_a_block_and_for_a_function(name):
    switch = getattr(ndgrad.autograd, name)
    attribute = switch.attribute
    before = getattr(thread, attribute)
    with switch(not before):
        assert getattr(thread, attribute) is (not before)
    assert getattr(thread, attribute) is before

    @switch(not before)
    def inside():
        return getattr(thread, attribute)

    assert getattr(thread, attribute) is before
    assert inside() is (not before)
    with pytest.raises(KeyError), switch(not before):
        raise KeyError("mine")
    assert getattr(thread, attribute) is before
    switch(not before)
    assert getattr(thread, attribute) is (not before)
    switch(before)


def test_gradients_lie_as_their_leaves_unless_told_otherwise():
    for enforce, expected in ((True, (1, 3)), (False, (2, 1))):
        p = ndgrad.ones(2, 3).t().detach().requires_grad_()
        assert p.stride() == (1, 3)
        with ndgrad.autograd.enforce_grad_layout_policy(enforce):
            (p * ndgrad.ones(3, 2)).sum().backward()
        assert p.grad.stride() == expected


def test_inference_mode_without_a_block():
    busy = len(process.busy)
    mode = _enter_inference_mode(True)
    try:
        assert ndgrad.is_inference_mode_enabled()
        assert ndgrad.ones(1).is_inference()
    finally:
        _exit_inference_mode(mode)
    assert not ndgrad.is_inference_mode_enabled()
    assert len(process.busy) == busy
