"""Mixed precision compiled: autocast around and inside a call, GradScaler, AveragedModel, and cumulative BatchNorm averages."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


@pytest.fixture(autouse=True)
def single_precision() -> Iterator[None]:
    before = ndgrad.get_default_dtype()
    ndgrad.set_default_dtype(ndgrad.float32)
    yield
    ndgrad.set_default_dtype(before)


def model() -> Any:
    ndgrad.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def data(seed: int = 0) -> Any:
    return ndgrad.tensor(np.random.default_rng(seed).normal(size=(5, 4)).astype(np.float32))


def gradients(net: Any, loss: Any) -> list[Any]:
    for p in net.parameters():
        p.grad = None
    loss.float().backward()
    return [p.grad.numpy().copy() for p in net.parameters()]


def programs(compiled: Any) -> int:
    return sum(entry.specialisation is not None for entry in compiled.entries)


@pytest.mark.parametrize("dtype", [ndgrad.bfloat16, ndgrad.float16])
def test_autocast_around_a_call_is_part_of_its_kind(dtype: Any) -> None:
    net = model()

    def loss(x: Any) -> Any:
        return net(x).pow(2).mean()

    compiled = ndgrad.compile(loss, fullgraph=True)
    for x in (data(1), data(2)):
        with ndgrad.autocast("cpu", dtype=dtype):
            expected, found = loss(x), compiled(x)
        assert found.dtype is expected.dtype
        np.testing.assert_allclose(found.float().item(), expected.float().item(), rtol=1e-2)
        for a, b in zip(gradients(net, found), gradients(net, expected), strict=True):
            assert a.dtype == b.dtype == np.float32
            np.testing.assert_allclose(a, b, rtol=5e-2, atol=2e-3)
        plain = compiled(x)  # outside of any autocast block
        assert plain.dtype is ndgrad.float32
        np.testing.assert_allclose(plain.item(), loss(x).item(), rtol=1e-6)
    assert programs(compiled) == 2


def test_each_setting_of_autocast_has_its_own_program() -> None:
    def product(x: Any, y: Any) -> Any:
        return x @ y, ndgrad.is_autocast_enabled("cpu")

    compiled = ndgrad.compile(product)
    x, y = data(), data().T.contiguous()
    for _ in range(3):
        for block in (
            ndgrad.autocast("cpu"),
            ndgrad.autocast("cpu", dtype=ndgrad.float16),
            ndgrad.autocast("cpu", enabled=False),
        ):
            with block:
                (a, is_on), (b, is_also_on) = compiled(x, y), product(x, y)
            assert (a.dtype, is_on) == (b.dtype, is_also_on)
            np.testing.assert_array_equal(a.float().numpy(), b.float().numpy())
    assert programs(compiled) == 3


def test_no_cast_of_a_trace_stays_in_the_block() -> None:
    w = ndgrad.ones(4, 4, requires_grad=True)
    compiled = ndgrad.compile(lambda x: (x @ w).sum(), fullgraph=True)
    with ndgrad.autocast("cpu"):
        compiled(data())
        found = data() @ w  # uses the cached cast of w, if there is one
    assert isinstance(found.detach().float().numpy(), np.ndarray)
    found.sum().backward()
    np.testing.assert_allclose(w.grad.numpy()[0], data().numpy().sum(0)[0], rtol=3e-2)


def test_autocast_with_another_mode_runs_eagerly() -> None:
    compiled = ndgrad.compile(lambda x: x @ x.T)
    with ndgrad.autocast("cpu"), ndgrad.inference_mode():
        assert compiled(data()).is_inference()
    assert not compiled.entries


def test_explain_knows_autocast() -> None:
    compiled = ndgrad.compile(lambda x: x @ x.T)
    with ndgrad.autocast("cpu"):
        assert str(ndgrad.compiler.explain(compiled, data())).startswith("compiled")


# ----- GradScaler -----------------------------------------------------------------------------------------------------


def scaled_step(net: Any, optimizer: Any, scaler: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        with ndgrad.autocast("cpu"):
            loss = net(x).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


def trained(is_compiled: bool) -> tuple[list[Any], list[float], Any]:
    net = model()
    optimizer = ndgrad.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    scaler = ndgrad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
    step = scaled_step(net, optimizer, scaler)
    run = ndgrad.compile(step) if is_compiled else step
    scales = []
    for k in range(12):
        x = data(k)
        if k == 5:
            x[0, 0] = float("inf")
        run(x)
        scales.append(scaler.get_scale())
    return [p.detach().numpy().copy() for p in net.parameters()], scales, run


def test_a_compiled_step_with_a_scaler_does_as_the_eager_one() -> None:
    expected, scales, _ = trained(False)
    found, found_scales, compiled = trained(True)
    assert found_scales == scales == [8, 8, 16, 16, 16, 8, 8, 8, 16, 16, 16, 32]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-3)
    assert (programs(compiled), compiled.traces) == (1, 2)


def test_a_scaler_around_a_compiled_loss() -> None:
    found = []
    for wrap in (lambda f: f, ndgrad.compile):
        net = model()
        optimizer = ndgrad.optim.SGD(net.parameters(), lr=0.05)
        scaler = ndgrad.amp.GradScaler("cpu", init_scale=1024.0)
        loss = wrap(lambda x, net=net, scaler=scaler: scaler.scale(net(x).pow(2).mean()))
        for k in range(4):
            optimizer.zero_grad()
            loss(data(k)).backward()
            scaler.step(optimizer)
            scaler.update()
        found.append([p.detach().numpy() for p in net.parameters()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


# ----- averages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [None, get_ema_multi_avg_fn(0.9)])
def test_averaged_models_are_updated_by_programs(average: Any) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    other = copy.deepcopy(net)
    averages = [AveragedModel(m, multi_avg_fn=average) for m in (net, other)]

    def update(x: Any, which: int) -> Any:
        averaged, source = averages[which], (net, other)[which]
        source(x)
        with ndgrad.no_grad():
            source[0].weight.mul_(0.9)
        averaged.update_parameters(source)
        return averaged(x).sum()

    compiled = ndgrad.compile(lambda x: update(x, 0))
    for k in range(5):
        np.testing.assert_allclose(compiled(data(k)).item(), update(data(k), 1).item(), rtol=1e-4, atol=1e-4)
    for a, b in zip(averages[0].state_dict().values(), averages[1].state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert (programs(compiled), compiled.traces) == (2, 2)  # the first update copies


def test_the_cumulative_average_of_batch_norm_compiles_once() -> None:
    norms = [nn.BatchNorm1d(4, momentum=None) for _ in range(2)]
    compiled = ndgrad.compile(lambda x: norms[0](x), fullgraph=True)
    for k in range(5):
        found, expected = compiled(data(k)), norms[1](data(k))
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    for name, value in norms[0].state_dict().items():
        np.testing.assert_allclose(value.numpy(), norms[1].state_dict()[name].numpy(), rtol=1e-5, err_msg=name)
    means = [data(k).numpy().mean(0) for k in range(5)]
    np.testing.assert_allclose(norms[0].running_mean.numpy(), np.mean(means, 0), rtol=1e-4, atol=1e-6)
    assert compiled.traces == 1
