"""Native code: LLVM IR as text, compiled through llvmlite, kept on disk, called from Python, run by a pool of workers.

`ir` writes text, `target` makes addresses of it, `cache` keeps what was made, `selftest` holds it against NumPy, `pool`
runs it on all cores (with `pool_code`), `calls` makes Python functions of it: `guards` say for which arguments,
`layout` where these lie in memory, and `tables`, `guard_code` and `entry_code` are what happens natively in a call.
"""
