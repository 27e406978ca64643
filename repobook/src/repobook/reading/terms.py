"""Candidate terms of a file's comments and prose: phrases that it repeats and that ordinary English does not.

A worker sees one file; how much a term stands out against the tree is decided when all files are read.
"""

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from itertools import compress, islice, pairwise
from operator import and_

# A word, a name (`pack_hook` is one, and no phrase), or the end of a phrase.
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*(?!\w)|\w+|[.,;:!?()\[\]{}`\"|=<>/\\]+")
# A text with one of these is a licence or an address, and no prose of the tree.
_SKIP = ("copyright", "license", "licence", "http://", "https://", "redistribut")
_MOST = 24


@cache
def background() -> frozenset[str]:
    """Ordinary words, which are no terms however often a tree uses them."""
    return frozenset(files("repobook.reading").joinpath("background.txt").read_text(encoding="utf-8").split())


def terms(texts: list[tuple[int, str]]) -> dict[str, tuple[int, int]]:
    """term -> (count, first line) for (line, text) pieces."""
    lowered = [(line, text.lower()) for line, text in texts]
    kept = [row for row in lowered if not any(mark in row[1] for mark in _SKIP)]
    # A stop between two pieces keeps phrases from running over their border.
    words = _WORD.findall(" . ".join([text for _, text in kept]))
    if len(words) < 8:
        return {}
    ordinary = background()
    # A term is repeated only if each of its words is.
    known = {
        word: count
        for word, count in Counter(words).items()
        if count > 1 and len(word) > 2 and word not in ordinary and word[0].isalpha()
    }
    inside = list(map(known.__contains__, words))
    pairs = Counter(compress(pairwise(words), map(and_, inside, islice(inside, 1, None))))
    found: dict[str, int] = {f"{one} {two}": count for (one, two), count in pairs.items() if count > 1 and one != two}
    in_pairs = Counter[str]()
    for (one, two), count in pairs.items():
        if count > 1:
            in_pairs[one] += count
            in_pairs[two] += count
    for word, count in known.items():
        if count - in_pairs[word] > 2:
            found[word] = count
    best = sorted(found.items(), key=lambda row: (-row[1] * (1 + (" " in row[0])), row[0]))[:_MOST]
    return {term: (count, _first(term, kept)) for term, count in best}


_GAP = re.compile(r"[^\w.,;:!?()\[\]{}`\"|=<>/\\]+")
_IN_A_WORD = re.compile(r"[\w-]")


def _first(term: str, texts: list[tuple[int, str]]) -> int:
    """The line where a term stands first, as its words were counted."""
    one, _, two = term.partition(" ")
    for line, text in texts:
        at = text.find(one)
        while at >= 0:
            end = at + len(one)
            gap = _GAP.match(text, end) if two else None
            if gap is not None and text.startswith(two, gap.end()):
                end = gap.end() + len(two)
            elif two:
                end = 0
            if end and not _IN_A_WORD.match(text, end) and not (at and _IN_A_WORD.match(text, at - 1)):
                return line + text.count("\n", 0, at)
            at = text.find(one, at + 1)
    return texts[0][0]
