"""Every op of the table on CuPy arrays: values and gradients, first and second, equal those on NumPy's. Needs CuPy and a GPU."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.variable import wrap
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, RANDOM, table
from ndgrad.testing.op_checks import as_tuple
from tests.examples import few
from tests.op_programs import SAMPLES, various

cupy = pytest.importorskip("cupy")

#: By itemsize of a real number: results on a GPU differ from the CPU's by their rounding.
TOLERANCE = {2: 2e-2, 4: 1e-5, 8: 1e-7}


def convert(value, to):
    return to(value) if isinstance(value, (np.ndarray, np.generic)) else value


def run(op, sample, to, reference=False, second=True):
    """The outputs, and the gradients of a weighted sum of them: of first order, by rules on arrays and on tensors (for the `reference`,
    once for both), and of second."""
    args = [convert(a, to) for a in sample.args]
    arrays = [a for a in args if hasattr(a, "dtype")]
    tensors = [wrap(ndgrad.Tensor, a) if hasattr(a, "dtype") else a for a in args]
    for a in arrays:
        library_of(a)  # as whatever makes tensors does
    wanted = []
    if op.vjp is not NOT_DIFFERENTIABLE:
        for i in op.differentiable_positions(len(tensors)):
            if hasattr(args[i], "dtype") and args[i].dtype.kind in "fc":
                tensors[i] = tensors[i].requires_grad_()
                wanted.append(tensors[i])
    given = tensors
    if sample.prepare:  # on the host: it may have constants of its own
        made = as_tuple(sample.prepare(*(t.cpu() if isinstance(t, ndgrad.Tensor) else t for t in tensors)))
        given = [t.to(wanted[0].device) if isinstance(t, ndgrad.Tensor) else t for t in made]
    outs = list(as_tuple(op(*given, **{k: convert(v, to) for k, v in sample.settings.items()})))
    if sample.invariant is not None and not any(a.dtype.char in "efF" for a in arrays):
        outs = list(as_tuple(sample.invariant(*(o.cpu() for o in outs))))
    results = [o.detach() for o in outs]
    differentiable = [o for o in outs if o.requires_grad]
    if differentiable and wanted and "vjp" not in sample.skip:
        total = weighted(differentiable)
        grads = ndgrad.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
        raw = grads if reference else ndgrad.autograd.grad(total, wanted, retain_graph=True, allow_unused=True)
        results += [g for g in (*raw, *grads) if g is not None]
        again = [g for g in grads if g is not None and g.requires_grad]
        if again and second and sample.smooth and "vjp of vjp" not in sample.skip:
            results += [h for h in ndgrad.autograd.grad(weighted(again), wanted, allow_unused=True) if h is not None]
    return [r.detach() for r in results]


def weighted(outs):
    total = 0.0
    for o in outs:
        weights = ndgrad.cos(ndgrad.arange(o.numel(), dtype=ndgrad.float64, device=o.device).reshape(o.shape) + 0.5)
        part = (o * weights).sum()
        total = total + (part.real + part.imag if part.is_complex() else part)
    return total


@pytest.mark.parametrize("name", [name for name, op in table.items() if op.batch is not RANDOM and SAMPLES.get(name)])
def test_op_on_the_gpu_equals_the_cpu(name):
    """Random numbers differ from library to library, and are left out."""
    # kernels, which have as many cases as samples, are those of a GPU; the stand-in only says what is called on which arrays
    samples = few(3, various(SAMPLES[name])) if "NDGRAD_STAND_IN" in os.environ else SAMPLES[name]
    for number, sample in enumerate(samples):
        try:
            compare(table[name], sample)
        except BaseException as error:
            error.add_note(f"sample {number} of {name}")
            raise


def compare(op, sample):
    with np.errstate(all="ignore"):
        want = run(op, sample, np.asarray, reference=True)
        got = run(op, sample, cupy.asarray)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        leaves_the_gpu = op.name == "to_device" or sample.invariant is not None
        assert leaves_the_gpu or isinstance(g._array, cupy.ndarray)
        host, expected = np.asarray(g.cpu()._array), np.asarray(w._array)
        assert host.dtype == expected.dtype
        tolerance = TOLERANCE.get(expected.real.itemsize, 1e-7)
        scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)))
        np.testing.assert_allclose(host, expected, rtol=tolerance, atol=tolerance * scale)


# ----- other dtypes ---------------------------------------------------------------------------------------------------

#: By name: what takes the place of float64 and of complex128, and how far results may be apart, relative to the largest.
NARROW = {
    "float32": (np.dtype(np.float32), np.dtype(np.complex64), 1e-3),
    "float16": (np.dtype(np.float16), None, 3e-2),
    "bfloat16": (ndgrad.bfloat16.numpy, None, 1e-1),
}
#: Of numbers that rounding has made equal, any may come first: what must hold all the same is tested below.
TIES = {("topk", "bfloat16")}


def narrowed(value, real, complex_):
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.char not in "dD":
        return value
    return np.asarray(value).astype(real if value.dtype.char == "d" else complex_)


@pytest.mark.skipif("NDGRAD_STAND_IN" in os.environ, reason="a matter of kernels, and long")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", [name for name, op in table.items() if op.batch is not RANDOM and SAMPLES.get(name)])
def test_op_in_other_dtypes_on_the_gpu(name, dtype):
    """A GPU computes the CPU's results, to the digits of each dtype."""
    if (name, dtype) in TIES:
        pytest.skip("equal numbers in any order")
    real, complex_, tolerance = NARROW[dtype]
    second = dtype == "float32"
    tried = 0
    for number, sample in enumerate(SAMPLES[name]):
        chars = {a.dtype.char for a in sample.args if isinstance(a, (np.ndarray, np.generic))}
        if not chars & {"d", "D"} or (complex_ is None and "D" in chars) or sample.prepare or sample.invariant:
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                want = run(table[name], sample, lambda a: narrowed(a, real, complex_), reference=True, second=second)
            except (NotImplementedError, TypeError, ValueError, RuntimeError, np.linalg.LinAlgError):
                continue  # what the CPU refuses too
            got = run(table[name], sample, lambda a: cupy.asarray(narrowed(a, real, complex_)), second=second)
        tried += 1
        for g, w in zip(got, want, strict=True):
            host, expected = np.asarray(g.cpu()._array), np.asarray(w._array)
            assert host.dtype == expected.dtype, f"sample {number}"
            host, expected = (a.astype(complex if a.dtype.kind == "c" else float) for a in (host, expected))
            finite = np.isfinite(expected)
            scale = max(1.0, float(np.abs(expected[finite]).max(initial=0.0)))
            np.testing.assert_array_equal(np.isfinite(host), finite, err_msg=f"sample {number}")
            np.testing.assert_allclose(host[finite], expected[finite], rtol=tolerance, atol=tolerance * scale, err_msg=f"sample {number}")
    if not tried:
        pytest.skip("no sample in this dtype")


# ----- ops outside of the comparison, with the reason -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("size", [40, 3000])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_among_equal_numbers_picks_the_right_ones_each_once(dtype, size, largest):
    """Values are those of a sort, indices say where they stand, no element is picked twice, and gradients go back there."""
    values = np.random.default_rng(size).integers(0, 9, (5, size)).astype(np.float32)
    weights = np.arange(1.0, 13, dtype=np.float32)
    x = ndgrad.tensor(values, device="cuda", dtype=getattr(ndgrad, dtype), requires_grad=True)
    found, index = x.topk(12, dim=1, largest=largest)
    (found.float() * ndgrad.tensor(weights, device="cuda")).sum().backward()
    expected = np.sort(values, axis=1)
    expected = expected[:, ::-1][:, :12] if largest else expected[:, :12]
    there = index.cpu().numpy()
    np.testing.assert_array_equal(found.detach().float().cpu().numpy(), expected)
    np.testing.assert_array_equal(np.take_along_axis(values, there, 1), expected)
    assert all(len({*row}) == 12 for row in there.tolist())
    gradient = np.zeros_like(values)
    np.put_along_axis(gradient, there, np.broadcast_to(weights, there.shape), 1)
    np.testing.assert_array_equal(x.grad.float().cpu().numpy(), gradient)


def test_second_derivatives_of_distances_are_those_of_the_closed_form():
    """The Hessian of |x - y| in x is (1 - u u') / d, u the direction from y to x."""
    random = np.random.default_rng(5)
    x, y, t = random.standard_normal((6, 4)), random.standard_normal((7, 4)) + 3, random.standard_normal((6, 4))
    apart = x[:, None] - y
    length = np.sqrt((apart**2).sum(-1, keepdims=True))
    u = apart / length
    expected = ((t[:, None] - u * (u * t[:, None]).sum(-1, keepdims=True)) / length).sum(1)
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-12)):
        a, b, v = (ndgrad.tensor(z, device="cuda", dtype=getattr(ndgrad, dtype)) for z in (x, y, t))
        a.requires_grad_()
        (slope,) = ndgrad.autograd.grad(ndgrad.cdist(a, b).sum(), a, create_graph=True)
        (found,) = ndgrad.autograd.grad((slope * v).sum(), a)
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=tolerance, atol=tolerance * 4)
