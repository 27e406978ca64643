"""Fourier transforms: laws, argument forms, precision and errors, against sums written out, NumPy and closed forms."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
from ndgrad._src.transforms.transforms import grad, jvp, vmap

r = np.random.default_rng(5)


def random(*shape):
    return r.standard_normal(shape)


def random_complex(*shape):
    return random(*shape) + 1j * random(*shape)


def tensor(a, requires_grad=False):
    return ndgrad.tensor(np.asarray(a), requires_grad=requires_grad)


# ----- laws ------------------------------------------------------------------------------------------------------------

NORMS = st.sampled_from([None, "backward", "ortho", "forward"])


@given(n=st.integers(1, 12), norm=NORMS)
def test_each_transform_undoes_its_inverse(n, norm):
    real, z = tensor(random(3, n)), tensor(random_complex(3, n))
    fft = ndgrad.fft
    np.testing.assert_allclose(fft.ifft(fft.fft(z, norm=norm), norm=norm).numpy(), z.numpy(), atol=1e-12)
    np.testing.assert_allclose(fft.irfft(fft.rfft(real, norm=norm), n=n, norm=norm).numpy(), real.numpy(), atol=1e-12)
    np.testing.assert_allclose(fft.hfft(fft.ihfft(real, norm=norm), n=n, norm=norm).numpy(), real.numpy(), atol=1e-12)
    np.testing.assert_allclose(fft.irfft2(fft.rfft2(real, norm=norm), s=(3, n), norm=norm).numpy(), real.numpy(), atol=1e-12)
    np.testing.assert_allclose(fft.hfftn(fft.ihfftn(real, norm=norm), s=(3, n), norm=norm).numpy(), real.numpy(), atol=1e-12)
    np.testing.assert_allclose(fft.ifftshift(fft.fftshift(real)).numpy(), real.numpy())


@given(n=st.integers(1, 9), length=st.integers(1, 9), norm=NORMS)
def test_points_are_padded_and_trimmed_as_in_numpy(n, length, norm):
    z = random_complex(2, length)
    for name in ("fft", "ifft", "irfft", "hfft"):
        got = getattr(ndgrad.fft, name)(tensor(z), n=n, norm=norm).numpy()
        np.testing.assert_allclose(got, getattr(np.fft, name)(z, n=n, norm=norm), atol=1e-12)
    for name in ("rfft", "ihfft", "fft", "ifft"):
        got = getattr(ndgrad.fft, name)(tensor(z.real), n=n, norm=norm).numpy()
        np.testing.assert_allclose(got, getattr(np.fft, name)(z.real, n=n, norm=norm), atol=1e-12)


@given(n=st.integers(1, 8))
def test_the_norm_is_kept_by_ortho_and_its_gradient_is_twice_the_input(n):
    """Parseval: the squared norm of the spectrum is that of the signal; half a spectrum counts its inner bins twice."""
    x = tensor(random(n, 3), requires_grad=True)
    spectrum = ndgrad.fft.fftn(x, norm="ortho")
    (spectrum.abs() ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy(), atol=1e-12)
    x = tensor(random(n), requires_grad=True)
    weights = np.where(2 * np.arange(n // 2 + 1) % n == 0, 1.0, 2.0)
    (ndgrad.fft.rfft(x, norm="ortho").abs() ** 2 * tensor(weights)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy(), atol=1e-12)


def test_gradient_of_a_circular_convolution_is_a_correlation():
    a, b, g = random(7), random(7), random(7)
    x = tensor(a, requires_grad=True)
    out = ndgrad.fft.irfft(ndgrad.fft.rfft(x) * ndgrad.fft.rfft(tensor(b)), n=7)
    circulant = np.array([[b[(k - j) % 7] for j in range(7)] for k in range(7)])
    np.testing.assert_allclose(out.detach().numpy(), circulant @ a, atol=1e-12)
    out.backward(tensor(g))
    np.testing.assert_allclose(x.grad.numpy(), circulant.T @ g, atol=1e-12)


def test_imaginary_parts_that_are_not_read_get_no_gradient():
    z = tensor(random_complex(4), requires_grad=True)
    ndgrad.fft.irfft(z, n=6).square().sum().backward()
    assert z.grad.numpy()[[0, 3]].imag.tolist() == [0.0, 0.0]
    assert (z.grad.numpy()[[1, 2]].imag != 0).all()


def test_double_backward_of_the_squared_modulus():
    """The second derivative of |F x|^2 / n is twice the identity."""
    x = tensor(random(5), requires_grad=True)
    y = (ndgrad.fft.fft(x, norm="ortho").abs() ** 2).sum()
    (first,) = ndgrad.autograd.grad(y, x, create_graph=True)
    v = tensor(random(5))
    (second,) = ndgrad.autograd.grad((first * v).sum(), x)
    np.testing.assert_allclose(second.numpy(), 2 * v.numpy(), atol=1e-12)


def test_vmap_of_grad_over_another_dimension():
    x = random(4, 5)

    def loss(row):
        return (ndgrad.fft.rfft(row, n=8, norm="forward").abs() ** 2).sum()

    got = vmap(grad(loss), in_dims=1)(tensor(x))
    rows = np.stack([grad(loss)(tensor(x[:, j])).numpy() for j in range(5)])
    np.testing.assert_allclose(got.numpy(), rows, atol=1e-12)


def test_forward_mode_is_the_transform_of_the_tangent():
    x, t = random(3, 4), random(3, 4)
    _, out = jvp(ndgrad.fft.hfft2, (tensor(x),), (tensor(t),))
    np.testing.assert_allclose(out.numpy(), ndgrad.fft.hfft2(tensor(t)).numpy(), atol=1e-12)


# ----- arguments -------------------------------------------------------------------------------------------------------


def test_numpys_names_of_arguments():
    x = tensor(random_complex(3, 4))
    np.testing.assert_array_equal(ndgrad.fft.fft(a=x, axis=0).numpy(), ndgrad.fft.fft(x, dim=0).numpy())
    with pytest.raises(TypeError, match="axis.*dim"):
        ndgrad.fft.fft(x, axis=0, dim=0)


def test_one_dimension_of_several_given_as_a_number():
    x = random(3, 4)
    np.testing.assert_allclose(ndgrad.fft.rfftn(tensor(x), s=3, dim=1).numpy(), np.fft.rfft(x, 3, axis=1), atol=1e-12)


def test_sizes_without_dims_are_those_of_the_last_dimensions():
    x = random_complex(2, 3, 4)
    got = ndgrad.fft.irfftn(tensor(x), s=(2, 5)).numpy()
    np.testing.assert_allclose(got, np.fft.irfftn(x, (2, 5), axes=(1, 2)), atol=1e-12)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfftn", "irfftn", "ihfft2"])
def test_single_precision_stays_single(name):
    x = tensor(random(4, 6).astype(np.float32), requires_grad=True)
    out = getattr(ndgrad.fft, name)(x)
    assert out.numpy(force=True).dtype in (np.complex64, np.float32)
    (out.abs() ** 2).sum().backward()
    assert x.grad.numpy().dtype == np.float32
    if name in ("fft", "irfft", "hfft"):
        z = tensor(random_complex(4, 6).astype(np.complex64), requires_grad=True)
        (getattr(ndgrad.fft, name)(z).abs() ** 2).sum().backward()
        assert z.grad.numpy().dtype == np.complex64


def test_a_batch_of_nothing():
    x = tensor(np.empty((0, 4)), requires_grad=True)
    out = ndgrad.fft.rfft(x)
    assert tuple(out.shape) == (0, 3)
    out.backward(ndgrad.zeros(0, 3, dtype=ndgrad.complex128))
    assert tuple(x.grad.shape) == (0, 4)


def test_trimming_makes_no_copy_and_padding_no_graph_of_its_own_kind():
    x = tensor(random(8), requires_grad=True)
    names = [ndgrad.fft.fft(x, n=n).grad_fn.next_functions[0][0].name() for n in (5, 11)]
    assert names == ["SliceBackward0", "ConstantPadNdBackward0"]


def test_the_class_of_the_input_is_kept():
    from ndgrad.numpy import Array

    x = ndgrad.numpy.array(random(4))
    for made in (ndgrad.fft.fft(x), ndgrad.fft.irfft(x, n=3), ndgrad.fft.fftshift(x)):
        assert type(made) is Array


def test_shapes_on_the_meta_device():
    x = ndgrad.empty(3, 8, device="meta")
    shapes = [tuple(f(x).shape) for f in (ndgrad.fft.fft, ndgrad.fft.rfft, ndgrad.fft.irfft, ndgrad.fft.rfft2, ndgrad.fft.fftn)]
    assert shapes == [(3, 8), (3, 5), (3, 14), (3, 5), (3, 8)]


def test_frequencies_are_those_of_numpy():
    for n in (1, 4, 7):
        np.testing.assert_allclose(ndgrad.fft.fftfreq(n, 0.1).numpy(), np.fft.fftfreq(n, 0.1), rtol=1e-15)
        np.testing.assert_allclose(ndgrad.fft.rfftfreq(n, 0.1).numpy(), np.fft.rfftfreq(n, 0.1), rtol=1e-15)
    made = ndgrad.fft.fftfreq(4, dtype=ndgrad.float32, requires_grad=True)
    assert made.dtype == np.float32
    assert made.requires_grad


def test_frequencies_at_no_distance_are_infinite_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(ndgrad.fft.fftfreq(4, 0.0).numpy(), [np.nan, np.inf, -np.inf, -np.inf])


@pytest.mark.parametrize(
    ("call", "error", "parts"),
    [
        (lambda x: ndgrad.fft.rfft(x * 1j), RuntimeError, ["rfft", "complex128", r"\.real"]),
        (lambda x: ndgrad.fft.fft(x, n=0), RuntimeError, ["fft", r"\(0\)", r"\[3, 4\]", "at least one"]),
        (lambda x: ndgrad.fft.fft(x, norm="no"), RuntimeError, ["fft", "no", "ortho"]),
        (lambda x: ndgrad.fft.fft(x.half()), RuntimeError, ["fft", "float16", r"\.float\(\)"]),
        (lambda x: ndgrad.fft.fftn(x, s=(2,), dim=(0, 1)), RuntimeError, ["fftn", r"\(2,\)", r"\(0, 1\)", "one size per dim"]),
        (lambda x: ndgrad.fft.fftn(x, dim=(0, 0)), RuntimeError, ["fftn", r"\(0, 0\)", "once"]),
        (lambda x: ndgrad.fft.irfftn(x, dim=()), RuntimeError, ["irfftn", "none", "Name a dimension"]),
        (lambda x: ndgrad.fft.fft(x, n="4"), TypeError, ["fft", "n", "str", "whole number"]),
        (lambda x: ndgrad.fft.fft([1.0]), TypeError, ["fft", "list", "as_tensor"]),
    ],
)
def test_errors_say_what_where_and_what_to_do(call, error, parts):
    for part in parts:
        with pytest.raises(error, match=part):
            call(tensor(random(3, 4)))
