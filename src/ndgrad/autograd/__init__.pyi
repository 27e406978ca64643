# Written by scripts/surface.py from the declarations of public functions. Do not edit.

from ndgrad._src.core.grad_mode import (
    _enter_inference_mode as _enter_inference_mode, _exit_inference_mode as _exit_inference_mode,
    _force_original_view_tracking as _force_original_view_tracking, _unsafe_preserve_version_counter as
    _unsafe_preserve_version_counter, enable_grad as enable_grad, enforce_grad_layout_policy as
    enforce_grad_layout_policy, inference_mode as inference_mode, is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled, is_multithreading_enabled as is_multithreading_enabled,
    is_view_replay_enabled as is_view_replay_enabled, no_grad as no_grad, set_grad_enabled as set_grad_enabled,
    set_multithreading_enabled as set_multithreading_enabled,
)
from ndgrad._src.core.saved_access import SavedTensor as SavedTensor
from ndgrad._src.custom_functions.function import Function as Function
from ndgrad._src.custom_functions.nested_function import NestedIOFunction as NestedIOFunction
from ndgrad._src.debug.anomaly import (
    detect_anomaly as detect_anomaly, is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled, is_anomaly_enabled
    as is_anomaly_enabled, set_detect_anomaly as set_detect_anomaly,
)
from ndgrad._src.debug.checksum import guard as guard, is_guard_enabled as is_guard_enabled, set_guard as set_guard
from ndgrad._src.debug.debug_mode import debug as debug, is_debug_enabled as is_debug_enabled, set_debug as set_debug
from ndgrad._src.debug.explanation import explain as explain
from ndgrad._src.engine.backward_api import backward as backward, grad as grad
from ndgrad._src.engine.callbacks import _is_checkpoint_valid as _is_checkpoint_valid
from ndgrad._src.engine.roots import _calculate_shape as _calculate_shape
from ndgrad.autograd import (
    _functions as _functions, anomaly_mode as anomaly_mode, forward_ad as forward_ad, function as function, functional
    as functional, grad_mode as grad_mode, graph as graph, profiler as profiler, profiler_util as profiler_util,
    variable as variable,
)
from ndgrad.autograd.gradcheck import gradcheck as gradcheck, gradgradcheck as gradgradcheck
from ndgrad.autograd.variable import Variable as Variable
from ndgrad.profiler.timing import _profiler_enabled as _profiler_enabled, kineto_available as kineto_available

def __dir__() -> list[str]: ...
