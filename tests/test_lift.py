"""`ndgrad.lift`: functions of other people run with ndgrad's NumPy, whatever their shape, and stay as they were."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import math
import pickle
import sys
import types
import weakref
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func
from ndgrad.numpy import Array
from tests.lift_programs import shapes

POINT = 1.7


def shapes_weight() -> Any:
    return shapes.WEIGHTS[0]


def name_of(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


# ----- every shape of function ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", shapes.FUNCTIONS, ids=name_of)
def test_lifted_function_is_right_and_differentiable(f: Any) -> None:
    lifted = ndgrad.lift(f)
    t = dnp.array(POINT).requires_grad_()
    y = lifted(t)
    assert type(y) is Array
    np.testing.assert_allclose(y.detach().numpy(), np.broadcast_to(shapes.expected(POINT), y.shape))
    y.sum().backward()
    np.testing.assert_allclose(t.grad.item(), y.size * (2 * POINT + 3.0))


# a method that keeps a buffer in an object from outside a transform would leave the transform's values there
@pytest.mark.parametrize(
    "f", [f for f in shapes.FUNCTIONS if f not in (shapes.module_instance, shapes.model, shapes.model.__call__)], ids=name_of
)
def test_lifted_function_in_transforms(f: Any) -> None:
    lifted = ndgrad.lift(f)
    t = dnp.array(POINT)
    first = func.grad(lambda t: lifted(t).sum())
    np.testing.assert_allclose(first(t).item(), 2 * (2 * POINT + 3.0))
    np.testing.assert_allclose(func.grad(first)(t).item(), 4.0, rtol=1e-6)
    np.testing.assert_allclose(func.jvp(lambda t: lifted(t).sum(), (t,), (dnp.array(1.0),))[1].item(), 2 * (2 * POINT + 3.0))


@pytest.mark.parametrize("f", shapes.FUNCTIONS, ids=name_of)
def test_the_original_still_runs_as_it_did(f: Any) -> None:
    before = f(POINT) if f is not shapes.coroutines else None
    ndgrad.lift(f)(dnp.array(POINT))
    after = f(POINT)
    np.testing.assert_allclose(after, np.broadcast_to(shapes.expected(POINT), np.shape(after)))
    assert type(after) in (np.ndarray, np.float64)
    assert before is None or type(before) is type(after)


def test_plain_arrays_go_in_and_arrays_come_out() -> None:
    def run(a: Any, b: Any) -> Any:
        return a.dot(b) + np.zeros(2)

    assert type(ndgrad.lift(run)(np.eye(2), np.ones(2))) is Array
    assert ndgrad.lift(run)(np.eye(2), [1.0, 2.0]).tolist() == [1.0, 2.0]


def test_nothing_of_the_original_is_changed() -> None:
    modules = dict(sys.modules)
    space = dict(vars(shapes))
    cells = [c.cell_contents for c in shapes.closure.__closure__]
    code = {name: getattr(f, "__code__", None) for name, f in space.items()}
    for f in shapes.FUNCTIONS:
        ndgrad.lift(f)(dnp.array(POINT))
    assert {k: v for k, v in sys.modules.items() if k in modules} == modules
    assert all(vars(shapes)[name] is value for name, value in space.items())
    assert [c.cell_contents for c in shapes.closure.__closure__] == cells
    assert {name: getattr(f, "__code__", None) for name, f in vars(shapes).items() if name in code} == code
    assert shapes.fibonacci.cache_info().currsize == 0 or all(type(shapes.fibonacci(n)) is np.ndarray for n in range(3))
    assert "numpy.Array" not in repr(vars(shapes.Derived))


def test_lift_is_a_decorator_with_and_without_arguments() -> None:
    @ndgrad.lift
    def one(t: Any) -> Any:
        b = np.zeros(1)
        b[0] = t
        return b

    @ndgrad.lift(also="tests.numpy")
    def two(t: Any) -> Any:
        return one(t) * 2.0  # a lifted function inside a lifted function

    t = dnp.array(3.0).requires_grad_()
    two(t).sum().backward()
    assert t.grad.item() == 2.0
    assert one.__name__ == "one"
    assert list(inspect.signature(two).parameters) == ["t"]


def test_changes_of_the_original_are_seen() -> None:
    module = types.ModuleType("changing_program")
    exec("import numpy as np\nK = 2.0\ndef f(t):\n    return np.zeros(1) + g(t) * K\ndef g(t):\n    return t\n", vars(module))
    lifted = ndgrad.lift(module.f)
    assert lifted(1.0).item() == 2.0
    module.K = 5.0
    assert lifted(1.0).item() == 5.0
    exec("def g(t):\n    return np.zeros(()) + 10 * t", vars(module))
    assert lifted(1.0).item() == 50.0


def test_changes_of_closures_are_seen() -> None:
    scale: Any = np.array([2.0])

    def f(t: Any) -> Any:
        return np.zeros(1) + scale * t

    lifted = ndgrad.lift(f)
    assert lifted(3.0).item() == 6.0
    scale = np.array([4.0])
    assert lifted(3.0).item() == 12.0


def test_names_assigned_by_lifted_code_stay_with_it() -> None:
    before = shapes.counter
    lifted = ndgrad.lift(shapes.global_assignment)
    lifted(1.0), lifted(1.0)
    assert shapes.counter == before


def test_a_module_is_lifted_as_a_whole() -> None:
    lifted = ndgrad.lift(shapes)
    t = dnp.array(POINT).requires_grad_()
    (lifted.classes(t).sum() + lifted.Derived(1.0, 3.0)(t).sum()).backward()
    np.testing.assert_allclose(t.grad.item(), 4 * (2 * POINT + 3.0))
    assert lifted.FACTOR == 1.0


def test_functions_given_as_arguments_are_not_kept() -> None:
    def apply(f: Any, t: Any) -> Any:
        return f(t) + np.zeros(1)

    lifted = ndgrad.lift(apply)
    gone = []
    for n in range(3):
        square = eval("lambda t: np.array([t * t])", {"np": np, "__name__": __name__})
        gone.append(weakref.ref(square))
        assert lifted(square, float(n)).item() == n * n
        del square
    gc.collect()
    assert [r() for r in gone] == [None, None, None]


def test_threads_share_a_lifted_function() -> None:
    def run(t: Any) -> Any:
        b = np.zeros(50)
        for i in range(1, 50):
            b[i] = b[i - 1] + t * shapes_weight()
        return b.sum()

    lifted = ndgrad.lift(run)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda t: func.grad(lifted)(dnp.array(t)).item(), [1.0, 2.0, 3.0, 4.0] * 3))
    assert found == [49 * 25.0] * 12


# ----- classes ---------------------------------------------------------------------------------------------------------------


def test_a_lifted_class_makes_differentiable_instances() -> None:
    lifted = ndgrad.lift(shapes.Derived)
    a = dnp.array(2.0).requires_grad_()
    made = lifted(a, np.array(3.0))
    assert isinstance(made, shapes.Derived)
    made.square(np.float64(3.0)).sum().backward()
    assert a.grad.item() == 18.0


def test_the_state_of_an_object_goes_on_in_the_object() -> None:
    class Walk:
        def __init__(self) -> None:
            self.position = np.zeros(2)
            self.count = 0

        def step(self, t: Any) -> Any:
            self.position[0] += t
            self.count += 1
            return self.position

    walk = Walk()
    step = ndgrad.lift(walk.step)
    t = dnp.array(2.0).requires_grad_()
    step(t)
    y = step(3.0 * t)
    assert walk.count == 2
    assert walk.position.tolist() == [8.0, 0.0]
    y.sum().backward()
    assert t.grad.item() == 4.0  # the first step counts too


def test_slots_of_an_object_are_brought_home() -> None:
    from tests.lift_programs.stencils import Grid

    grid = Grid(2)
    t = dnp.array(2.0).requires_grad_()

    def run(g: Any, t: Any) -> Any:
        g.values = g.fill(t) * 2.0
        return g.values

    ndgrad.lift(run)(grid, t).sum().backward()
    assert t.grad.item() == 4.0
    assert np.asarray(grid.values.detach()).tolist() == [4.0, 4.0]


def test_exceptions_and_enumerations_are_the_programs_own() -> None:
    module = types.ModuleType("own_errors")
    exec(
        "import enum\nimport numpy as np\nclass Bad(ValueError):\n    pass\nclass Kind(enum.Enum):\n    A = 1\n"
        "def f(t, kind):\n    if kind is not Kind.A:\n        raise Bad('kind')\n    return np.zeros(1) + t\n",
        vars(module),
    )
    lifted = ndgrad.lift(module.f)
    assert lifted(1.0, module.Kind.A).item() == 1.0
    with pytest.raises(module.Bad):
        lifted(1.0, None)


# ----- never a silent loss --------------------------------------------------------------------------------------------------------


def test_compiled_functions_cannot_be_lifted_and_are_named() -> None:
    with pytest.raises(TypeError, match=r"zlib.crc32 cannot be lifted: it is compiled"):
        ndgrad.lift(zlib.crc32)
    with pytest.raises(TypeError, match=r"len cannot be lifted"):
        ndgrad.lift(len)
    with pytest.raises(TypeError, match="is no function"):
        ndgrad.lift(3.0)


def test_functions_of_numpy_become_ours() -> None:
    assert ndgrad.lift(np.zeros) is dnp.zeros
    assert ndgrad.lift(np.sin) is dnp.sin


def foreign(source: str) -> Any:
    """A module of another package."""
    module = types.ModuleType("another_package")
    exec("import numpy as np\n" + source, vars(module))
    return module


def test_code_of_another_package_runs_lifted_if_a_derivative_reaches_it() -> None:
    other = foreign("def fill(t):\n    b = np.zeros(2)\n    b[0] = t\n    return b\n")
    fill = other.fill
    t = dnp.array(1.0).requires_grad_()
    ndgrad.lift(lambda t: other.fill(t) + np.zeros(2))(t).sum().backward()
    ndgrad.lift(lambda t: fill(t) + np.zeros(2))(t).sum().backward()
    assert t.grad.item() == 2.0
    assert type(other.fill(1.0)) is np.ndarray


def test_an_error_in_code_that_ran_unchanged_names_the_line_to_write() -> None:
    other = foreign(
        "class Filter:\n    def run(self, t):\n        b = np.zeros(2)\n        b[0] = t\n        return b.sum()\nfixed = Filter()\n"
    )
    fixed = other.fixed

    def f(t: Any) -> Any:
        return fixed.run(t)

    t = dnp.array(1.0).requires_grad_()
    with pytest.raises(TypeError, match="cannot hold an Array") as caught:
        ndgrad.lift(f)(t)
    assert "ndgrad.lift(f, also='another_package')" in "".join(caught.value.__notes__)
    for also in ("another_package", other, "*"):
        ndgrad.lift(f, also=also)(t).backward()
    assert t.grad.item() == 3.0


def test_a_plain_argument_that_receives_gradients_is_refused() -> None:
    def fill(out: Any, t: Any) -> None:
        out[0] = t

    t = dnp.array(1.0).requires_grad_()
    with pytest.raises(RuntimeError, match="wrote into an argument, a plain numpy.ndarray of shape .*, and the written value requires"):
        ndgrad.lift(fill)(np.zeros(2), t)
    buffer = dnp.zeros(2)
    ndgrad.lift(fill)(buffer, t)
    buffer.sum().backward()
    assert t.grad.item() == 1.0
    plain = np.zeros(2)
    ndgrad.lift(fill)(plain, 4.0)
    assert plain.tolist() == [4.0, 0.0]


def test_lists_that_a_function_fills_are_filled() -> None:
    def fill(out: list[Any], table: dict[str, Any], t: Any) -> None:
        out.append(t + np.zeros(1))
        table["new"] = out[0]

    given, table = [np.zeros(1)], {"old": np.zeros(1)}
    t = dnp.array(1.0).requires_grad_()
    ndgrad.lift(fill)(given, table, t)
    assert len(given) == 2
    assert given[1].requires_grad
    assert set(table) == {"old", "new"}


def test_errors_inside_leave_the_program_usable() -> None:
    def f(t: Any) -> Any:
        b = np.zeros(2)
        b[0] = t
        if t > 1:
            raise KeyError("large")
        return b

    lifted = ndgrad.lift(f)
    with pytest.raises(KeyError, match="large"):
        lifted(dnp.array(2.0))
    t = dnp.array(0.5).requires_grad_()
    lifted(t).sum().backward()
    assert t.grad.item() == 1.0


def test_math_errors_are_maths_own() -> None:
    def f(t: Any) -> Any:
        return math.sqrt(t)

    with pytest.raises(ValueError, match="math domain error|nonnegative"):
        ndgrad.lift(f)(dnp.array(-1.0).requires_grad_())


@pytest.mark.parametrize(
    ("name", "point"),
    [
        *[(n, 0.4) for n in "sin cos tan asin acos atan sinh cosh tanh asinh atanh exp expm1 log log2 log10 log1p sqrt fabs".split()],
        *[(n, 0.4) for n in "erf erfc lgamma gamma degrees radians".split()],
        ("acosh", 1.4), ("gamma", -1.5), ("cbrt", 0.4), ("exp2", 0.4),
    ],
)  # fmt: skip
def test_function_of_math_has_its_derivative(name: str, point: float) -> None:
    function = getattr(math, name)

    def f(t: Any) -> Any:
        return function(t) + getattr(math, name)(t)

    h = 1e-6
    expected = (function(point + h) - function(point - h)) / h
    lifted = ndgrad.lift(f)
    np.testing.assert_allclose(lifted(point), 2 * function(point), rtol=1e-12)
    np.testing.assert_allclose(func.grad(lifted)(dnp.array(point)).item(), expected, rtol=1e-7)
    np.testing.assert_allclose(func.jvp(lifted, (dnp.array(point),), (dnp.array(1.0),))[1].item(), expected, rtol=1e-7)


def several_arguments(x: Any, y: Any) -> Any:
    total = math.atan2(x, y) + math.hypot(x, y, 2.0) + math.pow(x, y) + math.log(x, y) + math.fmod(x, y) + math.dist((x, y), (1.0, 2.0))
    return total + math.fsum([x, y * y, 2.0]) + math.prod([x, y, 3.0]) + math.fsum(v for v in (x, y)) + math.remainder(x, y)


def test_functions_of_math_with_several_arguments() -> None:
    x, y, h = 2.3, 1.6, 1e-6
    expected = [
        (several_arguments(x + h, y) - several_arguments(x - h, y)) / (2 * h),
        (several_arguments(x, y + h) - several_arguments(x, y - h)) / (2 * h),
    ]
    found = func.grad(ndgrad.lift(several_arguments), argnums=(0, 1))(dnp.array(x), dnp.array(y))
    np.testing.assert_allclose([g.item() for g in found], expected, rtol=1e-7)


def test_complex_numbers() -> None:
    import cmath

    def f(t: Any) -> Any:
        z = cmath.exp(complex(0.0, t)) * cmath.rect(2.0, t)
        return (z * z).real + cmath.phase(z)

    h, point = 1e-6, 0.3
    expected = (f(point + h) - f(point - h)) / (2 * h)
    np.testing.assert_allclose(func.grad(ndgrad.lift(f))(dnp.array(point)).item(), expected, rtol=1e-7)


def test_float_does_not_lose_a_tangent() -> None:
    """In forward mode nothing requires grad, and still a Python number would lose the derivative."""
    with pytest.raises(TypeError, match="float"):
        func.jvp(lambda t: dnp.array(float(t)), (dnp.array(1.0),), (dnp.array(1.0),))
    assert func.jvp(ndgrad.lift(lambda t: float(t) * 2.0), (dnp.array(1.0),), (dnp.array(1.0),))[1].item() == 2.0


def test_modules_of_numpy_in_python_are_lifted_too() -> None:
    def f(t: Any) -> Any:
        p = np.poly1d([t, 0.0, 1.0])
        c = np.polynomial.chebyshev.chebval(0.3, np.array([t, 1.0, t]))
        q = np.polynomial.Polynomial([1.0, t])
        return p(2.0) + c + q(3.0) + np.polynomial.legendre.legval(0.2, [1.0, t])

    h, point = 1e-6, 0.7
    expected = (f(point + h) - f(point - h)) / (2 * h)
    np.testing.assert_allclose(func.grad(ndgrad.lift(f))(dnp.array(point)).item(), expected, rtol=1e-7)


def test_names_that_ndgrad_numpy_leaves_out() -> None:
    def f(t: Any) -> Any:
        b = np.zeros((2, 2))
        for (i, j), v in np.ndenumerate(np.ones((2, 2)) * t):
            b[i, j] = v * (i + 1)
        return b.sum() if not isinstance(b, np.matrix) else 0.0

    assert func.grad(ndgrad.lift(f))(dnp.array(2.0)).item() == 6.0

    def g(t: Any) -> Any:
        return np.frompyfunc(lambda x: x * 2, 1, 1)(t * np.ones(2))

    with pytest.raises(TypeError):
        ndgrad.lift(g)(dnp.array(2.0).requires_grad_())


def test_random_numbers_are_the_same_and_can_be_written_into() -> None:
    rng = np.random.default_rng(3)

    def f(t: Any, r: Any) -> Any:
        x = r.normal(size=3)
        x[0] = t
        return x.sum()

    lifted = ndgrad.lift(f)(dnp.array(1.0), np.random.default_rng(3))
    assert lifted.item() == f(1.0, rng)

    def g(t: Any) -> Any:
        np.random.seed(4)
        x = np.random.randn(3)
        x[0] = t
        return x.sum()

    np.testing.assert_allclose(ndgrad.lift(g)(1.0).item(), g(1.0))


def test_numba_functions_are_lifted_from_their_python() -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def total(n: Any, t: Any) -> Any:
        b = np.zeros(n)
        for i in range(n):
            b[i] = t * i
        return b.sum()

    def f(t: Any) -> Any:
        return total(4, t)

    assert func.grad(ndgrad.lift(f))(dnp.array(1.0)).item() == 6.0
    assert func.grad(ndgrad.lift(total), argnums=1)(4, dnp.array(1.0)).item() == 6.0


def test_scipy_functions_are_ours_where_we_have_them() -> None:
    pytest.importorskip("scipy")
    from scipy import integrate, optimize

    def f(t: Any) -> Any:
        area, _ = integrate.quad(lambda x: np.exp(-t * x), 0.0, 1.0)
        root = optimize.root_scalar(lambda x: x * x - t, bracket=(0.0, 4.0)).root
        return area + root

    def exact(t: float) -> float:
        return (1 - math.exp(-t)) / t + math.sqrt(t)

    h, point = 1e-5, 2.0
    np.testing.assert_allclose(
        func.grad(ndgrad.lift(f))(dnp.array(point)).item(), (exact(point + h) - exact(point - h)) / (2 * h), rtol=1e-6
    )


def test_a_function_of_scipy_without_rule_is_named() -> None:
    pytest.importorskip("scipy")
    from scipy.cluster.vq import whiten
    from scipy.optimize import nnls

    def f(t: Any) -> Any:
        return nnls(t * np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([1.0, 2.0]))[1]

    def g(t: Any) -> Any:
        return whiten(np.asarray([[1.0, 2.0], [3.0, 5.0]])).sum() * t

    with pytest.raises((RuntimeError, TypeError, ValueError)) as caught:
        ndgrad.lift(f)(dnp.array(1.0).requires_grad_())
    assert "scipy.optimize.nnls was called by lifted code" in str(caught.value)
    assert "ndgrad.lift(f, replace={scipy.optimize.nnls: other})" in str(caught.value)
    assert ndgrad.lift(f)(1.0) == f(1.0)
    # a function that is given constants only is no obstacle
    np.testing.assert_allclose(func.grad(ndgrad.lift(g))(dnp.array(1.0)).item(), g(1.0))


# ----- branches by type, and ways out of the program ---------------------------------------------------------------------------


class Box:
    def __init__(self, content: Any) -> None:
        self.content = content


def _fraction(v: Any) -> Any:
    mantissa, exponent = math.frexp(v)
    return mantissa * mantissa * 2.0**exponent


def _element(v: Any) -> Any:
    u = np.zeros(3)
    u[0] = v
    return u[0] * u[0] if type(u[0]) is np.float64 else u[0]


def _metaclass(v: Any) -> Any:
    class Kind(type):
        pass

    class Factor(metaclass=Kind):
        value = 2.0

    return Factor.value * v if type(Factor) is Kind and isinstance(Factor, type) and type(Box) is type else v


BY_TYPE: dict[str, Any] = {
    "is_float64": lambda v: v * v if type(v) is np.float64 else v,
    "float_of_it": lambda v: v * v if type(float(v)) == float else v,  # noqa: E721  # what programs write
    "is_float": lambda v: v * v if type(float(v) * 2.0) is float else v,
    "one_of_two": lambda v: v * v if type(v) in (float, np.float64) else v,
    "no_float": lambda v: v if type(v) is float else v * v,
    "math": lambda v: math.sin(v) ** 2 if type(math.sin(v) + 1) is float and not isinstance(math.sin(v), np.floating) else v,
    "float_meets_scalar": lambda v: v * v if type(float(v) + v) is np.float64 else v,
    "table_of_types": lambda v: {float: v, np.float64: v * v}[type(v)],
    "plain": lambda v: v * v if float is float and int is int and str is str and type(type) is type else v,
    "rounded": lambda v: abs(-float(v)) * v if type(abs(-float(v))) is float and type(round(float(v), 1)) is float else v,
    "element": _element,
    "metaclass": _metaclass,
    "frexp": _fraction,
    "nextafter": lambda v: math.nextafter(v, 10.0) ** 2,
    "copy_of_an_object": lambda v: copy.deepcopy(Box(v)).content ** 2,
}


@pytest.mark.parametrize("program", BY_TYPE.values(), ids=BY_TYPE)
def test_branches_by_type_are_those_of_the_program(program: Any) -> None:
    at, step = 1.7, 1e-6
    slope = (program(np.float64(at + step)) - program(np.float64(at - step))) / (2 * step)
    lifted = ndgrad.lift(program)
    assert lifted(dnp.array(at).requires_grad_()).detach().item() == pytest.approx(program(np.float64(at)), rel=1e-12)
    assert ndgrad.func.grad(lifted)(dnp.array(at)).item() == pytest.approx(slope, rel=1e-6)
    assert ndgrad.func.jvp(lifted, (dnp.array(at),), (dnp.array(1.0),))[1].item() == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(
    "program",
    [lambda x: (x * x).sum() if type(x).__name__ == "ndarray" else x.sum(), lambda x: (x * x).sum() if type(x) is np.ndarray else x.sum()],
)
def test_arrays_are_of_type_ndarray(program: Any) -> None:
    x = np.array([1.5, 2.5])
    assert ndgrad.lift(program)(dnp.array(x)).item() == program(x)
    assert ndgrad.func.grad(ndgrad.lift(program))(dnp.array(x)).tolist() == [3.0, 5.0]


def _saved(v: Any) -> Any:
    file = io.BytesIO()
    np.save(file, v)
    file.seek(0)
    return np.load(file)


WAYS_OUT: dict[str, tuple[Any, str]] = {
    "pickle": (lambda v: pickle.loads(pickle.dumps(v)), "pickle was called by lifted code"),
    "pickle_in_a_list": (lambda v: pickle.loads(pickle.dumps([1, {"v": v}]))[1]["v"], "pickle was called by lifted code"),
    "numpy.save": (_saved, "numpy.save was called by lifted code"),
    "bytes": (lambda v: np.frombuffer(v.tobytes())[0], "bare memory of an Array"),
    "numpy.True_": (lambda v: v * v if (v > 0) is np.True_ else v, "numpy.True_ cannot be used in lifted code"),
}


@pytest.mark.parametrize(("program", "message"), WAYS_OUT.values(), ids=WAYS_OUT)
def test_ways_out_of_the_program_are_refused_by_name(program: Any, message: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=message):
        ndgrad.func.grad(ndgrad.lift(program))(dnp.array(1.7))
    with pytest.raises((TypeError, RuntimeError), match=message):
        ndgrad.func.jvp(ndgrad.lift(program), (dnp.array(1.7),), (dnp.array(1.0),))
    if "True_" not in message:
        assert ndgrad.lift(program)(dnp.array(1.7)) == 1.7


def formats(t: Any) -> Any:
    """The formats of old programs: literals, in functions and classes inside, of several values and of names."""

    class Report:
        def line(self, x: Any) -> str:
            return "x = %(x)5.2f, %(n)d%%" % {"x": x, "n": 3}  # noqa: UP031

    text = "%g %s %d" % (t, "of", t)  # noqa: UP031
    form = "%f"
    assert type(form) is str
    assert {"%f": 1}[form] == 1
    assert text == "2.5 of 2"
    assert Report().line(t) == "x =  2.50, 3%"
    assert (lambda v: "%.1f" % v)(t) == "2.5"  # noqa: UP031
    return t * t


def test_percent_formats_print_values_and_keep_the_graph() -> None:
    assert ndgrad.func.grad(ndgrad.lift(formats))(dnp.array(2.5)).item() == 5.0
    assert formats(2.5) == 6.25


def test_numbers_are_kept_in_a_lifted_call_only() -> None:
    kept: list[Any] = []

    def program(t: Any) -> Any:
        kept.append(t.item())
        return t.item() * t.tolist()

    x = dnp.array(3.0).requires_grad_()
    (slope,) = ndgrad.autograd.grad(ndgrad.lift(program)(x), x)
    assert slope.item() == 6.0
    with pytest.raises(TypeError, match=r"detach\(\)"):
        program(x)
    with pytest.raises(ZeroDivisionError):
        ndgrad.lift(lambda t: 1 / 0)(x)
    with pytest.raises(TypeError, match=r"detach\(\)"):
        x.item()
