"""`ndgrad.scipy.special`: every name of SciPy's in one of three classes, values and derivatives of those that have rules."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad.numpy as dnp

scipys = pytest.importorskip("scipy.special")
from tests.scipy.checking import check, leaves, plain  # noqa: E402

from ndgrad.scipy import special  # noqa: E402

X = np.array([0.31, 0.72, 1.43, 2.6])
Y = np.array([0.52, 1.9, 0.83, 3.1])
P = np.array([0.12, 0.34, 0.61, 0.87])
SIGNED = np.array([-1.3, -0.4, 0.6, 2.2])
N = np.array([0, 1, 2, 3])

#: name -> arguments; whole numbers are orders and have no derivative. Names that are not here take X, or X and Y.
ARGUMENTS = {
    **dict.fromkeys("bdtr bdtrc bdtri".split(), (1.0, 5, P)), **dict.fromkeys("nbdtr nbdtrc nbdtri".split(), (2, 3, P)),
    **dict.fromkeys("betainc betaincc betaincinv betainccinv".split(), (X, Y, P)), **dict.fromkeys("chdtri".split(), (Y, P)),
    **dict.fromkeys("fdtr fdtrc".split(), (X + 1, Y + 1, X)), "fdtri": (X + 1, Y + 1, P), **dict.fromkeys("gdtr gdtrc".split(), (X, Y, X)),
    "gdtria": (P, Y, X), "gdtrix": (X, Y, P), **dict.fromkeys("gammaincinv gammainccinv stdtrit".split(), (Y, P)),
    **dict.fromkeys("pdtr pdtrc".split(), (2.0, Y)), "pdtri": (2.0, P), "stdtr": (Y, SIGNED), "owens_t": (SIGNED, X), "erfinv": (P,),
    "erfcinv": (P,), "logit": (P,), "ndtri": (P,), "ndtri_exp": (-X,), "ellipk": (P,), "ellipe": (P,), "ellipkm1": (P,),
    **dict.fromkeys("jv jn yv iv kv kn ive kve jve yve hankel1 hankel2 hankel1e hankel2e struve modstruve yn".split(), (N, X)),
    **dict.fromkeys("jvp yvp ivp kvp h1vp h2vp".split(), (N, X)),
    **dict.fromkeys("expn pbdv pbvv pbwa polygamma".split(), (N, X)), **dict.fromkeys("ellipkinc ellipeinc ellipj".split(), (P, 0.3)),
    **dict.fromkeys("eval_legendre eval_laguerre eval_hermite eval_hermitenorm".split(), (N, SIGNED / 2.5)),
    **dict.fromkeys("eval_chebyt eval_chebyu eval_chebyc eval_chebys".split(), (N, SIGNED / 2.5)),
    **dict.fromkeys("eval_sh_legendre eval_sh_chebyt eval_sh_chebyu".split(), (N, P)), "eval_jacobi": (N, 0.5, 1.5, SIGNED / 2.5),
    "eval_sh_jacobi": (N, 3.0, 2.0, P), "eval_gegenbauer": (N, 1.5, SIGNED / 2.5), "eval_genlaguerre": (N, 0.5, X),
    "hyp2f1": (0.5, 1.5, 2.5, P), "hyp1f1": (0.5, 1.5, SIGNED), "hyp0f1": (1.5, SIGNED), "hyperu": (0.5, 1.5, X), "lpmv": (1, 2.0, P),
    "zeta": (2.5, X), "voigt_profile": (SIGNED, X, Y), "radian": (X, Y, X), "huber": (0.9, SIGNED), "pseudo_huber": (X, SIGNED),
    **dict.fromkeys("spherical_jn spherical_yn spherical_in spherical_kn".split(), (2, X)), "multigammaln": (X + 2, 3), "lambertw": (X,),
    "comb": (Y + 5, X), "perm": (Y + 5, X), "binom": (Y + 5, X),
    **dict.fromkeys("erf erfc erfcx erfi dawsn wofz exprel cosm1 airy".split(), (SIGNED,)),
    "inv_boxcox": (X, P), "inv_boxcox1p": (X, P),
}  # fmt: skip
TWO = "beta betaln boxcox boxcox1p chdtr chdtrc gammainc gammaincc kl_div rel_entr poch powm1 agm xlogy xlog1py".split()
#: Integrals that SciPy has with seven or eight digits: their differences say little.
LOOSE = frozenset("itairy itstruve0 itmodstruve0 it2struve0 itj0y0 iti0k0 it2j0y0 it2i0k0".split())


def arguments(name):
    return ARGUMENTS.get(name, (X, Y) if name in TWO else (X,))


@pytest.mark.parametrize("name", [n for n in special.__all__ if n not in special.STEPS and hasattr(scipys, n)])
def test_function_equals_scipys_with_derivatives(name):
    mine, theirs = getattr(special, name), getattr(scipys, name)
    loose = name in LOOSE
    tolerance = 2e-3 if loose else 2e-6
    check(mine, theirs, *arguments(name), tolerance=tolerance, second=not loose, vmap=name not in ("polygamma", "multigammaln"))


def test_results_that_are_steps_have_the_derivative_zero():
    np.testing.assert_array_equal(plain(special.gammasgn(SIGNED)), scipys.gammasgn(SIGNED))
    x = dnp.array(SIGNED).requires_grad_()
    special.round(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros(4))
    np.testing.assert_array_equal(plain(special.round(SIGNED)), scipys.round(SIGNED))


@pytest.mark.parametrize("settings", [{}, {"axis": 0}, {"axis": (0, 1), "keepdims": True}, {"axis": -1, "keepdims": True}])
def test_logsumexp_and_softmax(settings):
    x, b = np.random.default_rng(0).standard_normal((2, 3, 4))
    check(*(lambda x, s=s: s.logsumexp(x, **settings) for s in (special, scipys)), x)
    check(*(lambda x, b, s=s: s.logsumexp(x, b=b, **settings) for s in (special, scipys)), x, abs(b))
    check(*(lambda x, b, s=s: s.logsumexp(x, b=b, return_sign=True, **settings)[0] for s in (special, scipys)), x, b)
    if "keepdims" not in settings:
        for name in ("softmax", "log_softmax"):
            check(*(lambda x, s=s, name=name: getattr(s, name)(x, **settings) for s in (special, scipys)), x)


def test_scipys_own_ufuncs_take_arrays():
    """NumPy's protocol leads them here."""
    for name in ("jv", "airy", "hyp2f1", "dawsn", "ellipe", "eval_legendre", "betainc", "stdtrit"):
        theirs = getattr(scipys, name)
        given = arguments(name)
        x = dnp.array(given[-1]).requires_grad_()
        out = theirs(*given[:-1], x)
        for mine, wanted in zip(leaves(out), leaves(theirs(*given)), strict=True):
            np.testing.assert_allclose(plain(mine), wanted, rtol=1e-12)
        sum(leaf.sum() for leaf in leaves(out)).backward()
        step = lambda h, theirs=theirs, given=given: sum(np.sum(v) for v in leaves(theirs(*given[:-1], given[-1] + h)))
        np.testing.assert_allclose(x.grad.sum().item(), (step(1e-6) - step(-1e-6)) / 2e-6, rtol=1e-6)


def test_derivatives_of_bessel_functions_and_spherical_ones():
    for name in ("jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp"):
        for n in (0, 1, 3):
            check(*(lambda z, s=s, name=name, n=n: getattr(s, name)(1.5, z, n) for s in (special, scipys)), X, second=False)
    for name in ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"):
        for n in (0, 2):
            check(*(lambda z, s=s, name=name, n=n: getattr(s, name)(n, z, derivative=True) for s in (special, scipys)), X, second=False)


def test_branches_of_lambertw_and_complex_arguments():
    check(*(lambda z, s=s: s.lambertw(z, -1) for s in (special, scipys)), np.array([-0.1, -0.3]))
    z = X + 0.3j * Y
    for name, more in (
        ("lambertw", ()),
        ("wofz", ()),
        ("erfi", ()),
        ("jv", (1.5,)),
        ("kv", (2,)),
        ("hankel1", (0,)),
        ("hyp2f1", (0.5, 1.5, 2.5)),
    ):
        check(*(lambda z, s=s, name=name, more=more: getattr(s, name)(*more, z) for s in (special, scipys)), z / 4)
    with pytest.raises(NotImplementedError, match="real arguments"):
        special.jve(1, dnp.array(z))


def test_orders_and_parameters_have_no_derivative_and_say_so():
    v = dnp.array(1.5).requires_grad_()
    for call in (lambda: special.jv(v, X), lambda: special.hyp2f1(v, 1.0, 2.0, P), lambda: special.ellipkinc(P, v / 4)):
        with pytest.raises(NotImplementedError, match=r"[Dd]etach"):
            call().sum().backward()


def test_every_ufunc_is_differentiable_a_step_or_refused():
    x = dnp.array(0.5).requires_grad_()
    for name in sorted({n for n in scipys.__all__ if isinstance(getattr(scipys, n), np.ufunc)}):
        if name not in special.__all__:
            with pytest.raises(NotImplementedError, match="Instead: "):
                getattr(special, name)(*(x,) * getattr(scipys, name).nin)


def test_constants_go_to_scipy():
    np.testing.assert_array_equal(plain(special.jn_zeros(0, 3)), scipys.jn_zeros(0, 3))
    assert special.comb(5, 2, exact=True) == 10
    assert special.factorial(20, exact=True) == scipys.factorial(20, exact=True)
    assert leaves(special.roots_legendre(3))[0].shape == (3,)
