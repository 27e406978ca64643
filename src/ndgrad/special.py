"""`ndgrad.special`: special functions, as torch.special, and `betaln`. Some come from SciPy: `pip
install "ndgrad[scipy]"`."""

from __future__ import annotations

from ndgrad import erf, erfc, erfinv, exp2, expm1, log1p, log_softmax, logit, logsumexp, round, sinc, softmax, xlogy
from ndgrad import sigmoid as expit
from ndgrad.absent import refuse_absent as _refuse_absent
from ndgrad.api.public import publish_namespace as _publish_namespace
from ndgrad.api.special import (
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    betaln,
    digamma,
    entr,
    erfcx,
    gammainc,
    gammaincc,
    gammaln,
    i0,
    i0e,
    i1,
    i1e,
    log_ndtr,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    multigammaln,
    ndtr,
    ndtri,
    polygamma,
    psi,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
    xlog1py,
    zeta,
)

__all__ = [
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

_publish_namespace(globals())

_refuse_absent(__name__)
