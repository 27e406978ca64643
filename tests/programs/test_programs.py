"""Random programs with fixed seeds in every mode, and the machinery that draws, judges and shortens them.

A finding prints a program that can be pasted. `python -m tests.programs` looks for more.
"""

from __future__ import annotations

import ast

import numpy as np
import pytest

import ndgrad
from tests.programs import language, oracle
from tests.programs.check import Outcome, check, examine, judged, reference, report, same_finding
from tests.programs.generate import Program, generate
from tests.programs.minimise import minimise
from tests.programs.modes import MODES

SHORT, LONG = 5, 400  # programs per chunk
CHUNKS = 8


def no_findings(seeds: range, most: int) -> None:
    results = [result for seed in seeds for result in examine(seed, list(MODES), most)]
    findings = [result for result in results if result.outcome.is_finding]
    assert not findings, f"{len(findings)} findings, of which the first is:\n\n{report(findings[0])}"
    # To refuse is right, to refuse much is not; vmap has every reason to, where values decide what is computed.
    refused = [r for r in results if r.outcome.kind == "refused" and "vmap" not in r.mode]
    assert len(refused) <= len(results) * 0.15, "\n".join(f"{r.mode}: {r.outcome.message}" for r in refused)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_are_right_or_refused_in_every_mode(chunk: int) -> None:
    no_findings(range(chunk * SHORT, (chunk + 1) * SHORT), most=4)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_random_programs_are_right_or_refused_in_every_mode(chunk: int) -> None:
    no_findings(range(10_000 + chunk * LONG, 10_000 + (chunk + 1) * LONG), most=6)


# ----- the machinery --------------------------------------------------------------------------------------------------


def test_a_seed_always_gives_the_same_program() -> None:
    for seed in range(5):
        first, second = generate(seed), generate(seed)
        assert first.source == second.source
        ast.parse(first.source)
        for x, y in zip(first.inputs, second.inputs, strict=True):
            np.testing.assert_array_equal(x, y)


def program(*lines: str, inputs: tuple[str, ...] = ("x",)) -> Program:
    source = f"def program({', '.join(inputs)}):\n" + "".join(f"    {line}\n" for line in lines)
    return Program(source, tuple(np.array([0.3, -0.7, 0.9]) + i for i in range(len(inputs))))


def test_every_mode_agrees_on_a_program_that_all_of_them_can_run() -> None:
    p = program(
        "t = np.zeros(3)",
        "t[1:] = np.sin(x[:-1]) * y[1:]",
        "t[0] = np.sum(x * y)",
        "t *= y",
        "return t",
        inputs=("x", "y"),
    )
    known = reference(p)
    assert known is not None
    for mode in MODES:
        # compiling takes time, and is the same behind every entry
        for entry in ("namespace",) if "compile" in mode and mode != "backward of compile" else language.ENTRIES:
            assert check(known, mode, entry) == Outcome("right"), (mode, entry)


def test_a_wrong_rule_is_found_by_every_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A custom function with another's derivative. Modes that compare a batch with a loop see no difference."""
    monkeypatch.setattr(language.Growth, "backward", staticmethod(lambda ctx, g: ctx.saved_tensors[0] * g * 0.4))
    monkeypatch.setattr(language.Growth, "jvp", staticmethod(lambda ctx, t: ctx.saved_tensors[0] * t * 0.4))
    known = reference(program("return grow(x) * x"))
    assert known is not None
    for mode in MODES:
        if "vmap" not in mode:
            kind = check(known, mode, "namespace").kind
            assert kind == "wrong" or (kind == "unknown" and known.second is None), mode


def test_kinks_and_jumps_are_no_place_for_a_comparison() -> None:
    for line in (
        "return np.abs(x - 0.3)",
        "return np.floor(x / 0.3)",
        "return np.sqrt(x - 0.3)",
        "return np.maximum(x, 0.3) * x",
    ):
        assert reference(program(line)) is None
    assert reference(program("return np.abs(x - 0.31)")) is not None
    with pytest.raises(oracle.NotSmooth):
        oracle.slope(abs, 0.0, 1e-6)


def test_values_behind_stop_are_constants_to_the_oracle() -> None:
    known = reference(program("return stop(x) * x + unrecorded(lambda: x * x)"))
    assert known is not None
    np.testing.assert_allclose(known.tangent, [0.3, -0.7, 0.9] * known.point.direction[0], atol=1e-8)


def test_errors_of_the_package_are_refusals_and_others_are_not() -> None:
    x = ndgrad.numpy.array([1.0, 2.0]).requires_grad_()
    for run, kind in ((lambda: float(x.sum()), "refused"), (lambda: [][0], "crashed")):
        with pytest.raises(Exception) as error:
            run()
        assert judged(error.value).kind == kind


def test_a_finding_is_minimised_to_the_lines_that_matter() -> None:
    p = program(
        "a = np.exp(x) * 2.0",
        "b = np.sort(a)[::-1] + x",
        "for i in range(2):",
        "    b[i] += a[i]",
        "c = broken(b * x) + np.sum(a)",
        "return np.stack([mix(a), mix(b), mix(c)])",
    )
    shorter = minimise(p.source, lambda source: "broken(" in source and ast.parse(source) is not None)
    assert len(shorter) < len(p.source) / 2


def test_only_the_same_finding_counts_while_a_program_is_minimised() -> None:
    p = program("t = np.outer(x, x)", "u = np.sin(t)", "return u[0]")
    known = reference(p)
    assert known is not None
    assert check(known, "backward", "namespace") == Outcome("right")
    assert not same_finding(p, "backward", "namespace", Outcome("wrong"))(p.source)
    assert same_finding(p, "backward", "namespace", Outcome("right"))(p.source)
    assert not same_finding(p, "backward", "namespace", Outcome("right"))("def program(x):\n    return nonsense\n")
