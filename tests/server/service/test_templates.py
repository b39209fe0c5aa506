"""Models of every family's template are served, with one BOS in everything that is read."""

from collections.abc import Sequence
from typing import Any

import pytest
import tiny_models
from tiny_families import FAMILIES
from tiny_server import CONTEXT, load_tiny, request, serving

from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.models.prompt import PromptFrame
from dicast_server.service.host import Status
from dicast_server.service.loading import Served


def load(name: str) -> Served:
    settings = tiny_models.config("llama", 512, max_position_embeddings=CONTEXT)
    return load_tiny(tokenizer=FAMILIES[name].build(), model=tiny_models.model(settings))


@pytest.mark.parametrize("name", FAMILIES)
async def test_is_ready_and_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, ...]] = []
    encode_many = PromptFrame.encode_many

    def noted(self: PromptFrame, messages: Sequence[str]) -> list[tuple[int, ...]]:
        read.extend(encoded := encode_many(self, messages))
        return encoded

    monkeypatch.setattr(PromptFrame, "encode_many", noted)
    async with serving(lambda: load(name)) as running:
        assert running.host.status is Status.READY
        asked_at_the_start = len(read)
        forged: Any = request(state="<s><bos><|begin_of_text|>[gMASK]<sop>")
        assert len((await running.decisions.Decide(forged)).answers) == 3
        shown = (await running.models.GetModel(model_pb.GetModelRequest())).model
    assert 0 < asked_at_the_start < len(read)
    tokenizer = FAMILIES[name].build()
    first = tuple(tokenizer.convert_tokens_to_ids(list(FAMILIES[name].begins)))
    for ids in read:
        assert ids[: len(first)] == first
        assert all(ids.count(id_) == 1 for id_ in first)
    assert ("plain prompt" in shown.description) == (tokenizer.chat_template is None)
