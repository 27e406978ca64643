# Written by scripts/surface.py from the declarations of public functions. Do not edit.

from ndgrad.func.associative import associative_scan as associative_scan
from ndgrad.func.control_flow import (
    cond as cond, fori_loop as fori_loop, map as map, scan as scan, while_loop as while_loop,
)
from ndgrad.func.functionalization import functionalize as functionalize
from ndgrad.func.jacobian import (
    hessian as hessian, hvp as hvp, jacfwd as jacfwd, jacrev as jacrev, linearize as linearize,
)
from ndgrad.func.modules import (
    functional_call as functional_call, replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
    stack_module_state as stack_module_state,
)
from ndgrad.func.patterns import rearrange as rearrange
from ndgrad.func.sparsity.products import (
    SparseHessian as SparseHessian, SparseJacobian as SparseJacobian, sparse_hessian as sparse_hessian, sparse_jacobian
    as sparse_jacobian,
)
from ndgrad.func.taylor import derivatives as derivatives, jet as jet
from ndgrad.func.transforms import (
    chunk_vmap as chunk_vmap, grad as grad, grad_and_value as grad_and_value, jvp as jvp, vjp as vjp, vmap as vmap,
)
from ndgrad.func.unwrap import debug_unwrap as debug_unwrap

def __dir__() -> list[str]: ...
