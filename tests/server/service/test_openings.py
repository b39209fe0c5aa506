"""At its start a model is tried with each way to begin a reply; the first that it answers after is kept."""

from string import ascii_letters
from typing import Any

import pytest
import tiny_models
from tiny_server import load_tiny, request, serving

from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.service import starting
from dicast_server.service.host import Status
from dicast_server.service.loading import Served
from dicast_server.service.planning import Planner
from dicast_server.service.selfcheck import SelfCheck

# Its reply may begin with an empty <think> block, or with a space before the answer.
SPEAKS = tiny_models.CHATML.replace("assistant\n", "assistant\nSo:")


def load() -> Served:
    backend = tiny_models.byte_bpe(
        tiny_models.CHATML_TOKENS,
        merges=tuple(("Ġ", letter) for letter in ascii_letters),
        plain=("<think>", "</think>"),
    )
    tokenizer = tiny_models.fast(backend, SPEAKS, eos_token="<|im_end|>")
    return load_tiny(tokenizer=tokenizer, model=tiny_models.model(tiny_models.config("llama", 320)))


def scripted(monkeypatch: pytest.MonkeyPatch, *masses: float) -> list[Planner]:
    """Self-checks with these option masses, in turn; tells whose they were."""
    left, seen = list(masses), list[Planner]()

    async def check(engine: Any, planner: Planner) -> SelfCheck:
        seen.append(planner)
        return SelfCheck(left.pop(0), 6, 6, True)

    monkeypatch.setattr(starting, "check", check)
    return seen


@pytest.mark.parametrize(
    ("masses", "kept"),
    [
        ((0.9,), None),
        ((0.01, 0.2), "an empty <think> block"),
        ((0.01, 0.04, 0.06), "a space before the answer"),
        ((float("nan"), 0.2), "an empty <think> block"),
    ],
)
async def test_the_first_that_reaches_the_floor(
    masses: tuple[float, ...],
    kept: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "dicast_server")
    seen = scripted(monkeypatch, *masses)
    async with serving(load, least_option_mass=0.05) as running:
        assert running.host.status is Status.READY
        served = running.host.served
        assert served is not None
        assert len(seen) == len(masses)
        assert running.host.base.self_check == SelfCheck(masses[-1], 6, 6, True)
        opening = served.model.frame.opening
        assert (opening and opening.name) == kept
        shown = (await running.models.GetModel(model_pb.GetModelRequest())).model
        assert shown.profile.template_hash == served.model.frame.fingerprint
        assert ("reply begins with" in shown.description) == (kept is not None)
        assert f"behind {kept or 'the template'}" in caplog.text
        # What is served is what was checked.
        assert running.host.planner().replies is seen[-1].replies
        assert (await running.decisions.Decide(request())).answers


async def test_where_none_does_the_refusal_names_what_each_had(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, 0.01, 0.03, 0.02)
    async with serving(load, least_option_mass=0.05) as running:
        assert running.host.status is Status.REFUSED
        assert running.host.status_message.startswith(
            "the model puts only 0.01 of its probability on the letters of the options, 0.03 behind an empty "
            "<think> block, 0.02 behind a space before the answer (least allowed: 0.05)"
        )
        assert running.host.base.self_check == SelfCheck(0.01, 6, 6, True)


def test_prefixes_of_different_openings_are_kept_apart() -> None:
    rendered = load()
    others = list(rendered.openings())
    assert len({each.salt for each in (rendered, *others)}) == 3
    assert others[0].labels["A"] == rendered.labels["A"]
    # Behind a space a letter is another token.
    assert others[1].labels["A"] != rendered.labels["A"]


def test_an_opening_behind_which_letters_are_no_tokens_is_not_tried() -> None:
    tokenizer = tiny_models.qwen_like(SPEAKS)
    names = [each.model.frame.opening for each in load_tiny(tokenizer=tokenizer).openings()]
    assert [each.name for each in names if each] == ["an empty <think> block"]
