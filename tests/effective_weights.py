"""The weight of each client, by the audit."""

from __future__ import annotations

import numpy as np

from favano.engine import weigh
from favano.engine.audit import PLAIN, LocalSteps
from favano.methods import AnyMethod
from favano.schedule import Schedule
from favano.types import Floats


def effective_weights(method: AnyMethod, schedule: Schedule, local: LocalSteps = PLAIN) -> Floats:
    """The effective weight of each client in the final model, (n,); 1/n is fair."""
    return weigh(method, schedule, np.arange(schedule.clients), local).final
