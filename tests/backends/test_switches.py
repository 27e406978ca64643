"""`ndgrad.backends`: honest answers, and switches that remember."""

from __future__ import annotations

import importlib

import pytest

import ndgrad
from ndgrad import backends


def test_what_is_not_used_says_so():
    for name in ("cudnn", "mkldnn", "mps", "openmp", "kleidiai", "cusparselt", "nnpack"):
        assert importlib.import_module(f"ndgrad.backends.{name}").is_available() is False
    assert backends.cudnn.version() is None
    assert backends.cuda.is_flash_attention_available() is False


def test_switches_remember_and_are_put_back():
    assert backends.cudnn.benchmark is False
    backends.cudnn.benchmark = True
    try:
        assert backends.cudnn.benchmark is True
        from ndgrad.backends.cudnn import benchmark

        assert benchmark is True
    finally:
        backends.cudnn.benchmark = False
    with backends.cudnn.flags(enabled=False, deterministic=True):
        assert (backends.cudnn.enabled, backends.cudnn.deterministic) == (False, True)
    assert (backends.cudnn.enabled, backends.cudnn.deterministic) == (True, False)
    before = backends.cuda.matmul.allow_tf32
    backends.cuda.matmul.allow_tf32 = True
    assert backends.cuda.matmul.allow_tf32
    backends.cuda.matmul.allow_tf32 = before


def test_a_switch_takes_its_own_kind_and_no_other_name():
    with pytest.raises(RuntimeError, match="expects bool"):
        backends.cudnn.benchmark = 1
    with pytest.raises(AttributeError, match="no setting 'allow_tf23'"):
        backends.cuda.matmul.allow_tf23 = True
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        backends.cudnn.nonsense


def test_kernels_of_attention_are_one():
    from ndgrad.nn.attention import SDPBackend, sdpa_kernel

    q = ndgrad.rand(1, 2, 3, 4)
    want = ndgrad.nn.functional.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]), backends.cuda.sdp_kernel(enable_flash=False):
        assert not backends.cuda.flash_sdp_enabled()
        assert ndgrad.equal(ndgrad.nn.functional.scaled_dot_product_attention(q, q, q), want)
    assert backends.cuda.flash_sdp_enabled()


def test_what_numpy_was_built_with_is_told():
    assert isinstance(backends.mkl.is_available(), bool)
    assert backends.cpu.get_cpu_capability().isupper()
    shown = ndgrad.__config__.show()
    assert "NumPy" in shown
    assert str(ndgrad.get_num_threads()) in ndgrad.__config__.parallel_info()
    with pytest.raises(RuntimeError, match="MKL_VERBOSE"):
        backends.mkl.verbose(backends.mkl.VERBOSE_ON)
