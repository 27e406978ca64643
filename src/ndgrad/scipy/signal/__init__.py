"""`scipy.signal` with derivatives: convolutions, filters, spectra, smoothing, responses, windows.

Filter design (`butter`, `firwin`, ...) maps numbers to coefficients: SciPy's own functions run on constants.
"""

from __future__ import annotations

from ndgrad.scipy._without_rules import make_module_getattr, public_of
from ndgrad.scipy.signal import convolution, filters, response, smoothing, spectral, waveforms, windows
from ndgrad.scipy.signal.convolution import *  # noqa: F403
from ndgrad.scipy.signal.filters import *  # noqa: F403
from ndgrad.scipy.signal.response import *  # noqa: F403
from ndgrad.scipy.signal.smoothing import *  # noqa: F403
from ndgrad.scipy.signal.spectral import *  # noqa: F403
from ndgrad.scipy.signal.waveforms import *  # noqa: F403

_DESIGN = "coefficients as an Array of your own, optimised by gradients through freqz or lfilter"

__getattr__ = make_module_getattr(
    "signal",
    {
        **dict.fromkeys(
            (
                "bessel",
                "butter",
                "cheby1",
                "cheby2",
                "ellip",
                "firls",
                "firwin",
                "firwin2",
                "firwin_2d",
                "gammatone",
                "iircomb",
                "iirdesign",
                "iirfilter",
                "iirnotch",
                "iirpeak",
                "minimum_phase",
                "remez",
            ),
            _DESIGN,
        ),
        **dict.fromkeys(
            ("lsim", "impulse", "step", "lti", "StateSpace", "TransferFunction"),
            "ndgrad.scipy.integrate.solve_ivp, or lfilter",
        ),
        **dict.fromkeys(("dlsim", "dimpulse", "dstep", "dlti"), "lfilter, or a loop over the states"),
        **dict.fromkeys(
            ("cspline1d", "qspline1d", "cspline2d", "qspline2d", "spline_filter", "symiirorder1", "symiirorder2"),
            "ndimage.spline_filter",
        ),
        **dict.fromkeys(("cspline1d_eval", "qspline1d_eval"), "ndimage.map_coordinates"),
        **dict.fromkeys(("ShortTimeFFT", "check_COLA", "check_NOLA"), "stft and istft"),
        **dict.fromkeys(("residue", "residuez", "invres", "invresz", "unique_roots"), "ndgrad.numpy.roots and polyval"),
        **dict.fromkeys(("czt", "zoom_fft", "CZT", "ZoomFFT"), "freqz, or a product with the matrix of exponentials"),
        **dict.fromkeys(("peak_prominences", "peak_widths"), "find_peaks for the places, and x at these places"),
        "order_filter": "ndimage.rank_filter",
        "sepfir2d": "ndimage.convolve1d along each axis",
        "place_poles": "ndgrad.implicit.root",
        "cont2discrete": "ndgrad.scipy.linalg.expm",
    },
    decisions=(
        "argrelextrema argrelmax argrelmin find_peaks find_peaks_cwt choose_conv_method correlation_lags "
        "max_len_seq check_COLA check_NOLA"
    ),
)
__dir__ = public_of(__name__)

__all__ = [
    *(name for module in (convolution, filters, response, smoothing, spectral, waveforms) for name in module.__all__),
    "windows",
]
