"""One op at a time on about 100,000 elements, by families: the cost of kernels, forward and backward.

`python -m benchmarks.families` runs them. Arrays are single precision, except in linear algebra and FFTs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import expression_step, leaf
from benchmarks.registry import Step, workload

#: The leaves of expressions: a, b vectors; A, B matrices; P a positive one; X images, K, D their kernels; W, w
#: weight and bias for rows, g, h for channels; T a table; M one matrix and S many positive definite ones; z, Z signals.
#: Small: x an image, k, t its kernels, v a signal and u its kernel, q columns of patches.
SHAPES: dict[str, tuple[int, ...]] = {
    "a": (100_000,), "b": (100_000,), "A": (316, 317), "B": (316, 317), "P": (316, 317),
    "X": (16, 8, 28, 28), "K": (8, 8, 3, 3), "D": (8, 1, 3, 3), "W": (317,), "w": (317,), "g": (8,), "h": (8,),
    "T": (3000, 33), "M": (316, 316), "S": (1000, 10, 10), "z": (100_000,), "Z": (100, 1000),
    "x": (1, 3, 9, 8), "k": (4, 3, 3, 3), "t": (3, 4, 2, 2), "v": (1, 3, 20), "u": (5, 3, 3), "q": (2, 18, 24),
}  # fmt: skip
DOUBLE = ("M", "S", "z", "Z")

FAMILIES = {
    "elementwise": (
        "a + b; a * b; A / P; torch.exp(A); torch.log(P); torch.sin(A); torch.sqrt(P); P**1.5; A.abs(); "
        "torch.where(A > 0, A, B); torch.maximum(A, B); torch.clamp(A, -1, 1); torch.atan2(A, P); "
        "torch.logaddexp(A, B)"
    ),
    "activations": (
        "torch.tanh(A); torch.sigmoid(A); torch.relu(A); F.gelu(A); F.silu(A); F.softplus(A); F.elu(A); "
        "F.leaky_relu(A); F.mish(A); F.hardswish(A); F.logsigmoid(A); F.selu(A)"
    ),
    "reductions": (
        "A.sum(0); A.sum(1); A.mean(1); A.var(0); A.std(1); A.amax(1); A.max(0)[0]; A.norm(dim=1); a.norm(); "
        "A.prod(1); torch.logsumexp(A, 0); torch.logsumexp(A, 1)"
    ),
    "softmax": (
        "torch.softmax(A, 1); torch.softmax(A, 0); torch.log_softmax(A, 1); torch.log_softmax(A, 0); F.softmin(A, 1)"
    ),
    "normalisation": (
        "F.layer_norm(A, (317,), W, w); F.batch_norm(X, None, None, g, h, True); F.group_norm(X, 2, g, h); "
        "F.instance_norm(X); F.normalize(A); F.rms_norm(A, (317,), W); F.local_response_norm(X, 3)"
    ),
    "losses": (
        "F.mse_loss(A, B); F.l1_loss(A, B); F.smooth_l1_loss(A, B); F.huber_loss(A, B); F.cross_entropy(A, L); "
        "F.nll_loss(A, L); F.binary_cross_entropy_with_logits(A, U); F.kl_div(A, U); "
        "F.cosine_embedding_loss(A, B, Y); F.soft_margin_loss(A, V); F.poisson_nll_loss(A, P)"
    ),
    "convolution and pooling": (
        "F.conv2d(X, K, padding=1); F.conv2d(X, K, stride=2); F.conv2d(X, D, groups=8); "
        "F.conv_transpose2d(X, K); F.conv1d(X[:, :, 0], K[:, :, 0]); F.max_pool2d(X, 2); F.avg_pool2d(X, 2); "
        "F.max_pool2d(X, 3, 2, 1); F.adaptive_avg_pool2d(X, 7); F.interpolate(X, scale_factor=2)"
    ),
    "small images": (
        "F.conv2d(x, k, padding=1); F.conv2d(x, k, stride=2); F.conv_transpose2d(x, t, stride=2); F.conv1d(v, u); "
        "F.unfold(x, 2); F.fold(q, (6, 7), (3, 2)); F.max_pool2d(x, 2); F.avg_pool2d(x, 3, 1, 1); "
        "F.adaptive_avg_pool2d(x, 4); F.adaptive_max_pool2d(x, 4); F.interpolate(x, scale_factor=2, mode='bilinear')"
    ),
    "scans": (
        "a.cumsum(0); A.cumsum(1); A.cumsum(0); P.cumprod(1); A.cummax(1)[0]; torch.logcumsumexp(A, 1); "
        "torch.diff(A); torch.trapezoid(A)"
    ),
    "shapes": (
        "A.swapaxes(0, 1).contiguous(); torch.cat([A, B], 1); torch.stack([A, B], 2); A.flip(1); A.roll(3, 1); "
        "F.pad(A, (1, 2)); A.repeat(2, 1); torch.tril(A); A[:, ::2]; A[5:300]"
    ),
    "indexing": (
        "T[I]; F.embedding(I, T); a[J]; A.gather(1, G); T.index_select(0, I); A.take_along_dim(G, 1); "
        "T.index_add(0, I, T[I]); A.scatter_add(1, G, B); A.masked_fill(A > 0, 0.0); torch.sort(A, 1)[0]; "
        "torch.topk(A, 20, 1)[0]"
    ),
    "sorting": (
        "torch.sort(a)[0]; torch.sort(A, 0)[0]; torch.sort(A, 1, descending=True)[0]; torch.sort(z)[0]; "
        "torch.topk(A, 3, 0)[0]; torch.kthvalue(A, 7, 1)[0]; torch.median(A, 1)[0]; torch.quantile(A, 0.3, 1); "
        "A.scatter(1, G, B); A.scatter(0, G % 316, B)"
    ),
    "linalg": (
        "M @ M; S @ S; torch.linalg.inv(S); torch.linalg.solve(S, S * S); torch.linalg.det(S); "
        "torch.linalg.cholesky(S); torch.linalg.eigh(S)[0]; torch.linalg.svd(S)[1]; torch.linalg.qr(S)[0]; "
        "torch.linalg.solve_triangular(S, S, upper=False); torch.linalg.slogdet(S)[1]; "
        "torch.linalg.inv(M); torch.linalg.solve(M, M * M); torch.linalg.slogdet(M)[1]"
    ),
    "FFT": (
        "torch.fft.fft(z).real; torch.fft.rfft(z).real; torch.fft.rfft(Z).imag; torch.fft.fft2(Z).real; "
        "torch.fft.irfft(torch.complex(Z, Z)); torch.fft.fft(torch.complex(Z, Z)).imag; "
        "torch.fft.fft(Z, dim=0).real"
    ),
}


def expressions(family: str) -> list[str]:
    """Return the expressions of a family one by one."""
    return [part.strip() for part in FAMILIES[family].split(";")]


def family_name(family: str, number: int) -> str:
    """Return the name of a workload."""
    return f"family {family} {number}"


def variables(torch: Any) -> dict[str, Any]:
    """Return the variables of the expressions, in a library of torch's dialect."""
    random = np.random.default_rng(0)
    found: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    for name, shape in SHAPES.items():
        values = random.uniform(0.9, 1.1, shape) if name == "P" else random.standard_normal(shape)
        if name in ("M", "S"):
            values = values @ np.swapaxes(values, -2, -1) / shape[-1] + np.eye(shape[-1])
        found[name] = leaf(torch, values.astype(np.float64 if name in DOUBLE else np.float32))
    constants = {
        "L": random.integers(0, 317, 316), "I": random.integers(0, 3000, 3000),
        "J": random.integers(0, 100_000, 100_000),
        "G": random.integers(0, 317, (316, 317)), "U": random.uniform(0.1, 0.9, (316, 317)).astype(np.float32),
        "V": random.choice(np.array([-1, 1], np.float32), (316, 317)),
        "Y": random.choice(np.array([-1, 1], np.float32), 316),
    }  # fmt: skip
    return found | {name: torch.tensor(values) for name, values in constants.items()}


def register(family: str, number: int, expression: str) -> None:
    """Register an expression as a workload."""
    code = compile(expression, expression, "eval")

    @workload(family_name(family, number), title=expression, tolerance=1e-4, group="family")
    def single_op(torch: Any) -> Step:
        names = variables(torch)
        leaves = [names[name] for name in code.co_names if name in SHAPES]
        return expression_step(torch, expression, names, leaves)


for _family in FAMILIES:
    for _number, _expression in enumerate(expressions(_family)):
        register(_family, _number, _expression)
