"""The names of questions, by which `ask` and `ask_if` refer to them in a dialect without ids."""

from __future__ import annotations

from collections.abc import Sequence

from dicast.jsontext import Path
from dicast.v1 import decision_pb2 as pb
from dicast_gateway.errors import MAX_FAULTS, Fault, GatewayError, Kind


class Names:
    """Finds questions by their names, which may otherwise repeat or be absent, and gathers what is wrong."""

    def __init__(self, questions: Sequence[pb.Question]) -> None:
        self._named: dict[str, list[pb.Question]] = {}
        self._faults: list[Fault] = []
        for question in questions:
            if question.HasField("name"):
                self._named.setdefault(question.name, []).append(question)

    def find(self, name: str, path: Path) -> pb.Question | None:
        """The one question of a name; None where there is none, which is then a fault of this path."""
        match self._named.get(name, ()):
            case [question]:
                return question
            case []:
                message = f"{name!r} is the name of no question of this request"
            case several:
                message = f"{name!r} is the name of {len(several)} questions: give this one a name of its own"
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(Fault(path, message, "question_name"))
        return None

    def keys(self, ask: Sequence[str]) -> list[str]:
        """The keys of the questions to ask."""
        found = [self.find(name, ("ask", place)) for place, name in enumerate(ask)]
        return [question.key for question in found if question is not None]

    def check(self) -> None:
        """Raise GatewayError where a name was none of one question."""
        if self._faults:
            raise GatewayError(Kind.INVALID, self._faults[0].message, self._faults)
