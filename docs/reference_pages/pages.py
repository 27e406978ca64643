"""The files of the reference: the content of each page, and writing changed pages.

Names are grouped by task (`tasks`). A large namespace has a page per task, a smaller one has a section per task. Pages are
written under docs/reference/ before Sphinx reads its sources. If the sources are unchanged, nothing is done. A
page whose text is unchanged is not written, so that Sphinx takes it from its cache.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from pathlib import Path

from docs.reference_pages import markup, tasks
from docs.reference_pages import ops as op_pages
from docs.reference_pages.entries import ROOT, Site, Writer, docstring, ops_of, shared_names, source_of
from docs.reference_pages.namespaces import HEADINGS, Namespace, get, namespaces

from ndgrad._src.ops.table import Op

#: A namespace with more entries of its own, or with more names in all, has a page per task.
LARGEST = 60
MOST_NAMES = 120
#: Pages of the reference are reached by links, not from the sidebar, which would be too long.
_APART = "---\norphan: true\n---\n\n"


class Reference:
    """The reference, made from the source: its pages and the objects on them."""

    def __init__(self) -> None:
        self.namespaces = {name: n for name, n in namespaces().items() if n.names}
        self.families = op_pages.families()
        shared = shared_names(self.namespaces)
        #: Namespace -> its tasks with their names, in the order of the index.
        self.tasks = {name: tasks.group_names(n) for name, n in self.namespaces.items() if name in tasks.TASKS}
        #: Namespaces with a page per task.
        self.split = {name for name, n in self.namespaces.items() if is_large(n, shared)}
        where = {}
        for name, namespace in self.namespaces.items():
            where.update(dict.fromkeys((f"{name}.{n}" for n in namespace.names), f"reference/{name}"))
            for task, names in self.tasks.get(name, {}).items() if name in self.split else ():
                where.update(dict.fromkeys((f"{name}.{n}" for n in names), f"reference/{name}/{task.slug}"))
        ops = {op.name: f"reference/ops/{family}" for family, found in self.families.items() for op in found}
        self.site = Site(where, ops, shared)

    def pages(self) -> dict[str, str]:
        """Return path below docs/, without its extension -> the page's Markdown."""
        made = {"reference/index": self._index(), "reference/ops": self._op_index()}
        for name, namespace in self.namespaces.items():
            if name not in self.split:
                made[f"reference/{name}"] = self._page(namespace)
                continue
            made[f"reference/{name}"] = self._overview(namespace)
            for task, names in self.tasks[name].items():
                made[f"reference/{name}/{task.slug}"] = self._task_page(namespace, task, names)
        users = self._users_of_ops()
        for family, ops in self.families.items():
            path = f"reference/ops/{family}"
            link = Writer(self.namespaces["ndgrad"], path, self.site).link
            trail = _trail("../../", "", ("The op table", "reference/ops"))
            made[path] = _APART + op_pages.page(family, ops, users, link, trail, self._describe)
        return made

    def objects(self) -> dict[str, list[tuple[str, str]]]:
        """Return page -> (public name, kind) of the objects on it, for Sphinx's search and cross-references."""
        found: dict[str, list[tuple[str, str]]] = {}
        for qualified, page in self.site.pages.items():
            owner, _, name = qualified.rpartition(".")
            namespace = self.namespaces[owner]
            value = get(namespace, name)
            kind = (
                "class"
                if inspect.isclass(value)
                else "data"
                if not callable(value)
                else "method"
                if namespace.is_class
                else "function"
            )
            found.setdefault(page, []).append((qualified, kind))
        return found

    def sources(self) -> dict[str, list[tuple[str, str]]]:
        """Return file -> (public name, its place in the reference) of its definitions, for the book of the source."""
        found: dict[str, list[tuple[str, str]]] = {}
        for family in self.families:
            path = f"src/{op_pages.source_path(op_pages.module_of(family))}"
            found.setdefault(path, []).append(("the op table", f"reference/ops/{family}.html"))
        for qualified, page in self.site.pages.items():
            owner, _, name = qualified.rpartition(".")
            value = get(self.namespaces[owner], name)
            place = source_of(value)
            if place is not None and self.site.shared.get(id(value), qualified) == qualified:
                found.setdefault(f"src/{place[0]}", []).append((qualified, f"{page}.html#{qualified}"))
        return found

    def _page(self, namespace: Namespace) -> str:
        """Return the only page of a namespace; names of several tasks have a section per task."""
        writer = Writer(namespace, f"reference/{namespace.name}", self.site)
        parts = [
            f"{_APART}# `{namespace.name}`",
            op_pages.raw(_trail(writer.up, namespace.heading) + markup.prose(_about(namespace), writer.link)),
        ]
        groups = self.tasks.get(namespace.name)
        if groups is None:
            names = namespace.names
            contents = _table(writer, names) if len(names) > 3 else ""
            parts.append(op_pages.raw(contents + "\n".join(writer.entry(name) for name in names)))
        for task, names in (groups or {}).items():
            entries = "\n".join(writer.entry(name) for name in names)
            parts += [f"## {task.title}", op_pages.raw(f"<p>{_sentence(task, writer)}</p>{_table(writer, names)}{entries}")]
        return "\n\n".join(parts) + "\n"

    def _task_page(self, namespace: Namespace, task: tasks.Task, names: list[str]) -> str:
        """Return the page of one task of a large namespace: a table of its names, and their entries."""
        writer = Writer(namespace, f"reference/{namespace.name}/{task.slug}", self.site)
        head = _trail(writer.up, "", (namespace.name, f"reference/{namespace.name}"))
        contents = _table(writer, names) if len(names) > 1 else ""
        body = f"{head}<p>{_sentence(task, writer)}</p>{contents}" + "\n".join(writer.entry(name) for name in names)
        return f"{_APART}# {task.title} in `{namespace.name}`\n\n{op_pages.raw(body)}\n"

    def _overview(self, namespace: Namespace) -> str:
        """Return the index of a large namespace: its tasks, with links to their names."""
        writer = Writer(namespace, f"reference/{namespace.name}", self.site)
        body = _trail(writer.up, namespace.heading) + markup.prose(_about(namespace), writer.link)
        parts = [f"{_APART}# `{namespace.name}`", op_pages.raw(body)]
        for task, names in self.tasks[namespace.name].items():
            chips = "".join(f'<a href="{writer.link(f"{namespace.name}.{name}")}">{name}</a>' for name in names)
            parts += [
                f"## [{task.title}]({namespace.name}/{task.slug}.md)",
                op_pages.raw(f'<p>{_sentence(task, writer)}</p><p class="names">{chips}</p>'),
            ]
        return "\n\n".join(parts) + "\n"

    def _describe(self, qualified: str) -> str:
        """Return the first sentence about a public name."""
        owner, _, name = qualified.rpartition(".")
        return markup.first_sentence(docstring(get(self.namespaces[owner], name)))

    def _index(self) -> str:
        parts = [
            "# Reference",
            "Every public name, with its signature, an example that the tests run, its counterpart in torch or NumPy and their differences. "
            "All of it is written from the source when the documentation is built.",
            "The [op table](ops.md) describes the ops: for each its formula, its saved values, and its rules in forward "
            "mode and under `vmap`.",
        ]
        for heading in HEADINGS:
            found = [n for n in self.namespaces.values() if n.heading == heading]
            rows = []
            for namespace in found:
                description = markup.first_sentence(_about(namespace))
                description = re.sub(r"^`?(ndgrad|torch)[\w.]*`?: ", "", description)  # the index shows the name already
                about = markup.inline(description[:1].upper() + description[1:], lambda name: None)
                count = f"{len(namespace.names)} name{'s' * (len(namespace.names) != 1)}"
                rows.append(
                    f'<tr><td><a href="{namespace.name}.html"><code>{namespace.name}</code></a></td><td>{about}</td><td>{count}</td></tr>'
                )
            if rows:
                parts += [
                    f"## {heading}",
                    op_pages.raw(f'<table class="docutils names"><tbody>{"".join(rows)}</tbody></table>'),
                ]
        return "\n\n".join(parts) + "\n\n```{toctree}\n:hidden:\n\nops\n```\n"

    def _op_index(self) -> str:
        count = sum(len(ops) for ops in self.families.values())
        rows = "".join(
            f'<tr><td><a href="ops/{family}.html">{family.replace("_", " ")}</a></td>'
            f"<td>{markup.inline(op_pages.summary(family), lambda name: None)}<br>{_op_links(family, ops)}</td></tr>"
            for family, ops in self.families.items()
        )
        return (
            f"# The op table\n\nAll differentiable functions consist of {count} ops. Each op is one block of the source: its forward function "
            "and its derivative. Its saved values, forward mode and batching follow from the block. "
            "[Adding an op](../adding-an-op.md) explains how to write one.\n\n"
            "In the formulas *t* is the tangent of an argument, or in reverse mode the gradient of the result; *g* is the gradient of the "
            "result, and *out* the result itself.\n\n"
            + op_pages.raw(f'<table class="docutils names"><tbody>{rows}</tbody></table>')
            + "\n"
        )

    def _users_of_ops(self) -> dict[str, list[str]]:
        used: dict[str, list[str]] = {}
        for namespace in self.namespaces.values():
            for name in namespace.names:
                value, qualified = get(namespace, name), f"{namespace.name}.{name}"
                if not namespace.is_class and self.site.shared.get(id(value)) == qualified:
                    for op in ops_of(value):
                        used.setdefault(op, []).append(qualified)
        return used


def is_large(namespace: Namespace, shared: dict[int, str]) -> bool:
    """True if a namespace needs a page per task. Names with their entry elsewhere are short and count less."""
    own = [name for name in namespace.names if shared.get(id(get(namespace, name))) == f"{namespace.name}.{name}"]
    return len(own) > LARGEST or len(namespace.names) > MOST_NAMES


def _table(writer: Writer, names: list[str]) -> str:
    """Return names with the first sentences of their docstrings, as links to their entries."""
    rows = "".join(
        f'<tr><td><a href="#{writer.namespace.name}.{name}"><code>{name}</code></a></td>'
        f"<td>{writer.summary(name)}</td></tr>"
        for name in names
    )
    return f'<table class="docutils names"><tbody>{rows}</tbody></table>'


def _sentence(task: tasks.Task, writer: Writer) -> str:
    return markup.inline(task.about, writer.link)


def _about(namespace: Namespace) -> str:
    text = docstring(namespace.home) if namespace.is_class else inspect.cleandoc(namespace.home.__doc__ or "")
    return text.partition(">>>")[0]


def _trail(up: str, heading: str, *steps: tuple[str, str]) -> str:
    """Return the position of a page, as links."""
    links = [("Reference", "reference/index"), *steps]
    made = " › ".join(f'<a href="{up}{page}.html">{title}</a>' for title, page in links)
    return f'<p class="trail">{made}{f" › {heading}" if heading and not steps else ""}</p>'


def _op_links(family: str, ops: list[Op]) -> str:
    return ", ".join(f'<a href="ops/{family}.html#op-{op.name}"><code>{op.name}</code></a>' for op in ops)


# ----- files ----------------------------------------------------------------------------------------------------------


def state_of_sources() -> str:
    """Return a number that changes with the sources of the reference."""
    folders = [ROOT / "src" / "ndgrad", ROOT / "docs" / "reference_pages", ROOT / "tests" / "torch_parity" / "names"]
    files = [
        *(ROOT / "docs" / "differences").glob("*.md"),
        *(p for folder in folders for p in folder.rglob("*") if p.suffix in (".py", ".txt")),
    ]
    facts = [(str(p.relative_to(ROOT)), p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(files)]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def write(docs: Path) -> int:
    """Write changed pages below docs/reference/ and remove obsolete ones. Return the number of pages written."""
    folder = docs / "reference"
    stamp = folder / "stamp.json"
    state = state_of_sources()
    if stamp.exists() and json.loads(stamp.read_text(encoding="utf-8"))["state"] == state:
        return 0
    reference = Reference()
    wanted = {docs / f"{path}.md": text for path, text in reference.pages().items()}
    for old in folder.rglob("*.md") if folder.exists() else ():
        if old not in wanted:
            old.unlink()
    count = 0
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            count += 1
    facts = {"state": state, "objects": reference.objects(), "sources": reference.sources()}
    stamp.write_text(json.dumps(facts), encoding="utf-8")
    return count


def read_records(docs: Path, what: str) -> dict[str, list[tuple[str, str]]]:
    """Return the "objects" or "sources" of the reference, as last written."""
    text = (docs / "reference" / "stamp.json").read_text(encoding="utf-8")
    found: dict[str, list[tuple[str, str]]] = json.loads(text)[what]
    return found
