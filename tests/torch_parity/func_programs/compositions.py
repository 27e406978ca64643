"""Transforms of transforms, closures across levels, custom functions, and tensors that leave their level."""

from __future__ import annotations

from tests.torch_parity.func_programs.dialect import attempt, draw, draw_complex, program, vector


@program
def grad_of_grad(torch, func):
    f = lambda x: x.sin() * x**2
    x = torch.tensor(0.7)
    return [
        func.grad(f)(x),
        func.grad(func.grad(f))(x),
        func.grad(func.grad(func.grad(f)))(x),
        func.grad(func.grad(func.grad(func.grad(f))))(x),
    ]


@program
def grad_of_grad_of_vectors(torch, func):
    return func.grad(lambda x: (func.grad(lambda y: (y**3).sum() * y[0])(x) * x).sum())(vector(torch))


@program
def grad_of_a_function_of_the_outer_argument(torch, func):
    f = lambda x: func.grad(lambda y: (x * y).sin())(x * 2)
    return func.grad(f)(torch.tensor(0.3)), func.grad(lambda x: func.grad(lambda y: x * x)(torch.tensor(1.0)) + x)(torch.tensor(0.3))


@program
def perturbation_confusion(torch, func):
    x = torch.tensor(1.0)
    derivative = lambda f: lambda x: func.jvp(f, (x,), (torch.ones_like(x),))[1]
    return (
        derivative(lambda x: x * derivative(lambda y: x + y)(torch.tensor(1.0)))(x),
        func.grad(lambda x: x * func.grad(lambda y: x + y)(torch.tensor(1.0)))(x),
        derivative(lambda x: x * func.grad(lambda y: x * y)(torch.tensor(2.0)))(x),
        func.grad(lambda x: x * derivative(lambda y: x * y)(torch.tensor(2.0)))(x),
    )


@program
def values_of_inner_levels_handed_out_as_aux(torch, func):
    def outer(x):
        g, aux = func.grad(lambda y: ((y * x).sum(), y * 3), has_aux=True)(x * 2)
        return (g * aux).sum()

    return func.grad(outer)(vector(torch)), func.jacfwd(outer)(vector(torch)), func.vmap(outer)(draw(torch, 0, 2, 3))


@program
def per_sample_gradients(torch, func):
    loss = lambda w, x, y: ((x @ w["a"]).tanh() @ w["b"] - y) ** 2
    w = {"a": draw(torch, 0, 3, 4), "b": draw(torch, 1, 4)}
    x, y = draw(torch, 2, 5, 3), draw(torch, 3, 5)
    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(w, x, y)
    values = func.vmap(func.grad_and_value(loss), (None, 0, 0))(w, x, y)
    return each, values, func.vmap(func.grad(loss), (None, 0, 0), chunk_size=2)(w, x, y)


@program
def vmap_of_grad_is_grad_of_the_sum(torch, func):
    f = lambda x: (x.sin() * x.sum()).prod()
    x = draw(torch, 0, 4, 3)
    return func.vmap(func.grad(f))(x), func.grad(lambda x: func.vmap(f)(x).sum())(x)


@program
def vmap_of_grad_of_vmap(torch, func):
    x, y = draw(torch, 0, 2, 3), draw(torch, 1, 4, 3)
    loss = lambda x: func.vmap(lambda y: ((x * y).sum()) ** 2)(y).mean()
    return func.vmap(func.grad(loss))(x), func.vmap(func.hessian(loss))(x), func.grad(lambda x: func.vmap(func.grad(loss))(x).prod())(x)


@program
def vmap_of_jvp_and_jvp_of_vmap(torch, func):
    f = lambda x: x.cumsum(0) * x.exp()
    x, v = draw(torch, 0, 2, 3), draw(torch, 1, 2, 3)
    return (
        func.vmap(lambda x, v: func.jvp(f, (x,), (v,)))(x, v),
        func.jvp(func.vmap(f), (x,), (v,)),
        func.vmap(lambda v: func.jvp(f, (x[0],), (v,)))(v),
        func.vmap(lambda x: func.jvp(f, (x,), (v[0],)))(x),
        func.vmap(lambda x: func.jvp(f, (x,), (torch.ones_like(x),)), out_dims=1)(x),
    )


@program
def vmap_of_vjp_and_vjp_of_vmap(torch, func):
    f = lambda x: x.cumsum(0) * x.exp()
    x, v = draw(torch, 0, 2, 3), draw(torch, 1, 2, 3)
    _, pull = func.vjp(f, x[0])
    return (
        func.vmap(lambda x, v: func.vjp(f, x)[1](v))(x, v),
        func.vjp(func.vmap(f), x)[1](v),
        func.vmap(pull)(v),
        func.vmap(lambda x: func.vjp(f, x)[1](v[0]))(x),
        func.vmap(pull, out_dims=1)(v),
    )


@program
def jvp_of_vjp_and_vjp_of_jvp(torch, func):
    f = lambda x: (x**3).roll(1) * x
    x, v, w = (draw(torch, i, 3) for i in range(3))
    return (
        func.jvp(lambda x: func.vjp(f, x)[1](v)[0], (x,), (w,)),
        func.vjp(lambda x: func.jvp(f, (x,), (v,))[1], x)[1](w),
        func.jvp(lambda c: func.vjp(f, x)[1](c)[0], (v,), (w,)),
        func.vjp(lambda c: func.vjp(f, x)[1](c)[0], v)[1](w),
    )


@program
def transpose_of_the_linearization(torch, func):
    f = lambda x: (x**3).cumsum(0)
    x, v = vector(torch), vector(torch, 1)
    _, push = func.linearize(f, x)
    return func.vjp(push, v)[1](v), func.vjp(f, x)[1](v)


@program
def jacobians_of_jacobians(torch, func):
    f = lambda x: x.sin() * x.sum()
    x = vector(torch)
    return [a(b(c(f)))(x) for a in (func.jacrev, func.jacfwd) for b in (func.jacrev, func.jacfwd) for c in (func.jacrev, func.jacfwd)]


@program
def vmap_of_jacobians_and_hessians(torch, func):
    f = lambda x: x.sin() * x.sum()
    s = lambda x: f(x).prod()
    x = draw(torch, 0, 2, 3)
    return [func.vmap(t)(x) for t in (func.jacrev(f), func.jacfwd(f), func.hessian(s), func.jacrev(f, chunk_size=2), func.grad(s))]


@program
def jacobians_of_vmap(torch, func):
    x = draw(torch, 0, 2, 3)
    f = func.vmap(lambda x: x.exp().cumsum(0))
    return func.jacrev(f)(x), func.jacfwd(f)(x), func.hessian(lambda x: f(x).sum() ** 2)(x)


@program
def gradient_of_a_gradient_norm(torch, func):
    w = draw(torch, 0, 3, 3)
    f = lambda x: (w @ x).tanh().sum()
    penalty = lambda x: (func.grad(f)(x) ** 2).sum()
    return func.grad(penalty)(vector(torch)), func.vmap(func.grad(penalty))(draw(torch, 1, 4, 3))


@program
def unrolled_optimisation(torch, func):
    loss = lambda w: ((w - 1) ** 4).sum()

    def trained(rate):
        w = vector(torch)
        for _ in range(3):
            w = w - rate * func.grad(loss)(w)
        return loss(w)

    rate = torch.tensor(0.05)
    return trained(rate), func.grad(trained)(rate), func.grad(func.grad(trained))(rate), func.vmap(trained)(torch.tensor([0.01, 0.02]))


@program
def newton_steps_for_a_batch(torch, func):
    f = lambda x: (x**4).sum() + (x.sum() - 1) ** 2
    step = lambda x: x - torch.linalg.solve(func.hessian(f)(x), func.grad(f)(x))
    return func.vmap(step)(draw(torch, 0, 4, 3) + 2), func.jacrev(step)(vector(torch) + 2)


@program
def closures_over_tensors_that_require_grad(torch, func):
    w = vector(torch).requires_grad_()
    x = draw(torch, 1, 2, 3)
    out = func.vmap(func.grad(lambda x: (x * w).sin().sum()))(x)
    (g,) = torch.autograd.grad(out.sum(), w)
    tangent = func.jvp(lambda x: (x * w).sin(), (x[0],), (x[1],))[1]
    return out, g, torch.autograd.grad(tangent.sum(), w)


@program
def functions_with_several_scalar_outputs(torch, func):
    f = lambda x: (x.sum(), x.prod())
    g = lambda x: func.grad(lambda y: f(y)[0] * f(y)[1])(x)
    return g(vector(torch)), func.jacrev(f)(vector(torch)), func.vmap(g)(draw(torch, 0, 2, 3))


@program
def recursion_and_higher_order_functions(torch, func):
    def power(x, n):
        return torch.ones_like(x) if n == 0 else x * power(x, n - 1)

    nth = lambda f, n: f if n == 0 else func.grad(nth(f, n - 1))
    return [nth(lambda x, k=k: power(x, k), n)(torch.tensor(1.3)) for k in (3, 5) for n in (0, 1, 2, 3)]


@program
def wraps_keeps_names(torch, func):
    def total(x):
        """Doc."""
        return x.sum()

    made = [t(total) for t in (func.grad, func.grad_and_value, func.vmap, func.jacrev, func.jacfwd)]
    return [m.__name__ for m in made], [m.__doc__ for m in made]


@program
def methods_and_callable_objects(torch, func):
    class Scaled:
        factor = 2.0

        def __call__(self, x):
            return (x * self.factor).sum()

        def method(self, x):
            return self(x) ** 2

    s = Scaled()
    return (
        func.grad(s.method)(vector(torch)),
        attempt(lambda: func.grad(s)(vector(torch))),
        func.vmap(torch.nn.functional.relu)(vector(torch)),
    )


@program
def partial_functions(torch, func):
    import functools

    f = functools.partial(lambda x, k: (x * k).sum(), k=3.0)
    return func.grad(f)(vector(torch)), func.vmap(f)(draw(torch, 0, 2, 3)), func.jacrev(functools.partial(torch.mul, 2.0))(vector(torch))


# ----- custom functions ------------------------------------------------------------------------------------------------------------


def cube(torch):
    class Cube(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * t

    return Cube.apply


@program
def custom_functions_in_every_transform(torch, func):
    f, x = cube(torch), draw(torch, 0, 2, 3)
    total = lambda x: f(x).sum()
    return (
        func.grad(total)(x), func.vmap(func.grad(total))(x), func.jvp(f, (x,), (x,)), func.hessian(total)(x[0]),
        func.jacfwd(func.grad(total))(x[0]),
        func.vmap(func.jacrev(f))(x), func.grad(lambda x: func.vmap(f)(x).sum())(x), func.vjp(f, x)[1](x),
    )  # fmt: skip


@program
def custom_functions_without_a_vmap_rule(torch, func):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = draw(torch, 0, 2, 3)
    return (
        attempt(lambda: func.vmap(Double.apply)(x)),
        func.grad(lambda x: Double.apply(x).sum())(x),
        attempt(lambda: func.jvp(Double.apply, (x,), (x,))),
    )


@program
def custom_functions_of_the_old_form_inside_grad(torch, func):
    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    return attempt(lambda: func.grad(lambda x: Old.apply(x).sum())(vector(torch)))


# ----- tensors that leave their level ------------------------------------------------------------------------------------------------


def escaped(torch, func, transform):
    """A tensor of a level that is closed."""
    kept = []
    transform(lambda x: (kept.append(x), kept.append(x * 2), x.sum())[2])
    return kept


@program
def escaped_from_vmap(torch, func):
    kept = escaped(torch, func, lambda f: func.vmap(f)(draw(torch, 0, 2, 3)))
    return attempt(lambda: kept[1] + 1), attempt(lambda: kept[0].sum())


@program
def nothing_is_left_after_an_error(torch, func):
    def fail(x):
        raise KeyError("mine")

    x, batch = vector(torch), draw(torch, 0, 2, 3)
    failures = [
        lambda: func.grad(fail)(x),
        lambda: func.vmap(fail)(batch),
        lambda: func.vmap(func.grad(fail))(batch),
        lambda: func.grad(lambda x: func.vmap(fail)(batch * x))(x),
        lambda: func.jvp(fail, (x,), (x,)),
        lambda: func.hessian(fail)(x),
        lambda: func.jacrev(fail)(x),
        lambda: func.vjp(fail, x),
        lambda: func.linearize(fail, x),
        lambda: func.vmap(lambda x: func.jvp(func.grad(fail), (x,), (x,)))(batch),
    ]
    found = [attempt(f) for f in failures]
    return found, func.grad(lambda x: (x * x).sum())(x), func.vmap(torch.sin)(batch), x * 2


@program
def errors_inside_backward(torch, func):
    class Broken(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    f = lambda x: Broken.apply(x).sum()
    x = vector(torch)
    return (
        attempt(lambda: func.grad(f)(x)),
        attempt(lambda: func.hessian(f)(x)),
        attempt(lambda: func.vmap(func.grad(f))(x[None])),
        func.grad(lambda x: x.sum())(x),
    )


@program
def generators_of_results_are_not_structures(torch, func):
    return attempt(lambda: func.vmap(lambda x: (y for y in x))(draw(torch, 0, 2, 3)))


@program
def debug_unwrap_shows_what_is_below(torch, func):
    seen = []

    def f(x):
        seen.append((tuple(func.debug_unwrap(x).shape), tuple(func.debug_unwrap(x, recurse=False).shape)))
        return x.sum()

    func.vmap(f)(draw(torch, 0, 2, 3))
    func.vmap(func.vmap(f))(draw(torch, 0, 2, 4, 3))
    func.vmap(func.grad(f))(draw(torch, 0, 2, 3))
    return seen, func.debug_unwrap(vector(torch))


@program
def complex_compositions(torch, func):
    z = draw_complex(torch, 0, 2, 3)
    f = lambda z: (z * z.conj()).real.sum() ** 2
    return (
        func.vmap(func.grad(f))(z),
        func.grad(lambda z: func.vmap(f)(z).sum())(z),
        func.jvp(func.grad(f), (z[0],), (z[1],)),
        func.vmap(lambda a, b: func.vjp(torch.exp, a)[1](b))(z, z),
    )


@program
def leaves_made_inside(torch, func):
    def squared_gradient(x, leaf):
        (g,) = torch.autograd.grad((leaf * leaf * x).sum(), leaf, create_graph=True)
        return (g * g * x).sum()

    def module_gradient(x):
        layer = torch.nn.Linear(3, 1, dtype=torch.float64)
        with torch.no_grad():
            for p in layer.parameters():
                p.fill_(0.3)
        found = torch.autograd.grad(layer(x).tanh().sum(), tuple(layer.parameters()), create_graph=True)
        return sum((g * g).sum() for g in found)

    makers = {
        "ones": lambda: torch.ones(3, requires_grad=True, dtype=torch.float64),
        "tensor": lambda: torch.tensor([1.0, 2.0, 3.0], requires_grad=True, dtype=torch.float64),
        "parameter": lambda: torch.nn.Parameter(torch.ones(3, dtype=torch.float64)),
    }
    x, batch = vector(torch), draw(torch, 0, 2, 3)
    results = {}
    for name, make in makers.items():
        f = lambda x, make=make: squared_gradient(x, make())
        results[name] = func.grad(f)(x), func.vmap(func.grad(f))(batch), func.hessian(f)(x), func.jvp(func.grad(f), (x,), (x,))
    return results, func.grad(module_gradient)(x), func.jacrev(module_gradient)(x)


@program
def parameters_made_inside(torch, func):
    def layer(x):
        made = torch.nn.Linear(3, 2, dtype=torch.float64)
        with torch.no_grad():
            for p in made.parameters():
                p.fill_(0.3)
        return made(x).tanh().sum().detach()

    constant = lambda x: torch.nn.Parameter(x, requires_grad=False) * x
    batch = draw(torch, 0, 2, 3)
    return func.functionalize(layer)(batch), func.vmap(constant)(batch), func.vmap(func.grad(lambda x: constant(x).sum()))(batch)
