"""The function of torch's private `torch._dynamo.utils` that libraries call."""

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: str) -> bool:
    """True if `compile` makes programs for a kind of device.

    Args:
        device_type: name such as `"cpu"`.
    """
    return device_type in ("cpu", "cuda")


_refuse_absent(__name__)
