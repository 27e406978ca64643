"""Initial value problems: gradients against closed forms, finite differences of accurate solutions and the promise of ten tolerances."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as nnp
from ndgrad import func, implicit
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.node import Node

integrate = pytest.importorskip("scipy.integrate")


def tensor(values, **options):
    return ndgrad.tensor(values, dtype=ndgrad.float64, **options)


def close(have, want, tolerance=1e-7):
    np.testing.assert_allclose(have.detach().numpy(), want, rtol=tolerance, atol=tolerance)


METHODS = ["RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA"]
FINE = {"rtol": 1e-9, "atol": 1e-11, "method": "DOP853"}
TIGHT = {"rtol": 1e-5, "atol": 1e-7}
TIMES = np.array([0.0, 0.8, 2.0])


def hunters(t, y, a):
    """Lotka and Volterra's."""
    return ndgrad.stack([a[0] * y[0] - a[1] * y[0] * y[1], a[2] * y[0] * y[1] - a[3] * y[1]])


def loss_of_arrays(y0, a, weights):
    """The same by SciPy alone, as accurate as it can be."""
    field = lambda t, y: [a[0] * y[0] - a[1] * y[0] * y[1], a[2] * y[0] * y[1] - a[3] * y[1]]
    found = integrate.solve_ivp(field, (0, 2), y0, "DOP853", TIMES, rtol=1e-13, atol=1e-14)
    return (found.y * weights).sum()


Y0, A = np.array([1.0, 0.5]), np.array([1.5, 1.0, 0.8, 2.0])
WEIGHTS = np.random.default_rng(0).normal(size=(2, 3))


@pytest.fixture(scope="module")
def reference():
    h = 1e-5
    by_y = [(loss_of_arrays(Y0 + h * e, A, WEIGHTS) - loss_of_arrays(Y0 - h * e, A, WEIGHTS)) / (2 * h) for e in np.eye(2)]
    by_a = [(loss_of_arrays(Y0, A + h * e, WEIGHTS) - loss_of_arrays(Y0, A - h * e, WEIGHTS)) / (2 * h) for e in np.eye(4)]
    return np.array(by_y), np.array(by_a)


#: As tight as each method is in about a second: those of low order take many steps.
REACH = {"RK45": 1e-8, "RK23": 1e-5, "DOP853": 1e-8, "Radau": 1e-5, "BDF": 1e-5, "LSODA": 1e-5}


@pytest.mark.parametrize(
    "method", [method if method in ("DOP853", "LSODA") else pytest.param(method, marks=pytest.mark.slow) for method in METHODS]
)
def test_gradients_are_within_ten_tolerances_of_finite_differences(method, reference):
    rtol = REACH[method]

    def loss(y0, a):
        sol = implicit.solve_ivp(hunters, (0.0, 2.0), y0, method, TIMES, args=(a,), rtol=rtol, atol=rtol / 100)
        return (sol.y * tensor(WEIGHTS)).sum()

    y0, a = tensor(Y0), tensor(A)
    by_y, by_a = func.grad(loss, (0, 1))(y0, a)
    scale = max(np.abs(reference[0]).max(), np.abs(reference[1]).max())
    assert np.abs(by_y.numpy() - reference[0]).max() <= 10 * rtol * scale
    assert np.abs(by_a.numpy() - reference[1]).max() <= 10 * rtol * scale
    along = np.array([1.0, -2.0]), np.array([0.5, 1.0, -1.0, 2.0])
    tangent = func.jvp(loss, (y0, a), tuple(map(tensor, along)))[1]
    want = along[0] @ reference[0] + along[1] @ reference[1]
    assert abs(tangent.item() - want) <= 10 * rtol * scale * 3


def test_values_equal_scipys():
    field = lambda t, y: [-0.5 * y[0] + t, y[0] - y[1]]
    for method in METHODS:
        mine = implicit.solve_ivp(
            lambda t, y: ndgrad.stack([-0.5 * y[0] + t, y[0] - y[1]]), (0.0, 2.0), tensor([1.0, 2.0]), method, rtol=1e-7, atol=1e-9
        )
        theirs = integrate.solve_ivp(field, (0, 2), [1.0, 2.0], method, rtol=1e-7, atol=1e-9)
        assert tuple(mine.y.shape) == (2, len(mine.t))
        close(mine.y[:, -1], theirs.y[:, -1], 1e-6)
        if method in ("RK45", "RK23", "DOP853"):
            close(mine.t, theirs.t, 1e-10)
            close(mine.y, theirs.y, 1e-10)
    assert (mine.status, mine.success) == (0, True)


#: Solvers inside solvers take many steps: as much as can be had in a second.
ROUGH = {"rtol": 1e-6, "atol": 1e-8, "method": "DOP853"}


def decay(k, **options):
    return implicit.solve_ivp(lambda t, y: -k * y, (0.0, 2.0), tensor([1.0]), **{**FINE, **options}).y[0, -1]


@pytest.mark.slow
def test_every_combination_of_modes_to_third_order():
    k, e = tensor(0.5), np.exp(-1.0)
    close(func.grad(decay)(k), -2 * e)
    close(func.jacfwd(decay)(k), -2 * e)
    rough = lambda k: decay(k, **ROUGH)
    for transform in (
        func.grad(func.grad(rough)), func.jacfwd(func.grad(rough)), func.grad(func.jacfwd(rough)), func.jacfwd(func.jacfwd(rough)),
    ):  # fmt: skip
        close(transform(k), 4 * e, 1e-4)
    close(func.grad(func.grad(func.grad(rough)))(k), -8 * e, 1e-4)
    leaf = tensor(0.5, requires_grad=True)
    (g,) = ndgrad.autograd.grad(decay(leaf), leaf, create_graph=True)
    (gg,) = ndgrad.autograd.grad(g, leaf)
    close(gg, 4 * e)


@pytest.mark.parametrize("method", ["Radau", *(pytest.param(method, marks=pytest.mark.slow) for method in ("RK45", "LSODA"))])
def test_vmap_integrates_the_batch_together(method):
    k = tensor([0.5, 1.0, 2.0])
    n = k.numpy()
    rtol = {"Radau": 1e-3, "LSODA": 1e-6}.get(method, 1e-7)
    tolerance = {"Radau": 1e-4, "LSODA": 1e-5}.get(method, 1e-7)
    one = lambda k: decay(k, method=method, rtol=rtol, atol=rtol / 100)
    close(func.vmap(one)(k), np.exp(-2 * n), tolerance)
    close(func.vmap(func.grad(one))(k), -2 * np.exp(-2 * n), tolerance)
    close(func.grad(lambda k: func.vmap(one)(k).sum())(k), -2 * np.exp(-2 * n), tolerance)
    if method == "RK45":
        close(func.vmap(func.grad(func.grad(one)))(k), 4 * np.exp(-2 * n))
        close(func.vmap(lambda k: func.jvp(one, (k,), (tensor(1.0),))[1])(k), -2 * np.exp(-2 * n))
        calls = []
        for size in (2, 16):
            count = [0]

            def field(t, y, k, count=count):
                count[0] += 1
                return -k * y

            func.vmap(lambda k, field=field: implicit.solve_ivp(field, (0.0, 1.0), tensor([1.0]), args=(k,)).y[0, -1])(
                tensor(np.ones(size))
            )
            calls.append(count[0])
        assert abs(calls[0] - calls[1]) <= 0.5 * calls[0]  # tolerances are shared out, so steps differ a little


def test_gradients_of_start_end_and_evaluation_times():
    k = 0.5

    def solve(t0, t1):
        return implicit.solve_ivp(lambda t, y: -k * t * y, (t0, t1), tensor([1.0]), **FINE).y[0, -1]

    exact = np.exp(-k * 1.5)  # exp(-k (t1^2 - t0^2) / 2)
    t0, t1 = tensor(1.0), tensor(2.0)
    by0, by1 = func.grad(solve, (0, 1))(t0, t1)
    close(by0, k * 1 * exact)
    close(by1, -k * 2 * exact)
    by0, by1 = func.jacfwd(solve, (0, 1))(t0, t1)
    close(by0, k * 1 * exact)
    close(by1, -k * 2 * exact)
    hessian = func.hessian(lambda t: solve(t[0], t[1]))(tensor([1.0, 2.0]))
    close(hessian, exact * np.array([[k + k * k, -2 * k * k], [-2 * k * k, -k + 4 * k * k]]), 1e-6)

    def solve_at(times):
        return implicit.solve_ivp(lambda t, y: -k * t * y, (1.0, 2.0), tensor([1.0]), t_eval=times, **FINE).y[0]

    times = np.array([1.0, 1.3, 2.0])
    close(func.jacrev(solve_at)(tensor(times)), np.diag(-k * times * np.exp(-k * (times**2 - 1) / 2)))


def test_integration_backward_in_time():
    def solve(y):
        return implicit.solve_ivp(lambda t, y: -0.5 * y, (2.0, 0.0), y, t_eval=[1.5, 0.0], **FINE).y

    close(solve(tensor([1.0])), [[np.exp(0.25), np.exp(1.0)]])
    close(func.jacrev(solve)(tensor([1.0])), [[[np.exp(0.25)], [np.exp(1.0)]]])


def test_structures_closures_and_faces():
    k = nnp.array(0.5).requires_grad_()
    y0 = {"u": nnp.array([[1.0, 2.0]]), "v": (nnp.array(3.0),)}
    seen = set()

    def field(t, y):
        seen.add((type(t), type(y["u"]), type(k)))
        return {"u": -k * y["u"], "v": (k * y["v"][0],)}

    sol = implicit.solve_ivp(field, (0.0, 1.0), y0, t_eval=[0.5, 1.0], **FINE)
    assert seen == {(nnp.Array,) * 3}
    assert sol.y["u"].shape == (1, 2, 2)
    assert sol.y["v"][0].shape == (2,)
    close(sol.y["u"][0, 1], 2 * np.exp([-0.25, -0.5]))
    (sol.y["u"].sum() + sol.y["v"][0][-1]).backward()
    want = -3 * (0.5 * np.exp(-0.25) + np.exp(-0.5)) + 3 * np.exp(0.5)
    np.testing.assert_allclose(k.grad.item(), want, rtol=1e-7)


def test_complex_states():
    def solve(w):
        y0 = ndgrad.tensor([1.0 + 0.0j], dtype=ndgrad.complex128)
        return implicit.solve_ivp(lambda t, y: 1j * w * y, (0.0, 1.0), y0, t_eval=[1.0], **FINE).y[0, 0]

    w = tensor(2.0)
    np.testing.assert_allclose(solve(w).item(), np.exp(2j), rtol=1e-8)
    close(func.grad(lambda w: solve(w).real)(w), -np.sin(2.0))
    close(func.jvp(lambda w: solve(w).imag, (w,), (tensor(1.0),))[1], np.cos(2.0))


@pytest.mark.slow
def test_stiff_problem_gets_exact_jacobians():
    def field(t, y, k):  # Robertson's reactions
        a = k[0] * y[0]
        b = k[1] * y[1] * y[2]
        c = k[2] * y[1] ** 2
        return ndgrad.stack([-a + b, a - b - c, c])

    k, y0 = np.array([0.04, 1e4, 3e7]), [1.0, 0.0, 0.0]

    def solve(k, **options):
        return implicit.solve_ivp(field, (0.0, 1.0), tensor(y0), "Radau", [1.0], args=(k,), **options).y[:, 0]

    def arrays(k):
        f = lambda t, y: [-k[0] * y[0] + k[1] * y[1] * y[2], k[0] * y[0] - k[1] * y[1] * y[2] - k[2] * y[1] ** 2, k[2] * y[1] ** 2]
        return integrate.solve_ivp(f, (0, 1), y0, "LSODA", rtol=1e-11, atol=1e-14).y[:, -1]

    rtol = 1e-5
    g = func.grad(lambda k: solve(k, rtol=rtol, atol=1e-10)[0])(tensor(k)).numpy() * k
    want = [(arrays(k * (1 + 1e-4 * e))[0] - arrays(k * (1 - 1e-4 * e))[0]) / 2e-4 for e in np.eye(3)]
    assert np.abs(g - want).max() <= 10 * rtol


# ----- events --------------------------------------------------------------------------------------------------------------


def ground(t, y):
    return y[0]


ground.terminal = True
ground.direction = -1


def throw(v, g):
    field = lambda t, y: ndgrad.stack([y[1], -g])
    return implicit.solve_ivp(field, (0.0, 100.0), ndgrad.stack([v * 0.0, v]), events=ground, rtol=1e-8, atol=1e-10)


def test_event_times_and_states_are_differentiable():
    v, g = tensor(3.0), tensor(9.8)
    sol = throw(v, g)
    assert sol.status == 1
    close(sol.t_events[0], [6 / 9.8])
    close(sol.t[-1], 6 / 9.8)
    close(sol.y_events[0], [[0.0, -3.0]])
    landing = lambda p: throw(p[0], p[1]).t_events[0][0]
    p = tensor([3.0, 9.8])
    close(func.grad(landing)(p), [2 / 9.8, -6 / 9.8**2])
    close(func.jacfwd(landing)(p), [2 / 9.8, -6 / 9.8**2])
    close(func.hessian(landing)(p), [[0.0, -2 / 9.8**2], [-2 / 9.8**2, 12 / 9.8**3]], 1e-6)
    close(func.grad(lambda p: throw(p[0], p[1]).y_events[0][0, 1])(p), [-1.0, 0.0])
    close(func.grad(lambda p: throw(p[0], p[1]).y[1, -1])(p), [-1.0, 0.0])


def test_several_events_equal_scipys():
    upward = lambda t, y: y[0]
    upward.direction = 1
    field = lambda t, y: ndgrad.stack([y[1], -y[0]])
    mine = implicit.solve_ivp(field, (0.0, 10.0), tensor([1.0, 0.0]), events=[lambda t, y: y[0], upward], **FINE)
    theirs = integrate.solve_ivp(lambda t, y: [y[1], -y[0]], (0, 10), [1.0, 0.0], events=[lambda t, y: y[0], upward], **FINE)
    for have, want in zip(mine.t_events, theirs.t_events, strict=True):
        close(have, want, 1e-8)
    for have, want in zip(mine.y_events, theirs.y_events, strict=True):
        close(have, want, 1e-7)


# ----- memory --------------------------------------------------------------------------------------------------------------


def oscillator(t, y, k):
    return ndgrad.stack([y[1], -k * y[0]])


def test_graph_does_not_grow_with_steps():
    k = tensor(1.0, requires_grad=True)
    kept = k * 1.0

    def count_nodes(end):
        gc.collect()
        before = sum(isinstance(o, Node) for o in gc.get_objects())
        sol = implicit.solve_ivp(oscillator, (0.0, end), tensor([1.0, 0.0]), t_eval=[end], args=(k,), rtol=1e-6)
        gc.collect()
        return sum(isinstance(o, Node) for o in gc.get_objects()) - before, sol

    (few, first), (many, second) = count_nodes(1.0), count_nodes(30.0)
    assert few == many
    assert second.nfev > 5 * first.nfev
    assert kept is not None


@pytest.mark.slow
def test_backward_through_checkpoints_keeps_few_states(monkeypatch):
    """Interpolants are what a trajectory costs: how many are alive at once, and that the gradient is the same."""
    from ndgrad.implicit import integration

    alive, peak = weakref.WeakSet(), [0]
    dense_output = integrate.RK23.dense_output

    def count_alive(solver):
        made = dense_output(solver)
        alive.add(made)
        peak[0] = max(peak[0], len(alive))
        return made

    monkeypatch.setattr(integrate.RK23, "dense_output", count_alive)
    k = tensor(1.0)

    def loss(k, kept):
        sol = implicit.solve_ivp(
            oscillator, (0.0, 6.0), tensor([1.0, 0.0]), "RK23", [6.0], args=(k,), rtol=1e-4, atol=1e-5, checkpoints=kept
        )
        return sol.y[0, 0]

    def run(piece, kept):
        monkeypatch.setattr(integration, "PIECE", piece)
        alive.clear()
        peak[0] = 0
        return func.grad(lambda k: loss(k, kept))(k).item(), peak[0]

    exact = -3 * np.sin(6.0)
    for piece, kept in ((10**9, 32), (8, 2)):
        g, most = run(piece, kept)
        assert abs(g - exact) <= 10 * 1e-4 * 3
        if piece == 8:
            assert most <= 2 * (piece + 2)
        else:
            assert most > 50


# ----- failures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "Euler"}, "method"),
        ({"dense_output": True}, "t_eval"),
        ({"vectorized": True}, "finite differences"),
        ({"t_eval": [0.0, 5.0]}, "outside of t_span"),
        ({"t_eval": [1.0, 0.5]}, "monotonic"),
        ({"t_eval": []}, "empty"),
        ({"rtol": -1.0}, "rtol"),
        ({"adjoint_options": {"speed": 3}}, "adjoint_options"),
        ({"events": lambda t, y: y}, "one number"),
    ],
)
def test_bad_input(options, message):
    before = len(process.busy)
    with pytest.raises(ValueError, match=message):
        implicit.solve_ivp(lambda t, y: -y, (0.0, 1.0), tensor([1.0, 2.0]), **options)
    with pytest.raises(ValueError, match="one equation per unknown"):
        implicit.solve_ivp(lambda t, y: y[:1], (0.0, 1.0), tensor([1.0, 2.0]))
    assert len(process.busy) == before
    assert thread.captures is None


def test_a_solution_that_explodes_is_an_error():
    a = tensor(1.0, requires_grad=True)
    with np.errstate(all="ignore"), pytest.raises(implicit.ConvergenceError, match="failed at t"):
        implicit.solve_ivp(lambda t, y: a * y * y, (0.0, 2.0), tensor([1.0]))
    with pytest.raises(ValueError, match="inside vmap"):
        func.vmap(lambda v: throw(v, tensor(9.8)).t_events[0])(tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="batched by vmap"):
        func.vmap(lambda t: implicit.solve_ivp(lambda t, y: -y, (0.0, t), tensor([1.0])).y)(tensor([1.0, 2.0]))
    assert thread.levels == ()
    decay(a).backward()
    close(a.grad, -2 * np.exp(-2.0))
