"""`ndgrad explain CODE`: explain the code at the end of an error message."""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
import textwrap

from ndgrad._src.command_line import CommandError
from ndgrad._src.foundations.error_codes import Entry, entries


def run(options: argparse.Namespace) -> int:
    known = entries()
    if not options.code:
        width = max(map(len, known))
        print("\n".join(f"{e.code:{width}}  {e.summary}" for e in known.values()))
        return 0
    print(format_entry(known[_code(" ".join(options.code))]))
    return 0


def _code(words: str) -> str:
    """Return the code in the user's words: a code, with or without brackets and `nd-`, or a whole message."""
    known = entries()
    written = re.findall(r"\[(nd-[a-z-]+)\]", words)
    name = written[-1] if written else f"nd-{words.strip('[] ').lower().removeprefix('nd-')}"
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, 3)
    hint = f"Did you mean {', '.join(near)}?" if near else "`ndgrad explain` lists them."
    raise CommandError(f"there is no code {name!r}. {hint} [nd-command]")


def format_entry(entry: Entry) -> str:
    """Format an entry as plain text for the terminal's width: paragraphs filled, examples indented."""
    width = min(shutil.get_terminal_size().columns, 100)
    parts = [f"{entry.code}: {entry.summary}"]
    for paragraph in entry.text.split("\n\n"):
        if "```" in paragraph:
            parts.append(
                textwrap.indent(re.sub(r"^(```.*|<!--.*-->)\n?", "", paragraph, flags=re.MULTILINE).rstrip(), "    ")
            )
        else:
            parts.append(textwrap.fill(re.sub(r"\*\*|\[([^]]+)\]\([^)]+\)", r"\1", paragraph), width))
    return "\n\n".join(parts)
