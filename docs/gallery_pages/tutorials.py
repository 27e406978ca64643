"""Notebooks of the tutorials: the prose of a page becomes text cells, and its Python blocks become code cells.

The page is the only source. A `>>>` session becomes the typed lines, because a notebook prints its own results. A saved
picture becomes the picture itself, and the link to the file of the page is dropped.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import tempfile
from pathlib import Path

from docs.gallery_pages.notebook import Cell, notebook_json

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "tutorials"
#: A block to run, with the comment above it that keeps it from running in the tests.
BLOCK = re.compile(r"^(<!-- no-run: .* -->\n)?```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"^!\[.*\]\(pictures/.*\)\n+", re.MULTILINE)
SAVED = re.compile(r"^(\w+)\.save\(\"[\w-]+\.svg\"\)\n?\Z", re.MULTILINE)


def names() -> list[str]:
    """Return the names of the tutorials, in the order of the contents."""
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    return re.findall(r"^([\w-]+)$", index.split("{toctree}")[1].split("```")[0], re.MULTILINE)


def cells_of(page: str) -> list[Cell]:
    """Return the cells of a page."""
    cells: list[Cell] = []
    text = ""
    position = 0
    for block in BLOCK.finditer(page):
        text += page[position : block.start()]
        position = block.end()
        if block[2] != "python" or block[1]:
            text += block[0].removeprefix(block[1] or "")  # shown, not run
            continue
        cells += _text_cell(text)
        text = ""
        for source, raises in steps_of(block[3]):
            cells.append(Cell("code", SAVED.sub(r"\1", source), ["raises-exception"] if raises else []))
    return [*cells, *_text_cell(text + page[position:])]


def steps_of(block: str) -> list[tuple[str, bool]]:
    """Return the code of a block in steps, each with True if it raises on purpose: such a step ends its cell."""
    if not block.lstrip().startswith(">>>"):
        return [(block, False)]
    steps: list[tuple[str, bool]] = []
    for example in doctest.DocTestParser().get_examples(block):
        raises = example.exc_msg is not None
        if steps and not steps[-1][1] and not raises:
            steps[-1] = (steps[-1][0] + example.source, False)
        else:
            steps.append((example.source, raises))
    return steps


def draw(name: str) -> list[str]:
    """Run a tutorial in an empty folder, keep the pictures that it saves there, and return their names."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    runs = [block for block in BLOCK.finditer(page) if block[2] == "python" and not block[1]]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for source, raises in (step for block in runs for step in steps_of(block[3])):
            with contextlib.suppress(*([Exception] if raises else [])):
                exec(compile(source, f"{name}.md", "exec"), namespace)
        made = sorted(Path(folder).glob("*.svg"))
        for path in made:
            (FOLDER / "pictures" / path.name).write_bytes(path.read_bytes())
        return [path.name for path in made]


def notebook_of(name: str) -> str:
    """Return a tutorial as a notebook."""
    return notebook_json(cells_of((FOLDER / f"{name}.md").read_text(encoding="utf-8")))


def write() -> int:
    """Write changed notebooks beside the pages. Return their number."""
    count = 0
    for name in names():
        path, made = FOLDER / f"{name}.ipynb", notebook_of(name)
        if not path.is_file() or path.read_text(encoding="utf-8") != made:
            path.write_text(made, encoding="utf-8")
            count += 1
    return count


def _text_cell(text: str) -> list[Cell]:
    kept = IMAGE.sub("", text)
    kept = re.sub(r"\{download\}`.*?`", "", kept).strip()
    kept = re.sub(r"\]\((?!https?:|#)([\w./-]+?)\.md", r"](\1.html", kept)
    return [Cell("markdown", kept)] if kept else []
