"""Misspelt names and wrong arguments: mypy and pyright must refuse every line that is marked, and no other."""

from __future__ import annotations

import ndgrad as torch
import ndgrad.nn.functional as F
import ndgrad.numpy as np
from ndgrad import Tensor, nn, optim
from ndgrad.numpy import Array


def names(x: Tensor) -> None:
    torch.sinn(x)  # error
    torch.float46  # error
    torch.linalg.choleski(x)  # error
    torch.fft.ftt(x)  # error
    torch.special.erfq(x)  # error
    torch.autograd.gard(x, x)  # error
    torch.autograd.graph.saved_tensor_hooks  # error
    torch.func.vmapp(torch.sin)  # error
    torch.func.grad(torch.sumn)  # error
    torch.utils.checkpont  # error
    torch.testing.assert_closed(x, x)  # error
    F.sotfmax(x, dim=0)  # error
    nn.Lineer(2, 3)  # error
    nn.init.xavier_unifrom_(x)  # error
    optim.Adamm([x])  # error
    optim.lr_scheduler.StepLr  # error


def attributes(x: Tensor, net: nn.Linear) -> None:
    x.backwards()  # error
    x.sinn()  # error
    x.shpae  # error
    x.sum().itme()  # error
    (x + 1).reshap(-1)  # error
    x[0].tolists()  # error
    x.grad.summ()  # error
    x.max(dim=0).indexes  # error
    torch.topk(x, 2).value  # error
    net(x).abss()  # error
    F.relu(x).meann()  # error
    x.dtype.itemsizes  # error
    torch.no_grads()  # error
    torch.func.grad(torch.Tensor.sum)(x).summ()  # error


def arguments(x: Tensor) -> None:
    torch.zeros(3, dtyp=torch.float32)  # error
    torch.tensor([1.0], require_grad=True)  # error
    x.sum(dimm=0)  # error
    x.sum(dim="rows")  # error
    torch.cat(x, dims=0)  # error
    torch.sin()  # error
    x.backward(retain=True)  # error
    nn.Linear(2)  # error
    nn.Linear("two", 3)  # error
    optim.SGD([x], learning_rate=0.1)  # error
    F.cross_entropy(x)  # error
    torch.einsum(x, "ij->ji")  # error
    x.reshape("flat")  # error


def numpy_type(a: Array) -> None:
    np.zeroes(3)  # error
    np.sum(a, axes=0)  # error
    np.linalg.nrom(a)  # error
    np.fft.ftt(a)  # error
    np.random.defalt_rng()  # error
    a.astypes(np.float32)  # error
    np.sin(a).summ()  # error
    (2 * a).backwards()  # error
    np.concatenate(a, axs=0)  # error
