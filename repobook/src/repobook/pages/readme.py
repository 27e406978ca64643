"""The first paragraphs of a README: prose only, without badges, lists, code and pictures."""

import re

from repobook.pages.wording import is_prose, strip_markup

_FENCE = re.compile(r"^\s*(```|~~~)")
_TAG = re.compile(r"<[^>]+>")
_RULE = re.compile(r"^\s*([-=~^\"'`#*+.:_])\1{2,}\s*$")
_SKIPPED = re.compile(r"\s*(?:[-*+] |#|\d+[.)] |[|>$]|\.\. |:\w+:|\[!\[|!\[|\[[^\]]+\]:|<!--|\||https?://|>>>)")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|<h[1-6][\s>])")
_ASIDE = re.compile(r"licen[sc]ed?\b|copyright|changelog|sponsor", re.I)
_PARAGRAPHS = 3
_LETTERS = 1200


def opening_paragraphs(text: str) -> list[str]:
    """Up to three paragraphs that say what a project is: the prose of the first section that has any."""
    found: list[str] = []
    length = 0
    for block in _blocks(text):
        if not block:
            if found:
                break
            continue
        plain = " ".join(strip_markup(_TAG.sub("", " ".join(block))).split())
        if not is_prose(plain) or len(plain) < 40 or (_ASIDE.search(plain) and len(plain) < 160):
            continue
        found.append(plain)
        length += len(plain)
        if len(found) == _PARAGRAPHS or length > _LETTERS:
            break
    return found


def _blocks(text: str) -> list[list[str]]:
    """Paragraphs as lists of lines, and [] for a heading; code, lists, tables and directives are left out."""
    found: list[list[str]] = []
    block: list[str] = []
    fenced = skipping = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            block, skipping = [], False
        elif fenced:
            continue
        elif not line.strip():
            found += [block] if block else []
            block, skipping = [], False
        elif _RULE.match(line):
            found.append([])  # the line above was a heading
            block, skipping = [], False
        elif _HEADING.match(line):
            found += [block, []] if block else [[]]
            block, skipping = [], False
        elif skipping or (not block and (_SKIPPED.match(line) or line.startswith(("    ", "\t")))):
            skipping = True
        else:
            block.append(line.strip())
    return [*found, block] if block else found
