"""Settings of the engine: flags over environment over defaults, read once and passed down."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, CliPositionalArg, CliToggleFlag, SettingsConfigDict

from dicast_server.calibration.table import MAX_TEMPERATURE, MIN_TEMPERATURE
from dicast_server.profiling.comparison import LEAST_OPTION_MASS

DEFAULT_MODEL = "smollm2-135m-instruct"


class ModelSettings(BaseSettings):
    """Which model, and what decides its bits."""

    model_config = SettingsConfigDict(
        env_prefix="DICAST_",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        protected_namespaces=(),
        extra="ignore",
    )

    model: str = Field(DEFAULT_MODEL, description="model: a name, a folder or a .gguf file")
    threads: int | None = Field(None, ge=1, le=1024, description="threads on a CPU; default: one a core")
    forward_tokens: int = Field(320, ge=8, le=4096, description="most tokens in one forward")


class ProfileSettings(ModelSettings):
    """Measure a model: how well each way of reading answers known questions, or what its forwards cost."""

    model_config = SettingsConfigDict(cli_prog_name="dicast profile")

    model: CliPositionalArg[str] = Field(DEFAULT_MODEL, description="a name, a folder or a .gguf file")
    write: Path | None = Field(
        None, description="file to write a profile to, for `dicast serve --profile FILE`"
    )
    costs: Path | None = Field(
        None,
        description="measure what forwards of each size cost on this machine instead, and write the table to "
        "this file, for `dicast serve --costs FILE`; with --write both",
    )


class Settings(ModelSettings):
    """Serve a model over gRPC."""

    model_config = SettingsConfigDict(cli_prog_name="dicast serve")

    profile: str | None = Field(
        None,
        description="stock, openjev or a file of `dicast profile --write`; default: the one that comes with "
        "dicast for the model, else stock",
    )
    temperature: float | None = Field(
        None,
        ge=MIN_TEMPERATURE,
        le=MAX_TEMPERATURE,
        description="temperature of all questions whose request names none; nothing fitted is applied then",
    )
    calibration: str | None = Field(
        None,
        description="file of `dicast calibrate`, or none; default: the latest saved one that was made for "
        "the model, its template, the profile and its readout",
    )
    calibrate: Path | None = Field(
        None,
        description="file of labelled questions (JSONL or CSV) to fit a calibration on before serving; "
        "the fit is saved, and the next start with the same file finds it",
    )
    alias: list[str] = Field(
        [],
        description="a further name of the model, beside jev-latest and jev-preview, or NAME=ADAPTER for the "
        "model with an adapter; may be repeated",
    )
    adapters: Path | None = Field(
        None,
        description="folder whose subfolders are adapters of the model, each served as MODEL:SUBFOLDER; "
        "default: adapters/MODEL in dicast's data folder",
    )
    no_adapter: CliToggleFlag[bool] = Field(
        False,
        description="serve the embedded model plain, without the adapter that comes with dicast; so does "
        "--profile, which says how the plain model is read",
    )
    no_adapters: CliToggleFlag[bool] = Field(False, description="serve no adapters of a folder")
    adapters_every: float = Field(
        5.0, gt=0, description="seconds until the folder of adapters is looked at again"
    )
    grpc_host: str = Field("127.0.0.1", description="address to listen on")
    grpc_port: int = Field(50051, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    costs: Path | None = Field(
        None, description="file of `dicast profile`, to plan forwards by; default: the table of the device"
    )
    store_mib: int | None = Field(
        None, ge=0, description="budget of kept states in MiB; default: an eighth of the memory; 0 keeps none"
    )
    work_mib: int | None = Field(
        None, ge=1, description="memory for states being read in MiB; default: an eighth of the memory"
    )
    copy_mib: int = Field(
        512,
        ge=0,
        description="most MiB of a state's copies for the rows of a forward; a row alone always runs",
    )
    api_keys: Path | None = Field(
        None,
        description="file of `dicast key` lines; callers need one of its keys; default: nobody needs one",
    )
    in_flight: int = Field(64, ge=1, le=100_000, description="requests that may wait or run at once")
    default_deadline: float = Field(60.0, gt=0, description="seconds for a call without a deadline")
    max_deadline: float = Field(600.0, gt=0, description="most seconds that a call may take")
    drain: float = Field(30.0, ge=0, description="seconds for calls in flight at the end")
    min_option_mass: float = Field(
        LEAST_OPTION_MASS,
        ge=0,
        le=1,
        description="least share of probability on the options for a model to be served; 0 serves any",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="log level")

    def store_bytes(self) -> int:
        """The budget of kept states in bytes."""
        return _bytes(self.store_mib)

    def work_bytes(self) -> int:
        """The memory for states that are being read, in bytes."""
        return _bytes(self.work_mib)


def _bytes(mib: int | None) -> int:
    """By default an eighth of the machine's memory."""
    if mib is not None:
        return mib * 1024 * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8
