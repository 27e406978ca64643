"""Settings of products and of cuDNN on GPUs, which `ndgrad.backends` shows to users."""

from __future__ import annotations

from ndgrad._src.foundations.switches import Switches

#: Allowed rounding in products of matrices: float32 to TF32, if enabled. Halves are accumulated in float32.
matmul = Switches(
    "ndgrad.backends.cuda.matmul", allow_tf32=False, allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True, allow_fp16_accumulation=False, fp32_precision="none",
)  # fmt: skip

cudnn = Switches(
    "ndgrad.backends.cudnn", enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
    fp32_precision="none",
)  # fmt: skip
