"""`.gitignore` patterns, for trees whose files git cannot list for us."""

import re
from functools import cache

_ANYWHERE = "(?:.*/)?"
_WILD = re.compile(r"[*?\[\\]")


def _anchored(pattern: str) -> bool:
    return "/" in pattern.removeprefix("**/").rstrip("/")


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.S)


def expression_of(pattern: str) -> str:
    """One gitignore pattern as a regular expression over paths relative to its folder (folders end with `/`)."""
    anchored = _anchored(pattern)
    folder_only = pattern.endswith("/")
    body = pattern.strip("/") if anchored else pattern.strip("/").removeprefix("**/")
    pieces: list[str] = []
    at = 0
    while at < len(body):
        if body.startswith("**/", at):
            pieces.append(_ANYWHERE)
            at += 3
        elif body.startswith("**", at):
            pieces.append(".*")
            at += 2
        elif body[at] == "*":
            pieces.append("[^/]*")
            at += 1
        elif body[at] == "?":
            pieces.append("[^/]")
            at += 1
        elif body[at] == "[" and body.find("]", at + 2) > 0:
            close = body.find("]", at + 2)
            inside = body[at + 1 : close].replace("\\", "\\\\")
            pieces.append("[" + ("^" + inside[1:] if inside[:1] in "!^" else inside) + "]")
            at = close + 1
        elif body[at] == "\\" and at + 1 < len(body):
            pieces.append(re.escape(body[at + 1]))
            at += 2
        else:
            pieces.append(re.escape(body[at]))
            at += 1
    head = "" if anchored else _ANYWHERE
    tail = "/.*" if folder_only else "(?:/.*)?"
    return head + "".join(pieces) + tail + r"\Z"


def compile_pattern(pattern: str) -> re.Pattern[str]:
    return _compiled(expression_of(pattern))


class Ignore:
    """The patterns of one `.gitignore` file; later lines win.

    Asked while walking down, so a path below an ignored folder never comes here and a pattern need not look for it.
    """

    def __init__(self, text: str, base: str = "") -> None:
        self.base = base
        self.rules: list[tuple[str, bool]] = []
        # Nearly every path is mentioned by no rule. Most rules are a name, a path or an ending: those are looked up,
        # and compiled when a path has one of them; the others are one pattern. Each leads to its rules, by number.
        self._literal: dict[str, list[int]] = {}
        self._endings: dict[str, list[int]] = {}
        self._wild: list[int] = []
        for raw in text.splitlines():
            line = raw if raw.endswith("\\ ") else raw.rstrip()
            if not line or line.startswith("#"):
                continue
            negated = line.startswith("!")
            text_of_rule = line[1:] if negated else line.removeprefix("\\")
            rule = expression_of(text_of_rule)
            bare = text_of_rule.removeprefix("**/").strip("/")
            if not _WILD.search(bare):
                known = self._literal.setdefault(bare, [])
            elif bare.startswith("*") and not _WILD.search(bare[1:]) and "/" not in bare:
                known = self._endings.setdefault(bare[1:], [])
            else:
                try:
                    _compiled(rule)
                except re.error:
                    continue
                known = self._wild
            known.append(len(self.rules))
            self.rules.append((rule, negated))
        self._any_ending = tuple(self._endings)
        self._any_wild = re.compile("|".join(self.rules[at][0] for at in self._wild) or "(?!)", re.S)

    def decide(self, path: str, folder: bool) -> bool | None:
        """True: ignored; False: kept by a negated pattern; None: not mentioned."""
        relative = path[len(self.base) :] if self.base else path
        name = relative.rpartition("/")[2]
        known = [*self._literal.get(name, ()), *self._literal.get(relative, ())]
        if name.endswith(self._any_ending):
            known += [at for ending, found in self._endings.items() if name.endswith(ending) for at in found]
        if folder:
            relative += "/"
        if self._any_wild.match(relative):
            known += self._wild
        for at in sorted(known, reverse=True):
            rule, negated = self.rules[at]
            if _compiled(rule).match(relative):
                return not negated
        return None
