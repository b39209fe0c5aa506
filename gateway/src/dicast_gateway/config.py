"""The settings of the gateway: flags over environment over defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_TIMEOUT_S = 60.0
"""The deadline of a call whose client named none."""
MAX_TIMEOUT_S = 600.0
"""The longest deadline that the gateway passes on."""


class Settings(BaseSettings):
    """The JSON gateway in front of a dicast server: TypeSafe's /v1/systemone and OpenAI's /v1/decisions."""

    model_config = SettingsConfigDict(
        env_prefix="DICAST_",
        cli_kebab_case=True,
        cli_exit_on_error=False,
        cli_prog_name="dicast gateway",
    )

    http_host: str = Field(default="127.0.0.1", description="interface to listen on")
    http_port: int = Field(default=8080, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    server: str = Field(default="127.0.0.1:50051", min_length=1, description="address of the dicast server")
    max_body_bytes: int = Field(
        default=4 * 1024 * 1024 - 64 * 1024,
        ge=1,
        description="largest request body; the server takes messages of 4 MiB",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="what the log on stderr tells"
    )
