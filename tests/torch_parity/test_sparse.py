"""Sparse tensors: the same programs on torch and on ndgrad, by entries, layouts, gradients, texts and errors.

If torch gives a sparse leaf a dense gradient (see `sparse-gradients` in the list of differences), programs compare the gradient at the
leaf's places.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.programs.sameness import same
from tests.torch_parity.side_by_side import Programs, attempt

PROGRAMS = Programs()
program = PROGRAMS.enter


@pytest.fixture(autouse=True)
def torchs_defaults() -> Iterator[None]:
    """Both libraries with torch's default dtype."""
    before = ndgrad.get_default_dtype()
    ndgrad.set_default_dtype(ndgrad.float32)
    yield
    ndgrad.set_default_dtype(before)


def show(t: Any) -> Any:
    """A tensor as its parts: of a sparse one, layout and (coalesced) entries, in double precision."""
    if t is None or isinstance(t, (int, float, str, bool)):
        return t
    if isinstance(t, (tuple, list)):
        return [show(part) for part in t]
    layout, dtype = str(t.layout).split(".")[-1], str(t.dtype).split(".")[-1]
    t = t.detach()
    if layout == "sparse_coo":
        t = t.coalesce()
        parts = [t.indices().tolist(), t.values()]
    elif layout in ("sparse_csr", "sparse_bsr"):
        parts = [t.crow_indices().tolist(), t.col_indices().tolist(), t.values()]
    elif layout in ("sparse_csc", "sparse_bsc"):
        parts = [t.ccol_indices().tolist(), t.row_indices().tolist(), t.values()]
    else:
        parts = [t]
    return [layout, dtype, list(t.shape), *parts]


def coo(m: Any, requires_grad: bool = False) -> Any:
    return m.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=requires_grad)


def uncoalesced(m: Any, requires_grad: bool = False) -> Any:
    return m.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3), requires_grad=requires_grad)


def csr(m: Any, requires_grad: bool = False) -> Any:
    return m.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3), requires_grad=requires_grad)


def hybrid(m: Any, requires_grad: bool = False) -> Any:
    return m.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2), requires_grad=requires_grad)


def full(m: Any) -> Any:
    return m.arange(6.0).reshape(2, 3) + 1.0


def weights(m: Any, shape: Any) -> Any:
    count = 1
    for n in shape:
        count *= n
    return (m.arange(float(count)) * 0.5 + 1.0).reshape(tuple(shape))


def pulled(m: Any, x: Any, y: Any) -> Any:
    """A result and the gradient of its weighted sum, at the places of x."""
    value = show(y)
    dense = y if str(y.layout).endswith("strided") else y.to_dense()
    (dense * weights(m, dense.shape)).sum().backward()
    g = x.grad
    return [value, show(g if g.layout == m.sparse_csr else g.sparse_mask(x.detach().coalesce()))]


# ----- making and asking ------------------------------------------------------------------------------------------------


@program
def coo_tensors_and_what_they_consist_of(m):
    x = coo(m)
    return [
        show(x), x.is_sparse, x.is_sparse_csr, x._nnz(), x.sparse_dim(), x.dense_dim(), x.is_coalesced(), x._indices().tolist(),
        x._values(), x.coalesce().is_coalesced(), len(x), x.numel(), x.dim(), tuple(x.size()), x.stride(), x.is_contiguous(),
    ]  # fmt: skip


@program
def csr_tensors_and_what_they_consist_of(m):
    x = csr(m)
    return [show(x), x.is_sparse, x.is_sparse_csr, x._nnz(), x.sparse_dim(), x.dense_dim(), len(x), x.numel()]


@program
def the_other_compressed_layouts(m):
    blocks = m.arange(8.0).reshape(2, 2, 2)
    return show([
        m.sparse_csc_tensor([0, 1, 2], [0, 1], [1.0, 2.0]), m.sparse_bsr_tensor([0, 1, 2], [0, 1], blocks),
        m.sparse_bsc_tensor([0, 1, 2], [1, 0], blocks), m.sparse_compressed_tensor([0, 1, 2], [1, 0], [1.0, 2.0], layout=m.sparse_csr),
    ])  # fmt: skip


@program
def batches_of_csr_matrices(m):
    x = m.sparse_csr_tensor([[0, 1, 2], [0, 1, 2]], [[0, 1], [1, 0]], [[1.0, 2.0], [3.0, 4.0]])
    return [show(x), x.to_dense(), x._nnz()]


@program
def sizes_are_found_from_indices(m):
    return show([m.sparse_coo_tensor([[0, 2], [1, 1]], [1.0, 2.0]), hybrid(m), m.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]])])


@program
def tensors_without_entries(m):
    return show([m.sparse_coo_tensor((2, 3)), m.sparse_coo_tensor(size=(2, 2)), m.zeros(2, 3, layout=m.sparse_coo), m.zeros_like(coo(m))])


@program
def dtypes_of_values(m):
    made = [m.sparse_coo_tensor([[0, 1]], [1, 2]), m.sparse_coo_tensor([[0, 1]], [1, 2], dtype=m.float64), m.sparse_coo_tensor([[0]], [1j])]
    return show([*made, coo(m).double(), coo(m).half(), coo(m).int(), coo(m).to(m.float64), coo(m).bool()])


@program
def repeated_places_add_up(m):
    x = uncoalesced(m)
    return [x.is_coalesced(), x._nnz(), x.coalesce()._nnz(), x.to_dense(), show(x)]


@program
def known_to_be_coalesced(m):
    return m.sparse_coo_tensor([[0, 1]], [1.0, 2.0], is_coalesced=True).is_coalesced()


@program
def values_need_a_coalesced_tensor(m):
    return [attempt(lambda: coo(m).values()), attempt(lambda: coo(m).indices()), coo(m).coalesce().values()]


@program
def questions_to_the_wrong_layout(m):
    x = m.eye(2)
    asked = ("coalesce", "is_coalesced", "values", "indices", "crow_indices", "ccol_indices")
    of_dense = [attempt(getattr(x, name)) for name in asked]
    return [of_dense, attempt(csr(m).indices), attempt(coo(m).crow_indices), attempt(csr(m).coalesce), x.sparse_dim(), x.dense_dim()]


@program
def int32_pointers_keep_their_dtype(m):
    x = m.sparse_csr_tensor(m.tensor([0, 1, 2], dtype=m.int32), m.tensor([0, 1], dtype=m.int32), [1.0, 2.0])
    return [str(x.crow_indices().dtype).split(".")[-1]]


@program
def wrong_sizes_and_counts(m):
    make = m.sparse_coo_tensor
    return [
        attempt(lambda: make([[0, 1]], [1.0], (3,))), attempt(lambda: make([[0, 1]], [1.0, 2.0], (3, 3))),
        attempt(lambda: make([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 3))),
        attempt(lambda: make([[0, 3]], [1.0, 2.0], (3,), check_invariants=True)),
        attempt(lambda: make([[0, -1]], [1.0, 2.0], (3,), check_invariants=True)),
    ]  # fmt: skip


@program
def wrong_compressed_indices(m):
    def make(rows, columns):
        return attempt(lambda: m.sparse_csr_tensor(rows, columns, [1.0, 2.0], (2, 2), check_invariants=True))

    return [make([0, 1, 2], [0, 5]), make([1, 1, 2], [0, 1]), make([0, 2, 2], [1, 0]), make([0, 1, 3], [0, 1]), make([0, 2], [0, 1])]


@program
def invariants_in_a_block(m):
    with m.sparse.check_sparse_tensor_invariants():
        inside = m.sparse.check_sparse_tensor_invariants.is_enabled()
        bad = attempt(lambda: m.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2)))
    return [inside, bad, m.sparse.check_sparse_tensor_invariants.is_enabled()]


# ----- converting -------------------------------------------------------------------------------------------------------


@program
def dense_to_every_layout_and_back(m):
    x = m.tensor([[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 4.0, 0.0], [0.0, 5.0, 0.0, 0.0]])
    made = [
        x.to_sparse(),
        x.to_sparse(1),
        x.to_sparse_csr(),
        x.to_sparse_csc(),
        x.to_sparse_bsr((2, 2)),
        x.to_sparse_bsc((2, 2)),
        x.to_sparse_coo(),
    ]
    return [show(made), [t.to_dense() for t in made], show(x.to_sparse(layout=m.sparse_csr))]


@program
def every_layout_to_every_layout(m):
    x = m.tensor([[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 6.0, 0.0]])
    starts = [x.to_sparse(), x.to_sparse_csr(), x.to_sparse_csc()]
    return show([[t.to_sparse_coo(), t.to_sparse_csr(), t.to_sparse_csc(), t.to_sparse_bsr((1, 2))] for t in starts])


@program
def batches_and_dense_dimensions(m):
    x = m.ones(2, 2, 2)
    return show([x.to_sparse_csr(), x.to_sparse_csr(dense_dim=1), x.to_sparse(2), m.tensor(3.0).to_sparse()])


@program
def conversions_that_do_not_fit(m):
    return [attempt(lambda: m.eye(3).to_sparse_bsr((2, 2))), attempt(lambda: m.eye(3).to_sparse(3)), attempt(lambda: m.eye(2).to(coo(m)))]


@program
def the_gradient_of_a_conversion_to_sparse_is_that_of_the_kept_elements(m):
    x = m.tensor([[0.0, 2.0], [3.0, 0.0]], requires_grad=True)
    (x.to_sparse() * 2.0).to_dense().sum().backward()
    return x.grad


@program
def the_gradient_of_to_dense(m):
    x, y, z = coo(m, True), csr(m, True), uncoalesced(m, True)
    return [pulled(m, x, x.to_dense()), pulled(m, y, y.to_dense())[0], pulled(m, z, z.to_dense())]


@program
def the_gradient_of_to_dense_without_a_mask(m):
    x, y = coo(m, True), csr(m, True)
    for t in (x, y):
        (t.to_dense(masked_grad=False) * full(m)).sum().backward()
    return show([x.grad, y.grad])


@program
def the_gradients_of_conversions_between_layouts(m):
    x, y = coo(m, True), csr(m, True)
    return [pulled(m, x, x.to_sparse_csr()), pulled(m, x, x.to_sparse_csc()), pulled(m, y, y.to_sparse_coo())[0]]


@program
def sparse_masks(m):
    x = full(m).requires_grad_()
    y = x.sparse_mask(coo(m).coalesce())
    y.to_dense().sum().backward()
    return [show(y), x.grad, show(full(m).sparse_mask(csr(m))), attempt(lambda: m.ones(2, 2).sparse_mask(coo(m)))]


# ----- values and their gradients -----------------------------------------------------------------------------------------


@program
def the_gradient_of_values_given_to_a_sparse_tensor(m):
    v = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = m.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], v, (2, 3))
    (x.to_dense() * full(m)).sum().backward()
    return [x.is_leaf, x.requires_grad, v.grad]


@program
def the_gradient_of_values_of_a_csr_tensor(m):
    v = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = m.sparse_csr_tensor([0, 1, 3], [2, 0, 2], v, (2, 3))
    (x.to_dense() * full(m)).sum().backward()
    return v.grad


@program
def the_gradient_through_values_taken_out(m):
    x = coo(m, True)
    (x.coalesce().values() * m.tensor([1.0, 2.0, 3.0])).sum().backward()
    y = csr(m, True)
    (y.values() ** 2).sum().backward()
    return show([x.grad, y.grad])


@program
def the_gradient_of_values_of_a_hybrid_tensor(m):
    v = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x = m.sparse_coo_tensor([[0, 2]], v, (3, 2))
    (x.to_dense() * weights(m, (3, 2))).sum().backward()
    return [x.sparse_dim(), x.dense_dim(), v.grad]


@program
def a_leaf_is_a_leaf(m):
    x = coo(m, True)
    y = m.sparse_coo_tensor([[0]], m.ones(1, requires_grad=True))
    return [x.is_leaf, x.requires_grad, y.is_leaf, y.requires_grad, x.detach().requires_grad, (x * 2).is_leaf]


# ----- elementwise ------------------------------------------------------------------------------------------------------


def _unary(name: str) -> None:
    def run(m):
        return show([getattr(m, name)(t) for t in (coo(m) * 0.1, uncoalesced(m) * 0.1, csr(m) * 0.1)])

    run.__name__ = f"{name}_of_every_layout"
    program(run)


for _name in "abs neg sin tan tanh asin atan sinh asinh atanh sqrt sign floor ceil trunc round frac expm1 log1p erf relu isnan".split():
    _unary(_name)


def _unary_gradient(name: str) -> None:
    def run(m):
        x, y = coo(m, True), uncoalesced(m, True)
        return [pulled(m, x, getattr(m, name)(x)), pulled(m, y, getattr(m, name)(y))]

    run.__name__ = f"the_gradient_of_{name}"
    program(run)


for _name in "abs neg relu square log1p frac deg2rad".split():
    _unary_gradient(_name)


@program
def functions_that_make_zeros_something_else_are_refused(m):
    return [attempt(lambda name=name: getattr(m, name)(coo(m))) for name in ("exp", "cos", "sigmoid", "reciprocal", "rsqrt", "logit")]


@program
def products_with_numbers(m):
    x = coo(m, True)
    return [pulled(m, x, y) for y in (x * 2, 2 * x, x / 2, x * m.tensor(3.0), x.mul(0.5), -x)]


@program
def products_with_dense_tensors(m):
    x, y = coo(m, True), csr(m, True)
    d = full(m).requires_grad_()
    return [
        pulled(m, x, x * d),
        d.grad.to_dense().clone(),
        pulled(m, x, d * x),
        pulled(m, y, y * full(m))[0],
        pulled(m, x, x * m.tensor([1.0, 2.0, 3.0])),
    ]


@program
def products_with_sparse_tensors(m):
    x, other = coo(m, True), m.sparse_coo_tensor([[0, 0, 1], [0, 2, 2]], [7.0, 8.0, 9.0], (2, 3))
    return [pulled(m, x, (x * other).to_dense()), pulled(m, x, x * x), show(csr(m) * csr(m))]


@program
def sums_with_sparse_tensors(m):
    x, other = coo(m, True), m.sparse_coo_tensor([[0, 0], [0, 2]], [7.0, 8.0], (2, 3))
    return [pulled(m, x, x + x), pulled(m, x, x - other), pulled(m, x, m.add(x, other, alpha=3)), show(csr(m) + csr(m))]


@program
def sums_with_dense_tensors(m):
    x, d = coo(m, True), full(m).requires_grad_()
    made = [pulled(m, x, d + x), d.grad, pulled(m, x, m.add(full(m), x, alpha=2)), pulled(m, x, full(m) - x)]
    return [*made, csr(m) + full(m), attempt(lambda: x + 1)]


@program
def sums_that_do_not_fit(m):
    return [attempt(lambda: m.eye(2).to_sparse() + m.eye(3).to_sparse()), attempt(lambda: m.eye(2).to_sparse() + m.eye(2).to_sparse_csr())]


@program
def quotients_and_powers(m):
    x = coo(m, True)
    return [pulled(m, x, x**2), attempt(lambda: x / full(m)), attempt(lambda: 2 / coo(m)), show(coo(m) // 2)]


# ----- products -----------------------------------------------------------------------------------------------------------


def _product(name: str, f: Any) -> None:
    def run(m):
        made = []
        for layout in (coo, uncoalesced, csr):
            x = layout(m, True)
            value = pulled(m, x, f(m, x)) if layout is not csr else [show(f(m, x))]
            made.append(value)
        return made

    run.__name__ = name
    program(run)


for _name, _f in {
    "sparse_mm_with_a_dense_matrix": lambda m, x: m.sparse.mm(x, full(m).t()),
    "mm_with_a_dense_matrix": lambda m, x: x.mm(full(m).t()),
    "the_operator_with_a_dense_matrix": lambda m, x: x @ full(m).t(),
    "a_dense_matrix_times_a_sparse_one": lambda m, x: full(m).t() @ x,
    "a_sparse_matrix_times_a_vector": lambda m, x: x @ m.tensor([1.0, 2.0, 3.0]),
    "mv": lambda m, x: x.mv(m.tensor([1.0, 2.0, 3.0])),
    "a_vector_times_a_sparse_matrix": lambda m, x: m.tensor([1.0, 2.0]) @ x,
    "addmm": lambda m, x: m.addmm(m.ones(2, 2), x, full(m).t()),
    "sparse_addmm": lambda m, x: m.sparse.addmm(m.ones(2, 2), x, full(m).t(), beta=2.0, alpha=3.0),
}.items():
    _product(_name, _f)


@program
def the_gradient_of_the_dense_factor(m):
    d = full(m).t().contiguous().requires_grad_()
    (m.sparse.mm(coo(m), d) * weights(m, (2, 2))).sum().backward()
    first, d.grad = d.grad, None
    (csr(m) @ d).pow(2).sum().backward()
    return [first, d.grad]


@program
def sparse_times_sparse(m):
    x = coo(m, True)
    y = m.sparse_coo_tensor([[0, 2, 2], [1, 0, 1]], [1.0, 2.0, 3.0], (3, 2))
    made = m.sparse.mm(x, y)
    made.to_dense().sum().backward()
    return [show(made), show(x.grad.to_dense() * (x.detach().to_dense() != 0)), show(coo(m) @ coo(m).t())]


@program
def batched_products(m):
    x = m.stack([coo(m), coo(m) * 2])
    return [m.bmm(x, m.stack([full(m).t(), full(m).t()])), show(m.hspmm(coo(m), full(m).t()))]


@program
def products_that_do_not_fit(m):
    x = m.eye(2).to_sparse()
    return [
        attempt(lambda: m.sparse.mm(x, m.ones(3, 2))), attempt(lambda: m.sparse.mm(x, m.ones(2, 2, dtype=m.float64))),
        attempt(lambda: m.sparse.sampled_addmm(m.eye(2).to_sparse_csr(), m.ones(2, 3), m.ones(2, 2))),
    ]  # fmt: skip


@program
def older_names_and_copies(m):
    x, d = coo(m).coalesce(), full(m).t()
    copies = [m.crow_indices_copy(csr(m)), m.col_indices_copy(csr(m)), m.ccol_indices_copy(csr(m).t())]
    return [m.spmm(x, d), m.dsmm(x, d), show(m.hsmm(x, d)), copies, m.row_indices_copy(csr(m).t())]


# ----- reductions and softmax ---------------------------------------------------------------------------------------------


@program
def sums_of_all_entries(m):
    x, y = coo(m, True), uncoalesced(m, True)
    return [pulled(m, x, x.sum()), pulled(m, y, m.sparse.sum(y)), csr(m).sum(), coo(m).sum(dtype=m.float64)]


@program
def sums_over_dimensions(m):
    x, h = coo(m, True), hybrid(m)
    made = [pulled(m, x, m.sparse.sum(x, d)) for d in (0, 1, (0, 1), -1)]
    return [*made, show([m.sparse.sum(h, 0), m.sparse.sum(h, 1), coo(m).sum(0), coo(m).sum((0, 1), keepdim=True)])]


@program
def softmax_over_entries(m):
    made = []
    for d in (0, 1):
        x = coo(m, True)
        made += [pulled(m, x, m.sparse.softmax(x, d)), pulled(m, x, m.sparse.log_softmax(x, d))]
    return [
        *made,
        show(m.sparse.softmax(coo(m), -1)),
        show(m.sparse.softmax(hybrid(m), 1)),
        show(m.sparse.softmax(hybrid(m), 0)),
        attempt(lambda: m.sparse.softmax(m.eye(2), 1)),
    ]


@program
def softmax_in_another_dtype(m):
    return show(m.sparse.softmax(coo(m), 1, dtype=m.float64))


@program
def diagonals(m):
    d = m.arange(9.0).reshape(3, 3).requires_grad_()
    x = m.sparse.spdiags(d, m.tensor([0, -1, 2]), (4, 5))
    bad = [
        attempt(lambda: m.sparse.spdiags(m.ones(2, 3), m.tensor([0, 0]), (3, 3))),
        attempt(lambda: m.sparse.spdiags(m.ones(2, 3), m.tensor([0]), (3, 3))),
        attempt(lambda: m.sparse.spdiags(m.ones(3), m.tensor([0]), (3, 3, 3))),
    ]  # fmt: skip
    return [show(x), show(m.sparse.spdiags(m.ones(3), m.tensor([0]), (3, 3), layout=m.sparse_csr)), bad]


@program
def norms(m):
    return [coo(m).norm(), uncoalesced(m).norm(), coo(m).any()]


# ----- parts and joins ----------------------------------------------------------------------------------------------------


@program
def transposes(m):
    x = coo(m, True)
    return [pulled(m, x, x.t()), pulled(m, x, x.transpose(0, 1)), pulled(m, x, x.permute(1, 0)), pulled(m, x, x.T), show(csr(m).t())]


@program
def selections(m):
    x = coo(m)
    return [
        show(x.select(0, 1)),
        show(x[1]),
        x[1, 2],
        show(x.select(1, 2)),
        [show(row) for row in x],
        attempt(lambda: x.select(0, 5)),
        show(hybrid(m)[2]),
    ]


@program
def elements_and_their_gradients(m):
    x = coo(m, True)
    return pulled(m, x, x[1, 2])


@program
def index_select_and_narrow(m):
    x = coo(m).coalesce()
    return show(
        [
            x.index_select(0, m.tensor([1, 1, 0])),
            x.index_select(1, m.tensor([2, 0])),
            getattr(x, "narrow_copy", x.narrow)(1, 1, 2),
            hybrid(m).index_select(1, m.tensor([1])),
        ]
    )


@program
def joins(m):
    x, y = coo(m), uncoalesced(m)
    return show([m.cat([x, y]), m.cat([x, y], 1), m.stack([x, y]), m.cat([hybrid(m), hybrid(m)], 1), x.unbind()])


@program
def stacks_and_their_gradients(m):
    x = coo(m, True)
    return pulled(m, x, m.stack([x, x * 2]))


# ----- in place -----------------------------------------------------------------------------------------------------------


@program
def writes_in_place(m):
    made = [
        coo(m).mul_(2),
        coo(m).div_(2),
        coo(m).neg_(),
        coo(m).add_(coo(m)),
        coo(m).zero_(),
        csr(m).mul_(3),
        csr(m).sin_(),
        full(m).add_(coo(m)),
        full(m).add_(coo(m), alpha=-2),
    ]
    return show(made)


@program
def writes_that_cannot_be(m):
    x = coo(m)
    return [
        attempt(lambda: coo(m, True).mul_(2)),
        attempt(lambda: x.add_(full(m))),
        attempt(lambda: x.__setitem__(0, 1.0)),
        attempt(lambda: x.fill_(1.0)),
    ]


@program
def values_share_memory(m):
    x = coo(m)
    x._values().mul_(2)
    y = csr(m)
    y.values().add_(1)
    return show([x, y])


@program
def other_sizes_in_place(m):
    x = coo(m)
    grown = show(x.sparse_resize_((4, 4), 2, 0))
    return [
        grown, show(coo(m).sparse_resize_and_clear_((4, 4), 2, 0)), attempt(lambda: coo(m).sparse_resize_((1, 1), 2, 0)),
        attempt(lambda: coo(m).sparse_resize_((3,), 2, 0)), show(m.ones(2).to_sparse().resize_as_sparse_(m.ones(3).to_sparse())),
    ]  # fmt: skip


# ----- sparse gradients ---------------------------------------------------------------------------------------------------


@program
def the_sparse_gradient_of_an_embedding(m):
    w = weights(m, (5, 2)).requires_grad_()
    rows = m.nn.functional.embedding(m.tensor([[1, 3], [1, 0]]), w, sparse=True)
    (rows * weights(m, (2, 2, 2))).sum().backward()
    g = w.grad
    return [show(g), g._nnz(), g.is_coalesced(), g._indices().tolist(), g._values()]


@program
def padding_gets_no_entry(m):
    w = weights(m, (5, 2)).requires_grad_()
    m.nn.functional.embedding(m.tensor([1, 3, 1, 0]), w, padding_idx=1, sparse=True).sum().backward()
    return [show(w.grad), w.grad._nnz()]


@program
def an_embedding_module(m):
    layer = m.nn.Embedding(4, 2, sparse=True)
    with m.no_grad():
        layer.weight.copy_(weights(m, (4, 2)))
    layer(m.tensor([1, 1, 3])).pow(2).sum().backward()
    return [show(layer.weight.grad), repr(layer)]


@program
def bags_with_sparse_gradients(m):
    made = []
    for mode in ("sum", "mean"):
        w = weights(m, (5, 2)).requires_grad_()
        m.nn.functional.embedding_bag(m.tensor([1, 3, 1, 0]), w, m.tensor([0, 2]), mode=mode, sparse=True).sum().backward()
        made.append(show(w.grad))
    w = weights(m, (5, 2)).requires_grad_()
    s = m.tensor([1.0, 2.0, 3.0, 4.0])
    m.nn.functional.embedding_bag(
        m.tensor([1, 3, 1, 0]), w, m.tensor([0, 2]), mode="sum", sparse=True, per_sample_weights=s
    ).sum().backward()
    refused = attempt(lambda: m.nn.functional.embedding_bag(m.tensor([1]), w, m.tensor([0]), mode="max", sparse=True))
    return [*made, show(w.grad), refused]


@program
def gather_with_a_sparse_gradient(m):
    x = weights(m, (3, 4)).requires_grad_()
    (x.gather(1, m.tensor([[0, 1], [2, 2], [3, 0]]), sparse_grad=True) * weights(m, (3, 2))).sum().backward()
    return [show(x.grad), x.grad._nnz(), x.grad.is_coalesced()]


def _lookup(m: Any, w: Any, index: Any = (1, 3, 1)) -> Any:
    return m.nn.functional.embedding(m.tensor(list(index)), w, sparse=True)


@program
def sparse_gradients_accumulate(m):
    w = weights(m, (5, 2)).requires_grad_()
    for _ in range(2):
        _lookup(m, w).sum().backward()
    return [show(w.grad), w.grad._nnz()]


@program
def two_sparse_gradients_of_one_pass(m):
    w = weights(m, (5, 2)).requires_grad_()
    (_lookup(m, w).sum() + _lookup(m, w, (1, 2)).pow(2).sum()).backward()
    return [show(w.grad), w.grad._nnz()]


@program
def sparse_and_dense_gradients_of_one_pass(m):
    w = weights(m, (5, 2)).requires_grad_()
    (_lookup(m, w).sum() + (w * 2).sum()).backward()
    return show(w.grad)


@program
def dense_gradients_after_sparse_ones_and_before(m):
    made = []
    for order in ("sd", "ds", "sds"):
        w = weights(m, (5, 2)).requires_grad_()
        for kind in order:
            (_lookup(m, w).sum() if kind == "s" else (w * 2).sum()).backward()
        made.append(show(w.grad))
    return made


@program
def hooks_see_sparse_gradients(m):
    w = weights(m, (5, 2)).requires_grad_()
    seen = []
    w.register_hook(lambda g: seen.append((str(g.layout).split(".")[-1], g._nnz())) or g * 2)
    w.register_post_accumulate_grad_hook(lambda t: seen.append(str(t.grad.layout).split(".")[-1]))
    _lookup(m, w).sum().backward()
    return [seen, show(w.grad)]


@program
def sparse_gradients_go_through_elementwise_nodes(m):
    w = weights(m, (5, 2)).requires_grad_()
    _lookup(m, w * 2).sum().backward()
    first, w.grad = w.grad, None
    _lookup(m, w.exp()).sum().backward()
    return show([first, w.grad])


@program
def grad_returns_sparse_gradients(m):
    w = weights(m, (5, 2)).requires_grad_()
    (g,) = m.autograd.grad(_lookup(m, w).pow(2).sum(), w)
    return [show(g), w.grad is None]


@program
def a_sparse_gradient_is_differentiated(m):
    w = weights(m, (5, 2)).requires_grad_()
    (g,) = m.autograd.grad(_lookup(m, w).pow(3).sum(), w, create_graph=True)
    (h,) = m.autograd.grad((g.to_dense() * weights(m, (5, 2))).sum(), w)
    return [show(g), show(h)]


@program
def a_sparse_gradient_is_passed_to_backward(m):
    w = full(m).requires_grad_()
    (w * 2).backward(coo(m))
    return show(w.grad)


@program
def a_custom_function_returns_a_sparse_gradient(m):
    class Rows(m.autograd.Function):
        @staticmethod
        def forward(ctx, w, index):
            ctx.index, ctx.shape = index, tuple(w.shape)
            return w[index]

        @staticmethod
        def backward(ctx, g):
            return m.sparse_coo_tensor(ctx.index[None], g, ctx.shape), None

    made = []
    for also_dense in (False, True):
        w = weights(m, (4, 2)).requires_grad_()
        for _ in range(2):
            y = Rows.apply(w, m.tensor([1, 1, 3])).pow(2).sum()
            (y + (w * 2).sum() if also_dense else y).backward()
        made.append(show(w.grad))
    return made


@program
def the_gradient_of_a_sparse_leaf_is_retained_and_hooked(m):
    x = coo(m, True)
    y = x * 2
    y.retain_grad()
    seen = []
    x.register_hook(lambda g: seen.append(str(g.layout).split(".")[-1]))
    y.to_dense().sum().backward()
    return [seen, show(y.grad), show(x.grad)]


@program
def gradients_of_a_sparse_leaf_accumulate(m):
    x = coo(m, True)
    for _ in range(3):
        m.sparse.mm(x, full(m).t()).sum().backward()
    return show(x.grad)


@program
def gradcheck_of_masked_functions(m):
    x = coo(m).double().coalesce().requires_grad_()
    d = full(m).double().requires_grad_()
    check = m.autograd.gradcheck
    return [
        check(lambda x: x.to_dense(), [x], masked=True), check(lambda x: x.to_dense(masked_grad=False), [x], masked=False),
        check(lambda x, d: m.sparse.mm(x, d.t()), [x, d], masked=True),
        check(lambda x: m.sparse.softmax(x, 1).to_dense(), [x], masked=True),
        check(lambda x: m.sparse.sum(x, 0).to_dense(), [x], masked=True),
    ]  # fmt: skip


# ----- optimizers -----------------------------------------------------------------------------------------------------------


def _steps(m: Any, make: Any, count: int = 3) -> Any:
    w = m.nn.Parameter(weights(m, (5, 2)))
    optimizer = make([w])
    for _ in range(count):
        optimizer.zero_grad()
        _lookup(m, w).pow(2).sum().backward()
        optimizer.step()
    return w.detach()


@program
def sgd_with_sparse_gradients(m):
    settings = [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"maximize": True}, {"momentum": 0.5, "dampening": 0.5}]
    return [_steps(m, lambda p, s=s: m.optim.SGD(p, lr=0.1, **s)) for s in settings]


@program
def adagrad_with_sparse_gradients(m):
    settings = [{}, {"lr_decay": 0.1}, {"initial_accumulator_value": 0.5, "maximize": True}]
    made = [_steps(m, lambda p, s=s: m.optim.Adagrad(p, lr=0.1, **s)) for s in settings]
    return [*made, attempt(lambda: _steps(m, lambda p: m.optim.Adagrad(p, weight_decay=0.1)))]


@program
def sparse_adam(m):
    made = [_steps(m, lambda p, s=s: m.optim.SparseAdam(p, lr=0.1, **s)) for s in ({}, {"betas": (0.5, 0.9), "maximize": True})]

    def dense_gradients():
        w = m.nn.Parameter(m.ones(5, 2))
        w.sum().backward()
        m.optim.SparseAdam([w]).step()

    wrong = [
        attempt(dense_gradients),
        attempt(lambda: m.optim.SparseAdam([coo(m, True)])),
        attempt(lambda: m.optim.SparseAdam([m.ones(1)], lr=0.0)),
    ]
    return [*made, wrong]


@program
def optimizers_that_refuse_sparse_gradients(m):
    names = ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adadelta", "ASGD")
    return [attempt(lambda name=name: _steps(m, getattr(m.optim, name))) for name in names]


# ----- texts, copies and files ------------------------------------------------------------------------------------------------


@program
def texts(m):
    blocks = m.eye(4).to_sparse_bsr((2, 2))
    tensors = [
        coo(m), coo(m, True), csr(m), hybrid(m), blocks, m.eye(2).to_sparse_csc(), m.sparse_coo_tensor((2, 3)),
        coo(m).double(), m.eye(1500).to_sparse(),
        m.ones(3, 2, 2).to_sparse(1), m.eye(2, dtype=m.int64).to_sparse_csr(), m.zeros(2, 2).to_sparse_csr(),
    ]  # fmt: skip
    return [repr(t).replace("ndgrad.", "torch.") for t in tensors]


@program
def copies(m):
    x = coo(m, True)
    y = x.detach().clone()
    y.mul_(2)
    again = pickle.loads(pickle.dumps(x.detach()))
    deep = copy.deepcopy(x)
    return [show(x), show(y), show(again), show(deep), deep.requires_grad, pulled(m, x, x.clone())]


@program
def files(m):
    file = io.BytesIO()
    m.save({"a": coo(m), "b": csr(m), "c": m.eye(4).to_sparse_bsr((2, 2))}, file)
    file.seek(0)
    return show(list(m.load(file).values()))


@program
def values_out(m):
    x = coo(m)
    return [
        attempt(x.numpy),
        attempt(x.item),
        attempt(lambda: bool(x)),
        attempt(x.tolist),
        attempt(x.data_ptr),
        m.tensor([2.0]).to_sparse()[0].item(),
    ]


@program
def a_module_with_a_sparse_buffer(m):
    class Graph(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", coo(m))
            self.linear = m.nn.Linear(3, 2, bias=False)

        def forward(self, x):
            return m.sparse.mm(self.adjacency, self.linear(x))

    layer = Graph()
    with m.no_grad():
        layer.linear.weight.copy_(weights(m, (2, 3)))
    layer.load_state_dict(layer.state_dict())
    out = layer(weights(m, (3, 3)))
    out.pow(2).sum().backward()
    return [out.detach(), layer.linear.weight.grad, list(layer.state_dict())]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_program_gives_the_same_with_ndgrad_as_with_torch(name: str) -> None:
    theirs, ours = (attempt(lambda m=m: PROGRAMS[name](m)) for m in (torch, ndgrad))
    assert not isinstance(theirs, str), f"the program fails on torch: {theirs}"
    same(theirs, ours)


# ----- files of the other library -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writer", [torch, ndgrad], ids=["torch's", "ours"])
def test_sparse_tensors_in_files_are_read_by_the_other_library(writer: Any) -> None:
    file = io.BytesIO()
    writer.save([coo(writer), csr(writer)], file)
    file.seek(0)
    reader = ndgrad if writer is torch else torch
    read = show(list(reader.load(file)))
    expected = show([coo(writer), csr(writer)])
    same(*(expected, read) if writer is torch else (read, expected))


# ----- deliberate differences -----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_the_gradient_of_a_sparse_leaf_has_its_layout_and_places():
    deliberate("sparse-gradients")
    for f in (lambda m, x: x.sum(), lambda m, x: (x @ m.ones(3, 1)).sum(), lambda m, x: (full(m) + x).sum(), lambda m, x: x[1, 2]):
        theirs, ours = coo(torch, True), coo(ndgrad, True)
        f(torch, theirs).backward()
        f(ndgrad, ours).backward()
        assert theirs.grad.layout is torch.strided
        assert ours.grad.layout is ndgrad.sparse_coo
        same(show(theirs.grad.sparse_mask(theirs.detach().coalesce())), show(ours.grad))
    with pytest.raises(RuntimeError):  # torch's rules of some functions
        torch.tanh(coo(torch, True)).to_dense().sum().backward()
    x = coo(ndgrad, True)
    ndgrad.tanh(x).to_dense().sum().backward()
    assert x.grad._nnz() == 3


@pytest.mark.filterwarnings("ignore")
def test_indices_are_checked_whether_asked_or_not():
    deliberate("sparse-checks")
    assert torch.sparse_coo_tensor([[0, 3]], [1.0, 2.0], (3,))._nnz() == 2
    with pytest.raises(RuntimeError, match="found index 3"):
        ndgrad.sparse_coo_tensor([[0, 3]], [1.0, 2.0], (3,))
    assert torch.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2))._nnz() == 2
    with pytest.raises(RuntimeError, match="col_indices"):
        ndgrad.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2))


@pytest.mark.filterwarnings("ignore")
def test_values_with_a_history_are_not_written_and_solves_need_no_gpu():
    deliberate("sparse-beyond")
    with pytest.raises(NotImplementedError):
        torch.sparse.spsolve(torch.eye(2).to_sparse_csr(), torch.ones(2))
    assert ndgrad.sparse.spsolve(ndgrad.eye(2).to_sparse_csr(), ndgrad.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError):
        coo(torch) + full(torch)
    assert (coo(ndgrad) + full(ndgrad)).tolist() == [[1.0, 2.0, 6.0], [8.0, 5.0, 11.0]]
    with pytest.raises(NotImplementedError):
        torch.cat([coo(torch, True), coo(torch)]).to_dense().sum().backward()
    x = coo(ndgrad, True)
    ndgrad.cat([x, coo(ndgrad)]).to_dense().sum().backward()
    assert x.grad._nnz() == 3
    assert type(coo(torch)) is torch.Tensor
    assert type(coo(ndgrad)) is not ndgrad.Tensor
    assert isinstance(coo(ndgrad), ndgrad.Tensor)
