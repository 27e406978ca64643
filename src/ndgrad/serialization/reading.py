"""`ndgrad.load`: read files of `ndgrad.save` or `torch.save`."""

from __future__ import annotations

import importlib
import io
import operator
import os
import pickle
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import IO, Any

from ndgrad._src.foundations.sizes import Size
from ndgrad.serialization import legacy
from ndgrad.serialization.archive import Archive
from ndgrad.serialization.locations import MapLocation
from ndgrad.serialization.options import get_default_load_endianness
from ndgrad.serialization.plain_pickle import (
    Callee,
    PlainUnpickler,
    UsersError,
    containers,
    damage_error,
    set_attributes,
)
from ndgrad.serialization.rebuilding import NOT_HERE, give_all, names_in
from ndgrad.serialization.storages import Memories
from ndgrad.serialization.trusted_names import vouched_names


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read a file of `ndgrad.save` or `torch.save`.

    By default no code of the file runs, and a small file cannot allocate much memory. Writing into mapped tensors
    does not change the file.

    Args:
        f: path, or file that is open for reading bytes.
        map_location: device of the tensors, a dict from device to device, or a function of storage and device. The
            default is the device in the file.
        pickle_module: module whose `Unpickler` reads the file. Only with `weights_only=False`.
        weights_only: whether only tensors and plain containers are read. The default is True unless `pickle_module` is
            given.
        mmap: whether tensors stay in the file until they are used. Needs a path.
        **pickle_load_args: arguments of the `Unpickler`. Only with `weights_only=False`.

    Raises:
        FileNotFoundError: if there is no such file.
        RuntimeError: if the file is no archive.
        pickle.UnpicklingError: if the file is damaged, or holds objects that `weights_only` refuses.

    >>> import os, tempfile, ndgrad
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "weights.pt")
    ...     ndgrad.save(ndgrad.nn.Linear(2, 1).state_dict(), path)
    ...     state = ndgrad.load(path, map_location="cpu")
    >>> list(state)
    ['weight', 'bias']
    """
    if weights_only is None:
        weights_only = pickle_module is None
    elif weights_only and pickle_module is not None:
        raise RuntimeError(
            "Can not safely load weights when explicit pickle_module is specified: it runs what the file says. Leave "
            "pickle_module out, or, if you trust where the file comes from, pass weights_only=False. [nd-file-unsafe]"
        )
    if not isinstance(f, (str, os.PathLike)) and mmap:
        raise ValueError(
            "f must be a file path in order to use the mmap argument, but is an open file. Pass the path. "
            "[nd-file-kind]"
        )
    unpickler = PlainUnpickler if weights_only else _trusting(pickle_module or pickle, pickle_load_args)
    with _open(f) as file:
        called = "the file" if file is f else os.fspath(f)  # type: ignore[arg-type]  # a path, then
        if _is_legacy(file):
            if mmap:
                raise RuntimeError(
                    "mmap can only be used with files that are zip archives, as torch writes them since version 1.6, "
                    f"and {called} is older. Load it without mmap, and save it again. [nd-file-kind]"
                )
            return _load_legacy(file, called, map_location, unpickler)
        archive = _archive(file, called, weights_only, bool(mmap))
        pickled = io.BytesIO(archive.read_record("data.pkl"))
        order = get_default_load_endianness()
        named = archive.read_record("byteorder").decode("ascii", "replace") if archive.has("byteorder") else ""
        memories = Memories(
            lambda key, name, count: archive.memory(key),
            named or ("little" if order is None else order.name_of_order()),
            map_location,
        )
        return _unpickle(pickled, memories, unpickler)


def _open(f: str | os.PathLike[str] | IO[bytes]) -> Any:
    if isinstance(f, (str, os.PathLike)):
        return open(f, "rb")  # closed by the caller
    if not (hasattr(f, "seek") and hasattr(f, "read")):
        missing = "read" if hasattr(f, "seek") else "seek"
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute '{missing}'. You can only ndgrad.load from a file that is "
            "seekable. Read the data into an io.BytesIO, and load from that. [nd-path]"
        )
    return nullcontext(f)


def _is_legacy(file: IO[bytes]) -> bool:
    start = file.tell()
    begins = file.read(len(legacy.BEGINNING)) == legacy.BEGINNING
    file.seek(start)
    return begins


def _archive(file: IO[bytes], called: str, limited: bool, mapped: bool) -> Archive:
    if zipfile.is_zipfile(file):
        return Archive(file, called, limited, mapped)
    file.seek(0)
    beginning = file.read(10)
    if not beginning:
        raise EOFError(f"ndgrad.load: {called} is empty. Save it again. [nd-file-damaged]")
    if beginning[:4] == b"PK\x03\x04":
        raise RuntimeError(
            f"ndgrad.load: {called} begins as an archive of ndgrad.save or torch.save and has no directory at its "
            "end: it was cut off. Copy it or save it again. [nd-file-damaged]"
        )
    hint = ""
    if beginning[8:9] == b"{":
        hint = " It looks like a safetensors file: ndgrad.safetensors.load_file reads it."
    elif beginning[:6] == b"\x93NUMPY":
        hint = " It is an array of NumPy's: numpy.load reads it."
    raise RuntimeError(
        f"ndgrad.load: {called} is not an archive that ndgrad.save or torch.save has written.{hint} [nd-file-kind]"
    )


# ----- from the pickle to the object ----------------------------------------------------------------------------------


def _unpickle(pickled: IO[bytes], memories: Memories, unpickler: Callable[..., Any]) -> Any:
    plain = unpickler is PlainUnpickler
    names = names_in(memories, set_attributes if plain else give_all)
    try:
        if plain:
            return PlainUnpickler(pickled, partial(_find_allowed, names), memories.fetch, vouched_names()).load()
        return unpickler(pickled, names, memories.fetch).load()
    except UsersError as carried:
        raise carried.error from None


def _load_legacy(file: IO[bytes], called: str, map_location: MapLocation, unpickler: Callable[..., Any]) -> Any:
    source = legacy.LegacyFile(file, called)
    memories = Memories(source.memory, source.byteorder, map_location)
    made = legacy.check_location(memories, lambda: _unpickle(file, memories, unpickler))
    source.fill(memories)
    return made


def _find_allowed(names: dict[str, Any], module: str, name: str) -> Any:
    """Return the object for a name, or None if it is not allowed in files."""
    full = f"{module}.{name}"
    if full in NOT_HERE:
        raise pickle.UnpicklingError(
            f"ndgrad.load: the file holds {NOT_HERE[full]}, which there are not here. Convert them with torch, and "
            "save the file again. [nd-file-kind]"
        )
    return names.get(full)


def _trusting(module: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """Return a class of unpicklers that run the code of a file, except for torch's names: torch is not needed."""

    class Trusting(module.Unpickler):  # type: ignore[misc]  # whatever module it is
        def __init__(self, file: IO[bytes], names: dict[str, Any], fetch: Callable[[object], Any]) -> None:
            super().__init__(file, **options)
            self.names, self.fetch = names, fetch

        def find_class(self, module: str, name: str) -> Any:
            if module.partition(".")[0] != "torch":
                return super().find_class(module, name)
            found = _find_counterpart(self.names, module, name)
            return found.call if type(found) is Callee else found

        def persistent_load(self, identity: object) -> Any:
            return self.fetch(identity)

    return Trusting


def _find_counterpart(names: dict[str, Any], module: str, name: str) -> Any:
    """Return the counterpart of a torch name: modules of networks have the same names and attributes."""
    if (module, name) == ("torch", "Size"):
        return Size
    found = _find_allowed(names, module, name)
    if found is not None:
        return found
    # A layer class may be defined in another file than in torch.
    for home in (module, *(("torch.nn",) if module.startswith("torch.nn.modules.") else ())):
        try:
            return operator.attrgetter(name)(importlib.import_module("ndgrad" + home.removeprefix("torch")))
        except (ImportError, AttributeError):
            continue
    raise pickle.UnpicklingError(
        f"ndgrad.load: the file holds a {module}.{name}, which there is not here. Save the state dict with torch "
        "instead: torch.save(model.state_dict(), path). [nd-file-kind]"
    )


# ----- inspection of files --------------------------------------------------------------------------------------------


def pickle_in(f: str | os.PathLike[str] | IO[bytes]) -> bytes:
    """Return the pickle of the object in a file, without running it."""
    with _open(f) as file:
        start = file.tell()
        try:
            if _is_legacy(file):
                raise ValueError(
                    "get_unsafe_globals_in_checkpoint looks into zip archives, as torch writes them since version "
                    "1.6, and the file is older. Load it where you trust it, and save it again. [nd-file-kind]"
                )
            return _archive(file, "the file", True, False).read_record("data.pkl")
        finally:
            file.seek(start)


def known_names() -> set[str]:
    """Return the names that every file may contain."""
    nothing = Memories(lambda key, name, count: _nothing(), "little", None)
    return {*names_in(nothing, set_attributes), *containers(lambda key: key)}


def _nothing() -> Any:
    raise damage_error("memory is named where there is none")
