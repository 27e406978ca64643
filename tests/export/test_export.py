"""Exported programs compute the same as their modules, for all sizes they allow, also after a file. The module itself is
the oracle."""

from __future__ import annotations

import copy
import io
import json
import math
import zipfile

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad.export import Dim, ExportedProgram, ShapesCollection, dims, export, load, save
from ndgrad.export.size_expressions import NoFit, fit
from ndgrad.fx.proxy import TraceError


def reload(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    save(program, file)
    return load(file)


def check(module, program: ExportedProgram, *args) -> None:
    for own in (program, reload(program), program.run_decompositions()):
        found, want = own.module()(*copy.deepcopy(args)), copy.deepcopy(module)(*copy.deepcopy(args))
        for f, w in zip(ndgrad.pytree.tree_leaves(found), ndgrad.pytree.tree_leaves(want), strict=True):
            if isinstance(w, ndgrad.Tensor):
                np.testing.assert_allclose(f.detach().numpy(), w.detach().numpy(), rtol=1e-5, atol=1e-6)
                assert f.dtype == w.dtype
            else:
                assert f == w


class Sizes(nn.Module):
    """Sizes of its arguments in every role."""

    def forward(self, x, y):
        n, k = x.shape
        return {
            "flat": x.reshape(-1),
            "parts": [x[:, 1:], x[: n // 2], x.unfold(1, 2, 1)],
            "joined": ndgrad.cat([x.sum(1), y]),
            "made": ndgrad.arange(n) + ndgrad.zeros(n) + 3 * ndgrad.arange(1, n + 1),
            "square": ndgrad.ones(k, k).tril() + ndgrad.eye(k),
            "scaled": y / math.sqrt(k) + x.mean() * n,
            "pooled": nn.functional.avg_pool1d(x, 2),
            "numbers": (n * 2, n + y.shape[0]),
        }


@pytest.mark.parametrize("shapes", [((4, 6), 5), ((9, 3), 2), ((16, 31), 40)])
def test_open_sizes_in_every_role(shapes):
    n, k, length = dims("n", "k", "length")
    program = export(Sizes(), (ndgrad.ones(4, 6), ndgrad.ones(5)), dynamic_shapes={"x": {0: n, 1: k}, "y": {0: length}})
    check(Sizes(), program, ndgrad.randn(shapes[0]), ndgrad.randn(shapes[1]))
    assert list(program.range_constraints) == ["n", "k", "length"]


def test_transformer_with_open_batch_and_length():
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    batch, length = dims("batch", "length")
    program = export(module, (ndgrad.randn(2, 5, 8),), dynamic_shapes=({0: batch, 1: length},))
    check(module, program, ndgrad.randn(3, 7, 8))


def test_convolutions_with_open_images():
    module = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(2)).eval()
    program = export(module, (ndgrad.randn(1, 3, 8, 8),), dynamic_shapes=({0: Dim("b"), 2: Dim("h", min=4), 3: Dim("w", min=4)},))
    check(module, program, ndgrad.randn(2, 3, 12, 17))


def test_gradients_pass_through_programs():
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4))
    program = reload(export(module, (ndgrad.randn(2, 3),), dynamic_shapes=({0: Dim("b")},)))
    own, x = program.module(), ndgrad.randn(5, 3)
    own(x).pow(2).sum().backward()
    module(x).pow(2).sum().backward()
    for (name, p), (_, q) in zip(own.named_parameters(), module.named_parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


def test_buffers_and_arguments_are_written():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", ndgrad.zeros(()))

        def forward(self, x):
            self.calls += 1
            x.add_(self.calls)
            return x * 2

    program = export(Counts(), (ndgrad.ones(2),))
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["calls"]
    assert list(program.graph_signature.user_inputs_to_mutate.values()) == ["x"]
    for own in (program.module(), reload(program).module()):
        x = ndgrad.zeros(2)
        assert own(x).tolist() == [2.0, 2.0]
        assert (x.tolist(), own.calls.item()) == ([1.0, 1.0], 1.0)
    module = nn.BatchNorm1d(3)
    own, x = export(module, (ndgrad.randn(4, 3),), dynamic_shapes=({0: Dim("b", min=2)},)).module(), ndgrad.randn(6, 3)
    copied = copy.deepcopy(module)
    np.testing.assert_allclose(own(x).detach().numpy(), copied(x).detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(own.running_var.numpy(), copied.running_var.numpy(), rtol=1e-5)


def test_hints_become_equal_or_fixed_where_needed():
    program = export(lambda x, y: x + y, (ndgrad.ones(4), ndgrad.ones(4)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert program.module()(ndgrad.ones(6), ndgrad.ones(6)).shape == (6,)
    with pytest.raises(AssertionError, match=r"y\.size\(\)\[0\] == x\.size\(\)\[0\]"):
        program.module()(ndgrad.ones(6), ndgrad.ones(5))
    fixed = export(nn.Linear(3, 2), (ndgrad.ones(4, 3),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert fixed.module()(ndgrad.ones(9, 3)).shape == (9, 2)
    with pytest.raises(AssertionError, match=r"size\(\)\[1\] == 3"):
        fixed.module()(ndgrad.ones(9, 4))


def test_derived_sizes():
    half = Dim("half", min=1, max=8)
    program = export(
        lambda x, y: (x.reshape(-1, 2), y + 1), (ndgrad.ones(4), ndgrad.ones(3)), dynamic_shapes=({0: 2 * half}, {0: half + 1})
    )
    assert program.module()(ndgrad.ones(6), ndgrad.ones(4))[0].shape == (3, 2)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(ndgrad.ones(6), ndgrad.ones(3))
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(ndgrad.ones(5), ndgrad.ones(4))
    with pytest.raises(ValueError, match="no value of"):
        export(lambda x: x, (ndgrad.ones(5),), dynamic_shapes=({0: 2 * half},))


def test_size_that_the_module_fixes_is_an_error():
    with pytest.raises(RuntimeError, match=r"Constraints violated \(k\)"):
        export(nn.Linear(3, 2), (ndgrad.ones(4, 3),), dynamic_shapes=({1: Dim("k")},))
    with pytest.raises(RuntimeError, match="specialized"):
        export(lambda x: x * 2 if x.shape[0] == 4 else x + 1, (ndgrad.ones(4),), dynamic_shapes=({0: Dim("n")},))


def test_branches_and_draws_are_refused():
    with pytest.raises(TraceError, match="values"):
        export(lambda x: x if x.sum() > 0 else -x, (ndgrad.ones(2),))
    with pytest.raises(TraceError, match="random"):
        export(nn.Dropout(0.5), (ndgrad.ones(2),))


def test_collections_of_shapes_and_nested_arguments():
    x, y = ndgrad.ones(4, 2), ndgrad.ones(3)
    shapes = ShapesCollection()
    shapes[x] = {0: Dim("n")}
    function = lambda pair: pair["a"].sum(0) * pair["b"][0].sum()
    program = export(function, ({"a": x, "b": [y]},), dynamic_shapes=shapes)
    assert program.module()({"a": ndgrad.ones(7, 2), "b": [y]}).tolist() == [21.0, 21.0]
    by_structure = export(function, ({"a": x, "b": [y]},), dynamic_shapes={"pair": {"a": {0: Dim("n")}, "b": [None]}})
    assert by_structure.module()({"a": ndgrad.ones(7, 2), "b": [y]}).tolist() == [21.0, 21.0]


def test_registered_ops_are_nodes_of_programs():
    @ndgrad.library.custom_op("tests::exported", mutates_args=())
    def exported(x: ndgrad.Tensor, n: int) -> list[ndgrad.Tensor]:
        return [x * n, x + n]

    exported.register_fake(lambda x, n: [ndgrad.empty_like(x), ndgrad.empty_like(x)])
    program = reload(export(lambda x: sum(exported(x, x.shape[0])), (ndgrad.ones(3),), dynamic_shapes=({0: Dim("n")},)))
    assert any(node.target is ndgrad.ops.tests.exported.default for node in program.graph.nodes)
    assert program.module()(ndgrad.ones(5)).tolist() == [11.0] * 5


def test_files_are_text_and_refuse_code(tmp_path):
    path = tmp_path / "program.pt2"
    save(export(nn.Linear(2, 1), (ndgrad.ones(1, 2),)), path, extra_files={"note": "hello"})
    extra = {"note": ""}
    assert load(path, extra_files=extra).graph_signature.parameters == ("weight", "bias")
    assert extra["note"] == "hello"
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    program = json.loads(entries["program.json"])
    program["nodes"][0]["target"] = {"function": "os.system"}
    broken = io.BytesIO()
    with zipfile.ZipFile(broken, "w") as archive:
        for name, content in {**entries, "program.json": json.dumps(program).encode()}.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="no op"):
        load(broken)
    with pytest.raises(RuntimeError, match="no file of"):
        load(io.BytesIO(b"nothing"))
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("version.json", json.dumps({"format": "ndgrad.export", "version": 99}))
    with pytest.raises(RuntimeError, match="version 99"):
        load(other)


def test_decompositions_by_table():
    program = export(lambda x: x.sin() + 1, (ndgrad.ones(2),))
    other = program.run_decompositions({ndgrad.ops.aten.sin.default: lambda x: (ndgrad.pi / 2 - x).cos()})
    assert "sin" not in other.graph_module.code
    np.testing.assert_allclose(other.module()(ndgrad.ones(2)).numpy(), np.sin(1.0) + 1, rtol=1e-6)


def test_fits_of_numbers():
    samples = [{"a": 3, "b": 5}, {"a": 7, "b": 10}, {"a": 13, "b": 8}, {"a": 4, "b": 18}, {"a": 10, "b": 2}]
    for f in (
        lambda a, b: a, lambda a, b: 3 * a * b - 2, lambda a, b: a + 2 * b - 1, lambda a, b: (a + 1) // 2,
        lambda a, b: a * a * b, lambda a, b: b // 3 + 4, lambda a, b: 2.0 / b, lambda a, b: (a * b) ** -0.5,
        lambda a, b: a * b / (a * b - 1), lambda a, b: 3.5 / (b - 1),
    ):  # fmt: skip
        found = fit([f(**s) for s in samples], samples)
        assert math.isclose(found.evaluate({"a": 21, "b": 34}), f(21, 34))
    assert fit([4] * 5, samples) == 4
    with pytest.raises(NoFit):
        fit([1, 9, 2, 8, 3], samples)


@pytest.mark.parametrize("program", ["function", "module"])
def test_traced_programs_are_saved_and_loaded(program, tmp_path):
    module = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    target = module if program == "module" else lambda x: (x.sin() * 2).sum(1)
    traced = ndgrad.jit.trace(target, ndgrad.randn(4, 3))
    ndgrad.jit.save(traced, tmp_path / "traced.pt")
    loaded = ndgrad.jit.load(tmp_path / "traced.pt")
    assert isinstance(loaded, ndgrad.jit.ScriptModule)
    x = ndgrad.randn(6, 3)
    np.testing.assert_allclose(loaded(x).detach().numpy(), target(x).detach().numpy(), rtol=1e-6)
