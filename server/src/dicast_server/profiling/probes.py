"""The probe set: short states and questions with known answers, by which ways of reading are compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dicast import jsontext
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


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question and the index of its right option: 0 is the yes of a predicate."""

    question: Question
    right: int

    @property
    def type(self) -> str:
        """The name of its type: predicate, choice or score."""
        return type(self.question.type).__name__.lower()


@dataclass(frozen=True, slots=True)
class Probe:
    """A state and the questions about it, which have the indices 0 and up."""

    state: Content
    questions: tuple[Labelled, ...]


@dataclass(frozen=True, slots=True)
class ProbeSet:
    """All probes, and the SHA-256 in hexadecimal of what they say."""

    probes: tuple[Probe, ...]
    hash: str

    @classmethod
    def built_in(cls) -> ProbeSet:
        """The set that comes with dicast, written for it."""
        data = resources.files("dicast_server.profiling") / "probe_set.json"
        return cls.from_json(data.read_text("utf-8"))

    @classmethod
    def from_json(cls, text: str) -> ProbeSet:
        """The set of a file.

        Raises:
            ValueError: it is none, or an answer is no option of its question.
        """
        body = _File.model_validate_json(text)
        # Without white space, and with the order of options, which counts.
        canonical = json.dumps(json.loads(text), ensure_ascii=False)
        probes = tuple(_probe(each) for each in body.probes)
        return cls(probes, hashlib.sha256(canonical.encode()).hexdigest())

    @property
    def labelled(self) -> list[Labelled]:
        """The questions of all probes."""
        return [labelled for probe in self.probes for labelled in probe.questions]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    instructions: str


class _Predicate(_Asked):
    type: Literal["predicate"]
    when_true: str | None = None
    when_false: str | None = None
    answer: bool

    def labelled(self) -> tuple[QuestionType, int]:
        return Predicate(self.when_true, self.when_false), 0 if self.answer else 1


class _Choice(_Asked):
    type: Literal["choice"]
    options: Mapping[str, str | None]
    answer: str

    def labelled(self) -> tuple[QuestionType, int]:
        options = tuple(Option(value, description) for value, description in self.options.items())
        return Choice(options), list(self.options).index(self.answer)


class _Score(_Asked):
    type: Literal["score"]
    levels: list[str]
    answer: int

    def labelled(self) -> tuple[QuestionType, int]:
        if not 0 <= self.answer < len(self.levels):
            raise ValueError(f"level {self.answer} is none of {len(self.levels)}")
        return Score(tuple(map(Level, self.levels))), self.answer


class _Probe(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    state: str | dict[str, Any]
    questions: list[Annotated[_Predicate | _Choice | _Score, Field(discriminator="type")]]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    probes: list[_Probe]


def _probe(read: _Probe) -> Probe:
    questions = []
    for index, asked in enumerate(read.questions):
        type_, right = asked.labelled()
        question = Question(index, str(index), None, asked.instructions, type_)
        questions.append(Labelled(question, right))
    return Probe(_state(read.state), tuple(questions))


def _state(state: str | dict[str, Any]) -> Content:
    return state if isinstance(state, str) else Json(jsontext.parse(jsontext.encode(state)))
