"""The reference has every public name, and its pages lead where they say."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import re
import types
from collections import Counter

import pytest

import ndgrad

pytest.importorskip("pygments")
pytest.importorskip("scipy")

from docs.reference_pages import formula, markup, tasks
from docs.reference_pages.entries import ROOT
from docs.reference_pages.namespaces import APART, namespaces
from docs.reference_pages.ops import families
from docs.reference_pages.pages import Reference

from ndgrad._src.ops.table import table


@functools.cache
def reference():
    return Reference()


@functools.cache
def pages():
    return reference().pages()


def modules_that_dir_shows():
    """Every module that can be reached from `ndgrad` by names that `dir` shows."""
    found, waiting = {}, [ndgrad]
    while waiting:
        module = waiting.pop()
        if module.__name__ in found or module.__name__.startswith(APART):
            continue
        found[module.__name__] = module
        for name in dir(module):
            if not name.startswith("_") and "__dir__" in vars(module):
                value = getattr(module, name, None)
                if isinstance(value, types.ModuleType) and value.__name__ == f"{module.__name__}.{name}":
                    waiting.append(value)
    return found


def test_no_public_name_is_missing():
    known = reference().site.pages
    told = reference().site.shared
    missing = []
    for home, module in modules_that_dir_shows().items():
        listed = dir(module) if "__dir__" in vars(module) else getattr(module, "__all__", ())
        for name in listed:
            value = getattr(module, name, None)
            if (
                not name.startswith("_")
                and not isinstance(value, types.ModuleType)
                and f"{home}.{name}" not in known
                and id(value) not in told
            ):
                missing.append(f"{home}.{name}")
    assert missing == []
    assert len(known) > 4000


@pytest.mark.parametrize("name", ["ndgrad.Tensor", "ndgrad.numpy.Array"])
def test_every_method_of_tensors_is_there(name):
    module, _, last = name.rpartition(".")
    cls = getattr(importlib.import_module(module), last)
    for method in dir(cls):
        if not method.startswith("_"):
            assert f"{name}.{method}" in reference().site.pages


def test_every_op_is_on_a_page():
    assert {op.name for ops in families().values() for op in ops} == set(table)


def test_every_name_stands_on_its_page_once():
    for page, objects in reference().objects().items():
        places = Counter(re.findall(r'id="([^"]*)"', pages()[page]))
        for name, _ in objects:
            assert places[name] == 1, (name, page)


def test_links_between_pages_lead_somewhere():
    ids = {page: set(re.findall(r'id="([^"]+)"', text)) for page, text in pages().items()}
    docs = {"differences", "numpy", "scipy-functions", "from-hips-autograd", "array-api"}
    wrong = []
    for page, text in pages().items():
        for target in set(re.findall(r'href="([^"]+)"', text)):
            path, _, anchor = target.partition("#")
            parts = page.split("/")[:-1]
            for step in path.removesuffix(".html").split("/") if path else ():
                parts = parts[:-1] if step == ".." else [*parts, step]
            home = "/".join(parts) if path else page
            if home.startswith("book/"):  # the page of a file; scripts/check_links.py follows it to the symbol
                if not (ROOT / home.removeprefix("book/").removesuffix("_docs")).is_file():
                    wrong.append((page, target))
            elif home not in docs and (home not in ids or (anchor and anchor not in ids[home])):
                wrong.append((page, target))
    assert wrong == []


def test_pages_of_the_book_learn_where_the_reference_tells_about_their_files():
    told = reference().sources()
    assert ("ndgrad.nn.Linear", f"{reference().site.pages['ndgrad.nn.Linear']}.html#ndgrad.nn.Linear") in told[
        "src/ndgrad/nn/modules/linear.py"
    ]
    assert ("the op table", "reference/ops/reduce.html") in told["src/ndgrad/_src/ops/reduce.py"]
    assert all((ROOT / path).is_file() for path in told)


def test_entry_has_signature_example_counterpart_and_op():
    page = pages()["reference/ndgrad/reductions"]
    entry = page[page.index('id="ndgrad.sum"') :][:6000]
    assert "torch.sum" in entry
    assert 'class="gp"' in entry  # a session, in colours
    assert "reference/ops/reduce.html#op-sum" in entry
    assert "keepdim" in entry


def test_difference_from_torch_stands_beside_the_name():
    page = pages()[reference().site.pages["ndgrad.searchsorted"]]
    assert "nan-boundaries" in page


@pytest.mark.parametrize(
    ("op", "inside"),
    [("log", "<mfrac><mrow><mi>t</mi></mrow><mrow><mi>x</mi></mrow></mfrac>"), ("exp", "<mi>t</mi>"), ("sin", "cos")],
)
def test_derivative_is_typeset(op, inside):
    rule = table[op].written_rules["x"][0]
    assert inside in formula.formula(formula.expression_of(rule))


def test_sum_in_a_product_has_parentheses():
    import ast

    made = formula.formula(ast.parse("t * (a + b)", mode="eval").body)
    assert made.count("<mo>(</mo>") == 1
    assert formula.formula(ast.parse("t * a * b", mode="eval").body).count("<mo>(</mo>") == 0
    assert formula.formula(ast.parse("a - (b - c)", mode="eval").body).count("<mo>(</mo>") == 1


def test_minus_before_a_product_needs_no_parentheses():
    import ast

    made = formula.formula(ast.parse("t * exp(-x * x) * SLOPE", mode="eval").body, {"SLOPE": 1.125})
    assert "<mo>(</mo>" not in made
    assert "<mn>1.125</mn>" in made


def test_lambdas_on_one_line_are_told_apart():
    add, subtract = (lambda t: t + 1), (lambda t: t - 1)
    assert [type(formula.expression_of(f).op).__name__ for f in (add, subtract)] == ["Add", "Sub"]


def test_tex_of_pages_becomes_mathml():
    made = formula.tex(r"\frac12 \partial L/\partial \bar z_1^2")
    assert made.startswith("<math")
    assert made.count("<mfrac>") == 1
    with pytest.raises(ValueError, match="no part of the TeX"):
        formula.tex(r"\bogus")
    with pytest.raises(ValueError, match="lacks"):
        formula.tex("{x")


def test_docstring_with_angle_brackets_is_text():
    made = markup.prose("Less `a < b` than <b>.\n\n>>> 1 < 2\nTrue\n\nmore", lambda name: None)
    assert "&lt;b&gt;" in made
    assert made.count("<p>") == 2
    assert 'class="highlight"' in made


def test_namespaces_of_torchs_world_have_headings():
    assert namespaces()["ndgrad.nn.functional"].heading == "Networks and training"
    assert namespaces()["ndgrad"].heading == "Tensors and functions"
    assert all(n.heading for n in namespaces().values())


def test_plots_show_finite_curves():
    from docs.reference_pages.plot import plot

    drawn = [op for op in table.values() if op.elementwise and op.args == ("x",) and plot(op)]
    assert len(drawn) > 100
    numbers = [float(n) for n in re.findall(r"-?\d+\.\d", plot(table["sin"]))]
    assert all(math.isfinite(n) and -1 <= n <= 241 for n in numbers)
    assert inspect.isfunction(plot)


# ----- tasks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tasks.TASKS)
def test_every_name_of_a_grouped_namespace_has_a_task(name):
    """A failure asks for the name in `docs/reference_pages/tasks.py`, in the task where users look for it."""
    groups = tasks.group_names(namespaces()[name])
    assert groups.get(tasks.OTHER, []) == []
    assert Counter(n for names in groups.values() for n in names) == Counter(namespaces()[name].names)


def test_large_namespaces_are_grouped_by_task():
    assert reference().split <= set(tasks.TASKS)


@pytest.mark.parametrize("name", tasks.TASKS)
def test_no_name_is_declared_for_two_tasks(name):
    for what in ("names", "files", "kinds"):
        counts = Counter(key for task in tasks.TASKS[name] for key in getattr(task, what).split())
        assert [key for key, count in counts.items() if count > 1] == []
    assert len({task.slug for task in tasks.TASKS[name]}) == len(tasks.TASKS[name])


@pytest.mark.parametrize(
    ("qualified", "slug"),
    [
        ("ndgrad.zeros", "creation"),
        ("ndgrad.exp_", "powers"),
        ("ndgrad.float", "data-types"),
        ("ndgrad.Tensor.float", "conversion"),
        ("ndgrad.Tensor.is_sparse", "attributes"),
        ("ndgrad.numpy.sum", "reductions"),
        ("ndgrad.numpy.pi", "constants"),
        ("ndgrad.nn.Conv2d", "convolution"),
    ],
)
def test_names_are_on_the_page_of_their_task(qualified, slug):
    owner = qualified.rpartition(".")[0]
    assert reference().site.pages[qualified] == f"reference/{owner}/{slug}"


def test_names_on_a_page_are_sorted():
    for groups in reference().tasks.values():
        for names in groups.values():
            assert [n.lower() for n in names] == sorted(n.lower() for n in names)
