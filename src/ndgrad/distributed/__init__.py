"""torch's `distributed`, which is not available: the questions that programs ask before they use it. Everything else is
refused (docs/absent.md)."""

from __future__ import annotations

from ndgrad.absent import refuse_absent as _refuse_absent


def is_available() -> bool:
    """False.

    >>> import ndgrad
    >>> ndgrad.distributed.is_available() and ndgrad.distributed.is_initialized()
    False
    """
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """False, whatever the backend."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


_refuse_absent(__name__)
