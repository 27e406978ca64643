"""What a program cannot hold: the reason is told, and the function runs eagerly."""

from __future__ import annotations


class GraphBreak(RuntimeError):
    """Raised while a function is traced, at the place where it needs what a trace does not have."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"compile: {reason}. The function runs eagerly instead; ndgrad.compile(..., fullgraph=True) makes this an error."
        )
        self.reason = reason
