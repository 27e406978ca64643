"""Elementwise functions: argument forms, dtypes, `out=`, in-place forms, operators, views of complex parts, errors."""

from __future__ import annotations

import math
import operator
import warnings

import numpy as np
import pytest

import ndgrad
from ndgrad._src.ops import activation, arithmetic, error_function, exponential, rounding, selection, trigonometric
from ndgrad._src.ops.table import Op
from ndgrad._src.transforms.transforms import jvp, vjp, vmap

FAMILIES = (activation, arithmetic, error_function, exponential, rounding, selection, trigonometric)
# Other ops of these modules, such as glu, change the shape.
OPS = {op.name: op for module in FAMILIES for op in vars(module).values() if isinstance(op, Op) and op.batch == "elementwise"}
HOLOMORPHIC = (
    "add sub mul div neg reciprocal pow square sqrt rsqrt addcmul addcdiv exp exp2 expm1 log log2 log10 log1p logaddexp sin cos tan "
    "asin acos atan sinh cosh tanh asinh acosh atanh sinc sigmoid silu silu_slope where lerp"
)
REAL_ONLY = (activation.relu, activation.logit, activation.log_sigmoid, activation.softshrink, activation.softsign)
POINTS = np.array([0.3, 0.6, 0.8])


def tensor(a, requires_grad=True):
    return ndgrad.tensor(np.array(a), requires_grad=requires_grad and np.asarray(a).dtype.kind in "fc")


def arguments(op, dtype):
    """Return arrays on which every op of these families is defined."""
    made = []
    for position, name in enumerate(op.args):
        if name in ("condition", "mask"):
            made.append(tensor(np.array([True, False, True])))
        else:
            shift = 1.0 if op.name == "acosh" else 0.0
            made.append(tensor((POINTS[::-1] if position % 2 else POINTS + shift).astype(dtype)))
    return made


# ----- dtypes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", sorted(OPS))
def test_values_and_gradients_keep_a_narrow_dtype(name, dtype):
    op = OPS[name]
    args = arguments(op, dtype)
    out = op(*args)
    assert out.dtype == (np.int32 if name == "binary_exponent" else dtype)
    if op.differentiable:
        out.backward(ndgrad.tensor(np.ones(out.shape, dtype)))
        for a in args:
            assert a.grad is None or a.grad.dtype == dtype


@pytest.mark.parametrize("name", HOLOMORPHIC.split())
def test_values_and_gradients_keep_complex64(name):
    op = OPS[name]
    args = arguments(op, np.complex64)
    out = op(*args)
    assert out.dtype == np.complex64
    out.backward(ndgrad.tensor(np.ones(out.shape, np.complex64)))
    assert args[-1].grad.dtype == np.complex64


@pytest.mark.parametrize("name", "pow xlogy xlog1py maximum fmin atan2 hypot logaddexp copysign remainder ldexp".split())
@pytest.mark.parametrize("number", [2, 0.5])
def test_a_number_does_not_widen_float32(name, number):
    for args in ((tensor(np.float32(POINTS)), number), (number, tensor(np.float32(POINTS)))):
        if name == "ldexp" and args[0] is number:
            continue
        out = OPS[name](*args)
        assert out.dtype == np.float32
        out.sum().backward()
        assert next(a for a in args if a is not number).grad.dtype == np.float32


def test_integers_become_floats_where_the_function_needs_them():
    x = tensor([1, 4, 9])
    assert x.sqrt().tolist() == [1.0, 2.0, 3.0]
    assert x.reciprocal().tolist() == [1.0, 0.25, 1 / 9]
    assert (x / 2).tolist() == [0.5, 2.0, 4.5]
    assert (x // 2).tolist() == [0, 2, 4]
    assert x.relu().dtype == x.clamp(0, 5).dtype == x.floor().dtype == np.int64


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "mish", "silu", "gelu", "log_sigmoid", "elu"])
def test_extreme_inputs_neither_warn_nor_spoil(name):
    for dtype, largest in ((np.float64, 1e4), (np.float32, 1e4), (np.float16, 3e4)):
        x = tensor(np.array([-largest, -100, -20, 0, 20, 100, largest], dtype))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out = OPS[name](x)
        out.backward(ndgrad.tensor(np.ones(7, dtype)))
        assert np.isfinite(out.detach().numpy()).all()
        assert np.isfinite(x.grad.numpy()).all()


# ----- large arrays --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if len(op.args) == 1))
def test_large_arrays_agree_with_small_ones(name):
    op = OPS[name]
    x = np.random.default_rng(0).uniform(1.01 if name == "acosh" else 0.01, 2.0 if name == "acosh" else 0.99, 140000)
    for array in (x, x[::-1].reshape(-1, 7).T):
        whole = op(ndgrad.tensor(array)).numpy().ravel()
        parts = [op(ndgrad.tensor(part)).numpy() for part in np.array_split(array.ravel(), 50)]
        np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-14)


def test_gelu_of_many_singles_agrees_with_double_precision():
    x = np.concatenate([np.linspace(-9, 9, 6001), [0.0, -0.0, 1e-20, -1e18, 1e18]]).astype(np.float32)
    t = tensor(x)
    out = activation.gelu(t)
    out.backward(ndgrad.tensor(np.ones_like(x)))
    wide = x.astype(float)
    normal = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in wide])
    slope = normal + wide * np.exp(-wide * wide / 2) / math.sqrt(2 * math.pi)
    assert (np.abs(out.detach().numpy() - wide * normal) <= 4e-7 * np.abs(wide)).all()
    np.testing.assert_allclose(t.grad.numpy(), slope, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.complex128])
@pytest.mark.parametrize("shape", [(5000,), (50, 100)])
def test_selection_of_many_elements_is_exact_for_every_value(dtype, shape):
    r = np.random.default_rng(0)
    x, y = (r.standard_normal(shape).astype(dtype) for _ in range(2))
    x.flat[:5] = y.flat[3:8] = [np.nan, np.inf, -np.inf, -0.0, 0.0]
    mask = r.random(shape) < 0.5
    for a, b, m in ((x, y, mask), (x.T, y.T, mask.T), (x[..., ::2], y[..., ::2], mask[..., ::2])):
        want = np.where(m, a, b)
        got = selection.where(tensor(m), tensor(a), tensor(b)).detach().numpy()
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got.real), np.signbit(want.real))
        np.testing.assert_array_equal(selection.keep(tensor(a), tensor(m)).detach().numpy(), np.where(m, a, 0))
    for narrow in (y.ravel()[0], y[..., :1]):
        got = selection.where(tensor(mask), tensor(narrow), tensor(x)).detach().numpy()
        np.testing.assert_array_equal(got, np.where(mask, narrow, x))


# ----- out= and in place ---------------------------------------------------------------------------------------------


PUBLIC = (
    "exp log sqrt sin tanh sigmoid relu abs floor round square reciprocal erf logit sinc sign nan_to_num positive hardshrink selu celu "
    "neg rsqrt exp2 deg2rad frac"
)
PUBLIC_BINARY = "add sub mul div pow remainder fmod atan2 hypot maximum fmin copysign logaddexp xlogy clamp_min float_power ldexp"


@pytest.mark.parametrize("name", [n for n in (PUBLIC + " " + PUBLIC_BINARY).split() if n not in ("positive", "selu", "celu")])
def test_out_receives_the_result(name):
    args = [tensor(POINTS, False)] * (2 if name in PUBLIC_BINARY.split() else 1)
    function = getattr(ndgrad, name)
    out = ndgrad.tensor(np.zeros(3))
    version = out._version
    assert function(*args, out=out) is out
    assert out._version > version
    np.testing.assert_array_equal(out.numpy(), function(*args).numpy())
    resized = ndgrad.tensor(np.zeros(0))
    assert function(*args, out=resized).shape == (3,)


IN_PLACE = sorted(name[:-1] for name in dir(ndgrad.Tensor) if name[:-1] in OPS and name.endswith("_") and not name.startswith("_"))


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_equals_out_of_place(name):
    op = OPS[name]
    shared = {"clamp": (0.4, 0.7)}.get(name)

    def run(in_place):
        first, *others = arguments(op, np.float64)
        others = shared or others
        start = first * 1.0
        version = start._version
        out = getattr(start, name + "_" if in_place else name)(*others)
        assert (out is start) is in_place
        assert start._version == version + in_place
        (out * np.array([1.0, 2.0, 3.0])).sum().backward()
        return out, [a.grad for a in (first, *others) if isinstance(a, ndgrad.Tensor)]

    (want, want_grads), (got, got_grads) = run(False), run(True)
    np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())
    assert len(IN_PLACE) > 60
    for g, w in zip(got_grads, want_grads, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-14)


def test_in_place_write_that_does_not_fit_changes_nothing():
    x = tensor([1, 2, 3])
    for name, other in (("add_", 0.5), ("div_", 2), ("mul_", ndgrad.tensor(np.ones((2, 3)))), ("float_power_", 2)):
        with pytest.raises(RuntimeError):
            getattr(x, name)(other)
        assert x.tolist() == [1, 2, 3]
        assert x._version == 0


# ----- operators -----------------------------------------------------------------------------------------------------


def test_operators_give_what_numpy_gives():
    a, b = np.array([7.5, -2.0, 3.0]), np.array([2.0, 3.0, -4.0])
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge"):
        f = getattr(operator, name)
        with np.errstate(invalid="ignore"):
            for x, y in ((a, b), (a, 2), (3.0, b), (a, b[0])):
                got = f(*(tensor(v) if isinstance(v, np.ndarray) else v for v in (x, y)))
                assert isinstance(got, ndgrad.Tensor)
                np.testing.assert_array_equal(got.detach().numpy(), f(x, y))
    for name in ("neg", "pos", "abs"):
        np.testing.assert_array_equal(getattr(operator, name)(tensor(a)).detach().numpy(), getattr(operator, name)(a))
    i, j = np.array([5, 12, -7]), np.array([1, 2, 3])
    for name in ("and_", "or_", "xor", "lshift", "rshift"):
        f = getattr(operator, name)
        np.testing.assert_array_equal(f(tensor(i), tensor(j)).numpy(), f(i, j))
        np.testing.assert_array_equal(f(9, tensor(j)).numpy(), f(9, j))
    np.testing.assert_array_equal((~tensor(i)).numpy(), ~i)


def test_in_place_operators_write_and_record():
    x = tensor([1.0, 2.0, 4.0])
    y = x * 1.0
    same = y
    y += 1
    y *= x
    y -= 0.5
    y /= 2.0
    y **= 2
    y %= 50.0
    y //= 1.0
    assert y is same
    np.testing.assert_allclose(y.detach().numpy(), (((np.array([1.0, 2.0, 4.0]) + 1) * [1, 2, 4] - 0.5) / 2) ** 2 % 50 // 1)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    z = tensor([6, 3])
    z &= 5
    z |= 8
    z ^= 1
    z <<= 2
    z >>= 1
    assert z.tolist() == [((((v & 5) | 8) ^ 1) << 2) >> 1 for v in (6, 3)]


def test_divmod_round_and_trunc():
    x = tensor([7.5, -2.26])
    quotient, rest = divmod(x, 2)
    assert quotient.tolist() == [3.0, -2.0]
    np.testing.assert_allclose(rest.tolist(), [1.5, 1.74])
    quotient, rest = divmod(7, tensor([2.0, -3.0]))
    assert quotient.tolist() == [3.0, -3.0]
    assert rest.tolist() == [1.0, -2.0]
    assert round(x).tolist() == [8.0, -2.0]
    assert round(x, 1).tolist() == [7.5, -2.3]
    one = tensor(2.7, False)
    assert (math.floor(one), math.ceil(one), math.trunc(one)) == (2, 3, 2)


def test_an_operand_nobody_knows_gets_its_own_chance():
    class Other:
        def __radd__(self, left):
            return "radd"

        def __eq__(self, left):
            return "eq"

        __hash__ = None

    x = tensor([1.0])
    assert x + Other() == "radd"
    assert (x == Other()) == "eq"
    x += Other()
    assert x == "radd"


def test_raw_arrays_are_constants():
    x = tensor([1.0, 2.0])
    (x * np.array([3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


# ----- argument forms ------------------------------------------------------------------------------------------------


def test_alpha():
    x, y = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    assert ndgrad.add(x, y, alpha=2).tolist() == [7.0, 10.0]
    assert x.sub(y, alpha=0.5).tolist() == [-0.5, 0.0]
    assert ndgrad.rsub(x, 10, alpha=3).tolist() == [7.0, 4.0]
    assert ndgrad.add(x, 1, alpha=5).tolist() == [6.0, 7.0]


def test_where_forms():
    condition = tensor([True, False])
    assert ndgrad.where(condition, 1, 0).dtype == np.int64
    ndgrad.set_default_dtype(np.float32)
    assert ndgrad.where(condition, 1.0, 0.0).dtype == np.float32
    assert ndgrad.where(condition, ndgrad.tensor(np.ones(2)), 0.0).dtype == np.float64
    with pytest.raises(TypeError, match="Give `input` and `other`"):
        ndgrad.where(condition, 1.0)


def test_keywords_of_torch():
    x = tensor([0.2, 0.7], False)
    assert ndgrad.clamp(input=x, min=0.3, max=0.5).tolist() == [0.3, 0.5]
    assert ndgrad.pow(input=x, exponent=1).tolist() == [0.2, 0.7]
    assert ndgrad.lerp(input=x, end=x, weight=0.5).tolist() == [0.2, 0.7]
    assert ndgrad.heaviside(input=x, values=x).tolist() == [1.0, 1.0]
    assert ndgrad.polar(abs=x, angle=x * 0).real.tolist() == [0.2, 0.7]
    assert ndgrad.addcmul(input=x, tensor1=x * 0, tensor2=x, value=3).tolist() == [0.2, 0.7]
    assert ndgrad.where(condition=x > 0.5, input=x, other=0.0).tolist() == [0.0, 0.7]
    assert ndgrad.add(input=x, other=1, alpha=0).tolist() == [0.2, 0.7]


# ----- complex parts are views ---------------------------------------------------------------------------------------


def test_parts_of_a_complex_tensor_are_views_of_it():
    z = tensor([1 + 2j, 3 + 4j], False)
    ndgrad.real(z).mul_(10)
    z.imag.zero_()
    assert z.tolist() == [10 + 0j, 30 + 0j]
    assert z._version == 2
    assert z.real._base is z


def test_real_and_conj_of_a_real_tensor_are_the_tensor():
    x = tensor([1.0])
    assert ndgrad.real(x) is x
    assert ndgrad.conj(x) is x
    assert x.resolve_conj() is x
    assert not x.is_conj()


def test_gradients_through_both_parts_of_a_0d_tensor_add_up():
    z = tensor(1 + 2j)
    (z.real * 3 + z.imag * 5).backward()
    assert z.grad.item() == 3 + 5j


def test_gradients_through_writes_to_parts():
    z, y = tensor([1 + 2j, 3 + 4j]), tensor([2.0, 5.0])
    w = z * 1.0
    w.real.mul_(y)
    (w.real * np.array([1.0, 10.0])).sum().backward()
    assert z.grad.tolist() == [2 + 0j, 50 + 0j]
    assert y.grad.tolist() == [1.0, 30.0]


# ----- derivatives that are easy to get wrong ------------------------------------------------------------------------


def derivative(f, order):
    if order == 0:
        return f
    inner = derivative(f, order - 1)
    return lambda x: jvp(inner, (x,), (ndgrad.tensor(np.ones(x.shape)),))[1]


def test_derivatives_of_sinc_at_zero_are_those_of_its_series():
    got = [derivative(ndgrad.sinc, n)(tensor(0.0, False)).item() for n in range(5)]
    np.testing.assert_allclose(got, [1, 0, -(math.pi**2) / 3, 0, math.pi**4 / 5], atol=1e-12)


def test_second_derivatives_where_a_branch_is_infinite():
    x = tensor([1000.0, 1.0], False)
    for f in (ndgrad.selu, ndgrad.celu, activation.softplus, activation.mish):
        assert np.isfinite(derivative(f, 2)(x).numpy()).all()


def test_mixed_derivative_of_pow_at_exponent_zero():
    """d/dy (y x^(y-1)) at y = 0 is 1/x."""
    x = tensor([2.0, 0.5], False)
    _, pull = vjp(lambda y: jvp(lambda x: x**y, (x,), (ndgrad.tensor(np.ones(2)),))[1], tensor([0.0, 0.0], False))
    np.testing.assert_allclose(pull(ndgrad.tensor(np.ones(2)))[0].numpy(), [0.5, 2.0])


def test_derivative_of_polar_does_not_vanish_at_radius_zero():
    radius, angle = tensor([0.0]), tensor([0.5])
    ndgrad.polar(radius, angle).real.sum().backward()
    np.testing.assert_allclose(radius.grad.numpy(), math.cos(0.5))


def test_xlogy_has_slope_log_y_at_zero():
    x = tensor([0.0, 0.0])
    ndgrad.xlogy(x, ndgrad.tensor(np.array([2.0, 0.0]))).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [math.log(2), 0.0])


def test_an_infinite_gradient_stops_where_the_value_was_not_taken():
    for f in (
        ndgrad.relu,
        lambda x: ndgrad.clamp(x, min=0.0),
        lambda x: ndgrad.where(x > 0, x, 0.0),
        lambda x: activation.hardtanh(x, min_val=0.0, max_val=9.0),
    ):
        for n in (1, 5000):
            x = tensor(-np.ones(n))
            f(x).sqrt().sum().backward()
            assert not x.grad.numpy().any()


def test_steps_have_zero_gradients_not_missing_ones():
    for name in ("floor", "ceil", "trunc", "round", "sign", "sgn", "angle"):
        x = tensor([1.3, -0.4])
        getattr(ndgrad, name)(x).sum().backward()
        assert x.grad.tolist() == [0.0, 0.0], name
    x, y = tensor([7.0]), tensor([2.0])
    (x // y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0], [0.0])


# ----- under transforms ----------------------------------------------------------------------------------------------


def test_public_functions_under_vmap():
    x, y = np.arange(6.0).reshape(3, 2) - 2.5, np.arange(2.0)

    def f(a, b):
        c = ndgrad.where(a > 0, a, b)
        return ndgrad.clamp(c, min=b - 1.0, max=1.5) + ndgrad.lerp(a, b, 0.25) + a.sign() * ndgrad.add(a, b, alpha=2.0)

    got = vmap(f, in_dims=(0, None))(ndgrad.tensor(x), ndgrad.tensor(y))
    rows = [f(ndgrad.tensor(row), ndgrad.tensor(y)).numpy() for row in x]
    np.testing.assert_allclose(got.numpy(), np.stack(rows))


# ----- errors --------------------------------------------------------------------------------------------------------


def test_errors_say_what_to_do():
    x = tensor([1.0])
    for call, error, hint in (
        (lambda: ndgrad.imag(x), RuntimeError, "zeros_like"),
        (lambda: ndgrad.div(x, x, rounding_mode="up"), RuntimeError, "'trunc', or 'floor'"),
        (lambda: ndgrad.clamp(x), RuntimeError, "Give a bound"),
        (lambda: ndgrad.sign(tensor([1j])), NotImplementedError, "sgn"),
        (lambda: ndgrad.where(x, x, x), RuntimeError, "condition != 0"),
        (lambda: ndgrad.complex(tensor([1]), tensor([1])), RuntimeError, "Convert them"),
        (lambda: ndgrad.complex(x, tensor(np.float32([1.0]))), RuntimeError, "Convert one"),
        (lambda: ndgrad.add(tensor([1]), tensor([1]), alpha=0.5), RuntimeError, "give an integer"),
        (lambda: ndgrad.celu(x, 0.0), RuntimeError, "positive number"),
        (lambda: ndgrad.real(2.0), TypeError, "as_tensor"),
        (lambda: ndgrad.exp(2.0), TypeError, "as_tensor"),
        (lambda: +tensor([True]), RuntimeError, "integer dtype"),
        (lambda: tensor([True]).relu(), RuntimeError, "integer or floating-point"),
        (lambda: tensor([1j], False).abs_(), RuntimeError, "abs()"),
        *((lambda op=op: op(tensor([1j])), NotImplementedError, ".abs()") for op in REAL_ONLY),
        (lambda: tensor(np.float32([2.0]), False).float_power_(2), RuntimeError, "makes a new tensor"),
    ):
        with pytest.raises(error) as raised:
            call()
        assert hint in str(raised.value)



def test_shapes_and_dtypes_on_the_meta_device():
    a, b = ndgrad.empty(2, 3, device="meta", dtype=ndgrad.float32), ndgrad.empty(3, device="meta", dtype=ndgrad.float32)
    for f, dtype in ((ndgrad.heaviside, ndgrad.float32), (ndgrad.complex, ndgrad.complex64), (ndgrad.polar, ndgrad.complex64)):
        made = f(a, b)
        assert made.device.type == "meta"
        assert (tuple(made.shape), made.dtype) == ((2, 3), dtype)
