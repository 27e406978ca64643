"""Key-value stores: the same operations in one process, over TCP and in a file, beside a dict as the oracle."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import ndgrad.distributed as dist
from ndgrad.distributed import DistNetworkError, DistStoreError, FileStore, HashStore, PrefixStore, QueueEmptyError, Store, TCPStore

SHORT = timedelta(milliseconds=30)
KINDS = ("hash", "file", "tcp", "prefix", "prefix of tcp")


def make(kind: str, folder: Path) -> Store:
    match kind:
        case "hash":
            return HashStore()
        case "file":
            return FileStore(folder / "store")
        case "tcp":
            return TCPStore("localhost", 0, 1, is_master=True)
        case "prefix":
            return PrefixStore("part", HashStore())
    return PrefixStore("part", TCPStore("localhost", 0, 1, is_master=True))


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make(request.param, tmp_path)


class Oracle:
    """The operations on a dict."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes:
        return self.values[key]

    def append(self, key: str, value: bytes) -> None:
        self.values[key] = self.values.get(key, b"") + value

    def check(self, keys: list[str]) -> bool:
        return set(keys) <= set(self.values)

    def delete_key(self, key: str) -> bool:
        return bool(self.values.pop(key, b""))

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        if self.values.get(key, b"") == expected:
            self.values[key] = desired
        return self.values.get(key, expected)

    def list_keys(self) -> list[str]:
        return sorted(self.values)


def test_random_operations_equal_those_on_a_dict(store: Store) -> None:
    oracle, draw = Oracle(), random.Random(7)
    values = [bytes([draw.randrange(256) for _ in range(draw.randrange(1, 9))]) for _ in range(6)] + [b"\n", b"\x00"]
    for _ in range(150):
        key = draw.choice("abc")
        name, args = draw.choice([
            ("set", (key, draw.choice(values))), ("append", (key, draw.choice(values))), ("delete_key", (key,)),
            ("check", ([key, draw.choice("abc")],)), ("list_keys", ()),
            ("compare_set", (key, oracle.values.get(key, b"") if draw.random() < 0.6 else b"other", draw.choice(values))),
            *([("get", (key,))] if key in oracle.values else []),
        ])  # fmt: skip
        assert getattr(store, name)(*args) == getattr(oracle, name)(*args), (name, args)
    assert store.num_keys() == len(oracle.values)


def test_counters_are_texts(store: Store) -> None:
    assert (store.add("n", 5), store.add("n", -7), store.get("n")) == (5, -2, b"-2")
    store.set("n", "41")
    assert store.add("n", 1) == 42
    store.set("n", "many")
    with pytest.raises(ValueError, match=r"'n', 1\): the value of the key is not an integer.*\[nd-store\]"):
        store.add("n", 1)
    assert store.get("n") == b"many"  # the store works on


def test_texts_are_utf_8_and_several_keys_at_once(store: Store) -> None:
    store.multi_set(["first", "second"], ["é", b"\xff"])
    assert store.multi_get(["second", "first"]) == [b"\xff", "é".encode()]
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        store.multi_set(["first", "second"], ["1"])
    with pytest.raises(TypeError, match="must be a text or bytes, but got int"):
        store.set("first", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Write \['first'\]"):
        store.wait("first")


def test_waiting_ends_after_the_timeout_and_the_store_works_on(store: Store) -> None:
    store.set_timeout(SHORT)
    assert store.timeout == SHORT
    for attempt in (lambda: store.get("absent"), lambda: store.wait(["absent"]), lambda: store.queue_pop("absent")):
        with pytest.raises(DistStoreError, match=r"wait timeout after 30 ms, keys: absent\..*\[nd-store\]"):
            attempt()
    store.set("absent", "1")
    store.wait(["absent"], SHORT)
    assert store.get("absent") == b"1"


def test_a_waiting_thread_gets_what_another_sets(store: Store) -> None:
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(store.clone().get("late")))
    reader.start()
    store.set("late", "now")
    reader.join(20)
    assert found == [b"now"]


def test_queues_are_first_in_first_out(store: Store) -> None:
    for value in ("1", "2"):
        store.queue_push("q", value)
    assert store.queue_len("q") == 2
    assert not store.check(["q"])
    assert [store.queue_pop("q"), store.queue_pop("q", block=False)] == [b"1", b"2"]
    with pytest.raises(QueueEmptyError, match="queue 'q' is empty"):
        store.queue_pop("q", block=False)


def test_concurrent_counts_lose_nothing(store: Store) -> None:
    stores = [store.clone() for _ in range(4)]
    threads = [threading.Thread(target=lambda s=s: [s.add("n", 1) for _ in range(25)]) for s in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get("n") == b"100"


def test_prefixes_keep_parts_apart() -> None:
    whole = HashStore()
    one, two = PrefixStore("one", whole), PrefixStore("two", PrefixStore("inner", whole))
    one.set("k", "1")
    two.set("k", "2")
    assert (one.get("k"), two.get("k"), whole.list_keys()) == (b"1", b"2", ["inner/two/k", "one/k"])
    assert (one.num_keys(), one.list_keys(), one.underlying_store) == (1, ["k"], whole)


# ----- several processes ----------------------------------------------------------------------------------------------


def work(kind: str, place: Any, rank: int, size: int) -> None:
    store: Store = FileStore(place, size) if kind == "file" else TCPStore("localhost", place, size)
    store.set(f"rank {rank}", str(rank * rank))
    for _ in range(20):
        store.add("count", 1)
    store.barrier("all", size, timedelta(seconds=60))
    if rank == 0:
        store.set("total", str(sum(int(store.get(f"rank {r}")) for r in range(size))))
    assert store.get("total") == str(sum(r * r for r in range(size))).encode()
    store.barrier("end", size, timedelta(seconds=60))


@contextlib.contextmanager
def processes(kind: str, place: Any, ranks: range, size: int) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=work, args=(kind, place, rank, size)) for rank in ranks]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.join(60)
            assert process.exitcode == 0


def test_processes_share_a_file_and_the_last_deletes_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with processes("file", path, range(2), 2):
        pass
    assert not path.exists()


def test_processes_share_a_master() -> None:
    master = TCPStore("localhost", 0, is_master=True)
    with processes("tcp", master.port, range(1, 3), 3):
        work("tcp", master.port, 0, 3)
    assert master.get("count") == b"60"


@pytest.mark.skipif(not hasattr(multiprocessing, "get_context") or "fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
def test_a_forked_child_has_a_connection_of_its_own() -> None:
    master = TCPStore("localhost", 0, is_master=True)
    child = multiprocessing.get_context("fork").Process(target=lambda: [master.add("n", 1) for _ in range(200)])
    child.start()
    for _ in range(200):
        master.add("n", 1)
    child.join(60)
    assert (child.exitcode, master.get("n")) == (0, b"400")


# ----- faults ---------------------------------------------------------------------------------------------------------


def test_missing_master_and_missing_workers_are_named() -> None:
    with contextlib.closing(socket.create_server(("localhost", 0))) as free:
        port = free.getsockname()[1]
    with pytest.raises(DistNetworkError, match=rf"no master answers at localhost:{port} within 0.05 s"):
        TCPStore("localhost", port, timeout=timedelta(milliseconds=50))
    with pytest.raises(DistStoreError, match="1 of 2 processes connected"):
        TCPStore("localhost", 0, 2, is_master=True, timeout=SHORT)


def test_a_port_in_use_is_refused_and_shared_on_request() -> None:
    first = TCPStore("localhost", 0, is_master=True, multi_tenant=True)
    with pytest.raises(DistNetworkError, match=rf"cannot listen at localhost:{first.port}"):
        TCPStore("localhost", first.port, is_master=True)
    second = TCPStore("localhost", first.port, is_master=True, multi_tenant=True)
    second.set("k", "v")
    assert first.get("k") == b"v"


def test_a_given_socket_becomes_the_master() -> None:
    listener = socket.create_server(("localhost", 0))
    store = TCPStore("localhost", 0, is_master=True, master_listen_fd=listener.detach())
    store.set("k", "v")
    assert store.get("k") == b"v"


def test_the_end_of_the_master_is_named() -> None:
    listener = socket.create_server(("localhost", 0))
    thread = threading.Thread(target=lambda: answer_once(listener))
    thread.start()
    store = TCPStore("localhost", listener.getsockname()[1], timeout=timedelta(seconds=20))
    thread.join()
    for _ in range(2):
        with pytest.raises(DistNetworkError, match="has left"):
            store.set("k", "v")


def answer_once(listener: socket.socket) -> None:
    with listener, listener.accept()[0] as connection:
        connection.recv(1000)
        reply = b"[1]"
        connection.sendall(struct.pack("!Q", len(reply)) + reply)


@pytest.mark.parametrize("message", [b"GET / HTTP/1.1\r\n\r\n", struct.pack("!Q", 7) + b"[1, 2, ", struct.pack("!Q", 12) + b'["__init__"]'])
def test_a_stranger_cannot_disturb_the_master(message: bytes) -> None:
    store = TCPStore("localhost", 0, is_master=True)
    store.set("k", "v")
    with socket.create_connection(("localhost", store.port)) as stranger, contextlib.suppress(OSError):
        stranger.sendall(message)  # the master may close the connection before it has read everything
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(100) == b""
    assert store.get("k") == b"v"


def test_a_torn_record_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first = FileStore(path)
    first.set("k", "v")
    with path.open("ab") as file:
        file.write(b'["set", "k", {"b": "x')
    second = FileStore(path)
    assert second.get("k") == first.get("k") == b"v"
    second.set("k", "w")
    assert first.get("k") == b"w"


def test_a_base_store_has_no_operations() -> None:
    with pytest.raises(NotImplementedError, match="Store is not a store with operations"):
        Store().set("k", "v")


def test_a_process_group_takes_a_store_and_nothing_else() -> None:
    with pytest.raises(TypeError, match=r"expected a Store, but got dict.*\[nd-process-group\]"):
        dist.init_process_group(store={})
    dist.init_process_group(store=HashStore(), rank=0, world_size=1)
    try:
        assert dist.get_world_size() == 1
    finally:
        dist.destroy_process_group()


CALLS: dict[str, Callable[[Any], Any]] = {
    "counter": lambda s: (s.add("n", 2), s.add("n", 3), s.get("n")),
    "absent without expectation": lambda s: (s.compare_set("q", "", "y"), s.get("q")),
    "absent with expectation": lambda s: (s.compare_set("r", "x", "y"), s.check(["r"])),
    "other value": lambda s: (s.set("t", "1"), s.compare_set("t", "2", "3"), s.compare_set("t", "1", "4")),
    "append": lambda s: (s.append("a", "x"), s.append("a", "y"), s.get("a")),
    "delete": lambda s: (s.set("d", "1"), s.delete_key("d"), s.delete_key("d")),
    "nothing to check": lambda s: s.check([]),
    "queue": lambda s: (s.queue_push("Q", "1"), s.queue_push("Q", "2"), s.queue_len("Q"), s.queue_pop("Q")),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_equal_those_of_torch(name: str) -> None:
    torch_distributed = pytest.importorskip("torch.distributed")
    assert CALLS[name](HashStore()) == CALLS[name](torch_distributed.HashStore())
