"""Behind which beginning of the reply a model is tuned: the first after which it names options at all."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.engine.cpu_layers import Array
from dicast_server.engine.learning.learner import Learner
from dicast_server.profiling.comparison import LEAST_OPTION_MASS
from dicast_server.service.loading import Served
from dicast_server.service.registry import Registry
from dicast_server.tuning.lessons import Classroom

_SAMPLE = 16


def opened(
    served: Served,
    registry: Registry,
    learner: Learner,
    start: Mapping[str, Array],
    questions: Sequence[LabelledQuestion],
) -> Served:
    """The model with its reply begun as a server would begin it, or as the template has it.

    A server takes the first beginning that leaves the options enough probability on its own questions; here
    it is asked the first of those that are to be learned. Where none leaves enough it is the template's,
    since that is what tuning changes.

    Raises:
        CannotBeRead: the readout reads no single label.
    """
    for candidate in itertools.chain([served], served.openings()):
        lessons = Classroom(candidate.planner(registry)).lessons(questions[:_SAMPLE]).lessons
        masses = [read.mass for read in learner.read(lessons, start)]
        if masses and float(np.mean(masses)) >= LEAST_OPTION_MASS:
            return candidate
    return served
