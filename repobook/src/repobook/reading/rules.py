"""Names that say something about performance, safety or design when they are used, each with its rule.

A rule is asked for one occurrence: `rule(receiver, is_call, loop_depth, position)`; it answers
`(section, rule, detail)` or None.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

Depth = Callable[[int], int]
Answer = tuple[str, str, str] | None
Rule = Callable[[str, bool, Depth, int], Answer]


@dataclass(slots=True)
class Rules:
    names: dict[bytes, Rule] = field(default_factory=dict)

    def add(self, rule: Rule, *names: str) -> None:
        for name in names:
            self.names[name.encode()] = rule


def always(section: str, rule: str, detail: str) -> Rule:
    return lambda receiver, call, depth, at: (section, rule, detail)


def when_called(section: str, rule: str, detail: str, receivers: frozenset[str] | None = None) -> Rule:
    def answer(receiver: str, call: bool, depth: Depth, at: int) -> Answer:
        if not call or (receivers is not None and receiver not in receivers):
            return None
        return section, rule, detail

    return answer


def in_loop(section: str, rule: str, detail: str) -> Rule:
    return lambda receiver, call, depth, at: (section, rule, detail) if depth(at) > 0 else None


def either(*rules: Rule) -> Rule:
    def answer(receiver: str, call: bool, depth: Depth, at: int) -> Answer:
        for rule in rules:
            found = rule(receiver, call, depth, at)
            if found is not None:
                return found
        return None

    return answer
