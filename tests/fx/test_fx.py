"""Traced programs: equal to the functions they come from, safe to change, and independent of other threads."""

from __future__ import annotations

import copy
import gc
import importlib.util
import linecache
import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import fx, nn
from ndgrad.fx._symbolic_trace import is_fx_tracing
from ndgrad.fx.proxy import TraceError


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 6)
        self.scale = nn.Parameter(ndgrad.ones(6))

    def forward(self, x):
        h = self.second(F.gelu(self.first(self.norm(x))))
        return x + h * self.scale


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(6, 18)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return F.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1) @ v


MODELS = {
    "blocks": lambda: nn.Sequential(Block(), nn.Dropout(0.0), Block()),
    "attention": Attention,
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 1, 6)), nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    ),
    "recurrent": lambda: nn.Sequential(nn.GRU(6, 4, batch_first=True)),
}


def flat(value):
    return list(value) if isinstance(value, tuple) else [value]


def inputs(name):
    return ndgrad.randn(3, 6) if name == "convolutions" else ndgrad.randn(2, 3, 6)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", ["code", "interpreter", "transformer", "copy", "pickle"])
def test_traced_model_has_the_values_and_gradients_of_the_model(name, way):
    model = MODELS[name]()
    traced = fx.symbolic_trace(model)
    run = {
        "code": lambda: traced,
        "interpreter": lambda: fx.Interpreter(traced).run,
        "transformer": lambda: fx.Transformer(traced).transform(),
        "copy": lambda: copy.deepcopy(traced),
        "pickle": lambda: pickle.loads(pickle.dumps(traced)),
    }[way]()
    x = inputs(name).requires_grad_()
    expected = ndgrad.autograd.grad(sum(o.square().sum() for o in flat(model(x))), x)[0]
    found = ndgrad.autograd.grad(sum(o.square().sum() for o in flat(run(x))), x)[0]
    for a, b in zip(flat(model(x)), flat(run(x)), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy())
    np.testing.assert_allclose(found.numpy(), expected.numpy())


def test_parameters_are_shared_with_the_model():
    model = Block()
    traced = fx.symbolic_trace(model)
    assert traced.scale is model.scale
    assert traced.first.weight is model.first.weight


@pytest.mark.parametrize("function", [ndgrad.sin, ndgrad.special.expit, ndgrad.linalg.norm, ndgrad.fft.fft, F.silu, ndgrad.cumsum])
def test_functions_of_every_namespace_are_recorded_and_printed(function):
    args = (0,) if function is ndgrad.cumsum else ()
    traced = fx.symbolic_trace(lambda x: function(x, *args))
    x = ndgrad.randn(4)
    np.testing.assert_array_equal(traced(x).numpy(), function(x, *args).numpy())
    call = list(traced.graph.nodes)[1]
    assert call.target is function
    assert eval(fx.Node._pretty_print_target(function), {"ndgrad": ndgrad}) is function


def test_modules_in_other_threads_run_as_usual_during_a_trace():
    model, seen = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []

    class Waiting(nn.Module):
        def forward(self, x):
            other = threading.Thread(target=lambda: seen.append(model(ndgrad.ones(1, 2))))
            other.start()
            other.join()
            return x + 1

    traced = fx.symbolic_trace(Waiting())
    assert isinstance(seen[0], ndgrad.Tensor)
    assert len(traced.graph.nodes) == 3


def test_a_failed_trace_restores_modules_and_functions():
    import math

    before = nn.Module.__call__, nn.Module.__getattr__, math.sqrt
    with pytest.raises(TraceError):
        fx.symbolic_trace(lambda x: math.sqrt(x) if x else x)
    assert (nn.Module.__call__, nn.Module.__getattr__, math.sqrt) == before
    assert not is_fx_tracing()


def test_a_trace_inside_a_trace():
    class Inner(nn.Module):
        def forward(self, x):
            inner = fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.ReLU()))
            return x + len(inner.graph.nodes)

    assert fx.symbolic_trace(Inner())(1.0) == 5.0


def test_a_graph_module_dies_with_its_source():
    traced = fx.symbolic_trace(lambda x: x + 1)
    file = traced.forward.__code__.co_filename
    assert "add = x + 1" in "".join(linecache.getlines(file))
    alive = weakref.ref(traced)
    del traced
    gc.collect()
    assert alive() is None
    assert file not in linecache.cache


def test_an_error_in_generated_code_shows_its_line():
    import traceback

    traced = fx.symbolic_trace(lambda x: x.matmul(x))
    with pytest.raises(RuntimeError) as caught:
        traced(ndgrad.ones(2, 3))
    assert any("matmul = x.matmul(x)" in line for line in traceback.format_exception(caught.value))


def test_an_interpreter_names_the_failing_node():
    with pytest.raises(AttributeError) as caught:
        fx.Interpreter(fx.symbolic_trace(lambda x: x.foo(1))).run(ndgrad.ones(2))
    assert "call_method[target=foo]" in caught.value.__notes__[0]


def test_dead_code_that_writes_stays():
    """torch removes such a write, which changes the result."""
    def f(x):
        y = x.clone()
        y.add_(1)
        F.relu(y, inplace=True)
        y.sin()
        return y

    traced = fx.symbolic_trace(f)
    assert traced.graph.eliminate_dead_code()
    traced.recompile()
    x = ndgrad.tensor([-3.0, 2.0])
    assert traced(x).tolist() == f(x).tolist() == [0.0, 3.0]
    assert "sin" not in traced.code


def test_a_negative_base_of_a_power_keeps_its_sign():
    assert fx.symbolic_trace(lambda x: (-2) ** x)(2) == 4


def test_numbers_of_numpy_and_enums_are_constants_of_the_code():
    import enum

    class Kind(enum.Enum):
        A = 3

    traced = fx.symbolic_trace(lambda x: (x + np.float64(2.5), x.get(Kind.A), float("-inf") * x, x * complex("nan+1j")))

    class Value(float):
        def get(self, kind):
            return kind

    found = traced(Value(1.0))
    assert found[:3] == (3.5, Kind.A, -np.inf)


def test_asserts_are_recorded():
    class Asserting(fx.Tracer):
        trace_asserts = True

    scope = {}  # pytest rewrites assert statements of this file
    exec('def f(x):\n    assert x.shape[0] == 3, "three rows"\n    return x + 1', scope)
    module = fx.GraphModule({}, Asserting().trace(scope["f"]))
    assert module(ndgrad.ones(3)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(AssertionError, match="three rows"):
        module(ndgrad.ones(2))


def test_lines_of_the_user_are_recorded():
    class Recording(fx.Tracer):
        record_stack_traces = True

    graph = Recording().trace(lambda x: ndgrad.relu(x) + 1)
    relu = list(graph.nodes)[1]
    assert "test_fx.py" in relu.stack_trace
    assert "ndgrad.relu(x) + 1" in relu.stack_trace
    assert "test_fx.py" in fx.GraphModule({}, graph).print_readable(print_output=False)


def test_bound_methods_partials_and_callable_objects_are_traced():
    import functools

    class Scale:
        def scale(self, x, factor=3):
            return x * factor

        def __call__(self, x, *, shift=1):
            return x + shift

    assert fx.symbolic_trace(Scale().scale)(2) == 6
    assert fx.symbolic_trace(functools.partial(Scale().scale, factor=5))(2) == 10
    assert fx.symbolic_trace(Scale())(2, shift=4) == 6
    assert fx.symbolic_trace(ndgrad.relu)(ndgrad.tensor(-1.0)) == 0


def test_mutable_operations_are_refused_on_request():
    class Checking(fx.Tracer):
        check_mutable_operations = True

    with pytest.raises(RuntimeError, match="mutable operation"):
        Checking().trace(lambda x: F.relu_(x))


def test_metadata_is_copied_to_new_nodes():
    from ndgrad.fx import traceback as fx_traceback

    graph = fx.Graph()
    with fx_traceback.annotate({"stage": 1}):
        fx.Proxy(graph.placeholder("x")) + 1
    assert list(graph.nodes)[1].meta["custom"] == {"stage": 1}

    traced = fx.symbolic_trace(lambda x: x + 1)
    list(traced.graph.nodes)[1].meta["mine"] = "kept"
    assert list(fx.Transformer(traced).transform().graph.nodes)[1].meta["mine"] == "kept"
    assert list(copy.deepcopy(traced).graph.nodes)[1].meta["mine"] == "kept"


def test_hooks_see_changes_of_the_graph():
    traced, seen = fx.symbolic_trace(lambda x: x + 1), []
    traced._register_create_node_hook(lambda node: seen.append(("create", node.name)))
    traced._register_erase_node_hook(lambda node: seen.append(("erase", node.name)))
    with traced._set_replace_hook(lambda old, new, user: seen.append(("replace", old.name, new, user.name))):
        x, add, output = traced.graph.nodes
        with traced.graph.inserting_before(output):
            new = traced.graph.call_function(ndgrad.relu, (x,))
        add.replace_all_uses_with(new)
        traced.graph.erase_node(add)
    assert seen == [("create", "relu"), ("replace", "add", "relu", "output"), ("erase", "add")]


def test_nodes_can_be_erased_and_inserted_during_iteration():
    traced = fx.symbolic_trace(lambda x: ndgrad.relu(ndgrad.relu(ndgrad.relu(x))))
    for node in traced.graph.nodes:
        if node.target is ndgrad.relu:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(ndgrad.tanh, node.args)
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    x = ndgrad.randn(3)
    np.testing.assert_allclose(traced(x).numpy(), np.tanh(np.tanh(np.tanh(x.numpy()))))


WRAPPED = """
import ndgrad
from ndgrad import fx

fx.wrap("len")
calls = []

@fx.wrap
def helper(x, n):
    calls.append(n)
    return x * n

def f(x):
    return helper(x, len(x)) + helper(2, 3)
"""


def test_wrapped_functions_are_single_nodes(tmp_path):
    path = tmp_path / "wrapped_functions.py"
    path.write_text(WRAPPED)
    spec = importlib.util.spec_from_file_location("wrapped_functions", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    traced = fx.symbolic_trace(module.f)
    assert module.calls == [3]  # the call without proxies ran
    assert [n.name for n in traced.graph.nodes] == ["x", "len_1", "helper", "add", "output"]
    assert traced(ndgrad.ones(4)).tolist() == [10.0] * 4
    # The code of a traced module wraps them again.
    again = fx.symbolic_trace(traced)
    assert [n.name for n in again.graph.nodes] == [n.name for n in traced.graph.nodes]
    assert module.helper(1, 1) == 1


def test_a_module_is_written_to_a_folder_and_read_by_another_process(tmp_path):
    model = nn.Sequential(Block(), nn.BatchNorm1d(6)).eval()
    traced = fx.symbolic_trace(model)
    traced.to_folder(tmp_path / "written", "Written")
    x = ndgrad.randn(2, 6)
    ndgrad.save((x, model(x).detach()), tmp_path / "values.pt")
    script = (
        "import ndgrad; from written import Written\n"
        "x, y = ndgrad.load('values.pt')\n"
        "print(bool(ndgrad.allclose(Written().eval()(x), y)))"
    )
    import os

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=120)
    assert done.stdout == "True\n", done.stderr


def test_graph_modules_compile_and_transform():
    model = Block()
    traced = fx.symbolic_trace(model)
    x = ndgrad.randn(2, 6)
    np.testing.assert_allclose(ndgrad.compile(traced)(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-12)
    mapped = ndgrad.func.vmap(traced)(x)
    np.testing.assert_allclose(mapped.detach().numpy(), model(x).detach().numpy(), rtol=1e-12)


def test_import_of_the_package_does_not_import_fx():
    script = "import sys, ndgrad; print('ndgrad.fx' in sys.modules); ndgrad.fx.Graph; print('ndgrad.onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_as_torch_prints_torchs_names(tmp_path):
    (tmp_path / "script.py").write_text(
        "import torch, torch.fx, torch.fx.experimental.proxy_tensor, torch.fx.passes.shape_prop, torch.fx._symbolic_trace\n"
        "from torch.fx.node import Argument, Target, map_arg\n"
        "g = torch.fx.symbolic_trace(lambda x: torch.relu(x).to(torch.float64) + torch.nn.functional.gelu(x))\n"
        "print(g.code.strip())\nprint(g(torch.ones(1)).dtype, torch.fx.passes.shape_prop.ShapeProp.__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "ndgrad.as_torch", str(tmp_path / "script.py")], capture_output=True, text=True, timeout=120
    )
    assert "relu = torch.relu(x)" in done.stdout, done.stderr
    assert "to = relu.to(torch.float64)" in done.stdout
    assert "torch.nn.functional.gelu" in done.stdout
    assert "torch.float64 ShapeProp" in done.stdout
