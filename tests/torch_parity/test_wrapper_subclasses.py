"""Tensor classes that wrap a tensor and have no data of their own (`_make_wrapper_subclass`), through backward, transforms,
forward mode and the functions of functions."""

from __future__ import annotations

import copy
from importlib import import_module

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour, says
from tests.torch_parity.side_by_side import Programs, leaf

PROGRAMS = Programs()
program = PROGRAMS.enter

LOG = []


def logging(m):
    tree_map = import_module(m.__name__ + ".utils._pytree").tree_map

    class L(m.Tensor):
        __slots__ = ("elem",)

        @staticmethod
        def __new__(cls, elem, *args, **kwargs):
            r = m.Tensor._make_wrapper_subclass(
                cls,
                elem.size(),
                strides=elem.stride(),
                storage_offset=elem.storage_offset(),
                dtype=elem.dtype,
                layout=elem.layout,
                device=elem.device,
                requires_grad=kwargs.get("requires_grad", False),
            )
            r.elem = elem.detach() if r.requires_grad else elem
            return r

        def __repr__(self, tensor_contents=None):
            return f"L({self.elem})"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):

            def unwrap(e):
                return e.elem if isinstance(e, L) else e

            def wrap(e):
                return L(e) if isinstance(e, m.Tensor) else e

            rs = tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))
            LOG.append(func.__name__.split(".")[0])
            return rs

    return L


def val(r):
    if isinstance(r, (tuple, list)):
        return [val(x) for x in r]
    return r.elem if hasattr(r, "elem") else r


def f(x):
    return x.exp() * x


def s(x):
    return (x.exp() * x).sum()


def functional_of(m):
    return m.autograd.functional


@program
def backward(m):
    L = logging(m)
    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    y = s(x)
    y.backward()
    return (val(y), val(x.grad), type(x.grad) is L, type(y) is L)


@program
def autograd_grad(m):
    L = logging(m)
    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    (g,) = m.autograd.grad(s(x), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return (val(g), val(h), type(h) is L)


@program
def fu_jacobian(m):
    L = logging(m)
    r = functional_of(m).jacobian(f, L(m.tensor([1.0, 2.0])))
    return (val(r), type(r) is L)


@program
def fu_jacobian_cg(m):
    L = logging(m)
    r = functional_of(m).jacobian(f, L(m.tensor([1.0, 2.0])), create_graph=True)
    return (val(r), type(r) is L)


@program
def fu_jacobian_two(m):
    L = logging(m)
    r = functional_of(m).jacobian(lambda x, y: x * y, (L(m.tensor([1.0, 2.0])), L(m.tensor([3.0, 2.0]))))
    return val(r)


@program
def fu_jacobian_vec(m):
    L = logging(m)
    r = functional_of(m).jacobian(f, L(m.tensor([1.0, 2.0])), vectorize=True)
    return (val(r), type(r) is L)


@program
def fu_jacobian_fwd(m):
    L = logging(m)
    r = functional_of(m).jacobian(f, L(m.tensor([1.0, 2.0])), vectorize=True, strategy="forward-mode")
    return (val(r), type(r) is L)


@program
def fu_hessian(m):
    L = logging(m)
    r = functional_of(m).hessian(s, L(m.tensor([1.0, 2.0])))
    return (val(r), type(r) is L)


@program
def fu_hessian_vec(m):
    L = logging(m)
    r = functional_of(m).hessian(s, L(m.tensor([1.0, 2.0])), vectorize=True)
    return (val(r), type(r) is L)


@program
def fu_vjp(m):
    L = logging(m)
    r = functional_of(m).vjp(f, L(m.tensor([1.0, 2.0])), L(m.tensor([1.0, 1.0])))
    return (val(r), type(r[1]) is L)


@program
def fu_jvp(m):
    L = logging(m)
    r = functional_of(m).jvp(f, L(m.tensor([1.0, 2.0])), L(m.tensor([1.0, 1.0])))
    return (val(r), type(r[1]) is L)


@program
def fu_hvp(m):
    L = logging(m)
    r = functional_of(m).hvp(s, L(m.tensor([1.0, 2.0])), L(m.tensor([1.0, 1.0])))
    return (val(r), type(r[1]) is L)


@program
def fu_vhp(m):
    L = logging(m)
    r = functional_of(m).vhp(s, L(m.tensor([1.0, 2.0])), L(m.tensor([1.0, 1.0])))
    return (val(r), type(r[1]) is L)


@program
def fu_jvp_mixed(m):
    L = logging(m)
    r = functional_of(m).jvp(f, L(m.tensor([1.0, 2.0])), m.tensor([1.0, 1.0]))
    return val(r)


@program
def fu_vjp_mixed(m):
    L = logging(m)
    r = functional_of(m).vjp(f, m.tensor([1.0, 2.0]), L(m.tensor([1.0, 1.0])))
    return val(r)


@program
def func_grad(m):
    L = logging(m)
    r = m.func.grad(s)(L(m.tensor([1.0, 2.0])))
    return (val(r), type(r) is L)


@program
def func_vjp(m):
    L = logging(m)
    o, fn = m.func.vjp(f, L(m.tensor([1.0, 2.0])))
    (r,) = fn(L(m.tensor([1.0, 1.0])))
    return (val(o), val(r), type(r) is L)


@program
def func_jvp(m):
    L = logging(m)
    o, r = m.func.jvp(f, (L(m.tensor([1.0, 2.0])),), (L(m.tensor([1.0, 1.0])),))
    return (val(o), val(r), type(r) is L)


@program
def func_jacrev(m):
    L = logging(m)
    r = m.func.jacrev(f)(L(m.tensor([1.0, 2.0])))
    return (val(r), type(r) is L)


@program
def func_jacfwd(m):
    L = logging(m)
    r = m.func.jacfwd(f)(L(m.tensor([1.0, 2.0])))
    return (val(r), type(r) is L)


@program
def func_hessian(m):
    L = logging(m)
    r = m.func.hessian(s)(L(m.tensor([1.0, 2.0])))
    return (val(r), type(r) is L)


@program
def func_vmap(m):
    L = logging(m)
    r = m.func.vmap(f)(L(m.tensor([1.0, 2.0])))
    return (val(r), type(r) is L)


@program
def func_vmap_captured(m):
    L = logging(m)
    w = L(m.tensor([1.0, 2.0]))
    r = m.func.vmap(lambda x: x * w)(m.ones(3, 2))
    return (val(r), type(r) is L)


@program
def func_vmap_grad(m):
    L = logging(m)
    r = m.func.vmap(m.func.grad(s))(L(m.ones(3, 2)))
    return (val(r), type(r) is L)


@program
def func_vmap_sum(m):
    L = logging(m)
    r = m.func.vmap(lambda x: (x * x).sum())(L(m.ones(3, 2)))
    return (val(r), type(r) is L)


@program
def dual(m):
    L = logging(m)
    fw = m.autograd.forward_ad
    with fw.dual_level():
        d = fw.make_dual(L(m.tensor([1.0, 2.0])), L(m.tensor([1.0, 1.0])))
        r = f(d)
        p, t = fw.unpack_dual(r)
        return (val(p), val(t), type(t) is L, type(p) is L)


@program
def is_grads_batched(m):
    L = logging(m)
    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    (g,) = m.autograd.grad(f(x), x, L(m.eye(2)), is_grads_batched=True)
    return (val(g), type(g) is L)


@program
def log_of_backward(m):
    L = logging(m)
    LOG.clear()
    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    y = (x * x).sum()
    n = len(LOG)
    y.backward()
    return LOG[:n]


@program
def inplace(m):
    L = logging(m)
    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    y = x * 1
    y.mul_(x)
    y.sum().backward()
    return (val(x.grad), val(y))


@program
def views(m):
    L = logging(m)
    x = L(m.tensor([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    y = x.t()[0].view(2)
    (y * y).sum().backward()
    return (val(x.grad), val(y))


@program
def custom_function(m):
    L = logging(m)

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    y = F.apply(x)
    y.sum().backward()
    return (val(x.grad), type(y) is L)


@program
def hooks(m):
    L = logging(m)
    seen = []
    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    x.register_hook(lambda g: seen.append(type(g) is L))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(type(t.grad) is L))
    s(x).backward()
    return seen


@program
def no_memory(m):
    L = logging(m)
    x = L(m.tensor([1.0, 2.0]))
    return (
        says(lambda: x.numpy()),
        says(lambda: x.data_ptr()),
        says(lambda: x.tolist()),
        x.shape[0],
        x.stride(),
        says(lambda: float(x.sum())),
    )


@program
def detach_clone(m):
    L = logging(m)
    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    d = x.detach()
    c = x.clone()
    return (type(d) is L, type(c) is L, val(d), val(c), d.requires_grad, c.requires_grad)


@program
def deepcopy(m):
    L = logging(m)
    x = L(m.tensor([1.0, 2.0]))
    y = copy.deepcopy(x)
    return (type(y) is L, val(y))


@program
def parameter(m):
    L = logging(m)
    x = L(m.tensor([1.0, 2.0]))
    p = m.nn.Parameter(x)
    return (isinstance(p, L), isinstance(p, m.nn.Parameter), p.requires_grad, type(p) is L)


@program
def checkpointed(m):
    L = logging(m)
    C = import_module(m.__name__ + ".utils.checkpoint")
    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    y = C.checkpoint(s, x, use_reentrant=False)
    y.backward()
    return val(x.grad)


@program
def saved_hooks(m):
    L = logging(m)
    seen = []
    x = L(m.tensor([1.0, 2.0]), requires_grad=True)
    with m.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(type(t) is L), t)[1], lambda t: t):
        y = s(x)
    y.backward()
    return (val(x.grad), seen)


@program
def no_dispatch_wrapper(m):

    class W(m.Tensor):
        pass

    return m.Tensor._make_wrapper_subclass(W, (2,))


@program
def wrapper_args(m):
    L = logging(m)
    r = m.Tensor._make_wrapper_subclass(L, (2, 3), strides=(1, 2), dtype=m.float64, requires_grad=True)
    return (
        tuple(r.shape),
        r.stride(),
        r.dtype,
        r.requires_grad,
        r.is_leaf,
        r.device.type,
        r.numel(),
        r.dim(),
        r.is_contiguous(),
        r.storage_offset(),
    )


@program
def make_subclass(m):

    class W(m.Tensor):
        pass

    x = m.ones(2)
    r = m.Tensor._make_subclass(W, x, True)
    return (type(r) is W, r.requires_grad, r.is_leaf, says(lambda: type(r * 2) is W))


@program
def make_subclass_plain(m):
    return m.Tensor._make_subclass(m.Tensor, m.ones(2), True).requires_grad


@program
def as_subclass(m):

    class W(m.Tensor):
        pass

    x = leaf(m, 2)
    y = (x * 2).as_subclass(W)
    y.sum().backward()
    return (type(y) is W, x.grad)


@program
def torch_function_disabled(m):

    class W(m.Tensor):
        __torch_function__ = m._C._disabled_torch_function_impl

    x = m.Tensor._make_subclass(W, m.ones(2), True)
    return type(x * 2) is m.Tensor


@program
def traceable(m):
    P = import_module(m.__name__ + ".utils._python_dispatch")

    class T(m.Tensor):
        @staticmethod
        def __new__(cls, a):
            return m.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

        def __init__(self, a):
            self.a = a

        def __tensor_flatten__(self):
            return (["a"], None)

        @staticmethod
        def __tensor_unflatten__(inner, ctx, size, stride):
            return T(inner["a"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            tm = import_module(m.__name__ + ".utils._pytree").tree_map
            out = func(*tm(lambda x: x.a if isinstance(x, T) else x, args), **kwargs or {})
            return P.return_and_correct_aliasing(func, args, kwargs or {}, T(out))

    t = T(m.ones(2))
    u = P.transform_subclass(t, lambda n, a: a * 2)
    return (
        P.is_traceable_wrapper_subclass(t),
        P.is_traceable_wrapper_subclass(m.ones(2)),
        P.is_traceable_wrapper_subclass_type(T),
        type(u) is T,
        u.a,
        type(t * 2) is T,
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_behaviour(name):
    theirs, ours = (behaviour(PROGRAMS[name], m) for m in (torch, ndgrad))
    assert agree(theirs, ours), f"torch: {theirs}\nndgrad: {ours}"
