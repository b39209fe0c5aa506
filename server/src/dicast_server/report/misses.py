"""The worst misses with the texts of their questions."""

from __future__ import annotations

from collections.abc import Sequence

from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.metrics import worst
from dicast_server.calibration.misses import miss_rows
from dicast_server.calibration.prediction import Prediction
from dicast_server.decisions.wording import Wording
from dicast_server.readouts.texts import instructions, option_lines
from dicast_server.report.contents import Miss, Misses, ShownOption
from dicast_server.report.texts import shorten

MOST_STATE = 1200
MOST_TEXT = 600
MOST_OPTIONS = 8


def collect_misses(
    label: str, predictions: Sequence[Prediction], questions: Sequence[LabelledQuestion]
) -> Misses:
    """The worst misses of a column. Raises ValueError where one's question is not among `questions`."""
    by_id = {question.id: question for question in questions}
    shown = []
    for row in worst(predictions):
        if row.id not in by_id:
            raise ValueError(f"there is no question {row.id!r}")
        shown.append(_miss(row, by_id[row.id]))
    wrong = sum(not row.right for row in predictions)
    return Misses(label, wrong, tuple(shown), miss_rows(predictions, questions))


def _miss(row: Prediction, asked: LabelledQuestion) -> Miss:
    state, left_out = shorten(Wording.JSON.state(asked.state), MOST_STATE)
    lines = option_lines(asked.question, Wording.JSON)
    texts = [_cut(f"{name}: {description}" if description else name) for name, description in lines]
    ranked = sorted(range(len(texts)), key=lambda index: (-row.probabilities[index], index))
    # What was right is shown wherever it stands.
    kept = [index for place, index in enumerate(ranked) if place < MOST_OPTIONS or index == row.label]
    options = tuple(
        ShownOption(texts[index], row.probabilities[index], index == row.label, index == row.chosen)
        for index in kept
    )
    asks = _cut(instructions(asked.question, Wording.JSON))
    return Miss(row.id, row.kind, asked.line, state, left_out, asks, options, len(texts) - len(options))


def _cut(text: str) -> str:
    kept, left_out = shorten(text, MOST_TEXT)
    return f"{kept} … ({left_out:,} characters more)" if left_out else kept
