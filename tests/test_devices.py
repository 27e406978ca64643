"""Devices, the default device, layouts and memory formats."""

from __future__ import annotations

import asyncio
import copy
import itertools
import pickle
import threading
import weakref
from typing import Any

import pytest

from ndgrad._src.foundations import devices
from ndgrad._src.foundations.devices import device, get_default_device, layout, memory_format, set_default_device


@pytest.fixture(autouse=True)
def default_device_is_cpu() -> Any:
    yield
    set_default_device(None)


# ----- reading and printing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "type_", "index", "text"),
    [
        (("cpu",), "cpu", None, "device(type='cpu')"),
        (("cuda",), "cuda", None, "device(type='cuda')"),
        (("cuda", 0), "cuda", 0, "device(type='cuda', index=0)"),
        (("cuda:1",), "cuda", 1, "device(type='cuda', index=1)"),
        (("cuda:10",), "cuda", 10, "device(type='cuda', index=10)"),
        ((2,), "cuda", 2, "device(type='cuda', index=2)"),
        (("meta",), "meta", None, "device(type='meta')"),
        (("cpu:0",), "cpu", 0, "device(type='cpu', index=0)"),
        ((device("cuda:1"),), "cuda", 1, "device(type='cuda', index=1)"),
    ],
)
def test_reads_and_prints_like_torch(arguments: Any, type_: str, index: int | None, text: str) -> None:
    d = device(*arguments)
    assert (d.type, d.index, repr(d)) == (type_, index, text)
    assert str(d) == (type_ if index is None else f"{type_}:{index}")


def test_arguments_may_be_named() -> None:
    assert device(type="cuda", index=1) == device("cuda:1")


def test_equal_devices_are_one_object_and_others_differ() -> None:
    assert device("cuda", 0) is device("cuda:0") is device(0) is device(device("cuda:0"))
    different = [device(d) for d in ("cpu", "cpu:0", "cuda", "cuda:0", "cuda:1", "meta")]
    assert len(set(different)) == len(different)
    for a, b in itertools.combinations(different, 2):
        assert a != b
    assert device("cpu") != "cpu"


@pytest.mark.parametrize("text", ["cpu", "cuda", "cuda:3", "meta"])
def test_pickles_and_copies_to_the_same_object(text: str) -> None:
    d = device(text)
    assert copy.copy(d) is copy.deepcopy(d) is d
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(d, protocol)) is d
    assert weakref.ref(d)() is d


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("gpu",), RuntimeError, "cannot read the string 'gpu'.*cpu, cuda, meta"),
        (("CPU",), RuntimeError, "cannot read the string 'CPU'"),
        (("cuda:",), RuntimeError, "cannot read the string 'cuda:'"),
        (("cuda:-1",), RuntimeError, "cannot read the string 'cuda:-1'"),
        (("cuda:01",), RuntimeError, "cannot read the string 'cuda:01'"),
        (("cpu ",), RuntimeError, "cannot read the string 'cpu '"),
        (("cuda:1", 1), RuntimeError, "two indices"),
        (("cuda", -1), RuntimeError, "negative index -1"),
        ((-1,), RuntimeError, "negative index -1"),
        (("cuda", 0.5), TypeError, "index 0.5.*int"),
        ((device("cuda"), 1), RuntimeError, r"device\('cuda', 1\)"),
        ((None,), TypeError, "cannot read None"),
        ((1.5,), TypeError, "cannot read 1.5"),
        ((True,), TypeError, "cannot read True"),
        ((3, 4), TypeError, "cannot read 3"),
        (([],), TypeError, r"cannot read \[\]"),
    ],
)
def test_what_is_no_device_is_refused(arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        device(*arguments)


def test_devices_cannot_be_changed() -> None:
    d = device("cuda:1")
    with pytest.raises(AttributeError, match="cannot be changed"):
        d.index = 2
    with pytest.raises(AttributeError, match="cannot be changed"):
        del d.type
    with pytest.raises(AttributeError, match="cannot be changed"):
        d.other = 1
    assert d is device("cuda:1")
    assert d.index == 1


# ----- the default ------------------------------------------------------------------------------------------


def test_default_is_the_cpu_until_set() -> None:
    assert get_default_device() is device("cpu")
    set_default_device("cuda:1")
    assert get_default_device() is device("cuda:1")
    set_default_device(None)
    assert get_default_device() is device("cpu")


def test_with_nests_and_an_exception_restores() -> None:
    meta, cuda = device("meta"), device("cuda")
    with meta as entered:
        assert entered is meta
        with cuda, meta:
            assert get_default_device() is meta
        with pytest.raises(ZeroDivisionError), cuda:
            1 / 0
        assert get_default_device() is meta
    assert get_default_device() is device("cpu")


def test_set_default_device_stands_under_open_blocks() -> None:
    with device("meta"):
        set_default_device("cuda")
        assert get_default_device() is device("meta")
    assert get_default_device() is device("cuda")


def test_default_belongs_to_the_thread() -> None:
    seen = []

    def other_thread() -> None:
        seen.append(get_default_device())
        with device("cuda:2"):
            seen.append(get_default_device())

    with device("meta"):
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        assert get_default_device() is device("meta")
    assert seen == [device("cpu"), device("cuda:2")]


def test_default_belongs_to_the_task() -> None:
    async def use(name: str) -> device:
        with device(name):
            await asyncio.sleep(0)
            return get_default_device()

    async def both() -> list[device]:
        return await asyncio.gather(use("meta"), use("cuda"))

    assert asyncio.run(both()) == [device("meta"), device("cuda")]


def test_leaving_what_was_not_entered_is_refused() -> None:
    with pytest.raises(RuntimeError, match="had not entered it last"):
        device("meta").__exit__(None, None, None)
    with device("cuda"), pytest.raises(RuntimeError, match=r"open here are \['cuda'\]"):
        device("meta").__exit__(None, None, None)
    assert get_default_device() is device("cpu")


# ----- layouts and memory formats ---------------------------------------------------------------------------

LAYOUTS = ["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"]
FORMATS = ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]


@pytest.mark.parametrize(("name", "kind"), [(n, layout) for n in LAYOUTS] + [(n, memory_format) for n in FORMATS])
def test_named_constants_print_and_pickle_by_name(name: str, kind: type[Any]) -> None:
    constant = getattr(devices, name)
    assert type(constant) is kind
    assert repr(constant) == f"ndgrad.{name}"
    assert copy.deepcopy(constant) is constant
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        pickled = pickle.dumps(constant, protocol)
        assert pickle.loads(pickled) is constant
        assert name.encode() in pickled


def test_the_host_is_one_device_with_any_number():
    import ndgrad

    x = ndgrad.zeros(2, device="cpu:3")
    assert x.device == device("cpu")
    y = ndgrad.ones(2, requires_grad=True)
    moved = y.to("cpu:1")
    assert moved.device == device("cpu")
    assert moved is not y
    (moved * 2).sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]
    assert ndgrad.nn.Linear(2, 2).to("cpu:1").weight.device == device("cpu")
