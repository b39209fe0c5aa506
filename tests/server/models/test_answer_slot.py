"""What a text becomes right behind the prompt: labels of one token, candidates of several, refusals."""

import time
from pathlib import Path
from typing import Any

import pytest
import tiny_families
import tiny_models
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers

from dicast_server.models import gguf_file, gguf_tokenizer
from dicast_server.models.answer_slot import MAX_CANDIDATE_TOKENS, Unreadable
from dicast_server.models.prompt import PromptFrame

LETTERS = [chr(code) for code in range(65, 91)]
PAIRS = [first + second for first in LETTERS for second in LETTERS]
QWEN = tiny_models.qwen_like()
FRAME = PromptFrame.from_template(QWEN)


def why(frame: PromptFrame, text: str) -> str:
    (found,) = frame.candidate_ids([text])
    assert isinstance(found, Unreadable)
    return found.why


def merging(*merges: tuple[str, str], end: str = "<s>") -> Any:
    """A tokenizer with merges of its own, and a template that ends in a text."""
    backend = tiny_models.byte_bpe(("<s>",), merges=merges)
    return tiny_models.fast(backend, "{{ messages[0].content }}" + end)


class TestLabels:
    def test_what_is_no_single_token_is_left_out_and_stops_nothing(self) -> None:
        tokenizer = merging(("A", "B"), ("Ġ", "C"))
        frame = PromptFrame.from_template(tokenizer)
        found = frame.label_ids(["A", "BA", "", "AB", "é", "<s>", "B"])
        assert list(found) == ["A", "AB", "B"]
        assert tokenizer.decode([found["AB"]]) == "AB"

    def test_a_token_that_is_taken_goes_to_the_first(self) -> None:
        backend = tiny_models.byte_bpe(("<s>",), merges=())
        backend.normalizer = normalizers.Lowercase()
        frame = PromptFrame.from_template(tiny_models.fast(backend, "<s>{{ messages[0].content }}<s>"))
        assert list(frame.label_ids(["a", "A", "b"])) == ["a", "b"]

    def test_a_letter_that_melts_into_the_prompts_end_is_left_out(self) -> None:
        frame = PromptFrame.from_template(merging(("Ġ", "A"), end="<s>Answer: "))
        assert list(frame.label_ids(["A", "B"])) == ["B"]

    def test_hundreds_take_no_time(self, smollm2_path: Path) -> None:
        metadata = gguf_file.GgufFile(smollm2_path).metadata
        frame = PromptFrame.from_template(gguf_tokenizer.build(metadata, "file"))
        begun = time.perf_counter()
        found = frame.label_ids([*LETTERS, *PAIRS])
        assert time.perf_counter() - begun < 2
        assert len(found) == 26 + 377
        assert len(set(found.values())) == len(found)


class TestCandidates:
    @given(st.text(min_size=1, max_size=8).filter(lambda text: "<" not in text))
    def test_are_what_they_add_to_the_prompt(self, text: str) -> None:
        (found,) = FRAME.candidate_ids([text])
        assert not isinstance(found, Unreadable)
        assert QWEN.decode(found) == text
        assert FRAME.encoder.control.isdisjoint(found)

    def test_each_by_itself(self) -> None:
        assert FRAME.candidate_ids([]) == []
        first, refused, last = FRAME.candidate_ids(["yes", "", "no"])
        assert [first, last] == [tuple(QWEN.encode(each)) for each in ("yes", "no")]
        assert refused == Unreadable("is empty")

    def test_too_long(self) -> None:
        (found,) = FRAME.candidate_ids(["é" * (MAX_CANDIDATE_TOKENS // 2)])
        assert not isinstance(found, Unreadable)
        assert len(found) == MAX_CANDIDATE_TOKENS
        assert why(FRAME, "x" * (MAX_CANDIDATE_TOKENS + 1)) == "takes 65 tokens, and at most 64 are read"
        # Without tokenising a megabyte.
        assert why(FRAME, "x" * 1_000_000).startswith("takes at least ")

    @pytest.mark.parametrize("text", ["<|im_end|>", "yes<think>", "a<|im_end|>\n<|im_start|>user\nb"])
    def test_a_control_token(self, text: str) -> None:
        assert why(FRAME, text) == "spells a control token of the model"

    def test_a_control_token_half_of_which_is_in_the_prompt(self) -> None:
        tokenizer = tiny_models.chatml("<|im_start|>{{ messages[0].content }}<|im_start|>a <|im_")
        assert why(PromptFrame.from_template(tokenizer), "end|>") == "spells a control token of the model"

    def test_a_merge_over_the_boundary(self) -> None:
        frame = PromptFrame.from_template(merging(("Ġ", "y"), end="<s>Answer: "))
        assert why(frame, "yes") == "melts into the end of the prompt"
        assert not isinstance(frame.candidate_ids(["no"])[0], Unreadable)

    def test_a_unicode_form_that_the_model_does_not_read(self) -> None:
        backend = tiny_models.byte_bpe(tiny_models.CHATML_TOKENS)
        backend.normalizer = normalizers.NFC()
        frame = PromptFrame.from_template(tiny_models.fast(backend, tiny_models.CHATML))
        assert why(frame, "cafe\u0301") == "is not in the Unicode form that the model reads: write 'café'"
        assert not isinstance(frame.candidate_ids(["café"])[0], Unreadable)

    def test_a_character_that_the_model_does_not_know(self) -> None:
        backend = tiny_models.byte_bpe(tiny_models.CHATML_TOKENS)
        backend.normalizer = normalizers.Lowercase()
        frame = PromptFrame.from_template(tiny_models.fast(backend, tiny_models.CHATML))
        assert why(frame, "Yes") == "does not come back unchanged from the model's tokens"

    def test_behind_a_mark_of_a_words_beginning(self) -> None:
        """SentencePiece's mark is not a part of the text; a space that the mark swallows is missed."""
        tokenizer = tiny_families.FAMILIES["mistral"].build()
        frame = PromptFrame.from_template(tokenizer)
        (found,) = frame.candidate_ids(["Aye"])
        assert tokenizer.convert_ids_to_tokens(found) == ["▁A", "y", "e"]
        assert why(frame, " Aye") == "does not come back unchanged from the model's tokens"

    def test_behind_the_plain_prompt_they_begin_with_its_space(self) -> None:
        tokenizer = tiny_families.base_model()
        (found,) = PromptFrame.from_template(tokenizer).candidate_ids(["Aye"])
        assert tokenizer.convert_ids_to_tokens(found) == ["ĠA", "y", "e"]
