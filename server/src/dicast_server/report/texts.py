"""Other people's texts as a page can show them: whole, or cut where it says so, and without tricks."""

from __future__ import annotations

import re

# Controls but tab and newline, what turns the direction of the text around it, and halves of surrogate
# pairs, which no file in UTF-8 can hold.
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with what no page shows, or what would change the page around it, spelled out."""
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def shorten(text: str, most: int) -> tuple[str, int]:
    """The first `most` characters, and how many are left out."""
    return text[:most], max(0, len(text) - most)


def clip(text: str, most: int) -> str:
    """The text on one line, of at most `most` characters: for where the whole of it stands elsewhere."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
