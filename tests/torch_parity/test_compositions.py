"""The random compositions of tests/transforms, on torch: it and ndgrad agree with exact derivatives wherever torch can run them.

torch's transforms refuse checkpoints, hooks on saved tensors and threads inside them, and its vmap most writes: on its side these are left
out, or a loop. They change no value.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.transforms.compositions import REFUSALS, Ours, Vocabulary, assert_right

pytestmark = pytest.mark.usefixtures("float64_torch")

BLOCK = 25


class Torchs(Vocabulary):
    def __init__(self) -> None:
        super().__init__(torch, torch.func, checkpoint)

    def vmap(self, f: Any, a: Any, b: Any) -> Any:
        return f(a) + f(b)

    def plainly(self, f: Any, a: Any) -> Any:
        return f(a)

    functionalize = checkpoint = reentrant = thread = hook = saved_hooks = plainly

    def autograd(self, f: Any, a: Any) -> Any:
        return self.grad(f, a)

    def jacrev(self, f: Any, a: Any, b: Any) -> Any:
        return torch.stack([torch.func.grad(lambda z, i=i: f(z)[i])(a) for i in range(2)]) @ b

    def pulls(self, f: Any, a: Any, b: Any) -> Any:
        return self.func.vjp(f, a)[1](b)[0]

    def jacfwd(self, f: Any, a: Any, b: Any) -> Any:
        return self.func.jvp(f, (a,), (b,))[1]

    linearize = batched_pushes = jacfwd

    def hessian(self, f: Any, a: Any, b: Any) -> Any:
        return self.hvp(f, a, b)

    def late_vjp(self, f: Any, a: Any, b: Any) -> Any:
        return self.vjp(lambda z: self.tanh(f(z)), a, b)

    def old_square(self, a: Any) -> Any:
        return a * a

    def solve(self, a: Any, b: Any) -> Any:
        """Written out: third derivatives of torch's solve are wrong."""
        return 0.5 * (b - a * ((a * b).sum() / (2 + (a * a).sum())))


#: Messages of torch if it refuses to write a tangent of its own, or if its forward mode does not nest.
TORCHS_REFUSALS = (
    *REFUSALS, "ZeroTensor", "single memory location", "a leaf Variable that requires grad", "Nested forward mode AD is not supported",
    "jvp(", "forward AD", "element 0 of tensors does not require grad",
)  # fmt: skip


@pytest.mark.parametrize("block", range(5))
def test_torch_and_ndgrad_have_exact_derivatives_of_random_compositions(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        assert_right(seed, lambda: Ours("torch"))
        assert_right(seed, Torchs, TORCHS_REFUSALS)
