"""Checks of every function of ndgrad.scipy: SciPy's values, and derivatives in all modes."""

from __future__ import annotations

import numpy as np

import ndgrad.numpy as dnp
from ndgrad import func


def leaves(out):
    """The arrays of a result, tensors or not, as a flat list of what is inexact."""
    if isinstance(out, (tuple, list)):
        return [leaf for part in out for leaf in leaves(part)]
    if out is None or isinstance(out, (str, bool, int)):
        return []
    return [out] if np.dtype(getattr(out, "dtype", float)).kind in "fc" else []


def plain(t):
    return t.detach().numpy() if hasattr(t, "detach") else np.asarray(t)


def total(out, weights):
    """A weighted sum of all that a result holds: one real number."""
    result = 0.0
    for leaf, weight in zip(leaves(out), weights, strict=True):
        product = leaf * weight
        result = result + (product.real.sum() if np.dtype(product.dtype).kind == "c" else product.sum())
    return result


def differentiate_along(f, xs, ts, h=1e-3, near=lambda slope: False):
    """The derivative along ts by central differences, of second, fourth and sixth order: the first that is `near`, or the last."""
    at = lambda s: float(plain(f(*(x + s * h * t for x, t in zip(xs, ts, strict=True)))))
    steps = []
    for weights in ([1 / 2], [2 / 3, -1 / 12], [3 / 4, -3 / 20, 1 / 60]):
        steps.append(at(len(weights)) - at(-len(weights)))
        slope = sum(w * s for w, s in zip(weights, steps, strict=True)) / h
        if near(slope):
            break
    return slope


def check(mine, theirs, *args, seed=0, tolerance=1e-6, value=1e-9, second=True, vmap=True, jvp=True, step=1e-3, tangents=None, only=None):
    """Floating ndarrays among the arguments are what is differentiated (`only` some of them, by number)."""
    places = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype.kind in "fc" and (only is None or i in only)]
    random = np.random.default_rng(seed)

    def bind(f, convert):
        def call(*xs):
            given = [convert(a) if isinstance(a, np.ndarray) else a for a in args]
            for i, x in zip(places, xs, strict=True):
                given[i] = x
            return f(*given)

        return call

    ours, reference = bind(mine, dnp.asarray), bind(theirs, np.asarray)
    xs = [args[i] for i in places]
    expected = leaves(reference(*xs))
    got = leaves(ours(*(dnp.array(x) for x in xs)))
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert np.shape(g) == np.shape(e), (np.shape(g), np.shape(e))
        scale = 1 + np.max(np.abs(np.where(np.isfinite(e), e, 0)), initial=0)
        np.testing.assert_allclose(plain(g), e, rtol=value, atol=value * scale)
    if not places:
        return

    def direction(x):
        t = random.standard_normal(x.shape)
        return t + 1j * random.standard_normal(x.shape) if x.dtype.kind == "c" else t

    weights = [direction(np.asarray(e)) for e in expected]
    ts = [direction(x) for x in xs] if tangents is None else [tangents(direction(x)) for x in xs]
    loss = lambda *ys: total(ours(*ys), weights)
    grads = lambda *ys: func.grad(loss, tuple(range(len(ys))))(*ys)
    inner = lambda gs: sum(float(np.sum((np.conj(plain(g)) * t).real)) for g, t in zip(gs, ts, strict=True))
    arrays = [dnp.array(x) for x in xs]
    found = grads(*arrays)
    size = 1 + abs(inner(found)) + sum(float(np.sum(np.abs(plain(g) * t))) for g, t in zip(found, ts, strict=True))
    near = lambda slope: abs(inner(found) - slope) <= tolerance * size
    want = differentiate_along(lambda *ys: total(reference(*ys), weights), xs, ts, step, near)
    assert near(want), (inner(found), want)
    if jvp:
        pushed = func.jvp(loss, tuple(arrays), tuple(dnp.array(t) for t in ts))[1]
        np.testing.assert_allclose(plain(pushed), want, rtol=tolerance, atol=tolerance * size)
    if second:
        slope = lambda *ys: dnp.array(0.0) + sum((dnp.array(np.conj(t)) * g).real.sum() for g, t in zip(grads(*ys), ts, strict=True))
        bent = func.grad(slope, tuple(range(len(xs))))(*arrays)
        bend = 1 + abs(inner(bent)) + sum(float(np.sum(np.abs(plain(g) * t))) for g, t in zip(bent, ts, strict=True))
        near = lambda curvature: abs(inner(bent) - curvature) <= 10 * tolerance * bend
        curvature = differentiate_along(lambda *ys: slope(*(dnp.array(y) for y in ys)), xs, ts, step, near)
        assert near(curvature), (inner(bent), curvature)
    if vmap:
        moved = [np.stack([x, x + 1e-2 * t]) for x, t in zip(xs, ts, strict=True)]
        batch = func.vmap(lambda *ys: tuple(leaves(ours(*ys))))(*(dnp.array(m) for m in moved))
        for row in range(2):
            alone = leaves(ours(*(dnp.array(m[row]) for m in moved)))
            for g, e in zip(batch, alone, strict=True):
                np.testing.assert_allclose(plain(g)[row], plain(e), rtol=1e-7, atol=1e-8 * (1 + np.max(np.abs(plain(e)), initial=0)))
