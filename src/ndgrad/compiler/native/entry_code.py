"""The native half of a call: one function for all compiled functions, which reads tables.

`call` has the signature of a builtin (METH_FASTCALL | METH_KEYWORDS). Its `self` is an array of words that says what
has been compiled; it tries one specialisation after the other: number of arguments, guards row by row, then fresh
arrays for the outputs, the kernel, and tensors around them. What does not fit goes to the Python function that the
table names, or is answered by the table's sentinel.

Since addresses and shapes stand in tables and not in the code, this module is compiled once per machine and kept in
the cache; making an entry for another function compiles nothing.

References: arguments are the caller's, and alive during the call. What a slot holds is not, once another Python thread
may run, so arrays are held from the last guard until the kernel is done. What is fresh belongs to us until it is
handed out, and is let go on every way out.
"""

from __future__ import annotations

import functools

from ndgrad.compiler.native import guards, layout
from ndgrad.compiler.native.ir import Function, module
from ndgrad.compiler.native.target import Code

#: Words of the table behind `self`.
COUNT, SPECIALISATIONS, FALLBACK, SENTINEL = range(4)
TABLE = 4

#: Words of a specialisation.
(
    POSITIONAL, KEYWORDS, GUARDS, GUARD_ROWS, POINTERS, INPUTS, OUTPUTS, OUTPUT_ROWS, FIXED, FIXED_ROWS, KERNEL,
    SCRATCH, SCRATCH_BYTES, SCRATCH_BUSY, RELEASE, AS_TUPLE, NDARRAY, NONE, ERROR, MESSAGE, HITS,
) = range(21)  # fmt: skip
SPECIALISATION = 21

#: Words of an output, and its kinds: a fresh array, an object that is always the same, an argument.
KIND, DTYPE, NDIM, DIMS, CLASS, PAYLOAD, EMPTY_SLOTS, OBJECT, ADDRESS = range(9)
OUTPUT = 16
FRESH, SAME, ARGUMENT = range(3)

_MISS = "inttoptr (i64 1 to ptr)"  # no object lies there
_DECLARED = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i64 @PyObject_Size(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
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


class _Writer(Function):
    """A function over tables of words."""

    def word(self, table: str, index: int | str, type: str = "i64") -> str:
        """A word of a table."""
        return self.set(f"load {type}, ptr {self.address('i64', table, str(index))}")

    def put(self, value: str, table: str, index: int | str, type: str = "i64") -> None:
        self.do(f"store {type} {value}, ptr {self.address('i64', table, str(index))}")

    def at(self, object: str, offset: int | str, type: str = "ptr") -> str:
        """What an object has at a byte."""
        return self.set(f"load {type}, ptr {self.address('i8', object, str(offset))}")

    def row(self, rows: str, number: str, words: int) -> str:
        return self.address("i64", rows, self.set(f"mul i64 {number}, {words}"))

    def unless(self, condition: str, otherwise: str) -> None:
        """Go on if the condition holds, else jump."""
        on = self.fresh("on")
        self.branch(condition, on, otherwise)
        self.label(on)

    def same(self, a: str, b: str, type: str = "ptr") -> str:
        return self.set(f"icmp eq {type} {a}, {b}")

    def is_class(self, object: str, cls: str, otherwise: str) -> None:
        self.unless(self.same(self.at(object, layout.CLASS), cls), otherwise)


def _find() -> Function:
    """ptr find(row, arguments): what is at the place of a row, or null."""
    f = _Writer("find", "ptr %row, ptr %arguments", "ptr", linkage="internal")
    slot, steps = f.set("alloca ptr"), f.word("%row", 3)
    f.do(f"store ptr null, ptr {slot}")
    root, operand = f.word("%row", 1), f.word("%row", 2)
    ways = f"i64 {guards.ARGUMENT}, label %argument i64 {guards.CONTEXT}, label %context"
    f.do(f"switch i64 {root}, label %object [ {ways} ]")
    f.label("argument")
    argument = f.set(f"load ptr, ptr {f.address('ptr', '%arguments', operand)}")
    f.jump("walk")
    f.label("object")
    fixed = f.set(f"inttoptr i64 {operand} to ptr")
    f.jump("walk")
    f.label("context")
    variable = f.set(f"inttoptr i64 {operand} to ptr")
    failed = f.call("i32", "PyContextVar_Get", f"ptr {variable}", "ptr null", f"ptr {slot}")
    held = f.set(f"load ptr, ptr {slot}")
    f.unless(f.same(failed, "0", "i32"), "error")
    f.unless(f.set(f"icmp ne ptr {held}, null"), "missing")
    f.call_void("Py_DecRef", f"ptr {held}")  # the context holds it, and nobody else runs before the guards are done
    inside = f.block
    f.jump("walk")

    f.label("walk")
    first = f.set(f"phi ptr [{argument}, %argument], [{fixed}, %object], [{held}, %{inside}]")
    value = f.carried("ptr", first)
    with f.loop(steps, carried=[value]) as i:
        twice = f.set(f"shl i64 {i}, 1")
        step = f.address("i64", "%row", twice)
        cls, offset = f.word(step, guards.STEPS, "ptr"), f.word(step, guards.STEPS + 1)
        f.branch(f.same(cls, "null"), "item", "slot")
        f.label("item")
        key = f.set(f"inttoptr i64 {offset} to ptr")
        item = f.call("ptr", "PyDict_GetItemWithError", f"ptr {value}", f"ptr {key}")
        f.unless(f.set(f"icmp ne ptr {item}, null"), "error")
        from_item = f.block
        f.jump("stepped")
        f.label("slot")
        f.is_class(str(value), cls, "missing")
        content = f.at(str(value), offset)
        f.unless(f.set(f"icmp ne ptr {content}, null"), "missing")
        from_slot = f.block
        f.jump("stepped")
        f.label("stepped")
        value.next = f.set(f"phi ptr [{item}, %{from_item}], [{content}, %{from_slot}]")
    f.returns(f"ptr {value}")
    f.label("error")
    f.call_void("PyErr_Clear")
    f.jump("missing")
    f.label("missing")
    f.returns("ptr null")
    return f


def _check() -> Function:
    """i1 check(specialisation, arguments, pointers, values, held): whether all guards hold; pointers for the kernel on
    the way."""
    f = _Writer("check", "ptr %spec, ptr %arguments, ptr %pointers, ptr %values, ptr %held", "i1", linkage="internal")
    overflow, count = f.set("alloca i32"), f.set("alloca i64")  # how many pointers have been given
    f.do(f"store i64 0, ptr {count}")
    rows, number = f.word("%spec", GUARD_ROWS, "ptr"), f.word("%spec", GUARDS)
    with f.loop(number) as i:
        row = f.row(rows, i, guards.WORDS)
        kind = f.word(row, 0)
        operand = [guards.OPERANDS + k for k in range(6)]
        f.branch(f.same(kind, str(guards.APART), "i64"), "apart", "look")

        f.label("apart")
        low, high = (f.word("%pointers", f.word(row, operand[k])) for k in (0, 2))
        low_end, high_end = (f.set(f"add i64 {p}, {f.word(row, operand[k])}") for p, k in ((low, 1), (high, 3)))
        before, behind = f.set(f"icmp ule i64 {low_end}, {high}"), f.set(f"icmp ule i64 {high_end}, {low}")
        f.branch(f.set(f"or i1 {before}, {behind}"), "next", "miss")

        f.label("look")
        value = f.call("ptr", "find", f"ptr {row}", "ptr %arguments")
        f.unless(f.set(f"icmp ne ptr {value}, null"), "miss")
        cases = {
            guards.DOUBLE: "double", guards.INTEGER: "integer", guards.IS: "is", guards.EQUAL: "equal",
            guards.BITS: "bits", guards.LENGTH: "length",
        }  # fmt: skip
        f.do(f"switch i64 {kind}, label %array [ {' '.join(f'i64 {k}, label %{name}' for k, name in cases.items())} ]")

        f.label("is")
        found = f.same(value, f.word(row, operand[0], "ptr"))
        wanted = f.set(f"trunc i64 {f.word(row, operand[1])} to i1")
        f.branch(f.same(found, wanted, "i1"), "next", "miss")

        f.label("equal")
        f.is_class(value, f.word(row, operand[0], "ptr"), "miss")
        equal = f.call(
            "i32", "PyObject_RichCompareBool", f"ptr {value}", f"ptr {f.word(row, operand[1], 'ptr')}", "i32 2"
        )
        f.branch(f.same(equal, "1", "i32"), "next", "error")

        f.label("bits")
        f.is_class(value, f.word(row, operand[0], "ptr"), "miss")
        f.branch(f.same(f.at(value, layout.FLOAT, "i64"), f.word(row, operand[1]), "i64"), "next", "miss")

        f.label("length")
        length = f.call("i64", "PyObject_Size", f"ptr {value}")
        f.branch(f.same(length, f.word(row, operand[0]), "i64"), "next", "error")

        f.label("double")
        f.is_class(value, f.word(row, operand[0], "ptr"), "miss")
        double = f.address("i8", value, str(layout.FLOAT))
        from_double = f.block
        f.jump("give")

        f.label("integer")
        f.is_class(value, f.word(row, operand[0], "ptr"), "miss")
        integer = f.call("i64", "PyLong_AsLongLongAndOverflow", f"ptr {value}", f"ptr {overflow}")
        f.unless(f.same(f.set(f"load i32, ptr {overflow}"), "0", "i32"), "miss")
        memory = f.address("i64", "%values", f.set(f"load i64, ptr {count}"))
        f.do(f"store i64 {integer}, ptr {memory}")
        from_integer = f.block
        f.jump("give")

        f.label("array")
        f.branch(f.same(f.at(value, layout.CLASS), f.word("%spec", NDARRAY, "ptr")), "ndarray", "scalar")
        f.label("scalar")  # the class of a scalar is never 0, so 0 admits none
        f.is_class(value, f.word(row, operand[5], "ptr"), "miss")
        scalar = f.address("i8", value, str(layout.SCALAR))
        from_scalar = f.block
        f.jump("give")
        f.label("ndarray")
        f.unless(f.same(f.at(value, layout.DTYPE), f.word(row, operand[0], "ptr")), "miss")
        ndim = f.word(row, operand[1])
        f.unless(f.same(f.set(f"sext i32 {f.at(value, layout.NDIM, 'i32')} to i64"), ndim, "i64"), "miss")
        flags = f.set(f"trunc i64 {f.word(row, operand[2])} to i32")
        f.unless(f.same(f.set(f"and i32 {f.at(value, layout.FLAGS, 'i32')}, {flags}"), flags, "i32"), "miss")
        dims, wanted_dims = f.at(value, layout.DIMS), f.word(row, operand[3], "ptr")
        with f.loop(ndim) as d:
            f.unless(f.same(f.word(dims, d), f.word(wanted_dims, d), "i64"), "miss")
        wanted_strides = f.word(row, operand[4], "ptr")
        f.branch(f.same(wanted_strides, "null"), "lies.right", "strides")
        f.label("strides")
        strides = f.at(value, layout.STRIDES)
        with f.loop(ndim) as d:
            f.unless(f.same(f.word(strides, d), f.word(wanted_strides, d), "i64"), "miss")
        f.jump("lies.right")
        f.label("lies.right")
        data = f.at(value, layout.DATA)
        f.jump("give")

        f.label("give")
        ways = [(double, from_double), (memory, from_integer), (scalar, from_scalar), (data, "lies.right")]
        pointer = f.set("phi ptr " + ", ".join(f"[{p}, %{block}]" for p, block in ways))
        given = f.set(f"load i64, ptr {count}")
        f.put(pointer, "%pointers", given, "ptr")
        f.put(value, "%held", given, "ptr")
        f.do(f"store i64 {f.set(f'add i64 {given}, 1')}, ptr {count}")
        f.jump("next")
        f.label("next")
    f.returns("i1 true")
    f.label("error")  # a comparison may have raised; what is not equal has not
    f.call_void("PyErr_Clear")
    f.jump("miss")
    f.label("miss")
    f.returns("i1 false")
    return f


def _outputs() -> Function:
    """i1 outputs(specialisation, pointers, results): fresh arrays, and the pointers of outputs behind those of inputs.
    False with an error set; what was made is in `results`, and nothing else."""
    f = _Writer("outputs", "ptr %spec, ptr %pointers, ptr %results", "i1", linkage="internal")
    rows, number, first = f.word("%spec", OUTPUT_ROWS, "ptr"), f.word("%spec", OUTPUTS), f.word("%spec", INPUTS)
    with f.loop(number) as i:
        f.put("null", "%results", i, "ptr")
    place = f.carried("i64", first)
    with f.loop(number, carried=[place]) as i:
        row = f.row(rows, i, OUTPUT)
        before = f.block
        f.do(f"switch i64 {f.word(row, KIND)}, label %given [ i64 {FRESH}, label %fresh i64 {SAME}, label %same ]")
        f.label("same")
        f.put(f.word(row, ADDRESS), "%pointers", str(place))
        f.jump("placed")
        f.label("fresh")
        dtype, ndim = f.word(row, DTYPE, "ptr"), f.set(f"trunc i64 {f.word(row, NDIM)} to i32")
        f.call_void("Py_IncRef", f"ptr {dtype}")  # NumPy takes this reference, also if it fails
        ndarray, dims = f.word("%spec", NDARRAY, "ptr"), f.word(row, DIMS, "ptr")
        rest = ("ptr null", "ptr null", "i32 0", "ptr null")  # strides and data are NumPy's to choose; C order
        array = f.call("ptr", "ndgrad_new_array", f"ptr {ndarray}", f"ptr {dtype}", f"i32 {ndim}", f"ptr {dims}", *rest)
        f.unless(f.set(f"icmp ne ptr {array}, null"), "failed")
        f.put(array, "%results", i, "ptr")
        f.put(f.at(array, layout.DATA), "%pointers", str(place), "ptr")
        f.jump("placed")
        f.label("placed")
        following = f.set(f"add i64 {place}, 1")
        f.jump("given")
        f.label("given")
        place.next = f.set(f"phi i64 [{place}, %{before}], [{following}, %placed]")
    fixed, count = f.word("%spec", FIXED_ROWS, "ptr"), f.word("%spec", FIXED)
    with f.loop(count) as i:
        f.put(f.word(fixed, i), "%pointers", f.set(f"add i64 {place}, {i}"))
    f.returns("i1 true")
    f.label("failed")
    f.returns("i1 false")
    return f


def _wrap() -> Function:
    """i1 wrap(specialisation, arguments, results): put a tensor around each fresh array, and take the references of the
    other results."""
    f = _Writer("wrap", "ptr %spec, ptr %arguments, ptr %results", "i1", linkage="internal")
    rows, number, none = f.word("%spec", OUTPUT_ROWS, "ptr"), f.word("%spec", OUTPUTS), f.word("%spec", NONE, "ptr")
    with f.loop(number) as i:
        row = f.row(rows, i, OUTPUT)
        operand = f.word(row, OBJECT)
        f.do(f"switch i64 {f.word(row, KIND)}, label %argument [ i64 {FRESH}, label %fresh i64 {SAME}, label %same ]")
        f.label("argument")
        argument = f.set(f"load ptr, ptr {f.address('ptr', '%arguments', operand)}")
        f.jump("take")
        f.label("same")
        object = f.set(f"inttoptr i64 {operand} to ptr")
        f.jump("take")
        f.label("take")
        taken = f.set(f"phi ptr [{argument}, %argument], [{object}, %same]")
        f.call_void("Py_IncRef", f"ptr {taken}")
        f.put(taken, "%results", i, "ptr")
        f.jump("next")
        f.label("fresh")
        cls = f.word(row, CLASS, "ptr")
        f.branch(f.same(cls, "null"), "next", "tensor")
        f.label("tensor")
        tensor = f.call("ptr", "PyType_GenericAlloc", f"ptr {cls}", "i64 0")
        f.unless(f.set(f"icmp ne ptr {tensor}, null"), "failed")
        f.do(f"store ptr {f.word('%results', i, 'ptr')}, ptr {f.address('i8', tensor, f.word(row, PAYLOAD))}")
        empty = f.word(row, EMPTY_SLOTS, "ptr")  # their number, and their offsets
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
    """ptr attempt(specialisation, arguments, positional, keywords): the result of the call, null with an error set, or
    1 if it is not for this specialisation."""
    f = _Writer("attempt", "ptr %spec, ptr %arguments, i64 %positional, ptr %keywords", "ptr", linkage="internal")
    f.unless(f.same("%positional", f.word("%spec", POSITIONAL), "i64"), "miss")
    wanted = f.word("%spec", KEYWORDS, "ptr")
    f.branch(f.same("%keywords", wanted), "named", "names")
    f.label("names")
    f.unless(f.set("icmp ne ptr %keywords, null"), "miss")
    f.unless(f.set(f"icmp ne ptr {wanted}, null"), "miss")
    equal = f.call("i32", "PyObject_RichCompareBool", "ptr %keywords", f"ptr {wanted}", "i32 2")
    f.branch(f.same(equal, "1", "i32"), "named", "miss")

    f.label("named")
    inputs, number = f.word("%spec", INPUTS), f.word("%spec", OUTPUTS)
    pointers = f.set(f"alloca ptr, i64 {f.word('%spec', POINTERS)}")
    values, held = f.set(f"alloca i64, i64 {inputs}"), f.set(f"alloca ptr, i64 {inputs}")
    results, error = f.set(f"alloca ptr, i64 {number}"), f.set("alloca i64")
    f.unless(
        f.call("i1", "check", "ptr %spec", "ptr %arguments", f"ptr {pointers}", f"ptr {values}", f"ptr {held}"), "miss"
    )
    f.put(f.set(f"add i64 {f.word('%spec', HITS)}, 1"), "%spec", HITS)
    with f.loop(inputs) as i:
        f.call_void("Py_IncRef", f"ptr {f.word(held, i, 'ptr')}")
    f.do(f"store i64 0, ptr {error}")
    f.unless(f.call("i1", "outputs", "ptr %spec", f"ptr {pointers}", f"ptr {results}"), "failed")

    # Scratch memory: ours alone during the call. Another call that is under way has the one that is kept, so this one
    # gets its own.
    bytes = f.word("%spec", SCRATCH_BYTES)
    f.branch(f.same(bytes, "0", "i64"), "no.scratch", "scratch")
    f.label("scratch")
    busy = f.address("i64", "%spec", str(SCRATCH_BUSY))
    was = f.set(f"atomicrmw xchg ptr {busy}, i64 1 acquire")
    kept = f.word("%spec", SCRATCH)
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
    f.put(memory, pointers, f.set(f"sub i64 {f.word('%spec', POINTERS)}, 1"))
    f.jump("run")
    f.label("no.scratch")
    f.jump("run")

    f.label("run")
    to_free = f.set(f"phi ptr [{own}, %scratched], [null, %no.scratch]")
    kernel = f.word("%spec", KERNEL, "ptr")
    f.branch(f.same(f.word("%spec", RELEASE), "0", "i64"), "with.lock", "without.lock")
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
    f.do(f"store atomic i64 0, ptr {f.address('i64', '%spec', str(SCRATCH_BUSY))} release, align 8")
    f.jump("given.back")
    f.label("give.own")
    f.call_void("PyMem_RawFree", f"ptr {to_free}")
    f.jump("given.back")
    f.label("given.back")
    f.do(f"store i64 {code}, ptr {error}")
    f.unless(f.same(code, "0", "i64"), "failed")
    f.unless(f.call("i1", "wrap", "ptr %spec", "ptr %arguments", f"ptr {results}"), "failed")

    # The result: None, one object, or a tuple.
    f.branch(f.same(f.word("%spec", AS_TUPLE), "0", "i64"), "single", "tuple")
    f.label("single")
    f.branch(f.same(number, "0", "i64"), "nothing", "one")
    f.label("nothing")
    none = f.word("%spec", NONE, "ptr")
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
    said, message = f.word("%spec", ERROR, "ptr"), f.word("%spec", MESSAGE, "ptr")
    f.set(f"call ptr (ptr, ptr, ...) @PyErr_Format(ptr {said}, ptr {message}, i64 {f.set(f'load i64, ptr {error}')})")
    f.jump("explained")
    f.label("explained")
    f.jump("done")

    f.label("done")
    ways = [(none, "nothing"), (only, "one"), (tuple, from_tuple), ("null", "explained")]
    result = f.set("phi ptr " + ", ".join(f"[{value}, %{block}]" for value, block in ways))
    with f.loop(inputs) as i:
        f.call_void("Py_DecRef", f"ptr {f.word(held, i, 'ptr')}")
    f.returns(f"ptr {result}")
    f.label("miss")
    f.returns(f"ptr {_MISS}")
    return f


def _call() -> Function:
    """ptr call(self, arguments, positional, keywords): the builtin."""
    f = _Writer("call", "ptr %self, ptr %arguments, i64 %positional, ptr %keywords", "ptr")
    table = f.at("%self", layout.DATA)
    rows, count = f.word(table, SPECIALISATIONS, "ptr"), f.word(table, COUNT)
    with f.loop(count) as i:
        spec = f.word(rows, i, "ptr")
        result = f.call("ptr", "attempt", f"ptr {spec}", "ptr %arguments", "i64 %positional", "ptr %keywords")
        f.branch(f.same(result, _MISS), "next", "answer")
        f.label("answer")
        f.returns(f"ptr {result}")
        f.label("next")
    fallback = f.word(table, FALLBACK, "ptr")
    f.branch(f.same(fallback, "null"), "sentinel", "fallback")
    f.label("fallback")
    answer = f.call(
        "ptr", "PyObject_Vectorcall", f"ptr {fallback}", "ptr %arguments", "i64 %positional", "ptr %keywords"
    )
    f.returns(f"ptr {answer}")
    f.label("sentinel")
    sentinel = f.word(table, SENTINEL, "ptr")
    f.call_void("Py_IncRef", f"ptr {sentinel}")
    f.returns(f"ptr {sentinel}")
    return f


def source() -> str:
    """The module's text."""
    return module([_DECLARED, _find(), _check(), _outputs(), _wrap(), _attempt(), _call()])


@functools.cache
def code() -> Code:
    """The module, compiled. Builtins point into it, so it stays."""
    return Code(source(), level=2, symbols=layout.symbols())
