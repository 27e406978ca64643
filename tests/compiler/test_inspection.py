"""Inspection of compiled functions: programs as text and picture, steps with their work, kernels in the profiler,
compile times.
"""

from __future__ import annotations

import io
import os
import time
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad._src.compiler.lower import accounting
from ndgrad._src.compiler.native import phases
from ndgrad._src.compiler.program.printing import value_names
from ndgrad._src.compiler.program.text import parse_program
from ndgrad._src.compiler.report import roofline
from ndgrad._src.compiler.report.picture import ProgramPicture
from ndgrad.profiler import timing

_SVG = "{http://www.w3.org/2000/svg}"


def native() -> None:
    """Skip if programs run on NumPy."""
    pytest.importorskip("llvmlite")
    if os.environ.get("NDGRAD_COMPILE_REPLAY"):
        pytest.skip("programs run on NumPy")


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> roofline.Machine:
    """Return a machine that takes no time to measure."""
    made = roofline.Machine({1 << 15: 100e9, 1 << 27: 10e9}, {"float32": 100e9, "float64": 50e9}, 1)
    monkeypatch.setattr("ndgrad._src.compiler.report.report.machine", lambda: made)
    return made


def loss(w: Any, x: Any) -> Any:
    return ((x @ w).tanh() ** 2).mean()


def arguments(requires_grad: bool = True) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return ndgrad.tensor(random.normal(size=(5, 3)), requires_grad=requires_grad), ndgrad.tensor(random.normal(size=(4, 5)))


def rolled(x: Any, a: Any) -> Any:
    for _ in range(40):
        x = x + 0.1 * (a * x.sin())
    return (x * x).sum()


# ----- graphs ----------------------------------------------------------------------------------------------------------------


def test_graph_has_the_program_before_and_after_passes_forward_and_backward() -> None:
    found = ndgrad.compile(loss).graph(*arguments())
    assert len(found.traced.program.instructions) >= len(found.program.program.instructions)
    assert [i.op.name for i in found.forward.program.instructions][:2] == ["matmul", "tanh"]
    assert "matmul" in [i.op.name for i in found.backward.program.instructions]
    for picture in (found.traced, found.program, found.forward, found.backward):
        assert str(parse_program(picture.text)) == picture.text
    assert "as it was traced" in str(found)
    assert str(found.backward) in str(found)


def test_graph_of_a_function_without_gradients_has_no_backward() -> None:
    assert ndgrad.compiler.graph(loss, *arguments(requires_grad=False)).backward is None


def test_graph_runs_nothing_and_leaves_nothing_behind() -> None:
    w, x = arguments()

    def step(w: Any, x: Any) -> Any:
        loss(w, x).backward()
        with ndgrad.no_grad():
            w -= w.grad
        return w

    before = w.detach().clone()
    found = ndgrad.compile(step).graph(w, x)
    assert w.grad is None
    assert (w == before).all()
    assert found.backward is None


def test_picture_of_a_program_shows_each_op_once_with_the_names_of_the_text() -> None:
    found = ndgrad.compile(loss).graph(*arguments())
    program = found.program.program
    titles = [title.text or "" for title in ElementTree.fromstring(found.svg).iter(f"{_SVG}title")]
    for value, name in value_names(program).items():
        assert any(name in title.split("\n")[0].replace(",", " ").split() for title in titles), (value, name)
    assert found.dot.count("fillcolor") == len(value_names(program))
    assert found._repr_svg_() == found.svg


def test_picture_tells_what_gradients_alone_need() -> None:
    found = ndgrad.compile(loss).graph(*arguments())
    assert "for gradients alone" in found.svg
    assert "for gradients alone" not in found.forward.svg


def test_loop_is_a_box_around_its_body() -> None:
    x = ndgrad.tensor([1.0, 2.0])
    found = ndgrad.compiler.graph(rolled, x, ndgrad.tensor(1.5, requires_grad=True))
    loops = [i for i in found.program.program.instructions if i.op.name == "loop"]
    assert loops, "the loop was not found"
    picture = ProgramPicture(found.program.program)
    svg = ElementTree.fromstring(picture.svg)
    drawn = [box for box in picture._contents.boxes if box.kind == "loop"]
    assert [box.inner.node_count > 0 for box in drawn] == [True] * len(loops)
    for inner in [g for g in svg.iter(f"{_SVG}g") if g.get("transform")][1:-1]:  # boxes of the body, inside the box of its loop
        outer = _boxes(svg, inner)
        assert outer, "a body stands outside all boxes"
    assert picture.dot.count("subgraph cluster_") == len(loops)


def _boxes(svg: Any, inner: Any) -> list[Any]:
    """Return the boxes next to a group that contain all of its own boxes."""
    parent = next(p for p in svg.iter() if inner in list(p))
    x, y = (float(part) for part in inner.get("transform").removeprefix("translate(").removesuffix(")").split())
    corners = [(x + _number(r, "x"), y + _number(r, "y"), _number(r, "width"), _number(r, "height")) for r in inner.iter(f"{_SVG}rect")]
    left, top = min(c[0] for c in corners), min(c[1] for c in corners)
    right, bottom = max(c[0] + c[2] for c in corners), max(c[1] + c[3] for c in corners)
    beside = [r for g in parent if g.tag == f"{_SVG}g" and g is not inner for r in g if r.tag == f"{_SVG}rect"]
    return [
        r for r in beside
        if _number(r, "x") <= left and _number(r, "y") <= top
        and _number(r, "x") + _number(r, "width") >= right and _number(r, "y") + _number(r, "height") >= bottom
    ]  # fmt: skip


def _number(element: Any, name: str) -> float:
    return float(element.get(name))


def test_graph_can_be_saved_as_text_dot_and_svg(tmp_path: Any) -> None:
    found = ndgrad.compile(loss).graph(*arguments())
    for name, begins in (("a.svg", "<svg"), ("a.dot", "digraph"), ("a.txt", "# -----"), ("a.html", "<!doctype")):
        found.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_graph_of_what_runs_eagerly_raises_the_reason() -> None:
    compiled = ndgrad.compile(lambda x: x if float(x) > 0 else -x)
    with pytest.raises(RuntimeError, match="needs a number"):
        compiled.graph(ndgrad.ones(()))


def test_compiled_module_has_graph_and_kernels_unless_they_are_its_own(small_machine: Any) -> None:
    compiled = ndgrad.compile(nn.Linear(3, 2))
    assert [i.op.name for i in compiled.graph(ndgrad.ones(4, 3)).forward.program.instructions]
    assert len(compiled.kernels(ndgrad.ones(4, 3))) > 0

    class Own(nn.Linear):
        graph = "its own"

    assert ndgrad.compile(Own(3, 2)).graph == "its own"


# ----- kernel lists ----------------------------------------------------------------------------------------------------------


def test_chain_of_elementwise_ops_is_one_kernel_that_reads_its_inputs_once(small_machine: Any) -> None:
    native()
    found = ndgrad.compile(lambda x, y: (x * y + y) * 2.0).kernels(ndgrad.ones(1000), ndgrad.ones(1000))
    (step,) = found
    assert step.ops == ["mul", "add", "mul"]
    assert (step.work.read, step.work.written, step.work.flops) == (16000, 8000, 3000)
    assert step.seconds > 0
    assert step.limit == pytest.approx(max(24000 / 100e9, 3000 / 50e9))
    assert step.share == step.limit / step.seconds
    assert found.totals.keys() == {"<lambda>_forward"}
    assert "kernel0: mul x 2, add" in str(found)


def test_kernels_of_forward_and_backward_and_of_both_in_one(small_machine: Any) -> None:
    native()
    w, x = arguments()
    scalar = ndgrad.compile(loss).kernels(w, x)
    assert set(scalar.totals) == {"loss"}
    assert sum(step.ops == ["matmul"] for step in scalar) == 2
    assert sum(step.work.flops for step in scalar if step.ops == ["matmul"]) == 2 * 2 * 4 * 5 * 3
    assert w.grad is None
    rows = ndgrad.compile(lambda w, x: (x @ w).tanh()).kernels(w, x)
    assert set(rows.totals) == {"<lambda>_forward", "<lambda>_backward"}


def test_kernels_write_nothing(small_machine: Any) -> None:
    x = ndgrad.ones(3)

    def double(x: Any) -> Any:
        return x.mul_(2)

    ndgrad.compile(double).kernels(x)
    assert x.tolist() == [1, 1, 1]


def test_kernels_and_graphs_use_up_no_random_numbers(small_machine: Any) -> None:
    compiled = ndgrad.compile(lambda x: x * ndgrad.rand(3))
    ndgrad.manual_seed(0)
    expected = ndgrad.rand(3).tolist()
    ndgrad.manual_seed(0)
    compiled.kernels(ndgrad.ones(3))
    compiled.graph(ndgrad.ones(3))
    assert ndgrad.rand(3).tolist() == expected


def test_broadcast_row_counts_once_and_a_loop_by_its_rounds(small_machine: Any) -> None:
    native()
    (step,) = ndgrad.compile(lambda x, row: x + row).kernels(ndgrad.ones(100, 8), ndgrad.ones(8))
    assert step.work.read == 8 * (800 + 8)
    found = ndgrad.compile(rolled).kernels(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor(1.5))
    loop = next(step for step in found if step.name.startswith("loop"))
    assert loop.work.flops % 2 == 0
    assert loop.work.flops >= 30 * 2 * (12 + 3)


def test_convolutions_and_pooling_are_steps_with_their_work(small_machine: Any) -> None:
    native()
    functional = nn.functional
    x, w = ndgrad.ones(2, 3, 8, 8, dtype=ndgrad.float32), ndgrad.ones(4, 3, 3, 3, dtype=ndgrad.float32)
    found = ndgrad.compile(lambda x, w: functional.max_pool2d(functional.conv2d(x, w), 2)).kernels(x, w)
    by_op = {op: step for step in found for op in step.ops}
    assert by_op["convolution"].work.flops == 2 * (2 * 4 * 6 * 6) * 3 * 9
    assert by_op["convolution"].work.read == 4 * (2 * 3 * 64 + 4 * 3 * 9)
    assert by_op["convolution"].work.written == 4 * 2 * 4 * 36
    assert by_op["max_pool"].work.written == (4 + 8) * 2 * 4 * 9  # including the index of each
    assert by_op["max_pool"].work.dtype == "float32"
    assert by_op["max_pool"].work.flops == 4 * 2 * 4 * 9
    assert by_op["convolution"].name == "routine0"


def test_gather_reads_what_it_gives(small_machine: Any) -> None:
    found = ndgrad.compile(lambda table, index: table[index]).kernels(ndgrad.ones(1000, 4), ndgrad.tensor([3, 3, 5]))
    moved = next(step for step in found if step.work.written == 8 * 12)
    assert moved.work.read == 8 * 12 + 8 * 3
    assert moved.work.flops == 0


def test_ir_and_assembly_of_each_kernel_and_of_all(small_machine: Any) -> None:
    native()
    found = ndgrad.compile(lambda x: (x * 2.0).exp()).kernels(ndgrad.ones(64))
    assert found[0].ir.startswith("define internal void @kernel0(")
    assert "fmul" in found[0].ir
    assert "segment0:" in found[0].assembly  # the caller that it was inlined into
    assert "define void @segment0" in found.ir
    assert "segment0:" in found.assembly
    assert "kernel0:" not in found.assembly
    assert "define" in found.optimised


def test_kernels_on_numpy_are_ops(small_machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")
    found = ndgrad.compile(lambda x: (x * 2.0).exp()).kernels(ndgrad.ones(64))
    assert [step.name for step in found] == ["mul", "exp"]
    assert found[0].ir == found[0].assembly == found.ir == ""
    assert "mul (NumPy)" in str(found)


def test_least_work_counts_inputs_outputs_and_arithmetic() -> None:
    program = parse_program(
        """
        program p(%0: float32[4,5], %1: float32[5,3], %2: float32[7])
          %3: float32[4,3] = matmul(%0, %1)
          %4: float32[4,3] = exp(%3)
          return %4
        """
    )
    work = accounting.least_work(program)
    assert (work.read, work.written, work.dtype) == (4 * (20 + 15), 4 * 12, "float32")
    assert work.flops == 2 * 4 * 5 * 3 + 12 * 12


# ----- the machine -----------------------------------------------------------------------------------------------------------


def test_roofline_is_the_larger_of_memory_and_arithmetic() -> None:
    machine = roofline.Machine({1000: 8e9, 4000: 4e9, 100_000: 1e9}, {"float32": 2e9, "float64": 1e9}, 2)
    assert machine.bandwidth_at(500) == 8e9
    assert machine.bandwidth_at(3000) == 4e9
    assert machine.bandwidth_at(10**9) == 1e9
    assert machine.least_seconds(accounting.Work(100, 100, 0)) == 200 / 8e9
    assert machine.least_seconds(accounting.Work(100, 100, 10**6, "float32")) == 10**6 / 2e9
    assert machine.least_seconds(accounting.Work(100, 100, 10**6, "float64")) == 10**6 / 1e9


@pytest.mark.parametrize("with_llvm", [True, False])
def test_machine_is_measured_natively_and_on_numpy(with_llvm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if with_llvm:
        native()
    monkeypatch.setattr(roofline, "SIZES", (1 << 15, 1 << 18))
    monkeypatch.setattr(roofline, "_SAMPLING", 0.005)
    monkeypatch.setattr(roofline, "available", lambda: with_llvm)
    machine = roofline._measure.__wrapped__(1)
    assert set(machine.bandwidth) == {1 << 15, 1 << 18}
    assert all(speed > 1e8 for speed in (*machine.bandwidth.values(), *machine.peak.values()))
    assert "GB/s" in str(machine)


# ----- the profiler ----------------------------------------------------------------------------------------------------------


def test_profiler_has_a_row_for_every_kernel_of_a_compiled_call() -> None:
    native()
    w, x = arguments()
    compiled = ndgrad.compile(lambda w, x: (x @ w).tanh())
    expected = compiled(w, x)
    with timing.profile(with_flops=True) as prof:
        y = compiled(w, x)
        y.backward(expected.detach() * 0 + 1)
    names = [event.name for event in prof.function_events]
    assert "<lambda>_forward::product0 (matmul)" in names
    assert "<lambda>_forward::kernel0 (tanh)" in names
    assert any(name.startswith("<lambda>_backward::") for name in names)
    assert "aten::matmul" not in names, "it ran eagerly"
    product = next(event for event in prof.function_events if event.name.endswith("product0 (matmul)"))
    assert product.cpu_parent.name == "compiled <lambda>_forward"
    assert product.flops == 2 * 4 * 5 * 3
    np.testing.assert_array_equal(y.detach().numpy(), expected.detach().numpy())
    np.testing.assert_allclose(w.grad.numpy(), x.numpy().T @ (1 - expected.detach().numpy() ** 2))


def test_profiler_has_a_row_for_every_op_of_a_compiled_call_on_numpy() -> None:
    compiled = ndgrad.compile(lambda x: (x * 2.0).exp(), strict=True)
    with timing.profile():  # creates the watched executable
        compiled(ndgrad.ones(3))
    with timing.profile() as prof:
        compiled(ndgrad.ones(3))
    names = [event.name for event in prof.function_events]
    assert names[:3] == ["aten::ones", "compiled <lambda>_forward", "<lambda>_forward::mul"]


def test_compiling_is_a_row_of_its_own_in_a_profile() -> None:
    with timing.profile(profile_memory=True) as prof:
        ndgrad.compile(lambda x: x * 2.0)(ndgrad.ones(3))
    assert "compile <lambda>" in [event.name for event in prof.function_events]


def test_other_modes_of_the_process_still_run_eagerly() -> None:
    w, x = arguments()
    compiled = ndgrad.compile(loss)
    compiled(w, x)
    with ndgrad.autograd.detect_anomaly(check_nan=False), timing.profile() as prof:
        compiled(w, x)
    assert "aten::matmul" in [event.name for event in prof.function_events]


# ----- the time of compiling ---------------------------------------------------------------------------------------------------


def test_explain_says_what_each_phase_took_and_what_came_from_the_cache() -> None:
    native()

    def f(x: Any) -> Any:
        return (x * 1.2345).exp().sum()

    first = ndgrad.compiler.explain(f, ndgrad.ones(7)).times
    assert {"trace", "passes", "lowering", "LLVM", "linking"} <= set(first.seconds)
    assert first.objects > first.cached
    assert first.total == pytest.approx(sum(first.seconds.values()))
    again = ndgrad.compiler.explain(lambda x: (x * 1.2345).exp().sum(), ndgrad.ones(7))
    assert again.times.cached == again.times.objects > 0
    assert "LLVM" not in again.times.seconds
    assert "objects from the cache" in str(again)
    assert "trace" in str(again)


def test_time_goes_to_the_innermost_phase() -> None:
    times = phases.Times()
    with phases.compiling(times, "f", "trace"):
        with phases.phase("passes"):
            time.sleep(0.03)
        before = dict(times.seconds)
        time.sleep(0.01)
    assert before["passes"] >= 0.03
    assert times.seconds["passes"] == before["passes"]
    assert times.seconds["trace"] >= before["trace"] + 0.01
    with phases.phase("LLVM"):  # belongs to no program
        pass
    assert "LLVM" not in times.seconds


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def impatient_terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    """Return a terminal with a short delay. It is made in the test, because pytest sets the stream after its fixtures.
    """
    made = _Terminal()
    monkeypatch.setattr("sys.stderr", made)
    monkeypatch.setattr(phases, "PATIENCE", 0.02)
    monkeypatch.setattr(phases, "_TURN", 0.01)
    return made


def test_terminal_is_told_what_takes_long_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = impatient_terminal(monkeypatch)
    with phases.compiling(phases.Times(), "loss", "trace"), phases.phase("LLVM"):
        time.sleep(0.06)
    said = terminal.getvalue()
    assert "ndgrad.compile: loss, LLVM, 0 s" in said
    assert said.endswith(" \r")


def test_terminal_is_told_nothing_of_what_is_quick_and_a_file_never(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = impatient_terminal(monkeypatch)
    with phases.compiling(phases.Times(), "loss", "trace"):
        pass
    assert terminal.getvalue() == ""
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    with phases.compiling(phases.Times(), "loss", "trace"):
        time.sleep(0.05)
    assert file.getvalue() == ""


def test_tracing_beside_the_line_is_not_taken_for_a_print(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = impatient_terminal(monkeypatch)

    def slow(x: Any) -> Any:
        for _ in range(40):  # too short a loop to be traced as one round
            for number in range(50):
                x = x * (1 + number % 7)
        return x

    for size in range(2, 12):  # on a busy machine the writing thread may be late
        assert ndgrad.compiler.explain(slow, ndgrad.ones(size)).compiled
        if "ndgrad.compile: slow, trace" in terminal.getvalue():
            return
    pytest.fail(f"no line was written beside a trace: {terminal.getvalue()!r}")
