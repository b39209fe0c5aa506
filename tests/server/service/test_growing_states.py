"""A state that grows gives the bits of one that is read whole, wherever it ended and whatever it shares."""

import itertools
from typing import Any

import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import diagnostics
from tiny_server import REGISTRY, load_tiny, predicate, request, tiny_llama
from tokenizers import pre_tokenizers

from dicast_server.decisions.answers import Answer
from dicast_server.engine.reader import Tally, Work, alone
from dicast_server.engine.store import PrefixStore
from dicast_server.service.limits import Limits
from dicast_server.service.requests import read_request

FORWARD_TOKENS = 16
SPELLING = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def bytes_of(text: str) -> str:
    """A text's bytes as a byte-level vocabulary spells them."""
    return str(SPELLING.pre_tokenize_str(text)[0][0])


def merges() -> tuple[tuple[str, str], ...]:
    """Of a word letter by letter, of lines, and of characters, one of them in half."""
    word = [("h", "e"), ("he", "l"), ("hel", "l"), ("hell", "o")]
    lines = [*tiny_models.NEWLINES, ("ĊĊ", "Ċ"), (".", "Ċ")]
    e, day = bytes_of("é"), bytes_of("日")
    return (*word, *lines, (e[0], e[1]), (day[0], day[1]))


TOKENIZER = tiny_models.fast(
    tiny_models.byte_bpe(tiny_models.CHATML_TOKENS, merges(), ("<think>", "</think>")),
    tiny_models.QWEN,
    eos_token="<|im_end|>",
)
SERVED = load_tiny(tokenizer=TOKENIZER, model=tiny_llama(vocab_size=len(TOKENIZER)))
PLANNER = SERVED.planner(REGISTRY)
READER = SERVED.reader
READER.forward_tokens = FORWARD_TOKENS


def plan(state: str) -> Work[Answer]:
    return PLANNER.plan(read_request(request(predicate("p", "?"), state=state), Limits(), REGISTRY))


def read(state: str, store: PrefixStore) -> tuple[list[Any], int]:
    """What tells two answers apart, to the last bit, and the tokens that were in the store."""
    READER.store = store
    tally = Tally()
    steps = alone(plan(state).start(READER, tally))
    answers = sorted(itertools.chain.from_iterable(steps), key=lambda answer: answer.question.index)
    read = [diagnostics(answer) for answer in answers]
    said = [(a.kind, found.passes, found.option_mass) for a, found in zip(answers, read, strict=True)]
    return said, tally.cached_tokens


def store(chunks: int = 10_000) -> PrefixStore:
    return PrefixStore(chunks * READER.footprint.of(FORWARD_TOKENS), lambda: 0.0)


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens two prefixes begin with together."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return len(list(pairs))


def check(state: str, grown: str) -> None:
    kept = store()
    read(state, kept)
    resumed, cached = read(grown, kept)
    assert (resumed, 0) == read(grown, store())
    common = shared(plan(state).prefixes[0], plan(grown).prefixes[0])
    assert cached >= common // FORWARD_TOKENS * FORWARD_TOKENS


PIECES = ["h", "hel", "hello", "é", "e\u0301", "日", "本", "😀", "\n", ".", " ", "a", "<|im_end|>", "<think>"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
# Each makes another token of the state's end.
CHANGES = [("hel", "lo"), ("h", "e"), ("Hi.", "\n"), ("a\n\n", "\n")]


@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS)
def test_a_state_that_grows_gives_the_bits_of_a_fresh_one(state: str, more: str) -> None:
    check(state, state + more)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2 * FORWARD_TOKENS), st.sampled_from(CHANGES))
def test_a_state_whose_last_token_growth_changes(before: int, change: tuple[str, str]) -> None:
    state = "a" * before + change[0]
    grown = state + change[1]
    assert shared(plan(state).prefixes[0], plan(grown).prefixes[0]) < len(plan(state).prefixes[0])
    check(state, grown)


def test_chunks_that_end_inside_a_character() -> None:
    inside = 0
    for before in range(4):
        state = "a" * before + "😀" * 8
        prefix = plan(state).prefixes[0]
        ends = range(FORWARD_TOKENS, len(prefix), FORWARD_TOKENS)
        inside += sum(TOKENIZER.decode(prefix[:end]).endswith("\ufffd") for end in ends)
        check(state[:-3], state)
    assert inside


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 5), st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6))
def test_answers_keep_their_bits_whatever_the_store_has_room_for(
    chunks: int, states: list[tuple[int, bool]]
) -> None:
    small = store(chunks)
    for number, held in states:
        state = f"State {number} " * (number + 1)
        READER.store = small
        if held:
            list(alone(PLANNER.prewarm(state, 60.0, "", "").start(READER, Tally())))
        assert read(state, small)[0] == read(state, store())[0]
        assert small.counters.nbytes <= small.budget_bytes
