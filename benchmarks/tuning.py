"""What tuning is worth: one domain learned, judged on items of another seed.

    .venv/bin/python benchmarks/tuning.py [--domain NAME] [--rows N] [--items N] [--json FILE] [-- FLAGS]

The questions are those of sys1bench's seeded generators, as in quality.py. `dicast tune` learns N labelled
rows of one seed; a server with the adapter beside the model then answers those of another seed, and those of
a domain that nothing was learned of, by the model's own name and by the adapter's. FLAGS go to `dicast tune`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibration import rows
from quality import DOMAINS, Item, generators, item, serving

from dicast import Client

LEARNED, JUDGED = 7, 8
"""Seeds below 1000: what lies above is kept for judging others."""
MODEL, NAME = "smollm2-135m-instruct", "tuned"
COMPARED = 20


def of_domain(domain: str, count: int, seed: int) -> list[Item]:
    """So many items of a domain."""
    return [item(each) for each in generators().get_generator(domain, n=count, seed=seed).generate()]


def write(path: Path, labelled: Sequence[Mapping[str, Any]]) -> Path:
    """Labelled rows as a file."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in labelled), "utf-8")
    return path


def tune(data: Path, out: Path, flags: Sequence[str]) -> float:
    """Learn an adapter; how many seconds that took, loading and judging included."""
    command = [sys.executable, "-m", "dicast.cli", "tune", str(data), "--model", MODEL, "--out", str(out)]
    start = time.perf_counter()
    subprocess.run([*command, *flags], check=True, stdout=sys.stderr)
    return time.perf_counter() - start


def compare(data: Path, address: str, out: Path) -> dict[str, Any]:
    """Figures of the model (0) and of its adapter (1) by type, and their paired differences."""
    both = ["--server", f"{address}/{MODEL}", "--against", f"{address}/{MODEL}:{NAME}"]
    command = [sys.executable, "-m", "dicast.cli", "eval", str(data), *both, "--json", str(out)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    parts = json.loads(out.read_text())["parts"]
    return {part["type"] or "all": part for part in parts}


def same_answers(plain: str, beside: str, asked: Sequence[Item]) -> bool:
    """Whether the model answers with the same bits where an adapter is loaded beside it."""
    with Client(plain, timeout_s=600) as one, Client(beside, timeout_s=600) as other:
        return all(
            one.decide(each.state, each.questions).answers == other.decide(each.state, each.questions).answers
            for each in asked[:COMPARED]
        )


def table(results: Mapping[str, Any]) -> str:
    """For people: each figure of the model and of its adapter."""
    lines = ["| | accuracy | log loss | AUC |", "|---|---|---|---|"]
    for title, parts in (("", results["judged"]), (f"{results['other']}, ", results["elsewhere"])):
        for kind, part in parts.items():
            cells = [
                f"{_shown(part['figures'][0][name])} → {_shown(part['figures'][1][name])}"
                if name in part["figures"][0]
                else ""
                for name in ("accuracy", "log_loss", "auc")
            ]
            lines.append(f"| {title}{kind} ({part['rows']}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(estimate: Sequence[float]) -> str:
    value, low, high = estimate
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def main(argv: Sequence[str]) -> None:
    """Learn, judge, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--domain", choices=DOMAINS, default="support_tickets", help="what is learned")
    parser.add_argument("--rows", type=int, default=500, help="labelled rows (default 500)")
    parser.add_argument("--items", type=int, default=60, help="items of three rows to judge on (default 60)")
    parser.add_argument("--json", type=Path, default=Path("tuning.json"), help="where to write")
    parser.add_argument("flags", nargs="*", help="flags of `dicast tune`, behind --")
    options = parser.parse_args(argv)
    other = next(domain for domain in DOMAINS if domain != options.domain)
    learned = rows(of_domain(options.domain, options.rows // 3 + 1, LEARNED))[: options.rows]
    judged = of_domain(options.domain, options.items, JUDGED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write(folder / "learned.jsonl", learned)
        seconds = tune(data, folder / "adapters" / NAME, options.flags)
        results: dict[str, Any] = {"domain": options.domain, "other": other, "rows": len(learned)}
        results |= {"seeds": [LEARNED, JUDGED], "seconds": seconds, "flags": options.flags}
        results["record"] = json.loads((folder / "adapters" / NAME / "dicast.json").read_text())["training"]
        with serving("--no-adapter", "--adapters", str(folder / "adapters")) as address:
            for key, domain in (("judged", options.domain), ("elsewhere", other)):
                asked = write(folder / f"{key}.jsonl", rows(of_domain(domain, options.items, JUDGED)))
                results[key] = compare(asked, address, folder / f"{key}.json")
            with serving("--no-adapter", "--no-adapters") as plain:
                results["same_answers"] = same_answers(plain, address, judged)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    print(
        f"\n{len(learned)} rows in {seconds / 60:.1f} minutes; answers of the model beside its adapter are",
        end=" ",
    )
    print("the same" if results["same_answers"] else "NOT the same")


if __name__ == "__main__":
    main(sys.argv[1:])
