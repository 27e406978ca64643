"""Ring attention over a divided sequence against attention on one process."""

from __future__ import annotations

import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed.tensor.debug import CommDebugMode
from ndgrad.distributed.tensor.experimental import context_parallel, context_parallel_unshard, ring_attention

attention = ndgrad.nn.functional.scaled_dot_product_attention


def _alone(given, g, **settings):
    tensors = [ndgrad.tensor(x, requires_grad=True) for x in given]
    out = attention(*tensors, **settings)
    out.backward(ndgrad.tensor(g))
    return out.detach().numpy(), [t.grad.numpy() for t in tensors]


def _part(x, lengths):
    ends = np.cumsum([0, *lengths])
    rank = dist.get_rank()
    return x[..., ends[rank] : ends[rank + 1], :]


@on_ranks(1, 2, 3, 4)
def attention_over_a_ring_is_attention():
    n = dist.get_world_size()
    for causal in (False, True):
        for lengths in ([3] * n, [4, 2, 0, 3][:n]):
            given = [values(i, 2, 2, sum(lengths), 5) for i in range(3)]
            g = values(9, 2, 2, sum(lengths), 5)
            want, grads = _alone(given, g, is_causal=causal)
            mine = [ndgrad.tensor(_part(x, lengths).copy(), requires_grad=True) for x in given]
            out = ring_attention(*mine, is_causal=causal)
            close(out, _part(want, lengths), 1e-12)
            out.backward(ndgrad.tensor(_part(g, lengths).copy()))
            for t, grad in zip(mine, grads, strict=True):
                close(t.grad, _part(grad, lengths), 1e-11)


@on_ranks(1, 2, 3, 4)
def the_bytes_of_a_ring():
    n = dist.get_world_size()
    q, k, v = (ndgrad.tensor(values(i, 2, 4, 5), requires_grad=True) for i in range(3))
    with CommDebugMode() as forward:
        out = ring_attention(q, k, v)
    with CommDebugMode() as backward:
        out.sum().backward()
    block = 2 * 2 * 4 * 5 * 8  # keys and values
    rounds = n - 1
    assert forward.sent.get("send", 0) == rounds * block
    assert backward.sent.get("send", 0) == (rounds + n) * block if n > 1 else not backward.sent.get("send")


@on_ranks(2, 3)
def other_widths_shared_heads_halves_and_second_derivatives():
    n = dist.get_world_size()
    lengths = [3] * n
    given = [values(0, 1, 4, 3 * n, 6), values(1, 1, 2, 3 * n, 6), values(2, 1, 2, 3 * n, 3)]
    g = values(3, 1, 4, 3 * n, 3)
    want, grads = _alone(given, g, is_causal=True, scale=0.3, enable_gqa=True)
    mine = [ndgrad.tensor(_part(x, lengths).copy(), requires_grad=True) for x in given]
    out = ring_attention(*mine, is_causal=True, scale=0.3, enable_gqa=True)
    close(out, _part(want, lengths), 1e-12)
    out.backward(ndgrad.tensor(_part(g, lengths).copy()))
    for t, grad in zip(mine, grads, strict=True):
        close(t.grad, _part(grad, lengths), 1e-11)
    half = [t.detach().to(ndgrad.bfloat16) for t in mine]
    found = ring_attention(*half, is_causal=True, scale=0.3, enable_gqa=True)
    assert found.dtype == ndgrad.bfloat16
    close(found.float(), _part(want, lengths), 4e-2)
    # the gradient of a gradient
    q = values(0, 3 * n, 4)
    alone = ndgrad.tensor(q, requires_grad=True)
    (first,) = ndgrad.autograd.grad(attention(alone, alone, alone, is_causal=True).square().sum(), alone, create_graph=True)
    first.square().sum().backward()
    own = ndgrad.tensor(_part(q, lengths).copy(), requires_grad=True)
    (first,) = ndgrad.autograd.grad(
        ring_attention(own, own, own, is_causal=True).square().sum(), own, create_graph=True
    )
    first.square().sum().backward()
    close(own.grad, _part(alone.grad.numpy(), lengths), 1e-9)


@on_ranks(1, 2, 3, 4)
def a_block_in_which_a_sequence_is_divided():
    n = dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (n,))
    ndgrad.manual_seed(0)
    layer = ndgrad.nn.Linear(4, 12).double()
    x, target = ndgrad.tensor(values(1, 2, 4 * n, 4)), ndgrad.tensor(values(2, 2, 4 * n, 4))

    def loss_of(x, target):
        q, k, v = layer(x).chunk(3, -1)
        return (attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), is_causal=True).squeeze(1) - target).square().sum()

    loss_of(x, target).backward()
    want = layer.weight.grad.numpy().copy()
    layer.zero_grad()
    whole = x.clone()
    with context_parallel(mesh, buffers=[x, target], buffer_seq_dims=[1, 1]):
        assert x.shape == (2, 4, 4)
        close(context_parallel_unshard(mesh, [x], [1])[0], whole.numpy())
        loss_of(x, target).backward()
    close(x, whole.numpy())
    dist.all_reduce(layer.weight.grad)
    close(layer.weight.grad, want, 1e-11)
    odd = context_parallel(mesh, buffers=[ndgrad.ones(2 * n + 1)], buffer_seq_dims=[0])
    with pytest.raises(ValueError, match=f"cannot be cut into {2 * n} chunks"), odd:
        pass
    with context_parallel(mesh), pytest.raises(NotImplementedError, match="with a mask or with dropout"):
        attention(x, x, x, dropout_p=0.5)
    with pytest.raises(ValueError, match="do not fit"):
        ring_attention(x, x, x[..., :2, :])
