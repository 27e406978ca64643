"""The formulas on the pages of ops: declared ones agree with the ops, and no page shows internal code."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest

import ndgrad

pytest.importorskip("pygments")
pytest.importorskip("scipy")

from docs.reference_pages import formula, mathematics, ops
from scipy import special

#: Every op; families are loaded on demand.
table = {op.name: op for family in ops.families().values() for op in family}
NAMES = {
    **{name: getattr(np, name) for name in dir(np) if isinstance(getattr(np, name), np.ufunc)},
    **{name: getattr(special, name) for name in dir(special) if isinstance(getattr(special, name), np.ufunc)},
    "abs": np.abs, "round": np.round, "polygamma": special.polygamma, "sigmoid": special.expit,
    "softplus": lambda x: np.logaddexp(x, 0), "pi": math.pi,
    "digamma": special.digamma, "zeta": special.zeta, "gamma": special.gamma, "isfinite": math.isfinite,
}  # fmt: skip
#: Values for arguments and settings: inside the domain of most functions.
GIVEN = {
    "exponent": 2.5, "order": 0, "eps": None, "values": 0.5,
    "mask": True, "condition": False, "min": -0.4, "max": 0.6, "weight": 0.3, "real": 0.3, "k": 2.0,
}  # fmt: skip
#: Points to try; a formula must be checked at one of them at least.
POINTS = [(0.3, 0.7, 0.45), (1.6, 0.8, 1.2), (-0.7, 0.4, 0.3), (4.2, 2.3, 1.7)]
#: Ops that are defined for positive arguments, or that have another branch elsewhere.
POSITIVE = {"gamma_density"}


def settings_of(op):
    return {name: value for name, value in op.settings.items() if value is not None}


def arguments_at(op, point):
    numbers = iter(point)
    return {name: GIVEN[name] if name in GIVEN else next(numbers) for name in op.args}


@pytest.mark.parametrize("name", [n for n in mathematics.VALUES if n not in ("complex", "polar", "conj", "hankel1", "hankel2", "lambertw")])
def test_declared_formula_of_an_elementwise_op_is_its_value_and_slope(name):
    op = table[name]
    settings = settings_of(op)
    checked = 0
    for point in POINTS:
        if name in POSITIVE and min(point) < 0:
            continue
        given = arguments_at(op, point)
        tensors = {
            n: ndgrad.tensor(
                v,
                dtype=ndgrad.bool if isinstance(v, bool) else ndgrad.float64,
                requires_grad=op.differentiable and n in mathematics.SLOPES.get(name, {}),
            )
            for n, v in given.items()
        }
        scope = {**NAMES, "nan": 0.0, **settings, **given}
        with np.errstate(all="ignore"):
            try:
                wanted = eval(mathematics.VALUES[name], {"__builtins__": {}}, scope)
            except (ZeroDivisionError, OverflowError):
                continue
        if isinstance(wanted, complex) or not np.isfinite(wanted):
            continue
        out = op(*tensors.values(), **settings)
        assert out.detach().numpy() == pytest.approx(wanted, rel=1e-7, abs=1e-9), (name, point)
        checked += 1
        for argument, text in mathematics.SLOPES.get(name, {}).items() if op.differentiable else ():
            with np.errstate(all="ignore"):
                slope = eval(text, {"__builtins__": {}}, scope)
            (found,) = ndgrad.autograd.grad(out, tensors[argument], retain_graph=True, allow_unused=True)
            if isinstance(slope, complex) or not np.isfinite(slope):
                continue
            assert (0.0 if found is None else found.numpy()) == pytest.approx(slope, rel=1e-6, abs=1e-9), (name, argument, point)
    assert checked


def test_declarations_name_ops_and_their_arguments():
    for name, slopes in mathematics.SLOPES.items():
        assert set(slopes) <= set(table[name].args), name
    assert set(mathematics.VALUES) | set(mathematics.TEX) <= set(table)


@pytest.mark.parametrize("name", mathematics.TEX)
def test_declared_tex_becomes_mathml(name):
    value, gradients = mathematics.TEX[name]
    for text in (value, *gradients.values()):
        assert formula.tex(text, display=True).count("<mrow>") == formula.tex(text, display=True).count("</mrow>")


@functools.cache
def entries():
    """The entries of the pages, which have no ops that other tests have registered."""
    found = [op for family in ops.families().values() for op in family]
    return {op.name: ops.entry(op, [], lambda name: None, lambda name: "") for op in found}


def test_no_entry_shows_internals():
    """Rules are shown as mathematics or in words: no private function, no vocabulary, no names of saved shapes."""
    wrong = {}
    for name, text in entries().items():
        shown = text[text.index('<div class="op-math">') : text.index('<dl class="op">')]
        found = re.findall(r"<mi[^>]*>(_\w+|ops|x_shape|x_dtype|needs|shared)</mi>|def _\w+|lambda ", shown)
        if set(found) - set(entries()):  # an op may have such a name itself
            wrong[name] = found
    assert wrong == {}


def test_formula_comes_before_the_facts_and_the_code_last():
    text = entries()["sigmoid"]
    places = [text.index(part) for part in ('class="op-math"', "<figure", "Saved for backward", "<dt>Code</dt>")]
    assert places == sorted(places)


def test_softmax_is_shown_as_mathematics():
    text = entries()["softmax"]
    assert "<mfrac>" in text
    assert "_softmax_t" not in text


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [("t * x", "x"), ("-t * x", "-x"), ("t / x", "1 / x"), ("ops.keep(t, x > 0)", "1 if x > 0 else 0"),
     ("t * x * 0.5", "x / 2"), ("t * out", "y")],
)
def test_rule_becomes_a_derivative(rule, wanted):
    import ast

    made = formula.derivative(ast.parse(rule, mode="eval").body, "y")
    assert ast.unparse(made) == wanted
