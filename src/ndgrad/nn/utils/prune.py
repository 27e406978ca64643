"""Pruning: a mask keeps some elements of a parameter and sets the others to zero.

A pruned `weight` is computed before each forward, as `weight_orig * weight_mask`; the first is a parameter, the
second a buffer. A second pruning of the same tensor only considers the elements left by the first, and the two become a
container.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.tensor.functions.creation import ones_like, zeros_like
from ndgrad._src.tensor.functions.data import tensor
from ndgrad._src.tensor.functions.join import cat
from ndgrad._src.tensor.functions.random import rand, rand_like
from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """Base class of pruning methods: a subclass has PRUNING_TYPE ("unstructured", "structured" or "global") and
    `compute_mask`. An instance is the hook that applies the mask before each forward."""

    PRUNING_TYPE: Any
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask that is zero wherever `default_mask` is, and in further places.

        Args:
            t: tensor, or scores of its shape.
            default_mask: mask of earlier prunings.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """Return the pruned tensor of a module.

        Args:
            module: module with a pruned tensor.
        """
        mask, original = (getattr(module, self._tensor_name + suffix) for suffix in ("_mask", "_orig"))
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a tensor of a module.

        Mask and original are registered in the module, and the mask is applied before each forward pass.

        Args:
            module: module with the tensor.
            name: name of the tensor in the module.
            *args, **kwargs: arguments of the method's constructor.
            importance_scores: scores of the shape of the tensor, which decide instead of its values.

        Returns:
            The method, which is a hook of the module.
        """
        earlier = [
            (key, hook)
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(earlier) > 1:
            raise AssertionError(
                f"There should be at most one pruning hook on {name!r}, but there are {len(earlier)}. "
                "[nd-parametrization]"
            )
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if earlier:
            key, before = earlier[0]
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            chosen: BasePruningMethod = container
        else:
            chosen = method
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {type(module).__name__}: "
                f"{tuple(scores.shape)} and {tuple(original.shape)}. [nd-shape]"
            )
        # Everything that may fail comes before the module is changed.
        default = getattr(module, name + "_mask", None) if earlier else None
        mask = chosen.compute_mask(scores, ones_like(original) if default is None else default.detach())
        if earlier:
            del module._forward_pre_hooks[key]
            module._buffers[name + "_mask"] = mask
        else:
            module.register_parameter(name + "_orig", module._parameters[name])
            del module._parameters[name]
            module.register_buffer(name + "_mask", mask)
        setattr(module, name, chosen.apply_mask(module))
        module.register_forward_pre_hook(chosen)
        return chosen

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return a pruned copy of a tensor that belongs to no module.

        Args:
            t: tensor to prune.
            default_mask: mask of earlier prunings. The default is ones.
            importance_scores: scores of the shape of the tensor, which decide instead of its values.
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t: "
                f"{tuple(scores.shape)} and {tuple(t.shape)}. [nd-shape]"
            )
        return t * self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruning permanent: the parameter becomes the masked tensor.

        Args:
            module: module with a pruned tensor.
        """
        weight = self.apply_mask(module)
        if hasattr(module, self._tensor_name):
            delattr(module, self._tensor_name)
        original = module._parameters[self._tensor_name + "_orig"]
        assert original is not None
        original.data = weight.detach()
        del module._parameters[self._tensor_name + "_orig"]
        del module._buffers[self._tensor_name + "_mask"]
        setattr(module, self._tensor_name, original)


class PruningContainer(BasePruningMethod):
    """Several successive prunings of one tensor. Each considers only the elements that are left.

    Args:
        *args: pruning methods of one tensor, or one list of them.
    """

    def __init__(self, *args: Any) -> None:
        """Create a container from methods, or from one list of them; without any, it has no tensor yet."""
        given = args[0] if len(args) == 1 and not isinstance(args[0], BasePruningMethod) else args
        methods = tuple(given)
        self._tensor_name = methods[0]._tensor_name if methods else ""
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a pruning of the same tensor.

        Args:
            method: pruning method of the same tensor.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass [nd-type]")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}' [nd-parametrization]"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, place: Any) -> Any:
        return self._pruning_methods[place]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after the last method, given the mask after the others.

        Args:
            t: tensor, or scores of its shape.
            default_mask: mask of earlier prunings.
        """
        method: Any = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        kept: Any
        if method.PRUNING_TYPE == "unstructured":
            kept = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim if method.dim >= 0 else method.dim + t.dim()
            # Slices of zeros are pruned already.
            alive = mask.sum([d for d in range(t.dim()) if d != dim]) != 0
            kept = (slice(None),) * dim + (alive,)
        elif method.PRUNING_TYPE == "global":
            kept = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE} [nd-option]")
        partial = method.compute_mask(t[kept], mask[kept])
        combined = mask.clone()
        combined[kept] = partial.to(combined.dtype)
        return combined


class Identity(BasePruningMethod):
    """Prune nothing: the mask is all ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask without a change.

        Args:
            t: tensor, or scores of its shape.
            default_mask: mask of earlier prunings.
        """
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]  # torch's signatures
        """Register a mask of ones for a tensor of a module.

        Args:
            module: module with the tensor.
            name: name of the tensor in the module.

        Returns:
            The method, which is a hook of the module.
        """
        return super().apply(module, name)


class _ByAmount(BasePruningMethod):
    """A method that prunes a number of units, or a fraction of them."""

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, **kwargs: Any) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, amount=amount, **kwargs)

    def _count(self, units: int) -> int:
        count = _number(self.amount, units)
        _check_against(count, units)
        return count


class RandomUnstructured(_ByAmount):
    """Prune elements at random.

    Args:
        amount: number of elements to prune, as an int, or their fraction, as a float.
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: tensor, or scores of its shape.
            default_mask: mask of earlier prunings.
        """
        mask, count = default_mask.clone(), self._count(t.numel())
        if count:
            places = rand_like(t, dtype=tensor(0.0).dtype).view(-1).topk(count).indices
            mask.view(-1)[places] = 0
        return mask


class L1Unstructured(_ByAmount):
    """Prune the elements with the smallest absolute values.

    Args:
        amount: number of elements to prune, as an int, or their fraction, as a float.
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: tensor, or scores of its shape.
            default_mask: mask of earlier prunings.
        """
        mask, count = default_mask.clone(), self._count(t.numel())
        if count:
            places = t.abs().view(-1).topk(count, largest=False).indices
            mask.view(-1)[places] = 0
        return mask

    @classmethod
    def apply(  # type: ignore[override]  # torch's signatures
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """Prune a tensor of a module.

        Args:
            module: module with the tensor.
            name: name of the tensor in the module.
            amount: number of elements to prune, as an int, or their fraction, as a float.
            importance_scores: scores of the shape of the tensor, which decide instead of its values.

        Returns:
            The method, which is a hook of the module.
        """
        return super().apply(module, name, amount, importance_scores=importance_scores)


class _OfSlices(_ByAmount):
    """A method that prunes whole slices along a dimension."""

    PRUNING_TYPE = "structured"

    def _check(self, t: Tensor) -> None:
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims [nd-ndim]"
            )
        if self.dim >= t.dim() or self.dim < -t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape} [nd-index]")

    def __init__(self, amount: float, dim: int) -> None:
        super().__init__(amount)
        self.dim = dim

    def _remove_slices(self, t: Tensor, default_mask: Tensor, places: Tensor) -> Tensor:
        """Return the mask without the slices at some positions."""
        dim = self.dim if self.dim >= 0 else self.dim + t.dim()
        gone = zeros_like(t)
        gone[(slice(None),) * dim + (places,)] = 1
        return default_mask * (1 - gone).to(default_mask.dtype)


class RandomStructured(_OfSlices):
    """Prune slices at random.

    Args:
        amount: number of slices to prune, as an int, or their fraction, as a float.
        dim: dimension of the slices.
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount, dim)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: tensor, or scores of its shape.
            default_mask: mask of earlier prunings.
        """
        self._check(t)
        count = self._count(t.shape[self.dim])
        return (
            self._remove_slices(t, default_mask, rand(t.shape[self.dim]).topk(count).indices) if count else default_mask
        )

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> BasePruningMethod:  # type: ignore[override]
        """Prune a tensor of a module.

        Args:
            module: module with the tensor.
            name: name of the tensor in the module.
            amount: number of slices to prune, as an int, or their fraction, as a float.
            dim: dimension of the slices.

        Returns:
            The method, which is a hook of the module.
        """
        return super().apply(module, name, amount, dim=dim)


class LnStructured(_OfSlices):
    """Prune the slices with the smallest norms of order n.

    Args:
        amount: number of slices to prune, as an int, or their fraction, as a float.
        n: order of the norm, as in `Tensor.norm`.
        dim: dimension of the slices.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: tensor, or scores of its shape.
            default_mask: mask of earlier prunings.
        """
        self._check(t)
        count = self._count(t.shape[self.dim])
        if not count:
            return default_mask
        dim = self.dim if self.dim >= 0 else self.dim + t.dim()
        norms = t.norm(self.n, tuple(d for d in range(t.dim()) if d != dim))
        return self._remove_slices(t, default_mask, norms.topk(count, largest=False).indices)

    @classmethod
    def apply(  # type: ignore[override]  # torch's signatures
        cls, module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """Prune a tensor of a module.

        Args:
            module: module with the tensor.
            name: name of the tensor in the module.
            amount: number of slices to prune, as an int, or their fraction, as a float.
            n: order of the norm, as in `Tensor.norm`.
            dim: dimension of the slices.
            importance_scores: scores of the shape of the tensor, which decide instead of its values.

        Returns:
            The method, which is a hook of the module.
        """
        return super().apply(module, name, amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prune the elements that a given mask does not keep.

    Args:
        mask: mask of the shape of the tensor, with zeros for elements to prune.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: tensor, or scores of its shape.
            default_mask: mask of earlier prunings.
        """
        if self.mask.shape != default_mask.shape:
            raise AssertionError(
                f"the mask has shape {tuple(self.mask.shape)}, and the tensor {tuple(default_mask.shape)}. [nd-shape]"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:  # type: ignore[override]
        """Prune a tensor of a module.

        Args:
            module: module with the tensor.
            name: name of the tensor in the module.
            mask: mask of the shape of the tensor, with zeros for elements to prune.

        Returns:
            The method, which is a hook of the module.
        """
        return super().apply(module, name, mask=mask)


# ----- public functions -----------------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Register a mask of ones for a tensor, without pruning any element.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.

    Returns:
        The same module.

    >>> import ndgrad
    >>> from ndgrad.nn.utils import prune
    >>> sorted(prune.identity(ndgrad.nn.Linear(2, 2), "weight").state_dict())
    ['bias', 'weight_mask', 'weight_orig']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements at random.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.
        amount: number of elements to prune, as an int, or their fraction, as a float.

    Returns:
        The same module.

    >>> import ndgrad
    >>> from ndgrad.nn.utils import prune
    >>> int(prune.random_unstructured(ndgrad.nn.Linear(2, 2), "weight", 1).weight_mask.sum())
    3
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements with the smallest absolute values or scores.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.
        amount: number of elements to prune, as an int, or their fraction, as a float.
        importance_scores: scores of the shape of the tensor, which decide instead of its values.

    Returns:
        The same module.

    >>> import ndgrad
    >>> from ndgrad.nn.utils import prune
    >>> int(prune.l1_unstructured(ndgrad.nn.Linear(2, 2), "weight", 0.5).weight_mask.sum())
    2
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune slices along a dimension at random.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.
        amount: number of slices to prune, as an int, or their fraction, as a float.
        dim: dimension of the slices.

    Returns:
        The same module.

    >>> import ndgrad
    >>> from ndgrad.nn.utils import prune
    >>> int(prune.random_structured(ndgrad.nn.Linear(3, 2), "weight", 1, dim=0).weight_mask.sum())
    3
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the slices along a dimension whose norms of order n are the smallest.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.
        amount: number of slices to prune, as an int, or their fraction, as a float.
        n: order of the norm, as in `Tensor.norm`.
        dim: dimension of the slices.
        importance_scores: scores of the shape of the tensor, which decide instead of its values.

    Returns:
        The same module.

    >>> import ndgrad
    >>> from ndgrad.nn.utils import prune
    >>> int(prune.ln_structured(ndgrad.nn.Linear(3, 2), "weight", 1, n=2, dim=0).weight_mask.sum())
    3
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Any,
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several tensors as if they were one.

    Args:
        parameters: pairs of module and name of a tensor.
        pruning_method: class of an unstructured method, such as `L1Unstructured`.
        importance_scores: scores by pair, which decide instead of the values.
        **kwargs: arguments of the method's constructor, such as `amount`.

    >>> import ndgrad
    >>> from ndgrad.nn.utils import prune
    >>> layer = ndgrad.nn.Linear(3, 2)
    >>> prune.global_unstructured([(layer, "weight"), (layer, "bias")], prune.L1Unstructured, amount=3)
    >>> int(layer.weight_mask.sum() + layer.bias_mask.sum())
    5
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable [nd-type]")
    pairs: Sequence[tuple[Module, str]] = list(parameters)
    if importance_scores is not None and not isinstance(importance_scores, Mapping):
        raise TypeError("global_unstructured(): importance_scores is not of type dict [nd-type]")
    given = importance_scores or {}
    tensors = [getattr(module, name) for module, name in pairs]
    scores = cat([given.get(pair, t).reshape(-1) for pair, t in zip(pairs, tensors, strict=True)])
    masks = [
        getattr(module, name + "_mask", ones_like(t)).reshape(-1)
        for (module, name), t in zip(pairs, tensors, strict=True)
    ]
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE} [nd-option]"
        )
    container = PruningContainer()
    container._tensor_name = "temp"
    container.add_pruning_method(method)
    mask = container.compute_mask(scores, cat(masks))
    place = 0
    for (module, name), t in zip(pairs, tensors, strict=True):
        count = t.numel()
        custom_from_mask(module, name, mask[place : place + count].view_as(t))
        place += count


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune the elements that a mask does not keep.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.
        mask: mask of the shape of the tensor, with zeros for elements to prune.

    Returns:
        The same module.

    >>> import ndgrad
    >>> from ndgrad.nn.utils import prune
    >>> prune.custom_from_mask(ndgrad.nn.Linear(3, 2), "bias", ndgrad.tensor([0, 1])).bias_mask
    tensor([0., 1.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruning of a tensor permanent.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.

    Returns:
        The same module.

    Raises:
        ValueError: if the tensor is not pruned.

    >>> import ndgrad
    >>> from ndgrad.nn.utils import prune
    >>> layer = prune.l1_unstructured(ndgrad.nn.Linear(3, 2), "weight", 2)
    >>> list(prune.remove(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed [nd-parametrization]"
    )


def is_pruned(module: Module) -> bool:
    """True if some tensor of a module or its submodules is pruned.

    Args:
        module: module to check.

    >>> import ndgrad
    >>> ndgrad.nn.utils.prune.is_pruned(ndgrad.nn.Linear(2, 2))
    False
    """
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )


# ----- amounts --------------------------------------------------------------------------------------------------------


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float. [nd-type]")
    whole = isinstance(amount, numbers.Integral)
    if float(amount) < 0.0 or not (whole or float(amount) <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer [nd-range]"
        )


def _check_against(count: int, units: int) -> None:
    if count > units:
        raise ValueError(f"amount={count} should be smaller than the number of parameters to prune={units} [nd-range]")


def _number(amount: Any, units: int) -> int:
    """Return the number of units for a number or a fraction."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * units)
