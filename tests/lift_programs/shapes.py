"""Functions in every shape that Python knows, each of which fills a buffer; `f(t)` is always t**2 + 3 t, at every place of the result."""

import asyncio
import contextlib
import functools
import math
from copy import deepcopy
from functools import lru_cache, partial, reduce, singledispatch
from math import sqrt as root

import numpy
import numpy as np
import numpy.linalg as la
from numpy import array, empty, newaxis, pi
from numpy import zeros as nothing

from . import stencils
from .stencils import Grid, copy_down

WEIGHTS = np.array([1.0, 3.0])
FACTOR = 1.0
TABLE = {"square": lambda t: nothing(2) + t * t, "line": lambda t: 3.0 * t + np.zeros(2)}
STEPS = [lambda b, t: b + t * t, lambda b, t: b + 3.0 * t]
counter = 0


def expected(t):
    return t**2 + 3.0 * t


# ----- names ---------------------------------------------------------------------------------------------------------------


def imported_names(t):
    b = nothing(2)
    b[0] = t
    c = empty(2)
    c[:] = b[0]
    return c * c + 3.0 * c[newaxis][0] + 0.0 * pi


def imported_inside(t):
    import numpy as xp
    from numpy.linalg import norm

    b = xp.zeros(2)
    b[:] = norm(xp.array([t, 0.0])) ** 2 + 3.0 * t
    return b


def linalg_alias(t):
    return la.solve(array([[2.0, 0.0], [0.0, 4.0]]), array([2.0 * t, 4.0 * t])) ** 2 + 3.0 * numpy.full(2, t)


def module_arrays(t):
    b = np.zeros(2)
    for i in range(len(WEIGHTS)):
        b += WEIGHTS[i] * t ** (2 - i)
    return b * FACTOR


def method_of_module_array(t):
    return np.array([WEIGHTS.dot(np.array([t * t, t])), t * t + 3 * t])


def other_module_of_the_package(t):
    return stencils.copy_down(t * t) + copy_down(3.0 * t)


def tables_of_functions(t):
    return reduce(lambda b, step: step(b, t), STEPS, np.zeros(2)) * 0.5 + 0.5 * (TABLE["square"](t) + TABLE["line"](t))


def global_assignment(t):
    global counter
    counter += 1
    b = np.zeros(2)
    b[:] = t * t + 3.0 * t
    return b


# ----- kinds of functions -----------------------------------------------------------------------------------------------------


def make_closure(power, offset=WEIGHTS):
    scratch = np.zeros(2)

    def inner(t, *, k=offset):
        buffer = scratch * 0.0
        buffer[:] = t**power + k[1] * t
        return buffer

    return inner


closure = make_closure(2)


def defaults(t, w=WEIGHTS, *, fill=np.zeros):
    b = fill(2)
    b[:] = w.dot(np.array([t * t, t]))
    return b


def recursive(t, n=2):
    if n == 0:
        return 3.0 * t
    b = np.zeros(2)
    b[:] = recursive(t, n - 1)
    b += 0.5 * t * t
    return b


def comprehensions(t):
    rows = [np.zeros(2) + w * t ** (2 - i) for i, w in enumerate(WEIGHTS)]
    table = {i: row for i, row in enumerate(rows)}  # noqa: C416
    return np.array([sum(table[i][j] for i in table) for j in range(2)])


def steps_of_newton(t):
    b = np.zeros(2)
    yield b
    b[0] = t * t
    b[1] = 3.0 * t
    yield b


def generators(t):
    *_, last = steps_of_newton(t)
    return last.sum() * np.ones(2)


async def slow_square(t):
    b = np.zeros(2)
    await asyncio.sleep(0)
    b[:] = t * t
    return b


def coroutines(t):
    async def both():
        return await slow_square(t) + 3.0 * t

    return asyncio.run(both())


def lambdas(t):
    put = lambda b, v: b.__setitem__(slice(None), v)
    b = np.zeros(2)
    put(b, t * t + 3.0 * t)
    return b


# ----- decorators ---------------------------------------------------------------------------------------------------------------


def logged(f):
    calls = []

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        calls.append(len(args))
        return f(*args, **kwargs)

    wrapper.calls = calls
    return wrapper


def scaled(by):
    def decorate(f):
        @functools.wraps(f)
        def wrapper(t):
            b = np.zeros(2)
            b[:] = by * f(t)
            return b

        return wrapper

    return decorate


@logged
@scaled(0.5)
def decorated(t):
    b = np.zeros(2)
    b += 2.0 * (t * t + 3.0 * t)
    return b


@lru_cache(maxsize=None)  # noqa: UP033
def fibonacci(n):
    return np.array([1.0, 1.0]) if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def cached(t):
    return fibonacci(40) / fibonacci(40)[0] * (t * t + 3.0 * t)


def polynomial(a, t, b):
    out = np.zeros(2)
    out[:] = a * t * t + b * t
    return out


partially = partial(polynomial, 1.0, b=3.0)


@np.vectorize
def vectorized(t):
    b = np.zeros(1)
    b[0] = t * t
    return b[0] + 3.0 * t


@contextlib.contextmanager
def workspace(n):
    buffer = np.zeros(n)
    yield buffer


def context_managers(t):
    with workspace(2) as b, np.errstate(all="ignore"):
        b[:] = t * t + 3.0 * t
    return b


@singledispatch
def describe(x):
    raise TypeError(type(x))


@describe.register(np.ndarray)
def _(x):
    b = np.zeros_like(x)
    b[...] = x * x + 3.0 * x
    return b


def dispatched(t):
    return describe(np.array([t, t]))


# ----- numbers ----------------------------------------------------------------------------------------------------------------------


def python_numbers(t):
    x = float(t)
    b = np.zeros(2, dtype=float)
    b[0] = x * x
    b[1] = root(t**2) * 3 if x >= 0 else 3 * x
    assert isinstance(x, float)
    return b.sum() * np.ones(2, float) + int(t) * 0 + round(x) * 0 + math.floor(t) * 0


def math_functions(t):
    b = np.zeros(2)
    b[:] = math.exp(2 * math.log(abs(t))) + 3.0 * math.copysign(math.hypot(t, 0.0), t)
    return b


def items_and_lists(t):
    b = np.zeros(2)
    b[:] = t
    values = (b * b).tolist()
    return np.array([values[0] + 3.0 * b[1].item(), b.sum().item() ** 2 / 4 + 3.0 * b.item(0)])


def texts(t):
    b = np.zeros(2)
    b[:] = t * t + 3.0 * t
    assert "%.3f" % b[0] == f"{b[0]:.3f}" == "{:.3f}".format(b[0])  # noqa: UP031, UP032
    return b


def copies(t):
    b = np.zeros(2)
    b[:] = t * t
    kept = deepcopy(b)
    b[:] = 0.0
    return kept + 3.0 * t


def scalar_checks(t):
    x = t if np.isscalar(t) else t[0]
    assert isinstance(np.zeros(2), np.ndarray)
    assert isinstance(np.sum(np.ones(2)), np.floating)
    b = np.zeros(2)
    b[:] = x * x + 3.0 * x
    return b


def integer_keys(t):
    sums = {}
    for i in np.array([0, 1, 0, 1]):
        sums[i] = sums.get(i, 0.0) + 0.5 * (t * t + 3.0 * t)
    assert sorted(sums) == [0, 1]
    return np.array([sums[0], sums[1]])


# ----- classes ----------------------------------------------------------------------------------------------------------------------


class Base:
    scale = np.array([1.0, 1.0])

    def __init__(self, a):
        self.a = a
        self.buffer = np.zeros(2)

    def square(self, t):
        self.buffer[:] = self.a * t * t
        return self.buffer * self.scale


class Derived(Base):
    made = 0

    def __init__(self, a, b):
        super().__init__(a)
        self.b = b
        type(self).made += 1

    def square(self, t):
        out = np.empty(2)
        out[:] = super().square(t)
        out[1] = super(Derived, self).square(t)[1]  # noqa: UP008
        return out

    @property
    def slope(self):
        return np.full(2, self.b)

    @functools.cached_property
    def zero(self):
        return np.zeros(2)

    @staticmethod
    def line(t, slope):
        out = np.zeros(2)
        out += slope * t
        return out

    @classmethod
    def default(cls):
        return cls(1.0, 3.0)

    def __call__(self, t):
        return self.square(t) + self.line(t, self.slope) + self.zero


def classes(t):
    made = Derived.default()
    assert isinstance(made, Base)
    return made(t)


model = Derived(1.0, 3.0)


def module_instance(t):
    return model(t)


def grid_of_other_module(t):
    return Grid(2).fill(t * t) + Grid(2).fill(3.0 * t)


def local_class(t):
    class Holder:
        start = np.zeros(2)

        def __init__(self, v):
            self.v = self.start + v

    return Holder(t * t).v + Holder(3.0 * t).v


FUNCTIONS = [
    imported_names, imported_inside, linalg_alias, module_arrays, method_of_module_array, other_module_of_the_package, tables_of_functions,
    global_assignment, closure, defaults, recursive, comprehensions, generators, coroutines, lambdas, decorated, cached, partially,
    context_managers, dispatched, python_numbers, math_functions, items_and_lists, texts, copies, scalar_checks, integer_keys, classes,
    module_instance, grid_of_other_module, local_class, model, model.__call__,
]  # fmt: skip
