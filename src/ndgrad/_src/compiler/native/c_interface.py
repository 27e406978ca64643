"""Addresses of the functions of CPython's and NumPy's C interfaces that generated code calls.

All of them are documented, and none depends on the layout of an object. CPython's come from the running interpreter
(`ctypes.pythonapi`). NumPy's come from the table that every C extension of NumPy 2 uses, at the indices of its headers.
"""

from __future__ import annotations

import ctypes
import importlib
import struct
import sys
import sysconfig

from ndgrad._src.foundations.locks import compute_once

#: True if Python has no interpreter lock. Walks over lists and dictionaries then need a critical section.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

#: CPython's functions, declared as in LLVM IR.
_PYTHON = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i64 @PyObject_Size(ptr)
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyCell_Get(ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyFunction_GetCode(ptr)
declare ptr @PyFunction_GetDefaults(ptr)
declare ptr @PyFunction_GetKwDefaults(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Format(ptr, ptr, ...)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
"""
_CRITICAL_SECTIONS = """
declare void @PyCriticalSection_Begin(ptr, ptr)
declare void @PyCriticalSection_End(ptr)
"""
#: NumPy's functions, with their indices in its table.
_NUMPY = """
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @PyArray_GetPtr(ptr, ptr)
"""
_INDICES = {"PyArray_GetNDArrayCVersion": 0, "PyArray_NewFromDescr": 94, "PyArray_GetPtr": 160}
_ABI = 0x02000000  # the ABI of NumPy 2

#: All functions, as the head of a module.
DECLARATIONS = _PYTHON + (_CRITICAL_SECTIONS if FREE_THREADED else "") + _NUMPY


def symbols() -> dict[str, int]:
    """Return the address of each declared function."""
    names = [line.partition("@")[2].partition("(")[0] for line in DECLARATIONS.splitlines() if line]
    return {name: numpy_function(name) if name in _INDICES else python_function(name) for name in names}


def python_function(name: str) -> int:
    """Return the address of a function of CPython's interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def numpy_function(name: str) -> int:
    """Return the address of a function of NumPy's interface."""
    core = importlib.import_module("numpy._core._multiarray_umath")  # C extensions find the table here, too
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    get_pointer = prototype(python_function("PyCapsule_GetPointer"))
    table = ctypes.cast(get_pointer(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return table[_INDICES[name]] or 0


@compute_once
def problem() -> str | None:
    """Return the reason why generated code cannot call these functions in this process; None if it can."""
    if sys.implementation.name != "cpython":
        return f"the interpreter is {sys.implementation.name} and not CPython"
    if struct.calcsize("P") != 8:
        return "pointers do not have 64 bits"
    try:
        symbols()
        version = ctypes.CFUNCTYPE(ctypes.c_uint)(numpy_function("PyArray_GetNDArrayCVersion"))()
    except (AttributeError, ImportError, ValueError) as error:
        return f"Python or NumPy has no such function: {error}"
    return None if version == _ABI else f"NumPy has the ABI {version:#x}"
