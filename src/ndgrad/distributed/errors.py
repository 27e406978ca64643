"""Errors of programs with several processes, under torch's names."""

from __future__ import annotations


class DistError(RuntimeError):
    """Base class of errors between processes."""


class DistBackendError(DistError):
    """A collective failed: the ranks disagreed, or a rank failed, left, or timed out."""


class DistNetworkError(DistError):
    """torch's name for failures of the network; MPI's failures raise `DistBackendError`."""


class DistStoreError(DistError):
    """torch's name for failures of a store; never raised, since MPI needs no store."""
