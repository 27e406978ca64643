"""grad, grad_and_value and vjp."""

from __future__ import annotations

from tests.torch_parity.func_programs.dialect import attempt, draw, draw_complex, positive_definite, program, vector

# ----- differentiable arguments --------------------------------------------------------------------------------------------------


@program
def grad_of_a_polynomial(torch, func):
    return func.grad(lambda x: (x**3 - 2 * x).sum())(vector(torch))


@program
def grad_of_every_argument(torch, func):
    f = lambda a, b, c: (a * b**2 * c.sin()).sum()
    args = [draw(torch, i, 3) for i in range(3)]
    return [func.grad(f, argnums=n)(*args) for n in (0, 1, 2, -1, (0,), (0, 2), (2, 0), (-1, 0))]


@program
def grad_of_the_same_argument_twice(torch, func):
    x = vector(torch)
    return attempt(lambda: func.grad(lambda a, b: (a * b).sum(), argnums=(0, 0))(x, x))


@program
def argnums_out_of_range(torch, func):
    x = vector(torch)
    f = lambda a: a.sum()
    return [attempt(lambda n=n: func.grad(f, argnums=n)(x)) for n in (1, -2, (0, 1), 7)]


@program
def argnums_of_the_wrong_type(torch, func):
    x = vector(torch)
    return [attempt(lambda n=n: func.grad(lambda a: a.sum(), argnums=n)(x)) for n in ("0", 0.0, ("a",), (0.5,), None)]


@program
def argnums_of_jacobians_out_of_range(torch, func):
    x = vector(torch)
    return [
        attempt(lambda n=n, j=j: j(lambda a: a * 2, argnums=n)(x))
        for j in (func.jacrev, func.jacfwd, func.hessian)
        for n in (1, -2, (0, 1), "0", ())
    ]


@program
def grad_of_no_argument(torch, func):
    return attempt(lambda: func.grad(lambda: torch.ones(()))()), attempt(lambda: func.grad(lambda x: x.sum(), argnums=())(vector(torch)))


@program
def grad_with_keyword_arguments(torch, func):
    x, y = vector(torch), vector(torch, 1)
    f = lambda x, *, y, power=2: (x**power * y).sum()
    return func.grad(f)(x, y=y), func.grad(f)(x, y=y, power=3), func.grad_and_value(f)(x, y=y)


@program
def grad_with_arguments_that_are_no_tensors(torch, func):
    f = lambda x, mode, scale, nothing: (x.sin() if mode == "sin" else x).sum() * scale
    return func.grad(f)(vector(torch), "sin", 2.5, None), func.grad(f)(vector(torch), "no", 2, [])


@program
def grad_of_an_argument_that_is_no_tensor(torch, func):
    return [attempt(lambda v=v: func.grad(lambda x: torch.ones(()) * 2)(v)) for v in (None, "a", object())]


@program
def grad_of_integers(torch, func):
    f = lambda x: (x * 1.5).sum()
    return [attempt(lambda t=t: func.grad(f)(t)) for t in (torch.arange(3), torch.tensor([True, False]), torch.tensor(2))]


@program
def grad_beside_integers(torch, func):
    x, index = vector(torch), torch.tensor([2, 0, 0])
    return func.grad(lambda x, i: (x[i] * i).sum())(x, index)


@program
def grad_of_a_non_scalar(torch, func):
    x = vector(torch)
    return [attempt(lambda f=f: func.grad(f)(x)) for f in (lambda x: x, lambda x: x[:1], lambda x: x.reshape(1, 3).sum(0), torch.exp)]


@program
def grad_of_a_result_that_is_no_tensor(torch, func):
    x = vector(torch)
    results = (1.0, None, "a", (x.sum(),), [x.sum()], {"a": x.sum()}, (x.sum(), x))
    return [attempt(lambda r=r: func.grad(lambda x: r)(x)) for r in results]


@program
def grad_of_a_constant(torch, func):
    x = vector(torch)
    return func.grad(lambda x: torch.tensor(2.0))(x), func.grad(lambda x: torch.ones(3).sum())(x)


@program
def grad_of_an_integer_result(torch, func):
    x = vector(torch)
    return attempt(lambda: func.grad(lambda x: torch.tensor(2))(x)), attempt(lambda: func.grad(lambda x: x.argmax())(x))


@program
def grad_of_a_complex_result(torch, func):
    z = draw_complex(torch, 0, 3)
    return attempt(lambda: func.grad(lambda z: (z * z).sum())(z)), func.grad(lambda z: (z * z.conj()).real.sum())(z)


@program
def grad_of_complex_arguments(torch, func):
    z, x = draw_complex(torch, 1, 3), vector(torch)
    f = lambda z, x: (z.exp() * x).abs().sum() + z.angle().sum() + torch.view_as_real(z)[:, 0].prod()
    return func.grad(f, argnums=(0, 1))(z, x)


@program
def grad_of_unused_arguments(torch, func):
    x, y = vector(torch), {"a": vector(torch, 1), "b": draw(torch, 2, 2, 2)}
    return func.grad(lambda x, y: (x * y["a"]).sum(), argnums=(0, 1))(x, y), func.vjp(lambda x, y: x * 2, x, y["b"])[1](x)


@program
def grad_of_the_argument_itself(torch, func):
    x = torch.tensor(1.5)
    return func.grad(lambda x: x)(x), func.grad_and_value(lambda x: x)(x), func.grad(func.grad(lambda x: x))(x)


@program
def grad_of_empty_and_zero_dimensional_tensors(torch, func):
    return (
        func.grad(lambda x: x.sum())(torch.zeros(0)),
        func.grad(lambda x: x**2)(torch.tensor(3.0)),
        func.grad(lambda x: x.prod())(torch.zeros(0, 2)),
    )


@program
def grad_of_float32(torch, func):
    x = draw(torch, 0, 3, dtype="float32")
    return func.grad(lambda x: x.exp().sum())(x), func.jacfwd(torch.sin)(x), func.vmap(torch.exp)(x)


@program
def grad_through_a_cast(torch, func):
    x = vector(torch)
    return func.grad(lambda x: x.to(torch.float32).exp().sum().to(torch.float64))(x), func.grad(lambda x: x.float().sum())(x)


@program
def grad_of_a_leaf_that_requires_grad(torch, func):
    x = vector(torch).requires_grad_()
    g = func.grad(lambda x: (x**3).sum())(x)
    g.sum().backward()
    return g, x.grad


@program
def grad_of_a_result_of_the_outer_graph(torch, func):
    x = vector(torch).requires_grad_()
    value, g = func.grad_and_value(lambda y: (y**3).sum())(x.sin())[::-1]
    (value + g.sum()).backward()
    return value, g, x.grad


# ----- structures -----------------------------------------------------------------------------------------------------------------


@program
def grad_of_nested_structures(torch, func):
    tree = {"a": vector(torch), "b": [vector(torch, 1), (vector(torch, 2),)], "c": {}}
    return func.grad(lambda t: (t["a"] * t["b"][0] * t["b"][1][0]).sum())(tree)


@program
def aux_of_every_kind(torch, func):
    x = vector(torch)
    f = lambda x: ((x * x).sum(), {"doubled": x * 2, "pair": (x.sum(), [x]), "detached": x.detach(), "other": torch.ones(2)})
    return func.grad(f, has_aux=True)(x), func.grad_and_value(f, has_aux=True)(x), func.vjp(f, x, has_aux=True)[2]


@program
def aux_that_is_the_argument(torch, func):
    x = vector(torch)
    return func.grad(lambda x: (x.sum(), x), has_aux=True)(x), func.grad(lambda x: (x.sum(), x.detach()), has_aux=True)(x)


@program
def aux_of_the_wrong_form(torch, func):
    x = vector(torch)
    functions = [lambda x: x.sum(), lambda x: (x.sum(),), lambda x: [x.sum(), x], lambda x: (x.sum(), x, x)]
    return [
        [attempt(lambda f=f, t=t: t(f, has_aux=True)(x)) for f in functions]
        for t in (func.grad, func.grad_and_value, func.jacrev, func.jacfwd)
    ], [attempt(lambda f=f: func.vjp(f, x, has_aux=True)[2]) for f in functions]


@program
def vjp_of_structures(torch, func):
    args = {"a": vector(torch)}, [vector(torch, 1)]
    out, pull = func.vjp(lambda d, l: {"y": d["a"] * l[0], "z": (l[0].sum(), d["a"].sin())}, *args)
    return out, pull({"y": vector(torch, 2), "z": (torch.tensor(2.0), vector(torch, 3))})


@program
def vjp_of_one_and_of_several_primals(torch, func):
    x, y = vector(torch), vector(torch, 1)
    one, several = func.vjp(torch.sin, x), func.vjp(torch.mul, x, y)
    return one[0], one[1](y), several[0], several[1](y), func.vjp(lambda x: (x, x * 2), x)[1]((x, y))


@program
def vjp_called_again(torch, func):
    _, pull = func.vjp(lambda x: x.exp(), vector(torch))
    return pull(vector(torch, 1)), pull(vector(torch, 2)), func.vmap(pull)(torch.eye(3))


@program
def vjp_called_again_without_its_graph(torch, func):
    _, pull = func.vjp(lambda x: x.exp(), vector(torch))
    first = pull(vector(torch, 1), retain_graph=False)
    return first, attempt(lambda: pull(vector(torch, 1)))


@program
def vjp_with_cotangents_that_do_not_fit(torch, func):
    x = vector(torch)
    _, one = func.vjp(torch.sin, x)
    _, two = func.vjp(lambda x: (x, {"a": x * 2}), x)
    wrong = [torch.ones(4), torch.ones(()), (x, x), {"a": x}, [x], 1.0, None]
    return [attempt(lambda w=w, p=p: p(w)) for w in wrong for p in (one, two)], attempt(lambda: one()), attempt(lambda: two(x, x))


@program
def vjp_with_cotangents_of_another_dtype(torch, func):
    _, pull = func.vjp(torch.sin, vector(torch))
    return attempt(lambda: pull(torch.ones(3, dtype=torch.float32)))


@program
def vjp_without_primals(torch, func):
    out, pull = func.vjp(lambda: torch.ones(3))
    return out, pull(out)


@program
def vjp_of_a_result_that_is_no_tensor(torch, func):
    x = vector(torch)
    results = (1.0, None, (x, 1.0), {"a": "b"}, [])
    return [attempt(lambda r=r: func.vjp(lambda x: r, x)[0]) for r in results]


@program
def vjp_of_integers(torch, func):
    return attempt(lambda: func.vjp(lambda x: x * 2, torch.arange(3))[0])


@program
def vjp_of_a_function_with_integer_outputs(torch, func):
    x = vector(torch)
    return attempt(lambda: func.vjp(lambda x: (x * 2, x.argmax()), x)[0])


@program
def vjp_of_complex_functions(torch, func):
    z = draw_complex(torch, 3, 3)
    out, pull = func.vjp(lambda z: (z * z, z.real), z)
    return out, pull((draw_complex(torch, 4, 3), vector(torch)))


@program
def vjp_of_decompositions(torch, func):
    a = positive_definite(torch, 0)
    outs = []
    for f in (torch.linalg.cholesky, torch.linalg.inv, torch.linalg.eigvalsh, torch.linalg.svdvals, torch.linalg.slogdet, torch.linalg.qr):
        out, pull = func.vjp(lambda a, f=f: tuple(f(a)) if f in (torch.linalg.slogdet, torch.linalg.qr) else f(a), a)
        outs.append((out, pull(tuple(torch.ones_like(o) for o in out) if isinstance(out, tuple) else torch.ones_like(out))))
    return outs


@program
def vjp_of_sorting_and_extremes(torch, func):
    x = draw(torch, 5, 4, 3)
    f = lambda x: (x.sort(0).values, x.topk(2, dim=0).values, x.max(1).values, x.median(0).values, x.amin(1), x.cummax(0)[0])
    out, pull = func.vjp(f, x)
    return out, pull(tuple(torch.ones_like(o) * 2 for o in out))


# ----- modes ---------------------------------------------------------------------------------------------------------------------


@program
def no_grad_inside(torch, func):
    def f(x):
        with torch.no_grad():
            y = x * 2
        return (x * y).sum()

    return func.grad(f)(vector(torch)), func.grad(func.grad(lambda x: f(x * x)))(torch.tensor(2.0)), func.jacfwd(f)(vector(torch))


@program
def everything_under_no_grad_inside(torch, func):
    def f(x):
        with torch.no_grad():
            return (x * x).sum()

    return func.grad(f)(vector(torch)), func.vjp(f, vector(torch))[1](torch.tensor(1.0)), func.jvp(f, (vector(torch),), (vector(torch, 1),))


@program
def no_grad_outside(torch, func):
    x = vector(torch).requires_grad_()
    with torch.no_grad():
        g = func.grad(lambda x: (x**3).sum())(x)
        out, pull = func.vjp(torch.sin, x)
        return g, out, pull(x)[0], func.hessian(lambda x: (x**3).sum())(x)


@program
def no_grad_between_two_grads(torch, func):
    def f(x):
        with torch.no_grad():
            g = func.grad(lambda y: (y**3).sum())(x)
        return (g * x).sum()

    return func.grad(f)(vector(torch))


@program
def enable_grad_inside_no_grad_inside(torch, func):
    def f(x):
        with torch.no_grad(), torch.enable_grad():
            return (x**2).sum()

    return func.grad(f)(vector(torch))


@program
def is_grad_enabled_inside(torch, func):
    seen = []

    def f(x):
        seen.append(torch.is_grad_enabled())
        return x.sum()

    with torch.no_grad():
        func.grad(f)(vector(torch))
        func.vmap(f)(draw(torch, 0, 2, 3))
    func.jvp(f, (vector(torch),), (vector(torch),))
    return seen, torch.is_grad_enabled()


@program
def set_grad_enabled_inside_does_not_leak(torch, func):
    def f(x):
        torch.set_grad_enabled(False)
        return (x * 2).sum()

    g = func.grad(f)(vector(torch))
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    return g, enabled


@program
def inference_mode_outside(torch, func):
    with torch.inference_mode():
        g = attempt(lambda: func.grad(lambda x: (x**2).sum())(vector(torch)))
        return g, attempt(lambda: func.vmap(torch.sin)(vector(torch)))


@program
def detach_inside(torch, func):
    f = lambda x: (x.detach() * x).sum()
    return func.grad(f)(vector(torch)), func.hessian(f)(vector(torch)), func.jvp(f, (vector(torch),), (vector(torch, 1),))


@program
def requires_grad_inside(torch, func):
    seen = []

    def f(x):
        seen.append((x.requires_grad, x.is_leaf, x.grad_fn is None, (x * 2).requires_grad, (x * 2).grad_fn is None))
        return x.sum()

    func.grad(f)(vector(torch))
    return seen


@program
def requires_grad_set_inside(torch, func):
    def f(x):
        y = torch.ones(3)
        y.requires_grad_()
        return (x * y).sum()

    return attempt(lambda: func.grad(f)(vector(torch)))


@program
def autograd_grad_inside_grad(torch, func):
    def f(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return (g * x).sum()

    return func.grad(f)(vector(torch)), func.hessian(f)(vector(torch))


@program
def backward_inside_grad(torch, func):
    def f(x):
        w = torch.ones(3)
        y = (x * w).sum()
        y.backward()
        return y

    return attempt(lambda: func.grad(f)(vector(torch)))


@program
def hooks_inside_grad(torch, func):
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(tuple(g.shape)) or g * 10)
        return y.sum()

    return func.grad(f)(vector(torch)), seen
