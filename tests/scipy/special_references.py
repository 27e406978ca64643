"""The functions of ndgrad.scipy.special in mpmath, and the arguments of the comparison: ordinary ones, and those where
formulas cancel, overflow or divide by zero."""

from __future__ import annotations

from itertools import product

import mpmath as mp

inf = mp.inf
half = mp.mpf(1) / 2


def ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def gammainc(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def gammaincc(a, x):
    return mp.gammainc(a, x, inf, regularized=True)


def betainc(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def betaincc(a, b, x):
    return mp.betainc(b, a, 0, 1 - x, regularized=True)


def stdtr(v, t):
    return half + t * mp.gamma((v + 1) / 2) / (mp.sqrt(mp.pi * v) * mp.gamma(v / 2)) * mp.hyp2f1(half, (v + 1) / 2, 3 * half, -t * t / v)


def legendre(n, x):
    return mp.hyp2f1(-n, n + 1, 1, (1 - x) / 2, zeroprec=200)


def chebyt(n, x):
    return mp.cos(n * mp.acos(x))


def chebyu(n, x):
    return mp.sin((n + 1) * mp.acos(x)) / mp.sin(mp.acos(x))


def lpmv(m, v, x):
    """Of whole order and degree, by Rodrigues' formula."""
    c = [mp.mpf(1)]
    for _ in range(v):  # the coefficients of (t^2 - 1)^v, the highest first
        c = [a - b for a, b in zip([*c, 0, 0], [0, 0, *c])]
    for _ in range(v + m):
        c = [a * (len(c) - 1 - i) for i, a in enumerate(c[:-1])]
    value = mp.polyval(c, x) if c else mp.mpf(0)
    return (-1) ** m * (1 - x * x) ** (mp.mpf(m) / 2) * value / (mp.mpf(2) ** v * mp.factorial(v))


def gegenbauer(n, a, x):
    return mp.binomial(n + 2 * a - 1, n) * mp.hyp2f1(-n, n + 2 * a, a + half, (1 - x) / 2, zeroprec=200)


def jacobi(n, a, b, x):
    return mp.binomial(n + a, n) * mp.hyp2f1(-n, n + a + b + 1, a + 1, (1 - x) / 2, zeroprec=200)


def laguerre(n, a, x):
    return mp.binomial(n + a, n) * mp.hyp1f1(-n, a + 1, x, zeroprec=200)


def voigt(x, s, g):
    if s == 0:
        return g / (mp.pi * (x * x + g * g))
    if abs(s) < 1e-4:
        raise ValueError("no step around sigma = 0 is wide enough for mpmath")
    z = (x + 1j * g) / (s * mp.sqrt(2))
    return (mp.exp(-z * z) * mp.erfc(-1j * z)).real / (s * mp.sqrt(2 * mp.pi))


def boxcox(x, lmbda):
    return mp.log(x) if lmbda == 0 else mp.expm1(lmbda * mp.log(x)) / lmbda if x else -1 / lmbda


def exprel(x):
    return mp.mpf(1) if x == 0 else mp.expm1(x) / x


def owens_t(h, a):
    return mp.quad(lambda x: mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x), [0, a / 2, a]) / (2 * mp.pi)


def f_share(n, d, x):
    return n * x / (d + n * x)


def spherical(kind):
    def evaluate(n, x):
        order = n + half
        root = mp.sqrt(mp.pi / (2 * x))
        if kind == "k":
            return root * mp.besselk(order, x)
        return root * {"j": mp.besselj, "y": mp.bessely, "i": mp.besseli}[kind](order, x)

    return evaluate


X = (1e-8, 0.3, 1.0, 2.6, 12.0, 40.0)
SMALL = (-3.0, -0.5, 0.0, 1e-9, 0.7, 3.0)
P = (1e-12, 0.03, 0.5, 0.97)
SHAPES = (0.05, 0.7, 1.0, 3.5, 60.0)
DEGREES = (-2, -1, 0, 1, 2, 5, -1.5, 0.5, 1.5, 2.5)
INNER = (-0.9, -0.2, 0.0, 0.6, 0.99)
ORDERS = (0, 1, 3, 0.5, 2.3)


def grid(*choices):
    return list(product(*choices))


#: name -> (the function of mpmath's numbers, argument tuples, which arguments have a derivative)
TABLE = {
    "gamma": (mp.gamma, grid((-2.5, -0.3, 1e-6, 0.5, 1.0, 4.2, 150.0)), (0,)),
    "rgamma": (mp.rgamma, grid((-3.0, -2.5, -1.0, 0.0, 0.5, 1.0, 4.2, 160.0)), (0,)),
    "gammaln": (lambda x: mp.loggamma(x), grid((1e-10, 0.5, 1.0, 2.0, 30.0, 1e6)), (0,)),
    "psi": (mp.digamma, grid((-1.5, 1e-5, 0.5, 1.4616321449683622, 30.0, 1e8)), (0,)),
    "beta": (mp.beta, [*grid(SHAPES, SHAPES), (100.0, 100.0), (400.0, 0.5), (1e-6, 1e-6), (-0.5, 1.2), (300.0, 2.0)], (0, 1)),
    "betaln": (lambda a, b: mp.log(mp.beta(a, b)), [*grid(SHAPES, SHAPES), (1e8, 2.0), (300.0, 1e5)], (0, 1)),
    "poch": (mp.rf, [(0.5, 2.0), (2.0, 3.0), (3.0, 0.0), (2.5, -1.2), (1e5, 0.5), (-2.0, 5.0)], (0, 1)),
    "binom": (mp.binomial, [(5.0, 2.0), (2.0, 5.0), (2.0, 3.0), (3.0, 0.0), (4.5, 1.5), (0.0, 2.0), (1e5, 3.0), (6.0, 6.0)], (0, 1)),
    "zeta": (mp.zeta, grid((1.5, 3.0, 20.0), (0.1, 1.0, 30.0)), (1,)),
    "gammainc": (gammainc, grid(SHAPES, X), (0, 1)),
    "gammaincc": (gammaincc, grid(SHAPES, X), (0, 1)),
    "betainc": (betainc, grid(SHAPES, SHAPES, (1e-6, 0.3, 0.5, 0.99)), (0, 1, 2)),
    "betaincc": (betaincc, grid(SHAPES, SHAPES, (1e-6, 0.3, 0.5, 0.99)), (0, 1, 2)),
    "stdtr": (stdtr, grid((0.3, 1.0, 5.0, 200.0), (-30.0, -1.0, 0.0, 0.4, 6.0)), (0, 1)),
    "fdtr": (lambda n, d, x: betainc(n / 2, d / 2, f_share(n, d, x)), grid((0.8, 5.0), (0.8, 5.0), (1e-6, 0.7, 30.0)), (0, 1, 2)),
    "fdtrc": (lambda n, d, x: betaincc(n / 2, d / 2, f_share(n, d, x)), grid((0.8, 5.0), (0.8, 5.0), (1e-6, 0.7, 30.0)), (0, 1, 2)),
    "chdtr": (lambda v, x: gammainc(v / 2, x / 2), grid((0.5, 2.0, 9.0), X), (0, 1)),
    "chdtrc": (lambda v, x: gammaincc(v / 2, x / 2), grid((0.5, 2.0, 9.0), X), (0, 1)),
    "gdtr": (lambda a, b, x: gammainc(b, a * x), grid((0.5, 3.0), (0.7, 4.0), (1e-5, 1.2, 9.0)), (0, 1, 2)),
    "bdtr": (lambda k, n, p: betaincc(k + 1, n - k, p), [(0.0, 3, 0.2), (2.0, 9, 1e-5), (8.0, 9, 0.999)], (2,)),
    "pdtr": (lambda k, m: gammaincc(k + 1, m), [(0.0, 1e-5), (3.0, 2.0), (3.0, 50.0)], (1,)),
    "erf": (mp.erf, grid((*SMALL, 6.0)), (0,)),
    "erfc": (mp.erfc, grid((*SMALL, 20.0)), (0,)),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), grid((*SMALL, 9.0, 1e4)), (0,)),
    "erfi": (mp.erfi, grid(SMALL), (0,)),
    "erfinv": (mp.erfinv, grid((-0.9, 0.0, 1e-9, 0.5, 0.999)), (0,)),
    "dawsn": (lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), grid((*SMALL, 12.0, 300.0, 1e5)), (0,)),
    "ndtr": (ndtr, grid((*SMALL, -30.0)), (0,)),
    "log_ndtr": (lambda x: mp.log(ndtr(x)), grid((*SMALL, -30.0, -1e4, 8.0)), (0,)),
    "owens_t": (owens_t, grid((-3.0, 0.0, 0.4, 6.0), (-2.0, 0.0, 0.5, 1.0, 7.0)), (0, 1)),
    "expi": (mp.ei, grid((-20.0, -0.3, 1e-8, 0.37, 5.0, 40.0)), (0,)),
    "exp1": (mp.e1, grid(X), (0,)),
    "expn": (mp.expint, grid((0, 1, 4), (1e-3, 0.7, 30.0)), (1,)),
    "exprel": (exprel, grid((*SMALL, -1e-5, 1e-3, -40.0)), (0,)),
    "cosm1": (lambda x: mp.cos(x) - 1, grid(SMALL), (0,)),
    "spence": (lambda x: mp.polylog(2, 1 - x).real, grid((1e-6, 0.4, 0.999999, 1.0, 1.5, 20.0)), (0,)),
    "entr": (lambda x: -x * mp.log(x), grid((1e-300, 1e-5, 0.3, 1.0, 4.0)), (0,)),
    "rel_entr": (lambda x, y: x * mp.log(x / y), grid((1e-8, 0.4, 1.0), (1e-8, 0.4, 1.0)), (0, 1)),
    "kl_div": (lambda x, y: x * mp.log(x / y) - x + y, [*grid((1e-8, 0.4), (1e-8, 0.7)), (1.0, 1.0 + 1e-9), (2.0, 2.0)], (0, 1)),
    "xlogy": (lambda x, y: x * mp.log(y), grid((-1.0, 1e-9, 2.0), (1e-9, 1.0, 3.0)), (0, 1)),
    "xlog1py": (lambda x, y: x * mp.log1p(y), grid((-1.0, 0.0, 2.0), (-0.9, 0.0, 1e-12, 3.0)), (0, 1)),
    "logit": (lambda p: mp.log(p / (1 - p)), grid(P), (0,)),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), grid((*SMALL, -50.0, 50.0)), (0,)),
    "log_expit": (lambda x: -mp.log1p(mp.exp(-x)), grid((*SMALL, -50.0, 50.0)), (0,)),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), grid((*SMALL, -50.0, 50.0)), (0,)),
    "boxcox": (boxcox, [*grid((1e-3, 0.5, 1.0, 1 + 1e-10, 40.0), (-2.0, -1e-9, 0.0, 1e-9, 1.0, 3.0)), (0.0, 3.0), (0.0, 1.0)], (0, 1)),
    "boxcox1p": (lambda x, v: boxcox(1 + x, v), grid((-0.9, 0.0, 1e-12, 0.5), (-2.0, 0.0, 1e-9, 3.0)), (0, 1)),
    "inv_boxcox": (lambda x, v: mp.exp(x) if v == 0 else (1 + v * x) ** (1 / v), grid((-0.4, 0.0, 0.9), (0.0, 1e-9, 0.5, 2.0)), (0, 1)),
    "powm1": (
        lambda x, y: x**y - 1,
        [*grid((0.2, 1.0, 1 + 1e-12, 1 - 1e-9, 30.0), (-2.0, 0.0, 1e-9, 1.0, 2.5)), (-1.2, 2.0), (-1 + 1e-9, 2.0), (0.0, 3.0)],
        (0, 1),
    ),
    "agm": (mp.agm, [*grid((1e-8, 0.4, 1.0, 300.0), (0.4, 1.0, 7.0)), (2.0, 2.0)], (0, 1)),
    "voigt_profile": (
        voigt,
        [*grid((-2.0, 0.0, 0.4, 30.0, 1e3), (1e-3, 0.5, 2.0), (0.0, 1e-9, 0.3, 5.0)), (0.7, 0.0, 0.3), (1e5, 1.0, 1.0), (50.0, 0.0, 1.0)],
        (0, 1, 2),
    ),
    "huber": (lambda d, r: r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2), grid((0.5, 2.0), (-3.0, 0.0, 0.4, 9.0)), (0, 1)),
    "pseudo_huber": (
        lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1), grid((0.5, 2.0), (-300.0, -1e-9, 0.0, 0.4, 9.0)), (0, 1)
    ),
    "sinc": (lambda x: mp.sincpi(x), grid((0.0, 1e-6, 0.4, 1.0, 7.3)), (0,)),
    "ellipk": (mp.ellipk, grid((-30.0, -0.5, 0.0, 1e-9, 0.4, 0.999)), (0,)),
    "ellipe": (mp.ellipe, grid((-30.0, -0.5, 0.0, 1e-9, 0.4, 0.999)), (0,)),
    "ellipkm1": (lambda p: mp.ellipk(1 - p), grid((1e-12, 0.1, 0.9, 1.0, 1.5)), (0,)),
    "ellipkinc": (mp.ellipf, grid((-0.4, 0.0, 0.6, 1.5, 2.5), (-2.0, 0.0, 0.5, 0.9)), (0,)),
    "ellipeinc": (mp.ellipe, grid((-0.4, 0.0, 0.6, 1.5, 2.5), (-2.0, 0.0, 0.5, 0.9)), (0,)),
    "lambertw": (lambda z: mp.lambertw(z).real, grid((-0.3, 0.0, 1e-9, 1.0, 1e8)), (0,)),
    "wrightomega": (lambda x: mp.lambertw(mp.exp(x)).real, grid((-30.0, -1.0, 0.0, 1.0, 50.0)), (0,)),
    "hyp0f1": (mp.hyp0f1, grid((0.5, 2.0, -0.5), (-20.0, 0.0, 1e-9, 3.0)), (1,)),
    "hyp1f1": (mp.hyp1f1, grid((0.5, -2.0, 2.0), (0.7, 3.0), (-20.0, -1.0, 0.0, 3.0)), (2,)),
    "hyp2f1": (mp.hyp2f1, grid((0.5, -2.0), (1.5,), (0.7, 3.0), (-5.0, -0.5, 0.0, 0.3, 0.9)), (3,)),
    "hyperu": (mp.hyperu, grid((0.5, 2.0), (0.7, 3.0), (0.3, 2.0, 30.0)), (2,)),
    "j0": (mp.j0, grid((*SMALL, 30.0)), (0,)), "j1": (mp.j1, grid((*SMALL, 30.0)), (0,)),
    "y0": (lambda x: mp.bessely(0, x), grid(X), (0,)), "y1": (lambda x: mp.bessely(1, x), grid(X), (0,)),
    "i0": (lambda x: mp.besseli(0, x), grid((*SMALL, 30.0)), (0,)), "i1": (lambda x: mp.besseli(1, x), grid((*SMALL, 30.0)), (0,)),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), grid((-3.0, 0.7, 3.0, 300.0)), (0,)),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), grid((-3.0, 0.7, 3.0, 300.0)), (0,)),
    "k0": (lambda x: mp.besselk(0, x), grid(X), (0,)), "k1": (lambda x: mp.besselk(1, x), grid(X), (0,)),
    "jv": (mp.besselj, [*grid(ORDERS, (1e-4, 0.7, 3.0, 30.0)), (0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0), (2, -1.5)], (1,)),
    "yv": (mp.bessely, grid(ORDERS, (1e-2, 0.7, 3.0, 30.0)), (1,)),
    "iv": (mp.besseli, [*grid(ORDERS, (1e-4, 0.7, 3.0, 30.0)), (0, 0.0), (1, 0.0), (2, 0.0)], (1,)),
    "kv": (mp.besselk, grid(ORDERS, (1e-2, 0.7, 3.0, 30.0)), (1,)),
    "ive": (lambda v, x: mp.besseli(v, x) * mp.exp(-x), grid(ORDERS, (1e-2, 0.7, 3.0, 500.0)), (1,)),
    "kve": (lambda v, x: mp.besselk(v, x) * mp.exp(x), grid(ORDERS, (1e-2, 0.7, 3.0, 500.0)), (1,)),
    "struve": (mp.struveh, [*grid((0, 1, 2.5), (1e-6, 0.7, 3.0, 20.0)), (0, 0.0), (1, 0.0), (2, 0.0)], (1,)),
    "modstruve": (mp.struvel, [*grid((0, 1, 2.5), (1e-6, 0.7, 3.0)), (0, 0.0), (1, 0.0), (2, 0.0)], (1,)),
    "spherical_jn": (spherical("j"), grid((0, 1, 3), (1e-3, 0.7, 3.0, 30.0)), (1,)),
    "spherical_yn": (spherical("y"), grid((0, 1, 3), (1e-2, 0.7, 3.0, 30.0)), (1,)),
    "spherical_in": (spherical("i"), grid((0, 1, 3), (1e-3, 0.7, 3.0, 30.0)), (1,)),
    "spherical_kn": (spherical("k"), grid((0, 1, 3), (1e-2, 0.7, 3.0, 30.0)), (1,)),
    "ber": (lambda x: mp.ber(0, x), grid((0.0, 1e-4, 0.7, 5.0)), (0,)), "bei": (lambda x: mp.bei(0, x), grid((0.0, 1e-4, 0.7, 5.0)), (0,)),
    "ker": (lambda x: mp.ker(0, x), grid((1e-4, 0.7, 5.0)), (0,)), "kei": (lambda x: mp.kei(0, x), grid((1e-4, 0.7, 5.0)), (0,)),
    "berp": (lambda x: mp.diff(lambda y: mp.ber(0, y), x), grid((0.0, 1e-4, 0.7, 5.0)), (0,)),
    "beip": (lambda x: mp.diff(lambda y: mp.bei(0, y), x), grid((0.0, 1e-4, 0.7, 5.0)), (0,)),
    "lpmv": (lpmv, grid((0, 1, 2), (1, 2, 3), (-0.9, 0.0, 0.3, 0.95)), (2,)),
    "eval_legendre": (legendre, grid(DEGREES, INNER), (1,)),
    "eval_chebyt": (chebyt, grid(DEGREES, INNER), (1,)),
    "eval_chebyu": (chebyu, grid(DEGREES, INNER), (1,)),
    "eval_chebyc": (lambda n, x: 2 * chebyt(n, x / 2), grid(DEGREES, INNER), (1,)),
    "eval_chebys": (lambda n, x: chebyu(n, x / 2), grid(DEGREES, INNER), (1,)),
    "eval_sh_legendre": (lambda n, x: legendre(n, 2 * x - 1), grid(DEGREES, (0.1, 0.5, 0.95)), (1,)),
    "eval_sh_chebyt": (lambda n, x: chebyt(n, 2 * x - 1), grid(DEGREES, (0.1, 0.5, 0.95)), (1,)),
    "eval_sh_chebyu": (lambda n, x: chebyu(n, 2 * x - 1), grid(DEGREES, (0.1, 0.5, 0.95)), (1,)),
    "eval_gegenbauer": (gegenbauer, grid((0, 1, 2, 5, 0.5, 1.5, 2.5), (0.7, 1.0, 2.0), INNER), (2,)),
    "eval_jacobi": (jacobi, grid((0, 1, 2, 5, 0.5, 1.5, 2.5), (0.5,), (0.0, 1.5), INNER), (3,)),
    "eval_sh_jacobi": (
        lambda n, p, q, x: jacobi(n, p - q, q - 1, 2 * x - 1) / mp.binomial(2 * n + p - 1, n),
        grid((0, 1, 2, 5, 0.5, 1.5), (3.0,), (2.0,), (0.1, 0.5, 0.95)), (3,),
    ),
    "eval_laguerre": (lambda n, x: laguerre(n, 0, x), grid((0, 1, 2, 5, 0.5, 1.5), (0.0, 0.4, 3.0, 20.0)), (1,)),
    "eval_genlaguerre": (laguerre, grid((0, 1, 2, 5, 0.5, 1.5), (0.5, 2.0), (0.0, 0.4, 3.0, 20.0)), (2,)),
    "eval_hermite": (mp.hermite, grid((0, 1, 2, 5), (-2.0, 0.0, 0.4, 3.0)), (1,)),
    "eval_hermitenorm": (
        lambda n, x: mp.hermite(n, x / mp.sqrt(2)) / mp.mpf(2) ** (mp.mpf(n) / 2), grid((0, 1, 2, 5), (-2.0, 0.0, 3.0)), (1,)
    ),
    "comb": (mp.binomial, [(5.0, 2.0), (4.5, 1.5), (6.0, 6.0), (6.0, 0.0)], (0, 1)),
    "perm": (lambda n, k: mp.gamma(n + 1) / mp.gamma(n - k + 1), [(5.0, 2.0), (4.5, 1.5), (6.0, 5.5)], (0, 1)),
    "factorial": (lambda n: mp.gamma(n + 1), grid((0.0, 0.5, 3.0, 100.0)), (0,)),
}  # fmt: skip


def several(name, parts):
    """A function with several results, as one entry per result."""
    return {f"{name}[{i}]": entry for i, entry in enumerate(parts)}


REAL = (-3.0, 0.0, 0.4, 5.0)
TABLE |= several("airy", [
    (mp.airyai, grid(REAL), (0,)), (lambda x: mp.airyai(x, derivative=1), grid(REAL), (0,)),
    (mp.airybi, grid(REAL), (0,)), (lambda x: mp.airybi(x, derivative=1), grid(REAL), (0,)),
])  # fmt: skip
TABLE |= several("fresnel", [(mp.fresnels, grid(REAL), (0,)), (mp.fresnelc, grid(REAL), (0,))])
TABLE |= several("sici", [(mp.si, grid((-3.0, 0.0, 1e-9, 0.4, 30.0)), (0,)), (mp.ci, grid((1e-9, 0.4, 30.0)), (0,))])
TABLE |= several("shichi", [(mp.shi, grid((-3.0, 0.0, 1e-9, 0.4, 30.0)), (0,)), (mp.chi, grid((1e-9, 0.4, 30.0)), (0,))])
TABLE |= several("ellipj", [
    (lambda u, m: mp.ellipfun("sn", u, m=m), grid((-0.4, 0.0, 2.0), (0.0, 0.3, 0.95)), (0,)),
    (lambda u, m: mp.ellipfun("cn", u, m=m), grid((-0.4, 0.0, 2.0), (0.0, 0.3, 0.95)), (0,)),
    (lambda u, m: mp.ellipfun("dn", u, m=m), grid((-0.4, 0.0, 2.0), (0.0, 0.3, 0.95)), (0,)),
])  # fmt: skip
TABLE |= several("pbdv", [(mp.pcfd, grid((0.5, 2.0), (-1.0, 0.0, 0.4, 3.0)), (1,))])
TABLE |= several("pbvv", [(lambda v, x: mp.pcfv(-v - half, x), grid((0.5, 2.0), (0.4, 3.0)), (1,))])
_INTEGRALS = {  # (value, points): SciPy's have seven or eight digits
    "itj0y0[0]": lambda x: mp.quad(mp.j0, [0, x]),
    "it2j0y0[0]": lambda x: mp.quad(lambda t: (1 - mp.j0(t)) / t if t else mp.mpf(0), [0, x]),
    "it2i0k0[0]": lambda x: mp.quad(lambda t: (mp.besseli(0, t) - 1) / t if t else mp.mpf(0), [0, x]),
    "itstruve0": lambda x: mp.quad(lambda t: mp.struveh(0, t), [0, x]),
}  # fmt: skip
TABLE |= {name: (value, grid((0.0, 1e-5, 0.4, 3.0)), (0,)) for name, value in _INTEGRALS.items()}
#: Relative error that SciPy's own values leave, where it is more than rounding.
LOOSE = {**dict.fromkeys(_INTEGRALS, 3e-7)}
#: Remainder of terms that cancel exactly, next to a zero of a function or of its derivative.
ZEROS = {
    **dict.fromkeys((n for n in TABLE if n.startswith("eval_")), 1e-13), "voigt_profile": 1e-16, "ber": 1e-15, "bei": 1e-15, "berp": 1e-15,
    "beip": 1e-15, "lpmv": 1e-14, "expit": 1e-16, "sinc": 1e-16, "fresnel[0]": 1e-13, "fresnel[1]": 1e-13, "poch": 1e-14, "binom": 1e-15,
    "shichi[0]": 1e-15, "powm1": 1e-14, "boxcox": 1e-12, "ndtr": 1e-16, "logit": 1e-13,
}  # fmt: skip
#: Functions that mpmath differentiates in seconds, not in milliseconds.
SLOW = frozenset(
    "owens_t hyperu k0 k1 kv yv y0 y1 kve ker kei hyp2f1 itj0y0[0] it2j0y0[0] it2i0k0[0] itstruve0 betaincc stdtr chdtrc gammaincc "
    "eval_sh_jacobi ellipeinc".split()
)


def derivative(function, args, place, order):
    """The derivative of mpmath's function in one argument, at double precision's own numbers; None where mpmath has no number."""
    exact = [a if isinstance(a, int) else mp.mpf(a) for a in args]

    def vary(v):
        return function(*exact[:place], v, *exact[place + 1 :])

    try:
        made = function(*exact) if order == 0 else mp.diff(vary, exact[place], order)
    except (ZeroDivisionError, ValueError, mp.libmp.NoConvergence, NotImplementedError, OverflowError):
        return None
    if isinstance(made, mp.mpc):
        if abs(made.imag) > 1e-25 * (1 + abs(made.real)):
            return None
        made = made.real
    return float(made) if mp.isfinite(made) else None
