"""The guards of a call as native code: a loop over rows, each a place and a condition.

ndgrad._src.compiler.native.guards defines the rows. The place where an object was found keeps it alive until Python
runs again. The code therefore takes a reference to the owner of every pointer for the kernel, and releases it if a
later guard fails.
"""

from __future__ import annotations

from ndgrad._src.compiler.native import guards, layout, tables, tensor_guards
from ndgrad._src.compiler.native.ir import Function
from ndgrad._src.compiler.native.tables import TableFunction


def find() -> Function:
    """Write ptr find(row, arguments): the object at the place of a row, or null."""
    f = TableFunction("find", "ptr %row, ptr %arguments", "ptr", linkage="internal")
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
    f.call_void("Py_DecRef", f"ptr {held}")  # the context keeps it alive
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
        f.branch(f.set(f"icmp sge i64 {offset}, 0"), "content", "special")
        f.label("special")
        f.branch(f.same(offset, "-1", "i64"), "attributes", "element")
        f.label("element")
        index = f.set(f"lshr i64 {f.set(f'sub i64 -2, {offset}')}, 1")
        f.unless(f.set(f"icmp slt i64 {index}, {f.at(str(value), layout.LENGTH, 'i64')}"), "missing")
        is_list = f.same(f.set(f"and i64 {offset}, 1"), "1", "i64")
        inside = f.address("i8", str(value), str(layout.tuple_items()))
        start = f.set(f"select i1 {is_list}, ptr {f.at(str(value), layout.ITEMS)}, ptr {inside}")
        element = f.word(start, index, "ptr")
        from_element = f.block
        f.jump("stepped")
        f.label("attributes")
        dictionary = f.call("ptr", "PyObject_GenericGetDict", f"ptr {value}", "ptr null")
        f.unless(f.set(f"icmp ne ptr {dictionary}, null"), "error")
        f.call_void("Py_DecRef", f"ptr {dictionary}")  # the object keeps it alive
        from_attributes = f.block
        f.jump("stepped")
        f.label("content")
        content = f.at(str(value), offset)
        f.unless(f.set(f"icmp ne ptr {content}, null"), "missing")
        from_slot = f.block
        f.jump("stepped")
        f.label("stepped")
        value.next = f.set(
            f"phi ptr [{item}, %{from_item}], [{dictionary}, %{from_attributes}], [{content}, %{from_slot}], "
            f"[{element}, %{from_element}]"
        )
    f.returns(f"ptr {value}")
    f.label("error")
    f.call_void("PyErr_Clear")
    f.jump("missing")
    f.label("missing")
    f.returns("ptr null")
    return f


def check() -> Function:
    """Write i1 check(specialisation, arguments, pointers, values, held, found): true if all guards hold.

    It collects pointers for the kernel, the owners of their memory, and the objects found at their places.
    """
    f = TableFunction(
        "check",
        "ptr %spec, ptr %arguments, ptr %pointers, ptr %values, ptr %held, ptr %found",
        "i1",
        linkage="internal",
    )
    overflow, count = f.set("alloca i32"), f.set("alloca i64")  # number of pointers so far
    owner = f.set("alloca ptr")
    f.do(f"store i64 0, ptr {count}")
    rows, number = f.word("%spec", tables.GUARD_ROWS, "ptr"), f.word("%spec", tables.GUARDS)
    with f.loop(number) as i:
        row = f.row(rows, i, guards.WORDS)
        kind = f.word(row, 0)
        operand = [guards.OPERANDS + k for k in range(6)]
        memory_kinds = {
            guards.WORDS_AT: "words", guards.BYTES: "bytes", guards.ITEMS: "items", guards.ENTRIES: "entries",
            guards.NAMES: "names",
            guards.ATTRIBUTES: "attributes",
        }  # fmt: skip
        apart = {
            guards.APART: "apart",
            guards.DISTINCT: "distinct",
            guards.WRITABLE: "writable",
            **{k: f"at.{name}" for k, name in memory_kinds.items()},
        }
        f.do(f"switch i64 {kind}, label %look [ {' '.join(f'i64 {k}, label %{name}' for k, name in apart.items())} ]")
        for name in memory_kinds.values():
            f.label(f"at.{name}")
            f.branch(f.call("i1", name, f"ptr {row}"), "next", "miss")
        f.label("distinct")
        f.branch(f.call("i1", "distinct", f"ptr {row}", "ptr %found"), "next", "miss")
        f.label("writable")
        f.branch(f.call("i1", "writable", f"ptr {row}", "ptr %held", "ptr %found"), "next", "miss")

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
            guards.BITS: "bits", guards.LENGTH: "length", guards.TENSOR: "tensor", guards.OUTSIDE: "outside",
            guards.KEYS: "keys",
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
        f.is_class(value, f.word(row, operand[1], "ptr"), "miss")
        length = f.call("i64", "PyObject_Size", f"ptr {value}")
        f.branch(f.same(length, f.word(row, operand[0]), "i64"), "next", "miss")

        f.label("keys")
        f.is_class(value, f.word(row, operand[0], "ptr"), "miss")
        f.branch(f.call("i1", "keys", f"ptr {row}", f"ptr {value}"), "next", "miss")

        f.label("outside")
        f.branch(f.call("i1", "outside", f"ptr {row}", f"ptr {value}"), "next", "miss")

        f.label("tensor")
        shown = f.call("ptr", "tensor", f"ptr {row}", f"ptr {value}", f"ptr {owner}")
        f.unless(f.set(f"icmp ne ptr {shown}, null"), "miss")
        from_tensor = f.fresh("from_tensor")
        f.branch(f.same(f.word(f.word(row, operand[0], "ptr"), tensor_guards.GIVES), "0", "i64"), "next", from_tensor)
        f.label(from_tensor)
        memory_of_tensor = f.set(f"load ptr, ptr {owner}")
        f.jump("give")

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
        f.branch(f.same(f.at(value, layout.CLASS), f.word("%spec", tables.NDARRAY, "ptr")), "ndarray", "scalar")
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
        others = ", ".join(f"[{value}, %{block}]" for _, block in ways)
        ways.append((shown, from_tensor))
        pointer = f.set("phi ptr " + ", ".join(f"[{p}, %{block}]" for p, block in ways))
        holder = f.set(f"phi ptr {others}, [{memory_of_tensor}, %{from_tensor}]")
        given = f.set(f"load i64, ptr {count}")
        f.put(pointer, "%pointers", given, "ptr")
        for one, places in ((holder, "%held"), (value, "%found")):
            f.call_void("Py_IncRef", f"ptr {one}")
            f.put(one, places, given, "ptr")
        f.do(f"store i64 {f.set(f'add i64 {given}, 1')}, ptr {count}")
        f.jump("next")
        f.label("next")
    f.returns("i1 true")
    f.label("error")  # a comparison may have raised; an unequal result has not
    f.call_void("PyErr_Clear")
    f.jump("miss")
    f.label("miss")
    with f.loop(f.set(f"load i64, ptr {count}")) as i:
        for places in ("%held", "%found"):
            f.call_void("Py_DecRef", f"ptr {f.word(places, i, 'ptr')}")
    f.returns("i1 false")
    return f
