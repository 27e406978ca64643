"""The same Fourier transforms and special functions through torch and ndgrad: values, gradients, names of nodes, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.test_elementwise import assert_same

pytestmark = pytest.mark.usefixtures("float64_torch")

INF, NAN = float("inf"), float("nan")
r = np.random.default_rng(3)
REAL = r.standard_normal((3, 4, 6))
COMPLEX = REAL + 1j * r.standard_normal((3, 4, 6))

# ----- Fourier transforms ----------------------------------------------------------------------------------------------

LINES = "fft ifft rfft irfft hfft ihfft".split()
SEVERAL = "fftn ifftn rfftn irfftn hfftn ihfftn".split()
PLANES = "fft2 ifft2 rfft2 irfft2 hfft2 ihfft2".split()
REAL_ONLY = {"rfft", "ihfft", "rfftn", "ihfftn", "rfft2", "ihfft2"}
NORMS = (None, "backward", "ortho", "forward")


def inputs(name):
    return [REAL] if name in REAL_ONLY else [REAL, COMPLEX]


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("norm", NORMS)
def test_one_dimensional_transform(name, norm):
    for x in inputs(name):
        for settings in ({}, {"n": 3}, {"n": 4}, {"n": 9}, {"n": 1}, {"dim": 0}, {"dim": -2, "n": 5}):
            assert_same(lambda lib, x, settings=settings: getattr(lib.fft, name)(x, norm=norm, **settings), x)


@pytest.mark.parametrize("name", [*SEVERAL, *PLANES])
@pytest.mark.parametrize("norm", NORMS)
def test_transform_of_several_dimensions(name, norm):
    dims = {"dim": (0, 2)} if name in PLANES else {"dim": (2, 0, 1)}
    for x in inputs(name):
        for settings in ({}, dims, {"s": (5, 3)}, {"s": (2, 8)}, {"s": (-1, 5), "dim": (2, 1)}, {"s": (4, -1)}, {"dim": (1,)}):
            if name in PLANES and settings == {"s": (5, 3)}:
                settings = {**settings, "dim": (-1, 0)}
            assert_same(lambda lib, x, settings=settings: getattr(lib.fft, name)(x, norm=norm, **settings), x)


def test_positional_arguments():
    assert_same(lambda lib, x: lib.fft.fft(x, 5, 1, "ortho"), COMPLEX)
    assert_same(lambda lib, x: lib.fft.irfftn(x, (2, 4), (0, 1), "forward"), COMPLEX)
    assert_same(lambda lib, x: lib.fft.fftn(x, 3, 1), COMPLEX)


def test_no_dimension_is_the_identity():
    assert_same(lambda lib, x: lib.fft.fftn(x, dim=()), COMPLEX)
    assert_same(lambda lib, x: lib.fft.ifftn(x), 1.5)
    assert_same(lambda lib, x: lib.fft.fftn(x), 1.5 + 0.5j)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int64", "bool"])
@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft", "fftn", "irfft2"])
def test_dtype_of_the_result(name, dtype):
    x = (REAL[0] * 3).astype(dtype)
    got, want = getattr(ndgrad.fft, name)(ndgrad.tensor(x)), getattr(torch.fft, name)(torch.tensor(x)).resolve_conj()
    assert got.numpy().dtype == want.numpy().dtype
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_integers_take_the_default_dtype(default):
    torch.set_default_dtype(getattr(torch, default))
    ndgrad.set_default_dtype(getattr(ndgrad, default))
    assert ndgrad.fft.rfft(ndgrad.arange(4)).numpy().dtype == torch.fft.rfft(torch.arange(4)).numpy().dtype


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), (1, 1)])
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shift(name, dim):
    assert_same(lambda lib, x: getattr(lib.fft, name)(x, dim), REAL[:, :, :5])


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name, n):
    for args in ((n,), (n, 0.25)):
        got, want = (getattr(lib.fft, name)(*args).numpy() for lib in (ndgrad, torch))
        np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize(
    "program",
    [
        lambda lib, x: lib.fft.fft(x),
        lambda lib, x: lib.fft.fft(x * 1j),
        lambda lib, x: lib.fft.rfft2(x),
        lambda lib, x: lib.fft.irfft(x),
        lambda lib, x: lib.fft.hfft(x),
        lambda lib, x: lib.fft.fftshift(x),
        lambda lib, x: lib.fft.fft(x, n=9).grad_fn.next_functions[0][0],
        lambda lib, x: lib.fft.fft(x, n=3).grad_fn.next_functions[0][0],
    ],
)
def test_names_of_nodes(program):
    def name(lib):
        made = program(lib, lib.tensor(REAL, requires_grad=True))
        return (made.grad_fn if hasattr(made, "grad_fn") else made).name()

    assert name(ndgrad) == name(torch)


BAD_TRANSFORMS = {
    "complex input to a real transform": lambda lib, x: lib.fft.rfft(x * 1j),
    "complex input to several": lambda lib, x: lib.fft.ihfftn(x * 1j),
    "no points": lambda lib, x: lib.fft.fft(x, n=0),
    "negative number of points": lambda lib, x: lib.fft.irfft(x, n=-1),
    "one bin": lambda lib, x: lib.fft.irfft(x[..., :1]),
    "empty dimension": lambda lib, x: lib.fft.rfft(x[..., :0]),
    "fractional points": lambda lib, x: lib.fft.fft(x, n=2.5),
    "unknown norm": lambda lib, x: lib.fft.fft(x, norm="none"),
    "no such dim": lambda lib, x: lib.fft.fft(x, dim=3),
    "no such dims": lambda lib, x: lib.fft.fft2(x[0, 0]),
    "dim of 0-d": lambda lib, x: lib.fft.fft(x[0, 0, 0]),
    "half precision": lambda lib, x: lib.fft.fft(x.half()),
    "dims twice": lambda lib, x: lib.fft.fftn(x, dim=(0, -3)),
    "too many sizes": lambda lib, x: lib.fft.fftn(x, s=(2, 2, 2, 2)),
    "sizes and dims": lambda lib, x: lib.fft.fftn(x, s=(2, 2), dim=(0,)),
    "no dim to halve": lambda lib, x: lib.fft.rfftn(x, dim=()),
    "array": lambda lib, x: lib.fft.fft(REAL),
    "shift of 0-d": lambda lib, x: lib.fft.fftshift(x[0, 0, 0]),
    "shift along no such dim": lambda lib, x: lib.fft.fftshift(x, dim=5),
    "negative frequencies": lambda lib, x: lib.fft.fftfreq(-1),
    "integer frequencies": lambda lib, x: lib.fft.fftfreq(4, dtype=lib.int64),
    "number of frequencies": lambda lib, x: lib.fft.rfftfreq(2.5),
    "real out for complex result": lambda lib, x: lib.fft.fft(x, out=lib.empty(0)),
    "out with gradient": lambda lib, x: lib.fft.irfft(x.requires_grad_(), out=lib.empty(0)),
}


@pytest.mark.parametrize("what", BAD_TRANSFORMS)
def test_errors_of_transforms(what):
    classes = []
    for lib in (torch, ndgrad):
        with pytest.raises(Exception) as caught:
            BAD_TRANSFORMS[what](lib, lib.tensor(REAL))
        classes.append(caught.type)
    assert issubclass(classes[1], classes[0]), classes


def test_out():
    for lib in (torch, ndgrad):
        out = lib.empty(0, dtype=lib.complex128)
        assert lib.fft.rfft(lib.tensor(REAL), out=out) is out
        assert tuple(out.shape) == (3, 4, 4)


# ----- special functions -----------------------------------------------------------------------------------------------

ANYWHERE = [0.3, -0.7, 2.5, -3.3, 6.1, 0.0]
POSITIVE = [0.3, 1.0, 2.5, 7.0]
UNARY = {
    **dict.fromkeys("erfcx ndtr log_ndtr i0 i0e i1 i1e expit exp2 expm1 erf erfc sinc".split(), ANYWHERE),
    "gammaln": [*POSITIVE, -0.7, -3.3, 0.0, -0.0, INF, NAN],
    "digamma": [*POSITIVE, -0.7, -3.3, 0.0, -0.0, INF, NAN],
    "psi": POSITIVE,
    "ndtri": [0.1, 0.5, 0.999, 0.0, 1.0, -1.0, 2.0, NAN],
    "entr": [0.3, 1.0, 2.0, 0.0, -1.0, NAN],
    "erfinv": [0.3, -0.9, 1.0],
    "log1p": POSITIVE,
    "logit": [0.3, 0.9],
    "round": [0.5, 1.7],
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    # torch's trigamma, in the gradient of digamma, has nine digits
    rtol = 1e-8 if name in ("digamma", "psi") else 2e-11
    x = [v for v in UNARY[name] if not (name in ("digamma", "psi") and v == INF)]
    assert_same(lambda lib, x: getattr(lib.special, name)(x) * 1.0, x, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("name", "bessel_j0 bessel_j1 modified_bessel_i0 modified_bessel_i1 spherical_bessel_j0".split())
def test_values_of_bessel_functions(name):
    # torch's have about seven digits
    got, want = (getattr(lib.special, name)(lib.tensor(ANYWHERE)).numpy() for lib in (ndgrad, torch))
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    "bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1".split(),
)
def test_values_of_bessel_functions_of_the_second_kind(name):
    got, want = (getattr(lib.special, name)(lib.tensor([*POSITIVE, 0.0])).numpy() for lib in (ndgrad, torch))
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma(n):
    rtol = 1e-8  # torch's trigamma has nine digits
    assert_same(lambda lib, x: lib.special.polygamma(n, x), [*POSITIVE, -0.7, -3.3], rtol=rtol)
    assert_same(lambda lib, x: lib.polygamma(n, x), POSITIVE, rtol=rtol)
    assert_same(lambda lib, x: x.polygamma(n), POSITIVE, rtol=rtol)
    assert_same(lambda lib, x: (x * 1.0).polygamma_(n), POSITIVE, rtol=rtol)


@pytest.mark.parametrize("p", [1, 2, 4])
def test_multigammaln(p):
    x = np.array([1.6, 2.5, 7.0])
    assert_same(lambda lib, x: lib.special.multigammaln(x, p), x, rtol=1e-11)
    assert_same(lambda lib, x: lib.mvlgamma(x, p), x, rtol=1e-11)
    assert_same(lambda lib, x: (x * 1.0).mvlgamma_(p) + x.mvlgamma(p), x, rtol=1e-11)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_in_its_second_argument(name):
    shape = np.array([0.5, 1.0, 2.0, 7.5, 19.0])
    point = np.array([0.2, 1.0, 5.0, 3.0, 18.0])
    top_level = {"gammainc": "igamma", "gammaincc": "igammac"}[name]
    assert_same(lambda lib, x: getattr(lib.special, name)(lib.tensor(shape), x), point, rtol=1e-10)
    assert_same(lambda lib, x: getattr(lib, top_level)(lib.tensor(shape), x), point, rtol=1e-10)
    assert_same(lambda lib, x: getattr(lib.tensor(shape), top_level)(x), point, rtol=1e-10)
    assert_same(lambda lib, x: getattr(lib.tensor(shape), top_level + "_")(x), point, rtol=1e-10)


def test_zeta_in_its_second_argument():
    for q in ([0.5, 1.0, 2.0, 30.0], [-0.5, -1.5]):
        assert_same(lambda lib, x: lib.special.zeta(lib.tensor([[2.0], [4.0]]), x), q, rtol=1e-11)
        assert_same(lambda lib, x: lib.special.zeta(3, x), q, rtol=1e-11)
    assert_same(lambda lib: lib.special.zeta(lib.tensor([1.0, 2.0, 3.5, 0.5]), 2.0), rtol=1e-11)


def test_xlogy_and_xlog1py():
    x, y = [0.0, 0.0, 1.5, 2.0], [-1.0, 2.0, 0.5, 3.0]
    assert_same(lambda lib, x, y: lib.special.xlog1py(x, y), x, y)
    assert_same(lambda lib, x: lib.special.xlog1py(x, 2), x)
    assert_same(lambda lib, y: lib.special.xlog1py(2.0, y), [0.5, 2.0])
    assert_same(lambda lib, x, y: lib.special.xlogy(x, y), x, [0.5, 2.0, 0.5, 3.0])


def test_functions_with_settings():
    x = r.standard_normal((3, 4))
    assert_same(lambda lib, x: lib.special.logsumexp(x, 1, keepdim=True), x)
    assert_same(lambda lib, x: lib.special.softmax(x, 0), x)
    assert_same(lambda lib, x: lib.special.log_softmax(x, 1), x)
    assert_same(lambda lib, x: lib.special.softmax(x, 0, dtype=lib.float32).sum(), x, rtol=1e-6, atol=1e-6)
    assert_same(lambda lib, x: lib.special.logit(x, eps=0.2), [0.1, 0.5, 0.95])
    assert_same(lambda lib, x: lib.special.round(x, decimals=1) * 1.0, [0.25, 1.57])


@pytest.mark.parametrize("name", "lgamma digamma i0".split())
def test_names_beside_the_namespace(name):
    rtol = 1e-8 if name == "digamma" else 1e-11
    assert_same(lambda lib, x: getattr(lib, name)(x), POSITIVE, rtol=rtol)
    assert_same(lambda lib, x: getattr(x, name)(), POSITIVE, rtol=rtol)
    assert_same(lambda lib, x: getattr(x * 1.0, name + "_")(), POSITIVE, rtol=rtol)
    assert hasattr(ndgrad, name + "_") == hasattr(torch, name + "_")


@pytest.mark.parametrize(
    "name", "gammaln digamma erfcx ndtri log_ndtr i0 i0e i1 i1e entr expit sinc erf erfinv".split()
)
def test_name_of_the_node(name):
    assert len({getattr(lib.special, name)(lib.tensor(0.5, requires_grad=True)).grad_fn.name() for lib in (torch, ndgrad)}) == 1


BAD_CALLS = {
    "negative order": lambda lib, x: lib.special.polygamma(-1, x),
    "fractional order": lambda lib, x: lib.special.polygamma(1.5, x),
    "arguments of polygamma exchanged": lambda lib, x: lib.special.polygamma(x, 1),
    "dimension 0": lambda lib, x: lib.special.multigammaln(x, 0),
    "fractional dimension": lambda lib, x: lib.special.multigammaln(x, 1.5),
    "boolean": lambda lib, x: lib.special.multigammaln(x > 0, 1),
    "complex": lambda lib, x: lib.special.gammaln(x * 1j),
    "complex entr": lambda lib, x: lib.special.entr(x * 1j),
    "complex second argument": lambda lib, x: lib.special.zeta(x, x * 1j),
    "numbers": lambda lib, x: lib.special.zeta(2.0, 2.0),
    "in place on integers": lambda lib, x: lib.tensor([1, 2]).lgamma_(),
    "order of zeta with a gradient": lambda lib, x: lib.special.zeta(x.requires_grad_(), 2.0).sum().backward(),
    "out with gradient": lambda lib, x: lib.special.erfcx(x.requires_grad_(), out=lib.empty(0)),
}


@pytest.mark.parametrize("what", BAD_CALLS)
def test_errors_of_special_functions(what):
    classes = []
    for lib in (torch, ndgrad):
        with pytest.raises(Exception) as caught:
            BAD_CALLS[what](lib, lib.tensor([0.5, 2.0]))
        classes.append(caught.type)
    assert issubclass(classes[1], classes[0]), classes


def test_shape_without_a_gradient_is_not_asked_for_one():
    assert_same(lambda lib, x: lib.special.gammainc(x.detach() + 1.0, x), [0.5, 2.0], rtol=1e-11)


@pytest.mark.parametrize("precision", ["float16", "float32", "float64"])
def test_numbers_beside_tensors_do_not_widen_results(precision):
    for program in (
        lambda s, x: s.xlogy(x, 2.0),
        lambda s, x: s.xlogy(2, x),
        lambda s, x: s.xlog1py(x, 2.0),
        lambda s, x: s.xlog1py(2, x),
        lambda s, x: s.zeta(x, 2.0),
        lambda s, x: s.zeta(3.0, x),
        lambda s, x: s.polygamma(2, x),
        lambda s, x: s.multigammaln(x, 1),
        lambda s, x: s.gammainc(x, x),
    ):
        found = []
        for lib in (torch, ndgrad):
            x = lib.tensor([1.5, 2.5], dtype=getattr(lib, precision))
            found.append(str(program(lib.special, x).dtype if precision != "float16" or lib is ndgrad else x.dtype).split(".")[-1])
        assert found == [precision, precision]


def test_out_of_special_functions():
    for lib in (torch, ndgrad):
        out = lib.empty(0)
        assert lib.special.gammaln(lib.tensor([5.0]), out=out) is out
        assert out.tolist() == pytest.approx([3.1780538303479458])
        assert lib.special.polygamma(1, lib.tensor([1.0]), out=out) is out
        assert out.tolist() == pytest.approx([np.pi**2 / 6], rel=1e-8)


def test_every_name_of_torchs_namespaces_is_there():
    beyond = {"airy_ai", "Tensor"}
    orthogonal = {name for name in torch.special.__all__ if "_polynomial_" in name}
    assert set(torch.special.__all__) - beyond - orthogonal - set(ndgrad.special.__all__) == set()
    functions = {n for n in dir(torch.fft) if "fft" in n and not n.startswith("_")}
    assert functions - set(ndgrad.fft.__all__) == set()
