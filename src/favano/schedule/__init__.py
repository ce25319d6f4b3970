"""The schedule half: who is contacted, when, from which version, after how many steps."""

from favano.schedule.adaptive import Unrolling
from favano.schedule.course import Course, Foreseen
from favano.schedule.plan import course, plan
from favano.schedule.policies import (
    Adaptive,
    Arrival,
    AtDeadline,
    Barrier,
    HandOut,
    Interruption,
    Latency,
    Policy,
    Poll,
    RoundTime,
    StepCount,
    Window,
)
from favano.schedule.progress import UnderWay, check_progress_is_known, under_way
from favano.schedule.schedule import Schedule, check_schedule, load_schedule, save_schedule

__all__ = [
    "Adaptive",
    "Arrival",
    "AtDeadline",
    "Barrier",
    "Course",
    "Foreseen",
    "HandOut",
    "Interruption",
    "Latency",
    "Policy",
    "Poll",
    "RoundTime",
    "Schedule",
    "StepCount",
    "UnderWay",
    "Unrolling",
    "Window",
    "check_progress_is_known",
    "check_schedule",
    "course",
    "load_schedule",
    "plan",
    "save_schedule",
    "under_way",
]
