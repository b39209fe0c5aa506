"""Names, numbers, days and remarks that any domain can use."""

from __future__ import annotations

from pathlib import Path

from training.drawing import Draw

_NAMES = """
Ada Amir Anneke Arturo Beatrix Bo Carmen Chidi Dalia Dmitri Edda Emeka Farah Felix Greta Gustav Hana
Hugo Ines Ivo Jasper Jun Kaja Kofi Lena Linus Mara Milo Nadia Nils Olga Omar Petra Priya Quentin
Rosa Ruben Salma Stefan Tariq Tess Ulrich Uma Vera Viktor Wanda Wei Xenia Yara Yusuf Zoe Zoltan
"""
PEOPLE = tuple(_NAMES.split())
"""First names; none of them is part of another."""

ASIDES = tuple((Path(__file__).parent / "asides.txt").read_text("utf-8").splitlines())
"""Sentences that no question is about."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def numbered(draw: Draw, pattern: str) -> str:
    """A number of a record: each # becomes a digit."""
    return "".join(str(draw.number(1, 9)) if sign == "#" else sign for sign in pattern)


def moments(draw: Draw, count: int) -> list[str]:
    """Points in time in rising order, all in one style."""
    match draw.number(0, 3):
        case 0 if count <= len(_DAYS):
            return [_DAYS[place] for place in sorted(draw.some(range(len(_DAYS)), count))]
        case 1:
            month = draw.one(("March", "May", "June", "October"))
            return [f"{day} {month}" for day in sorted(draw.some(range(1, 29), count))]
        case 2:
            number = draw.number(1, 9)
            return [f"2026-0{number}-{day:02}" for day in sorted(draw.some(range(1, 29), count))]
        case _:
            minutes = sorted(draw.some(range(7 * 60, 19 * 60), count))
            return [f"{each // 60:02}:{each % 60:02}" for each in minutes]
