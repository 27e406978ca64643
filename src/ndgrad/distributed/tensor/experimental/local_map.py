"""`local_map`: a function of local tensors as a function of DTensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.tensor.dtensor import DTensor
from ndgrad.distributed.tensor.placements import Placement

Placements = Sequence[Placement] | None


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: tuple[Placements, ...] | None = None,
    in_grad_placements: tuple[Placements, ...] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """Return a function of DTensors that calls `func` with this rank's local tensors, and returns DTensors.

    `out_placements` has placements for each result, or None for a value that stays as it is. `in_placements` has the
    placements that each argument must have. With `redistribute_inputs`, arguments of other placements are redistributed
    first. `in_grad_placements` says how the gradients of the local tensors are placed (see `DTensor.to_local`). Without
    a function, return a decorator.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor import Partial, Shard, distribute_tensor
    >>> from ndgrad.distributed.tensor.experimental import local_map
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> total = local_map(lambda x: x.sum(), out_placements=[Partial()], in_placements=([Shard(0)],))
    >>> total(distribute_tensor(ndgrad.ones(3), mesh, [Shard(0)])).full_tensor()
    tensor(3.)
    >>> ndgrad.distributed.destroy_process_group()
    """
    if func is None:
        return lambda function: local_map(
            function, out_placements, in_placements, in_grad_placements, device_mesh,
            redistribute_inputs=redistribute_inputs,
        )  # fmt: skip
    _check_lengths(in_placements, in_grad_placements)

    def call(*args: Any, **kwargs: Any) -> Any:
        given, form = tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(given):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(given)}! "
                "[nd-arguments]"
            )
        mesh, locals_ = device_mesh, []
        for i, a in enumerate(given):
            wanted = None if in_placements is None else in_placements[i]
            placed = None if in_grad_placements is None else in_grad_placements[i]
            if isinstance(a, DTensor):
                mesh = a.device_mesh if mesh is None else mesh
                locals_.append(_local_of(a, mesh, wanted, placed, i, redistribute_inputs))
                continue
            if wanted is not None and not isinstance(a, Tensor):
                raise AssertionError(
                    f"local_map: argument {i} is no tensor ({type(a).__name__}), and in_placements[{i}] is {wanted}. "
                    "Give None as its placements. [nd-dtensor]"
                )
            locals_.append(a)  # a plain tensor is this rank's part already
        out = func(*tree_unflatten(locals_, form), **kwargs)
        if mesh is None:  # no argument is spread, so no result is
            return out
        return _spread_results(out, mesh, out_placements)

    return call


def _check_lengths(places: Any, gradients: Any) -> None:
    if gradients is not None and places is not None and len(gradients) != len(places):
        raise AssertionError(
            f"local_map: in_placements has {len(places)} entries, and in_grad_placements {len(gradients)}. "
            "[nd-arguments]"
        )


def _local_of(
    a: DTensor, mesh: DeviceMesh, wanted: Placements, placed: Placements, number: int, redistributes: bool
) -> Tensor:
    if wanted is not None and tuple(wanted) != a.placements:
        if not redistributes:
            raise ValueError(
                f"local_map: argument {number} is placed as {list(a.placements)}, and in_placements[{number}] is "
                f"{list(wanted)}. If they are to be redistributed, set redistribute_inputs=True. [nd-dtensor]"
            )
        a = a.redistribute(mesh, wanted)
    return a.to_local(grad_placements=placed)


def _spread_results(out: Any, mesh: DeviceMesh, placements: Any) -> Any:
    found, form = tree_flatten(out)
    single = placements is None or (len(placements) > 0 and isinstance(placements[0], Placement))
    wanted = [placements] * len(found) if single else list(placements)
    if len(wanted) != len(found):
        raise AssertionError(
            f"local_map: the function returned {len(found)} values, and out_placements has {len(wanted)} entries. "
            "[nd-arguments]"
        )
    made = []
    for i, (value, places) in enumerate(zip(found, wanted, strict=True)):
        if isinstance(value, Tensor) and not isinstance(value, DTensor):
            made.append(value if places is None else DTensor.from_local(value, mesh, places))
            continue
        if places is not None:
            raise AssertionError(
                f"Non-tensor output expects None placements but received {places} for result {i}! [nd-dtensor]"
            )
        made.append(value)
    return tree_unflatten(made, form)
