"""How questions and options are worded: many templates, names in many styles, clauses turned to questions."""

from __future__ import annotations

from collections.abc import Sequence

from training.drawing import Draw

_VERBS = ("is", "are", "was", "were", "has", "have", "can", "will", "must")
_OTHER_VERBS = """
asks says talks wants speaks seems got received tells needs stays does has used that who which whether if
"""
_STOPS = frozenset(_OTHER_VERBS.split())
_PARTICIPLES = ("been", "eaten", "run", "caught", "paid", "lost", "done", "stood", "hurt", "never")

_STATEMENTS = (
    "{C}.",
    "{C}.",
    "{C}",
    "True or false: {c}.",
    "It is true that {c}.",
    "Decide whether {c}.",
    "Check whether {c}.",
    "Is it true that {c}?",
    "Is it the case that {c}?",
    "Does the text say that {c}?",
    "Please check: {c}.",
    "Statement: {c}.",
    "According to what is given, {c}.",
    "We need to know whether {c}.",
    "Would you agree that {c}?",
)

NOTHING = (
    "none of these",
    "none of the above",
    "other",
    "something else",
    "no match",
    "neither of them fits",
    "not listed",
)
NOTHING_MEANS = (
    "no other option fits",
    "anything that the other options do not cover",
    "what is asked for is not among the others",
    "use this where nothing else is right",
)
UNKNOWN = ("not stated", "unknown", "cannot be told", "the text does not say", "no information")

_CODES: tuple[tuple[str, ...], ...] = (
    ("oak", "elm", "birch", "maple", "ash", "pine", "cedar", "willow", "beech", "larch"),
    ("red", "blue", "green", "yellow", "white", "black", "orange", "violet", "grey", "brown"),
    ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda"),
    ("Room 11", "Room 12", "Room 14", "Room 20", "Room 21", "Room 23", "Room 30", "Room 35", "Room 41"),
    ("K1", "K2", "K3", "K4", "K5", "K6", "K7", "K8", "K9", "K10"),
    ("lane_7", "lane_3", "lane_9", "lane_1", "lane_4", "lane_6", "lane_2", "lane_8", "lane_5"),
    ("Mercury", "Venus", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune", "Pluto", "Ceres"),
    ("fox", "heron", "otter", "badger", "lynx", "raven", "trout", "beetle", "moose", "stork"),
    ("group north", "group south", "group east", "group west", "group centre", "group coast"),
    ("code 204", "code 317", "code 450", "code 522", "code 618", "code 733", "code 871", "code 990"),
    ("X-ray", "tango", "bravo", "hotel", "echo", "romeo", "sierra", "victor", "yankee", "zulu"),
    ("q17", "b02", "m44", "z90", "h31", "c58", "t63", "w29", "r75", "n86"),
)


def capital(text: str) -> str:
    """The text with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def inverted(clause: str) -> str | None:
    """A clause as a question, "the box is open" as "Is the box open?", where its verb allows that."""
    words = clause.split()
    place = next((at for at, word in enumerate(words) if at and word in _VERBS), None)
    if place is None or ":" in clause:
        return None
    verb, subject, rest = words[place], words[:place], words[place + 1 :]
    # A second verb, or an empty subject, makes another sentence than the clause.
    if (
        _STOPS & {*subject, *rest}
        or subject[0] in ("no", "nobody", "nothing", "neither", "there")
        or not rest
    ):
        return None
    if verb in ("has", "have") and not (rest[0] in _PARTICIPLES or rest[0].endswith("ed")):
        return capital(f"{'does' if verb == 'has' else 'do'} {' '.join([*subject, 'have', *rest])}?")
    return capital(f"{verb} {' '.join([*subject, *rest])}?")


def predicate(draw: Draw, clause: str, prefix: str = "") -> str:
    """Asks whether a clause is true. A prefix names the record that is meant."""
    question = inverted(clause)
    if question is not None and draw.chance(0.45):
        text = question
    else:
        text = draw.one(_STATEMENTS).format(c=clause, C=capital(clause))
    return led(prefix, text)


def led(prefix: str, text: str) -> str:
    """A text after the prefix that says what it is about."""
    return f"{prefix}{text}" if prefix else text


def about(draw: Draw, noun: str, name: str | None) -> str:
    """The prefix for one record of several; nothing where there is one only."""
    if name is None:
        return ""
    return draw.one(("{N} {i}: ", "About {n} {i}: ", "This is about {n} {i}. ", "For {n} {i}: ")).format(
        N=capital(noun), n=noun, i=name
    )


def styled(draw: Draw, names: Sequence[str]) -> list[str]:
    """Names of options, all in one style."""
    # Phrases keep their blanks: only labels are written as programs write them.
    short = all(len(name.split()) <= 4 and not set(name) & set(',:;"') for name in names)
    style = draw.one((0, 0, 1, 2, 3, 4, 5)) if short else draw.one((0, 0, 2))
    styles = (
        lambda name: name,
        lambda name: name.replace(" ", "_").replace("-", "_").lower(),
        capital,
        lambda name: " ".join(capital(word) for word in name.split()),
        lambda name: name.replace(" ", "-").lower(),
        lambda name: name.replace(" ", "_").upper(),
    )
    found = [styles[style](name) for name in names]
    return found if len(set(found)) == len(found) else list(names)


def codes(draw: Draw, count: int) -> list[str]:
    """Names that say nothing."""
    families = [each for each in _CODES if len(each) >= count]
    if families:
        return draw.some(draw.one(families), count)
    return [f"{draw.one('abcdefgh')}{number}" for number in draw.some(range(10, 100), count)]


def plural(noun: str) -> str:
    """More than one of it."""
    if noun.endswith(("ch", "sh", "s", "x")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"


def joined(parts: Sequence[str]) -> str:
    """Texts as one: lines where one of them is no sentence, as in a log."""
    return ("\n" if any(part[-1] not in ".!?\"'" for part in parts) else " ").join(parts)


def listed(parts: Sequence[str], word: str = "and") -> str:
    """A list in a sentence."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"
