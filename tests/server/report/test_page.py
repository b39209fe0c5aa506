"""The page: what it says is what was measured, and nothing in it is more than text."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import asked
import drawn
import numpy as np
import pytest

from dicast_server.calibration.assessment import assess
from dicast_server.calibration.fit import fit
from dicast_server.calibration.kinds import Band, Kind
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.metrics import METRICS
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.rows import ScoredRow
from dicast_server.calibration.table import Applied, Entry, Table
from dicast_server.report.build import report_of_answers, report_of_fit, report_of_two
from dicast_server.report.cells import cells_of
from dicast_server.report.contents import Facts, Report, System
from dicast_server.report.page import Picture, Pictures, page

FACTS = Facts(
    "support.jsonl",
    "3f" * 32,
    600,
    datetime(2025, 3, 4, 12, 30, tzinfo=UTC),
    "0.1.0",
    (System("SmolLM2", "letters", (("quantisation", "Q4_K_M"),)),),
    left_out=3,
)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + (1600).to_bytes(4, "big") + (800).to_bytes(4, "big")
HALF = "\ud800"
HOSTILE = (
    "</pre></script><script src='https://evil.example/x.js'>alert(\"1\")</script>"
    "<img src=x onerror=alert(1)>&lt;b&gt; {{ 7 * 7 }} {% raw %} \x00\x1b[31m\u202egnp" + HALF
)


def questions(rows: Sequence[ScoredRow], text: str = "") -> list[LabelledQuestion]:
    return [
        asked.question(row.id, row.kind, row.options, row.label, text=text, state=f"state {text}")
        for row in rows
    ]


def choices(predictions: Sequence[Prediction], text: str = "") -> list[LabelledQuestion]:
    return [asked.question(row.id, row.kind, len(row.probabilities), text=text) for row in predictions]


def shown(report: Report) -> str:
    picture = Picture(PNG, PNG)
    return page(report, [Pictures(picture, picture)] * len(report.parts))


class Seen(HTMLParser):
    """All elements with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "source", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def fitted() -> Report:
    rows = drawn.rows(600, 5, sharpened=2.5, bias=0.6)
    found = fit(rows)
    return report_of_fit(found, assess(found, draws=20), questions(rows), FACTS, notes=("n < m",), draws=20)


def test_all_figures_are_those_that_were_measured(fitted: Report) -> None:
    seen = Seen(shown(fitted))
    found = {
        (each["data-part"], each["data-column"], each["data-metric"]): float(each["value"] or "nan")
        for each in seen.of("data")
        if "data-metric" in each
    }
    expected = {}
    for part in fitted.parts:
        name = part.kind or "all"
        for label, column in zip(fitted.labels, part.columns, strict=True):
            values = {metric: of(column.judged) for metric, of in METRICS.items()}
            for metric, value in values.items():
                if not np.isnan(value):
                    expected[name, label, metric] = value
        for metric, difference in part.differences.items():
            expected[name, "difference", metric] = difference.value
    assert found == expected
    assert {part.kind for part in fitted.parts} == {None, "predicate", "choice", "score"}
    # Rounded beside them, with the interval.
    accuracy = fitted.parts[0].last.figures["accuracy"]
    assert f"{100 * accuracy.value:.1f}\u202f%" in seen.text
    assert f"{100 * accuracy.low:.1f} to {100 * accuracy.high:.1f}" in seen.text


def test_the_page_tells_what_was_measured_on_what(fitted: Report) -> None:
    seen = Seen(shown(fitted))
    for told in (
        "SmolLM2, read by letters; quantisation Q4_K_M",
        "support.jsonl, 600 rows; 3 more could not be used",
        "3f" * 32,
        "2025-03-04 12:30 UTC by dicast 0.1.0",
        fitted.headline,
        *fitted.support,
        "n < m",
        "calibrated by the fit",
        "How to read this",
    ):
        assert told in seen.text
    for threshold in fitted.parts[0].thresholds:
        assert threshold.reason in seen.text
        if threshold.threshold is not None:
            assert f"{threshold.answered:,} of {threshold.rows:,}" in seen.text


def test_sets_of_options_are_told_with_what_they_hold(fitted: Report) -> None:
    html = shown(fitted)
    for part in fitted.parts:
        assert [each.wanted for each in part.sets] == [each.wanted for each in part.thresholds]
        for found in part.sets:
            assert f'<data value="{found.least!r}">' in html or found.least == 0.0
            assert f"<td>{found.size:.2f}</td>" in html
            assert found.covered >= 1.0 - found.wanted
    # Too few rows for a wanted error leave every option.
    few = drawn.predictions(30, np.random.default_rng(5))
    evaluated = report_of_answers(few, choices(few), FACTS, draws=5)
    assert evaluated.parts[0].sets[0].least == 0.0
    assert "any: all of them, for want of rows" in shown(evaluated)


def test_every_type_and_number_of_options_has_its_line(fitted: Report) -> None:
    text = Seen(shown(fitted)).text
    for cell in fitted.cells:
        assert cell.applied is not None
        before, after = cell.columns
        assert f"{cell.applied.temperature:.3f}" in text
        assert f"{before.log_loss:.3f} → {after.log_loss:.3f}" in text
        assert cell.whose in text
    assert sum(cell.rows for cell in fitted.cells) == len(fitted.parts[0].last.judged)
    (kept,) = [each for each in fitted.tried if each.kept]
    for each in fitted.tried:
        assert f"{each.name}{each.loss:.4f}{'kept' if each is kept else ''}" in text.replace("\n", "")
    assert fitted.tried[0].name == "no fit"


def test_what_a_question_gets_says_where_it_was_fitted() -> None:
    kinds: list[tuple[Kind, int]] = [("predicate", 2), ("choice", 3), ("choice", 12)]
    rows = fit(drawn.rows(300, 5, kinds)).before
    table = Table(1.0, (Entry("predicate", None, 2.0, 0.5, 9), Entry("choice", Band(9, 16), 3.0, 0.0, 9)))
    found = {(cell.kind, cell.band): (cell.applied, cell.whose) for cell in cells_of([rows], table)}
    assert found == {
        ("predicate", Band(2, 2)): (Applied(2.0, 0.5), "of this type"),
        ("choice", Band(3, 4)): (Applied(1.0, 0.0), "nothing is fitted"),
        ("choice", Band(9, 16)): (Applied(3.0, 0.0), "of this band"),
    }
    assert {(cell.applied, cell.whose) for cell in cells_of([rows])} == {(None, "")}


def test_misses_are_told_with_their_texts(fitted: Report) -> None:
    (misses,) = fitted.misses
    assert len(misses.worst) == 20 < misses.wrong
    seen = Seen(shown(fitted))
    assert len([each for each in seen.of("details") if each.get("class") == "miss"]) == 20
    for miss in misses.worst:
        assert f"{miss.kind} {miss.id}, line 3 of the file" in seen.text
        assert sum(option.right for option in miss.options) == 1
        assert sum(option.chosen for option in miss.options) == 1
        assert miss.options == tuple(sorted(miss.options, key=lambda option: -option.probability))


def test_long_states_and_many_options_are_cut_and_say_so() -> None:
    probabilities = (0.5, 0.01, *[0.49 / 28] * 28)
    row = Prediction("a", "a", "choice", 1, probabilities)
    question = asked.question("a", "choice", 30, 1, state="x" * 5000)
    report = report_of_answers([row], [question], FACTS, draws=5)
    seen = Seen(shown(report))
    assert "… 3,800 characters more" in seen.text
    # Eight, and the right one, which is the least probable.
    assert len(report.misses[0].worst[0].options) == 9
    assert report.misses[0].worst[0].options[-1].right
    assert "and 21 options more, less probable" in seen.text


def test_hostile_texts_stay_text() -> None:
    rows = drawn.rows(60, 2)
    # Ids are hashed, so that a reader of files lets no half of a surrogate pair into them.
    rows = [replace(row, id=f"{row.id}{HOSTILE.removesuffix(HALF)}") for row in rows]
    found = fit(rows)
    facts = replace(FACTS, dataset=HOSTILE, systems=(System(HOSTILE, HOSTILE, ((HOSTILE, HOSTILE),)),))
    report = report_of_fit(
        found, assess(found, draws=5), questions(rows, HOSTILE), facts, notes=[HOSTILE], draws=5
    )
    html = shown(report)
    html.encode()
    seen = Seen(html)
    assert not seen.of("script")
    assert all("onerror" not in attributes for _, attributes in seen.elements)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", html)
    assert "<script src='https://evil.example/x.js'>" in seen.text
    assert "{{ 7 * 7 }}" in seen.text
    assert r"\u001b[31m\u202egnp\ud800" in seen.text
    assert "&lt;b&gt;" in seen.text


def test_nothing_is_loaded_or_run(fitted: Report) -> None:
    html = shown(fitted)
    seen = Seen(html)
    assert not seen.open
    tags = {tag for tag, _ in seen.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form", "svg", "audio", "video"}
    for _, attributes in seen.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "srcset", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:image/png;base64,", "#"))
    assert "url(" not in html and "@import" not in html and "http" not in html.replace("http-equiv", "")
    assert "default-src 'none'" in html


def test_the_page_can_be_heard_and_printed(fitted: Report) -> None:
    html = shown(fitted)
    seen = Seen(html)
    for image in seen.of("img"):
        assert len(image["alt"] or "") > 60
        assert (image["width"], image["height"]) == ("960", "480")
    assert all(each.get("scope") in {"row", "col"} for each in seen.of("th"))
    assert len(seen.of("caption")) == len(seen.of("table"))
    assert seen.of("html") == [{"lang": "en"}] and len(seen.of("h1")) == len(seen.of("main")) == 1
    names = [each["id"] for _, each in seen.elements if "id" in each]
    assert len(set(names)) == len(names)
    assert {f"#{name}" for name in names} >= {each["href"] for each in seen.of("a")}
    assert "prefers-color-scheme: dark" in html and "@media print" in html


def test_two_systems_side_by_side() -> None:
    generator = np.random.default_rng(1)
    first = drawn.predictions(200, generator)
    # The same questions, answered as if at random.
    second = [replace(row, probabilities=row.probabilities[1:] + row.probabilities[:1]) for row in first]
    facts = replace(FACTS, systems=(System("good", "letters"), System("bad", "direct")))
    report = report_of_two(first, second, choices(first), facts, draws=50)
    assert report.headline.startswith("A is right more often than B, by ")
    assert report.support[-1].startswith("B: no signal")
    seen = Seen(shown(report))
    assert "B less A" in seen.text and "worse" in seen.text
    assert "good, read by letters" in seen.text and "bad, read by direct" in seen.text
    assert [each.label for each in report.misses] == ["A", "B"]
    same = report_of_two(first, first, choices(first), facts, draws=5)
    assert same.headline == "A and B are right about equally often: no clear difference."
    assert not any(each.get("class") == "worse" for each in Seen(shown(same)).of("span"))


def test_a_miss_without_its_question_is_refused() -> None:
    row = Prediction("a", "a", "choice", 1, (0.5, 0.3, 0.2))
    with pytest.raises(ValueError, match="no question 'a'"):
        report_of_answers([row], [], FACTS, draws=5)
