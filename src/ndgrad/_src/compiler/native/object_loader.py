"""Load object files without LLVM: ELF for x86-64 on Linux.

    loaded = load_object(data, symbols)        # None: another system, or a feature that is not supported here
    loaded.addresses["scale"]                  # valid as long as `loaded` lives

A process that finds its kernels in the cache on disk needs no compiler. LLVM's own linker would still load LLVM, which
takes some hundred milliseconds and 70 to 100 MB. The objects of `target` are position-independent and small, and need
few kinds of relocations, so they are loaded here. Anything else is left to LLVM's linker.

The sections of an object lie side by side in one mapping:

    code, constants, stubs, table of far addresses      readable and executable
    variables                                           readable and writable

Note [Far functions]
A call reaches 2 GiB, and functions of the process may be farther away. Such a call goes to a stub, which jumps to an
address in memory. Code that reads an address from the global offset table gets a slot with this address. Unwinding
tables are left out, because nothing is thrown through native code.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

from ndgrad._src.foundations.locks import compute_once

#: ELF of 64 bits, little-endian, version 1; a relocatable file for x86-64.
_IDENTITY = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62
_NOBITS, _SYMBOLS, _RELA, _REL = 8, 2, 4, 9
_WRITE, _ALLOC, _EXECUTE, _THREAD_LOCAL = 1, 2, 4, 0x400
_UNDEFINED, _RESERVED, _ABSOLUTE = 0, 0xFF00, 0xFFF1
_WEAK, _INDIRECT = 2, 10
_ABS64, _PC32, _PLT32, _GOTPCREL, _PC64, _GOTPCRELX, _REX_GOTPCRELX = 1, 2, 4, 9, 24, 41, 42
#: jmp *0(%rip), and the address that it reads.
_STUB = b"\xff\x25\x00\x00\x00\x00"
_STUB_SIZE = 16


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class _Unsupported(Exception):
    """Raised if an object needs a feature that this loader lacks."""


class LoadedObject:
    """The code of an object in memory, and the addresses of its global functions."""

    def __init__(self, base: int, size: int, addresses: dict[str, int]) -> None:
        self.addresses = addresses
        # Workers of the pool may still run this code when the interpreter ends, so it is not freed then.
        weakref.finalize(self, _memory().munmap, base, size).atexit = False


def is_supported() -> bool:
    """True if objects of this machine can be loaded here."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and struct.calcsize("P") == 8


def load_object(data: bytes, symbols: Mapping[str, int]) -> LoadedObject | None:
    """Load an object file. `symbols` are addresses of functions outside of it, before those of the process. Return None
    if it needs LLVM's linker.
    """
    if not is_supported():
        return None
    try:
        return _Image(data, symbols).load()
    except (_Unsupported, OSError, struct.error, ValueError, IndexError, OverflowError):
        return None


class _Image:
    """The sections of an object, their places in memory, and their relocations."""

    def __init__(self, data: bytes, symbols: Mapping[str, int]) -> None:
        self.data = data
        self.outside = symbols
        self.sections = self._read_sections()
        self.names, self.table = self._read_symbols()
        self.relocations = self._read_relocations()
        #: section -> offset in the mapping
        self.places: dict[int, int] = {}
        #: symbol -> offset of its stub, and of its slot in the table of addresses
        self.stubs: dict[int, int] = {}
        self.slots: dict[int, int] = {}

    def _read_sections(self) -> list[_Section]:
        data = self.data
        if not data.startswith(_IDENTITY) or struct.unpack_from("<HH", data, 16) != (_RELOCATABLE, _X86_64):
            raise _Unsupported
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        if not count or names >= count:
            raise _Unsupported
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, start + size * n) for n in range(count)]
        base = rows[names][4]
        found = []
        for row in rows:
            if row[1] != _NOBITS and row[4] + row[5] > len(data):
                raise _Unsupported
            name = self._text(base + row[0])
            found.append(_Section(name, row[1], row[2], row[4], row[5], row[6], row[7], max(1, row[8])))
        return found

    def _text(self, offset: int) -> str:
        return self.data[offset : self.data.index(b"\0", offset)].decode()

    def _read_symbols(self) -> tuple[list[str], list[tuple[int, int, int, int]]]:
        """Return names, and (binding, type, section, value) of symbols."""
        tables = [s for s in self.sections if s.kind == _SYMBOLS]
        if len(tables) != 1:
            raise _Unsupported
        names, table = [], []
        strings = self.sections[tables[0].link].offset
        for at in range(tables[0].offset, tables[0].offset + tables[0].size, 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
            if info & 15 == _INDIRECT or (section >= _RESERVED and section != _ABSOLUTE):
                raise _Unsupported
            names.append(self._text(strings + name))
            table.append((info >> 4, info & 15, section, value))
        return names, table

    def _read_relocations(self) -> list[tuple[int, int, int, int, int]]:
        """Return (section, offset, kind, symbol, addend) of the relocations of loaded sections."""
        found = []
        for section in self.sections:
            if section.kind == _REL:
                raise _Unsupported
            if section.kind == _RELA and self._is_loaded(section.info):
                for at in range(section.offset, section.offset + section.size, 24):
                    offset, info, addend = struct.unpack_from("<QQq", self.data, at)
                    found.append((section.info, offset, info & 0xFFFFFFFF, info >> 32, addend))
        return found

    def _is_loaded(self, number: int) -> bool:
        section = self.sections[number]
        return bool(section.flags & _ALLOC) and section.name != ".eh_frame"

    def load(self) -> LoadedObject:
        """Place the sections, map memory, and write the relocated image."""
        size = self._place()
        base = _map(size)
        try:
            addresses = self._write(base, size)
        except BaseException:
            _memory().munmap(base, size)
            raise
        return LoadedObject(base, size, addresses)

    def _place(self) -> int:
        """Place the sections, stubs and slots. Return the bytes of the mapping."""
        end = 0
        loaded = [n for n in range(len(self.sections)) if self._is_loaded(n)]
        for is_variable in (False, True):
            for n in loaded:
                section = self.sections[n]
                if section.flags & _THREAD_LOCAL or section.align > mmap.PAGESIZE:
                    raise _Unsupported
                if bool(section.flags & _WRITE) is is_variable:
                    if is_variable and section.flags & _EXECUTE:
                        raise _Unsupported
                    self.places[n] = end = _round_up(end, section.align)
                    end += section.size
            if not is_variable:
                end = _round_up(end, _STUB_SIZE)
                for _, _, kind, symbol, _ in self.relocations:
                    if kind == _PLT32 and self.table[symbol][2] == _UNDEFINED and symbol not in self.stubs:
                        self.stubs[symbol], end = end, end + _STUB_SIZE
                    elif kind in (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX) and symbol not in self.slots:
                        self.slots[symbol], end = end, end + _STUB_SIZE
                self.fixed = end = _round_up(max(end, 1), mmap.PAGESIZE)
        return _round_up(end, mmap.PAGESIZE)

    def _address(self, symbol: int, base: int) -> int:
        """Return the address of a symbol."""
        binding, _, section, value = self.table[symbol]
        if section == _ABSOLUTE:
            return value
        if section != _UNDEFINED:
            if section not in self.places:
                raise _Unsupported
            return base + self.places[section] + value
        name = self.names[symbol]
        if name in self.outside:
            return self.outside[name]
        found = address_in_process(name)
        if found is None or binding == _WEAK:
            raise _Unsupported
        return found

    def _write(self, base: int, size: int) -> dict[str, int]:
        image = bytearray(size)
        for n, place in self.places.items():
            section = self.sections[n]
            if section.kind != _NOBITS:
                image[place : place + section.size] = self.data[section.offset : section.offset + section.size]
        for symbol, place in self.stubs.items():
            image[place : place + len(_STUB)] = _STUB
            struct.pack_into("<Q", image, place + len(_STUB), self._address(symbol, base))
        for symbol, place in self.slots.items():
            struct.pack_into("<Q", image, place, self._address(symbol, base))
        for n, offset, kind, symbol, addend in self.relocations:
            place = self.places[n] + offset
            if kind == _ABS64:
                struct.pack_into("<Q", image, place, (self._address(symbol, base) + addend) % 2**64)
                continue
            if kind in (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX):
                target = base + self.slots[symbol]
            elif kind == _PLT32 and symbol in self.stubs:
                target = base + self.stubs[symbol]
            elif kind in (_PC32, _PLT32, _PC64):
                target = self._address(symbol, base)
            else:
                raise _Unsupported
            distance = target + addend - (base + place)
            if kind == _PC64:
                struct.pack_into("<q", image, place, distance)
            elif -(2**31) <= distance < 2**31:
                struct.pack_into("<i", image, place, distance)
            else:
                raise _Unsupported
        ctypes.memmove(base, bytes(image), size)
        if _memory().mprotect(base, self.fixed, mmap.PROT_READ | mmap.PROT_EXEC):
            raise _Unsupported
        return {
            name: self._address(symbol, base)
            for symbol, (name, (binding, _, section, _)) in enumerate(zip(self.names, self.table, strict=True))
            if binding and section not in (_UNDEFINED, _ABSOLUTE) and section in self.places
        }


def address_in_process(name: str) -> int | None:
    """Return the address of a function of the process; None if it has none of this name."""
    try:
        return ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value
    except AttributeError:
        return None


@compute_once
def _process() -> Any:
    return ctypes.CDLL(None)


@compute_once
def _memory() -> Any:
    """Return the C library with the types of its functions for memory."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


def _map(size: int) -> int:
    """Return new memory that can be written."""
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _memory().mmap(None, size, protection, flags, -1, 0)
    if base is None or base == ctypes.c_void_p(-1).value:
        raise _Unsupported
    return int(base)


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step
