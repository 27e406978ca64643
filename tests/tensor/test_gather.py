"""gather, scatter, index_*, masked_*, take and put: forms of arguments, in-place forms, transforms, failures that change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import func

r = np.random.default_rng(9)
A, B = r.standard_normal((3, 4, 5)), r.standard_normal((3, 4, 5))
REPEATS = r.integers(0, 4, (3, 4, 5))
I, J, MASK = np.array([2, 0, 2]), np.array([1, 3]), A > 0


def tensor(a, **options):
    return ndgrad.tensor(a, **options)


def values(t):
    return np.asarray(t.detach().numpy())


def loss(t):
    return (t * tensor(np.cos(np.arange(t.numel())).reshape(tuple(t.shape)))).sum()


def numeric(f, array, step=1e-5):
    """Return the gradient of a scalar function of a tensor by central differences."""
    out = np.zeros_like(array)
    for i in np.ndindex(array.shape):
        moved = [array.copy(), array.copy()]
        moved[0][i] += step
        moved[1][i] -= step
        high, low = (float(f(tensor(m)).item()) for m in moved)
        out[i] = (high - low) / (2 * step)
    return out


#: name -> arguments after the tensor, for functions with an in-place form; `y` stands for a differentiable source
WRITES = {
    "scatter": lambda y: (1, tensor(REPEATS), y),
    "scatter value": lambda y: (1, tensor(REPEATS), 2.0),
    "scatter multiply": lambda y: {"args": (1, tensor(REPEATS), y), "reduce": "multiply"},
    "scatter_add": lambda y: (1, tensor(REPEATS), y),
    "scatter_reduce sum": lambda y: {"args": (1, tensor(REPEATS), y, "sum"), "include_self": False},
    "scatter_reduce prod": lambda y: (1, tensor(REPEATS), y, "prod"),
    "scatter_reduce mean": lambda y: {"args": (1, tensor(REPEATS), y, "mean"), "include_self": False},
    "scatter_reduce amax": lambda y: (1, tensor(REPEATS), y, "amax"),
    "scatter_reduce amin": lambda y: {"args": (1, tensor(REPEATS), y, "amin"), "include_self": False},
    "index_add": lambda y: {"args": (0, tensor(I), y), "alpha": 2},
    "index_copy": lambda y: (0, tensor(I), y),
    "index_fill": lambda y: (1, tensor(J), y.sum()),
    "index_put": lambda y: ((tensor(I),), y),
    "index_put accumulate": lambda y: ((tensor(I), tensor(I)), y[:, 0], True),
    "index_reduce prod": lambda y: (0, tensor(I), y, "prod"),
    "index_reduce mean": lambda y: (0, tensor(I), y, "mean"),
    "masked_fill": lambda y: (tensor(MASK), y.sum()),
    "masked_scatter": lambda y: (tensor(MASK), y),
    "put": lambda y: (tensor(np.array([[3, -1], [3, 7]])), y[0, :2, :2]),
    "put accumulate": lambda y: (tensor(np.array([[3, -1], [3, 7]])), y[0, :2, :2], True),
}  # fmt: skip


def call(x, name, y, suffix=""):
    arguments = WRITES[name](y)
    options = {k: v for k, v in arguments.items() if k != "args"} if isinstance(arguments, dict) else {}
    args = arguments["args"] if isinstance(arguments, dict) else arguments
    return getattr(x, name.split()[0] + suffix)(*args, **options)


@pytest.mark.parametrize("name", WRITES)
def test_gradients_equal_finite_differences(name):
    x, y = tensor(A, requires_grad=True), tensor(B, requires_grad=True)
    grads = ndgrad.autograd.grad(loss(call(x, name, y)), (x, y), allow_unused=True)
    for g, f, a in zip(grads, (lambda t: loss(call(t, name, tensor(B))), lambda t: loss(call(tensor(A), name, t))), (A, B), strict=True):
        np.testing.assert_allclose(0 * a if g is None else values(g), numeric(f, a), atol=1e-8)


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("through", ["whole", "view with gaps"])
def test_in_place_equals_out_of_place(name, through):
    leaves = [tensor(a, requires_grad=True) for a in (A, B)]
    plain = call(leaves[0], name, leaves[1])
    expected = ndgrad.autograd.grad(loss(plain), leaves, allow_unused=True)
    if through == "whole":
        target = buffer = leaves[0] * 1.0
    else:
        buffer = ndgrad.zeros(4, 5, 10)
        target = buffer[1:, ::-1, ::2][:, 1:]
        target.copy_(leaves[0])
    version = target._version
    assert call(target, name, leaves[1], "_") is target
    assert target._version > version
    np.testing.assert_array_equal(values(target), values(plain))
    grads = ndgrad.autograd.grad(loss(target) + 0 * buffer.sum(), leaves, allow_unused=True)
    for g, e in zip(grads, expected, strict=True):
        assert (g is None) == (e is None)
        if g is not None:
            np.testing.assert_allclose(values(g), values(e), atol=1e-14)


@pytest.mark.parametrize("name", [n for n in WRITES if "int" not in n])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dtypes_are_kept_forwards_and_backwards(name, dtype):
    x, y = (tensor(a.astype(dtype), requires_grad=True) for a in (A, B))
    out = call(x, name, y)
    assert out.dtype == dtype
    for g in ndgrad.autograd.grad(loss(out), (x, y), allow_unused=True):
        assert g is None or g.dtype == dtype
    exact = call(tensor(x.detach().numpy().astype(float)), name, tensor(y.detach().numpy().astype(float)))
    np.testing.assert_allclose(values(out), values(exact), rtol=2e-2, atol=2e-2)


# ----- failures --------------------------------------------------------------------------------------------------------------

FAILURES = {
    "scatter_ index": lambda x: x.scatter_(1, tensor(REPEATS + 1), tensor(B)),
    "scatter_add_ index": lambda x: x.scatter_add_(1, tensor(REPEATS - 1), tensor(B)),
    "scatter_reduce_ index": lambda x: x.scatter_reduce_(1, tensor(REPEATS + 1), tensor(B), "mean", include_self=False),
    "scatter_reduce_ prod index": lambda x: x.scatter_reduce_(1, tensor(REPEATS + 1), tensor(B), "prod", include_self=False),
    "scatter_reduce_ amax index": lambda x: x.scatter_reduce_(1, tensor(REPEATS + 1), tensor(B), "amax", include_self=False),
    "index_add_ index": lambda x: x.index_add_(0, tensor(I + 1), tensor(B)),
    "index_copy_ index": lambda x: x.index_copy_(0, tensor(I + 1), tensor(B)),
    "index_fill_ index": lambda x: x.index_fill_(0, tensor(I + 1), 1.0),
    "index_put_ index": lambda x: x.index_put_((tensor(I + 1),), tensor(B), accumulate=True),
    "index_reduce_ index": lambda x: x.index_reduce_(0, tensor(I + 1), tensor(B), "mean"),
    "put_ index": lambda x: x.put_(tensor(np.array([0, 60])), tensor(B[0, 0, :2])),
    "put_ accumulate index": lambda x: x.put_(tensor(np.array([0, -61])), tensor(B[0, 0, :2]), True),
    "masked_fill_ shape": lambda x: x[0].masked_fill_(tensor(MASK), 1.0),
    "masked_scatter_ count": lambda x: x.masked_scatter_(tensor(MASK), tensor(B[0, 0])),
    "scatter_ both": lambda x: x.scatter_(1, tensor(REPEATS), tensor(B), value=1.0),
    "scatter_ neither": lambda x: x.scatter_(1, tensor(REPEATS)),
    "scatter_ value": lambda x: x.scatter_(1, tensor(REPEATS), "a"),
    "index_add_ source": lambda x: x.index_add_(0, tensor(I), [1.0]),
    "unknown keyword": lambda x: x.gather(dimension=1, index=tensor(REPEATS)),
    "two names of one": lambda x: x.gather(axis=1, dim=1, index=tensor(REPEATS)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_what_fails_changes_nothing_and_says_what_to_do(name):
    x = tensor(A, requires_grad=True) * 1.0
    node, version = x.grad_fn, x._version
    with pytest.raises((RuntimeError, IndexError, TypeError)) as caught:
        FAILURES[name](x)
    assert len(str(caught.value)) > 40
    assert x.grad_fn is node
    assert x._version == version
    np.testing.assert_array_equal(values(x), A)


# ----- arguments -------------------------------------------------------------------------------------------------------------


def test_keywords_of_numpy_and_numpy_arrays_as_indices():
    x = tensor(A)
    np.testing.assert_array_equal(values(ndgrad.gather(a=x, axis=1, index=REPEATS)), np.take_along_axis(A, REPEATS, 1))
    np.testing.assert_array_equal(values(ndgrad.take_along_dim(x, REPEATS, axis=1)), np.take_along_axis(A, REPEATS, 1))
    np.testing.assert_array_equal(values(x.index_select(axis=0, index=I)), A[I])
    np.testing.assert_array_equal(values(x.masked_fill(MASK, 0.0)), np.where(MASK, 0, A))
    np.testing.assert_array_equal(values(x.take(np.array([[1, -1]]))), A.take([[1, -1]]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.uint64])
def test_indices_of_any_integer_dtype(dtype):
    index = (np.arange(300) % 200).astype(dtype) % 100
    x = tensor(np.arange(100.0), requires_grad=True)
    parts = [x.gather(0, tensor(index)), x.index_select(0, tensor(index)), x.take(tensor(index))]
    if dtype is not np.uint8:  # bytes in brackets are a mask, as in torch
        parts.append(x[tensor(index)])
    for part in parts:
        np.testing.assert_array_equal(values(part), index)
        (g,) = ndgrad.autograd.grad(part.sum(), x)
        np.testing.assert_array_equal(values(g), np.bincount(index.astype(int), minlength=100))


def test_an_expanded_index_gives_what_a_full_one_gives():
    x, y = tensor(A, requires_grad=True), tensor(B, requires_grad=True)
    expanded = tensor(I)[:, None, None].expand(3, 4, 5)
    full = tensor(np.ascontiguousarray(np.broadcast_to(I[:, None, None], (3, 4, 5))))
    for f in (lambda i: x.scatter_add(0, i, y), lambda i: x.gather(0, i) * y):
        results = [[values(f(i)), *map(values, ndgrad.autograd.grad(loss(f(i)), (x, y)))] for i in (expanded, full)]
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a, b)


def test_nonzero_as_rows_and_as_tuple():
    x = tensor(MASK)
    np.testing.assert_array_equal(values(x.nonzero()), np.argwhere(MASK))
    np.testing.assert_array_equal(values(ndgrad.argwhere(x)), np.argwhere(MASK))
    for mine, its in zip(x.nonzero(as_tuple=True), np.nonzero(MASK), strict=True):
        np.testing.assert_array_equal(values(mine), its)
    for mine, its in zip(ndgrad.where(x), np.nonzero(MASK), strict=True):
        np.testing.assert_array_equal(values(mine), its)


def test_a_source_larger_than_the_index_is_read_where_the_index_is():
    y = tensor(B, requires_grad=True)
    out = tensor(A).scatter_add(1, tensor(REPEATS[:2, :3, :4]), y)
    (g,) = ndgrad.autograd.grad(out.sum(), y)
    expected = np.zeros_like(B)
    expected[:2, :3, :4] = 1
    np.testing.assert_array_equal(values(g), expected)


# ----- products and extremes -------------------------------------------------------------------------------------------------


def test_products_have_exact_derivatives_of_second_order_at_zeros():
    """With three zeros in a group all first derivatives vanish; with two, the mixed second derivative does not."""
    index, a = tensor(np.array([0, 0, 0, 1, 1, 2, 0])), np.array([0.0, 3.0, 0.0, 0.0, 5.0, 0.0, 2.0])

    def f(t):
        return (tensor([2.0, 3.0, 4.0, 5.0]).scatter_reduce(0, index, t, "prod") * tensor([1.0, 10.0, 100.0, 7.0])).sum()

    expected = np.zeros((7, 7))
    expected[0, 2] = expected[2, 0] = 2 * 3 * 2
    expected[3, 4] = expected[4, 3] = 3 * 10
    np.testing.assert_allclose(values(func.hessian(f)(tensor(a))), expected)
    np.testing.assert_allclose(values(func.grad(f)(tensor(a))), [0, 0, 0, 150, 0, 400, 0])


def test_equal_extremes_share_the_gradient_and_an_excluded_self_has_no_share():
    def grads(x, y, include_self):
        leaves = tensor(x, requires_grad=True), tensor(y, requires_grad=True)
        out = leaves[0].scatter_reduce(0, tensor(np.zeros(len(y), int)), leaves[1], "amax", include_self=include_self)
        return [values(g).tolist() for g in ndgrad.autograd.grad(out.sum(), leaves)]

    assert grads([2.0, 9.0], [2.0, 2.0, 1.0, 2.0], True) == [[0.25, 1], [0.25, 0.25, 0, 0.25]]
    assert grads([2.0, 9.0], [2.0, 2.0, 1.0], False) == [[0, 1], [0.5, 0.5, 0]]
    assert grads([3.0, 9.0], [2.0, 2.0, 1.0], True) == [[1, 1], [0, 0, 0]]


# ----- transforms ------------------------------------------------------------------------------------------------------------


def test_masked_select_batches_where_the_mask_is_the_same_for_all():
    mask = tensor(MASK[0])
    np.testing.assert_array_equal(values(func.vmap(lambda x: x.masked_select(mask))(tensor(A))), A[:, MASK[0]])
    grads = func.vmap(func.grad(lambda x: (x.masked_select(mask) ** 2).sum()))(tensor(A))
    np.testing.assert_allclose(values(grads), 2 * np.where(MASK[0], A, 0))
    with pytest.raises(RuntimeError, match="vmap"):
        func.vmap(lambda x, m: x.masked_select(m))(tensor(A), tensor(MASK))


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}, {"padding_idx": 0, "scale_grad_by_freq": True}])
@pytest.mark.parametrize("batched", [(0, 0), (0, None), (None, 0)])
def test_gradients_of_embedding_under_vmap_equal_a_loop(options, batched):
    weights, indices = tensor(A), tensor(r.integers(0, 4, (3, 2, 6)))

    def gradient(w, i):
        return func.grad(lambda w: loss(ndgrad.embedding(w, i, **options) ** 2))(w)

    args = tuple(t if d == 0 else t[0] for t, d in zip((weights, indices), batched, strict=True))
    got = values(func.vmap(gradient, in_dims=batched)(*args))
    rows = [gradient(*(t[b] if d == 0 else t[0] for t, d in zip((weights, indices), batched, strict=True))) for b in range(3)]
    np.testing.assert_allclose(got, np.stack([values(row) for row in rows]), atol=1e-12)

    def total(w):
        return loss(func.vmap(lambda w, i: ndgrad.embedding(w, i, **options) ** 2, in_dims=batched)(w, args[1]))

    inside = values(func.grad(total)(args[0]))
    cosines = np.cos(np.arange(180)).reshape(3, 2, 6, 5)
    outside = []
    for b in range(3):
        w, i = (t[b] if d == 0 else t[0] for t, d in zip((weights, indices), batched, strict=True))
        outside.append(values(func.grad(lambda w, i=i, b=b: (ndgrad.embedding(w, i, **options) ** 2 * tensor(cosines[b])).sum())(w)))
    np.testing.assert_allclose(inside, np.stack(outside) if batched[0] == 0 else np.sum(outside, axis=0), atol=1e-12)


def test_embedding_gradients_of_many_rows():
    weight = tensor(r.standard_normal((50, 16)), requires_grad=True)
    index = r.integers(0, 50, (100, 64))
    upstream = r.standard_normal((100, 64, 16))
    (ndgrad.embedding(weight, tensor(index)) * tensor(upstream)).sum().backward()
    expected = np.zeros((50, 16))
    np.add.at(expected, index, upstream)
    np.testing.assert_allclose(values(weight.grad), expected, atol=1e-12)


@pytest.mark.parametrize("name", WRITES)
def test_vmap_of_writes_equals_a_loop(name):
    xs, ys = np.stack([A, A + 1, A * 2]), np.stack([B, B * 2, B - 1])
    got = values(func.vmap(lambda x, y: call(x, name, y))(tensor(xs), tensor(ys)))
    np.testing.assert_allclose(got, np.stack([values(call(tensor(x), name, tensor(y))) for x, y in zip(xs, ys, strict=True)]))
    grads = values(func.vmap(func.grad(lambda x, y: loss(call(x, name, y) ** 2)))(tensor(xs), tensor(ys)))
    rows = [values(func.grad(lambda x, y: loss(call(x, name, y) ** 2))(tensor(x), tensor(y))) for x, y in zip(xs, ys, strict=True)]
    np.testing.assert_allclose(grads, np.stack(rows), atol=1e-12)


@pytest.mark.parametrize("name", WRITES)
def test_writes_inside_transforms_equal_the_out_of_place_form(name):
    def write(x, y):
        z = x * 1.0
        assert call(z, name, y, "_") is z
        return z * z

    def plain(x, y):
        return call(x, name, y) ** 2

    x, y = tensor(A), tensor(B)
    tangents = tensor(np.sin(A)), tensor(np.cos(B))
    for mine, its in zip(func.jvp(write, (x, y), tangents), func.jvp(plain, (x, y), tangents), strict=True):
        np.testing.assert_allclose(values(mine), values(its), atol=1e-12)
    batches = tensor(np.stack([A, A + 1])), tensor(np.stack([B, B - 1]))
    np.testing.assert_allclose(values(func.vmap(write)(*batches)), values(func.vmap(plain)(*batches)), atol=1e-12)
    grads = [func.vmap(func.grad(lambda x, y, f=f: loss(f(x, y))))(*batches) for f in (write, plain)]
    np.testing.assert_allclose(*map(values, grads), atol=1e-12)
