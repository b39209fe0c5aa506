"""From a request to work for the engine: prompts in tokens, a shared prefix, and the context checked."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dicast_server.decisions.answers import Answer, Temperature, TemperatureSource
from dicast_server.decisions.decision import Decision, PlannedQuestion
from dicast_server.decisions.evidence import state_text
from dicast_server.decisions.passes import Pass, Prompt
from dicast_server.decisions.questions import Question
from dicast_server.engine.reader import Prewarming, Work
from dicast_server.readouts import letters
from dicast_server.readouts.letters import Letters
from dicast_server.readouts.profile import OptionStyle, Profile
from dicast_server.service import failures
from dicast_server.service.contents import StateContent
from dicast_server.service.failures import Violation
from dicast_server.service.requests import DecisionRequest


class Frame(Protocol):
    """The chat prompt around a user's message, in tokens."""

    def encode_many(self, messages: Sequence[str]) -> list[tuple[int, ...]]:
        """The whole prompt's token ids for each message."""

    def least_tokens(self, text: str) -> int:
        """How many tokens a text has at least, without encoding it."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans requests for one model.

    `labels` are the token ids of the letters. No prompt has more than `context` tokens. `salt` names all
    that decides the bits of a kept prefix besides its tokens; `bytes_of` says what so many tokens take in
    memory while they are read.
    """

    frame: Frame
    profile: Profile
    labels: dict[str, int]
    context: int
    salt: bytes = b""
    bytes_of: Callable[[int], int] = lambda tokens: 0

    def plan(self, request: DecisionRequest, tenant: str = "") -> Work[Answer]:
        """Tokenise a request and check it. Nobody finds a prefix of another tenant or cache salt.

        Raises:
            Failure: INVALID_ARGUMENT where a prompt has more tokens than the model's context.
        """
        state, prefix = self._read_state(request.state)
        temperature = self.temperature(request.temperature)
        readouts: dict[OptionStyle | None, Letters] = {}
        planned = [
            PlannedQuestion(
                question=asked.question,
                reads=readouts.setdefault(asked.style, Letters(state, self.profile, asked.style)).read(
                    asked.question, temperature.value
                ),
                readout=letters.NAME,
                profile=self.profile.name,
                prompt_version=self.profile.prompt_version,
                temperature=temperature,
            )
            for asked in request.questions
        ]
        decision = Decision(planned, self.compile, request.abstain, self._check_pass)
        longest = max(len(pass_.tokens) for pass_ in decision.prepare())
        for asked in request.questions:
            # Before the first forward, so that nothing is half done.
            later = readouts[asked.style].longest_later(asked.question)
            for pass_ in self.compile([later] if later is not None else []):
                self._check_pass(asked.question, pass_)
                longest = max(longest, len(pass_.tokens))
        salt = self._salt(tenant, request.cache_salt)
        return Work(prefix, decision, request.isolated, salt, self.bytes_of(longest))

    def prewarm(self, state: StateContent, hold_s: float, cache_salt: str, tenant: str) -> Prewarming:
        """What reads a state and holds it. Raises as `plan` does."""
        _, prefix = self._read_state(state)
        return Prewarming(prefix, self._salt(tenant, cache_salt), hold_s, self.bytes_of(len(prefix)))

    def compile(self, prompts: Sequence[Prompt]) -> list[Pass]:
        """Prompts in this model's tokens."""
        encoded = self.frame.encode_many([prompt.message for prompt in prompts])
        return [
            Pass(tokens, tuple(self.labels[label] for label in prompt.labels))
            for tokens, prompt in zip(encoded, prompts, strict=True)
        ]

    def temperature(self, requested: float | None) -> Temperature:
        """The temperature that applies, by precedence: request, profile, 1."""
        if requested is not None:
            return Temperature(requested, TemperatureSource.REQUEST)
        if self.profile.temperature is not None:
            return Temperature(self.profile.temperature, TemperatureSource.PROFILE)
        return Temperature(1.0, TemperatureSource.DEFAULT)

    def _read_state(self, state: StateContent) -> tuple[str, tuple[int, ...]]:
        """The state's text, and its prefix."""
        text = state_text(state) if isinstance(state, tuple) else self.profile.wording.state(state)
        # Megabytes that cannot fit must not be tokenised to find that out.
        if (least := self.frame.least_tokens(text)) > self.context:
            raise self._too_long("state", least, "at least ")
        prefix = self._prefix(text)
        self._check("state", prefix)
        return text, prefix

    def _salt(self, tenant: str, cache_salt: str) -> bytes:
        # As JSON, so that no tenant can write another one's salt.
        named = json.dumps([self.profile.prompt_version, tenant, cache_salt]).encode()
        return hashlib.sha256(self.salt + named).digest()

    def _prefix(self, state: str) -> tuple[int, ...]:
        """The tokens that every question about a state begins with: of template and state alone.

        They are the longest common beginning of the prompt that holds the state and of the prompt whose
        question is empty, so that tokens which merge across the state's end fall behind it.
        """
        alone, continued = self.frame.encode_many(
            [letters.state_message(state), letters.empty_message(state, self.profile.style)]
        )
        pairs = zip(alone, continued, strict=False)
        return tuple(token for token, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    def _check_pass(self, question: Question, pass_: Pass) -> None:
        self._check(f"questions[{question.index}]", pass_.tokens)

    def _check(self, path: str, tokens: Sequence[int]) -> None:
        if len(tokens) > self.context:
            raise self._too_long(path, len(tokens))

    def _too_long(self, path: str, tokens: int, bound: str = "") -> failures.Failure:
        what = "state" if path == "state" else "state or the question"
        problem = f"takes {bound}{tokens} tokens and at most {self.context} are read; shorten the {what}"
        return failures.invalid(
            [Violation(path, problem)], "CONTEXT_EXCEEDED", tokens=str(tokens), limit=str(self.context)
        )
