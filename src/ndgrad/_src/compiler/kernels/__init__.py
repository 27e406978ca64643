"""Kernels written as LLVM IR: vector maths, matrix products, convolutions, rows."""
