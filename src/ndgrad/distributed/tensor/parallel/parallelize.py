"""`parallelize_module`: apply a plan, from names of layers to parallel styles."""

from __future__ import annotations

import warnings
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ndgrad.distributed.device_mesh import DeviceMesh, current_mesh
from ndgrad.distributed.tensor.parallel.styles import ParallelStyle

if TYPE_CHECKING:
    from ndgrad.nn.modules.module import Module


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Divide a module's layers among the ranks of a mesh with one dimension, in place, and return the module.

    The plan is a style for the module, or a dict from names of modules inside it, in which `*` and `?` stand for parts
    of a name between dots. Every rank starts from the parameters of the first.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> net = ndgrad.nn.Sequential(ndgrad.nn.Linear(4, 8), ndgrad.nn.ReLU(), ndgrad.nn.Linear(8, 2))
    >>> net = parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    >>> net(ndgrad.ones(3, 4)).shape
    ndgrad.Size([3, 2])
    >>> ndgrad.distributed.destroy_process_group()
    """
    mesh = current_mesh() if device_mesh is None else device_mesh
    if mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module: tensor parallel is along one dimension of a mesh, and {mesh!r} has {mesh.ndim}. Give "
            'the one, by its name: mesh["model"]. [nd-dtensor]'
        )
    if parallelize_plan is None:
        warnings.warn("parallelize_module: no plan was given, so nothing is divided.", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found! [nd-type]"
        )
    for path, style in parallelize_plan.items():
        found = [part for name, part in module.named_modules() if _fits(name, path)]
        if not found:
            names = [name for name, _ in module.named_modules() if name]
            warnings.warn(
                f"parallelize_module: Parallelize plan key '{path}' could not be resolved: no submodule matching it. "
                f"There are {', '.join(names)}.",
                stacklevel=2,
            )
            continue
        style.src_data_rank = src_data_rank
        for part in found:
            style._apply(part, mesh)
    return module


def _fits(name: str, path: str) -> bool:
    atoms, wanted = name.split("."), path.split(".")
    return len(atoms) == len(wanted) and all(fnmatchcase(a, w) for a, w in zip(atoms, wanted, strict=True))
