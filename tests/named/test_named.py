"""Names of dimensions: the rules that torch documented up to its version 2.12 (2.13 has no names, so it is no oracle
here), values against the same program without names, gradients against those of the program without names."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad._src.tensor import families
from ndgrad._src.tensor.named.inference import elementwise, rule_of


def ones(*names, sizes=None):
    return ndgrad.arange(float(np.prod(sizes or range(2, 2 + len(names))))).reshape(
        sizes or tuple(range(2, 2 + len(names)))
    ).rename(*names)


def image():
    return ones("N", "C", "H", "W")  # 2 x 3 x 4 x 5


# ----- propagation ----------------------------------------------------------------------------------------------------

#: Functions of a tensor `x` with names N, C, H, W, and the same without names.
ONE = {
    "exp": (lambda x: x.exp(), lambda x: x.exp(), "NCHW"),
    "a number beside it": (lambda x: 2 * x + 1, lambda x: 2 * x + 1, "NCHW"),
    "power": (lambda x: 2**x, lambda x: 2**x, "NCHW"),
    "comparison": (lambda x: x > 1, lambda x: x > 1, "NCHW"),
    "cast": (lambda x: x.to(ndgrad.float64), lambda x: x.to(ndgrad.float64), "NCHW"),
    "where": (lambda x: ndgrad.where(x > 3, x, 0.0), lambda x: ndgrad.where(x > 3, x, 0.0), "NCHW"),
    "sum": (lambda x: x.sum("C"), lambda x: x.sum(1), "NHW"),
    "sum of two": (lambda x: x.sum(["N", "H"]), lambda x: x.sum((0, 2)), "CW"),
    "sum, kept": (lambda x: x.sum("C", keepdim=True), lambda x: x.sum(1, keepdim=True), "NCHW"),
    "sum of all": (lambda x: x.sum(), lambda x: x.sum(), ""),
    "mean by number": (lambda x: x.mean(-1), lambda x: x.mean(-1), "NCH"),
    "std": (lambda x: x.std("W"), lambda x: x.std(3), "NCH"),
    "var_mean": (lambda x: ndgrad.var_mean(x, "W")[1], lambda x: ndgrad.var_mean(x, 3)[1], "NCH"),
    "max": (lambda x: x.max("W").values, lambda x: x.max(3).values, "NCH"),
    "indices of max": (lambda x: x.max("W").indices, lambda x: x.max(3).indices, "NCH"),
    "argmin": (lambda x: x.argmin("H"), lambda x: x.argmin(2), "NCW"),
    "logsumexp": (lambda x: x.logsumexp("C"), lambda x: x.logsumexp(1), "NHW"),
    "topk": (lambda x: x.topk(2, "W").values, lambda x: x.topk(2, 3).values, "NCHW"),
    "kthvalue": (lambda x: x.kthvalue(2, "W").values, lambda x: x.kthvalue(2, 3).values, "NCH"),
    "softmax": (lambda x: F.softmax(x, "C"), lambda x: F.softmax(x, 1), "NCHW"),
    "cumsum": (lambda x: x.cumsum("H"), lambda x: x.cumsum(2), "NCHW"),
    "select": (lambda x: x.select("N", 1), lambda x: x.select(0, 1), "CHW"),
    "narrow": (lambda x: x.narrow("W", 1, 2), lambda x: x.narrow(3, 1, 2), "NCHW"),
    "unbind": (lambda x: x.unbind("C")[2], lambda x: x.unbind(1)[2], "NHW"),
    "split": (lambda x: x.split(2, "W")[1], lambda x: x.split(2, 3)[1], "NCHW"),
    "chunk": (lambda x: x.chunk(2, "H")[1], lambda x: x.chunk(2, 2)[1], "NCHW"),
    "transpose": (lambda x: x.transpose("C", "W"), lambda x: x.transpose(1, 3), "NWHC"),
    "permute": (lambda x: x.permute(3, 0, 2, 1), lambda x: x.permute(3, 0, 2, 1), "WNHC"),
    "movedim": (lambda x: x.movedim((0, 1), (3, 0)), lambda x: x.movedim((0, 1), (3, 0)), "CHWN"),
    "mT": (lambda x: x.mT, lambda x: x.mT, "NCWH"),
    "squeeze": (lambda x: x[:1].squeeze("N"), lambda x: x[:1].squeeze(0), "CHW"),
    "squeeze of what is not 1": (lambda x: x.squeeze("N"), lambda x: x.squeeze(0), "NCHW"),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda x: x.unsqueeze(1), "N_CHW"),
    "expand": (lambda x: x.expand(7, 2, 3, 4, 5), lambda x: x.expand(7, 2, 3, 4, 5), "_NCHW"),
    "an index": (lambda x: x[0, ..., None, 1:], lambda x: x[0, ..., None, 1:], "CH_W"),
    "diagonal": (lambda x: x.diagonal(0, 1, 2), lambda x: x.diagonal(0, 1, 2), "NW_"),
    "masked_fill": (lambda x: x.masked_fill(x > 5, 0.0), lambda x: x.masked_fill(x > 5, 0.0), "NCHW"),
    "masked_select": (lambda x: x.masked_select(x > 5), lambda x: x.masked_select(x > 5), "_"),
    "index_select": (
        lambda x: x.index_select("C", ndgrad.tensor([2, 0])),
        lambda x: x.index_select(1, ndgrad.tensor([2, 0])),
        "NCHW",
    ),
    "like": (lambda x: ndgrad.zeros_like(x), lambda x: ndgrad.zeros_like(x), "NCHW"),
    "detach, clone": (lambda x: x.detach().clone(), lambda x: x.detach().clone(), "NCHW"),
    "cat": (lambda x: ndgrad.cat([x, x], dim="C"), lambda x: ndgrad.cat([x, x], dim=1), "NCHW"),
    "stack": (lambda x: ndgrad.stack([x, x], dim=1), lambda x: ndgrad.stack([x, x], dim=1), "N_CHW"),
    "align_to": (lambda x: x.align_to("W", ..., "N"), lambda x: x.permute(3, 1, 2, 0), "WCHN"),
    "align_to, one more": (
        lambda x: x.align_to("W", "T", "C", "N", "H"),
        lambda x: x.permute(3, 1, 0, 2).unsqueeze(1),
        "WTCNH",
    ),
    "flatten": (lambda x: x.flatten(["C", "H"], "F"), lambda x: x.flatten(1, 2), "NFW"),
    "flatten from, to": (lambda x: x.flatten("C", "W", "F"), lambda x: x.flatten(1), "NF"),
    "unflatten": (lambda x: x.unflatten("H", [("A", 2), ("B", 2)]), lambda x: x.unflatten(2, (2, 2)), "NCABW"),
    "unflatten by a dict": (lambda x: x.unflatten("H", {"A": 2, "B": 2}), lambda x: x.unflatten(2, (2, 2)), "NCABW"),
    "linear": (lambda x: F.linear(x, ndgrad.ones(6, 5)), lambda x: F.linear(x, ndgrad.ones(6, 5)), "NCH_"),
    "a module": (lambda x: ndgrad.nn.Softmax(1)(x), lambda x: ndgrad.nn.Softmax(1)(x), "NCHW"),
}


def _names(text):
    return tuple(None if c == "_" else c for c in text)


@pytest.mark.parametrize("what", ONE)
def test_names_go_through_functions_of_one_tensor(what):
    named, plain, names = ONE[what]
    found, expected = named(image()), plain(image().rename(None))
    assert found.names == _names(names)
    assert expected.names == (None,) * expected.ndim
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("what", [k for k in ONE if k not in ("comparison", "argmin", "indices of max", "like", "detach, clone")])
def test_gradients_are_those_without_names_and_have_none(what):
    named, plain, _ = ONE[what]
    x, y = image().detach().requires_grad_(), image().rename(None).requires_grad_()
    (named(x) ** 2).sum().backward()
    (plain(y) ** 2).sum().backward()
    assert x.grad.names == (None,) * 4
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


#: Names of two tensors (sizes of all dimensions 2), and of their sum.
TWO = [
    ("NC", "NC", "NC"), ("N_", "_C", "NC"), ("NC", "C", "NC"), ("NC", "_", "NC"), ("C", "NC", "NC"), ("__", "NC", "NC"),
    ("", "NC", "NC"), ("_NC", "__C", "_NC"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "result"), TWO)
def test_elementwise_functions_unify_names_from_the_right(first, second, result):
    x, y = (ndgrad.ones([2] * len(names)).rename(*_names(names)) if names else ndgrad.ones(()) for names in (first, second))
    assert (x + y).names == ndgrad.mul(x, y).names == ndgrad.where(x > 0, x, y).names == _names(result)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("NC", "N", r"Error when attempting to broadcast dims \['N', 'C'\] and dims \['N'\]: dim 'C' and dim 'N' are at the same"),
        ("X", "Z", r"Error when attempting to broadcast dims \['X'\] and dims \['Z'\]: dim 'X' and dim 'Z'"),
        ("N_", "N", r"Misaligned dims when attempting to broadcast dims \['N'\] and dims \['N', None\]: dim 'N' appears"),
    ],
)
def test_names_that_contradict_each_other_raise(first, second, says):
    x, y = (ndgrad.ones([2] * len(names)).rename(*_names(names)) for names in (first, second))
    before = x.clone()
    for run in (lambda: x + y, lambda: x.add_(y), lambda: ndgrad.cat([x, y])):
        with pytest.raises(RuntimeError, match=says):
            run()
    assert x.names == _names(first)
    np.testing.assert_array_equal(x.numpy(), before.numpy())


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_every_elementwise_method_keeps_names():
    tried = 0
    for name, method in families.methods().items():
        if isinstance(method, type) or not callable(method) or rule_of(method, method.__name__) is not elementwise:
            continue
        for dtype in (ndgrad.float64, ndgrad.int64, ndgrad.bool):
            x = ndgrad.ones(2, 2, dtype=dtype)
            try:
                plain = method(x.clone())
            except (TypeError, RuntimeError, NotImplementedError):
                continue
            found = method(x.clone().rename("N", "C"))
            assert found.names == ("N", "C"), name
            np.testing.assert_array_equal(found.numpy(), plain.numpy(), name)
            tried += 1
            break
    assert tried > 90


@pytest.mark.parametrize(
    ("x", "y", "names"),
    [
        (("N", "D"), ("in", "out"), ("N", "out")),
        (("A", "B", "C", "D"), ("B", "E", "F"), ("A", "B", "C", "F")),
        (("N", "D"), ("v",), ("N",)),
        (("v",), ("D", "N"), ("N",)),
        (("v",), ("w",), ()),
    ],
)
def test_products_contract_dimensions_away_whatever_their_names(x, y, names):
    a, b = ndgrad.ones([3] * len(x)), ndgrad.ones([3] * len(y))
    found = a.rename(*x) @ b.rename(*y)
    assert found.names == names
    np.testing.assert_array_equal(found.numpy(), (a @ b).numpy())


def test_products_with_an_addend_and_duplicate_names():
    x, y = ones("N", "D"), ones("in", "out", sizes=(3, 4))
    assert ndgrad.addmm(ndgrad.ones(4, names=("out",)), x, y).names == ("N", "out")
    assert ndgrad.mv(x, ndgrad.ones(3)).names == ("N",)
    with pytest.raises(RuntimeError, match="duplicate names"):
        ndgrad.mm(x, ones("D", "N", sizes=(3, 2)))
    with pytest.raises(RuntimeError, match="Error when attempting to broadcast dims"):
        ndgrad.bmm(ones("A", None, None, sizes=(2, 2, 2)), ones("B", None, None, sizes=(2, 2, 2)))


# ----- writes ---------------------------------------------------------------------------------------------------------


def test_a_write_gives_its_target_the_names_that_it_computes():
    x, y = ndgrad.ones(2, 3), ones("N", "C")
    x += y
    assert x.names == ("N", "C")
    x.zero_().add_(1).clamp_(max=0.5)
    assert x.names == ("N", "C")
    assert x.transpose_("N", "C").names == ("C", "N")
    np.testing.assert_array_equal(x.numpy(), np.full((3, 2), 0.5))


def test_a_write_through_a_view_by_name_changes_the_tensor_and_its_gradient():
    leaf = ones("N", "C").requires_grad_()
    x = leaf * 1
    x.select("N", 0).mul_(3)
    x[1] = 5.0
    (x * ndgrad.arange(3.0)).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [[0, 3, 6], [0, 0, 0]])


def test_a_value_that_is_put_at_an_index_has_the_names_of_the_part():
    x = ones("N", "C")
    x[0] = ones("C", sizes=(3,))
    x[:, 1] = ones("N") * 10
    np.testing.assert_array_equal(x.numpy(), [[0, 0, 2], [3, 10, 5]])
    x[x > 4] = -1.0
    np.testing.assert_array_equal(x.numpy(), [[0, 0, 2], [3, -1, -1]])
    with pytest.raises(RuntimeError, match=r"broadcast dims \['C'\] and dims \['Z'\]"):
        x[1] = ones("Z", sizes=(3,))
    with pytest.raises(RuntimeError, match="indexing with tensors"):
        x[[0, 1]] = ones("N", "C")
    np.testing.assert_array_equal(x.numpy(), [[0, 0, 2], [3, -1, -1]])


def test_out_takes_names_or_must_have_them():
    x = ones("N", "C")
    out = ndgrad.empty(2, 3)
    assert ndgrad.exp(x, out=out).names == out.names == ("N", "C")
    with pytest.raises(RuntimeError, match="names of out"):
        ndgrad.exp(x, out=ndgrad.empty(2, 3, names=("A", "B")))


# ----- giving names ---------------------------------------------------------------------------------------------------


def test_factories_name_dimensions():
    for made in (
        ndgrad.zeros(2, 3, names=("N", "C")), ndgrad.ones(2, 3, names=("N", "C")), ndgrad.empty(2, 3, names=("N", "C")),
        ndgrad.full((2, 3), 1.0, names=("N", "C")), ndgrad.rand(2, 3, names=("N", "C")), ndgrad.randn(2, 3, names=["N", "C"]),
        ndgrad.tensor([[1.0, 2, 3], [4, 5, 6]], names=("N", "C"), requires_grad=True),
    ):  # fmt: skip
        assert made.names == ("N", "C")
        assert made.is_leaf
        assert isinstance(made, ndgrad.Tensor)
    assert ndgrad.zeros(2, names=None).names == (None,)
    assert type(ndgrad.zeros(2, names=(None,))) is ndgrad.Tensor


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (lambda: ndgrad.zeros(2, 3, names=("N",)), "Number of names"),
        (lambda: ndgrad.zeros(2, 3, names=("N", "N")), "duplicate names"),
        (lambda: ndgrad.zeros(2).rename("a-b"), "Invalid name"),
        (lambda: ndgrad.zeros(2).rename(3), "Invalid name"),
        (lambda: image().rename(Z="A"), "Tried to rename dim 'Z'"),
        (lambda: image().rename("A", N="B"), "both positional"),
        (lambda: image().refine_names("N", "C", "H", "D"), "because 'W' is different from 'D'"),
        (lambda: image().refine_names("N"), "different number of dims"),
        (lambda: image().rename(..., ..., "a"), "one ellipsis"),
        (lambda: image().sum("Z"), r"Name 'Z' not found in Tensor\['N', 'C', 'H', 'W'\]"),
        (lambda: image().align_to("N", "C"), "Cannot find dim 'H'"),
        (lambda: ones("N", None).align_to("N", "C"), "All input dims must be named"),
        (lambda: image().align_to("N", None), "must all be named"),
        (lambda: image().align_to("Z", ...), "Name 'Z' not found"),
        (lambda: ones("N").align_as(ndgrad.ones(2, 2)), "must all be named"),
        (lambda: image().flatten(["N", "H"], "F"), "must be consecutive"),
        (lambda: image().flatten([], "F"), "cannot be empty"),
        (lambda: image().flatten(1), "without out_dim"),
        (lambda: image().unflatten("H", [("A", 3), ("B", 2)]), "don't multiply up"),
        (lambda: image().unflatten("H", ()), "non-empty"),
        (lambda: image().reshape(-1), "reshape is not yet supported with named tensors"),
        (lambda: ndgrad.pdist(ones("N", "C")), "pdist is not yet supported with named tensors"),
        (lambda: ndgrad.einsum("ij->ji", ones("N", "C")), "einsum is not yet supported"),
        (lambda: image().rot90(1, (0, 1)), "rot90 is not yet supported"),
        (lambda: image()[[0, 1]], "indexing with tensors"),
        (lambda: image().tril_(), "tril_ is not yet supported"),
        (lambda: image().gather(0, ones("N", "C", "H", "W").long()), "in arguments other than the first"),
        (lambda: ndgrad.save(image(), io.BytesIO()), "Named tensors don't support serialization"),
        (lambda: pickle.dumps(image()), "Named tensors don't support serialization"),
    ],
)
def test_what_has_no_meaning_is_refused(run, says):
    with pytest.raises(RuntimeError, match=says):
        run()


def test_names_belong_to_plain_tensors():
    p = ndgrad.nn.Parameter(ndgrad.ones(2, 3))
    with pytest.raises(NotImplementedError, match="Parameter.*cannot have names"):
        p.rename_("N", "C")
    assert p.refine_names("N", "C").names == ("N", "C")
    p.refine_names("N", "C").sum("C").sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), np.ones((2, 3)))
    with ndgrad.no_grad(), pytest.raises(NotImplementedError, match="Parameter.*cannot have names"):
        p.add_(ones("N", "C"))
    np.testing.assert_array_equal(p.detach().numpy(), np.ones((2, 3)))
    with pytest.raises(NotImplementedError, match="Array.*cannot have names"):
        ndgrad.numpy.ones(2).rename("N")


def test_align_tensors_and_align_as_broadcast_by_name():
    x, scale = image(), ones("C", sizes=(3,))
    found = x * scale.align_as(x)
    np.testing.assert_array_equal(found.numpy(), image().numpy() * np.arange(3.0)[:, None, None])
    assert found.names == x.names
    first, second = ndgrad.align_tensors(scale, x)
    assert (first.names, second.names) == (x.names, x.names)
    assert ndgrad.align_tensors() == ()


def test_a_tensor_can_take_names_off_and_on_again():
    x = ndgrad.ones(2, 3)
    x.names = ("N", "C")
    assert x.has_names()
    assert "names=('N', 'C')" in repr(x)
    assert "NamedTensor" not in repr(x)
    x.names = None
    assert type(x) is ndgrad.Tensor
    assert not x.has_names()
    view = x.rename("N", ...)
    assert view.names == ("N", None)
    view.mul_(2)
    np.testing.assert_array_equal(x.numpy(), np.full((2, 3), 2.0))
    assert copy.deepcopy(view).names == copy.copy(view).names == ("N", None)


# ----- with derivatives and transforms --------------------------------------------------------------------------------


def test_second_derivatives_ignore_names():
    x = ndgrad.tensor([1.0, 2.0], names=("N",), requires_grad=True)
    (g,) = ndgrad.autograd.grad((x**3).sum("N"), x, create_graph=True)
    assert g.names == (None,)
    (h,) = ndgrad.autograd.grad(g.sum(), x)
    np.testing.assert_array_equal(h.numpy(), [6.0, 12.0])
    x.sum().backward(gradient=ndgrad.tensor(2.0))
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 2.0])


def test_hooks_see_gradients_without_names_and_may_use_names_themselves():
    x, seen = ones("N", "C").requires_grad_(), []
    x.register_hook(lambda g: seen.append((g.names, (ones("A", "B") * 2).names)))
    x.sum("N").sum("C").backward()
    assert seen == [((None, None), ("A", "B"))]


def test_transforms_see_values_without_names():
    x = ones("N", "C")
    assert ndgrad.func.grad(lambda t: (t * t).sum())(x).names == (None, None)
    assert ndgrad.func.vmap(lambda t: t * 2)(x).names == (None, None)


def test_names_are_given_inside_transforms_and_compiled_functions():
    x = ndgrad.arange(6.0).reshape(2, 3)

    def f(t):
        return (t.rename("N", "C") ** 2).sum("C")

    expected = 2 * np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(ndgrad.func.grad(lambda t: f(t).sum("N"))(x).numpy(), expected)
    np.testing.assert_array_equal(ndgrad.func.vmap(lambda t: t.rename("C").sum("C"))(x).numpy(), [3, 12])
    np.testing.assert_array_equal(ndgrad.func.jvp(f, (x,), (ndgrad.ones(2, 3),))[1].numpy(), expected.sum(1))
    compiled = ndgrad.compile(f)
    for _ in range(2):
        assert compiled(x).names == ("N",)
        np.testing.assert_array_equal(compiled(x).numpy(), f(x).numpy())


def test_custom_functions_take_named_tensors():
    class Double(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = ones("N", "C").requires_grad_()
    Double.apply(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 3), 2.0))
