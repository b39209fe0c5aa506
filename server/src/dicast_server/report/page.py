"""The page: one HTML file that loads nothing and runs nothing."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dicast_server.report import numbers, wording
from dicast_server.report.binning import spots
from dicast_server.report.canvas import DPI
from dicast_server.report.contents import Report
from dicast_server.report.curve import marks
from dicast_server.report.texts import clip, visible


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG on light paper, and the same on dark paper; of one size."""

    light: bytes
    dark: bytes

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on the page: at 96 pixels an inch, as it was laid out."""
        width, height = struct.unpack(">II", self.light[16:24])
        return round(width * 96 / DPI), round(height * 96 / DPI)


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of a part."""

    reliability: Picture
    coverage: Picture


def page(report: Report, pictures: Sequence[Pictures]) -> str:
    """The page of a report, with the pictures of its parts in their order."""
    environment = Environment(
        loader=PackageLoader("dicast_server.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"clip": clip, "data_url": _data_url, "exact": repr}
    return environment.get_template("page.html").render(
        report=report,
        parts=list(zip(report.parts, pictures, strict=True)),
        marks=marks,
        numbers=numbers,
        spots=spots,
        wording=wording,
    )


def _shown(value: object) -> object:
    """Whatever a template puts in, before it is escaped: no text reaches the page without `visible`."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
