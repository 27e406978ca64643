"""Fused modules, stubs, and arithmetic modules of networks that torch can quantise."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad as nd
from ndgrad import nn
from ndgrad.ao.quantization import DeQuantStub, QuantStub, QuantWrapper, fuse_modules


class Tenfold(nn.Module):
    def forward(self, value):
        return value * 10


def make_net():
    net = nn.Sequential(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3), nn.BatchNorm1d(3))
    net(nd.rand(5, 1, 3, 3) * 4)  # running statistics
    return net.eval()


def test_a_fused_network_computes_the_same():
    net, x = make_net(), nd.rand(4, 1, 3, 3)
    fused = fuse_modules(net, [["0", "1", "2"], ["4", "5"]])
    assert [type(m).__name__ for m in fused] == ["Sequential", "Identity", "Identity", "Flatten", "Linear", "Identity"]
    assert np.allclose(fused(x).detach().numpy(), net(x).detach().numpy(), atol=1e-6)
    assert isinstance(net[1], nn.BatchNorm2d)
    assert fuse_modules(net, ["0", "1"], inplace=True) is net
    assert isinstance(net[1], nn.Identity)


@pytest.mark.parametrize(("names", "words"), [(["1", "2", "0"], "cannot fuse"), (["0"], "cannot fuse"), (["2", "3"], "cannot fuse")])
def test_other_sequences_are_refused(names, words):
    with pytest.raises(NotImplementedError, match=words):
        fuse_modules(make_net(), names)


def test_a_network_in_training_is_refused():
    with pytest.raises(NotImplementedError, match="training"):
        fuse_modules(make_net().train(), ["0", "1"])


def test_stubs_return_their_input():
    x = nd.rand(2, 3)
    assert QuantStub()(x) is x
    assert DeQuantStub()(x) is x
    assert np.array_equal(QuantWrapper(nn.ReLU())(x).numpy(), x.numpy())
    with pytest.raises(NotImplementedError, match="qconfig"):
        QuantStub(qconfig=object())


def test_arithmetic_passes_through_the_submodule():
    f, x, y = nn.quantized.FloatFunctional(), nd.tensor([1.0, -3.0]), nd.tensor([2.0, 2.0])
    f.activation_post_process = Tenfold()
    assert f.add(x, y).tolist() == [30, -10]
    assert f.mul(x, y).tolist() == [20, -60]
    assert f.add_relu(x, y).tolist() == [30, 0]
    assert f.matmul(x, y).item() == -40
    assert f.cat([x, y]).tolist() == [10, -30, 20, 20]
    assert f.add_scalar(x, 1.0).tolist() == [2, -2]
    assert f.mul_scalar(x, 2.0).tolist() == [2, -6]
    with pytest.raises(RuntimeError, match="add_relu"):
        f(x)
