"""A program of the gallery as a notebook: comments and docstrings become text, and the body of `main` becomes cells.

The script is the only source. Its docstring is the title, and each function is a cell, after the comment above it. The
paragraphs of `main` become cells in order, with the comments above them as text. The last cell shows the result.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

QUICK = "quick = False  # True runs a reduced form, in seconds"


class Cell:
    """A cell of text or code."""

    def __init__(self, kind: str, source: str, tags: Sequence[str] = ()) -> None:
        self.kind, self.source, self.tags = kind, source.strip("\n"), tags

    def as_json(self, number: int) -> dict[str, Any]:
        made: dict[str, Any] = {"cell_type": self.kind, "id": f"cell-{number}", "metadata": {}}
        if self.tags:
            made["metadata"] = {"tags": [*self.tags]}
        if self.kind == "code":
            made |= {"execution_count": None, "outputs": []}
        return made | {"source": self.source.splitlines(keepends=True)}


def title_of(script: Path) -> str:
    """Return the title of a program, from the name of its file."""
    words = script.stem.replace("_", " ")
    special = {
        "c kernel": "A kernel in C", "digits": "Convolutional digits",
        "lora finetuning": "LoRA fine-tuning",
        "hamiltonian monte carlo": "Hamiltonian Monte Carlo", "pde constrained": "PDE-constrained optimisation",
        "ode parameters": "Parameters of a differential equation",
        "physics informed": "A physics-informed network",
    }  # fmt: skip
    return special.get(words, words.capitalize())


def cells_of(script: Path) -> list[Cell]:
    """Return the cells of a script."""
    text = script.read_text(encoding="utf-8")
    lines, body = text.splitlines(), ast.parse(text).body
    cells = [Cell("markdown", f"# {title_of(script)}\n\n{ast.get_docstring(ast.parse(text))}")]
    needs = "This notebook is made from a script of ndgrad's gallery. It needs ndgrad and the imported libraries."
    cells.append(Cell("markdown", needs))
    loose: list[str] = []
    end = body[0].end_lineno or 0
    for statement in body[1:]:
        source, end = _lines(lines, statement, end), statement.end_lineno or 0
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            continue  # not needed in a cell
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.If)):
            loose.append(source.strip("\n"))
            continue
        if loose:
            cells.append(Cell("code", "\n".join(loose)))
            loose = []
        if isinstance(statement, ast.FunctionDef) and statement.name == "main":
            cells += _cells_of_main(lines, statement)
        elif not isinstance(statement, ast.If):  # `if __name__ == "__main__"`
            written = source.strip("\n").splitlines()
            code = next(k for k, line in enumerate(written) if not line.startswith("#"))
            if code:
                cells.append(_narration(written[:code]))
            cells.append(Cell("code", "\n".join(written[code:])))
    return cells


def notebook_of(script: Path) -> str:
    """Return the script as a notebook."""
    return notebook_json(cells_of(script))


def notebook_json(cells: list[Cell]) -> str:
    """Return cells as a notebook: JSON of format 4.5."""
    made = {
        "cells": [cell.as_json(number) for number, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _lines(lines: list[str], statement: ast.stmt, after: int) -> str:
    """Return a statement with the comments above it, without the indentation."""
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    return textwrap.dedent("\n".join(lines[after : first - 1] + lines[first - 1 : statement.end_lineno]))


def _narration(comments: Sequence[str]) -> Cell:
    """Return the comments above a paragraph of code as a cell of text."""
    said = " ".join(line.strip().lstrip("# ") for line in comments)
    return Cell("markdown", said[0].upper() + said[1:] + ("" if said.endswith((".", "?")) else "."))


def _cells_of_main(lines: list[str], main: ast.FunctionDef) -> list[Cell]:
    """Return the body of `main` as cells: a blank line or a comment between statements begins another."""
    cells = [Cell("markdown", f"## The result\n\n{ast.get_docstring(main)}"), Cell("code", QUICK)]
    first, *body = main.body
    end, paragraph = first.end_lineno or 0, ""
    for statement in body:
        between = lines[end : statement.lineno - 1]
        comments = [line for line in between if line.strip().startswith("#")]
        if between and paragraph:
            cells.append(Cell("code", paragraph))
            paragraph = ""
        if comments:
            cells.append(_narration(comments))
        source = textwrap.dedent("\n".join(lines[statement.lineno - 1 : statement.end_lineno]))
        if isinstance(statement, ast.Return):
            source = f"result, picture = {source.removeprefix('return ')}\npicture"
        paragraph += source + "\n"
        end = statement.end_lineno or 0
    return [*cells, Cell("code", paragraph)]
