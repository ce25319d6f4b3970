"""Local training: modules as flat vectors, the local rule, and the trainers."""

from favano.training.capture import wait_for_device
from favano.training.choice import chosen_kernels, processor
from favano.training.device_draws import to_device
from favano.training.flat import FlatModel, Layout
from favano.training.kernels import KernelChoice, Kernels, check_kernels, default_kernels
from favano.training.lanes import Done, Job, Lanes, finite_rows
from favano.training.launched import Launched
from favano.training.loop import LoopTrainer, SerialLanes
from favano.training.precision import Precision, numbers
from favano.training.room import LaneMaker
from favano.training.rule import LocalRule
from favano.training.stack import LaneStack
from favano.training.stacked import StackedLanes
from favano.training.task import Loss, Task, check_fit
from favano.training.traced import NOTHING_TRACED, Traced, TracedGradient, prepare
from favano.training.work import Trainer, Work
from favano.training.workers import WorkerLanes, one_thread, usable_cores

__all__ = [
    "NOTHING_TRACED",
    "Done",
    "FlatModel",
    "Job",
    "KernelChoice",
    "Kernels",
    "LaneMaker",
    "LaneStack",
    "Lanes",
    "Launched",
    "Layout",
    "LocalRule",
    "LoopTrainer",
    "Loss",
    "Precision",
    "SerialLanes",
    "StackedLanes",
    "Task",
    "Traced",
    "TracedGradient",
    "Trainer",
    "Work",
    "WorkerLanes",
    "check_fit",
    "check_kernels",
    "chosen_kernels",
    "default_kernels",
    "finite_rows",
    "numbers",
    "one_thread",
    "prepare",
    "processor",
    "to_device",
    "usable_cores",
    "wait_for_device",
]
