"""Specifications, and what becomes of them."""

from favano.experiments.audit import AuditRecord, audit
from favano.experiments.build import make_algorithm, make_fleet, make_schedule
from favano.experiments.comparison import comparison
from favano.experiments.parsing import make_spec
from favano.experiments.participation import describe, speed_names
from favano.experiments.planning import Planned, check_plan, plan_seeds
from favano.experiments.presets import PRESETS, Preset, resolve
from favano.experiments.progress import Progress, Silence
from favano.experiments.records import RunRecord
from favano.experiments.result import Result
from favano.experiments.results import WriteFailed, check_folder, read_spec, write_result
from favano.experiments.runner import run, run_together
from favano.experiments.samples import Samples, load_samples, named_model, own_samples
from favano.experiments.spec import Spec
from favano.experiments.standing import Standing, weigh_clients

__all__ = [
    "PRESETS",
    "AuditRecord",
    "Planned",
    "Preset",
    "Progress",
    "Result",
    "RunRecord",
    "Samples",
    "Silence",
    "Spec",
    "Standing",
    "WriteFailed",
    "audit",
    "check_folder",
    "check_plan",
    "comparison",
    "describe",
    "load_samples",
    "make_algorithm",
    "make_fleet",
    "make_schedule",
    "make_spec",
    "named_model",
    "own_samples",
    "plan_seeds",
    "read_spec",
    "resolve",
    "run",
    "run_together",
    "speed_names",
    "weigh_clients",
    "write_result",
]
