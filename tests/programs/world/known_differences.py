"""Kinds whose fixed programs differ compiled. The list must become empty; a kind that no longer differs fails as an xfail."""

from __future__ import annotations

KNOWN_DIFFERENCES: frozenset[str] = frozenset()

#: Seeds whose programs differ although no kind of theirs does alone.
KNOWN_SEEDS: frozenset[int] = frozenset()

#: Common kinds whose calls run eagerly.
KNOWN_EAGER = frozenset(["effect: argument written in place"])
