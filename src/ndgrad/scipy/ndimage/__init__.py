"""`scipy.ndimage` with derivatives: filters, interpolation, measurements.

Integer images give integer results, as in SciPy, and have no derivatives.
"""

from __future__ import annotations

from ndgrad.scipy._without_rules import make_module_getattr, public_of
from ndgrad.scipy.ndimage import filters, interpolation, measurements
from ndgrad.scipy.ndimage.filters import *  # noqa: F403
from ndgrad.scipy.ndimage.interpolation import *  # noqa: F403
from ndgrad.scipy.ndimage.measurements import *  # noqa: F403

__getattr__ = make_module_getattr(
    "ndimage",
    {
        "generic_filter": "correlate, rank_filter, or ndgrad.numpy.lib.stride_tricks.sliding_window_view",
        "generic_filter1d": "correlate1d",
        "vectorized_filter": "correlate, rank_filter, or ndgrad.numpy.lib.stride_tricks.sliding_window_view",
        "fourier_ellipsoid": "fourier_gaussian or fourier_uniform",
        "histogram": "ndgrad.numpy.histogram with weights, or stats.gaussian_kde",
        "labeled_comprehension": "sum_labels, mean, variance, maximum, minimum, median",
        "extrema": "minimum, maximum, minimum_position and maximum_position",
        "distance_transform_edt": "its indices (return_distances=False), and distances computed from them",
        "distance_transform_bf": "its indices (return_distances=False), and distances computed from them",
        "distance_transform_cdt": "its indices (return_distances=False), and distances computed from them",
    },
    decisions=(
        "binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss binary_opening "
        "binary_propagation find_objects generate_binary_structure iterate_structure label maximum_position "
        "minimum_position value_indices watershed_ift"
    ),
)
__dir__ = public_of(__name__)

__all__ = [name for module in (filters, interpolation, measurements) for name in module.__all__]
