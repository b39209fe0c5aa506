"""What a calibration does on questions that it has not seen: fitted on one seed, judged on another.

    .venv/bin/python benchmarks/calibration.py [--items N] [--seeds FIT JUDGE] [--json FILE]
        [--report FOLDER]

The questions are those of sys1bench's seeded generators, as in quality.py: N items of each of five domains,
a predicate, a choice and a score about every item. `dicast calibrate` fits on those of one seed; `dicast
eval` judges a server without the calibration and one with it on those of another. Beside them stands what
is known without any answer: how often each label was right in the first set.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quality import Item, items, serving

from dicast import Choice, Predicate, Score

SEEDS = (31, 32)
"""To fit on and to judge on. Below 1000: what lies above is kept for judging others."""
KINDS = ("predicate", "choice", "score")


def rows(asked: Sequence[Item]) -> list[dict[str, Any]]:
    """Items as labelled questions in System One's form; those about one state are a group."""
    return [
        {
            "id": f"{number}-{kind}",
            "group": str(number),
            "state": each.state,
            "question": body(each.questions[kind]),
            "expected": expected(each.questions[kind], each.right[kind]),
        }
        for number, each in enumerate(asked)
        for kind in each.questions
    ]


def body(question: Predicate | Choice | Score) -> dict[str, Any]:
    """A question in System One's form."""
    match question:
        case Predicate():
            return {"type": "noul", "instructions": question.instructions}
        case Choice(options=options):
            assert isinstance(options, Mapping)
            return {"type": "choice", "instructions": question.instructions, "criteria": dict(options)}
        case Score(levels=levels):
            return {"type": "score", "instructions": question.instructions, "criteria": list(levels)}


def expected(question: Predicate | Choice | Score, right: int) -> Any:
    """The label of a row."""
    match question:
        case Predicate():
            return right == 0
        case Choice(options=options):
            return list(options)[right]
        case Score():
            return right


def prior_loss(fitted: Sequence[Item], judged: Sequence[Item], kind: str) -> float:
    """Log loss of a label's share among those of its question in the first set, one added to each count."""
    counts: Counter[tuple[str, int]] = Counter()
    for each in fitted:
        if kind in each.questions:
            counts[repr(each.questions[kind]), each.right[kind]] += 1
    losses = []
    for each in judged:
        if kind in each.questions:
            question, key = each.questions[kind], repr(each.questions[kind])
            size = len(body(question).get("criteria", (0, 1)))
            total = sum(counts[key, label] for label in range(size)) + size
            losses.append(-math.log((counts[key, each.right[kind]] + 1) / total))
    return sum(losses) / len(losses)


def run(*arguments: object) -> None:
    """A command of dicast; its words go to stderr."""
    command = [sys.executable, "-m", "dicast.cli", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=sys.stderr)


def evaluated(data: Path, calibration: Path | str, out: Path) -> dict[str, Any]:
    """The figures of a server that applies a calibration, by type."""
    with serving("--no-adapter", "--calibration", str(calibration)) as address:
        run("eval", data, "--server", address, "--json", out)
    parts = json.loads(out.read_text())["parts"]
    return {part["type"] or "all": part["figures"][0] for part in parts}


def table(results: Mapping[str, Any]) -> str:
    """For people: each figure before and after."""
    lines = [
        "| | verdict | ECE | log loss | accuracy | log loss of the labels' shares |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        before, after = (results[when][kind] for when in ("before", "after"))
        cells = [
            f"{_shown(before[name])} → {_shown(after[name])}" for name in ("ece", "log_loss", "accuracy")
        ]
        prior = f"{results['prior_log_loss'][kind]:.3f}"
        lines.append(f"| {' | '.join([f'{kind}s', results['verdicts'][kind], *cells, prior])} |")
    return "\n".join(lines)


def _shown(estimate: Sequence[float]) -> str:
    value, low, high = estimate
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def main(argv: Sequence[str]) -> None:
    """Fit, judge, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--items", type=int, default=40, help="items of each of the five domains (default 40)"
    )
    parser.add_argument("--json", type=Path, default=Path("calibration.json"), help="where to write")
    parser.add_argument("--report", type=Path, help="a folder for the page of `dicast calibrate`")
    parser.add_argument(
        "--seeds",
        type=int,
        nargs=2,
        default=SEEDS,
        metavar="N",
        help="to fit on and to judge on (default 31 32)",
    )
    options = parser.parse_args(argv)
    fit_on, judge_on = options.seeds
    if max(options.seeds) >= 1000:
        parser.error("--seeds: those from 1000 on are kept for judging others")
    fitted, judged = items(options.items, fit_on), items(options.items, judge_on)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed, asked in ((fit_on, fitted), (judge_on, judged)):
            lines = [json.dumps(row, ensure_ascii=False) for row in rows(asked)]
            (folder / f"seed{seed}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        calibration = folder / "calibration.json"
        report = ("--report", options.report) if options.report else ()
        run("calibrate", "--no-adapter", folder / f"seed{fit_on}.jsonl", "--out", calibration, *report)
        made = json.loads(calibration.read_text())
        data = folder / f"seed{judge_on}.jsonl"
        results = {
            "seeds": [fit_on, judge_on],
            "questions": len(rows(fitted)),
            "scheme": made["scheme"],
            "verdicts": {each["kind"]: each["verdict"] for each in made["figures"] if each["kind"]},
            "before": evaluated(data, "none", folder / "before.json"),
            "after": evaluated(data, calibration, folder / "after.json"),
            "prior_log_loss": {kind: prior_loss(fitted, judged, kind) for kind in KINDS},
            "table": made["table"],
        }
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main(sys.argv[1:])
