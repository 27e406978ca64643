"""The old module of logsumexp."""

from __future__ import annotations

from typing import Any

from ndgrad.compat.autograd.scipy import special


def logsumexp(*args: Any, **kwargs: Any) -> Any:
    """Same as scipy.special.logsumexp, differentiable."""
    return special.logsumexp(*args, **kwargs)
