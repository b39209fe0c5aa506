"""How good the answers are: accuracy, log loss and AUC of each readout and style, beside what guessing gives.

    .venv/bin/python benchmarks/quality.py [--server ADDRESS] [--items N] [--wide] [--json FILE]

The questions are those of sys1bench's seeded generators, whose labels follow from stated policies: five
domains, N items each, a predicate, a choice and a score about every item. sys1bench is installed into a
folder of its own in dicast's cache, and only its generators are used. --wide asks one choice of 26 to 255
options instead: time and tokens of each readout. Without --server the plain embedded model is served.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from decide import child

from dicast import (
    Candidates,
    Choice,
    ChoiceAnswer,
    Client,
    Decision,
    DicastError,
    Direct,
    Letters,
    Options,
    Predicate,
    PredicateAnswer,
    Score,
    ScoreAnswer,
)
from dicast_server import caches
from dicast_server.profiling.measures import Graded, Measures

PACKAGE = "sys1bench==0.3.2"
SEED = 7
"""Below 1000: what lies above is kept for judging, and nothing is chosen by it."""
DOMAINS = ("support_tickets", "policy_compliance", "log_triage", "guardrail_intent", "phishing_email")
TYPES = ("predicate", "choice", "score")
WIDTHS = (26, 64, 128, 255)

WAYS = {
    "letters, plain": Options(readout=Letters("plain")),
    "letters, bracket": Options(readout=Letters("bracket")),
    "letters, plain, 2 orders": Options(readout=Letters("plain"), orders=2),
    "direct": Options(readout=Direct()),
    "direct, names hidden": Options(readout=Direct(hide_names=True)),
    "candidates, one token": Options(readout=Candidates("single_token")),
    "candidates, sequence": Options(readout=Candidates("sequence")),
    "candidates, sequence, by length": Options(readout=Candidates("sequence", normalize_length=True)),
    "candidates, sequence, prior corrected": Options(readout=Candidates("sequence", correct_prior=True)),
}
WIDE = ("letters, plain", "direct", "candidates, sequence")


@dataclass(frozen=True)
class Item:
    """A state, a question of each type about it, and the index of each right option."""

    state: Any
    questions: Mapping[str, Predicate | Choice | Score]
    right: Mapping[str, int]


def generators() -> Any:
    """The generators of sys1bench, installed on the first call."""
    folder = caches.folder() / PACKAGE.replace("==", "-")
    if not (folder / "sys1bench").is_dir():
        # Its dependencies are for what is not used here, but for pydantic, which the server has.
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*command, PACKAGE], check=True)
    sys.path.insert(0, str(folder))
    return importlib.import_module("sys1bench.generators")


def items(each: int, seed: int = SEED) -> list[Item]:
    """So many items of each domain."""
    found = generators()
    return [
        item(generated)
        for domain in DOMAINS
        for generated in found.get_generator(domain, n=each, seed=seed).generate()
    ]


def item(generated: Any) -> Item:
    """An item of sys1bench; of each type its first question."""
    questions: dict[str, Predicate | Choice | Score] = {}
    right: dict[str, int] = {}
    for asked in generated.questions.values():
        text, criteria, answer = asked.instructions, asked.criteria or [], asked.ground_truth
        if asked.type == "noul" and "predicate" not in questions:
            questions["predicate"], right["predicate"] = Predicate(text), 0 if answer else 1
        elif asked.type == "choice" and "choice" not in questions:
            options = {option.key: option.description for option in criteria}
            questions["choice"], right["choice"] = Choice(text, options), list(options).index(answer)
        elif asked.type == "score" and "score" not in questions:
            levels = [level.level for level in criteria]
            questions["score"] = Score(text, [level.description for level in criteria])
            right["score"] = levels.index(answer)
    return Item(generated.state, questions, right)


def graded(decision: Decision, asked: Item) -> dict[str, Graded]:
    """The answers about one item, by type."""
    return {key: Graded(probabilities(decision[key]), right) for key, right in asked.right.items()}


def probabilities(answer: object) -> tuple[float, ...]:
    """An answer's probabilities in the order of its options."""
    match answer:
        case PredicateAnswer(probability=probability):
            return probability, 1.0 - probability
        case ChoiceAnswer(probabilities=by_value):
            return tuple(by_value.values())
        case ScoreAnswer(probabilities=by_level):
            return by_level
        case _:
            raise SystemExit(f"a question was not answered: {answer}")


def auc(answers: Sequence[Graded]) -> float | None:
    """How often a true statement has a higher probability than a false one, ties half; None without both."""
    true = [each.probabilities[0] for each in answers if each.right == 0]
    false = [each.probabilities[0] for each in answers if each.right == 1]
    pairs = [(high > low) + 0.5 * (high == low) for high in true for low in false]
    return sum(pairs) / len(pairs) if pairs else None


def quality(client: Client, asked: Sequence[Item]) -> dict[str, Any]:
    """What each way makes of the items, or why it cannot read them."""
    rows: dict[str, Any] = {}
    for name, options in WAYS.items():
        start = time.perf_counter()
        answers: dict[str, list[Graded]] = {key: [] for key in TYPES}
        try:
            for each in asked:
                decision = client.decide(each.state, each.questions, options=options)
                for key, answer in graded(decision, each).items():
                    answers[key].append(answer)
        except DicastError as error:
            rows[name] = {"not taken": str(error)}
            print(f"{name}: not taken", file=sys.stderr)
            continue
        rows[name] = {
            "all": asdict(Measures.of([answer for key in TYPES for answer in answers[key]])),
            **{key: asdict(Measures.of(answers[key])) for key in TYPES},
            "auc": auc(answers["predicate"]),
            "seconds": time.perf_counter() - start,
        }
        print(f"{name}: {rows[name]['seconds']:.0f} s", file=sys.stderr)
    return rows


def wide(client: Client, runs: int = 3) -> dict[str, Any]:
    """Time and tokens of one choice of many options; every run has a state of its own."""
    rows: dict[str, Any] = {}
    for name in WIDE:
        for width in WIDTHS:
            question = Choice("Which locker holds the parcel?", [f"locker {n}" for n in range(1, width + 1)])
            times = []
            for run in range(runs + 1):
                state = f"Note {run} on {name}. The parcel was put into locker {width // 2}."
                start = time.perf_counter()
                decision = client.decide(state, {"locker": question}, options=WAYS[name])
                times.append(time.perf_counter() - start)
            # The first run warms up.
            row = {"ms": 1e3 * median(times[1:]), "tokens": decision.usage.input_tokens}
            rows.setdefault(name, {})[str(width)] = row
    return rows


@contextmanager
def serving(*flags: str) -> Iterator[str]:
    """The address of a server that is started, as soon as it is ready."""
    command = (sys.executable, "-m", "dicast.cli", "serve", "--grpc-port", "0", *flags)
    with child(*command) as (address, _), Client(address, timeout_s=600) as client:
        while client.model().status == "starting":
            time.sleep(0.1)
        yield address


@contextmanager
def connected(address: str | None) -> Iterator[Client]:
    """A client of the server at an address, or of one that is started; waits until it is ready."""
    if address is not None:
        with Client(address, timeout_s=600) as client:
            yield client
        return
    with serving("--no-adapter") as started, Client(started, timeout_s=600) as client:
        yield client


def quality_table(rows: Mapping[str, Any]) -> str:
    """The results for people: accuracy and log loss with intervals, and by type without."""
    read = {name: row for name, row in rows.items() if "all" in row}
    first = next(iter(read.values()))
    lines = [
        _row(
            f"{first['all']['questions']} questions",
            "accuracy",
            "log loss",
            *(f"{key}s" for key in TYPES),
            "AUC",
        ),
        "|---|---|---|---|---|---|---|",
        _row("chance", _chance(first["all"], " | "), *(_chance(first[key], ", ") for key in TYPES), "0.50"),
    ]
    for name, row in read.items():
        shown = "" if row["auc"] is None else f"{row['auc']:.2f}"
        overall = " | ".join(_interval(row["all"][key]) for key in ("accuracy", "log_loss"))
        lines.append(_row(name, overall, *(_short(row[key]) for key in TYPES), shown))
    lines += [f"\n{name}: {row['not taken']}" for name, row in rows.items() if "not taken" in row]
    return "\n".join(lines)


def wide_table(rows: Mapping[str, Any]) -> str:
    """Milliseconds and tokens by readout and number of options."""
    lines = [_row("ms (tokens)", *(f"{width} options" for width in WIDTHS)), "|---" * (len(WIDTHS) + 1) + "|"]
    for name, row in rows.items():
        lines.append(_row(name, *(f"{each['ms']:,.0f} ({each['tokens']:,})" for each in row.values())))
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _chance(measures: Mapping[str, Any], separator: str) -> str:
    return f"{measures['chance_accuracy']:.2f}{separator}{measures['chance_log_loss']:.2f}"


def _short(measures: Mapping[str, Any]) -> str:
    return f"{measures['accuracy']['value']:.2f}, {measures['log_loss']['value']:.2f}"


def _interval(estimate: Mapping[str, float]) -> str:
    return f"{estimate['value']:.2f} [{estimate['low']:.2f}, {estimate['high']:.2f}]"


def main(argv: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", metavar="ADDRESS", help="a server that runs, as host:port")
    parser.add_argument(
        "--items", type=int, default=20, help="items of each of the five domains (default 20)"
    )
    parser.add_argument("--wide", action="store_true", help="time choices of many options instead")
    parser.add_argument("--json", type=Path, default=Path("quality.json"), help="where to write the results")
    options = parser.parse_args(argv)
    with connected(options.server) as client:
        model = client.model().id
        rows = wide(client) if options.wide else quality(client, items(options.items))
    results = {"model": model, "processors": os.cpu_count(), "seed": SEED, "rows": rows}
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(wide_table(rows) if options.wide else quality_table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
