"""The labelled questions that come with dicast, written and reviewed for it."""

from __future__ import annotations

from importlib import resources

from dicast_server.calibration.dataset import Dataset, read_dataset


def read() -> Dataset:
    """The questions of all domains: three types, two to twelve options, no label or place favoured."""
    with resources.as_file(resources.files("dicast_server.calibration") / "questions.jsonl") as path:
        return read_dataset(path)
