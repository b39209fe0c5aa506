"""Flags that say which system is asked and how, and the source that they mean."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dicast import AsyncClient, Candidates, Direct, Letters, Plugin, Readout, jsontext
from dicast.cli.command import CommandError, add_key_flag, seconds
from dicast_server import blas, caches
from dicast_server.cli.default_adapter import default_adapter
from dicast_server.cli.profiles import read_profile
from dicast_server.cli.waiting import Waiting
from dicast_server.config import DEFAULT_MODEL
from dicast_server.evaluation.dialects import dialect_of
from dicast_server.evaluation.grpc_source import GrpcSource
from dicast_server.evaluation.source import Source, SourceLost
from dicast_server.evaluation.system import Asking
from dicast_server.profiling.comparison import LEAST_OPTION_MASS
from dicast_server.profiling.profile_file import ProfileFile
from dicast_server.readouts.profile import Profile

TIMEOUT_S = 600.0
WAIT_S = 300.0
_READOUTS: dict[str, type[Letters | Direct | Candidates]] = {
    "letters": Letters,
    "direct": Direct,
    "candidates": Candidates,
}
_SETTINGS = {"letters": ("style", "correct_prior"), "direct": ("hide_names",)}
_OF_CANDIDATES = ("scoring", "normalize_length", "correct_prior")


@dataclass(frozen=True, slots=True)
class Where:
    """A system: a model to be loaded `here`, the address of a `server`, or the `url` of a JSON dialect."""

    kind: Literal["here", "server", "url"]
    address: str


@dataclass(frozen=True, slots=True)
class Calling:
    """How a system is called that runs elsewhere.

    `model` is its name in requests to a URL. `wait_s` is how long one that starts or is busy is waited for.
    """

    api_key: str | None
    timeout_s: float
    model: str = ""
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Loading:
    """How a model is loaded here; `plain`: without the adapter that comes with dicast for it."""

    profile: Profile | ProfileFile | None
    threads: int | None
    least_option_mass: float
    plain: bool = False


def add_flags(parser: argparse.ArgumentParser, *, urls: bool) -> None:
    """Add the flags that `where`, `asking` and `loading` read; --url where `urls`."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--model",
        default=os.environ.get("DICAST_MODEL") or DEFAULT_MODEL,
        help="a name, a folder or a .gguf file, which is loaded here (default: %(default)s)",
    )
    source.add_argument(
        "--server",
        metavar="HOST:PORT[/MODEL]",
        help="a dicast server that runs, instead of a model; with the name of one of its models, such as "
        "smollm2-135m-instruct:ADAPTER (default: its default model)",
    )
    if urls:
        source.add_argument("--url", help="any URL that ends in /v1/systemone or /v1/decisions, instead")
        parser.add_argument(
            "--url-model",
            default="jev-latest",
            metavar="NAME",
            help="model that requests to a URL name (default: %(default)s)",
        )
    add_key_flag(parser)
    parser.add_argument(
        "--readout",
        type=read_readout,
        metavar="NAME[:JSON]",
        help='letters, direct, candidates or a plugin\'s, with its settings: letters:{"style":"bracket"} '
        "(default: the profile's)",
    )
    parser.add_argument(
        "--orders", type=int, default=1, metavar="N", help="orders of the options to average (default: 1)"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help="how long one request may take (default: %(default)g)",
    )
    parser.add_argument(
        "--wait",
        type=waiting,
        default=WAIT_S,
        metavar="SECONDS",
        help="how long to wait for a server that is still starting or stays busy (default: %(default)g)",
    )
    loaded = parser.add_argument_group("for a model that is loaded here, as `dicast serve` has them")
    loaded.add_argument("--profile", metavar="NAME|FILE", help="stock, openjev or a file of `dicast profile`")
    loaded.add_argument(
        "--no-adapter",
        action="store_true",
        help="ask the embedded model plain, without the adapter that comes with dicast; so does --profile",
    )
    loaded.add_argument("--threads", type=int, metavar="N", help="threads on a CPU")
    loaded.add_argument(
        "--min-option-mass",
        type=float,
        default=LEAST_OPTION_MASS,
        metavar="SHARE",
        help="least share of probability on the options (default: %(default)g)",
    )


def where(arguments: argparse.Namespace) -> Where:
    """The system that the flags mean."""
    if arguments.server is not None:
        return Where("server", arguments.server)
    if getattr(arguments, "url", None) is not None:
        return _at_url(arguments.url)
    return Where("here", arguments.model)


def elsewhere(address: str) -> Where:
    """The system of a URL, or of the address of a dicast server."""
    return _at_url(address) if "://" in address else Where("server", address)


def _at_url(url: str) -> Where:
    if not url.startswith(("http://", "https://")) or dialect_of(url) is None:
        raise CommandError(f"{url} is no http URL that ends in /v1/systemone or /v1/decisions", 2)
    return Where("url", url)


def asking(arguments: argparse.Namespace) -> Asking:
    """How questions are asked."""
    if not 1 <= arguments.orders <= 32:
        raise CommandError(f"--orders: {arguments.orders} is not between 1 and 32", 2)
    return Asking(arguments.readout, arguments.orders)


def calling(arguments: argparse.Namespace) -> Calling:
    """How a system is called."""
    return Calling(arguments.api_key, arguments.timeout, getattr(arguments, "url_model", ""), arguments.wait)


def loading(arguments: argparse.Namespace) -> Loading:
    """How a model is loaded here."""
    try:
        profile = read_profile(arguments.profile)
    except ValueError as error:
        raise CommandError(f"--profile: {error}", 2) from None
    plain = arguments.no_adapter or profile is not None
    return Loading(profile, arguments.threads, arguments.min_option_mass, plain)


def waiting(text: str) -> float:
    """A number of seconds from 0 on, for argparse."""
    return 0.0 if text.strip() == "0" else seconds(text)


def read_readout(text: str) -> Readout:
    """A readout by its name and, after a colon, its settings in JSON; for argparse."""
    name, _, given = text.partition(":")
    try:
        settings: Any = jsontext.plain(jsontext.parse(given or "{}"))
    except jsontext.JsonError as error:
        raise argparse.ArgumentTypeError(f"the settings of {name!r}: {error}") from None
    if not isinstance(settings, dict):
        raise argparse.ArgumentTypeError(f"the settings of {name!r} are no JSON object")
    if name.startswith("x_"):
        return Plugin(name, settings)
    if (own := _READOUTS.get(name)) is None:
        raise argparse.ArgumentTypeError(
            f"{name!r} is none of {', '.join(_READOUTS)}, and no plugin's, which begins with x_"
        )
    known = _SETTINGS.get(name, _OF_CANDIDATES)
    if (unknown := next((each for each in settings if each not in known), None)) is not None:
        raise argparse.ArgumentTypeError(f"{name} has no setting {unknown!r}; it has {', '.join(known)}")
    return own(**settings)


@asynccontextmanager
async def served(at: Where, how: Asking, load: Loading, call: Calling) -> AsyncIterator[GrpcSource]:
    """The source behind a model or a server.

    Raises:
        SourceLost: nothing answers there.
    """
    if at.kind == "here":
        own = Calling(None, call.timeout_s)
        async with _loaded(at.address, load) as (address, known), _client(address, own) as client:
            yield await GrpcSource.connect(client, "loaded here", how, known)
    else:
        address, _, model = at.address.partition("/")
        async with _client(address, call) as client:
            with Waiting(address) as told:
                source = await GrpcSource.connect(
                    client, address, replace(how, model=model), None, wait_s=call.wait_s, told=told
                )
            yield source


@asynccontextmanager
async def opened(at: Where, how: Asking, load: Loading, call: Calling) -> AsyncIterator[Source]:
    """Any source.

    Raises:
        SourceLost: nothing answers there.
    """
    if at.kind != "url":
        async with served(at, how, load, call) as source:
            yield source
        return
    import httpx

    from dicast_server.evaluation.http_source import HttpSource

    headers = {"authorization": f"Bearer {call.api_key}"} if call.api_key else {}
    async with httpx.AsyncClient(timeout=call.timeout_s, headers=headers) as client:
        yield HttpSource.to(client, at.address, call.model)


def _client(address: str, call: Calling) -> AsyncClient:
    try:
        return AsyncClient(address, api_key=call.api_key, timeout_s=call.timeout_s)
    except ValueError as error:
        raise CommandError(str(error), 2) from None


@asynccontextmanager
async def _loaded(model: str, load: Loading) -> AsyncIterator[tuple[str, Any]]:
    library = blas.ensure()
    if library.warning:
        print(library.warning, file=sys.stderr)
    # Only now: it imports MLX, which takes its matrix products from what is loaded by then.
    from dicast_server.evaluation.local import served_here
    from dicast_server.service.loading import load_served
    from dicast_server.service.registry import PluginError, Registry

    try:
        registry = Registry.installed()
    except PluginError as error:
        raise SourceLost(str(error)) from error
    cache: Path = caches.location()
    async with served_here(
        lambda: load_served(model, cache, profile=load.profile, registry=registry, threads=load.threads),
        registry,
        model,
        load.least_option_mass,
        default_adapter(model, plain=load.plain),
    ) as found:
        yield found
