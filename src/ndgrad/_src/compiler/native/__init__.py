"""Native code: LLVM IR as text, compiled through llvmlite, kept on disk, called from Python, run by a pool of workers.

`ir` writes text, `target` compiles it to addresses, `cache` stores compiled objects, and `selftest` compares kernels
with NumPy. `pool` runs code on all cores (with `pool_code`). `calls` makes builtins of it, with the code in `call_code`
and the C functions in `c_interface`.
"""
