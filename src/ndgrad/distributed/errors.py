"""The errors of several processes, under torch's names."""

from __future__ import annotations


class DistError(RuntimeError):
    """What goes wrong between processes."""


class DistBackendError(DistError):
    """A collective that failed: the ranks disagreed, or one of them failed, left, or did not come in time."""


class DistNetworkError(DistError):
    """torch's name for failures of the network; MPI's come as `DistBackendError`."""


class DistStoreError(DistError):
    """torch's name for failures of a store; there is none here, since MPI knows its processes."""
