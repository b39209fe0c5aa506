"""What a calibration file holds: what was fitted, for what, on what, and how it held."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from dicast_server.calibration.assessment import Assessment
from dicast_server.calibration.conformal import Sets
from dicast_server.calibration.fit import Fit
from dicast_server.calibration.guarantee import Measure, Threshold
from dicast_server.calibration.kinds import BANDS, Band, Kind
from dicast_server.calibration.levels import Scheme
from dicast_server.calibration.metrics import Estimate
from dicast_server.calibration.table import MAX_TEMPERATURE, MIN_TEMPERATURE, Applied, Entry, Table
from dicast_server.calibration.verdicts import Verdict

FORMAT = "dicast-calibration"
VERSION = 1

_Temperature = Annotated[float, Field(ge=MIN_TEMPERATURE, le=MAX_TEMPERATURE)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_Count = Annotated[int, Field(ge=0)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


class Key(_Shape):
    """What a calibration is for; it fits nothing else. Empty strings stand for what a model does not have.

    `settings` are those of the readout in its own JSON, as `readouts.spelled` has them; `orders` is how often
    the options are listed anew and the probabilities averaged. `constants` are what a server applies without
    a fit: temperature, slope and clamp. `adapter` is the SHA-256 of an adapter's weights.
    """

    model: str
    revision: str = ""
    weights_hash: str
    quantization: str = ""
    template_hash: str
    readout: str
    settings: dict[str, JsonValue] = {}
    orders: Annotated[int, Field(ge=1)] = 1
    profile: str
    constants: tuple[float, float, float] = (1.0, 1.0, 0.0)
    prompt_version: str
    questions_sha256: str = ""
    adapter: str = ""

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the key as sorted JSON: a file's name."""
        # Without an adapter as before there were any, so that files keep their names.
        named = self.model_dump(mode="json", exclude=None if self.adapter else {"adapter"})
        text = json.dumps(named, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def differences(self, served: Key) -> list[str]:
        """What differs from what is served, a sentence each.

        The questions count only where `served` names some: a server without questions of its own takes
        whatever was fitted for it.
        """
        found = []
        for name in Key.model_fields:
            own, other = getattr(self, name), getattr(served, name)
            if own != other and not (name == "questions_sha256" and not other):
                found.append(f"{name} is {_shown(own)} in the file and {_shown(other)} here")
        return found


class FittedEntry(_Shape):
    """What questions of a type and a band of option counts get; null stands for all."""

    kind: Kind | None
    band: Band | None
    temperature: _Temperature
    offset: float
    rows: _Count


class KindFigures(_Shape):
    """Figures of one type, or of all (null), on held-out rows: value, low and high of the 95 % interval."""

    kind: Kind | None
    rows: _Count
    verdict: Verdict | None
    before: dict[str, Estimate]
    after: dict[str, Estimate]
    prior_log_loss: float
    uniform_log_loss: float


class ThresholdEntry(_Shape):
    """A threshold for a wanted error, or the reason why there is none (`guarantee.Threshold`)."""

    kind: Kind | None
    measure: Measure
    wanted: _Share
    threshold: _Share | None
    rows: _Count
    answered: _Count
    errors: _Count
    bound: _Share | None
    reason: str


class SetsEntry(_Shape):
    """Conformal sets for a wanted error (`conformal.Sets`)."""

    kind: Kind | None
    wanted: _Share
    least: _Share
    rows: _Count
    size: float
    covered: _Share


class Calibration(_Shape):
    """A whole file. `scheme` is the one that was kept, `losses` each scheme's held-out log loss in nats."""

    format: Literal["dicast-calibration"] = "dicast-calibration"
    version: Literal[1] = 1
    key: Key
    date: AwareDatetime
    dicast_version: str
    base: _Temperature
    scheme: Scheme
    table: tuple[FittedEntry, ...]
    losses: dict[Scheme, float]
    figures: tuple[KindFigures, ...] = ()
    thresholds: tuple[ThresholdEntry, ...] = ()
    sets: tuple[SetsEntry, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def applies(self) -> bool:
        """Whether a fit was kept. Where none was, `of` says what is served without one."""
        return self.scheme is not Scheme.NONE

    def of(self, kind: Kind, options: int) -> Applied:
        """The temperature and the offset for a question of `options` options."""
        entries = [Entry(e.kind, e.band, e.temperature, e.offset, e.rows) for e in self.table]
        return Table(self.base, tuple(entries)).of(kind, options)

    def of_kind(self, kind: Kind) -> Applied:
        """What questions of a type get where their band has nothing of its own."""
        entries = [Entry(e.kind, None, e.temperature, e.offset, e.rows) for e in self.table if e.band is None]
        # Without bands every number of options gets the same.
        return Table(self.base, tuple(entries)).of(kind, BANDS[0].low)

    def fitted(self, kind: Kind, options: int) -> Applied | None:
        """What `of` says where it is a fit; None where it is what is served without one."""
        applied = self.of(kind, options)
        return None if applied == Applied(self.base, 0.0) else applied

    def verdict(self, kind: Kind) -> Verdict | None:
        """What was found for a type; None where the questions had none of it."""
        return next((each.verdict for each in self.figures if each.kind == kind), None)

    def threshold(
        self, wanted: float, kind: Kind | None = None, measure: Measure = "certainty"
    ) -> ThresholdEntry | None:
        """The entry for a wanted error; None where the file has none for it."""
        for entry in self.thresholds:
            if (entry.wanted, entry.kind, entry.measure) == (wanted, kind, measure):
                return entry
        return None


def calibration_of(
    fit: Fit,
    assessment: Assessment,
    key: Key,
    date: AwareDatetime,
    dicast_version: str,
    *,
    notes: Sequence[str] = (),
) -> Calibration:
    """A fit as a file's content; `notes` come after the fit's own, as of rows that were left out."""
    rows = {each.kind: each for each in fit.kinds}
    total = len(fit.before)
    shown = []
    for kind, (before, after) in assessment.figures.items():
        own = rows.values() if kind is None else [rows[kind]]
        count = total if kind is None else rows[kind].rows
        shown.append(
            KindFigures(
                kind=kind,
                rows=count,
                verdict=None if kind is None else rows[kind].verdict,
                before=dict(before),
                after=dict(after),
                prior_log_loss=sum(each.prior * each.rows for each in own) / count,
                uniform_log_loss=sum(each.uniform * each.rows for each in own) / count,
            )
        )
    return Calibration(
        key=key,
        date=date,
        dicast_version=dicast_version,
        base=fit.table.base,
        scheme=fit.scheme,
        table=tuple(FittedEntry(**_fields(entry)) for entry in fit.table.entries),
        losses=dict(fit.losses),
        figures=tuple(shown),
        thresholds=tuple(
            ThresholdEntry(kind=kind, **_fields(found)) for kind, found in assessment.thresholds
        ),
        sets=tuple(SetsEntry(kind=kind, **_fields(found)) for kind, found in assessment.sets),
        notes=(*fit.notes, *notes),
    )


def _fields(value: Entry | Threshold | Sets) -> dict[str, Any]:
    return {name: getattr(value, name) for name in type(value).__slots__}


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."
