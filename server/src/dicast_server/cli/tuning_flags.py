"""The flags of `dicast tune`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from dicast.cli.command import Parser
from dicast_server.adapters.document import MOST_RANK
from dicast_server.config import DEFAULT_MODEL
from dicast_server.tuning.settings import LOW_RANK, SCHEDULE


def parser() -> argparse.ArgumentParser:
    """What reads them."""
    parser = Parser(
        "tune",
        "Learn an adapter, small weights beside a model's own, from labelled questions.",
        epilog="exit code: 0; 1 where the adapter is no better than the model; 2 for a mistake in the\n"
        "command line or the file; 130 where it was stopped",
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="a .jsonl or .csv file of labelled questions")
    parser.add_argument(
        "--model",
        default=os.environ.get("DICAST_MODEL") or DEFAULT_MODEL,
        help="a name, a folder or a .gguf file (default: %(default)s)",
    )
    parser.add_argument("--name", help="of the adapter (default: that of the file of questions)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="the adapter's own folder (default: where `dicast serve` looks for it)",
    )
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="write a page with diagrams too")
    parser.add_argument(
        "--even-if-no-better", action="store_true", help="write the adapter whatever it is worth"
    )
    parser.add_argument("--profile", metavar="NAME|FILE", help="stock, openjev or a file of `dicast profile`")
    parser.add_argument("--threads", type=_positive, metavar="N", help="threads on a CPU")
    how = parser.add_argument_group("how it learns")
    how.add_argument(
        "--layers",
        type=_positive,
        default=LOW_RANK.layers,
        metavar="N",
        help="last layers of the model that learn (default: %(default)d, or all there are)",
    )
    how.add_argument(
        "--rank",
        type=_rank,
        default=LOW_RANK.rank,
        metavar="N",
        help="rank of the weights (default: %(default)d)",
    )
    how.add_argument(
        "--learning-rate",
        type=_rate,
        default=SCHEDULE.learning_rate,
        metavar="RATE",
        help="the highest step of a weight (default: %(default)g)",
    )
    how.add_argument(
        "--epochs",
        type=_positive,
        default=SCHEDULE.epochs,
        metavar="N",
        help="times that all rows are learned, at most (default: %(default)d)",
    )
    how.add_argument(
        "--shuffle-options",
        action="store_true",
        help="list the options of a choice in another order each epoch (default: as in their row)",
    )
    how.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="of all that is drawn (default: %(default)d)"
    )
    return parser


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def _rank(text: str) -> int:
    value = _positive(text)
    if value > MOST_RANK:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {MOST_RANK}")
    return value


def _seed(text: str) -> int:
    # NumPy and the adapter's description take no others.
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on")
    return int(text)


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0 and at most 1")
    return value
