"""Facts about ops in addition to their rules: each fact names an op of the table and refers to things that the op
has.
"""

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ndgrad._src.ops.table import KINDS, MOVEMENTS, RANDOM, Op, RulesOfOps, elementwise, op, table
from ndgrad._src.ops.vocabulary import load_all
from ndgrad.ops import aten
from ndgrad.testing.op_checks import as_tuple
from tests.op_programs import SAMPLES

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
    assert {one.movement for one in table.values()} - {None} == set(MOVEMENTS)
    assert [name for name in aten._SAME.values() if name not in table] == []
    assert aten.index_put is aten.index_put  # programs compare packets by `is`
    assert aten.add_ is aten.add_


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


# ----- facts compared with the forward functions ----------------------------------------------------------------------


def _run(one: Op, args: Any, settings: dict[str, Any]) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(np.asarray(a) for a in as_tuple(one.forward_for(np)(*args, **{**one.settings, **settings})))


def _calls(one: Op) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    for sample in SAMPLES.get(one.name, ()):
        yield (sample.args if sample.prepare is None else as_tuple(sample.prepare(*sample.args))), sample.settings


def _ops_with(fact: str) -> list[Op]:
    return [one for one in table.values() if getattr(one, fact) not in (None, False)]


def test_ops_that_return_booleans_are_those_of_the_fact():
    found = set()
    for one in table.values():
        if one.batch is not RANDOM and not one.differentiable:
            kinds = {r.dtype.kind for args, settings in _calls(one) for r in _run(one, args, settings)}
            if kinds == {"b"}:
                found.add(one.name)
    assert found == {one.name for one in _ops_with("returns_bool")}


@pytest.mark.parametrize("one", _ops_with("commutes"), ids=lambda one: one.name)
def test_commutative_ops_give_the_same_bits_in_either_order(one):
    draw = np.random.default_rng(0)
    kinds = "q" if one.name.startswith("bitwise") else "qdfD"
    for kind in kinds:
        x, y = (draw.integers(-9, 9, 1001).astype(kind) / np.asarray(7 if kind != "q" else 1, kind) for _ in "xy")
        x, y = x.astype(kind), y.astype(kind)
        assert _run(one, (x, y), {})[0].tobytes() == _run(one, (y, x), {})[0].tobytes()


@pytest.mark.parametrize("one", _ops_with("rounds_once"), ids=lambda one: one.name)
def test_results_rounded_once_do_not_depend_on_the_length_of_the_array(one):
    draw = np.random.default_rng(0)
    args = [draw.standard_normal(1003).astype(np.float32) ** 2 for _ in one.args]
    settings = {"dtype": np.dtype(np.float16)} if one.name == "cast" else {}
    whole = _run(one, args, settings)[0]
    assert whole.tobytes() == b"".join(_run(one, [a[i : i + 1] for a in args], settings)[0].tobytes() for i in range(1003))


@pytest.mark.parametrize("one", [one for one in table.values() if one.linear_in(2)], ids=lambda one: one.name)
def test_linear_ops_are_additive_and_homogeneous(one):
    for args, settings in _calls(one):
        if settings.get("dtype") is not None or settings.get("padding_idx") is not None:
            continue
        for group in one.linear_in(len(args)):
            scaled = [a * 3 if i in group and a is not None else a for i, a in enumerate(args)]
            for once, thrice in zip(_run(one, args, settings), _run(one, scaled, settings), strict=True):
                accuracy = 1e-9 if once.dtype.char in "dD" else 1e-3  # some samples are of lower precision
                np.testing.assert_allclose(thrice, once * 3, rtol=accuracy, atol=accuracy)


@pytest.mark.parametrize(
    ("one", "place", "rising"),
    [(one, i, rising) for one in table.values() for i in range(len(one.args)) for rising in (True, False)
     if one.is_monotone_in(i, rising=rising)],
    ids=lambda value: getattr(value, "name", value),
)  # fmt: skip
def test_monotone_ops_take_extremes_to_extremes(one, place, rising):
    draw = np.random.default_rng(0)
    terms, others = draw.standard_normal((3, 50)), [draw.standard_normal(50) for _ in one.args]
    for extreme, turned in ((np.max, np.min), (np.min, np.max)):
        args = [extreme(terms, 0) if i == place else a for i, a in enumerate(others)]
        found = [_run(one, [t if i == place else a for i, a in enumerate(others)], {})[0] for t in terms]
        np.testing.assert_array_equal(_run(one, args, {})[0], (extreme if rising else turned)(found, 0))


@pytest.mark.parametrize("one", _ops_with("extreme_of"), ids=lambda one: one.name)
def test_the_extreme_of_extremes_is_that_of_all(one):
    x, y = np.random.default_rng(0).standard_normal((2, 3, 50))
    extreme = REDUCTIONS[one.extreme_of]
    found = [_run(one, pair, {})[0] for pair in zip(x, y, strict=True)]
    np.testing.assert_array_equal(_run(one, (extreme(x, 0), extreme(y, 0)), {})[0], extreme(found, 0))


REDUCTIONS = {
    "sum": np.sum, "prod": np.prod, "product": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all, "mean": np.mean,
    "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
}  # fmt: skip


@pytest.mark.parametrize("one", _ops_with("reduces"), ids=lambda one: one.name)
def test_reductions_are_those_of_numpy(one):
    x = np.random.default_rng(0).standard_normal((3, 5))
    settings = {"dim": (0, 1)} if "dim" in one.settings else {}
    np.testing.assert_allclose(_run(one, (x,), settings)[0], REDUCTIONS[one.reduces](x), rtol=1e-12)


@pytest.mark.parametrize("one", _ops_with("joins_pieces_by"), ids=lambda one: one.name)
def test_results_for_pieces_are_joined_by_the_reduction_of_the_fact(one):
    x = np.random.default_rng(0).standard_normal((4, 5))
    x[1, 2], x[3] = np.nan if one.name == "nansum" else 0, 0
    settings = {"dim": (0, 1)} if "dim" in one.settings else {}
    pieces = [_run(one, (part,), settings)[0] for part in np.split(x, 4)]
    joined = REDUCTIONS[one.joins_pieces_by](np.stack(pieces))
    np.testing.assert_allclose(_run(one, (x,), settings)[0], joined, rtol=1e-12)


@pytest.mark.parametrize("one", [one for one in _ops_with("core_dims") if one.batch == "leading"], ids=lambda one: one.name)
def test_problems_of_a_batch_do_not_depend_on_each_other(one):
    for args, settings in _calls(one):
        cores = one.core_dims if len(one.core_dims) == len(args) else [*one.core_dims] * len(args)
        if any(np.ndim(a) != core for a, core in zip(args, cores, strict=True)) or settings.get("dtype") is not None:
            continue
        alone = _run(one, args, settings)
        batched = _run(one, [np.stack([a, a * 2 if a.dtype.kind in "fc" else a, a]) for a in args], settings)
        for single, several in zip(alone, batched, strict=True):
            np.testing.assert_allclose(several[0], single, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(several[2], single, rtol=1e-9, atol=1e-12)


MOVED = ("reshape", "rearrange", "place", "join", "overwrite", "gather")


@pytest.mark.parametrize("one", [one for one in _ops_with("movement") if one.movement in MOVED], ids=lambda one: one.name)
def test_ops_that_move_elements_return_elements_of_their_arguments_or_zeros(one):
    for args, settings in _calls(one):
        known = np.concatenate([np.zeros(1), *(np.ravel(a) for a in args if a is not None)])
        assert all(np.isin(r, known).all() for r in _run(one, args, settings))
