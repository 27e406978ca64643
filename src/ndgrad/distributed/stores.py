"""Key-value stores that processes share, under torch's names: in one process, over TCP, or in a file.

MPI makes the process groups, so no group needs a store. Programs use stores to agree on small facts: counters, names of
files, who is done.

Note [Operations of a store]
The operations of a store are methods of `_Table`: each is atomic and never waits. A store differs from another in the
way to its table: `HashStore` holds it behind a lock, `TCPStore` sends operations to the process that holds it, and
`FileStore` replays the operations that all processes have appended to a file. A caller that waits repeats an operation
until it succeeds or its time is over, so no other caller has to wait.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import struct
import threading
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ndgrad._src.foundations.locks import holds_any, make_lock
from ndgrad.distributed.errors import DistNetworkError, DistStoreError, QueueEmptyError

if TYPE_CHECKING:
    from socket import socket

T = TypeVar("T")

#: Default time for which an operation waits, as torch's.
_TIMEOUT = timedelta(seconds=300)
#: Seconds between two attempts: the first, and the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02
#: Largest message in bytes. A longer one is a sign of another protocol at the port.
_LARGEST = 1 << 30


class _Table:
    """Keys with their values, and queues of values."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: defaultdict[str, deque[bytes]] = defaultdict(deque)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def add(self, key: str, amount: int) -> int | None:
        """Return the sum; None if the value is not a number."""
        try:
            made = int(self.values.get(key, b"0")) + amount
        except ValueError:
            return None
        self.values[key] = str(made).encode()
        return made

    def append(self, key: str, value: bytes) -> None:
        self.values[key] = self.values.get(key, b"") + value

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        present = self.values.get(key)
        if present is None and expected:
            return expected
        if present is None or present == expected:
            self.values[key] = present = desired
        return present

    def check(self, keys: Sequence[str]) -> bool:
        return all(key in self.values for key in keys)

    def delete_key(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    def list_keys(self) -> list[str]:
        return sorted(self.values)

    def queue_push(self, key: str, value: bytes) -> None:
        self.queues[key].append(value)

    def queue_pop(self, key: str) -> bytes | None:
        return self.queues[key].popleft() if self.queues.get(key) else None

    def queue_len(self, key: str) -> int:
        return len(self.queues.get(key, ()))


#: Operations that leave a table as it was.
_READING = frozenset(("get", "check", "list_keys", "queue_len"))
_OPERATIONS = frozenset(name for name in vars(_Table) if not name.startswith("_"))


class Store:
    """Base class of stores. Values are bytes; a text is stored in UTF-8.

    Args:
        timeout: time for which an operation waits for a key.
    """

    def __init__(self, timeout: timedelta = _TIMEOUT) -> None:
        self._timeout = timeout

    def _run(self, operation: str, *args: Any) -> Any:
        """Run an operation of `_Table`, in one step."""
        raise NotImplementedError(f"{type(self).__name__} is not a store with operations. [nd-store]")

    # ----- values -----

    def set(self, key: str, value: str | bytes) -> None:
        """Set the value of a key.

        Args:
            key: name of the value.
            value: text or bytes.
        """
        self._run("set", key, _encode(value))

    def get(self, key: str) -> bytes:
        """Return the value of a key, as soon as the key exists.

        Args:
            key: name of the value.
        """
        found: bytes = self._wait_for(functools.partial(self._run, "get", key), [key], None)
        return found

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key has as text, which is 0 for a new key. Return the sum.

        Args:
            key: name of the counter.
            amount: number to add.
        """
        made: int | None = self._run("add", key, int(amount))
        if made is None:
            raise ValueError(
                f"Store.add({key!r}, {amount}): the value of the key is not an integer. Use set() for values, and "
                "another key for a counter. [nd-store]"
            )
        return made

    def append(self, key: str, value: str | bytes) -> None:
        """Append to the value of a key, which is empty for a new key.

        Args:
            key: name of the value.
            value: text or bytes.
        """
        self._run("append", key, _encode(value))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set the value of a key if it has the expected one. Return the value after the call.

        Args:
            key: name of the value. A key that does not exist is set if the expected value is empty. Otherwise it stays
                absent, and the call returns the expected value.
            expected_value: value that the key must have.
            desired_value: new value.
        """
        found: bytes = self._run("compare_set", key, _encode(expected_value), _encode(desired_value))
        return found

    def check(self, keys: Sequence[str]) -> bool:
        """True if all keys exist.

        Args:
            keys: names of values.
        """
        found: bool = self._run("check", _list_of_keys(keys))
        return found

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys exist.

        Args:
            keys: names of values.
            timeout: longest time to wait. None means the timeout of the store.

        Raises:
            DistStoreError: if the time is over.
        """
        names = _list_of_keys(keys)
        self._wait_for(lambda: self.check(names) or None, names, timeout)

    def delete_key(self, key: str) -> bool:
        """Delete a key. Return True if it existed.

        Args:
            key: name of the value.
        """
        found: bool = self._run("delete_key", key)
        return found

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys, as soon as all exist.

        Args:
            keys: names of values.
        """
        return [self.get(key) for key in _list_of_keys(keys)]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set the values of several keys.

        Args:
            keys: names of values.
            values: one text or bytes object per key.
        """
        names = _list_of_keys(keys)
        if len(names) != len(values):
            raise ValueError(
                f"Store.multi_set: {len(names)} keys and {len(values)} values. Give one value per key. [nd-store]"
            )
        for key, value in zip(names, values, strict=True):
            self.set(key, value)

    def list_keys(self) -> list[str]:
        """Return the names of all keys, sorted."""
        found: list[str] = self._run("list_keys")
        return found

    def num_keys(self) -> int:
        """Return the number of keys."""
        return len(self.list_keys())

    # ----- queues -----

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Append a value to a queue.

        Args:
            key: name of the queue. Queues and values have separate names.
            value: text or bytes.
        """
        self._run("queue_push", key, _encode(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Remove the first value of a queue, and return it.

        Args:
            key: name of the queue.
            block: wait until the queue has a value.

        Raises:
            QueueEmptyError: if the queue is empty and `block` is False.
        """
        if block:
            made: bytes = self._wait_for(functools.partial(self._run, "queue_pop", key), [key], None)
            return made
        found: bytes | None = self._run("queue_pop", key)
        if found is None:
            raise QueueEmptyError(f"queue {key!r} is empty. Pass block=True to wait for a value. [nd-store]")
        return found

    def queue_len(self, key: str) -> int:
        """Return the number of values in a queue.

        Args:
            key: name of the queue.
        """
        found: int = self._run("queue_len", key)
        return found

    # ----- waiting -----

    @property
    def timeout(self) -> timedelta:
        """Time for which an operation waits for a key."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time for which an operation waits for a key.

        Args:
            timeout: the time.
        """
        self._timeout = timeout

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until `world_size` callers have called this method with the key.

        Args:
            key: name of the barrier, for one use.
            world_size: number of callers.
            timeout: longest time to wait. None means the timeout of the store.
        """
        if self.add(f"{key}/arrived", 1) >= world_size:
            self.set(f"{key}/open", b"1")
        self.wait([f"{key}/open"], timeout)

    def has_extended_api(self) -> bool:
        """True: `append`, `multi_get` and `multi_set` work."""
        return True

    def clone(self) -> Store:
        """Return another store with the same contents, for use in another thread."""
        return self

    def _wait_for(self, attempt: Callable[[], T | None], keys: Sequence[str], timeout: timedelta | None) -> T:
        """Repeat an attempt until it returns a value."""
        limit = self.timeout if timeout is None else timeout
        end = time.monotonic() + limit.total_seconds()
        pause = _FIRST_PAUSE
        while (found := attempt()) is None:
            left = end - time.monotonic()
            if left <= 0:
                raise DistStoreError(
                    f"wait timeout after {limit.total_seconds() * 1000:.0f} ms, keys: {', '.join(keys)}. "
                    "No process has set them. Check that all processes run, or raise the limit by set_timeout(). "
                    "[nd-store]"
                )
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        return found


class HashStore(Store):
    """A store for the threads of one process.

    >>> from ndgrad.distributed import HashStore
    >>> store = HashStore()
    >>> store.set("step", "10")
    >>> store.add("step", 5), store.get("step")
    (15, b'15')
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = _Table()
        self._lock = make_lock()

    def _run(self, operation: str, *args: Any) -> Any:
        with self._lock:
            return getattr(self._table, operation)(*args)


class PrefixStore(Store):
    """A part of another store: each key gets a prefix.

    Args:
        prefix: text before each key, followed by a slash.
        store: store that holds the values.

    >>> from ndgrad.distributed import HashStore, PrefixStore
    >>> whole = HashStore()
    >>> PrefixStore("first", whole).set("name", "a")
    >>> whole.list_keys()
    ['first/name']
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(store.timeout)
        self.prefix = prefix
        #: The store that holds the values.
        self.underlying_store = store

    def _run(self, operation: str, *args: Any) -> Any:
        if operation == "list_keys":
            start = f"{self.prefix}/"
            return [k.removeprefix(start) for k in self.underlying_store.list_keys() if k.startswith(start)]
        keys, *rest = args
        named = [f"{self.prefix}/{k}" for k in keys] if isinstance(keys, list) else f"{self.prefix}/{keys}"
        return self.underlying_store._run(operation, named, *rest)

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time for which an operation waits for a key, of the underlying store, too.

        Args:
            timeout: the time.
        """
        super().set_timeout(timeout)
        self.underlying_store.set_timeout(timeout)

    def clone(self) -> PrefixStore:
        return PrefixStore(self.prefix, self.underlying_store.clone())


# ----- a file ---------------------------------------------------------------------------------------------------------


class FileStore(Store):
    """A store in a file that all processes can write.

    Args:
        file_name: path of the file, which is made if it does not exist.
        world_size: number of processes that use the file. The last of them deletes it at its end. -1 keeps the file.

    >>> import os, tempfile
    >>> from ndgrad.distributed import FileStore
    >>> path = os.path.join(tempfile.mkdtemp(), "store")
    >>> first, second = FileStore(path, 2), FileStore(path, 2)
    >>> first.set("key", "value")
    >>> second.get("key")
    b'value'
    """

    def __init__(self, file_name: str | os.PathLike[str], world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)
        self._world_size = world_size
        self._log = _Log(self.path)
        self._finish = weakref.finalize(self, _leave_file, self._log, world_size)
        self._log.run("open", "add", _USERS, 1)

    def _run(self, operation: str, *args: Any) -> Any:
        made = self._log.run("open", operation, *args)
        return [k for k in made if not k.startswith(_OWN)] if operation == "list_keys" else made

    def clone(self) -> FileStore:
        return FileStore(self.path, self._world_size)


#: Keys of the file store itself: processes that have opened the file, and those that have left.
_OWN = "ndgrad file store/"
_USERS, _LEFT = f"{_OWN}users", f"{_OWN}left"


class _Log:
    """The operations that processes have appended to a file, and the table that they make."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._table = _Table()
        self._read = 0
        self._lock = make_lock()

    def run(self, mode: str, operation: str, *args: Any) -> Any:
        """Run an operation on the table after all operations in the file, and append it. Mode `"end"` returns None
        if the file is gone."""
        flags = os.O_RDWR | (os.O_CREAT if mode == "open" else 0) | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            if mode == "end":
                return None
            raise
        with self._lock, os.fdopen(descriptor, "r+b") as file, _locked(file):
            file.seek(self._read)
            for record in file:
                if not record.endswith(b"\n"):  # its process was killed while it wrote
                    file.truncate(self._read)
                    break
                name, *given = _load(record)
                getattr(self._table, name)(*given)
                self._read += len(record)
            if operation in _READING:
                return getattr(self._table, operation)(*args)
            record = _dump([operation, *args]) + b"\n"
            file.seek(self._read)
            file.write(record)
            file.flush()
            self._read += len(record)
            return getattr(self._table, operation)(*args)


def _leave_file(log: _Log, world_size: int) -> None:
    """Delete the file of a store if the last of its processes leaves."""
    if holds_any():  # garbage collection inside an operation, which holds the lock of the file
        return
    left = log.run("end", "add", _LEFT, 1)
    if left is not None and 0 < world_size <= left and left == log.run("end", "add", _USERS, 0):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(log.path)


@contextlib.contextmanager
def _locked(file: Any) -> Iterator[None]:
    """Hold the lock of a file, which other processes wait for."""
    try:
        import fcntl  # not on Windows
    except ImportError:
        import msvcrt  # only on Windows

        lock: Any = msvcrt
        place = file.tell()
        file.seek(0)
        while True:
            try:
                lock.locking(file.fileno(), lock.LK_LOCK, 1)
                break
            except OSError:  # it gives up after ten attempts
                continue
        file.seek(place)
        try:
            yield
        finally:
            file.seek(0)
            lock.locking(file.fileno(), lock.LK_UNLCK, 1)
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


# ----- TCP ------------------------------------------------------------------------------------------------------------


class TCPStore(Store):
    """A store in one process, the master, which the others reach over TCP.

    Messages are neither encrypted nor authenticated, as in torch. Use it in networks that you trust. A master at
    `"localhost"` listens on the loopback interface alone.

    Args:
        host_name: name or address of the master.
        port: port of the master. 0 lets the master choose a free one, see `port`.
        world_size: number of processes that use the store. None if it is not known.
        is_master: True in the process that holds the values.
        timeout: time for which connecting and waiting for keys last at most.
        wait_for_workers: let the master wait until `world_size` processes are connected.
        multi_tenant: let several stores of one process share one master at a port.
        master_listen_fd: descriptor of a socket that listens already, for the master.
        use_libuv: torch's choice of an event loop, without effect here.

    Raises:
        DistNetworkError: if the port is in use, or the master cannot be reached.
        DistStoreError: if not all processes have connected in time.

    >>> from ndgrad.distributed import TCPStore
    >>> master = TCPStore("localhost", 0, 1, is_master=True)
    >>> worker = TCPStore("localhost", master.port, is_master=False)
    >>> worker.set("key", "value")
    >>> master.get("key")
    b'value'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__(timeout)
        #: Name or address of the master.
        self.host = host_name
        self._server = _serve(host_name, int(port), multi_tenant, master_listen_fd) if is_master else None
        #: Port of the master.
        self.port = int(port) if self._server is None else self._server.port
        self._connection = _Connection(self.host, self.port, timeout)
        weakref.finalize(self, self._connection.close)
        joined = self.add(_JOINED, 1)
        if is_master and wait_for_workers and world_size is not None:
            end = time.monotonic() + timeout.total_seconds()
            while joined < world_size:
                if time.monotonic() > end:
                    raise DistStoreError(
                        f"TCPStore: {joined} of {world_size} processes connected to {host_name}:{self.port} within "
                        f"{timeout.total_seconds():g} s. Start the others, or pass wait_for_workers=False. [nd-store]"
                    )
                time.sleep(_LONGEST_PAUSE)
                joined = self.add(_JOINED, 0)

    def __repr__(self) -> str:
        return f"TCPStore({self.host!r}, {self.port}, is_master={self._server is not None})"

    def _run(self, operation: str, *args: Any) -> Any:
        made = self._connection.request(operation, args)
        return [k for k in made if k != _JOINED] if operation == "list_keys" else made

    def clone(self) -> TCPStore:
        return TCPStore(self.host, self.port, timeout=self.timeout)


_JOINED = "ndgrad tcp store/joined"
#: Masters of this process by port, for stores that share one.
_servers: weakref.WeakValueDictionary[int, _Server] = weakref.WeakValueDictionary()


class _Server:
    """The master: a thread that accepts connections, and a thread per connection."""

    def __init__(self, listener: socket) -> None:
        self.port: int = listener.getsockname()[1]
        self.table = HashStore()
        threading.Thread(
            target=_accept, args=(listener, self.table), name=f"TCPStore {self.port}", daemon=True
        ).start()
        weakref.finalize(self, _close, listener)


def _serve(host: str, port: int, multi_tenant: bool, descriptor: int | None) -> _Server:
    """Return the master of this process at a port."""
    import socket  # stores of one process need none

    known = _servers.get(port) if multi_tenant and port else None
    if known is not None:
        return known
    try:
        if descriptor is not None:
            listener = socket.socket(fileno=descriptor)
        else:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            is_local = address[0] in ("::1", "localhost") or str(address[0]).startswith("127.")
            listener = socket.create_server((address[0] if is_local else "", port), family=family, backlog=1024)
    except OSError as error:
        raise DistNetworkError(
            f"TCPStore: the master cannot listen at {host}:{port}: {error}. Choose a free port, or 0. [nd-store]"
        ) from error
    server = _Server(listener)
    _servers[server.port] = server
    return server


def _accept(listener: socket, table: HashStore) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # the listener is closed
            return
        threading.Thread(target=_answer, args=(connection, table), daemon=True).start()


def _answer(connection: socket, table: HashStore) -> None:
    """Answer the requests of one connection until it ends."""
    with connection:
        while True:
            try:
                operation, *args = _load(_receive(connection))
                if operation not in _OPERATIONS:
                    return
            except (OSError, DistNetworkError, ValueError, TypeError, KeyError):
                return  # the other side has left, or does not speak this protocol
            try:
                _send(connection, _dump([table._run(operation, *args)]))
            except (OSError, TypeError, AttributeError):  # the same
                return


class _Connection:
    """The way of one store to its master. Threads take turns."""

    def __init__(self, host: str, port: int, timeout: timedelta) -> None:
        self._place = f"{host}:{port}"
        self._open = functools.partial(_connect, host, port, timeout)
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._lock = make_lock()
        self._socket = self._open()

    def request(self, operation: str, args: tuple[Any, ...]) -> Any:
        """Return the result of an operation at the master."""
        if self._process != os.getpid():  # a forked child must not share the connection of its parent
            self._start()
        with self._lock:
            try:
                _send(self._socket, _dump([operation, *args]))
                (made,) = _load(_receive(self._socket))
            except (OSError, DistNetworkError) as error:
                self.close()
                raise DistNetworkError(
                    f"TCPStore: the master at {self._place} has left. It must live as long as the other processes use "
                    "the store. [nd-store]"
                ) from error
            except BaseException:  # an interrupt between request and reply: the next reply would be the wrong one
                self.close()
                raise
        return made

    def close(self) -> None:
        _close(self._socket)


def _connect(host: str, port: int, timeout: timedelta) -> socket:
    """Return a connection to a master, which may not have started yet."""
    import socket  # stores of one process need none

    end = time.monotonic() + timeout.total_seconds()
    while True:
        try:
            made = socket.create_connection((host, port), max(0.1, end - time.monotonic()))
            break
        except OSError as error:
            if time.monotonic() + _LONGEST_PAUSE > end:
                raise DistNetworkError(
                    f"TCPStore: no master answers at {host}:{port} within {timeout.total_seconds():g} s ({error}). "
                    "Start the process with is_master=True, and check host and port. [nd-store]"
                ) from error
            time.sleep(_LONGEST_PAUSE)
    made.settimeout(None)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _close(connection: socket) -> None:
    import socket  # stores of one process need none

    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _send(connection: socket, message: bytes) -> None:
    connection.sendall(struct.pack("!Q", len(message)) + message)


def _receive(connection: socket) -> bytes:
    (size,) = struct.unpack("!Q", _receive_exactly(connection, 8))
    if size > _LARGEST:
        raise DistNetworkError(f"a message of {size} bytes, from a program that is no store. [nd-store]")
    return _receive_exactly(connection, size)


def _receive_exactly(connection: socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = connection.recv(min(size - len(found), 1 << 20))
        if not part:
            raise DistNetworkError("the connection was closed [nd-store]")
        found += part
    return bytes(found)


# ----- messages -------------------------------------------------------------------------------------------------------


def _dump(items: list[Any]) -> bytes:
    """Return a list of texts, numbers, bytes and lists of texts as JSON, in which bytes are marked."""
    return json.dumps([{"b": i.decode("latin-1")} if isinstance(i, bytes) else i for i in items]).encode()


def _load(message: bytes) -> list[Any]:
    return [i["b"].encode("latin-1") if isinstance(i, dict) else i for i in json.loads(message)]


def _encode(value: str | bytes) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(
        f"the value of a store must be a text or bytes, but got {type(value).__name__}. Convert it with str(). "
        "[nd-store]"
    )


def _list_of_keys(keys: Sequence[str]) -> list[str]:
    if isinstance(keys, str):
        raise TypeError(f"a list of keys is expected, but got the text {keys!r}. Write [{keys!r}]. [nd-store]")
    return list(keys)
