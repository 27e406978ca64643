"""The lowest layer: array libraries, dtypes, random generators, and kernels on raw arrays."""
