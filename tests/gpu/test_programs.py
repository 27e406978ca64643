"""Programs on CuPy arrays beside the same on NumPy's: writes, the public functions, training, graphs over two devices.

Needs CuPy and a GPU.
"""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import func, linalg, nn, optim
from ndgrad._src.interpreters import forward_ad

cupy = pytest.importorskip("cupy")

X = np.random.default_rng(0).standard_normal((4, 3))


def tensor_like(like, *values):
    return ndgrad.tensor(list(values), device=like.device)


def positive(x):
    return x.t() @ x + ndgrad.eye(3, device=x.device)


def image(x):
    return x.reshape(1, 1, 4, 3)


# ----- functions of x, (4, 3): values, gradients in both lanes, second derivatives -------------------------------------------


def write(name, *given, **settings):
    """An in-place method on a copy of x; arguments that are functions are applied to x."""

    def program(x):
        y = x * 1.0
        getattr(y, name)(*(g(x) if callable(g) else g for g in given), **settings)
        return (y * x).sum()

    return program


def assign(index, value):
    def program(x):
        y = x * 1.0
        y[index(x)] = value(x)
        return (y * x).sum()

    return program


TWICE, PLACES = (lambda x: tensor_like(x, 0, 2, 2)), (lambda x: tensor_like(x, [0, 1, 0], [0, 1, 2]))

WRITES = {
    "masked_fill_": write("masked_fill_", lambda x: x > 0, 2.5),
    "index_add_": write("index_add_", 0, TWICE, lambda x: x[:3] * 2),
    "index_copy_": write("index_copy_", 0, TWICE, lambda x: x[1:] * 2),
    "index_fill_": write("index_fill_", 0, TWICE, 1.5),
    "scatter_": write("scatter_", 0, PLACES, lambda x: x[:2] * 3),
    "scatter_add_": write("scatter_add_", 0, PLACES, lambda x: x[:2] * 3),
    **{
        f"scatter_reduce_ {r}": write("scatter_reduce_", 0, PLACES, lambda x: x[:2] * 3, reduce=r)
        for r in "sum prod mean amax amin".split()
    },
    "put_": write("put_", lambda x: tensor_like(x, 0, 5, 5), lambda x: x[0] * 2),
    "index_put_": write("index_put_", lambda x: (tensor_like(x, 0, 1, 1), tensor_like(x, 0, 2, 2)), lambda x: x[0] * 2),
    "masked_scatter_": write("masked_scatter_", lambda x: x > 0, lambda x: x.flatten() * 2),
    "clamp_": write("clamp_", -0.5, 0.5),
    "addcmul_": write("addcmul_", lambda x: x, lambda x: x, value=0.3),
    "copy_": write("copy_", lambda x: x.exp()),
    "copy_ from the CPU": write("copy_", lambda x: x.cpu().exp()),
    "x[mask] = number": assign(lambda x: x > 0, lambda x: 0.5),
    "x[mask] = tensor": assign(lambda x: x > 0, lambda x: (x * 2)[x > 0]),
    "x[indices] = tensor": assign(lambda x: tensor_like(x, 1, 1, 3), lambda x: x[:3]),
    "x[list] = tensor": assign(lambda x: [0, 2], lambda x: x[:2] * 2),
    "x[:, indices] = tensor": assign(lambda x: (slice(None), tensor_like(x, 0, 1)), lambda x: x[:, 1:] * 2),
    "x[indices on the CPU] = number": assign(lambda x: ndgrad.tensor([0, 2]), lambda x: 3.0),
}

FUNCTIONS = {
    "order": lambda x: (x.topk(2, 1)[0] * x[:, :2]).sum() + (x.sort(1)[0] * x).sum() + (x.max(1)[0] ** 2).sum(),
    "selection": lambda x: (x.masked_select(x > 0) ** 2).sum() + x[(x > 0).nonzero(as_tuple=True)].sum() * x.sum(),
    "statistics": lambda x: x.std() + x.median() + x.quantile(0.3) + x.mode(0)[0].sum() + ndgrad.cov(x).sum() + x.norm(),
    "scans": lambda x: x.cumsum(0).sum() + x.cumprod(1).sum() + x.logcumsumexp(0).sum() + x.cummax(0)[0].sum(),
    "shapes": lambda x: (x.repeat(2, 1)[:4].roll(1, 0) * x.flip(0)).sum() + x.repeat_interleave(2, 0).prod() + x.unfold(0, 2, 1).sum(),
    "matrices": lambda x: linalg.cholesky(positive(x)).sum() + linalg.inv(positive(x)).sum() + linalg.det(positive(x)),
    "least squares": lambda x: linalg.lstsq(x, x[:, :1]).solution.sum() + linalg.pinv(x).sum() + linalg.matrix_norm(positive(x), 2),
    "factors": lambda x: (linalg.lu(positive(x)).L ** 2).sum() + linalg.solve_triangular(positive(x), x.t(), upper=True).sum(),
    "some outputs": lambda x: linalg.svd(x, full_matrices=False)[1].sum() + (x.unbind(0)[1] ** 2).sum() + (x.split(2)[1] ** 2).sum(),
    "spectra": lambda x: ndgrad.fft.rfft(x).abs().sum() + ndgrad.fft.fft2(x).real.sum(),
    "special": lambda x: ndgrad.special.gammaln(x.abs() + 1).sum() + ndgrad.special.erf(x).sum() + ndgrad.special.i0e(x).sum(),
    "complex": lambda x: ndgrad.view_as_real(ndgrad.complex(x, x * 2)).pow(2).sum() + ndgrad.complex(x, x * 2).abs().sum(),
    "padding": lambda x: sum((F.pad(x[None], (1, 1), mode=m) ** 2).sum() for m in ("constant", "reflect", "circular")),
    "convolution": lambda x: (F.conv1d(x.reshape(1, 2, 6), x[:2].reshape(2, 1, 3), groups=2, padding=2, dilation=2, stride=2) ** 2).sum(),
    "transposed": lambda x: (F.conv_transpose1d(x.reshape(1, 2, 6), x[:2].reshape(2, 1, 3), groups=2, padding=1, stride=2) ** 2).sum(),
    "pooling": lambda x: (
        (F.max_pool2d(image(x), 2, 2, padding=1, ceil_mode=True) ** 2).sum()
        + (F.avg_pool2d(image(x), 2, 1, 1) ** 2).sum()
        + (F.adaptive_avg_pool2d(image(x), (3, 2)) ** 2).sum()
        + (F.adaptive_max_pool2d(image(x), (3, 2)) ** 2).sum()
        + (F.max_pool1d(x[None], 2, 1, dilation=2) ** 2).sum()
    ),
    "resampling": lambda x: sum((F.interpolate(image(x), scale_factor=2, mode=m) ** 2).sum() for m in ("nearest", "bilinear", "bicubic")),
    "losses": lambda x: F.cross_entropy(x, tensor_like(x, 0, 2, 1, 1)) + F.huber_loss(x, x * 4) + F.triplet_margin_loss(x, x * 2, x + 1),
    "lookup": lambda x: (
        (F.embedding(tensor_like(x, 0, 1, 1, 3), x) ** 2).sum() + (F.embedding_bag(tensor_like(x, [0, 1], [1, 3]), x) ** 2).sum()
    ),
    "norms": lambda x: (F.layer_norm(x, (3,)) * x).sum() + (F.batch_norm(x, None, None, training=True) * x).sum(),
    "attention": lambda x: (F.scaled_dot_product_attention(image(x), image(x), image(x), is_causal=True) ** 2).sum(),
    "distances": lambda x: ndgrad.cdist(x, x + 1).sum() + F.pdist(x).sum() + F.cosine_similarity(x, x + 1).sum(),
    "there and back": lambda x: ((x * 2).cpu().sin().sum() * 3).to(x.device) + x.sum(),
    "a loss on the CPU": lambda x: (x.exp() * x.cpu().sin().to(x.device)).sum().cpu(),
    "parts on both": lambda x: (linalg.svd(x, full_matrices=False)[1].cpu() * x.cpu().unbind(0)[0]).sum() + x.cpu().cumprod(0).sum(),
}


def gradients(program, device):
    x = ndgrad.tensor(X, device=device, requires_grad=True)
    out = program(x)
    (raw,) = ndgrad.autograd.grad(out, x, retain_graph=True)
    (g,) = ndgrad.autograd.grad(out, x, create_graph=True)
    (h,) = ndgrad.autograd.grad((g * g).sum(), x) if g.requires_grad else (g * 0.0,)
    assert {raw.device, g.device, h.device} == {x.device}
    return [t.detach() for t in (out, raw, g, h)]


@pytest.mark.parametrize("name", [*WRITES, *FUNCTIONS])
def test_gradients_of_a_program_on_the_gpu_equal_those_on_the_cpu(name):
    program = (WRITES | FUNCTIONS)[name]
    equal(gradients(program, "cuda"), gradients(program, "cpu"))


def equal(got, want):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.cpu().numpy(), w.cpu().numpy(), rtol=1e-7, atol=1e-9)


# ----- training -----------------------------------------------------------------------------------------------------------------

MODULES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)), (4, 3)),
    "convolutional": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 2)),
        (2, 1, 4, 4),
    ),
    "transformer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (2, 5, 4)),
    "recurrent": (lambda: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), (2, 4, 3)),
}


def trained(make, shape, optimizer, device, steps=3):
    ndgrad.manual_seed(0)
    model = make().double().to(device)
    step = optimizer(model.parameters())
    data = ndgrad.tensor(np.random.default_rng(1).standard_normal(shape), device=device)
    for _ in range(steps):
        step.zero_grad()
        out = model(data)
        ((out[0] if isinstance(out, tuple) else out) ** 2).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step.step()
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("name", MODULES)
def test_a_model_trains_on_the_gpu_as_on_the_cpu(name):
    equal(*(trained(*MODULES[name], lambda p: optim.SGD(p, 0.1, momentum=0.9), device) for device in ("cuda", "cpu")))


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Rprop"])
def test_an_optimizer_steps_on_the_gpu_as_on_the_cpu(name):
    equal(*(trained(*MODULES["mlp"], lambda p: getattr(optim, name)(p, lr=0.01), device) for device in ("cuda", "cpu")))


# ----- other modes ----------------------------------------------------------------------------------------------------------------


def transforms(device):
    f = lambda v: (v.sin() * v.cumsum(0)).sum() * v
    x, rows = ndgrad.tensor(X[0], device=device), ndgrad.tensor(X, device=device)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, x * 2))).tangent
    return [
        tangent,
        func.jacrev(f)(x),
        func.jacfwd(f)(x),
        func.hessian(lambda v: f(v).sum())(x),
        func.vmap(func.grad(lambda v: f(v).sum()))(rows),
        func.vmap(lambda a, i: a[i])(rows, ndgrad.tensor([0, 1, 2, 0], device=device)),
        func.vmap(lambda a: a.sort()[0])(rows),
    ]


def test_transforms_and_forward_mode():
    equal(transforms("cuda"), transforms("cpu"))


def test_gradcheck_on_the_gpu():
    x = ndgrad.tensor(X, device="cuda", requires_grad=True)
    assert ndgrad.autograd.gradcheck(lambda x: (x.sin() * x).sum(0), (x,))


def test_out_anomaly_mode_saved_tensors_on_the_cpu_and_materialized_gradients():
    x, unused = (ndgrad.tensor(X, device="cuda", requires_grad=True) for _ in range(2))
    with ndgrad.autograd.detect_anomaly(), ndgrad.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
        g, zero = ndgrad.autograd.grad(y, [x, unused], materialize_grads=True)
    out = ndgrad.empty(0, dtype=ndgrad.float64, device="cuda")
    ndgrad.exp(x.detach(), out=out)
    assert zero.device == out.device == x.device
    equal([g, zero, out], [ndgrad.tensor(a) for a in (np.exp(X) * (X + 1), X * 0, np.exp(X))])


def test_copies_saves_and_prints():
    model = nn.Linear(3, 2).to("cuda")
    file = io.BytesIO()
    ndgrad.save(copy.deepcopy(model).state_dict(), file)
    file.seek(0)
    found = ndgrad.load(file, map_location="cuda")
    assert found["weight"].device.type == "cuda"
    equal([found["weight"]], [model.weight.detach()])
    assert "device='cuda:0'" in repr(ndgrad.tensor(X, device="cuda"))


# ----- two devices -----------------------------------------------------------------------------------------------------------------


def test_a_number_on_the_cpu_meets_a_tensor_on_the_gpu_and_has_its_gradient_there():
    x, s = ndgrad.tensor(X, device="cuda", requires_grad=True), ndgrad.tensor(2.0, dtype=ndgrad.float64, requires_grad=True)
    (x * s + s).sum().backward()
    assert s.grad.device.type == "cpu"
    np.testing.assert_allclose(s.grad.item(), X.sum() + X.size)
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.full(X.shape, 2.0))


@pytest.mark.parametrize(
    "call",
    [lambda g, c: g + c, lambda g, c: c * g, lambda g, c: c.add_(g), lambda g, c: g.mul_(c), lambda g, c: ndgrad.where(g > 0, g, c)],
    ids=["add", "mul", "add_", "mul_", "where"],
)
def test_tensors_on_two_devices_are_refused(call):
    with pytest.raises(RuntimeError, match=r"same device.*Move one of them"):
        call(ndgrad.ones(3, device="cuda"), ndgrad.ones(3))


def test_what_cannot_be_solved_or_indexed_raises_on_the_gpu_too():
    x = ndgrad.ones(3, 3, device="cuda")
    for solve in (linalg.inv, linalg.cholesky, lambda a: linalg.solve(a, a)):
        with pytest.raises(linalg.LinAlgError):
            solve(x - 1.0)
    far = ndgrad.tensor([7], device="cuda")
    for read in (lambda: x.index_select(0, far), lambda: x[far], lambda: x[:, far], lambda: x[far, far], lambda: x.take(far * 2)):
        with pytest.raises(IndexError):
            read().cpu()
    for write in (
        lambda: x.index_put_((far,), x[0]),
        lambda: x.index_put_((far,), x[0], accumulate=True),
        lambda: x.index_add_(0, far, x[:1]),
    ):
        with pytest.raises(IndexError):
            write()


# ----- functions that differ between CuPy and NumPy ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64, bool, np.complex128])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_scatter_reduce_of_any_dtype(dtype, reduce):
    if dtype in (bool, np.complex128) and reduce.startswith("am"):
        pytest.skip("numbers without an order")
    random = np.random.default_rng(0)
    values, index = (random.standard_normal(60) * 2).astype(dtype), random.integers(0, 7, 60)

    def run(device):
        source, where = ndgrad.tensor(values, device=device), ndgrad.tensor(index, device=device)
        return ndgrad.zeros(7, dtype=source.dtype, device=device).scatter_reduce(0, where, source, reduce, include_self=reduce != "prod")

    got, want = run("cuda").cpu().numpy(), run("cpu").numpy()
    tolerance = {np.float16: 1e-2, np.float32: 1e-5}.get(dtype, 1e-12)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_extrema_keep_nan():
    x = ndgrad.tensor([[np.nan, 1.0, np.nan], [2.0, np.nan, np.nan]], device="cuda")
    assert x.argmax(1).tolist() == x.argmin(1).tolist() == [0, 1]
    found = ndgrad.zeros(2, dtype=x.dtype, device="cuda").scatter_reduce(0, ndgrad.tensor([0, 1, 1], device="cuda"), x[0], "amin")
    assert np.isnan(found.cpu().numpy()).all()


def test_large_factors_of_lu():
    a = np.random.default_rng(0).standard_normal((2, 260, 260))
    got = linalg.lu(ndgrad.tensor(a, device="cuda"))
    np.testing.assert_allclose((got.P @ got.L @ got.U).cpu().numpy(), a, atol=1e-9)


# ----- lanes -----------------------------------------------------------------------------------------------------------------------


def test_a_tensor_on_the_gpu_leaves_calls_on_the_cpu_their_lanes():
    from ndgrad._src.core.modes import process

    ndgrad.ones(2, device="cuda")
    assert not process.busy
    f = ndgrad.compile(lambda x: (x.sin() * x).sum())
    assert "runs eagerly" not in str(ndgrad.compile.explain(f, ndgrad.ones(3)))
    ndgrad.mul(ndgrad.ones(2), 2.0)
    assert "DEVICE_ARRAY" in ndgrad.mul.__source__


@pytest.mark.parametrize("dtype", [ndgrad.float64, ndgrad.float32, ndgrad.float16, ndgrad.bfloat16], ids=str)
@pytest.mark.parametrize("layout", ["in order", "transposed", "a row", "a number", "from the second on"])
def test_elementwise_kernels_take_any_layout(dtype, layout):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((5, 67)), random.standard_normal((5, 67))

    def run(device):
        x = ndgrad.tensor(a, dtype=dtype, device=device, requires_grad=True)
        y = ndgrad.tensor(b, dtype=dtype, device=device, requires_grad=True)
        other = {"in order": y, "transposed": y.reshape(67, 5).t(), "a row": y[:1], "a number": y[0, 0], "from the second on": y}[layout]
        first = x
        if layout == "from the second on":
            first, other = x.reshape(-1)[1:], y.reshape(-1)[1:]
        out = (first * other).tanh() + 0.5 * first / (other * other + 1.0) - ndgrad.where(first > other, first, -other)
        out.sum().backward()
        return [t.detach().cpu().float().numpy() for t in (out, x.grad, y.grad)]

    tolerance = {ndgrad.float64: 1e-12, ndgrad.float32: 2e-5, ndgrad.float16: 2e-2}.get(dtype, 0.15)
    for got, want in zip(run("cuda"), run("cpu"), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gradients_of_leaves_are_their_own(device):
    x, y = (ndgrad.ones(3, device=device, requires_grad=True) for _ in range(2))
    g = ndgrad.ones(3, device=device)
    (x + y).backward(g)
    x.grad.mul_(5.0)
    assert y.grad.tolist() == g.tolist() == [1.0, 1.0, 1.0]
