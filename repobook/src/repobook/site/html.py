"""The Markdown that our pages use, as HTML. Not a Markdown processor: it knows what `pages` writes and nothing else.

Whatever it does not recognise is text, and text is escaped; so a page that is safe as Markdown is safe as HTML.
"""

import re
from collections.abc import Callable
from html import escape, unescape

from repobook.site import diagram

Href = Callable[[str], str]  # the address of a link's target, '' where the site has none

_INLINE = re.compile(
    r"(?P<tick>`+)(?P<code>.+?)(?<!`)(?P=tick)(?!`)"
    r'|<a id="(?P<anchor>[\w.~-]+)"></a>'
    r"|\[(?P<text>(?:[^\[\]\\`]|\\.|(?P<inner>`+).+?(?<!`)(?P=inner)(?!`))*)\]\((?P<href>[^()\s]*)\)"
    r"|\*\*(?P<bold>(?:[^*\\]|\\.)+)\*\*"
    r"|\\(?P<escaped>.)"
    r"|(?P<entity>&(?:lt|gt|amp);)"
)
_FENCE = re.compile(r"(`{3,})([^`\s]*)\s*\Z")
_SUMMARY = re.compile(r"<details><summary>([\d,]+ lines)</summary>\Z")
_SLUG = re.compile(r"[^\w\- ]")


def inline(text: str, href: Href) -> str:
    parts: list[str] = []
    at = 0
    for match in _INLINE.finditer(text):
        parts.append(escape(text[at : match.start()]))
        at = match.end()
        kind = match.lastgroup
        if match["code"] is not None:
            parts.append(f"<code>{escape(match['code'].strip() or ' ')}</code>")
        elif match["anchor"] is not None:
            parts.append(f'<a id="{match["anchor"]}"></a>')
        elif match["href"] is not None:
            target, shown = href(match["href"]), inline(match["text"], href)
            parts.append(f'<a href="{escape(target)}">{shown}</a>' if target else shown)
        elif match["bold"] is not None:
            parts.append(f"<strong>{inline(match['bold'], href)}</strong>")
        elif match["escaped"] is not None:
            parts.append(escape(match["escaped"]))
        elif kind == "entity":
            parts.append(match["entity"])
    parts.append(escape(text[at:]))
    return "".join(parts)


def plain(text: str) -> str:
    """The text of a line without its markup."""
    return unescape(re.sub(r"<[^>]*>", "", inline(text, lambda target: target)))


def heading_id(text: str) -> str:
    return _SLUG.sub("", plain(text).strip().lower()).replace(" ", "-")


def blocks(markdown: str, href: Href) -> str:
    """A page's Markdown as the inside of <main>."""
    lines = markdown.split("\n")
    parts: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        if fence:
            end = next((k for k in range(at + 1, len(lines)) if lines[k].rstrip() == fence[1]), len(lines))
            parts.append(_fenced(lines[at + 1 : end], fence[2]))
            at = end + 1
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            text = line[level:].strip()
            parts.append(f'<h{level} id="{heading_id(text)}">{inline(text, href)}</h{level}>')
            at += 1
        elif line.startswith("- "):
            parts.append("<ul>")
            while at < len(lines) and lines[at].startswith("- "):
                parts.append(f"<li>{inline(lines[at][2:], href)}</li>")
                at += 1
            parts.append("</ul>")
        elif line.startswith("| "):
            end = at
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            parts.append(_table(lines[at:end], href))
            at = end
        elif _SUMMARY.match(line):
            parts.append(f"<details><summary>{_SUMMARY.match(line)[1]}</summary>")  # type: ignore[index]
            at += 1
        elif line == "</details>":
            parts.append(line)
            at += 1
        elif line.strip():
            parts.append(f"<p>{inline(line, href)}</p>")
            at += 1
        else:
            at += 1
    return "\n".join(parts)


def _fenced(lines: list[str], language: str) -> str:
    if language == "mermaid":
        return diagram.render(lines)
    kind = "prose" if language == "text" else "code"
    return f'<pre class="{kind}">{escape(chr(10).join(lines))}</pre>'


def _table(lines: list[str], href: Href) -> str:
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    head = "".join(f"<th>{inline(cell, href)}</th>" for cell in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{inline(cell.replace(chr(92) + '|', '|'), href)}</td>" for cell in row) + "</tr>"
        for row in rows[2:]
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
