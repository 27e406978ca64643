"""Private names of torch by which other libraries extend it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad._C._functorch import _add_batch_dim, is_batchedtensor
from ndgrad._functorch.vmap import _maybe_remove_batch_dim
from ndgrad._src.foundations.module_names import resolve
from ndgrad.nn.utils._named_member_accessor import swap_tensor
from ndgrad.utils._contextlib import _DecoratorContextManager
from ndgrad.utils._foreach_utils import _group_tensors_by_device_and_dtype
from ndgrad.utils.data import default_collate
from ndgrad.utils.data.collate import default_collate_fn_map


class Pair:
    """A container that makes its own tensors for vmap."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    @property
    def shape(self) -> Any:
        return self.x.shape

    def __getitem__(self, index: Any) -> Pair:
        return Pair(self.x[index], self.y[index])

    def _add_batch_dim(self, *, in_dim: int, vmap_level: int) -> Pair:
        return Pair(_add_batch_dim(self.x, in_dim, vmap_level), _add_batch_dim(self.y, in_dim, vmap_level))


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_containers_make_their_own_tensors_for_vmap(chunk_size: int | None) -> None:
    x, y = np.arange(6.0).reshape(3, 2), np.arange(12.0).reshape(3, 2, 2)
    pair = Pair(ndgrad.tensor(x), ndgrad.tensor(y))

    def product(pair: Pair) -> Any:
        assert is_batchedtensor(pair.x)
        return pair.y @ pair.x

    made = ndgrad.func.vmap(product, chunk_size=chunk_size)(pair)
    np.testing.assert_allclose(made, (y @ x[:, :, None])[:, :, 0])


def test_batch_dimensions_are_added_and_removed_by_depth() -> None:
    x = ndgrad.arange(6.0).reshape(2, 3)

    def run(_: Any) -> Any:
        inner = _add_batch_dim(x, 1, 1)
        assert inner.shape == (2,)
        return _maybe_remove_batch_dim("run", inner * 2, 1, 3, 1).sum()

    assert (ndgrad.func.vmap(run)(ndgrad.zeros(3)) == 30.0).all()
    with pytest.raises(RuntimeError, match="not an open vmap"):
        _add_batch_dim(x, 0, 1)


def test_default_collate_takes_functions_of_other_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    def collate(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return Pair(default_collate([p.x for p in batch]), default_collate([p.y for p in batch]))

    monkeypatch.setitem(default_collate_fn_map, Pair, collate)
    made = default_collate([{"pair": Pair(1, 2.0)}, {"pair": Pair(3, 4.0)}])
    assert made["pair"].x.tolist() == [1, 3]
    assert made["pair"].y.tolist() == [2.0, 4.0]


def test_lists_are_grouped_by_device_and_dtype() -> None:
    singles = [ndgrad.ones(n, dtype=ndgrad.float32) for n in (1, 3)]
    lists = [[singles[0], ndgrad.ones(2, dtype=ndgrad.float64), singles[1]], [None, None, ndgrad.zeros(3)]]
    groups = _group_tensors_by_device_and_dtype(lists, with_indices=True)
    (first, second), positions = groups[ndgrad.device("cpu"), ndgrad.float32]
    assert positions == [0, 2]
    assert [len(t) for t in first] == [1, 3]
    assert second[0] is None


def test_members_of_a_module_are_swapped() -> None:
    layer = nn.Linear(2, 2)
    before, given = layer.bias, ndgrad.ones(2)
    assert swap_tensor(layer, "bias", given) is before
    assert layer.bias is given
    missing = swap_tensor(layer, "scale", given, allow_missing=True)
    assert swap_tensor(layer, "scale", missing) is given
    assert not hasattr(layer, "scale")
    with pytest.raises(TypeError, match="in_features"):
        swap_tensor(layer, "in_features", given)


def test_a_context_manager_decorates_functions_and_generators() -> None:
    log: list[str] = []

    class Note(_DecoratorContextManager):
        def __enter__(self) -> None:
            log.append("in")

        def __exit__(self, *error: object) -> None:
            log.append("out")

    @Note()
    def count() -> Any:
        got = yield 1
        log.append(got)
        yield 2

    numbers = count()
    assert next(numbers) == 1
    assert log.count("in") == log.count("out") > 0
    assert numbers.send("sent") == 2
    assert log[-2:] == ["sent", "out"]
    assert Note()(len)([1]) == 1


def test_submodules_follow_the_other_name_of_a_module() -> None:
    assert resolve("distributed._tensor.experimental") == "distributed.tensor.experimental"
    assert resolve("nn.functional") == "nn.functional"


def test_quantized_types_are_names_without_tensors() -> None:
    assert str(ndgrad.qint8) == "ndgrad.qint8"
    assert ndgrad.qint8 not in (ndgrad.int8, ndgrad.quint8)
    for use in (lambda: ndgrad.zeros(2, dtype=ndgrad.qint8), lambda: ndgrad.promote_types(ndgrad.qint8, ndgrad.int8)):
        with pytest.raises(TypeError, match="quantized"):
            use()
