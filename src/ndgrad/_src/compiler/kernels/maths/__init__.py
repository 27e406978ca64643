"""Elementary functions of vectors of floats, written as LLVM IR.

They take any number of lanes of float32 or float64, on processors with and without fused multiply-add. `functions` has
the names and the two functions that other packages call (`emit`, `library`). `values` is the language of formulas,
`pairs` has numbers with twice the digits, and `coefficients` the polynomials. Each of the other files has one family of
functions.
"""

from ndgrad._src.compiler.kernels.maths.functions import FORMULAS, Formula, emit, library

__all__ = ["FORMULAS", "Formula", "emit", "library"]
