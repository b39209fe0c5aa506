"""Cases that several files of tests look at."""

import pytest

from training import domains
from training.case import Case
from training.generate import cases


@pytest.fixture(scope="session")
def made() -> list[Case]:
    """Five thousand cases of all domains."""
    return list(cases(11, 5000, domains.names()))
