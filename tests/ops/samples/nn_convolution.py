"""Samples of convolution and its adjoints. The references add up single products."""

from __future__ import annotations

from itertools import product

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(12)


def terms(x_shape, w_shape, stride, padding, dilation, groups):
    """Yield every (output, input, weight) index triple whose product a convolution adds."""
    n, _, *sizes = x_shape
    outputs, per_group, *kernel = w_shape
    out = [(s + 2 * p - d * (k - 1) - 1) // t + 1 for s, k, t, p, d in zip(sizes, kernel, stride, padding, dilation)]
    for i, m, c in product(range(n), range(outputs), range(per_group)):
        channel = m // (outputs // groups) * per_group + c
        for o, k in product(product(*map(range, out)), product(*map(range, kernel))):
            at = tuple(oo * t + kk * d - p for oo, kk, t, d, p in zip(o, k, stride, dilation, padding))
            if all(0 <= a < s for a, s in zip(at, sizes)):
                yield (i, m, *o), (i, channel, *at), (m, c, *k)


def out_shape(x_shape, w_shape, stride, padding, dilation):
    return (
        x_shape[0],
        w_shape[0],
        *((s + 2 * p - d * (k - 1) - 1) // t + 1 for s, k, t, p, d in zip(x_shape[2:], w_shape[2:], stride, padding, dilation)),
    )


def convolution(x, w, b, stride, padding, dilation, groups):
    out = np.zeros(out_shape(x.shape, w.shape, stride, padding, dilation), np.result_type(x, w))
    for o, i, k in terms(x.shape, w.shape, stride, padding, dilation, groups):
        out[o] += x[i] * w[k]
    return out if b is None else out + b.reshape(-1, *(1,) * len(stride))


def convolution_input(y, w, x_shape, stride, padding, dilation, groups):
    out = np.zeros(x_shape, np.result_type(y, w))
    for o, i, k in terms(x_shape, w.shape, stride, padding, dilation, groups):
        out[i] += y[o] * w[k]
    return out


def convolution_weight(y, x, w_shape, stride, padding, dilation, groups):
    out = np.zeros(w_shape, np.result_type(y, x))
    for o, i, k in terms(x.shape, w_shape, stride, padding, dilation, groups):
        out[k] += y[o] * x[i]
    return out


def settings(ndim, stride=1, padding=0, dilation=1, groups=1):
    return {"stride": (stride,) * ndim, "padding": (padding,) * ndim, "dilation": (dilation,) * ndim, "groups": groups}


CASES = [
    ((2, 2, 5), (3, 2, 3), settings(1)),
    ((1, 2, 6), (2, 2, 3), settings(1, stride=2, padding=1)),
    ((2, 4, 5), (4, 2, 2), settings(1, groups=2, dilation=2)),
    ((1, 2, 4, 4), (2, 2, 3, 2), {"stride": (1, 2), "padding": (1, 0), "dilation": (1, 2), "groups": 1}),
    ((2, 2, 3, 3), (2, 1, 2, 2), settings(2, groups=2, padding=1)),
    ((1, 2, 5, 5), (3, 2, 2, 2), settings(2, stride=3)),
    ((1, 2, 4, 4), (3, 2, 2, 2), settings(2, stride=2)),
    ((1, 2, 3, 3), (3, 2, 1, 1), settings(2)),
    ((1, 1, 3, 3, 2), (2, 1, 2, 2, 1), settings(3, stride=2, padding=1)),
    ((0, 2, 4), (3, 2, 2), settings(1)),
]


def normal(shape, kind="real"):
    real = r.standard_normal(shape)
    return real if kind == "real" else real + 1j * r.standard_normal(shape)


def whole(shape):
    """Return small integers as float32, so that sums of their products are exact."""
    return r.integers(-4, 5, shape).astype(np.float32)


VALUES_ONLY = {"smooth": False, "skip": dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only")}


def three(x_shape, w_shape, how, make=normal, **more):
    y_shape = out_shape(x_shape, w_shape, how["stride"], how["padding"], how["dilation"])
    return (
        Sample((make(x_shape), make(w_shape), make(w_shape[:1])), how, reference=convolution, **more),
        Sample((make(y_shape), make(w_shape)), {"x_shape": x_shape, **how}, reference=convolution_input, **more),
        Sample((make(y_shape), make(x_shape)), {"w_shape": w_shape, **how}, reference=convolution_weight, **more),
    )


TRIPLES = [
    *(three(*case) for case in CASES),
    three(*CASES[1], make=lambda shape: normal(shape, "complex")),
    three((1, 2, 3, 2), (2, 1, 2, 2), settings(2, groups=2), make=lambda shape: normal(shape, "complex")),
    three(*CASES[3], make=whole, **VALUES_ONLY),
]

SAMPLES = {
    name: [triple[number] for triple in TRIPLES] for number, name in enumerate(("convolution", "convolution_input", "convolution_weight"))
}
SAMPLES["convolution"] += [
    Sample((normal((2, 2, 5)), normal((3, 2, 3)), None), settings(1), reference=convolution),
    Sample((normal((2, 2, 5)), normal((3, 2, 3), "complex"), normal((3,))), settings(1), reference=convolution),
]
