"""A Sphinx extension: the book of a repository beside its documentation, and a role that links to its pages.

    extensions = ["repobook.sphinx_extension"]
    repobook_root = ".."

Before Sphinx reads its sources the book and its site are brought up to date; after the build they lie in `book/` of the
output. ``:book:`src/thing.py``` links to the page of a file, ``:book:`thing.Engine.run``` to that of a symbol.
"""

import shutil
from pathlib import Path
from typing import Any

from docutils import nodes

from repobook import __version__, ask
from repobook.build import build_model, database, silent
from repobook.config import Config
from repobook.model import store
from repobook.pages.markdown import slug, url
from repobook.pages.writer import write_pages
from repobook.site.build import FOLDER, write_site


def _paths(app: Any) -> tuple[Path, Path]:
    root = (Path(app.confdir) / app.config.repobook_root).resolve()
    return root, Path(app.doctreedir) / "repobook"


def _build(app: Any) -> None:
    root, output = _paths(app)
    config = Config.load(root)
    db, outcome = build_model(root, output, config)
    write_pages(db, root, output, config, 1, outcome, silent)
    write_site(db, root, output, config.title or root.name, 1, silent)
    db.close()


def _copy(app: Any, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        shutil.copytree(_paths(app)[1] / FOLDER, Path(app.outdir) / "book", dirs_exist_ok=True)


def target_of(output: Path, text: str) -> str | None:
    """The page in the site of a path or a name, or None."""
    db = store.connect(database(output), readonly=True)
    try:
        if db.execute("SELECT 1 FROM files WHERE path=?", (text,)).fetchone():
            return url(f"{text}_docs.html")
        found = ask.find(db, text, 1)
    finally:
        db.close()
    return f"{url(found[0].path)}_docs.html#{slug(found[0].qualified)}" if found else None


def _role(name: str, rawtext: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = None) -> Any:
    env = inliner.document.settings.env
    target = target_of(Path(env.doctreedir) / "repobook", text)
    if target is None:
        message = inliner.reporter.warning(f"repobook: no file or symbol {text!r} in the book", line=line)
        return [nodes.literal(rawtext, text)], [message]
    up = "../" * env.docname.count("/")
    return [nodes.reference(rawtext, "", nodes.literal(rawtext, text), refuri=f"{up}book/{target}")], []


def setup(app: Any) -> dict[str, Any]:
    app.add_config_value("repobook_root", "..", "env")
    app.add_role("book", _role)
    app.connect("builder-inited", _build)
    app.connect("build-finished", _copy)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
