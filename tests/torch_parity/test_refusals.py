"""Forward mode, custom functions, transforms, checks and functions of functions: their arguments and their refusals."""

from __future__ import annotations

import warnings
from importlib import import_module

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour, says, warned
from tests.torch_parity.side_by_side import Programs, leaf, ones

PROGRAMS = Programs()
program = PROGRAMS.enter


def mod(m, n):
    return import_module(f"{m.__name__}.{n}")


def forward_ad(m):
    return m.autograd.forward_ad


@program
def dual_namedtuple(m):
    with forward_ad(m).dual_level():
        d = forward_ad(m).make_dual(ones(m, 2), ones(m, 2) * 3)
        u = forward_ad(m).unpack_dual(d)
        return (u.primal, u.tangent, u._fields, type(u).__name__)


@program
def unpack_plain(m):
    with forward_ad(m).dual_level():
        u = forward_ad(m).unpack_dual(ones(m, 2))
        return u.tangent is None


@program
def unpack_outside(m):
    u = forward_ad(m).unpack_dual(ones(m, 2))
    return (u.primal, u.tangent)


@program
def set_fwd_grad(m):
    f = forward_ad(m)
    out = []
    with f._set_fwd_grad_enabled(False), f.dual_level():
        d = f.make_dual(ones(m, 2), ones(m, 2))
        out.append(f.unpack_dual(d * 2).tangent is None)
    return out


@program
def dual_detach(m):
    f = forward_ad(m)
    with f.dual_level():
        d = f.make_dual(ones(m, 2), ones(m, 2))
        return (
            f.unpack_dual(d.detach()).tangent is None,
            f.unpack_dual(d.clone()).tangent,
            f.unpack_dual(d.view(2)).tangent,
            f.unpack_dual(d.data).tangent is None,
        )


@program
def dual_inplace(m):
    f = forward_ad(m)
    with f.dual_level():
        x = ones(m, 2) * 2
        d = f.make_dual(ones(m, 2), ones(m, 2) * 5)
        x.mul_(d)
        return f.unpack_dual(x)


@program
def dual_view_inplace(m):
    f = forward_ad(m)
    with f.dual_level():
        base = ones(m, 4) * 3
        d = f.make_dual(ones(m, 2), ones(m, 2) * 5)
        base[:2].copy_(d)
        return f.unpack_dual(base)


@program
def dual_no_grad(m):
    f = forward_ad(m)
    with f.dual_level(), m.no_grad():
        d = f.make_dual(ones(m, 2) * 3, ones(m, 2))
        return f.unpack_dual(d * d).tangent


@program
def dual_inference(m):
    f = forward_ad(m)
    with f.dual_level(), m.inference_mode():
        d = f.make_dual(ones(m, 2) * 3, ones(m, 2))
        return f.unpack_dual(d * d).tangent is None


@program
def dual_out(m):
    f = forward_ad(m)
    with f.dual_level():
        d = f.make_dual(ones(m, 2) * 3, ones(m, 2))
        return says(lambda: m.add(d, d, out=ones(m, 2)))


@program
def dual_print(m):
    f = forward_ad(m)
    with f.dual_level():
        return repr(f.make_dual(m.ones(2), m.ones(2)))


@program
def dual_reverse(m):
    f = forward_ad(m)
    x = leaf(m, 2)
    with f.dual_level():
        d = f.make_dual(x, ones(m, 2))
        y = (d * d * d).sum()
        (g,) = m.autograd.grad(f.unpack_dual(y).tangent, x)
        return g


@program
def forward_over_reverse(m):
    f = forward_ad(m)
    x = leaf(m, 2)
    with f.dual_level():
        d = f.make_dual(x, ones(m, 2))
        (g,) = m.autograd.grad((d**3).sum(), d, create_graph=True)
        return f.unpack_dual(g).tangent


@program
def custom_jvp(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 2 * x * t

    f = forward_ad(m)
    with f.dual_level():
        return f.unpack_dual(F.apply(f.make_dual(ones(m, 2) * 3, ones(m, 2)))).tangent


@program
def custom_jvp_count(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x * x, x * 2)

        @staticmethod
        def jvp(ctx, t):
            return t

    f = forward_ad(m)
    with f.dual_level():
        return says(lambda: F.apply(f.make_dual(ones(m, 2) * 3, ones(m, 2))))


@program
def custom_jvp_type(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def jvp(ctx, t):
            return 3

    f = forward_ad(m)
    with f.dual_level():
        return says(lambda: F.apply(f.make_dual(ones(m, 2) * 3, ones(m, 2)))).cls


@program
def custom_jvp_shape(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def jvp(ctx, t):
            return t[:1]

    f = forward_ad(m)
    with f.dual_level():
        return says(lambda: F.apply(f.make_dual(ones(m, 2) * 3, ones(m, 2))))


@program
def fn_setup(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(x, k):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]
            F.o = output.tolist()

        @staticmethod
        def backward(ctx, g):
            return (g * ctx.k, None)

    x = leaf(m, 2)
    F.apply(x, 3).sum().backward()
    return (x.grad, F.o)


@program
def fn_kwargs(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, k=3):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return (g, None)

    return says(lambda: F.apply(leaf(m, 2), k=4))


@program
def fn_saved_modified(m):

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(m, 2) * 1
    y = F.apply(x)
    x.add_(1)
    return says(lambda: y.sum().backward())


@program
def fn_name(m):

    class Foo(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    n = Foo.apply(leaf(m, 2)).grad_fn
    return (n.name(), type(n).__name__, isinstance(n, m.autograd.graph.Node), n.metadata)


@program
def fn_ctx_attrs(m):

    class Foo(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.a = 3
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    n = Foo.apply(leaf(m, 2)).grad_fn
    return (n.a, says(lambda: n.b).cls)


@program
def fn_vmap_missing(m):

    class Foo(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, i, o):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

    return says(lambda: m.func.vmap(Foo.apply)(ones(m, 2, 2)))


@program
def fn_generate_and_vmap(m):

    class Foo(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, i, o):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vmap(info, dims, x):
            return (x, 0)

    return says(lambda: m.func.vmap(Foo.apply)(ones(m, 2, 2)))


@program
def fn_vmap_bad_return(m):

    class Foo(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, i, o):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vmap(info, dims, x):
            return x

    return says(lambda: m.func.vmap(Foo.apply)(ones(m, 2, 2)))


@program
def fn_clear_saved(m):

    class F(m.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            a = ctx.saved_tensors[0]
            F.r = says(lambda: ctx.saved_tensors)
            return g * a

    F.apply(leaf(m, 2)).sum().backward()
    return F.r


@program
def fn_boxed(m):
    return (
        hasattr(mod(m, "autograd.function"), "BackwardCFunction"),
        hasattr(mod(m, "autograd.function"), "FunctionCtx"),
        hasattr(mod(m, "autograd.function"), "InplaceFunction"),
        hasattr(mod(m, "autograd.function"), "NestedIOFunction"),
        hasattr(mod(m, "autograd.function"), "FunctionMeta"),
        hasattr(mod(m, "autograd.function"), "traceable"),
    )


@program
def grad_options(m):
    x = leaf(m, 2)
    y = leaf(m, 2)
    z = (x * x).sum()
    return (m.autograd.grad(z, [x, y], allow_unused=True), says(lambda: m.autograd.grad(z, x)))


@program
def grad_retain(m):
    x = leaf(m, 2)
    z = (x * x).sum()
    m.autograd.grad(z, x, retain_graph=True)
    return m.autograd.grad(z, x)


@program
def grad_batched(m):
    x = leaf(m, 2)
    return m.autograd.grad(x * x, x, m.eye(2, dtype=m.float64), is_grads_batched=True)


@program
def grad_positional(m):
    x = leaf(m, 2)
    return says(lambda: m.autograd.grad(x.sum()))


@program
def grad_dict(m):
    x = leaf(m, 2)
    return says(lambda: m.autograd.grad(x.sum(), 3)).cls


@program
def grad_only_inputs(m):
    x = leaf(m, 2)
    return warned(lambda: m.autograd.grad(x.sum(), x, only_inputs=False))


@program
def backward_in_transform(m):
    return says(lambda: m.func.grad(lambda x: (x.sum().backward(), x.sum())[1])(ones(m, 2)))


@program
def numpy_in_vmap(m):
    return says(lambda: m.func.vmap(lambda x: x.numpy())(ones(m, 2))).cls


@program
def data_dep_vmap(m):
    return says(lambda: m.func.vmap(lambda x: x.nonzero())(ones(m, 2, 2)))


@program
def out_dims_bad(m):
    return says(lambda: m.func.vmap(lambda x: x, out_dims=(0, 0))(ones(m, 2)))


@program
def in_dims_structure(m):
    return says(lambda: m.func.vmap(lambda x: x, in_dims=(0, 0))(ones(m, 2)))


@program
def in_dims_float(m):
    return says(lambda: m.func.vmap(lambda x: x, in_dims=(0.5,))(ones(m, 2)))


@program
def in_dims_nontensor(m):
    return says(lambda: m.func.vmap(lambda x, k: x, in_dims=(0, 0))(ones(m, 2), 3))


@program
def chunk_bad(m):
    return says(lambda: m.func.vmap(lambda x: x, chunk_size=0)(ones(m, 2)))


@program
def jacrev_chunk(m):
    return says(lambda: m.func.jacrev(lambda x: x, chunk_size=0)(ones(m, 2)))


@program
def jvp_dtype(m):
    return says(lambda: m.func.jvp(lambda x: x, (m.ones(2, dtype=m.int64),), (ones(m, 2),))).cls


@program
def jvp_none(m):
    return says(lambda: m.func.jvp(lambda x: 3, (ones(m, 2),), (ones(m, 2),)))


@program
def vjp_none(m):
    return says(lambda: m.func.vjp(lambda x: 3, ones(m, 2)))


@program
def jacrev_int(m):
    return says(lambda: m.func.jacrev(lambda x: x)(m.ones(2, dtype=m.int64))).cls


@program
def functional_call_bad(m):
    return says(lambda: m.func.functional_call(m.nn.Linear(1, 1), {"foo": ones(m)}, ones(m, 1), strict=True)).cls


@program
def stack_state_bad(m):
    return (says(lambda: m.func.stack_module_state([])), says(lambda: m.func.stack_module_state([m.nn.Linear(1, 1), m.nn.ReLU()])))


@program
def gc_args(m):
    f = lambda x: x * x
    x = leaf(m, 2)
    G = m.autograd.gradcheck
    return [
        G(f, x),
        G(f, (x,)),
        G(f, x, check_forward_ad=True),
        G(f, x, check_batched_grad=True),
        G(f, x, fast_mode=True),
        G(f, x, check_undefined_grad=False),
        G(f, x, check_backward_ad=False, check_forward_ad=True),
        m.autograd.gradgradcheck(f, x),
        m.autograd.gradgradcheck(f, x, check_fwd_over_rev=True),
        m.autograd.gradgradcheck(f, x, gen_non_contig_grad_outputs=True),
    ]


@program
def gc_bad(m):
    G = m.autograd.gradcheck
    x = leaf(m, 2)
    return (
        says(lambda: G(lambda x: x, x, check_forward_ad=False, check_backward_ad=False)),
        says(lambda: G(lambda x: x, x, check_batched_forward_grad=True)),
        says(lambda: G(lambda x: x, x, check_undefined_grad=True, check_backward_ad=False, check_forward_ad=True)),
        says(lambda: G(lambda x: 3, x)).__class__.__name__,
    )


@program
def gc_nondiff(m):
    return (
        m.autograd.gradcheck(lambda x: x.detach() * 1, leaf(m, 2), raise_exception=False),
        says(lambda: m.autograd.gradcheck(lambda x: x.detach() * 1, leaf(m, 2))),
    )


@program
def gc_reentrant(m):
    n = [0]

    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            n[0] += 1
            return g + n[0] % 2 * 0.001

    return says(lambda: m.autograd.gradcheck(F.apply, leaf(m, 2), nondet_tol=0.0, atol=0.1)).cls


@program
def gc_expanded(m):
    return says(lambda: m.autograd.gradcheck(lambda x: x * 1, m.ones(1, dtype=m.float64).expand(2).requires_grad_()))


@program
def fu_all(m):
    F = m.autograd.functional
    f = lambda x: (x**3).sum()
    x = ones(m, 2) * 2
    v = ones(m, 2)
    return (
        F.vjp(lambda x: x**2, x, v),
        F.jvp(lambda x: x**2, x, v),
        F.vhp(f, x, v),
        F.hvp(f, x, v),
        F.jacobian(lambda x: x**2, x),
        F.hessian(f, x),
        F.jacobian(lambda x: x**2, x, vectorize=True),
        F.hessian(f, x, vectorize=True),
        F.hessian(f, x, vectorize=True, outer_jacobian_strategy="forward-mode"),
        F.jacobian(lambda x: x**2, x, vectorize=True, strategy="forward-mode"),
    )


@program
def fu_tuple_errors(m):
    F = m.autograd.functional
    x = ones(m, 2)
    return (
        says(lambda: F.jacobian(lambda x: (x, 3), x)),
        says(lambda: F.jacobian(lambda x, y: x, (x, 3))),
        says(lambda: F.hessian(lambda x: (x.sum(), x.sum()), x)),
        says(lambda: F.vjp(lambda x: x, x, (x, x))),
        says(lambda: F.vjp(lambda x: (x, x), x, (x, ones(m, 3)))),
    )


@program
def fu_forward_cg(m):
    F = m.autograd.functional
    x = ones(m, 2)
    return (
        says(lambda: F.jacobian(lambda x: x, x, vectorize=True, strategy="forward-mode", create_graph=True)),
        says(lambda: F.jacobian(lambda x: x, x, vectorize=True, strategy="forward-mode", strict=True)),
    )


@program
def anomaly_states(m):
    A = m.autograd
    out = [m.is_anomaly_enabled(), m.is_anomaly_check_nan_enabled()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with A.detect_anomaly(check_nan=False):
            out += [m.is_anomaly_enabled(), m.is_anomaly_check_nan_enabled()]
        with A.set_detect_anomaly(True):
            out += [m.is_anomaly_enabled()]
        A.set_detect_anomaly(True, False)
        out += [m.is_anomaly_enabled(), m.is_anomaly_check_nan_enabled()]
        A.set_detect_anomaly(False)
    return out + [m.is_anomaly_enabled(), m.is_anomaly_check_nan_enabled()]


@program
def anomaly_parent(m):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with m.autograd.detect_anomaly():
            x = leaf(m, 2)
            y = x.exp()
            return ("traceback_" in y.grad_fn.metadata, "parent_" in y.grad_fn.metadata)


@program
def variable(m):
    V = m.autograd.Variable
    v = V(ones(m, 2), requires_grad=True)
    return (
        type(v) is m.Tensor,
        v.requires_grad,
        isinstance(v, V),
        says(lambda: V._execution_engine is not None),
        isinstance(ones(m, 1), V),
    )


@program
def queue_callback(m):
    log = []
    x = leaf(m, 2)
    x.register_hook(lambda g: m.autograd.Variable._execution_engine.queue_callback(lambda: log.append("end")))
    x.register_hook(lambda g: log.append("hook"))
    x.sum().backward()
    return log


@program
def queue_callback_outside(m):
    return says(lambda: m.autograd.Variable._execution_engine.queue_callback(lambda: 1))


@program
def version_preserve(m):
    x = ones(m, 2)
    with m.autograd._unsafe_preserve_version_counter(x):
        x.add_(1)
    return x._version


@program
def is_leaf_things(m):
    x = leaf(m, 2)
    y = x * 1
    return (
        [t.is_leaf for t in (x, y, y.detach(), x.detach(), ones(m, 1), x.data)],
        [t.retains_grad for t in (x, y)],
        y.output_nr,
        x.output_nr,
    )


@program
def grad_fn_set(m):
    x = leaf(m, 2)
    return (says(lambda: setattr(x, "grad_fn", None)).cls, says(lambda: setattr(x * 1, "is_leaf", True)).cls)


@program
def del_grad(m):
    x = leaf(m, 2)
    x.sum().backward()
    del x.grad
    return x.grad


@program
def hooks_on_closed(m):
    x = leaf(m, 2)
    y = x * 1
    y.register_hook(lambda g: None)
    return says(lambda: y.register_hook(3)).__class__.__name__


@program
def unpack_grad_dtype(m):
    x = leaf(m, 2)
    x.grad_dtype = m.float32
    x.sum().backward()
    return x.grad.dtype


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_behaviour(name):
    theirs, ours = (behaviour(PROGRAMS[name], m) for m in (torch, ndgrad))
    assert agree(theirs, ours), f"torch: {theirs}\nndgrad: {ours}"
