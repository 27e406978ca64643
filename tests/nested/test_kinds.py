"""Rules by the kind of a function, each against the same function of the components."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ndgrad
from ndgrad._src.ops.table import table
from ndgrad._src.tensor import families
from ndgrad._src.tensor.public import is_public
from ndgrad.nn import functional as F
from tests.nested.components import agree, arrays, check, nested

UNARY = sorted(
    name
    for name, op in table.items()
    if op.elementwise and len(op.args) == 1 and op.outputs == 1 and not op.settings and hasattr(ndgrad, name)
)
BINARY = "add sub mul div pow atan2 maximum minimum logaddexp hypot fmax fmin copysign xlogy remainder".split()


@pytest.mark.parametrize("name", UNARY)
def test_an_elementwise_function_of_one_argument(name):
    f = getattr(ndgrad, name)
    parts = arrays(3)
    try:
        dense = f(ndgrad.tensor(parts[0]))
    except (RuntimeError, TypeError):  # functions of integers or complex numbers only
        pytest.skip("not for real numbers")
    if dense.is_floating_point() and table[name].differentiable:
        check(f, parts)
    else:
        agree(f(nested(parts)), [f(ndgrad.tensor(p[None])) for p in parts])


@pytest.mark.parametrize("name", BINARY)
def test_an_elementwise_function_of_two_arguments(name):
    f = getattr(ndgrad, name)
    check(f, arrays(3), arrays(3, low=1.1, high=1.9))
    check(f, arrays(3), dense=[np.linspace(1.1, 1.3, 3)])
    check(lambda x, d: f(d, x), arrays(3), dense=[np.linspace(1.1, 1.3, 3)])
    check(lambda x: f(x, f(x, x * 2).sum(-1, keepdim=True).abs() + 1), arrays(3))


@pytest.mark.parametrize(
    "f",
    [
        F.gelu,
        F.silu,
        F.softplus,
        F.elu,
        F.logsigmoid,
        F.hardswish,
        F.mish,
        lambda x: F.normalize(x, dim=-1),
        lambda x: F.normalize(x, dim=1),
        lambda x: x.clamp(0.3, 0.6),
        lambda x: ndgrad.where(x > 0.5, x, x * 2),
        lambda x: ndgrad.addcmul(x, x, x, value=0.5),
        lambda x: x.lerp(x * x, 0.3),
        lambda x: x.masked_fill(x > 0.5, 0.1),
        lambda x: F.glu(x, -1) if x.shape[-1] % 2 == 0 else x * 2,
        lambda x: 2.0 - x,
        lambda x: 2.0**x,
    ],
    ids=range(17),
)
def test_functions_made_of_elementwise_ops(f):
    check(f, arrays(4))


@pytest.mark.parametrize("shape", [(4,), (1, 4), (1, 1, 4), (1, 1, 1), ()])
def test_dense_tensors_broadcast_and_get_their_gradient(shape):
    check(lambda x, d: x * d + d, arrays(4), dense=[np.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape)])


@pytest.mark.parametrize("tail", [(1, 3), (1, 1), (4, 3)])
def test_dense_tensors_with_a_batch_are_taken_component_by_component(tail):
    parts = arrays(3)
    d = ndgrad.tensor(np.random.default_rng(0).normal(size=(4, *tail)), requires_grad=True)
    x = nested(parts, True)
    y = x * d
    for i, part in enumerate(y.unbind()):
        row = d[i][: len(parts[i])] if tail[0] > 1 else d[i]
        np.testing.assert_allclose(part.detach().numpy(), parts[i] * row.detach().numpy())
    y.sum().backward()
    padded = nested([p * 0 + 1 for p in parts]).to_padded_tensor(0.0).numpy()
    full = nested(parts).to_padded_tensor(0.0).numpy()
    expected = (full * padded).sum(axis=tuple(n + 1 for n, s in enumerate(tail) if s == 1), keepdims=True)
    np.testing.assert_allclose(d.grad.numpy(), expected)


REDUCTIONS = {
    "sum": lambda x, **o: x.sum(**o),
    "mean": lambda x, **o: x.mean(**o),
    "prod": lambda x, **o: x.prod(**o),
    "amax": lambda x, **o: x.amax(**o),
    "amin": lambda x, **o: x.amin(**o),
    "logsumexp": lambda x, **o: x.logsumexp(**o),
    "var": lambda x, **o: x.var(correction=0, **o),
    "norm": lambda x, **o: x.norm(**o),
    "max": lambda x, **o: x.max(**o).values,
    "vector_norm": lambda x, **o: ndgrad.linalg.vector_norm(x, **o),
    "nansum": lambda x, **o: x.nansum(**o),
    "median": lambda x, **o: x.median(**o).values,
    "frobenius": lambda x, **o: ndgrad.norm(x, 2, **o),
}


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [1, 2, -1, 3])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_over_one_dimension(name, dim, keepdim):
    check(lambda x: REDUCTIONS[name](x, dim=dim, keepdim=keepdim), arrays(3, 2))


@pytest.mark.parametrize("dim", [(1, 2), (2, 3), (1, 3), (1, 2, 3)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "logsumexp"])
def test_a_reduction_over_several_dimensions(name, dim):
    check(lambda x: REDUCTIONS[name](x, dim=dim), arrays(3, 2))
    check(lambda x: REDUCTIONS[name](x.transpose(1, 2), dim=dim), arrays(3, 2))


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod", "norm", "var"])
def test_a_reduction_over_everything_is_one_over_all_elements(name):
    parts = arrays(3)
    x, flat = nested(parts, True), ndgrad.tensor(np.concatenate(parts), requires_grad=True)
    found, expected = (REDUCTIONS[name](t) for t in (x, flat))
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    found.backward()
    expected.backward()
    np.testing.assert_allclose(x.grad.values().numpy(), flat.grad.numpy(), rtol=1e-10)
    both = REDUCTIONS[name](x, dim=(0, 1)) if name != "prod" else x.sum((0, 1))
    np.testing.assert_allclose(
        both.detach().numpy(), (REDUCTIONS[name](flat, dim=0) if name != "prod" else flat.sum(0)).detach().numpy(), rtol=1e-12
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda x, d: x.softmax(d),
        lambda x, d: x.log_softmax(d),
        lambda x, d: x.cumsum(d),
        lambda x, d: x.cumprod(d),
        lambda x, d: x.flip(d),
        lambda x, d: x.sort(d).values,
        lambda x, d: x.logcumsumexp(d),
        lambda x, d: x.cummax(d).values,
    ],
    ids="softmax log_softmax cumsum cumprod flip sort logcumsumexp cummax".split(),
)
@pytest.mark.parametrize("dim", [1, 2])
def test_a_function_along_a_dimension(f, dim):
    check(lambda x: f(x, dim), arrays(3))
    check(lambda x: f(x.transpose(1, 2), dim), arrays(3))


def test_positions_of_extremes_count_inside_components():
    parts = arrays(3)
    x = nested(parts)
    for name in ("argmax", "argmin"):
        agree(getattr(x, name)(1), [getattr(ndgrad.tensor(p[None]), name)(1) for p in parts])
        agree(getattr(x, name)(2), [getattr(ndgrad.tensor(p[None]), name)(2) for p in parts])
    agree(x.max(1).indices, [ndgrad.tensor(p[None]).max(1).indices for p in parts])
    assert x.argmax() == np.concatenate(parts).argmax()


def test_a_component_without_rows():
    parts = [np.ones((2, 3)), np.ones((0, 3)), np.ones((1, 3))]
    x = nested(parts, True)
    assert x.sum(1).tolist() == [[2.0] * 3, [0.0] * 3, [1.0] * 3]
    assert x.prod(1).tolist() == [[1.0] * 3] * 3
    assert np.isnan(x.mean(1)[1].detach().numpy()).all()
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        x.amax(1)
    x.softmax(1).sum().backward()
    assert [tuple(g.shape) for g in x.grad.unbind()] == [(2, 3), (0, 3), (1, 3)]
    assert x.to_padded_tensor(-1.0)[1].tolist() == [[-1.0] * 3] * 2


# ----- every public function: right or refused ------------------------------------------------------------------------------------


def _public() -> dict[str, object]:
    found = {f"ndgrad.{n}": f for n, f in families.namespace().items()}
    found |= {f"Tensor.{n}": f for n, f in families.methods().items()}
    found |= {
        f"F.{n}": getattr(F, n) for n in dir(F) if not n.startswith("_") and callable(getattr(F, n)) and not isinstance(getattr(F, n), type)
    }
    for module in (ndgrad.linalg, ndgrad.special, ndgrad.fft):
        found |= {
            f"{module.__name__}.{n}": getattr(module, n)
            for n in module.__all__
            if callable(getattr(module, n)) and not isinstance(getattr(module, n), type)
        }
    random = ("rand", "empty", "dropout", "poisson", "normal", "multinomial", "bernoulli", "new", "resize", "set_", "seed")
    return {n: f for n, f in sorted(found.items()) if is_public(f) and not n.endswith("_") and not any(word in n for word in random)}


def _calls(m):
    """Arguments, with m(x) in the place of tensors that may be nested."""
    random = np.random.default_rng(0)
    x, y = (m(ndgrad.tensor(random.uniform(0.2, 0.9, size=(3, 4, 4)))) for _ in range(2))
    k, w = m(ndgrad.tensor(random.integers(0, 3, size=(3, 4, 4)))), ndgrad.tensor(random.uniform(0.2, 0.9, size=(4, 4)))
    for options in ({}, {"dim": 1}, {"dim": 2}, {"dim": (1, 2)}, {"dim": (0, 1)}, {"dim": 1, "keepdim": True}, {"dim": 0}):
        yield (x,), options
    for args in (
        (x, y),
        (x, w),
        (w, x),
        (x, 0.5),
        (k,),
        (x, 1),
        (x, 2),
        (x, k),
        (x > 0.5, x, y),
        (x, y, y),
        (x, 2, k),
        (x, (4,)),
        (x, w, w[0]),
    ):
        yield args, {}
    for args in (([x, y],), ([x, y], 1), ([x, y], 2), (x, 1, 0), (x, 2, 1, 2), (x, 0.1, 0.6), (x, x > 0.5, 0.3)):
        yield args, {}


def _copy(a):
    return a.clone() if isinstance(a, ndgrad.Tensor) else [t.clone() for t in a] if isinstance(a, list) else a


def _plain(result):
    if isinstance(result, ndgrad.Tensor):
        if result.is_nested:
            return _plain(result.long().to_padded_tensor(0).bool() if result.dtype == ndgrad.bool else result.to_padded_tensor(0))
        return ("tensor", result.dtype, result.detach().numpy())
    return [_plain(r) for r in result] if isinstance(result, (tuple, list)) else type(result)


def _same(a, b):
    if isinstance(a, tuple) and isinstance(b, tuple):
        return a[1] == b[1] and a[2].shape == b[2].shape and np.allclose(a[2], b[2], rtol=1e-8, atol=1e-10, equal_nan=True)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b


@pytest.mark.filterwarnings("ignore")
def test_every_public_function_of_components_of_one_length_is_that_of_the_dense_tensor_or_refused():
    """Of equal lengths a nested tensor stands for a dense one, so whatever a function makes of it can be compared."""
    calls = list(zip(_calls(lambda t: t), _calls(lambda t: ndgrad.nested.as_nested_tensor(t.clone(), layout=ndgrad.jagged)), strict=True))
    wrong, right, refused = [], set(), set()
    for name, f in _public().items():
        for (args, options), (given, _) in calls:
            args, given = (tuple(map(_copy, a)) for a in (args, given))  # some of them write
            try:
                expected = f(*args, **options)
            except Exception:  # no call of this function
                continue
            try:
                found = f(*given, **options)
            except Exception:
                refused.add(name)
                continue
            if _same(_plain(found), _plain(expected)):
                right.add(name)
            elif not (name.endswith("tensor_split") and args[1:] == ((4,),)):  # its last part has no components, so no width
                wrong.append((name, [getattr(a, "shape", a) for a in given], options))
    assert not wrong
    assert len(right) > 550


def test_refusals_name_the_function_and_the_structure():
    x = nested(arrays(3, lengths=(2, 3)))
    for f in (ndgrad.triu, ndgrad.linalg.inv, lambda t: F.pad(t, (0, 1)), ndgrad.unique, lambda t: t.new_zeros(t.shape)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises((NotImplementedError, RuntimeError), match=r"nested.*\(2, 3\)|\(2, j\d+, 3\)"):
                f(x)
