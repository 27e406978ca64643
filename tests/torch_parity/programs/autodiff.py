"""Programs about differentiation itself: transforms, custom functions, hooks, views, dtypes."""

from __future__ import annotations

from tests.torch_parity.programs.dialect import draw, draw_complex, program, raised

# ----- transforms of functions --------------------------------------------------------------------------------------------


@program
def per_sample_gradients(torch):
    w, x, y = draw(torch, 120, 3), draw(torch, 121, 6, 3), draw(torch, 122, 6)
    loss = lambda w, x, y: (torch.tanh(x @ w) - y) ** 2
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(w, x, y)
    norms, value = torch.func.vmap(torch.func.grad_and_value(loss), (None, 0, 0))(w, x, y)
    return each, norms, value, each.mean(0)


@program
def jacobians_forward_and_reverse(torch):
    x, w = draw(torch, 123, 3), draw(torch, 124, 4, 3)
    f = lambda x, w: {"y": torch.tanh(w @ x), "n": (x.norm(), w.sum() * x)}
    forward, reverse = torch.func.jacfwd(f)(x, w), torch.func.jacrev(f)(x, w)
    both = torch.func.jacrev(lambda p: f(*p)["y"])((x, w))
    return forward, reverse, both


@program
def hessian_vector_products_in_three_ways(torch):
    x, v = draw(torch, 125, 4, grad=True), draw(torch, 126, 4)
    f = lambda x: (x.sin() * x.roll(1)).sum() + x.prod()
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (reverse,) = torch.autograd.grad(g, x, v)
    x = x.detach()
    _, forward = torch.func.jvp(torch.func.grad(f), (x,), (v,))
    _, pull = torch.func.vjp(torch.func.grad(f), x)
    (pulled,) = pull(v)
    return reverse, forward, pulled, torch.func.hessian(f)(x) @ v


@program
def laplacian_by_nested_transforms(torch):
    w = draw(torch, 127, 5, 2)
    f = lambda x: torch.tanh(w @ x).sum()
    points = draw(torch, 128, 7, 2)
    trace = lambda x: torch.func.hessian(f)(x).diagonal().sum()
    divergence = lambda x: torch.trace(torch.func.jacfwd(torch.func.grad(f))(x))
    return torch.func.vmap(trace)(points), torch.vmap(divergence)(points), torch.func.grad(trace)(points[0])


@program
def ensembles_by_vmap_over_parameters(torch):
    params = {"w": draw(torch, 129, 3, 4, 2), "b": draw(torch, 130, 3, 2)}
    x = draw(torch, 131, 5, 4)
    model = lambda p, x: torch.nn.functional.softmax(x @ p["w"] + p["b"], dim=-1)
    out = torch.func.vmap(model, in_dims=(0, None))(params, x)
    loss = lambda p: model(p, x).square().sum()
    return out, torch.func.vmap(torch.func.grad(loss))(params), out.var(0)


@program
def forward_mode_dual_numbers(torch):
    x, t = draw(torch, 132, 3), draw(torch, 133, 3)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, t)
        y = (dual * dual.exp()).cumsum(0)
        value, tangent = torch.autograd.forward_ad.unpack_dual(y)
    return value, tangent


@program
def batched_linear_solves_with_chunks(torch):
    a, b = draw(torch, 134, 6, 3, 3) + 3 * torch.eye(3), draw(torch, 135, 6, 3)
    solve = torch.func.vmap(torch.linalg.solve, chunk_size=4)
    g = torch.func.grad(lambda a: torch.func.vmap(torch.linalg.solve)(a, b).square().sum())(a)
    return solve(a, b), g, raised(lambda: torch.func.vmap(lambda x: x.item())(b[0]))


# ----- custom functions and the graph -------------------------------------------------------------------------------------


@program
def straight_through_estimator(torch):
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, levels):
            ctx.save_for_backward(x)
            ctx.levels = levels
            return torch.round(x * levels) / levels

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() <= 1), None

    x = draw(torch, 140, 6, low=-1.5, high=1.5, grad=True)
    y = Round.apply(x, 4)
    y.square().sum().backward()
    return y, x.grad, type(y.grad_fn).__name__, ctx_needs(torch)


def ctx_needs(torch):
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(a, b):
            return a * b, a + b

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            seen.append(ctx.needs_input_grad)
            a, b = ctx.saved_tensors
            return g * b, g * a

    a, b = draw(torch, 141, 3, grad=True), draw(torch, 142, 3)
    p, s = Product.apply(a, b)
    p.sum().backward()
    return seen, a.grad, s.requires_grad, raised(lambda: Product.apply(a))


@program
def reversing_gradients_with_hooks(torch):
    x = draw(torch, 143, 4, grad=True)
    seen = []
    h = x.tanh()
    h.register_hook(lambda g: -2.0 * g)
    h.retain_grad()
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    handle = x.register_hook(lambda g: g.clamp(min=-1.0, max=1.0))
    (h * torch.arange(4.0)).sum().backward()
    handle.remove()
    return x.grad, h.grad, seen


@program
def second_backward_and_retained_graphs(torch):
    x = draw(torch, 144, 3, grad=True)
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad, raised(y.backward), raised(lambda: (x * 2).backward()), raised(lambda: torch.tensor([1, 2], requires_grad=True))


@program
def frozen_layers_and_detached_targets(torch):
    a, b = draw(torch, 145, 3, 3, grad=True), draw(torch, 146, 3, 3, grad=True)
    b.requires_grad_(False)
    x = draw(torch, 147, 2, 3)
    target = (x @ a).detach()
    loss = ((x @ a @ b - target) ** 2).sum()
    loss.backward()
    unused = raised(lambda: torch.autograd.grad((a * 2).sum(), draw(torch, 148, 2, grad=True)))
    return loss, a.grad, b.grad is None, target.requires_grad, unused


@program
def saved_tensor_hooks_that_pack_to_lower_precision(torch):
    x = draw(torch, 149, 3, grad=True)
    packed = []

    def pack(t):
        packed.append(tuple(t.shape))
        return t.to(torch.float32)

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t.to(torch.float64)):
        y = (x * x).exp().sum()
    y.backward()
    return len(packed), x.grad.to(torch.float32)


# ----- views and state ----------------------------------------------------------------------------------------------------


@program
def state_updates_through_views(torch):
    x = draw(torch, 150, 3, 4, grad=True)
    state = torch.zeros(3, 4)
    state[:, :2] = x[:, :2] * 2
    left, right = state[:, :2], state[:, 2:]
    right.add_(x[:, 2:].exp())
    state.t()[0].mul_(x[:, 3])
    state.diagonal().add_(1.0)
    (state * torch.arange(12.0).view(3, 4)).sum().backward()
    return state, left, right, x.grad, state._version, left._version, left._base is state


@program
def in_place_errors(torch):
    x = draw(torch, 151, 3, grad=True)
    y = x.exp()
    y.mul_(2)
    a, _ = (x * 2).split([1, 2])
    return (
        raised(lambda: y.sum().backward()), raised(lambda: x.add_(1)), raised(lambda: x[0].zero_()), raised(lambda: a.add_(1)),
        raised(lambda: x.numpy()), raised(lambda: torch.zeros(3).add_(torch.zeros(2, 3))), raised(lambda: torch.arange(3).mul_(0.5)),
    )  # fmt: skip


@program
def ring_buffer_of_recent_values(torch):
    w, memory = torch.tensor(0.5, requires_grad=True), torch.zeros(3, 2)
    total = torch.zeros(())
    for t in range(5):
        memory = memory.roll(1, 0)
        memory = torch.cat([(torch.full((1, 2), float(t + 1)) * w).sin(), memory[1:]])
        total = total + memory.mean()
    total.backward()
    return memory, total, w.grad


@program
def shapes_strides_and_layout(torch):
    x = torch.arange(24.0).view(2, 3, 4)
    y = x.permute(2, 0, 1)
    return (
        y.stride(), y.is_contiguous(), y.contiguous().stride(), x.unflatten(2, (2, 2)).shape, x.flatten(0, 1).shape, y.storage_offset(),
        x[1, ::2].storage_offset(), x.expand(5, 2, 3, 4).stride(), raised(lambda: y.view(-1)), raised(lambda: x.view(5, 5)),
        x.movedim(0, -1).shape, x.swapaxes(0, 1)[0], torch.broadcast_tensors(x, torch.zeros(1, 1, 1))[1].stride(), x.numel(), x.dim(),
    )  # fmt: skip


# ----- dtypes -------------------------------------------------------------------------------------------------------------


@program
def dtypes_that_both_promote_alike(torch):
    i, f, d = torch.arange(4, dtype=torch.int64), torch.ones(4, dtype=torch.float32), torch.ones(4)
    c, m = torch.ones(4, dtype=torch.complex128), i > 1
    return (
        f + 1.5, f * 2, i + 1, i * 0.5, i / 2, i // 2, d + f, d * c, f.mean(), m + i, m.sum(), i.sum(dtype=torch.float32), d * m,
        i.to(torch.int32) + i, f**2, 2**i, torch.where(m, f, 0.0), i.double().mean(), raised(i.mean), torch.cat([d, f]), i % 3, -i,
        i.float() @ f, m & ~m, i << 1, torch.result_type(f, 1.0) == torch.float32, f.new_zeros(2), torch.ones_like(i), f.half().sum(),
    )  # fmt: skip


@program
def gradients_in_the_dtype_of_their_leaf(torch):
    f, d = torch.ones(3, dtype=torch.float32, requires_grad=True), draw(torch, 171, 3, grad=True)
    c = draw_complex(torch, 172, 3, grad=True)
    y = (f * d * c).abs().sum() + f.double().sum()
    y.backward()
    return y, f.grad, d.grad, c.grad, raised(lambda: setattr(f, "grad", torch.ones(3)))


@program
def quantised_weights_and_integer_codes(torch):
    w = draw(torch, 173, 4, 4)
    scale = w.abs().amax(dim=1, keepdim=True) / 127
    codes = torch.clamp(torch.round(w / scale), -128, 127).to(torch.int8)
    back = codes.to(torch.float64) * scale
    return codes, back, (w - back).abs().max() <= scale.max() / 2 + 1e-12, codes.sum(), torch.bitwise_and(codes, 3)
