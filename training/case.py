"""A state with its questions, and the rows they become in a file of labelled questions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from training.facts import Facts, Tree

Kind = Literal["noul", "choice", "score"]


@dataclass(frozen=True, slots=True)
class Proof:
    """Why an answer is right, as data: what is so, and what each option claims about it.

    A predicate has one claim; a choice and a score have one an option, in the question's order, of which
    exactly one holds.
    """

    facts: Facts
    claims: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in System One's form, and its right answer. `form` names how it was made."""

    form: str
    kind: Kind
    instructions: str | None
    criteria: Mapping[str, str | None] | Sequence[str] | None
    expected: bool | str | int
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A state and what is asked about it."""

    id: str
    domain: str
    state: Any
    asked: tuple[Asked, ...]

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row a question; those of one case are a group."""
        for place, each in enumerate(self.asked, start=1):
            question: dict[str, Any] = {"type": each.kind}
            if each.instructions is not None:
                question["instructions"] = each.instructions
            if each.criteria is not None:
                question["criteria"] = (
                    dict(each.criteria) if isinstance(each.criteria, Mapping) else list(each.criteria)
                )
            yield {
                "id": f"{self.id}-{place}",
                "group": self.id,
                "domain": self.domain,
                "form": each.form,
                "state": self.state,
                "question": question,
                "expected": each.expected,
            }

    @property
    def words(self) -> int:
        """How long the state is."""
        text = self.state if isinstance(self.state, str) else json.dumps(self.state)
        return len(text.split())
