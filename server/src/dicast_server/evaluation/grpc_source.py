"""A dicast server as a source: probabilities, and the raw scores of every pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import dicast
from dicast import AsyncClient, DicastError, Model, Options
from dicast_server.calibration.document import Key
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.rows import NotUsable, scored_row
from dicast_server.decisions.answers import PassDiagnostics
from dicast_server.evaluation.questions import for_client, to_client
from dicast_server.evaluation.readiness import ready_model
from dicast_server.evaluation.source import Busy, Declined, Said, SourceLost, Unsaid
from dicast_server.evaluation.system import Asking, Known, digest_of, key_of

_BUSY_S = 1.0


@dataclass(frozen=True, slots=True)
class GrpcSource:
    """Asks a server through a client; made by `connect`. `key` has no hash of questions."""

    client: AsyncClient
    asking: Asking
    model: Model
    key: Key
    name: str
    digest: str

    @classmethod
    async def connect(
        cls,
        client: AsyncClient,
        where: str,
        asking: Asking,
        known: Known | None,
        *,
        wait_s: float = 0.0,
        told: Callable[[str], object] = lambda state: None,
    ) -> GrpcSource:
        """Find out what answers, by asking one question in the way that all will be asked.

        A server that is still starting is waited for, `wait_s` seconds at most; `told` hears of it.

        Raises:
            SourceLost: nothing answers there, or not in this way.
        """
        try:
            model = await ready_model(client, asking.model, wait_s, told)
            decision = await client.decide(
                "The door is open.",
                {"open": dicast.Predicate("Is the door open?")},
                model=asking.model,
                options=_options(asking, "basic"),
            )
        except DicastError as error:
            raise SourceLost(_sentence(error)) from error
        read = decision["open"].diagnostics
        if read is None:
            raise SourceLost("the server does not say how it reads")
        key = key_of(model, read, asking, known)
        parts = key.model_dump(mode="json")
        if not key.weights_hash:
            # Without a hash of the weights, another start may be another model.
            parts["loaded_at"] = str(model.loaded_at)
        return cls(client, asking, model, key, f"{model.id} ({where})", digest_of(parts))

    async def ask(self, questions: Sequence[LabelledQuestion]) -> list[Said | Unsaid]:
        """Answer questions about one state; see `Source.ask`."""
        try:
            decision = await self.client.decide(
                for_client(questions[0].state),
                [to_client(each.question) for each in questions],
                model=self.asking.model,
                options=_options(self.asking, "full"),
            )
        except (dicast.InvalidRequest, dicast.DeadlineExceeded) as error:
            raise Declined(_sentence(error)) from error
        except dicast.Overloaded as error:
            raise Busy(_sentence(error), error.retry_delay_s or _BUSY_S) from error
        except DicastError as error:
            raise SourceLost(_sentence(error)) from error
        except (TypeError, ValueError) as error:
            # What has no form in the contract is found before it is sent.
            raise Declined(str(error)) from error
        return [_read(question, decision[str(place)]) for place, question in enumerate(questions)]


def _options(asking: Asking, detail: str) -> Options:
    return Options(
        readout=asking.readout,
        orders=asking.orders if asking.orders > 1 else None,
        detail="full" if detail == "full" else "basic",
    )


def _read(question: LabelledQuestion, answer: dicast.Answer) -> Said | Unsaid:
    match answer:
        case dicast.PredicateAnswer(probability=probability):
            probabilities: tuple[float, ...] = (probability, 1.0 - probability)
        case dicast.ChoiceAnswer(probabilities=by_value):
            probabilities = tuple(by_value.values())
        case dicast.ScoreAnswer(probabilities=by_level):
            probabilities = by_level
        case dicast.Refused(message=message):
            return Unsaid(message)
        case _:
            return Unsaid(f"{type(answer).__name__} is no answer with probabilities")
    # A model whose arithmetic broke down says so in its answers; in figures it would hide.
    if not all(0.0 <= p <= 1.0 for p in probabilities):
        return Unsaid("its probabilities are no numbers from 0 to 1")
    read = answer.diagnostics
    if read is None:
        return Said(probabilities, None, "the server tells no scores")
    passes = [
        PassDiagnostics(each.options, each.scores, each.candidate_token_ids, each.prior)
        for each in read.scores
    ]
    try:
        row = scored_row(question, passes, read.length_normalized)
    except NotUsable as error:
        return Said(probabilities, None, str(error))
    return Said(probabilities, row.scores)


def _sentence(error: DicastError) -> str:
    if isinstance(error, dicast.Unavailable) and not error.reason:
        return "no dicast server answers there"
    if not isinstance(error, dicast.ServerError):
        return str(error)
    fields = [f"{v.field} {v.description}" for v in error.violations if v.description not in error.message]
    return f"{error.message} ({'; '.join(fields)})" if fields else error.message
