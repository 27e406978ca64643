"""A Sphinx extension: the book of a repository beside its documentation, and a role that links to its pages.

    extensions = ["repobook.sphinx_extension"]
    repobook_root = ".."

Before Sphinx reads its sources the book and its site are brought up to date; after the build they lie in `book/` of the
output. ``:book:`src/thing.py``` links to the page of a file, ``:book:`thing.Engine.run``` to that of a symbol,
``:book:`how it runs <thing.Engine.run>``` in words of one's own.

Pages of the book link back. `repobook_documented` is a function of the path of a file, which gives the names that the
documentation tells about and the page and anchor where it does:

    def repobook_documented(path):
        return [("thing.Engine", "reference/thing.html#thing.Engine")] if path == "src/thing.py" else []
"""

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.nodes import split_explicit_title

from repobook import __version__, ask
from repobook.book import update_book
from repobook.build import database, silent
from repobook.config import Config
from repobook.model import store
from repobook.naming import page_name
from repobook.pages.markdown import slug, url
from repobook.site.build import FOLDER, Documentation, write_site


def _paths(app: Any) -> tuple[Path, Path]:
    root = (Path(app.confdir) / app.config.repobook_root).resolve()
    return root, Path(app.doctreedir) / "repobook"


def _build(app: Any) -> None:
    root, output = _paths(app)
    config = Config.load(root)
    documented = app.config.repobook_documented or (lambda path: ())

    def write(db: sqlite3.Connection) -> None:
        places = {
            path: tuple((name, f"../{address}") for name, address in documented(path))
            for (path,) in db.execute("SELECT path FROM files")
        }
        around = Documentation(f"../{app.config.root_doc}.html", places)
        write_site(db, root, output, config.title or root.name, os.cpu_count() or 1, silent, around)

    update_book(root, output, config, os.cpu_count() or 1, then=write)


def _copy(app: Any, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        site = Path(app.outdir) / "book"
        shutil.rmtree(site, ignore_errors=True)  # a page that is gone from the book goes here, too
        shutil.copytree(_paths(app)[1] / FOLDER, site, copy_function=_link)


def _link(source: str, target: str) -> None:
    """Both are large, and one is only read: one copy on the disk serves both where it can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def target_of(output: Path, text: str) -> str | None:
    """The page in the site of a path or a name, or None."""
    db = store.connect(database(output), readonly=True)
    try:
        if db.execute("SELECT 1 FROM files WHERE path=?", (text,)).fetchone():
            return url(page_name(text, "_docs.html"))
        found = ask.find(db, text, 1)
    finally:
        db.close()
    return f"{url(page_name(found[0].path, '_docs.html'))}#{slug(found[0].qualified)}" if found else None


def _role(name: str, rawtext: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = None) -> Any:
    env = inliner.document.settings.env
    has_title, title, text = split_explicit_title(text)
    target = target_of(Path(env.doctreedir) / "repobook", text)
    if target is None:
        message = inliner.reporter.warning(f"repobook: no file or symbol {text!r} in the book", line=line)
        return [nodes.literal(rawtext, text)], [message]
    up = "../" * env.docname.count("/")
    shown = nodes.Text(title) if has_title else nodes.literal(rawtext, text)
    return [nodes.reference(rawtext, "", shown, refuri=f"{up}book/{target}")], []


def setup(app: Any) -> dict[str, Any]:
    app.add_config_value("repobook_root", "..", "env")
    app.add_config_value("repobook_documented", None, "")
    app.add_role("book", _role)
    app.connect("builder-inited", _build)
    app.connect("build-finished", _copy)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
