"""The schedule half: who is contacted, when, from which version, after how many steps."""

from favano.schedule.plan import plan
from favano.schedule.policies import (
    Arrival,
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
from favano.schedule.schedule import Schedule, check_schedule, load_schedule, save_schedule

__all__ = [
    "Arrival",
    "Barrier",
    "HandOut",
    "Interruption",
    "Latency",
    "Policy",
    "Poll",
    "RoundTime",
    "Schedule",
    "StepCount",
    "Window",
    "check_schedule",
    "load_schedule",
    "plan",
    "save_schedule",
]
