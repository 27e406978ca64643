"""Forms in which calls of the package's functions are recorded.

torch records a call of one of its Python functions with every argument: parameters without a default by position, all
others by keyword, with defaults filled in. Calls of its native functions are recorded as they are written. Passes rely
on this form (`node.kwargs["p"]` of a dropout), so it is the same here, although all functions are Python here.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

#: Functions of nn.functional that are native in torch.
_NATIVE = frozenset(
    "adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc "
    "conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_ leaky_relu_ "
    "linear logsigmoid native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu "
    "relu_ rrelu_ scaled_dot_product_attention selu_ softplus softshrink threshold_".split()
)
#: Functions of the top level that are Python in torch, and take a fixed number of tensors.
_PYTHON = frozenset("cdist norm stft tensordot unique unique_consecutive".split())


@functools.cache
def _signature(function: Any) -> inspect.Signature | None:
    """Return the signature of a function whose calls are recorded with every argument, or None."""
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    if not (module == "ndgrad.nn.functional" and name not in _NATIVE) and not (module == "ndgrad" and name in _PYTHON):
        return None
    signature = inspect.signature(function)
    kinds = {p.kind for p in signature.parameters.values()}
    return None if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} else signature


def normalize_call(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call as they are recorded."""
    if getattr(function, "__name__", "") == "einsum" and len(args) == 2 and isinstance(args[1], (list, tuple)):
        return (args[0], *args[1]), kwargs  # operands in a list are unpacked before the call is seen
    signature = _signature(function)
    if signature is None:
        return args, kwargs
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return args, kwargs  # the call itself raises the error
    bound.apply_defaults()
    parameters = signature.parameters
    required = [name for name, p in parameters.items() if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
    named = {name: value for name, value in bound.arguments.items() if name not in required}
    return tuple([bound.arguments[name] for name in required]), named
