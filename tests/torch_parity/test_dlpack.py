"""Memory shared with torch by DLPack, both ways; graphs stay on their side."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ndgrad


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "complex64", "bool"])
def test_memory_crosses_both_ways_without_a_copy(dtype: str) -> None:
    ours = ndgrad.ones(2, 3, dtype=getattr(ndgrad, dtype))
    theirs = torch.from_dlpack(ours)
    assert theirs.dtype == getattr(torch, dtype)
    assert theirs.data_ptr() == ours.data_ptr()
    theirs[0, 1] = 0
    assert not ours[0, 1].item()
    back = ndgrad.from_dlpack(theirs)
    assert back.dtype == ours.dtype
    assert back.data_ptr() == ours.data_ptr()
    back[1, 2] = 0
    assert not theirs[1, 2].item()


def test_strides_cross() -> None:
    theirs = torch.arange(12.0).reshape(3, 4).T[::2]
    ours = ndgrad.from_dlpack(theirs)
    assert ours.stride() == theirs.stride()
    assert ours.tolist() == theirs.tolist()
    assert torch.from_dlpack(ours.T).tolist() == theirs.T.tolist()


def test_graphs_do_not_cross() -> None:
    with pytest.raises(BufferError, match=r"detach\(\)"):
        torch.from_dlpack(ndgrad.ones(2, requires_grad=True))
    with pytest.raises(BufferError):
        ndgrad.from_dlpack(torch.ones(2, requires_grad=True))
    constant = ndgrad.from_dlpack(torch.ones(2, requires_grad=True).detach())
    assert not constant.requires_grad
    assert not torch.from_dlpack(ndgrad.ones(2, requires_grad=True).detach()).requires_grad


def test_errors_are_of_torchs_kind() -> None:
    for library in (torch, ndgrad):
        with pytest.raises(BufferError):
            library.ones(2, requires_grad=True).__dlpack__()
        with pytest.raises(RuntimeError):
            library.from_dlpack(3.0)


def test_capsules_are_taken() -> None:
    from torch.utils.dlpack import to_dlpack

    theirs = torch.arange(3.0)
    ours = ndgrad.from_dlpack(to_dlpack(theirs))
    assert ours.data_ptr() == theirs.data_ptr()


def test_numpy_functions_take_tensors_of_neither_library_by_mistake() -> None:
    """A torch tensor beside an Array is no array of ours: it must be converted by hand."""
    mine = ndgrad.numpy.array([1.0, 2.0]).requires_grad_()
    with pytest.raises((TypeError, RuntimeError)):
        np.add(mine, torch.ones(2, requires_grad=True))


def test_neither_librarys_functions_take_the_others_tensors() -> None:
    class Asking(ndgrad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    theirs = torch.ones(2)
    for ours in (ndgrad.ones(2), ndgrad.ones(2).as_subclass(Asking)):
        for run in (
            lambda a, b: torch.add(a, b), lambda a, b: ndgrad.add(a, b), lambda a, b: a + b, lambda a, b: b + a,
            lambda a, b: torch.sin(b), lambda a, b: ndgrad.sin(a), lambda a, b: a.add_(b), lambda a, b: torch.Tensor.mul(a, b),
        ):  # fmt: skip
            with pytest.raises(TypeError):
                run(theirs, ours)
    test_memory_crosses_both_ways_without_a_copy("float64")
