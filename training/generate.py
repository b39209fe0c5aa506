"""Writes a file of labelled questions: the same arguments give the same bytes.

python -m training.generate --seed 1 --cases 5000 --out train.jsonl --held-out riddles,customs
python -m training.generate --from passages --seed 1 --out passages.jsonl --held-out vet_clinic
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from training import domains, passages
from training.case import Case
from training.composing import compose
from training.drawing import Draw
from training.forms.passages import asked, shown


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


def passage_cases(seed: int, chosen: Sequence[str], count: int | None = None) -> Iterator[Case]:
    """A case of every passage of the chosen fields, in an order that mixes them; the first `count` of them.

    A case depends on seed, field, place and the set of chosen fields, whose categories lend wrong options.
    """
    loaded = [passages.load(name) for name in sorted(chosen)]
    every = [(field, place) for field in loaded for place in range(len(field.passages))]
    for field, place in Draw(f"{seed} passages").shuffled(every)[:count]:
        draw, passage = Draw(f"{seed} {field.name} {place}"), field.passages[place]
        questions = tuple(asked(draw, field, passage, loaded))
        yield Case(f"{field.name}-{seed}-{place}", field.name, shown(draw, passage), questions)


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
    parser.add_argument("--from", dest="source", choices=("domains", "passages"), default="domains")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, help="states, 5000 of domains; of passages each once")
    parser.add_argument("--out", type=Path, help="JSONL; without it the domains or fields are listed")
    parser.add_argument("--domains", type=_names, help="these domains or fields only, by commas")
    parser.add_argument("--held-out", type=_names, default=(), help="all but these")
    given = parser.parse_args(arguments)
    known = domains.names() if given.source == "domains" else passages.names()
    if unknown := sorted({*(given.domains or ()), *given.held_out} - set(known)):
        parser.error(f"not among the {given.source}: {', '.join(unknown)}")
    chosen = [name for name in given.domains or known if name not in given.held_out]
    if given.out is None:
        print("\n".join(chosen))
        return
    if given.source == "domains":
        made = cases(given.seed, 5000 if given.cases is None else given.cases, chosen)
    else:
        made = passage_cases(given.seed, chosen, given.cases)
    rows = write(given.out, made)
    print(f"{given.out}: {rows} questions, {len(chosen)} {given.source}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


if __name__ == "__main__":
    main()
