"""Programs written for NumPy, run with ndgrad in NumPy's place. The entry point is `ndgrad.lift`.

The constraint that shaped this package: it works on existing functions, without their source and without changing
anything visible to their authors. So functions are rebuilt from their parts (`program`), against namespaces in which
NumPy, SciPy, `math` and a few builtins keep derivatives (`namespaces`, `numbers`). Arguments and results are converted
at the border (`entry`).
"""
