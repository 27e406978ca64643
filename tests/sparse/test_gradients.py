"""Derivatives of functions of sparse tensors: against finite differences of their values, in every mode, and against dense programs."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import ndgrad
from ndgrad import func
from ndgrad._src.interpreters import forward_ad
from ndgrad.autograd import gradcheck, gradgradcheck

INDICES = [[0, 1, 1, 0], [2, 0, 2, 2]]  # the last place is named twice
D = np.arange(6.0).reshape(2, 3) + 1.0


def values():
    return ndgrad.tensor([0.3, 0.4, 0.5, -0.7])


def sparse(v, layout="sparse_coo"):
    x = ndgrad.sparse_coo_tensor(INDICES, v, (2, 3))
    return x if layout == "sparse_coo" else x.to_sparse(layout=getattr(ndgrad, layout), blocksize=(1, 3) if "bs" in layout else None)


def dense():
    return ndgrad.tensor(D)


#: Functions of a sparse matrix of shape (2, 3), with a dense or sparse result.
FUNCTIONS = {
    "to_dense": lambda x: x.to_dense(),
    "unmasked": lambda x: x.to_dense(masked_grad=False),
    "sin": lambda x: x.sin(),
    "square": lambda x: x**2,
    "times itself": lambda x: x * x,
    "times a matrix": lambda x: x * dense(),
    "times a row": lambda x: x * dense()[0],
    "times a number": lambda x: 3.0 * x / 2.0 - x,
    "beside a matrix": lambda x: dense() + x,
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(1),
    "sum of columns, kept": lambda x: x.sum(0, keepdim=True),
    "norm": lambda x: x.norm(),
    "product": lambda x: x @ dense().T,
    "product from the left": lambda x: dense().T @ x,
    "product with a vector": lambda x: x @ dense()[0],
    "product with its transpose": lambda x: x @ x.t(),
    "transpose": lambda x: x.transpose(0, 1) * 2.0,
    "row": lambda x: x[1],
    "element": lambda x: x[1, 2],
    "part": lambda x: x[:, 1:] if x.layout is ndgrad.sparse_coo else x.to_sparse()[:, 1:],
    "double": lambda x: x.to(ndgrad.float64) * 1.0,
    "mask": lambda x: x.sparse_mask(sparse(values()).detach().coalesce()),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_coo().to_sparse_bsr((2, 3)),
}  # fmt: skip
COO_ONLY = {
    "softmax": lambda x: ndgrad.sparse.softmax(x, 1),
    "log_softmax": lambda x: ndgrad.sparse.log_softmax(x, 0),
    "cat": lambda x: ndgrad.cat([x, x * 2.0], 1),
    "stack": lambda x: ndgrad.stack([x, x * 2.0]),
    "index_select": lambda x: x.index_select(1, ndgrad.tensor([2, 2, 0])),
    "unsqueeze": lambda x: x.unsqueeze(1).squeeze(1),
    "hspmm": lambda x: ndgrad.hspmm(x, dense().T),
    "bmm": lambda x: ndgrad.bmm(x.unsqueeze(0), dense().T.unsqueeze(0)),
    "fewer sparse dimensions": lambda x: x.to_sparse(1) * 2.0,
}
CASES = [
    (name, f, layout)
    for layout in ("sparse_coo", "sparse_csr", "sparse_csc")
    for name, f in FUNCTIONS.items()
    if layout == "sparse_coo" or name != "beside"
]
CASES += [(name, f, "sparse_coo") for name, f in COO_ONLY.items()]
IDS = [f"{name}, {layout}" for name, _, layout in CASES]


def full(out):
    return out.to_dense() if out.layout is not ndgrad.strided else out


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "f", "layout"), CASES, ids=IDS)
def test_derivatives_in_the_values(name, f, layout):
    v = values().requires_grad_()
    gradcheck(lambda v: full(f(sparse(v, layout))), (v,), check_forward_ad=True, check_batched_grad=False)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "f", "layout"), CASES[::2], ids=IDS[::2])
def test_second_derivatives_in_the_values(name, f, layout):
    gradgradcheck(lambda v: full(f(sparse(v, layout))), (values().requires_grad_(),))


@pytest.mark.parametrize(("name", "f", "layout"), CASES[1::2], ids=IDS[1::2])
def test_transforms_of_functions_that_build_sparse_tensors(name, f, layout):
    def g(v):
        return (full(f(sparse(v, layout))) ** 2).sum()

    v = values().requires_grad_()
    (expected,) = ndgrad.autograd.grad(g(v), v)
    plain = values()
    np.testing.assert_allclose(func.grad(g)(plain).numpy(), expected.numpy())
    np.testing.assert_allclose(func.jacfwd(g)(plain).numpy(), expected.numpy())
    batch = ndgrad.stack([plain, 2.0 * plain])
    np.testing.assert_allclose(func.vmap(g)(batch)[0].item(), g(plain).item())
    np.testing.assert_allclose(func.vmap(func.grad(g))(batch)[0].numpy(), expected.numpy())


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
def test_the_gradient_of_a_sparse_leaf_has_its_layout_and_places(layout):
    x = sparse(values(), layout).detach().requires_grad_()
    (x.to_dense() * dense()).pow(2).sum().backward()
    assert x.grad.layout is x.layout
    expected = 2 * D * D * x.detach().to_dense().numpy()
    np.testing.assert_allclose(x.grad.to_dense().numpy(), expected * (x.detach().to_dense().numpy() != 0))


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_gradcheck_takes_sparse_inputs(masked, layout):
    x, d = sparse(values(), layout).detach().requires_grad_(), dense().requires_grad_()
    assert gradcheck(lambda x, d: ndgrad.sparse.mm(x, d.T), (x, d), masked=masked)
    assert gradgradcheck(lambda x: (x * x).to_dense(), (x,), masked=masked)
    assert ndgrad.sparse.as_sparse_gradcheck(gradcheck)(lambda x: x.to_dense(), x, masked=masked)


def test_gradcheck_finds_a_wrong_gradient_of_a_sparse_input():
    x = sparse(values()).detach().requires_grad_()
    assert not gradcheck(lambda x: x.to_dense() * x.detach().to_dense(), (x,), masked=True, raise_exception=False)


def test_repeated_places_are_one_place():
    v = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    x = ndgrad.sparse_coo_tensor([[0, 0]], v, (1,))
    (x * x).sum().backward()
    assert v.grad.tolist() == [6.0, 6.0]
    leaf = ndgrad.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (1,), requires_grad=True)
    (leaf * leaf).sum().backward()
    assert leaf.grad.to_dense().tolist() == [6.0]


def test_complex_values():
    v = ndgrad.tensor([1 + 2j, 3 - 1j], requires_grad=True)

    def f(v):
        x = ndgrad.sparse_coo_tensor([[0, 1], [1, 0]], v, (2, 2))
        return (x @ (x.t().conj() * 2.0)).to_dense()

    assert gradcheck(f, (v,))
    x = ndgrad.sparse_coo_tensor([[0]], [1 + 2j])
    assert (x.real.to_dense().item(), x.imag.to_dense().item()) == (1.0, 2.0)


def test_gradients_accumulate_in_the_leaf_and_hooks_see_them():
    x = sparse(values()).detach().coalesce().requires_grad_()
    seen = []
    x.register_hook(lambda g: seen.append(g.layout) or 2.0 * g)
    for _ in range(2):
        (x * x).sum().backward()
    assert seen == [ndgrad.sparse_coo] * 2
    np.testing.assert_allclose(x.grad.to_dense().numpy(), 8.0 * x.detach().to_dense().numpy())


def test_a_write_to_values_that_were_saved_is_noticed():
    v = values().requires_grad_()
    w = v * 1.0
    x = ndgrad.sparse_coo_tensor([[0, 1, 1, 0], [0, 0, 2, 2]], w, (2, 3), is_coalesced=False)._coalesced_(False)
    y = (ndgrad.sparse_csr_tensor([0, 2, 4], [0, 2, 0, 2], w) ** 2).sum()
    with ndgrad.no_grad():
        w.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation|in place"):
        y.backward()
    assert x._nnz() == 4


def test_values_with_a_history_are_not_written():
    x = ndgrad.sparse_coo_tensor([[0, 1]], ndgrad.ones(2, requires_grad=True)).coalesce()
    with pytest.raises(RuntimeError, match="sparse tensor with a history"):
        x.values().mul_(2.0)


def test_in_place_functions_follow_the_history():
    v = values().requires_grad_()
    x = sparse(v) * 1.0
    x.mul_(3.0)
    x.add_(x)
    (x.to_dense() * dense()).sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), 6.0 * D[tuple(INDICES)])
    leaf = sparse(values()).detach().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.mul_(2.0)
    with ndgrad.no_grad():
        leaf.mul_(2.0)
    np.testing.assert_allclose(leaf.detach().to_dense().numpy(), 2.0 * sparse(values()).to_dense().numpy())


def test_writes_in_place_leave_the_values_alone_that_a_tensor_was_made_of():
    v = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    square = v * v
    x = ndgrad.sparse_csr_tensor([0, 1, 2], [0, 1], v)
    x.mul_(3.0)
    assert v.tolist() == [1.0, 2.0]
    (x.values() * square).sum().backward()
    assert v.grad.tolist() == [9.0, 36.0]
    w = ndgrad.tensor([1.0, 2.0])
    y = ndgrad.sparse_coo_tensor([[0, 1]], w)
    y.zero_()
    assert w.tolist() == [1.0, 2.0]


def test_with_overrides_off_sparse_tensors_are_sparse_all_the_same():
    x = sparse(values())
    with ndgrad._C.DisableTorchFunctionSubclass():
        y = x * 2.0
        with pytest.raises(NotImplementedError):
            x.exp()
    assert y.layout is ndgrad.sparse_coo
    np.testing.assert_allclose(y.to_dense().numpy(), 2.0 * x.to_dense().numpy())


def test_a_custom_function_that_returns_a_sparse_input_keeps_its_history():
    class Same(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3.0

    v = values().requires_grad_()
    Same.apply(sparse(v)).to_dense().sum().backward()
    assert v.grad.tolist() == [3.0] * 4
    leaf = sparse(values()).detach().coalesce().requires_grad_()
    Same.apply(leaf).to_dense().sum().backward()
    assert leaf.grad.values().tolist() == [3.0] * 3


def test_a_dense_target_takes_entries_in_place():
    x, d = sparse(values().requires_grad_()), dense().requires_grad_()
    y = d * 1.0
    y.add_(x, alpha=2.0)
    (y * dense()).sum().backward()
    np.testing.assert_allclose(d.grad.numpy(), D)


def test_sparse_constants_inside_transforms():
    x = sparse(values())
    b = ndgrad.tensor(np.eye(3))
    np.testing.assert_allclose(func.vmap(lambda b: x @ b)(b).numpy(), x.to_dense().numpy().T)
    np.testing.assert_allclose(func.jacrev(lambda b: x @ b)(b[0]).numpy(), x.to_dense().numpy())
    np.testing.assert_allclose(
        func.hessian(lambda b: ((x @ b) ** 2).sum())(b[0]).numpy(), 2 * x.to_dense().numpy().T @ x.to_dense().numpy()
    )


def test_a_leaf_outside_gets_its_gradient_through_a_transform_inside():
    x = sparse(values()).detach().requires_grad_()
    b = ndgrad.ones(3)
    g = func.grad(lambda b: ((x @ b) ** 2).sum())(b)
    g.sum().backward()
    full_x = x.detach().to_dense().requires_grad_()
    h = func.grad(lambda b: ((full_x @ b) ** 2).sum())(b)
    h.sum().backward()
    np.testing.assert_allclose(x.grad.to_dense().numpy(), full_x.grad.numpy() * (full_x.detach().numpy() != 0))


@pytest.mark.parametrize(
    "use",
    [
        lambda x: func.grad(lambda x: x.sum())(x),
        lambda x: func.vmap(lambda x: x * 2.0)(x),
        lambda x: func.jvp(lambda x: x * 2.0, (x,), (x,)),
    ],
    ids=["grad", "vmap", "jvp"],
)
def test_sparse_inputs_of_transforms_are_refused_in_words(use):
    with pytest.raises(RuntimeError, match="Pass its values"):
        use(sparse(values()))


def test_make_dual_refuses_sparse_tensors():
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="Pass its values"):
        forward_ad.make_dual(sparse(values()), sparse(values()))


def test_graphs_of_sparse_tensors_die_by_reference_counting():
    x = sparse(values()).detach().requires_grad_()
    y = ndgrad.sparse.mm(x, dense().T)
    node = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        y.sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()


def test_checkpointed_functions_of_sparse_tensors():
    v = values().requires_grad_()
    y = ndgrad.utils.checkpoint.checkpoint(lambda v: (sparse(v) @ dense().T).pow(2).sum(), v, use_reentrant=False)
    y.backward()
    again = values().requires_grad_()
    (sparse(again) @ dense().T).pow(2).sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), again.grad.numpy())


def test_backward_passes_without_sparse_tensors_stay_on_arrays():
    from ndgrad._src.engine.roots import choose_path

    x = ndgrad.ones(2, requires_grad=True)
    y = (x * x).sum()
    assert choose_path([y.grad_fn], [ndgrad.ones(())], False) == "arrays"
    kept = sparse(values().requires_grad_())
    assert choose_path([y.grad_fn], [ndgrad.ones(())], False) == "arrays"
    assert choose_path([kept.sum().grad_fn], [ndgrad.ones(())], False) == "tensors"
