"""Elementary functions of vectors of floats, written as LLVM IR.

They take any number of lanes of float32 or float64, on processors with and without fused multiply-add. `functions`
has the names and the two calls that other rooms use (`emit`, `library`); `values` is the language in which formulas
are written, `pairs` numbers with twice the digits, `coefficients` the polynomials; the rest is one file per family of
functions.
"""

from ndgrad._src.compiler.kernels.maths.functions import FORMULAS, Formula, emit, library

__all__ = ["FORMULAS", "Formula", "emit", "library"]
