"""The cache of compiled objects on disk: what it keeps, and all that it must not trust."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from ndgrad._src.compiler.native import cache

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of another kind")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of entries, which is not there yet."""
    monkeypatch.setenv("NDGRAD_CACHE_DIR", str(tmp_path / "deep" / "cache"))
    monkeypatch.setattr(cache, "_sizes", {})
    return tmp_path / "deep" / "cache" / "native"


def test_what_is_stored_is_loaded(place: Path):
    k = cache.key("a")
    assert cache.load(k) is None
    assert not place.exists()  # looking makes nothing
    cache.store(k, b"code")
    assert cache.load(k) == b"code"
    cache.store(k, b"newer")
    assert cache.load(k) == b"newer"
    assert cache.load(cache.key("b")) is None
    assert os.listdir(place) == [k]
    cache.clear()
    assert cache.load(k) is None


def test_keys_differ_where_any_part_differs():
    keys = [cache.key(*parts) for parts in (("a", "b"), ("ab", ""), ("", "ab"), ("a", "b", ""), ("b", "a"))]
    assert len(set(keys)) == len(keys)


@posix
def test_folder_and_files_are_private(place: Path):
    old = os.umask(0)
    try:
        cache.store(cache.key("a"), b"code")
    finally:
        os.umask(old)
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / cache.key("a")).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "longer", "other key", "other version", "garbage"])
def test_a_damaged_file_is_ignored_and_replaced(place: Path, damage: str):
    k, other = cache.key("a"), cache.key("b")
    cache.store(k, b"code" * 100)
    cache.store(other, b"other" * 100)
    file = place / k
    data = file.read_bytes()
    file.write_bytes({
        "cut": data[:-1], "empty": b"", "flipped": data[:-50] + bytes([data[-50] ^ 1]) + data[-49:],
        "longer": data + b"x", "other key": (place / other).read_bytes(), "other version": b"ndgrad 0\n" + data[9:],
        "garbage": os.urandom(300),
    }[damage])  # fmt: skip
    assert cache.load(k) is None
    cache.store(k, b"again")
    assert cache.load(k) == b"again"


@posix
@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602, 0o666])
def test_a_file_that_others_may_read_or_write_is_ignored(place: Path, mode: int):
    cache.store(cache.key("a"), b"code")
    (place / cache.key("a")).chmod(mode)
    assert cache.load(cache.key("a")) is None


@posix
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_folder_that_others_may_enter_is_ignored(place: Path, mode: int):
    cache.store(cache.key("a"), b"code")
    place.chmod(mode)
    assert cache.load(cache.key("a")) is None
    cache.store(cache.key("b"), b"code")
    assert os.listdir(place) == [cache.key("a")]


@posix
def test_links_are_not_followed(place: Path, tmp_path: Path):
    k = cache.key("a")
    cache.store(k, b"code")
    (place / k).rename(tmp_path / "elsewhere")
    (place / k).symlink_to(tmp_path / "elsewhere")
    assert cache.load(k) is None
    cache.store(k, b"again")  # the link goes, not what it points at
    assert cache.load(k) == b"again"
    assert b"code" in (tmp_path / "elsewhere").read_bytes()
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    assert cache.load(k) is None


@posix
def test_what_somebody_else_owns_is_ignored(place: Path, monkeypatch: pytest.MonkeyPatch):
    cache.store(cache.key("a"), b"code")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert cache.load(cache.key("a")) is None
    cache.store(cache.key("b"), b"code")
    assert os.listdir(place) == [cache.key("a")]


def test_an_entry_that_is_a_folder_is_ignored(place: Path):
    cache.store(cache.key("b"), b"code")
    (place / cache.key("a")).mkdir()
    assert cache.load(cache.key("a")) is None
    cache.store(cache.key("a"), b"code")
    assert sorted(os.listdir(place)) == sorted([cache.key("a"), cache.key("b")])  # nothing half-written is left


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("not a folder")
    for where in (str(tmp_path / "file"), "/proc/no/such/place", "/dev/null"):
        monkeypatch.setenv("NDGRAD_CACHE_DIR", where)
        cache.store(cache.key("a"), b"code")
        assert cache.load(cache.key("a")) is None


def test_an_empty_variable_turns_the_cache_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NDGRAD_CACHE_DIR", "")
    assert cache.folder() is None
    cache.store(cache.key("a"), b"code")
    assert cache.load(cache.key("a")) is None


@pytest.mark.parametrize(
    ("system", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x/cache", "HOME": "/somewhere/me"}, "/x/cache/ndgrad/native"),
        ("linux", {"XDG_CACHE_HOME": "", "HOME": "/somewhere/me"}, "/somewhere/me/.cache/ndgrad/native"),
        ("linux", {"XDG_CACHE_HOME": "relative", "HOME": "/somewhere/me"}, "/somewhere/me/.cache/ndgrad/native"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Caches/ndgrad/native"),
        ("win32", {"LOCALAPPDATA": "/C/Local"}, "/C/Local/ndgrad/native"),
        ("win32", {}, None),
    ],
)
def test_each_system_has_its_folder(
    system: str, variables: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
):
    for name in ("NDGRAD_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system)
    assert cache.folder() == (None if expected is None else Path(expected))


def test_no_home_is_no_cache(monkeypatch: pytest.MonkeyPatch):
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("NDGRAD_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert cache.load(cache.key("a")) is None
    cache.store(cache.key("a"), b"code")


def test_the_folder_is_bounded_and_the_least_recently_used_go(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "LARGEST", 10_000)
    keys = [cache.key(str(i)) for i in range(30)]
    for i, k in enumerate(keys):
        cache.store(k, bytes(1000))
        if (place / k).exists():
            os.utime(place / k, (1e9 + i, 1e9 + i))
        cache.load(keys[0])  # in use all the time
    assert sum(file.stat().st_size for file in place.iterdir()) <= 10_000
    assert cache.load(keys[0]) is not None
    assert cache.load(keys[-1]) is not None
    assert cache.load(keys[1]) is None


def test_what_interrupted_writers_left_is_removed(place: Path):
    cache.store(cache.key("a"), b"code")
    for name, age in (("old.1.x.new", 1e9), ("young.1.x.new", None)):
        (place / name).write_bytes(b"half")
        if age:
            os.utime(place / name, (age, age))
    cache._sizes.clear()
    cache.store(cache.key("b"), b"code")
    assert sorted(os.listdir(place)) == sorted([cache.key("a"), cache.key("b"), "young.1.x.new"])


def test_an_interrupted_write_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.store(cache.key("a"), b"code")
    assert os.listdir(place) == []


def test_writers_at_once_leave_a_whole_file(place: Path):
    k = cache.key("a")
    bodies = [bytes([i]) * 20_000 for i in range(4)]
    stop = threading.Event()
    seen: list[bytes | None] = []

    def write(body: bytes) -> None:
        while not stop.is_set():
            cache.store(k, body)

    threads = [threading.Thread(target=write, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    while len(seen) < 100:
        seen.append(cache.load(k))
    stop.set()
    for thread in threads:
        thread.join()
    assert set(seen) <= {None, *bodies}
    assert cache.load(k) in bodies


# ----- objects -----

TEXT = "define i64 @f() {\n  ret i64 41\n}\n"


def test_a_second_module_of_the_same_text_comes_from_the_cache(place: Path):
    pytest.importorskip("llvmlite")
    from ctypes import c_int64

    from ndgrad._src.compiler.native.target import Code

    first = Code(TEXT)
    second = Code(TEXT)
    assert not first.cached
    assert second.cached
    assert second.object == first.object
    assert second.function("f", c_int64)() == 41
    assert not Code(TEXT, level=0).cached
    assert not Code(TEXT.replace("41", "42")).cached
    assert not Code(TEXT + "; addresses of this process\n", keep=False).cached
    assert len(os.listdir(place)) == 3
    for file in place.iterdir():
        file.write_bytes(os.urandom(1000))
    third = Code(TEXT)
    assert not third.cached
    assert third.function("f", c_int64)() == 41


def test_another_processor_is_another_object(place: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("llvmlite")
    from ndgrad._src.compiler.native.target import Code

    Code(TEXT)
    monkeypatch.setenv("NDGRAD_COMPILE_CPU", "generic")
    assert not Code(TEXT).cached


def test_a_read_only_home_works_without_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("llvmlite")
    from ctypes import c_int64

    from ndgrad._src.compiler.native.target import Code

    monkeypatch.delenv("NDGRAD_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "home").mkdir(mode=0o500)
    for home in (tmp_path / "home", Path("/proc")):  # root may write despite the mode, but not to /proc
        monkeypatch.setenv("HOME", str(home))
        assert Code(TEXT).function("f", c_int64)() == 41
    assert not Code(TEXT).cached


def test_an_object_that_cannot_be_linked_is_compiled_anew(place: Path):
    pytest.importorskip("llvmlite")
    from ctypes import c_int64

    from ndgrad._src.compiler.native.target import Code

    code = Code(TEXT)
    cache.store(code.key, Code("define i64 @g() {\n  ret i64 1\n}\n").object)  # whole, ours, and of something else
    again = Code(TEXT)
    assert not again.cached
    assert again.function("f", c_int64)() == 41
    assert Code(TEXT).cached
