"""Device meshes: the ranks as an array with named dimensions, and a process group along each line of the array.

`init_device_mesh("cpu", (2, 3), mesh_dim_names=("data", "model"))` arranges six ranks as two rows of three. A tensor is
spread over some dimensions of the mesh and repeated along the others (`ndgrad.distributed.tensor`). It communicates
along one dimension at a time, within the group of the rank's line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.groups import (
    ProcessGroup,
    check_backend,
    check_options,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
    world_group,
)

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Mesh of the ranks in the array `mesh`. All ranks of the world create it, in the same order.

    Args:
        device_type: kind of device, such as `"cpu"` or `"cuda"`.
        mesh: array of ranks in the world.
        mesh_dim_names: names of the dimensions.
        backend_override: backend of each dimension, as a name or as a name and None. They are only checked, because the
            device of a tensor decides.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    >>> mesh["model"]
    DeviceMesh((model=1), 'cpu')
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Sequence[Any] | None = None,
        _groups: Any = None,
    ) -> None:
        if not is_initialized():
            init_process_group()
        self.device_type = device_type
        self._ranks = np.asarray(mesh.numpy() if hasattr(mesh, "numpy") else mesh, dtype=np.int64)
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if names is not None and (len(names) != self._ranks.ndim or len(set(names)) != len(names)):
            raise RuntimeError(
                f"DeviceMesh: mesh_dim_names {names} must be {self._ranks.ndim} different names, one for each "
                "dimension of the mesh "
                f"of shape {self._ranks.shape}. [nd-dtensor]"
            )
        self.mesh_dim_names = names
        #: The mesh of which this one is a part, or this one.
        self._root: DeviceMesh = self
        #: Flattened dimensions by name.
        self._flat: dict[str, DeviceMesh] = {}
        flat = self._ranks.reshape(-1)
        size = get_world_size()
        if len(set(flat.tolist())) != flat.size or flat.min(initial=0) < 0 or flat.max(initial=0) >= size:
            raise RuntimeError(
                f"DeviceMesh: {self._ranks.tolist()} must be different ranks from 0 to {size - 1}. [nd-dtensor]"
            )
        here = np.argwhere(self._ranks == get_rank())
        #: Position of this rank; None if it is not in the mesh.
        self._coordinate = tuple(int(i) for i in here[0]) if len(here) else None
        _check_backends(backend_override, self._ranks.ndim)
        self._groups: tuple[ProcessGroup | None, ...] = self._make_groups() if _groups is None else _groups
        if _groups is None:
            _remember(self)

    @staticmethod
    def from_group(
        group: ProcessGroup | list[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """Return a mesh whose dimensions are existing groups: one group, or a list with the array of ranks `mesh`.

        Args:
            group: group, or list of one group per dimension.
            device_type: kind of device, such as `"cpu"` or `"cuda"`.
            mesh: array of ranks. Required for a list.
            mesh_dim_names: names of the dimensions.

        >>> import ndgrad
        >>> ndgrad.distributed.init_process_group()
        >>> ndgrad.distributed.DeviceMesh.from_group(ndgrad.distributed.group.WORLD, "cpu")
        DeviceMesh((1), 'cpu')
        >>> ndgrad.distributed.destroy_process_group()
        """
        if isinstance(group, ProcessGroup):
            ranks = np.array(group.ranks)
            if mesh is not None and _as_ranks(mesh).tolist() != ranks.tolist():
                raise ValueError(
                    f"Invalid mesh {_as_ranks(mesh).tolist()} for ProcessGroup with ranks {ranks.tolist()}. Leave mesh "
                    "out. [nd-rank]"
                )
            return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _groups=(group,))
        groups = list(group)
        if not groups:
            raise ValueError("DeviceMesh.from_group: give at least one group. [nd-arguments]")
        if mesh is None:
            raise ValueError(
                "DeviceMesh.from_group: must pass mesh, the array of ranks, if group is a list. [nd-arguments]"
            )
        if _as_ranks(mesh).ndim != len(groups):
            raise ValueError(
                "Expects mesh with ndim equal to number of ProcessGroups but got mesh "
                f"{_as_ranks(mesh).tolist()} and {len(groups)} ProcessGroups. Give one for each dimension. "
                "[nd-arguments]"
            )
        made = DeviceMesh(device_type, _as_ranks(mesh), mesh_dim_names=mesh_dim_names, _groups=tuple(groups))
        for dim, found in enumerate(groups):
            index = tuple(slice(None) if i == dim else c for i, c in enumerate(made._coordinate or ()))
            if made._coordinate is not None and list(made._ranks[index]) != list(found.ranks):
                raise ValueError(
                    f"DeviceMesh.from_group: the ranks of group {dim} are {list(found.ranks)}, and those of the mesh "
                    f"along dimension {dim} {made._ranks[index].tolist()}. [nd-rank]"
                )
        return made

    def _make_groups(self) -> tuple[ProcessGroup | None, ...]:
        """Create the group of this rank's line along each dimension. Every rank creates the groups of all lines, in the
        same order.
        """
        found: list[ProcessGroup | None] = []
        for dim in range(self._ranks.ndim):
            own = None
            lines = np.moveaxis(self._ranks, dim, -1).reshape(-1, self._ranks.shape[dim])
            for line in lines:
                made = new_group(line.tolist(), sort_ranks=False)
                if isinstance(made, ProcessGroup):
                    own = made
            found.append(own)
        return tuple(found)

    # ----- its form -----

    @property
    def mesh(self) -> Any:
        """The ranks, as a tensor."""
        from ndgrad._src.tensor.functions.data import tensor  # already loaded if tensors are used

        return tensor(self._ranks.copy())

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self._ranks.shape

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks, or the length of one dimension.

        Args:
            mesh_dim: number of a dimension. None means the whole mesh.
        """
        return self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim]

    def get_coordinate(self) -> list[int] | None:
        """Return the position of this rank, or None if it is not in the mesh."""
        return None if self._coordinate is None else list(self._coordinate)

    def get_rank(self) -> int:
        """Return this rank's number in the world."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this rank's position along one dimension.

        Args:
            mesh_dim: number or name of a dimension. None is for a mesh of one dimension.
        """
        dim = self.dim_number(mesh_dim)
        if self._coordinate is None:
            raise RuntimeError(f"rank {get_rank()} is not in {self!r}. [nd-rank]")
        return self._coordinate[dim]

    def dim_number(self, mesh_dim: int | str | None) -> int:
        """Return the number of a dimension given by number or by name.

        Args:
            mesh_dim: number or name of a dimension. None is for a mesh of one dimension.
        """
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be "
                    f"specified when device_mesh.ndim > 1. {self!r}: name the dimension, or give its number. "
                    "[nd-dtensor]"
                )
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(
                    f"Invalid mesh_dim_name {mesh_dim!r}: the dimensions of the mesh are {self.mesh_dim_names}. "
                    "[nd-key]"
                )
            return self.mesh_dim_names.index(mesh_dim)
        return range(self.ndim)[mesh_dim]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of the ranks on this rank's line along a dimension.

        Args:
            mesh_dim: number or name of a dimension. None is for a mesh of one dimension.
        """
        group = self._groups[self.dim_number(mesh_dim)]
        if group is None:
            raise RuntimeError(f"rank {get_rank()} is not in {self!r}. [nd-rank]")
        return group

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups along all dimensions."""
        return [self.get_group(i) for i in range(self.ndim)]

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the mesh of the ranks that differ from this one only in these dimensions."""
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if len(names) == 1 and names[0] in self._root._flat:
            return self._root._flat[names[0]]
        if names == self.mesh_dim_names:
            return self
        dims = [self.dim_number(n) for n in names]
        if self._coordinate is None:
            raise RuntimeError(f"rank {get_rank()} is not in {self!r}. [nd-rank]")
        index = tuple(slice(None) if i in dims else self._coordinate[i] for i in range(self.ndim))
        part = np.transpose(self._ranks[index], np.argsort(np.argsort(dims)))
        made = DeviceMesh(self.device_type, part, mesh_dim_names=names, _groups=tuple(self._groups[d] for d in dims))
        made._root = self._root
        return made

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """Return the ranks of this mesh as one dimension. All ranks call it."""
        if self.ndim == 1:
            return self
        name = "_".join(self.mesh_dim_names or ()) if mesh_dim_name is None else mesh_dim_name
        known = self._root._flat.get(name)
        if known is None:
            whole = self._root
            dims = [whole.dim_number(n) for n in self.mesh_dim_names or ()] or list(range(whole.ndim))
            rest = [i for i in range(whole.ndim) if i not in dims]
            lines = np.transpose(whole._ranks, (*rest, *dims)).reshape(-1, self.size())
            own = None
            for line in lines:
                made = new_group(line.tolist(), sort_ranks=False)
                own = made if isinstance(made, ProcessGroup) else own
            known = DeviceMesh(self.device_type, self._ranks.reshape(-1), mesh_dim_names=(name,), _groups=(own,))
            known._root = whole
            whole._flat[name] = known
        return known

    def __enter__(self) -> Self:
        _current.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _current.pop()

    def __repr__(self) -> str:
        sizes = (
            ", ".join(map(str, self.shape))
            if self.mesh_dim_names is None
            else ", ".join(f"{n}={s}" for n, s in zip(self.mesh_dim_names, self.shape, strict=True))
        )
        return f"DeviceMesh(({sizes}), {self.device_type!r})"

    def __reduce__(self) -> Any:
        """Implement `pickle`: the loading ranks find their mesh of this form, or create it together."""
        return restore_mesh, (self.device_type, self._ranks.tolist(), self.mesh_dim_names)

    def _key(self) -> Any:
        return self.device_type, self.shape, tuple(self._ranks.reshape(-1).tolist()), self.mesh_dim_names

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


_current: list[DeviceMesh] = []


def _as_ranks(mesh: Any) -> Any:
    return np.asarray(mesh.numpy() if hasattr(mesh, "numpy") else mesh, dtype=np.int64)


def _check_backends(given: Sequence[Any] | None, ndim: int) -> None:
    """Check `backend_override`: a backend, or a backend and its options, for each dimension."""
    if given is None:
        return
    if len(given) != ndim:
        raise RuntimeError(
            f"DeviceMesh: backend_override has {len(given)} entries, and the mesh {ndim} dimensions. Give one for "
            "each. [nd-arguments]"
        )
    for each in given:
        backend, options = each if isinstance(each, tuple) else (each, None) if isinstance(each, str) else (None, each)
        check_backend(backend)
        check_options(options)


def _remember(mesh: DeviceMesh) -> None:
    """Keep a mesh of the current world, for the pickles that name it."""
    world_group().meshes.setdefault(mesh._key(), mesh)


def restore_mesh(device_type: str, ranks: Any, names: tuple[str, ...] | None) -> DeviceMesh:
    """Return the mesh of a pickle: a mesh of this form that the world has, or a new one, created by all ranks."""
    shape = np.asarray(ranks, dtype=np.int64)
    key = device_type, shape.shape, tuple(shape.reshape(-1).tolist()), None if names is None else tuple(names)
    known = world_group().meshes.get(key) if is_initialized() else None
    return DeviceMesh(device_type, ranks, mesh_dim_names=names) if known is None else known


def current_mesh() -> DeviceMesh:
    """Return the mesh of the innermost `with mesh:`, or all ranks as one dimension."""
    if _current:
        return _current[-1]
    world = world_group()
    known: DeviceMesh | None = world.meshes.get(None)
    if known is None:
        known = world.meshes[None] = DeviceMesh("cpu", range(world.size()), _groups=(world,))
        _remember(known)
    return known


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Arrange the ranks of the world, in order, as a mesh of this shape. The process group is initialised if there is
    none.

    Args:
        device_type: kind of device, such as `"cpu"` or `"cuda"`.
        mesh_shape: length of each dimension. Their product is the number of ranks.
        mesh_dim_names: names of the dimensions.
        backend_override: backends of some dimensions, by number or name. They are only checked, because the device of a
            tensor decides.

    >>> import ndgrad
    >>> ndgrad.distributed.init_device_mesh("cpu", (1,))
    DeviceMesh((1), 'cpu')
    >>> ndgrad.distributed.destroy_process_group()
    """
    if ":" in str(device_type):
        raise RuntimeError(
            f"Device type with index is not supported: {device_type!r}. Each rank has a device of its own. Give the "
            f"type alone, {str(device_type).partition(':')[0]!r}. [nd-device]"
        )
    if not is_initialized():
        init_process_group()
    shape = tuple(int(n) for n in mesh_shape)
    names = None if mesh_dim_names is None else tuple(mesh_dim_names)
    if names is not None and len(set(names)) != len(names):
        raise RuntimeError(f"Each mesh_dim_name must be unique, and mesh_dim_names is {names}. [nd-dtensor]")
    if names is not None and len(names) != len(shape):
        raise RuntimeError(
            f"mesh_shape and mesh_dim_names should have same length: they are {shape} and {names}. [nd-dtensor]"
        )
    if math.prod(shape) != get_world_size():
        raise RuntimeError(
            f"init_device_mesh: a mesh of shape {shape} has {math.prod(shape)} places, but there are "
            f"{get_world_size()} ranks. "
            "Give a shape with as many, or make a DeviceMesh of some of the ranks. [nd-dtensor]"
        )
    given = dict(backend_override or {})
    unknown = [k for k in given if k not in (names or ()) and k not in range(len(shape))]
    if unknown:
        raise RuntimeError(
            f"init_device_mesh: backend_override has {unknown}, and the dimensions are {names or len(shape)}. "
            "[nd-arguments]"
        )
    chosen = [given.get(i, given.get(names[i]) if names else None) for i in range(len(shape))]
    ranks = np.arange(math.prod(shape)).reshape(shape)
    if len(shape) != 1:
        return DeviceMesh(device_type, ranks, mesh_dim_names=names, backend_override=chosen)
    made = DeviceMesh(
        device_type, ranks, mesh_dim_names=names, backend_override=chosen, _groups=(world_group(),)
    )
    _remember(made)
    return made


_refuse_absent(__name__)
