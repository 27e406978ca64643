"""The lowest layer: which array library holds the data, and kernels on raw arrays."""
