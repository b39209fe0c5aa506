"""Writes a file of labelled questions: the same arguments give the same bytes.

python -m training.generate --seed 1 --cases 5000 --out train.jsonl --held-out refunds,astronomy
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from training import domains
from training.case import Case
from training.composing import compose
from training.drawing import Draw


def cases(seed: int, count: int, chosen: Sequence[str]) -> Iterator[Case]:
    """Cases of the chosen domains, each as often as the others, in an order that mixes them.

    A case depends on seed, number, its domain and the set of chosen domains, whose topics lend wrong options.
    """
    loaded = [domains.load(name) for name in sorted(chosen)]
    pool = [topics for domain in loaded for topics in domain.topics]
    turn: list[int] = []
    for number in range(count):
        if not turn:
            turn = Draw(f"{seed} round {number // len(loaded)}").shuffled(range(len(loaded)))
        domain = loaded[turn.pop()]
        yield compose(Draw(f"{seed} {domain.name} {number}"), f"{domain.name}-{seed}-{number}", domain, pool)


def write(path: Path, made: Iterator[Case]) -> int:
    """Writes the cases' rows; returns how many."""
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        for case in made:
            for row in case.rows():
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                rows += 1
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m training.generate", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=5000, help="states; each has one to three questions")
    parser.add_argument("--out", type=Path, help="JSONL; without it the domains are listed")
    parser.add_argument("--domains", type=_names, default=domains.names(), help="these only, by commas")
    parser.add_argument("--held-out", type=_names, default=(), help="all but these")
    given = parser.parse_args(arguments)
    chosen = [name for name in given.domains if name not in given.held_out]
    if given.out is None:
        print("\n".join(chosen))
        return
    rows = write(given.out, cases(given.seed, given.cases, chosen))
    print(f"{given.out}: {given.cases} cases, {rows} questions, {len(chosen)} domains")


def _names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if unknown := sorted(set(found) - set(domains.names())):
        raise argparse.ArgumentTypeError(f"no domain: {', '.join(unknown)}")
    return found


if __name__ == "__main__":
    main()
