"""The GGUF container: metadata and tensors read straight from the mapped file.

The package gguf has a reader too, which takes two seconds for a vocabulary of 49,152 words; here
it serves for the constants and the dequantisation.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import quants
from numpy.typing import NDArray

from dicast_server.models.errors import ModelRefused

MAGIC = b"GGUF"
# 1 wrote its counts in 32 bits and is long out of use.
VERSIONS = (2, 3)
MAX_DIMENSIONS = 4
# Rows are dequantised in groups of about this many bytes of float32, so that the working arrays
# of a large embedding do not double what a load takes.
GROUP_BYTES = 32 << 20

_STRING, _ARRAY = gguf.GGUFValueType.STRING, gguf.GGUFValueType.ARRAY
_FORMATS: dict[int, str] = {
    gguf.GGUFValueType.UINT8: "<B",
    gguf.GGUFValueType.INT8: "<b",
    gguf.GGUFValueType.UINT16: "<H",
    gguf.GGUFValueType.INT16: "<h",
    gguf.GGUFValueType.UINT32: "<I",
    gguf.GGUFValueType.INT32: "<i",
    gguf.GGUFValueType.FLOAT32: "<f",
    gguf.GGUFValueType.BOOL: "<?",
    gguf.GGUFValueType.UINT64: "<Q",
    gguf.GGUFValueType.INT64: "<q",
    gguf.GGUFValueType.FLOAT64: "<d",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor's place in the file.

    Attributes:
        name: as the file spells it.
        shape: outermost dimension first, as in NumPy (the file has it the other way round).
        type: how the values are stored.
        start: the first byte's offset in the file.
        size: in bytes.
    """

    name: str
    shape: tuple[int, ...]
    type: gguf.GGMLQuantizationType
    start: int
    size: int


class GgufFile:
    """A GGUF file, mapped into memory.

    Attributes:
        name: the file's own name, without its folder.
        metadata: every key with its value: a number, a bool, a str, or a list of these.
        tensors: every tensor by its name.
    """

    def __init__(self, path: Path) -> None:
        """Map the file and read its header.

        Raises:
            ModelRefused: it is not GGUF, is cut short, or is of a version unknown here.
        """
        self.name = path.name
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise ModelRefused(
                f"{self.name} cannot be read ({error}).".replace(str(path), self.name)
            ) from error
        try:
            header = _Header(self._map)
            self.metadata, infos = header.read()
            self.tensors = self._place(infos, header.at)
        except (struct.error, IndexError, UnicodeDecodeError, MemoryError, OverflowError) as error:
            raise ModelRefused(
                f"{self.name} is cut short or damaged in its header: fetch it again."
            ) from error
        except _MalformedError as reason:
            raise ModelRefused(f"{self.name} {reason}.") from reason

    def read(self, name: str) -> NDArray[np.float32]:
        """A tensor's values as float32, in the file's shape.

        Raises:
            ModelRefused: its quantisation cannot be undone.
        """
        tensor = self.tensors[name]
        raw = np.frombuffer(self._map, np.uint8, tensor.size, tensor.start)
        rows = raw.reshape(int(np.prod(tensor.shape[:-1], dtype=np.int64)), -1)
        values = np.empty((len(rows), tensor.shape[-1]), np.float32)
        group = max(1, GROUP_BYTES // (4 * tensor.shape[-1]))
        try:
            for at in range(0, len(rows), group):
                values[at : at + group] = quants.dequantize(rows[at : at + group], tensor.type)
        except NotImplementedError as error:
            raise ModelRefused(
                f"{self.name}: tensor {name} is quantised as {tensor.type.name}, which cannot be "
                "undone here: use a file with another quantisation."
            ) from error
        return values.reshape(tensor.shape)

    def _place(self, infos: "list[_Info]", end: int) -> dict[str, Tensor]:
        alignment = self.metadata.get("general.alignment", gguf.GGUF_DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise _MalformedError("has a senseless general.alignment")
        data = -(-end // alignment) * alignment
        tensors: dict[str, Tensor] = {}
        for name, shape, kind, offset in infos:
            try:
                type_ = gguf.GGMLQuantizationType(kind)
            except ValueError as error:
                raise _MalformedError(f"has tensor {name} in the unknown quantisation {kind}") from error
            block, block_bytes = gguf.GGML_QUANT_SIZES[type_]
            if shape[-1] % block:
                raise _MalformedError(f"has tensor {name} with rows that are no whole blocks")
            count = 1
            for dimension in shape:
                count *= dimension
            tensor = Tensor(name, shape, type_, data + offset, count // block * block_bytes)
            if tensor.start + tensor.size > len(self._map):
                raise _MalformedError(f"is cut short: tensor {name} is not all there; fetch it again")
            tensors[name] = tensor
        return tensors


_Info = tuple[str, tuple[int, ...], int, int]


class _MalformedError(Exception):
    """What is wrong with the file, to follow its name."""


class _Header:
    """Reads the header's values one after another."""

    def __init__(self, buffer: mmap.mmap) -> None:
        self.buffer = buffer
        self.at = 0

    def read(self) -> tuple[dict[str, Any], list[_Info]]:
        if self.buffer[:4] != MAGIC:
            raise _MalformedError("is not a GGUF file")
        self.at = 4
        version = self.number("<I")
        if version not in VERSIONS:
            raise _MalformedError("is GGUF of an unknown version or of a big-endian machine")
        tensors, keys = self.number("<Q"), self.number("<Q")
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            key = self.string()
            metadata[key] = self.value(self.number("<I"))
        return metadata, [self.info() for _ in range(tensors)]

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.buffer, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self) -> str:
        return self.bytes().decode()

    def bytes(self) -> bytes:
        size = self.number("<Q")
        start, self.at = self.at, self.at + size
        if self.at > len(self.buffer):
            raise _MalformedError("is cut short in its header: fetch it again")
        return self.buffer[start : self.at]

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array()
        if kind not in _FORMATS:
            raise _MalformedError(f"has a metadata value of the unknown type {kind}")
        return self.number(_FORMATS[kind])

    def array(self) -> list[Any]:
        kind, count = self.number("<I"), self.number("<Q")
        if kind in _FORMATS:
            form = f"<{count}{_FORMATS[kind][1:]}"
            if self.at + struct.calcsize(form) > len(self.buffer):
                raise _MalformedError("is cut short in its header: fetch it again")
            values = struct.unpack_from(form, self.buffer, self.at)
            self.at += struct.calcsize(form)
            return list(values)
        return [self.value(kind) for _ in range(count)]

    def info(self) -> _Info:
        name, dimensions = self.string(), self.number("<I")
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise _MalformedError(f"has tensor {name} with {dimensions} dimensions")
        shape = tuple(self.number("<Q") for _ in range(dimensions))[::-1]
        if 0 in shape:
            raise _MalformedError(f"has tensor {name} without values")
        return name, shape, self.number("<I"), self.number("<Q")
