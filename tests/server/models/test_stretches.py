"""What is written behind a template: pieces by their ids, never read out of joined text."""

import pytest
import tiny_models
from tokenizers import AddedToken

from dicast_server.models import stretches
from dicast_server.models.prompt import PromptFrame
from dicast_server.models.tokenizer import TextEncoder

MARKS = ("[THINK]", "[/THINK]")
SPOKEN = "<|im_start|>user\n{{ messages[0].content }}<|im_end|>\n<|im_start|>assistant"


def test_a_prompt_is_cut_at_its_control_tokens() -> None:
    encoder = TextEncoder.of(tiny_models.qwen_like())
    text = "a<|im_start|>user\n<think><|im_end|>"
    parts = stretches.cut(encoder, text)
    assert [part.text for part in parts] == ["a", "<|im_start|>", "user\n", "<think>", "<|im_end|>"]
    assert [part.control for part in parts] == [False, True, False, True, True]
    ids = [id_ for part in parts for id_ in part.ids]
    assert ids == encoder.full.encode(text, add_special_tokens=False).ids


def test_marks_are_looked_up_where_the_text_would_not_be_read_as_them() -> None:
    """A mark that is only read at the edge of a word, behind a prompt that ends in one."""
    backend = tiny_models.byte_bpe(tiny_models.CHATML_TOKENS)
    backend.add_tokens([AddedToken(each, special=True, single_word=True) for each in MARKS])
    tokenizer = tiny_models.fast(backend, SPOKEN)
    marks = [backend.token_to_id(each) for each in MARKS]
    assert not set(marks) & set(tokenizer.encode("assistant[THINK]A", add_special_tokens=False))
    frame = PromptFrame.from_template(tokenizer)
    (opened, spaced) = frame.openings()
    assert opened.encode("x") == (*frame.encode("x"), *marks)
    assert opened.label_ids(["A"]) == {"A": backend.token_to_id("A")}
    assert spaced.encode("x") == frame.encode("x")


def test_an_open_block_that_is_plain_text_is_closed_in_plain_text() -> None:
    tokenizer = tiny_models.chatml(SPOKEN + "\n<think>\n")
    frame = PromptFrame.from_template(tokenizer)
    assert tokenizer.decode(frame.encode("x")).endswith("assistant\n<think>\n\n</think>\n\n")
    assert frame.openings() == []
    assert "open reasoning block closed" in frame.description


@pytest.mark.parametrize("end", ["[THINK]", "[THINK]\n"])
def test_an_open_block_of_mistrals_is_closed(end: str) -> None:
    backend = tiny_models.byte_bpe((*tiny_models.CHATML_TOKENS, *MARKS))
    tokenizer = tiny_models.fast(backend, SPOKEN + end)
    frame = PromptFrame.from_template(tokenizer)
    assert tokenizer.decode(frame.encode("x")).endswith("assistant[THINK][/THINK]")
    assert frame.openings() == []


def test_an_open_block_behind_the_message_itself_is_closed() -> None:
    tokenizer = tiny_models.qwen_like("Q: {{ messages[0].content }}\nA: <think>\n")
    frame = PromptFrame.from_template(tokenizer)
    assert tokenizer.decode(frame.encode("x")) == "Q: x\nA: <think>\n\n</think>\n\n"
    assert frame.encode("<think>").count(tokenizer.convert_tokens_to_ids("<think>")) == 1


def test_a_block_that_was_closed_before_a_reply_with_text_can_be_tried_again() -> None:
    tokenizer = tiny_models.qwen_like(SPOKEN + "\n<think>ok</think>\nSo")
    names = [each.opening.name for each in PromptFrame.from_template(tokenizer).openings() if each.opening]
    assert names == ["an empty <think> block", "a space before the answer"]
