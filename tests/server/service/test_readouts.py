"""Readouts over gRPC: mixed in one request, conditions, what an answer says of its reading, and bad cases."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from google.rpc import error_details_pb2
from tiny_server import (
    choice,
    load_tiny,
    predicate,
    refusal,
    request,
    score,
    serving,
    text,
    tiny_llama,
)

from dicast.v1 import decision_pb2 as pb
from dicast_server.service.loading import Served

LETTERS = pb.Readout(letters=pb.LettersReadout())
CORRECTED = pb.Readout(letters=pb.LettersReadout(correct_prior=True))
DIRECT = pb.Readout(direct=pb.DirectReadout())
CANDIDATES = pb.Readout(candidates=pb.CandidatesReadout())
TEXTS = "questions[0].readout.candidates.texts"
SEQUENCE = pb.CandidatesReadout.SCORING_SEQUENCE


def sequences(*texts: str, **settings: Any) -> pb.Readout:
    return pb.Readout(candidates=pb.CandidatesReadout(scoring=SEQUENCE, texts=texts, **settings))


def condition(key: str, *wanted: bool) -> pb.Condition:
    return pb.Condition(key=key, any_of=[pb.AnswerValue(bool_value=value) for value in wanted])


async def violations(running: Any, *questions: pb.Question, state: str = "s", **options: Any) -> list[Any]:
    """The fields at fault of a request that is refused before any forward."""
    before = running.gate.count
    call = running.decisions.Decide(request(*questions, state=state, **options))
    _, _, details = await refusal(call)
    assert running.gate.count == before
    bad = error_details_pb2.BadRequest()
    assert details[0].Unpack(bad)
    return list(bad.field_violations)


async def test_readouts_mix_in_one_request_and_say_how_they_read() -> None:
    async with serving() as running:
        message = request(
            choice("letters", readout=CORRECTED),
            choice("direct", readout=DIRECT),
            choice("single", readout=CANDIDATES),
            choice("sequence", readout=sequences("red", "red wine", "r", normalize_length=True)),
            detail=pb.DETAIL_LEVEL_FULL,
        )
        response = await running.decisions.Decide(message)
        alone = [
            await running.decisions.Decide(request(question, detail=pb.DETAIL_LEVEL_FULL, isolated=True))
            for question in message.questions
        ]
        found = [answer.diagnostics for answer in response.answers]
        assert [it.readout for it in found] == ["letters", "direct", "candidates", "candidates"]
        assert [it.prompt_version for it in found] == [
            "letters-1-plain-json",
            "direct-1-named",
            "candidates-1",
            "candidates-1",
        ]
        assert [it.score_kind.partition("_")[0] for it in found] == [*["candidate"] * 3, "sequence"]
        assert [it.prior_corrected for it in found] == [True, False, False, False]
        assert [it.length_normalized for it in found] == [False, False, False, True]
        assert [[p.prior for p in it.scores] for it in found] == [[False, True], [False], [False], [False]]
        assert [len(ids.ids) for ids in found[3].scores[0].candidate_token_ids] == [4, 9, 2]
        for together, by_itself in zip(response.answers, alone, strict=True):
            (answer,) = by_itself.answers
            assert together.diagnostics.prompt_hash == answer.diagnostics.prompt_hash
            for mine, other in zip(together.choice.probabilities, answer.choice.probabilities, strict=True):
                assert mine.probability == pytest.approx(other.probability, abs=1e-5)


async def test_the_diagnostics_are_about_this_state_and_these_probabilities() -> None:
    async with serving() as running:
        questions = (predicate(), choice(), score())
        response = await running.decisions.Decide(request(*questions, detail=pb.DETAIL_LEVEL_BASIC))
        other = await running.decisions.Decide(
            request(*questions, detail=pb.DETAIL_LEVEL_BASIC, state="The door is shut.")
        )
    first, second, third = (answer.diagnostics for answer in response.answers)
    assert first.state_hash == second.state_hash != other.answers[0].diagnostics.state_hash
    assert [it.confidence_formula for it in (first, second, third)] == [
        "",
        "normalized_peak",
        "mode_distance",
    ]
    probabilities = [option.probability for option in response.answers[1].choice.probabilities]
    top, runner_up, _ = sorted(probabilities, reverse=True)
    assert second.margin == pytest.approx(top - runner_up)
    assert 0 <= second.concentration <= 1
    assert second.tokens > first.forwards > 0


async def test_what_is_known_without_content_is_read_once_for_all_states() -> None:
    async with serving() as running:
        asked = choice(readout=CORRECTED)
        await running.decisions.Decide(request(asked, state="one"))
        forwards = running.gate.count
        await running.decisions.Decide(request(asked, state="two"))
        with_prior = running.gate.count - forwards
        await running.decisions.Decide(request(choice(), state="three"))
        assert running.gate.count - forwards - with_prior == with_prior


async def test_a_question_that_waits_is_asked_or_skipped_with_its_reason() -> None:
    async with serving() as running:
        message = request(
            predicate("first"),
            choice("asked", ask_if=[condition("first", True, False)]),
            pb.Question(key="never", instructions=text("?"), predicate=pb.Predicate()),
            choice("last", ask_if=[condition("never", True)]),
        )
        sure = (await running.decisions.Decide(request(predicate("first")))).answers[0]
        wanted = sure.predicate.probability < 0.5
        message.questions[2].ask_if.append(condition("first", wanted))
        answers = (await running.decisions.Decide(message)).answers
        assert [answer.WhichOneof("kind") for answer in answers] == [
            "predicate",
            "choice",
            "skipped",
            "skipped",
        ]
        assert answers[2].skipped == pb.SkippedAnswer(
            because="first", was=pb.AnswerValue(bool_value=not wanted)
        )
        assert answers[3].skipped == pb.SkippedAnswer(because="never")


async def test_only_the_questions_that_are_asked_are_answered() -> None:
    async with serving() as running:
        message = request(predicate("a"), choice("b"), score("c"))
        message.ask.extend(["c", "a"])
        answers = (await running.decisions.Decide(message)).answers
        assert [(answer.index, answer.key) for answer in answers] == [(0, "a"), (2, "c")]


async def test_a_whole_prompt_may_be_so_long() -> None:
    async with serving(roomy) as running:
        mode, long = pb.MODE_INDEPENDENT, "x" * 2500
        response = await running.decisions.Decide(request(predicate(), mode=mode))
        assert response.summary.usage.cached_tokens == 0
        assert (await running.decisions.Decide(request(predicate(), state=long))).answers
        (violation,) = await violations(running, predicate(), state=long, mode=mode)
        assert violation.field == "questions[0]"
        assert "and at most 2048 are read" in violation.description


LOOK_ALIKES = ["A", "\N{CYRILLIC CAPITAL LETTER A}", "\N{MATHEMATICAL FRAKTUR CAPITAL A}", "\xe9", "e\u0301"]
FORGERIES = ["B) forged: line", "\n- forged", "<|im_end|>", '"}]']
NAMES = ["", " ", "\n", *LOOK_ALIKES, *FORGERIES, "x" * 1000]


def roomy() -> Served:
    return load_tiny(context=4096, model=tiny_llama(max_position_embeddings=4096))


@pytest.mark.parametrize("readout", [LETTERS, DIRECT, sequences(*(f"text {n}" for n in range(len(NAMES))))])
async def test_strange_names_are_options_like_any_other(readout: pb.Readout) -> None:
    """Empty, blank, long, look-alike and forging names: as many options as were sent, each with its own."""
    async with serving(roomy) as running:
        asked = choice(values=NAMES, readout=readout)
        (answer,) = (await running.decisions.Decide(request(asked))).answers
        assert [option.value.string_value for option in answer.choice.probabilities] == NAMES
        assert sum(option.probability for option in answer.choice.probabilities) == pytest.approx(1)


@pytest.mark.parametrize(
    ("values", "readout", "path", "problem"),
    [
        (["red", ""], CANDIDATES, "questions[0].choice.options[1].value", "nothing to score"),
        (["a", "b"], sequences("x"), TEXTS, "are 1 candidate texts for 2 options"),
        (["a", "b"], sequences("same", "same"), f"{TEXTS}[1]", "same candidate text as that of option 0"),
        (["a", "b"], sequences("x<|im_end|>", "y"), f"{TEXTS}[0]", "control token"),
        (["<|im_end|>", "b"], sequences(), "questions[0].choice.options[0].value", "control token"),
        (["a", "b"], sequences("y", "x" * 65), f"{TEXTS}[1]", "takes 65 tokens, and at most 64"),
        (
            ["a", "b"],
            pb.Readout(
                candidates=pb.CandidatesReadout(
                    scoring=pb.CandidatesReadout.SCORING_SINGLE_TOKEN, texts=["ab", "c"]
                )
            ),
            "questions[0]",
            "not one token of their own ('ab')",
        ),
        ([f"o{n}" for n in range(60)], DIRECT, "questions[0]", "60 options, and this model has 26 labels"),
    ],
)
async def test_what_a_readout_cannot_read_is_refused_before_any_forward(
    values: Sequence[str], readout: pb.Readout, path: str, problem: str
) -> None:
    async with serving() as running:
        (violation,) = await violations(running, choice(values=values, readout=readout))
        assert violation.field == path
        assert problem in violation.description


@pytest.mark.parametrize("readout", [LETTERS, sequences()])
async def test_wide_choices_beyond_the_context_are_refused_whole(readout: pb.Readout) -> None:
    async with serving() as running:
        asked = choice(values=[f"{n:03} {'x' * 196}" for n in range(255)], readout=readout)
        (violation,) = await violations(running, asked)
        assert violation.field in {"questions[0]", "questions[0].choice.options[0].value"}


async def test_orders_are_averaged_and_said() -> None:
    async with serving() as running:
        asked = request(choice(), predicate(), orders=8, detail=pb.DETAIL_LEVEL_FULL)
        first, second = (await running.decisions.Decide(asked)).answers
        assert first.diagnostics.orders == second.diagnostics.orders == 8
        assert first.diagnostics.passes == len(first.diagnostics.scores) == 8
        assert {tuple(pass_.options) for pass_ in second.diagnostics.scores} == {(0, 1), (1, 0)}
        assert first.diagnostics.order_spread > 0
        # Orders that are alike are read once.
        assert len({tuple(pass_.scores) for pass_ in second.diagnostics.scores}) == 2


async def test_a_request_that_waits_for_answers_can_be_given_up() -> None:
    async with serving() as running:
        running.gate.hold()
        message = request(predicate("a"), choice("b", ask_if=[condition("a", True, False)]), orders=4)
        call = running.decisions.Decide(message)
        running_call = asyncio.ensure_future(call)
        await running.gate.reached()
        call.cancel()
        running.gate.release()
        with pytest.raises(asyncio.CancelledError):
            await running_call
        async with asyncio.timeout(30):
            while running.host.engine.load:
                await asyncio.sleep(0.001)
        assert (await running.decisions.Decide(request(predicate()))).answers
