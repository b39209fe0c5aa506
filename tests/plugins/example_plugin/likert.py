"""A type of question: how far one agrees with a statement. Its answer is a number."""

from __future__ import annotations

from dicast import jsontext
from dicast_server.decisions import confidence
from dicast_server.decisions.answers import ExtensionAnswer
from dicast_server.decisions.questions import Level, Question, Score
from dicast_server.decisions.types import FieldError

LEVELS = ("strongly disagree", "disagree", "neither", "agree", "strongly agree")


class Likert:
    """`{}` is answered with a number from -1 (strongly disagree) to 1; the instructions are the statement."""

    name = "x_likert"
    confidence_formula = ""

    def read(self, body: jsontext.Object) -> tuple[None, Score]:
        """There is nothing to say but the statement."""
        for field in body:
            raise FieldError((field,), "is no field of x_likert")
        return None, Score(tuple(Level(level) for level in LEVELS))

    def answer(self, question: Question, probabilities: tuple[float, ...]) -> ExtensionAnswer:
        """The expected level, moved to that range."""
        expected = confidence.expected_level(probabilities)
        return ExtensionAnswer(self.name, 2 * expected / (len(LEVELS) - 1) - 1)


LIKERT = Likert()
