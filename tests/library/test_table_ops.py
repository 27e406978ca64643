"""Ops registered from outside: they are ops like the table's own, in every mode; what makes no sense is refused at once."""

from __future__ import annotations

import importlib
import math
import pkgutil

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import library
from ndgrad._src import ops
from ndgrad._src.core import generated_names
from ndgrad._src.ops.table import table
from ndgrad.testing.op_checks import Failure, Sample

A = np.array([0.3, -1.2, 2.0])
Z = np.array([0.3 + 1j, -1.2, 2.0 - 0.5j])


@pytest.fixture
def softer():
    """x / (1 + |x|), whose derivative is 1 / (1 + |x|)^2."""
    yield library.elementwise(
        "tests::softer",
        lambda np, x: x / (1 + np.abs(x)),
        x=lambda t, x, ops: t / (1.0 + ops.abs(x)) ** 2,
        method="softer",
        samples=[Sample((A,), reference=lambda x: x / (1 + np.abs(x)))],
    )
    library.remove("tests::softer")


@pytest.fixture
def moment():
    """Sums of powers along the last dimension."""
    yield library.op(
        "tests::moment",
        "x",
        lambda np, x, *, order: (x**order).sum(-1),
        settings={"order": 2.0},
        vjp={"x": lambda g, x, order, ops: ops.unsqueeze(g, dim=len(x.shape) - 1) * (order * x ** (order - 1.0))},
        jvp={"x": lambda t, x, order, ops: ops.sum(t * (order * x ** (order - 1.0)), dim=(len(x.shape) - 1,))},
        batch="leading",
        samples=[
            Sample((np.abs(A),), {"order": 3.0}, reference=lambda x, order: (x**order).sum(-1)),
            Sample((np.abs(np.outer(A, A)) + 0.1,), reference=lambda x: (x**2).sum(-1)),
        ],
    )
    library.remove("tests::moment")


@pytest.fixture
def sort_of():
    """Several results of which one is discrete: the values in order, and the order."""
    yield library.op(
        "tests::ranked",
        "x",
        lambda np, x: (np.sort(x, -1), np.argsort(x, -1)),
        outputs=2,
        discrete_outputs=(1,),
        vjp={"x": lambda g0, out1, ops: ops.scatter(ops.zeros_like(g0), out1, g0, dim=len(g0.shape) - 1)},
        jvp={"x": lambda t, out1, ops: (ops.gather(t, out1, dim=len(t.shape) - 1), None)},
        batch="leading",
    )
    library.remove("tests::ranked")


def test_every_promise_of_the_table_is_checked_on_the_samples(softer, moment):
    assert {"values", "jvp", "vjp", "vjp of vjp", "vmap", "no loop"} <= set(library.check(softer))
    assert library.check("tests::moment").count("values") == 2
    labels = [label for label, run in library.checks() if run() is None]
    assert sum(label.startswith("tests::softer[0]") for label in labels) >= 10


def test_a_wrong_rule_is_found_out():
    wrong = library.elementwise("tests::wrong", "sinh", x=lambda t, out: t * out)
    try:
        with pytest.raises(Failure):
            library.check(wrong, Sample((A,), reference=np.sinh))
    finally:
        library.remove("tests::wrong")


def test_it_is_a_function_a_method_and_an_op(softer):
    x = ndgrad.tensor(A)
    expected = A / (1 + np.abs(A))
    for y in (softer(x), x.softer(), ndgrad.ops.tests.softer(x), x.clone().softer_(), softer(x, out=ndgrad.empty(3))):
        assert np.allclose(y.numpy(), expected)
    assert softer.op is table["tests_softer"]
    assert softer(ndgrad.tensor(A, requires_grad=True)).grad_fn.name() == "TestsSofterBackward0"


def test_both_faces(softer):
    x = dnp.array(A).requires_grad_()
    y = softer(x)
    assert isinstance(y, dnp.Array)
    x_before = y.sum()
    x_before.backward()
    assert np.allclose(x.grad.tolist(), 1 / (1 + np.abs(A)) ** 2)


def test_transforms_forward_mode_and_higher_orders(softer, moment):
    func = ndgrad.func
    x = ndgrad.tensor(np.abs(A))
    f = lambda x: moment(softer(x), order=3.0)
    slope = lambda a: 3 * (a / (1 + a)) ** 2 / (1 + a) ** 2
    assert np.allclose(func.grad(f)(x).numpy(), slope(np.abs(A)))
    assert np.allclose(func.jvp(f, (x,), (ndgrad.ones(3),))[1].item(), slope(np.abs(A)).sum())
    h = 1e-6
    numeric = (slope(np.abs(A) + h) - slope(np.abs(A) - h)) / (2 * h)
    assert np.allclose(func.hessian(f)(x).diagonal().numpy(), numeric, atol=1e-8)
    batch = ndgrad.stack([x, x + 1])
    assert np.allclose(func.vmap(func.grad(f))(batch).numpy(), [slope(np.abs(A)), slope(np.abs(A) + 1)])


def test_checkpoints_hooks_and_dispatch_modes_see_it(softer):
    seen = []

    class Log(ndgrad.utils._python_dispatch.DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name)
            return func(*args, **(kwargs or {}))

    x = ndgrad.tensor(A, requires_grad=True)
    with Log():
        y = ndgrad.utils.checkpoint.checkpoint(lambda x: softer(x).sum(), x)
    y.backward()
    assert "tests_softer" in seen
    assert np.allclose(x.grad.numpy(), 1 / (1 + np.abs(A)) ** 2)


def test_an_op_with_a_discrete_result(sort_of):
    x = ndgrad.tensor(A, requires_grad=True)
    values, order = sort_of(x)
    assert values.tolist() == sorted(A)
    assert not order.requires_grad
    (values * ndgrad.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 1.0, 3.0]


def test_an_op_without_a_derivative():
    sign = library.op("tests::sgn", "x", "sign", vjp=library.NOT_DIFFERENTIABLE, batch="elementwise")
    try:
        assert not sign(ndgrad.tensor(A, requires_grad=True)).requires_grad
    finally:
        library.remove("tests::sgn")


def test_complex_numbers_through_a_holomorphic_rule():
    cube = library.elementwise("tests::cube", lambda x: x**3, x=lambda t, x: t * 3.0 * x * x)
    try:
        x = ndgrad.tensor(Z, requires_grad=True)
        cube(x).sum().abs().backward()
        w = (Z**3).sum()
        assert np.allclose(x.grad.numpy(), np.conj(3 * Z**2) * w / abs(w))
        assert "vjp" in library.check(cube, Sample((Z,), reference=lambda x: x**3))
    finally:
        library.remove("tests::cube")


def test_removal_leaves_no_trace(softer):
    library.elementwise("tests::gone", "exp", x=lambda t, out: t * out, method="gone")
    y = ndgrad.ones(2, requires_grad=True).gone()
    library.remove("tests::gone")
    assert not hasattr(ndgrad.Tensor, "gone")
    assert not hasattr(ndgrad.Tensor, "gone_")
    assert "tests_gone" not in table
    assert "tests::gone" not in library.registered()
    y.sum().backward()  # what was computed stays
    assert not hasattr(ndgrad.ops.nobody, "anything")
    with pytest.raises(KeyError):
        library.remove("tests::gone")


ONE = {"x": lambda g: g}


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: library.elementwise("softer", "exp"), ValueError, "library::name"),
        (lambda: library.elementwise("aten::softer", "exp"), ValueError, "the project's own"),
        (lambda: library.elementwise("reduce::softer", "exp"), ValueError, "the project's own"),
        (lambda: library.elementwise("tests::bad", "no_such_function"), ValueError, "NumPy has none"),
        (lambda: library.elementwise("tests::bad", 3), TypeError, "forward is int"),
        (lambda: library.elementwise("tests::bad", "exp", x=lambda t, output: t), ValueError, "names output"),
        (lambda: library.elementwise("tests::bad", "exp", y=lambda t: t), ValueError, "rule for 'y'"),
        (lambda: library.elementwise("tests::bad", "exp", x=math.exp), TypeError, "Python function"),
        (lambda: library.elementwise("tests::bad", "exp", vjp=ONE), ValueError, "come together"),
        (lambda: library.elementwise("tests::bad", "exp", vjp=ONE, jvp=ONE, x=lambda t: t), ValueError, "one or the other"),
        (lambda: library.elementwise("tests::bad", "exp", x=lambda t, out: t * out, method="sin"), ValueError, "'sin' already"),
        (lambda: library.op("tests::bad", "x", "exp", vjp=ONE, batch="leading"), ValueError, "jvp"),
        (lambda: library.op("tests::bad", "x", "exp", vjp=3, batch="leading"), ValueError, "vjp=3"),
        (lambda: library.op("tests::bad", "x", "exp", vjp=ONE, jvp="linear", batch="sideways"), ValueError, "'sideways'"),
        (lambda: library.op("tests::bad", "x", "exp", vjp={"y": None}, jvp="linear", batch="leading"), ValueError, "rule for 'y'"),
        (lambda: library.check("tests::nobody"), KeyError, "no registered op"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(make, error, says):
    before = set(table), set(library.registered()), set(dir(ndgrad.Tensor))
    with pytest.raises(error, match=says):
        make()
    assert (set(table), set(library.registered()), set(dir(ndgrad.Tensor))) == before


def test_a_name_is_registered_once(softer):
    with pytest.raises(ValueError, match="registered already"):
        library.elementwise("tests::softer", "exp")


# ----- names that generated code uses ---------------------------------------------------------------------------------------


def test_the_names_of_generated_code_are_known_for_every_op():
    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"ndgrad._src.ops.{module.name}")
    for op in list(table.values()):
        eager, apply = generated_names.own_names(op)
        known_eager, known_apply = generated_names.names_of_kind(generated_names.kind_of(op))
        assert eager <= known_eager, op.name
        assert apply <= known_apply, op.name
        generated_names.check_names(op)


def product(np, *arrays, **settings):
    return arrays[0] * arrays[1]


def rule(*names):
    scope = {}
    exec(f"def rule({', '.join(names)}): return {names[0]} * {names[1]}", scope)
    return scope["rule"]


TAKEN = ["n", "g", "t", "c", "d", "r", "u", "s", "keep", "out", "ops", "level", "made", "TENSOR_TYPES", "slow", "process", "x", "input",
         "a_x", "e_x", "x_v", "x_shape", "for", "float", "np", "self", "needs", "unpack_raw"]  # fmt: skip


@pytest.mark.parametrize("taken", TAKEN)
def test_an_argument_with_a_name_of_generated_code_is_refused(taken):
    before = set(table)
    with pytest.raises(ValueError, match=r"ours::product.*name"):
        library.op("ours::product", f"x {taken}", product, vjp={"x": rule("g", "x")}, jvp={"x": rule("t", "x")}, batch="elementwise")
    assert set(table) == before


@pytest.mark.parametrize("taken", [*TAKEN, "seq", "next", "extra", "shape", "dtype", "release", "default_scale"])
def test_a_setting_with_a_name_of_generated_code_is_refused(taken):
    if taken in ("keep", "unpack_raw", "s"):
        return  # variables of the backward, in which settings are attributes
    settings = {taken: 1, "scale": 1}
    wanted = () if taken in ("for", "g", "input", "x") else (taken,)
    with pytest.raises(ValueError, match=r"ours::product.*name"):
        library.op(
            "ours::product", "x y", product, settings=settings, vjp={"x": rule("g", "y", *wanted)}, jvp={"x": rule("t", "y")},
            batch="elementwise",
        )  # fmt: skip


def test_names_that_only_look_like_those_of_generated_code_are_fine():
    function = library.op(
        "ours::scaled", "x c_ dd", lambda np, x, c_, dd, *, dtype, number: x * c_ * dd, settings={"dtype": 1, "number": 2},
        vjp={"x": lambda g, c_, dd: g * c_ * dd}, jvp={"x": lambda t, c_, dd: t * c_ * dd}, constant="c_ dd", batch="elementwise",
    )  # fmt: skip
    try:
        x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
        function(x, ndgrad.tensor(3.0), ndgrad.tensor(2.0)).sum().backward()
        assert x.grad.tolist() == [6.0, 6.0]
    finally:
        library.remove("ours::scaled")
