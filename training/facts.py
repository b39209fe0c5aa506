"""Facts of a record: what values they take, how they are said, and conditions on them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from training.drawing import Draw

Value: TypeAlias = str | int | bool
Facts: TypeAlias = Mapping[str, Value]
Tree: TypeAlias = tuple[Any, ...]
"""A claim as data: ("is", key, value), ("not", claim), ("over" or "under", key, number), ("all" or "any",
claim, …), ("count", how many, claim, …)."""

_NEW_YEAR = datetime.date(2026, 1, 1)


def holds(tree: Tree, facts: Facts) -> bool:
    """Whether a claim is true of these facts."""
    match tree:
        case ("is", key, value):
            found = facts[key] == value
        case ("over", key, value):
            found = int(facts[key]) > value
        case ("under", key, value):
            found = int(facts[key]) < value
        case ("not", claim):
            found = not holds(claim, facts)
        case ("all", *claims):
            found = all(holds(claim, facts) for claim in claims)
        case ("any", *claims):
            found = any(holds(claim, facts) for claim in claims)
        case ("count", number, *claims):
            found = sum(holds(claim, facts) for claim in claims) == number
        case _:
            raise ValueError(f"no claim: {tree}")
    return bool(found)


@dataclass(frozen=True, slots=True)
class Condition:
    """A claim as a clause without capital and full stop, and its opposite."""

    text: str
    opposite: str
    tree: Tree

    def turned(self) -> Condition:
        """The opposite."""
        return Condition(self.opposite, self.text, ("not", self.tree))


@dataclass(frozen=True, slots=True)
class Category:
    """One of several values. `values` pairs each with a paraphrase that does not repeat its words."""

    key: str
    ask: str
    says: tuple[str, ...]
    clause: str
    opposite: str
    values: Mapping[str, str]

    def draw(self, draw: Draw) -> Value:
        """A value."""
        return draw.one(list(self.values))

    def other(self, draw: Draw, value: Value) -> Value:
        """Another value."""
        return draw.one([each for each in self.values if each != value])

    def shown(self, value: Value) -> str:
        """A value as text."""
        return str(value)

    def plain(self, value: Value) -> Value:
        """A value as it stands in JSON."""
        return value

    def say(self, draw: Draw, value: Value) -> str:
        """A sentence."""
        return draw.one(self.says).format(v=value)

    def condition(self, draw: Draw, value: Value, wanted: bool, decoy: Value | None = None) -> Condition:
        """A condition that is as true as wanted where the fact has this value."""
        other = (
            decoy if decoy is not None and decoy != value and draw.chance(0.7) else self.other(draw, value)
        )
        turned = draw.chance(0.3)
        meant = value if wanted != turned else other
        found = self.is_(meant)
        return found.turned() if turned else found

    def is_(self, value: Value) -> Condition:
        """That the fact has this value."""
        return Condition(self.clause.format(v=value), self.opposite.format(v=value), ("is", self.key, value))


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number, or a day of the year where `dated`."""

    key: str
    ask: str
    says: tuple[str, ...]
    over: str
    under: str
    low: int
    high: int
    step: int = 1
    unit: str = "{v}"
    dated: bool = False

    @property
    def noun(self) -> str:
        """What is measured or counted, as a singular noun."""
        plural = self.key == "people" or (self.key.endswith("s") and not self.key.endswith("ss"))
        return f"number of {self.key}" if plural else self.key

    def draw(self, draw: Draw) -> Value:
        """A value, away from the ends, so that thresholds fit on both sides."""
        steps = (self.high - self.low) // self.step
        margin = max(1, steps // 8)
        return self.low + self.step * draw.number(margin, steps - margin)

    def other(self, draw: Draw, value: Value) -> Value:
        """Another value."""
        found = self.draw(draw)
        while found == value:
            found = self.draw(draw)
        return found

    def shown(self, value: Value) -> str:
        """A value with its unit."""
        if self.dated:
            day = _NEW_YEAR + datetime.timedelta(days=int(value))
            return f"{day.day} {day:%B}"
        return self.unit.format(v=f"{int(value):,}" if int(value) >= 10_000 else str(value))

    def plain(self, value: Value) -> Value:
        """A value as it stands in JSON."""
        return (_NEW_YEAR + datetime.timedelta(days=int(value))).isoformat() if self.dated else value

    def say(self, draw: Draw, value: Value) -> str:
        """A sentence."""
        return draw.one(self.says).format(v=self.shown(value))

    def condition(self, draw: Draw, value: Value, wanted: bool, decoy: Value | None = None) -> Condition:
        """A condition that is as true as wanted where the fact has this value; never at the threshold."""
        number = int(value)
        over = draw.chance(0.5)
        # Over a threshold below the value or under one above it: true; the other two: false.
        below = over == wanted
        if decoy is not None and int(decoy) != number and (int(decoy) < number) == below and draw.chance(0.4):
            threshold = int(decoy)
        else:
            room = (number - self.low if below else self.high - number) // self.step
            reach = draw.number(1, max(1, room if draw.chance(0.4) else room // 3))
            threshold = number + (-reach if below else reach) * self.step
        shown = self.shown(threshold)
        more, less = self.over.format(v=shown), self.under.format(v=shown)
        if over:
            return Condition(more, less, ("over", self.key, threshold))
        return Condition(less, more, ("under", self.key, threshold))


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no, with sentences for both."""

    key: str
    ask: str
    yes: tuple[str, ...]
    no: tuple[str, ...]
    clause: str
    opposite: str
    says: tuple[str, ...] = field(default=())

    def draw(self, draw: Draw) -> Value:
        """A value."""
        return draw.chance(0.5)

    def other(self, draw: Draw, value: Value) -> Value:
        """The other value."""
        return not value

    def shown(self, value: Value) -> str:
        """A value as text."""
        return "yes" if value else "no"

    def plain(self, value: Value) -> Value:
        """A value as it stands in JSON."""
        return value

    def say(self, draw: Draw, value: Value) -> str:
        """A sentence."""
        return draw.one(self.yes if value else self.no)

    def condition(self, draw: Draw, value: Value, wanted: bool, decoy: Value | None = None) -> Condition:
        """A condition that is as true as wanted where the fact has this value."""
        found = Condition(self.clause, self.opposite, ("is", self.key, True))
        return found if bool(value) == wanted else found.turned()


Fact: TypeAlias = Category | Number | Flag
