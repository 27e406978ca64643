"""torch's own database of modules (the samples that its tests run on), through both libraries: names in state dicts, texts, results,
gradients of parameters and inputs. It is private to torch, so nothing is compared where it cannot be imported."""

from __future__ import annotations

import inspect
import sys
import types
import unittest
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import ndgrad


def _database() -> list[Any]:
    # torch's test utilities import a library for expected texts, of which modules use nothing
    texts = types.ModuleType("expecttest")
    texts.TestCase, texts.assert_expected_inline = unittest.TestCase, None  # type: ignore[attr-defined]
    stands_in = sys.modules.setdefault("expecttest", texts) is texts
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.testing._internal.common_modules import module_db
    except (ImportError, AttributeError):
        return []
    finally:
        if stands_in:
            del sys.modules["expecttest"]
    return list(module_db)


#: Classes along several dimensions are refused.
WITHOUT = {"nn.LinearCrossEntropyLoss": "classes along several dimensions"}
#: Modules with random results, at least in training: only shapes are compared.
RANDOM = ("Dropout", "RReLU", "Fractional", "Transformer")


def ours(x: Any) -> Any:
    """The same argument for ndgrad."""
    if isinstance(x, torch.Tensor):
        made = ndgrad.tensor(x.detach().numpy().copy())
        return made.requires_grad_(x.requires_grad) if made.is_floating_point() or made.is_complex() else made
    if isinstance(x, torch.dtype):
        return getattr(ndgrad, str(x).partition(".")[2])
    if isinstance(x, torch.device):
        return "cpu"
    if isinstance(x, torch.nn.Module):
        return _layer(x)
    if isinstance(x, (list, tuple)):
        return type(x)(ours(v) for v in x)
    if isinstance(x, dict):
        return {key: ours(value) for key, value in x.items()}
    if callable(x) and (getattr(x, "__module__", None) or "").startswith("torch"):
        return getattr(ndgrad.nn.functional, x.__name__, None) or getattr(ndgrad, x.__name__)
    return x


def _layer(x: Any) -> Any:
    """A layer that is an argument of another module: only those of Transformers are."""
    attention = x.self_attn
    made = getattr(ndgrad.nn, type(x).__name__)(
        attention.embed_dim,
        attention.num_heads,
        x.linear1.out_features,
        x.dropout.p,
        activation=ours(x.activation),
        layer_norm_eps=x.norm1.eps,
        batch_first=attention.batch_first,
        norm_first=x.norm_first,
        bias=x.linear1.bias is not None,
        dtype=ndgrad.float64,
    )
    made.load_state_dict({key: ours(value) for key, value in x.state_dict().items()})
    return made


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (torch.Tensor, ndgrad.Tensor)):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, (list, tuple)) else []


def close(got: Any, want: Any, where: str) -> None:
    assert (got is None) == (want is None), where
    if want is not None:
        assert str(got.dtype).partition(".")[2] == str(want.dtype).partition(".")[2], where
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-6, atol=1e-8, err_msg=where)


def backward(results: list[Any]) -> None:
    total = sum((r * r.detach().cos()).sum() for r in results if r.requires_grad)
    (total.real if total.is_complex() else total).backward()


def compare(info: Any, sample: Any, training: bool) -> None:
    theirs, args, kwargs = info.module_cls, sample.constructor_input.args, dict(sample.constructor_input.kwargs)
    if "dtype" in inspect.signature(theirs).parameters or issubclass(theirs, torch.nn.RNNBase):
        kwargs.setdefault("dtype", torch.float64)
    module = theirs(*args, **kwargs).train(training)
    other = getattr(ndgrad.nn, theirs.__name__)(*ours(args), **ours(kwargs)).train(training)
    given = (sample.forward_input.args, sample.forward_input.kwargs)
    also = tuple(ours(g) for g in given)
    if getattr(module, "cls_to_become", None) is not None:
        with torch.no_grad():
            module(*given[0], **given[1])
        other(*also[0], **also[1])
    assert list(other.state_dict()) == list(module.state_dict())
    other.load_state_dict({key: ours(value) for key, value in module.state_dict().items()})
    assert repr(other) == repr(module)
    want = leaves(module(*given[0], **given[1]))
    got = leaves(other(*also[0], **also[1]))
    assert [tuple(t.shape) for t in got] == [tuple(t.shape) for t in want]
    if any(word in info.name for word in RANDOM) and (training or "Fractional" in info.name):
        return
    assert [t.requires_grad for t in got] == [t.requires_grad for t in want]
    for number, pair in enumerate(zip(got, want, strict=True)):
        close(*pair, f"result {number}")
    if any(t.requires_grad for t in want):
        backward(want)
        backward(got)
        for (name, p), q in zip(module.named_parameters(), other.parameters(), strict=True):
            close(q.grad, p.grad, name)
        for x, y in zip(leaves(given), leaves(also), strict=True):
            if x.requires_grad and x.is_leaf:
                close(y.grad, x.grad, "input")


def failure(info: Any) -> str | None:
    """Return the difference of a module here, if there is one."""
    try:
        for training in (True, False):
            torch.manual_seed(0)
            for sample in info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=training):
                if sample.forward_input is not None:
                    compare(info, sample, training)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_modules_of_the_database_are_the_same() -> None:
    database = _database()  # not before: it takes seconds to import
    if not database:
        pytest.skip("torch's database of modules cannot be imported")
    found = {info.name: failure(info) for info in database if info.name not in WITHOUT}
    assert len(found) > 100
    assert {name: text for name, text in found.items() if text is not None} == {}
