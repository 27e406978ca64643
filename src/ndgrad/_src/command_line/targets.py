"""`FILE:FUNCTION` of a command line: the function, its arguments, and its result under ndgrad."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import TracebackException
from types import ModuleType
from typing import Any

import numpy as np

import ndgrad
from ndgrad._src.command_line import CommandError
from ndgrad._src.foundations.pytree import tree_leaves


class Target:
    """A function named by the user, with its arguments."""

    def __init__(self, text: str, shapes: list[str], inputs: str | None, seed: int) -> None:
        self.module, self.function = load(text)
        self.name = self.function.__name__
        self.is_plain_numpy = _uses_plain_numpy(self.function)
        if shapes and inputs is not None:
            raise CommandError("--shape and --inputs exclude each other: --inputs has shapes of its own. [nd-command]")
        try:
            self.values: dict[str, Any] = (
                _evaluate(self, inputs) if inputs is not None else _random(self.function, shapes, seed)
            )
        except (MemoryError, ValueError, TypeError) as error:
            reason = str(error) if str(error).endswith("]") else f"{error}. [nd-command]"
            raise CommandError(f"cannot create the arguments of {self.name}: {reason}") from error

    @property
    def differentiable(self) -> dict[str, Any]:
        """Return the floating-point arguments, which are differentiated."""
        return {
            name: v for name, v in self.values.items()
            if isinstance(v, ndgrad.Tensor) and (v.is_floating_point() or v.is_complex())
        }  # fmt: skip

    def result(self) -> Any:
        """Return the result for the target's own arguments; errors inside the function show the user's lines."""
        try:
            return self.call(self.values)
        except CommandError:
            raise
        except (Exception, SystemExit) as error:
            given = [f"{n} {tuple(v.shape) if isinstance(v, ndgrad.Tensor) else v!r}" for n, v in self.values.items()]
            told = format_user_traceback(error, str(self.module.__file__))
            raise CommandError(
                f"{self.name} raised an error when it was called with {', '.join(given) or 'no arguments'}. "
                f"--shape or --inputs give it others.\n\n{told}\n\n[nd-command]"
            ) from error

    def call(self, values: dict[str, Any]) -> Any:
        """Return the result as one tensor: several floating-point results are flattened and joined."""
        result = (ndgrad.lift(self.function) if self.is_plain_numpy else self.function)(*values.values())
        parts = [r for r in tree_leaves(result) if isinstance(r, ndgrad.Tensor)]
        smooth = [r for r in parts if r.is_floating_point() or r.is_complex()]
        if inspect.iscoroutine(result):
            result.close()
            raise CommandError(
                f"{self.name} is a coroutine function. Name a function that returns a tensor. [nd-command]"
            )
        if not smooth:
            raise CommandError(
                f"{self.name} returned {type(result).__name__}, in which there is no tensor of floating point. "
                "Return one: a `.item()` or `float()` inside drops the graph. [nd-command]"
            )
        return smooth[0] if len(smooth) == 1 else ndgrad.cat([r.reshape(-1) for r in smooth])


def load(text: str) -> tuple[ModuleType, Callable[..., Any]]:
    """Return the module and the function named by FILE:FUNCTION."""
    file, colon, name = text.rpartition(":")
    if not colon or not file:
        raise CommandError(f"{text!r} names no function. Write FILE:FUNCTION, such as model.py:loss. [nd-command]")
    path = Path(file)
    if path.is_dir():
        raise CommandError(f"{file!r} is a folder. Name a file inside. [nd-command]")
    if not path.is_file():
        near = (
            difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")], 1)
            if path.parent.is_dir()
            else []
        )
        raise CommandError(
            f"there is no file {file!r}."
            + (f" Did you mean {str(path.parent / near[0])!r}?" if near else "")
            + " [nd-command]"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{file!r} is no Python file: its name should end in .py. [nd-command]")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module  # dataclasses and pickles look for it there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        told = format_user_traceback(error, str(path))
        raise CommandError(f"{file!r} cannot be imported.\n\n{told}\n\n[nd-command]") from error
    function = getattr(module, name, None)
    if not callable(function):
        there = [n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__]
        near = difflib.get_close_matches(name, there, 1)
        known = (
            f" Did you mean {near[0]}?" if near else f" It has {', '.join(there)}." if there else " It defines none."
        )
        raise CommandError(f"{file} has no function {name!r}.{known} [nd-command]")
    return module, function


def format_user_traceback(error: BaseException, file: str) -> str:
    """Format a traceback that begins in the user's file and omits this package; the message contains its
    information."""
    told = TracebackException.from_exception(error)
    path = Path(file).resolve()
    theirs = [n for n, frame in enumerate(told.stack) if Path(frame.filename).resolve() == path]
    package = str(Path(ndgrad.__path__[0]))
    first = theirs[0] if theirs else len(told.stack)
    told.stack[:] = [f for f in told.stack[first:] if not f.filename.startswith((package, "<ndgrad", "<frozen"))]
    told.__cause__ = told.__context__ = None
    return "".join(told.format()).rstrip()


def _uses_plain_numpy(function: Callable[..., Any]) -> bool:
    """True if a function uses NumPy's own names and none of ndgrad's."""
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    used = [scope.get(name) for name in (() if code is None else code.co_names)]
    homes = {str(getattr(value, "__name__", "")).partition(".")[0] for value in used if isinstance(value, ModuleType)}
    return "numpy" in homes and "ndgrad" not in homes


def _evaluate(target: Target, text: str) -> dict[str, Any]:
    try:
        given = eval(text, {**vars(target.module), "ndgrad": ndgrad, "np": np})
    except (Exception, SystemExit) as error:
        raise CommandError(
            f"--inputs {text!r} raised {type(error).__name__}: {error}. It is evaluated in the file. [nd-command]"
        ) from error
    values = given if isinstance(given, tuple) else (given,)
    try:
        inspect.signature(target.function).bind(*values)
    except TypeError as error:
        wanted = ", ".join(inspect.signature(target.function).parameters)
        raise CommandError(
            f"--inputs {text!r} gives {len(values)} of the arguments ({wanted}) of {target.name}: "
            f'{error}. Write them with commas, such as --inputs "np.ones(3), 0.1". [nd-command]'
        ) from None
    names = [p.name for p in inspect.signature(target.function).parameters.values()]
    names += [f"argument {n}" for n in range(len(names), len(values))]
    return {name: _as_tensor(value) for name, value in zip(names, values)}


def _as_tensor(value: Any) -> Any:
    """Convert floating-point values to leaves in double precision, in which differences are trustworthy."""
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, (np.ndarray, float, complex)):
        value = ndgrad.tensor(np.asarray(value))
    if isinstance(value, ndgrad.Tensor):
        if value.is_complex():
            return value.detach().to(ndgrad.complex128).requires_grad_()
        return value.detach().double().requires_grad_() if value.is_floating_point() else value
    return value


def _random(function: Callable[..., Any], shapes: list[str], seed: int) -> dict[str, Any]:
    ndgrad.manual_seed(seed)
    wanted = [
        p for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]  # fmt: skip
    unfit = [p.name for p in wanted if getattr(p.annotation, "__name__", p.annotation) in ("int", "bool", "str")]
    if unfit:
        example = ", ".join("2" if p.name in unfit else "np.ones(3)" for p in wanted)
        raise CommandError(
            f"{unfit[0]} of {function.__name__} cannot be differentiated and has no default. Give all "
            f'arguments with --inputs, such as --inputs "{example}". [nd-command]'
        )
    if len(shapes) > len(wanted):
        raise CommandError(
            f"{len(shapes)} shapes were given, but {function.__name__} has {len(wanted)} "
            f"{'argument' if len(wanted) == 1 else 'arguments'} without a default. [nd-command]"
        )
    sizes = [_shape(text) for text in shapes] + [(3,)] * (len(wanted) - len(shapes))
    return {
        p.name: ndgrad.randn(*size, dtype=ndgrad.float64).requires_grad_() if size
        else ndgrad.randn((), dtype=ndgrad.float64).requires_grad_()
        for p, size in zip(wanted, sizes)
    }  # fmt: skip


def _shape(text: str) -> tuple[int, ...]:
    """Return the shape that a text such as "4,3", "4x3" or "(4, 3)" names; "" is that of a number."""
    parts = text.strip().removeprefix("(").removesuffix(")").replace("x", ",").rstrip(", ").split(",")
    if parts == [""] and "x" not in text:
        return ()
    if not all(part.strip().isdecimal() for part in parts):
        raise CommandError(
            f"--shape {text!r} is no shape. Write sizes with commas, such as 4,3. [nd-command]"
        )
    return tuple(map(int, parts))
