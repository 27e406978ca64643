"""Element types: torch's dtype objects, each representing one NumPy dtype.

The constraint that shaped this file: one object serves two interfaces. For torch programs it is `ndgrad.float64`, a
named singleton with `is_floating_point` and similar attributes. For NumPy it *is* `np.dtype('float64')`: it compares
equal to it, hashes like it, and is accepted wherever NumPy takes a dtype.

Names that would hide a builtin (`bool`, `float`, `int`) are in `ALIASES` and served by the module's `__getattr__`, so
that the code below can still use `bool`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgrad._src.arrays import precision
from ndgrad._src.foundations import package_name
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    import numpy.typing as npt

# Inside the class body `dtype` is the attribute that NumPy looks for; annotations there use this name.
DType: TypeAlias = "dtype"
DTypeLike: TypeAlias = "npt.DTypeLike | dtype"

__all__ = [
    "ALIASES",
    "DTypeLike",
    "as_dtype",
    "as_numpy_dtype",
    "bfloat16",
    "bool_",
    "can_cast",
    "complex32",
    "complex64",
    "complex128",
    "dtype",
    "finfo",
    "float16",
    "float32",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float64",
    "get_default_complex_dtype",
    "get_default_dtype",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "promote_types",
    "result_type",
    "set_default_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

# Promotion compares kinds first and widths second. A dtype's category is the index of its kind.
_BOOL, _INTEGER, _FLOATING, _COMPLEX = range(4)


# ----- the dtype object -------------------------------------------------------------------------------------


class dtype:
    """The element type of a tensor; one singleton per type, such as `ndgrad.float32`.

    >>> float32.is_floating_point, float32.itemsize, float32.to_complex()
    (True, 4, ndgrad.complex64)
    >>> np.zeros(2, dtype=float32).dtype == float32
    True
    >>> dtype("int8") is int8
    True
    """

    __module__ = "ndgrad"  # public path, shown in messages and stored in pickles

    __slots__ = (
        "_category",
        "_hash",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
    )

    if TYPE_CHECKING:  # `typing.get_type_hints` could not resolve these
        name: str
        numpy: np.dtype[Any]
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    _category: int
    _hash: int

    def __new__(cls, x: DTypeLike) -> DType:
        return as_dtype(x)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype, under the name by which NumPy recognises a dtype in a foreign object.

        >>> import ndgrad
        >>> ndgrad.float32.dtype
        dtype('float32')
        """
        return self.numpy

    @property
    def char(self) -> str:
        """NumPy's letter for the type, as on NumPy's own dtypes.

        >>> import ndgrad
        >>> ndgrad.float32.char
        'f'
        """
        return self.numpy.char

    def to_real(self) -> DType:
        """Return the type of the real part: the type itself, unless it is complex.

        >>> import ndgrad
        >>> ndgrad.complex64.to_real()
        ndgrad.float32
        """
        return _REAL_OF.get(self.name, self)

    def to_complex(self) -> DType:
        """Return the complex type whose parts hold this type; half precision widens to complex64.

        >>> import ndgrad
        >>> ndgrad.float16.to_complex()
        ndgrad.complex64
        """
        found = _COMPLEX_OF.get(self.name)
        if found is None:
            raise RuntimeError(
                f"{self!r} has no complex counterpart for to_complex(). "
                "Only floating-point types have one: convert to a floating-point type first. [nd-dtype]"
            )
        return found

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        # np.dtype would also compare itself with arrays and with None, which it reads as float64.
        if not isinstance(other, (np.dtype, type, str)):
            return NotImplemented
        if self.name in _WITHOUT_DATA or (self.name in _FOREIGN_NAMES and sys.modules.get("ml_dtypes") is None):
            return other == self.name
        return bool(self.numpy == other)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{package_name.package}.{self.name}"

    def __reduce__(self) -> str:
        # The string names an attribute of this module, so pickle, copy and deepcopy return the singleton.
        return self.name

    if not TYPE_CHECKING:

        def __getattr__(self, attribute: str) -> Any:
            # Reached only for an empty slot, which only types of ml_dtypes have. They exist without ml_dtypes, so that
            # `x.dtype in (float16, bfloat16)` works everywhere; only data needs ml_dtypes.
            if attribute == "numpy":
                self.numpy = _load_foreign(self.name)
                return self.numpy
            if attribute == "_hash":
                try:
                    self._hash = hash(self.numpy)
                except (ImportError, TypeError):
                    self._hash = hash(self.name)
                return self._hash
            if attribute == "char":  # generated code treats a payload as an array until the forward function raises
                return self.numpy.char
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {attribute!r}")


def _make(name: str, category: int, *, itemsize: int | None = None) -> dtype:
    made = object.__new__(dtype)
    made.name = name
    made._category = category
    made.is_floating_point = category == _FLOATING
    made.is_complex = category == _COMPLEX
    made.is_signed = category >= _INTEGER and not name.startswith("uint") and name != "float8_e8m0fnu"
    if itemsize is None:
        made.numpy = np.dtype(name)
        made.itemsize = made.numpy.itemsize
        made._hash = hash(made.numpy)
    else:
        made.itemsize = itemsize
    return made


def _load_foreign(name: str) -> np.dtype[Any]:
    if name == "complex32":
        # Programs compare dtypes with it, and list it. NumPy has no arithmetic for it, and torch nearly none.
        raise TypeError(
            f"there are no tensors of {package_name.package}.complex32: NumPy has no complex numbers of two halves. "
            f"Use {package_name.package}.complex64. [nd-dtype]"
        )
    if name in _WITHOUT_DATA:
        raise TypeError(
            f"there are no tensors of {package_name.package}.{name}: NumPy has no quantized numbers. Compute in "
            f"{package_name.package}.float32 or {package_name.package}.bfloat16. [nd-dtype]"
        )
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(
            f"ndgrad.{name} needs the package ml_dtypes, which could not be imported: NumPy itself lacks the type. "
            "Install it with `pip install ml_dtypes`, or use "
            "ndgrad.float16 or ndgrad.float32. [nd-install]"
        ) from error
    if not hasattr(ml_dtypes, name):
        raise ImportError(
            f"ndgrad.{name} needs a newer version of the package ml_dtypes than {ml_dtypes.__version__}. Update it "
            "with `pip install --upgrade ml_dtypes`. [nd-install]"
        )
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found


bool_ = _make("bool", _BOOL)
uint8 = _make("uint8", _INTEGER)
uint16 = _make("uint16", _INTEGER)
uint32 = _make("uint32", _INTEGER)
uint64 = _make("uint64", _INTEGER)
int8 = _make("int8", _INTEGER)
int16 = _make("int16", _INTEGER)
int32 = _make("int32", _INTEGER)
int64 = _make("int64", _INTEGER)
float16 = _make("float16", _FLOATING)
bfloat16 = _make("bfloat16", _FLOATING, itemsize=2)
float32 = _make("float32", _FLOATING)
float64 = _make("float64", _FLOATING)
float8_e4m3fn = _make("float8_e4m3fn", _FLOATING, itemsize=1)
float8_e4m3fnuz = _make("float8_e4m3fnuz", _FLOATING, itemsize=1)
float8_e5m2 = _make("float8_e5m2", _FLOATING, itemsize=1)
float8_e5m2fnuz = _make("float8_e5m2fnuz", _FLOATING, itemsize=1)
float8_e8m0fnu = _make("float8_e8m0fnu", _FLOATING, itemsize=1)
complex32 = _make("complex32", _COMPLEX, itemsize=4)  # only a name: see _load_foreign
complex64 = _make("complex64", _COMPLEX)
complex128 = _make("complex128", _COMPLEX)

#: Types of one byte. They are stored and cast, but not computed with.
FLOAT8 = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu)
_FLOAT8_NAMES = frozenset(d.name for d in FLOAT8)
#: torch's quantized types by name. Programs compare dtypes with them, and list them; there are no tensors of them.
QUANTIZED = {
    name: _make(name, _INTEGER, itemsize=size)
    for name, size in (("qint8", 1), ("qint32", 4), ("quint8", 1), ("quint4x2", 1), ("quint2x4", 1))
}
_WITHOUT_DATA = frozenset(("complex32", *QUANTIZED))
#: Names of types that NumPy lacks: those of ml_dtypes, and those without data.
_FOREIGN_NAMES = _FLOAT8_NAMES | _WITHOUT_DATA | {"bfloat16"}

ALIASES: dict[str, dtype] = {
    "bool": bool_,
    "short": int16,
    "int": int32,
    "long": int64,
    "half": float16,
    "float": float32,
    "double": float64,
    "chalf": complex32,
    "cfloat": complex64,
    "cdouble": complex128,
}
"""torch's other names for the types, where `float` and `int` are the 32-bit ones."""

_BY_NAME: dict[str, dtype] = {
    d.name: d
    for d in (
        bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
        float16, bfloat16, float32, float64, *FLOAT8, complex32, complex64, complex128,
    )
}  # fmt: skip
_BY_KIND_AND_SIZE = {(d.numpy.kind, d.itemsize): d for d in _BY_NAME.values() if d.name not in _FOREIGN_NAMES}
#: Maps the identity of NumPy's own dtype objects to dtypes. Each type has one such object, which lives as long as
#: NumPy.
BY_IDENTITY: dict[int, dtype] = {id(d.numpy): d for d in _BY_NAME.values() if d.name not in _FOREIGN_NAMES}
_REAL_OF = {"complex32": float16, "complex64": float32, "complex128": float64}
_COMPLEX_OF = {
    "float16": complex64,
    "bfloat16": complex64,
    "float32": complex64,
    "float64": complex128,
    "complex32": complex32,
    "complex64": complex64,
    "complex128": complex128,
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> dtype:
        try:
            return ALIASES[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


# ----- conversion of user input -----------------------------------------------------------------------------

# Filled by _resolve, one entry per spelling. The second keeps the byte order, the first drops it.
_dtype_of: dict[Any, dtype] = {}
_numpy_dtype_of: dict[Any, np.dtype[Any]] = {}


def as_dtype(x: DTypeLike) -> dtype:
    """Return the ndgrad dtype for a NumPy dtype, a Python type, a name, or another library's dtype object.

    Plain names and Python types have their NumPy meaning (`float` is float64). Names with a prefix have their torch
    meaning (`"torch.float"` is float32).

    >>> as_dtype(float), as_dtype("f4"), as_dtype(np.dtype(">i2"))
    (ndgrad.float64, ndgrad.float32, ndgrad.int16)
    """
    if type(x) is dtype:
        return x
    try:
        return _dtype_of[x]
    except (KeyError, TypeError):
        return _resolve(x)[0]


def as_numpy_dtype(x: DTypeLike) -> np.dtype[Any]:
    """Return the NumPy dtype for `x`, including its byte order.

    >>> as_numpy_dtype(float32), as_numpy_dtype(">f8")
    (dtype('float32'), dtype('>f8'))
    """
    if type(x) is dtype:
        return x.numpy
    try:
        return _numpy_dtype_of[x]
    except (KeyError, TypeError):
        return _resolve(x)[1]


def _resolve(x: Any) -> tuple[dtype, np.dtype[Any]]:
    found, as_numpy = _parse_name(x), None
    if found is not None:
        as_numpy = found.numpy
    elif x is not None:
        try:
            as_numpy = np.dtype(x)
        except (TypeError, ValueError):
            pass
        else:
            if as_numpy.name in _FOREIGN_NAMES:
                found = _BY_NAME[as_numpy.name]
            else:
                found = _BY_KIND_AND_SIZE.get((as_numpy.kind, as_numpy.itemsize))
    if found is None or as_numpy is None:
        raise TypeError(
            f"{x!r} is not an element type that ndgrad has. "
            f"Use one of {', '.join(n for n in _BY_NAME if n != 'complex32')}, "
            "by name, as ndgrad.<name> or as the NumPy dtype. [nd-dtype]"
        )
    if isinstance(x, (str, type, np.dtype)):
        _dtype_of[x] = found
        _numpy_dtype_of[x] = as_numpy
    return found, as_numpy


def _parse_name(x: Any) -> dtype | None:
    """Return the dtype for a name with a prefix, or for an object that prints as one (torch.float32); else None."""
    if not isinstance(x, str):
        if type(x).__name__ != "dtype":
            return None
        x = str(x)
    elif x in _FOREIGN_NAMES:
        return _BY_NAME[x]
    library, _, name = x.partition(".")
    if library not in ("torch", "ndgrad"):
        return None
    return _BY_NAME.get(name) or ALIASES.get(name)


# ----- the default ------------------------------------------------------------------------------------------

_default_dtype = float32
_default_complex_dtype = complex64


@set_module("ndgrad")
def get_default_dtype() -> dtype:
    """Return the type of Python floats that become tensors; float32 unless set otherwise.

    NumPy's namespace always uses NumPy's float64.

    >>> import ndgrad
    >>> ndgrad.get_default_dtype()
    ndgrad.float32
    """
    return _default_dtype


def get_default_complex_dtype() -> dtype:
    """Return the type of Python complex numbers that become tensors. It follows the default dtype.

    >>> get_default_complex_dtype()
    ndgrad.complex64
    """
    return _default_complex_dtype


@set_module("ndgrad")
def set_default_dtype(d: DTypeLike) -> None:
    """Set, for the whole process, the type of Python floats that become tensors.

    Args:
        d: floating-point dtype. The complex default has parts of this dtype.

    >>> set_default_dtype(float64)
    >>> get_default_dtype(), get_default_complex_dtype()
    (ndgrad.float64, ndgrad.complex128)
    >>> set_default_dtype(float32)
    """
    global _default_dtype, _default_complex_dtype
    new = as_dtype(d)
    if new.name in _FLOAT8_NAMES:
        raise TypeError(
            f"couldn't find storage object {_torch_name(new)}Storage: {new!r} cannot be the default dtype. Pass "
            "another floating-point type. [nd-dtype]"
        )
    if not new.is_floating_point:
        raise TypeError(
            f"the default dtype cannot be {new!r}, as given to set_default_dtype(): it is the type of Python "
            "floats. Pass a floating-point type; the default complex type follows it. [nd-dtype]"
        )
    _default_dtype, _default_complex_dtype = new, new.to_complex()


# ----- promotion --------------------------------------------------------------------------------------------


@set_module("ndgrad")
def promote_types(a: DTypeLike, b: DTypeLike) -> dtype:
    """Return the common type of two types, by torch's rule.

    The higher kind decides (bool, integers, floats, complex numbers); the width of the lower kind does not count.
    (`ndgrad.numpy.promote_types` follows NumPy's rule.)

    Args:
        a, b: the two dtypes.

    >>> promote_types(int64, float32), promote_types(int8, uint8), promote_types(complex64, float64)
    (ndgrad.float32, ndgrad.int16, ndgrad.complex128)
    """
    return _promote(as_dtype(a), as_dtype(b))


_promoted: dict[tuple[str, str], dtype] = {}


def _promote(a: dtype, b: dtype) -> dtype:
    # Keyed by name: a string caches its hash, while hashing a dtype costs a call.
    found = _promoted.get((a.name, b.name))
    if found is None:
        found = _promoted[a.name, b.name] = _find_promoted(a, b)
    return found


_TORCH_NAMES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long"}


def _torch_name(d: dtype) -> str:
    """Return torch's name for a type in messages."""
    return _TORCH_NAMES.get(d.name, d.name.capitalize())


def _find_promoted(a: dtype, b: dtype) -> dtype:
    low, high = (a, b) if a._category <= b._category else (b, a)
    if low is high:
        return high
    if not QUANTIZED.keys().isdisjoint((a.name, b.name)):
        raise TypeError(
            f"quantized types are not promoted: {a} and {b}. There are no tensors of them; use float32. [nd-dtype]"
        )
    if _FLOAT8_NAMES & {a.name, b.name}:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {_torch_name(a)} and {_torch_name(b)}. "
            "Convert one of the tensors: x.float(). [nd-dtype]"
        )
    if low._category < high._category:
        if low._category < _FLOATING:
            return high
        if high is complex32:
            return {float16: complex32, float64: complex128}.get(low, complex64)
        return complex128 if float64 in (low, high.to_real()) else high  # a real and a complex type
    if complex32 in (a, b):
        return complex128 if complex128 in (a, b) else complex64
    if bfloat16 in (a, b):  # NumPy does not know bfloat16
        return float64 if float64 in (a, b) else float32
    return as_dtype(np.promote_types(a.numpy, b.numpy))


@set_module("ndgrad")
def result_type(*operands: Any) -> dtype:
    """Return the type of a result computed from tensors, arrays, dtypes and Python numbers, by torch's rule.

    Tensors with dimensions decide. Tensors without dimensions, and after them Python numbers, count only if they are of
    a higher kind. A Python number then counts as the default dtype.

    Args:
        *operands: tensors, arrays, dtypes and Python numbers, at least one.

    Raises:
        TypeError: if there are no operands.

    >>> result_type(float32, 1.5), result_type(int8, 1.5), result_type(1, 2.5)
    (ndgrad.float32, ndgrad.float32, ndgrad.float32)
    >>> result_type(np.ones(2, "f4"), np.array(2.0), 2j)
    ndgrad.complex64
    """
    if not operands:
        raise TypeError(
            "result_type() was given nothing to combine. Pass at least one tensor, dtype or number. [nd-too-few]"
        )
    ranks: list[dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, (bool, int, float, complex, np.generic)):
            rank, found = 2, type_of_number(operand)
        elif hasattr(operand, "ndim") and not isinstance(operand, (type, dtype, np.dtype)):
            rank, found = int(operand.ndim == 0), as_dtype(operand.dtype)
        else:
            rank, found = 0, as_dtype(operand)
        before = ranks[rank]
        ranks[rank] = found if before is None else _promote(before, found)
    result = combine_types(*ranks)
    assert result is not None
    return result


def combine_types(tensors: dtype | None, scalars: dtype | None, numbers: dtype | None) -> dtype | None:
    """Return the type of a result, from the types of tensors with dimensions, tensors without, and Python numbers.

    Each may be None if there are no such operands.
    """
    return _promote_over(tensors, _promote_over(scalars, numbers))


def _promote_over(high: dtype | None, low: dtype | None) -> dtype | None:
    """Return the type of a result: `low` counts only if it is of a higher kind."""
    if high is None or low is None or low._category <= high._category:
        return low if high is None else high
    return high.to_complex() if high._category == _FLOATING else low


def type_of_number(number: complex | np.generic) -> dtype:
    """Return the type of a Python number or a NumPy scalar in promotion."""
    kind = (
        _KINDS_OF_SCALARS[number.dtype.kind] if isinstance(number, np.generic) else _NUMBER_KINDS[_builtin_type(number)]
    )
    return (bool_, int64, _default_dtype, _default_complex_dtype)[kind]


def _builtin_type(number: Any) -> type:
    return next(kind for kind in (bool, int, float, complex) if isinstance(number, kind))


_KINDS_OF_SCALARS = {"b": _BOOL, "i": _INTEGER, "u": _INTEGER, "f": _FLOATING, "V": _FLOATING, "c": _COMPLEX}
_NUMBER_KINDS: dict[type, int] = {bool: _BOOL, int: _INTEGER, float: _FLOATING, complex: _COMPLEX}


@set_module("ndgrad")
def can_cast(from_: DTypeLike, to: DTypeLike) -> bool:
    """True if a result of type `from_` may be stored as `to` by an in-place write (NumPy's "same kind").

    Args:
        from_: dtype of the result.
        to: dtype of the tensor that is written.

    >>> import ndgrad
    >>> ndgrad.can_cast(ndgrad.float64, ndgrad.float32), ndgrad.can_cast(ndgrad.float32, ndgrad.int64)
    (True, False)
    """
    a, b = as_dtype(from_), as_dtype(to)
    if not QUANTIZED.keys().isdisjoint((a.name, b.name)):
        return a is b
    if _FOREIGN_NAMES & {a.name, b.name}:
        return a._category <= b._category
    return np.can_cast(a.numpy, b.numpy, "same_kind")


# ----- limits -----------------------------------------------------------------------------------------------


@set_module("ndgrad")
class finfo:
    """Limits of a floating-point dtype.

    Args:
        type: floating-point or complex dtype. Limits of a complex dtype are those of its parts. The default is the
            default dtype.

    Raises:
        TypeError: if the dtype is neither.

    >>> finfo(float32)
    finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, smallest_normal=1.17549e-38, \
    tiny=1.17549e-38, dtype=float32)
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: DTypeLike | None = None) -> None:
        real = (_default_dtype if type is None else as_dtype(type)).to_real()
        if not real.is_floating_point:
            raise TypeError(
                f"{real!r} is not a floating-point type, as finfo() needs. Use ndgrad.iinfo for integers. [nd-dtype]"
            )
        # This may import ml_dtypes, whose absence raises an error with the command to install it.
        limits = precision.finfo(real.numpy)
        self.bits: int = 8 * real.itemsize
        self.dtype: str = real.name
        self.eps = 0.125 if real.name == "float8_e5m2fnuz" else float(limits.eps)  # torch's value, half of its step
        self.max = float(limits.max)
        self.min = float(limits.min)
        self.smallest_normal = self.tiny = float(limits.tiny)
        # The power of ten itself; NumPy reports it rounded to the narrow type.
        self.resolution = 1.0 if real.itemsize == 1 else 10.0 ** -int(limits.precision)

    def __eq__(self, other: object) -> bool:
        return self.dtype == other.dtype if isinstance(other, finfo) else NotImplemented

    def __hash__(self) -> int:
        return hash((finfo, self.dtype))

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in names)}, dtype={self.dtype})"


@set_module("ndgrad")
class iinfo:
    """Limits of an integer type.

    Args:
        type: integer dtype.

    Raises:
        TypeError: if the dtype is no integer dtype.

    >>> iinfo(int8)
    iinfo(min=-128, max=127, dtype=int8)
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: DTypeLike) -> None:
        integer = as_dtype(type)
        if integer._category != _INTEGER:
            raise TypeError(
                f"{integer!r} is not an integer type, as iinfo() needs. Use ndgrad.finfo for floating types. [nd-dtype]"
            )
        limits = np.iinfo(integer.numpy)
        self.bits: int = 8 * integer.itemsize
        self.dtype: str = integer.name
        self.max = int(limits.max)
        self.min = int(limits.min)

    def __eq__(self, other: object) -> bool:
        return self.dtype == other.dtype if isinstance(other, iinfo) else NotImplemented

    def __hash__(self) -> int:
        return hash((iinfo, self.dtype))

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
