"""Local training: modules as flat vectors, the local rule, and the trainers."""

from favano.training.flat import FlatModel, Layout
from favano.training.lanes import Done, Job, Lanes, finite_rows
from favano.training.loop import LoopTrainer, SerialLanes
from favano.training.rule import LocalRule
from favano.training.stacked import StackedLanes, stacked_lanes
from favano.training.task import Loss, Task, check_fit
from favano.training.traced import NOTHING_TRACED, Traced, TracedGradient, prepare
from favano.training.work import Trainer, Work
from favano.training.workers import WorkerLanes, one_thread, usable_cores

__all__ = [
    "NOTHING_TRACED",
    "Done",
    "FlatModel",
    "Job",
    "Lanes",
    "Layout",
    "LocalRule",
    "LoopTrainer",
    "Loss",
    "SerialLanes",
    "StackedLanes",
    "Task",
    "Traced",
    "TracedGradient",
    "Trainer",
    "Work",
    "WorkerLanes",
    "check_fit",
    "finite_rows",
    "one_thread",
    "prepare",
    "stacked_lanes",
    "usable_cores",
]
