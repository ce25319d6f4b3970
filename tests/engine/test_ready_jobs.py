"""The queue of ready jobs gives what a sorted list would give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from favano.engine import ready_jobs
from favano.engine.job_table import JobTable
from favano.engine.ready_jobs import ReadyJobs


def table(due: list[float], run: list[int]) -> JobTable:
    """Jobs with nothing but a due time and a run."""
    jobs = JobTable(1 + max(run, default=0))
    jobs.due[: len(due)], jobs.run[: len(run)] = due, run
    return jobs


ACTS = st.tuples(st.sampled_from(["add", "take", "drop"]), st.integers(0, 9))


@given(
    jobs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=60),
    acts=st.lists(ACTS, max_size=40),
    at_once=st.integers(1, 5),
)
def test_it_equals_a_sorted_list(
    jobs: list[tuple[int, int]], acts: list[tuple[str, int]], at_once: int
) -> None:
    """Jobs with equal due times may change places; none is lost, none comes twice."""
    due, run = [float(when) for when, _ in jobs], [number for _, number in jobs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ready_jobs, "_SORTED", at_once)
        queue, inside, new = ReadyJobs(table(due, run)), set[int](), list(range(len(jobs)))
        for act, number in [*acts, ("take", len(jobs))]:
            if act == "add":
                queue.add(np.array(new[:number], dtype=np.int64))
                inside |= set(new[:number])
                new = new[number:]
            elif act == "drop":
                gone = [job for job in inside if run[job] == number]
                queue.drop(np.array(gone, dtype=np.int64))
                inside -= set(gone)
            else:
                first = queue.first(number).tolist()
                assert [due[job] for job in first] == sorted(due[job] for job in inside)[:number]
                assert len(set(first)) == len(first)
                assert set(first) <= inside
                queue.remove(len(first) - len(first) // 3)
                inside -= set(first[: len(first) - len(first) // 3])


def test_jobs_that_come_back_are_first_again() -> None:
    """Where lanes are given up, their jobs are ready once more."""
    due = [float(number) for number in range(1000)]
    queue = ReadyJobs(table(due, [0] * 1000))
    queue.add(np.arange(1000))
    first = queue.first(300)
    queue.remove(300)
    assert first.tolist() == list(range(300))
    queue.add(np.array([7, 299]))
    assert queue.first(4).tolist() == [7, 299, 300, 301]
