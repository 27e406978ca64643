"""Side-by-side timings of ndgrad, torch, jax and HIPS autograd: `python -m benchmarks`.

Every number is a ratio to torch eager, from samples that alternate between the libraries. On a shared machine,
absolute times drift by more than the differences of interest.
"""
