"""Kernels on NVIDIA's GPUs: CUDA C++ written from the same formulas as native code, compiled by NVRTC through CuPy."""
