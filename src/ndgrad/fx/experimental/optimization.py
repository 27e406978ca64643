"""Modules made faster for inference: batch normalisation folded into the layer before it, dropout removed."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ndgrad.fx._symbolic_trace import symbolic_trace
from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.interpreter import Transformer
from ndgrad.fx.node import Argument, Node, Target
from ndgrad.nn.modules import batchnorm, conv, dropout, linear
from ndgrad.nn.modules.module import Module
from ndgrad.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]

#: Pairs of classes that `fuse` folds, with the function that does it.
_PAIRS: tuple[tuple[type[Any], type[Any], Any], ...] = (
    (conv.Conv1d, batchnorm.BatchNorm1d, fuse_conv_bn_eval),
    (conv.Conv2d, batchnorm.BatchNorm2d, fuse_conv_bn_eval),
    (conv.Conv3d, batchnorm.BatchNorm3d, fuse_conv_bn_eval),
    (linear.Linear, batchnorm.BatchNorm1d, fuse_linear_bn_eval),
)


def _parent_name(target: str) -> tuple[str, str]:
    """Return the path of a module's parent, and its name there."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type[Any]], node: Node, modules: dict[str, Any]) -> bool:
    """True if a node calls a module of the pattern's last class on the result of one of its first class.

    Args:
        pattern: two classes of modules.
        node: node of the second module.
        modules: modules of the graph's module, by path.

    >>> import ndgrad
    >>> from ndgrad.fx.experimental.optimization import matches_module_pattern
    >>> traced = ndgrad.fx.symbolic_trace(ndgrad.nn.Sequential(ndgrad.nn.Linear(2, 2), ndgrad.nn.ReLU()))
    >>> relu = list(traced.graph.nodes)[2]
    >>> matches_module_pattern((ndgrad.nn.Linear, ndgrad.nn.ReLU), relu, dict(traced.named_modules()))
    True
    """
    if not node.args:
        return False
    for expected, current in zip(pattern, (node.args[0], node), strict=True):
        if not isinstance(current, Node) or current.op != "call_module":
            return False
        if type(modules.get(str(current.target))) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Replace the module that a node calls.

    Args:
        node: node that calls the old module.
        modules: modules of the graph's module, by path.
        new_module: module in its place.
    """
    parent, name = _parent_name(str(node.target))
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Return the model with each batch normalisation folded into the convolution or linear layer before it.

    The model must be in eval mode. A layer whose result is used elsewhere stays as it is.

    Args:
        model: module in eval mode.
        inplace: whether the model itself is changed.
        no_trace: whether a GraphModule is used as it is, instead of traced again.

    >>> import ndgrad
    >>> from ndgrad.fx.experimental.optimization import fuse
    >>> model = ndgrad.nn.Sequential(ndgrad.nn.Conv2d(1, 2, 3), ndgrad.nn.BatchNorm2d(2)).eval()
    >>> [type(m).__name__ for m in fuse(model).children()]
    ['Conv2d']
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    calls: dict[str, int] = {}
    for node in traced.graph.nodes:
        if node.op == "call_module":
            calls[str(node.target)] = calls.get(str(node.target), 0) + 1
    for first, second, fold in _PAIRS:
        for node in traced.graph.nodes:
            if not matches_module_pattern((first, second), node, modules):
                continue
            before = node.args[0]
            layer, norm = modules[str(before.target)], modules[str(node.target)]
            # A layer that runs twice would need its old weights for the other call.
            if len(before.users) > 1 or calls[str(before.target)] > 1 or not norm.track_running_stats:
                continue
            replace_node_module(before, modules, fold(layer, norm))
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    return GraphModule(traced, traced.graph)


class _WithoutDropout(Transformer):
    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.submodules[str(target)], (dropout.Dropout, dropout.Dropout1d, dropout.Dropout2d)):
            return args[0]
        return super().call_module(target, args, kwargs)


def remove_dropout(model: Module) -> Module:
    """Return the model without its dropout layers.

    Args:
        model: module to trace.

    >>> import ndgrad
    >>> from ndgrad.fx.experimental.optimization import remove_dropout
    >>> list(remove_dropout(ndgrad.nn.Sequential(ndgrad.nn.Dropout(), ndgrad.nn.ReLU())).children())
    [ReLU()]
    """
    return _WithoutDropout(symbolic_trace(model)).transform()


