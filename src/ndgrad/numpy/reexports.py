"""Names that ndgrad.numpy takes from NumPy unchanged, and names that it leaves out.

Dtypes, constants, settings and questions about dtypes are independent of gradients. A name that is left out would
either hold plain memory (and so lose gradients) or belongs to another subject. Each has its reason, which the
AttributeError repeats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_DTYPES = (
    "bool bool_ byte bytes_ cdouble character clongdouble complex128 complex256 complex64 complexfloating csingle "
    "datetime64 double dtype flexible float128 float16 float32 float64 floating generic half inexact int16 int32 int64 "
    "int8 int_ intc integer intp long longdouble longlong number object_ short signedinteger single str_ timedelta64 "
    "ubyte uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong unsignedinteger ushort void"
)
_VALUES = "False_ True_ ScalarType e euler_gamma inf little_endian nan newaxis pi sctypeDict typecodes index_exp s_"
_SETTINGS = (
    "errstate format_float_positional format_float_scientific get_include get_printoptions getbufsize geterr "
    "geterrcall info printoptions set_printoptions setbufsize seterr seterrcall show_config show_runtime"
)
_QUESTIONS = (
    "base_repr binary_repr broadcast_shapes datetime_data finfo iinfo isdtype isscalar issubdtype iterable mintypecode "
    "ndindex promote_types typename"
)
_DATES = "busday_count busday_offset busdaycalendar datetime_as_string is_busday"

#: Name -> NumPy's own object.
CONSTANTS: dict[str, Any] = {
    name: getattr(np, name)
    for name in " ".join((_DTYPES, _VALUES, _SETTINGS, _QUESTIONS, _DATES)).split()
    if hasattr(np, name)
}

#: Submodules of NumPy that are reexported unchanged.
MODULES = frozenset("char core ctypeslib dtypes exceptions f2py lib ma polynomial rec strings testing typing".split())

#: Name -> reason why it is missing.
LEFT_OUT = {
    "asmatrix": "matrices multiply with *, Arrays elementwise; use asarray and @",
    "matrix": "matrices multiply with *, Arrays elementwise; use array and @",
    "bmat": "matrices multiply with *, Arrays elementwise; use block",
    "broadcast": "it iterates over plain memory; use broadcast_arrays or broadcast_shapes",
    "flatiter": "it iterates over plain memory; use Array.flat",
    "frompyfunc": "its results are Python objects without a graph; use vectorize",
    "memmap": "memory in a file is plain memory; pass a numpy.memmap to asarray",
    "ndenumerate": "it iterates over plain memory; use ndindex",
    "nditer": "it iterates over plain memory; use ndindex, or whole-array expressions",
    "nested_iters": "it iterates over plain memory; use ndindex",
    "poly1d": (
        "its coefficients are plain memory; use polyval, polymul and the other functions on lines of coefficients"
    ),
    "recarray": "records hold no numbers to differentiate",
    "record": "records hold no numbers to differentiate",
    "row_stack": "it is an old name of vstack",
    "test": "it runs NumPy's own tests",
    "ufunc": "ndgrad.numpy's ufuncs are objects of their own; ask for numpy.ufunc",
}
