# Written by scripts/surface.py from the declarations of public functions. Do not edit.

from ndgrad._src.control_flow.associative import associative_scan as associative_scan
from ndgrad._src.control_flow.loops import (
    cond as cond, fori_loop as fori_loop, map as map, scan as scan, while_loop as while_loop,
)
from ndgrad._src.transforms.functionalization import functionalize as functionalize
from ndgrad._src.transforms.jacobian import (
    hessian as hessian, hvp as hvp, jacfwd as jacfwd, jacrev as jacrev, linearize as linearize,
)
from ndgrad._src.transforms.rearrange import rearrange as rearrange
from ndgrad._src.transforms.sparsity.products import (
    SparseHessian as SparseHessian, SparseJacobian as SparseJacobian, sparse_hessian as sparse_hessian, sparse_jacobian
    as sparse_jacobian,
)
from ndgrad._src.transforms.taylor import derivatives as derivatives, jet as jet
from ndgrad._src.transforms.transforms import (
    chunk_vmap as chunk_vmap, grad as grad, grad_and_value as grad_and_value, jvp as jvp, value_and_grad as
    value_and_grad, vjp as vjp, vmap as vmap,
)
from ndgrad._src.transforms.unwrap import debug_unwrap as debug_unwrap
from ndgrad.nn.utils.functional_call import (
    functional_call as functional_call, replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
    stack_module_state as stack_module_state,
)

def __dir__() -> list[str]: ...
