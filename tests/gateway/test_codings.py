"""Compressed request bodies: what a client may send, and what nobody can do to the gateway with it."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from gateway.served import ScriptedServer
from hypothesis import given
from hypothesis import strategies as st
from typesafe_sdk import Noul, TypeSafeClient

from dicast_gateway import body as body_module
from dicast_gateway.codings import decompress, read_codings
from dicast_gateway.errors import GatewayError, Kind

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMIT = 1024 * 1024
MIB = 1024 * 1024
SYSTEMONE = {"state": "s" * 2000, "questions": {"q": {"type": "noul", "instructions": "?"}}}
DECISIONS = {"input": "s" * 2000, "questions": [{"type": "predicate", "instructions": "?"}]}
ROUTES = pytest.mark.parametrize(
    ("route", "asked", "invalid"), [("/v1/systemone", SYSTEMONE, 422), ("/v1/decisions", DECISIONS, 400)]
)
COMPRESS: dict[str, Callable[..., bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}
CODINGS = pytest.mark.parametrize("coding", list(COMPRESS))


def undo(body: bytes, *codings: str, limit: int = LIMIT) -> bytes:
    return asyncio.run(decompress(body, codings, limit))


def refused(body: bytes, *codings: str, limit: int = LIMIT) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        undo(body, *codings, limit=limit)
    return caught.value


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.lists(st.sampled_from(list(COMPRESS))))
def test_round_trip(frames: list[bytes], more: list[str]) -> None:
    for coding, compress in COMPRESS.items():
        sent = b"".join(compress(frame) for frame in frames)
        for outer in more:
            sent = COMPRESS[outer](sent)
        assert undo(sent, coding, *more) == b"".join(frames)


@CODINGS
@given(st.binary(min_size=1, max_size=50), st.integers(1, 20_000), st.integers(0, 9))
def test_round_trip_over_many_pieces(coding: str, unit: bytes, count: int, level: int) -> None:
    content = unit * count
    limit = max(1, len(content))
    assert undo(COMPRESS[coding](content, level), coding, limit=limit) == content
    if len(content) > 1:
        assert refused(COMPRESS[coding](content, level), coding, limit=limit - 1).kind is Kind.TOO_LARGE


@CODINGS
@given(st.data())
def test_a_damaged_stream_is_refused_or_means_something(coding: str, data: st.DataObject) -> None:
    sent = bytearray(COMPRESS[coding](json.dumps(SYSTEMONE).encode()))
    at = data.draw(st.integers(0, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))
    try:
        undo(bytes(sent), coding)
    except GatewayError as problem:
        # A damaged size may be too large a size.
        assert problem.kind in (Kind.INVALID, Kind.TOO_LARGE)


@CODINGS
def test_a_cut_stream_is_refused_wherever_it_is_cut(coding: str) -> None:
    sent = COMPRESS[coding](json.dumps(SYSTEMONE).encode())
    for size in range(len(sent)):
        problem = refused(sent[:size], coding)
        assert (problem.kind, problem.message) == (
            Kind.INVALID,
            f"the body: its {coding} data is cut off",
        )


@CODINGS
@pytest.mark.parametrize("garbage", [b"\n", b"\0", b"\0" * 512, b"{}", b"garbage" * 20_000])
def test_nothing_may_follow(coding: str, garbage: bytes) -> None:
    problem = refused(COMPRESS[coding](b"x" * 1000) + garbage, coding)
    assert problem.kind is Kind.INVALID
    assert f"its {coding} data is" in problem.message


def zstd_stream(chunk: bytes, count: int = 1, **options: int) -> bytes:
    """A frame that does not say how much it holds."""
    named: dict[int, int] = {zstd.CompressionParameter[name]: value for name, value in options.items()}
    compressor = zstd.ZstdCompressor(options=named)
    return b"".join(compressor.compress(chunk) for _ in range(count)) + compressor.flush()


ZEROS = bytes(16 * MIB)
BOMBS = {
    "gzip": (gzip.compress(ZEROS), ["gzip"]),
    "zstd": (zstd_stream(ZEROS, 16), ["zstd"]),
    "zstd that says so": (zstd.compress(ZEROS), ["zstd"]),
    "2 GiB of gzip in gzip": (gzip.compress(gzip.compress(ZEROS, 9) * 32), ["gzip", "gzip"]),
    "16 GiB of zstd in zstd": (zstd.compress(zstd_stream(ZEROS) * 1024), ["zstd", "zstd"]),
    "gzip in zstd": (zstd.compress(gzip.compress(ZEROS) * 32), ["gzip", "zstd"]),
}


@pytest.mark.parametrize("bomb", list(BOMBS))
def test_a_bomb_costs_little_time_and_memory(bomb: str) -> None:
    sent, codings = BOMBS[bomb]
    assert len(sent) < 64 * 1024
    tracemalloc.start()
    began = time.monotonic()
    try:
        assert refused(sent, *codings).kind is Kind.TOO_LARGE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < 5
    # What is decoded, as it grows, and the stage before it. A window of zstd's, 8 MiB, is not traced.
    assert peak < 4 * LIMIT


@CODINGS
def test_many_tiny_frames_are_refused(coding: str) -> None:
    frame = COMPRESS[coding](b"")
    assert undo(frame * 1024, coding) == b""
    assert "more than 1024 frames" in refused(frame * 50_000, coding).message


def test_a_window_beyond_the_limit_is_refused() -> None:
    assert undo(zstd_stream(b"x", window_log=23), "zstd") == b"x"
    assert refused(zstd_stream(b"x", window_log=24), "zstd").kind is Kind.INVALID
    assert undo(zstd_stream(b"x", window_log=24), "zstd", limit=16 * MIB - 1) == b"x"


@CODINGS
async def test_others_run_while_a_body_is_decompressed(coding: str) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await decompress(COMPRESS[coding](bytes(4 * MIB)), [coding], 4 * MIB)
    task.cancel()
    assert turns >= 64


@pytest.mark.parametrize(
    ("headers", "codings"),
    [
        ([], []),
        ([""], []),
        (["identity"], []),
        (["GZip"], ["gzip"]),
        (["x-gzip"], ["gzip"]),
        ([" zstd ,, identity,gzip"], ["zstd", "gzip"]),
        (["zstd", "gzip"], ["zstd", "gzip"]),
    ],
)
def test_the_header(headers: list[str], codings: list[str]) -> None:
    assert read_codings(headers) == codings


@pytest.mark.parametrize("header", ["br", "deflate", "x-zstd", "gzip;q=1", "gzip, br", "*", "gzip," * 5])
@ROUTES
def test_unknown_codings(
    http: httpx.Client, server: ScriptedServer, route: str, asked: Any, invalid: int, header: str
) -> None:
    reply = http.post(route, json=asked, headers={"content-encoding": header})
    assert reply.status_code == 415
    assert reply.headers["accept-encoding"] == "identity, gzip, zstd"
    assert "identity, gzip or zstd" in reply.text or "send 4 at most" in reply.text
    assert not server.requests


@pytest.mark.parametrize(
    ("header", "applied"),
    [
        ("identity", []),
        ("gzip", ["gzip"]),
        ("X-Gzip", ["gzip"]),
        ("zstd", ["zstd"]),
        ("gzip, zstd", ["gzip", "zstd"]),
        ("zstd, identity, gzip", ["zstd", "gzip"]),
    ],
)
@ROUTES
def test_compressed_requests_are_answered(
    http: httpx.Client,
    server: ScriptedServer,
    route: str,
    asked: Any,
    invalid: int,
    header: str,
    applied: list[str],
) -> None:
    sent = json.dumps(asked).encode()
    for coding in applied:
        sent = COMPRESS[coding](sent)
    reply = http.post(route, content=sent, headers={"content-encoding": header})
    assert reply.status_code == 200, reply.text
    assert len(server.requests) == 1


@CODINGS
@ROUTES
def test_failures_in_the_shape_of_the_dialect(
    http: httpx.Client, server: ScriptedServer, route: str, asked: Any, invalid: int, coding: str
) -> None:
    headers = {"content-encoding": coding}
    whole = COMPRESS[coding](json.dumps(asked).encode())
    for sent in (b"", b"{}", whole[:-5], whole + b"x" * 20):
        reply = http.post(route, content=sent, headers=headers)
        assert reply.status_code == invalid, reply.text
        assert f"the body: its {coding} data is" in reply.text
    bomb, _ = BOMBS[coding]
    for sent in (bomb, b"x" * (5 * MIB)):
        assert http.post(route, content=sent, headers=headers).status_code == 413
    assert http.post("/v1/prewarm", content=b"{}", headers=headers).status_code == 422
    assert not server.requests


@pytest.mark.parametrize(("size", "codings"), [(10, []), (2000, ["zstd"]), (3 * MIB, ["zstd"])])
def test_the_typesafe_sdk_compresses_what_is_large(
    url: str, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, size: int, codings: list[str]
) -> None:
    seen: list[list[str]] = []

    def spy(headers: list[str]) -> list[str]:
        seen.append(read_codings(headers))
        return seen[-1]

    monkeypatch.setattr(body_module, "read_codings", spy)
    with TypeSafeClient(api_key="k", base_url=url) as client:
        reply = client.system_one(state="é" * (size // 2), questions={"q": Noul(instructions="?")})
    assert reply.nouls["q"].noul == 0.5
    assert server.requests[0].state.text == "é" * (size // 2)
    assert seen == [codings]
