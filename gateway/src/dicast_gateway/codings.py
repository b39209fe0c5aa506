"""Content codings of a request body: which are understood, and how to undo them within bounds."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from dicast_gateway.errors import GatewayError, Kind, invalid

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# RFC 9110 gives gzip a second name.
_CODINGS = {"gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd"}
_MAX_CODINGS = 4
# Each frame costs a decompressor. A body of many tiny ones would cost seconds and hold nothing.
_MAX_FRAMES = 1024
_PIECE = 64 * 1024
_MAX_ZSTD_HEADER = 18
# What RFC 9659 lets a sender use. A decompressor allocates the whole window that a frame asks for.
_MIN_ZSTD_WINDOW_LOG, _MAX_ZSTD_WINDOW_LOG = 23, 31


class _Decompressor(Protocol):
    """One frame, in pieces: what zstd's own decompressor offers."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipDecompressor:
    """zlib's decompressor with the interface of zstd's."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        # A full piece may have more behind it, with no input left to tell.
        self.needs_input = len(piece) < max_length and not self._inflate.unconsumed_tail
        return piece


def read_codings(headers: Iterable[str]) -> list[str]:
    """The codings that Content-Encoding headers name, in the order in which they were applied.

    Raises:
        GatewayError: one is not understood, or there are too many.
    """
    named = [name.strip().lower() for line in headers for name in line.split(",")]
    applied = [name for name in named if name not in ("", "identity")]
    for name in applied:
        if name not in _CODINGS:
            message = f"Content-Encoding {name[:40]!r} is not understood: send identity, gzip or zstd."
            raise GatewayError(Kind.ENCODING, message)
    if len(applied) > _MAX_CODINGS:
        message = f"Content-Encoding names {len(applied)} codings: send {_MAX_CODINGS} at most."
        raise GatewayError(Kind.ENCODING, message)
    return [_CODINGS[name] for name in applied]


async def decompress(body: bytes, codings: Sequence[str], limit: int) -> bytes:
    """Undo the codings of a body. Nothing is kept beyond `limit` bytes, whatever the body expands to.

    Raises:
        GatewayError: too large, damaged, cut off, or followed by other bytes.
    """
    for coding in reversed(codings):
        decoded = bytearray()
        for piece in _pieces(coding, body, limit):
            decoded += piece
            if len(decoded) > limit:
                raise too_large(limit)
            # Other requests run between two pieces.
            await asyncio.sleep(0)
        body = bytes(decoded)
    return body


def too_large(limit: int) -> GatewayError:
    """A body that has, or expands to, more than `limit` bytes."""
    return GatewayError(Kind.TOO_LARGE, f"The request body has more than {limit} bytes.")


def _pieces(coding: str, body: bytes, limit: int) -> Iterator[bytes]:
    """What the frames of a body hold, one behind the other, as both formats allow."""
    at = 0
    try:
        for _ in range(_MAX_FRAMES):
            frame = _GzipDecompressor() if coding == "gzip" else _zstd_decompressor(body, at, limit)
            while not frame.eof:
                data = body[at : at + _PIECE] if frame.needs_input else b""
                if frame.needs_input and not data:
                    raise _damaged(f"its {coding} data is cut off")
                at += len(data)
                yield frame.decompress(data, _PIECE)
            at -= len(frame.unused_data)
            if at == len(body):
                return
    except (zlib.error, zstd.ZstdError):
        raise _damaged(f"its {coding} data is damaged, or other bytes follow it") from None
    raise _damaged(f"its {coding} data has more than {_MAX_FRAMES} frames")


def _zstd_decompressor(body: bytes, at: int, limit: int) -> _Decompressor:
    """A decompressor for the frame at `at`. Raises GatewayError where the frame says it is too large."""
    try:
        size = zstd.get_frame_info(body[at : at + _MAX_ZSTD_HEADER]).decompressed_size
    except zstd.ZstdError:
        size = None  # No header. The decompressor finds that, too.
    if size is not None and size > limit:
        raise too_large(limit)
    # A frame may have all of its content as its window.
    window_log = min(max(_MIN_ZSTD_WINDOW_LOG, limit.bit_length()), _MAX_ZSTD_WINDOW_LOG)
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_log})


def _damaged(problem: str) -> GatewayError:
    return invalid((), f"the body: {problem}", "content_encoding")
