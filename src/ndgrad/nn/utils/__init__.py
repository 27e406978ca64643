"""What training needs around modules, under torch's names: clipping, parameters as a vector,
sequences of different lengths."""

from __future__ import annotations

from ndgrad.absent import refuse_absent as _refuse_absent
from ndgrad.nn.utils import rnn
from ndgrad.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from ndgrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector", "rnn",
    "vector_to_parameters",
]  # fmt: skip

_refuse_absent(__name__)
