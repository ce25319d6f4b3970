"""Schedules: who is contacted, when, from which version, after how many steps. NumPy only."""

from favano.schedule.plan import expected_jobs as expected_jobs
from favano.schedule.plan import plan as plan
from favano.schedule.progress import check_progress_is_known as check_progress_is_known
from favano.schedule.progress import under_way as under_way
from favano.schedule.schedule import Schedule as Schedule
from favano.schedule.schedule import check_schedule as check_schedule
from favano.schedule.schedule import save_schedule as save_schedule
from favano.schedule.timeline import Timeline as Timeline
from favano.schedule.virtual_clock import VirtualClock as VirtualClock
