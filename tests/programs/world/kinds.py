"""The form in which kinds of places and effects are written down.

`#` stands for the number of the part in its program, so that a program may hold a kind twice. `$` stands for a value.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

#: Values that a place may hold, as source text, by the name of their sort.
VALUES: dict[str, tuple[str, ...]] = {
    "float": ("2.0", "0.5", "-1.5", "3.0", "1.0", "0.25"),
    "number": (
        "2.0", "0.5", "-1.5", "3.0", "1.0", "0.25", "2", "3", "1", "True", "False", "0.0", "-0.0", "0",
        "np.float32(0.5)", "np.float64(1.5)", "np.int64(2)",
    ),
    "byte": ("1", "2", "3", "4"),
    "text": ("'sin'", "'cos'", "'exp'", "'tanh'"),
    "flag": ("True", "False"),
    "tensor": (
        "ndgrad.tensor([1.0, 2.0])", "ndgrad.tensor([3.0, 0.5])", "ndgrad.tensor(2.0)", "ndgrad.tensor([2, 3])",
        "ndgrad.tensor([0.5, 1.5], requires_grad=True)", "ndgrad.tensor([1.0, 2.0], dtype=ndgrad.float64)",
    ),
    "callable": ("ndgrad.sin", "ndgrad.cos", "abs", "(lambda v: v * 2.0)", "(lambda v: v - 1.0)", "operator.neg"),
}  # fmt: skip

#: Statements that use a value `$` of a sort in the function, of which `y` is the running result.
USES: dict[str, tuple[str, ...]] = {
    "number": (
        "y = y * $",
        "y = y + $",
        "y = y - x * $",
        "y = y * $ if $ > 1 else y + 1",
        "y = ndgrad.where(y > $, y, -y)",
        "for _ in range(min(int(abs($)), 20)): y = y * 1.5",
        "y = y / ($ + 4)",
        "y = y * math.exp(min($, 2))",
        "y = y * max($, 1) + min($, 1)",
        "y = y if $ else -y",
        "y = y * (2 if isinstance($, int) else 3)",
        "y = y + len(str($))",
        "y = ndgrad.tensor(float($)) * y",
        "y = y * 1.0; y += $",
        "y = (y * 1.0).mul_($)",
        "y = y * [$, 2.0][0]",
        "y = y * {'a': $}['a']",
        "y = y + (lambda v: v * 2)($)",
        "y = y + sum($ for _ in range(2))",
        "y = y * float('{}'.format($) == '2.0')",
    ),
    "text": ("y = getattr(ndgrad, $)(y)", "y = getattr(y, $)()", "y = y.sin() if $ == 'sin' else y.cos()", "y = y + len($)"),
    "flag": ("y = y * 2 if $ else y - 1", "y = y + $", "y = y if not $ else -y"),
    "tensor": ("y = y * $", "y = y + $.sum()", "y = y - $.detach()", "y = y * $.shape[0] if $.dim() else y", "y = y + $ * $"),
    "callable": ("y = $(y)", "y = y + $(x)"),
}  # fmt: skip
USES["float"] = USES["byte"] = USES["number"]

#: Expressions of the function that an effect may store, by sort.
STORED: dict[str, tuple[str, ...]] = {
    "number": ("y.sum().item()", "float(y.sum())", "y.max().item() + 1", "len(y)", "4.5"),
    "tensor": ("y.detach()", "y.sum()", "y", "y * 2", "y.detach().clone()", "x"),
}
STORED["any"] = STORED["number"] + STORED["tensor"]


@dataclass(frozen=True)
class Kind:
    """A kind of place or effect: lines to set it up, to read it, to write it, and to look at it afterwards."""

    name: str
    #: lines of the module, and of the function around the compiled one
    module: str = ""
    local: str = ""
    #: an expression that reads the place, and a statement that stores `$` there
    get: str = ""
    put: str = ""
    #: statements of the compiled function, of which a program has one
    lines: tuple[str, ...] = ()
    #: statements that change the world between calls in other ways than `put`
    also: tuple[str, ...] = ()
    #: an expression of the state to be compared after each call
    watch: str = ""
    #: names that code must declare as global or nonlocal in order to assign them
    names: str = ""
    #: the sort of the values, and an expression which makes one of them for `put`
    sort: str = "number"
    pool: tuple[str, ...] = ()
    #: the sort of values that lines store
    stored: str = "any"
    #: True if the function itself may use `put`
    is_writable: bool = True

    def values(self) -> tuple[str, ...]:
        return self.pool or VALUES[self.sort]

    def numbered(self, number: int, value: str) -> Kind:
        """The kind with its placeholders filled in, for one part of a program; `$` of get, put and lines stays."""

        def fill(text: str) -> str:
            return textwrap.dedent(text).strip("\n").replace("#", str(number))

        return Kind(
            self.name, fill(self.module).replace("$", value), fill(self.local).replace("$", value), fill(self.get),
            fill(self.put), tuple(map(fill, self.lines)), tuple(map(fill, self.also)), fill(self.watch or self.get),
            fill(self.names), self.sort, tuple(map(fill, self.pool)), self.stored, self.is_writable,
        )  # fmt: skip
