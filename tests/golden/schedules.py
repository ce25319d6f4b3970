"""Schedules: who worked when, from which version, for how many steps, and what was used when.

Each case is a way of asking clients in some surroundings, as `favano.plan` takes both. Jobs are
recorded in three parts: those that server steps by the horizon use, those that later server steps
use, and those that none uses, in the order of their begin. So a release may end runs otherwise and
leave the rest as it is. Whole numbers are the same everywhere; where clients meet nothing but their
own speed, times are the same to the last bit on the machine of the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

import favano
from tests.golden.comparison import Value
from tests.golden.front_door import folder
from tests.golden.records import BYTES, Values, digest

TOLERANCE: Final = 1e-9
Keys: TypeAlias = dict[str, Any]  # of favano.plan

Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]

# Columns of an archive that do not belong to jobs, and those that are times; keys of conditions.
_OF_STEPS, _OF_RUN = ("time", "wasted_steps"), ("clients", "local_steps")
_TIMES = ("time", "begin", "finish")
_MET = ("availability", "link", "server_link", "timeout", "faults")
_CLIENTS, _HORIZON = 12, 240.0

# Ways of asking. Those with a + read the paper's clock otherwise, or draw rounds as a whole, which
# is known only where clients meet nothing but their own speed.
_S: Final[Keys] = {"selected": 3}
_K: Final[Keys] = {"local_steps": 4}
WAYS: Final[dict[str, Keys]] = {
    "favano": _S | _K,
    "favano all": {"selected": 12} | _K,
    "favano short ticks": {"waiting_time": 1.5, "interaction_time": 0.5} | _S | _K,
    "favano weighted": {"selection": "weighted:3,1"} | _S | _K,
    "favano least recent": {"selection": "least-recent"} | _S | _K,
    "favano + resume": {"interruption": "resume"} | _S | _K,
    "favano + keep": {"interruption": "keep"} | _S | _K,
    "favano + from zero": {"starts_at_zero": True} | _S | _K,
    "favano + idle": {"idle_in_interaction": True} | _S | _K,
    "favano + strict ties": {"strict_ties": True} | _S | _K,
    "favano + overrun": {"overrun": True} | _S | _K,
    "favano + literal": {"step_count": "literal"} | _S | _K,
    "favano + literal zero": {"step_count": "literal-zero"} | _S | _K,
    "favano-delta": _S | _K,
    "quafl": _S | _K,
    "quafl samples": {"selection": "samples"} | _S | _K,
    "fedavg polling": {"policy": "polling", "grace": 2.0} | _S | _K,
    "fedavg polling now": {"policy": "polling", "asked": "now", "grace": 3.5} | _S | _K,
    "fedavg": _S | _K,
    "fedavg all": {"selected": 12} | _K,
    "fedavg least recent": {"selection": "least-recent"} | _S | _K,
    "fedavg first 3 of 5": {"policy": "rounds", "selected": 5, "wait_for": 3} | _K,
    "fedavg drop": {"deadline": 20.0} | _S | _K,
    "fedavg take": {"deadline": 20.0, "at_deadline": "take"} | _S | _K,
    "fedavg + one draw": {"round_time": "one-draw"} | _S | _K,
    "fedavg + mean": {"round_time": "mean"} | _S | _K,
    "fedavg + drop last": {"drop_last": True} | _S | _K,
    "fedprox": _S | _K,
    "fednova take": {
        "deadline": 15.0, "at_deadline": "take", "selection": "weighted:1,2",
    } | _S | _K,
    "scaffold": _S | _K,
    "fedbuff": {"buffer": 3, "concurrency": 6} | _K,
    "fedbuff distinct": {"buffer": 3, "concurrency": 6, "distinct": True} | _K,
    "fedbuff not stale": {"buffer": 2, "concurrency": 9, "max_staleness": 1} | _K,
    "fedbuff flush": {"buffer": 7, "flush_at_end": True} | _S | _K,
    "fedbuff block": {"buffer_mode": "block", "buffer": 3} | _K,
    "fedbuff code": {"buffer_mode": "code", "buffer": 3} | _K,
    "fedbuff reset": {"buffer_mode": "reset", "buffer": 3} | _K,
    "fedbuff check-ins": {"buffer_mode": "check-ins", "check_in_rate": 0.5, "buffer": 3} | _K,
    "fedbuff random check-ins": {
        "buffer_mode": "check-ins", "check_in_rate": 0.5, "check_ins": "poisson", "buffer": 3,
        "concurrency": 6,
    } | _K,
    "fedbuff samples": {"buffer": 3, "concurrency": 4, "selection": "samples"} | _K,
    "fedavg any client": {"policy": "buffered", "hand_out": "uniform", "buffer": 3} | _K,
    "asyncsgd": {"concurrency": 6},
    "asyncsgd same": {"assignment": "same", "latency": "server"},
    "asyncsgd-adaptive": {"gradients_per_job": 3, "concurrency": 5, "latency": "none"},
    "fedasync": {"concurrency": 4} | _K,
    "fedasync at server": {"latency": "server"} | _K,
    "asofed": {"concurrency": 5} | _K,
    "aafl": {"arrival_fraction": 0.3} | _K,
    "fedfix": _K,
    "fedfix long windows": {"window": 17.5} | _K,
    "fedavg windows": {"policy": "windowed", "period": 5.0} | _K,
}  # fmt: skip

_TRACE: Final = "client,duration\n" + "".join(
    f"{client},{duration}\n"
    for client in range(_CLIENTS)
    for duration in (1 + client, 2.5, 4 + client % 3)
)
_PRESENCE: Final = "client,second,available\n" + "".join(
    f"{client},{second + 3 * client},{there}\n"
    for client in range(_CLIENTS)
    for second, there in ((0, 1), (40, 0), (55, 1), (90, 0), (130, 1))
)


def _script(*faults: tuple[str, str, str]) -> str:
    return "".join(f'[[fault]]\nwho = "{a}"\nwhen = "{b}"\nwhat = "{c}"\n' for a, b, c in faults)


FILES: Final = {
    "steps.csv": _TRACE,
    "presence.csv": _PRESENCE,
    "leave.toml": _script(("25 % of nodes", "30 s", "leave"), ("nodes 0-3", "40 s", "start")),
    "late-start.toml": _script(("nodes 0-3", "50 s", "start"), ("node 9", "round 4", "leave")),
    "crash.toml": _script(("nodes 0-5", "20 s", "crash"), ("50 % of nodes", "35 s", "crash")),
    "slow.toml": _script(("nodes 0-5", "round 2", "slow 3"), ("node 1", "60 s", "slow 0.5")),
    "lose.toml": _script(("nodes 0-3", "10 s", "lose"), ("nodes 4-7", "20 s", "late 5")),
    "poison.toml": _script(("50 % of nodes", "25 s", "poison -1")),
    "hang.toml": _script(("nodes 0-5", "20 s", "hang"), ("nodes 0-4", "45 s", "continue")),
    "duplicate.toml": _script(("nodes 0-7", "20 s", "duplicate")),
}

# Clients that meet nothing but their own speed: laws, speeds, jobs, sizes, and horizons before the
# first server step, at a tick, and late.
_PLAIN: Final[dict[str, Keys]] = {
    "exponential": {"step_law": "exponential"},
    "deterministic": {"step_law": "deterministic"},
    "lognormal": {"step_law": "lognormal:0.5"},
    "trace": {"step_law": "trace:steps.csv"},
    "means": {"mean": [1.0, 1.5, 2.0, 2.0, 2.0, 3.0, 3.5, 5.0, 8.0, 8.0, 13.0, 21.0]},
    "slow first": {
        "fast_fraction": 0.4,
        "speed_rounding": "ceil-slow",
        "speed_order": "slow-first",
    },
    "alike": {"fast_fraction": 1.0, "step_law": "deterministic"},
    "two groups": {"group": [{"share": 0.5, "mean": 3.0}, {"share": 0.5, "mean": 7.0}]},
    "phones": {"fleet": "phones", "horizon": 30.0},
    "steps of each": {"local_steps": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2]},
    "one step": {"local_steps": 1},
    "an epoch": {"local_epochs": 1, "batch_size": 32},
    "100 clients": {"clients": 100, "horizon": 100.0},
    "nothing yet": {"horizon": 2.0},
    "ends at a tick": {"horizon": 70.0},
    "long": {"horizon": 1000.0},
}

# Clients that go away, whose messages take time, or that meet faults.
_TWO_STATE: Final[Keys] = {"availability": "two-state:60:20"}
_CONDITIONS: Final[dict[str, Keys]] = {
    "lost": _TWO_STATE,
    "paused": {"when_away": "paused"} | _TWO_STATE,
    "later": {"when_away": "later"} | _TWO_STATE,
    "flighty": {"availability": "two-state:8:4"},
    "flighty paused": {"availability": "two-state:8:4", "when_away": "paused"},
    "flighty later": {"availability": "two-state:8:4", "when_away": "later"},
    "daily": {"availability": "daily:0.5:3:80"},
    "daily paused": {"availability": "daily:0.5:3:80", "when_away": "paused"},
    "recorded": {"availability": "trace:presence.csv"},
    "recorded later": {"availability": "trace:presence.csv:150", "when_away": "later"},
    "links": {"link": "0.5:1:0.25"},
    "server link": {"server_link": "1:2"},
    "both links": {"link": "2:4", "server_link": "1:1", "interaction_time": 1.0},
    "timeout": {"timeout": 30.0},
    "leave": {"faults": "leave.toml"},
    "late start": {"faults": "late-start.toml", "when_away": "paused"},
    "crash": {"faults": "crash.toml"},
    "slow": {"faults": "slow.toml"},
    "lose": {"faults": "lose.toml", "timeout": 40.0},
    "poison": {"faults": "poison.toml"},
    "hang": {"faults": "hang.toml", "timeout": 60.0},
    "duplicate": {"faults": "duplicate.toml"},
    "paused, links": {"when_away": "paused", "link": "1:2:0.1"} | _TWO_STATE,
    "later, server link": {"when_away": "later", "server_link": "1:2"} | _TWO_STATE,
    "lost, timeout": {"timeout": 25.0} | _TWO_STATE,
    "all of it": {
        "when_away": "paused", "link": "1:2:0.1", "server_link": "2:2", "timeout": 60.0,
        "faults": "leave.toml",
    } | _TWO_STATE,
    "groups": {"group": [
        {"share": 0.5, "mean": 3.0, "availability": "two-state:60:20"},
        {"share": 0.5, "mean": 7.0, "link": "1:2:0.1"},
    ]},
}  # fmt: skip
_EACH_NTH: Final = 6  # of the surroundings of a way of asking
_LAWS: Final = ("exponential", "deterministic", "lognormal", "trace", "alike")
_REFUSED: Final = {
    ("favano weighted", "trace"),  # without classes of speed
    ("fednova take", "phones"),
    *((f"favano + {literal}", law) for literal in ("literal", "literal zero") for law in _LAWS),
    ("fedavg windows", "both links"),  # no interaction time
}
_NO_EXACT_LAW: Final[dict[str, Keys]] = {  # what methods ask for where there is none
    "favano": {"weights": "empirical"},
    "favano-delta": {"weights": "empirical"},
    "fedfix": {"window_weights": "identical"},
}


def _cases() -> Iterator[tuple[str, Keys]]:
    for number, (way, keys) in enumerate(WAYS.items()):
        method = way.partition(" ")[0]
        base = {"method": method, "clients": _CLIENTS, "horizon": _HORIZON, "seed": number}
        base |= _NO_EXACT_LAW.get(method, {}) | keys
        yield way, base
        for place, (where, more) in enumerate({**_PLAIN, **_CONDITIONS}.items()):
            known = "local_steps" in keys or not more.keys() & {"local_steps", "local_epochs"}
            known &= (where in _PLAIN or "+" not in way) and (way, where) not in _REFUSED
            if (number + place) % _EACH_NTH == 0 and known:
                case = base | more
                if "local_epochs" in more:
                    del case["local_steps"]
                yield f"{way}, {where}", case


CASES: Final[dict[str, Keys]] = dict(_cases())
# Each way of asking, and each kind of surroundings, once.
QUICK: Final = {*WAYS, *{name.partition(", ")[2]: name for name in CASES}.values()}


def record(case: Keys) -> Values:
    """Its schedule in parts, and what absence and faults did."""
    with folder(FILES) as here:
        plan = favano.plan(**case)
        with np.load(plan.save(here)) as file:
            columns = dict(file)
    updates, used_by = len(columns["time"]), columns["used_by"]
    by_horizon = int(np.searchsorted(columns["time"], case["horizon"], side="right"))
    unused = np.flatnonzero(used_by == updates)
    order = np.lexsort([columns[name][unused] for name in ("first_step", "client", "begin")])
    steps = {name: columns[name] for name in _OF_STEPS}
    jobs = {name: columns[name] for name in columns if name not in (*_OF_STEPS, *_OF_RUN)}
    parts = {
        "server steps": _rows(steps, np.arange(by_horizon)),
        "used jobs": _rows(jobs, np.flatnonzero(used_by < by_horizon)),
        "server steps after the horizon": _rows(steps, np.arange(by_horizon, updates)),
        "jobs used after the horizon": _rows(
            jobs, np.flatnonzero((used_by >= by_horizon) & (used_by < updates))
        ),
        "unused jobs": _rows(jobs, unused[order]),
    }
    conditions = [
        key for key in _MET if any(key in part for part in (case, *case.get("group", ())))
    ]
    made: Values = {
        "conditions": ", ".join(conditions) or "none",
        "absence": None if plan.absence is None else asdict(plan.absence),
        "ends after the horizon": updates > by_horizon,
        **{part: summary for part, rows in parts.items() if (summary := _summary(rows))},
    }
    if not conditions:
        times = {part: [rows[key] for key in _TIMES if key in rows] for part, rows in parts.items()}
        content = {part: np.concatenate(each).tobytes() for part, each in times.items()}
        made[BYTES] = {part: digest(each) for part, each in content.items() if each}
    return made


def _rows(columns: Columns, rows: npt.NDArray[np.int64]) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def _summary(columns: Columns) -> Values:
    """How many rows there are, if any, and numbers that tell whether they are the same."""
    count = len(next(iter(columns.values())))
    sums = {name: _sums(values) for name, values in columns.items()}
    return {"count": count, **sums} if count else {}


def _sums(values: npt.NDArray[Any]) -> list[Value]:
    """Of whole numbers the sum and a check sum; of others two sums, and how many are infinite."""
    if values.dtype.kind == "i":
        return [int(values.sum()), crc32(values.astype("<i8").tobytes())]
    finite = np.where(np.isfinite(values), values, 0.0)
    weights = 1 + np.cos(np.arange(len(values))) / 2  # positive, as times are
    return [float(finite.sum()), float(weights @ finite), int(np.isinf(values).sum())]
