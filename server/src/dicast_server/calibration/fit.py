"""The fit: which scheme holds out of sample, what it says of each type, and what it refuses.

Five folds by group. Every scheme is fitted on four and judged on the fifth; the losses of the held-out rows
are pooled. From the simplest scheme on, a scheme takes the place of the one that is kept only where its mean
held-out log loss is lower by more than one standard error of the paired difference (groups as draws). The
scheme that is kept is therefore never worse than none on held-out rows; a type that it makes worse all the
same keeps what it had. What is kept is then fitted on all rows.

For a temperature the rule asks for a likelihood ratio that chance passes about once in twenty times: the
gain is half of the ratio, and its standard error the ratio's root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dicast_server.calibration.blocks import (
    Constants,
    Floats,
    losses_under,
    pack,
    probabilities_under,
)
from dicast_server.calibration.folds import FOLDS, codes_of, difference, fold_of
from dicast_server.calibration.kinds import KINDS, Kind
from dicast_server.calibration.levels import Levels, Scheme, fit_levels
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.rows import ScoredRow
from dicast_server.calibration.table import Table
from dicast_server.calibration.verdicts import Verdict, prior_losses, uniform_losses, verdict

MIN_ROWS = 50


class FitRefused(ValueError):
    """Nothing can be fitted; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class KindFit:
    """What was found for one type: held-out log losses in nats a row, and what they say.

    `prior` is the loss of the frequencies of labels, `uniform` that of equal probabilities.
    """

    kind: Kind
    rows: int
    verdict: Verdict
    loss_before: float
    loss_after: float
    prior: float
    uniform: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A fit, and the held-out probabilities that it was chosen by.

    `before` are the rows as they are served without a fit, `after` as their fold's fit has them, both in the
    same order. `losses` has the mean held-out log loss of each scheme that was tried; `notes` say what was
    refused or left out.
    """

    scheme: Scheme
    table: Table
    losses: Mapping[Scheme, float]
    kinds: tuple[KindFit, ...]
    before: tuple[Prediction, ...]
    after: tuple[Prediction, ...]
    notes: tuple[str, ...]


def fit(rows: Sequence[ScoredRow], constants: Constants | None = None) -> Fit:
    """Fit and choose. Deterministic; the order of the rows means nothing.

    Raises:
        FitRefused: fewer than MIN_ROWS rows are usable, the labels are of one class, all groups are in one
            fold, or every temperature is at an edge of [0.05, 20].
    """
    constants = constants or Constants()
    ordered, notes = _usable(sorted(rows))
    whole = fit_levels(pack(ordered), constants)
    notes += whole.refused
    schemes = _schemes(whole, notes)
    held = _held_out(ordered, constants)
    losses = {scheme: held.losses(scheme) for scheme in schemes}
    codes = codes_of([row.group for row in ordered])
    kept = Scheme.NONE
    for scheme in schemes:
        if difference(losses[kept], losses[scheme], codes).clear:
            kept = scheme

    kinds = np.array([KINDS.index(row.kind) for row in ordered])
    before, after = losses[Scheme.NONE], losses[kept].copy()
    table = whole.table(kept)
    worse: list[Kind] = []
    found: list[KindFit] = []
    for index, kind in enumerate(KINDS):
        of_kind = kinds == index
        count = int(of_kind.sum())
        if count == 0:
            continue
        if after[of_kind].sum() > before[of_kind].sum():
            table = table.without(kind, count)
            worse.append(kind)
            after[of_kind] = before[of_kind]
            notes.append(f"{kind}: the fit makes held-out answers worse, so what was served stays")
        said = verdict(before, after, prior=held.prior, uniform=held.uniform, of_kind=of_kind, codes=codes)
        means = [float(each[of_kind].mean()) for each in (before, after, held.prior, held.uniform)]
        found.append(KindFit(kind, count, said, *means))
    return Fit(
        kept,
        table,
        {scheme: float(each.mean()) for scheme, each in losses.items()},
        tuple(found),
        held.predictions(Scheme.NONE, ()),
        held.predictions(kept, worse),
        tuple(notes),
    )


def _usable(rows: Sequence[ScoredRow]) -> tuple[list[ScoredRow], list[str]]:
    """Rows without the types whose labels are all alike, which say how often a label is right and no more."""
    notes: list[str] = []
    usable: list[ScoredRow] = []
    for kind in KINDS:
        of_kind = [row for row in rows if row.kind == kind]
        if len({row.label for row in of_kind}) == 1:
            notes.append(f"{kind}: all {len(of_kind)} labels are option {of_kind[0].label}, so none is used")
        else:
            usable += of_kind
    if notes and not usable:
        raise FitRefused(
            f"the labels are of one class only ({'; '.join(notes)}); add rows with other answers"
        )
    if len(usable) < MIN_ROWS:
        told = "".join(f"; {note}" for note in notes)
        raise FitRefused(f"{len(usable)} rows are usable, and a fit takes {MIN_ROWS} at least{told}")
    if len({fold_of(row.group) for row in usable}) < 2:
        groups = len({row.group for row in usable})
        raise FitRefused(f"the rows are of {groups} groups, all in one fold: nothing can be held out")
    return usable, notes


def _schemes(whole: Levels, notes: Sequence[str]) -> list[Scheme]:
    """The schemes that can be tried, simplest first."""
    there = {Scheme.ONE: whole.root, Scheme.KIND: whole.kinds, Scheme.BAND: whole.bands}
    found = [scheme for scheme, entries in there.items() if entries]
    if not found:
        raise FitRefused(f"no temperature fits: {'; '.join(notes)}")
    return [Scheme.NONE, *found]


@dataclass(frozen=True, slots=True)
class _HeldOut:
    """Each fold with the levels that the other folds gave; `prior` and `uniform` are losses a row."""

    rows: Sequence[ScoredRow]
    folds: Sequence[tuple[list[int], Levels]]
    constants: Constants
    prior: Floats
    uniform: Floats

    def losses(self, scheme: Scheme) -> Floats:
        """The held-out log losses of a scheme, float64 (rows,)."""
        losses = np.zeros(len(self.rows))
        for places, levels in self.folds:
            blocks = pack([self.rows[place] for place in places])
            losses[places] = losses_under(blocks, levels.table(scheme), self.constants, len(places))
        return losses

    def predictions(self, scheme: Scheme, unfitted: Sequence[Kind]) -> tuple[Prediction, ...]:
        """The held-out probabilities of a scheme, with some kinds as they were."""
        found: list[Prediction | None] = [None] * len(self.rows)
        for places, levels in self.folds:
            table = levels.table(scheme)
            for kind in unfitted:
                table = table.without(kind, 0)
            blocks = pack([self.rows[place] for place in places])
            all_probabilities = probabilities_under(blocks, table, self.constants, len(places))
            for place, probabilities in zip(places, all_probabilities, strict=True):
                row = self.rows[place]
                found[place] = Prediction(row.id, row.group, row.kind, row.label, probabilities)
        return tuple(each for each in found if each is not None)


def _held_out(rows: Sequence[ScoredRow], constants: Constants) -> _HeldOut:
    folds = np.array([fold_of(row.group) for row in rows])
    prior, fitted = np.zeros(len(rows)), []
    for fold in range(FOLDS):
        places = np.flatnonzero(folds == fold).tolist()
        if not places:
            continue
        others = [rows[place] for place in np.flatnonzero(folds != fold).tolist()]
        fitted.append((places, fit_levels(pack(others), constants)))
        prior[places] = prior_losses(others, [rows[place] for place in places])
    return _HeldOut(rows, fitted, constants, prior, uniform_losses(rows))
