"""A type of question: puts items in the order in which they fit. Its answer is an object."""

from __future__ import annotations

from dicast import jsontext
from dicast_server.decisions.answers import ExtensionAnswer
from dicast_server.decisions.questions import Choice, Option, Question
from dicast_server.decisions.types import FieldError


class Rank:
    """`{"items": [TEXT, …]}` is answered with `{"order": [TEXT, …], "shares": [NUMBER, …]}`."""

    name = "x_rank"
    confidence_formula = ""

    def read(self, body: jsontext.Object) -> tuple[tuple[str, ...], Choice]:
        """The items, and a choice among them."""
        for field in body.keys() - {"items"}:
            raise FieldError((field,), "is no field of x_rank")
        items = body.get("items")
        if not isinstance(items, list):
            raise FieldError(("items",), "must be a list of texts")
        found: list[str] = []
        for place, item in enumerate(items):
            if not isinstance(item, str) or item in found:
                raise FieldError(("items", place), "must be a text, and no other item's")
            found.append(item)
        return tuple(found), Choice(tuple(Option(item) for item in found))

    def answer(self, question: Question, probabilities: tuple[float, ...]) -> ExtensionAnswer:
        """The items, the most probable first; of equal ones the first."""
        assert question.extension is not None
        items: tuple[str, ...] = question.extension.body
        ranked = sorted(range(len(items)), key=lambda place: -probabilities[place])
        order = [items[place] for place in ranked]
        return ExtensionAnswer(self.name, {"order": order, "shares": [probabilities[p] for p in ranked]})


RANK = Rank()
