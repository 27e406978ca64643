"""Autocast and scaled gradients, on torch and on ndgrad alike: dtypes, values, gradients, warnings, errors."""

from __future__ import annotations

import copy
import importlib
import pickle
import threading
import warnings
from typing import Any

import numpy as np
import pytest

from tests.torch_parity.side_by_side import MODULES, Programs, attempt

PROGRAMS = Programs()
program = PROGRAMS.enter


def module(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


def dtype(t):
    return str(t.dtype).split(".")[-1]


def name(d):
    return str(d).split(".")[-1]


def draw(m, *shape, seed=0, grad=False):
    return m.tensor(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32), requires_grad=grad)


def fill(m, net):
    random = np.random.default_rng(5)
    with m.no_grad():
        for p in net.parameters():
            p.copy_(m.tensor(random.uniform(-0.5, 0.5, tuple(p.shape)).astype(np.float32)))
    return net


def warned(f):
    """The classes of warnings that f() gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f()
    return sorted({w.category.__name__ for w in caught})


# ----- dtype of each function ------------------------------------------------------------------------------------------


@program
def products_run_in_the_blocks_dtype(m):
    a, v, b = draw(m, 4, 4), draw(m, 4), draw(m, 2, 4, 4)
    F = m.nn.functional
    with m.autocast("cpu"):
        return [
            dtype(t)
            for t in (
                a @ a, a @ v, v @ a, m.mm(a, a), a.matmul(a), m.bmm(b, b), m.addmm(a, a, a), m.baddbmm(b, b, b), m.addbmm(a, b, b),
                F.linear(a, a, v), m.einsum("ij,jk->ik", a, a), m.tensordot(a, a, 1), m.linalg.multi_dot([a, a, a]), m.linalg.vecdot(a, a),
                m.inner(a, a), F.prelu(a, v[:1]), F.scaled_dot_product_attention(b, b, b), m.linalg.matrix_power(a, 2), m.cov(a),
            )
        ]  # fmt: skip


@program
def convolutions_run_in_the_blocks_dtype(m):
    F = m.nn.functional
    x1, x2, x3 = draw(m, 1, 2, 6), draw(m, 1, 2, 6, 6), draw(m, 1, 2, 4, 4, 4)
    w1, w2, w3 = draw(m, 2, 2, 3), draw(m, 2, 2, 3, 3), draw(m, 2, 2, 3, 3, 3)
    with m.autocast("cpu", dtype=m.float16):
        outs = [F.conv1d(x1, w1), F.conv2d(x2, w2), F.conv3d(x3, w3)]
        outs += [F.conv_transpose1d(x1, w1), F.conv_transpose2d(x2, w2), F.conv_transpose3d(x3, w3)]
    return [dtype(t) for t in outs]


@program
def products_of_no_list_keep_their_dtype(m):
    a, v = draw(m, 4, 4), draw(m, 4)
    with m.autocast("cpu"):
        return [dtype(t) for t in (m.mv(a, v), m.dot(v, v), m.outer(v, v), m.kron(a, a), m.addmv(v, a, v), m.einsum("i,j->ij", v, v))]


@program
def losses_and_decompositions_run_in_float32(m):
    F = m.nn.functional
    a = draw(m, 4, 4).to(m.bfloat16)
    p, i = a.sigmoid(), m.tensor([0, 1, 2, 3])
    spd = (draw(m, 4, 4) * 0.1 + m.eye(4)).to(m.bfloat16)
    with m.autocast("cpu"):
        outs = [
            F.mse_loss(a, p), F.l1_loss(a, p), F.smooth_l1_loss(a, p), F.huber_loss(a, p), F.cross_entropy(a, i), F.nll_loss(a, i),
            F.binary_cross_entropy(p, p), F.binary_cross_entropy_with_logits(a, p), F.kl_div(a, p), F.poisson_nll_loss(a, p),
            F.triplet_margin_loss(a, p, a), F.cosine_embedding_loss(a, p, m.ones(4)), m.linalg.inv(spd), m.linalg.solve(spd, a),
            m.linalg.svdvals(a), m.linalg.eigvalsh(spd), m.linalg.qr(a)[0], m.quantile(a, 0.5), a.prod(), a.trace(), m.cdist(a, a),
            m.fft.rfft(a).real,
        ]  # fmt: skip
    return [dtype(t) for t in outs]


@program
def elementwise_functions_run_as_they_come(m):
    a = draw(m, 4, 4)
    h = a.to(m.bfloat16)
    F = m.nn.functional
    with m.autocast("cpu"):
        outs = a + h, h * 2, h.exp(), F.softmax(h, -1), F.log_softmax(a, -1), F.gelu(h), h.sum(), F.layer_norm(h, (4,)), h.norm()
    return [dtype(t) for t in outs]


@program
def joining_takes_the_widest_dtype(m):
    a = draw(m, 2, 2)
    h = a.to(m.bfloat16)
    with m.autocast("cpu"):
        return [dtype(t) for t in (m.cat([a, h]), m.stack([h, a]), m.cat([h, h]), a.index_copy(0, m.tensor([0, 1]), h))]


@program
def pooling_and_padding(m):
    F = m.nn.functional
    x2, x3 = draw(m, 1, 2, 6, 6).to(m.bfloat16), draw(m, 1, 2, 4, 4, 4).to(m.bfloat16)
    with m.autocast("cpu"):
        outs = [F.max_pool2d(x2, 2), F.avg_pool2d(x2, 2), F.max_pool3d(x3, 2), F.avg_pool3d(x3, 2), F.adaptive_avg_pool3d(x3, 2)]
        outs += [F.pad(x2, (1, 1, 1, 1), mode=mode) for mode in ("constant", "reflect", "replicate", "circular")]
        outs += [F.interpolate(x2, scale_factor=2), F.max_pool3d(x3, 2, return_indices=True)[0]]
    return [dtype(t) for t in outs]


@program
def double_precision_and_integers_are_left_alone(m):
    a = draw(m, 3, 3).double()
    i = m.tensor([1, 2, 3])
    with m.autocast("cpu"):
        return dtype(a @ a), dtype(m.nn.functional.mse_loss(a, a)), dtype(i @ i), attempt(lambda: a @ a.float())


@program
def a_product_of_mixed_dtypes(m):
    a = draw(m, 3, 3)
    with m.autocast("cpu"):
        return dtype(a @ a.to(m.bfloat16)), dtype(m.nn.functional.linear(a.half(), a))


@program
def writes_are_not_cast(m):
    a = draw(m, 3, 3)
    with m.autocast("cpu"):
        out = m.empty(3, 3)
        m.mm(a, a, out=out)
        return dtype(a.clone().addmm_(a, a)), dtype(out)


@program
def modules_under_autocast(m):
    nn = m.nn
    x = draw(m, 5, 2, 4)
    nets = [nn.GRU(4, 3), nn.RNN(4, 3), nn.MultiheadAttention(4, 2), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)]
    found = []
    for net in nets:
        net = fill(m, net)
        with m.autocast("cpu"):
            out = net(x, x, x) if isinstance(net, nn.MultiheadAttention) else net(x)
        out = out if isinstance(out, tuple) else (out,)
        found.append(([dtype(t) for t in out], out[0].detach().float().tolist()))
    return found


@program
def values_of_a_network(m):
    nn = m.nn
    net = fill(m, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    with m.autocast("cpu"):
        out = net(draw(m, 3, 4))
        loss = m.nn.functional.mse_loss(out, m.zeros(3, 2))
    loss.backward()
    grads = [p.grad for p in net.parameters()]
    return dtype(out), dtype(loss), [dtype(g) for g in grads], out.float().tolist(), [g.tolist() for g in grads]


@program
def a_network_of_convolutions_in_float16(m):
    nn = m.nn
    net = fill(m, nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)))
    with m.autocast("cpu", dtype=m.float16):
        out = net(draw(m, 2, 1, 6, 6))
        loss = out.float().square().sum()
    loss.backward()
    return dtype(out), [dtype(p.grad) for p in net.parameters()]


# ----- the block -------------------------------------------------------------------------------------------------------


@program
def blocks_nest(m):
    a = draw(m, 2, 2)
    found = []

    def note():
        found.append((dtype(a @ a), m.is_autocast_enabled("cpu"), name(m.get_autocast_dtype("cpu")), m.is_autocast_enabled()))

    note()
    with m.autocast("cpu"):
        note()
        with m.autocast("cpu", dtype=m.float16):
            note()
            with m.autocast("cpu"):
                note()
            with m.autocast("cpu", enabled=False):
                note()
        note()
    note()
    return found


@program
def a_block_is_left_by_an_error(m):
    a = draw(m, 2, 2)
    try:
        with m.autocast("cpu"):
            raise KeyError
    except KeyError:
        pass
    return dtype(a @ a), m.is_autocast_enabled("cpu")


@program
def one_object_entered_twice(m):
    a = draw(m, 2, 2)
    block = m.autocast("cpu")
    found = []
    for _ in range(2):
        with block:
            found.append(dtype(a @ a))
        found.append(dtype(a @ a))
    return found


@program
def as_a_decorator(m):
    @m.autocast("cpu", dtype=m.float16)
    def f(a, *, scale=1.0):
        """Doc."""
        return (a @ a) * scale

    return dtype(f(draw(m, 2, 2), scale=2.0)), f.__name__, f.__doc__, m.is_autocast_enabled("cpu")


@program
def as_a_decorator_of_forward(m):
    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = m.nn.Linear(2, 2)

        @m.autocast(device_type="cpu")
        def forward(self, x):
            return self.linear(x)

    return dtype(Net()(draw(m, 1, 2)))


@program
def other_names_of_the_block(m):
    a = draw(m, 2, 2)
    found = []
    with m.amp.autocast("cpu"):
        found.append(dtype(a @ a))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with m.cpu.amp.autocast():
            found.append(dtype(a @ a))
        with m.cuda.amp.autocast():
            found.append(dtype(a @ a))
    return found, warned(m.cpu.amp.autocast), warned(m.cuda.amp.autocast)


@program
def other_threads_are_not_in_the_block(m):
    a = draw(m, 2, 2)
    found = []
    with m.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append(dtype(a @ a)))
        thread.start()
        thread.join()
    return found


@program
def without_a_gpu_its_autocast_is_off(m):
    a = draw(m, 2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with m.autocast("cuda"):
            return dtype(a @ a), m.is_autocast_enabled()


@program
def what_is_refused(m):
    return (
        attempt(lambda: m.autocast()), attempt(lambda: m.autocast("nowhere")), attempt(lambda: m.autocast(0)),
        warned(lambda: m.autocast("cpu", dtype=m.float64)), warned(lambda: m.autocast("cuda")), warned(lambda: m.autocast("cpu")),
        m.amp.is_autocast_available("cpu"), attempt(lambda: m.amp.is_autocast_available("nowhere")),
    )  # fmt: skip


@program
def an_unsupported_dtype_switches_it_off(m):
    a = draw(m, 2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with m.autocast("cpu", dtype=m.float64):
            return dtype(a @ a)


@program
def switches_without_a_block(m):
    a = draw(m, 2, 2)
    found = []
    m.set_autocast_enabled("cpu", True)
    try:
        found.append((dtype(a @ a), m.is_autocast_enabled("cpu")))
        m.set_autocast_dtype("cpu", m.float16)
        found.append((dtype(a @ a), name(m.get_autocast_dtype("cpu"))))
    finally:
        m.set_autocast_dtype("cpu", m.bfloat16)
        m.set_autocast_enabled("cpu", False)
    found.append((dtype(a @ a), m.is_autocast_enabled("cpu")))
    return found


@program
def the_cache_can_be_switched_off(m):
    found = [m.is_autocast_cache_enabled()]
    with m.autocast("cpu", cache_enabled=False):
        found.append(m.is_autocast_cache_enabled())
        with m.autocast("cpu"):
            found.append(m.is_autocast_cache_enabled())
    m.clear_autocast_cache()
    return [*found, m.is_autocast_cache_enabled()]


@program
def a_parameter_used_twice_is_cast_once(m):
    """The graph shows it: both products have the same cast behind them."""
    w = draw(m, 2, 2, grad=True)
    found = []
    for cache in (True, False):
        with m.autocast("cpu", cache_enabled=cache):
            y, z = draw(m, 2, 2) @ w, draw(m, 2, 2) @ w
        casts = [t.grad_fn.next_functions[-1][0] for t in (y, z)]
        found.append(casts[0] is casts[1])
        (y.sum() + z.sum()).backward()
    return found, w.grad.tolist()


@program
def gradients_accumulate_in_float32_over_blocks(m):
    w = draw(m, 3, 3, grad=True)
    for seed in range(3):
        with m.autocast("cpu"):
            loss = (draw(m, 2, 3, seed=seed) @ w).sum()
        loss.backward()
    return dtype(w.grad), w.grad.tolist()


@program
def backward_inside_the_block(m):
    w = draw(m, 3, 3, grad=True)
    with m.autocast("cpu"):
        (draw(m, 2, 3) @ w).float().square().sum().backward()
    return dtype(w.grad), w.grad.tolist()


@program
def double_backward_through_autocast(m):
    x = draw(m, 2, 2, grad=True)
    with m.autocast("cpu"):
        y = (x @ x).float().square().sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    g.square().sum().backward()
    return dtype(g), dtype(x.grad)


@program
def checkpoints_run_again_in_the_block(m):
    checkpoint = module(m, "utils.checkpoint").checkpoint
    seen = []
    w = draw(m, 2, 2, grad=True)

    def f(x):
        y = x @ w
        seen.append(dtype(y))
        return y.float().square().sum()

    for reentrant in (False, True):
        x = draw(m, 2, 2, seed=1, grad=True)
        with m.autocast("cpu"):
            out = checkpoint(f, x, use_reentrant=reentrant)
        out.backward()
    return seen, w.grad.tolist()


@program
def function_modes_see_the_call_before_it_is_cast(m):
    seen = []

    class Mode(module(m, "overrides").TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.extend(dtype(a) for a in args if isinstance(a, m.Tensor))
            out = func(*args, **(kwargs or {}))
            seen.append(dtype(out))
            return out

    a = draw(m, 2, 2)
    with Mode(), m.autocast("cpu"):
        m.mm(a, a)
    with m.autocast("cpu"), Mode():
        m.mm(a, a)
    return seen


@program
def inside_transforms(m):
    a = draw(m, 3, 2, 2)
    with m.autocast("cpu"):
        batched = m.func.vmap(lambda x: x @ x)(a)
        gradient = m.func.grad(lambda x: (x @ x).float().sum())(a[0])
    return dtype(batched), dtype(gradient), gradient.tolist()


# ----- custom functions --------------------------------------------------------------------------------------------------


def _square(m, seen, **options):
    class Square(m.autograd.Function):
        @staticmethod
        @m.amp.custom_fwd(device_type="cpu", **options)
        def forward(ctx, x, factor):
            seen.append((dtype(x), m.is_autocast_enabled("cpu")))
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x @ x * factor

        @staticmethod
        @m.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            seen.append((dtype(x), dtype(g), m.is_autocast_enabled("cpu")))
            return (g.to(x.dtype) @ x.mT + x.mT @ g.to(x.dtype)) * ctx.factor, None

    return Square.apply


@program
def a_custom_function_in_the_autocast_around_it(m):
    seen = []
    f = _square(m, seen)
    x = draw(m, 2, 2, grad=True)
    with m.autocast("cpu"):
        y = f(x, 2.0)
    y.sum().backward()
    return dtype(y), dtype(x.grad), seen


@program
def a_custom_function_that_casts_its_inputs(m):
    seen = []
    f = _square(m, seen, cast_inputs=m.float32)
    x = draw(m, 2, 2, grad=True)
    with m.autocast("cpu"):
        y = f((x @ x), 2.0)
    y.sum().backward()
    outside = f(x.to(m.bfloat16), 1.0)
    return dtype(y), dtype(x.grad), dtype(outside), seen


# ----- scaled gradients ---------------------------------------------------------------------------------------------------


def _training(m, gradient=None, **options):
    p = m.nn.Parameter(m.tensor([1.0, 2.0]))
    scaler = m.amp.GradScaler("cpu", **{"init_scale": 8.0, **options})
    return p, m.optim.SGD([p], lr=0.25), scaler


@program
def a_step_with_scaled_gradients(m):
    p, optimizer, scaler = _training(m)
    scaler.scale((p * p).sum()).backward()
    scaled = p.grad.tolist()
    scaler.step(optimizer)
    scaler.update()
    return scaled, p.grad.tolist(), p.tolist(), scaler.get_scale(), scaler.state_dict()


@program
def steps_that_are_left_out(m):
    p, optimizer, scaler = _training(m, growth_interval=2)
    found = []
    for factor in (1.0, float("inf"), 1.0, float("nan"), 1.0, 1.0, 1.0, 1.0, 1.0):
        optimizer.zero_grad()
        scaler.scale((p * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append((p.tolist(), scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
    return found


@program
def gradients_are_unscaled_before_clipping(m):
    p, optimizer, scaler = _training(m)
    scaler.scale((p * p).sum() * 10).backward()
    scaler.unscale_(optimizer)
    norm = m.nn.utils.clip_grad_norm_([p], 1.0)
    scaler.step(optimizer)
    scaler.update()
    return round(float(norm), 4), [round(v, 5) for v in p.tolist()]


@program
def two_optimizers(m):
    p, q = (m.nn.Parameter(m.tensor([float(i)])) for i in (1, 2))
    first, second = m.optim.SGD([p], lr=0.5), m.optim.SGD([q], lr=0.5)
    scaler = m.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale((p * 1.0).sum() + (q * float("inf")).sum()).backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    return p.tolist(), q.tolist(), scaler.get_scale()


@program
def calls_of_a_scaler_in_the_wrong_order(m):
    p, optimizer, scaler = _training(m)
    early = lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer), scaler.update, lambda: scaler.scale(3)
    found = [attempt(f) for f in early]
    scaler.scale((p * p).sum()).backward()
    scaler.unscale_(optimizer)
    found.append(attempt(lambda: scaler.unscale_(optimizer)))
    scaler.step(optimizer)
    found += [attempt(lambda: scaler.step(optimizer)), attempt(lambda: scaler.unscale_(optimizer)), attempt(lambda: pickle.dumps(scaler))]
    scaler.update()
    found += [attempt(scaler.update), attempt(lambda: scaler.step(optimizer, closure=lambda: 1))]
    found += [attempt(lambda: scaler.load_state_dict({}))]
    found += [attempt(lambda: m.amp.GradScaler("cpu", growth_factor=1.0)), attempt(lambda: m.amp.GradScaler("cpu", backoff_factor=1.0))]
    return found


@program
def an_optimizer_without_gradients(m):
    _, optimizer, scaler = _training(m)
    scaler.scale(m.tensor(1.0))
    return attempt(lambda: scaler.step(optimizer))


@program
def float16_gradients_are_refused(m):
    p = m.nn.Parameter(m.tensor([1.0, 2.0]).half())
    scaler = m.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale((p * p).sum()).backward()
    return attempt(lambda: scaler.unscale_(m.optim.SGD([p], lr=0.1)))


@program
def a_scaler_that_is_off(m):
    p, optimizer, scaler = _training(m, enabled=False)
    loss = (p * p).sum()
    same = scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    return same, p.tolist(), scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()


@program
def settings_of_a_scaler(m):
    _, _, scaler = _training(m)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(7)
    scaler.scale(m.tensor(1.0))
    scaler.update(2.0)
    first = scaler.get_scale()
    scaler.update(m.tensor(4.0))
    other = m.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    copied = pickle.loads(pickle.dumps(scaler))
    return first, scaler.get_scale(), other.state_dict(), copied.get_scale(), copy.deepcopy(other).get_growth_interval()


@program
def several_losses_are_scaled(m):
    _, _, scaler = _training(m)
    a, b = scaler.scale([m.tensor(1.0), m.tensor(2.0)])
    pair = scaler.scale((m.tensor(3.0), [m.tensor(4.0)]))
    return a.tolist(), b.tolist(), type(pair).__name__, pair[0].tolist(), pair[1][0].tolist()


@program
def without_a_gpu_its_scaler_is_off(m):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return m.amp.GradScaler().is_enabled(), m.cuda.amp.GradScaler().is_enabled(), m.cpu.amp.GradScaler().is_enabled()


@program
def a_loop_with_autocast_and_a_scaler(m):
    nn = m.nn
    net = fill(m, nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    optimizer = m.optim.SGD(net.parameters(), lr=0.1)
    scaler = m.amp.GradScaler("cpu", init_scale=1024.0)
    losses = []
    for seed in range(4):
        x = draw(m, 8, 4, seed=seed)
        optimizer.zero_grad()
        with m.autocast("cpu"):
            loss = m.nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def close(a: Any, b: Any) -> bool:
    """The same, to the rounding of bfloat16: sums of products are made in another order."""
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return b == pytest.approx(a, rel=2e-2, abs=2e-2, nan_ok=True)
    return a == b


@pytest.fixture(autouse=True)
def float32() -> None:
    MODULES[1].set_default_dtype(MODULES[1].float32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_gives_the_same_with_ndgrad_as_with_torch(name: str) -> None:
    found = []
    for m in MODULES:
        with warnings.catch_warnings():
            if "refused" not in name and "names" not in name:
                warnings.simplefilter("ignore")
            found.append(attempt(lambda m=m: PROGRAMS[name](m)))
        assert not m.is_autocast_enabled("cpu")
    theirs, ours = found
    assert close(theirs, ours), f"torch {theirs}, ndgrad {ours}"
