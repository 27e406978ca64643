"""Sparse Jacobians and Hessians: the pattern of every op and of random programs, the colourings, and the entries.

The oracles are dense: Jacobians by jacfwd and jacrev, Hessians by hessian, of functions small enough for them.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func
from ndgrad._src.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, RANDOM, table
from ndgrad.func import hessian, jacfwd, jacrev, jvp, vmap
from tests.examples import at_least
from tests.op_programs import SAMPLES, differentiable, program_of

pytest.importorskip("scipy")

from ndgrad._src.transforms.sparsity import batched_tangents as wide
from ndgrad._src.transforms.sparsity.coloring import color_columns, color_symmetric, find_entry_positions
from ndgrad._src.transforms.sparsity.sets import DISCRETE, IndexSets
from ndgrad._src.transforms.sparsity.trace import pattern_of, trace

float64 = ndgrad.float64


def dense_pattern(pattern):
    out = np.zeros(pattern.shape, bool)
    out[pattern.rows, pattern.indices] = True
    return out


# ----- sets -----------------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=8), st.integers(1, 4))
def test_unions_are_those_of_python_sets(wanted, places):
    sets = IndexSets(7)
    single = sets.singletons()
    rows = np.repeat(np.arange(len(wanted)), [len(w) for w in wanted])
    ids = sets.union_at(rows, single[np.array([i for w in wanted for i in w], int)], len(wanted))
    target = np.arange(len(wanted)) % places
    again = sets.union_at(target, ids, places)
    expected = [set().union(*(wanted[i] for i in range(len(wanted)) if i % places == p)) for p in range(places)]
    found = [set(sets.members(np.array([i]))[0].tolist()) for i in again]
    assert found == expected
    pairs = sets.union(ids[:, None], ids)
    for i, row in enumerate(pairs):
        for j, one in enumerate(row):
            assert set(sets.members(np.array([one]))[0].tolist()) == set(wanted[i]) | set(wanted[j])


def test_equal_unions_are_one_set():
    sets = IndexSets(100)
    single = sets.singletons()
    made = sets.union(single[:50, None] * 0 + single[3], single[:50, None] * 0 + single[7])
    assert len(np.unique(made)) == 1
    assert len(sets) == 103


# ----- every op of the table --------------------------------------------------------------------------------------------------

#: Larger inputs take long with a dense oracle.
FEW = 64


def true_pattern(program, inputs, shape, batched=True):
    """Return the nonzero derivatives, one direction at a time; both directions of a complex number count."""
    columns = [
        (number, k, unit) for number, t in enumerate(inputs) for k in range(t.numel()) for unit in ((1, 1j) if t.is_complex() else (1,))
    ]
    tangents = [np.zeros((len(columns), t.numel()), t._array.dtype) for t in inputs]
    for row, (number, k, unit) in enumerate(columns):
        tangents[number][row, k] = unit
    stacks = [ndgrad.tensor(rows.reshape(len(columns), *t.shape)) for rows, t in zip(tangents, inputs, strict=True)]

    def push_along(*directions):
        return jvp(program, tuple(inputs), directions)[1]

    if batched and columns:
        made = vmap(push_along)(*stacks)
    else:
        made = [ndgrad.stack(rows) for rows in zip(*(push_along(*(s[i] for s in stacks)) for i in range(len(columns))), strict=True)]
    out = np.zeros(shape, bool)
    if columns:
        numbers = np.concatenate([m.numpy().reshape(len(columns), -1) for m in made], axis=1)
        places = np.unique([(number, k) for number, k, _ in columns], axis=0, return_inverse=True)[1].ravel()
        np.logical_or.at(out.T, places, ~np.isnan(numbers) & (numbers != 0))
    return out


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_pattern_of_op_contains_the_true_one(name):
    op = table[name]
    for sample in SAMPLES[name]:
        if not differentiable(op, sample) or any(np.size(a) > 2000 for a in sample.args):
            continue
        program, inputs = program_of(op, sample)
        with np.errstate(all="ignore"):
            found = trace(program, inputs)
            if op.jvp is NOT_DIFFERENTIABLE:
                assert found.nnz == 0
            elif found.shape[1] <= FEW and "jvp" not in sample.skip:
                batched = op.batch not in (DATA_DEPENDENT, RANDOM) and not {"vmap", "vmap of jvp"} & set(sample.skip)
                missed = true_pattern(program, inputs, found.shape, batched) & ~dense_pattern(found)
                assert not missed.any(), (sample.settings, [np.shape(a) for a in sample.args])


# ----- random programs --------------------------------------------------------------------------------------------------------

N = 6
MATRIX = np.array([[0.5, 0, 0, 0.2, 0, 0], [0, 0.3, 0, 0, 0, 0], [0, 0, 0, 0, 0.7, 0], [0, 0.1, 0, 0.9, 0, 0], [0] * 6, [0.2] * 6])
KERNEL = ndgrad.tensor([[[0.3, 0.0, 0.6]]], dtype=float64)
INDEX = ndgrad.tensor([3, 0, 0, 5, 2, 1])


def run_write(y, write):
    z = y.clone()
    write(z)
    return z


def buffer(y, x):
    u = ndgrad.zeros(N, dtype=y.dtype)
    u[1:-1] = y[2:] * 0.7 - x[:-2]
    u[0] = y[3].sin()
    return u


STEPS = {
    "sin": lambda y, x: y.sin(),
    "square": lambda y, x: y * y,
    "plus input": lambda y, x: 0.7 * y + 1.3 * x,
    "times input": lambda y, x: y * x,
    "over input": lambda y, x: y / (2.0 + x * x),
    "masked": lambda y, x: y * ndgrad.tensor([1.0, 0.0, 2.0, 0.0, 0.0, 3.0], dtype=float64),
    "flip": lambda y, x: y.flip(0),
    "roll": lambda y, x: y.roll(2),
    "stencil": lambda y, x: ndgrad.cat([y[:1], y[2:] - 0.3 * y[1:-1] * y[:-2], y[-1:]]),
    "matmul": lambda y, x: ndgrad.tensor(MATRIX) @ y,
    "gather": lambda y, x: y[INDEX],
    "scatter add": lambda y, x: (0.5 * y).index_add(0, INDEX, x),
    "where constant": lambda y, x: ndgrad.where(INDEX > 1, y, 0.4 * x),
    "where computed": lambda y, x: ndgrad.where(x > 0, y, 0.4 * x),
    "maximum": lambda y, x: ndgrad.maximum(y, 0.6 * x + 0.1),
    "relu": lambda y, x: (y + 0.8).relu(),
    "cumsum": lambda y, x: y.cumsum(0),
    "mean": lambda y, x: y - 0.2 * y.mean(),
    "grid": lambda y, x: (y.reshape(2, 3) * x.reshape(3, 2).t()).reshape(N),
    "row sums": lambda y, x: y.reshape(2, 3).sum(1, keepdim=True).expand(2, 3).reshape(N),
    "convolution": lambda y, x: ndgrad.nn.functional.conv1d(y.reshape(1, 1, N), KERNEL, padding=1)[0, 0],
    "write item": lambda y, x: run_write(y, lambda z: z.__setitem__(0, x[1] * y[2])),
    "write view": lambda y, x: run_write(y, lambda z: z[2:].mul_(x[:4])),
    "write twice": lambda y, x: run_write(y, lambda z: (z[:4].add_(x[0]), z[3:].sin_())),
    "write constant": lambda y, x: run_write(y, lambda z: z[1].fill_(0.5)),
    "write by index": lambda y, x: run_write(y, lambda z: z.__setitem__(ndgrad.tensor([1, 4]), x[:2])),
    "buffer": buffer,
    "inner grad": lambda y, x: func.grad(lambda z: (z[1:] * z[:-1] ** 2).sum())(y),
    "inner vmap": lambda y, x: vmap(lambda a, b: (a * b).sum() * a)(y.reshape(3, 2), x.reshape(3, 2)).reshape(N),
    "inner jvp": lambda y, x: jvp(lambda z: z * z.flip(0), (y,), (x,))[1],
}  # fmt: skip

programs = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4)


def build(names):
    def program(x):
        y = x
        for name in names:
            y = STEPS[name](y, x)
        return y

    return program


def points(count):
    rng = np.random.default_rng(0)
    return ndgrad.tensor(rng.standard_normal((count, N)))


@at_least(60)
@given(programs)
def test_pattern_of_random_program_contains_the_true_one_and_is_at_most_twice_as_large(names):
    program = build(names)
    many = points(64)
    found = dense_pattern(trace(program, [many[0]]))
    true = (vmap(jacfwd(program))(many).numpy() != 0).any(0)
    assert not (true & ~found).any()
    assert found.sum() <= 2 * true.sum()


@at_least(40)
@given(programs, st.sampled_from(["auto", "forward", "reverse"]))
def test_sparse_jacobian_of_random_program_equals_the_dense_one(names, mode):
    program = build(names)
    example, *others = points(3)
    prepared = func.sparse_jacobian(program, example, mode=mode)
    for x in others:
        made = prepared(x)
        np.testing.assert_allclose(made.toarray(), jacrev(program)(x).numpy(), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(made.data, prepared.values(x).numpy(), rtol=1e-12, atol=1e-14)


@at_least(40)
@given(programs)
def test_sparse_hessian_of_random_program_equals_the_dense_one(names):
    def scalar(x):
        return (build(names)(x)[:4] ** 3).sum()

    many = points(64)
    prepared = func.sparse_hessian(scalar, many[0])
    dense = vmap(hessian(scalar))(many).numpy()
    scale = 1 + np.abs(dense).max(axis=(1, 2), keepdims=True)
    for x, expected, s in zip(many[:3], dense, scale, strict=False):
        np.testing.assert_allclose(prepared(x).toarray(), expected, rtol=1e-10, atol=1e-13 * float(s[0, 0]))
    true = (np.abs(dense) > 1e-12 * scale).any(0)
    # f(max(a, b)) has no mixed derivative, but sets do not know that only one of them is chosen.
    if not {"maximum", "where computed"} & set(names):
        assert prepared.nnz <= 2 * true.sum()


# ----- dependencies that a trace must see ---------------------------------------------------------------------------------------


def pattern(f, *inputs):
    return dense_pattern(trace(f, list(inputs))).astype(int).tolist()


def test_computed_choices_are_covered_for_all_points():
    x = ndgrad.tensor([1.0, 2.0, 3.0])
    everywhere = [[1, 1, 1]] * 3
    assert pattern(lambda x: x.sort().values, x) == everywhere
    assert pattern(lambda x: x[x.argsort()], x) == everywhere
    assert pattern(lambda x: x.gather(0, x.argsort()), x) == everywhere
    assert pattern(lambda x: x.index_select(0, x.floor().long() - 1), x) == everywhere
    assert pattern(lambda x: ndgrad.where(x.detach() > 0, x, x.flip(0)), x) == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    assert pattern(lambda x: ndgrad.where(x.round() > 0, x, x.flip(0)), x) == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_constant_choices_are_exact():
    x = ndgrad.tensor([1.0, 2.0, 3.0])
    condition = ndgrad.tensor([True, False, True])
    assert pattern(lambda x: ndgrad.where(condition, x, x.flip(0)), x) == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert pattern(lambda x: x[condition], x) == [[1, 0, 0], [0, 0, 1]]
    assert pattern(lambda x: x * condition, x) == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_what_has_no_derivative_has_no_entries():
    x = ndgrad.tensor([1.0, 2.0])
    for f in (lambda x: x.detach(), lambda x: x.floor(), lambda x: (x > 1) * 1.0, lambda x: ndgrad.ones(2), lambda x: x * 0.0):
        assert pattern(f, x) == [[0, 0], [0, 0]]


def test_linear_terms_leave_no_mark_in_a_hessian():
    x = ndgrad.tensor([1.0, 2.0, 3.0])
    assert func.sparse_hessian(lambda x: (3 * x).sum() + x[0] * x[2], x).pattern.toarray().astype(int).tolist() == [
        [0, 0, 1],
        [0, 0, 0],
        [1, 0, 0],
    ]


def test_real_and_imaginary_parts_are_kept_apart():
    x = ndgrad.tensor([1.0, 2.0], dtype=float64)
    y = ndgrad.tensor([3.0, 4.0], dtype=float64)
    assert pattern(lambda x, y: ndgrad.complex(x, y).imag, x, y) == [[0, 0, 1, 0], [0, 0, 0, 1]]
    assert pattern(lambda x, y: ndgrad.view_as_real(ndgrad.complex(x, y)).reshape(4)[::2], x, y) == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert pattern(lambda x, y: ndgrad.complex(x, y).abs(), x, y) == [[1, 0, 1, 0], [0, 1, 0, 1]]


def test_ordinary_grad_inside_is_seen():
    def slope(x):
        y = x.clone().requires_grad_()
        (g,) = ndgrad.autograd.grad((y[1:] * y[:-1] ** 2).sum(), y, create_graph=True)
        return g

    x = ndgrad.tensor([1.0, 2.0, 3.0])
    assert pattern(slope, x) == [[1, 1, 0], [1, 1, 1], [0, 1, 0]]


def test_custom_function_counts_as_dense():
    class Cube(ndgrad.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0] ** 2

    assert pattern(Cube.apply, ndgrad.tensor([1.0, 2.0])) == [[1, 1], [1, 1]]


def test_numpy_namespace():
    nd = ndgrad.numpy

    def f(x):
        u = nd.zeros(5)
        u[1:-1] = x[2:] - 2 * x[1:-1] + x[:-2]
        return nd.sin(u) if hasattr(nd, "sin") else u.sin()

    x = nd.array(np.linspace(0.0, 1.0, 5))
    prepared = func.sparse_jacobian(f, x)
    assert prepared.nnz == 9
    np.testing.assert_allclose(prepared(x).toarray(), np.asarray(jacfwd(f)(x)))


def test_discrete_ids_are_empty_sets():
    assert IndexSets(3).members(np.array([DISCRETE]))[0].size == 0


# ----- colouring ----------------------------------------------------------------------------------------------------------------

entries = st.integers(1, 9).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=25))
)


@at_least(200)
@given(entries)
def test_columns_of_one_colour_have_no_row_in_common(drawn):
    n, places = drawn
    rows, columns = np.array(places, int).reshape(-1, 2).T
    p = pattern_of(rows, columns, (n, n))
    colors = color_columns(p)
    dense = dense_pattern(p)
    for c in range(colors.max() + 1):
        assert dense[:, colors == c].sum(1).max() <= 1


@at_least(300)
@given(entries)
def test_star_colouring_recovers_any_symmetric_matrix(drawn):
    n, places = drawn
    rows, columns = np.array(places, int).reshape(-1, 2).T
    p = pattern_of(np.concatenate([rows, columns]), np.concatenate([columns, rows]), (n, n))
    values = np.random.default_rng(0).standard_normal((n, n))
    matrix = np.where(dense_pattern(p), values + values.T, 0)
    colors = color_symmetric(p)
    for a in range(n):
        for b in np.flatnonzero(matrix[a]):
            assert a == b or colors[a] != colors[b]
    compressed = np.stack([matrix[:, colors == c].sum(1) for c in range(colors.max() + 1)], 1)
    row, color = find_entry_positions(p, colors)
    assert np.array_equal(compressed[row, color], matrix[p.rows, p.indices])


def test_symmetry_saves_products_on_an_arrow():
    n = 200
    prepared = func.sparse_hessian(lambda x: (x[0] * x).sum() ** 1 + (x**4).sum(), ndgrad.ones(n))
    assert prepared.nnz == 3 * n - 2
    assert prepared.products == 2


def test_a_dense_row_makes_reverse_mode_cheaper():
    x = ndgrad.ones(50, dtype=float64)
    wide = func.sparse_jacobian(lambda x: ndgrad.cat([x.sin(), x.sum()[None]]), x)
    assert (wide.mode, wide.products) == ("reverse", 2)
    tall = func.sparse_jacobian(lambda x: x.sin() + x[0], x)
    assert (tall.mode, tall.products) == ("forward", 2)


# ----- the prepared object -------------------------------------------------------------------------------------------------------


def test_banded_hessian_of_ten_thousand_takes_a_handful_of_products():
    n = 10_000

    def energy(x):
        bend = x[2:] - 2 * x[1:-1] + x[:-2]
        return (bend**2).sum() + (x**4).sum()

    prepared = func.sparse_hessian(energy, ndgrad.zeros(n, dtype=float64))
    assert prepared.shape == (n, n)
    assert prepared.nnz == 5 * n - 6
    assert prepared.products <= 6

    calls = []

    def count_calls(x):
        calls.append(1)
        return energy(x)

    one_by_one = func.sparse_hessian(count_calls, ndgrad.zeros(n, dtype=float64), chunk_size=1, pattern=prepared.pattern)
    calls.clear()
    x = ndgrad.tensor(np.random.default_rng(0).standard_normal(n))
    made = one_by_one(x)
    assert len(calls) == prepared.products
    assert abs(made - prepared(x)).max() == 0
    diagonal = 12 * x.numpy() ** 2
    diagonal[2:] += 2
    diagonal[1:-1] += 8
    diagonal[:-2] += 2
    np.testing.assert_allclose(made.diagonal(), diagonal)
    np.testing.assert_allclose(made.diagonal(2), np.full(n - 2, 2.0))


@pytest.mark.parametrize(
    ("f", "short"),
    [
        (lambda x: x[1:] * x[:-1].sin() + ndgrad.tensor(MATRIX[:5]) @ x, True),
        (
            lambda x: ndgrad.cat([x.cumsum(0), x[INDEX], x.reshape(2, 3).t().flip(0).sum(1)]) * ndgrad.linspace(0, 1, 15, dtype=float64),
            True,
        ),
        (lambda x: ndgrad.where(x > 0, x, x[0] * 2.0)[:, None] * x.exp(), True),
        (lambda x: run_write(x, lambda z: z[1:].mul_(x[0])), False),
        (lambda x: x.softmax(0), False),
        (lambda x: x.max(0).values * x, False),
    ],
)
def test_plain_programs_take_the_short_way_and_all_others_the_general_one(f, short):
    x = points(1)[0]
    prepared = func.sparse_jacobian(f, x, mode="forward")
    before = x.clone()
    dense = jacfwd(f)(x).numpy()
    assert wide.applies([x])  # no mode is open
    np.testing.assert_allclose(prepared(x).toarray(), dense.reshape(-1, N), rtol=1e-12, atol=1e-14)
    if short and not prepared._uses_fast_path:
        prepared._numbers(prepared._check_inputs((x,)), prepared._flat_function((x,), {}))  # raises the reason
    assert prepared._uses_fast_path is short
    np.testing.assert_allclose(prepared(x).toarray(), dense.reshape(-1, N), rtol=1e-12, atol=1e-14)
    assert bool((x == before).all())


def added_at(x):
    y = x.clone()
    y.index_put_((ndgrad.tensor([0, 0, 1]),), x[:3].flip(0), accumulate=True)
    return y * x


def scattered(x):
    y = x.clone()
    y.scatter_add_(0, ndgrad.tensor([2, 0, 2]), x[1:4] ** 2)
    return y


def sorted_part(x):
    y = x.clone()
    y[x.argsort()[:2]] *= x[0]  # positions that depend on values
    return y


@pytest.mark.parametrize("f", [added_at, scattered, sorted_part])
def test_writes_of_parts_unite_what_elements_depend_on(f):
    """The ids of a trace are no numbers that could be added."""
    x = points(1)[0]
    dense = jacfwd(f)(x).numpy()
    np.testing.assert_allclose(func.sparse_jacobian(f, x)(x).toarray(), dense.reshape(-1, N), rtol=1e-12, atol=1e-14)
    total = lambda x: (f(x) ** 2).sum()
    np.testing.assert_allclose(func.sparse_hessian(total, x)(x).toarray(), hessian(total)(x).numpy(), rtol=1e-10, atol=1e-12)


def test_a_function_that_writes_to_its_argument_sees_it_once():
    x = points(1)[0]
    prepared = func.sparse_jacobian(lambda x: x.clone() ** 2, x)
    values = x.numpy().copy()

    def doubled(x):
        x.mul_(2.0)
        return x**2

    prepared.func = doubled
    np.testing.assert_allclose(prepared(x).toarray(), np.diag(8 * values))


def test_chunks_agree_with_one_batch():
    x = ndgrad.tensor(np.random.default_rng(0).standard_normal(12))
    f = lambda x: x.cumsum(0).sin() * x
    whole = func.sparse_jacobian(f, x, mode="forward")(x)
    for size in (1, 5, 12, 100):
        assert abs(func.sparse_jacobian(f, x, mode="forward", chunk_size=size)(x) - whole).max() == 0


def test_structures_are_flattened_in_order():
    def f(parameters, scale):
        return {"a": parameters["w"] * scale, "b": parameters["v"].sum() + parameters["w"][0]}

    parameters = {"w": ndgrad.tensor([1.0, 2.0], dtype=float64), "v": ndgrad.tensor([[3.0], [4.0]], dtype=float64)}
    scale = ndgrad.tensor([5.0, 6.0], dtype=float64)
    prepared = func.sparse_jacobian(f, parameters, scale)
    # Dicts flatten by insertion order or by name: the pytree decides.
    order = [id(t) for t in ndgrad.pytree.tree_flatten(parameters)[0]]
    expected = np.zeros((3, 4))
    first = 0 if order[0] == id(parameters["w"]) else 2
    other = 2 - first
    expected[0, first], expected[1, first + 1] = 5.0, 6.0
    expected[2, first] = 1.0
    expected[2, other : other + 2] = 1.0
    assert np.array_equal(prepared(parameters, scale).toarray(), expected)
    both = func.sparse_jacobian(f, parameters, scale, argnums=(0, 1))
    assert both.shape == (3, 6)
    assert np.array_equal(both(parameters, scale).toarray()[:2, 4:], np.diag([1.0, 2.0]))


def test_values_can_be_differentiated_and_batched():
    f = lambda x: x[1:] ** 3 * x[:-1]
    x = ndgrad.tensor(np.random.default_rng(0).standard_normal(5), requires_grad=True)
    prepared = func.sparse_jacobian(f, x)
    prepared.values(x).square().sum().backward()
    expected = func.grad(lambda x: jacfwd(f)(x).square().sum())(x.detach())
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), rtol=1e-12)
    batch = ndgrad.tensor(np.random.default_rng(1).standard_normal((3, 5)))
    rows = vmap(prepared.values)(batch)
    for row, one in zip(rows, batch, strict=True):
        np.testing.assert_allclose(row.numpy(), prepared(one).data, rtol=1e-12)


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_format(format):
    x = ndgrad.tensor([1.0, 2.0, 3.0])
    assert func.sparse_jacobian(lambda x: x * x, x, format=format)(x).format == format


def test_a_given_pattern_is_used_as_it_is():
    x = ndgrad.tensor([1.0, 2.0, 3.0], dtype=float64)
    prepared = func.sparse_jacobian(lambda x: x * x.sum().detach(), x, pattern=np.eye(3))
    assert prepared.products == 1
    assert np.array_equal(prepared(x).toarray(), 6 * np.eye(3))


def test_complex_jacobian_as_jacfwd():
    z = ndgrad.tensor(np.array([1 + 2j, 3 - 1j, 0.5j]))
    f = lambda z: z[1:] * z[:-1] ** 2
    np.testing.assert_allclose(func.sparse_jacobian(f, z)(z).toarray(), jacfwd(f)(z).numpy())


def test_function_that_depends_on_nothing():
    x = ndgrad.ones(3)
    prepared = func.sparse_jacobian(lambda x: ndgrad.ones(2), x)
    assert (prepared.products, prepared.nnz, prepared(x).shape) == (0, 0, (2, 3))
    assert func.sparse_hessian(lambda x: x.sum(), x)(x).nnz == 0


def test_bad_input_is_refused_and_leaves_nothing_behind():
    x = ndgrad.ones(3)
    with pytest.raises(RuntimeError, match="scalar"):
        func.sparse_hessian(lambda x: x * 2, x)
    with pytest.raises(RuntimeError, match="int64"):
        func.sparse_jacobian(lambda x: x * 2, ndgrad.tensor([1, 2]))
    with pytest.raises(TypeError, match="as_tensor"):
        func.sparse_jacobian(lambda x: x * 2, np.ones(3))
    with pytest.raises(TypeError, match="must return tensors"):
        func.sparse_jacobian(lambda x: 3.0, x)
    with pytest.raises(ValueError, match="mode"):
        func.sparse_jacobian(lambda x: x, x, mode="sideways")
    with pytest.raises(ValueError, match="format"):
        func.sparse_jacobian(lambda x: x, x, format="dense")
    with pytest.raises(ValueError, match="chunk_size"):
        func.sparse_jacobian(lambda x: x, x, chunk_size=0)
    with pytest.raises(ValueError, match="one column for each"):
        func.sparse_jacobian(lambda x: x, x, pattern=np.eye(4))
    with pytest.raises(ValueError, match="Prepare it for these"):
        func.sparse_jacobian(lambda x: x, x)(ndgrad.ones(4))
    with pytest.raises(ValueError, match="complex"):
        func.sparse_hessian(lambda z: z.abs().sum(), ndgrad.ones(2, dtype=ndgrad.complex128))
    with pytest.raises(RuntimeError, match=r"\.values"):
        vmap(func.sparse_jacobian(lambda x: x * x, x))(ndgrad.ones((2, 3)))
    with pytest.raises(ZeroDivisionError):
        func.sparse_jacobian(lambda x: x * (1 / 0), x)


def test_scipy_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.sparse", None)
    with pytest.raises(ImportError, match=r"pip install scipy"):
        func.sparse_jacobian(lambda x: x, ndgrad.ones(2))


def test_a_write_at_places_that_depend_on_the_input():
    import ndgrad.numpy as dnp

    def sorted_then_squared(x):
        u = dnp.empty(3)
        u[...] = x * x[0]
        u[np.argsort(u)] = x * 2.0
        return u

    x = dnp.array([3.0, 1.0, 2.0])
    found = func.sparse_jacobian(sorted_then_squared, x)
    np.testing.assert_allclose(np.asarray(found(x).todense()), jacfwd(sorted_then_squared)(x).numpy())


@pytest.mark.parametrize(
    "f",
    [
        lambda y: (y - dnp.zeros((2, 3))).sum(),
        lambda y: ((2.0, 3.0) - y)[:-1].sum(),
        lambda y: (dnp.ones((3, 1)) + y).reshape(-1)[1:] * 2.0,
        lambda y: np.cumsum(dnp.ones(3) + y),
    ],
)
def test_what_a_number_is_spread_over_has_its_tangent_everywhere(f):
    y = dnp.array(2.0)
    dense = jacfwd(f)(y).numpy().reshape(-1, 1)
    np.testing.assert_allclose(func.sparse_jacobian(f, y)(y).toarray(), dense)
    np.testing.assert_allclose(func.sparse_jacobian(f, y, mode="forward")(y).toarray(), dense)


@pytest.mark.parametrize("line", [lambda t: np.ravel(t, order="K"), lambda t: t.T.reshape(-1), lambda t: t.reshape(-1, order="F")])
def test_writes_through_a_line_of_a_buffer_in_fortran_order_are_seen(line):
    def f(x):
        t = dnp.zeros((2, 2), order="F")
        line(t)[2] = x.sum()
        return t

    x = dnp.array([1.0, 2.0])
    np.testing.assert_allclose(func.sparse_jacobian(f, x)(x).toarray(), [[0, 0], [1, 1], [0, 0], [0, 0]])
