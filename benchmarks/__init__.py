"""Side-by-side timings of ndgrad, torch, jax and HIPS autograd: `python -m benchmarks`.

Every number is a ratio to torch eager taken from samples that alternate between the libraries, because on a
shared machine absolute times drift by more than the differences we care about.
"""
