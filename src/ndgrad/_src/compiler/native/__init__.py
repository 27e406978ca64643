"""Native code: LLVM IR as text, compiled through llvmlite, kept on disk, called from Python, run by a pool of workers.

`ir` writes text, `target` compiles it to addresses, `cache` stores compiled objects, and `selftest` compares kernels
with NumPy. `pool` runs code on all cores (with `pool_code`). `calls` makes Python functions of it: `guards` decide for
which arguments, `layout` has the offsets of objects in memory, and `tables`, `guard_code` and `entry_code` are the
native part of a call.
"""
