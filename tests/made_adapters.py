"""Descriptions of adapters, without arrays."""

import datetime as dt
from typing import Any

from dicast_server.adapters.document import Base, Description, Training, TunedFor

MODULES = ("model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj")


def base(**fields: Any) -> Base:
    """A base that no model has, unless told."""
    known: dict[str, Any] = {
        "model": "tiny",
        "weights_hash": "0" * 64,
        "quantization": "float32",
        "template_hash": "1" * 64,
        "layers": 2,
    }
    return Base(**{**known, **fields})


def description(**fields: Any) -> Description:
    """An adapter of the upper layer."""
    known: dict[str, Any] = {
        "name": "support",
        "base": base(),
        "rank": 4,
        "scale": 2.0,
        "modules": MODULES,
        "tuned_for": TunedFor(readout="letters", prompt_version="letters-plain-v1"),
        "data_sha256": "2" * 64,
        "made": dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC),
        "dicast_version": "0.1.0",
        "training": Training(
            rows=500,
            groups=120,
            epochs=3,
            steps=90,
            seed=0,
            learning_rate=1e-3,
            seconds=812.5,
            loss_before=1.4,
            loss_after=0.6,
            accuracy_before=0.3,
            accuracy_after=0.8,
            verdict="better",
            more={"domain": "parcels"},
        ),
    }
    return Description(**{**known, **fields})
