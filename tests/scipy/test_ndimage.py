"""`ndgrad.scipy.ndimage` beside `scipy.ndimage`: values in all modes, derivatives in images, weights, places and parameters."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad.numpy as dnp

scipys = pytest.importorskip("scipy.ndimage")
from tests.scipy.checking import check, plain  # noqa: E402

from ndgrad.scipy import ndimage  # noqa: E402

R = np.random.default_rng(2)
LINE = R.standard_normal(7)
IMAGE = R.standard_normal((5, 6))
CUBE = R.standard_normal((4, 3, 5))
MODES = ["reflect", "constant", "nearest", "mirror", "wrap"]
SAMPLED = [*MODES, "grid-wrap", "grid-constant", "grid-mirror"]


def both(name, *before, **settings):
    return tuple(lambda *a, s=s: getattr(s, name)(*a, *before, **settings) for s in (ndimage, scipys))


@pytest.mark.parametrize("mode", MODES)
def test_correlations(mode):
    for weights in (R.standard_normal(3), R.standard_normal(4), R.standard_normal(9)):
        for name in ("correlate1d", "convolve1d"):
            check(*both(name, mode=mode, cval=0.7), LINE, weights, second=False)
            check(*both(name, axis=0, mode=mode, origin=1), IMAGE, weights, second=False, vmap=False)
            check(*both(name, mode=mode, origin=-1), IMAGE, weights, second=False, vmap=False)
    for weights in (R.standard_normal((3, 3)), R.standard_normal((2, 4))):
        for name in ("correlate", "convolve"):
            check(*both(name, mode=mode, cval=0.7), IMAGE, weights, second=False)
            check(*both(name, mode=mode, origin=(0, -1)), IMAGE, weights, second=False, vmap=False)
            check(*both(name, mode=mode, axes=(0, 2)), CUBE, weights, second=False, vmap=False)


@pytest.mark.parametrize("mode", MODES)
def test_smoothing_and_derivatives(mode):
    check(*both("gaussian_filter1d", mode=mode), IMAGE, np.array(0.8), step=1e-4, vmap=False)
    for order in (1, 2, 3):
        check(*both("gaussian_filter1d", order=order, mode=mode), LINE, np.array(0.8), second=False, step=1e-4, vmap=False)
    check(*both("gaussian_filter", mode=mode), IMAGE, np.array([0.8, 1.2]), second=False, step=1e-4, vmap=False)
    check(*both("gaussian_filter", 0.9, order=(1, 0), mode=mode, truncate=2.0), IMAGE, second=False)
    check(*both("gaussian_filter", 0.9, mode=mode, axes=(1,), radius=2), CUBE, second=False)
    check(*both("gaussian_laplace", 0.9, mode=mode), IMAGE, second=False)
    check(*both("gaussian_gradient_magnitude", 0.9, mode=mode), IMAGE)
    for name in ("sobel", "prewitt"):
        check(*both(name, mode=mode), IMAGE, second=False)
        check(*both(name, axis=0, mode=mode), CUBE, second=False, vmap=False)
    check(*both("laplace", mode=mode), CUBE, second=False)
    check(*both("uniform_filter", size=(3, 2), mode=mode), IMAGE, second=False)
    check(*both("uniform_filter1d", size=4, axis=0, mode=mode, origin=1), IMAGE, second=False)


def test_generic_derivatives_call_a_function_of_the_users():
    def second(input, axis, output, mode, cval, weight):
        module = ndimage if isinstance(input, dnp.Array) else scipys
        return (
            module.correlate1d(input, [weight, -2.0 * weight, weight], axis, output, mode, cval)
            if module is scipys
            else module.correlate1d(input, [weight, -2.0 * weight, weight], axis, mode=mode, cval=cval)
        )

    check(*both("generic_laplace", second, extra_arguments=(1.5,)), IMAGE, second=False)
    check(*both("generic_gradient_magnitude", second, extra_arguments=(1.5,)), IMAGE, second=False)


@pytest.mark.parametrize("mode", MODES)
def test_order_filters_and_morphology(mode):
    footprint = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 1]], bool)
    settings = {"second": False, "step": 1e-6}
    for name in ("maximum_filter", "minimum_filter", "median_filter"):
        check(*both(name, size=(2, 3), mode=mode, cval=0.3), IMAGE, **settings)
        check(*both(name, footprint=footprint, mode=mode, origin=(0, 1)), IMAGE, **settings, vmap=False)
        check(*both(name, size=3, axes=(1,), mode=mode), CUBE, **settings, vmap=False)
    for name in ("maximum_filter1d", "minimum_filter1d"):
        check(*both(name, size=4, axis=0, mode=mode, origin=-1), IMAGE, **settings, vmap=False)
    check(*both("rank_filter", -2, size=3, mode=mode), IMAGE, **settings, vmap=False)
    check(*both("percentile_filter", 30, size=3, mode=mode), IMAGE, **settings, vmap=False)
    names = (
        "grey_erosion",
        "grey_dilation",
        "grey_opening",
        "grey_closing",
        "morphological_gradient",
        "morphological_laplace",
        "white_tophat",
        "black_tophat",
    )
    for name in names:
        check(*both(name, size=(3, 2), mode=mode), IMAGE, **settings, vmap=False)
        check(*both(name, footprint=footprint, mode=mode), IMAGE, **settings, vmap=False)
        structure = R.standard_normal((2, 3))
        check(
            *(lambda t, h, s=s, name=name: getattr(s, name)(t, structure=h, mode=mode) for s in (ndimage, scipys)),
            IMAGE,
            structure,
            **settings,
            vmap=False,
        )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("mode", SAMPLED)
def test_map_coordinates(mode, order):
    places = R.uniform(-9, 14, (2, 12))
    places[:, :6] = R.uniform(0.1, 3.9, (2, 6))
    settings = {"step": 1e-5, "tolerance": 1e-5, "second": order == 3 and mode == "mirror"}
    check(*both("map_coordinates", order=order, mode=mode, cval=0.4), IMAGE, places, **settings, vmap=order in (1, 3))
    check(
        *both("map_coordinates", order=order, mode=mode),
        LINE,
        R.uniform(-3, 9, (1, 2, 3)),
        second=False,
        vmap=False,
        step=1e-5,
        tolerance=1e-5,
    )
    if order > 1:
        check(
            *both("map_coordinates", order=order, mode=mode, prefilter=False),
            IMAGE,
            places,
            second=False,
            vmap=False,
            step=1e-5,
            tolerance=1e-5,
        )


def test_coordinates_at_pixels_give_pixels():
    rows, columns = np.indices(IMAGE.shape).reshape(2, -1).astype(float)
    for mode in SAMPLED:
        for order in (0, 1, 3):
            np.testing.assert_allclose(
                plain(ndimage.map_coordinates(IMAGE, [rows, columns], order=order, mode=mode)), IMAGE.ravel(), atol=1e-5
            )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("mode", ["constant", "nearest", "mirror", "wrap", "reflect", "grid-wrap"])
def test_transformations(mode, order):
    settings = {"second": False, "vmap": False, "step": 1e-5, "tolerance": 1e-5}
    turn = np.array([[0.9317, 0.3123], [-0.2671, 1.1319]])
    check(*both("affine_transform", order=order, mode=mode), IMAGE, turn, np.array([0.317, -0.213]), **settings)
    check(
        *(lambda t, m, s=s: s.affine_transform(t, m, output_shape=(3, 8), order=order, mode=mode) for s in (ndimage, scipys)),
        IMAGE,
        np.hstack([turn, [[0.2133], [0.4177]]]),
        **settings,
    )
    check(
        *(lambda t, m, s=s: s.affine_transform(t, m, 0.37, order=order, mode=mode) for s in (ndimage, scipys)),
        IMAGE,
        np.array([0.9133, 1.1577]),
        **settings,
    )
    check(*both("shift", order=order, mode=mode), IMAGE, np.array([0.4, -1.3]), **settings)
    for factor in (1.6, 0.7, (2.0, 0.5)):
        check(*both("zoom", factor, order=order, mode=mode), IMAGE, **settings)
    check(*both("zoom", 2, order=order, mode=mode, grid_mode=True), IMAGE, **settings)
    for reshape in (True, False):
        check(
            *(
                lambda t, a, s=s, reshape=reshape: s.rotate(t, a if s is ndimage else float(a), reshape=reshape, order=order, mode=mode)
                for s in (ndimage, scipys)
            ),
            IMAGE,
            np.array(23.0),
            **settings,
        )
    check(*both("rotate", 31.0, axes=(2, 0), order=order, mode=mode), CUBE, **settings)
    check(*both("spline_filter", order=order + 1, mode=mode), IMAGE, **settings)
    check(*both("spline_filter1d", order=order, axis=0, mode="reflect"), IMAGE, **settings)


def test_geometric_transform_calls_a_mapping_on_all_places():
    mapping = lambda place: (place[0] * 0.8 + 0.2, place[1] - 0.3 * place[0])
    check(*both("geometric_transform", mapping, order=3, mode="nearest"), IMAGE, second=False, vmap=False)


def test_measurements_of_labels():
    labels = R.integers(0, 4, IMAGE.shape)
    for name in ("sum_labels", "mean", "variance", "standard_deviation", "minimum", "maximum", "median"):
        for more in ((), (labels,), (labels, 2), (labels, [1, 3])):
            check(*both(name, *more), IMAGE, second=False, vmap=False, step=1e-7)  # two pixels are 6e-6 apart
    for more in ((), (labels, 2), (labels, [1, 3])):
        check(*both("center_of_mass", *more), abs(IMAGE), second=False, vmap=False)


def test_filters_of_spectra():
    spectrum = np.fft.fft2(IMAGE)
    for name, value in (("fourier_gaussian", 0.7), ("fourier_shift", 1.3), ("fourier_uniform", 2.5)):
        check(
            lambda z, v, name=name: getattr(ndimage, name)(z, v),
            lambda z, v, name=name: getattr(scipys, name)(z, float(v)),
            spectrum,
            np.array(value),
            second=False,
            vmap=False,
        )
        half = np.fft.rfft2(IMAGE)
        np.testing.assert_allclose(plain(getattr(ndimage, name)(half, value, n=6)), getattr(scipys, name)(half, value, n=6), atol=1e-12)


def test_whole_numbers_output_and_other_names():
    whole = R.integers(0, 9, (4, 5))
    mine = ndimage.uniform_filter(whole, 3)
    np.testing.assert_array_equal(plain(mine), scipys.uniform_filter(whole, 3))
    assert mine.dtype == whole.dtype
    out = dnp.zeros(IMAGE.shape)
    image = dnp.array(IMAGE).requires_grad_()
    ndimage.gaussian_filter(image, 1.0, output=out)
    assert out.requires_grad
    np.testing.assert_allclose(plain(out), scipys.gaussian_filter(IMAGE, 1.0))
    with pytest.raises(NotImplementedError, match="indices"):
        ndimage.distance_transform_edt(image)
    np.testing.assert_array_equal(ndimage.label(image > 0)[0], scipys.label(IMAGE > 0)[0])
    for name in scipys.__all__:
        assert getattr(ndimage, name) is not None


@pytest.mark.parametrize("image", [[[0, 5, 2], [2, 9, 3]], [[0.0, 5.0, 2.0], [2.0, 9.0, 3.0]]])
def test_parameters_stand_in_scipys_order(image):
    x = np.array(image)
    for name, args in (
        ("gaussian_filter", (1.0, 0, None, "wrap")),
        ("uniform_filter", (3, None, "nearest")),
        ("shift", (1, None, 1, "wrap")),
        ("maximum_filter", (3, None, None, "constant", 7)),
        ("grey_dilation", (3, None, None, None, "mirror")),
    ):
        expected = getattr(scipys, name)(x, *args)
        got = getattr(ndimage, name)(x, *args)
        assert np.allclose(np.asarray(got), expected), name
    target = np.zeros(x.shape)
    ndimage.gaussian_filter(x.astype(float), 1.0, 0, target)
    assert np.allclose(target, scipys.gaussian_filter(x.astype(float), 1.0))


def test_a_gaussian_of_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="trunkate"):
        ndimage.gaussian_laplace([0.0, 1.0, 0.0], 1.0, trunkate=2.0)
