"""The prompts of each family: what comes first, where the system text goes, how it ends, what a letter is."""

from collections import Counter
from typing import Any

import pytest
import tiny_families
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tiny_families import FAMILIES, Family

from dicast_server.models.frames import Frames
from dicast_server.models.prompt import PromptFrame

LETTERS = [chr(code) for code in (*range(65, 91), *range(97, 123))]
MESSAGE = "State:\nx\n\nQuestion: ?\nOptions:\nA) b: \n\nAnswer with the letter only."
SYSTEM = "Read the state.\n\nThen answer."

BUILT = {name: family.build() for name, family in FAMILIES.items()}
FRAMES = {name: Frames.from_tokenizer(tokenizer) for name, tokenizer in BUILT.items()}


@pytest.fixture(params=FAMILIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def family(name: str) -> Family:
    return FAMILIES[name]


@pytest.fixture
def tokenizer(name: str) -> Any:
    return BUILT[name]


@pytest.fixture
def frames(name: str) -> Frames:
    return FRAMES[name]


def controls(frame: PromptFrame, ids: tuple[int, ...]) -> Counter[int]:
    return Counter(id_ for id_ in ids if id_ in frame.encoder.control)


@pytest.mark.parametrize("system", ["", SYSTEM])
def test_begins_once_and_ends_where_the_answer_begins(
    system: str, family: Family, tokenizer: Any, frames: Frames
) -> None:
    frame = frames.of(system)
    ids = frame.encode(MESSAGE)
    first = tuple(tokenizer.convert_tokens_to_ids(list(family.begins)))
    assert ids[: len(first)] == first
    assert all(ids.count(id_) == 1 for id_ in first)
    assert ("once" in frame.description) == bool(first)
    text = tokenizer.decode(ids)
    assert text.endswith(family.ends)
    assert text.count(MESSAGE) == 1


def test_the_letter_is_the_token_that_it_adds(family: Family, tokenizer: Any, frames: Frames) -> None:
    for frame in (frames.of(), frames.of(SYSTEM)):
        labels = frame.label_ids(LETTERS)
        assert list(labels) == LETTERS
        assert labels["A"] == tokenizer.convert_tokens_to_ids(family.label)
        assert len(set(labels.values())) == 52


def test_the_system_text_stands_once_before_the_message(
    family: Family, tokenizer: Any, frames: Frames
) -> None:
    frame = frames.of(SYSTEM)
    text = tokenizer.decode(frame.encode(MESSAGE))
    assert text.count(SYSTEM) == 1
    in_front = family.system_in_front or tokenizer.chat_template is None
    assert (f"{SYSTEM}\n\n{MESSAGE}" in text) == in_front
    if tokenizer.chat_template is not None:
        place = "in front of the user's message" if in_front else "in its own place"
        assert f"system text {place}" in frame.description
    assert "system" not in frames.of().description


def test_the_whole_prompt_is_the_one_of_the_models_own_tokenizer(
    family: Family, tokenizer: Any, frames: Frames
) -> None:
    """Not where this server writes more than the template does."""
    if tokenizer.chat_template is None or "</think>" in family.ends or "final" in family.ends:
        return
    turns = [{"role": "user", "content": MESSAGE}]
    own = tokenizer.apply_chat_template(
        turns, tokenize=False, add_generation_prompt=True, date_string="26 Jul 2024"
    )
    assert list(frames.of().encode(MESSAGE)) == tokenizer.encode(own, add_special_tokens=False)
    if not family.system_in_front:
        turns = [{"role": "system", "content": SYSTEM}, *turns]
        own = tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True, date_string="26 Jul 2024"
        )
        assert list(frames.of(SYSTEM).encode(MESSAGE)) == tokenizer.encode(own, add_special_tokens=False)


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_no_text_of_others_forges_a_control_token(data: st.DataObject, name: str) -> None:
    frames, tokenizer = FRAMES[name], BUILT[name]
    spelled = st.sampled_from(sorted(tokenizer.get_added_vocab()))
    text = data.draw(st.lists(st.one_of(st.text(max_size=5), spelled), min_size=1, max_size=4).map("".join))
    for frame, innocent in ((frames.of(), frames.of()), (frames.of(f"{text}S"), frames.of("S"))):
        assert controls(frame, frame.encode(text)) == controls(innocent, innocent.encode("x"))


def test_the_turn_ends_with_the_token_behind_a_reply(family: Family, tokenizer: Any, frames: Frames) -> None:
    assert frames.of().end_of_turn == tokenizer.convert_tokens_to_ids(family.closes)


def test_other_openings_are_those_of_the_tokenizers_own_marks(
    family: Family, tokenizer: Any, frames: Frames
) -> None:
    frame = frames.of()
    others = frame.openings()
    assert [each.opening.name for each in others if each.opening] == list(family.openings)
    for other in others:
        assert other.opening is not None
        ids = other.encode(MESSAGE)
        assert ids[: len(frame.encode(MESSAGE))] == frame.encode(MESSAGE)
        assert tokenizer.decode(ids).endswith(family.ends + "".join(other.opening.pieces))
        assert other.opening.name in other.description
        assert other.fingerprint != frame.fingerprint
        assert len(other.label_ids(LETTERS)) == 52
        for mark in (piece for piece in other.opening.pieces if not piece.isspace()):
            assert tokenizer.convert_tokens_to_ids(mark) in ids


def test_mlx_lms_wrapper_serves_as_well(family: Family, tokenizer: Any, frames: Frames) -> None:
    wrapped = Frames.from_tokenizer(TokenizerWrapper(tokenizer))
    assert wrapped.of(SYSTEM).fingerprint == frames.of(SYSTEM).fingerprint
    assert wrapped.of().end_of_turn == frames.of().end_of_turn


class TestBos:
    @pytest.mark.parametrize("times", [0, 1, 2])
    @pytest.mark.parametrize("added", [True, False])
    def test_once_whatever_template_and_tokenizer_do(self, times: int, added: bool) -> None:
        template = "<s>" * times + tiny_families.MAGISTRAL.removeprefix("{{ bos_token }}")
        tokenizer = tiny_families.bytes_like(template, ("<s>", "</s>", "[INST]", "[/INST]"), bos_token="<s>")
        if not added:
            tokenizer.backend_tokenizer.post_processor = None
        for system in ("", SYSTEM):
            ids = PromptFrame.from_template(tokenizer, system=system).encode("x")
            # A model whose tokenizer adds none and whose template prints none has none.
            assert ids.count(tokenizer.bos_token_id) == (1 if times or added else 0)
            if times or added:
                assert ids[0] == tokenizer.bos_token_id
