"""API keys: who may call, and that each key's states are its own."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_server import health, predicate, refusal, request, serving

from dicast.cli.command import CommandError
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.cli.key import main
from dicast_server.service.keys import Keys, digest, new_key

KEYS = {name: new_key() for name in ("ann", "bob")}
KNOWN = Keys({digest(key): name for name, key in KEYS.items()})


def bearer(key: str, *more: tuple[str, str]) -> Any:
    return (("authorization", f"Bearer {key}"), *more)


def test_a_key_that_the_command_made_is_known_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ann"]) == 0
    line, said = capsys.readouterr()
    key = said.split()[-1]
    assert key not in line
    (tmp_path / "keys").write_text(
        f"# ours\n\n{line.rstrip()}  # the first\nbob {digest('other')}\n", "utf-8"
    )
    keys = Keys.read(tmp_path / "keys")
    assert (keys.name_of(key), keys.name_of("other"), keys.name_of(key[:-1])) == ("ann", "bob", None)


@pytest.mark.parametrize("name", ["", "two words", "a#b", "naïve", "x" * 65, "a\nb"])
def test_names_that_a_file_cannot_hold_are_refused(name: str) -> None:
    with pytest.raises(CommandError):
        main([name])


@given(st.text())
def test_no_other_text_is_a_key(text: str) -> None:
    assert (KNOWN.name_of(text) is not None) == (text in KEYS.values())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no key"),
        (b"# nothing\n", "holds no key"),
        (b"ann\n", "line 1"),
        (b"\nann " + b"g" * 64, "line 2"),
        (b"ann " + b"a" * 63, "line 1"),
        (b"ann x " + b"a" * 64, "line 1"),
        (b"ann " + b"a" * 64 + b"\nbob " + b"A" * 64, "line 2: the key of another name"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_file_that_is_wrong_is_said_with_its_line(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        Keys.read(tmp_path / "keys")


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        bearer("wrong"),
        bearer(""),
        (("authorization", KEYS["ann"]),),
        (("authorization", f"Basic {KEYS['ann']}"),),
        bearer(KEYS["ann"] + "x"),
        bearer(digest(KEYS["ann"])),
        (("x-dicast-tenant", "ann"),),
    ],
    ids=["none", "wrong", "empty", "no scheme", "basic", "longer", "hash", "tenant"],
)
async def test_nothing_is_told_without_a_key(metadata: Any) -> None:
    async with serving(keys=KNOWN) as running:
        calls = [
            running.decisions.Decide(request(predicate()), metadata=metadata),
            running.decisions.Prewarm(service_pb.PrewarmRequest(state=pb.State(text="x")), metadata=metadata),
            running.models.ListModels(model_pb.ListModelsRequest(), metadata=metadata),
            running.models.GetModel(model_pb.GetModelRequest(), metadata=metadata),
        ]
        for call in calls:
            code, info, _ = await refusal(call)
            assert (code, info.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
        stream = running.decisions.StreamDecide(metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert running.gate.count == 0
        assert await health(running) == 1


async def test_every_call_is_answered_with_a_key() -> None:
    async with serving(keys=KNOWN) as running:
        metadata = bearer(KEYS["bob"])
        assert (await running.decisions.Decide(request(predicate()), metadata=metadata)).answers
        assert (await running.models.ListModels(model_pb.ListModelsRequest(), metadata=metadata)).models
        stream = running.decisions.StreamDecide(metadata=(("authorization", f"bearer  {KEYS['ann']} "),))
        await stream.write(service_pb.StreamDecideRequest(id="a", request=request(predicate())))
        event: Any = await stream.read()
        assert event.answer.predicate.probability > 0
        await stream.done_writing()


async def test_a_keys_states_are_its_own() -> None:
    async with serving(keys=KNOWN) as running:

        async def cached(name: str, *more: tuple[str, str]) -> int:
            call = running.decisions.Decide(
                request(predicate(), state="s" * 300), metadata=bearer(KEYS[name], *more)
            )
            return int((await call).summary.usage.cached_tokens)

        assert await cached("ann") == 0
        assert await cached("ann") > 300
        assert await cached("bob") == 0
        # A tenant of one's own choice parts one's states further, and never reaches another's.
        assert await cached("bob", ("x-dicast-tenant", "ann")) == 0
        assert await cached("bob", ("x-dicast-tenant", "ann")) > 300
        assert await cached("bob") > 300
