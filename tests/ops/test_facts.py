"""Facts about ops in addition to their rules: each fact names an op of the table and refers to things that the op
has.
"""

import importlib

import pytest

from ndgrad._src.ops.table import KINDS, Op, RulesOfOps, elementwise, op, table
from ndgrad._src.ops.vocabulary import load_all
from ndgrad.ops import aten

#: The modules that keep their own rules about ops.
KEEPERS = ("_src.transforms.recurrences", "_src.transforms.sparsity.trace", "_src.ops.flops")

load_all()
for keeper in KEEPERS:
    importlib.import_module(f"ndgrad.{keeper}")


def test_rules_kept_elsewhere_name_ops_of_the_table():
    assert {"Taylor series", "index sets", "floating-point operations"} <= {rules.subject for rules in RulesOfOps.every}
    assert [(rules.subject, name) for rules in RulesOfOps.every for name in rules.by_name if name not in table] == []


def test_torch_names_are_of_what_an_op_has():
    def has(one: Op, name: str) -> bool:
        return name in one.args or name in one.settings or name in {"out", *(f"out{i}" for i in range(one.outputs))}

    assert [(one.name, name) for one in table.values() for name in one.saved_names if not has(one, name)] == []


def test_every_kind_has_ops_and_aten_names_lead_to_ops():
    assert {one.kind for one in table.values()} - {None} == set(KINDS)
    assert [name for name in aten._SAME.values() if name not in table] == []


def test_a_rule_of_the_same_op_twice_is_refused():
    rules: RulesOfOps = RulesOfOps("tests")
    RulesOfOps.every.remove(rules)
    rules("exp", "sin")(lambda: 1)
    with pytest.raises(ValueError, match="tests: sin has a rule already"):
        rules("cos", "sin")(lambda: 2)
    assert rules.get("cos") is None


@pytest.mark.parametrize("define", [op, elementwise])
def test_a_block_says_what_it_may_say(define):
    rest = {"args": "x", "forward": "exp"} if define is elementwise else {"args": "x", "forward": "exp", "batch": "elementwise"}
    with pytest.raises(ValueError, match=r"of no kind 'round'; the kinds are choice, clamp"):
        define("test_facts_kind", **rest, vjp={"x": lambda g: g}, jvp={"x": lambda t: t}, kind="round")
    assert "test_facts_kind" not in table
