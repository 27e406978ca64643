"""Tensor parallel layers against the same layers on one process: losses, gradients, bytes on the wire."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from ndgrad.distributed.tensor.debug import CommDebugMode
from ndgrad.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

nn = ndgrad.nn


def _mesh():
    return dist.init_device_mesh("cpu", (dist.get_world_size(),))


class _Block(nn.Module):
    """A transformer's block: attention and a perceptron, each after a norm."""

    def __init__(self, width=12, heads=12):
        super().__init__()
        self.heads, self.each = heads, width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 24), nn.Linear(24, width)

    def attend(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.each)).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class _Model(nn.Module):
    def __init__(self):
        super().__init__()
        ndgrad.manual_seed(0)
        self.embed = nn.Embedding(10, 12, padding_idx=0)
        self.blocks = nn.ModuleList(_Block() for _ in range(1))
        self.head = nn.Linear(12, 10)
        self.double()

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


_PLAN = {
    "embed": RowwiseParallel(input_layouts=Replicate()),
    **{f"blocks.*.{name}": ColwiseParallel() for name in ("query", "key", "value", "up")},
    **{f"blocks.*.{name}": RowwiseParallel() for name in ("out", "down")},
    "head": ColwiseParallel(output_layouts=Replicate()),
}


def _tokens(step):
    rng = np.random.default_rng(step)
    return ndgrad.tensor(rng.integers(0, 10, (2, 12))), ndgrad.tensor(rng.integers(0, 10, (2, 12)))


def _loss(scores, targets):
    return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def _whole(p):
    return (p.full_tensor() if isinstance(p, DTensor) else p).detach().numpy()


@on_ranks(1, 2, 3, 4)
def a_transformer_divided_by_columns_and_rows_trains_as_on_one_process():
    alone = _Model()
    net = parallelize_module(_Model(), _mesh(), _PLAN)
    first, second = (ndgrad.optim.Adam(m.parameters(), lr=0.01) for m in (alone, net))
    for step in range(2):
        tokens, targets = _tokens(step)
        for model, opt in ((alone, first), (net, second)):
            opt.zero_grad()
            loss = _loss(model(tokens), targets)
            loss.backward()
            opt.step()
            if model is alone:
                want = loss.item()
        assert loss.item() == pytest.approx(want, rel=1e-10)
    for (name, p), q in zip(net.named_parameters(), alone.parameters(), strict=True):
        np.testing.assert_allclose(_whole(p), _whole(q), rtol=1e-7, atol=1e-9, err_msg=name)
    n = dist.get_world_size()
    held = sum(p.to_local().numel() if isinstance(p, DTensor) else p.numel() for p in net.parameters())
    whole = sum(p.numel() for p in alone.parameters())
    assert n == 1 or held < whole * (1.35 / n + 0.05)  # all but norms and the biases of rows


@on_ranks(1, 2, 3, 4)
def a_pair_of_layers_sends_one_reduction_each_way():
    n = dist.get_world_size()
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    net = parallelize_module(net, _mesh(), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = ndgrad.ones(6, 4, requires_grad=True)
    with CommDebugMode() as forward:
        out = net(x)
    with CommDebugMode() as backward:
        out.sum().backward()
    each = 2 * (n - 1) / n * (6 * 4 * 4)
    for seen in (forward, backward):
        assert seen.get_total_counts() <= 1 or n == 1
        assert float(seen.total()) == pytest.approx(each)


@on_ranks(2, 3)
def norms_over_a_sharded_sequence():
    n = dist.get_world_size()
    plan = {
        "norm1": SequenceParallel(), "norm2": SequenceParallel(),
        "query": ColwiseParallel(input_layouts=Shard(1)), "key": ColwiseParallel(input_layouts=Shard(1)),
        "value": ColwiseParallel(input_layouts=Shard(1)), "up": ColwiseParallel(input_layouts=Shard(1)),
        "out": RowwiseParallel(output_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1)),
    }  # fmt: skip
    ndgrad.manual_seed(3)
    alone = _Block().double()
    ndgrad.manual_seed(3)
    net = parallelize_module(_Block().double(), _mesh(), plan)
    x = values(1, 2, 12, 12)
    want = alone(ndgrad.tensor(x))
    want.square().sum().backward()
    piece = ndgrad.tensor(np.split(x, n, axis=1)[dist.get_rank()].copy(), requires_grad=True)
    found = net(piece)
    assert found.shape == piece.shape
    close(found, np.split(want.detach().numpy(), n, axis=1)[dist.get_rank()], 1e-9)
    found.square().sum().backward()  # a sum over pieces is the whole
    for (name, p), q in zip(net.named_parameters(), alone.named_parameters(), strict=True):
        np.testing.assert_allclose(_whole(p.grad), q[1].grad.numpy(), rtol=1e-8, atol=1e-9, err_msg=name)


@on_ranks(1, 2, 3, 4)
def cross_entropy_of_divided_classes():
    n, mesh = dist.get_world_size(), _mesh()
    for classes in (8, 3):  # with four ranks one has none of three
        x, target = values(2, 5, classes), np.array([0, 2, 1, 2, -100])
        alone = ndgrad.tensor(x, requires_grad=True)
        want = nn.functional.cross_entropy(alone, ndgrad.tensor(target))
        want.backward()
        spread = distribute_tensor(ndgrad.tensor(x, requires_grad=True), mesh, [Shard(1)])
        with CommDebugMode() as seen, loss_parallel():
            loss = nn.functional.cross_entropy(spread, ndgrad.tensor(target))
            assert loss.item() == pytest.approx(want.item(), rel=1e-12)
            loss.backward()
        close(spread.grad.full_tensor(), alone.grad.numpy(), 1e-12)
        if n > 1:
            # three numbers for each of 5 samples, forward; nothing of the size of the scores
            assert float(seen.total()) == pytest.approx(3 * 2 * (n - 1) / n * 5 * 8)
    images, labels = values(3, 2, 6, 3), np.array([[0, 5, 1], [2, -1, 4]])
    for settings in (
        {"reduction": "sum", "ignore_index": -1}, {"reduction": "none", "ignore_index": -1},
        {"label_smoothing": 0.2, "ignore_index": -1, "weight": ndgrad.tensor(np.arange(1.0, 7.0))},
    ):  # fmt: skip
        alone = ndgrad.tensor(images, requires_grad=True)
        spread = distribute_tensor(ndgrad.tensor(images, requires_grad=True), mesh, [Shard(1)])
        want = nn.CrossEntropyLoss(**settings)(alone, ndgrad.tensor(labels))
        with loss_parallel():
            loss = nn.CrossEntropyLoss(**settings)(spread, ndgrad.tensor(labels))
        close(loss.to_local(), want.detach().numpy(), 1e-12)
        want.sum().backward()
        loss.sum().backward()
        close(spread.grad.full_tensor(), alone.grad.numpy(), 1e-12)
    with loss_parallel(), pytest.raises(IndexError, match="Target out of bounds"):
        nn.functional.cross_entropy(spread, ndgrad.tensor(labels + 3))


@on_ranks(2)
def arguments_and_results_are_placed():
    mesh = _mesh()
    rank = dist.get_rank()

    class Double(nn.Module):
        def forward(self, x, scale=None):
            assert x.placements == (Replicate(),)
            return x * 2 if scale is None else x * scale

    net = parallelize_module(Double(), mesh, PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate()))
    net = parallelize_module(net, mesh, PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1)))
    out = net(ndgrad.ones(1, 4) + rank)
    close(out, [[2, 2], [4, 4]])
    with pytest.raises(ValueError, match="got 2 arguments, and there are 1 layouts"):
        net(ndgrad.ones(1, 4), 3)
    with pytest.warns(UserWarning, match=r"key 'b' could not be resolved.*There are 0"):
        parallelize_module(nn.Sequential(nn.Linear(2, 2)), mesh, {"b": ColwiseParallel()})
    with pytest.raises(NotImplementedError, match="only supports nn.Linear and nn.Embedding, and this is Tanh"):
        parallelize_module(nn.Sequential(nn.Tanh()), mesh, {"0": ColwiseParallel()})


@on_ranks(2, 3, 4)
def gathered_inputs_get_their_gradient_by_one_reduce_scatter():
    n = dist.get_world_size()
    ndgrad.manual_seed(0)
    net = ndgrad.nn.Sequential(ndgrad.nn.Linear(3, 2 * n), ndgrad.nn.Tanh(), ndgrad.nn.Linear(2 * n, 3)).double()
    alone = copy.deepcopy(net)
    plan = {"0": ColwiseParallel(input_layouts=Shard(0)), "2": RowwiseParallel(output_layouts=Shard(0))}
    net = parallelize_module(net, _mesh(), plan)
    x = values(0, 2 * n, 3)
    piece = ndgrad.tensor(np.split(x, n)[dist.get_rank()], requires_grad=True)
    with CommDebugMode() as forward:
        loss = (net(piece) ** 3).sum()
    with CommDebugMode() as backward:
        (first,) = ndgrad.autograd.grad(loss, [piece], create_graph=True)
    assert forward.get_comm_counts() == {"all_gather": 1, "reduce_scatter": 1}
    assert backward.get_comm_counts() == {"all_gather": 1, "reduce_scatter": 1}
    (first**2).sum().backward()
    whole = ndgrad.tensor(x, requires_grad=True)
    (want,) = ndgrad.autograd.grad((alone(whole) ** 3).sum(), [whole], create_graph=True)
    (want**2).sum().backward()
    close(piece.grad, np.split(whole.grad.numpy(), n)[dist.get_rank()])
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        close(_whole(p.grad), q.grad.numpy())


@on_ranks(2)
def a_gathered_input_has_a_gradient_of_its_own_only_before_its_use():
    layer = ndgrad.nn.Linear(3, 4)
    seen = []

    def ask(module, args):
        seen.append(args[0])
        if hooked:
            args[0].register_hook(gradients.append)

    for hooked in (True, False):
        gradients = []
        part = parallelize_module(copy.deepcopy(layer), _mesh(), ColwiseParallel(input_layouts=Shard(0)))
        part.register_forward_pre_hook(ask)
        piece = ndgrad.ones(2, 3, requires_grad=True)
        out = part(piece)
        if not hooked:
            with pytest.raises(RuntimeError, match="before the tensor is used"):
                ndgrad.autograd.grad(out.sum(), [seen[-1]])
        out.sum().backward()
        assert len(gradients) == hooked
        close(piece.grad, np.broadcast_to(layer.weight.detach().numpy().sum(0), (2, 3)), 1e-6)


@on_ranks(2)
def arguments_that_do_not_fit_are_refused():
    mesh = dist.init_device_mesh("cpu", (2,))
    with pytest.raises(RuntimeError, match="Device type with index is not supported"):
        dist.init_device_mesh("cpu:0", (2,))
    scores = distribute_tensor(ndgrad.zeros(4, 6), mesh, [Shard(0)])
    with loss_parallel(), pytest.raises(ValueError, match="sharded in their classes, dimension 1"):
        nn.functional.cross_entropy(scores, ndgrad.tensor([0, 1, 2, 3]))
    table = distribute_tensor(ndgrad.ones(8, 4), mesh, [Shard(1)])
    with pytest.raises(NotImplementedError, match="the table is a DTensor"):
        nn.functional.embedding(distribute_tensor(ndgrad.tensor([1, 2]), mesh), table, max_norm=1.0)
    net = parallelize_module(nn.Linear(4, 4), mesh, ColwiseParallel())
    with pytest.raises(NotImplementedError, match="the parameter 'weight' is a DTensor"):
        nn.parallel.DistributedDataParallel(net)
