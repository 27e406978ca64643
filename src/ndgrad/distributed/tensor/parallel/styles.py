"""torch's parallel styles: ways to divide one layer among the ranks of a mesh.

A style places the layer's parameters and defines the placements of its arguments and results. The ops inside follow
from the placements (`ndgrad.distributed.tensor.planning`). A column-wise layer and a row-wise one after it are the pair
of Megatron-LM: between them each rank has a part of the features, and one reduction forward and one backward remain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.tensor.dtensor import DTensor, distribute_module, distribute_tensor
from ndgrad.distributed.tensor.placements import REPLICATE, Placement, Shard, normalize_placements
from ndgrad.nn.modules.linear import Linear
from ndgrad.nn.modules.sparse import Embedding
from ndgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from ndgrad.nn.modules.module import Module

Layouts = Placement | Sequence[Placement | None] | None


class ParallelStyle(ABC):
    """Base class of styles: `_apply` divides a module, in place."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...


def _as_dtensor(t: Any, mesh: DeviceMesh, layout: Placement, length: int | None = None) -> Any:
    """Return the DTensor whose part on this rank is the plain tensor `t`; `length` is the length of the last
    dimension.
    """
    if isinstance(t, DTensor) or not isinstance(t, Tensor):
        return t
    shape = None
    if length is not None and isinstance(layout, Shard) and layout.dim % t.ndim == t.ndim - 1:
        shape = (*t.shape[:-1], length)  # pieces may differ in length
    return DTensor.from_local(t, mesh, [layout], shape=shape)


def _redistribute(t: Any, layout: Placement | None) -> Any:
    if not isinstance(t, DTensor) or layout is None:
        return t
    return t.gather_for_module(normalize_placements([layout], t.device_mesh, t.ndim, "parallelize_module"))


def _local(t: Any, use_local: bool) -> Any:
    return t.to_local() if use_local and isinstance(t, DTensor) else t


def _place(module: Module, placements: dict[str, Placement], mesh: DeviceMesh, source: int | None) -> None:
    """Turn a module's own parameters into DTensors."""
    for name, p in list(module._parameters.items()):
        if p is not None and not isinstance(p, DTensor):
            made = distribute_tensor(p.detach(), mesh, [placements.get(name, REPLICATE)], src_data_rank=source)
            module._parameters[name] = Parameter(made, p.requires_grad)


def _refuse(style: str, module: Module) -> NotImplementedError:
    return NotImplementedError(
        f"{style} currently only supports nn.Linear and nn.Embedding, and this is {type(module).__name__}. Give plans "
        "to the layers inside it, by their names. [nd-unsupported]"
    )


class ColwiseParallel(ParallelStyle):
    """Divide a linear layer or an embedding by output features. The input is whole on each rank, the output a piece
    along the last dimension.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> layer = parallelize_module(ndgrad.nn.Linear(4, 8), mesh, ColwiseParallel())
    >>> layer.weight.placements, layer(ndgrad.ones(2, 4)).shape
    ((Shard(dim=0),), ndgrad.Size([2, 8]))
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layout = REPLICATE if input_layouts is None else input_layouts
        self.output_layout = Shard(-1) if output_layouts is None else output_layouts
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if isinstance(module, Linear):
            placements: dict[str, Placement] = {"weight": Shard(0), "bias": Shard(0)}
        elif isinstance(module, Embedding):
            placements = {"weight": Shard(1)}
        else:
            raise _refuse("ColwiseParallel", module)

        def come_in(module: Module, args: tuple[Any, ...], mesh: DeviceMesh) -> Any:
            return (_redistribute(_as_dtensor(args[0], mesh, self.input_layout), REPLICATE), *args[1:])

        return distribute_module(
            module, device_mesh,
            lambda _, m, mesh: _place(m, placements, mesh, self.src_data_rank), come_in, self._go_out,
        )  # fmt: skip

    def _go_out(self, module: Module, out: Any, mesh: DeviceMesh) -> Any:
        return _local(_redistribute(out, self.output_layout), self.use_local_output)


class RowwiseParallel(ParallelStyle):
    """Divide a linear layer by input features, or an embedding by rows. The ranks compute terms of the result, which
    are summed: whole on each rank, or pieces if `output_layouts` says so.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor.parallel import RowwiseParallel, parallelize_module
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> layer = parallelize_module(ndgrad.nn.Linear(8, 4), mesh, RowwiseParallel())
    >>> layer.weight.placements, layer.bias.placements
    ((Shard(dim=1),), (Replicate(),))
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layout = Shard(-1) if input_layouts is None else input_layouts
        self.output_layout = REPLICATE if output_layouts is None else output_layouts
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if isinstance(module, Linear):
            placements: dict[str, Placement] = {"weight": Shard(1)}
            wanted: Placement = Shard(-1)
            length: int | None = module.in_features
        elif isinstance(module, Embedding):
            if module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
                raise NotImplementedError(
                    "RowwiseParallel of an Embedding with max_norm, scale_grad_by_freq or sparse, which need all rows. "
                    "Use ColwiseParallel. [nd-unsupported]"
                )
            placements, wanted, length = {"weight": Shard(0)}, REPLICATE, None
        else:
            raise _refuse("RowwiseParallel", module)

        def come_in(module: Module, args: tuple[Any, ...], mesh: DeviceMesh) -> Any:
            return (_redistribute(_as_dtensor(args[0], mesh, self.input_layout, length), wanted), *args[1:])

        def go_out(module: Module, out: Any, mesh: DeviceMesh) -> Any:
            return _local(_redistribute(out, self.output_layout), self.use_local_output)

        return distribute_module(
            module, device_mesh,
            lambda _, m, mesh: _place(m, placements, mesh, self.src_data_rank), come_in, go_out,
        )  # fmt: skip


class SequenceParallel(ParallelStyle):
    """Divide the sequence positions of a layer that treats each position separately (LayerNorm, RMSNorm); its
    parameters are whole on each rank.

    >>> from ndgrad.distributed.tensor.parallel import SequenceParallel
    >>> SequenceParallel(sequence_dim=1).sequence_sharding
    Shard(dim=1)
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = Shard(sequence_dim)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def come_in(module: Module, args: tuple[Any, ...], mesh: DeviceMesh) -> Any:
            first = _redistribute(_as_dtensor(args[0], mesh, self.sequence_sharding), self.sequence_sharding)
            return (first, *args[1:])

        def go_out(module: Module, out: Any, mesh: DeviceMesh) -> Any:
            return _local(out, self.use_local_output)

        return distribute_module(
            module, device_mesh, lambda _, m, mesh: _place(m, {}, mesh, self.src_data_rank), come_in, go_out
        )


# ----- inputs and outputs of any module -------------------------------------------------------------------------------


def _as_list(layouts: Layouts) -> list[Placement | None] | None:
    if layouts is None:
        return None
    return [layouts] if isinstance(layouts, Placement) else list(layouts)


def _check_lengths(style: str, given: list[Any] | None, wanted: list[Any] | None) -> None:
    if given is None or wanted is None or len(given) != len(wanted):
        side = "output" if "Output" in style and "Input" not in style else "input"
        raise AssertionError(
            f"{style}: {side}_layouts and desired_{side}_layouts should have same length! They are {given} and "
            f"{wanted}. [nd-shape]"
        )


class PrepareModuleInput(ParallelStyle):
    """Convert a module's arguments: `input_layouts` gives the placement of each plain tensor, `desired_input_layouts`
    the one it is converted to.

    >>> from ndgrad.distributed.tensor import Replicate, Shard
    >>> from ndgrad.distributed.tensor.parallel import PrepareModuleInput
    >>> style = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.layouts, self.desired = _as_list(input_layouts), _as_list(desired_input_layouts)
        self.kwargs, self.desired_kwargs = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.layouts is not None or not self.kwargs:
            _check_lengths("PrepareModuleInput", self.layouts, self.desired)
        if self.kwargs.keys() != self.desired_kwargs.keys():
            raise AssertionError(
                f"PrepareModuleInput: input_kwarg_layouts are for {sorted(self.kwargs)}, and "
                f"desired_input_kwarg_layouts for {sorted(self.desired_kwargs)}. [nd-arguments]"
            )

    def _one(self, t: Any, mesh: DeviceMesh, layout: Placement | None, wanted: Placement | None) -> Any:
        if layout is None:
            return t
        return _local(_redistribute(_as_dtensor(t, mesh, layout), wanted), self.use_local_output)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def come_in(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self.layouts is not None:
                assert self.desired is not None
                if len(args) != len(self.layouts):
                    raise ValueError(
                        "PrepareModuleInput: module inputs and input_layouts should have same length! "
                        f"{type(module).__name__} got {len(args)} arguments, and there are {len(self.layouts)} "
                        "layouts. Give one for each, None for what is to stay. [nd-shape]"
                    )
                args = tuple(
                    self._one(t, device_mesh, layout, wanted)
                    for t, layout, wanted in zip(args, self.layouts, self.desired, strict=True)
                )
            for name, layout in self.kwargs.items():
                if name in kwargs:
                    kwargs = {**kwargs, name: self._one(kwargs[name], device_mesh, layout, self.desired_kwargs[name])}
            return args, kwargs

        module.register_forward_pre_hook(come_in, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Convert a module's results: `output_layouts` gives the placement of each plain tensor, `desired_output_layouts`
    the one it is converted to.

    >>> from ndgrad.distributed.tensor import Replicate, Shard
    >>> from ndgrad.distributed.tensor.parallel import PrepareModuleOutput
    >>> style = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1))
    """

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True
    ) -> None:
        self.layouts, self.desired = _as_list(output_layouts), _as_list(desired_output_layouts)
        self.use_local_output = use_local_output
        _check_lengths("PrepareModuleOutput", self.layouts, self.desired)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def go_out(module: Module, args: tuple[Any, ...], out: Any) -> Any:
            assert self.layouts is not None
            assert self.desired is not None
            several = isinstance(out, (tuple, list))
            outs = tuple(out) if several else (out,)
            if len(outs) != len(self.layouts):
                raise ValueError(
                    f"PrepareModuleOutput: {type(module).__name__} returned {len(outs)} results, but there are "
                    f"{len(self.layouts)} layouts. Give one for each, None for what is to stay. [nd-shape]"
                )
            made = tuple(
                t
                if layout is None
                else _local(_redistribute(_as_dtensor(t, device_mesh, layout), wanted), self.use_local_output)
                for t, layout, wanted in zip(outs, self.layouts, self.desired, strict=True)
            )
            return made if several else made[0]

        module.register_forward_hook(go_out)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Combine `PrepareModuleInput` and `PrepareModuleOutput`."""

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts, desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )  # fmt: skip
        self.prepare_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )  # fmt: skip

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return self.prepare_output._apply(self.prepare_input._apply(module, device_mesh), device_mesh)
