"""Protobuf to dataclasses: the part of `_decode` for what a server says about its models."""

from __future__ import annotations

from datetime import timezone
from typing import Any, Literal, cast

from dicast import _models
from dicast.v1 import model_service_pb2 as model_pb

_UTC = timezone.utc  # noqa: UP017 - datetime.UTC is of Python 3.11


def model(message: model_pb.Model) -> _models.Model:
    """A served model."""
    profile, limits, engine = message.profile, message.limits, message.engine
    status = enum_name(model_pb.Model.Status, message.status, "STATUS_")
    return _models.Model(
        id=message.id,
        aliases=tuple(message.aliases),
        family=message.family,
        description=message.description,
        status=cast(Literal["starting", "ready", "refused", "unspecified"], status),
        status_message=message.status_message,
        loaded_at=message.loaded_at.ToDatetime(_UTC) if message.HasField("loaded_at") else None,
        question_types=tuple(message.question_types),
        readouts=tuple(message.readouts),
        profile=_models.Profile(
            name=profile.name,
            prompt_version=profile.prompt_version,
            template_hash=profile.template_hash,
            forward_tokens=profile.forward_tokens,
        ),
        limits=_models.Limits(
            context_tokens=limits.context_tokens,
            questions=limits.questions,
            options=limits.options,
            levels=limits.levels,
            orders=limits.orders,
            passes=limits.passes,
            whole_tokens=limits.whole_tokens,
            message_bytes=limits.message_bytes,
            json_depth=limits.json_depth,
            queued_requests=limits.queued_requests,
        ),
        calibration=_calibration(message.calibration),
        engine=_models.Engine(
            device=engine.device,
            blas=engine.blas,
            blas_threads=engine.blas_threads,
            mlx_version=engine.mlx_version,
            head_path=engine.head_path,
            shared_tails=engine.shared_tails,
            costs_hash=engine.costs_hash,
        ),
        parameters=message.parameters,
        quantization=message.quantization,
        self_check=_self_check(message.self_check) if message.HasField("self_check") else None,
        store=_models.Store(
            budget_bytes=message.store.budget_bytes,
            used_bytes=message.store.used_bytes,
            hits=message.store.hits,
            misses=message.store.misses,
            evictions=message.store.evictions,
        ),
        adapter=_adapter(message.adapter) if message.HasField("adapter") else None,
    )


def _calibration(message: model_pb.Calibration) -> _models.Calibration:
    return _models.Calibration(
        temperature=message.temperature,
        source=message.source,
        scheme=message.scheme,
        types=tuple(
            _models.TypeCalibration(
                question_type=each.question_type,
                verdict=each.verdict,
                rows=each.rows,
                temperature=each.temperature,
                offset=each.offset,
                bands=tuple(
                    _models.BandTemperature(
                        min_options=band.min_options,
                        max_options=band.max_options,
                        temperature=band.temperature,
                    )
                    for band in each.bands
                ),
                max_errors=tuple(each.max_errors),
            )
            for each in message.types
        ),
        digest=message.digest,
        fitted_at=message.fitted_at.ToDatetime(_UTC) if message.HasField("fitted_at") else None,
        made_for=message.made_for,
        wanted=message.wanted,
    )


def _adapter(message: model_pb.Adapter) -> _models.Adapter:
    return _models.Adapter(
        name=message.name,
        base=message.base,
        hash=message.hash,
        rank=message.rank,
        modules=message.modules,
        readout=message.readout,
        settings=message.settings,
        style=message.style,
        verdict=message.verdict,
        made_at=message.made_at.ToDatetime(_UTC) if message.HasField("made_at") else None,
        data_hash=message.data_hash,
    )


def _self_check(message: model_pb.SelfCheck) -> _models.SelfCheck:
    return _models.SelfCheck(
        option_mass=message.option_mass,
        right=message.right,
        asked=message.asked,
        predicate_direction=message.predicate_direction,
    )


def enum_name(enum: Any, number: int, prefix: str) -> str:
    """An enum's value without its prefix, in lower case."""
    # A value that a newer server knows and this client does not is "unspecified".
    if number not in enum.values():
        return "unspecified"
    return str(enum.Name(number)).removeprefix(prefix).lower()
