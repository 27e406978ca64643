"""Rules for C and C++ names: raw memory, casts, locks, the GIL, parallel and vector constructs, RAII, registries."""

from repobook.reading.rules import Rules, always, either, in_loop, when_called

RULES = Rules()
RULES.add(
    when_called("safety", "raw memory", "copies or sets bytes without a check of the size"),
    "memcpy",
    "memmove",
    "memset",
)
RULES.add(when_called("safety", "raw memory", "manual allocation"), "malloc", "calloc", "realloc", "free", "alloca")
RULES.add(
    when_called("safety", "unchecked size", "string function without a bound"),
    "strcpy",
    "strcat",
    "sprintf",
    "gets",
    "vsprintf",
)
RULES.add(when_called("safety", "unchecked conversion", "text to number without an error"), "atoi", "atol", "atof")
RULES.add(always("safety", "cast", "reinterprets memory as another type"), "reinterpret_cast")
RULES.add(always("safety", "cast", "removes const"), "const_cast")
RULES.add(when_called("safety", "shell command", "passes text to a shell"), "system", "popen")
for _name in ("Py_INCREF", "Py_XINCREF", "Py_DECREF", "Py_XDECREF", "Py_CLEAR", "Py_NewRef"):
    RULES.add(always("safety", "manual reference count", f"{_name}: a reference is counted by hand"), _name)
RULES.add(always("safety", "exception boundary", "C++ exceptions end here and become Python's"), "END_HANDLE_TH_ERRORS")
RULES.add(always("safety", "thread-shared state", "one per thread"), "thread_local")
RULES.add(always("safety", "thread-shared state", "atomic state"), "atomic", "atomic_flag", "atomic_bool")
RULES.add(
    either(
        in_loop("performance", "lock in a loop", "takes a lock inside a loop"),
        always("safety", "lock", "takes a lock"),
    ),
    "lock_guard", "unique_lock", "scoped_lock", "shared_lock",
)  # fmt: skip
RULES.add(
    always("performance", "GIL", "releases the GIL"),
    "gil_scoped_release",
    "Py_BEGIN_ALLOW_THREADS",
    "AutoNoGIL",
    "PyEval_SaveThread",
)
RULES.add(always("performance", "GIL", "takes the GIL"), "gil_scoped_acquire", "PyGILState_Ensure", "AutoGIL")
RULES.add(
    when_called("performance", "parallel construct", "splits the range over threads"), "parallel_for", "parallel_reduce"
)
RULES.add(always("performance", "vectorised construct", "SIMD vectors"), "Vectorized", "vectorized_loop_pipe")
RULES.add(in_loop("performance", "allocation in a loop", "allocates inside a loop"), "make_shared", "make_unique")
RULES.add(
    in_loop("performance", "allocation in a loop", "grows a container inside a loop"), "push_back", "emplace_back"
)
