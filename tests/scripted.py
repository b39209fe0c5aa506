"""Scripted scores: what a model would say, computed from the prompt's text alone."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dicast import jsontext
from dicast_server.decisions.answers import Abstain, Answer, Diagnostics, Temperature, TemperatureSource
from dicast_server.decisions.decision import Decision, PlannedQuestion
from dicast_server.decisions.passes import Pass, Prompt, Scores
from dicast_server.decisions.questions import (
    Choice,
    Condition,
    Content,
    Json,
    Level,
    Option,
    Outcome,
    Predicate,
    Question,
    QuestionType,
    Score,
)
from dicast_server.decisions.types import CHOICE, PREDICATE, SCORE, AnswerType
from dicast_server.readouts.profile import Profile
from dicast_server.readouts.readout import Model, Readout


def score(text: str, place: int) -> float:
    """-8 u / 2^32, u the first four bytes of SHA-256(text, a zero byte, the place in decimal)."""
    digest = hashlib.sha256(text.encode() + b"\0" + str(place).encode()).digest()
    return -8 * int.from_bytes(digest[:4], "big") / 2**32


def compile_to_code_points(asked: Sequence[tuple[Question, Prompt]]) -> list[Pass]:
    """A tokenizer of one token a character, so that a pass shows its text; a label is its place."""
    return [_pass(prompt) for _, prompt in asked]


def _pass(prompt: Prompt) -> Pass:
    tokens = tuple(map(ord, prompt.message))
    if prompt.whole:
        return Pass(tokens, candidates=tuple((*map(ord, label), 0) for label in prompt.labels))
    return Pass(tokens, tuple(range(len(prompt.labels))), kept=prompt.prior)


def text_of(pass_: Pass) -> str:
    return "".join(map(chr, pass_.tokens))


def scores_of(pass_: Pass) -> Scores:
    return Scores(tuple(score(text_of(pass_), place) for place in range(len(pass_.scored))), mass=0.75)


def model(profile: Profile, single: Callable[[str], bool] = lambda text: True) -> Model:
    """A model in which all texts that are `single` are one token each."""
    return Model(profile, lambda system, texts: [text for text in texts if single(text)])


def planned(
    readout: Readout, question: Question, profile: Profile, temperature: float = 1.0, orders: int = 1
) -> PlannedQuestion:
    """A question that a readout is to read."""
    reads = readout.read(question, temperature, orders)
    source = Temperature(temperature, TemperatureSource.DEFAULT)
    version = readout.prompt_version
    types: dict[type, AnswerType] = {Predicate: PREDICATE, Choice: CHOICE, Score: SCORE}
    type_ = types[type(question.type)]
    return PlannedQuestion(question, type_, reads, next(reads), "r", profile.name, version, source)


@dataclass
class Decided:
    """Answers by index, the prompts' texts and the questions' keys round by round."""

    answers: list[Answer]
    rounds: list[list[str]]


def decide(plans: Sequence[PlannedQuestion], abstain: Abstain | None = None) -> Decided:
    """Decide on scripted scores."""
    return answer_all(Decision(plans, compile_to_code_points, abstain))


def answer_all(decision: Decision) -> Decided:
    answers: list[Answer] = []
    rounds: list[list[str]] = []
    while passes := decision.next_round():
        rounds.append([text_of(pass_) for pass_ in passes])
        for index, pass_ in enumerate(passes):
            answers += decision.receive(index, scores_of(pass_))
    return Decided(sorted(answers, key=lambda answer: answer.question.index), rounds)


def diagnostics(answer: Answer) -> Diagnostics:
    """How an answer was read that was."""
    assert answer.diagnostics is not None
    return answer.diagnostics


def content(value: Any) -> Content | None:
    if value is None or isinstance(value, str):
        return value
    return Json(jsontext.parse(jsontext.encode(value)))


def system_one_questions(bodies: Mapping[str, Mapping[str, Any]]) -> list[Question]:
    """Questions in the form of System One's JSON, with `ask_if` as OpenJev's servers take it."""
    questions = [system_one_question(index, key, body) for index, (key, body) in enumerate(bodies.items())]
    places = {question.key: question for question in questions}
    read = []
    for question in questions:
        conditions = bodies[question.key].get("ask_if") or {}
        found = [
            Condition(places[key].index, tuple(_outcome(places[key], name) for name in names))
            for key, names in conditions.items()
        ]
        read.append(replace(question, ask_if=tuple(found)))
    return read


def _outcome(question: Question, name: str) -> Outcome:
    match question.type:
        case Predicate():
            return Outcome("bool", name == "yes")
        case Choice():
            return Outcome("string", name)
        case Score():
            return Outcome("level", int(name))


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
