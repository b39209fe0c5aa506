"""What the embedded model can do: with its adapter and without, on questions that it has not learned from.

    .venv/bin/python benchmarks/embedded.py [--items N] [--seed N ...] [--page FILE ...] [--json FILE]

The questions are those of sys1bench's seeded generators, as in quality.py, which the adapter's data have
nothing to do with: from each seed N items of each of five domains, a predicate, a choice and a score about
every item. One seed has too few for a figure such as ECE, which is above 0 by chance alone. Each
choice is asked a second time with its options from the last to the first. --page writes the tables into a
page for people, between its two marks.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from quality import TYPES, Item, auc, graded, items, probabilities, serving

from dicast import Choice, Client, Predicate, Score
from dicast.cli import ticket
from dicast_server.calibration.reliability import calibration_error
from dicast_server.profiling.measures import Graded, Measures

SEEDS = (51, 52, 53)
"""Below 1000: what lies above is kept for judging others."""

SYSTEMS = {"plain": ("--no-adapter",), "with the adapter": ()}
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True)
class Goal:
    """A figure that the adapter is to reach, and what it must reach to be the default."""

    name: str
    figure: Callable[[Mapping[str, Any], Mapping[str, Any]], float]
    wanted: str
    reached: Callable[[float], bool]


GOALS = (
    Goal(
        "choices right, as a multiple of chance",
        lambda _, after: after["choice"]["accuracy"]["value"] / after["choice"]["chance_accuracy"],
        "at least 2",
        lambda value: value >= 2,
    ),
    Goal(
        "choices right, points above the plain model",
        lambda before, after: (
            100 * (after["choice"]["accuracy"]["value"] - before["choice"]["accuracy"]["value"])
        ),
        "at least 20; to be the default 10",
        lambda value: value >= 20,
    ),
    Goal(
        "AUC of predicates",
        lambda _, after: float(after["auc"]),
        "at least 0.75; to be the default 0.65",
        lambda value: value >= 0.75,
    ),
    Goal(
        "ECE of predicates",
        lambda _, after: float(after["predicate"]["ece"]),
        "at most 0.06",
        lambda value: value <= 0.06,
    ),
    Goal(
        "ECE of choices",
        lambda _, after: float(after["choice"]["ece"]),
        "at most 0.06",
        lambda value: value <= 0.06,
    ),
    Goal(
        "choices that another order of the options turns, in percent",
        lambda _, after: 100 * after["turned"],
        "at most 15",
        lambda value: value <= 15,
    ),
    Goal(
        "log loss of all questions, below the plain model's by",
        lambda before, after: before["all"]["log_loss"]["value"] - after["all"]["log_loss"]["value"],
        "more than 0",
        lambda value: value > 0,
    ),
)


def measured(client: Client, asked: Sequence[Item]) -> dict[str, Any]:
    """The figures of a system by type, how many choices turn with the order, time, the demo's answers."""
    answers: dict[str, list[Graded]] = {kind: [] for kind in TYPES}
    turned: list[bool] = []
    start = time.perf_counter()
    for each in asked:
        decision = client.decide(each.state, each.questions)
        for kind, answer in graded(decision, each).items():
            answers[kind].append(answer)
    seconds = time.perf_counter() - start
    for each, answer in zip(asked, answers["choice"], strict=True):
        turned.append(_reversed(client, each) != int(np.argmax(answer.probabilities)))
    demo = client.decide(ticket.STATE, ticket.QUESTIONS)
    return {
        "all": _figures([answer for kind in TYPES for answer in answers[kind]]),
        **{kind: _figures(answers[kind]) for kind in TYPES},
        "auc": auc(answers["predicate"]),
        "turned": sum(turned) / len(turned),
        "ms_an_item": 1e3 * seconds / len(asked),
        "demo": {key: _said(demo[key], question) for key, question in ticket.QUESTIONS.items()},
    }


def _figures(answers: Sequence[Graded]) -> dict[str, Any]:
    top = np.array([max(answer.probabilities) for answer in answers])
    right = np.array([answer.correct for answer in answers])
    return {**asdict(Measures.of(answers)), "ece": calibration_error(top, right)}


def _said(answer: object, question: Predicate | Choice | Score) -> str:
    """The most probable option of an answer, and how probable it is."""
    found = probabilities(answer)
    match question:
        case Predicate():
            names = ["yes", "no"]
        case Choice(options=options):
            names = [str(option) for option in options]
        case Score(levels=levels):
            names = [str(level) for level in levels]
    best = int(np.argmax(found))
    return f"{names[best]} ({found[best]:.0%})"


def _reversed(client: Client, asked: Item) -> int:
    """Which option is chosen, by its place in the question, where they are listed from last to first."""
    question = asked.questions["choice"]
    assert isinstance(question, Choice)
    assert isinstance(question.options, Mapping)
    turned = replace(question, options=dict(reversed(list(question.options.items()))))
    found = probabilities(client.decide(asked.state, {"choice": turned})["choice"])
    return len(found) - 1 - int(np.argmax(found))


def table(results: Mapping[str, Any]) -> str:
    """For people: both systems by type, and the goals."""
    rows = results["systems"]
    first = next(iter(rows.values()))
    lines = [
        f"| {first['all']['questions']} questions, seeds {', '.join(map(str, results['seeds']))} | "
        + " | ".join(f"{kind}s: right, log loss, ECE" for kind in TYPES)
        + " | AUC | turned by the order | ms for three questions |",
        "|---" * (len(TYPES) + 4) + "|",
        "| chance | "
        + " | ".join(
            f"{first[kind]['chance_accuracy']:.2f}, {first[kind]['chance_log_loss']:.2f}, -" for kind in TYPES
        )
        + " | 0.50 | - | - |",
    ]
    for name, row in rows.items():
        cells = [_cell(row[kind]) for kind in TYPES]
        lines.append(
            f"| {name} | {' | '.join(cells)} | {row['auc']:.3f} | {row['turned']:.0%} "
            f"| {row['ms_an_item']:.0f} |"
        )
    before, after = (rows[name] for name in SYSTEMS)
    lines += ["", "| with the adapter | wanted | is | |", "|---|---|---|---|"]
    for goal in GOALS:
        value = goal.figure(before, after)
        reached = "reached" if goal.reached(value) else "**not reached**"
        lines.append(f"| {goal.name} | {goal.wanted} | {value:.3g} | {reached} |")
    lines += ["", "The demo's answers:", ""]
    for name, row in rows.items():
        lines.append(f"- {name}: " + "; ".join(f"{key}: {said}" for key, said in row["demo"].items()))
    return "\n".join(lines)


def _cell(figures: Mapping[str, Any]) -> str:
    return f"{figures['accuracy']['value']:.2f}, {figures['log_loss']['value']:.2f}, {figures['ece']:.3f}"


def put(page: Path, text: str) -> None:
    """Put a text between the marks of a page."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{page} has no {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", "utf-8")


def main(argv: Sequence[str]) -> None:
    """Measure, print the tables, write JSON and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--items", type=int, default=60, help="items of each of the five domains (default 60)"
    )
    parser.add_argument("--seed", type=int, nargs="+", default=SEEDS, help=f"of the items (default {SEEDS})")
    parser.add_argument(
        "--page", type=Path, action="append", default=[], help="a page with marks, as docs/embedded-model.md"
    )
    parser.add_argument("--json", type=Path, default=Path("embedded.json"), help="where to write the results")
    options = parser.parse_args(argv)
    if max(options.seed) >= 1000:
        parser.error("--seed: those from 1000 on are kept for judging others")
    asked = [item for seed in options.seed for item in items(options.items, seed)]
    systems: dict[str, Any] = {}
    for name, flags in SYSTEMS.items():
        with serving(*flags) as address, Client(address, timeout_s=600) as client:
            systems[name] = measured(client, asked)
    results = {"seeds": options.seed, "items": options.items, "systems": systems}
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    text = table(results)
    for page in options.page:
        put(page, text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
