"""The document around every page of the site: header with search, the way to the page, its contents."""

import posixpath
import re
from html import escape
from typing import NamedTuple
from urllib.parse import quote

_POLICY = (
    "default-src 'self'; style-src 'self'; script-src 'self'; img-src 'self' data:; frame-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'none'"
)
# `blocks` of html.py writes headings like this, and the contents of a tree are escaped before.
_SECTION = re.compile(r'<h2 id="([^"]*)">(.*?)</h2>')
_TAGS = re.compile(r"<[^>]*>")
CURRENT = ' aria-current="page"'
FILE_PAGES = {"Page": "_docs.html", "Keywords": "_kw.html", "Source": "_source.html"}


def relative(page: str, folder: str) -> str:
    """The address of a page of the site, seen from a folder of it."""
    return quote(posixpath.relpath(page, folder or "."), safe="/._-~")


class Tab(NamedTuple):
    """One of the pages about the same thing."""

    label: str
    page: str


def document(
    page: str, heading: str, body: str, title: str, tabs: tuple[Tab, ...] = (), source: str = "", home: str = ""
) -> str:
    """A whole document. `page`: its path in the site; `source`: the page that can stand beside it; `home`: the first
    page of the documentation that the site is part of."""
    folder = posixpath.dirname(page)
    base = "../" * page.count("/")
    beside = f' data-source="{escape(relative(source, folder))}"' if source else ""
    split = (
        '<button type="button" id="split" aria-pressed="false" title="Source beside the page (s)">'
        '<span aria-hidden="true">◫</span><span class="wide-only"> Source</span>'
        '<span class="unseen"> beside the page</span></button>\n'
        if beside
        else ""
    )
    contents = _contents(body) if not page.endswith("_source.html") else ""
    return f"""<!doctype html>
<html lang="en" data-base="{base}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(heading)} · {escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{base}assets/style.css">
<script src="{base}assets/theme.js"></script>
<script src="{base}assets/search.js" defer></script>
<script src="{base}assets/app.js" defer></script>
</head>
<body{beside}>
<a class="skip" href="#main">Skip to the page</a>
<header>
<a class="home" href="{base}index.html">{escape(title)}</a>
<div class="search" role="search">
<input id="q" type="search" role="combobox" aria-label="Search symbols and files" aria-expanded="false"
 aria-controls="found" aria-autocomplete="list" placeholder="Search symbols and files" autocomplete="off"
 autocapitalize="off" spellcheck="false"><kbd aria-hidden="true">/</kbd>
<div id="found" role="listbox" aria-label="Found" hidden></div>
</div>
{split}<button type="button" id="theme" title="Light or dark (d)"><span aria-hidden="true">◐</span><span class="unseen">
Light or dark</span></button>
<p id="said" class="unseen" role="status"></p>
</header>
{_place(page, title, tabs, home)}<div class="columns">
{contents}<main id="main" tabindex="-1">
{body}
</main>
</div>
</body>
</html>
"""


def _place(page: str, title: str, tabs: tuple[Tab, ...], home: str) -> str:
    folder, name = posixpath.split(page)
    parts = folder.split("/") if folder else []
    steps = [("Documentation", home)] if home else []
    steps += [(title, "index.html")]
    steps += [(part, "/".join(parts[: at + 1]) + "/index.html") for at, part in enumerate(parts)]
    rows = "".join(f'<li><a href="{relative(target, folder)}">{escape(text)}</a></li>' for text, target in steps)
    file = next((name.removesuffix(ending) for ending in FILE_PAGES.values() if name.endswith(ending)), "")
    if file:
        rows += f'<li aria-current="page">{escape(file)}</li>'
    others = "".join(
        f'<a href="{relative(tab.page, folder)}"{CURRENT if tab.page == page else ""}>{tab.label}</a>' for tab in tabs
    )
    shown = f'<nav class="tabs" aria-label="Pages">{others}</nav>' if others else ""
    return f'<div class="place"><nav aria-label="Place"><ol>{rows}</ol></nav>{shown}</div>\n'


def _contents(body: str) -> str:
    """The sections of a page, where it has enough of them to need a list."""
    sections = _SECTION.findall(body)
    if len(sections) < 3:
        return ""
    rows = "".join(f'<li><a href="#{anchor}">{_TAGS.sub("", text)}</a></li>' for anchor, text in sections)
    return (
        f'<nav class="contents" aria-label="On this page"><details open><summary>On this page</summary>'
        f"<ul>{rows}</ul></details></nav>\n"
    )
