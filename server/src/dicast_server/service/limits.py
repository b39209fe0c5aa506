"""What a request may hold. What passes a limit is refused, never cut."""

from __future__ import annotations

from dataclasses import dataclass

from dicast import jsontext


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a request; GetModel shows them."""

    questions: int = 400
    options: int = 255
    levels: int = 10
    orders: int = 32
    passes: int = 1024
    in_flight: int = 64
    message_bytes: int = 4 * 1024 * 1024
    json_depth: int = jsontext.MAX_DEPTH
    min_temperature: float = 0.05
    max_temperature: float = 20.0
    stream_in_flight: int = 32
    stream_id_chars: int = 128
    max_hold_s: float = 24 * 3600.0
