"""The search of the static site: shards of symbols by the first two letters of a name or of a part of it.

Shards are scripts, not JSON, because a page opened from disk may load a script but not fetch a file.
"""

import json
import sqlite3

from repobook.model.schema import FILE_SHIFT
from repobook.naming import parts_of, shard_of
from repobook.pages.markdown import slug

# Kinds that are found by a word in the middle of their name too.
_BY_PARTS = frozenset(
    {"class", "struct", "function", "method", "macro", "interface", "trait", "type", "binding", "file"}
)


def shards(db: sqlite3.Connection) -> dict[str, str]:
    """File name -> content."""
    paths: list[str] = []
    index: dict[int, int] = {}
    for file, path in db.execute(
        "SELECT id, path FROM files WHERE status NOT IN ('binary', 'empty', 'unreadable') ORDER BY path"
    ):
        index[file] = len(paths)
        paths.append(path)
    groups: dict[str, list[list[object]]] = {}
    seen: set[tuple[str, int]] = set()
    rows = db.execute(
        "SELECT id, name, qualified, kind, uses FROM symbols WHERE kind<>'namespace' ORDER BY uses DESC, name, id"
    )
    for symbol, name, qualified, kind, uses in rows:
        file = index.get(symbol >> FILE_SHIFT)
        if file is None:
            continue
        if kind == "file":
            name = name.rpartition("/")[2]
            entry: list[object] = [name, kind, file, "", uses]
        else:
            anchor = slug(qualified)
            if (anchor, file) in seen:
                continue
            seen.add((anchor, file))
            # The qualified name is not repeated where it is the name.
            entry = [name, kind, file, "" if qualified == name else qualified, uses]
        keys = {shard_of(name)}
        if kind in _BY_PARTS:
            keys.update(shard_of(part) for part in parts_of(name).split() if len(part) > 1)
        for key in keys:
            groups.setdefault(key, []).append(entry)
    found = {
        f"search/{key}.js": f"repobook.shard({json.dumps(key)},{_script(entries)})" for key, entries in groups.items()
    }
    found["search/paths.js"] = f"repobook.paths({_script(paths)})"
    return found


def _script(value: object) -> str:
    """JSON that is also safe inside a script."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
