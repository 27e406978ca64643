"""Order a program's instructions for a device, and recompute values instead of keeping them.

Kernels of a device are limited by memory bandwidth. A value that one kernel computes for a much later one is expensive:
it is written, occupies memory in between, and is read. Three measures address that, none of which changes a result.

    kept least      At the point of most live memory, between forward and backward, the fewest bytes are kept from
                    which the rest can be recomputed (ndgrad._src.compiler.program.partition).
    sunk            An elementwise op comes right before its first reader, so that it joins that reader's kernel. Values
                    computed only from indices and masks come first: they are small, and kernels of floats would wait
                    for them.
    inlined         A value that is cast and then broadcast is cast by its reader.
"""

from __future__ import annotations

from ndgrad._src.compiler.cuda.fusion import is_pointwise, is_reduction
from ndgrad._src.compiler.lower.memory_places import whole
from ndgrad._src.compiler.passes.dead_code import without_dead
from ndgrad._src.compiler.program.partition import is_cheap, is_view, least_kept
from ndgrad._src.compiler.program.program import Argument, Instruction, Program, Value, with_arguments
from ndgrad._src.ops.vocabulary import find


def scheduled(program: Program) -> Program:
    """Return the program in a good order for a device."""
    return _inlined(_sunk(_kept_least(_copied_once(program))))


def _copied_once(program: Program) -> Program:
    """Split a reshape of permuted dimensions into a copy and a view, so that all reshapes share one copy."""
    permuted = {i.result for i in program.instructions if i.op.name == "permute"}
    copies: dict[Value, Value] = {}
    found: list[Instruction] = []
    for i in program.instructions:
        source = i.arguments[0] if i.op.name == "reshape" else None
        if source is not None and source in permuted and whole(source).reshaped(i.result.shape) is not None:
            if source not in copies:
                copies[source] = Value(source.shape, source.dtype)
                found.append(Instruction(find("clone"), (source,), {}, (copies[source],), i.where))
            i = with_arguments(i, (copies[source],))
        found.append(i)
    return Program(program.inputs, program.outputs, found, program.constants, program.name)


#: Minimum ratio of a value's bytes to the bytes that are kept for it in any case.
_SMALL = 64

# ----- recomputation --------------------------------------------------------------------------------------------------


class _MadeAgain:
    """Values that are recomputed, with their operands, by cheap instructions among `definitions`."""

    def __init__(self, definitions: dict[Value, Instruction]) -> None:
        self._definitions = definitions
        self._made: dict[Value, Value] = {}
        #: the instructions to run next
        self.new: list[Instruction] = []

    def _is_made_again(self, value: Argument) -> bool:
        made = self._definitions.get(value) if isinstance(value, Value) else None
        return made is not None and is_cheap(made)

    def current(self, value: Argument) -> Argument:
        """Return the current replacement of a value, computed with its operands if missing. No recursion, because
        programs are long.
        """
        if not self._is_made_again(value):
            return value
        stack = [value]
        while stack:
            made = self._definitions[stack[-1]]
            missing = [a for a in made.arguments if self._is_made_again(a) and a not in self._made]
            if missing:
                stack += reversed(missing)
            elif stack.pop() not in self._made:
                self._repeat(made)
        return self._made[value]

    def _repeat(self, made: Instruction) -> None:
        arguments = tuple([self._made[a] if self._is_made_again(a) else a for a in made.arguments])
        results = tuple([Value(v.shape, v.dtype) for v in made.results])
        self.new.append(Instruction(made.op, arguments, made.settings, results, made.where))
        self._made.update(zip(made.results, results, strict=True))


def _kept_least(program: Program) -> Program:
    """Recompute values after the point of most live memory, if possible."""
    instructions, cut = program.instructions, _fullest(program)
    definitions = program.definitions()
    defined = {v: n for n, i in enumerate(instructions) for v in i.results}
    behind = instructions[cut:]
    read = {v for i in behind for v in i.values() if defined.get(v, cut) < cut}
    if not read:
        return program
    free = {v for v in program.outputs if v in defined}
    # Numbers per row are negligible compared to the rows.
    free |= {v for i in instructions for v in i.values() if v in defined and _SMALL * v.nbytes <= i.results[0].nbytes}
    there = _in_memory(program, cut)
    # A result of a call is not kept if a value computed directly from it is kept as well.
    dear = {v for i in instructions[:cut] if _is_call(i) for v in i.results}
    # Values that later calls read are in memory anyway.
    free |= {v for i in behind if _is_call(i) for a in i.values() for v in _seen_in(a, definitions) if v in there}
    kept = {*least_kept(program, read, free, there - dear, dear), *free}
    again = _MadeAgain({v: definitions[v] for v, n in defined.items() if n < cut and v not in kept})
    rest = []
    for i in behind:
        arguments = tuple([again.current(a) for a in i.arguments])
        rest += [*again.new, Instruction(i.op, arguments, i.settings, i.results, i.where)]
        again.new.clear()
    return without_dead(
        Program(program.inputs, program.outputs, [*instructions[:cut], *rest], program.constants, program.name)
    )


def _in_memory(program: Program, cut: int) -> set[Value]:
    """Return the values that are in memory before a position in any case: calls read or make them, or stand between
    them and one of their readers.
    """
    definitions, calls = program.definitions(), 0
    found: set[Value] = set()
    made: dict[Value, int] = {}
    for i in program.instructions[:cut]:
        is_call = _is_call(i)
        for a in i.values():
            seen = _seen_in(a, definitions)
            found.update(v for v in seen if is_call or made.get(v, calls) < calls)
        calls += is_call
        if is_call:
            found.update(i.results)
        made.update(dict.fromkeys(i.results, calls))
    return found


def _seen_in(value: Value, definitions: dict[Value, Instruction]) -> list[Value]:
    """Return a value, and those that it is a view of."""
    found = [value]
    while (made := definitions.get(found[-1])) is not None and is_view(made):
        found.append(next(made.values()))
    return found


def _is_call(instruction: Instruction) -> bool:
    """True if an op is no part of a kernel."""
    return not (is_view(instruction) or is_pointwise(instruction) or is_reduction(instruction))


def _fullest(program: Program) -> int:
    """Return the position at which most bytes of values wait for a later instruction."""
    last = program.last_uses()
    begins = {v: n for n, i in enumerate(program.instructions) if not is_view(i) for v in i.results}
    change = [0] * (len(program.instructions) + 2)
    for value, begin in begins.items():
        change[begin + 1] += value.nbytes
        change[min(last[value], len(program.instructions)) + 1] -= value.nbytes
    alive = most = position = 0
    for n, by in enumerate(change[: len(program.instructions) + 1]):
        alive += by
        if alive > most:
            most, position = alive, n
    return position


# ----- order ----------------------------------------------------------------------------------------------------------


def _sunk(program: Program) -> Program:
    """Move elementwise ops right before their first readers, and those of indices and masks alone to the front."""
    early, rest = [], []
    known = {v for v in (*program.inputs, *program.constants) if v.dtype.kind in "iub"}
    for i in program.instructions:
        is_light = is_view(i) or is_pointwise(i) or is_reduction(i)
        largest = max((v.size for v in i.values() if v not in program.constants), default=0)
        is_small = all(v.size <= max(largest, 1) for v in i.results)
        if is_light and is_small and all(v in known for v in i.values()):
            early.append(i)
            known.update(i.results)
        else:
            rest.append(i)
    ordered: list[Instruction] = []
    placed: set[Instruction] = set()
    made = {v: i for i in rest for v in i.results}

    def place(instruction: Instruction) -> None:
        """Place an instruction after its waiting operands."""
        stack = [instruction]
        while stack:
            top = stack[-1]
            before = [made[v] for v in top.values() if v in made and made[v] not in placed]
            if before:
                stack += before
                continue
            stack.pop()
            if top not in placed:
                placed.add(top)
                ordered.append(top)

    for i in rest:
        if not (is_view(i) or is_pointwise(i)):
            place(i)
    for value in program.outputs:
        if value in made:
            place(made[value])
    return Program(program.inputs, program.outputs, [*early, *ordered], program.constants, program.name)


# ----- casts ----------------------------------------------------------------------------------------------------------


def _inlined(program: Program) -> Program:
    """Let the readers of broadcast values cast them: once for each element, at no cost."""
    casts = {i.result: i for i in program.instructions if i.op.name == "cast" and is_pointwise(i)}
    found: list[Instruction] = []
    inputs = {*program.inputs}
    for i in program.instructions:
        if is_pointwise(i) and i.op.name not in ("cast", "expand"):
            shape, arguments = i.result.shape, list(i.arguments)
            for n, a in enumerate(arguments):
                cast = casts.get(a) if a.__class__ is Value else None
                if cast is not None and a.shape != shape and (a.size != 1 or cast.arguments[0] in inputs):
                    wide, again = Value(shape, cast.arguments[0].dtype), Value(shape, a.dtype)
                    found.append(Instruction(find("expand"), cast.arguments, {"shape": shape}, (wide,), i.where))
                    found.append(Instruction(cast.op, (wide,), cast.settings, (again,), i.where))
                    arguments[n] = again
            i = with_arguments(i, arguments)
        found.append(i)
    return without_dead(Program(program.inputs, program.outputs, found, program.constants, program.name))
