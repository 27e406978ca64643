"""The pages of the gallery: one with all pictures, and one per program with its picture, its output and its source.

`examples/README.md` lists the programs with a line about each. Pictures and output are in
`examples/gallery/pictures`, where `python scripts/gallery.py` put them by running every program in full.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from docs.gallery_pages.notebook import cells_of, notebook_of, title_of

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "examples" / "gallery"


def programs() -> dict[str, str]:
    """Return name -> subject, in the order of the list."""
    readme = (GALLERY.parent / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `gallery/(\w+)\.py` \| (.*?) \|$", readme, re.MULTILINE))


def picture(name: str) -> str:
    """Return the program's picture, as SVG for a page."""
    return (GALLERY / "pictures" / f"{name}.svg").read_text(encoding="utf-8").strip()


def pages() -> dict[str, str]:
    """Return file -> text for all files of the gallery in the documentation."""
    made = {"index.md": _index()}
    for name in programs():
        made[f"{name}.md"] = _page(name)
        made[f"{name}.ipynb"] = notebook_of(GALLERY / f"{name}.py")
        made[f"{name}.py"] = (GALLERY / f"{name}.py").read_text(encoding="utf-8")
    return made


def write(docs: Path) -> int:
    """Write changed files, so that Sphinx reads no others again. Return the number of files."""
    folder, made = docs / "gallery", pages()
    folder.mkdir(exist_ok=True)
    for old in set(folder.iterdir()) - {folder / name for name in made}:
        old.unlink()
    changed = {
        name: text for name, text in made.items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    }  # fmt: skip
    for name, text in changed.items():
        (folder / name).write_text(text, encoding="utf-8")
    return len(changed)


def _index() -> str:
    tiles = "".join(
        f'<a class="tile" href="{name}.html">{picture(name)}<b>{escape(title_of(Path(name)))}</b>'
        f"<span>{escape(shows[0].upper() + shows[1:])}</span></a>"
        for name, shows in programs().items()
    )
    names = "\n".join(programs())
    return (
        "# Gallery\n\nUses of derivatives, in programs of a few screens. Each program runs by itself and is run by "
        "the tests. It is shown as a page, a script and a notebook. The programs draw their pictures with "
        "[`ndgrad.viz.Chart`](../pictures.md).\n\n"
        f'```{{raw}} html\n<div class="gallery">{tiles}</div>\n```\n\n'
        f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{names}\n```\n"
    )


def _page(name: str) -> str:
    script = (GALLERY / f"{name}.py").read_text(encoding="utf-8")
    printed = (GALLERY / "pictures" / f"{name}.txt").read_text(encoding="utf-8").rstrip()
    about = re.match(r'"""(.*?)"""', script, re.DOTALL)
    assert about is not None, name
    return (
        f"# {title_of(Path(name))}\n\n{about[1].strip()}\n\n"
        f"```{{raw}} html\n<div class=\"gallery-picture\">{picture(name)}</div>\n```\n\n"
        f"It prints\n\n```text\n{printed}\n```\n\n"
        f"Download it as {{download}}`a notebook <{name}.ipynb>` or {{download}}`a script <{name}.py>`, or "
        f"run `python examples/gallery/{name}.py` in a checkout.\n\n"
        f"## The program\n\n{_narrated(name)}\n"
    )


def _narrated(name: str) -> str:
    """Return the program as text and code in turns: the cells of its notebook after the title."""
    cells = cells_of(GALLERY / f"{name}.py")[2:]
    return "\n\n".join(cell.source if cell.kind == "markdown" else f"```python\n{cell.source}\n```" for cell in cells)
