"""The libraries: loading them, limiting them to the same number of threads, and presenting them to a workload.

There are two dialects: torch's (tensors that record, `backward()`), shared by torch and ndgrad, and the
functional one (`value_and_grad` of a function of arrays), shared by jax and HIPS autograd. `Functional` holds
only the names that those two spell differently. A functional workload takes all others from `dialect.np`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

THREADS = 2


@dataclass(frozen=True)
class Functional:
    """The functional dialect: a NumPy namespace, a gradient operator, and names that libraries spell differently."""

    np: Any
    array: Callable[[Any], Any]
    value_and_grad: Callable[..., Callable[..., Any]]
    compile: Callable[[Callable[..., Any]], Callable[..., Any]]
    wait: Callable[[Any], Any]
    repeat: Callable[[Callable[[Any], Any], Any, int], Any]
    scan: Callable[[Callable[[Any, Any], tuple[Any, Any]], Any, Any], Any]
    erf: Callable[[Any], Any]
    sigmoid: Callable[[Any], Any]
    logsumexp: Callable[..., Any]
    conv3x3: Callable[[Any, Any], Any]
    #: For a function of some arrays and each row of a batch: its Jacobians with respect to the first of them.
    row_jacobians: Callable[[Callable[..., Any], int], Callable[..., Any]]
    hessian: Callable[[Callable[[Any], Any]], Callable[[Any], Any]]
    #: For a function of parameters and two rows: its gradients with respect to the parameters, for each row.
    row_gradients: Callable[[Callable[..., Any]], Callable[..., Any]]

    def relu(self, x: Any) -> Any:
        """Return max(x, 0)."""
        return self.np.maximum(x, 0.0)

    def gelu(self, x: Any) -> Any:
        """Return the exact GELU, x times the normal distribution function."""
        return 0.5 * x * (1.0 + self.erf(x * 0.7071067811865476))

    def cross_entropy(self, logits: Any, one_hot: Any) -> Any:
        """Return the mean cross-entropy of rows of logits against one-hot rows."""
        return self.np.mean(self.logsumexp(logits, axis=1) - self.np.sum(logits * one_hot, axis=1))

    def max_pool2(self, x: Any) -> Any:
        """Return the maximum over 2 x 2 tiles of an image batch (N, C, H, W)."""
        n, c, h, w = x.shape
        tiles = self.np.reshape(x, (n, c, h // 2, 2, w // 2, 2))
        return self.np.max(self.np.max(tiles, axis=5), axis=3)


class ByHand:
    """Gradients derived by hand, without a library."""


@dataclass(frozen=True)
class Library:
    """A column of the table. `package` must be installed; `load` returns the namespace for workloads."""

    name: str
    label: str
    package: str
    load: Callable[[], Any]


def thread_environment() -> dict[str, str]:
    """Return the variables of every worker process, so that all thread pools have the same size."""
    count = str(THREADS)
    return {
        "OMP_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={count}",
        "JAX_PLATFORMS": "cpu",
    }


# ----- torch's dialect ------------------------------------------------------------------------------------


def _load_torch_dialect(package: str) -> Any:
    namespace = importlib.import_module(package)
    namespace.set_num_threads(THREADS)
    return namespace


def _load_ndgrad() -> Any:
    """Load ndgrad with retained memory, which an optimizer would switch on. Most workloads are training steps without
    an optimizer."""
    namespace = _load_torch_dialect("ndgrad")
    namespace.set_retained_memory(256 << 20)
    return namespace


def _load_compiled(package: str) -> Any:
    """Load a library with functions compiled."""
    from benchmarks.differentiate import Compiler  # avoids an import cycle

    namespace = _load_ndgrad() if package == "ndgrad" else _load_torch_dialect(package)
    Compiler.compile = namespace.compile
    Compiler.whole_steps = package == "ndgrad"
    return namespace


# ----- the functional dialect -----------------------------------------------------------------------------


def _load_jax(jit: bool) -> Functional:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    lax = jax.lax

    def conv3x3(x: Any, weight: Any) -> Any:
        return lax.conv_general_dilated(x, weight, window_strides=(1, 1), padding="SAME")

    def identity(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def repeat_compiled(step: Callable[[Any], Any], state: Any, count: int) -> Any:
        return lax.scan(lambda carry, _: (step(carry), None), state, None, length=count)[0]

    def scan_compiled(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, inputs: Any) -> Any:
        return lax.scan(step, state, inputs)[1]

    return Functional(
        np=jax.numpy,
        array=jax.numpy.asarray,
        value_and_grad=jax.value_and_grad,
        compile=jax.jit if jit else identity,
        wait=jax.block_until_ready,
        repeat=repeat_compiled if jit else _repeat,
        scan=scan_compiled if jit else _scan(jax.numpy),
        erf=jax.scipy.special.erf,
        sigmoid=jax.nn.sigmoid,
        logsumexp=jax.scipy.special.logsumexp,
        conv3x3=conv3x3,
        row_jacobians=lambda f, count: jax.vmap(jax.jacrev(f, argnums=tuple(range(count)))),
        hessian=jax.hessian,
        row_gradients=lambda f: jax.vmap(jax.grad(f), in_axes=(None, 0, 0)),
    )


def _load_autograd() -> Functional:
    autograd = importlib.import_module("autograd")
    np = importlib.import_module("autograd.numpy")
    special = importlib.import_module("autograd.scipy.special")

    def conv3x3(x: Any, weight: Any) -> Any:
        # HIPS autograd has no convolution over channels: use nine shifted copies of the padded image and one product.
        n, c, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="constant")
        shifted = [padded[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)]
        columns = np.reshape(np.stack(shifted, axis=2), (n, c * 9, h * w))
        return np.reshape(np.matmul(np.reshape(weight, (weight.shape[0], c * 9)), columns), (n, -1, h, w))

    def identity(value: Any) -> Any:
        return value

    return Functional(
        np=np,
        array=identity,
        value_and_grad=autograd.value_and_grad,
        compile=identity,
        wait=identity,
        repeat=_repeat,
        scan=_scan(np),
        erf=special.erf,
        sigmoid=special.expit,
        logsumexp=special.logsumexp,
        conv3x3=conv3x3,
        row_jacobians=_no_row_jacobians,
        hessian=autograd.hessian,
        row_gradients=_no_row_gradients,
    )


def _no_row_jacobians(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    raise NotImplementedError("it has no vmap")


def _no_row_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    raise NotImplementedError("it has no vmap")


def _repeat(step: Callable[[Any], Any], state: Any, count: int) -> Any:
    for _ in range(count):
        state = step(state)
    return state


def _scan(np: Any) -> Callable[[Callable[[Any, Any], tuple[Any, Any]], Any, Any], Any]:
    def scan(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, inputs: Any) -> Any:
        outputs = []
        for index in range(len(inputs)):
            state, output = step(state, inputs[index])
            outputs.append(output)
        return np.stack(outputs)

    return scan


# ----- the columns ----------------------------------------------------------------------------------------

REFERENCE = "torch"

LIBRARIES: dict[str, Library] = {
    library.name: library
    for library in (
        Library("torch", "torch eager", "torch", lambda: _load_torch_dialect("torch")),
        Library("ndgrad", "ndgrad", "ndgrad", _load_ndgrad),
        Library("ndgrad-compiled", "ndgrad, compiled", "ndgrad", lambda: _load_compiled("ndgrad")),
        Library("torch-compiled", "torch.compile", "torch", lambda: _load_compiled("torch")),
        Library("jax", "jax, op by op", "jax", lambda: _load_jax(jit=False)),
        Library("jax-jit", "jax, jit", "jax", lambda: _load_jax(jit=True)),
        Library("autograd", "HIPS autograd", "autograd", _load_autograd),
        Library("numpy", "NumPy by hand", "numpy", ByHand),
    )
}


def child_environment() -> dict[str, str]:
    """Return the environment of worker processes: this repository's sources first on the path, thread pools limited."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = [os.path.join(root, "src"), root, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **thread_environment(), "PYTHONPATH": os.pathsep.join(filter(None, path))}
