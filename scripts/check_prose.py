"""Check the English of docstrings, comments and error texts, as far as a program can: first words and banned words.

    python scripts/check_prose.py                 check the folders that are finished
    python scripts/check_prose.py --all           check every folder, those of PENDING too
    python scripts/check_prose.py --count         print the number of findings for each folder
    python scripts/check_prose.py PATH ...        check files or folders

These rules of CONTRIBUTING can be checked: a docstring or comment does not start with a question word, a comment is not
the second half of a sentence, components act instead of persons, functions are verbs, and an error contrasts the wanted
and the given value by "but" ("must be positive, but is -1"). A line that ends in `# prose: ok` is left out.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("src/ndgrad", "tests", "benchmarks", "scripts", "examples", "demo", "repobook")
#: Folders and files whose texts have not been rewritten yet. The list may only shrink.
PENDING = tuple(f"src/ndgrad/{name}" for name in ("autograd", "implicit", "nested", "sparse"))

#: Words that start no sentence of a docstring or comment.
QUESTIONS = re.compile(r"(What|Where|Who|Whose|Which|How)\b(?!.*\?$)")
#: First words of the second half of a sentence.
FRAGMENTS = re.compile(r"((in |for |to )?which|who|whose|whom|(so )?that|and|or|but|of|where|whatever|whoever)\b")
#: Persons in the place of components.
PERSONS = re.compile(
    r"\b(somebody|someone|nobody|whoever|anybody|anyone|everybody|everyone|whomever|those who|no one)\b", re.IGNORECASE
)
#: Public names of torch's, which stay.
PUBLIC = frozenset(["put", "put_", "round", "to"])
#: The wanted and the given value of an error, joined by "and".
JOINED = re.compile(r", and (is|has|got|was given)\b")
#: Names of functions that are no verbs: participles and prepositions.
NAMES = frozenset(
    "above along among around at before behind below beside between beyond by for from in into of on onto out "
    "outside over past round since through to toward under until up upon with within without applied asked "
    "bound brought built called carried changed checked chosen combined computed copied counted cut divided "
    "done drawn emitted expanded fed filled found gathered given grouped held joined kept known laid left "
    "made mapped merged moved named noted ordered packed parted placed put read rebuilt ready reduced "
    "replaced said seen sent shared shown spread started stated taken told treated turned unified used wanted "
    "watched widened worked wrapped written".split()
)


def findings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield lines and complaints for a file."""
    text = path.read_text(encoding="utf-8")
    rows = text.splitlines()
    tree = ast.parse(text)
    for line, complaint in (*_docstrings(tree), *_texts(tree), *_comments(text)):
        if not rows[line - 1].endswith("# prose: ok"):
            yield line, complaint


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not _is_property(node)
        if is_function and node.name.strip("_") in NAMES and node.name not in PUBLIC and node.name[:2] != "__":
            yield node.lineno, f"the function name {node.name!r} is no verb"
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is None:
            continue
        first = node.body[0]
        text = re.sub(r"^ *(>>>|\.\.\.).*$", "", str(ast.get_docstring(node, clean=False)), flags=re.MULTILINE)
        for sentence in re.split(r"(?<=[.:])\s+|\n\s*\n", text):
            if QUESTIONS.match(sentence.strip()):
                yield first.lineno, f"a sentence starts with a question word: {_short(sentence)}"
        for person in PERSONS.finditer(text):
            yield first.lineno + text.count("\n", 0, person.start()), f"a person acts: {person.group(0)!r}"


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True for a property, which is a value and has the name of one."""
    return any(isinstance(d, ast.Name) and d.id == "property" for d in function.decorator_list)


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Check string literals other than docstrings, with an ellipsis for each value in an f-string."""
    done = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in done:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(v.value) if isinstance(v, ast.Constant) else "..." for v in node.values)
            done.update(map(id, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if found := JOINED.search(text):
            yield node.lineno, f"an error says {found.group(0)!r}: write ', but {found.group(1)}'"


def _comments(text: str) -> Iterator[tuple[int, str]]:
    before = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        words = token.string.lstrip("#:").strip()
        goes_on = token.start[0] == before + 1 and not token.line[: token.start[1]].strip()
        before = token.start[0] if not token.line[: token.start[1]].strip() else -1
        if person := PERSONS.search(words):
            yield token.start[0], f"a person acts: {person.group(0)!r}"
        if goes_on or words.startswith(("type:", "noqa", "fmt:", "-----")):
            continue
        if QUESTIONS.match(words):
            yield token.start[0], f"a comment starts with a question word: {_short(words)}"
        elif FRAGMENTS.match(words):
            yield token.start[0], f"a comment starts inside a sentence: {_short(words)}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return repr(words if len(words) < 60 else words[:57] + "...")


def _is_pending(path: Path) -> bool:
    where = path.relative_to(ROOT).as_posix()
    return any(where == folder or where.startswith(folder + "/") for folder in PENDING)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="check the folders of PENDING too")
    parser.add_argument("--count", action="store_true", help="print a count for each folder")
    parser.add_argument("paths", nargs="*", help="files and folders; all sources by default")
    options = parser.parse_args()
    given = [Path(p).resolve() for p in options.paths] or [ROOT / folder for folder in SOURCES]
    files = sorted({file for path in given for file in (path.rglob("*.py") if path.is_dir() else [path])})
    if not (options.all or options.count or options.paths):
        files = [file for file in files if not _is_pending(file)]
    counts: Counter[str] = Counter()
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        for line, complaint in findings(file):
            counts["/".join(name.split("/")[: 4 if "/_src/" in name else 3])] += 1
            if not options.count:
                print(f"{name}:{line}: {complaint}")
    if options.count:
        for folder, count in sorted(counts.items(), key=lambda item: -item[1]):
            print(f"{count:6d}  {folder}")
    print(f"{sum(counts.values())} findings in {len(files)} files", file=sys.stderr)
    return int(bool(counts) and not options.count)


if __name__ == "__main__":
    sys.exit(main())
