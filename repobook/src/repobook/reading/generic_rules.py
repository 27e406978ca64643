"""Rules for names of JavaScript and TypeScript, Java, Go, Rust and shell; languages without an entry have none."""

from repobook.reading.rules import Rules, always, in_loop, when_called

_PLAIN = frozenset({""})

_SCRIPT = Rules()
_SCRIPT.add(when_called("safety", "dynamic code", "runs text as code", _PLAIN), "eval", "Function")
_SCRIPT.add(
    when_called("safety", "subprocess", "starts another process"),
    "execSync",
    "execFile",
    "execFileSync",
    "spawn",
    "spawnSync",
)
_SCRIPT.add(always("safety", "markup from text", "text becomes markup"), "innerHTML", "outerHTML", "insertAdjacentHTML")
_SCRIPT.add(always("safety", "prototype", "changes what an object inherits"), "__proto__", "setPrototypeOf")
_SCRIPT.add(when_called("safety", "raw memory", "memory that is not cleared"), "allocUnsafe")
_SCRIPT.add(when_called("performance", "parallel construct", "runs work in threads"), "Worker")
_SCRIPT.add(in_loop("performance", "compile in a loop", "same pattern may be compiled each time"), "RegExp")

_JAVA = Rules()
_JAVA.add(when_called("safety", "unpickling", "deserialising runs code that the data names"), "readObject")
_JAVA.add(always("safety", "subprocess", "starts another process"), "ProcessBuilder")
_JAVA.add(when_called("safety", "dynamic code", "loads a class by its name"), "forName", "loadClass")
_JAVA.add(
    always("safety", "thread-shared state", "seen by all threads"), "volatile", "AtomicInteger", "AtomicReference"
)
_JAVA.add(when_called("performance", "blocking call", "waits"), "sleep")

_GO = Rules()
_GO.add(always("safety", "raw memory", "goes around the types"), "unsafe")
_GO.add(when_called("safety", "subprocess", "starts another process", frozenset({"exec"})), "Command", "CommandContext")
_GO.add(always("safety", "thread-shared state", "guards shared state"), "Mutex", "RWMutex")
_GO.add(when_called("safety", "exception safety", "ends the program unless it is recovered", _PLAIN), "panic")
_GO.add(in_loop("performance", "compile in a loop", "same pattern may be compiled each time"), "MustCompile")

_RUST = Rules()
_RUST.add(
    always("safety", "raw memory", "goes around the types"), "transmute", "from_raw_parts", "from_raw", "MaybeUninit"
)
_RUST.add(when_called("safety", "exception safety", "ends the program where there is no value"), "unwrap", "expect")
_RUST.add(
    always("safety", "thread-shared state", "shared state behind a lock or an atomic"), "Mutex", "RwLock", "AtomicUsize"
)
_RUST.add(when_called("performance", "parallel construct", "runs work in threads"), "spawn", "par_iter")
_RUST.add(in_loop("performance", "copy in a loop", "copies inside a loop"), "clone", "to_vec", "to_owned")

_SHELL = Rules()
_SHELL.add(always("safety", "dynamic code", "runs text as code"), "eval")

RULES = {
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "java": _JAVA,
    "go": _GO,
    "rust": _RUST,
    "bash": _SHELL,
}
