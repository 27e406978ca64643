"""Errors and warnings: their class and the first words of torch's messages, at every entry point of autograd."""

from __future__ import annotations

import copy
from importlib import import_module

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour, warned
from tests.torch_parity.side_by_side import Programs, leaf, ones

PROGRAMS = Programs()
program = PROGRAMS.enter


@program
def backward_twice(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    y.backward()
    y.backward()


@program
def grad_twice(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    m.autograd.grad(y, x)
    m.autograd.grad(y, x)


@program
def saved_after_free(m):
    x = leaf(m, 3)
    y = x.exp()
    y.sum().backward()
    y.grad_fn._saved_result


@program
def custom_twice(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.saved_tensors
            return g

    y = F.apply(leaf(m, 2)).sum()
    y.backward()
    y.backward()


@program
def inplace_saved(m):
    x = leaf(m, 3)
    y = x * 2
    z = y * y
    y.add_(1)
    z.sum().backward()


@program
def inplace_output(m):
    x = leaf(m, 3)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@program
def no_grad_elem(m):
    m.ones(3).sum().backward()


@program
def no_grad_second(m):
    x = leaf(m, 2)
    m.autograd.backward([x.sum(), m.ones(())])


@program
def leaf_inplace(m):
    x = leaf(m, 3)
    x.add_(1)


@program
def leaf_view_inplace(m):
    x = leaf(m, 3)
    x[0].add_(1)


@program
def leaf_setitem(m):
    x = leaf(m, 3)
    x[0] = 1


@program
def leaf_out(m):
    x = leaf(m, 3)
    m.add(ones(m, 3), ones(m, 3), out=x)


@program
def implicit(m):
    x = leaf(m, 3)
    (x * 2).backward()


@program
def implicit_complex(m):
    x = m.ones((), dtype=m.complex128, requires_grad=True)
    (x * 2).backward()


@program
def mismatch_shape(m):
    x = leaf(m, 3)
    (x * 2).backward(ones(m, 2))


@program
def mismatch_len(m):
    x = leaf(m, 3)
    m.autograd.backward([x * 2, x * 3], [ones(m, 3)])


@program
def grad_type(m):
    x = leaf(m, 3)
    (x * 2).backward(3.0)


@program
def grad_type2(m):
    x = leaf(m, 3)
    m.autograd.backward((x * 2).sum(), ["a"])


@program
def unused(m):
    x = leaf(m, 3)
    z = leaf(m, 2)
    m.autograd.grad((x * 2).sum(), z)


@program
def unused_notreq(m):
    x = leaf(m, 3)
    z = ones(m, 2)
    m.autograd.grad((x * 2).sum(), z)


@program
def unused_mat(m):
    x = leaf(m, 3)
    z = leaf(m, 2)
    return m.autograd.grad((x * 2).sum(), z, materialize_grads=True)


@program
def unused_mat2(m):
    x = leaf(m, 3)
    z = leaf(m, 2)
    return m.autograd.grad((x * 2).sum(), z, materialize_grads=True, allow_unused=False)


@program
def grad_empty_inputs(m):
    x = leaf(m, 3)
    m.autograd.grad((x * 2).sum(), [])


@program
def backward_empty_inputs(m):
    x = leaf(m, 3)
    (x * 2).sum().backward(inputs=[])


@program
def backward_nonleaf_inputs(m):
    x = leaf(m, 3)
    y = x * 2
    y.sum().backward(inputs=[y])
    return y.grad


@program
def inputs_not_req(m):
    x = leaf(m, 3)
    y = x * 2
    y.sum().backward(inputs=[ones(m, 2)])


@program
def int_req(m):
    m.tensor([1, 2], requires_grad=True)


@program
def int_req2(m):
    m.tensor([1, 2]).requires_grad_()


@program
def int_req3(m):
    m.tensor([1, 2]).requires_grad = True


@program
def req_off_nonleaf(m):
    (leaf(m, 2) * 2).requires_grad_(False)


@program
def req_off_nonleaf2(m):
    (leaf(m, 2) * 2).requires_grad = False


@program
def numpy_req(m):
    leaf(m, 2).numpy()


@program
def tolist_req(m):
    return leaf(m, 2).tolist()


@program
def item_many(m):
    ones(m, 2).item()


@program
def bool_many(m):
    bool(ones(m, 2))


@program
def float_many(m):
    float(ones(m, 2))


@program
def retain_nograd(m):
    ones(m, 2).retain_grad()


@program
def hook_nograd(m):
    ones(m, 2).register_hook(lambda g: g)


@program
def hook_badshape(m):
    x = leaf(m, 2)
    y = x * 2
    y.register_hook(lambda g: g[:1])
    y.sum().backward()


@program
def hook_badtype(m):
    x = leaf(m, 2)
    y = x * 2
    y.register_hook(lambda g: 3)
    y.sum().backward()


@program
def post_nonleaf(m):
    y = leaf(m, 2) * 2
    y.register_post_accumulate_grad_hook(lambda t: None)


@program
def post_nograd(m):
    ones(m, 2).register_post_accumulate_grad_hook(lambda t: None)


@program
def post_returns(m):
    x = leaf(m, 2)
    x.register_post_accumulate_grad_hook(lambda t: 3)
    x.sum().backward()


@program
def set_grad_shape(m):
    leaf(m, 2).grad = ones(m, 3)


@program
def set_grad_dtype(m):
    leaf(m, 2).grad = m.ones(2, dtype=m.float32)


@program
def set_grad_type(m):
    leaf(m, 2).grad = 3


@program
def set_grad_self(m):
    x = leaf(m, 2)
    x.grad = x


@program
def nonleaf_grad_read(m):
    return warned(lambda: (leaf(m, 2) * 2).grad)


@program
def deepcopy_nonleaf(m):
    copy.deepcopy(leaf(m, 2) * 2)


@program
def data_bad(m):
    x = leaf(m, 2)
    x.data = 3


@program
def data_dtype(m):
    x = leaf(m, 2)
    x.data = m.ones(2, dtype=m.int64)


@program
def detach_view_inplace(m):
    x = leaf(m, 4)
    y = x * 1
    v = y.view(4)
    v.detach_()


@program
def unbind_inplace(m):
    x = leaf(m, 2, 2) * 1
    a, _b = x.unbind(0)
    a.add_(1)


@program
def split_inplace(m):
    x = leaf(m, 4) * 1
    a, _b = x.split(2)
    a.add_(1)


@program
def nograd_view_inplace(m):
    x = leaf(m, 4) * 1
    with m.no_grad():
        v = x[:2]
    v.add_(1)


@program
def expanded_inplace(m):
    x = ones(m, 1).expand(3)
    x.add_(1)


@program
def wrong_count_fn(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(m, 2)
    F.apply(x, x).sum().backward()


@program
def wrong_count_fn2(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return (g, g)

    x = leaf(m, 2)
    F.apply(x).sum().backward()


@program
def wrong_shape_fn(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g[:1, None].expand(1, 3)

    x = leaf(m, 2)
    F.apply(x).sum().backward()


@program
def wrong_type_fn(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return 3

    x = leaf(m, 2)
    F.apply(x).sum().backward()


@program
def not_tensor_fn(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return "a"

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(m, 2)
    return F.apply(x)


@program
def legacy_fn(m):

    class F(m.autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, g):
            return g

    F()(leaf(m, 2))


@program
def legacy_fn2(m):

    class F(m.autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, g):
            return g

    F.apply(leaf(m, 2))


@program
def instance_apply(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    F().apply(leaf(m, 2))


@program
def no_backward(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    F.apply(leaf(m, 2)).sum().backward()


@program
def no_forward(m):

    class F(m.autograd.Function):
        @staticmethod
        def backward(ctx, x):
            return x * 2

    F.apply(leaf(m, 2)).sum().backward()


@program
def no_jvp(m):
    fwAD = m.autograd.forward_ad

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with fwAD.dual_level():
        F.apply(fwAD.make_dual(ones(m, 2), ones(m, 2)))


@program
def save_nontensor(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    F.apply(leaf(m, 2))


@program
def mark_dirty_notinput(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g

    F.apply(leaf(m, 2) * 1)


@program
def mark_dirty_notreturned(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    return F.apply(leaf(m, 2) * 1)


@program
def mark_dirty_leaf(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    return F.apply(leaf(m, 2))


@program
def mark_nondiff_nontensor(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    return F.apply(leaf(m, 2))


@program
def access_grads_from_saved(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.saved_variables
            return g

    F.apply(leaf(m, 2)).sum().backward()


@program
def is_grads_batched_bad(m):
    x = leaf(m, 2)
    m.autograd.grad(x * 2, x, ones(m, 2), is_grads_batched=True)


@program
def checkpoint_mismatch(m):
    ck = import_module(m.__name__ + ".utils.checkpoint").checkpoint
    n = [0]

    def f(x):
        n[0] += 1
        return x.sin() if n[0] == 1 else x.sin().exp().cos()[:1]

    x = leaf(m, 3)
    ck(f, x, use_reentrant=False).sum().backward()


@program
def func_grad_nonscalar(m):
    m.func.grad(lambda x: x * 2)(ones(m, 2))


@program
def func_grad_nontensor(m):
    m.func.grad(lambda x: 3)(ones(m, 2))


@program
def func_vmap_nobatch(m):
    m.func.vmap(lambda x: x * 2, in_dims=None)(ones(m, 2))


@program
def func_vmap_mismatch(m):
    m.func.vmap(lambda x, y: x * 2)(ones(m, 2), ones(m, 3))


@program
def func_vmap_oob(m):
    m.func.vmap(lambda x: x * 2, in_dims=3)(ones(m, 2))


@program
def func_vmap_noinput(m):
    m.func.vmap(lambda: 1)()


@program
def func_vmap_nontensor_out(m):
    m.func.vmap(lambda x: 1)(ones(m, 2))


@program
def func_vmap_item(m):
    m.func.vmap(lambda x: x.item())(ones(m, 2))


@program
def func_vmap_bool(m):
    m.func.vmap(lambda x: x if x > 0 else -x)(ones(m, 2))


@program
def func_vmap_random(m):
    m.func.vmap(lambda x: x + m.rand(()))(ones(m, 2))


@program
def func_vmap_randmode(m):
    m.func.vmap(lambda x: x, randomness="foo")(ones(m, 2))


@program
def func_jvp_mismatch(m):
    m.func.jvp(lambda x: x, (ones(m, 2),), (ones(m, 3),))


@program
def func_jvp_nottuple(m):
    m.func.jvp(lambda x: x, ones(m, 2), (ones(m, 3),))


@program
def func_jvp_structure(m):
    m.func.jvp(lambda x: x, (ones(m, 2),), (ones(m, 2), ones(m, 2)))


@program
def func_vjp_cotangent(m):
    _out, f = m.func.vjp(lambda x: x * 2, ones(m, 2))
    f(ones(m, 3))


@program
def func_vjp_structure(m):
    _out, f = m.func.vjp(lambda x: (x * 2, x), ones(m, 2))
    f(ones(m, 2))


@program
def func_argnums(m):
    m.func.grad(lambda x: x.sum(), argnums=3)(ones(m, 2))


@program
def func_argnums2(m):
    m.func.grad(lambda x: x.sum(), argnums="a")(ones(m, 2))


@program
def func_aux(m):
    m.func.grad(lambda x: x.sum(), has_aux=True)(ones(m, 2))


@program
def make_dual_outside(m):
    m.autograd.forward_ad.make_dual(ones(m, 2), ones(m, 2))


@program
def make_dual_shape(m):
    with m.autograd.forward_ad.dual_level():
        m.autograd.forward_ad.make_dual(ones(m, 2), ones(m, 3))


@program
def make_dual_dtype(m):
    with m.autograd.forward_ad.dual_level():
        m.autograd.forward_ad.make_dual(ones(m, 2), m.ones(2, dtype=m.float32))


@program
def make_dual_int(m):
    with m.autograd.forward_ad.dual_level():
        m.autograd.forward_ad.make_dual(m.ones(2, dtype=m.int64), ones(m, 2))


@program
def make_dual_int2(m):
    with m.autograd.forward_ad.dual_level():
        m.autograd.forward_ad.make_dual(m.ones(2, dtype=m.float64), m.ones(2, dtype=m.int64))


@program
def make_dual_twice(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        d = fw.make_dual(ones(m, 2), ones(m, 2))
        fw.make_dual(d, ones(m, 2))


@program
def exit_level_none(m):
    m.autograd.forward_ad.exit_dual_level()


@program
def exit_wrong_level(m):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        fw.exit_dual_level(level=5)


@program
def unpack_outside(m):
    return tuple(m.autograd.forward_ad.unpack_dual(ones(m, 2)))


@program
def functional_jac_notensor(m):
    m.autograd.functional.jacobian(lambda x: 3, ones(m, 2))


@program
def functional_jac_input(m):
    m.autograd.functional.jacobian(lambda x: x, 3)


@program
def functional_jac_strict(m):
    m.autograd.functional.jacobian(lambda x: ones(m, 2), ones(m, 2), strict=True)


@program
def functional_jac_strict_vec(m):
    m.autograd.functional.jacobian(lambda x: x, ones(m, 2), strict=True, vectorize=True)


@program
def functional_jac_strategy(m):
    m.autograd.functional.jacobian(lambda x: x, ones(m, 2), strategy="forward-mode")


@program
def functional_jac_strategy2(m):
    m.autograd.functional.jacobian(lambda x: x, ones(m, 2), strategy="foo", vectorize=True)


@program
def functional_hess_nonscalar(m):
    m.autograd.functional.hessian(lambda x: x, ones(m, 2))


@program
def functional_hess_outer(m):
    m.autograd.functional.hessian(lambda x: x.sum(), ones(m, 2), outer_jacobian_strategy="foo")


@program
def functional_hess_outer2(m):
    m.autograd.functional.hessian(lambda x: x.sum(), ones(m, 2), outer_jacobian_strategy="forward-mode")


@program
def functional_vjp_v(m):
    m.autograd.functional.vjp(lambda x: x, ones(m, 2))


@program
def functional_vjp_v2(m):
    m.autograd.functional.vjp(lambda x: x, ones(m, 2), ones(m, 3))


@program
def functional_vjp_v3(m):
    m.autograd.functional.vjp(lambda x: x, ones(m, 2), (ones(m, 3), ones(m, 2)))


@program
def functional_jvp_v(m):
    m.autograd.functional.jvp(lambda x: x, ones(m, 2))


@program
def functional_hvp_v(m):
    m.autograd.functional.hvp(lambda x: x.sum(), ones(m, 2))


@program
def functional_hvp_nonscalar(m):
    m.autograd.functional.hvp(lambda x: x, ones(m, 2), ones(m, 2))


@program
def functional_vhp_strict(m):
    m.autograd.functional.vhp(lambda x: x.sum(), ones(m, 2), ones(m, 2), strict=True)


@program
def gradcheck_fail(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    m.autograd.gradcheck(F.apply, leaf(m, 2))


@program
def gradcheck_noinput(m):
    m.autograd.gradcheck(lambda x: x * 2, ones(m, 2))


@program
def gradcheck_float32(m):
    return warned(lambda: m.autograd.gradcheck(lambda x: x * 2, m.ones(2, dtype=m.float32, requires_grad=True)))


@program
def anomaly_nan(m):
    with m.autograd.detect_anomaly():
        x = m.zeros(1, dtype=m.float64, requires_grad=True)
        (x.sqrt() * 0).sum().backward()


@program
def create_graph_warning(m):
    x = leaf(m, 2)
    m.set_warn_always(True)  # torch says it once in a process
    try:
        return warned(lambda: (x * x).sum().backward(create_graph=True))
    finally:
        m.set_warn_always(False)


@program
def saved_hooks_arity(m):
    m.autograd.graph.saved_tensors_hooks(3)


@program
def saved_hooks_unpack_bad(m):
    with m.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: 3):
        x = leaf(m, 2)
        y = (x * x).sum()
    y.backward()


@program
def saved_hooks_pack_inplace(m):
    with m.autograd.graph.saved_tensors_hooks(lambda x: x.add_(1), lambda x: x):
        x = leaf(m, 2) * 2
        (x * x).sum()


@program
def saved_hooks_disabled(m):
    with m.autograd.graph.disable_saved_tensors_hooks("nope"), m.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        pass


@program
def saved_hooks_disabled2(m):
    with m.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x), m.autograd.graph.disable_saved_tensors_hooks("nope"):
        pass


@program
def edge_nograd(m):
    m.autograd.graph.get_gradient_edge(ones(m, 2))


@program
def multi_mode(m):
    m.autograd.graph.register_multi_grad_hook([leaf(m, 2)], lambda g: g, mode="foo")


@program
def increment_inference(m):
    with m.inference_mode():
        x = m.ones(2)
    m.autograd.graph.increment_version(x)


@program
def product_of_matrices_that_do_not_fit(m):
    ones(m, 2, 3) @ ones(m, 4, 3)


@program
def linear_map_that_does_not_fit(m):
    m.nn.functional.linear(ones(m, 2, 5, 3), ones(m, 2, 4))


@program
def cat_of_other_sizes(m):
    m.cat([ones(m, 2, 2), ones(m, 3, 3)])


@program
def view_of_another_number_of_elements(m):
    ones(m, 2, 3).view(4)


@program
def view_of_a_transpose(m):
    ones(m, 2, 3).t().view(6)


@program
def number_of_a_batched_tensor(m):
    m.func.vmap(lambda s: m.full((2,), s))(ones(m, 2))


@program
def bound_of_a_range_that_is_batched(m):
    m.func.vmap(lambda s: m.arange(s, s + 2))(ones(m, 2))


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_behaviour(name):
    theirs, ours = (behaviour(PROGRAMS[name], m) for m in (torch, ndgrad))
    assert agree(theirs, ours), f"torch: {theirs}\nndgrad: {ours}"
