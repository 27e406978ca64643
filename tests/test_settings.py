"""Settings of the whole library under torch's names, versions, futures, and the top-level loops."""

from __future__ import annotations

import pytest

import ndgrad
from ndgrad.futures import Future, collect_all, wait_all
from ndgrad.torch_version import TorchVersion


def test_repeatable_results_can_be_asked_for():
    assert not ndgrad.are_deterministic_algorithms_enabled()
    try:
        ndgrad.use_deterministic_algorithms(True, warn_only=True)
        assert ndgrad.are_deterministic_algorithms_enabled()
        assert ndgrad.is_deterministic_algorithms_warn_only_enabled()
        assert ndgrad.get_deterministic_debug_mode() == 1
        ndgrad.set_deterministic_debug_mode("error")
        assert (ndgrad.get_deterministic_debug_mode(), ndgrad.is_deterministic_algorithms_warn_only_enabled()) == (2, False)
        x = ndgrad.zeros(3).index_add(0, ndgrad.tensor([0, 0, 2]), ndgrad.ones(3))
        assert x.tolist() == [2.0, 0.0, 1.0]
    finally:
        ndgrad.set_deterministic_debug_mode(0)
    assert not ndgrad.are_deterministic_algorithms_enabled()
    for mode in ("loud", 7):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            ndgrad.set_deterministic_debug_mode(mode)
    with pytest.raises(TypeError, match="str or int"):
        ndgrad.set_deterministic_debug_mode(None)


def test_precision_of_products_is_remembered():
    ndgrad.set_float32_matmul_precision("medium")
    assert ndgrad.get_float32_matmul_precision() == "medium"
    ndgrad.set_float32_matmul_precision("highest")
    with pytest.raises(RuntimeError, match="not one of"):
        ndgrad.set_float32_matmul_precision("low")


def test_the_number_of_threads_is_that_of_kernels():
    from ndgrad._src.arrays import threads

    before = ndgrad.get_num_threads()
    try:
        ndgrad.set_num_threads(1)
        assert threads.max_threads == ndgrad.get_num_threads() == 1
    finally:
        ndgrad.set_num_threads(before)
    with pytest.raises(RuntimeError, match="positive"):
        ndgrad.set_num_threads(0)
    with pytest.raises(RuntimeError):
        ndgrad.set_num_threads("2")


def test_the_rest_of_the_settings():
    assert ndgrad.set_flush_denormal(True) is False
    ndgrad.set_warn_always(True)
    assert ndgrad.is_warn_always_enabled()
    ndgrad.set_warn_always(False)
    assert not ndgrad.is_warn_always_enabled()
    with pytest.raises(RuntimeError, match="expects a bool"):
        ndgrad.set_warn_always(1)
    assert not ndgrad.is_vulkan_available()
    assert ndgrad.get_device_module("cuda") is ndgrad.cuda
    with pytest.raises(RuntimeError, match="no module for devices"):
        ndgrad.get_device_module("meta")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("2.13.0", "2.9"), ("2.0", "2.0rc1"), ("2.0.0.post1", "2.0"), ("2.0.0a2", "2.0.0a1"), ("2.1+cpu", (2, 0)), ("10.0", "9.9.9"),
        ("1.0", "1.0.dev3"), ("1.0a1", "1.0.dev1"), ("2.1.0+cpu.2", "2.1.0+cpu.1"), ("2.1.0+cpu", [2, 0, 9]),
    ],
)  # fmt: skip
def test_versions_are_ordered_as_versions_are(left, right):
    version = TorchVersion(left)
    assert version > right
    assert version >= right
    assert version != right
    assert not version < right
    assert not version <= right


def test_versions_that_are_equal_or_none_at_all():
    assert TorchVersion("2.1.0+cpu") > "2.1"
    assert TorchVersion("2.1.0+cpu") == "2.1+cpu"
    assert TorchVersion("2.1.0") == (2, 1, 0)
    assert TorchVersion("2.1.0").startswith("2.1")
    assert hash(TorchVersion("2.1.0")) == hash("2.1.0")
    assert TorchVersion("2.1.0") != "parrot"
    assert {TorchVersion("2.1.0"): 1}["2.1.0"] == 1


def test_the_packages_version_is_told_once():
    assert ndgrad.version.__version__ == ndgrad.__version__
    assert ndgrad.version.cuda is None


def test_futures():
    a, b = Future(), Future()
    both = collect_all([a, b])
    seen = []
    a.add_done_callback(lambda f: seen.append(f.value()))
    later = a.then(lambda f: f.wait() + 1)
    assert not both.done()
    with pytest.raises(RuntimeError, match="no value yet"):
        a.value()
    a.set_result(1)
    b.set_result(2)
    assert (seen, later.wait(), wait_all([a, b]), both.done()) == ([1], 2, [1, 2], True)
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        a.set_result(3)
    failing = Future()
    failing.set_exception(KeyError("x"))
    with pytest.raises(KeyError):
        failing.wait()
    with pytest.raises(KeyError):
        failing.then(lambda f: f.value()).wait()
    assert collect_all([]).wait() == []


def test_cond_and_while_loop_take_their_operands_as_one():
    x = ndgrad.tensor(2.0, requires_grad=True)
    y = ndgrad.cond(x > 0, lambda v: v * 3, lambda v: -v, (x,))
    _, z = ndgrad.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * v), (ndgrad.tensor(0), y))
    z.backward()
    assert (z.item(), x.grad.item()) == (6.0**4, 4 * 6.0**3 * 3)
