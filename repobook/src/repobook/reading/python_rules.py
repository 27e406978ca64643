"""Rules for Python names that run code, open processes, share state, block or allocate."""

from repobook.reading.rules import Rules, always, in_loop, when_called

RULES = Rules()
_PICKLES = frozenset({"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal"})
_BUILTIN = frozenset({""})
RULES.add(when_called("safety", "dynamic code", "runs text as code", _BUILTIN), "eval", "exec")
RULES.add(when_called("safety", "dynamic code", "compiles text to code", _BUILTIN), "compile", "__import__")
RULES.add(
    when_called("safety", "unpickling", "unpickling runs code that the data names", _PICKLES),
    "load", "loads", "Unpickler",
)  # fmt: skip
RULES.add(
    when_called("safety", "subprocess", "starts another process", frozenset({"subprocess", "sp"})),
    "run", "Popen", "call", "check_call", "check_output", "getoutput",
)  # fmt: skip
RULES.add(when_called("safety", "shell command", "passes text to a shell", frozenset({"os"})), "system", "popen")
RULES.add(
    when_called("safety", "process replacement", "replaces this process", frozenset({"os"})),
    "execv",
    "execve",
    "execvp",
    "fork",
)
RULES.add(always("safety", "raw memory", "touches memory by address"), "ctypes", "c_void_p", "from_address", "data_ptr")
RULES.add(
    when_called("safety", "temporary file", "name can be taken before it is opened", frozenset({"tempfile"})), "mktemp"
)
RULES.add(
    when_called("safety", "yaml load", "can build arbitrary objects unless the loader is safe", frozenset({"yaml"})),
    "load",
    "unsafe_load",
)
RULES.add(
    when_called("performance", "parallel construct", "runs work in threads"),
    "Thread",
    "ThreadPool",
    "ThreadPoolExecutor",
)
RULES.add(
    when_called("performance", "parallel construct", "runs work in processes"), "Process", "Pool", "ProcessPoolExecutor"
)
RULES.add(when_called("performance", "cached", "results are kept"), "lru_cache")
RULES.add(when_called("performance", "blocking call", "waits"), "sleep")
RULES.add(in_loop("performance", "copy in a loop", "deep copy inside a loop"), "deepcopy")
RULES.add(in_loop("performance", "compile in a loop", "same pattern may be compiled each time"), "compile")
RULES.add(when_called("pattern", "lock", "guards shared state"), "Lock", "RLock", "Condition", "Semaphore")
