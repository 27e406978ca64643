"""torch's `jit` and other names about compiling, as what they are here."""

from __future__ import annotations

import copy
import importlib
import io
import pickle

import numpy as np
import pytest

import ndgrad
from ndgrad import jit, nn


def test_script_follows_branches_and_loops():
    @jit.script
    def f(x, n: int):
        if x.sum() > 0:
            return x * n
        while x.sum() < 0:
            x = x + 1
        return x

    assert f(ndgrad.tensor([1.0]), 3).tolist() == [3.0]
    assert f(ndgrad.tensor([-1.5]), 3).tolist() == [0.5]


def test_scripted_functions_have_gradients():
    f = jit.script(lambda x: (x.sin() * x).sum())
    x = ndgrad.tensor([0.3, 0.7], requires_grad=True)
    f(x).backward()
    v = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(v) * v + np.sin(v), rtol=1e-6)


def test_modules_and_classes_come_back_from_script():
    net = nn.Linear(2, 1)
    scripted = jit.script(net)
    assert isinstance(scripted, jit.ScriptModule)
    assert scripted.weight is net.weight
    assert scripted.original_name == "Linear"
    assert jit.script(nn.Linear) is nn.Linear
    assert not isinstance(net, jit.ScriptModule)
    with pytest.raises(TypeError, match="takes a function, a module or a class"):
        jit.script(3)


def test_a_trace_serves_other_arguments_and_branches():
    f = jit.trace(lambda x: x * 2 if x.sum() > 0 else x * 3, ndgrad.ones(2))
    assert f(-ndgrad.ones(3)).tolist() == [-3.0, -3.0, -3.0]
    net = nn.Linear(2, 1)
    traced = jit.trace(net, (ndgrad.ones(1, 2),), check_inputs=[(ndgrad.zeros(3, 2),)])
    assert ndgrad.allclose(traced(ndgrad.ones(1, 2)), net(ndgrad.ones(1, 2)))


def test_a_function_that_gives_other_results_each_time_fails_the_check():
    calls = []

    def f(x):
        calls.append(None)
        return x * len(calls)

    with pytest.raises(jit.TracingCheckError, match="sanity checks"):
        jit.trace(f, ndgrad.ones(2))
    jit.trace(f, ndgrad.ones(2), check_trace=False)


def test_tracing_is_seen_only_inside():
    seen = []

    def f(x):
        seen.append(jit.is_tracing())
        return x

    jit.trace(f, ndgrad.ones(1))
    assert all(seen)
    assert not jit.is_tracing()
    assert not jit.is_scripting()


def test_decorators_and_annotations_change_nothing():
    def f(x):
        return x

    assert jit.ignore(f) is jit.unused(f) is jit.export(f) is jit.ignore(drop=True)(f) is jit.script_if_tracing(f) is f
    assert jit.annotate(int, 3) == 3
    assert jit.isinstance([1], list[int])
    assert jit.wait(jit.fork(f, 5)) == 5
    net = nn.Linear(1, 1)
    assert jit.freeze(net.eval()) is net
    with pytest.raises(RuntimeError, match="eval mode"):
        jit.freeze(net.train())


def test_scripted_module_has_no_program_to_save():
    with pytest.raises(RuntimeError, match="jit.trace"):
        jit.save(jit.script(nn.Linear(2, 1)), io.BytesIO())


def test_scripted_modules_are_copied_and_pickled():
    scripted = jit.script(nn.Sequential(nn.Linear(2, 1), nn.ReLU()))
    x = ndgrad.ones(3, 2)
    for other in (copy.deepcopy(scripted), pickle.loads(pickle.dumps(scripted))):
        assert isinstance(other[0], jit.ScriptModule)
        assert ndgrad.equal(other(x), scripted(x))


def test_names_of_the_compiler():
    compiler = ndgrad.compiler
    assert compiler.allow_in_graph(ndgrad.sin) is ndgrad.sin
    assert not compiler.is_dynamo_compiling()
    assert "eager" not in compiler.list_backends()
    f = compiler.compile(lambda x: x * 2)
    calls = []
    g = ndgrad.compile(lambda x: (calls.append(compiler.is_compiling()), x)[1])
    with compiler.set_stance("force_eager"):
        assert f(ndgrad.ones(1)).tolist() == [2.0]
        g(ndgrad.ones(1))
    assert calls == [False]

    @compiler.set_stance("force_eager")
    def run():
        return g(ndgrad.ones(1))

    run()
    assert calls == [False, False]
    with pytest.raises(RuntimeError, match="force_eager"):
        compiler.set_stance("fail_on_recompile")


def test_names_of_dynamo():
    dynamo = importlib.import_module("ndgrad._dynamo")
    dynamo.config.suppress_errors = True
    dynamo.reset()
    dynamo.mark_dynamic(ndgrad.ones(2), 0)

    @dynamo.optimize("inductor")
    def f(x):
        dynamo.graph_break()
        return x + 1

    assert f(ndgrad.ones(1)).tolist() == [2.0]
    assert not dynamo.is_compiling()


def test_script_compiles_only_kinds_of_arguments_that_repeat():
    @jit.script
    def f(x):
        return (x * 2).sin() + 1

    for n in range(1, 9):
        for _ in range(3):
            assert f(ndgrad.zeros(n)).tolist() == [1.0] * n
    assert f.traces == 0
    for n in (2, 3, 4):
        for _ in range(25):
            x = ndgrad.zeros(n, requires_grad=True)
            f(x).sum().backward()
            assert x.grad.tolist() == [2.0] * n
    assert 1 <= f.traces <= 2
    f.reset()
    assert f(ndgrad.zeros(2)).tolist() == [1.0, 1.0]
    assert f.traces <= 2


def test_fusion_strategy_limits_the_kinds_that_script_compiles():
    before = jit.set_fusion_strategy([("STATIC", 0)])
    try:
        f = jit.script(lambda x: x + 1)
        for _ in range(40):
            f(ndgrad.zeros(1))
        assert f.traces == 0
        with pytest.raises(ValueError, match="STATIC or DYNAMIC"):
            jit.set_fusion_strategy([("SOMETIMES", 1)])
    finally:
        assert jit.set_fusion_strategy(before) == [("STATIC", 0)]


def test_fork_has_torchs_private_name():
    assert jit._wait(jit._fork(lambda x: x + 1, 2)) == 3


class Raising(ndgrad.nn.Module):
    def forward(self, x, kind):
        if kind == "index":
            return x[7]
        if kind == "own":
            raise OwnError("text", 3)
        assert kind != "assert", "not this"
        return x.view(5)


class OwnError(ValueError):
    def __init__(self, text, number):
        super().__init__(text)
        self.number = number


@pytest.mark.parametrize(
    ("kind", "classes"),
    [("index", (IndexError,)), ("own", (OwnError, ValueError)), ("assert", (AssertionError,)), ("view", (RuntimeError,))],
)
@pytest.mark.parametrize(
    "make", [lambda: ndgrad.jit.script(Raising()), lambda: ndgrad.jit.script(Raising().forward)], ids=["module", "function"]
)
def test_errors_of_scripted_code_are_runtime_errors_and_of_their_own_class(make, kind, classes):
    with pytest.raises(RuntimeError) as caught:
        make()(ndgrad.ones(3), kind)
    assert isinstance(caught.value, classes)
    if kind != "view":
        assert isinstance(caught.value, ndgrad.jit.Error)
        assert type(caught.value).__name__ == classes[0].__name__
        assert caught.traceback[-1].name == "forward" or kind == "index"
    if kind == "own":
        assert (str(caught.value), caught.value.number) == ("text", 3)


def test_a_size_may_be_a_tensor_without_dimensions():
    mask = ndgrad.tensor([True, False, True])
    assert ndgrad.ones(mask.sum()).tolist() == [1.0, 1.0]
    assert ndgrad.zeros(mask.sum(), 3).shape == (2, 3)
    with pytest.raises(TypeError, match="sizes must be ints"):
        ndgrad.ones(ndgrad.tensor(2.0))
