"""From a request to work for the engine: prompts in tokens, shared prefixes, and the context checked."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dicast import jsontext
from dicast_server.decisions.answers import Answer, Guarantee
from dicast_server.decisions.decision import Decision, Origin, PlannedQuestion
from dicast_server.decisions.evidence import state_text
from dicast_server.decisions.passes import Pass, Prompt
from dicast_server.decisions.questions import Choice, Content, Predicate, Question
from dicast_server.decisions.types import AnswerType, FieldError
from dicast_server.engine.reader import Prewarming, Work
from dicast_server.readouts.pooled_head import PooledHead
from dicast_server.readouts.profile import Profile
from dicast_server.readouts.readout import Model, Opening, Readout
from dicast_server.service import failures
from dicast_server.service.contents import Faults, StateContent
from dicast_server.service.failures import Violation
from dicast_server.service.memory import Memory
from dicast_server.service.registry import ChosenReadout, Registry
from dicast_server.service.replies import Replies
from dicast_server.service.requests import AskedQuestion, DecisionRequest, RequestOptions
from dicast_server.service.temperatures import NoGuaranteeError, Temperatures


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans requests for one model.

    `replies` knows its prompts and what a reply may be in tokens. No prompt has more than `context` tokens.
    `memory` says what a request takes while it is read; `salt` names all that decides the bits of a kept
    prefix besides its tokens. `temperatures` are those of the profile, of the server and of its calibration.
    `model` and `weights_hash` are named in the prompts' hashes. `through` is the number of the reader that
    reads for it. With a `head` nothing but means of hidden states is read.
    """

    replies: Replies
    profile: Profile
    context: int
    registry: Registry
    memory: Memory
    temperatures: Temperatures
    salt: bytes = b""
    model: str = ""
    weights_hash: str = ""
    through: int = 0
    head: PooledHead | None = None

    def plan(self, request: DecisionRequest, tenant: str = "") -> Work[Answer]:
        """Tokenise a request and check it. Nobody finds a prefix of another tenant or cache salt.

        Raises:
            Failure: INVALID_ARGUMENT where a prompt has more tokens than the model's context, the request
                takes more memory than there is, or a question cannot be read in the way that was asked for.
        """
        options = request.options
        state = self._content(request.state)
        readouts: dict[ChosenReadout, Readout] = {}
        questions = [(asked.question, self._open(asked, state, readouts)) for asked in request.questions]
        prefixes = self._prefixes({readout.opening(question) for question, readout in questions})
        planned = self._planned(request, [readout for _, readout in questions])
        origin = Origin(self.model, self.weights_hash, request.state_hash)
        most = self.memory.longest_whole(self.context) if options.independent else self.context

        ways = {asked.question.index: asked.readout or self.default for asked in request.questions}

        def compile(asked: Sequence[tuple[Question, Prompt]]) -> Sequence[Pass]:
            passes = self._compile(asked, ways)
            for (question, _), pass_ in zip(asked, passes, strict=True):
                self._check(f"questions[{question.index}]", pass_.longest, most)
            return passes

        def compile_later(asked: Sequence[tuple[Question, Prompt]]) -> Sequence[Pass]:
            try:
                return compile(asked)
            except failures.Failure as failure:
                # Forwards have run: no mistake of the caller's, who was told of all that `later` told.
                raise RuntimeError(f"a readout asks what it did not tell before: {failure}") from failure

        decision = Decision(planned, compile, options.abstain, origin, compile_later)
        # Before the first forward, so that nothing is half done.
        passes = decision.prepare()
        later = [(question, readout.later(question)) for question, readout in questions]
        after = compile([(question, prompt) for question, prompt in later if prompt is not None])
        return Work(
            prefixes=prefixes,
            rounds=decision,
            isolated=options.isolated,
            independent=options.independent,
            salt=self._salt(tenant, options.cache_salt),
            nbytes=self._nbytes(prefixes, [*passes, *after], options.independent),
            through=self.through,
        )

    def prewarm(self, state: StateContent, hold_s: float, cache_salt: str, tenant: str) -> Prewarming:
        """What reads a state for the profile's readout and holds it. Raises as `plan` does."""
        readout = self._open(None, self._content(state), {})
        (prefix,) = self._prefixes({readout.opening(None)})
        nbytes = self.memory.shared([len(prefix)], 0)
        return Prewarming(prefix, self._salt(tenant, cache_salt), hold_s, nbytes, self.through)

    @property
    def default(self) -> ChosenReadout:
        """What reads a question whose request names no readout."""
        kind = self.registry.readouts[self.profile.readout]
        return ChosenReadout(kind, kind.settings(jsontext.Object(self.profile.settings)))

    @property
    def prompt_version(self) -> str:
        """The version of the prompts of that readout."""
        return self._open(None, "", {}).prompt_version

    def _open(
        self, asked: AskedQuestion | None, state: Content, readouts: dict[ChosenReadout, Readout]
    ) -> Readout:
        chosen = asked.readout if asked is not None and asked.readout is not None else self.default
        if chosen not in readouts:
            model = Model(self.profile, self.replies.single_tokens, self.head)
            readouts[chosen] = chosen.kind.open(state, model, chosen.settings)
        return readouts[chosen]

    def _planned(self, request: DecisionRequest, readouts: Sequence[Readout]) -> list[PlannedQuestion]:
        options, faults = request.options, Faults()
        planned: list[PlannedQuestion] = []
        for asked, readout in zip(request.questions, readouts, strict=True):
            question, chosen = asked.question, asked.readout or self.default
            temperature = self.temperatures.of(question, chosen, options.orders, options.temperature)
            reads = readout.read(question, temperature.value, options.orders)
            try:
                prompts = next(reads)
            except StopIteration:
                raise RuntimeError(f"the readout {chosen.kind.name} asked for no prompt") from None
            except FieldError as error:
                path = (f"questions[{question.index}]", *error.path)
                faults.refuse(jsontext.show_path(path), str(error))
                continue
            except ValueError as error:
                faults.unsupported(f"questions[{question.index}]", str(error))
                continue
            planned.append(
                PlannedQuestion(
                    question=question,
                    type=self._type(question),
                    reads=reads,
                    prompts=prompts,
                    readout=chosen.kind.name,
                    profile=self.profile.name,
                    prompt_version=readout.prompt_version,
                    temperature=temperature,
                    guarantee=self._guarantee(question, chosen, options, faults),
                )
            )
        faults.check()
        return planned

    def _guarantee(
        self, question: Question, chosen: ChosenReadout, options: RequestOptions, faults: Faults
    ) -> Guarantee | None:
        """What the caller's largest error takes of a question; a fault where nothing bounds it."""
        wanted = options.abstain.max_error
        if wanted is None:
            return None
        try:
            return self.temperatures.guarantee(question, chosen, options.orders, options.temperature, wanted)
        except NoGuaranteeError as error:
            # Most reasons are those of all questions: once is enough.
            if str(error) not in {each.description for each in faults.not_supported}:
                faults.unsupported("options.abstain.max_error", str(error))
            return None

    def _type(self, question: Question) -> AnswerType:
        if question.extension is not None:
            return self.registry.types[question.extension.type]
        match question.type:
            case Predicate():
                return self.registry.types["predicate"]
            case Choice():
                return self.registry.types["choice"]
            case _:
                return self.registry.types["score"]

    def _compile(
        self, asked: Sequence[tuple[Question, Prompt]], ways: Mapping[int, ChosenReadout]
    ) -> list[Pass]:
        """Prompts in this model's tokens, those of one system's text together.

        `ways` says how the question of an index is read.
        """
        faults: dict[str, Violation] = {}
        passes: dict[int, Pass] = {}
        by_system: dict[str, list[int]] = {}
        for place, (_, prompt) in enumerate(asked):
            by_system.setdefault(prompt.system, []).append(place)
        for system, places in by_system.items():
            made = self.replies.passes(system, [asked[place][1] for place in places], self.head is not None)
            for place, pass_ in zip(places, made, strict=True):
                if isinstance(pass_, Pass):
                    passes[place] = pass_
                    continue
                question, prompt = asked[place]
                option = None if pass_.place is None else prompt.options[pass_.place]
                path = _text_path(question, ways[question.index], option)
                faults[path] = Violation(path, str(pass_))
        if faults:
            raise failures.invalid(faults.values())
        return [passes[place] for place in range(len(asked))]

    def _content(self, state: StateContent) -> Content:
        text = state_text(state) if isinstance(state, tuple) else state
        # Megabytes that cannot fit must not be tokenised to find that out.
        shown: Any = text if isinstance(text, str) else jsontext.render(text.value)
        if (least := self.replies.frame("").least_tokens(shown)) > self.context:
            raise self._too_long("state", least, self.context, "at least ")
        return text

    def _prefixes(self, openings: set[Opening]) -> tuple[tuple[int, ...], ...]:
        """The tokens that every question about a state begins with, for each way in which they begin.

        They are the longest common beginning of the prompt that holds the state and of the prompt whose
        question is empty, so that tokens which merge across the state's end fall behind it.
        """
        found: set[tuple[int, ...]] = set()
        for opening in openings:
            frame = self.replies.frame(opening.system)
            alone, continued = frame.encode_many([opening.alone, opening.continued])
            pairs = zip(alone, continued, strict=False)
            prefix = tuple(token for token, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            self._check("state", len(prefix), self.context)
            found.add(prefix)
        return tuple(sorted(found))

    def _nbytes(self, prefixes: Sequence[tuple[int, ...]], passes: Sequence[Pass], independent: bool) -> int:
        if independent:
            return self.memory.whole(max(pass_.longest for pass_ in passes))
        tails = [pass_.longest - _matched(prefixes, pass_) for pass_ in passes]
        nbytes = self.memory.shared([len(prefix) for prefix in prefixes], max(tails))
        if self.memory.budget is not None and nbytes > self.memory.budget:
            problem = (
                f"takes {nbytes >> 20} MiB to be read in {len(prefixes)} ways, and there are "
                f"{self.memory.budget >> 20}; ask with one readout at a time, or shorten the state"
            )
            raise failures.invalid([Violation("state", problem)], "CONTEXT_EXCEEDED")
        return nbytes

    def _salt(self, tenant: str, cache_salt: str) -> bytes:
        # As JSON, so that no tenant can write another one's salt.
        named = json.dumps([self.prompt_version, tenant, cache_salt]).encode()
        return hashlib.sha256(self.salt + named).digest()

    def _check(self, path: str, tokens: int, most: int) -> None:
        if tokens > most:
            raise self._too_long(path, tokens, most)

    def _too_long(self, path: str, tokens: int, most: int, bound: str = "") -> failures.Failure:
        what = "state" if path == "state" else "state or the question"
        problem = f"takes {bound}{tokens} tokens and at most {most} are read; shorten the {what}"
        return failures.invalid(
            [Violation(path, problem)], "CONTEXT_EXCEEDED", tokens=str(tokens), limit=str(most)
        )


def _text_path(question: Question, way: ChosenReadout, option: int | None) -> str:
    """Where a text that cannot be read comes from: the readout's own texts, or the option's name."""
    path = f"questions[{question.index}]"
    if option is not None and bool(getattr(way.settings, "texts", None)):
        return f"{path}.readout.candidates.texts[{option}]"
    if option is not None and isinstance(question.type, Choice) and question.extension is None:
        return f"{path}.choice.options[{option}].value"
    return f"{path}.readout"


def _matched(prefixes: Sequence[tuple[int, ...]], pass_: Pass) -> int:
    """How many tokens of a pass are in the longest prefix that it continues."""
    return max((len(each) for each in prefixes if pass_.tokens[: len(each)] == each), default=0)
