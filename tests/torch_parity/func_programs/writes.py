"""In-place writes and views inside transforms."""

from __future__ import annotations

from tests.torch_parity.func_programs.dialect import attempt, draw, program, vector


@program
def writes_to_clones(torch, func):
    def f(x):
        y = x.clone()
        y.mul_(x)
        y[0] = x[1] * 2
        y[1:] += x[:-1]
        return y

    x, v = vector(torch), vector(torch, 1)
    total = lambda x: (f(x) ** 2).sum()
    return (
        func.grad(total)(x), func.jvp(f, (x,), (v,)), func.vjp(f, x)[1](v), func.jacrev(f)(x), func.jacfwd(f)(x), func.hessian(total)(x),
        func.vmap(f)(torch.stack([x, v])), func.vmap(func.grad(total))(torch.stack([x, v])),
    )  # fmt: skip


@program
def writes_to_the_argument(torch, func):
    x = vector(torch)
    before = x.clone()

    def f(x):
        x.mul_(2)
        return (x * x).sum()

    found = [attempt(lambda: func.grad(f)(x.clone())), attempt(lambda: func.jvp(f, (x.clone(),), (vector(torch, 1),)))]
    y = torch.stack([before, before])
    out = func.vmap(f)(y)
    return found, out, y


@program
def writes_through_vmap_reach_the_argument(torch, func):
    x, y = draw(torch, 0, 2, 3), draw(torch, 1, 3, 2)
    func.vmap(lambda x: x.add_(1))(x)
    func.vmap(lambda y: y.zero_(), in_dims=1)(y[:, :1])
    return x, y


@program
def writes_of_batched_values_into_unbatched_tensors(torch, func):
    x, y = draw(torch, 0, 2, 3), vector(torch)
    return [
        attempt(lambda f=f: func.vmap(f)(x))
        for f in (lambda x: y.add_(x), lambda x: y.copy_(x), lambda x: y.__setitem__(0, x[0]), lambda x: y[:2].mul_(x[:2]))
    ], y


@program
def writes_of_unbatched_values_into_batched_tensors(torch, func):
    x, y = draw(torch, 0, 2, 3), vector(torch)

    def f(x):
        z = x.clone()
        z.add_(y)
        z[0] = 5.0
        z[1:] = y[:2]
        z[2].mul_(y[0])
        return z

    return func.vmap(f)(x), func.vmap(f, 1, 1)(draw(torch, 1, 3, 2)), func.vmap(func.grad(lambda x: f(x).prod()))(x)


@program
def writes_of_an_inner_value_beside_tangents_of_an_outer_level(torch, func):
    x, v = vector(torch), vector(torch, 1)

    def gradient(z):
        def f(q):
            u = z.clone()
            u[0] = q
            u[1:].mul_(q)
            return (u * u * q).sum()

        return func.grad(f)(z[0])

    def fill(t):
        def f(z):
            y = z * 2.0
            y[0] = t * t
            return (y * y * z).sum()

        return func.grad(f)(x)

    def write_between_levels(z):
        """The tensor that is written has a tangent of a level outside grad, the value one of a level inside."""

        def product(p, q):
            u = z.clone()
            u[1:].mul_(p[1:] * q[1:])
            return u * p

        def f(q):
            return (func.jvp(lambda p: product(p, q), (q,), (v,))[1] ** 2 * q).sum()

        return func.grad(f)(x)

    return (
        func.jvp(gradient, (x,), (v,)), func.jvp(fill, (x[0],), (v[0],)), func.jvp(write_between_levels, (x,), (v,)),
        func.grad(gradient)(x), func.jacrev(fill)(x[0]), func.jacrev(write_between_levels)(x),
    )  # fmt: skip


@program
def writes_of_an_inner_value_into_what_has_no_gradient_there(torch, func):
    def write(w, z):
        w[0] = z[0] ** 3
        return w.sum()

    def unrecorded(z):
        with torch.no_grad():
            w = z * 1
        return write(w, z)

    def sorted_unrecorded(z):
        with torch.no_grad():
            w, _ = z.sort()
        return write(w, z)

    def by_jvp(z):
        def inner(p):
            w = z * 1.1  # a tensor of the outer level
            w.mul_(p)
            return w

        return func.jvp(inner, (z,), (vector(torch, 1),))[1].sum()

    x = vector(torch)
    zeros, steps = (lambda z: write(torch.zeros_like(z), z)), (lambda z: write((z > 0).to(z.dtype), z))
    functions = unrecorded, sorted_unrecorded, zeros, steps, by_jvp
    return [(func.grad(f)(x), func.hessian(f)(x), func.jacrev(func.jacrev(f))(x)) for f in functions]


@program
def writes_of_an_inner_value_into_one_of_several_results(torch, func):
    def outer(a):
        def inner(q):
            _, value = torch.linalg.slogdet(a)
            value.mul_(q)
            return value * value * q

        return func.grad(inner)(a[1, 0])

    return func.grad(outer)(draw(torch, 0, 3, 3))


@program
def indexed_writes(torch, func):
    x, i = draw(torch, 0, 2, 4), torch.tensor([[0, 3], [2, 1]])

    def f(x, i):
        y = x * 1
        y[i] = x[:2] * 3
        y.index_add_(0, i, x[2:])
        y.scatter_(0, i, x[1:3])
        y.index_fill_(0, i[:1], 2.0)
        y.index_put_((i,), x[:2], accumulate=True)
        return y

    return (
        func.vmap(f)(x, i), func.grad(lambda x: (f(x, i[0]) ** 2).sum())(x[0]), func.vmap(func.jacrev(f))(x, i),
        func.vmap(f, (0, None))(x, i[1]),
        func.jvp(lambda x: f(x, i[0]), (x[0],), (x[1],)),
    )  # fmt: skip


@program
def masked_writes(torch, func):
    x = draw(torch, 0, 2, 4)

    def f(x):
        y = x.clone()
        y.masked_fill_(x > 0, 2.0)
        return y * x

    return func.vmap(f)(x), func.grad(lambda x: f(x).sum())(x), func.vmap(func.grad(lambda x: f(x).sum()))(x)


@program
def mask_assignment(torch, func):
    x = draw(torch, 0, 2, 4)

    def f(x):
        y = x.clone()
        y[x > 0] = 2.0
        return y * x

    return func.grad(lambda x: f(x).sum())(x), func.jvp(f, (x,), (x,))


@program
def writes_into_buffers_made_inside(torch, func):
    def f(x):
        y = torch.zeros(3)
        y[1:] = x[:2] * 2
        y[0] = x.sum()
        return y * x

    x, v = vector(torch), vector(torch, 1)
    return func.grad(lambda x: f(x).sum())(x), func.jvp(f, (x,), (v,)), func.jacrev(f)(x), func.hessian(lambda x: f(x).prod())(x)


@program
def writes_into_buffers_made_from_the_argument(torch, func):
    def f(x):
        y = x.new_zeros(2, 3)
        y[0].copy_(x)
        y[1] = x.sin()
        y[:, 1] *= 2
        return y

    x = draw(torch, 0, 2, 3)
    return func.vmap(f)(x), func.vmap(func.jacfwd(f))(x), func.grad(lambda x: func.vmap(f)(x).sum())(x)


@program
def views_see_writes(torch, func):
    def f(x):
        y = x * 1
        row, column, whole = y[0], y[:, 1], y.view(-1)
        row.mul_(2)
        column.add_(x[:, 0])
        whole[2:4] = x[0, :2] * 5
        return row.sum() * 3 + (column * whole[:2]).sum() + y.prod()

    x = draw(torch, 0, 2, 3)
    return (
        func.grad(f)(x), func.hessian(f)(x), func.jvp(f, (x,), (x * 2,)), func.vmap(f)(torch.stack([x, x + 1])),
        func.vmap(func.grad(f))(torch.stack([x, x + 1])), func.grad(lambda x: func.vmap(f)(torch.stack([x, x + 1])).sum())(x),
    )  # fmt: skip


@program
def writes_of_outer_values_inside_an_inner_transform(torch, func):
    def outer(x):
        def inner(y):
            z = y * 1
            z[0] = x[1]
            z[1:].mul_(x[1:])
            return (z * y).sum()

        return func.grad(inner)(x.sin()).sum()

    return func.grad(outer)(vector(torch)), func.jacfwd(outer)(vector(torch)), func.vmap(outer)(draw(torch, 0, 2, 3))


@program
def writes_of_inner_values_into_outer_tensors(torch, func):
    def outer(x):
        y = x * 1

        def inner(z):
            y.copy_(z)
            return (y * z).sum()

        return func.grad(inner)(x).sum()

    return attempt(lambda: func.grad(outer)(vector(torch)))


@program
def writes_of_inner_values_into_plain_tensors(torch, func):
    y = torch.zeros(3)
    return attempt(lambda: func.grad(lambda x: (y.copy_(x) * x).sum())(vector(torch)))


@program
def writes_of_plain_values_into_plain_tensors(torch, func):
    y = torch.zeros(3)

    def f(x):
        y.add_(1)
        y[0] = 7.0
        return (x * y).sum()

    return func.vmap(f)(draw(torch, 0, 2, 3)), y


@program
def a_saved_value_that_is_overwritten(torch, func):
    def f(x):
        y = x * 1
        z = y.exp()
        z.mul_(2)
        return z.sum()

    def g(x):
        y = x.sin()
        z = y * y
        y.zero_()
        return z.sum()

    return attempt(lambda: func.grad(f)(vector(torch))), attempt(lambda: func.grad(g)(vector(torch)))


@program
def shape_changing_writes(torch, func):
    def f(x):
        y = x * 2
        y.unsqueeze_(0)
        y.transpose_(0, 1)
        y.squeeze_(1)
        y.t_()
        return y * x

    x = vector(torch)
    return func.grad(lambda x: f(x).sum())(x), func.jvp(f, (x,), (x,)), attempt(lambda: func.vmap(f)(draw(torch, 0, 2, 3)))


@program
def detached_writes(torch, func):
    def f(x):
        y = x * 2
        y.detach().mul_(3)
        with torch.no_grad():
            y.add_(1)
        return (y * x).sum()

    return func.grad(f)(vector(torch)), func.vmap(f)(draw(torch, 0, 2, 3))


@program
def out_arguments(torch, func):
    def f(x):
        y = torch.empty(3)
        torch.sin(x, out=y)
        return y.sum()

    return attempt(lambda: func.grad(f)(vector(torch)))


@program
def every_kind_of_inplace_op(torch, func):
    steps = [
        lambda y, x: y.add_(x), lambda y, x: y.sub_(x, alpha=2), lambda y, x: y.mul_(x), lambda y, x: y.div_(x + 5), lambda y, x: y.pow_(2),
        lambda y, x: y.sin_(), lambda y, x: y.exp_(), lambda y, x: y.clamp_(-0.5, 0.5), lambda y, x: y.relu_(), lambda y, x: y.neg_(),
        lambda y, x: y.copy_(x * 2), lambda y, x: y.fill_(2.0), lambda y, x: y.zero_(), lambda y, x: y.addcmul_(x, x),
        lambda y, x: y.lerp_(x, 0.3),
        lambda y, x: y.cumsum_(0), lambda y, x: y.tanh_(), lambda y, x: y.abs_(), lambda y, x: y.atan2_(x), lambda y, x: y[:1].mul_(x[1]),
        lambda y, x: y.masked_fill_(x > 0, 1.0), lambda y, x: y.addcdiv_(x, x + 5), lambda y, x: y.copysign_(x), lambda y, x: y.fmod_(0.7),
    ]  # fmt: skip

    def f(x, step):
        y = x * 1.5
        step(y, x)
        return (y * x).sum()

    x = draw(torch, 0, 2, 3)
    return [(func.vmap(func.grad(lambda x, s=s: f(x, s)))(x), func.jacfwd(lambda x, s=s: f(x, s))(x[0])) for s in steps]


@program
def views_that_are_older_than_the_write(torch, func):
    """The buffer is batched already when it meets the values of the inner transform, and so are its views."""

    def write_whole(x):
        buffer = torch.zeros_like(x)
        part = buffer[:2]
        buffer.copy_(x * x)
        return part * 2

    def write_part(x):
        buffer = torch.zeros_like(x)
        part, other = buffer[:2], buffer.view(-1)[1:]
        part.copy_(x[:2] * x[0])
        return buffer * other.sum()

    x, v = draw(torch, 0, 2, 3), vector(torch, 1)
    found = []
    for f in (write_whole, write_part):
        total = lambda x, f=f: f(x).prod()
        found.append([
            func.vmap(lambda x, f=f: func.jvp(f, (x,), (v,)))(x), func.jvp(func.vmap(f), (x,), (x,)), func.vmap(func.grad(total))(x),
            func.vmap(func.jacfwd(f))(x), func.vmap(func.jacrev(f))(x), func.vmap(func.hessian(total))(x),
            func.vmap(func.jacrev(func.jacrev(f)))(x), func.grad(lambda x, f=f: func.vmap(f)(x).sum())(x),
            func.vmap(func.vmap(f))(x.expand(2, 2, 3)),
        ])  # fmt: skip
    return found


@program
def a_batched_constant_that_is_overwritten(torch, func):
    def f(x, c):
        d = c * 1
        y = x * d
        d.add_(1)
        return y.sum()

    def g(x, c):
        d = c * 1
        y = x * d[:2].sum()
        d[0] = 5.0
        return y.sum() + (x * d).sum()

    x = draw(torch, 0, 2, 3)
    return attempt(lambda: func.vmap(func.grad(f))(x, x)), func.vmap(func.grad(g))(x, x), func.vmap(f)(x, x)


# ----- functionalize ------------------------------------------------------------------------------------------------------------


@program
def functionalized_writes(torch, func):
    def f(x):
        y = x.clone()
        whole, row = y.view(-1), y[0]
        row.mul_(x[1])
        whole[2:5].add_(x[0])
        y.t()[1].sin_()
        y[1, 2] = 4.0
        return y, row * whole[:3]

    x = draw(torch, 0, 2, 3)
    return [func.functionalize(f, remove=r)(x) for r in ("mutations", "mutations_and_views")], func.vmap(func.functionalize(f))(
        x.expand(2, 2, 3)
    )


@program
def functionalized_writes_to_arguments(torch, func):
    x, y = vector(torch), vector(torch, 1)

    def f(x, tree, *, scale):
        x.mul_(scale)
        tree["y"][1:].add_(x[:2])
        return x.sum()

    out = func.functionalize(f)(x, {"y": y}, scale=3.0)
    return out, x, y


@program
def functionalize_with_a_wrong_word(torch, func):
    return [attempt(lambda r=r: func.functionalize(torch.sin, remove=r)(vector(torch))) for r in ("views", "", None)]


@program
def functionalize_of_writes_to_outer_tensors(torch, func):
    outer = torch.zeros(3)
    out = attempt(lambda: func.functionalize(lambda x: outer.add_(x))(vector(torch)))
    return out, func.functionalize(lambda x: x + outer.add_(1))(vector(torch)), outer


@program
def functionalized_graphs(torch, func):
    x = vector(torch).requires_grad_()
    func.functionalize(lambda x: (x * 2).add_(x).mul_(x).sum())(x).backward()
    return x.grad, attempt(lambda: func.functionalize(lambda x: x.add_(1))(x))
