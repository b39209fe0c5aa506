"""Asks labelled questions, some at a time, and keeps their raw scores for a fit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import grpc

from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.rows import Collected, LeftOut, NotUsable, ScoredRow, scored_row
from dicast_server.decisions.answers import Answer
from dicast_server.service.failures import Failure

AT_ONCE = 8

Ask: TypeAlias = Callable[[LabelledQuestion], Awaitable[Answer]]
"""Asks one question. May raise a Failure."""


async def score(
    ask: Ask,
    questions: Sequence[LabelledQuestion],
    *,
    at_once: int = AT_ONCE,
    told: Callable[[int], None] = lambda done: None,
) -> Collected:
    """The scores of questions in their order; `told` hears how many are done.

    A question that this model refuses, as one that is too long, is left out with the reason.

    Raises:
        Failure: the model answers no more.
    """
    outcomes: dict[int, ScoredRow | LeftOut] = {}
    waiting = iter(enumerate(questions))

    async def work() -> None:
        for place, question in waiting:
            outcomes[place] = await _one(ask, question)
            told(len(outcomes))

    # Not a task group: its group of errors would hide what is wrong from those who catch it.
    workers = [asyncio.ensure_future(work()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    ordered = [outcomes[place] for place in sorted(outcomes)]
    return Collected(
        tuple(each for each in ordered if isinstance(each, ScoredRow)),
        tuple(each for each in ordered if isinstance(each, LeftOut)),
    )


async def _one(ask: Ask, question: LabelledQuestion) -> ScoredRow | LeftOut:
    try:
        read = (await ask(question)).diagnostics
        if read is None:
            return LeftOut(question.id, question.line, "was not read")
        return scored_row(question, read.passes, read.length_normalized)
    except NotUsable as error:
        return LeftOut(question.id, question.line, str(error))
    except Failure as failure:
        if failure.code is not grpc.StatusCode.INVALID_ARGUMENT:
            raise
        return LeftOut(question.id, question.line, str(failure))
