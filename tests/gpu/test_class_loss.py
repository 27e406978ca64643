"""Cross entropy of class numbers by one kernel each way, beside the formula in double precision; over the stand-in, on the
processor."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays import device_kernels
from ndgrad._src.compiler.cuda import class_loss as kernels
from tests.compiler.cuda import emulator

cupy = pytest.importorskip("cupy")
ON_GPU = device_kernels.kernels() is not None
if not ON_GPU and shutil.which("g++") is None:
    pytest.skip("there is neither a GPU nor a C++ compiler", allow_module_level=True)
DTYPES = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}
F = ndgrad.nn.functional


class _Notes:
    """In the place of ndgrad._src.compiler.cuda.index_faults.Notes: what a kernel leaves for the host."""

    def __init__(self) -> None:
        self.host, self.flag = np.zeros(2, np.int64), np.zeros(1, np.uint64)

    def words(self, error):
        return self.host.ctypes.data, self.flag.ctypes.data, 1


@pytest.fixture(autouse=True)
def notes(monkeypatch):
    if ON_GPU:
        yield None
        return
    made = _Notes()
    monkeypatch.setattr(kernels.launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(kernels.launch, "new", cupy.empty)
    monkeypatch.setattr(kernels, "notes", lambda device: made)
    kernels._kernel.cache_clear()
    yield made
    kernels._kernel.cache_clear()
    kernels._ended.cache_clear()


def wrong(found):
    return IndexError(f"no class {found}")


def on_device(array, dtype):
    return ndgrad.tensor(array).to(getattr(ndgrad, dtype)).to("cuda")._array


def host(array):
    return np.asarray(cupy.asnumpy(array)).astype(np.float64)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(("dtype", "rows", "classes"), [("float32", 70, 5), ("bfloat16", 9, 40), ("float16", 3, 1100), ("float64", 1, 33)])
def test_results_and_gradients(dtype, rows, classes, reduction):
    random = np.random.default_rng(rows)
    x = on_device(random.standard_normal((rows, classes)) * 3, dtype)
    target = on_device(random.integers(0, classes, rows), "int64" if rows > 3 else "int32")
    target[rows // 2] = classes - 1
    weight = on_device(random.uniform(0.5, 2, classes), dtype)
    g = on_device(random.standard_normal(rows if reduction == "none" else ()), dtype)
    for w, ignored, smoothing in [(None, -100, 0.0), (weight, 1, 0.0), (weight, -100, 0.25), (None, 2, 0.25)]:
        assert kernels.class_loss_for(x, target, w) is kernels
        plain = ndgrad.tensor(host(x)).requires_grad_()
        want = F.cross_entropy(
            plain, ndgrad.tensor(host(target)).long(), None if w is None else ndgrad.tensor(host(w)), ignore_index=ignored,
            label_smoothing=smoothing, reduction=reduction,
        )  # fmt: skip
        want.backward(ndgrad.tensor(host(g)))
        loss, total = kernels.class_loss(x, target, w, ignored, smoothing, reduction, wrong)
        grad = kernels.class_loss_gradient(g, x, target, w, total, ignored, smoothing, reduction)
        counts = host(target) != ignored
        assert host(total) == pytest.approx((counts if w is None else host(w)[host(target).astype(int)] * counts).sum())
        for found, expected in ((loss, want.detach()), (grad, plain.grad)):
            expected = np.asarray(expected)
            np.testing.assert_allclose(host(found), expected, rtol=0, atol=DTYPES[dtype] * max(np.abs(expected).max(), 1e-3))


def test_more_rows_than_blocks_take_at_once(monkeypatch):
    """The blocks add up their rows, and the last one adds up the blocks; the next call finds the count at zero."""
    monkeypatch.setattr(kernels, "_MOST_BLOCKS", 3)
    rows = 70
    x, target = on_device(np.zeros((rows, 2)), "float32"), on_device(np.arange(rows) % 2, "int64")
    for _ in range(2):
        loss, total = kernels.class_loss(x, target, None, 1, 0.0, "sum", wrong)
        assert host(loss) == pytest.approx(rows / 2 * np.log(2), rel=1e-5)
        assert host(total) == rows / 2


def test_a_target_that_is_no_class_is_noted(notes):
    x, target = on_device(np.zeros((4, 3)), "float32"), on_device(np.array([0, 7, -100, 1]), "int64")
    if notes is None:
        loss = F.cross_entropy(ndgrad.tensor(np.zeros((4, 3)), device="cuda"), ndgrad.tensor([0, 7, -100, 1], device="cuda"))
        with pytest.raises(IndexError, match="Target 7 is out of bounds for 3 classes"):
            loss.item()
    else:
        kernels.class_loss(x, target, None, -100, 0.0, "mean", wrong)
        assert notes.host.tolist() == [1, 7]
        assert notes.flag[0] == 1


def test_what_is_not_taken():
    x, target = on_device(np.zeros((4, 3)), "float32"), on_device(np.zeros(4), "int64")
    assert kernels.class_loss_for(x[:, :2], target, None) is None
    assert kernels.class_loss_for(x.reshape(2, 2, 3), target, None) is None
    assert kernels.class_loss_for(x, target, on_device(np.zeros(3), "float64")) is None


@pytest.mark.skipif(not ON_GPU, reason="there are no kernels here")
def test_second_derivatives_and_forward_mode_on_the_gpu():
    x = np.random.default_rng(0).standard_normal((6, 4))
    y, w = [0, 3, 1, -100, 2, 2], [0.5, 1.0, 2.0, 1.5]

    def differentiate(where):
        scores, weight = ndgrad.tensor(x, device=where, requires_grad=True), ndgrad.tensor(w, device=where, dtype=ndgrad.float64)
        target = ndgrad.tensor(y, device=where)

        def loss(s):
            return F.cross_entropy(s, target, weight, label_smoothing=0.1)

        (first,) = ndgrad.autograd.grad(loss(scores), scores, create_graph=True)
        (second,) = ndgrad.autograd.grad((first * first).sum(), scores)
        pushed = ndgrad.func.jvp(loss, (scores.detach(),), (first.detach(),))[1]
        return [np.asarray(t.detach().cpu()) for t in (first, second, pushed)]

    for a, b in zip(differentiate("cuda"), differentiate("cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)
