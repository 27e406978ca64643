"""The gallery in its reduced form: every program runs and finds what it should, as a script and as a notebook, and the
documentation has its picture."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import math
import pathlib
import re
import shutil
import xml.etree.ElementTree as ElementTree

import pytest
from docs.gallery_pages import notebook, pages

import ndgrad

GALLERY = pathlib.Path(__file__).resolve().parents[2] / "examples" / "gallery"
#: Program -> the largest number that it may find.
LIMITS = {
    "bundle_adjustment": 1.1,
    "c_kernel": 1e-14,
    "character_transformer": 0.8,
    "deconvolution": 0.7,
    "digits": 0.12,
    "gaussian_process": 0.1,
    "hamiltonian_monte_carlo": 0.5,
    "implicit_layer": 0.1,
    "lora_finetuning": 1e-3,
    "meta_learning": 0.8,
    "ode_parameters": 0.25,
    "optimal_control": 0.2,
    "pde_constrained": 0.4,
    "physics_informed": 0.05,
    "rigid_bodies": 1e-2,
    "tensor_network": 1e-2,
    "variational_inference": 0.5,
}
NEEDS = {"bundle_adjustment": "scipy", "implicit_layer": "scipy", "ode_parameters": "scipy", "digits": "sklearn", "lora_finetuning": "peft"}
SLOW = {"ode_parameters", "hamiltonian_monte_carlo", "physics_informed"}
# the cells are the script's own lines: these few say that they run one after the other, the rest is left to test-long
QUICK_NOTEBOOKS = {"bundle_adjustment", "c_kernel", "deconvolution", "gaussian_process", "variational_inference"}


def marked(slow):
    return [pytest.param(name, marks=[pytest.mark.slow] if name in slow else []) for name in LIMITS]


def prepare(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    if name == "c_kernel" and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no C compiler")
    ndgrad.set_default_dtype(ndgrad.float32)  # the default of a user's run


def returns_of(node):
    """Return the return statements of a function, without those of inner functions."""
    inside = [child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.Lambda))]
    return [found for child in inside for found in ([child] if isinstance(child, ast.Return) else returns_of(child))]


def test_every_program_of_the_gallery_is_tested_and_listed():
    assert {path.stem for path in GALLERY.glob("*.py")} == set(LIMITS) == set(pages.programs())


@pytest.mark.parametrize("name", marked(SLOW))
def test_script_finds_what_it_should(name, capsys):
    prepare(name)
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", GALLERY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found, picture = module.main(quick=True)
    assert math.isfinite(found)
    assert found < LIMITS[name]
    assert capsys.readouterr().out
    ElementTree.fromstring(picture.svg)


@pytest.mark.parametrize("name", marked(set(LIMITS) - QUICK_NOTEBOOKS))
def test_notebook_finds_what_it_should(name):
    prepare(name)
    namespace = {"__name__": "__main__"}
    for cell in json.loads(notebook.notebook_of(GALLERY / f"{name}.py"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]).replace(notebook.QUICK, "quick = True"), namespace)
    assert namespace["result"] < LIMITS[name]
    assert namespace["picture"]._repr_html_().startswith("<div><svg")


@pytest.mark.parametrize("name", LIMITS)
def test_notebook_is_valid_and_whole(name):
    """Format 4.5 as its schema has it, and no statement of the script lost."""
    script = GALLERY / f"{name}.py"
    made = json.loads(notebook.notebook_of(script))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    for cell in made["cells"]:
        code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | code
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        assert cell["source"]
    code = "\n".join("".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code")
    main = next(node for node in ast.parse(script.read_text(encoding="utf-8")).body if getattr(node, "name", "") == "main")
    assert returns_of(main) == [main.body[-1]]  # a cell cannot leave early
    written = {ast.unparse(node) for node in ast.parse(code).body}
    assert {ast.unparse(node) for node in main.body[1:-1]} <= written


@pytest.mark.parametrize("name", LIMITS)
def test_picture_in_the_documentation_is_small_and_loads_nothing(name):
    svg = pages.picture(name)
    assert len(svg) < 100_000
    ElementTree.fromstring(svg)
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_narration_stands_between_the_blocks_of_code():
    """Text from the comments of the script explains each program: a function or a paragraph of `main` each."""
    for name, page in ((name, pages.pages()[f"{name}.md"]) for name in LIMITS):
        code = [*re.finditer(r"^```python\n.*?^```$", page, re.MULTILINE | re.DOTALL)]
        said = [page[a.end() : b.start()].strip() for a, b in itertools.pairwise(code)]
        assert sum(bool(text) for text in said) >= max(3, len(said) // 2), name
        assert not any(line.startswith("# ") for block in code for line in block[0].splitlines()), name


def test_pages_have_picture_text_source_and_notebook():
    made = pages.pages()
    for name in LIMITS:
        page = made[f"{name}.md"]
        assert '<svg class="nd-chart"' in page
        assert f"{name}.ipynb" in page
        assert f"<{name}.py>" in page
        code = "\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
        script = ast.parse((GALLERY / f"{name}.py").read_text(encoding="utf-8")).body
        written = {ast.unparse(node) for node in ast.parse(code).body}
        defined = [node for node in script if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name != "main"]
        assert {ast.unparse(node) for node in defined} <= written
        assert f'href="{name}.html"' in made["index.md"]
