"""`dicast decide`: asks questions about a state and shows the answers."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from dicast import (
    Answer,
    Candidates,
    ChoiceAnswer,
    Decision,
    DicastError,
    Direct,
    ExtensionAnswer,
    Letters,
    Options,
    Plugin,
    PredicateAnswer,
    Readout,
    Refused,
    ScoreAnswer,
    Skipped,
)
from dicast.cli.asking import SYNTAX, add_question_flags, questions
from dicast.cli.command import CommandError, Parser, add_server_flags, connect, describe
from dicast.cli.stating import add_state_flags, read_state
from dicast.cli.table import decision_lines, style_for

_READOUTS: dict[str, Readout] = {"letters": Letters(), "direct": Direct(), "candidates": Candidates()}


def main(argv: list[str]) -> int:
    """Run `dicast decide ARGV`."""
    arguments = _parser().parse_args(argv)
    asked = questions(arguments)
    state = read_state(arguments)
    options = Options(
        readout=arguments.readout,
        orders=arguments.orders,
        temperature=arguments.temperature,
        detail=arguments.detail,
    )
    with connect(arguments) as client:
        try:
            decision = client.decide(state, asked, model=arguments.model, options=options)
        except DicastError as error:
            raise CommandError(describe(error, arguments.server)) from error
        except (TypeError, ValueError) as error:
            raise CommandError(str(error), 2) from error
    if arguments.json:
        print(json.dumps(as_json(decision), ensure_ascii=False, indent=2))
    else:
        print("\n".join(decision_lines(decision, style_for(sys.stdout))))
    return 0


def as_json(decision: Decision) -> dict[str, Any]:
    """A decision for programs, with every number unrounded."""
    return {
        "model": decision.model,
        "answers": [_answer_json(answer) for answer in decision],
        "usage": asdict(decision.usage),
        "request_id": decision.request_id,
        "elapsed_s": decision.elapsed_s,
    }


def read_readout(name: str) -> Readout:
    """A readout by its name, with the settings that it has by itself."""
    if (own := _READOUTS.get(name)) is not None:
        return own
    if name.startswith("x_"):
        return Plugin(name)
    known = ", ".join(_READOUTS)
    raise argparse.ArgumentTypeError(f"{name!r} is none of {known}, and no plugin's, which begins with x_")


def _parser() -> argparse.ArgumentParser:
    parser = Parser("decide", "Ask questions about a text or a JSON value.", epilog=SYNTAX)
    add_state_flags(parser)
    add_question_flags(parser)
    parser.add_argument("--model", default="", help="id or alias (default: the server's default model)")
    parser.add_argument(
        "--readout",
        type=read_readout,
        metavar="NAME",
        help=f"how questions are read: {', '.join(_READOUTS)}, or a plugin's (default: the profile's)",
    )
    parser.add_argument(
        "--orders", type=int, metavar="N", help="orders of the options to average, 1 to 32 (default: 1)"
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="of the calibration, 0.05 to 20")
    parser.add_argument(
        "--detail", choices=("none", "basic", "full"), help="diagnostics to show (default: none)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON with unrounded numbers")
    add_server_flags(parser)
    return parser


def _answer_json(answer: Answer) -> dict[str, Any]:
    body: dict[str, Any] = {"key": answer.key}
    match answer:
        case PredicateAnswer():
            body |= {"type": "predicate", "value": answer.value, "probability": answer.probability}
        case ChoiceAnswer():
            body |= {"type": "choice", "value": answer.value, "confidence": answer.confidence}
            # A list, for true and "true" would be one key of an object.
            body["probabilities"] = [
                {"value": value, "probability": share} for value, share in answer.probabilities.items()
            ]
        case ScoreAnswer():
            body |= {"type": "score", "score": answer.score, "confidence": answer.confidence}
            body["probabilities"] = [
                {"level": level, "label": label, "probability": share}
                for level, (label, share) in enumerate(zip(answer.labels, answer.probabilities, strict=True))
            ]
        case Skipped():
            body |= {"type": "skipped", "because": answer.because, "was": answer.was}
        case Refused():
            body |= {"type": "refused", "reason": answer.reason, "message": answer.message}
        case ExtensionAnswer():
            body |= {"type": answer.type, "json": json.loads(answer.json)}
    if answer.diagnostics is not None:
        body["diagnostics"] = asdict(answer.diagnostics)
    return body
