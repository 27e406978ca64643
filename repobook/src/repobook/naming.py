"""Names as pages group them and as a search splits them."""

import hashlib
import re
from functools import lru_cache

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@lru_cache(1 << 16)
def parts_of(name: str) -> str:
    """`THPEngine_run_backward` -> `thp engine run backward`"""
    return " ".join(_PART.findall(name)).lower()


def word_starts(name: str) -> list[int]:
    """Positions of the inner words of a name: `run_backward` -> [4]"""
    return [match.start() for match in _PART.finditer(name) if match.start()]


def shard_of(name: str) -> str:
    """The first two letters or digits of a name, without leading underscores."""
    return _head(name.lstrip("_~").lower()[:2])


@lru_cache(1 << 12)
def _head(letters: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in letters) or "-"


def group_of(name: str) -> str:
    """The page of keywords that lists a name: its first two letters; tests by those after `test_`."""
    bare = name.lstrip("_~")
    if bare.lower().startswith("test_") and len(bare) > 5:
        return "test-" + shard_of(bare[5:])
    return shard_of(bare)


# File systems allow 255 bytes in a name, and `_source.html` is the longest ending of a page.
_LONGEST = 255 - len("_source.html")


@lru_cache(1 << 16)
def page_base(path: str) -> str:
    """The path of a file as its pages have it: a name that leaves no room for an ending is shortened, with a digest."""
    folder, slash, name = path.rpartition("/")
    if len(name) * 4 <= _LONGEST or len(name.encode("utf-8", "replace")) <= _LONGEST:
        return path
    digest = hashlib.blake2b(path.encode("utf-8", "replace"), digest_size=4).hexdigest()
    short = name.encode("utf-8", "replace")[: _LONGEST - len(digest) - 1].decode("utf-8", "ignore")
    return f"{folder}{slash}{short}~{digest}"


def page_name(path: str, ending: str = "_docs.md") -> str:
    """The page of a file in the book or in the site."""
    return page_base(path) + ending
