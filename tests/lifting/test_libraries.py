"""Habits of NumPy libraries that lifted code must follow, each compared with differences of the plain function."""

from __future__ import annotations

import collections
import collections.abc
import io
import math
import sys
import types
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.signal
import scipy.sparse
import scipy.spatial
import scipy.stats
from scipy.optimize import linear_sum_assignment, nnls
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve

import ndgrad
import ndgrad.numpy as dnp


def check(f: Any, x: float, **options: Any) -> None:
    """Compare the gradient through lift with central differences of the plain function."""
    h = 1e-6
    expected = (float(f(x + h)) - float(f(x - h))) / (2 * h)
    assert float(ndgrad.func.grad(ndgrad.lift(f, **options))(dnp.array(x))) == pytest.approx(expected, rel=1e-6, abs=1e-8)


# ----- subclasses of ndarray ------------------------------------------------------------------------------------------


class Quaternion(np.ndarray):
    """A subclass in NumPy's documented style, with an attribute that tensors have too."""

    def __new__(cls, values: Any, name: str = "q") -> Any:
        made = np.asarray(values, dtype=float).view(cls)
        made.name = name
        return made

    def __array_finalize__(self, obj: Any) -> None:
        self.name = getattr(obj, "name", "none")

    @property
    def w(self) -> Any:
        return self[0]

    def conjugated(self) -> Any:
        return Quaternion([self[0], *-self[1:]])

    def norm(self) -> Any:
        return math.sqrt(float((self * self).sum()))


class Unit(Quaternion):
    def __new__(cls, values: Any) -> Any:
        made = super().__new__(cls, values)
        return made / np.linalg.norm(made)


UNIT = Quaternion([1.0, 2.0, 0.5, 0.1])


def test_subclasses_of_ndarray_keep_their_class_and_attributes() -> None:
    def f(t: Any) -> Any:
        q = Quaternion([np.cos(t), np.sin(t), 0.1, 0.2], name="turn")
        doubled = np.exp(2 * q)
        assert isinstance(q, Quaternion)
        assert isinstance(q, np.ndarray)
        assert type(doubled) is Quaternion
        assert (q.name, doubled.name, q[1:].name, np.asarray(q).__class__ is Quaternion) == ("turn", "turn", "turn", False)
        return q.conjugated().norm() + doubled.w + Unit([t, 1.0, 2.0, 3.0]).sum() + q.view(np.ndarray).prod()

    check(f, 0.3)


def test_an_instance_of_a_subclass_made_outside_takes_part() -> None:
    check(lambda t: (UNIT * t).sum() + UNIT.norm() * t, 0.3)


class Logged(np.ndarray):
    """A subclass that takes ufuncs apart."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        bare = [x.view(np.ndarray) if isinstance(x, Logged) else x for x in inputs]
        result = super().__array_ufunc__(ufunc, method, *bare, **kwargs)
        return (result * 2.0).view(Logged)


def test_a_subclass_with_its_own_ufuncs_is_asked() -> None:
    check(lambda t: (np.array([t, 2.0]).view(Logged) + 1.0).view(np.ndarray).sum(), 0.3)


# ----- assignments and conversions ------------------------------------------------------------------------------------


def test_a_shape_can_be_assigned() -> None:
    def f(t: Any) -> Any:
        y = np.array([t, 2 * t])
        y.shape = (2, 1)
        z = y @ y.T
        z.shape = -1
        return z.sum() + y[1, 0]

    check(f, 0.3)
    with pytest.raises(AttributeError, match="without a copy"):
        dnp.zeros((2, 3)).T.shape = (6,)


def test_array_interfaces_that_python_code_calls_keep_the_derivative() -> None:
    check(lambda t: np.array([t, 2 * t]).__array__().prod() + np.array([t]).__array__(float).sum(), 0.3)


def test_a_number_has_no_length() -> None:
    def f(t: Any) -> Any:
        return (2 if hasattr(t, "__len__") else 3) * t + (math.sin(t) if not hasattr(math.sin(t), "shape") else 0)

    check(f, 0.3)


# ----- functions in containers ----------------------------------------------------------------------------------------


def fill(t: Any) -> Any:
    b = np.zeros(2)
    b[0], b[1] = t, t * t
    return b.sum()


class Own(collections.abc.MutableMapping[str, Any]):
    def __init__(self, **items: Any) -> None:
        self.items_ = items

    def __getitem__(self, key: str) -> Any:
        return self.items_[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.items_[key] = value

    def __delitem__(self, key: str) -> None:
        del self.items_[key]

    def __iter__(self) -> Any:
        return iter(self.items_)

    def __len__(self) -> int:
        return len(self.items_)


class DictOfFunctions(dict[str, Any]):
    pass


CONTAINERS = {
    "own mapping": Own(f=fill),
    "subclass of dict": DictOfFunctions(f=fill),
    "OrderedDict": collections.OrderedDict(f=fill),
    "defaultdict": collections.defaultdict(list, f=fill),
    "ChainMap": collections.ChainMap({"f": fill}),
    "mappingproxy": types.MappingProxyType({"f": fill}),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_functions_in_mappings_are_lifted(kind: str) -> None:
    table = CONTAINERS[kind]
    check(lambda t: table["f"](t) * t, 0.3)


def test_items_that_lifted_code_adds_to_a_mapping_stay() -> None:
    own, derived = Own(f=fill), DictOfFunctions(f=fill)

    def f(t: Any) -> Any:
        own["n"] = derived["n"] = 1
        return own["f"](t) + derived["f"](t)

    check(f, 0.3)
    assert own["n"] == derived["n"] == 1
    assert own["f"] is derived["f"] is fill


# ----- classes ----------------------------------------------------------------------------------------------------------


class Registering(type):
    made: ClassVar[list[str]] = []

    def __new__(mcs, name: str, bases: Any, space: Any) -> Any:
        mcs.made.append(name)
        return super().__new__(mcs, name, bases, space)


class Model(metaclass=Registering):
    known: ClassVar[list[type]] = []

    def __init_subclass__(cls) -> None:
        Model.known.append(cls)

    def value(self, t: Any) -> Any:
        b = np.zeros(2)
        b[0] = t * self.factor
        return b.sum()


class Double(Model):
    factor = 2.0
    standard: ClassVar[Any] = None

    def value(self, t: Any) -> Any:
        return super().value(t) + fill(t)


Double.standard = Double()


def test_classes_that_register_themselves_are_lifted_without_a_registration() -> None:
    before = list(Registering.made), list(Model.known)
    check(lambda t: Double().value(t) + Double.standard.value(t) * t, 0.3)
    assert (Registering.made, Model.known) == before

    def derive(t: Any) -> Any:
        class Triple(Double):
            factor = 3.0

        return Triple().value(t)

    check(derive, 0.3)
    assert [c.__name__ for c in Model.known[len(before[1]) :]] == ["Triple"] * 3


# ----- SciPy ------------------------------------------------------------------------------------------------------------


def test_names_imported_from_scipy_find_their_rules() -> None:
    def f(t: Any) -> Any:
        a = scipy.sparse.csc_matrix(np.array([[2.0, t], [0.0, 3.0]]))
        return spsolve(a, np.array([1.0, t])).sum() + (a * a).toarray().sum()

    check(f, 0.3)


@pytest.mark.parametrize("x", [[0.1, 0.2], [[0.1, 0.2]], [[0.1, 0.2], [0.3, 0.4]]])
def test_densities_of_one_point_are_numbers(x: Any) -> None:
    for name, more in (("multivariate_normal", ()), ("multivariate_t", (3,))):
        args = (x, [0.0, 0.0], [[1.0, 0.3], [0.3, 2.0]], *more)
        for method in ("logpdf", "pdf"):
            expected = getattr(getattr(scipy.stats, name), method)(*args)
            found = getattr(getattr(ndgrad.scipy.stats, name), method)(*args)
            assert found.shape == np.shape(expected)
            np.testing.assert_allclose(found.numpy(), expected)


# ----- solvers and compiled functions -----------------------------------------------------------------------------------


def bisect(f: Any, low: Any, high: Any, args: Any = ()) -> Any:
    while high - low > 1e-13:
        middle = (low + high) / 2
        if f(middle, *args) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def narrow(f: Any, low: Any, high: Any) -> Any:
    return bisect(f, low, high)


def test_a_bracketing_method_gives_the_derivative_of_the_root() -> None:
    check(lambda t: bisect(lambda x: x**3 + x - t, 0.0, 4.0), 0.3)
    check(lambda t: bisect(lambda x, a: x**3 + x - a, 0.0, 4.0, (t,)) * t, 0.3)


def test_a_root_finder_can_be_named() -> None:
    def f(t: Any) -> Any:
        return narrow(lambda x: x**3 + x - t, 0.0, 4.0)

    check(f, 0.3, implicit=narrow)
    with pytest.raises(TypeError, match="not a root of its first argument"):
        ndgrad.lift(lambda t: worst(lambda x: x - t, 1.0), implicit=worst)(dnp.array(0.3).requires_grad_())


def worst(f: Any, x: Any) -> Any:
    return x + 1.0


def test_a_function_can_be_replaced() -> None:
    def f(t: Any) -> Any:
        return sys.intern("a") == "a" and hypotenuse(t, 2.0)

    check(f, 0.3, replace={hypotenuse: math.hypot})


def hypotenuse(a: Any, b: Any) -> Any:
    return float(repr(math.hypot(a, b)))


# ----- messages -----------------------------------------------------------------------------------------------------------


def test_refusals_outside_of_lifted_code_name_the_line_to_write() -> None:
    t = dnp.array([1.0, 2.0]).requires_grad_()
    with pytest.raises(TypeError, match=r"ndgrad.lift\([\w.]*angle\)"):
        angle(t)
    with pytest.raises(RuntimeError, match=r"ndgrad.lift\([\w.]*total\)"):
        total(t)


def angle(x: Any) -> float:
    return math.sin(x[0])


def total(x: Any) -> Any:
    return np.zeros(2).__iadd__(x)


# ----- compiled -----------------------------------------------------------------------------------------------------------


def test_functions_of_math_compile() -> None:
    def f(t: Any) -> Any:
        return math.exp(-t) * math.log(t) + math.atan2(t, 2.0)

    compiled = ndgrad.compile(ndgrad.func.grad(ndgrad.lift(f)))
    x = dnp.array(0.7)
    expected = -math.exp(-0.7) * math.log(0.7) + math.exp(-0.7) / 0.7 + 2.0 / (0.7**2 + 4.0)
    assert float(compiled(x)) == pytest.approx(expected)
    assert "eager" not in str(ndgrad.compiler.explain(compiled, x))
    with pytest.raises(ValueError, match="math domain error"):
        compiled(dnp.array(-0.7))


# ----- code of SciPy without a rule -----------------------------------------------------------------------------------


def test_python_code_of_scipy_without_a_rule_is_lifted() -> None:
    points = np.array([[0.0, 1.0], [1.0, 0.3], [2.0, 2.0], [0.5, 3.0]])
    check(lambda t: scipy.signal.butter(2, t)[0][0], 0.3)
    check(lambda t: scipy.signal.cont2discrete((np.array([[-t]]), *np.ones((3, 1, 1))), 0.1)[0][0, 0], 0.7)
    check(lambda t: scipy.spatial.procrustes(points, np.exp(points * t))[2], 0.7)


def test_integers_computed_by_compiled_code_have_no_slope() -> None:
    def assign(t: Any) -> Any:
        cost = np.array([[t, 2.0], [0.5, 1.5]])
        return (cost[linear_sum_assignment(cost)] ** 2).sum()

    def components(t: Any) -> Any:
        count, labels = connected_components(scipy.sparse.csr_matrix(np.array([[t, 0.0], [0.0, 1.0]])))
        return t**count + t * labels.sum()

    check(assign, 0.7)
    check(components, 0.7)


def test_a_compiled_function_with_a_slope_is_refused_with_the_line_to_write() -> None:
    def smallest(t: Any) -> Any:
        return nnls(np.array([[t, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0]))[0].sum()

    with pytest.raises(TypeError, match=r"ndgrad\.lift\(f, replace=\{scipy\.optimize\.nnls: other\}\)"):
        ndgrad.func.grad(ndgrad.lift(smallest))(dnp.array(0.7))


# ----- modules and classes that look at themselves --------------------------------------------------------------------

RATES = types.ModuleType("rates")
exec("import numpy as np\ndef slow(t): return np.sin(t)\ndef fast(t): return np.exp(t)", RATES.__dict__)


def test_the_names_of_a_module_and_of_globals_are_lifted() -> None:
    def f(t: Any) -> Any:
        called = [v for name, v in vars(RATES).items() if name in ("slow", "fast")]
        assert "check" in globals()
        assert globals().get("no such name") is None
        return sum(g(t) for g in called)

    check(f, 0.3, also="rates")


class Counted(type):
    """A metaclass with a method that its classes' calls go through."""

    made: ClassVar[list[type]] = []

    def __init__(cls, *args: Any) -> None:
        super().__init__(*args)
        Counted.made.append(cls)

    def __call__(cls, value: Any) -> Any:
        return super().__call__(np.asarray([np.sin(value), 2.0]))


class Wave(metaclass=Counted):
    def __init__(self, parts: Any) -> None:
        self.parts = parts


class Metres(np.ndarray, metaclass=Counted):
    """A subclass of ndarray that keeps its unit in reductions, by `__array_ufunc__`."""

    registry: ClassVar[dict[str, Any]] = {}

    def __new__(cls, values: Any) -> Any:
        return np.asarray(values).view(cls)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [v.view(np.ndarray) if isinstance(v, Metres) else v for v in inputs]
        return np.asarray(super().__array_ufunc__(ufunc, method, *plain, **kwargs)).view(type(self))


Metres.registry["one"] = np.ones(2).view(Metres)


def test_methods_of_metaclasses_are_lifted_and_make_no_new_classes() -> None:
    before = len(Counted.made)
    check(lambda t: Wave(t).parts.prod(), 0.3)
    assert len(Counted.made) == before


def test_reductions_of_a_subclass_go_through_its_array_ufunc() -> None:
    def f(t: Any) -> Any:
        total = (Metres(t) * 3.0).sum()
        assert type(total) is Metres
        return float(total + Metres.registry["one"].max() * t)

    check(f, 0.3)


def test_operators_of_float_called_as_functions_keep_the_derivative() -> None:
    check(lambda t: float.__mul__(math.sin(t), 2.0) + float.__rsub__(float(t), 1) + float.__neg__(float(t) ** 2), 0.3)


def test_a_triangle_of_a_symmetric_matrix_has_its_own_derivative() -> None:
    def f(t: Any) -> Any:
        k = np.array([[t, 0.0, 0.0], [0.3 * t, 1.0, 0.0], [t**2, 0.2, 2.0]])
        values, vectors = np.linalg.eigh(k)
        return values[0] + abs(vectors[0, 2]) + np.linalg.cholesky(k + 2 * np.eye(3)).sum() + np.linalg.eigvalsh(k)[1]

    check(f, 0.4)
    check(lambda t: np.linalg.eigh(np.array([[1.0, t], [0.0, 2.0]]), UPLO="U")[0][0], 0.4)


# ----- compiled -------------------------------------------------------------------------------------------------------


def test_a_lifted_function_that_looks_up_a_computed_name_is_compiled() -> None:
    def f(t: Any) -> Any:
        return sum(getattr(math, name)(t) for name in ("sin", "cos")) * getattr(np, "ex" + "p")(t)

    compiled = ndgrad.compile(ndgrad.func.grad(ndgrad.lift(f)))
    for x in (0.3, 0.4, 0.5):
        expected = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
        assert float(compiled(dnp.array(x))) == pytest.approx(expected, rel=1e-6)
    assert not str(ndgrad.compiler.explain(compiled, dnp.array(0.3))).startswith("runs eagerly")
    assert float(ndgrad.func.grad(ndgrad.lift(f))(dnp.array(0.5))) == pytest.approx(expected, rel=1e-6)


STREAMS = (io.RawIOBase, io.BufferedIOBase, io.TextIOBase)


def test_a_test_for_a_stream_does_not_keep_a_function_from_being_compiled() -> None:
    def f(t: Any) -> Any:
        return t * 2.0 if isinstance(t, (*STREAMS, str)) else np.sin(t) * 3.0

    compiled = ndgrad.compile(ndgrad.func.grad(ndgrad.lift(f)))
    assert float(compiled(dnp.array(0.3))) == pytest.approx(3 * math.cos(0.3))
    assert not str(ndgrad.compiler.explain(compiled, dnp.array(0.3))).startswith("runs eagerly")


# ----- names and conversions that libraries use -----------------------------------------------------------------------


class Holder:
    """An object that gives its array by `__array__` alone."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.values, dtype)


def test_objects_with_an_array_and_arrays_without_a_mask_take_part() -> None:
    check(lambda x: np.asarray(Holder(np.array([x, 2.0 * x])), float).sum() + np.asarray(2.0 * x, like=np.zeros(1)), 0.5)
    check(lambda x: (x * np.ma.asarray(np.array([1.0, 2.0]))).sum(), 0.5)
    with pytest.raises(TypeError, match="mask"):
        check(lambda x: (x * np.ma.masked_less(np.array([1.0, 2.0]), 1.5)).sum(), 0.5)


def test_standard_forms_of_distributions_and_starts_of_one_number() -> None:
    check(lambda x: scipy.stats.norm._cdf(x) + scipy.stats.gamma._logpdf(x, 2.0), 0.5)
    assert ndgrad.lift(lambda x: scipy.optimize.minimize(lambda y: (y[0] - x) ** 2, 1.0).x)(dnp.array(0.5)).shape == (1,)
    check(lambda x: scipy.optimize.root(lambda y: y**3 - x, 1.0).x[0], 0.5)


def test_classes_of_sparse_matrices_without_a_rule_can_be_asked_for() -> None:
    def f(x: Any) -> Any:
        k = scipy.sparse.coo_matrix((np.array([x, 1.0]), ([0, 1], [1, 0])), shape=(2, 2))
        k.eliminate_zeros()
        return x if isinstance(k, scipy.sparse.lil_matrix) else k.toarray().sum() * x

    check(f, 0.5)
