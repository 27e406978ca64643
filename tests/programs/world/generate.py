"""Draw programs from the kinds of places and effects, and write them as the text of a module."""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.programs.world.computations import COMPUTATIONS
from tests.programs.world.effects import EFFECTS
from tests.programs.world.kinds import STORED, USES, Kind
from tests.programs.world.places import PLACES

#: Imports that a program may need; those that it names are written at its top.
IMPORTS = {
    name: f"import {name}"
    for name in (
        "abc argparse array builtins collections configparser contextlib contextvars copy csv ctypes dataclasses datetime decimal "
        "enum functools gc glob heapq importlib io itertools json logging math ndgrad operator os pathlib pickle queue random "
        "signal sqlite3 string sys tempfile threading time types typing uuid warnings weakref"
    ).split()
} | {
    "multiprocessing": "import multiprocessing.sharedctypes",
    "np": "import numpy as np",
    "nn": "from ndgrad import nn",
    "optim": "from ndgrad import optim",
}
WORD = re.compile(r"(?<![\w.'\"])[a-z]\w*\b(?!=)")
MAKE_MODULE = '''
def module(name, text):
    """Another module of the user's."""
    import sys, types
    sys.modules[name] = made = types.ModuleType(name)
    exec('import numpy as np\\n' + text, vars(made))
    return made
'''
#: Further arguments of the function, given if its lines name them.
EXTRA = {
    "k": "k = 2.0",
    "ks": "ks = [2.0, 1.0]",
    "cfg": "cfg = types.SimpleNamespace(scale=2.0)",
    "data": "data = np.array([2.0, 1.0], dtype=np.float32)",
}
#: Forms in which programs read numbers of tensors.
READS = {"item()": ".item()", "float()": "float(y", "int()": "int(y"}
FORMS = ("nested", "global", "method", "module", "callable", "decorated")
ENDINGS = (
    "return y", "return y.sum()", "return (y * y).sum()", "return y, x", "return {'y': y, 'n': len(y)}", "return y.sum().item()",
    "return None", "return x", "return y, y",
    "return y[::2]", "return [y.sum(), y.detach()]", "return y.unsqueeze(0).T", "return y.sum(), 3",
)  # fmt: skip
XS = (
    "ndgrad.tensor([1.0, -0.5])", "ndgrad.tensor([0.25, 2.0])", "ndgrad.tensor([2.0, 1.0])", "ndgrad.tensor([-1.0, 3.0])",
    "ndgrad.tensor([1.0, 2.0], dtype=ndgrad.float64)", "ndgrad.tensor([1.0, 2.0], requires_grad=True)", "ndgrad.tensor([3, 1])",
    "ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]])", "ndgrad.arange(4.0)[::2]",
)  # fmt: skip
WS = ("ndgrad.tensor([0.5, 2.0], requires_grad=True)", "ndgrad.tensor([0.5, 2.0])")
#: One in so many programs runs as native code, which takes twice as long.
NATIVE = 10
THENS = ("", "", "", "backward", "backward", "grad", "write")


@dataclass(frozen=True)
class Part:
    """A kind in a program: its text, and the statements that the function has of it."""

    role: str
    kind: Kind
    body: tuple[str, ...]
    helper: str = ""

    @property
    def label(self) -> str:
        return f"{self.role}: {self.kind.name}"


@dataclass(frozen=True)
class Step:
    """A call: the changes before it, with the numbers of their parts, and what is done with the result."""

    changes: tuple[tuple[int, str], ...] = ()
    then: str = ""


@dataclass(frozen=True)
class Program:
    """Parts by their numbers, the calls, and the form of the function."""

    parts: tuple[tuple[int, Part], ...]
    steps: tuple[Step, ...]
    form: str = "nested"
    ending: str = "return y"
    x: str = XS[0]
    w: str = WS[0]
    options: str = ""
    is_native: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The kinds of the program, and how it reads numbers of tensors."""
        body = "\n".join(line for _, part in self.parts for line in part.body)
        reads = [f"number: {name}" for name, text in READS.items() if text in body]
        return tuple(sorted({*reads, *[part.label for _, part in self.parts if part.body]}))

    @property
    def source(self) -> str:
        return render(self)


# ----- drawing --------------------------------------------------------------------------------------------------------


def draw_value(rng: random.Random, kind: Kind) -> str:
    values = kind.values()
    plain = [v for v in values if re.fullmatch(r"-?\d+\.\d+", v)]
    return rng.choice(plain) if plain and rng.random() < 0.5 else rng.choice(values)


def wrap_reading(rng: random.Random, number: int, kind: Kind) -> tuple[str, str]:
    """The expression that reads a place, sometimes by a helper function, and the text of that function."""
    if rng.random() < 0.7 or kind.lines or re.search(r"\b[xyw]\b|next\(|super|_getframe", kind.get):
        return kind.get, ""
    name = f"look{number}"
    if rng.random() < 0.5:
        return f"{name}()", f"def {name}():\n    return {kind.get}"
    return f"{name}()", f"{name} = lambda: {kind.get}"


def stored_value(rng: random.Random, kind: Kind, get: str) -> str:
    """Return the expression that the function stores in a place."""
    sort = kind.sort
    if sort in ("number", "float") and not kind.pool:
        return rng.choice(
            [
                draw_value(rng, kind), f"{get} + 1", "y.sum().item()", f"min({get}, y.sum().item())", "float(y.sum())",
                f"0.9 * {get} + 0.1 * y.sum().item()", "y.detach().sum()", f"{get} * 1.5",
            ]
        )  # fmt: skip
    if sort == "tensor" and not kind.pool:
        return rng.choice(["y.detach()", f"{get} * 0.5", f"{get} + y.detach()", "x", draw_value(rng, kind)])
    return draw_value(rng, kind)


def place_part(rng: random.Random, number: int, kind: Kind, does_write: bool) -> Part:
    kind = kind.numbered(number, draw_value(rng, kind.numbered(number, "")))
    body: list[str] = []
    get, helper = wrap_reading(rng, number, kind)
    if kind.lines:
        body.append(rng.choice(kind.lines).replace("$", draw_value(rng, kind)))
    else:
        body.append(rng.choice(USES[kind.sort]).replace("$", get))
    if does_write and kind.put and kind.is_writable:
        put = kind.put.replace("$", stored_value(rng, kind, kind.get or "1.0"))
        body.insert(rng.randrange(2), put)
        return Part("write", kind, tuple(body), helper)
    return Part("place", kind, tuple(body), helper)


def effect_part(rng: random.Random, number: int, kind: Kind, role: str = "effect") -> Part:
    kind = kind.numbered(number, "2.0")
    line = rng.choice(kind.lines).replace("$", rng.choice(STORED[kind.stored]))
    return Part(role, kind, (line,))


def changes_of(rng: random.Random, part: Part) -> str | None:
    """A change of a part's place."""
    kind = part.kind
    options = list(kind.also)
    if kind.put:
        options += [kind.put.replace("$", draw_value(rng, kind))] * 3
    return rng.choice(options) if options else None


def generate(seed: int, native: int = NATIVE) -> Program:
    """The program of a seed; one in `native` of them runs as native code, the others on NumPy."""
    rng = random.Random(f"world {seed}")
    parts: list[tuple[int, Part]] = []
    for number in range(1, rng.choice([1, 2, 2, 3, 3, 4]) + 1):
        if rng.random() < 0.15:
            parts.append((number, effect_part(rng, number, rng.choice(COMPUTATIONS), "op")))
        elif rng.random() < 0.6:
            parts.append((number, place_part(rng, number, rng.choice(PLACES), rng.random() < 0.3)))
        else:
            parts.append((number, effect_part(rng, number, rng.choice(EFFECTS))))
    steps: list[Step] = []
    for turn in range(rng.randint(3, 8)):
        changes: list[tuple[int, str]] = []
        if turn:
            for number, part in rng.sample(parts, rng.choice([0, 1, 1, len(parts)])):
                change = changes_of(rng, part)
                if change:
                    changes.append((number, change))
            if rng.random() < 0.15:
                changes.append((0, f"x = {rng.choice(XS)}"))
            if rng.random() < 0.05:
                changes.append((0, f"w = {rng.choice(WS)}"))
        steps.append(Step(tuple(changes), rng.choice(THENS)))
    form = rng.choice(FORMS) if rng.random() < 0.6 else "nested"
    ending = rng.choice(ENDINGS) if rng.random() < 0.6 else "return y"
    x = rng.choice(XS) if rng.random() < 0.3 else rng.choice(XS[:4])
    w = WS[0] if rng.random() < 0.8 else WS[1]
    options = rng.choice(["dynamic=True", "strict=True", "dynamic=False"]) if rng.random() < 0.1 else ""
    return Program(tuple(parts), tuple(steps), form, ending, x, w, options, seed % native == 7 % native)


# ----- cases by kind --------------------------------------------------------------------------------------------------


def cases_of_place(kind: Kind) -> list[Program]:
    """Programs that read one kind of place, and see each of its changes; one for each of its lines."""
    found = []
    for number_of_line in range(max(1, len(kind.lines))):
        made = kind.numbered(1, kind.numbered(1, "").values()[0])
        line = made.lines[number_of_line] if made.lines else USES[made.sort][0].replace("$", made.get)
        values = made.values()
        line = line.replace("$", values[0])
        part = Part("place", made, (line,))
        steps = [Step(), Step((), "backward")]
        if made.put:
            steps += [Step(((1, made.put.replace("$", value)),)) for value in (values[1 % len(values)], values[2 % len(values)])]
            steps += [Step()]
        steps += [Step(((1, change),)) for change in made.also]
        found.append(Program(((1, part),), tuple(steps)))
        if made.also and made.put:  # the other changes on their own
            found.append(Program(((1, part),), (Step(), Step(), *[Step(((1, change),)) for change in made.also], Step())))
    return found


def cases_of_writing(kind: Kind) -> list[Program]:
    """Programs that store a constant, a count, a number read of a tensor in one kind of place."""
    if not (kind.put and kind.is_writable) or kind.lines:
        return []
    made = kind.numbered(1, kind.numbered(1, "").values()[0])
    values = made.values()
    stored = [values[1 % len(values)]]
    if made.sort in ("number", "float") and not made.pool:
        stored += [f"{made.get} + 1", f"0.9 * {made.get} + 0.1 * y.sum().item()"]
    if made.sort == "tensor" and not made.pool:
        stored += ["y.detach()", f"{made.get} * 0.5"]
    use = USES[made.sort][0].replace("$", made.get)
    steps = (Step(), Step(), Step((), "backward"), Step(((1, made.put.replace("$", values[0])),)), Step())
    return [Program(((1, Part("write", made, (use, made.put.replace("$", value)))),), steps) for value in stored]


def cases_of_effect(kind: Kind, role: str = "effect") -> list[Program]:
    """Programs with one kind of effect: each of its lines, with each sort of value."""
    made = kind.numbered(1, "2.0")
    found = []
    for line in made.lines:
        stored = [STORED[made.stored][0]] if "$" in line else [""]
        if "$" in line and made.stored == "any":
            stored.append("y.detach()")
        for value in stored:
            part = Part(role, made, (line.replace("$", value),))
            changes = list(made.also)
            if made.put:
                changes.append(made.put.replace("$", made.values()[1]))
            steps = (Step(), Step(), Step((), "backward"), *[Step(((1, change),)) for change in changes], Step())
            found.append(Program(((1, part),), steps))
    return found


# ----- text -----------------------------------------------------------------------------------------------------------


def split_names(names: Iterable[str], local_text: str) -> tuple[list[str], list[str]]:
    """Global and nonlocal names."""
    local = [n for n in names if re.search(rf"^\s*(def |class )?[\w#, ]*\b{n}\b.*", local_text, re.M)]
    return [n for n in names if n not in local], local


def render(program: Program) -> str:
    """The text of the module: `main(compile, call, change, watch)` makes the function and calls it."""
    parts = [part for _, part in program.parts]
    body = [line for part in parts for line in part.body]
    body_text = "\n".join(body)
    extra = [name for name in EXTRA if re.search(rf"\b{name}\b", body_text)]
    local_text = "\n".join(part.kind.local for part in parts if part.kind.local)
    module_lines = [part.kind.module for part in parts if part.kind.module]
    names = [name for part in parts for name in part.kind.names.split()]
    global_names, local_names = split_names(names, local_text)
    form = "nested" if local_text and program.form == "global" else program.form
    # names that the function assigns
    assigned = [n for n in names if re.search(rf"(^|[;:]\s*|\s)({n})\s*([-+*/|]?=)[^=]", body_text, re.M)]
    declarations = [f"global {n}" for n in dict.fromkeys(assigned) if n in global_names]
    declarations += [f"nonlocal {n}" for n in dict.fromkeys(assigned) if n in local_names]
    helpers = [part.helper for part in parts if part.helper]
    function = function_text(form, ["x", "w", *extra], [*declarations, "y = x * w", *body, program.ending])
    made = {"method": "Trainer().step", "module": "Net()", "callable": "Run()"}.get(form, "step")
    options = f", {program.options}" if program.options else ""
    main = [
        *[f"global {n}" for n in dict.fromkeys(global_names)],
        local_text,
        *([] if form == "global" else [*helpers, function]),
        f"f = compile({made}{options})",
        f"x, w = {program.x}, {program.w}",
        *[EXTRA[name] for name in extra],
        *[f"watch({part.kind.name!r}, lambda: ({part.kind.watch}))" for part in parts if part.kind.watch not in ("", "0")],
    ]
    numbers = {number for number, _ in program.parts} | {0}
    for step in program.steps:
        main += [f"with change: {text}" for number, text in step.changes if number in numbers]
        then = f", then={step.then!r}" if step.then else ""
        main.append(f"call(f, {', '.join(['x', 'w', *extra])}{then})")
    pieces = [*module_lines, *([*helpers, function] if form == "global" else [])]
    pieces.append("def main(compile, call, change, watch):\n" + textwrap.indent("\n".join(filter(None, main)), "    "))
    text = "\n".join(pieces)
    if re.search(r"\bmodule\(", text):
        text = MAKE_MODULE.strip("\n") + "\n" + text
    words = set(WORD.findall(text))
    imports = [line for name, line in IMPORTS.items() if name in words]
    return "\n".join([*imports, text]) + "\n"


def function_text(form: str, parameters: list[str], lines: list[str]) -> str:
    body = "\n".join(lines)
    if form in ("nested", "global"):
        return f"def step({', '.join(parameters)}):\n" + textwrap.indent(body, "    ")
    if form == "decorated":
        wrapper = (
            "def plain(fn):\n    @functools.wraps(fn)\n    def run(*args, **kwargs):\n        return fn(*args, **kwargs)\n    return run\n"
        )
        return f"{wrapper}@plain\ndef step({', '.join(parameters)}):\n" + textwrap.indent(body, "    ")
    head = {"method": "class Trainer:", "module": "class Net(nn.Module):", "callable": "class Run:"}[form]
    name = {"method": "step", "module": "forward", "callable": "__call__"}[form]
    return f"{head}\n    def {name}({', '.join(['self', *parameters])}):\n" + textwrap.indent(body, "        ")


def without_part(program: Program, number: int) -> Program:
    """The program without one of its parts, and without the changes of its place."""
    return replace(
        program,
        parts=tuple((n, part) for n, part in program.parts if n != number),
        steps=tuple(replace(s, changes=tuple(c for c in s.changes if c[0] != number)) for s in program.steps),
    )
