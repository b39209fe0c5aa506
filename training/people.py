"""Names, numbers, days and remarks that any domain can use."""

from __future__ import annotations

from training.drawing import Draw

PEOPLE = tuple(
    "Ada Amir Anneke Arturo Beatrix Bo Carmen Chidi Dalia Dmitri Edda Emeka Farah Felix Greta Gustav Hana "
    "Hugo Ines Ivo Jasper Jun Kaja Kofi Lena Linus Mara Milo Nadia Nils Olga Omar Petra Priya Quentin Rosa "
    "Ruben Salma Stefan Tariq Tess Ulrich Uma Vera Viktor Wanda Wei Xenia Yara Yusuf Zoe Zoltan".split()
)
"""First names; none of them is part of another."""

ASIDES = (
    "The lift in the building is out of order again.",
    "It rained for most of the day.",
    "The coffee machine has been repaired.",
    "There is a short meeting every morning at nine.",
    "The office plants were watered on Monday.",
    "Somebody left an umbrella at the front desk.",
    "The new chairs have arrived and are being set up.",
    "The car park is half empty this week.",
    "A school class came to visit in the morning.",
    "The printer on the second floor needs paper.",
    "The summer party has been moved to the garden.",
    "The bus line outside takes another road at present.",
    "The windows will be cleaned next week.",
    "Two colleagues are on holiday until the end of the month.",
    "The clock in the hall is five minutes fast.",
    "The canteen had soup today.",
    "A street musician was playing outside.",
    "The heating was turned on for the first time this autumn.",
    "The calendar on the wall still shows last month.",
    "A parcel for the neighbours was taken in.",
    "The radio was on in the background.",
    "The phone line was bad for a moment.",
    "The weekend was quiet.",
    "The lights in the corridor have been replaced.",
    "There was fresh fruit on the table.",
    "The keys hang where they always hang.",
    "A new notice board was put up next to the stairs.",
    "The cat of the house slept through all of it.",
    "The floor had just been mopped.",
    "The afternoon was sunny and a little windy.",
)
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
            days = sorted(draw.some(range(1, 29), count))
            return [f"2026-0{draw.number(4, 4)}-{day:02}" for day in days]
        case _:
            minutes = sorted(draw.some(range(7 * 60, 19 * 60), count))
            return [f"{each // 60:02}:{each % 60:02}" for each in minutes]
