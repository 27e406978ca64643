"""The old home of logsumexp."""

from __future__ import annotations

from typing import Any


def logsumexp(*args: Any, **kwargs: Any) -> Any:
    """scipy.special.logsumexp, differentiable."""
    from ndgrad.compat.autograd.scipy import special

    return special.logsumexp(*args, **kwargs)
