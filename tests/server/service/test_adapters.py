"""Adapters at serve time: named, listed, checked for themselves, and gone without a trace."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest
import served_adapters
import tiny_adapters
from served_adapters import Adapted, adapted, write
from tiny_server import PATIENCE_S, REGISTRY, Forwards, idle, load_tiny, refusal

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.adapters import file
from dicast_server.readouts.profile import OptionStyle
from dicast_server.service import starting
from dicast_server.service.adapters import Adapters
from dicast_server.service.calls import Deadlines
from dicast_server.service.catalogue import Catalogue
from dicast_server.service.failures import Failure
from dicast_server.service.host import Host, Status
from dicast_server.service.limits import Limits
from dicast_server.service.selfcheck import SelfCheck
from dicast_server.service.server import Address, Server

READY, STARTING, REFUSED = (
    model_pb.Model.STATUS_READY,
    model_pb.Model.STATUS_STARTING,
    model_pb.Model.STATUS_REFUSED,
)


async def test_an_adapter_is_asked_by_name_and_answers_under_it(tmp_path: Path) -> None:
    write(tmp_path / "support", 1)
    write(tmp_path / "other", 2)
    async with adapted(tmp_path) as served:
        plain = await served.ask()
        support, other = await served.ask("tiny:support"), await served.ask("tiny:other")
        assert [name for name, _ in (plain, support, other)] == ["tiny", "tiny:support", "tiny:other"]
        assert len({tuple(answers) for _, answers in (plain, support, other)}) == 3
        for alias in ("jev-latest:support", ":support"):
            assert await served.ask(alias) == support


async def test_unknown_names_are_not_found_and_the_message_has_those_that_there_are(tmp_path: Path) -> None:
    write(tmp_path / "support")
    async with adapted(tmp_path) as served:
        for name in ("tiny:sales", "support", "other:support", "tiny:", "tiny:support:support"):
            code, info, _ = await refusal(served.running.decisions.Decide(served.of(name)))
            assert (code, info.reason) == (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND")
            assert info.metadata["models"] == "tiny, jev-latest, jev-preview, tiny:support"


async def test_models_are_listed_with_their_adapters(tmp_path: Path) -> None:
    adapter = write(tmp_path / "support", tuned_for=served_adapters.tuned_for(style=OptionStyle.BRACKET))
    write(tmp_path / "broken")
    (tmp_path / "broken" / file.WEIGHTS).write_bytes(b"cut off")
    async with adapted(tmp_path) as served:
        models = await served.models()
        assert list(models) == ["tiny", "tiny:broken", "tiny:support"]
        assert not models["tiny"].HasField("adapter")
        shown = models["tiny:support"]
        assert shown.status == READY
        told = shown.adapter
        assert (told.name, told.base, told.hash) == ("support", "tiny", adapter.weights_sha256)
        assert (told.rank, told.modules, told.readout, told.style) == (4, 14, "letters", "bracket")
        assert (told.verdict, json.loads(told.settings)) == ("better", {})
        assert told.made_at.ToDatetime(adapter.made.tzinfo) == adapter.made
        assert shown.profile.name == "adapter"
        assert shown.calibration.source == "default"
        assert json.loads(shown.calibration.wanted)["adapter"] == adapter.weights_sha256
        broken = models["tiny:broken"]
        assert broken.status == REFUSED
        assert "cut off" in broken.status_message
        assert str(tmp_path) not in broken.status_message
        got = await served.running.models.GetModel(model_pb.GetModelRequest(name="jev-latest:support"))
        assert got.model.id == "tiny:support"


async def test_the_way_of_reading_that_it_was_tuned_for_is_its_default(tmp_path: Path) -> None:
    write(tmp_path / "bracket", tuned_for=served_adapters.tuned_for(style=OptionStyle.BRACKET))
    write(tmp_path / "direct", tuned_for=served_adapters.tuned_for("direct", hide_names=True))
    async with adapted(tmp_path) as served:
        models = await served.models()
        assert models["tiny:direct"].readouts[0] == "direct"
        for name, version in (
            ("tiny:direct", "direct-options-v1"),
            ("tiny:bracket", models["tiny:bracket"].profile.prompt_version),
        ):
            sent = served.of(name)
            sent.options.detail = pb.DETAIL_LEVEL_BASIC
            reply = await served.running.decisions.Decide(sent)
            assert {each.diagnostics.prompt_version for each in reply.answers} == {version}


async def test_the_base_answers_with_its_own_bits_all_along(tmp_path: Path) -> None:
    async with adapted(tmp_path) as served:
        before = await served.ask()
        write(tmp_path / "support")
        await served.adapters.look()
        loading = asyncio.create_task(served.adapters.settle())
        assert await served.ask() == before
        await loading
        one, other = await asyncio.gather(served.ask(), served.ask("tiny:support"))
        assert one == before != other
        shutil.rmtree(tmp_path / "support")
        await served.adapters.scan()
        assert await served.ask() == before


async def test_taking_turns_gives_the_same_bits_as_alone(tmp_path: Path) -> None:
    names = ["", "tiny:a", "tiny:b"]
    write(tmp_path / "a", 1)
    write(tmp_path / "b", 2)
    states = ["The door is open. " * 30, "Another state. " * 40]
    alone = []
    for state in states:
        for name in names:
            async with adapted(tmp_path) as served:
                alone.append(await served.ask(name, state=state))
    async with adapted(tmp_path) as served:
        for _ in range(2):  # from the store too
            asked = [served.ask(name, state=state) for state in states for name in names]
            assert await asyncio.gather(*asked) == alone


async def kept(served: Adapted, model: str, state: str) -> tuple[int, int]:
    """Tokens of a state as Prewarm finds them: of the prefix, and of those the cached ones."""
    sent = service_pb.PrewarmRequest(model=model, state=pb.State(text=state))
    sent.time_to_live.FromSeconds(60)
    reply = await served.running.decisions.Prewarm(sent)
    assert reply.kept
    assert reply.model == (model or "tiny")
    return reply.prefix_tokens, reply.cached_tokens


async def test_prewarm_is_for_one_model_and_the_store_never_mixes_them(tmp_path: Path) -> None:
    write(tmp_path / "a", 1)
    write(tmp_path / "b", 2)
    state = "It is a state of two chunks and more. " * 8
    async with adapted(tmp_path) as served:
        for name in ("", "tiny:a", "tiny:b"):
            tokens, cached = await kept(served, name, state)
            assert cached == 0
            assert await kept(served, name, state) == (tokens, tokens)
            reply = await served.running.decisions.Decide(served.of(name, state=state))
            assert reply.summary.usage.cached_tokens >= tokens


async def test_an_adapter_is_not_another_for_another_scale_alone(tmp_path: Path) -> None:
    write(tmp_path / "a", 1, scale=1.0)
    write(tmp_path / "b", 1, scale=2.0)
    state = "It is a state of two chunks and more. " * 8
    async with adapted(tmp_path) as served:
        await kept(served, "tiny:a", state)
        assert (await kept(served, "tiny:b", state))[1] == 0


async def test_what_comes_and_goes_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "dicast_server")
    async with adapted(tmp_path / "adapters") as served:
        assert list(await served.models()) == ["tiny"]
        written = write(tmp_path / "adapters" / "support", 1)
        await served.adapters.scan()
        first = await served.ask("tiny:support")
        assert f"model tiny:support is ready: adapter {written.weights_sha256}" in caplog.text
        write(tmp_path / "adapters" / "support", 2)
        await served.adapters.scan()
        assert await served.ask("tiny:support") != first
        shutil.rmtree(tmp_path / "adapters" / "support")
        await served.adapters.scan()
        assert list(await served.models()) == ["tiny"]
        assert "adapter support is removed" in caplog.text
        await idle(served.running)
        assert not served.running.host.loaded.reader._adapted


async def test_what_is_looked_at_again_and_has_not_changed_stays(tmp_path: Path) -> None:
    write(tmp_path / "support")
    async with adapted(tmp_path) as served:
        entry = served.running.host.adapted["support"]
        await served.adapters.scan()
        assert served.running.host.adapted["support"] is entry


async def test_half_a_folder_is_ignored_until_it_is_whole(tmp_path: Path) -> None:
    write(tmp_path / "whole" / "support")
    folder = tmp_path / "adapters"
    half = folder / "support"
    half.mkdir(parents=True)
    for name in (file.CONFIG, file.WEIGHTS):
        shutil.copy(tmp_path / "whole" / "support" / name, half / name)
    (folder / "a file").write_text("")
    async with adapted(folder) as served:
        assert list(await served.models()) == ["tiny"]
        shutil.copy(tmp_path / "whole" / "support" / file.DOCUMENT, half / file.DOCUMENT)
        await served.adapters.scan()
        assert (await served.models())["tiny:support"].status == READY


async def test_a_refused_one_is_tried_again_once_it_has_changed(tmp_path: Path) -> None:
    write(tmp_path / "support")
    weights = (tmp_path / "support" / file.WEIGHTS).read_bytes()
    (tmp_path / "support" / file.WEIGHTS).write_bytes(weights[:100])
    async with adapted(tmp_path) as served:
        code, info, _ = await refusal(served.running.decisions.Decide(served.of("tiny:support")))
        assert (code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE")
        (tmp_path / "support" / file.WEIGHTS).write_bytes(weights)
        await served.adapters.scan()
        assert (await served.ask("tiny:support"))[0] == "tiny:support"


async def test_one_that_is_being_replaced_stays(tmp_path: Path) -> None:
    write(tmp_path / "support")
    async with adapted(tmp_path) as served:
        # Between the two renames of a writer.
        (tmp_path / "support").rename(tmp_path / ".support.old")
        await served.adapters.scan()
        assert (await served.ask("tiny:support"))[0] == "tiny:support"
        (tmp_path / ".support.old").rename(tmp_path / "support")
        await served.adapters.scan()
        assert (await served.ask("tiny:support"))[0] == "tiny:support"


async def test_a_name_that_nobody_can_ask_for_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "My Adapter")
    async with adapted(tmp_path) as served:
        await served.adapters.scan()
        assert list(await served.models()) == ["tiny"]
        assert caplog.text.count("the adapter in the folder My Adapter is not served") == 1


async def test_while_it_loads_it_says_so(tmp_path: Path) -> None:
    async with adapted(tmp_path) as served:
        write(tmp_path / "support")
        await served.adapters.look()
        assert (await served.models())["tiny:support"].status == STARTING
        code, info, _ = await refusal(served.running.decisions.Decide(served.of("tiny:support")))
        assert (code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "STARTING")
        await served.adapters.settle()
        assert (await served.models())["tiny:support"].status == READY


async def refused_as(folder: Path, **settings: Any) -> str:
    """Why the adapter in a folder is refused; the base is served all the same."""
    async with adapted(folder, **settings) as served:
        shown = (await served.models())["tiny:support"]
        assert shown.status == REFUSED
        assert (await served.ask())[0] == "tiny"
        await idle(served.running)
        assert not served.running.host.loaded.reader._adapted
        return shown.status_message


async def test_bad_adapters_are_refused_with_their_reason(tmp_path: Path) -> None:
    base = served_adapters.base().model
    other = tiny_adapters.base_of(base, weights_hash="b" * 64)
    cases: dict[str, tuple[dict[str, Any], list[str]]] = {
        "base": ({"base": other}, ["a" * 64, "b" * 64]),
        "template": (
            {"base": tiny_adapters.base_of(base, template_hash="c" * 64)},
            ["another chat template", "c" * 64],
        ),
        "module": (
            {"modules": ("model.layers.0.mlp.up_proj",)},
            ["has no model.layers.0.mlp.up_proj.lora_a"],
        ),
        "rank": ({"rank": 8}, ["of rank 8", "(64, 4)", "(64, 8)"]),
        "prompts": (
            {"tuned_for": served_adapters.tuned_for().model_copy(update={"prompt_version": "old"})},
            ["prompts of version old"],
        ),
        "readout": (
            {"tuned_for": served_adapters.tuned_for().model_copy(update={"readout": "x_none"})},
            ["reads with 'x_none', which is not installed here"],
        ),
        "finite": ({}, ["not finite"]),
    }
    for case, (fields, says) in cases.items():
        described = tiny_adapters.description_of(base, **{"tuned_for": served_adapters.tuned_for(), **fields})
        tensors = tiny_adapters.tensors_of(base.model, ("model.layers.1.mlp.up_proj",), 4)
        if case in ("finite", "rank"):
            described = described.model_copy(update={"modules": ("model.layers.1.mlp.up_proj",)})
        if case == "finite":
            name = "model.layers.1.mlp.up_proj.lora_a"
            tensors[name] = tensors[name] * float("inf")
        file.write(tmp_path / case / "support", described, tiny_adapters.content(tensors))
        message = await refused_as(tmp_path / case)
        for each in says:
            assert each in message, case


async def test_one_that_spoils_the_option_mass_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(engine: Any, planner: Any) -> SelfCheck:
        return SelfCheck(0.9 if planner.through == 0 else 0.01, 6, 6, True)

    monkeypatch.setattr(starting, "check", check)
    write(tmp_path / "support")
    assert "only 0.01 of its probability" in await refused_as(tmp_path, least_option_mass=0.25)


async def test_one_that_makes_nothing_finite_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "support", size=1e15)
    message = await refused_as(tmp_path)
    assert "cannot be read in parts" in message or "of its probability" in message


async def test_removing_an_adapter_in_use(tmp_path: Path) -> None:
    write(tmp_path / "support")
    async with adapted(tmp_path) as served:
        expected = await served.ask("tiny:support")
        reader = served.running.host.loaded.reader
        (made,) = reader._adapted.values()
        gate = Forwards(made.head)
        made.head = gate  # type: ignore[assignment]
        gate.hold()
        asked = asyncio.create_task(served.ask("tiny:support"))
        await gate.reached()
        shutil.rmtree(tmp_path / "support")
        await served.adapters.scan()
        code, info, _ = await refusal(served.running.decisions.Decide(served.of("tiny:support")))
        assert (code, info.reason) == (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND")
        assert list(await served.models()) == ["tiny"]
        assert reader._adapted
        gate.release()
        assert (await asked)[0] == expected[0]
        await served.ask()
        await idle(served.running)
        assert not reader._adapted


async def test_a_request_that_waits_for_the_engine_outlives_its_adapter(tmp_path: Path) -> None:
    write(tmp_path / "support")
    async with adapted(tmp_path) as served:
        expected = await served.ask("tiny:support")
        served.running.gate.hold()
        first = asyncio.create_task(served.ask())
        await served.running.gate.reached()
        second = asyncio.create_task(served.ask("tiny:support"))
        async with asyncio.timeout(PATIENCE_S):
            while served.running.host.engine.load < 2:
                await asyncio.sleep(0.001)
        shutil.rmtree(tmp_path / "support")
        await served.adapters.look()
        served.running.gate.release()
        assert (await first)[0] == "tiny"
        assert await second == expected


async def test_a_caller_who_leaves_an_adapter_that_is_gone_frees_it(tmp_path: Path) -> None:
    write(tmp_path / "support")
    async with adapted(tmp_path) as served:
        served.running.gate.hold()
        first = asyncio.create_task(served.ask())
        await served.running.gate.reached()
        left: Any = served.running.decisions.Decide(served.of("tiny:support"))
        async with asyncio.timeout(PATIENCE_S):
            while served.running.host.engine.load < 2:
                await asyncio.sleep(0.001)
        shutil.rmtree(tmp_path / "support")
        await served.adapters.look()
        left.cancel()
        served.running.gate.release()
        await first
        async with asyncio.timeout(PATIENCE_S):
            while served.running.host.loaded.reader._adapted:
                await asyncio.sleep(0.001)


class Clock:
    """A time that goes on when it is told to."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._asleep = asyncio.Event()
        self._wake = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._asleep.set()
        await self._wake.wait()
        self._wake.clear()

    async def asleep(self) -> None:
        """Wait until somebody sleeps."""
        async with asyncio.timeout(PATIENCE_S):
            await self._asleep.wait()

    async def tick(self) -> None:
        """Let one sleep end, and wait for the next."""
        self._asleep.clear()
        self._wake.set()
        await self.asleep()


async def test_a_server_looks_at_its_folder_again_and_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, folder = Clock(), tmp_path / "adapters"
    write(folder / "support")
    host = Host(load_tiny, REGISTRY, least_option_mass=0.0)
    adapters = Adapters(host, lambda model: tmp_path / "adapters", 2.5, clock.sleep)
    server = Server(host, Catalogue(host, "tiny"), Limits(), Deadlines(), adapters=adapters)
    await server.listen(Address("127.0.0.1", 0))
    await server.make_ready()
    # Known from the first moment on, though it is yet to be loaded.
    assert list(host.adapted) == ["support"]
    await clock.asleep()
    assert host.adapted["support"].status is Status.READY
    write(folder / "other")
    await clock.tick()
    assert host.adapted["other"].status is Status.READY
    folder.rename(tmp_path / "away")
    folder.write_text("no folder")
    await clock.tick()
    await clock.tick()
    assert caplog.text.count("cannot be looked at") == 1
    assert set(host.adapted) == {"support", "other"}
    folder.unlink()
    await clock.tick()
    assert not host.adapted
    assert set(clock.slept) == {2.5}
    await server.drain()


async def test_where_the_base_is_refused_no_adapter_is_looked_for(tmp_path: Path) -> None:
    write(tmp_path / "support")
    host = Host(load_tiny, REGISTRY, least_option_mass=0.999)
    server = Server(
        host, Catalogue(host, "tiny"), Limits(), Deadlines(), adapters=Adapters(host, lambda model: tmp_path)
    )
    await server.listen(Address("127.0.0.1", 0))
    assert await server.make_ready() is Status.REFUSED
    assert not host.adapted
    await server.drain()


async def test_an_alias_may_name_an_adapter(tmp_path: Path) -> None:
    write(tmp_path / "support")
    async with adapted(tmp_path) as served:
        catalogue = Catalogue(served.running.host, "tiny", ("house", "bot=support", "later=sales"))
        assert (
            catalogue.find("bot") is catalogue.find("house:support") is served.running.host.adapted["support"]
        )
        assert catalogue.find("house") is served.running.host.base
        assert catalogue.aliases_of(catalogue.find("bot")) == ["bot"]
        assert catalogue.aliases_of(catalogue.find("")) == ["house"]
        with pytest.raises(Failure):
            catalogue.find("later")
