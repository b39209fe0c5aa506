"""Scripted scores: what a model would say, computed from the prompt's text alone."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from dicast import jsontext
from dicast_server.decisions.answers import Answer
from dicast_server.decisions.decision import Decision
from dicast_server.decisions.passes import Pass, Prompt, Scores
from dicast_server.decisions.questions import (
    Choice,
    Content,
    Json,
    Level,
    Option,
    Predicate,
    Question,
    QuestionType,
    Score,
)


def score(text: str, place: int) -> float:
    """-8 u / 2^32, u the first four bytes of SHA-256(text, a zero byte, the place in decimal)."""
    digest = hashlib.sha256(text.encode() + b"\0" + str(place).encode()).digest()
    return -8 * int.from_bytes(digest[:4], "big") / 2**32


def compile_to_code_points(prompts: Sequence[Prompt]) -> list[Pass]:
    """A tokenizer of one token a character, so that a pass shows its text."""
    return [Pass(tuple(map(ord, p.message)), tuple(map(ord, p.labels))) for p in prompts]


def text_of(pass_: Pass) -> str:
    return "".join(map(chr, pass_.tokens))


def scores_of(pass_: Pass) -> Scores:
    return Scores(tuple(score(text_of(pass_), place) for place in range(len(pass_.labels))), mass=0.75)


def answer_all(decision: Decision) -> tuple[list[Answer], list[list[str]]]:
    """Run a decision on scripted scores: the answers by index, and the prompts' texts round by round."""
    answers: list[Answer] = []
    rounds: list[list[str]] = []
    while passes := decision.next_round():
        rounds.append([text_of(pass_) for pass_ in passes])
        for index, pass_ in enumerate(passes):
            if (answer := decision.receive(index, scores_of(pass_))) is not None:
                answers.append(answer)
    return sorted(answers, key=lambda answer: answer.question.index), rounds


def content(value: Any) -> Content | None:
    if value is None or isinstance(value, str):
        return value
    return Json(jsontext.parse(jsontext.encode(value)))


def system_one_question(index: int, key: str, body: Mapping[str, Any]) -> Question:
    """A question in the form of System One's JSON."""
    criteria = body.get("criteria")
    type_: QuestionType
    if body["type"] == "noul":
        sides = criteria or {}
        type_ = Predicate(content(sides.get("true")), content(sides.get("false")))
    elif body["type"] == "choice":
        assert criteria is not None
        type_ = Choice(tuple(Option(name, content(text)) for name, text in criteria.items()))
    else:
        assert criteria is not None
        type_ = Score(tuple(Level(description=content(level)) for level in criteria))
    return Question(index, key, None, content(body.get("instructions")), type_)
