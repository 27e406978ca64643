"""The tutorials: each is listed, has pictures of its own making, and is a notebook too. `test_docs` runs their examples."""

from __future__ import annotations

import ast
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from docs.gallery_pages import tutorials

import ndgrad
from tests.test_docs import python_blocks_of

PAGES = {path.stem: path.read_text(encoding="utf-8") for path in tutorials.FOLDER.glob("*.md") if path.stem != "index"}


def cells_of(name):
    return json.loads(tutorials.notebook_of(name))["cells"]


def code_of(cells):
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_every_tutorial_is_in_the_contents_and_in_the_table():
    assert sorted(PAGES) == sorted(tutorials.names())
    index = (tutorials.FOLDER / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| .* \| \[.*\]\(([\w-]+)\.md\) \|$", index, re.MULTILINE) == tutorials.names()


@pytest.mark.parametrize("name", PAGES)
def test_tutorial_shows_the_pictures_that_it_draws(name):
    shown = re.findall(r"^!\[.{20,}\]\(pictures/([\w-]+\.svg)\)$", PAGES[name], re.MULTILINE)
    saved = re.findall(r"[.(]\w*(?:save|draw)\(.*\"([\w-]+\.svg)\"\)", PAGES[name])
    assert shown
    assert shown == saved
    for picture in shown:
        text = (tutorials.FOLDER / "pictures" / picture).read_text(encoding="utf-8")
        assert len(text) < 100_000
        ElementTree.fromstring(text)
    assert f"<{name}.ipynb>" in PAGES[name]


def test_every_picture_is_shown():
    pictures = {path.name for path in (tutorials.FOLDER / "pictures").iterdir()}
    assert pictures == {found for page in PAGES.values() for found in re.findall(r"pictures/([\w-]+\.svg)", page)}


@pytest.mark.parametrize("name", PAGES)
def test_notebook_has_every_statement_of_the_page(name):
    cells = cells_of(name)
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert cells[0]["source"][0].startswith("# ")
    code = "\n".join(code_of(cells))
    assert ">>>" not in code
    written = {ast.unparse(node) for node in ast.parse(code).body}
    for block in python_blocks_of(PAGES[name]):
        if block.no_run is None and not block.is_session:
            assert {ast.unparse(node) for node in ast.parse(block.text).body if ".save(" not in ast.unparse(node)} <= written
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert "pictures/" not in text
    assert "{download}" not in text


def test_notebook_runs_and_marks_the_cells_that_raise():
    ndgrad.set_default_dtype(ndgrad.float32)
    namespace = {"__name__": "__main__"}
    raising = 0
    for cell in cells_of("numpy-to-gradients"):
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            if cell["metadata"].get("tags") == ["raises-exception"]:
                raising += 1
                with pytest.raises((TypeError, ValueError)):
                    exec(source, namespace)
            else:
                exec(source, namespace)
    assert raising == 2


def test_last_line_of_a_drawing_cell_is_the_picture():
    cells = tutorials.cells_of('# A\n\n```python\nx = 1\nchart.save("a.svg")\n```\n\n![a picture](pictures/a.svg)\n\nText.\n')
    assert [cell.source for cell in cells] == ["# A", "x = 1\nchart", "Text."]


def test_list_of_recipes_has_every_question():
    docs = tutorials.FOLDER.parent
    listed = re.findall(r"^- \[(.*)\]\(recipes/([\w-]+)\.md#", (docs / "recipes.md").read_text(encoding="utf-8"), re.MULTILINE)
    asked = {path.stem: path.read_text(encoding="utf-8") for path in (docs / "recipes").glob("*.md")}
    assert set(listed) == {(q, name) for name, page in asked.items() for q in re.findall(r"^## (.*)$", page, re.MULTILINE)}
    assert len(listed) == len(set(listed)) >= 40


@pytest.mark.parametrize("name", ["training", "files", "derivatives", "science", "speed"])
def test_recipe_is_a_question_with_code_and_a_short_answer(name):
    page = (tutorials.FOLDER.parent / "recipes" / f"{name}.md").read_text(encoding="utf-8")
    for recipe in page.split("\n## ")[1:]:
        question, _, body = recipe.partition("\n")
        assert question.endswith("?"), question
        (block,) = python_blocks_of(body)
        assert block.no_run is None, question
        assert len(block.text.strip().splitlines()) <= 18, question
        assert len(re.sub(r"```python.*?```", "", body, flags=re.DOTALL).split()) < 60, question


def test_list_of_differences_names_every_entry_on_its_page():
    docs = tutorials.FOLDER.parent
    index = (docs / "differences.md").read_text(encoding="utf-8")
    for page in (docs / "differences").glob("*.md"):
        entries = re.findall(r"^\| `([\w-]+)`", page.read_text(encoding="utf-8"), re.MULTILINE)
        (row,) = re.findall(rf"^\| \[.*\]\(differences/{page.stem}\.md\) \| (.*) \|$", index, re.MULTILINE)
        assert re.findall(r"`([\w-]+)`", row) == entries
