"""Docstrings of functions that are generated from tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["compose", "described", "split"]


def compose(purpose: str, parameters: Mapping[str, str], example: str = "", sections: Sequence[str] = ()) -> str:
    """Return the docstring of a generated function.

    Args:
        purpose: first paragraphs.
        parameters: descriptions by name. Names that share a description are separated by ", ".
        example: `>>>` session.
        sections: further sections, with their headings.
    """
    entries = "\n".join(f"    {name}: {text}" for name, text in parameters.items())
    parts = [purpose, f"Args:\n{entries}" if entries else "", *sections, example]
    return "\n\n".join(part for part in parts if part) + "\n"


def split(text: str) -> tuple[str, dict[str, str], str]:
    """Return the paragraphs before the first section of a docstring without indentation, its sections by their
    headings, and its example."""
    prose, arrows, example = text.partition(">>> ")
    paragraphs, sections = [], {}
    for block in prose.strip().split("\n\n"):
        heading, colon, body = block.partition(":\n")
        if colon and body.startswith("    "):
            sections[heading] = block
        else:
            paragraphs.append(block)
    return "\n\n".join(paragraphs), sections, (arrows + example).strip()


def described(section: str) -> dict[str, str]:
    """Return the descriptions by name in a section `Args`."""
    found: dict[str, str] = {}
    entry: list[str] = []
    for line in section.splitlines()[1:]:
        if line.startswith("     ") and entry:  # the line continues an entry
            found |= dict.fromkeys(entry, f"{found[entry[0]]} {line.strip()}")
        else:
            names, _, text = line.strip().partition(": ")
            entry = [name.lstrip("*") for name in names.split(", ")]
            found |= dict.fromkeys(entry, text)
    return found
