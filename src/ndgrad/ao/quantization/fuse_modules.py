"""Fusion of layers for evaluation: a convolution or linear layer takes in the normalisation that follows it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

from ndgrad import nn
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse_modules"]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def fuse_modules(
    model: nn.Module, modules_to_fuse: Sequence[str] | Sequence[Sequence[str]], inplace: bool = False
) -> nn.Module:
    """Fuse sequences of layers of a network in evaluation mode.

    The first module of each sequence is replaced by the fused one, and the others by `nn.Identity`. Sequences are a
    convolution or a linear layer, optionally followed by batch normalisation, optionally followed by a ReLU.

    Args:
        model: network in evaluation mode.
        modules_to_fuse: names of the modules of a sequence, or a list of such lists.
        inplace: change the network instead of a copy.

    Returns:
        The network.

    Raises:
        NotImplementedError: for another sequence of layers, or a network in training mode.

    >>> import ndgrad
    >>> net = ndgrad.nn.Sequential(ndgrad.nn.Conv2d(1, 2, 3), ndgrad.nn.BatchNorm2d(2), ndgrad.nn.ReLU()).eval()
    >>> [type(m).__name__ for m in ndgrad.ao.quantization.fuse_modules(net, ["0", "1", "2"])]
    ['Sequential', 'Identity', 'Identity']
    """
    if not inplace:
        model = copy.deepcopy(model)
    first = next(iter(modules_to_fuse), None)
    groups = [modules_to_fuse] if isinstance(first, str) else modules_to_fuse
    for names in cast("Sequence[Sequence[str]]", groups):
        fused = _fuse([model.get_submodule(name) for name in names])
        for position, name in enumerate(names):
            path, _, last = name.rpartition(".")
            setattr(model.get_submodule(path), last, nn.Identity() if position else fused)
    return model


def _fuse(modules: list[nn.Module]) -> nn.Module:
    kinds = ", ".join(type(m).__name__ for m in modules)
    if any(m.training for m in modules):
        raise NotImplementedError(
            f"fuse_modules: {kinds} are in training mode, where a normalisation cannot be folded into the weights. "
            "Call model.eval() first. [nd-call-order]"
        )
    rest: list[Any] = list(modules)
    made: Any = rest.pop(0)
    if rest and isinstance(rest[0], _NORMS) and isinstance(made, _CONVOLUTIONS):
        made = fuse_conv_bn_eval(cast(Any, made), cast(Any, rest.pop(0)))
    elif rest and isinstance(rest[0], _NORMS) and isinstance(made, nn.Linear):
        made = fuse_linear_bn_eval(made, cast(Any, rest.pop(0)))
    if rest and isinstance(rest[0], nn.ReLU) and isinstance(made, (*_CONVOLUTIONS, *_NORMS, nn.Linear)):
        made = nn.Sequential(made, rest.pop(0))
    if rest or len(modules) < 2:
        raise NotImplementedError(
            f"fuse_modules: cannot fuse {kinds}. Give a convolution or linear layer, followed by batch normalisation, "
            "a ReLU or both. [nd-unsupported]"
        )
    return made.eval()


_refuse_absent(__name__)
