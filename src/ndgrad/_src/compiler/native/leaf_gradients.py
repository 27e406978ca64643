"""Give the finished gradients of a node to leaves without Python: the end of `backward()` of one compiled call.

`hand_out(node)` is a builtin, which checks for the plain case. No mode is active, and no leaf has a hook. The node has
nothing extra, and has one gradient, with no other reference, for each of its inputs that need one. Its successors are
only leaves, each without a `.grad`, dense in C order, of the gradient's shape and dtype. Then each leaf gets its
gradient as a tensor, and the result is True. Otherwise nothing has changed, the result is False, and the engine does
the work (`accumulate_array` explains the conditions; see its Note [Steal or copy]).

Making a tensor may run the garbage collector, and thereby any code. The leaves are therefore checked again when all
tensors exist. From then on no other code runs, and the interpreter lock makes further locks unnecessary.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.compiler.native import layout
from ndgrad._src.compiler.native.calls import made_builtin
from ndgrad._src.compiler.native.ir import Function, module
from ndgrad._src.compiler.native.tables import TableFunction
from ndgrad._src.compiler.native.target import Code
from ndgrad._src.core.generate import FACES
from ndgrad._src.core.modes import Process, process
from ndgrad._src.core.variable import AccumulateGrad, BareTensor, Meta

#: Words of the table behind `self`.
(
    PROCESS, NODE, TUPLE, END, NDARRAY, META, FACES_OF, GRAD, RESHAPES, NONE, TRUE, FALSE,
) = range(12)  # fmt: skip

#: The low half of an object's reference count. The upper half has flags on newer Pythons.
_COUNT = 0

_DECLARED = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i64 @PySet_Size(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare void @PyErr_Clear()
"""
_FUNCTIONS = ("Py_IncRef", "Py_DecRef", "PySet_Size", "PyDict_GetItemWithError", "PyDict_SetItem",
              "PyObject_GenericGetDict", "PyType_GenericAlloc", "PyErr_Clear")  # fmt: skip


class _Writer(TableFunction):
    """A function over the table, with words for objects."""

    def known(self, word: int) -> str:
        return self.word("%table", word, "ptr")

    def slot(self, object: str, cls: type, name: str) -> str:
        return self.at(object, layout.slot_offset(cls, name))

    def held_once(self, object: str, otherwise: str) -> None:
        self.unless(self.same(self.at(object, _COUNT, "i32"), "1", "i32"), otherwise)

    def item(self, tuple: str, index: str) -> str:
        return self.word(self.address("i8", tuple, str(layout.tuple_items())), index, "ptr")

    def dictionary(self, object: str, otherwise: str) -> str:
        """Return the dictionary of an object, which keeps it alive."""
        found = self.call("ptr", "PyObject_GenericGetDict", f"ptr {object}", "ptr null")
        self.unless(self.set(f"icmp ne ptr {found}, null"), otherwise)
        self.call_void("Py_DecRef", f"ptr {found}")
        return found


def _is_free() -> Function:
    """Write i1 is_free(table, leaf): true if a leaf requires a gradient, has none, and has not changed its shape."""
    f = _Writer("is_free", "ptr %table, ptr %leaf", "i1", linkage="internal")
    none = f.known(NONE)
    f.unless(f.same(f.slot("%leaf", BareTensor, "_node"), none), "no")
    meta = f.slot("%leaf", BareTensor, "_meta")
    f.is_class(meta, f.known(META), "no")
    f.unless(f.same(f.slot(meta, Meta, "requires_grad"), f.known(TRUE)), "no")
    own = f.dictionary(meta, "error")
    f.unless(f.same(f.call("ptr", "PyDict_GetItemWithError", f"ptr {own}", f"ptr {f.known(RESHAPES)}"), "null"), "no")
    grad = f.call("ptr", "PyDict_GetItemWithError", f"ptr {own}", f"ptr {f.known(GRAD)}")
    f.branch(f.either(f.same(grad, "null"), f.same(grad, none)), "yes", "no")
    f.label("yes")
    f.returns("i1 true")
    f.label("error")
    f.call_void("PyErr_Clear")
    f.jump("no")
    f.label("no")
    f.returns("i1 false")
    return f


def _fits() -> Function:
    """Write i1 fits(table, end, gradient): true if a gradient can become that of the leaf at this end of the graph
    unchanged.
    """
    f = _Writer("fits", "ptr %table, ptr %end, ptr %gradient", "i1", linkage="internal")
    leaf = f.slot("%end", AccumulateGrad, "variable")
    array = f.slot(leaf, BareTensor, "_array")
    f.is_class("%gradient", f.known(NDARRAY), "no")
    f.is_class(array, f.known(NDARRAY), "no")
    f.held_once("%gradient", "no")
    f.unless(f.same(f.at("%gradient", layout.BASE), "null"), "no")
    f.unless(f.same(f.at("%gradient", layout.DTYPE), f.slot("%end", AccumulateGrad, "dtype")), "no")
    wanted = layout.C_CONTIGUOUS | layout.WRITEABLE
    for one, flags in (("%gradient", wanted), (array, layout.C_CONTIGUOUS)):
        f.unless(f.same(f.set(f"and i32 {f.at(one, layout.FLAGS, 'i32')}, {flags}"), str(flags), "i32"), "no")
    ndim = f.at("%gradient", layout.NDIM, "i32")
    f.unless(f.same(ndim, f.at(array, layout.NDIM, "i32"), "i32"), "no")
    dims, others = f.at("%gradient", layout.DIMS), f.at(array, layout.DIMS)
    with f.loop(f.set(f"sext i32 {ndim} to i64")) as d:
        f.unless(f.same(f.word(dims, d), f.word(others, d), "i64"), "no")
    f.returns(f"i1 {f.call('i1', 'is_free', 'ptr %table', f'ptr {leaf}')}")
    f.label("no")
    f.returns("i1 false")
    return f


def _tensor() -> Function:
    """Write ptr tensor(table, leaf, array): a tensor over an array, of the class of the leaf's gradients; null if that
    class is unknown.
    """
    f = _Writer("tensor", "ptr %table, ptr %leaf, ptr %array", "ptr", linkage="internal")
    cls = f.at("%leaf", layout.CLASS)
    face = f.call("ptr", "PyDict_GetItemWithError", f"ptr {f.known(FACES_OF)}", f"ptr {cls}")
    f.unless(f.set(f"icmp ne ptr {face}, null"), "error")
    made = f.call("ptr", "PyType_GenericAlloc", f"ptr {face}", "i64 0")
    f.unless(f.set(f"icmp ne ptr {made}, null"), "error")
    none = f.known(NONE)
    for name, value in (("_array", "%array"), ("_node", none), ("_storage", none), ("_meta", none)):
        f.call_void("Py_IncRef", f"ptr {value}")
        f.do(f"store ptr {value}, ptr {f.address('i8', made, str(layout.slot_offset(BareTensor, name)))}")
    f.returns(f"ptr {made}")
    f.label("error")
    f.call_void("PyErr_Clear")
    f.returns("ptr null")
    return f


def _hand_out(node_class: type) -> Function:
    """Write ptr hand_out(self, arguments, positional, keywords): the builtin."""
    f = _Writer("hand_out", "ptr %self, ptr %arguments, i64 %positional, ptr %keywords", "ptr")
    f.do(f"%table = load ptr, ptr {f.address('i8', '%self', str(layout.DATA))}")
    f.unless(f.same("%positional", "1", "i64"), "no")
    node = f.set("load ptr, ptr %arguments")
    f.is_class(node, f.known(NODE), "no")
    for name in ("busy", "leaf_hooks"):
        tokens = f.slot(f.known(PROCESS), Process, name)
        f.unless(f.same(f.call("i64", "PySet_Size", f"ptr {tokens}"), "0", "i64"), "no")
    f.unless(f.same(f.slot(node, node_class, "extra"), f.known(NONE)), "no")
    f.unless(f.same(f.slot(node, node_class, "has_gradients"), f.known(TRUE)), "no")
    ends, gradients = f.slot(node, node_class, "next"), f.slot(node, node_class, "made")
    f.is_class(gradients, f.known(TUPLE), "no")
    f.held_once(gradients, "no")
    count, inputs = f.set("alloca i64"), f.at(ends, layout.LENGTH, "i64")
    wanting = f.set(f"alloca ptr, i64 {inputs}")  # the ends of the graph, without the Nones of data
    f.do(f"store i64 0, ptr {count}")
    with f.loop(inputs) as i:
        end, number = f.item(ends, i), f.set(f"load i64, ptr {count}")
        f.put(end, wanting, number, "ptr")
        f.do(f"store i64 {f.choose(f.same(end, f.known(NONE)), number, f.add(number, 1))}, ptr {count}")
    number = f.set(f"load i64, ptr {count}")
    f.unless(f.same(number, f.at(gradients, layout.LENGTH, "i64"), "i64"), "no")
    with f.loop(number) as i:
        end = f.word(wanting, i, "ptr")
        f.is_class(end, f.known(END), "no")
        f.unless(f.call("i1", "fits", "ptr %table", f"ptr {end}", f"ptr {f.item(gradients, i)}"), "no")

    made = f.set(f"alloca ptr, i64 {number}")
    f.do(f"store i64 0, ptr {count}")
    f.call_void("Py_IncRef", f"ptr {node}")  # keeps the node's objects alive, whatever the collector runs
    with f.loop(number) as i:
        leaf = f.slot(f.word(wanting, i, "ptr"), AccumulateGrad, "variable")
        tensor = f.call("ptr", "tensor", "ptr %table", f"ptr {leaf}", f"ptr {f.item(gradients, i)}")
        f.unless(f.set(f"icmp ne ptr {tensor}, null"), "undo")
        f.put(tensor, made, i, "ptr")
        f.do(f"store i64 {f.set(f'add i64 {i}, 1')}, ptr {count}")
    f.unless(f.same(f.slot(node, node_class, "made"), gradients), "undo")
    with f.loop(number) as i:
        leaf = f.slot(f.word(wanting, i, "ptr"), AccumulateGrad, "variable")
        f.unless(f.call("i1", "is_free", "ptr %table", f"ptr {leaf}"), "undo")
    with f.loop(number) as i:
        leaf = f.slot(f.word(wanting, i, "ptr"), AccumulateGrad, "variable")
        own = f.dictionary(f.slot(leaf, BareTensor, "_meta"), "undo")
        f.call("i32", "PyDict_SetItem", f"ptr {own}", f"ptr {f.known(GRAD)}", f"ptr {f.word(made, i, 'ptr')}")
    with f.loop(number) as i:
        f.call_void("Py_DecRef", f"ptr {f.word(made, i, 'ptr')}")
    f.call_void("Py_DecRef", f"ptr {node}")
    f.call_void("Py_IncRef", f"ptr {f.known(TRUE)}")
    f.returns(f"ptr {f.known(TRUE)}")

    f.label("undo")
    with f.loop(f.set(f"load i64, ptr {count}")) as i:
        f.call_void("Py_DecRef", f"ptr {f.word(made, i, 'ptr')}")
    f.call_void("Py_DecRef", f"ptr {node}")
    f.jump("no")
    f.label("no")
    no = f.known(FALSE)
    f.call_void("Py_IncRef", f"ptr {no}")
    f.returns(f"ptr {no}")
    return f


def source(node_class: type) -> str:
    """Return the module's text."""
    return module([_DECLARED, _is_free(), _fits(), _tensor(), _hand_out(node_class)])


class _Table(np.ndarray[Any, Any]):
    """The words behind the builtin's `self`, and the objects that they reference."""

    keeps: tuple[Any, ...]


@functools.cache
def hand_out(node_class: type) -> Callable[[Any], bool] | None:
    """Return the builtin for nodes of a class with slots `made` and `has_gradients`.

    None if native code may not read objects, or could not tell if an object has other references.
    """
    if layout.problem() is not None or not _counts_are_found():
        return None
    code = Code(source(node_class), level=2, symbols={name: layout.function(name) for name in _FUNCTIONS})
    known = {
        PROCESS: process, NODE: node_class, TUPLE: tuple, END: AccumulateGrad, NDARRAY: np.ndarray, META: Meta,
        FACES_OF: FACES, GRAD: "grad", RESHAPES: "reshapes", NONE: None, TRUE: True, FALSE: False,
    }  # fmt: skip
    table = np.array([id(known[word]) for word in range(len(known))], np.int64).view(_Table)
    made, method = made_builtin("hand_out", code.address("hand_out"), table)
    table.keeps = code, method, tuple(known.values())
    return made


def _counts_are_found() -> bool:
    """True if reference counts and bases have the expected values.

    An array held by one tuple must have a count of one, and one that a variable and a view hold as well a count of
    three. A view must show the owner of its memory.
    """

    def count(holder: tuple[Any, ...]) -> int:
        held = ctypes.c_ssize_t.from_address(id(holder) + layout.tuple_items()).value
        return ctypes.c_uint32.from_address(held).value

    alone, array = (np.zeros(2),), np.zeros(2)
    view = array[:1]
    bases = [ctypes.c_ssize_t.from_address(id(a) + layout.BASE).value for a in (array, view)]
    return count(alone) == 1 and count((array,)) == 3 and bases == [0, id(array)]
