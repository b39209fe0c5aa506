"""What `dicast calibrate` and `dicast eval` print: figures with intervals, verdicts, thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dicast_server.calibration.document import Calibration, KindFigures, ThresholdEntry
from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.metrics import Estimate
from dicast_server.calibration.rows import LeftOut
from dicast_server.calibration.verdicts import Verdict
from dicast_server.evaluation.comparison import Evaluation

FIGURES = {
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "brier": "Brier score",
    "ece": "ECE, equal width",
    "ece_mass": "ECE, equal mass",
    "auc": "AUC of p(true)",
}
SHOWN_ERRORS = (0.05, 0.1, 0.2)
_SHOWN_LEFT_OUT = 10
_NAME, _CELL = 20, 24

_VERDICTS = {
    Verdict.CALIBRATED: "calibrated: a fit is kept, and the answers say more than the labels' frequencies do",
    Verdict.UNCHANGED: "unchanged: no fit is kept, and the answers say more than the labels' frequencies do",
    Verdict.NO_SIGNAL: "no signal: fitted or not, the answers say no more than the labels' frequencies do; "
    "a fit only flattens them",
}


def plural(kind: Kind | None) -> str:
    """The name of a part: all questions, or those of a type."""
    return "all questions" if kind is None else f"{kind}s"


def table(title: str, columns: Sequence[tuple[str, Mapping[str, Estimate]]]) -> list[str]:
    """A line a figure and a column a system; a last column may be their difference."""
    lines = [_line(title, [name for name, _ in columns])]
    for name, shown in FIGURES.items():
        if any(name in figures for _, figures in columns):
            cells = [_estimate(figures[name]) if name in figures else "" for _, figures in columns]
            lines.append(_line(f"  {shown}", cells))
    return lines


def evaluation_lines(evaluation: Evaluation) -> list[str]:
    """The systems and a table a part; of two systems the first is A, the second B."""
    names = [system.name for system in evaluation.systems]
    labels = [""] if len(names) == 1 else ["A", "B"]
    lines = [f"{label}: {name}" if label else name for label, name in zip(labels, names, strict=True)]
    for part in evaluation.parts:
        columns = list(zip(labels, part.figures, strict=True))
        if part.differences:
            columns.append(("B - A", part.differences))
        lines += ["", *table(f"{plural(part.kind)} ({part.rows})", columns)]
        lines += [f"  log loss of equal probabilities {part.uniform_log_loss:.3f}"]
    return lines


def calibration_lines(calibration: Calibration) -> list[str]:
    """All of a calibration that a person wants to know at once."""
    lines = ["Before and after the fit, on held-out rows; 95 % intervals in brackets.", ""]
    for part in calibration.figures:
        lines += table(f"{plural(part.kind)} ({part.rows})", [("before", part.before), ("after", part.after)])
        lines += [_baseline(part), ""]
    lines += [*_kept(calibration), ""]
    lines += [
        f"{plural(part.kind)}: {_VERDICTS[part.verdict]}."
        for part in calibration.figures
        if part.verdict is not None
    ]
    lines += ["", *_thresholds(calibration)]
    if calibration.notes:
        lines += ["", *(f"Note: {note}." for note in calibration.notes)]
    return lines


def left_out_lines(left_out: Sequence[LeftOut]) -> list[str]:
    """The rows that were not used, with their reasons; the first of them one by one."""
    if not left_out:
        return []
    # Ids and reasons may hold text of the file: it must not steer the terminal.
    shown = [
        f"  line {each.line}, {_printable(each.id)}: {_printable(each.reason)}"
        for each in left_out[:_SHOWN_LEFT_OUT]
    ]
    more = len(left_out) - len(shown)
    return [f"{rows_left_out(len(left_out))}:", *shown, *([f"  and {more} more"] if more else [])]


def rows_left_out(count: int) -> str:
    """So many rows were not used."""
    return "1 row was left out" if count == 1 else f"{count} rows were left out"


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _kept(calibration: Calibration) -> list[str]:
    kept = calibration.scheme.words
    losses = ", ".join(f"{scheme.words} {loss:.4f}" for scheme, loss in calibration.losses.items())
    if calibration.applies:
        why = "it lowers the log loss of held-out rows by more than chance would"
    else:
        why = "none lowers the log loss of held-out rows by more than chance would"
    return [f"Kept: {kept}, because {why}.", f"Held-out log losses: {losses}.", *_entries(calibration)]


def _entries(calibration: Calibration) -> Iterable[str]:
    for entry in calibration.table:
        of = "all" if entry.kind is None else plural(entry.kind)
        if entry.band is not None:
            of += f" of {entry.band.low} to {entry.band.high} options"
        offset = f", offset {entry.offset:+.3f}" if entry.kind == "predicate" else ""
        yield f"  {of}: temperature {entry.temperature:.3f}{offset} ({entry.rows} rows)"


def _baseline(part: KindFigures) -> str:
    return (
        f"  log loss of the labels' frequencies {part.prior_log_loss:.3f}, "
        f"of equal probabilities {part.uniform_log_loss:.3f}"
    )


def _thresholds(calibration: Calibration) -> list[str]:
    lines = ["Answering only what is sure enough, so that at most so many of the answers are wrong:"]
    for part in calibration.figures:
        for wanted in SHOWN_ERRORS:
            found = calibration.threshold(wanted, part.kind)
            if found is not None:
                lines.append(f"  {plural(part.kind):14} {wanted:4.0%}  {_threshold(found)}")
    return lines


def _threshold(found: ThresholdEntry) -> str:
    if found.threshold is None:
        return f"no threshold: {found.reason}"
    share = found.answered / found.rows if found.rows else 0.0
    return f"from a confidence of {found.threshold:.3f} on: {share:.0%} answered, {found.errors} wrong"


def _estimate(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _line(name: str, cells: Sequence[str]) -> str:
    return f"{name:{_NAME}} {' '.join(f'{cell:{_CELL}}' for cell in cells)}".rstrip()
