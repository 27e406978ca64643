"""The native half of a call: one function for all compiled functions, which reads tables.

`call` has the signature of a builtin (METH_FASTCALL | METH_KEYWORDS). Its `self` is an array of words that describes
the compiled code. It tries one specialisation after the other: number of arguments, guards row by row, then fresh
arrays for the outputs, the kernel, and tensors around them. Other calls go to the Python function in the table, or
return the table's sentinel.

Addresses and shapes are in tables and not in the code, so this module is compiled once per machine and cached. Making
an entry for another function compiles nothing.

References: the caller keeps arguments alive during the call. The content of a slot may die once another Python thread
runs, so the guards own references to the objects that they give to the kernel. They are released after the kernel.
Fresh objects are owned here until they are returned, and are released on every error path.
"""

from __future__ import annotations

import functools

from ndgrad._src.compiler.native import guard_code, layout, memory_code, tables
from ndgrad._src.compiler.native.float_status import FLAGGED
from ndgrad._src.compiler.native.ir import Function, module
from ndgrad._src.compiler.native.tables import TableFunction
from ndgrad._src.compiler.native.target import Code

_MISS = "inttoptr (i64 1 to ptr)"  # never the address of an object
_DECLARED = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i64 @PyObject_Size(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyErr_NoMemory()
declare ptr @PyErr_Format(ptr, ptr, ...)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare ptr @ndgrad_new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
"""


def _outputs() -> Function:
    """Write i1 outputs(specialisation, pointers, results): fresh arrays, and the pointers of outputs after those of
    inputs.

    It returns false with an error set; `results` then holds only the arrays made so far.
    """
    f = TableFunction("outputs", "ptr %spec, ptr %pointers, ptr %results", "i1", linkage="internal")
    rows, number, first = (
        f.word("%spec", tables.OUTPUT_ROWS, "ptr"),
        f.word("%spec", tables.OUTPUTS),
        f.word("%spec", tables.INPUTS),
    )
    with f.loop(number) as i:
        f.put("null", "%results", i, "ptr")
    place = f.carried("i64", first)
    with f.loop(number, carried=[place]) as i:
        row = f.row(rows, i, tables.OUTPUT)
        before = f.block
        ways = f"i64 {tables.FRESH}, label %fresh i64 {tables.SAME}, label %same"
        f.do(f"switch i64 {f.word(row, tables.KIND)}, label %given [ {ways} ]")
        f.label("same")
        f.branch(f.same(f.word(row, tables.ADDRESS), "0", "i64"), "given", "written")
        f.label("written")
        f.put(f.word(row, tables.ADDRESS), "%pointers", str(place))
        f.jump("placed")
        f.label("fresh")
        dtype, ndim = f.word(row, tables.DTYPE, "ptr"), f.set(f"trunc i64 {f.word(row, tables.NDIM)} to i32")
        f.call_void("Py_IncRef", f"ptr {dtype}")  # NumPy takes this reference, also if it fails
        ndarray, dims = f.word("%spec", tables.NDARRAY, "ptr"), f.word(row, tables.DIMS, "ptr")
        rest = ("ptr null", "ptr null", "i32 0", "ptr null")  # NumPy chooses strides and data; C order
        array = f.call("ptr", "ndgrad_new_array", f"ptr {ndarray}", f"ptr {dtype}", f"i32 {ndim}", f"ptr {dims}", *rest)
        f.unless(f.set(f"icmp ne ptr {array}, null"), "failed")
        f.put(array, "%results", i, "ptr")
        f.put(f.at(array, layout.DATA), "%pointers", str(place), "ptr")
        f.jump("placed")
        f.label("placed")
        following = f.set(f"add i64 {place}, 1")
        f.jump("given")
        f.label("given")
        place.next = f.set(f"phi i64 [{place}, %{before}], [{place}, %same], [{following}, %placed]")
    fixed, count = f.word("%spec", tables.FIXED_ROWS, "ptr"), f.word("%spec", tables.FIXED)
    with f.loop(count) as i:
        f.put(f.word(fixed, i), "%pointers", f.set(f"add i64 {place}, {i}"))
    f.returns("i1 true")
    f.label("failed")
    f.returns("i1 false")
    return f


def _wrap() -> Function:
    """Write i1 wrap(specialisation, arguments, found, results), which puts a tensor around each fresh array, and takes
    references to the other results.
    """
    f = TableFunction("wrap", "ptr %spec, ptr %arguments, ptr %found, ptr %results", "i1", linkage="internal")
    rows, number, none = (
        f.word("%spec", tables.OUTPUT_ROWS, "ptr"),
        f.word("%spec", tables.OUTPUTS),
        f.word("%spec", tables.NONE, "ptr"),
    )
    with f.loop(number) as i:
        row = f.row(rows, i, tables.OUTPUT)
        operand = f.word(row, tables.OBJECT)
        ways = f"i64 {tables.FRESH}, label %fresh i64 {tables.SAME}, label %same i64 {tables.GUARDED}, label %guarded"
        f.do(f"switch i64 {f.word(row, tables.KIND)}, label %argument [ {ways} ]")
        f.label("guarded")
        guarded = f.set(f"load ptr, ptr {f.address('ptr', '%found', operand)}")
        f.jump("take")
        f.label("argument")
        argument = f.set(f"load ptr, ptr {f.address('ptr', '%arguments', operand)}")
        f.jump("take")
        f.label("same")
        object = f.set(f"inttoptr i64 {operand} to ptr")
        f.jump("take")
        f.label("take")
        taken = f.set(f"phi ptr [{argument}, %argument], [{object}, %same], [{guarded}, %guarded]")
        f.call_void("Py_IncRef", f"ptr {taken}")
        f.put(taken, "%results", i, "ptr")
        f.jump("next")
        f.label("fresh")
        cls = f.word(row, tables.CLASS, "ptr")
        f.branch(f.same(cls, "null"), "next", "tensor")
        f.label("tensor")
        tensor = f.call("ptr", "PyType_GenericAlloc", f"ptr {cls}", "i64 0")
        f.unless(f.set(f"icmp ne ptr {tensor}, null"), "failed")
        f.do(f"store ptr {f.word('%results', i, 'ptr')}, ptr {f.address('i8', tensor, f.word(row, tables.PAYLOAD))}")
        empty = f.word(row, tables.EMPTY_SLOTS, "ptr")  # their number, and their offsets
        with f.loop(f.word(empty, 0)) as k:
            f.call_void("Py_IncRef", f"ptr {none}")
            offset = f.word(f.address("i64", empty, "1"), k)
            f.do(f"store ptr {none}, ptr {f.address('i8', tensor, offset)}")
        f.put(tensor, "%results", i, "ptr")
        f.jump("next")
        f.label("next")
    f.returns("i1 true")
    f.label("failed")
    f.returns("i1 false")
    return f


def _attempt() -> Function:
    """Write ptr attempt(specialisation, arguments, positional, keywords): the result of the call, null with an error
    set, or 1 if the specialisation does not match.
    """
    f = TableFunction("attempt", "ptr %spec, ptr %arguments, i64 %positional, ptr %keywords", "ptr", linkage="internal")
    f.unless(f.same("%positional", f.word("%spec", tables.POSITIONAL), "i64"), "miss")
    wanted = f.word("%spec", tables.KEYWORDS, "ptr")
    f.branch(f.same("%keywords", wanted), "named", "names")
    f.label("names")
    f.unless(f.set("icmp ne ptr %keywords, null"), "miss")
    f.unless(f.set(f"icmp ne ptr {wanted}, null"), "miss")
    equal = f.call("i32", "PyObject_RichCompareBool", "ptr %keywords", f"ptr {wanted}", "i32 2")
    f.branch(f.same(equal, "1", "i32"), "named", "miss")

    f.label("named")
    inputs, number = f.word("%spec", tables.INPUTS), f.word("%spec", tables.OUTPUTS)
    pointers = f.set(f"alloca ptr, i64 {f.word('%spec', tables.POINTERS)}")
    values, held = f.set(f"alloca i64, i64 {inputs}"), f.set(f"alloca ptr, i64 {inputs}")
    found = f.set(f"alloca ptr, i64 {inputs}")
    results, error = f.set(f"alloca ptr, i64 {number}"), f.set("alloca i64")
    places = (f"ptr {pointers}", f"ptr {values}", f"ptr {held}", f"ptr {found}")
    f.unless(f.call("i1", "check", "ptr %spec", "ptr %arguments", *places), "miss")
    f.put(f.set(f"add i64 {f.word('%spec', tables.HITS)}, 1"), "%spec", tables.HITS)
    f.do(f"store i64 0, ptr {error}")
    f.unless(f.call("i1", "outputs", "ptr %spec", f"ptr {pointers}", f"ptr {results}"), "failed")

    # Scratch memory is exclusive during a call. If another call uses the kept memory, this one allocates its own.
    bytes = f.word("%spec", tables.SCRATCH_BYTES)
    f.branch(f.same(bytes, "0", "i64"), "no.scratch", "scratch")
    f.label("scratch")
    busy = f.word("%spec", tables.SCRATCH_BUSY, "ptr")
    was = f.set(f"atomicrmw xchg ptr {busy}, i64 1 acquire")
    kept = f.word("%spec", tables.SCRATCH)
    f.branch(f.same(was, "0", "i64"), "scratched", "borrow")
    f.label("borrow")
    fresh = f.call("ptr", "PyMem_RawMalloc", f"i64 {f.set(f'add i64 {bytes}, 64')}")
    f.unless(f.set(f"icmp ne ptr {fresh}, null"), "no.memory")
    up = f.set(f"add i64 {f.set(f'ptrtoint ptr {fresh} to i64')}, 63")
    borrowed = f.set(f"and i64 {up}, -64")
    from_borrow = f.block
    f.jump("scratched")
    f.label("scratched")
    memory = f.set(f"phi i64 [{kept}, %scratch], [{borrowed}, %{from_borrow}]")
    own = f.set(f"phi ptr [null, %scratch], [{fresh}, %{from_borrow}]")
    f.put(memory, pointers, f.set(f"sub i64 {f.word('%spec', tables.POINTERS)}, 1"))
    f.jump("run")
    f.label("no.scratch")
    f.jump("run")

    f.label("run")
    to_free = f.set(f"phi ptr [{own}, %scratched], [null, %no.scratch]")
    kernel = f.word("%spec", tables.KERNEL, "ptr")
    f.branch(f.same(f.word("%spec", tables.RELEASE), "0", "i64"), "with.lock", "without.lock")
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
    f.branch(f.same(bytes, "0", "i64"), "given.back", "give.back")
    f.label("give.back")
    f.branch(f.same(to_free, "null"), "give.kept", "give.own")
    f.label("give.kept")
    f.do(f"store atomic i64 0, ptr {f.word('%spec', tables.SCRATCH_BUSY, 'ptr')} release, align 8")
    f.jump("given.back")
    f.label("give.own")
    f.call_void("PyMem_RawFree", f"ptr {to_free}")
    f.jump("given.back")
    f.label("given.back")
    f.do(f"store i64 {code}, ptr {error}")
    f.unless(f.same(code, "0", "i64"), "failed")
    f.unless(f.call("i1", "wrap", "ptr %spec", "ptr %arguments", f"ptr {found}", f"ptr {results}"), "failed")

    # The result is None, one object, or a tuple.
    f.branch(f.same(f.word("%spec", tables.AS_TUPLE), "0", "i64"), "single", "tuple")
    f.label("single")
    f.branch(f.same(number, "0", "i64"), "nothing", "one")
    f.label("nothing")
    none = f.word("%spec", tables.NONE, "ptr")
    f.call_void("Py_IncRef", f"ptr {none}")
    f.jump("done")
    f.label("one")
    only = f.word(results, 0, "ptr")
    f.jump("done")
    f.label("tuple")
    tuple = f.call("ptr", "PyTuple_New", f"i64 {number}")
    f.unless(f.set(f"icmp ne ptr {tuple}, null"), "failed")
    with f.loop(number) as i:
        f.call("i32", "PyTuple_SetItem", f"ptr {tuple}", f"i64 {i}", f"ptr {f.word(results, i, 'ptr')}")
    from_tuple = f.block
    f.jump("done")

    f.label("no.memory")
    f.call("ptr", "PyErr_NoMemory")
    f.jump("failed")
    f.label("failed")
    with f.loop(number) as i:
        made = f.word(results, i, "ptr")
        f.branch(f.same(made, "null"), "kept", "let.go")
        f.label("let.go")
        f.call_void("Py_DecRef", f"ptr {made}")
        f.jump("kept")
        f.label("kept")
    f.branch(f.same(f.call("ptr", "PyErr_Occurred"), "null"), "unexplained", "explained")
    f.label("unexplained")
    f.branch(f.same(f.set(f"load i64, ptr {error}"), str(FLAGGED), "i64"), "flagged", "said")
    f.label("flagged")
    f.jump("done")
    f.label("said")
    said, message = f.word("%spec", tables.ERROR, "ptr"), f.word("%spec", tables.MESSAGE, "ptr")
    f.set(f"call ptr (ptr, ptr, ...) @PyErr_Format(ptr {said}, ptr {message}, i64 {f.set(f'load i64, ptr {error}')})")
    f.jump("explained")
    f.label("explained")
    f.jump("done")

    f.label("done")
    ways = [(none, "nothing"), (only, "one"), (tuple, from_tuple), ("null", "explained"), (_MISS, "flagged")]
    result = f.set("phi ptr " + ", ".join(f"[{value}, %{block}]" for value, block in ways))
    with f.loop(inputs) as i:
        for owned in (held, found):
            f.call_void("Py_DecRef", f"ptr {f.word(owned, i, 'ptr')}")
    f.returns(f"ptr {result}")
    f.label("miss")
    f.returns(f"ptr {_MISS}")
    return f


def _call() -> Function:
    """Write ptr call(self, arguments, positional, keywords): the builtin."""
    f = TableFunction("call", "ptr %self, ptr %arguments, i64 %positional, ptr %keywords", "ptr")
    table = f.at("%self", layout.DATA)
    rows, count = f.word(table, tables.SPECIALISATIONS, "ptr"), f.word(table, tables.COUNT)

    def inside(change: int) -> None:
        """Count the calls that may read rows, so that Python knows when it may free replaced rows."""
        f.put(f.set(f"add i64 {f.word(table, tables.INSIDE)}, {change}"), table, tables.INSIDE)

    inside(1)
    with f.loop(count) as i:
        spec = f.word(rows, i, "ptr")
        result = f.call("ptr", "attempt", f"ptr {spec}", "ptr %arguments", "i64 %positional", "ptr %keywords")
        f.branch(f.same(result, _MISS), "next", "answer")
        f.label("answer")
        inside(-1)
        f.returns(f"ptr {result}")
        f.label("next")
    inside(-1)
    fallback = f.word(table, tables.FALLBACK, "ptr")
    f.branch(f.same(fallback, "null"), "sentinel", "fallback")
    f.label("fallback")
    answer = f.call(
        "ptr", "PyObject_Vectorcall", f"ptr {fallback}", "ptr %arguments", "i64 %positional", "ptr %keywords"
    )
    f.returns(f"ptr {answer}")
    f.label("sentinel")
    sentinel = f.word(table, tables.SENTINEL, "ptr")
    f.call_void("Py_IncRef", f"ptr {sentinel}")
    f.returns(f"ptr {sentinel}")
    return f


def _nothing() -> Function:
    """Write i64 nothing(pointers): the kernel of entries that only test guards."""
    f = Function("nothing", "ptr %pointers", "i64")
    f.returns("i64 0")
    return f


def source() -> str:
    """Return the module's text."""
    guards = [*memory_code.functions(), guard_code.find(), guard_code.check(), _nothing()]
    return module([_DECLARED, *guards, _outputs(), _wrap(), _attempt(), _call()])


@functools.cache
def code() -> Code:
    """Return the compiled module. It is never freed, because builtins point into it."""
    return Code(source(), level=2, symbols=layout.symbols())
