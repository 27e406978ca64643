"""Each deliberate difference from torch is shown by a test, and each test's difference is on the list."""

from __future__ import annotations

import copy
import operator
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.differences import IDS, deliberate


def test_every_entry_of_the_list_is_shown_by_some_test():
    shown = set()
    for path in Path(__file__).parent.glob("*.py"):
        shown |= set(re.findall(r'deliberate\("([a-z0-9-]+)"\)', path.read_text()))
    assert shown == IDS


def test_negative_steps_are_views():
    deliberate("negative-step")
    with pytest.raises(ValueError):
        torch.arange(3.0)[::-1]
    x = ndgrad.tensor([1.0, 2.0, 3.0])
    x[::-1][0] = 10.0
    assert x.tolist() == [1.0, 2.0, 10.0]


def test_iterated_views_can_be_written():
    deliberate("iteration")
    x = torch.ones(2, 2, requires_grad=True)
    row, _ = x * 1.0
    with pytest.raises(RuntimeError):
        row.mul_(2.0)
    x = ndgrad.ones(2, 2, requires_grad=True)
    y = x * 1.0
    row, _ = y
    row.mul_(2.0)
    y.sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [1.0, 1.0]]


def test_floating_point_warnings_of_the_forward():
    deliberate("floating-warnings")
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        ndgrad.tensor([1.0]) / ndgrad.tensor([0.0])


def test_a_failed_backward_touches_no_leaf():
    deliberate("failed-backward")

    def run(lib):
        a, b = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
        y = a * 2.0
        y.register_hook(lambda g: 1 / 0)
        z = (y * 3.0 + b.exp()).sum()
        with pytest.raises(ZeroDivisionError):
            z.backward()
        return b.grad

    assert run(torch) is not None
    assert run(ndgrad) is None


def test_a_buffer_made_inside_vmap_takes_batched_values():
    deliberate("write-inside-vmap")

    def f(lib):
        def body(x):
            u = lib.zeros(2)
            u[0] = x * 2.0
            return u

        return body

    with pytest.raises(RuntimeError):
        torch.func.vmap(f(torch))(torch.ones(3))
    assert ndgrad.func.vmap(f(ndgrad))(ndgrad.ones(3)).tolist() == [[2.0, 0.0]] * 3


def test_domains_that_are_numpys():
    deliberate("numpy-domains")
    z = np.array([1 + 2j, 1 + 1j])
    with pytest.raises(RuntimeError):
        torch.tensor(z) < torch.tensor(z[::-1].copy())
    assert (ndgrad.tensor(z) < ndgrad.tensor(z[::-1].copy())).tolist() == [False, True]
    with pytest.raises(RuntimeError):
        torch.linalg.det(torch.tensor([[1, 2], [3, 4]]))
    assert abs(ndgrad.linalg.det(ndgrad.tensor([[1, 2], [3, 4]])).item() + 2) < 1e-12
    for divide in (operator.floordiv, operator.mod):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            divide(torch.tensor([7]), 0)
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            assert divide(ndgrad.tensor([7]), 0).tolist() == [0]
    assert torch.square(torch.tensor([True])).dtype is torch.int64
    assert ndgrad.square(ndgrad.tensor([True])).dtype is ndgrad.int8


def test_spaces_between_a_batched_number_and_a_python_number():
    deliberate("vmap-spaces")
    for name in ("linspace", "logspace"):
        dtypes, values = [], []
        for m in (torch, ndgrad):
            before = m.get_default_dtype()
            m.set_default_dtype(m.float32)
            try:
                batched = m.func.vmap(lambda s, m=m, name=name: getattr(m, name)(s, 1.0, 3))(m.tensor([0.0, 0.5]))
            finally:
                m.set_default_dtype(before)
            dtypes.append(str(batched.dtype).split(".")[1])
            values.append(batched.tolist())
        assert dtypes == ["float64", "float32"]
        np.testing.assert_allclose(values[0], values[1], rtol=1e-6)


def test_conjugates_are_copies_that_may_not_be_written():
    deliberate("conjugate-views")
    z = np.array([[1 + 2j, 3 - 1j]])
    theirs, ours = torch.tensor(z), ndgrad.tensor(z)
    for conjugate in (lambda t: t.conj(), lambda t: t.mH, lambda t: t.H, lambda t: t.adjoint()):
        view = conjugate(theirs)
        view.mul_(2.0)
        assert theirs[0, 0].item() != z[0, 0]
        theirs = torch.tensor(z)
        with pytest.raises(RuntimeError, match="conjugate"):
            conjugate(ours).mul_(2.0)
        with pytest.raises(RuntimeError, match="conjugate"):
            ndgrad.func.grad(lambda t, conjugate=conjugate: conjugate(t).mul_(2.0).abs().sum())(ours)
        np.testing.assert_array_equal(conjugate(ours).resolve_conj().mul_(2.0).numpy(), 2.0 * conjugate(theirs).resolve_conj().numpy())
    view = ours.conj()
    ours.mul_(3.0)
    np.testing.assert_array_equal(view.numpy(), z.conj())
    assert ndgrad.tensor([1.0]).conj().mul_(2.0).item() == 2.0  # a real tensor itself


def test_read_only_memory_is_not_written():
    deliberate("read-only")
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        ndgrad.from_numpy(frozen).mul_(2.0)
    assert frozen.tolist() == [1.0, 1.0]


def test_elements_that_are_picked_keep_their_gradient():
    deliberate("picked-elements")
    values, counted = np.array([0.5, -1.0, 0.5]), np.array([1, 0, 1])
    for run, expected in (
        (lambda lib, x: lib.unique(x), [1.0, 1.0, 0.0]),
        (lambda lib, x: lib.unique_consecutive(x, return_counts=True)[0], [1.0, 1.0, 1.0]),
        (lambda lib, x: lib.unique(x.reshape(3, 1), dim=0), [1.0, 1.0, 0.0]),
        (lambda lib, x: lib.bincount(lib.tensor(counted), x), [1.0, 1.0, 1.0]),
    ):
        x = torch.tensor(values, requires_grad=True)
        with pytest.raises((RuntimeError, NotImplementedError), match="not implemented"):
            run(torch, x).sum().backward()
        x = ndgrad.tensor(values, requires_grad=True)
        run(ndgrad, x).sum().backward()
        assert x.grad.tolist() == expected
    for run, expected in (
        (lambda lib, x: lib.linspace(x[0], 2.0, 3), [1.5, 0.0, 0.0]),
        (lambda lib, x: lib.logspace(2.0, x[0], 2), [10.0**0.5 * np.log(10.0), 0.0, 0.0]),
        (lambda lib, x: x.view(lib.float64), [1.0, 1.0, 1.0]),
        (lambda lib, x: copy.copy(x * 2.0), [2.0, 2.0, 2.0]),
    ):
        x = torch.tensor(values, requires_grad=True)
        made = run(torch, x)
        assert made.grad_fn is None
        x = ndgrad.tensor(values, requires_grad=True)
        ours = run(ndgrad, x)
        assert np.allclose(ours.detach().numpy(), made.detach().numpy())
        ours.sum().backward()
        assert np.allclose(x.grad.numpy(), expected)
    with pytest.raises(RuntimeError, match="bits"):
        ndgrad.tensor(values, requires_grad=True).view(ndgrad.int64)


def test_a_tangent_is_refused_where_a_gradient_would_be():
    deliberate("tangents-at-exports")
    entries = {
        "numpy": lambda lib, t: t.numpy(),
        "deepcopy": lambda lib, t: copy.deepcopy(t),
        "pickle": lambda lib, t: pickle.dumps(t),
        "dlpack": lambda lib, t: t.__dlpack__(),
    }
    for lib in (torch, ndgrad):
        forward = lib.autograd.forward_ad
        for entry in entries.values():
            with forward.dual_level():
                dual = forward.make_dual(lib.ones(2), lib.ones(2))
                if lib is torch:
                    entry(lib, dual)
                else:
                    with pytest.raises((RuntimeError, BufferError), match="tangent"):
                        entry(lib, dual)


def test_derivatives_on_branch_cuts():
    deliberate("branch-cuts")
    slope = (np.arccos(2 + 1e-6 + 0j) - np.arccos(2 - 1e-6 + 0j)) / 2e-6
    z = torch.tensor(2 + 0j, dtype=torch.complex128)
    theirs = torch.func.jvp(torch.acos, (z,), (torch.ones_like(z),))[1].item()
    z = ndgrad.tensor(2 + 0j)
    ours = ndgrad.func.jvp(ndgrad.acos, (z,), (ndgrad.ones_like(z),))[1].item()
    assert abs(ours - slope) < 1e-8
    assert abs(theirs + slope) < 1e-8


def test_plain_arguments_of_transforms():
    deliberate("plain-arguments")
    for value in (2.0, np.ones(2)):
        with pytest.raises(ValueError, match="must be Tensor"):
            torch.func.grad(lambda x: (x * x).sum())(value)
        found = ndgrad.func.grad(lambda x: (x * x).sum())(value)
        np.testing.assert_array_equal(found, 2 * np.asarray(value))
        assert isinstance(found, (float, np.ndarray))
