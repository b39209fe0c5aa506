"""The levels of a fit: one temperature, one a kind, one a kind and band, each drawn towards its parent.

With ln T as the parameter, the root minimises the log loss of all rows,

    ln T_root = argmin sum_i loss_i(T),                       loss_i = -ln max(p_i[label_i], 1e-12)

and each further cell minimises its own rows' loss under a normal prior around its parent's (a maximum a
posteriori estimate of a two-level hierarchy):

    ln T_cell = argmin sum_i loss_i(T) + (ln T - ln T_parent)^2 / (2 s^2),              s = 0.5
    and for predicates jointly with the offset b, plus b^2 / (2 r^2),                   r = 2

so that a cell of a few rows stays near its parent, one of hundreds goes where its rows say, and the weight
is the information that the rows hold rather than their number. Kinds have the root as their parent, bands
their kind. Predicates have two options, so that their kind is their band.

A level whose minimum lies within 1 % of the span of [0.05, 20] from either end is refused: T <= 0.2495 or
T >= 19.8005, the published rule. The scores then have no scale that fits, or no signal; the parent's apply.

Where there are several kinds and the root is refused at the upper end, the scores as a whole say nothing, and
drawing the kinds towards T = 1 would keep what says nothing. They are drawn to FLATTEST instead, and one that
goes beyond gets FLATTEST: equal probabilities, of predicates the share of true ones, which is what is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dicast_server.calibration.blocks import (
    FLOOR,
    Block,
    Constants,
    label_losses,
    log_probabilities,
    predicate_logits,
)
from dicast_server.calibration.kinds import KINDS, Band, Kind, band_of
from dicast_server.calibration.minimise import Minimum, minimise
from dicast_server.calibration.table import MAX_TEMPERATURE, MIN_TEMPERATURE, Applied, Entry, Table

TEMPERATURE_SD = 0.5
OFFSET_SD = 2.0
MAX_OFFSET = 10.0
_EDGE = 0.01 * (MAX_TEMPERATURE - MIN_TEMPERATURE)
FLATTEST = MAX_TEMPERATURE - _EDGE
"""Where the temperatures that are refused begin."""


class Scheme(Enum):
    """How many temperatures there are, fewest first."""

    NONE = "none"
    ONE = "one"
    KIND = "per_type"
    BAND = "per_type_and_band"

    @property
    def words(self) -> str:
        """For people."""
        return {
            Scheme.NONE: "no fit",
            Scheme.ONE: "one temperature",
            Scheme.KIND: "a temperature a type",
            Scheme.BAND: "a temperature a type and number of options",
        }[self]


@dataclass(frozen=True, slots=True)
class Levels:
    """The entries of all levels; `refused` are the reasons of those that are missing for being at an edge."""

    base: float
    root: tuple[Entry, ...]
    kinds: tuple[Entry, ...]
    bands: tuple[Entry, ...]
    refused: tuple[str, ...]

    def table(self, scheme: Scheme) -> Table:
        """The table of a scheme."""
        entries = {
            Scheme.NONE: (),
            Scheme.ONE: self.root,
            Scheme.KIND: (*self.root, *self.kinds),
            Scheme.BAND: (*self.root, *self.kinds, *self.bands),
        }
        return Table(self.base, entries[scheme])


def fit_levels(blocks: Sequence[Block], constants: Constants) -> Levels:
    """Fit all levels on some rows; deterministic."""
    refused: list[str] = []
    base = constants.temperature
    root = _cell(blocks, constants, refused)
    present = [kind for kind in KINDS if any(block.kind == kind for block in blocks)]
    # A single kind is the root again, which is refused.
    flat = root is None and len(present) > 1 and _runs_flat(blocks, constants)
    parent = root.temperature if root is not None else FLATTEST if flat else base
    kinds: list[Entry] = []
    bands: list[Entry] = []
    for kind in present:
        of_kind = [block for block in blocks if block.kind == kind]
        # One kind without an offset is the root again.
        entry = None
        if root is None or len(present) > 1 or kind == "predicate":
            entry = _cell(of_kind, constants, refused, kind=kind, parent=parent, flat=flat)
        if entry is not None:
            kinds.append(entry)
        there = sorted({band_of(block.options) for block in of_kind})
        if len(there) < 2:
            continue
        above = entry.temperature if entry is not None else parent
        for band in there:
            of_band = [block for block in of_kind if band_of(block.options) == band]
            found = _cell(of_band, constants, refused, kind=kind, band=band, parent=above, flat=flat)
            if found is not None:
                bands.append(found)
    return Levels(base, (root,) if root is not None else (), tuple(kinds), tuple(bands), tuple(refused))


def _cell(
    blocks: Sequence[Block],
    constants: Constants,
    refused: list[str],
    *,
    kind: Kind | None = None,
    band: Band | None = None,
    parent: float | None = None,
    flat: bool = False,
) -> Entry | None:
    """Fit a cell; the root has no parent. None, and the reason, where its minimum is at an edge.

    Under `flat` the upper edge is no reason: it is where such a cell belongs.
    """
    found = _estimate(blocks, parent, kind == "predicate", constants)
    if flat and found.temperature >= FLATTEST:
        found = Applied(
            FLATTEST, _best_offset(blocks, FLATTEST, constants).at if kind == "predicate" else 0.0
        )
        return Entry(kind, band, *found, rows=sum(len(block.labels) for block in blocks))
    if MIN_TEMPERATURE + _EDGE < found.temperature < MAX_TEMPERATURE - _EDGE:
        if abs(found.offset) < 0.99 * MAX_OFFSET:
            return Entry(kind, band, *found, rows=sum(len(block.labels) for block in blocks))
        refused.append(
            f"{_named(kind, band)}: the offset {found.offset:.4g} is at the edge of what is fitted"
        )
        return None
    end = "upper" if found.temperature > 1.0 else "lower"
    why = "the scores carry no signal" if end == "upper" else "the scores hardly differ, or no row is wrong"
    refused.append(
        f"{_named(kind, band)}: the temperature {found.temperature:.4g} is at the {end} edge of "
        f"[{MIN_TEMPERATURE}, {MAX_TEMPERATURE:.0f}]: {why}"
    )
    return None


def _runs_flat(blocks: Sequence[Block], constants: Constants) -> bool:
    """Whether the temperature of all rows is at the upper edge."""
    return _estimate(blocks, None, False, constants).temperature >= FLATTEST


def _estimate(
    blocks: Sequence[Block], parent: float | None, has_offset: bool, constants: Constants
) -> Applied:
    """The least of loss and priors over ln T, and over the offset within each where there is one."""

    def best_offset(temperature: float) -> Minimum:
        if has_offset:
            return _best_offset(blocks, temperature, constants)
        logs = [(block, log_probabilities(block, temperature, 0.0, constants)) for block in blocks]
        return Minimum(0.0, sum(float(label_losses(of, block.labels).sum()) for block, of in logs))

    def total(log_temperature: float) -> float:
        prior = 0.0
        if parent is not None:
            prior = 0.5 * ((log_temperature - math.log(parent)) / TEMPERATURE_SD) ** 2
        return best_offset(math.exp(log_temperature)).value + prior

    at = minimise(total, math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE), width=1e-6).at
    temperature = math.exp(at)
    return Applied(temperature, best_offset(temperature).at)


def _best_offset(blocks: Sequence[Block], temperature: float, constants: Constants) -> Minimum:
    """The offset of least loss and prior at a temperature, for predicates alone."""
    towards = [
        np.where(block.labels == 0, 1.0, -1.0) * predicate_logits(block, temperature, constants)
        for block in blocks
    ]
    signs = np.concatenate([np.where(block.labels == 0, 1.0, -1.0) for block in blocks])
    logits = np.concatenate(towards)

    def loss(offset: float) -> float:
        losses = np.minimum(np.logaddexp(0.0, -(logits + offset * signs)), -math.log(FLOOR))
        return float(losses.sum()) + 0.5 * (offset / OFFSET_SD) ** 2

    return minimise(loss, -MAX_OFFSET, MAX_OFFSET, grid=9, width=1e-5)


def _named(kind: Kind | None, band: Band | None) -> str:
    if kind is None:
        return "one temperature"
    if band is None:
        return kind
    return f"{kind} of {band.low} to {band.high} options"
