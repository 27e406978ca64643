"""Generated code of four builtins: `call` runs a kernel on arrays, `unchanged` compares captured state, `fill` sets
missing entries of dictionaries, and `addresses` returns the addresses of arrays.

The kernel `nothing` is for calls that only check their inputs.

The first three read a table of words, which Python fills (ndgrad._src.compiler.native.calls). Addresses and shapes are in tables
and not in the code, so this module is compiled once per machine and cached.

The code uses documented functions only (ndgrad._src.compiler.native.c_interface). The shape and memory of an array come
from the buffer protocol. Its structure `Py_buffer` is part of Python's stable ABI.

References: the caller of a builtin keeps the arguments alive. A table keeps the objects alive that it names. New arrays
belong to the tuple of results, which is released on every error path.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ndgrad._src.compiler.native.c_interface import DECLARATIONS, FREE_THREADED
from ndgrad._src.compiler.native.ir import Function, module

#: Objects that every table refers to.
NDARRAY, DTYPE_NAME, STRIDES_NAME, NONE, TRUE, FALSE, ERROR, MESSAGE = range(8)
#: Words of the table of a call. ORDER is the address of a flag and of the numbers of the inputs, or 0.
(
    OBJECTS, INPUTS, INPUT_ROWS, OUTPUTS, OUTPUT_ROWS, FIXED, FIXED_ROWS, POINTERS, KERNEL, RELEASE, SCRATCH,
    SCRATCH_BYTES, SCRATCH_BUSY, ORDER,
) = range(14)  # fmt: skip
#: Words of an input. SIZES is the address of its dimensions and strides. STRIDES is a tuple or 0.
DTYPE, SCALAR, NDIM, SIZES, STRIDES, ALIGNMENT, WRITTEN = range(7)
INPUT = 8
#: Words of an output.
OUTPUT_DTYPE, OUTPUT_NDIM, OUTPUT_SIZES = range(3)
OUTPUT = 4
#: Words of the table of a comparison, after OBJECTS.
CHECKS, CHECK_ROWS = 1, 2
#: Word of the table of `fill`, after OBJECTS.
NAME = 1
#: Words of a check, and its kinds. The first four call a function of one or two objects. It returns a new reference, or
#: a borrowed one, or null.
KIND, FUNCTION, OWNER, KEY, EXPECTED, COUNT = range(6)
CHECK = 8
GET, GET_BY_KEY, PEEK, PEEK_BY_KEY, VARIABLE, LENGTH, ITEMS, ENTRIES, KEYS, CONTENT = range(10)

_STRIDED = 0x18  # PyBUF_STRIDES
_EQUAL = 2  # Py_EQ
_MEMORY, _LENGTH, _READONLY, _NDIM, _SHAPE, _STRIDES = 0, 2, 4, 5, 7, 8  # members of Py_buffer
_HEAD = """
%Py_buffer = type { ptr, ptr, i64, i64, i32, i32, ptr, ptr, ptr, ptr, ptr }
@zeros = private constant [64 x i64] zeroinitializer
define i64 @nothing(ptr %pointers) {
  ret i64 0
}
"""


class _Writer(Function):
    """A function over tables of words."""

    def word(self, table: str, index: int | str, type: str = "i64") -> str:
        return self.set(f"load {type}, ptr {self.address('i64', table, str(index))}")

    def store_word(self, value: str, table: str, index: int | str, type: str = "i64") -> None:
        self.do(f"store {type} {value}, ptr {self.address('i64', table, str(index))}")

    def member(self, view: str, number: int, type: str) -> str:
        """Load a member of a Py_buffer."""
        return self.set(f"load {type}, ptr {self.set(f'getelementptr %Py_buffer, ptr {view}, i32 0, i32 {number}')}")

    def row(self, rows: str, number: str, words: int) -> str:
        return self.address("i64", rows, self.mul(number, words))

    def same(self, a: str, b: str, type: str = "ptr") -> str:
        return self.set(f"icmp eq {type} {a}, {b}")

    def unless(self, condition: str, otherwise: str) -> None:
        """Continue if the condition holds, else jump."""
        on = self.fresh("on")
        self.branch(condition, on, otherwise)
        self.label(on)

    def get_attribute(self, object: str, name: str) -> str:
        """Read an attribute that another object keeps alive, or null."""
        found = self.call("ptr", "PyObject_GetAttr", f"ptr {object}", f"ptr {name}")
        self.call_void("Py_DecRef", f"ptr {found}")
        return found

    @contextmanager
    def locked(self, object: str) -> Iterator[None]:
        """Keep other threads from changing a list or dictionary. With an interpreter lock, none runs meanwhile."""
        if FREE_THREADED:
            section = self.set("alloca [8 x i64]")
            self.call_void("PyCriticalSection_Begin", f"ptr {section}", f"ptr {object}")
        yield
        if FREE_THREADED:
            self.call_void("PyCriticalSection_End", f"ptr {section}")


def _array() -> Function:
    """Write ptr array(objects, row, array, end): the memory of an array or NumPy scalar that fits, else null. The end of
    its memory is stored at `end`.

    NumPy gives every contiguous array the strides of C order. Strides of dimensions with one element may differ from
    those, so STRIDES compares them as well where that matters.
    """
    f = _Writer("array", "ptr %objects, ptr %row, ptr %array, ptr %end", "ptr", linkage="internal")
    view = f.set("alloca %Py_buffer")
    cls = f.call("ptr", "PyObject_Type", "ptr %array")
    f.call_void("Py_DecRef", f"ptr {cls}")
    f.branch(f.same(cls, f.word("%objects", NDARRAY, "ptr")), "ndarray", "scalar")
    f.label("scalar")  # its class implies its dtype; no class is at address 0
    f.branch(f.same(cls, f.word("%row", SCALAR, "ptr")), "read", "miss")
    f.label("ndarray")
    dtype = f.get_attribute("%array", f.word("%objects", DTYPE_NAME, "ptr"))
    f.branch(f.same(dtype, f.word("%row", DTYPE, "ptr")), "read", "miss")

    f.label("read")
    failed = f.call("i32", "PyObject_GetBuffer", "ptr %array", f"ptr {view}", f"i32 {_STRIDED}")
    f.unless(f.same(failed, "0", "i32"), "miss")
    memory, ndim = f.member(view, _MEMORY, "ptr"), f.set(f"sext i32 {f.member(view, _NDIM, 'i32')} to i64")
    f.do(f"store ptr {f.ahead(memory, f.member(view, _LENGTH, 'i64'))}, ptr %end")
    wanted, sizes = f.word("%row", NDIM), f.word("%row", SIZES, "ptr")
    has_ndim = f.same(ndim, wanted, "i64")
    fits = f.carry("i1", has_ndim)
    shape, strides = f.member(view, _SHAPE, "ptr"), f.member(view, _STRIDES, "ptr")
    with f.loop(f.choose(has_ndim, wanted, 0), carried=[fits]) as d:
        has_size = f.same(f.word(shape, d), f.word(sizes, d), "i64")
        has_stride = f.same(f.word(strides, d), f.word(sizes, f.add(d, wanted)), "i64")
        fits.next = f.both(str(fits), f.both(has_size, has_stride))
    address = f.set(f"ptrtoint ptr {memory} to i64")
    is_aligned = f.same(f.set(f"and i64 {address}, {f.word('%row', ALIGNMENT)}"), "0", "i64")
    readonly = f.set(f"sext i32 {f.member(view, _READONLY, 'i32')} to i64")
    may_write = f.same(f.set(f"and i64 {readonly}, {f.word('%row', WRITTEN)}"), "0", "i64")
    f.call_void("PyBuffer_Release", f"ptr {view}")
    f.unless(f.both(str(fits), f.both(is_aligned, may_write)), "miss")
    exact = f.word("%row", STRIDES, "ptr")
    f.branch(f.same(exact, "null"), "fit", "compare")
    f.label("compare")
    found = f.call("ptr", "PyObject_GetAttr", "ptr %array", f"ptr {f.word('%objects', STRIDES_NAME, 'ptr')}")
    f.unless(f.set(f"icmp ne ptr {found}, null"), "miss")
    equal = f.call("i32", "PyObject_RichCompareBool", f"ptr {found}", f"ptr {exact}", f"i32 {_EQUAL}")
    f.call_void("Py_DecRef", f"ptr {found}")
    f.branch(f.same(equal, "1", "i32"), "fit", "miss")
    f.label("fit")
    f.returns(f"ptr {memory}")
    f.label("miss")
    f.call_void("PyErr_Clear")
    f.returns("ptr null")
    return f


def _are_apart() -> Function:
    """Write i1 are_apart(table, pointers, ends): true if no two inputs share memory.

    The inputs are sorted by address. The order is kept from call to call, and insertion takes little time if it is
    nearly right. Two calls at once cannot both use it: the second one gets false.
    """
    f = _Writer("are_apart", "ptr %table, ptr %pointers, ptr %ends", "i1", linkage="internal")
    flag, number = f.word("%table", ORDER, "ptr"), f.word("%table", INPUTS)
    order = f.address("i64", flag, "1")
    f.unless(f.same(f.set(f"atomicrmw xchg ptr {flag}, i64 1 acquire"), "0", "i64"), "busy")
    with f.loop(number, start="1") as i:
        moved = f.word(order, i)
        start = f.word("%pointers", moved)
        before = f.block
        f.jump("shift")
        f.label("shift")
        place = f.set(f"phi i64 [{i}, %{before}], [%lower, %further]")
        f.branch(f.compare("eq", place, 0), "insert", "look")
        f.label("look")
        f.do(f"%lower = sub i64 {place}, 1")
        other = f.word(order, "%lower")
        f.branch(f.set(f"icmp ugt i64 {f.word('%pointers', other)}, {start}"), "further", "insert")
        f.label("further")
        f.store_word(other, order, place)
        f.jump("shift")
        f.label("insert")
        f.store_word(moved, order, place)
    apart = f.carry("i1", "true")
    with f.loop(number, start="1", carried=[apart]) as i:
        end, start = f.word("%ends", f.word(order, f.sub(i, 1))), f.word("%pointers", f.word(order, i))
        apart.next = f.both(str(apart), f.set(f"icmp ule i64 {end}, {start}"))
    f.do(f"store atomic i64 0, ptr {flag} release, align 8")
    f.returns(f"i1 {apart}")
    f.label("busy")
    f.returns("i1 false")
    return f


def _call(flagged: int) -> Function:
    """Write ptr call(self, arrays, count): a tuple of new arrays, None if an array does not fit or if the kernel returns
    `flagged`, or null with an error.
    """
    f = _Writer("call", "ptr %self, ptr %arrays, i64 %count", "ptr")
    f.do("%table = call ptr @PyLong_AsVoidPtr(ptr %self)")
    objects, inputs, number = f.word("%table", OBJECTS, "ptr"), f.word("%table", INPUTS), f.word("%table", POINTERS)
    f.unless(f.same("%count", inputs, "i64"), "miss")
    pointers, ends = f.set(f"alloca ptr, i64 {number}"), f.set(f"alloca ptr, i64 {inputs}")
    rows = f.word("%table", INPUT_ROWS, "ptr")
    with f.loop(inputs) as i:
        given = [f"ptr {objects}", f"ptr {f.row(rows, i, INPUT)}", f"ptr {f.word('%arrays', i, 'ptr')}"]
        memory = f.call("ptr", "array", *given, f"ptr {f.address('i64', ends, i)}")
        f.unless(f.set(f"icmp ne ptr {memory}, null"), "miss")
        f.store_word(memory, pointers, i, "ptr")
    f.branch(f.same(f.word("%table", ORDER), "0", "i64"), "apart", "compare")
    f.label("compare")
    f.branch(f.call("i1", "are_apart", "ptr %table", f"ptr {pointers}", f"ptr {ends}"), "apart", "miss")

    f.label("apart")
    outputs, rows = f.word("%table", OUTPUTS), f.word("%table", OUTPUT_ROWS, "ptr")
    results = f.call("ptr", "PyTuple_New", f"i64 {outputs}")
    f.unless(f.set(f"icmp ne ptr {results}, null"), "out.of.memory")
    with f.loop(outputs) as i:
        row = f.row(rows, i, OUTPUT)
        dtype, ndim = f.word(row, OUTPUT_DTYPE, "ptr"), f.set(f"trunc i64 {f.word(row, OUTPUT_NDIM)} to i32")
        f.call_void("Py_IncRef", f"ptr {dtype}")  # NumPy takes this reference, also if it fails
        kind = [f"ptr {f.word(objects, NDARRAY, 'ptr')}", f"ptr {dtype}", f"i32 {ndim}"]
        rest = ["ptr null", "ptr null", "i32 0", "ptr null"]  # NumPy chooses strides and data; C order
        sizes = f"ptr {f.word(row, OUTPUT_SIZES, 'ptr')}"
        array = f.call("ptr", "PyArray_NewFromDescr", *kind, sizes, *rest)
        f.unless(f.set(f"icmp ne ptr {array}, null"), "failed")
        f.call("i32", "PyTuple_SetItem", f"ptr {results}", f"i64 {i}", f"ptr {array}")
        memory = f.call("ptr", "PyArray_GetPtr", f"ptr {array}", "ptr @zeros")
        f.store_word(memory, pointers, f.add(inputs, i), "ptr")
    fixed, after = f.word("%table", FIXED_ROWS, "ptr"), f.add(inputs, outputs)
    with f.loop(f.word("%table", FIXED)) as i:
        f.store_word(f.word(fixed, i), pointers, f.add(after, i))

    # Scratch memory is exclusive during a call. If another call uses the kept memory, this one allocates its own.
    busy, bytes = f.word("%table", SCRATCH_BUSY, "ptr"), f.word("%table", SCRATCH_BYTES)
    was = f.set(f"atomicrmw xchg ptr {busy}, i64 1 acquire")
    kept = f.word("%table", SCRATCH)
    free = f.block
    f.branch(f.same(was, "0", "i64"), "run", "borrow")
    f.label("borrow")
    own = f.call("ptr", "PyMem_RawMalloc", f"i64 {f.add(bytes, 64)}")
    f.unless(f.set(f"icmp ne ptr {own}, null"), "no.scratch")
    up = f.add(f.set(f"ptrtoint ptr {own} to i64"), 63)
    borrowed = f.set(f"and i64 {up}, -64")
    owning = f.block
    f.jump("run")
    f.label("run")
    scratch = f.set(f"phi i64 [{kept}, %{free}], [{borrowed}, %{owning}]")
    to_free = f.set(f"phi ptr [null, %{free}], [{own}, %{owning}]")
    f.store_word(scratch, pointers, f.sub(number, 1))
    kernel = f.word("%table", KERNEL, "ptr")
    f.branch(f.same(f.word("%table", RELEASE), "0", "i64"), "with.lock", "without.lock")
    f.label("with.lock")
    code_with = f.set(f"call i64 {kernel}(ptr {pointers})")
    f.jump("ran")
    f.label("without.lock")
    thread = f.call("ptr", "PyEval_SaveThread")
    code_without = f.set(f"call i64 {kernel}(ptr {pointers})")
    f.call_void("PyEval_RestoreThread", f"ptr {thread}")
    f.jump("ran")
    f.label("ran")
    code = f.set(f"phi i64 [{code_with}, %with.lock], [{code_without}, %without.lock]")
    f.branch(f.same(to_free, "null"), "give.back", "free")
    f.label("give.back")
    f.do(f"store atomic i64 0, ptr {busy} release, align 8")
    f.jump("finished")
    f.label("free")
    f.call_void("PyMem_RawFree", f"ptr {to_free}")
    f.jump("finished")
    f.label("finished")
    f.unless(f.same(code, "0", "i64"), "no.success")
    f.returns(f"ptr {results}")

    f.label("no.success")
    f.unless(f.same(f.call("ptr", "PyErr_Occurred"), "null"), "failed")
    f.branch(f.same(code, str(flagged), "i64"), "drop", "unexplained")
    f.label("drop")
    f.call_void("Py_DecRef", f"ptr {results}")
    f.jump("miss")
    f.label("unexplained")
    error, message = f.word(objects, ERROR, "ptr"), f.word(objects, MESSAGE, "ptr")
    f.set(f"call ptr (ptr, ptr, ...) @PyErr_Format(ptr {error}, ptr {message}, i64 {code})")
    f.jump("failed")
    f.label("no.scratch")
    f.call("ptr", "PyErr_NoMemory")
    f.jump("failed")
    f.label("failed")
    f.call_void("Py_DecRef", f"ptr {results}")
    f.jump("out.of.memory")
    f.label("out.of.memory")
    f.returns("ptr null")
    f.label("miss")
    none = f.word(objects, NONE, "ptr")
    f.call_void("Py_IncRef", f"ptr {none}")
    f.returns(f"ptr {none}")
    return f


def _items() -> Function:
    """Write i1 items(list, count, expected): true if a list has exactly these items."""
    f = _Writer("items", "ptr %list, i64 %count, ptr %expected", "i1", linkage="internal")
    with f.locked("%list"):
        has_length = f.same(f.call("i64", "PyList_Size", "ptr %list"), "%count", "i64")
        fits = f.carry("i1", has_length)
        with f.loop(f.choose(has_length, "%count", 0), carried=[fits]) as i:
            found = f.call("ptr", "PyList_GetItem", "ptr %list", f"i64 {i}")
            fits.next = f.both(str(fits), f.same(found, f.word("%expected", i, "ptr")))
    f.returns(f"i1 {fits}")
    return f


def _entries(name: str, has_values: bool) -> Function:
    """Write i1 entries(dictionary, count, expected): true if a dictionary has exactly these keys, in this order, each
    with its value. Without values, only the keys are compared.
    """
    f = _Writer(name, "ptr %dictionary, i64 %count, ptr %expected", "i1", linkage="internal")
    position, key, value = f.set("alloca i64"), f.set("alloca ptr"), f.set("alloca ptr")
    f.do(f"store i64 0, ptr {position}")
    with f.locked("%dictionary"):
        has_size = f.same(f.call("i64", "PyDict_Size", "ptr %dictionary"), "%count", "i64")
        fits = f.carry("i1", has_size)
        with f.loop(f.choose(has_size, "%count", 0), carried=[fits]) as i:
            where = [f"ptr {p}" for p in (position, key, value)]
            found = f.call("i32", "PyDict_Next", "ptr %dictionary", *where)
            good = f.both(str(fits), f.same(found, "1", "i32"))
            row = f.row("%expected", i, 2 if has_values else 1)
            for number, part in enumerate((key, value) if has_values else (key,)):
                good = f.both(good, f.same(f.set(f"load ptr, ptr {part}"), f.word(row, number, "ptr")))
            fits.next = good
    f.returns(f"i1 {fits}")
    return f


def _content() -> Function:
    """Write i1 content(objects, array, row, count, expected): true if an array fits, and its memory holds these bytes.
    """
    f = _Writer("content", "ptr %objects, ptr %array, ptr %row, i64 %count, ptr %expected", "i1", linkage="internal")
    end = f.set("alloca ptr")
    memory = f.call("ptr", "array", "ptr %objects", "ptr %row", "ptr %array", f"ptr {end}")
    f.unless(f.set(f"icmp ne ptr {memory}, null"), "no")
    with f.loop("%count") as i:
        now, then = (f.set(f"load i8, ptr {f.address('i8', p, i)}") for p in (memory, "%expected"))
        f.unless(f.same(now, then, "i8"), "no")
    f.returns("i1 true")
    f.label("no")
    f.returns("i1 false")
    return f


def _unchanged() -> Function:
    """Write ptr unchanged(self, arguments, count): True if all checks hold, else False."""
    f = _Writer("unchanged", "ptr %self, ptr %arguments, i64 %count", "ptr")
    f.do("%table = call ptr @PyLong_AsVoidPtr(ptr %self)")
    objects, rows = f.word("%table", OBJECTS, "ptr"), f.word("%table", CHECK_ROWS, "ptr")
    value = f.set("alloca ptr")
    with f.loop(f.word("%table", CHECKS)) as i:
        row = f.row(rows, i, CHECK)
        function, owner, key, expected = (f.word(row, n, "ptr") for n in (FUNCTION, OWNER, KEY, EXPECTED))
        count = f.word(row, COUNT)
        names = {
            GET: "get", GET_BY_KEY: "get.by.key", PEEK: "peek", PEEK_BY_KEY: "peek.by.key",
            VARIABLE: "variable", LENGTH: "length", ITEMS: "items", ENTRIES: "entries", KEYS: "keys",
        }  # fmt: skip
        ways = " ".join(f"i64 {kind}, label %{name}" for kind, name in names.items())
        f.do(f"switch i64 {f.word(row, KIND)}, label %content [ {ways} ]")
        for name, arguments in (("get", f"ptr {owner}"), ("get.by.key", f"ptr {owner}, ptr {key}")):
            f.label(name)
            found = f.set(f"call ptr {function}({arguments})")
            f.call_void("Py_DecRef", f"ptr {found}")
            f.unless(f.same(found, expected), "no")
            f.branch(f.same(found, "null"), "nothing", "next")
        for name, arguments in (("peek", f"ptr {owner}"), ("peek.by.key", f"ptr {owner}, ptr {key}")):
            f.label(name)
            f.branch(f.same(f.set(f"call ptr {function}({arguments})"), expected), "next", "no")
        f.label("variable")
        f.do(f"store ptr null, ptr {value}")
        f.call("i32", "PyContextVar_Get", f"ptr {owner}", "ptr null", f"ptr {value}")
        found = f.set(f"load ptr, ptr {value}")
        f.call_void("Py_DecRef", f"ptr {found}")
        f.branch(f.same(found, expected), "next", "no")
        f.label("length")
        f.branch(f.same(f.call("i64", "PyObject_Size", f"ptr {owner}"), count, "i64"), "next", "no")
        for name in ("items", "entries", "keys"):
            f.label(name)
            f.branch(f.call("i1", name, f"ptr {owner}", f"i64 {count}", f"ptr {expected}"), "next", "no")
        f.label("content")
        known = [f"ptr {p}" for p in (objects, owner, key)]
        f.branch(f.call("i1", "content", *known, f"i64 {count}", f"ptr {expected}"), "next", "no")
        f.label("nothing")  # an empty slot is an error of the function, and expected here
        f.call_void("PyErr_Clear")
        f.jump("next")
        f.label("next")
    _write_answers(f, objects)
    return f


def _fill() -> Function:
    """Write ptr fill(self, arguments, count): for dictionaries and values in turn, set a name in each dictionary to its
    value, and return True. If one of them has a value other than None, return False; nothing is set then.

    No Python code runs meanwhile. With an interpreter lock, no other thread sees a part of the change.
    """
    f = _Writer("fill", "ptr %self, ptr %arguments, i64 %count", "ptr")
    f.do("%table = call ptr @PyLong_AsVoidPtr(ptr %self)")
    objects, name = f.word("%table", OBJECTS, "ptr"), f.word("%table", NAME, "ptr")
    none = f.word(objects, NONE, "ptr")
    with f.loop("%count", step="2") as i:
        found = f.call("ptr", "PyDict_GetItemWithError", f"ptr {f.word('%arguments', i, 'ptr')}", f"ptr {name}")
        f.unless(f.either(f.same(found, "null"), f.same(found, none)), "no")
    with f.loop("%count", step="2") as i:
        dictionary, value = f.word("%arguments", i, "ptr"), f.word("%arguments", f.add(i, 1), "ptr")
        failed = f.call("i32", "PyDict_SetItem", f"ptr {dictionary}", f"ptr {name}", f"ptr {value}")
        f.unless(f.same(failed, "0", "i32"), "failed")
    _write_answers(f, objects)
    f.label("failed")
    f.returns("ptr null")
    return f


def _addresses() -> Function:
    """Write ptr addresses(self, arrays, count): a tuple with the address of the first element of each array."""
    f = _Writer("addresses", "ptr %self, ptr %arrays, i64 %count", "ptr")
    view = f.set("alloca %Py_buffer")
    results = f.call("ptr", "PyTuple_New", "i64 %count")
    f.unless(f.set(f"icmp ne ptr {results}, null"), "out.of.memory")
    with f.loop("%count") as i:
        array = f"ptr {f.word('%arrays', i, 'ptr')}"
        failed = f.call("i32", "PyObject_GetBuffer", array, f"ptr {view}", f"i32 {_STRIDED}")
        f.unless(f.same(failed, "0", "i32"), "failed")
        number = f.call("ptr", "PyLong_FromVoidPtr", f"ptr {f.member(view, _MEMORY, 'ptr')}")
        f.call_void("PyBuffer_Release", f"ptr {view}")
        f.unless(f.set(f"icmp ne ptr {number}, null"), "failed")
        f.call("i32", "PyTuple_SetItem", f"ptr {results}", f"i64 {i}", f"ptr {number}")
    f.returns(f"ptr {results}")
    f.label("failed")
    f.call_void("Py_DecRef", f"ptr {results}")
    f.jump("out.of.memory")
    f.label("out.of.memory")
    f.returns("ptr null")
    return f


def _write_answers(f: _Writer, objects: str) -> None:
    """Return True here, and False at the label `no`."""
    for label, word in (("yes", TRUE), ("no", FALSE)):
        if label == "yes":
            f.jump(label)
        f.label(label)
        if label == "no":
            f.call_void("PyErr_Clear")
        answer = f.word(objects, word, "ptr")
        f.call_void("Py_IncRef", f"ptr {answer}")
        f.returns(f"ptr {answer}")


def source(flagged: int) -> str:
    """Return the text of the module. `flagged` is the result of a kernel whose call is to be repeated by other means."""
    inner = [_array(), _are_apart(), _items(), _entries("entries", True), _entries("keys", False), _content()]
    return module([DECLARATIONS + _HEAD, *inner, _call(flagged), _unchanged(), _fill(), _addresses()])
