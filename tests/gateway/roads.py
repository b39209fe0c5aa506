"""One question in the words of gRPC and of both JSON routes, and the numbers of its answer."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import dicast
from dicast import Level


def over_grpc(question: dict[str, Any]) -> dicast.Question:
    match question:
        case {"kind": "predicate", "instructions": instructions}:
            return dicast.Predicate(instructions)
        case {"kind": "choice", "instructions": instructions, "options": options}:
            return dicast.Choice(instructions, options)
        case {"kind": "score", "instructions": instructions, "levels": levels}:
            return dicast.Score(instructions, [Level(label) for label in levels])
    raise AssertionError


def over_systemone(question: dict[str, Any]) -> dict[str, Any]:
    match question:
        case {"kind": "predicate", "instructions": instructions}:
            return {"type": "noul", "instructions": instructions}
        case {"kind": "choice", "instructions": instructions, "options": options}:
            return {"type": "choice", "instructions": instructions, "criteria": options}
        case {"kind": "score", "instructions": instructions, "levels": levels}:
            return {"type": "score", "instructions": instructions, "criteria": levels}
    raise AssertionError


def over_decisions(question: dict[str, Any]) -> dict[str, Any]:
    match question:
        case {"kind": "predicate", "instructions": instructions}:
            return {"type": "predicate", "instructions": instructions}
        case {"kind": "choice", "instructions": instructions, "options": options}:
            choices = [{"value": name, "description": text} for name, text in options.items()]
            return {"type": "choice", "instructions": instructions, "choices": choices}
        case {"kind": "score", "instructions": instructions, "levels": levels}:
            return {
                "type": "score",
                "instructions": instructions,
                "levels": [{"label": label} for label in levels],
            }
    raise AssertionError


def numbers(answer: dicast.Answer) -> Iterator[float]:
    match answer:
        case dicast.PredicateAnswer():
            yield answer.probability
        case dicast.ChoiceAnswer():
            yield answer.confidence
            yield from answer.probabilities.values()
        case dicast.ScoreAnswer():
            yield from (answer.score, answer.confidence, *answer.probabilities)
        case _:
            raise AssertionError(answer)


def of_systemone(answer: dict[str, Any]) -> Iterator[float]:
    match answer:
        case {"noul": probability}:
            yield probability
        case {"score": score, "confidence": confidence, "probabilities": probabilities}:
            yield from (score, confidence, *probabilities.values())
        case {"confidence": confidence, "probabilities": probabilities}:
            yield from (confidence, *probabilities.values())


def of_decisions(answer: dict[str, Any]) -> Iterator[float]:
    match answer:
        case {"probability": probability}:
            yield probability
        case {"score": score, "confidence": confidence, "probabilities": probabilities}:
            yield from (score, confidence, *(each["probability"] for each in probabilities))
        case {"confidence": confidence, "probabilities": probabilities}:
            yield from (confidence, *(each["probability"] for each in probabilities))


def bits(numbers: Iterable[float]) -> list[bytes]:
    return [struct.pack("<d", number) for number in numbers]
