"""`.gitignore` patterns, for trees whose files git cannot list for us."""

import re

_ANYWHERE = "(?:.*/)?"
_WILD = re.compile(r"[*?\[\\]")


def _is_anchored(pattern: str) -> bool:
    return "/" in pattern.removeprefix("**/").rstrip("/")


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """One gitignore pattern as a regular expression over paths relative to its folder (folders end with `/`)."""
    anchored = _is_anchored(pattern)
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
    return re.compile(head + "".join(pieces) + tail + r"\Z", re.S)


class Ignore:
    """The patterns of one `.gitignore` file; later lines win.

    Asked while walking down, so a path below an ignored folder never comes here and a pattern need not look for it.
    """

    def __init__(self, text: str, base: str = "") -> None:
        self.base = base
        self.rules: list[tuple[re.Pattern[str], bool]] = []
        # Nearly every path is mentioned by no rule. Most rules are a name, a path or an ending: those are looked up,
        # and the others are one pattern.
        literal: set[str] = set()
        endings: set[str] = set()
        patterns: list[str] = []
        for raw in text.splitlines():
            line = raw if raw.endswith("\\ ") else raw.rstrip()
            if not line or line.startswith("#"):
                continue
            negated = line.startswith("!")
            text_of_rule = line[1:] if negated else line.removeprefix("\\")
            try:
                rule = compile_pattern(text_of_rule)
            except re.error:
                continue
            self.rules.append((rule, negated))
            bare = text_of_rule.removeprefix("**/").strip("/")
            if not _WILD.search(bare):
                literal.add(bare)
            elif bare.startswith("*") and not _WILD.search(bare[1:]) and "/" not in bare:
                endings.add(bare[1:])
            else:
                patterns.append(rule.pattern)
        self._literal, self._endings = frozenset(literal), tuple(endings)
        self._patterns = re.compile("|".join(patterns) or "(?!)", re.S)

    def decide(self, path: str, folder: bool) -> bool | None:
        """True: ignored; False: kept by a negated pattern; None: not mentioned."""
        relative = path[len(self.base) :] if self.base else path
        name = relative.rpartition("/")[2]
        known = name in self._literal or relative in self._literal or name.endswith(self._endings)
        if folder:
            relative += "/"
        if not known and not self._patterns.match(relative):
            return None
        for pattern, negated in reversed(self.rules):
            if pattern.match(relative):
                return not negated
        return None
