"""The save plan of an op: the arguments, results, settings and facts that its rules name, per argument with a gradient.

A value is saved only if a requested gradient needs it.
"""

from __future__ import annotations

from typing import Any

from ndgrad._src.ops.table import Op


class SavePlan:
    """The values that a node of the op saves, and for each the arguments whose gradients need it."""

    def __init__(self, op: Op) -> None:
        self.users: dict[str, set[str]] = {}
        every = set(op.differentiable_args)
        rules = op.rules.items()
        for arg, (_, names) in rules:
            for name in names:
                self.users.setdefault(name, set()).add(arg)
        if op.joint_rule is not None:
            for name in op.joint_rule[1]:
                self.users.setdefault(name, set()).update(every)
        outs = {"out"} if op.outputs == 1 else {f"out{i}" for i in range(op.outputs)}
        grads = {"g", "gs", "t", "needs", "ops"} | {f"g{i}" for i in range(op.outputs)}
        # Sorted by torch's names: torch packs and unpacks in this order.
        self.arrays = sorted((a for a in op.args if a in self.users), key=op.torch_name)
        self.outs = [o for o in sorted(outs) if o in self.users]
        looked_up = op.partial_view or op.whole_view or op.copies_part  # parts of gradients are found by the op itself
        # The setting "shape" is excluded, because every node has a shape.
        self.settings = [s for s in op.settings if s in self.users or (looked_up and s != "shape")]
        self.facts = [
            f"{a}_{fact}" for a in op.args for fact in ("shape", "dtype", "ndim") if f"{a}_{fact}" in self.users
        ]
        #: True if a value other than an output is saved
        self.keeps_inputs = bool(self.arrays or self.settings or self.facts)
        known = {*op.args, *outs, *op.settings, *self.facts, *grads}
        unknown = sorted(set(self.users) - known)
        if unknown:
            raise TypeError(
                f"rules of op {op.name!r} name {', '.join(unknown)}, which is neither an array argument {op.args}, "
                f"an output, a setting {tuple(op.settings)}, a fact such as {op.args[0]}_shape, nor g, t, ops or needs "
                "[nd-op-block]"
            )

        self._positions = {a: i for i, a in enumerate(op.differentiable_args)}
        self._variadic = op.variadic
        self._needed: dict[tuple[bool, ...], tuple[list[str], list[str]]] = {}

    def needed(self, edges: tuple[Any, ...]) -> tuple[list[str], list[str]]:
        """Return the arguments and the outputs that the rules of the inputs with an edge name.

        A collecting argument counts as a whole.
        """
        key = tuple([e is not None for e in edges]) if not self._variadic else ()
        found = self._needed.get(key)
        if found is None:
            wanted = {a for a, i in self._positions.items() if self._variadic or key[i]}
            used = [[name for name in names if self.users[name] & wanted] for names in (self.arrays, self.outs)]
            found = self._needed[key] = (used[0], used[1])
        return found

    def facts_of(self, arg: str) -> list[str]:
        return [fact for fact in ("shape", "ndim", "dtype") if f"{arg}_{fact}" in self.facts]

    def slots(self) -> list[str]:
        slots = []
        for a in self.arrays:
            slots += [a, f"{a}_v"]
        for o in self.outs:
            slots += [o, f"{o}_s", f"{o}_v"]
        return slots + self.settings + self.facts

    def condition(self, name: str, differentiable: tuple[str, ...]) -> str | None:
        """Return the condition for saving `name`: None for always, otherwise an expression over the edges."""
        users = self.users[name]
        if len(users) == len(differentiable):
            return None
        return " or ".join(f"e_{a} is not None" for a in differentiable if a in users)


def save_plan(op: Op) -> SavePlan:
    plan = op._compiled.get("plan")
    if plan is None:
        plan = op._compiled["plan"] = SavePlan(op)
    made: SavePlan = plan
    return made
