"""Calls of SciPy's functions that take other libraries' arrays: `group -> name -> Case`.

A call gets SciPy, a namespace and arrays, plain ones or ours. Nothing here imports SciPy: it must be imported in a process where
SCIPY_ARRAY_API is set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Replacement of many refused calls.
SAME_NAME = "the same name in `ndgrad.scipy`"


@dataclass(frozen=True)
class Case:
    """One way to call a function, and the arrays it is differentiated in."""

    run: Callable[..., Any]
    arrays: tuple[Any, ...]
    #: the name of the error where the call is refused, and what to call instead
    raises: str = ""
    instead: str = ""
    #: the results are ranks, counts or places, which do not change under small changes of the arguments
    constant: bool = False
    #: how much finite differences may be off, beside their own error: results of iterations stop early
    tolerance: float = 1e-5


_rng = np.random.default_rng(11)
LINE = np.array([0.7, -1.2, 2.4, 0.1, 1.9, -0.6, 0.35, 1.1])
OTHER = np.array([1.7, 0.2, -0.4, 2.1, 0.9, 1.6, -0.35, 0.8])
POSITIVE = np.array([0.3, 1.2, 2.4, 0.9, 1.7, 3.1])
MORE = np.array([1.1, 0.4, 2.2, 1.6, 0.7, 2.9])
INSIDE = np.array([0.1, 0.5, 0.85, 0.3, 0.62, 0.44])
SIGNED = np.array([0.3, -1.2, 2.4, -0.45, 1.7, -0.8])
COUNTS = np.array([1, 2, 0, 3, 1, 2])
TRIALS = np.array([4, 5, 3, 7, 6, 4])
TABLE = _rng.normal(size=(3, 8))
COMPLEX = _rng.normal(size=(3, 4)) + 1j * _rng.normal(size=(3, 4))
IMAGE = _rng.normal(size=(4, 5))

# ----- special ----------------------------------------------------------------------------------------------------------


def _special(names: str, *arrays: Any, **options: Any) -> dict[str, Case]:
    return {n: Case(lambda S, xp, *a, n=n: getattr(S.special, n)(*a), arrays, **options) for n in names.split()}


def _of_counts(names: str, *fixed: Any, x: Any) -> dict[str, Case]:
    """Functions whose first arguments are whole numbers."""
    return {n: Case(lambda S, xp, x, n=n: getattr(S.special, n)(*(xp.asarray(f) for f in fixed), x), (x,)) for n in names.split()}


SPECIAL = {
    **_special("cbrt cosdg cosm1 erf erfc erfcx exp2 expit exprel i0 i0e i1 i1e j0 j1 log_ndtr ndtr rgamma sinc sindg tandg", SIGNED),
    **_special("cotdg entr exp1 exp10 expi gamma gammaln k0 k0e k1 k1e loggamma psi digamma spence y0 y1", POSITIVE),
    **_special("ellipk ellipkm1 erfinv logit ndtri", INSIDE),
    **_special(
        "betaln binom boxcox boxcox1p inv_boxcox inv_boxcox1p kl_div poch pseudo_huber huber rel_entr xlog1py xlogy", POSITIVE, MORE
    ),
    **_special("chdtr chdtrc gammainc gammaincc stdtr", POSITIVE, MORE),
    **_special("chdtri gammaincinv gammainccinv stdtrit", POSITIVE + 0.5, INSIDE),
    **_special("betainc betaincc betaincinv", POSITIVE, MORE, INSIDE),
    **_special("fdtr fdtrc gdtr gdtrc", POSITIVE, MORE, MORE[::-1]),
    **_special("fdtri", POSITIVE + 1, MORE + 1, INSIDE),
    **_special("radian", SIGNED, POSITIVE, MORE),
    **_of_counts("bdtr bdtrc bdtri", COUNTS, TRIALS, x=INSIDE),
    **_of_counts("nbdtr nbdtrc nbdtri", COUNTS, TRIALS, x=INSIDE),
    **_of_counts("pdtr pdtrc", COUNTS, x=POSITIVE),
    **_of_counts("pdtri", COUNTS, x=INSIDE),
    **_of_counts("expn yn", COUNTS, x=POSITIVE),
    **_of_counts("polygamma", 2, x=POSITIVE),
    **_of_counts("zeta", 3.0, x=POSITIVE),
    **_of_counts("lpmv", 1.0, 2.5, x=INSIDE),
    **_of_counts("hyp1f1", 1.5, 2.5, x=SIGNED),
    "multigammaln": Case(lambda S, xp, x: S.special.multigammaln(x, 3), (POSITIVE + 2,)),
    "logsumexp": Case(lambda S, xp, x, b: S.special.logsumexp(x, axis=1, b=b), (TABLE, np.abs(TABLE[0]))),
    "softmax": Case(lambda S, xp, x: S.special.softmax(x, axis=0), (TABLE,)),
    "log_softmax": Case(lambda S, xp, x: S.special.log_softmax(x, axis=1), (TABLE,)),
    "gammasgn": Case(lambda S, xp, x: S.special.gammasgn(x), (SIGNED,), constant=True),
    "zetac": Case(lambda S, xp, x: S.special.zetac(x), (POSITIVE + 1,), "RuntimeError", "`special.zeta(x, q)`, differentiable in q"),
}

# ----- fft ------------------------------------------------------------------------------------------------------------------


def _fft(names: str, array: Any, **options: Any) -> dict[str, Case]:
    return {n: Case(lambda S, xp, x, n=n: getattr(S.fft, n)(x, **options), (array,)) for n in names.split()}


FFT = {
    **_fft("fft ifft irfft hfft", COMPLEX, n=5, norm="ortho"),
    **_fft("rfft ihfft", TABLE, n=9),
    **_fft("fftn ifftn fft2 ifft2 irfftn irfft2 hfftn hfft2", COMPLEX, s=(4, 5)),
    **_fft("rfftn rfft2 ihfftn ihfft2", TABLE),
    **_fft("fftshift ifftshift", TABLE, axes=1),
    **_fft("dct idct dst idst dctn idctn dstn idstn", TABLE),
    "fht": Case(lambda S, xp, x: S.fft.fht(x, 0.1, 0.5), (LINE,)),
    "ifht": Case(lambda S, xp, x: S.fft.ifht(x, 0.1, 0.5), (LINE,)),
}

# ----- stats ----------------------------------------------------------------------------------------------------------------


def _stats(names: str, *arrays: Any, **options: Any) -> dict[str, Case]:
    return {n: Case(lambda S, xp, *a, n=n: getattr(S.stats, n)(*a, **options), arrays) for n in names.split()}


def _tests(names: str, *arrays: Any, **options: Any) -> dict[str, Case]:
    """Tests of hypotheses: their statistic and their probability."""
    return {n: Case(lambda S, xp, *a, n=n: _result(getattr(S.stats, n)(*a, **options)), arrays) for n in names.split()}


def _result(found: Any) -> Any:
    return found.statistic, found.pvalue


def _described(S: Any, x: Any) -> Any:
    d = S.stats.describe(x, axis=1)
    return (*d.minmax, d.mean, d.variance, d.skewness, d.kurtosis)


SAMPLE = _rng.normal(size=(2, 24)) + np.linspace(0, 1, 24)
SECOND = _rng.normal(size=(2, 24)) * 1.4

STATS = {
    **_stats("gmean hmean", np.abs(TABLE) + 0.2, axis=1),
    "pmean": Case(lambda S, xp, x: S.stats.pmean(x, 2.5, axis=1), (np.abs(TABLE) + 0.2,)),
    "moment": Case(lambda S, xp, x: S.stats.moment(x, 3, axis=1), (TABLE,)),
    **_stats("skew kurtosis sem zscore variation iqr", TABLE, axis=1),
    **_stats("gzscore gstd", np.abs(TABLE) + 0.2, axis=1),
    "zmap": Case(lambda S, xp, x, y: S.stats.zmap(x, y, axis=1), (TABLE, TABLE[:, ::-1] * 1.3)),
    "median_abs_deviation": Case(lambda S, xp, x: S.stats.median_abs_deviation(x, axis=1), (TABLE[:, :7],)),
    "describe": Case(lambda S, xp, x: _described(S, x), (TABLE,)),
    **_stats("tmean tvar tmin tmax tstd tsem", LINE),
    "trim_mean": Case(lambda S, xp, x: S.stats.trim_mean(x, 0.2, axis=1), (TABLE,)),
    "sigmaclip": Case(lambda S, xp, x: S.stats.sigmaclip(x, 1.5, 1.5).clipped, (LINE,)),
    "mode": Case(lambda S, xp, x: S.stats.mode(x).mode, (LINE,)),
    "quantile": Case(lambda S, xp, x: S.stats.quantile(x, xp.asarray([[0.2], [0.5], [0.7]]), axis=1), (TABLE,)),
    "lmoment": Case(lambda S, xp, x: S.stats.lmoment(x, order=3), (LINE,)),
    "kstat": Case(lambda S, xp, x: S.stats.kstat(x, 3), (LINE,)),
    "kstatvar": Case(lambda S, xp, x: S.stats.kstatvar(x, 2), (LINE,)),
    "boxcox_llf": Case(lambda S, xp, x: S.stats.boxcox_llf(0.7, x), (POSITIVE,)),
    "yeojohnson_llf": Case(lambda S, xp, x: S.stats.yeojohnson_llf(0.7, x), (LINE,)),
    **_stats("circmean circvar circstd", POSITIVE / 2),
    "directional_stats": Case(lambda S, xp, x: S.stats.directional_stats(x).mean_direction, (TABLE,)),
    "entropy": Case(lambda S, xp, x, y: S.stats.entropy(x, y, axis=1), (np.abs(TABLE) + 0.1, np.abs(TABLE[:, ::-1]) + 0.1)),
    "differential_entropy": Case(lambda S, xp, x: S.stats.differential_entropy(x, axis=1), (TABLE,)),
    "false_discovery_control": Case(lambda S, xp, x: S.stats.false_discovery_control(x), (np.array([0.01, 0.2, 0.045, 0.9, 0.002, 0.5]),)),
    "combine_pvalues": Case(lambda S, xp, x: _result(S.stats.combine_pvalues(x)), (INSIDE,)),
    **_tests("ttest_1samp", SAMPLE, popmean=0.3, axis=1),
    **_tests("ttest_ind ttest_rel", SAMPLE, SECOND, axis=1),
    "ttest_ind_from_stats": Case(
        lambda S, xp, m, s: _result(S.stats.ttest_ind_from_stats(m[0], s[0], 9.0, m[1], s[1], 12.0)), (LINE[:2], POSITIVE[:2])
    ),
    **_tests("pearsonr", SAMPLE, SECOND, axis=1),
    **_tests("f_oneway bartlett alexandergovern", SAMPLE, SECOND, SECOND[:, ::-1] * 1.2, axis=1),
    **_tests("levene", SAMPLE, SECOND, SECOND[:, ::-1] * 1.2, axis=1),
    **_tests("skewtest kurtosistest normaltest jarque_bera", SAMPLE, axis=1),
    "power_divergence": Case(lambda S, xp, x: _result(S.stats.power_divergence(x, axis=1, lambda_=0.5)), (np.abs(TABLE) + 0.5,)),
    "chisquare": Case(lambda S, xp, x: _result(S.stats.chisquare(x, axis=1)), (np.abs(TABLE) + 0.5,)),
    "epps_singleton_2samp": Case(lambda S, xp, x, y: _result(S.stats.epps_singleton_2samp(x, y)), (SAMPLE[0], SECOND[0])),
    "cramervonmises": Case(
        lambda S, xp, x: S.stats.cramervonmises(x, S.special.ndtr).statistic,
        (LINE,),
        "RuntimeError",
        "the statistic from `xp.sort` and `special.ndtr`",
    ),
    "ks_1samp": Case(
        lambda S, xp, x: S.stats.ks_1samp(x, S.special.ndtr).statistic,
        (LINE,),
        "RuntimeError",
        "the statistic from `xp.sort` and `special.ndtr`",
    ),
    **{
        n: Case(lambda S, xp, *a, n=n: _result(getattr(S.stats, n)(*a)), (LINE, OTHER * 1.3), constant=True)
        for n in ("mannwhitneyu", "kruskal", "wilcoxon", "ansari", "mood", "fligner", "brunnermunzel", "spearmanrho", "chatterjeexi")
    },
    "friedmanchisquare": Case(lambda S, xp, *a: _result(S.stats.friedmanchisquare(*a)), (LINE, OTHER, LINE[::-1] * 1.3), constant=True),
    "rankdata": Case(lambda S, xp, x: S.stats.rankdata(x), (LINE,), constant=True),
    "bootstrap": Case(
        lambda S, xp, x: (
            S.stats.bootstrap((x,), lambda v, axis: xp.mean(v, axis=axis), n_resamples=99, method="percentile", rng=5).confidence_interval
        ),
        (LINE,),
    ),
    "permutation_test": Case(
        lambda S, xp, x, y: (
            S.stats.permutation_test(
                (x, y), lambda v, w, axis: xp.mean(v, axis=axis) - xp.mean(w, axis=axis), vectorized=True, n_resamples=99, rng=5
            ).statistic
        ),
        (LINE, OTHER),
    ),
    "monte_carlo_test": Case(
        lambda S, xp, x: S.stats.monte_carlo_test(x, lambda size: xp.ones(size), lambda v, axis: xp.mean(v, axis=axis)).statistic, (LINE,)
    ),
}

# ----- everything else ----------------------------------------------------------------------------------------------------------

INTEGRATE = {
    "trapezoid": Case(lambda S, xp, y, x: S.integrate.trapezoid(y, xp.cumulative_sum(x * x)), (LINE, OTHER)),
    "cumulative_trapezoid": Case(lambda S, xp, y, x: S.integrate.cumulative_trapezoid(y, xp.cumulative_sum(x * x)), (LINE, OTHER)),
    "simpson": Case(lambda S, xp, y: S.integrate.simpson(y, dx=0.3), (TABLE,), "RuntimeError", SAME_NAME),
    "cumulative_simpson": Case(lambda S, xp, y: S.integrate.cumulative_simpson(y, dx=0.3), (TABLE,)),
    "romb": Case(lambda S, xp, y: S.integrate.romb(y, dx=0.3), (np.append(LINE, 0.4),)),
    "tanhsinh": Case(
        lambda S, xp, a, c: S.integrate.tanhsinh(lambda x, c: xp.exp(-c * x * x), a, a + 2.0, args=(c,)).integral,
        (LINE, POSITIVE[[0, 1, 2, 3, 4, 5, 0, 1]]),
    ),
    "nsum": Case(
        lambda S, xp, c: S.integrate.nsum(lambda k, c: 1 / (k + c) ** 2, xp.asarray(1.0), xp.asarray(20.0), args=(c,)).sum, (POSITIVE[:2],)
    ),
    "cubature": Case(
        lambda S, xp, a: S.integrate.cubature(lambda x: xp.exp(-x[:, 0] * a[0] - x[:, 1] * a[1]), xp.zeros(2), xp.ones(2)).estimate,
        (POSITIVE[:2],),
    ),
    "qmc_quad": Case(
        lambda S, xp, a: (
            S.integrate.qmc_quad(
                lambda x: xp.exp(-x[0] * a), xp.zeros(1), xp.ones(1), n_points=64, qrng=S.stats.qmc.Halton(1, rng=3)
            ).integral
        ),
        (np.array(0.7),),
    ),
}

DIFFERENTIATE = {
    "derivative": Case(
        lambda S, xp, x, c: S.differentiate.derivative(lambda t, c: xp.sin(c * t), x, args=(c,)).df, (LINE, OTHER), tolerance=1e-4
    ),
    "jacobian": Case(lambda S, xp, x: S.differentiate.jacobian(lambda t: t * t * xp.sum(t, axis=0), x).df, (POSITIVE[:3],), tolerance=1e-4),
    "hessian": Case(
        lambda S, xp, x: S.differentiate.hessian(lambda t: xp.sum(t**3, axis=0) * t[0, ...], x).ddf, (POSITIVE[:3],), tolerance=1e-4
    ),
}

OPTIMIZE = {
    "rosen": Case(lambda S, xp, x: S.optimize.rosen(x), (LINE,)),
    "rosen_der": Case(lambda S, xp, x: S.optimize.rosen_der(x), (LINE,)),
    "rosen_hess": Case(lambda S, xp, x: S.optimize.rosen_hess(x), (LINE,)),
    "rosen_hess_prod": Case(lambda S, xp, x, p: S.optimize.rosen_hess_prod(x, p), (LINE, OTHER)),
    "elementwise.find_minimum": Case(
        lambda S, xp, c: S.optimize.elementwise.find_minimum(lambda x, c: (x - c) ** 2, (c - 3.0, c + 0.5, c + 2.0), args=(c,)).f_x,
        (POSITIVE,),
    ),
    "elementwise.bracket_root": Case(
        lambda S, xp, c: S.optimize.elementwise.bracket_root(lambda x, c: x**3 - c, -0.3 * c, args=(c,)).bracket, (POSITIVE,)
    ),
    "elementwise.bracket_minimum": Case(
        lambda S, xp, c: S.optimize.elementwise.bracket_minimum(lambda x, c: (x - c) ** 2, -0.3 * c, args=(c,)).bracket, (POSITIVE,)
    ),
}

QUATERNION = np.array([[0.1, 0.3, -0.5, 0.7], [0.6, -0.2, 0.4, 0.9]])
ROTVEC = np.array([[0.3, -0.5, 0.7], [1.1, 0.2, -0.4]])
POINTS = _rng.normal(size=(5, 3))


def _rotation(build: Callable[..., Any], read: Callable[..., Any], array: Any) -> Case:
    def run(S: Any, xp: Any, x: Any) -> Any:
        return read(build(S.spatial.transform.Rotation, x))

    return Case(run, (array,))


def _rigid(build: Callable[..., Any], read: Callable[..., Any], array: Any) -> Case:
    def run(S: Any, xp: Any, x: Any) -> Any:
        return read(build(S.spatial.transform.RigidTransform, x))

    return Case(run, (array,))


def _slerp(S: Any, xp: Any, x: Any) -> Any:
    key = S.spatial.transform.Rotation.from_rotvec(x)
    return S.spatial.transform.Slerp([0.0, 1.0], key)(xp.asarray([0.2, 0.7])).as_quat()


def _pose(S: Any, x: Any) -> Any:
    T = S.spatial.transform
    return T.RigidTransform.from_components(x, T.Rotation.from_rotvec(x * 0.5))


_V = lambda R, x: R.from_rotvec(x)
TRANSFORM = {
    "Rotation.from_quat": _rotation(lambda R, x: R.from_quat(x), lambda r: r.as_matrix(), QUATERNION),
    "Rotation.from_matrix": _rotation(
        lambda R, x: R.from_matrix(1.0 * x), lambda r: r.as_quat(), np.eye(3) + 0.2 * _rng.normal(size=(3, 3))
    ),
    "Rotation.from_rotvec": _rotation(_V, lambda r: r.as_matrix(), ROTVEC),
    "Rotation.from_euler": _rotation(lambda R, x: R.from_euler("xyz", x), lambda r: r.as_quat(), ROTVEC),
    "Rotation.from_davenport": Case(
        lambda S, xp, x: S.spatial.transform.Rotation.from_davenport(xp.eye(3), "extrinsic", x).as_quat(), (ROTVEC[0],)
    ),
    "Rotation.from_mrp": _rotation(lambda R, x: R.from_mrp(x), lambda r: r.as_quat(), ROTVEC),
    "Rotation.as_quat": _rotation(_V, lambda r: r.as_quat(canonical=True), ROTVEC),
    "Rotation.as_matrix": _rotation(lambda R, x: R.from_quat(x), lambda r: r.as_matrix(), QUATERNION),
    "Rotation.as_rotvec": _rotation(lambda R, x: R.from_quat(x), lambda r: r.as_rotvec(), QUATERNION),
    "Rotation.as_euler": _rotation(_V, lambda r: r.as_euler("zyx"), ROTVEC),
    "Rotation.as_davenport": Case(
        lambda S, xp, x: S.spatial.transform.Rotation.from_rotvec(x).as_davenport(xp.eye(3), "extrinsic"), (ROTVEC,)
    ),
    "Rotation.as_mrp": _rotation(_V, lambda r: r.as_mrp(), ROTVEC),
    "Rotation.concatenate": _rotation(
        lambda R, x: R.concatenate([R.from_rotvec(x), R.from_rotvec(2.0 * x)]), lambda r: r.as_matrix(), ROTVEC
    ),
    "Rotation.apply": Case(lambda S, xp, x, p: S.spatial.transform.Rotation.from_rotvec(x).apply(p), (ROTVEC[0], POINTS)),
    "Rotation.__mul__": _rotation(lambda R, x: R.from_rotvec(x[0, :]) * R.from_rotvec(x[1, :]), lambda r: r.as_matrix(), ROTVEC),
    "Rotation.__pow__": _rotation(_V, lambda r: (r**2.5).as_matrix(), ROTVEC),
    "Rotation.inv": _rotation(_V, lambda r: r.inv().as_matrix(), ROTVEC),
    "Rotation.magnitude": _rotation(_V, lambda r: r.magnitude(), ROTVEC),
    "Rotation.mean": _rotation(_V, lambda r: r.mean().as_matrix(), ROTVEC),
    "Rotation.__getitem__": _rotation(_V, lambda r: r[1].as_quat(), ROTVEC),
    "Rotation.align_vectors": Case(
        lambda S, xp, a, b: S.spatial.transform.Rotation.align_vectors(a, b)[0].as_matrix(), (POINTS, POINTS[:, ::-1] + 0.3)
    ),
    "Slerp": Case(_slerp, (ROTVEC,)),
    "RigidTransform.from_matrix": Case(
        lambda S, xp, x: S.spatial.transform.RigidTransform.from_matrix(_pose(S, x).as_matrix()).as_matrix(), (ROTVEC[0],)
    ),
    "RigidTransform.from_rotation": _rigid(lambda T, x: T.from_rotation(_rotation_of(x)), lambda t: t.as_matrix(), ROTVEC[0]),
    "RigidTransform.from_translation": _rigid(lambda T, x: T.from_translation(x), lambda t: t.as_matrix(), ROTVEC),
    "RigidTransform.from_components": Case(lambda S, xp, x: _pose(S, x).as_matrix(), (ROTVEC[0],)),
    "RigidTransform.from_exp_coords": _rigid(lambda T, x: T.from_exp_coords(x), lambda t: t.as_matrix(), _rng.normal(size=6)),
    "RigidTransform.from_dual_quat": _rigid(lambda T, x: T.from_dual_quat(x), lambda t: t.as_matrix(), _rng.normal(size=8)),
    "RigidTransform.concatenate": Case(
        lambda S, xp, x: S.spatial.transform.RigidTransform.concatenate([_pose(S, x), _pose(S, 2.0 * x)]).as_matrix(), (ROTVEC[0],)
    ),
    "RigidTransform.mean": Case(lambda S, xp, x: _pose(S, x).mean().as_matrix(), (ROTVEC,)),
    "RigidTransform.as_matrix": Case(lambda S, xp, x: _pose(S, x).inv().as_matrix(), (ROTVEC[0],)),
    "RigidTransform.as_components": Case(lambda S, xp, x: _pose(S, x).inv().as_components()[0], (ROTVEC[0],)),
    "RigidTransform.as_exp_coords": Case(lambda S, xp, x: _pose(S, x).as_exp_coords(), (ROTVEC[0],)),
    "RigidTransform.as_dual_quat": Case(lambda S, xp, x: _pose(S, x).as_dual_quat(), (ROTVEC[0],)),
    "RigidTransform.__mul__": Case(lambda S, xp, x: (_pose(S, x) * _pose(S, 2.0 * x)).as_matrix(), (ROTVEC[0],)),
    "RigidTransform.__pow__": Case(lambda S, xp, x: (_pose(S, x) ** 2.5).as_matrix(), (ROTVEC[0],)),
    "RigidTransform.__getitem__": Case(lambda S, xp, x: _pose(S, x)[1].as_matrix(), (ROTVEC,)),
    "RigidTransform.inv": Case(lambda S, xp, x: _pose(S, x).inv().as_matrix(), (ROTVEC[0],)),
    "RigidTransform.apply": Case(lambda S, xp, x, p: _pose(S, x).apply(p), (ROTVEC[0], POINTS)),
}


def _rotation_of(x: Any) -> Any:
    import scipy.spatial.transform

    return scipy.spatial.transform.Rotation.from_rotvec(x)


def _signal(names: str, *arrays: Any, **options: Any) -> dict[str, Case]:
    return {n: Case(lambda S, xp, *a, n=n: getattr(S.signal, n)(*a, **options), arrays) for n in names.split()}


SHORT = np.array([0.5, 1.2, -0.3])
SECTIONS = (np.array([[0.3, 0.5, 0.2], [0.7, 0.1, 0.4]]), np.array([[-0.4, 0.3], [0.2, 0.1]]))


def _sections(xp: Any, b: Any, a: Any) -> Any:
    """Second-order sections, whose fourth column is fixed."""
    return xp.concat([b, xp.ones((2, 1)), a], axis=1)


SIGNAL = {
    **_signal("fftconvolve oaconvolve", TABLE, TABLE[:, :3], axes=1),
    **_signal("hilbert envelope", TABLE),
    "detrend": Case(lambda S, xp, x: S.signal.detrend(x), (TABLE,), "RuntimeError", SAME_NAME),
    "convolve": Case(lambda S, xp, x, y: S.signal.convolve(x, y, method="fft"), (LINE, SHORT)),
    "correlate": Case(lambda S, xp, x, y: S.signal.correlate(x, y, method="fft"), (LINE, SHORT)),
    "hilbert2": Case(lambda S, xp, x: S.signal.hilbert2(x), (IMAGE,)),
    "resample": Case(lambda S, xp, x: S.signal.resample(x, 11), (LINE,)),
    "vectorstrength": Case(lambda S, xp, x: S.signal.vectorstrength(x, 2.3), (LINE,)),
    "wiener": Case(lambda S, xp, x: S.signal.wiener(x, 3), (LINE,), "TypeError", SAME_NAME),
    "gauss_spline": Case(lambda S, xp, x: S.signal.gauss_spline(x, 3), (LINE,)),
    "savgol_filter": Case(lambda S, xp, x: S.signal.savgol_filter(x, 5, 2), (LINE,), "RuntimeError", SAME_NAME),
    "minimum_phase": Case(lambda S, xp, x: S.signal.minimum_phase(x, method="homomorphic"), (np.array([0.1, 0.4, 1.0, 0.4, 0.1]),)),
    "freqz": Case(lambda S, xp, b, a: S.signal.freqz(b, a, worN=xp.asarray([0.3, 1.1, 2.0]))[1], (SHORT, np.array([1.0, 0.4]))),
    "freqs": Case(lambda S, xp, b, a: S.signal.freqs(b, a, worN=xp.asarray([0.3, 1.1]))[1], (SHORT, np.array([1.0, 0.4]))),
    "freqz_zpk": Case(
        lambda S, xp, z, p, k: S.signal.freqz_zpk(z, p, k, worN=xp.asarray([0.3, 1.1]))[1], (SHORT[:2], SHORT[1:] / 3, np.array(0.7))
    ),
    "freqs_zpk": Case(
        lambda S, xp, z, p, k: S.signal.freqs_zpk(z, p, k, worN=xp.asarray([0.3, 1.1]))[1], (SHORT[:2], -np.abs(SHORT[1:]), np.array(0.7))
    ),
    "freqz_sos": Case(lambda S, xp, b, a: S.signal.freqz_sos(_sections(xp, b, a), worN=xp.asarray([0.3, 1.1]))[1], SECTIONS),
    "group_delay": Case(lambda S, xp, b, a: S.signal.group_delay((b, a), w=xp.asarray([0.3, 1.1]))[1], (SHORT, np.array([1.0, 0.4]))),
    "bilinear": Case(lambda S, xp, b, a: S.signal.bilinear(b, a, fs=2.0), (SHORT, np.array([1.0, 0.4, 0.2])), "RuntimeError", SAME_NAME),
    "bilinear_zpk": Case(lambda S, xp, z, p, k: S.signal.bilinear_zpk(z, p, k, 2.0), (SHORT[:2], -np.abs(SHORT[1:]), np.array(0.7))),
    **{n: Case(lambda S, xp, b, a, n=n: getattr(S.signal, n)(b, a, 1.7), (SHORT, np.array([1.0, 0.4, 0.2]))) for n in ("lp2lp", "lp2hp")},
    **{
        n: Case(lambda S, xp, b, a, n=n: getattr(S.signal, n)(b, a, 1.7, 0.6), (SHORT, np.array([1.0, 0.4, 0.2])))
        for n in ("lp2bp", "lp2bs")
    },
    **{
        n: Case(lambda S, xp, z, p, k, n=n: getattr(S.signal, n)(z, p, k, 1.7), (SHORT[:2], -np.abs(SHORT[1:]), np.array(0.7)))
        for n in ("lp2lp_zpk", "lp2hp_zpk")
    },
    **{
        n: Case(lambda S, xp, z, p, k, n=n: getattr(S.signal, n)(z, p, k, 1.7, 0.6), (SHORT[:2], -np.abs(SHORT[1:]), np.array(0.7)))
        for n in ("lp2bp_zpk", "lp2bs_zpk")
    },
    "normalize": Case(lambda S, xp, b, a: S.signal.normalize(b, a), (SHORT, np.array([1.3, 0.4]))),
    "zpk2tf": Case(
        lambda S, xp, z, p, k: S.signal.zpk2tf(z, p, k),
        (SHORT[:2], SHORT[1:], np.array(0.7)),
        "TypeError",
        SAME_NAME,
    ),
    "tf2zpk": Case(
        lambda S, xp, b, a: S.signal.tf2zpk(b, a)[0],
        (np.array([1.0, -1.5, 0.3]), np.array([1.0, 0.4])),
        "RuntimeError",
        SAME_NAME,
    ),
    "sos2tf": Case(
        lambda S, xp, b, a: S.signal.sos2tf(_sections(xp, b, a)),
        SECTIONS,
        "TypeError",
        SAME_NAME,
    ),
    "sos2zpk": Case(lambda S, xp, b, a: S.signal.sos2zpk(_sections(xp, b, a))[2], SECTIONS, "RuntimeError", "`ndgrad.numpy.roots`"),
    "lfilter": Case(
        lambda S, xp, x: S.signal.lfilter(xp.asarray([0.3, 0.5]), xp.asarray([1.0, -0.4]), x),
        (LINE,),
        "RuntimeError",
        SAME_NAME,
    ),
    "sosfilt": Case(
        lambda S, xp, x: S.signal.sosfilt(xp.asarray([[0.3, 0.5, 0.2, 1.0, -0.4, 0.3]]), x),
        (LINE,),
        "RuntimeError",
        SAME_NAME,
    ),
    "filtfilt": Case(
        lambda S, xp, x: S.signal.filtfilt(xp.asarray([0.3, 0.5]), xp.asarray([1.0, -0.4]), x, padlen=3),
        (LINE,),
        "RuntimeError",
        SAME_NAME,
    ),
    "upfirdn": Case(lambda S, xp, x: S.signal.upfirdn(xp.asarray([0.3, 0.5]), x, 2), (LINE,), "RuntimeError", SAME_NAME),
    "resample_poly": Case(lambda S, xp, x: S.signal.resample_poly(x, 3, 2), (LINE,), "RuntimeError", SAME_NAME),
    "convolve2d": Case(lambda S, xp, x: S.signal.convolve2d(x, x[:2, :2]), (IMAGE,), "RuntimeError", SAME_NAME),
    "correlate2d": Case(lambda S, xp, x: S.signal.correlate2d(x, x[:2, :2]), (IMAGE,), "RuntimeError", SAME_NAME),
    "medfilt": Case(lambda S, xp, x: S.signal.medfilt(x, 3), (LINE,), "RuntimeError", SAME_NAME),
    "order_filter": Case(
        lambda S, xp, x: S.signal.order_filter(x, xp.ones(3), 1), (LINE,), "RuntimeError", "`ndgrad.scipy.signal.medfilt`"
    ),
    "deconvolve": Case(lambda S, xp, x, y: S.signal.deconvolve(x, y)[0], (LINE, SHORT), "ValueError", SAME_NAME),
    "cspline1d": Case(lambda S, xp, x: S.signal.cspline1d(x), (LINE,), "RuntimeError", "`ndgrad.scipy.ndimage.spline_filter1d`"),
    "windows.general_cosine": Case(lambda S, xp, a: S.signal.windows.general_cosine(7, a), (POSITIVE[:3],)),
    "lfilter_zi": Case(lambda S, xp, b, a: S.signal.lfilter_zi(b, a), (SHORT, np.array([1.1, -0.4, 0.2])), "RuntimeError", SAME_NAME),
}

CLUSTER = {
    "vq.whiten": Case(lambda S, xp, x: S.cluster.vq.whiten(x), (TABLE.T,)),
    "vq.vq": Case(
        lambda S, xp, x, c: S.cluster.vq.vq(x, c)[1],
        (POINTS, POINTS[:2] + 0.4),
        "RuntimeError",
        "`xp.linalg.vector_norm` of differences, with the clusters as constants",
    ),
    "vq.kmeans2": Case(
        lambda S, xp, x: S.cluster.vq.kmeans2(x, x[:2, :], minit="matrix")[0],
        (POINTS,),
        "RuntimeError",
        "`xp.linalg.vector_norm` of differences, with the clusters as constants",
    ),
    "hierarchy.linkage": Case(
        lambda S, xp, x: S.cluster.hierarchy.linkage(x),
        (POINTS,),
        "RuntimeError",
        "`xp.linalg.vector_norm` of differences, with the clusters as constants",
    ),
}

CONSTANTS = {
    "convert_temperature": Case(lambda S, xp, x: S.constants.convert_temperature(x, "Celsius", "Fahrenheit"), (LINE,)),
    "lambda2nu": Case(lambda S, xp, x: S.constants.lambda2nu(x * 1e8), (POSITIVE,)),
    "nu2lambda": Case(lambda S, xp, x: S.constants.nu2lambda(x * 1e8), (POSITIVE,)),
}

LINALG = {
    "orthogonal_procrustes": Case(lambda S, xp, a, b: S.linalg.orthogonal_procrustes(a, b)[0], (POINTS, POINTS[:, ::-1] + 0.3)),
    "block_diag": Case(lambda S, xp, a, b: S.linalg.block_diag(a, b), (POINTS, IMAGE)),
    "fiedler": Case(lambda S, xp, a: S.linalg.fiedler(a), (LINE,)),
}

INTERPOLATE = {
    "CubicSpline": Case(
        lambda S, xp, y: S.interpolate.CubicSpline(xp.arange(8.0), y)(xp.asarray([0.4, 2.7])),
        (LINE,),
        "RuntimeError",
        "`ndgrad.scipy.interpolate`",
    ),
    "PchipInterpolator": Case(
        lambda S, xp, y: S.interpolate.PchipInterpolator(xp.arange(8.0), y)(xp.asarray([0.4, 2.7])),
        (LINE,),
        "RuntimeError",
        "`ndgrad.scipy.interpolate`",
    ),
    "make_interp_spline": Case(
        lambda S, xp, y: S.interpolate.make_interp_spline(xp.arange(8.0), y)(xp.asarray([0.4, 2.7])),
        (LINE,),
        "RuntimeError",
        "`ndgrad.scipy.interpolate`",
    ),
    "RegularGridInterpolator": Case(
        lambda S, xp, y: S.interpolate.RegularGridInterpolator((xp.arange(4.0), xp.arange(5.0)), y)(xp.asarray([[0.4, 2.7]])),
        (IMAGE,),
        "RuntimeError",
        "`ndgrad.scipy.interpolate`",
    ),
    "RBFInterpolator": Case(
        lambda S, xp, y: S.interpolate.RBFInterpolator(xp.asarray(POINTS), y)(xp.asarray(POINTS[:2] + 0.1)),
        (LINE[:5],),
        "AttributeError",
        "`xp.linalg.solve` with the matrix of kernels",
    ),
}

NDIMAGE = {
    "gaussian_filter": Case(lambda S, xp, x: S.ndimage.gaussian_filter(x, 1.0), (IMAGE,), "RuntimeError", SAME_NAME),
    "map_coordinates": Case(lambda S, xp, x: S.ndimage.map_coordinates(x, xp.asarray([[0.5], [1.5]])), (IMAGE,), "RuntimeError", SAME_NAME),
    "fourier_gaussian": Case(lambda S, xp, x: S.ndimage.fourier_gaussian(x, 1.0), (IMAGE,), "RuntimeError", SAME_NAME),
    "sum_labels": Case(lambda S, xp, x: S.ndimage.sum_labels(x), (IMAGE,), "RuntimeError", SAME_NAME),
}

GROUPS: dict[str, dict[str, Case]] = {
    "special": SPECIAL, "stats": STATS, "fft": FFT, "spatial.transform": TRANSFORM, "signal": SIGNAL, "integrate": INTEGRATE,
    "differentiate": DIFFERENTIATE, "optimize": OPTIMIZE, "cluster": CLUSTER, "constants": CONSTANTS, "linalg": LINALG,
    "interpolate": INTERPOLATE, "ndimage": NDIMAGE,
}  # fmt: skip
