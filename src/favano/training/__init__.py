"""Local training: modules as flat vectors, the local rule, and the trainers."""

from favano.training.flat import FlatModel, Layout
from favano.training.loop import LoopTrainer
from favano.training.rule import LocalRule
from favano.training.task import Loss, Task, check_fit
from favano.training.work import Trainer, Work

__all__ = [
    "FlatModel",
    "Layout",
    "LocalRule",
    "LoopTrainer",
    "Loss",
    "Task",
    "Trainer",
    "Work",
    "check_fit",
]
