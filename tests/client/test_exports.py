"""The public surface is `dicast.__all__`, and nothing else is visible."""

import subprocess
import sys
from types import ModuleType

import dicast
import dicast._errors


def test_all_is_what_is_visible() -> None:
    visible = [
        name
        for name, value in vars(dicast).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    ]
    assert sorted(visible) == sorted(dicast.__all__)


def test_classes_show_the_name_that_they_are_imported_by() -> None:
    for name in dicast.__all__:
        value = getattr(dicast, name)
        if isinstance(value, type):
            assert value.__module__ == "dicast"
            assert value.__doc__, name


def test_every_error_is_public_and_drawn_in_the_tree() -> None:
    drawing = dicast._errors.__doc__ or ""
    errors = [value for value in vars(dicast._errors).values() if isinstance(value, type)]
    for error in errors:
        if issubclass(error, Exception) and error.__module__ == "dicast":
            assert error.__name__ in dicast.__all__
            assert error.__name__ in drawing


def test_importing_it_configures_no_logging_and_loads_no_model() -> None:
    code = (
        "import logging, sys, dicast; print(logging.root.handlers, logging.getLogger('dicast').handlers,"
        " sorted({'mlx', 'numpy', 'pydantic', 'fastapi'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "[]", "[]"]
