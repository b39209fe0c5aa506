"""Passages: texts of a field with claims and questions that were answered by hand; read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from training.reading import PhraseError

_HEADS = ("ask:", "@", "=", "+", "-", "?", "%")


@dataclass(frozen=True, slots=True)
class Marked:
    """A question with its options, or its levels from the lowest; `right` is the place of the right one."""

    asked: str
    options: tuple[str, ...]
    right: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A text, the category that it is of, and what is so and what is not."""

    category: str
    text: str
    true: tuple[str, ...]
    false: tuple[str, ...]
    choices: tuple[Marked, ...]
    scales: tuple[Marked, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """Passages of one kind. `categories` are names with descriptions; `asks` ask for the category."""

    name: str
    asks: tuple[str, ...]
    categories: Mapping[str, str]
    passages: tuple[Passage, ...]


@dataclass(slots=True)
class _Open:
    """A passage while its lines are read."""

    category: str
    text: str
    line: int
    claims: dict[str, list[str]] = field(default_factory=lambda: {"+": [], "-": []})
    marked: dict[str, list[Marked]] = field(default_factory=lambda: {"?": [], "%": []})

    def done(self) -> Passage:
        true, false = tuple(self.claims["+"]), tuple(self.claims["-"])
        if min(len(true), len(false)) < 2 or not self.marked["?"]:
            raise PhraseError(f"line {self.line}: a passage needs two claims of each kind and a choice")
        return Passage(
            self.category, self.text, true, false, tuple(self.marked["?"]), tuple(self.marked["%"])
        )


def read_field(path: Path) -> Field:
    """A field, named like its file.

    Raises:
        PhraseError: the file does not follow the format, which `training/README.md` shows.
    """
    asks: list[str] = []
    categories: dict[str, str] = {}
    found: list[_Open] = []
    try:
        for number, raw in enumerate(path.read_text("utf-8").splitlines(), start=1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            head, _, rest = line.partition(" ")
            if head not in _HEADS:
                raise PhraseError(f"line {number}: begins with none of {' '.join(_HEADS)}")
            if head == "ask:":
                asks.append(rest)
            elif head == "@":
                name, colon, meaning = rest.partition(": ")
                if not colon or name in categories:
                    raise PhraseError(f"line {number}: no new category with a description")
                categories[name] = meaning
            elif head == "=":
                found.append(_opened(rest, number, categories))
            elif not found:
                raise PhraseError(f"line {number}: stands before the first passage")
            elif head in "+-":
                found[-1].claims[head].append(rest)
            else:
                found[-1].marked[head].append(_marked(rest, number))
        if not asks or len(categories) < 2:
            raise PhraseError("line 0: a field needs 'ask:' and two categories")
        return Field(path.stem, tuple(asks), categories, tuple(each.done() for each in found))
    except PhraseError as error:
        raise PhraseError(f"{path.name}, {error}") from None


def _opened(rest: str, number: int, categories: Mapping[str, str]) -> _Open:
    category, bracket, text = rest.removeprefix("[").partition("]")
    if not rest.startswith("[") or not bracket or category not in categories:
        raise PhraseError(f"line {number}: a passage begins with one of the categories in brackets")
    return _Open(category, text.strip().replace("\\n", "\n"), number)


def _marked(rest: str, number: int) -> Marked:
    asked, *options = (part.strip() for part in rest.split("|"))
    right = [place for place, option in enumerate(options) if option.startswith("*")]
    plain = tuple(option.removeprefix("*").strip() for option in options)
    if len(right) != 1 or len(plain) < 2 or len(set(plain)) < len(plain) or not all((asked, *plain)):
        raise PhraseError(f"line {number}: needs two different options, and one of them with a star")
    return Marked(asked, plain, right[0])
