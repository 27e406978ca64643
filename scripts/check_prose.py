"""Check the English of docstrings, comments and error texts, as far as a program can: first words and banned words.

    python scripts/check_prose.py                 check the whole tree, pages of docs included
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
#: Pages, whose sentences are checked like those of docstrings.
PAGES = ("docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "repobook/docs")
#: Stubs that no script writes.
STUBS = ("src/ndgrad/_typing.pyi",)

#: Words that start no sentence of a docstring or comment.
QUESTIONS = re.compile(r"(What|Where|Who|Whose|Which|How)\b(?!.*\?$)")
#: First words of the second half of a sentence.
FRAGMENTS = re.compile(r"((in |for |to )?which|who|whose|whom|(so )?that|and|or|but|of|where|whatever|whoever)\b")
#: First words of headings that are no nouns. `where` is also the name of a function.
CLAUSES = re.compile(r"(what|who|whose|which|how|of|that|those|where (?!=)\w+)\b(?!=)", re.IGNORECASE)
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
    if path.suffix == ".md":
        yield from _page(text)
        return
    rows = text.splitlines()
    tree = ast.parse(text)
    for line, complaint in (*_docstrings(tree), *_texts(tree), *_comments(text)):
        if not rows[line - 1].endswith("# prose: ok"):
            yield line, complaint


def _page(text: str) -> Iterator[tuple[int, str]]:
    """Check the paragraphs of a page, without code, headings and tables. A question may start with a question word."""
    is_code, before = False, ""
    for number, row in enumerate(text.splitlines(), 1):
        words = row.strip()
        is_code ^= words.startswith("```")
        if is_code or words.startswith(("```", "#", "|", "<", ">")):
            before = ""
            continue
        words = re.sub(r"`[^`]*`", "`", words.removeprefix("- "))
        starts = re.split(r"(?<=[.:])\s+", words)
        # A line in the middle of a paragraph starts a sentence if the line before ends one.
        for sentence in starts if not before or before.endswith((".", ":")) else starts[1:]:
            if QUESTIONS.match(sentence):
                yield number, f"a sentence starts with a question word: {_short(sentence)}"
        if person := PERSONS.search(words):
            yield number, f"a person acts: {person.group(0)!r}"
        before = words


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
        if words.startswith("-----") and (clause := CLAUSES.match(words.strip("- "))):
            yield token.start[0], f"a heading is a clause, not a noun: {clause.group(0)!r}"
        if goes_on or words.startswith(("type:", "noqa", "fmt:", "-----")):
            continue
        if QUESTIONS.match(words):
            yield token.start[0], f"a comment starts with a question word: {_short(words)}"
        elif FRAGMENTS.match(words):
            yield token.start[0], f"a comment starts inside a sentence: {_short(words)}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return repr(words if len(words) < 60 else words[:57] + "...")


def _texts_in(folder: Path) -> list[Path]:
    return [*folder.rglob("*.py"), *folder.rglob("*.md")]


def _is_generated(page: Path) -> bool:
    """True for pages of the documentation that are written from the source."""
    where = page.relative_to(ROOT).as_posix()
    return where.startswith(("docs/reference/", "docs/errors/", "docs/_build/", "docs/gallery/"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", action="store_true", help="print a count for each folder")
    parser.add_argument("paths", nargs="*", help="files and folders; all sources by default")
    options = parser.parse_args()
    if options.paths:
        given = [Path(p).resolve() for p in options.paths]
        files = sorted({file for path in given for file in (_texts_in(path) if path.is_dir() else [path])})
    else:
        sources = {file for folder in SOURCES for file in (ROOT / folder).rglob("*.py")}
        places = [ROOT / page for page in PAGES]
        pages = {file for place in places for file in (_texts_in(place) if place.is_dir() else [place])}
        sources |= {ROOT / stub for stub in STUBS}
        files = sorted(sources | {file for file in pages if not _is_generated(file)})
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
