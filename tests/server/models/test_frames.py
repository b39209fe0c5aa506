"""One frame a system text, whoever asks first, and no more of them than may be kept."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tiny_models

from dicast_server.models import ModelRefused
from dicast_server.models.frames import _KEPT, Frames
from dicast_server.models.prompt import PromptFrame


def test_a_frame_is_built_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = Frames.from_tokenizer(tiny_models.qwen_like())
    built: list[str] = []
    build = PromptFrame.build
    together = threading.Barrier(4)

    def counted(template: Any, encoder: Any, system: str) -> PromptFrame:
        built.append(system)
        return build(template, encoder, system)

    def ask(system: str) -> PromptFrame:
        together.wait(timeout=30)
        return frames.of(system)

    monkeypatch.setattr(PromptFrame, "build", counted)
    with ThreadPoolExecutor(4) as pool:
        asked = list(pool.map(ask, ["a", "b", "a", "b"]))
    assert sorted(built) == ["a", "b"]
    assert asked[0] is asked[2]
    assert asked[1] is asked[3]
    assert frames.of(" a\n") is asked[0]


def test_as_from_the_template() -> None:
    frames = Frames.from_tokenizer(tiny_models.qwen_like())
    for system in ("", "Be brief."):
        alone = PromptFrame.from_template(tiny_models.qwen_like(), system=system)
        assert frames.of(system).fingerprint == alone.fingerprint
        assert frames.of(system).encode("x") == alone.encode("x")


def test_those_used_last_are_kept() -> None:
    frames = Frames.from_tokenizer(tiny_models.chatml())
    bare, first = frames.of(), frames.of("0")
    for number in range(1, _KEPT):
        frames.of(str(number))
        assert frames.of() is bare
    assert frames.of("0") is not first
    assert frames.of("0").fingerprint == first.fingerprint


def test_an_opening_holds_for_every_system_text() -> None:
    tokenizer = tiny_models.qwen_like(tiny_models.CHATML)
    frames = Frames.from_tokenizer(tokenizer)
    (opened,) = frames.openings()
    assert opened.openings() == []
    for system in ("", "Be brief."):
        assert tokenizer.decode(opened.of(system).encode("x")) == (
            tokenizer.decode(frames.of(system).encode("x")) + "<think>\n\n</think>\n\n"
        )


def test_a_template_that_fails_is_refused_at_once() -> None:
    with pytest.raises(ModelRefused, match="fails on one user message"):
        Frames.from_tokenizer(tiny_models.chatml("{{ raise_exception('no') }}"))
