"""Execute programs, each in a world of its own, eagerly and compiled, and compare all that can be seen."""

from __future__ import annotations

import contextlib
import contextvars
import decimal
import gc
import io
import linecache
import logging
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ndgrad
from ndgrad import nn
from ndgrad._src.compiler.runtime.native_call import NativeCall
from ndgrad._src.compiler.runtime.specialization import Specialisation
from ndgrad._src.core import modes as ndgrad_modes
from ndgrad._src.foundations.pytree import tree_flatten
from ndgrad.nn.modules import hooks as module_hooks
from ndgrad.optim import optimizer as optimizers
from tests.programs.world.observe import Fact, describe, difference, plain_text

FILE = "program.py"
#: Modules and classes whose names programs replace.
PATCHED: tuple[Any, ...] = (
    ndgrad, nn.functional, np, __import__("math"), time, __import__("builtins"), random, ndgrad.Tensor,
)  # fmt: skip
#: A folder in memory, where there is one.
FAST_FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
OWN_MODULES = re.compile(r"(other|pkg|extra|made|program)\d*(\.\w+)?$")


class Counts:
    """Return the number of runs of compiled programs."""

    compiled = 0


def count_calls(cls: Any, name: str) -> None:
    call = getattr(cls, name)

    def count(self: Any, *args: Any) -> Any:
        found = call(self, *args)
        Counts.compiled += 1
        return found

    count.is_counting = True  # type: ignore[attr-defined]
    setattr(cls, name, count)


@contextlib.contextmanager
def counting() -> Iterator[None]:
    """A block in which `Counts` counts the calls that run compiled."""
    originals = [(cls, name, getattr(cls, name)) for cls, name in ((Specialisation, "__call__"), (NativeCall, "finish"))]
    for cls, name, _ in originals:
        count_calls(cls, name)
    try:
        yield
    finally:
        for cls, name, call in originals:
            setattr(cls, name, call)


@dataclass
class Run:
    """The facts that one execution showed, in groups: one for each call, one for each change that failed."""

    events: list[list[Fact]] = field(default_factory=list)
    calls: int = 0
    compiled: int = 0
    traces: int = 0
    seconds: float = 0.0


class LogHandler(logging.Handler):
    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self.seen = seen

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(f"{record.name} {record.levelname} {record.getMessage()}")


class Observer:
    """Wrapper that a program calls: it notes all state after each call of the function."""

    def __init__(self, run: Run, caught: list[Any]) -> None:
        self.run = run
        self.caught = caught
        self.stdout = io.StringIO()
        self.stderr = io.StringIO()
        self.log: list[str] = []
        self.watched: list[tuple[str, Callable[[], Any]]] = []
        self.earlier: list[Any] = []

    # ----- for the program --------------------------------------------------------------------------------------------

    def watch(self, label: str, look: Callable[[], Any]) -> None:
        self.watched.append((label, look))

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if isinstance(error, Exception):
            self.run.events.append([("change", "error", error_text(error))])
            return True
        return False

    def call(self, f: Any, *args: Any, then: str = "") -> None:
        run, facts = self.run, list[Fact]()
        before = Counts.compiled
        begun = time.perf_counter()
        result = None
        try:
            result = f(*args)
        except Exception as error:
            facts.append(("error", "raised", error_text(error)))
        else:
            facts.append(("error", "raised", None))
        run.seconds += time.perf_counter() - begun
        run.calls += 1
        run.compiled += Counts.compiled > before
        self.note_output(facts)
        describe(result, "result", facts)
        tensors = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, ndgrad.Tensor)]
        self.note_aliases(tensors, args, facts)
        if then:
            try:
                self.use(tensors, args, then, facts)
            except Exception as error:
                facts.append((then, "error", error_text(error)))
            self.note_output(facts)
            describe(result, f"result after {then}", facts)
        for i, arg in enumerate(args):
            describe(arg, f"argument {i}", facts)
        for label, look in self.watched:
            try:
                describe(look(), f"state of {label}", facts)
            except Exception as error:
                facts.append((f"state of {label}", "error", error_text(error)))
        self.note_output(facts)
        self.earlier = [*tensors, *self.earlier][:3]
        run.events.append(facts)

    # ----- looking ----------------------------------------------------------------------------------------------------

    def note_output(self, facts: list[Fact]) -> None:
        for name, stream in (("stdout", self.stdout), ("stderr", self.stderr)):
            facts.append((name, "text", plain_text(stream.getvalue())))
            stream.seek(0)
            stream.truncate()
        facts.append(("log", "records", "\n".join(self.log)))
        self.log.clear()
        seen = [
            f"{w.category.__name__}: {w.message}"
            for w in self.caught
            if w.category is not ResourceWarning and not str(w.message).startswith("<compiled ")  # the warning about a slow function
        ]
        facts.append(("warnings", "number", f"{len(seen)}: " + "; ".join(text[:70] for text in seen)))
        facts.append(("warnings", "text", plain_text("\n".join(seen))))
        self.caught.clear()

    def note_aliases(self, tensors: list[Any], args: tuple[Any, ...], facts: list[Fact]) -> None:
        """Return the results that are arguments, earlier results or each other, or share memory with them."""
        others = [(f"argument {i}", a) for i, a in enumerate(args) if isinstance(a, ndgrad.Tensor)]
        others += [(f"earlier result {i}", t) for i, t in enumerate(self.earlier)]
        others += [(f"result {i}", t) for i, t in enumerate(tensors)]
        for i, t in enumerate(tensors):
            found = []
            for name, other in others:
                if t is other:
                    found.append(f"is {name}")
                elif np.shares_memory(t.detach()._array, other.detach()._array):
                    found.append(f"shares memory with {name}")
            facts.append((f"result {i}", "alias", found))

    def use(self, tensors: list[Any], args: tuple[Any, ...], then: str, facts: list[Fact]) -> None:
        if then == "write":
            for t in tensors[:1]:
                t.detach().add_(1)
            return
        roots = [t for t in tensors if t.requires_grad]
        if not roots:
            return
        loss = roots[0].sum()
        leaves = [a for a in args if isinstance(a, ndgrad.Tensor) and a.requires_grad]
        if then == "backward":
            loss.backward()
        elif leaves:
            describe(list(ndgrad.autograd.grad(loss, leaves, allow_unused=True)), "gradient", facts)


def error_text(error: BaseException) -> str:
    return plain_text(f"{type(error).__name__}: {error}")


# ----- one world -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kept_names() -> Iterator[None]:
    """Put back names that a program replaces in modules, and modules that it adds."""
    spaces = [(holder, dict(vars(holder))) for holder in PATCHED]
    modules, made = set(sys.modules), set(vars(sys))
    hooks = [(d, dict(d)) for d in global_hooks()]
    try:
        yield
    finally:
        for holder, space in spaces:
            now = vars(holder)
            for name in [n for n in list(now) if n not in space and (n in ("bonus",) or now[n] is None)]:
                delattr(holder, name)
            for name, value in space.items():
                if now.get(name) is not value:
                    setattr(holder, name, value)
        for name in set(sys.modules) - modules:
            if OWN_MODULES.match(name):
                del sys.modules[name]
        for name in set(vars(sys)) - made:
            if name.startswith("made"):
                delattr(sys, name)
        for d, before in hooks:
            d.clear()
            d.update(before)


def global_hooks() -> list[dict[Any, Any]]:
    found: list[dict[Any, Any]] = []
    for holder in (module_hooks.of_all, optimizers._STEP_HOOKS):
        values = holder.values() if isinstance(holder, dict) else vars(holder).values()
        found += [holder] if isinstance(holder, dict) else []
        found += [v for v in values if isinstance(v, dict)]
    return found


@contextlib.contextmanager
def kept_process() -> Iterator[None]:
    """Put back the state of the process that programs change."""
    environ, folder, argv, path = dict(os.environ), os.getcwd(), list(sys.argv), list(sys.path)
    limit, errors, printing = sys.getrecursionlimit(), np.geterr(), np.get_printoptions()
    handler, mask, name, precision = (
        signal.getsignal(signal.SIGUSR1),
        os.umask(0o22),
        threading.current_thread().name,
        decimal.getcontext().prec,
    )
    is_collecting, dtype = gc.isenabled(), ndgrad.get_default_dtype()
    ndgrad.set_default_dtype(ndgrad.float32)
    own = tempfile.mkdtemp(prefix="world-", dir=FAST_FOLDER)
    os.chdir(own)
    try:
        yield
    finally:
        os.chdir(folder)
        shutil.rmtree(own, ignore_errors=True)
        for key in set(os.environ) - set(environ):
            del os.environ[key]
        os.environ.update(environ)
        sys.argv[:], sys.path[:] = argv, path
        sys.setrecursionlimit(limit)
        np.seterr(**errors)
        np.set_printoptions(**printing)
        signal.signal(signal.SIGUSR1, handler)
        os.umask(mask)
        threading.current_thread().name = name
        decimal.getcontext().prec = precision
        gc.enable() if is_collecting else gc.disable()
        ndgrad.set_default_dtype(dtype)
        for logger in [n for n in logging.Logger.manager.loggerDict if n.startswith("program")]:
            del logging.Logger.manager.loggerDict[logger]


def seed_all() -> None:
    random.seed(0)
    np.random.seed(0)
    ndgrad.manual_seed(0)


def execute(source: str, compile: Callable[..., Any]) -> Run:
    """The run of a program in a world of its own."""
    run = Run()
    streams = sys.stdout, sys.stderr
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with kept_names(), kept_process(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # it comes when the garbage collector runs
        observer = Observer(run, caught)
        sys.stdout, sys.stderr = observer.stdout, observer.stderr
        root.handlers[:], root.level = [LogHandler(observer.log)], logging.WARNING
        seed_all()
        module = types.ModuleType("program")
        module.__file__ = FILE
        sys.modules["program"] = module
        linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
        try:
            exec(builtin_compile(source, FILE, "exec"), vars(module))
            module.main(compile, observer.call, observer, observer.watch)
        except Exception as error:
            run.events.append([("program", "error", error_text(error))])
            run.events[-1].append(("program", "line", traceback.extract_tb(error.__traceback__)[-1].lineno))
        finally:
            sys.stdout, sys.stderr = streams
            root.handlers[:], root.level = handlers, level
            linecache.cache.pop(FILE, None)
    return run


def builtin_compile(source: str, file: str, mode: str) -> Any:
    return __builtins__["compile"](source, file, mode) if isinstance(__builtins__, dict) else __builtins__.compile(source, file, mode)


def in_context(source: str, compile: Callable[..., Any]) -> Run:
    """The run of a program in a copy of the context."""
    try:
        return contextvars.copy_context().run(execute, source, compile)
    finally:
        state = ndgrad_modes.modes()
        if not state.grad_enabled or state.entered:
            ndgrad_modes.restore(ndgrad_modes.NONE)


# ----- two worlds ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """The first difference between eager and compiled, after which both were left."""

    where: str
    respect: str
    message: str
    #: the number of the call
    turn: int

    @property
    def symptom(self) -> str:
        """The kind of difference, without names and numbers of the program."""
        if self.where == "error":
            return "error " + re.sub(r"error, raised: ", "", self.message)[:90]
        where = re.sub(r"\[.*?\]|\.\w+|\d+", "", self.where).strip()
        where = "state" if where.startswith("state of") else where
        if where == "warnings":
            kinds = sorted(set(re.findall(r"\w+Warning: \w+ \w+", self.message)))
            return f"warnings: {self.respect}, {', '.join(kinds)}"
        return f"{where}: {self.respect}"


@dataclass(frozen=True)
class Outcome:
    difference: Difference | None
    calls: int = 0
    compiled: int = 0
    traces: int = 0
    eager_s: float = 0.0
    compiled_s: float = 0.0
    #: an error of the program itself, and how many calls raise eagerly
    error: str = ""
    raised: int = 0


def check(source: str, is_native: bool = False, second: Callable[..., Any] | None = None) -> Outcome:
    """Compare the eager and the compiled run of a program; with `second`, another way to make the function."""
    before = os.environ.get("NDGRAD_COMPILE_REPLAY")
    made: list[Any] = []

    def compiled(f: Any, **options: Any) -> Any:
        made.append(ndgrad.compile(f, **options))
        return made[-1]

    eager = in_context(source, lambda f, **options: f)
    os.environ["NDGRAD_COMPILE_REPLAY"] = "" if is_native else "1"
    try:
        with counting():
            found = in_context(source, second or compiled)
    finally:
        if before is None:
            del os.environ["NDGRAD_COMPILE_REPLAY"]
        else:
            os.environ["NDGRAD_COMPILE_REPLAY"] = before
    found.traces = sum(getattr(f, "traces", 0) for f in made)
    error = next((facts[0][2] for facts in eager.events if facts[0][0] == "program"), "")
    raised = sum(fact[0] == "error" and fact[2] is not None for facts in eager.events for fact in facts)
    return Outcome(compare(eager, found), found.calls, found.compiled, found.traces, eager.seconds, found.seconds, error, raised)


def compare(eager: Run, compiled: Run) -> Difference | None:
    for turn, (a, b) in enumerate(zip(eager.events, compiled.events, strict=False)):
        found = difference(a, b)
        if found is not None:
            return Difference(*found, turn)
    if len(eager.events) != len(compiled.events):
        return Difference("program", "events", "another number of calls", min(len(eager.events), len(compiled.events)))
    return None
