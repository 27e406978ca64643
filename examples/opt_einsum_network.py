"""The gradient of a tensor network: opt_einsum finds the path, ndgrad differentiates the contraction.

opt_einsum looks up `tensordot`, `transpose` and `einsum` in the package of a tensor, so
no setup is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import opt_einsum

import ndgrad.numpy as dnp

EQUATION = "abi,bcj,cdk,dal,ijkl->"


def energy(tensors: list[Any]) -> Any:
    """Contract a ring of four tensors, closed with an operator."""
    return opt_einsum.contract(EQUATION, *tensors, optimize="optimal")


def main() -> float:
    """Return the largest deviation from central differences."""
    rng = np.random.default_rng(0)
    plain = [rng.standard_normal(shape) for shape in ((3, 4, 2), (4, 3, 2), (3, 4, 2), (4, 3, 2), (2, 2, 2, 2))]
    tensors = [dnp.array(t).requires_grad_() for t in plain]
    energy(tensors).backward()

    worst, h = 0.0, 1e-6
    for k, t in enumerate(plain):
        direction = rng.standard_normal(t.shape)
        up, down = (energy([*plain[:k], t + s * h * direction, *plain[k + 1 :]]) for s in (1, -1))
        worst = max(worst, abs((up - down) / (2 * h) - float((tensors[k].grad * direction).sum())))
    path, info = opt_einsum.contract_path(EQUATION, *tensors)
    print(f"contracted along {path}, {info.opt_cost:.0f} operations; gradients differ from differences by {worst:.1e}")
    return worst


if __name__ == "__main__":
    main()
