"""Questions from the command line: from flags, and from a file in System One's form."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dicast import Choice, Json, Level, Option, Predicate, Question, Score, jsontext
from dicast.cli.command import CommandError

SYNTAX = """\
questions:
  --predicate 'KEY=QUESTION'
  --choice    'KEY=QUESTION=OPTION: DESCRIPTION|OPTION|...'
  --score     'KEY=QUESTION=LEVEL|LEVEL: DESCRIPTION|...'

  The key ends at the first "=", the list starts after the last one; a description starts after the first
  ":" and may be left out. Wording that needs these signs goes into a file, which --questions reads:

  {"late": {"type": "predicate", "instructions": "Is it late?"},
   "team": {"type": "choice", "instructions": "Which?", "criteria": {"billing": "refunds", "tech": null}},
   "soon": {"type": "score", "instructions": "How urgent?", "criteria": ["can wait", "today", "now"]}}

example:
  dicast decide 'I was charged twice.' --predicate 'angry=Is the customer angry?' \\
    --choice 'team=Which team?=billing: charges, refunds|shipping|tech'
"""


def add_question_flags(parser: argparse.ArgumentParser) -> None:
    """Add --predicate, --choice, --score and --questions, which `questions` reads."""
    group = parser.add_argument_group("questions, in the order of the answers")
    for flag, read, shape in (
        ("--predicate", read_predicate, "KEY=QUESTION"),
        ("--choice", read_choice, "KEY=QUESTION=OPTIONS"),
        ("--score", read_score, "KEY=QUESTION=LEVELS"),
    ):
        group.add_argument(
            flag, dest="asked", action="append", default=[], type=read, metavar=shape, help="repeatable"
        )
    group.add_argument("--questions", type=Path, metavar="FILE", help="a JSON file, see below")


def questions(arguments: argparse.Namespace) -> dict[str, Question]:
    """The questions of a command line, those of the file first."""
    found: dict[str, Question] = {}
    if arguments.questions is not None:
        found |= read_file(arguments.questions)
    for key, question in arguments.asked:
        if key in found:
            raise CommandError(f"the question {key!r} is there twice", 2)
        found[key] = question
    if not found:
        raise CommandError(
            "a question is needed: --predicate, --choice, --score or --questions; see `dicast decide --help`",
            2,
        )
    return found


def read_predicate(text: str) -> tuple[str, Question]:
    """`KEY=QUESTION`."""
    key, equals, wording = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=QUESTION")
    return key, Predicate(wording or None)


def read_choice(text: str) -> tuple[str, Question]:
    """`KEY=QUESTION=OPTION: DESCRIPTION|OPTION`."""
    key, wording, items = _split(text, "OPTION: DESCRIPTION|OPTION")
    return key, Choice(wording, [Option(name, description) for name, description in items])


def read_score(text: str) -> tuple[str, Question]:
    """`KEY=QUESTION=LEVEL|LEVEL: DESCRIPTION`."""
    key, wording, items = _split(text, "LEVEL|LEVEL: DESCRIPTION")
    return key, Score(wording, [Level(name, description) for name, description in items])


def read_file(path: Path) -> dict[str, Question]:
    """The questions of a file: a JSON object in System One's form, where a predicate is a `noul` too."""
    try:
        value = jsontext.parse(path.read_bytes())
    except OSError as error:
        raise CommandError(f"--questions {path}: {error.strerror}", 2) from None
    except jsontext.JsonError as error:
        raise CommandError(f"--questions {path}: {error}", 2) from None
    try:
        return _read_questions(value)
    except jsontext.JsonError as error:
        raise CommandError(f"--questions {path}: {error}", 2) from None


def _read_questions(value: jsontext.Value) -> dict[str, Question]:
    if (repeated := jsontext.find_repeated_key(value)) is not None:
        raise jsontext.JsonError("is there twice", repeated)
    if not isinstance(value, jsontext.Object) or not value:
        raise jsontext.JsonError("an object with a question for each key is needed")
    return {key: _read_question(body, (key,)) for key, body in value.items()}


def _read_question(body: jsontext.Value, path: jsontext.Path) -> Question:
    if not isinstance(body, jsontext.Object):
        raise jsontext.JsonError("an object with a type is needed", path)
    if unknown := [key for key in body if key not in ("type", "instructions", "criteria")]:
        raise jsontext.JsonError("is no field of a question", (*path, unknown[0]))
    instructions = _content(body["instructions"]) if "instructions" in body else None
    criteria = body.get("criteria")
    here = (*path, "criteria")
    match body.get("type"):
        case "predicate" | "noul":
            return _read_predicate(instructions, criteria, here)
        case "choice" if isinstance(criteria, jsontext.Object):
            return Choice(instructions, [Option(k, _content(v)) for k, v in criteria.items()])
        case "choice" if isinstance(criteria, list) and all(isinstance(v, (str, bool)) for v in criteria):
            return Choice(instructions, [Option(v) for v in criteria if isinstance(v, (str, bool))])
        case "choice":
            raise jsontext.JsonError("a choice needs an object of options or a list of texts", here)
        case "score" if isinstance(criteria, list):
            return Score(
                instructions, [v if isinstance(v, str) else Level(None, _content(v)) for v in criteria]
            )
        case "score":
            raise jsontext.JsonError("a score needs a list of levels", here)
        case _:
            raise jsontext.JsonError("is none of predicate, choice, score", (*path, "type"))


def _read_predicate(instructions: Any, criteria: jsontext.Value, path: jsontext.Path) -> Question:
    if criteria is None:
        return Predicate(instructions)
    if not isinstance(criteria, jsontext.Object) or not set(criteria) <= {"true", "false"}:
        raise jsontext.JsonError('a predicate takes an object with "true" and "false"', path)
    return Predicate(
        instructions,
        when_true=_content(criteria["true"]) if "true" in criteria else None,
        when_false=_content(criteria["false"]) if "false" in criteria else None,
    )


def _content(value: jsontext.Value) -> str | Json:
    return value if isinstance(value, str) else Json(jsontext.render(value))


def _split(text: str, shape: str) -> tuple[str, str | None, list[tuple[str, str | None]]]:
    key, equals, rest = text.partition("=")
    wording, second, listed = rest.rpartition("=")
    if not (key and equals and second):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=QUESTION={shape}")
    items: list[tuple[str, str | None]] = []
    for item in listed.split("|"):
        name, colon, description = item.partition(":")
        if not name.strip():
            raise argparse.ArgumentTypeError(f"{text!r} has an empty place in its list")
        items.append((name.strip(), description.strip() if colon else None))
    return key, wording or None, items
