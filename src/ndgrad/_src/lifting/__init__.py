"""Programs that were written for NumPy, run with ndgrad in NumPy's place. The way in is `ndgrad.lift`.

The constraint that shaped this package: it works on functions of other people, without their source and without
changing anything that they can see. So functions are rebuilt from their parts (`program`), against namespaces in which
NumPy, SciPy, `math` and a few builtins keep derivatives (`namespaces`, `numbers`), and arguments and results are looked
after at the border (`entry`).
"""
