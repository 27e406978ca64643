"""Networks: layers, losses, modules, per-sample gradients and ensembles."""

from __future__ import annotations

import numpy as np

from tests.torch_parity.func_programs.dialect import all_equal, attempt, draw, program


def network(torch, seed=0):
    made = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(torch.tensor(random.normal(size=tuple(p.shape))))
    return made


@program
def convolutions_inside_vmap(torch, func):
    F = torch.nn.functional
    x, w, b = draw(torch, 0, 2, 3, 6, 6), draw(torch, 1, 2, 4, 3, 3, 3), draw(torch, 2, 2, 4)
    shared = draw(torch, 3, 4, 3, 3, 3)
    return (
        func.vmap(lambda x: F.conv2d(x[None], shared))(x),
        func.vmap(lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1))(x, w, b),
        func.vmap(lambda w: F.conv2d(x, w, dilation=2))(w),
        func.vmap(lambda x: F.conv_transpose2d(x, shared.transpose(0, 1)))(x),
        func.vmap(lambda x: F.conv1d(x[:, 0], shared[..., 0]))(x),
        func.vmap(lambda x, w: F.conv2d(x, w[:3, :1], groups=3))(x, w),
    )


@program
def per_sample_gradients_of_convolutions(torch, func):
    F = torch.nn.functional
    x, w = draw(torch, 0, 3, 2, 5, 5), draw(torch, 1, 4, 2, 3, 3)
    loss = lambda w, x: F.conv2d(x[None], w, padding=1).relu().mean()
    return func.vmap(func.grad(loss, argnums=(0, 1)), (None, 0))(w, x), func.jvp(lambda w: loss(w, x[0]), (w,), (w,))


@program
def pooling_inside_vmap(torch, func):
    F = torch.nn.functional
    x = draw(torch, 0, 2, 3, 6, 6)
    f = lambda x: (
        F.max_pool2d(x, 2),
        F.avg_pool2d(x, 3, 2, 1),
        F.adaptive_avg_pool2d(x, 2),
        F.adaptive_max_pool2d(x, (2, 3)),
        F.lp_pool2d(x, 2, 2),
    )
    return func.vmap(f)(x), func.vmap(func.grad(lambda x: sum((o**2).sum() for o in f(x)[:4])))(x)


@program
def normalisations_inside_vmap(torch, func):
    F = torch.nn.functional
    x, w = draw(torch, 0, 2, 3, 4, 4), draw(torch, 1, 4)
    f = lambda x: (
        F.layer_norm(x, (4,), w), F.group_norm(x[None], 3), F.batch_norm(x[None], None, None, training=True), F.instance_norm(x[None]),
        F.normalize(x, dim=0), F.local_response_norm(x[None], 2),
    )  # fmt: skip
    return func.vmap(f)(x), func.vmap(func.grad(lambda x: sum((o**3).sum() for o in f(x))))(x)


@program
def batch_norm_with_running_statistics_inside_vmap(torch, func):
    F = torch.nn.functional
    x = draw(torch, 0, 2, 5, 3)
    mean, var = torch.zeros(3), torch.ones(3)
    return func.vmap(lambda x: F.batch_norm(x, mean, var, training=False))(x), attempt(
        lambda: func.vmap(lambda x: F.batch_norm(x, mean, var, training=True))(x)
    )


@program
def embeddings_inside_transforms(torch, func):
    F = torch.nn.functional
    table, index = draw(torch, 0, 5, 3), torch.tensor([[0, 4, 4], [1, 1, 2]])
    loss = lambda t, i: (F.embedding(i, t) ** 2).sum()
    return (
        func.vmap(lambda i: F.embedding(i, table))(index),
        func.vmap(func.grad(loss), (None, 0))(table, index),
        func.vmap(lambda t: F.embedding(index, t))(torch.stack([table, table * 2])),
        func.jacfwd(lambda t: F.embedding(index[0], t).sum(1))(table),
        func.vmap(lambda i: F.one_hot(i, 5))(index),
    )


@program
def losses_per_sample(torch, func):
    F = torch.nn.functional
    x, y, c = draw(torch, 0, 4, 3), draw(torch, 1, 4, 3), torch.tensor([0, 2, 1, 1])
    return (
        func.vmap(F.mse_loss)(x, y),
        func.vmap(F.cross_entropy)(x, c),
        func.vmap(lambda x, c: F.nll_loss(F.log_softmax(x, -1), c))(x, c),
        func.vmap(func.grad(F.cross_entropy))(x, c),
        func.vmap(lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()))(x, y),
        func.vmap(lambda x, y: (F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y), F.kl_div(x, y.softmax(0), reduction="sum")))(
            x, y
        ),
        func.vmap(lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction="none"))(x, y),
        func.vmap(func.hessian(F.cross_entropy))(x, c),
    )


@program
def activations_inside_transforms(torch, func):
    F = torch.nn.functional
    x = draw(torch, 0, 2, 4)
    fs = (
        F.relu,
        F.gelu,
        F.silu,
        F.elu,
        F.softplus,
        F.leaky_relu,
        F.hardtanh,
        F.sigmoid,
        F.mish,
        F.selu,
        F.logsigmoid,
        F.hardswish,
        F.softsign,
    )
    return [
        (func.vmap(f)(x), func.vmap(func.grad(lambda x, f=f: f(x).sum()))(x), func.hessian(lambda x, f=f: f(x).sum())(x[0])) for f in fs
    ]


@program
def attention_inside_vmap(torch, func):
    F = torch.nn.functional
    q, k, v = (draw(torch, i, 2, 2, 5, 4) for i in range(3))
    return func.vmap(F.scaled_dot_product_attention)(q, k, v), func.vmap(
        func.grad(lambda q, k, v: (F.scaled_dot_product_attention(q, k, v) ** 2).sum())
    )(q, k, v)


@program
def padding_and_resampling_inside_vmap(torch, func):
    F = torch.nn.functional
    x = draw(torch, 0, 2, 3, 4, 4)
    f = lambda x: (
        F.pad(x, (1, 2)), F.pad(x, (1, 1, 1, 1), mode="reflect"), F.interpolate(x[None], scale_factor=2),
        F.pixel_shuffle(x.expand(4, 3, 4, 4).reshape(12, 4, 4), 2),
        F.interpolate(x[None], size=(3, 5), mode="bilinear"), F.unfold(x[None], 2),
    )  # fmt: skip
    return func.vmap(f)(x)


@program
def dropout_in_evaluation_mode(torch, func):
    module = torch.nn.Dropout(0.5)
    x = draw(torch, 0, 2, 3)
    training = attempt(lambda: func.vmap(module)(x))
    return training, func.vmap(module.eval())(x)


@program
def alpha_and_feature_dropout(torch, func):
    F = torch.nn.functional
    x = torch.ones(3, 6, 5)
    found = []
    for f in (F.alpha_dropout, F.feature_alpha_dropout, F.dropout1d):
        g = lambda x, f=f: f(x, 0.5, training=True)
        found.append(
            (
                attempt(lambda g=g: func.vmap(g)(x)),
                all_equal(func.vmap(g, randomness="same")(x)),
                func.vmap(g, randomness="different")(x).shape,
            )
        )
    return found


# ----- modules ---------------------------------------------------------------------------------------------------------------------


@program
def gradients_of_a_module(torch, func):
    net, x = network(torch), draw(torch, 0, 5, 3)
    parameters = dict(net.named_parameters())
    loss = lambda p: (func.functional_call(net, p, (x,)) ** 2).mean()
    return func.grad(loss)({k: v.detach() for k, v in parameters.items()})


@program
def per_sample_gradients_of_a_module(torch, func):
    net, x, y = network(torch), draw(torch, 0, 5, 3), draw(torch, 1, 5, 2)
    p = {k: v.detach() for k, v in net.named_parameters()}
    loss = lambda p, x, y: torch.nn.functional.mse_loss(func.functional_call(net, p, (x[None],)), y[None])
    return func.vmap(func.grad(loss), in_dims=(None, 0, 0))(p, x, y), func.vmap(func.grad(loss), (None, 0, 0), chunk_size=2)(p, x, y)


@program
def ensembles_of_modules(torch, func):
    nets = [network(torch, i) for i in range(3)]
    parameters, buffers = func.stack_module_state(nets)
    call = lambda p, b, x: func.functional_call(nets[0], (p, b), (x,))
    x, per_model = draw(torch, 0, 5, 3), draw(torch, 1, 3, 5, 3)
    out = func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    return out, func.vmap(call)(parameters, buffers, per_model), [n(x) for n in nets], {k: v.requires_grad for k, v in parameters.items()}


@program
def training_an_ensemble_step(torch, func):
    nets = [network(torch, i) for i in range(2)]
    parameters, buffers = func.stack_module_state(nets)
    x = draw(torch, 0, 5, 3)
    loss = lambda p, b: (func.functional_call(nets[0], (p, b), (x,)) ** 2).mean()
    g, value = func.vmap(func.grad_and_value(loss))(parameters, buffers)
    return {k: parameters[k] - 0.1 * g[k] for k in g}, value


@program
def jacobian_of_a_module(torch, func):
    net, x = network(torch), draw(torch, 0, 3)
    p = {k: v.detach() for k, v in net.named_parameters()}
    f = lambda p, x: func.functional_call(net, p, (x,))
    return func.jacrev(f)(p, x), func.jacfwd(f, argnums=1)(p, x), func.jacrev(lambda x: net(x))(x)


@program
def neural_tangent_kernel(torch, func):
    net, a, b = network(torch), draw(torch, 0, 4, 3), draw(torch, 1, 2, 3)
    p = {k: v.detach() for k, v in net.named_parameters()}
    f = lambda p, x: func.functional_call(net, p, (x,))
    ja, jb = (func.vmap(func.jacrev(f), (None, 0))(p, x) for x in (a, b))
    return sum(torch.einsum("Naf,Mbf->NMab", ja[k].flatten(2), jb[k].flatten(2)) for k in p)


@program
def hessian_of_a_small_network(torch, func):
    net, x = network(torch), draw(torch, 0, 2, 3)
    w = net[2].weight.detach()
    loss = lambda w: (func.functional_call(net, {"2.weight": w}, (x,)) ** 2).sum()
    return func.hessian(loss)(w)


@program
def batch_norm_without_statistics(torch, func):
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).double()
    func.replace_all_batch_norm_modules_(net)
    with torch.no_grad():
        net[0].weight.copy_(draw(torch, 0, 3, 3))
        net[0].bias.zero_()
    return func.vmap(net)(draw(torch, 1, 2, 5, 3))


@program
def recurrent_cells_by_hand(torch, func):
    w, u = draw(torch, 0, 3, 3), draw(torch, 1, 3, 3)

    def loss(w, x):
        h = torch.zeros(3)
        for step in x:
            h = (w @ h + u @ step).tanh()
        return h.sum()

    x = draw(torch, 2, 4, 5, 3)
    return func.vmap(func.grad(loss), (None, 0))(w, x), func.grad(lambda w: func.vmap(loss, (None, 0))(w, x).sum())(w)


@program
def model_agnostic_meta_learning(torch, func):
    tasks_x, tasks_y = draw(torch, 0, 3, 6), draw(torch, 1, 3, 6)
    predict = lambda w, x: w[0] * x.sin() + w[1]
    inner = lambda w, x, y: ((predict(w, x) - y) ** 2).mean()

    def outer(w, x, y):
        adapted = w - 0.1 * func.grad(inner)(w, x[:3], y[:3])
        return inner(adapted, x[3:], y[3:])

    meta = lambda w: func.vmap(outer, (None, 0, 0))(w, tasks_x, tasks_y).mean()
    return func.grad_and_value(meta)(draw(torch, 2, 2)), func.hessian(meta)(draw(torch, 2, 2))
