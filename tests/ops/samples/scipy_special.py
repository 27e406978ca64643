"""Samples of special functions that need SciPy. References use other SciPy functions that compute the same values."""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.special import INSIDE, NODES, SIGNED, WEIGHTS, each, scipy_special

ORDERS = np.array([0, 1, 2, 3])
MODERATE = np.array([[0.3, 1.2, 2.4, 0.45], [1.7, 3.1, 0.8, 5.15]])


def from_0(integrand):
    """Integrate from 0 to x by Gauss-Legendre quadrature."""

    def value(x):
        return float(np.sum(WEIGHTS * np.vectorize(integrand)(x * (NODES + 1) / 2))) * x / 2

    return each(value)


def spherical(z, kind="jn", order=0):
    half = {"jn": "jv", "yn": "yv", "in": "iv", "kn": "kv"}[kind]
    factor = np.sqrt(2 / (math.pi * z)) * math.pi / 2 if kind == "kn" else np.sqrt(math.pi / (2 * z))
    return factor * getattr(scipy_special, half)(order + 0.5, z)


def faddeeva_slope(z, order):
    """Return w' = 2i/sqrt(pi) - 2zw, for arguments at which the difference has enough digits."""
    return 2j / math.sqrt(math.pi) - 2 * z * scipy_special.wofz(z)


def dawson_slopes(x, order):
    first = 1 - 2 * x * scipy_special.dawsn(x)
    return first if order == 1 else -2 * scipy_special.dawsn(x) - 2 * x * first


def voigt(x, width, y):
    z = (x + 1j * y) / (width * math.sqrt(2))
    return scipy_special.wofz(z).real / (width * math.sqrt(2 * math.pi))


def samples():
    s = scipy_special
    j0 = s.j0
    plain = {
        "sine_integral": (from_0(lambda t: np.sinc(t / math.pi)), SIGNED),
        "cosine_integral": (lambda x: s.sici(x)[1], MODERATE),
        "hyperbolic_sine_integral": (lambda x: (s.expi(x) + s.exp1(x)) / 2, MODERATE),
        "hyperbolic_cosine_integral": (lambda x: (s.expi(x) - s.exp1(x)) / 2, MODERATE),
        "fresnel_s": (from_0(lambda t: math.sin(math.pi * t * t / 2)), SIGNED),
        "fresnel_c": (from_0(lambda t: math.cos(math.pi * t * t / 2)), SIGNED),
        "dawsn": (lambda x: np.exp(-x * x) * from_0(lambda t: math.exp(t * t))(x), SIGNED / 2),
        "erfi": (lambda x: 2 / math.sqrt(math.pi) * from_0(lambda t: math.exp(t * t))(x), SIGNED / 2),
        "wofz": (lambda x: np.exp(-x * x) + 2j / math.sqrt(math.pi) * s.dawsn(x), SIGNED),
        "erfcinv": (lambda x: s.erfinv(1 - x), INSIDE * 2),
        "ndtri_exp": (lambda x: s.ndtri(np.exp(x)), -MODERATE),
        "airy_ai": (lambda x: s.airy(x)[0], SIGNED),
        "airy_aip": (lambda x: s.airy(x)[1], SIGNED),
        "airy_bi": (lambda x: s.airy(x)[2], SIGNED),
        "airy_bip": (lambda x: s.airy(x)[3], SIGNED),
        "ellipe": (lambda m: s.ellipeinc(math.pi / 2, m), INSIDE - 0.4),
        "wrightomega": (lambda x: s.lambertw(np.exp(x)).real, SIGNED),
        **{name: (getattr(s, name), MODERATE) for name in ("ber", "bei", "ker", "kei", "berp", "beip", "kerp", "keip")},
        "integral_j0": (from_0(j0), MODERATE),
        "integral_y0": (lambda x: s.itj0y0(x)[1], MODERATE),
        "integral_i0": (from_0(s.i0), MODERATE),
        "integral_k0": (lambda x: s.iti0k0(x)[1], MODERATE),
        **{f"integral_{n}": (lambda x, p=p: s.itairy(x)[p], MODERATE) for p, n in enumerate(("ai", "bi", "ai_minus", "bi_minus"))},
        "integral_struve0": (s.itstruve0, MODERATE),
        "integral_modstruve0": (s.itmodstruve0, MODERATE),
        "integral_j0_over": (from_0(lambda t: (1 - j0(t)) / t), MODERATE),
        "integral_y0_over": (lambda x: s.it2j0y0(x)[1], MODERATE),
        "integral_i0_over": (from_0(lambda t: (s.i0(t) - 1) / t), MODERATE),
        "integral_k0_over": (lambda x: s.it2i0k0(x)[1], MODERATE),
        "integral_struve0_over": (s.it2struve0, MODERATE),
    }
    # SciPy has seven or eight digits of these.
    loose = {
        **dict.fromkeys((f"integral_{n}" for n in ("ai", "bi", "ai_minus", "bi_minus")), 2e-3),
        "integral_struve0": 1e-5,
        "integral_modstruve0": 1e-5,
        "integral_struve0_over": 1e-5,
    }
    found = {name: [Sample((x,), reference=f, tolerance=loose.get(name, 1e-6))] for name, (f, x) in plain.items()}
    orders = {"jv": s.jn, "yv": s.yn, "iv": s.iv, "kv": s.kn, "ive": s.ive, "kve": s.kve, "hankel1": s.hankel1, "hankel2": s.hankel2}
    for name in (*orders, "hankel1e", "hankel2e", "struve", "modstruve"):
        found[name] = [
            Sample((ORDERS, MODERATE), reference=orders.get(name, getattr(s, name))),
            Sample((2, MODERATE), reference=getattr(s, name)),
        ]
    for name in ("jv", "iv"):
        found[name].append(Sample((ORDERS, np.array([0.0, 0.0, 0.0, 1.0])), reference=getattr(s, name)))
    found["spherical_bessel"] = [
        Sample((MODERATE,), {"kind": kind, "order": n}, spherical) for kind in ("jn", "yn", "in", "kn") for n in (0, 1, 3)
    ]
    for name in ("pbdv", "pbvv", "pbwa"):
        degree = ORDERS if name != "pbwa" else np.array([0, 1, -1, 2])
        for place, part in enumerate(("value", "slope")):
            found[f"{name}_{part}"] = [Sample((degree, MODERATE / 2), reference=lambda v, x, n=name, p=place: getattr(s, n)(v, x)[p])]
    found["hyp2f1"] = [Sample((2, 3, 4, INSIDE - 0.6), reference=s.hyp2f1), Sample((0.5, 1.5, 2.5, INSIDE * 0.9), reference=s.hyp2f1)]
    found["hyp0f1"] = [Sample((2, SIGNED), reference=s.hyp0f1)]
    found["hyperu"] = [Sample((1, 2, MODERATE), reference=s.hyperu)]
    angles = np.array([[0.3, -1.2, 1.4, 0.45]])
    found["ellipkinc"] = [Sample((angles, 0), reference=lambda p, m: p + 0.0), Sample((angles, 0.4), reference=s.ellipkinc)]
    found["ellipeinc"] = [Sample((angles, 0.4), reference=s.ellipeinc)]
    for place, name in enumerate(("sn", "cn", "dn", "am")):
        found[f"jacobi_{name}"] = [Sample((SIGNED, 0.3), reference=lambda u, m, p=place: s.ellipj(u, m)[p])]
    found["lambertw"] = [
        Sample((MODERATE,), reference=s.lambertw), Sample((np.array([0.0, -0.2]),), reference=s.lambertw),
        Sample((np.array([-0.1, -0.3]),), {"k": -1}, lambda z, k: s.lambertw(z, k)), Sample((SIGNED + 0.5j,), reference=s.lambertw),
    ]  # fmt: skip
    polynomials = {
        "jacobi_polynomial": ("eval_jacobi", (1, 2)),
        "gegenbauer_polynomial": ("eval_gegenbauer", (2,)),
        "chebyshev_polynomial": ("eval_chebyt", ()),
        "laguerre_polynomial": ("eval_genlaguerre", (1,)),
        "hermite_polynomial": ("eval_hermite", ()),
        "hermite_e_polynomial": ("eval_hermitenorm", ()),
    }
    for name, (function, parameters) in polynomials.items():
        found[name] = [Sample((ORDERS, *parameters, SIGNED[:2]), reference=getattr(s, function))]
    found["dawsn"] += [Sample((np.array([7.9, -8.1, 30.0, 0.4]),), {"order": n}, dawson_slopes) for n in (1, 2)]
    found["wofz"] += [Sample((np.array([7.9 + 1j, -8.1 + 0.2j, 30.0 + 3j, 0.4 - 0.3j]),), {"order": 1}, faddeeva_slope)]
    found["voigt_profile"] = [
        Sample((SIGNED, MODERATE[:1] / 2, 0.7), reference=voigt), Sample((40.0 + SIGNED, 0.3, 0.7), reference=voigt),
        Sample((SIGNED, 0.5, 0.3), {"order": 1, "imaginary": True}, lambda x, w, y, order, imaginary: faddeeva_slope(
            (x + 1j * y) / (w * math.sqrt(2)), 1).imag / (2 * w * w * math.sqrt(math.pi))),
    ]  # fmt: skip
    return found


NAMES = (
    "sine_integral cosine_integral hyperbolic_sine_integral hyperbolic_cosine_integral fresnel_s fresnel_c dawsn erfi "
    "wofz erfcinv ndtri_exp airy_ai airy_aip airy_bi airy_bip ellipe wrightomega ber bei ker kei berp beip kerp keip "
    "integral_j0 integral_y0 integral_i0 integral_k0 integral_ai integral_bi integral_ai_minus integral_bi_minus integral_struve0 "
    "integral_modstruve0 integral_j0_over integral_y0_over integral_i0_over integral_k0_over integral_struve0_over jv yv iv kv ive kve "
    "hankel1 hankel2 hankel1e hankel2e struve modstruve spherical_bessel pbdv_value pbdv_slope pbvv_value pbvv_slope pbwa_value pbwa_slope "
    "hyp2f1 "
    "hyp0f1 hyperu ellipkinc ellipeinc jacobi_sn jacobi_cn jacobi_dn jacobi_am lambertw jacobi_polynomial gegenbauer_polynomial "
    "laguerre_polynomial hermite_polynomial hermite_e_polynomial chebyshev_polynomial voigt_profile"
).split()
SAMPLES = {name: [] for name in NAMES} if scipy_special is None else samples()
assert set(SAMPLES) == set(NAMES)
