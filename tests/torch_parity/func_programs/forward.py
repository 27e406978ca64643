"""jvp, linearize, Jacobians and Hessians."""

from __future__ import annotations

from tests.torch_parity.func_programs.dialect import attempt, draw, draw_complex, positive_definite, program, vector


@program
def jvp_of_structures(torch, func):
    primals = ({"a": vector(torch)}, [vector(torch, 1)])
    tangents = ({"a": vector(torch, 2)}, [vector(torch, 3)])
    return func.jvp(lambda d, l: {"y": d["a"] * l[0], "z": (l[0].sum(),)}, primals, tangents)


@program
def jvp_with_aux(torch, func):
    f = lambda x: (x.sin(), {"a": x * 2, "b": (x.sum(), [])})
    return func.jvp(f, (vector(torch),), (vector(torch, 1),), has_aux=True)


@program
def jvp_of_unused_and_constant(torch, func):
    x, v = vector(torch), vector(torch, 1)
    return func.jvp(lambda x, y: x * 2, (x, v), (v, x)), func.jvp(lambda x: torch.ones(2), (x,), (v,))


@program
def jvp_that_is_strict(torch, func):
    x, v = vector(torch), vector(torch, 1)
    return (
        attempt(lambda: func.jvp(lambda x: (x * 2, torch.ones(2)), (x,), (v,), strict=True)),
        func.jvp(lambda x: x * 2, (x,), (v,), strict=True),
    )


@program
def jvp_with_tangents_that_do_not_fit(torch, func):
    x = vector(torch)
    f = lambda *a: a[0] * 2
    wrong = [(torch.ones(4),), (torch.ones(()),), (x, x), ([x],), ({"a": x},), (1.0,), (None,), (), x, [x]]
    return [attempt(lambda w=w: func.jvp(f, (x,), w)) for w in wrong]


@program
def jvp_with_primals_that_are_no_tuple(torch, func):
    x = vector(torch)
    return [attempt(lambda p=p: func.jvp(torch.sin, p, p)) for p in (x, [x], {"a": x}, (), (1.0,), (None,))]


@program
def jvp_of_integers(torch, func):
    i = torch.arange(3)
    return attempt(lambda: func.jvp(lambda x: x * 2, (i,), (i,))), attempt(lambda: func.jvp(lambda x: x * 2, (i,), (torch.ones(3),)))


@program
def jvp_with_a_tangent_of_another_dtype(torch, func):
    return attempt(lambda: func.jvp(torch.sin, (vector(torch),), (torch.ones(3, dtype=torch.float32),)))


@program
def jvp_of_a_result_that_is_no_tensor(torch, func):
    x = vector(torch)
    results = (1.0, None, (x, 1.0), {"a": "b"}, [])
    return [attempt(lambda r=r: func.jvp(lambda x: r, (x,), (x,))) for r in results]


@program
def jvp_of_complex_functions(torch, func):
    z, v = draw_complex(torch, 0, 3), draw_complex(torch, 1, 3)
    return func.jvp(lambda z: (z.exp(), z.abs(), z.conj() * z, z.imag), (z,), (v,))


@program
def jvp_of_views_and_indexing(torch, func):
    x, v = draw(torch, 0, 3, 4), draw(torch, 1, 3, 4)
    f = lambda x: (x.t()[1:], x[[0, 2], :], x[x[0].argsort() % 3], x.unfold(1, 2, 1), x.diagonal(), x.unbind(1), x.view(-1)[::5])
    return func.jvp(f, (x,), (v,))


@program
def jvp_of_linear_algebra(torch, func):
    a, v = positive_definite(torch, 0), draw(torch, 1, 3, 3)
    v = v + v.t()
    f = lambda a: (torch.linalg.cholesky(a), torch.linalg.inv(a), torch.linalg.det(a), torch.linalg.eigvalsh(a), torch.linalg.solve(a, v))
    return func.jvp(f, (a,), (v,)), func.jvp(torch.linalg.matrix_exp, (a / 9,), (v,)), func.jvp(torch.linalg.pinv, (v,), (a,))


@program
def jvp_of_jvp(torch, func):
    x, v, w = (draw(torch, i, 3) for i in range(3))
    inner = lambda x: func.jvp(lambda x: (x**3).cumsum(0), (x,), (v,))[1]
    return func.jvp(inner, (x,), (w,))


@program
def jvp_of_jvp_of_jvp(torch, func):
    d = lambda f: lambda x: func.jvp(f, (x,), (torch.ones_like(x),))[1]
    return [d(d(d(f)))(torch.tensor(0.3)) for f in (torch.sin, torch.tanh, torch.exp, lambda x: x**5)]


@program
def jvp_closing_over_the_outer_primal(torch, func):
    x = vector(torch)
    f = lambda x: func.jvp(lambda y: y * x, (x.sin(),), (torch.ones(3),))[1]
    return func.jvp(f, (x,), (vector(torch, 1),))


@program
def linearize_at_a_point(torch, func):
    out, push = func.linearize(lambda x: x.sin() * x, vector(torch))
    return out, push(vector(torch, 1)), push(vector(torch, 2)), func.vmap(push)(torch.eye(3))


@program
def linearize_of_structures(torch, func):
    out, push = func.linearize(lambda d, y: {"s": d["a"] * y, "t": (y.exp(),)}, {"a": vector(torch)}, vector(torch, 1))
    return out, push({"a": vector(torch, 2)}, vector(torch, 3))


@program
def linearize_with_tangents_that_do_not_fit(torch, func):
    _, push = func.linearize(torch.sin, vector(torch))
    x = vector(torch)
    return [attempt(lambda a=a: push(*a)) for a in ((), (x, x), ([x],), (torch.ones(4),), (x.to(torch.float32),))]


# ----- Jacobians -----------------------------------------------------------------------------------------------------------------


@program
def jacobians_of_every_argument(torch, func):
    f = lambda a, b: (a[:, None] * b).sin()
    args = vector(torch), draw(torch, 1, 2)
    both = [[j(f, argnums=n)(*args) for n in (0, 1, (0, 1), (1,), (1, 0))] for j in (func.jacrev, func.jacfwd)]
    return both, func.jacrev(f, argnums=-1)(*args)


@program
def jacobians_of_structures(torch, func):
    tree = {"a": vector(torch), "b": [draw(torch, 1, 2, 2)]}
    f = lambda t: {"y": t["a"] * t["b"][0].sum(), "z": (t["b"][0] @ t["b"][0], t["a"].sum())}
    return func.jacrev(f)(tree), func.jacfwd(f)(tree)


@program
def jacobians_with_aux(torch, func):
    f = lambda x: (x.sin(), {"a": x * 2})
    return func.jacrev(f, has_aux=True)(vector(torch)), func.jacfwd(f, has_aux=True)(vector(torch))


@program
def jacobians_of_scalars_and_empties(torch, func):
    return [
        [j(f)(x) for f, x in ((lambda x: x * 2, torch.tensor(2.0)), (lambda x: x.sum(), vector(torch)), (lambda x: x[:0], vector(torch)))]
        for j in (func.jacrev, func.jacfwd)
    ]


@program
def jacobian_of_an_empty_argument(torch, func):
    return func.jacrev(lambda x: x.sum() + torch.ones(2))(torch.zeros(0)), func.jacrev(lambda x: x * 2)(torch.zeros(0, 2))


@program
def jacrev_in_chunks(torch, func):
    x = draw(torch, 0, 5)
    f = lambda x: (x.sin() * x.sum(), x[:2] ** 2)
    return [func.jacrev(f, chunk_size=n)(x) for n in (1, 2, 3, 7, 100, None)]


@program
def jacrev_with_a_bad_chunk_size(torch, func):
    return [attempt(lambda n=n: func.jacrev(torch.sin, chunk_size=n)(vector(torch))) for n in (0, -1)]


@program
def jacrev_in_chunks_with_aux(torch, func):
    return func.jacrev(lambda x: (x.exp(), x * 3), has_aux=True, chunk_size=2)(vector(torch))


@program
def jacobians_of_constants_and_unused_arguments(torch, func):
    x, y = vector(torch), draw(torch, 1, 2)
    f = lambda x, y: (x * 2, torch.ones(2), y.sum())
    return [j(f, argnums=(0, 1))(x, y) for j in (func.jacrev, func.jacfwd)]


@program
def jacobians_of_integers(torch, func):
    return [attempt(lambda j=j: j(lambda x: x * 2.0)(torch.arange(3))) for j in (func.jacrev, func.jacfwd, func.hessian)]


@program
def jacobians_of_integer_outputs(torch, func):
    return [attempt(lambda j=j: j(lambda x: x.argsort())(vector(torch))) for j in (func.jacrev, func.jacfwd)]


@program
def jacobians_of_results_that_are_no_tensors(torch, func):
    x = vector(torch)
    return [attempt(lambda j=j, r=r: j(lambda x: r)(x)) for j in (func.jacrev, func.jacfwd) for r in (1.0, None, (x, 2), "a", {"a": None})]


@program
def jacobians_of_arguments_that_are_no_tensors(torch, func):
    return [attempt(lambda v=v: func.jacrev(lambda x: torch.ones(2))(v)) for v in (1, None, "a", [torch.ones(1), 1.0])]


@program
def jacfwd_with_randomness(torch, func):
    x = vector(torch)
    f = lambda x: x * torch.rand(())
    outs = [attempt(lambda r=r: func.jacfwd(f, randomness=r)(x).shape) for r in ("error", "same", "different")]
    same = func.jacfwd(f, randomness="same")(x).diagonal()
    return outs, bool((same == same[0]).all()), attempt(lambda: func.jacfwd(f, randomness="none")(x))


@program
def jacrev_of_a_random_function(torch, func):
    j = func.jacrev(lambda x: x * torch.rand(3))(vector(torch))
    return j.shape, bool((j == torch.diag(j.diagonal())).all())


# ----- Hessians -----------------------------------------------------------------------------------------------------------------


@program
def hessian_of_every_argument(torch, func):
    f = lambda a, b: (a * b.sum()).sin().sum() + a.prod()
    args = vector(torch), draw(torch, 1, 2)
    return [func.hessian(f, argnums=n)(*args) for n in (0, 1, (0, 1), (1,))]


@program
def hessian_of_structures(torch, func):
    return func.hessian(lambda t: (t["a"] * t["b"].sum()).sin().sum())({"a": vector(torch), "b": draw(torch, 1, 2)})


@program
def hessian_of_a_vector_function(torch, func):
    return func.hessian(lambda x: (x**3, x.sum() * x))(vector(torch))


@program
def hessians_in_four_compositions(torch, func):
    f = lambda x: (x.sin() * x.roll(1)).sum() + x.prod()
    x = draw(torch, 0, 4)
    return [a(b(f))(x) for a in (func.jacrev, func.jacfwd) for b in (func.jacrev, func.jacfwd)]


@program
def hessian_of_rosenbrock(torch, func):
    f = lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    x = draw(torch, 0, 6)
    return func.hessian(f)(x), func.jacrev(func.grad(f))(x), func.jacfwd(func.grad(f))(x)


@program
def third_derivatives(torch, func):
    f = lambda x: (x**4).sum() + x.prod()
    x = vector(torch)
    return [a(func.hessian(f))(x) for a in (func.jacrev, func.jacfwd)], func.grad(func.grad(func.grad(lambda x: x**5)))(torch.tensor(1.5))


@program
def hessian_vector_products(torch, func):
    f = lambda x: (x.exp() * x.flip(0)).sum()
    x, v = vector(torch), vector(torch, 1)
    forward_over_reverse = func.jvp(func.grad(f), (x,), (v,))[1]
    reverse_over_reverse = func.vjp(func.grad(f), x)[1](v)[0]
    reverse_over_forward = func.grad(lambda x: func.jvp(f, (x,), (v,))[1])(x)
    return forward_over_reverse, reverse_over_reverse, reverse_over_forward, func.hessian(f)(x) @ v


@program
def gauss_newton_products(torch, func):
    a = draw(torch, 0, 4, 3)
    f = lambda x: (a @ x).tanh()
    x, v = vector(torch), vector(torch, 2)
    _, u = func.jvp(f, (x,), (v,))
    _, pull = func.vjp(f, x)
    j = func.jacrev(f)(x)
    return pull(u)[0], j.t() @ (j @ v)


@program
def laplacian_and_divergence(torch, func):
    f = lambda x: (x.sin() * x.roll(1)).sum()
    field = lambda x: x**2 * x.sum()
    x = vector(torch)
    return (
        torch.trace(func.hessian(f)(x)),
        torch.trace(func.jacrev(field)(x)),
        func.vmap(lambda v: (func.jvp(func.grad(f), (x,), (v,))[1] * v).sum())(torch.eye(3)),
    )
