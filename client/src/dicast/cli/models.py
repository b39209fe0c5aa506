"""`dicast models`: shows the served models, their limits and the machinery below them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from dicast import Adapter, Calibration, DicastError, Engine, Model, Store
from dicast.cli.command import CommandError, Parser, add_server_flags, connect, describe
from dicast.cli.table import WIDTH, Style, field_lines, fit, style_for


def main(argv: list[str]) -> int:
    """Run `dicast models ARGV`."""
    parser = Parser("models", "Show the served models, the default one first.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_server_flags(parser)
    arguments = parser.parse_args(argv)
    with connect(arguments) as client:
        try:
            models = client.models()
        except DicastError as error:
            raise CommandError(describe(error, arguments.server)) from error
    if arguments.json:
        print(json.dumps([as_json(model) for model in models], ensure_ascii=False, indent=2))
    else:
        style = style_for(sys.stdout)
        print("\n\n".join("\n".join(model_lines(model, style)) for model in models))
    return 0


def as_json(model: Model) -> dict[str, Any]:
    """A model for programs."""
    body = asdict(model)
    body["loaded_at"] = model.loaded_at.isoformat() if model.loaded_at else None
    fitted_at = model.calibration.fitted_at
    body["calibration"]["fitted_at"] = fitted_at.isoformat() if fitted_at else None
    if model.adapter is not None:
        made_at = model.adapter.made_at
        body["adapter"]["made_at"] = made_at.isoformat() if made_at else None
    return body


def engine_line(engine: Engine) -> str:
    """What computes, in a few words: `cpu, OpenBLAS 0.3.30, 2 threads, MLX 0.32.4`."""
    parts = [engine.device or "unknown device"]
    if engine.blas:
        parts.append(engine.blas)
    if engine.blas_threads:
        parts.append(f"{engine.blas_threads} thread{'s' if engine.blas_threads > 1 else ''}")
    if engine.mlx_version:
        parts.append(f"MLX {engine.mlx_version}")
    return ", ".join(parts)


def calibration_line(calibration: Calibration) -> str:
    """What turns scores into probabilities, in a few words; a fit that only flattens says so."""
    applied = f"temperature {calibration.temperature:g} ({calibration.source})"
    if not calibration.scheme:
        return applied
    if calibration.source == "server":
        return f"{applied}; the calibration {calibration.digest} is not applied"
    told = ", ".join(
        f"{each.question_type} {_VERDICTS.get(each.verdict, each.verdict) or 'not fitted'}"
        + (f" (T {each.temperature:.3g})" if calibration.source == "fitted" else "")
        for each in calibration.types
    )
    return f"{told}; {calibration.digest}" if calibration.source == "fitted" else f"{applied}; {told}"


_VERDICTS = {"no_signal": "NO SIGNAL"}


def adapter_line(adapter: Adapter) -> str:
    """What stands beside the base's weights, in a few words."""
    if not adapter.hash:
        return "not read"
    style = f" ({adapter.style})" if adapter.readout == "letters" else ""
    verdict = f", {adapter.verdict}" if adapter.verdict else ""
    return (
        f"{adapter.hash[:12]}, rank {adapter.rank} in {adapter.modules} linear layers, tuned for "
        f"{adapter.readout}{style}{verdict}"
    )


def model_lines(model: Model, style: Style) -> list[str]:
    """A model for people: a heading and a line for each of its traits."""
    limits, profile, check = model.limits, model.profile, model.self_check
    about = [model.family, f"{model.parameters / 1e6:.1f} million parameters" if model.parameters else ""]
    asked = f"{check.right} of {check.asked} right, option mass {check.option_mass:.3f}" if check else ""
    return [
        fit(f"{model.id}  {model.status}", WIDTH, style),
        *field_lines(
            [
                ("note", model.status_message),
                ("about", model.description),
                ("aliases", ", ".join(model.aliases)),
                ("adapter", adapter_line(model.adapter) if model.adapter is not None else ""),
                ("weights", ", ".join(part for part in (*about, model.quantization) if part)),
                ("questions", ", ".join(model.question_types)),
                ("readouts", ", ".join(model.readouts)),
                (
                    "profile",
                    f"{profile.name}, prompt version {profile.prompt_version}" if profile.name else "",
                ),
                ("calibration", calibration_line(model.calibration)),
                ("engine", engine_line(model.engine)),
                ("self-check", asked),
                (
                    "limits",
                    f"{limits.context_tokens} tokens, {limits.questions} questions, "
                    f"{limits.options} options, {limits.levels} levels, {limits.orders} orders",
                ),
                ("", f"{limits.message_bytes} bytes, {limits.queued_requests} requests waiting"),
                ("kept states", _store_line(model.store)),
                ("loaded", model.loaded_at.isoformat(" ", "seconds") if model.loaded_at else ""),
            ],
            style,
        ),
    ]


def _store_line(store: Store) -> str:
    if not store.budget_bytes:
        return "none"
    used, budget = store.used_bytes / 2**20, store.budget_bytes / 2**20
    looked_up = store.hits + store.misses
    return (
        f"{used:.0f} of {budget:.0f} MiB, {store.hits} of {looked_up} chunks found, {store.evictions} evicted"
    )
