"""Ops of other projects, in two ways.

`custom_op`, `Library` and the `register_` functions are torch's: a Python function of tensors becomes an op with a
schema under `ndgrad.ops`, and rules for derivatives, batches and shapes are added to it.

`op` and `elementwise` are ndgrad's own: they add an op to the table, by functions of arrays. Such an op is complete by
rule, in every mode and for both tensor classes, and `check` tests it.
"""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, RANDOM, VARIABLE
from ndgrad.library.custom_op import (
    CustomOpDef,
    custom_op,
    get_ctx,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
)
from ndgrad.library.libraries import Library, _scoped_library, define, fallthrough_kernel, impl
from ndgrad.library.opcheck import OpCheckError, opcheck
from ndgrad.library.schema import infer_schema
from ndgrad.library.table_ops import Registered, check, checks, elementwise, op, registered, remove

__all__ = [
    "DATA_DEPENDENT", "NOT_DIFFERENTIABLE", "RANDOM", "VARIABLE", "CustomOpDef", "Library", "OpCheckError",
    "Registered", "_scoped_library", "check", "checks", "custom_op", "define", "elementwise", "fallthrough_kernel",
    "get_ctx", "impl", "impl_abstract", "infer_schema", "op", "opcheck", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "registered", "remove",
]  # fmt: skip

_refuse_absent(__name__)
