"""Process groups: the processes of a job, and subsets that communicate.

The world is MPI's, so no addresses or ports are needed: `init_process_group()` asks MPI for the number of processes and
the rank of this one. A process that was started alone is a world of one, with or without MPI installed. A group has
four communicators, so that messages for computing, for agreement and for errors never mix.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self

from ndgrad._src.arrays import blas_threads, threads
from ndgrad.distributed.notices import notices
from ndgrad.distributed.stores import Store
from ndgrad.launch import tell_environment

default_pg_timeout = timedelta(minutes=30)
tell_environment()

#: Launchers set these in the environment of each process.
_SIZES = ("WORLD_SIZE",)
_LOCAL_RANKS = ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")


class ProcessGroup:
    """Ordered set of processes. Created by `init_process_group` and `new_group`.

    Args:
        name: name of the group.
        ranks: ranks of the members in the world.
        rank: rank of this process in the group.
        comm: communicator of mpi4py. None for a group of one.
        timeout: seconds after which a collective that not all ranks join raises.
        described: text that describes the group.
    """

    def __init__(
        self, name: str, ranks: Sequence[int], rank: int, comm: Any, timeout: float, described: str = ""
    ) -> None:
        self.name, self.group_desc = name, described
        #: The members' ranks in the world.
        self.ranks = tuple(ranks)
        self._rank, self._size = rank, len(self.ranks)
        self.timeout = timeout
        #: The number of collectives called so far.
        self.calls = 0
        #: Meshes over this group by their form; they end with the group.
        self.meshes: dict[Any, Any] = {}
        self.comm = comm
        if comm is not None:
            from mpi4py import MPI  # optional library: not needed for a world of one

            self.in_place, self.maximum = MPI.IN_PLACE, MPI.MAX
            self.control, self.report = comm.Dup(), comm.Dup()
            notices.know(self)

    def rank(self) -> int:
        """Return the rank of this process in the group."""
        return self._rank

    def size(self) -> int:
        """Return the number of processes in the group."""
        return self._size

    @property
    def group_name(self) -> str:
        """Its name."""
        return self.name

    def global_rank(self, rank: int) -> int:
        """Return the rank in the world of a member.

        Args:
            rank: rank in the group.
        """
        return self.ranks[rank]

    def free(self) -> None:
        """Free the communicators, and the meshes that hold the group."""
        self.meshes.clear()
        used = sys.modules.get("ndgrad.distributed.nccl")
        if used is not None:
            used.forget(self)
        if self.comm is not None:
            for comm in (self.control, self.report, self.comm):
                comm.Free()
            self.comm = None

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.name}: rank {self._rank} of {self._size}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a process group ({self.name}) belongs to its processes and cannot be pickled. Save the ranks "
            "(get_process_group_ranks) and make a group of them where it is loaded. [nd-pickle]"
        )


class Backend(str):
    """Name of a backend, in lower case: one of torch's names. `init_process_group` says which can be used.

    Args:
        name: name of a backend.

    >>> import ndgrad
    >>> ndgrad.distributed.Backend("MPI"), ndgrad.distributed.Backend.MPI == "mpi"
    ('mpi', True)
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    backend_list = (UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI)
    #: Backend of each kind of device.
    default_device_backend_map = {"cpu": "mpi", "cuda": "nccl"}  # noqa: RUF012  # a dict, as in torch

    def __new__(cls, name: str) -> Self:
        if not isinstance(name, str):
            raise ValueError(
                f"Backend name must be a string, but got: {name!r} ({type(name).__name__}). [nd-process-group]"
            )
        lower = name.lower()
        if lower not in cls.backend_list:
            raise ValueError(
                f"Invalid backend: {name!r}. Backends are {', '.join(cls.backend_list)}. [nd-process-group]"
            )
        return super().__new__(cls, lower)


class GroupMember:
    """torch's names for the group of all processes, and for a group without this process."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class _Group(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return GroupMember.WORLD


class group(metaclass=_Group):
    """`group.WORLD` is the group of all processes.

    >>> import ndgrad
    >>> ndgrad.distributed.group.WORLD is None
    True
    """


_numbers = itertools.count()
_groups: dict[str, ProcessGroup] = {}
#: Number of groups made so far, by their ranks.
_made: Counter[tuple[int, ...]] = Counter()


# ----- available backends ---------------------------------------------------------------------------------------------


def is_available() -> bool:
    """True if mpi4py is installed (`pip install mpi4py mpich`), so that several processes can be used.

    >>> import ndgrad
    >>> ndgrad.distributed.is_available() in (True, False)
    True
    """
    return importlib.util.find_spec("mpi4py") is not None


def is_mpi_available() -> bool:
    """True if mpi4py is installed."""
    return is_available()


def is_nccl_available() -> bool:
    """True if CuPy is installed with NCCL, which then carries messages between GPUs."""
    from ndgrad.distributed.nccl import available  # avoids an import cycle

    return available()


def is_gloo_available() -> bool:
    """False: a program that asks for gloo gets MPI."""
    return False


def is_ucc_available() -> bool:
    """False: messages go through MPI."""
    return False


def is_xccl_available() -> bool:
    """False: messages go through MPI."""
    return False


def is_backend_available(backend: str) -> bool:
    """True if a backend can carry messages: "mpi" if mpi4py is installed, "nccl" (for GPUs) if CuPy is.

    Args:
        backend: name of a backend.

    >>> import ndgrad
    >>> ndgrad.distributed.is_backend_available("gloo")
    False
    """
    return {"mpi": is_available, "nccl": is_nccl_available}.get(backend.lower(), lambda: False)()


def is_torchelastic_launched() -> bool:
    """False: MPI starts the processes."""
    return False


def _get_default_group() -> ProcessGroup:
    """Return the group of all processes, as torch's function of this name, which libraries call."""
    if GroupMember.WORLD is None:
        raise ValueError(
            "Default process group has not been initialized. Call init_process_group() first. [nd-process-group]"
        )
    return GroupMember.WORLD


def is_initialized() -> bool:
    """True if there is a group of all processes.

    >>> import ndgrad
    >>> ndgrad.distributed.is_initialized()
    False
    """
    return GroupMember.WORLD is not None


# ----- the world ------------------------------------------------------------------------------------------------------


def _seconds(timeout: timedelta | float | None) -> float:
    if timeout is None:
        timeout = default_pg_timeout
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def check_backend(backend: str | None) -> None:
    """Check that a backend is known and available."""
    named = {part.rpartition(":")[2] for part in (backend or "mpi").lower().split(",")}
    if not named <= {"mpi", "gloo", "nccl"}:
        raise ValueError(
            f"init_process_group(backend={backend!r}): messages go through MPI here, and those of GPUs through NCCL. "
            "Give backend='mpi', or leave it out; 'gloo' is taken to mean it too. [nd-process-group]"
        )
    if "nccl" in named and not is_nccl_available():
        raise RuntimeError(
            f"init_process_group(backend={backend!r}): NCCL comes with CuPy, which is not installed, or not with it. "
            "Install cupy, or leave the backend out: tensors of the host go through MPI. [nd-process-group]"
        )


def check_options(pg_options: Any) -> None:
    """Refuse options of a backend."""
    if pg_options is not None:
        raise NotImplementedError(
            f"pg_options={type(pg_options).__name__}: MPI and NCCL have no options here. Set them in the environment "
            "(MPIR_CVAR_..., NCCL_...), and leave pg_options out. [nd-unsupported]"
        )


def _check_rendezvous(init_method: str | None, store: Any) -> None:
    """Check the arguments by which torch's processes find each other. MPI's processes know each other."""
    if store is not None and not isinstance(store, Store):
        raise TypeError(
            f"init_process_group(store=...): expected a Store, but got {type(store).__name__}. The "
            "processes are those of MPI, which need no store. Leave it out. [nd-process-group]"
        )
    if init_method is not None and not init_method.startswith(("env://", "tcp://", "file://", "mpi://")):
        raise ValueError(
            f"init_process_group(init_method={init_method!r}): no rendezvous handler for this address. It may be "
            "env://, tcp://host:port or file:///path. It is not needed. [nd-process-group]"
        )


def _bind_device(device_id: Any) -> None:
    """Make a GPU the current device of this process."""
    if device_id is None:
        return
    from ndgrad import cuda  # GPUs are optional
    from ndgrad._src.foundations.devices import device as make_device

    found = make_device("cuda", device_id) if isinstance(device_id, int) else make_device(device_id)
    if found.type == "cuda":
        cuda.set_device(found)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the processes that `mpiexec` or `python -m ndgrad.launch` has started.

    MPI knows the rank and the number of processes. `rank` and `world_size` are optional and must agree with MPI.
    `init_method` is not needed. A GPU given as `device_id` becomes the current device. A process that was started
    alone is a world of one. A collective that not all ranks join raises on the waiting ranks after `timeout`.

    Args:
        backend: `"mpi"`, `"nccl"` or `"gloo"`. It is only checked, because the device of a tensor decides.
        init_method: address of a rendezvous, which is not needed and has no effect.
        timeout: time after which a collective that not all ranks join raises.
        world_size: number of processes, which must agree with MPI. -1 leaves it out.
        rank: rank of this process, which must agree with MPI. -1 leaves it out.
        store: a `Store`, by which torch's processes find each other. It is not needed and has no effect.
        group_name: name of the group.
        pg_options: must be None: backends read their options from the environment.
        device_id: GPU that becomes the current device.

    Raises:
        ValueError: if there is a process group already, or if an argument disagrees with MPI.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.get_rank(), ndgrad.distributed.get_world_size()
    (0, 1)
    >>> ndgrad.distributed.destroy_process_group()
    """
    if GroupMember.WORLD is not None:
        raise ValueError(
            "trying to initialize the default process group twice! Call destroy_process_group() in between. "
            "[nd-process-group]"
        )
    check_backend(backend)
    check_options(pg_options)
    _check_rendezvous(init_method, store)
    size, here, comm = _world()
    for given, found, name in ((world_size, size, "world_size"), (rank, here, "rank")):
        if given not in (-1, found):
            raise ValueError(
                f"init_process_group({name}={given}), and MPI says {found}. Start the processes with `mpiexec -n N "
                "python ...` "
                f"or `python -m ndgrad.launch -n N ...`, and leave {name} out. [nd-process-group]"
            )
    told = next((int(os.environ[n]) for n in _SIZES if os.environ.get(n, "").isdigit()), size)
    if told != size:
        raise ValueError(
            f"init_process_group(): WORLD_SIZE is {told} in the environment, and MPI sees {size} process"
            f"{'es' if size > 1 else ''}. Start the program with `mpiexec -n {told} python ...` or "
            f"`python -m ndgrad.launch -n {told} ...` (mpi4py must be installed: `pip install mpi4py mpich`). "
            "[nd-process-group]"
        )
    _bind_device(device_id)
    if size > 1:
        notices.open(comm.Dup())
        comm = comm.Dup()
    name = group_name or str(next(_numbers))
    world = ProcessGroup(
        f"group {name}", range(size), here, comm if size > 1 else None, _seconds(timeout), "default_pg"
    )
    _groups[world.name] = GroupMember.WORLD = world
    _divide_cores(size)


def _divide_cores(size: int) -> None:
    """Let kernels and BLAS of this rank use its share of the machine's cores, if they may use all of them.

    Ranks whose threads outnumber the cores wait in every kernel for a thread that has no core. A number that is set by
    the environment, by `set_num_threads` or by the cores that a launcher binds a rank to stays.
    """
    beside, cores = _ranks_per_machine(size), os.cpu_count() or 1
    if beside < 2 or threads.max_threads != cores:
        return
    share = max(1, cores // beside)
    if "NDGRAD_NUM_THREADS" not in os.environ:
        threads.set_max_threads(share)
    if not any(name in os.environ for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")):
        blas_threads.set_blas_threads(share)


def _world() -> tuple[int, int, Any]:
    if not is_available():
        return 1, 0, None
    try:
        from mpi4py import MPI  # starts MPI
    except (ImportError, RuntimeError) as error:  # mpi4py is installed, but finds no MPI library
        warnings.warn(
            f"mpi4py cannot be used, so this process is alone: {error}. `pip install mpich` brings an MPI library.",
            stacklevel=3,
        )
        return 1, 0, None
    world = MPI.COMM_WORLD
    return world.Get_size(), world.Get_rank(), world


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave a group, or without an argument all groups. All members call it.

    Args:
        group: group to leave. None means all groups.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.destroy_process_group()
    >>> ndgrad.distributed.is_initialized()
    False
    """
    found = world_group() if group is None else group
    if found is not GroupMember.WORLD:
        _groups.pop(found.name, None)
        found.free()
        return
    notices.close()
    for each in reversed(list(_groups.values())):
        each.free()
    _groups.clear()
    _made.clear()
    GroupMember.WORLD = None


def world_group() -> ProcessGroup:
    """Return the group of all processes; raise if there is none yet."""
    if GroupMember.WORLD is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group. "
            "[nd-process-group]"
        )
    return GroupMember.WORLD


def group_of(group: Any) -> ProcessGroup | None:
    """Return the group that an argument means, or None if this process is not in it."""
    if group is None:
        return world_group()
    return group if isinstance(group, ProcessGroup) else None


# ----- more groups ----------------------------------------------------------------------------------------------------


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Create a group of some ranks of the world. Other ranks get `GroupMember.NON_GROUP_MEMBER`. All ranks of the world
    call it, in the same order; with `use_local_synchronization`, only the members do.

    Args:
        ranks: ranks of the members in the world. The default is all.
        timeout: time after which a collective that not all ranks join raises. The default is that of the world.
        backend: `"mpi"`, `"nccl"` or `"gloo"`. It is only checked, because the device of a tensor decides.
        pg_options: must be None: backends read their options from the environment.
        use_local_synchronization: whether only the members make the call.
        group_desc: text that describes the group.
        device_id: GPU that becomes the current device.
        sort_ranks: whether members are ordered by their ranks in the world.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.new_group([0]).size()
    1
    >>> ndgrad.distributed.destroy_process_group()
    """
    world = world_group()
    check_backend(backend)
    check_options(pg_options)
    _bind_device(device_id)
    members = list(range(world.size())) if ranks is None else [int(r) for r in ranks]
    if sort_ranks:
        members.sort()
    outside = [r for r in members if not 0 <= r < world.size()]
    if outside or len(set(members)) != len(members):
        raise ValueError(
            f"new_group(ranks={list(members)}): "
            f"{'there is no rank ' + str(outside[0]) if outside else 'a rank comes twice'} in a "
            f"world of {world.size()}. Give different numbers from 0 to {world.size() - 1}. [nd-rank]"
        )
    if world.rank() not in members:
        if use_local_synchronization:
            raise ValueError(
                f"new_group(ranks={members}, use_local_synchronization=True): rank {world.rank()} is not a member, and "
                "only members call it. [nd-rank]"
            )
        next(_numbers)
        return GroupMember.NON_GROUP_MEMBER
    # Only the members know how many groups of these ranks there were, so names and tags depend on nothing else.
    before = _made[tuple(members)]
    _made[tuple(members)] += 1
    number = f"of {','.join(map(str, members))}#{before}" if use_local_synchronization else str(next(_numbers))
    comm = None
    if len(members) > 1:
        tag = zlib.crc32(repr((members, before)).encode()) % 32768
        comm = world.comm.Create_group(world.comm.Get_group().Incl(members), tag=tag)
    made = ProcessGroup(
        f"group {number}", members, members.index(world.rank()), comm,
        world.timeout if timeout is None else _seconds(timeout), group_desc or "",
    )  # fmt: skip
    _groups[made.name] = made
    return made


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Divide the ranks of `group`, by default the world, into groups of `group_size` neighbours. Return this process's
    group, and all groups. Without `group_size`, a group holds the ranks of one machine. All ranks of the world call it.

    Args:
        group_size: number of ranks of a group. The default is the number of ranks of a machine.
        group: group to divide. The default is the world.
        timeout: time after which a collective that not all ranks join raises. The default is that of the world.
        backend: `"mpi"`, `"nccl"` or `"gloo"`. It is only checked, because the device of a tensor decides.
        pg_options: must be None: backends read their options from the environment.
        group_desc: text that describes the group.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> own, every = ndgrad.distributed.new_subgroups(1)
    >>> own.size(), len(every)
    (1, 1)
    >>> ndgrad.distributed.destroy_process_group()
    """
    ranks = list((world_group() if group is None else group).ranks)
    count = _ranks_per_machine(len(ranks)) if group_size is None else group_size
    if count < 1 or len(ranks) % count:
        raise ValueError(
            f"new_subgroups(group_size={count}): {len(ranks)} ranks cannot be divided into groups of {count}. "
            "Give a divisor, or use new_subgroups_by_enumeration. [nd-divisible]"
        )
    parts = [ranks[i : i + count] for i in range(0, len(ranks), count)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def _ranks_per_machine(size: int) -> int:
    told = os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("MPI_LOCALNRANKS") or ""
    return int(told) if told.isdigit() else size


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Create a group for each list of ranks. Return this process's group (or None), and all groups.

    Args:
        ranks_per_subgroup_list: ranks of each group, in the world.
        timeout: time after which a collective that not all ranks join raises. The default is that of the world.
        backend: `"mpi"`, `"nccl"` or `"gloo"`. It is only checked, because the device of a tensor decides.
        pg_options: must be None: backends read their options from the environment.
        group_desc: text that describes the group.
    """
    every = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list
    ]
    own = next((g for g in every if isinstance(g, ProcessGroup)), None)
    return own, every


def twin_group(group: ProcessGroup, purpose: str) -> ProcessGroup:
    """Return a group of the same ranks with its own communicators, one for each purpose. Its collectives may come in
    another order than those of `group`. All members call it together.
    """
    if group.comm is None:
        return group
    name = f"{group.name} for {purpose}"
    known = _groups.get(name)
    if known is None:
        known = _groups[name] = ProcessGroup(name, group.ranks, group.rank(), group.comm.Dup(), group.timeout, purpose)
    return known


# ----- ranks and their numbers ----------------------------------------------------------------------------------------


def get_rank(group: Any = None) -> int:
    """Return the rank of this process in a group, or -1 if it is not in it.

    Args:
        group: process group. The default is the world.
    """
    found = group_of(group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """Return the number of processes in a group, or -1 if this process is not in it.

    Args:
        group: process group. The default is the world.
    """
    found = group_of(group)
    return -1 if found is None else found.size()


def get_backend(group: Any = None) -> str:
    """Return the string "mpi".

    Args:
        group: process group. The default is the world.
    """
    if group_of(group) is None:
        raise ValueError("Invalid process group specified: this process is not in it. [nd-rank]")
    return "mpi"


def get_default_backend_for_device(device: Any) -> str:
    """Return the backend that carries messages of a device: "nccl" for GPUs, else "mpi".

    Args:
        device: device or its name.

    >>> import ndgrad
    >>> ndgrad.distributed.get_default_backend_for_device("cpu")
    'mpi'
    """
    return "nccl" if str(getattr(device, "type", device)).partition(":")[0] == "cuda" else "mpi"


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank in a group of a rank of the world.

    Args:
        group: process group.
        global_rank: rank in the world.
    """
    if global_rank not in group.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group} [nd-rank]")
    return group.ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the rank in the world of a member of a group.

    Args:
        group: process group.
        group_rank: rank in the group.
    """
    if not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group} [nd-rank]")
    return group.ranks[group_rank]


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Return the world ranks of a group's members, in the group's order.

    Args:
        group: process group. The default is the world.
    """
    return list((world_group() if group is None else group).ranks)


def get_pg_count() -> int:
    """Return the number of groups that this process is in."""
    return len(_groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the rank of this process on its machine, from the launcher's environment variables.

    Args:
        fallback_rank: result if no launcher has set the variable. None raises RuntimeError then.
    """
    for name in _LOCAL_RANKS:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Please either set it, or provide a fallback_rank. mpiexec and "
        "`python -m ndgrad.launch` set it. [nd-environment]"
    )
