"""A file of tensors that processes map into memory: all of a machine share its pages."""

import mmap
import os
import struct
import warnings
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy
import numpy.typing
import torch

ALIGNMENT_BYTES = 64 * 1024
"""Where tensors may begin: a multiple of every machine's page size."""

_MAPPING_BYTES = 1024**3
_MAGIC = b"quadriga weights"
_TRAILER = struct.Struct("<Q16s16s")
"""The last bytes: the length of the index before them, its digest, and what kind of file this is."""

_Bytes = numpy.typing.NDArray[numpy.uint8]


class BadWeightFile(Exception):
    """The file is not one of tensors, or not as it was written."""


class _Entry(msgspec.Struct, frozen=True):
    """Where a tensor lies, and what it was."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int
    checksum: int


class WeightFile:
    """The tensors of a whole file, mapped read-only."""

    def __init__(self, path: Path) -> None:
        """Read all of it once. Raises OSError, and BadWeightFile if a single bit is not as it was."""
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < _TRAILER.size:
                raise BadWeightFile("it is too short")
            self._mapping = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._entries = _read_index(self._mapping)
        for name, entry in self._entries.items():
            if entry.offset + entry.num_bytes > len(self._mapping):
                raise BadWeightFile(f"{name} lies beyond its end")
            raw = numpy.frombuffer(self._mapping, numpy.uint8, entry.num_bytes, entry.offset)
            if _checksum(raw) != entry.checksum:
                raise BadWeightFile(f"{name} is not as it was written")

    def tensor(self, name: str) -> torch.Tensor | None:
        """The tensor of that name, which must not be written to; None if there is none."""
        entry = self._entries.get(name)
        return None if entry is None else _view(self._mapping, entry, entry.offset)


class WeightFileWriter:
    """Writes tensors to a new file; without `finish` it is none."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._entries: dict[str, _Entry] = {}
        self._end = 0
        self._mapping: mmap.mmap | None = None
        self._mapping_begin = 0
        self._mapping_end = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was appended."""
        return not self._entries

    def append(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as the file holds it from now on, read-only. Raises OSError.

        The given one need not be kept, so that only one exists in a process's own memory.
        """
        raw: _Bytes = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy()
        assert raw.nbytes, name
        assert name not in self._entries, name
        offset = -(-self._end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        dtype = str(tensor.dtype).removeprefix("torch.")
        entry = _Entry(dtype, tuple(tensor.shape), offset, raw.nbytes, _checksum(raw))
        mapping = self._mapping_of(offset, raw.nbytes)
        self._file.seek(offset)
        self._file.write(raw.data)
        self._file.flush()
        self._entries[name] = entry
        self._end = offset + raw.nbytes
        return _view(mapping, entry, offset - self._mapping_begin)

    def _mapping_of(self, offset: int, num_bytes: int) -> mmap.mmap:
        """A mapping in which this part of the file lies; each takes a file descriptor, so few do."""
        if self._mapping is None or offset + num_bytes > self._mapping_end:
            length = max(num_bytes, _MAPPING_BYTES)
            self._file.truncate(offset + length)  # longer: a hole, which takes no room
            self._mapping = mmap.mmap(
                self._file.fileno(), length, prot=mmap.PROT_READ, offset=offset
            )
            self._mapping_begin, self._mapping_end = offset, offset + length
        return self._mapping

    def finish(self) -> None:
        """Write the index, which makes the file a whole one. Raises OSError.

        It may not be on the disk yet: what a failing machine loses of it, checksums find.
        """
        index = msgspec.json.encode(self._entries)
        self._file.seek(self._end)
        self._file.write(index + _TRAILER.pack(len(index), _digest(index), _MAGIC))
        self._file.truncate()
        self._file.flush()


def _read_index(mapping: mmap.mmap) -> dict[str, _Entry]:
    begin_of_trailer = len(mapping) - _TRAILER.size
    num_bytes, digest, magic = _TRAILER.unpack_from(mapping, begin_of_trailer)
    if magic != _MAGIC:
        raise BadWeightFile("it is cut short, or no file of weights")
    index = mapping[max(0, begin_of_trailer - num_bytes) : begin_of_trailer]
    if _digest(index) != digest:
        raise BadWeightFile("its index is not as it was written")
    return msgspec.json.decode(index, type=dict[str, _Entry])


def _view(buffer: mmap.mmap, entry: _Entry, offset: int) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, entry.dtype)
    count = entry.num_bytes // dtype.itemsize
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it cannot be written to is what is wanted
        flat = torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset)
    return flat.view(entry.shape)


def _checksum(raw: _Bytes) -> int:
    """The sum of its 64-bit words: as fast as memory, and zeroed or foreign pages change it."""
    whole = raw.nbytes // 8 * 8
    total = int(raw[:whole].view(numpy.uint64).sum()) + int(raw[whole:].sum(dtype=numpy.uint64))
    return total % 2**64


def _digest(index: bytes) -> bytes:
    return blake2b(index, digest_size=16).digest()
