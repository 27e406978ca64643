"""Products of two matrices by cuBLASLt, called by ctypes.

The layout of a kind of matrices and its algorithm are set once, so that a call passes only addresses. It adds a bias in
the same kernel. cuBLAS, in contrast, searches for an algorithm at each call. Products without an algorithm are left to
ndgrad._src.compiler.cuda.cublas.
"""

from __future__ import annotations

import ctypes
import functools
import re
from pathlib import Path
from typing import Any

from ndgrad._src.compiler.cuda import cublas

#: Alignment of arrays from a pool, for which algorithms are chosen.
ALIGNMENT = 256
_pointer, _int, _size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_MATMUL: list[Any] = [*[_pointer] * 14, _size, _pointer]

#: cuBLASLt's numbers: attributes of a product, of a preference, and the epilogue that adds a bias.
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS_ADDRESS = 3, 4, 7, 8
_MOST_WORKSPACE = 1
_ADDS_BIAS = 4


class _Found(ctypes.Structure):
    """An algorithm (cublasLtMatmulHeuristicResult_t)."""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
        ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    ]  # fmt: skip


@functools.lru_cache(maxsize=1)
def functions() -> Any:
    """Return the library that cuBLAS has loaded; None if one of both cannot be found."""
    if cublas.functions() is None:
        return None
    try:
        found = re.search(r"\S*libcublasLt\.so\S*", Path("/proc/self/maps").read_text())
        made = None if found is None else ctypes.CDLL(found[0])
        if made is not None:
            made.cublasLtMatmul.argtypes = _MATMUL
            made.cublasLtMatmulDescSetAttribute.argtypes = [_pointer, _int, _pointer, _size]
    except (OSError, AttributeError):
        return None
    return made


@functools.lru_cache(maxsize=16)
def _handle(device: int) -> int | None:
    made = _pointer()
    return None if functions().cublasLtCreate(ctypes.byref(made)) else made.value


class Product:
    """One kind of product, (m, k) by (k, n), on one device. Only one thread uses it, since the bias is set beforehand.
    """

    def __init__(
        self, device: int, type: int, precision: int, scale: int, sizes: tuple[int, int, int], a: tuple[int, int],
        b: tuple[int, int], numbers: tuple[int, int], with_bias: bool,
    ) -> None:  # fmt: skip
        """Set up a product.

        `type`, `precision` and `scale` are cuBLAS's numbers of the dtype, of the precision of sums, and of the dtype of
        one and zero, which lie at the addresses `numbers`. `a` and `b` are each (True if columns are contiguous instead
        of rows, the step between lines). cuBLAS uses column order: it sees all matrices transposed, and (a b)' = b' a'.
        """
        lt = functions()
        self._call, self._name_bias, self._handle = lt.cublasLtMatmul, lt.cublasLtMatmulDescSetAttribute, _handle(device)
        self._destroy: list[tuple[Any, Any]] = []
        self._one, self._zero = numbers
        self._product = self._create(lt.cublasLtMatmulDescCreate, lt.cublasLtMatmulDescDestroy, _int(precision), _int(scale))
        self._set(lt, _TRANSPOSE_A, _int(b[0]))
        self._set(lt, _TRANSPOSE_B, _int(a[0]))
        if with_bias:
            self._set(lt, _EPILOGUE, _int(_ADDS_BIAS))
        m, n, k = sizes
        layouts = [(k, n) if b[0] else (n, k), (m, k) if a[0] else (k, m), (n, m)]
        self._left, self._right, self._out = (
            self._create(
                lt.cublasLtMatrixLayoutCreate, lt.cublasLtMatrixLayoutDestroy, _int(type), ctypes.c_uint64(rows),
                ctypes.c_uint64(columns), ctypes.c_int64(step),
            )
            for (rows, columns), step in zip(layouts, (b[1], a[1], n), strict=True)
        )  # fmt: skip
        self._algorithm = self._choose(lt)
        self._algorithm_place = ctypes.addressof(self._algorithm)
        self._bias_address = ctypes.c_void_p()
        self._bias_place = ctypes.addressof(self._bias_address)

    def _create(self, create: Any, destroy: Any, *words: Any) -> int:
        made = _pointer()
        _succeed(create(ctypes.byref(made), *words))
        assert made.value is not None
        self._destroy.append((destroy, made))
        return made.value

    def _set(self, lt: Any, attribute: int, value: Any) -> None:
        _succeed(lt.cublasLtMatmulDescSetAttribute(self._product, attribute, ctypes.addressof(value), ctypes.sizeof(value)))

    def _choose(self, lt: Any) -> Any:
        """Return the algorithm; raise LookupError if there is none."""
        preference, count, found = _pointer(), _int(), _Found()
        _succeed(lt.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
        try:
            workspace = ctypes.c_size_t(cublas.WORKSPACE)
            _succeed(
                lt.cublasLtMatmulPreferenceSetAttribute(preference, _MOST_WORKSPACE, ctypes.byref(workspace), ctypes.c_size_t(8))
            )
            layouts = [_pointer(p) for p in (self._product, self._left, self._right, self._out, self._out)]
            status = lt.cublasLtMatmulAlgoGetHeuristic(
                _pointer(self._handle), *layouts, preference, _int(1), ctypes.byref(found), ctypes.byref(count)
            )
        finally:
            lt.cublasLtMatmulPreferenceDestroy(preference)
        if status or not count.value or found.state:
            raise LookupError("cuBLASLt has no algorithm for such a product [nd-gpu]")
        return found

    def __call__(self, a: int, b: int, out: int, bias: int, workspace: int, stream: int) -> None:
        """Multiply the matrices at these addresses; `bias` is 0 without one."""
        if bias and bias != self._bias_address.value:
            self._bias_address.value = bias
            _succeed(self._name_bias(self._product, _BIAS_ADDRESS, self._bias_place, 8))
        status = self._call(
            self._handle, self._product, self._one, b, self._left, a, self._right, self._zero, out, self._out,
            out, self._out, self._algorithm_place, workspace, cublas.WORKSPACE, stream,
        )  # fmt: skip
        if status:
            _succeed(status)

    def __del__(self) -> None:
        for destroy, made in getattr(self, "_destroy", ()):
            destroy(made)


def _succeed(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLASLt answers with status {status}. Check that the GPU has memory left. [nd-gpu]")
