"""Guards on tensors and on memory as native code: one function for each kind.

ndgrad._src.compiler.native.tensor_guards and memory_guards define the rows. No code here runs Python or releases the
interpreter lock, so objects do not change while they are read.
"""

from __future__ import annotations

from ndgrad._src.compiler.native import guards, layout
from ndgrad._src.compiler.native import tensor_guards as tensors
from ndgrad._src.compiler.native.ir import Function
from ndgrad._src.compiler.native.tables import TableFunction
from ndgrad._src.core.variable import BareTensor, Meta
from ndgrad._src.core.versions import Storage
from ndgrad._src.core.view import ViewInfo

_FIRST, _SECOND, _THIRD, _FOURTH = (guards.OPERANDS + k for k in range(4))


def _endings(f: TableFunction) -> None:
    f.returns("i1 true")
    f.label("miss")
    f.returns("i1 false")


def words() -> Function:
    """Write i1 words(row): words at an address."""
    f = TableFunction("words", "ptr %row", "i1", linkage="internal")
    there, count, expected = f.word("%row", _FIRST, "ptr"), f.word("%row", _SECOND), f.word("%row", _THIRD, "ptr")
    with f.loop(count) as i:
        f.unless(f.same(f.word(there, i), f.word(expected, i), "i64"), "miss")
    _endings(f)
    return f


def bytes_() -> Function:
    """Write i1 bytes(row): bytes at an address."""
    f = TableFunction("bytes", "ptr %row", "i1", linkage="internal")
    there, count, expected = f.word("%row", _FIRST, "ptr"), f.word("%row", _SECOND), f.word("%row", _THIRD, "ptr")
    whole = f.set(f"lshr i64 {count}, 3")
    with f.loop(whole) as i:
        now, then = (f.set(f"load i64, ptr {f.address('i64', p, i)}, align 1") for p in (there, expected))
        f.unless(f.same(now, then, "i64"), "miss")
    with f.loop(count, f.set(f"shl i64 {whole}, 3")) as i:
        now, then = (f.set(f"load i8, ptr {f.address('i8', p, i)}") for p in (there, expected))
        f.unless(f.same(now, then, "i8"), "miss")
    _endings(f)
    return f


def items() -> Function:
    """Write i1 items(row): the items of a list."""
    f = TableFunction("items", "ptr %row", "i1", linkage="internal")
    held, count, expected = f.word("%row", _FIRST, "ptr"), f.word("%row", _SECOND), f.word("%row", _THIRD, "ptr")
    f.unless(f.same(f.at(held, layout.LENGTH, "i64"), count, "i64"), "miss")
    first = f.at(held, layout.ITEMS)
    with f.loop(count) as i:
        f.unless(f.same(f.word(first, i), f.word(expected, i), "i64"), "miss")
    _endings(f)
    return f


def entries() -> Function:
    """Write i1 entries(row): the keys and values of a dictionary, in order."""
    f = TableFunction("entries", "ptr %row", "i1", linkage="internal")
    place, key, value = f.set("alloca i64"), f.set("alloca ptr"), f.set("alloca ptr")
    held, count, expected = f.word("%row", _FIRST, "ptr"), f.word("%row", _SECOND), f.word("%row", _THIRD, "ptr")
    f.unless(f.same(f.call("i64", "PyDict_Size", f"ptr {held}"), count, "i64"), "miss")
    f.do(f"store i64 0, ptr {place}")
    with f.loop(count) as i:
        there = f.call("i32", "PyDict_Next", f"ptr {held}", f"ptr {place}", f"ptr {key}", f"ptr {value}")
        f.unless(f.same(there, "1", "i32"), "miss")
        pair = f.row(expected, i, 2)
        f.unless(f.same(f.set(f"load ptr, ptr {key}"), f.word(pair, 0, "ptr")), "miss")
        f.unless(f.same(f.set(f"load ptr, ptr {value}"), f.word(pair, 1, "ptr")), "miss")
    _endings(f)
    return f


def keys() -> Function:
    """Write i1 keys(row, dictionary): the keys of a dictionary, in order."""
    f = TableFunction("keys", "ptr %row, ptr %held", "i1", linkage="internal")
    place, key = f.set("alloca i64"), f.set("alloca ptr")
    count, expected = f.word("%row", _SECOND), f.word("%row", _THIRD, "ptr")
    f.unless(f.same(f.call("i64", "PyDict_Size", "ptr %held"), count, "i64"), "miss")
    f.do(f"store i64 0, ptr {place}")
    with f.loop(count) as i:
        there = f.call("i32", "PyDict_Next", "ptr %held", f"ptr {place}", f"ptr {key}", "ptr null")
        f.unless(f.same(there, "1", "i32"), "miss")
        f.unless(f.same(f.set(f"load ptr, ptr {key}"), f.word(expected, i, "ptr")), "miss")
    _endings(f)
    return f


def names() -> Function:
    """Write i1 names(row): the values of a dictionary under some names, or their absence."""
    f = TableFunction("names", "ptr %row", "i1", linkage="internal")
    held, count = f.word("%row", _FIRST, "ptr"), f.word("%row", _SECOND)
    keys, expected = f.word("%row", _THIRD, "ptr"), f.word("%row", _FOURTH, "ptr")
    with f.loop(count) as i:
        found = f.call("ptr", "PyDict_GetItemWithError", f"ptr {held}", f"ptr {f.word(keys, i, 'ptr')}")
        f.unless(f.same(found, f.word(expected, i, "ptr")), "miss")
    _endings(f)
    return f


def attributes() -> Function:
    """Write i1 attributes(row): the class of an object, and the dictionary of its attributes."""
    f = TableFunction("attributes", "ptr %row", "i1", linkage="internal")
    held, cls, expected = f.word("%row", _FIRST, "ptr"), f.word("%row", _SECOND, "ptr"), f.word("%row", _THIRD, "ptr")
    f.is_class(held, cls, "miss")
    f.branch(f.same(expected, "null"), "good", "dictionary")
    f.label("dictionary")
    found = f.call("ptr", "PyObject_GenericGetDict", f"ptr {held}", "ptr null")
    f.unless(f.set(f"icmp ne ptr {found}, null"), "error")
    f.call_void("Py_DecRef", f"ptr {found}")  # the object keeps it alive
    f.branch(f.same(found, expected), "good", "miss")
    f.label("error")
    f.call_void("PyErr_Clear")
    f.jump("miss")
    f.label("good")
    _endings(f)
    return f


def recorded() -> Function:
    """Write i64 recorded(known, tensor): 1 if a tensor requires grad, 0 if not, 2 if Python must decide."""
    f = TableFunction("recorded", "ptr %known, ptr %tensor", "i64", linkage="internal")
    none = f.word("%known", tensors.NONE, "ptr")
    node, meta = (f.at("%tensor", layout.slot_offset(BareTensor, name)) for name in ("_node", "_meta"))
    f.unless(f.set(f"icmp ne ptr {node}, null"), "unknown")
    f.branch(f.same(node, none), "no.history", "yes")
    f.label("no.history")
    f.branch(f.same(meta, none), "no", "with.meta")
    f.label("with.meta")
    f.unless(f.set(f"icmp ne ptr {meta}, null"), "unknown")
    f.is_class(meta, f.word("%known", tensors.META, "ptr"), "unknown")
    own = f.at(meta, layout.slot_offset(Meta, "requires_grad"))
    f.branch(f.same(own, f.word("%known", tensors.TRUE, "ptr")), "yes", "not.own")
    f.label("not.own")
    f.unless(f.same(own, f.word("%known", tensors.FALSE, "ptr")), "unknown")
    view = f.at(meta, layout.slot_offset(Meta, "view"))
    f.branch(f.same(view, none), "no", "of.a.view")

    # A view whose base requires no grad requires none, even if its history is out of date.
    f.label("of.a.view")
    f.unless(f.set(f"icmp ne ptr {view}, null"), "unknown")
    f.is_class(view, f.word("%known", tensors.VIEW, "ptr"), "unknown")
    base = f.at(view, layout.slot_offset(ViewInfo, "base"))
    f.unless(f.set(f"icmp ne ptr {base}, null"), "unknown")
    f.unless(f.same(f.at(base, layout.slot_offset(BareTensor, "_node")), none), "unknown")
    under = f.at(base, layout.slot_offset(BareTensor, "_meta"))
    f.branch(f.same(under, none), "no", "with.meta.under")
    f.label("with.meta.under")
    f.unless(f.set(f"icmp ne ptr {under}, null"), "unknown")
    f.is_class(under, f.word("%known", tensors.META, "ptr"), "unknown")
    f.unless(
        f.same(f.at(under, layout.slot_offset(Meta, "requires_grad")), f.word("%known", tensors.FALSE, "ptr")),
        "unknown",
    )
    f.branch(f.same(f.at(under, layout.slot_offset(Meta, "view")), none), "no", "unknown")
    for label, answer in (("yes", 1), ("no", 0), ("unknown", 2)):
        f.label(label)
        f.returns(f"i64 {answer}")
    return f


def tensor() -> Function:
    """Write ptr tensor(row, tensor, holder): the data of a tensor that matches, or null. `holder` receives the owner of
    the memory.
    """
    f = TableFunction("tensor", "ptr %row, ptr %tensor, ptr %holder", "ptr", linkage="internal")
    known = f.word("%row", _FIRST, "ptr")
    f.is_class("%tensor", f.word(known, tensors.CLASS, "ptr"), "miss")
    array = f.at("%tensor", layout.slot_offset(BareTensor, "_array"))
    storage = f.at("%tensor", layout.slot_offset(BareTensor, "_storage"))
    f.unless(f.set(f"icmp ne ptr {array}, null"), "miss")
    f.unless(f.set(f"icmp ne ptr {storage}, null"), "miss")
    inference = f.same(f.at(storage, layout.CLASS), f.word(known, tensors.STORAGE, "ptr"))
    f.unless(f.same(f.set(f"zext i1 {inference} to i64"), f.word(known, tensors.INFERENCE), "i64"), "miss")
    requires = f.call("i64", "recorded", f"ptr {known}", "ptr %tensor")
    f.unless(f.same(requires, f.word(known, tensors.RECORDED), "i64"), "miss")
    f.do(f"store ptr {array}, ptr %holder")
    f.branch(f.same(f.at(array, layout.CLASS), f.word(known, tensors.NDARRAY, "ptr")), "ndarray", "scalar")
    f.label("scalar")  # no class is at address 0, so 0 admits none
    f.is_class(array, f.word(known, tensors.SCALAR, "ptr"), "miss")
    f.returns(f"ptr {f.address('i8', array, str(layout.SCALAR))}")
    f.label("ndarray")
    f.unless(f.same(f.at(array, layout.DTYPE), f.word(known, tensors.DTYPE, "ptr")), "miss")
    ndim = f.word(known, tensors.NDIM)
    f.unless(f.same(f.set(f"sext i32 {f.at(array, layout.NDIM, 'i32')} to i64"), ndim, "i64"), "miss")
    aligned = f.set(f"and i32 {f.at(array, layout.FLAGS, 'i32')}, {layout.ALIGNED}")
    f.unless(f.same(aligned, str(layout.ALIGNED), "i32"), "miss")
    dims, strides = f.at(array, layout.DIMS), f.at(array, layout.STRIDES)
    expected = f.address("i64", known, str(tensors.SIZES))
    further = f.address("i64", expected, ndim)
    with f.loop(ndim) as d:
        f.unless(f.same(f.word(dims, d), f.word(expected, d), "i64"), "miss")
        f.unless(f.same(f.word(strides, d), f.word(further, d), "i64"), "miss")
    f.returns(f"ptr {f.at(array, layout.DATA)}")
    f.label("miss")
    f.returns("ptr null")
    return f


def outside() -> Function:
    """Write i1 outside(row, object): true if the object is none of these."""
    f = TableFunction("outside", "ptr %row, ptr %object", "i1", linkage="internal")
    count, others = f.word("%row", _FIRST), f.word("%row", _SECOND, "ptr")
    with f.loop(count) as i:
        f.unless(f.set(f"icmp ne ptr %object, {f.word(others, i, 'ptr')}"), "miss")
    _endings(f)
    return f


def distinct() -> Function:
    """Write i1 distinct(row, objects): true if the first n objects are distinct."""
    f = TableFunction("distinct", "ptr %row, ptr %objects", "i1", linkage="internal")
    count = f.word("%row", _FIRST)
    with f.loop(count) as i:
        one = f.word("%objects", i, "ptr")
        with f.loop(str(i)) as j:
            f.unless(f.set(f"icmp ne ptr {one}, {f.word('%objects', j, 'ptr')}"), "miss")
    _endings(f)
    return f


def is_new() -> Function:
    """Write i1 is_new(met, bits, object), which adds an object to a table of 2^bits words unless it is there."""
    f = TableFunction("is_new", "ptr %met, i64 %bits, i64 %object", "i1", linkage="internal")
    mixed = f.mul("%object", -7046029254386353131)  # the golden ratio: upper bits depend on all below them
    first = f.set(f"lshr i64 {mixed}, {f.sub('64', '%bits')}")
    mask = f.sub(f.set("shl i64 1, %bits"), "1")
    start = f.block
    f.jump("probe")
    f.label("probe")
    at = f.set(f"phi i64 [{first}, %{start}], [%further, %taken]")
    place = f.address("i64", "%met", at)
    there = f.set(f"load i64, ptr {place}")
    f.branch(f.same(there, "0", "i64"), "free", "other")
    f.label("free")
    f.do(f"store i64 %object, ptr {place}")
    f.returns("i1 true")
    f.label("other")
    f.unless(f.set(f"icmp ne i64 {there}, %object"), "known")
    f.jump("taken")
    f.label("taken")
    f.do(f"%further = and i64 {f.add(at, '1')}, {mask}")
    f.jump("probe")
    f.label("known")
    f.returns("i1 false")
    return f


def writable() -> Function:
    """Write i1 writable(row, arrays, tensors): true if each array owns its memory, all are distinct, and some may be
    written.
    """
    f = TableFunction("writable", "ptr %row, ptr %arrays, ptr %tensors", "i1", linkage="internal")
    count, known = f.word("%row", _FIRST), f.word("%row", _SECOND, "ptr")
    met, bits = f.word("%row", _THIRD, "ptr"), f.word("%row", _FOURTH)
    ndarray, none, false = (f.word(known, k, "ptr") for k in (1, 2, 3))
    size = f.set(f"shl i64 8, {bits}")
    f.call_void("llvm.memset.p0.i64", f"ptr {met}", "i8 0", f"i64 {size}", "i1 false")
    with f.loop(count) as i:
        array = f.word("%arrays", i, "ptr")
        f.branch(f.same(f.at(array, layout.CLASS), ndarray), "array", "fine")  # a scalar shares no memory
        f.label("array")
        own = f.set(f"and i32 {f.at(array, layout.FLAGS, 'i32')}, {layout.OWNDATA}")
        f.unless(f.same(own, str(layout.OWNDATA), "i32"), "miss")
        f.unless(f.same(f.at(array, layout.BASE), "null"), "miss")
        f.unless(f.call("i1", "is_new", f"ptr {met}", f"i64 {bits}", f"i64 {f.word('%arrays', i)}"), "miss")
        f.jump("fine")
        f.label("fine")
    numbers, needed = f.address("i64", known, "4"), layout.C_CONTIGUOUS | layout.ALIGNED | layout.WRITEABLE
    with f.loop(f.word(known, 0)) as i:
        number = f.word(numbers, i)
        array, tensor = f.word("%arrays", number, "ptr"), f.word("%tensors", number, "ptr")
        f.is_class(array, ndarray, "miss")
        flags = f.set(f"and i32 {f.at(array, layout.FLAGS, 'i32')}, {needed}")
        f.unless(f.same(flags, str(needed), "i32"), "miss")
        storage = f.at(tensor, layout.slot_offset(BareTensor, "_storage"))
        f.branch(f.same(storage, none), "good", "versions")
        f.label("versions")
        f.branch(f.same(f.at(storage, layout.slot_offset(Storage, "keeps")), false), "good", "miss")
        f.label("good")
    _endings(f)
    return f


def functions() -> list[Function]:
    """Return all functions, callees first."""
    kinds = (
        words, bytes_, items, entries, keys, names, attributes, recorded, tensor, outside, distinct, is_new, writable
    )  # fmt: skip
    return [make() for make in kinds]
