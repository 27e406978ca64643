"""`RRef`: a value that lives on one rank and is named on others.

The owner keeps a value as long as references to it exist. Every RRef on another rank has its own id. An RRef that is
passed on gets a new id. The rank that passes it on announces the id to the owner before it could release its own: see
the agent's Note [Order of messages]. An id that is released before it was announced is remembered until the
announcement.
"""

from __future__ import annotations

import itertools
from typing import Any, Generic, TypeVar

from ndgrad._src.foundations.locks import make_lock
from ndgrad.distributed.remote.agent import Agent, WorkerInfo, current_agent
from ndgrad.distributed.remote.contexts import RANK_BITS
from ndgrad.futures import Future

T = TypeVar("T")

_numbers = itertools.count(1)


def _new_id(rank: int) -> int:
    return (rank << RANK_BITS) | next(_numbers)


class _Owned:
    """A value of this rank, the ids that refer to it, and ids that were released before their announcement."""

    def __init__(self) -> None:
        self.value: Future[Any] = Future()
        self.known: set[int] = set()
        self.early: set[int] = set()


class Owned:
    """The values that this rank keeps for others."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._values: dict[int, _Owned] = {}
        self._lock = make_lock()
        agent.on_notice.update(named=self._add_name, unnamed=self._remove_name, value=self._value)

    def __len__(self) -> int:
        return len(self._values)

    def entry(self, number: int) -> _Owned:
        """Return a value's entry by its id; the value may not have arrived yet."""
        with self._lock:
            found = self._values.get(number)
            if found is None:
                found = self._values[number] = _Owned()
            return found

    def _add_name(self, source: int, said: tuple[int, int]) -> None:
        number, name = said
        entry = self.entry(number)
        with self._lock:
            if name in entry.early:
                entry.early.discard(name)
                self._drop_unnamed(number)
            else:
                entry.known.add(name)

    def _remove_name(self, source: int, said: tuple[int, int]) -> None:
        number, name = said
        with self._lock:
            entry = self._values.get(number)
            if entry is None:
                return
            if name in entry.known:
                entry.known.discard(name)
                self._drop_unnamed(number)
            else:
                entry.early.add(name)

    def _drop_unnamed(self, number: int) -> None:
        entry = self._values[number]
        if not entry.known and not entry.early:
            del self._values[number]

    def _value(self, source: int, said: tuple[int, Any, BaseException | None]) -> None:
        number, value, error = said
        entry = self.entry(number)
        if error is None:
            entry.value.set_result(value)
        else:
            entry.value.set_exception(error)


_tables: dict[int, Owned] = {}


def owned_by(agent: Agent) -> Owned:
    """Return the values that an agent's rank keeps."""
    found = _tables.get(id(agent))
    if found is None:
        _tables.clear()  # values of an agent that is gone
        found = _tables[id(agent)] = Owned(agent)
    return found


def _value_of(number: int, seconds: float | None) -> Any:
    """Return the value on its owner, when it is available."""
    agent = current_agent()
    future = owned_by(agent).entry(number).value
    if not agent.wait_until(future.done, seconds):
        raise TimeoutError(f"RRef: its value was not there on rank {agent.rank} after {seconds:g} s. [nd-peer]")
    return future.wait()


def _call_method(number: int, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(_value_of(number, None), name)(*args, **kwargs)


def _backward_of(number: int, context_id: int, retain_graph: bool) -> None:
    from ndgrad.distributed.remote.backward import backward  # avoids an import cycle

    backward(context_id, [_value_of(number, None)], retain_graph)


class RRef(Generic[T]):
    """Reference to a value on some rank. `RRef(value)` refers to a value of this rank; `remote` creates a value on
    another.

    Args:
        value: value of this rank.
        type_hint: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> from ndgrad.distributed import rpc
    >>> rpc.init_rpc("worker")
    >>> reference = rpc.RRef(ndgrad.ones(2))
    >>> reference.to_here(), reference.owner_name()
    (tensor([1., 1.]), 'worker')
    >>> rpc.shutdown()
    """

    __slots__ = ("__weakref__", "_name", "_number", "_owner")

    def __init__(self, value: T, type_hint: Any = None) -> None:
        agent = current_agent()
        self._owner, self._number, self._name = agent.rank, _new_id(agent.rank), _new_id(agent.rank)
        table = owned_by(agent)
        table._add_name(agent.rank, (self._number, self._name))
        table.entry(self._number).value.set_result(value)

    @classmethod
    def _create(cls, owner: int, number: int, name: int) -> RRef[Any]:
        made: RRef[Any] = cls.__new__(cls)
        made._owner, made._number, made._name = owner, number, name
        return made

    # ----- owners and users ---

    def is_owner(self) -> bool:
        """True if the value lies on this rank."""
        return self._owner == current_agent().rank

    def owner(self) -> WorkerInfo:
        """Return the worker that has the value."""
        return current_agent().workers[self._owner]

    def owner_name(self) -> str:
        """Return the owner's name."""
        return self.owner().name

    def confirmed_by_owner(self) -> bool:
        """Return True: messages are ordered, so the owner always knows of a reference before its use."""
        return True

    # ----- the value -----

    def to_here(self, timeout: float = -1.0) -> T:
        """Return the value, copied to this rank unless it is the owner; tensors keep their place in the graph.

        Args:
            timeout: seconds until the call fails. A negative number means the limit of `init_rpc`.
        """
        agent = current_agent()
        if self._owner == agent.rank:
            value: T = _value_of(self._number, None)
            return value
        seconds = None if timeout < 0 else timeout
        found: T = agent.call(self._owner, _value_of, (self._number, seconds), seconds=seconds, copy=False).wait()
        return found

    def local_value(self) -> T:
        """Return the value itself, on its owner."""
        if not self.is_owner():
            raise RuntimeError(
                f"RRef.local_value(): the value is on {self.owner_name()} (rank {self._owner}). Use to_here(), which "
                "copies it, or call a function there. [nd-rank]"
            )
        value: T = _value_of(self._number, None)
        return value

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Run backward from the scalar value: in a context of `distributed.autograd`, or on the owner alone.

        Args:
            dist_autograd_ctx_id: number of a context of `distributed.autograd`. -1 runs an ordinary backward pass, on
                the owner.
            retain_graph: whether the graph stays for another backward pass.
        """
        if dist_autograd_ctx_id == -1:
            if not self.is_owner():
                raise RuntimeError(
                    "RRef.backward(): on another rank than the owner it needs a context id. [nd-arguments]"
                )
            value: Any = self.local_value()
            value.backward(retain_graph=retain_graph)
            return
        agent = current_agent()
        agent.call(
            self._owner, _backward_of, (self._number, dist_autograd_ctx_id, retain_graph), record=False, seconds=0
        ).wait()

    # ----- methods of the value, where it is -----

    def rpc_sync(self, timeout: float = -1.0) -> Any:
        """Return a proxy whose methods run on the owner: `ref.rpc_sync().size(0)`.

        Args:
            timeout: seconds until the call fails. A negative number means the limit of `init_rpc`.
        """
        return _Proxy(self, lambda f: f.wait(), timeout)

    def rpc_async(self, timeout: float = -1.0) -> Any:
        """Return a proxy whose methods run on the owner and return futures.

        Args:
            timeout: seconds until the call fails. A negative number means the limit of `init_rpc`.
        """
        return _Proxy(self, lambda f: f, timeout)

    def remote(self, timeout: float = -1.0) -> Any:
        """Return a proxy whose methods run on the owner and return references to results, which stay there.

        Args:
            timeout: seconds until the call fails. A negative number means the limit of `init_rpc`.
        """
        return _Proxy(self, None, timeout)

    # ----- its life -----

    def __reduce__(self) -> Any:
        agent = current_agent()
        name = _new_id(agent.rank)
        if self._owner == agent.rank:
            owned_by(agent)._add_name(agent.rank, (self._number, name))
        else:
            agent.tell(self._owner, "named", (self._number, name))
        return _rebuild_reference, (self._owner, self._number, name)

    def __del__(self) -> None:
        try:
            agent = current_agent()
            if self._owner == agent.rank:
                owned_by(agent)._remove_name(agent.rank, (self._number, self._name))
            else:
                agent.tell(self._owner, "unnamed", (self._number, self._name))
        except Exception:  # rpc was shut down, or the interpreter is ending: no values are kept
            return

    def __repr__(self) -> str:
        return f"RRef(value {self._number & ((1 << RANK_BITS) - 1)} of rank {self._owner})"


class _Proxy:
    """The methods of a value on another rank."""

    def __init__(self, reference: RRef[Any], answer: Any, timeout: float) -> None:
        self._reference, self._answer, self._timeout = reference, answer, timeout

    def __getattr__(self, name: str) -> Any:
        reference, answer = self._reference, self._answer
        seconds = None if self._timeout < 0 else self._timeout

        def method(*args: Any, **kwargs: Any) -> Any:
            given = (reference._number, name, args, kwargs)
            if answer is None:
                return start_remote(reference._owner, _call_method, given, None, seconds)
            return answer(current_agent().call(reference._owner, _call_method, given, seconds=seconds))

        return method


def _rebuild_reference(owner: int, number: int, name: int) -> RRef[Any]:
    return RRef._create(owner, number, name)


def start_remote(
    peer: int, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, seconds: float | None
) -> RRef[Any]:
    """Call a function on a rank, which keeps the result; return a reference to it."""
    agent = current_agent()
    table = owned_by(agent)  # listens from now on
    made: RRef[Any] = RRef._create(peer, _new_id(agent.rank), _new_id(agent.rank))
    if peer == agent.rank:
        table._add_name(peer, (made._number, made._name))
    else:
        agent.tell(peer, "named", (made._number, made._name))
    agent.call(peer, function, args, kwargs, seconds=seconds, keep_as=made._number)
    return made
