"""Conjugates and negatives: what says of itself that it is one, and what is computed with them."""

from __future__ import annotations

import copy

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour
from tests.torch_parity.side_by_side import Programs, leaf, ones

PROGRAMS = Programs()
program = PROGRAMS.enter


def c(m, *shape, **k):
    import numpy as np

    n = int(np.prod(shape))
    a = np.arange(1.0, n + 1).reshape(shape) + 1j * np.arange(n, 0.0, -1).reshape(shape)
    return m.tensor(a, **k)


@program
def bits(m):
    x = c(m, 2, 2)
    y = x.conj()
    return [
        x.is_conj(),
        y.is_conj(),
        y.conj().is_conj(),
        y.resolve_conj().is_conj(),
        y.imag.is_neg(),
        y.real.is_neg(),
        y.imag.resolve_neg().is_neg(),
        m.is_conj(y),
        m.is_neg(y.imag),
        y.imag.is_conj(),
    ]


@program
def bits_views(m):
    y = c(m, 2, 2).conj()
    return [
        y[0].is_conj(),
        y.t().is_conj(),
        y.view(4).is_conj(),
        y.mT.is_conj(),
        y.reshape(4).is_conj(),
        y.unbind(0)[0].is_conj(),
        y.expand(3, 2, 2).is_conj(),
        y.contiguous().is_conj(),
        y.clone().is_conj(),
        (y * 2).is_conj(),
        y.detach().is_conj(),
        y.imag[0].is_neg(),
        y.imag.t().is_neg(),
        y.imag.clone().is_neg(),
        y.mH.is_conj(),
        c(m, 2, 2).mH.is_conj(),
        c(m, 2, 2).adjoint().is_conj(),
        c(m, 2, 2).H.is_conj(),
    ]


@program
def values(m):
    y = c(m, 2, 2).conj()
    return [y, y.imag, y.imag.resolve_neg(), y.resolve_conj(), y.conj_physical(), m.conj_physical(y), y * y, y + 1, y.real, y.conj()]


@program
def physical(m):
    y = c(m, 2).conj_physical()
    x = c(m, 2)
    x.conj_physical_()
    return [y.is_conj(), x, x.is_conj()]


@program
def real_conj(m):
    x = ones(m, 2)
    return [x.conj() is x, x.is_conj(), x.conj().is_conj(), x.resolve_conj() is x, x.resolve_neg() is x, x.is_neg(), m.conj(x) is x]


@program
def resolve_identity(m):
    x = c(m, 2)
    return [x.resolve_conj() is x, x.conj().resolve_conj() is x, x.resolve_neg() is x]


@program
def grad_fn(m):
    x = c(m, 2, requires_grad=True)
    return (x.conj().grad_fn.name(), x.conj().resolve_conj().grad_fn.name(), x.conj().imag.grad_fn.name())


@program
def numpy_force(m):
    return c(m, 2).conj().numpy(force=True)


@program
def view_as_real2(m):
    return m.view_as_real(c(m, 2).conj().resolve_conj())


@program
def dual_conj(m):
    fw = m.autograd.forward_ad
    a = c(m, 2, 2).conj()
    b = c(m, 2, 2)
    with fw.dual_level():
        d = fw.make_dual(a, b)
        p, t = fw.unpack_dual(d)
        return (d[1:], d.is_conj(), p.is_conj(), t.is_conj(), t)


@program
def dual_conj_tangent(m):
    fw = m.autograd.forward_ad
    a = c(m, 2, 2)
    b = c(m, 2, 2).conj()
    with fw.dual_level():
        d = fw.make_dual(a, b)
        _p, t = fw.unpack_dual(d)
        return (d.is_conj(), t.is_conj(), t)


@program
def dual_neg(m):
    fw = m.autograd.forward_ad
    a = c(m, 2, 2).conj().imag
    b = ones(m, 2, 2)
    with fw.dual_level():
        d = fw.make_dual(a, b)
        p, t = fw.unpack_dual(d)
        return (d[1:], d.is_neg(), p.is_neg(), t.is_neg(), t)


@program
def dual_of_view(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        d = fw.make_dual(c(m, 2, 2), c(m, 2, 2))
        y = d.conj()
        return [
            y.is_conj(),
            fw.unpack_dual(y).tangent.is_conj(),
            fw.unpack_dual(y).tangent,
            fw.unpack_dual(y.imag).tangent,
            fw.unpack_dual(y.imag).tangent.is_neg(),
        ]


@program
def matmul(m):
    a = c(m, 2, 2)
    return [a.mH @ a, (a.mH @ a).is_conj(), m.linalg.solve(a.mH, a)]


@program
def deepcopy(m):
    y = c(m, 2).conj()
    z = copy.deepcopy(y)
    return (z, z.is_conj())


@program
def empty_like(m):
    return [m.empty_like(c(m, 2).conj()).is_conj(), m.zeros_like(c(m, 2).conj()).is_conj()]


@program
def set_bits(m):
    x = c(m, 2)
    x._set_conj(True)
    return x


@program
def equal(m):
    x = c(m, 2)
    return (m.equal(x.conj(), x.conj_physical()), m.allclose(x.conj(), x.conj().resolve_conj()))


@program
def adjoint_real(m):
    x = leaf(m, 2, 2)
    return (x.mH.is_conj(), x.mH._is_view(), x.adjoint().grad_fn.name())


@program
def vdot(m):
    x = c(m, 2)
    return (m.vdot(x, x.conj()), m.dot(x, x.conj()))


@program
def stride(m):
    y = c(m, 2, 3).conj()
    return (y.stride(), y.storage_offset(), y.is_contiguous(), y.imag.stride(), y.imag.storage_offset(), y.mH.stride())


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_behaviour(name):
    theirs, ours = (behaviour(PROGRAMS[name], m) for m in (torch, ndgrad))
    assert agree(theirs, ours), f"torch: {theirs}\nndgrad: {ours}"
