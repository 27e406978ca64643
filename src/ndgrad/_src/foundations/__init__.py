"""Modules without dependencies inside the package: locks, hooks, devices, sizes, pytrees, files, error codes."""
