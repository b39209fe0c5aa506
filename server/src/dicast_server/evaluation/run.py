"""Asks a source all questions: a few requests at once, what was answered before left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.rows import LeftOut, ScoredRow
from dicast_server.evaluation.journal import Journal
from dicast_server.evaluation.questions import by_state
from dicast_server.evaluation.source import Busy, Declined, Said, Source, SourceLost, Unsaid

AT_ONCE = 4
_TRIES = 6

Told = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Answered:
    """Questions with what was said to each, in the order of the file, and those without an answer."""

    said: tuple[tuple[LabelledQuestion, Said], ...]
    left_out: tuple[LeftOut, ...]

    def predictions(self) -> list[Prediction]:
        """The probabilities as the system gave them."""
        return [
            Prediction(asked.id, asked.group, asked.kind, asked.label, said.probabilities)
            for asked, said in self.said
        ]

    def scored(self) -> tuple[list[ScoredRow], list[LeftOut]]:
        """The raw scores, and the rows that have none to fit on beside those without an answer."""
        rows: list[ScoredRow] = []
        left_out = list(self.left_out)
        for asked, said in self.said:
            if said.scores is None:
                left_out.append(LeftOut(asked.id, asked.line, said.unfit or "has no scores"))
            else:
                rows.append(ScoredRow(asked.kind, asked.group, asked.id, asked.label, said.scores))
        return rows, sorted(left_out, key=lambda each: each.line)


async def ask_all(
    source: Source,
    questions: Sequence[LabelledQuestion],
    journal: Journal | None = None,
    told: Told = lambda count: None,
    patience_s: float = 0.0,
) -> Answered:
    """Ask everything that the journal has no answer to; `told` hears how many more are done.

    A source that is busy is asked again, as often as it wants to be left alone `patience_s` seconds in all,
    and _TRIES times at least.

    Raises:
        SourceLost: the source went away; what was answered is in the journal.
        JournalError: an answer could not be kept.
    """
    found: dict[str, Said | Unsaid] = {}
    if journal is not None:
        kept = {each.id: said for each in questions if (said := journal.find(each)) is not None}
        found.update(kept)
        told(len(kept))
    batches = iter(by_state([each for each in questions if each.id not in found]))

    async def work() -> None:
        for batch in batches:
            answers = await _ask(source, batch, patience_s)
            found.update({each.id: answer for each, answer in zip(batch, answers, strict=True)})
            if journal is not None:
                pairs = zip(batch, answers, strict=True)
                journal.keep([(each, answer) for each, answer in pairs if isinstance(answer, Said)])
            told(len(batch))

    # Not a task group: before Python 3.13 one whose tasks fail together may leave a cancel for later.
    workers = [asyncio.ensure_future(work()) for _ in range(AT_ONCE)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    answers: list[tuple[LabelledQuestion, Said]] = []
    left_out: list[LeftOut] = []
    for each in questions:
        match found[each.id]:
            case Said() as answer:
                answers.append((each, answer))
            case Unsaid(reason=reason):
                left_out.append(LeftOut(each.id, each.line, reason))
    return Answered(tuple(answers), tuple(left_out))


async def _ask(source: Source, batch: Sequence[LabelledQuestion], patience_s: float) -> list[Said | Unsaid]:
    try:
        return await _patiently(source, batch, patience_s)
    except Declined as error:
        if len(batch) == 1:
            return [Unsaid(str(error))]
    # One question that is refused must not cost the others about its state.
    return [answer for each in batch for answer in await _ask(source, [each], patience_s)]


async def _patiently(
    source: Source, batch: Sequence[LabelledQuestion], patience_s: float
) -> list[Said | Unsaid]:
    tries, waited_s = 0, 0.0
    while True:
        try:
            return await source.ask(batch)
        except Busy as busy:
            tries += 1
            if tries >= _TRIES and waited_s >= patience_s:
                raise SourceLost(f"it stayed busy: {busy}") from busy
            waited_s += busy.retry_s
            await asyncio.sleep(busy.retry_s)
