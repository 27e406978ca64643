"""Functions of functorch.experimental, which are in `ndgrad.func` now."""

from __future__ import annotations

from ndgrad.func import chunk_vmap, functionalize, hessian, jacfwd, jvp
from ndgrad.nn.utils.functional_call import replace_all_batch_norm_modules_

__all__ = ["chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]
