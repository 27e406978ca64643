"""Formulas in CUDA C++: a writer for the values of ndgrad._src.compiler.kernels.maths.values.

An op has one formula (ndgrad._src.compiler.kernels.operations). Its operators write LLVM's instructions or, with the
writer here, lines such as `const float v3 = v1 * v2;`. Functions (exp, erf, ...) are those of CUDA's own library, with
errors of at most two units in the last place. PRELUDE has the missing ones. Halves are computed in single precision and
rounded once, when they are stored.
"""

from __future__ import annotations

import math
from typing import Any

from ndgrad._src.compiler.kernels.maths.values import Mask, Real, Writer
from ndgrad._src.compiler.kernels.operations import supports
from ndgrad._src.compiler.native.ir import Vector

#: Character of a dtype (float32, float64, float16, bfloat16) -> the type of computation, and the type in memory.
COMPUTED = {"f": "float", "d": "double", "e": "float", "E": "float"}
STORED = {"f": "float", "d": "double", "e": "Half", "E": "Brain", "?": "bool"}

PRELUDE = """
struct __align__(2) Half { unsigned short bits; };
struct __align__(2) Brain { unsigned short bits; };
template <typename T, int N> struct __align__(sizeof(T) * N) Pack { T at[N]; };

__device__ inline float wide(float x) { return x; }
__device__ inline double wide(double x) { return x; }
__device__ inline bool wide(bool x) { return x; }
__device__ inline float wide(Half x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ inline float wide(Brain x) { return __uint_as_float((unsigned int)x.bits << 16); }
__device__ inline void put(float& to, float x) { to = x; }
__device__ inline void put(double& to, double x) { to = x; }
__device__ inline void put(bool& to, bool x) { to = x; }
__device__ inline void put(Half& to, float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
__device__ inline void put(Brain& to, float x) {
    const unsigned int bits = __float_as_uint(x);
    to.bits = x != x ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, halves to even
}

template <typename T> __device__ inline T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
template <typename T> __device__ inline T remainder_of(T x, T y) {
    const T r = fmod(x, y);
    return r == 0 ? copysign(T(0), y) : (r < 0) != (y < 0) ? r + y : r;
}
template <typename T> __device__ inline T floor_divided(T x, T y) {
    if (y == 0) return x / y;
    T r = fmod(x, y), q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0)) q -= 1;
    if (q == 0) return copysign(T(0), x / y);
    const T whole = floor(q);
    return q - whole > T(0.5) ? whole + 1 : whole;
}
"""

_OPERATORS = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}
#: LLVM's predicates: with a NaN, those that begin with o are false, and those with u true.
_COMPARISONS = {
    "olt": "{0} < {1}", "ole": "{0} <= {1}", "ogt": "{0} > {1}", "oge": "{0} >= {1}", "oeq": "{0} == {1}",
    "une": "{0} != {1}", "ugt": "!({0} <= {1})", "ult": "!({0} >= {1})", "uno": "{0} != {0} || {1} != {1}",
}  # fmt: skip
#: CUDA's names for functions of the maths library, if they differ.
_FUNCTIONS = {"remainder": "remainder_of", "floor_divide": "floor_divided", "normal": "normcdf"}


class CudaWriter(Writer):
    """Writer of formulas as lines of CUDA C++."""

    own = frozenset(("normal",))

    def __init__(self, computed: str) -> None:
        super().__init__(None, Vector(computed), fma=True)  # type: ignore[arg-type]  # there is no function of LLVM's
        self.computed = computed
        self.lines: list[str] = []

    def set(self, expression: str, type: str | None = None) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {type or self.computed} {name} = {expression};")
        return name

    def real(self, x: Real | float | str) -> Real:
        return x if isinstance(x, Real) else Real(self, x if isinstance(x, str) else self.constant(x))

    def constant(self, x: float) -> str:
        if math.isfinite(x):
            return f"{self.computed}({float(x)!r})"
        infinity = "__int_as_float(0x7f800000)"
        return f"{self.computed}({'-' if x < 0 else ''}{infinity})" if x == x else f"{self.computed}(nan(\"\"))"

    def binary(self, op: str, x: Real, y: Real) -> str:
        return self.set(f"{x} {_OPERATORS[op]} {y}")

    def negated(self, x: Real) -> str:
        return self.set(f"-{x}")

    def compared(self, predicate: str, x: Real, y: Real) -> str:
        return self.set(_COMPARISONS[predicate].format(x, y), "bool")

    def combine_masks(self, op: str, a: Mask, b: Mask) -> str:
        return self.set(f"{a} {({'and': '&&', 'or': '||', 'xor': '!='})[op]} {b}", "bool")

    def always(self) -> Mask:
        return Mask(self, "true")

    def select(self, mask: Mask, yes: Real, no: Real) -> str:
        return self.set(f"{mask} ? {yes} : {no}")

    def sign_bit(self, x: Real) -> str:
        return self.set(f"signbit({x})", "bool")

    def intrinsic(self, name: str, *arguments: Real | float) -> Real:
        return Real(self, self.set(f"{name}({', '.join(str(self.real(a)) for a in arguments)})"))

    def call(self, name: str, *arguments: Real) -> Real:
        return Real(self, self.set(f"{_FUNCTIONS.get(name, name)}({', '.join(map(str, arguments))})"))


def has_formula(op: str, **settings: Any) -> bool:
    """True if an op of floats can be written."""
    # CUDA lacks digamma, and nan_to_num depends on the largest number of half precision.
    return op not in ("digamma", "nan_to_num") and supports(op, "float32", **settings)
