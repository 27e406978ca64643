"""One op at a time, on arrays of a few elements: the cost of recording it and running backward() from it.

These are separate from the other workloads: `python -m benchmarks --each-op` runs them, with short samples, and prints
one line each and their geometric mean. They are the most frequent ops of programs, not the fastest ones of ndgrad.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import expression_step, leaf
from benchmarks.registry import Step, workload

#: The variables of the expressions below: leaves (a, b vectors; A, B matrices; C a batch of them; S positive
#: definite; V, K a signal and kernels) and constants (I, J, L indices; M a mask).
SHAPES = {"a": (4,), "b": (4,), "A": (4, 4), "B": (4, 4), "C": (2, 4, 4), "V": (1, 2, 8), "K": (2, 2, 3)}
CONSTANTS = {"I": [0, 1], "J": [[0], [1], [2], [3]], "L": [0, 1, 2, 3], "M": [True, False, True, False]}

EXPRESSIONS = """
    a + b; a - b; a * b; a / b; -a; 1.0 - a; 2.0 * a; a**2; a**b; a.abs(); torch.exp(a); torch.sin(a); torch.sqrt(a)
    torch.tanh(a); torch.relu(a); F.gelu(A); F.silu(A); torch.maximum(a, b); torch.clamp(a, 0, 1)
    torch.where(a > 1, a, b); torch.lerp(a, b, 0.5); torch.atan2(a, b); torch.hypot(a, b); torch.logaddexp(a, b)
    a.masked_fill(a > 1, 0.0); a.clone(); a.to(torch.float32); torch.complex(a, b).abs()

    a.sum(); A.sum(0); A.sum(1, keepdim=True); a.mean(); A.mean(1); a.std(); A.var(1); a.max(); A.max(1)[0]; A.amax(1)
    a.prod(); a.norm(); torch.linalg.norm(a); torch.logsumexp(A, 1); torch.softmax(A, 1); torch.log_softmax(A, 1)
    a.median(); A.quantile(0.5); a.cumsum(0); torch.cumprod(a, 0); torch.trapezoid(a); torch.diff(a)

    a.reshape(4, 1); a.view(2, 2); A.flatten(); a.unsqueeze(0); A.squeeze(); A.transpose(0, 1); A.T; A.permute(1, 0)
    A.swapaxes(0, 1); A.movedim(0, 1); a.expand(2, 4); A.narrow(0, 1, 2); A.select(0, 1); torch.diagonal(A)
    A.unfold(0, 2, 1); A.split(2)[0]; A.chunk(2, 1)[0]; a.unbind()[1]; a.flip(0); a.roll(1); a.repeat(2); a.tile(2)
    torch.repeat_interleave(a, 2); torch.tril(A); torch.diag(a); torch.cat([a, b]); torch.cat([A, B], 1)
    torch.stack([a, b]); torch.stack([a, b, a, b], 1); torch.hstack([a, b]); torch.vstack([a, b])
    torch.meshgrid(a, b, indexing="ij")[0]

    a[0]; a[1:]; A[:, 1]; A[1:, :2]; A[None]; a[..., None]; a[I]; A[I, I]; A[M]; A.gather(1, J); a.index_select(0, I)
    a.scatter_add(0, I, b[:2]); a.index_add(0, I, b[:2]); torch.sort(a)[0]; torch.topk(a, 2)[0]; F.embedding(I, A)

    A @ A; A @ a; a.dot(b); torch.bmm(C, C); torch.outer(a, b); torch.addmm(A, A, A); torch.kron(a, b)
    torch.einsum("i,i->", a, b); torch.einsum("ij,jk->ik", A, B); torch.tensordot(A, B, 1)
    torch.linalg.cross(A[:, :3], B[:, :3]); torch.cdist(A, B); A.trace(); torch.linalg.inv(S); torch.linalg.solve(S, a)
    torch.linalg.det(S); torch.linalg.cholesky(S); torch.linalg.eigh(S)[0]; torch.linalg.svd(S)[1]
    torch.linalg.qr(S)[0]; torch.fft.fft(a).real; torch.fft.rfft(a).real

    F.linear(A, B, a); F.layer_norm(A, (4,)); F.normalize(A); F.cosine_similarity(A, B); F.pad(A, (1, 1))
    F.conv1d(V, K); F.scaled_dot_product_attention(C, C, C); F.mse_loss(a, b); F.l1_loss(a, b); F.cross_entropy(A, L)
    F.binary_cross_entropy_with_logits(a, b)
"""


def expressions() -> list[str]:
    """Return the expressions one by one."""
    return [part.strip() for part in EXPRESSIONS.replace("\n", ";").split(";") if part.strip()]


def variables(torch: Any) -> dict[str, Any]:
    """Return the variables of the expressions, in a library of torch's dialect."""
    random = np.random.default_rng(0)
    found = {name: leaf(torch, random.uniform(0.5, 1.5, shape)) for name, shape in SHAPES.items()}
    root = random.standard_normal((4, 4))
    found["S"] = leaf(torch, root @ root.T + 3 * np.eye(4))
    found |= {name: torch.tensor(values) for name, values in CONSTANTS.items()}
    return {"torch": torch, "F": torch.nn.functional, **found}


def register(expression: str) -> None:
    """Register an expression as a workload."""
    code = compile(expression, expression, "eval")

    @workload(f"op {expression}", title=expression, tolerance=1e-6, group="op")
    def single_op(torch: Any) -> Step:
        names = variables(torch)
        leaves = [names[name] for name in code.co_names if name in SHAPES or name == "S"]
        return expression_step(torch, expression, names, leaves)


for _expression in expressions():
    register(_expression)
