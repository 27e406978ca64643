"""Compiled functions of tensors on a GPU give what the functions give, by fused kernels; over the stand-in these are
compiled for the processor (tests/compiler/cuda/emulator)."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn, optim
from ndgrad._src.compiler.cuda import launch
from tests.compiler.cuda import emulator

cupy = pytest.importorskip("cupy")
FUSED = launch.can_be_made() or shutil.which("g++") is not None


@pytest.fixture(autouse=True, scope="module")
def kernels():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NDGRAD_COMPILE_RAISE", "1")
        if not launch.can_be_made() and FUSED:
            patch.setattr(launch, "Functions", emulator.Functions)
            patch.setattr(launch, "can_be_made", lambda: True)
        yield


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def tensor(*shape, dtype=ndgrad.float32, seed=0, grad=True):
    return ndgrad.tensor(draw(*shape, seed=seed), device="cuda").to(dtype).requires_grad_(grad)


def host(t):
    t = t.detach().cpu()
    return t.double().numpy() if t.dtype.is_floating_point else t.numpy()


def program_of(compiled):
    """Return the steps that ran on the device in the last call."""
    made = compiled.entries[-1].specialisation
    runners = [made.plan.run_forward, *([made.plan.whole.runner] if made.plan.whole is not None else [])]
    return next(r._on_device for r in runners if r._on_device is not None)


def compared(function, *tensors, tolerance=1e-5):
    """Results and gradients of a function, compiled and not; all of them floats."""
    compiled = ndgrad.compile(function, fullgraph=True)
    own = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
    for _ in range(2):
        for t in (*own, *tensors):
            t.grad = None
        want, got = function(*tensors), compiled(*own)
        assert got.device == want.device
        assert got.dtype is want.dtype
        pairs = [(want, got)]
        if want.requires_grad:
            weights = ndgrad.tensor(draw(*want.shape, seed=9), device="cuda").to(want.dtype)
            want.backward(weights)
            got.backward(weights)
            pairs += [(t.grad, o.grad) for t, o in zip(tensors, own, strict=True) if t.requires_grad]
        for a, b in pairs:
            scale = np.abs(host(a)).max(initial=1e-6)
            np.testing.assert_allclose(host(b) / scale, host(a) / scale, rtol=0, atol=tolerance)
    return compiled


ROWS = {
    "softmax of short rows": (lambda x: F.softmax(x, -1), (5, 10)),
    "log_softmax of rows that packs do not divide": (lambda x: F.log_softmax(x, -1), (3, 333)),
    "rows that two warps take each": (lambda x: F.softmax(x, -1) * x.amax(-1, keepdim=True), (3, 1000)),
    "a row that a block takes": (lambda x: F.softmax(x * 2, -1) + x.mean(-1, keepdim=True), (2, 1200)),
    "layer norm and what stands around it": (lambda x: F.gelu(F.layer_norm(x.sin(), (96,))) + x, (6, 96)),
    "a long sum": (lambda x: (x * x).sum(), (3, 20000)),
    "long rows": (lambda x: (x * x).sum(1) * 2, (2, 20000)),
    "sums over rows": (lambda x: (x * x).sum(0), (40, 24)),
    "sums over rows and along them": (lambda x: F.softmax(x, -1).square().sum(0) + x.sum(0), (30, 20)),
    "sums in the middle": (lambda x: x.sum((0, 2)) * 2, (3, 5, 4)),
    "extremes": (lambda x: x.amax(1) - x.amin(1), (7, 33)),
    "a transpose": (lambda x: (x.t() * 2).contiguous().reshape(-1) + 1, (6, 10)),
    "broadcasting": (lambda x: x * x[:, :1] + x[0] - x.t()[:1].t(), (8, 8)),
    "parts": (lambda x: ndgrad.cat([x[:, 2:] * 2, x[:, :3].sin()], 1), (4, 7)),
    "causal attention": (lambda x: F.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True), (2, 3, 8, 4)),
}


#: Those that are not slow: one of each form that kernels have.
QUICK = (
    "softmax of short rows", "rows that two warps take each", "layer norm and what stands around it", "long rows",
    "sums over rows and along them", "parts",
)  # fmt: skip


def slowly(names, quick):
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", slowly(ROWS, QUICK))
def test_a_compiled_function_gives_what_the_function_gives(name):
    function, shape = ROWS[name]
    compared(function, tensor(*shape))


@pytest.mark.parametrize("dtype", slowly(["float64", "float16", "bfloat16"], ["bfloat16"]))
def test_other_dtypes(dtype):
    def function(x, w, b):
        return F.silu(F.layer_norm(F.linear(x, w, b), (16,))).softmax(-1) * x.mean()

    tensors = [tensor(8, 24, dtype=getattr(ndgrad, dtype), seed=s) for s in (1,)]
    tensors += [tensor(16, 24, dtype=tensors[0].dtype, seed=2), tensor(16, dtype=tensors[0].dtype, seed=3)]
    compared(function, *tensors, tolerance={"float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}[dtype])


def test_an_elementwise_chain_is_one_kernel():
    x = tensor(1000, grad=False)
    compiled = compared(lambda x: ((x.sin() * 2 + 1).tanh() - x).exp(), x)
    program = program_of(compiled)
    assert len(program.plan.steps) == 1
    assert not FUSED or "Pack<float, 4>" in program.plan.code


def test_integers_booleans_and_indices():
    target = ndgrad.tensor(np.array([1, 0, 6, 3, -100]), device="cuda")

    def function(x):
        mask = (target > 1) & (target != 6) | x.isnan().any(1)
        loss = F.cross_entropy(x, target)
        return loss + ndgrad.where(mask, x.sum(1), 0.0).sum() + (target + 1).clamp(min=0).float().mean()

    compared(function, tensor(5, 7))


def test_a_wrong_target_raises_and_later_calls_are_right():
    compiled = ndgrad.compile(lambda x, y: F.cross_entropy(x, y), fullgraph=True)
    x, y = tensor(4, 3, grad=False), ndgrad.tensor(np.array([0, 1, 2, 0]), device="cuda")
    before = compiled(x, y).item()
    with pytest.raises(IndexError, match=r"out of bounds for 3 classes"):
        compiled(x, y + 1).item()
    assert compiled(x, y).item() == before


def parts(dtype=ndgrad.float32):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).to("cuda").to(dtype)
    with ndgrad.no_grad():
        for p in model.parameters():
            p.copy_(ndgrad.tensor(draw(*p.shape), dtype=dtype))
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    x, y = ndgrad.tensor(draw(32, 8), dtype=dtype, device="cuda"), ndgrad.tensor(np.arange(32) % 3, device="cuda")

    def step(x=x):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).float(), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, x, step


@pytest.mark.parametrize("dtype", slowly(["float32", "bfloat16"], ["float32"]))
def test_a_compiled_training_step_is_the_step(dtype):
    dtype = getattr(ndgrad, dtype)
    model, _, x, step = parts(dtype)
    want_model, _, want_x, want_step = parts(dtype)
    compiled = ndgrad.compile(step)
    tolerance = 1e-4 if dtype is ndgrad.float32 else 0.03
    for n in range(7):
        want, got = want_step(want_x * (1 + n)), compiled(x * (1 + n))
        assert got.item() == pytest.approx(want.item(), rel=tolerance)
    for a, b in zip(want_model.parameters(), model.parameters(), strict=True):
        np.testing.assert_allclose(host(b), host(a), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(host(b.grad), host(a.grad), rtol=0, atol=0.05 * np.abs(host(a.grad)).max() + tolerance)
    assert compiled.entries[-1].broken is None
    if FUSED:  # parameters and states are updated where they lie
        assert len(program_of(compiled).plan.in_place) == 3 * len(list(model.parameters()))


def test_results_are_not_overwritten_by_later_calls():
    model, _, x, _ = parts()
    compiled = ndgrad.compile(lambda x: [F.gelu(model(x * k)) for k in range(1, 5)])
    kept, copies = [], []
    for n in range(6):
        out = compiled(x + n)
        kept += out
        copies += [host(t) for t in out]
    for t, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(host(t), copy)


def test_devices_are_part_of_what_a_program_is_for():
    compiled = ndgrad.compile(lambda x: x.sin() * 2)
    on_gpu, on_cpu = compiled(tensor(4, grad=False)), compiled(tensor(4, grad=False).cpu())
    assert (on_gpu.device.type, on_cpu.device.type) == ("cuda", "cpu")
    assert compiled.traces == 2
    np.testing.assert_allclose(host(on_gpu), host(on_cpu), rtol=1e-6)


def test_what_is_made_inside_is_where_it_was_made():
    def function(x):
        return x + ndgrad.arange(4, device="cuda"), ndgrad.ones(3, device="cuda"), ndgrad.zeros(2)

    for t, where in zip(ndgrad.compile(function, fullgraph=True)(tensor(4, grad=False)), ("cuda", "cuda", "cpu"), strict=True):
        assert t.device.type == where


def test_tensors_of_two_devices_are_refused_as_in_eager_code():
    compiled = ndgrad.compile(lambda x, y: x * y)
    with pytest.raises(RuntimeError, match="device"):
        compiled(tensor(4, grad=False), tensor(4, grad=False).cpu())


def test_random_numbers_are_those_of_the_seed():
    def function(x):
        return F.dropout(x, 0.5) * 2

    compiled, x = ndgrad.compile(function, fullgraph=True), tensor(50, grad=False)
    ndgrad.manual_seed(3)
    want = [host(function(x)) for _ in range(4)]
    ndgrad.manual_seed(3)
    for expected in want:
        np.testing.assert_array_equal(host(compiled(x)), expected)


def test_random_numbers_of_a_gpu_are_drawn_there():
    def function(x):
        return (F.dropout(x, 0.5) * ndgrad.rand(50, device="cuda", dtype=x.dtype)).sum()

    compiled, x = ndgrad.compile(function, fullgraph=True), tensor(50)
    for seed in range(5):
        ndgrad.manual_seed(seed)
        (want,) = ndgrad.autograd.grad(function(x), x)
        after = ndgrad.cuda.get_rng_state()
        ndgrad.manual_seed(seed)
        (got,) = ndgrad.autograd.grad(compiled(x), x)
        np.testing.assert_array_equal(host(got), host(want))
        assert ndgrad.equal(ndgrad.cuda.get_rng_state(), after)
    program = program_of(compiled)
    assert not any(program.on_host)
    assert not program.plan.parts.crossing


def test_strict_functions_run_op_by_op():
    x = tensor(40, 30, grad=False)
    compiled = ndgrad.compile(lambda x: F.softmax(x, -1).sum(0), strict=True)
    np.testing.assert_array_equal(host(compiled(x)), host(F.softmax(x, -1).sum(0)))
    assert not program_of(compiled).plan.texts


# ----- looking at it --------------------------------------------------------------------------------------------------


def test_explain_graph_and_kernels():
    def function(x, w):
        return F.gelu(x @ w).softmax(-1).square().sum()

    x, w = tensor(16, 24, grad=False), tensor(24, 8, seed=1)
    compiled = ndgrad.compile(function)
    text = str(ndgrad.compiler.explain(compiled, x, w))
    assert "on cuda:0" in text
    assert "matmul(%" in str(ndgrad.compiler.graph(compiled, x, w).forward)
    before = host(w)
    found = compiled.kernels(x, w)
    np.testing.assert_array_equal(host(w), before)
    assert "matmul" in [step.name for step in found]
    assert "(CuPy)" in str(found)
    if FUSED:
        kernel = next(step for step in found if step.is_native)
        assert "__global__" in kernel.ir
        assert kernel.work.bytes > 0
