"""Settings of products and of attention on GPUs. `matmul.allow_tf32` allows rounding of float32 products for the tensor
cores. The other functions have one implementation each, so their switches have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ndgrad._src.arrays.gpu_switches import matmul as matmul
from ndgrad._src.arrays.gpus import devices_or_none
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.foundations.switches import Switches

_attention = Switches("ndgrad.backends.cuda", flash=True, mem_efficient=True, math=True, cudnn=True, reduced=False)


def is_built() -> bool:
    """True if CuPy is installed, so that GPUs could be used.

    >>> import ndgrad
    >>> isinstance(ndgrad.backends.cuda.is_built(), bool)
    True
    """
    return devices_or_none()[0] is not None


def flash_sdp_enabled() -> bool:
    """Return the value set by `enable_flash_sdp`. Attention has one implementation here, for any setting."""
    return bool(_attention.flash)


def enable_flash_sdp(enabled: bool) -> None:
    """Allow or forbid an attention kernel that ndgrad does not have.

    Args:
        enabled: new value of the switch.
    """
    _attention.flash = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Return the value set by `enable_mem_efficient_sdp`."""
    return bool(_attention.mem_efficient)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow or forbid an attention kernel that ndgrad does not have.

    Args:
        enabled: new value of the switch.
    """
    _attention.mem_efficient = bool(enabled)


def math_sdp_enabled() -> bool:
    """Return the value set by `enable_math_sdp`."""
    return bool(_attention.math)


def enable_math_sdp(enabled: bool) -> None:
    """Allow or forbid torch's plain implementation of attention.

    Args:
        enabled: new value of the switch.
    """
    _attention.math = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Return the value set by `enable_cudnn_sdp`."""
    return bool(_attention.cudnn)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow or forbid an attention kernel that ndgrad does not have.

    Args:
        enabled: new value of the switch.
    """
    _attention.cudnn = bool(enabled)


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Allow or forbid sums in half precision, which ndgrad does not use.

    Args:
        enabled: new value of the switch.
    """
    _attention.reduced = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Return the value set by `allow_fp16_bf16_reduction_math_sdp`."""
    return bool(_attention.reduced)


def is_flash_attention_available() -> bool:
    """Return False."""
    return False


def is_ck_sdpa_available() -> bool:
    """Return False."""
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Return False: ndgrad does not have this kernel.

    Args:
        params: arguments of attention, which are not read.
        debug: accepted as in torch; has no effect.
    """
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Return a context in which the switches of attention are set.

    Args:
        enable_flash: value of the switch of flash attention.
        enable_math: value of the switch of the plain implementation.
        enable_mem_efficient: value of the switch of attention that saves memory.
        enable_cudnn: value of the switch of cuDNN's attention.
    """
    wanted = {"flash": enable_flash, "math": enable_math, "mem_efficient": enable_mem_efficient, "cudnn": enable_cudnn}
    with _attention.during(**wanted):
        yield


_refuse_absent(__name__)
