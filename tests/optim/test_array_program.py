"""Steps by ufuncs over existing memory leave what the ordinary way leaves, to the last bit, and mind what has changed."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad as nd
from ndgrad import optim
from ndgrad._src.arrays import native_kernels
from ndgrad._src.core.modes import process
from ndgrad._src.ops.formulas import Formula, NoFormula
from ndgrad.optim import fused
from ndgrad.optim.array_program import program

SHAPES = [(100, 100), (7,), (33, 45), (), (40000,)]

MAKES = {
    "SGD": lambda p, **k: optim.SGD(p, 0.1, **k),
    "SGD with momentum": lambda p, **k: optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, weight_decay=0.1, **k),
    "Nesterov": lambda p, **k: optim.SGD(p, 0.1, momentum=0.9, nesterov=True, maximize=True, **k),
    "Adam": lambda p, **k: optim.Adam(p, 0.01, weight_decay=0.1, amsgrad=True, **k),
    "AdamW": lambda p, **k: optim.AdamW(p, 0.01, **k),
    "Adamax": lambda p, **k: optim.Adamax(p, 0.01, **k),
    "NAdam": lambda p, **k: optim.NAdam(p, 0.01, **k),
    "RAdam": lambda p, **k: optim.RAdam(p, 0.01, **k),
    "Adagrad": lambda p, **k: optim.Adagrad(p, 0.01, **k),
    "Adadelta": lambda p, **k: optim.Adadelta(p, **k),
    "RMSprop": lambda p, **k: optim.RMSprop(p, 0.01, momentum=0.9, centered=True, **k),
    "ASGD": lambda p, **k: optim.ASGD(p, 0.01, t0=2, **k),
    "Rprop": lambda p, **k: optim.Rprop(p, 0.01, **k),
}
WITH_FUSED = ("SGD", "SGD with momentum", "Nesterov", "Adam", "AdamW", "Adagrad")


@pytest.fixture(autouse=True)
def _nothing_watches(monkeypatch):
    # other tests leave what makes all steps ordinary ones: classes with a dispatch of their own, a second array library
    monkeypatch.setattr(process, "dispatching", False)
    monkeypatch.setattr(process, "busy", set())


def _trained(name, ordinary, dtype, late, steps=7):
    settings = ({"foreach": False, "fused": False} if name in WITH_FUSED else {"foreach": False}) if ordinary else {}
    with native_kernels.kernels_in_use(False):
        r = np.random.default_rng(0)
        params = [nd.tensor(r.standard_normal(s).astype(dtype), requires_grad=True) for s in SHAPES]
        optimizer = MAKES[name](params, **settings)
        for step in range(steps):
            for i, p in enumerate(params):
                if i or step or not late:
                    p.grad = nd.tensor(r.standard_normal(p.shape).astype(dtype))
            optimizer.step()
        assert bool(optimizer._plans.of_group) == (not ordinary and (not late or name.startswith(("SGD", "Nesterov"))))
        states = [optimizer.state[p] for p in params]
        return [p.detach().numpy() for p in params], [{k: v.numpy() for k, v in s.items()} for s in states]


@pytest.mark.parametrize(("dtype", "late"), [(np.float32, False), (np.float64, True)])
@pytest.mark.parametrize("name", MAKES)
def test_steps_are_the_same_to_the_last_bit(name, dtype, late):
    params, states = _trained(name, False, dtype, late)
    expected_params, expected_states = _trained(name, True, dtype, late)
    for a, b in zip(params, expected_params, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(states, expected_states, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            assert a[key].dtype == b[key].dtype
            np.testing.assert_array_equal(a[key], b[key])


def _counting(monkeypatch):
    calls = []
    original = fused._kind
    monkeypatch.setattr(fused, "_kind", lambda *given: calls.append(1) or original(*given))
    return calls


def _params(count=3, size=5000):
    params = [nd.tensor(np.arange(float(size)) + n, requires_grad=True) for n in range(count)]
    for p in params:
        p.grad = nd.ones(size, dtype=p.dtype)
    return params


def test_what_is_alike_is_found_out_once(monkeypatch):
    calls, params = _counting(monkeypatch), _params()
    optimizer = optim.Adam(params)
    for _ in range(5):
        optimizer.step()
        for p in params:
            p.grad = nd.full_like(p, 2.0).detach()
    assert len(calls) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda o, ps: setattr(ps[0], "data", ps[0].detach().clone()),
        lambda o, ps: o.state[ps[1]].update(exp_avg=nd.zeros(5000, dtype=nd.float64)),
        lambda o, ps: o.state.pop(ps[2]),
        lambda o, ps: o.state[ps[0]].update(step=nd.tensor(9.0)),
        lambda o, ps: setattr(ps[0], "grad", None),
        lambda o, ps: (setattr(ps[0], "grad", None), o.step(), o.step(), setattr(ps[0], "grad", nd.ones(5000, dtype=nd.float64))),
        lambda o, ps: setattr(ps[0], "grad", nd.ones(10000, dtype=nd.float64)[::2]),
        lambda o, ps: o.load_state_dict(o.state_dict()),
        lambda o, ps: o.param_groups[0].update(amsgrad=False, weight_decay=0.5),
        lambda o, ps: o.param_groups[0]["params"].pop(),
    ],
)
def test_what_changes_between_steps_counts(change):
    found = []
    for ordinary in (True, False):
        params = _params()
        optimizer = optim.Adam(params, lr=0.1, **({"foreach": False, "fused": False} if ordinary else {}))
        for _ in range(2):
            optimizer.step()
        change(optimizer, params)
        for _ in range(2):
            optimizer.step()
        found.append([p.detach().numpy().copy() for p in params])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_parameter_saved_by_a_graph_is_known_to_be_overwritten_by_later_steps():
    (p,) = _params(1, 9000)
    optimizer = optim.SGD([p], 0.1)
    optimizer.step()
    y = (p * p).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_gradients_are_not_kept_alive():
    import weakref

    params = _params()
    optimizer = optim.Adam(params)
    for _ in range(3):
        optimizer.step()
    held = [weakref.ref(p.grad._array) for p in params]
    optimizer.zero_grad()
    assert [ref() for ref in held] == [None] * 3


def test_a_program_writes_only_where_nobody_reads_any_more():
    # out0 = a + b goes into a's memory, and a * b, which is computed later, needs the old a
    formula = Formula()
    a, b = formula.input(), formula.input()
    total = a + b
    product = a * b
    x, y = np.arange(5.0), np.arange(5.0) + 2
    expected = x + y, x * y
    run = program(formula.signature([total, product]), (0, 1), x.dtype)
    run([[x, y, x, y]], formula.numbers)
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(y, expected[1])


def test_results_that_would_exchange_places_are_left_to_the_ordinary_way():
    formula = Formula()
    a, b = formula.input(), formula.input()
    with pytest.raises(NoFormula):
        program(formula.signature([b, a]), (0, 1), np.dtype(np.float64))


@pytest.mark.parametrize("name", [n for n in MAKES if n != "Rprop"])
def test_differentiable_steps_are_right(name):
    """The gradient of what two steps make of a parameter, by the parameter and by what the gradients depend on."""

    def after(start, pull):
        p = start.clone()
        optimizer = MAKES[name]([p], differentiable=True)
        for step in range(2):
            p.grad = p.clone() ** 2 * 0.3 + pull * (step + 1)
            optimizer.step()
        return p

    r = np.random.default_rng(3)
    start, pull = (nd.tensor(r.standard_normal(4) + 2.0, requires_grad=True) for _ in range(2))
    assert nd.autograd.gradcheck(after, (start, pull), rtol=1e-4)
