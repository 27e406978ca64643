"""A kernel in C, compiled by the program and called through ctypes, as an op with a derivative."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import ndgrad

SOURCE = r"""
#include <math.h>
void swish(const double *x, double *y, double *slope, long n) {
    for (long i = 0; i < n; i++) {
        double s = 1.0 / (1.0 + exp(-x[i]));
        y[i] = x[i] * s;
        slope[i] = s * (1.0 + x[i] * (1.0 - s));
    }
}
"""


# The compiler of the system makes a shared library, and `ctypes` loads the function from it.
def build(folder: Path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("this example needs a C compiler: install gcc or clang")
    (folder / "swish.c").write_text(SOURCE)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "swish.c", "-o", "swish.so", "-lm"], cwd=folder, check=True)
    function = ctypes.CDLL(str(folder / "swish.so")).swish
    pointer = ctypes.POINTER(ctypes.c_double)
    function.argtypes = [pointer, pointer, pointer, ctypes.c_long]
    function.restype = None
    return function


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The largest difference of values and gradients from ndgrad's own silu, and both curves."""
    # Build the kernel. The library stays loaded when its file is gone.
    with tempfile.TemporaryDirectory() as folder:
        kernel = build(Path(folder))

    # The kernel returns the slope along with the value, so backward only multiplies.
    class Swish(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x = x.contiguous()
            y, slope = ndgrad.empty_like(x), ndgrad.empty_like(x)
            kernel(*(ctypes.cast(t.data_ptr(), ctypes.POINTER(ctypes.c_double)) for t in (x, y, slope)), x.numel())
            ctx.save_for_backward(slope)
            return y

        @staticmethod
        @ndgrad.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    # Compare the values and the gradient with ndgrad's own `silu`, which is the same function.
    x = ndgrad.linspace(-4, 4, 101, dtype=ndgrad.float64).requires_grad_()
    y = Swish.apply(x)
    y.sum().backward()
    exact = ndgrad.nn.functional.silu(x)
    (gradient,) = ndgrad.autograd.grad(exact.sum(), x)
    error = max(float((y - exact).abs().max().detach()), float((x.grad - gradient).abs().max()))
    print(f"largest difference from silu, values and gradients: {error:.1e}")
    chart = ndgrad.viz.Chart("a function written in C", x="x").line(x, y, "value")
    return error, chart.line(x, x.grad, "gradient", dashed=True)


if __name__ == "__main__":
    main()[1].save("c_kernel.svg")
