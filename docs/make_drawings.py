"""Draws the pictures of docs/explanation/ as SVG files in docs/images/.

python docs/make_drawings.py

Numbers are not typed here: they come from plans and from results/plan/shares.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np

import favano

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
# Each drawing brings its own ground, so that it can be read on any page.
STYLE = """
.ground{fill:#fcfcfd;stroke:#d8dce3}.ink{fill:#20252d}.soft{fill:#5b6472}
.fast{fill:#2f6fb3}.slow{fill:#d9822b}.good{fill:#2e8b6a}.box{fill:#eef2f8;stroke:#9aa6b8}
.pale{fill:#dde6f1}.line{stroke:#6b7686;fill:none}.faint{stroke:#c3cad5;fill:none}
.white{fill:#ffffff}.head{fill:#6b7686}
@media (prefers-color-scheme: dark){
.ground{fill:#1f242d;stroke:#39414e}.ink{fill:#e8ebf0}.soft{fill:#a5afbd}
.fast{fill:#6aa5e3}.slow{fill:#f0a55a}.good{fill:#58bd97}.box{fill:#2b323e;stroke:#66728a}
.pale{fill:#364252}.line{stroke:#98a4b5}.faint{stroke:#434c5a}.white{fill:#10141a}.head{fill:#98a4b5}}
text{font:15px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.small{font-size:13px}.bold{font-weight:600}
"""


def text(x: float, y: float, words: str, kind: str = "ink", anchor: str = "start") -> str:
    """One line of words."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def bar(x: float, y: float, width: float, height: float, kind: str, radius: float = 3) -> str:
    """A filled rectangle."""
    return (
        f'<rect x="{x:.5g}" y="{y:.5g}" width="{width:.5g}" height="{height:.5g}" '
        f'rx="{radius:g}" class="{kind}"/>'
    )


def line(*points: tuple[float, float], kind: str = "line", arrow: bool = False) -> str:
    """A path through points, with a head at its end if it is an arrow."""
    path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
    head = ' marker-end="url(#head)"' if arrow else ""
    return f'<path d="{path}" class="{kind}"{head}/>'


def box(x: float, y: float, width: float, title: str, lines: Sequence[str] = ()) -> str:
    """A box with a title and some lines, as high as these need."""
    parts = [bar(x, y, width, 34 + 20 * len(lines), "box", 6)]
    parts.append(text(x + width / 2, y + 23, title, "ink bold", "middle"))
    for row, words in enumerate(lines):
        parts.append(text(x + width / 2, y + 44 + 20 * row, words, "soft small", "middle"))
    return "".join(parts)


def write(name: str, height: float, description: str, parts: Sequence[str]) -> None:
    """One drawing, 760 units wide."""
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" class="head"/></marker>'
    )
    (IMAGES / f"{name}.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height:g}" role="img">'
        f"<title>{escape(description)}</title><style>{STYLE}</style><defs>{head}</defs>\n"
        + "\n".join([bar(0.5, 0.5, 759, height - 1, "ground", 10), *parts])
        + "\n</svg>\n",
        encoding="utf-8",
    )


def halves() -> None:
    """A schedule of four clients, and the models that it makes."""
    ticks, left, unit = (7, 14, 21, 28), 150, 18.5
    asked = {7: (0, 2), 14: (0, 1), 21: (2, 0), 28: (1, 3)}
    steps = ([2.0, 2.3, 1.8] * 6, [2.5, 2.0] * 8, [3.0, 3.4] * 6, [9.0, 9.5, 8.0])
    parts = [
        text(20, 32, "Schedule: who, when, from which model, how many steps", "ink bold"),
        text(740, 32, "NumPy, never a model", "soft small", "end"),
    ]
    for tick in ticks:
        parts.append(line((left + unit * tick, 46), (left + unit * tick, 232), kind="faint"))
    for client in range(4):
        y = 62 + 40 * client
        kind = "slow" if client == 3 else "fast"
        parts.append(text(20, y + 16, f"client {client + 1}, {kind}", "soft small"))
        times = iter(steps[client])
        for begin, end in _between(ticks, client, asked):
            at, made = begin, 0
            while at < end and made < 6:
                length = next(times, 9.0)
                if at + length > end:
                    break
                parts.append(bar(left + unit * at + 1, y, unit * length - 2, 22, kind))
                at, made = at + length, made + 1
            parts.append(
                f'<circle cx="{left + unit * end:g}" cy="{y + 11:g}" r="5" class="ink"/>'
                if end in ticks else ""
            )  # fmt: skip
    parts.append(text(20, 236, "server asks", "soft small"))
    parts.append(text(20, 352, "Numerics: training and aggregation", "ink bold"))
    parts.append(text(740, 352, "PyTorch, never a clock", "soft small", "end"))
    places = [left, *(left + unit * tick for tick in ticks)]
    for number, x in enumerate(places):
        if number:
            parts.append(line((places[number - 1] + 19, 298), (x - 21, 298), arrow=True))
            parts.append(line((x, 232), (x, 276), arrow=True))
        parts.append(f'<circle cx="{x:g}" cy="298" r="18" class="pale"/>')
        parts.append(text(x, 303, f"w{'₀₁₂₃₄'[number]}", "ink", "middle"))
    parts.append(text(20, 303, "server models", "soft small"))
    what = "Local steps of four clients over time, and the chain of server models that they make"
    write("halves", 372, what, parts)


def _between(
    ticks: Sequence[int], client: int, asked: dict[int, tuple[int, int]]
) -> list[tuple[float, float]]:
    """The stretches of a client between its contacts."""
    ends = [0, *(tick for tick in ticks if client in asked[tick]), 31]
    return list(pairwise(ends))


def clocks() -> None:
    """One policy between two clocks."""
    parts = [
        box(20, 40, 210, "virtual clock", ["step times, absences,", "links, faults of a fleet"]),
        box(275, 40, 210, "policy", ["one state machine:", "whom to ask, when"]),
        box(530, 40, 210, "real clock", ["nodes that answer", "over a network"]),
        line((232, 66), (271, 66), arrow=True), line((273, 90), (234, 90), arrow=True),
        line((528, 66), (489, 66), arrow=True), line((487, 90), (526, 90), arrow=True),
        text(251, 134, "join, receive  →", "soft small", "middle"),
        text(251, 153, "←  use, dispatch", "soft small", "middle"),
        text(509, 134, "←  join, receive", "soft small", "middle"),
        text(509, 153, "use, dispatch  →", "soft small", "middle"),
        line((100, 116), (100, 196), arrow=True), line((660, 116), (660, 196), arrow=True),
        box(20, 200, 210, "simulation", ["a timeline, before any", "gradient is computed"]),
        box(275, 200, 210, "method", ["aggregate(state, updates)"]),
        box(530, 200, 210, "federation", ["server steps as", "updates come in"]),
        line((232, 226), (271, 226), arrow=True), line((528, 226), (489, 226), arrow=True),
        line((600, 276), (600, 304), (130, 304), (130, 278), arrow=True),
        text(365, 298, "trace: the simulator repeats it to the bit", "soft small", "middle"),
    ]  # fmt: skip
    write(
        "clocks", 324, "The same policy and method are driven by a virtual and a real clock", parts
    )


def lanes() -> None:
    """The same jobs by rounds, and by lanes that are refilled at once."""
    rounds = ((9, 3, 4), (3, 10, 3), (4, 3, 8), (8, 4, 3))
    left, unit, parts = 40.0, 19.0, []
    parts.append(text(20, 32, "Round by round: everybody waits for the longest job", "ink bold"))
    at = 0
    for number, jobs in enumerate(rounds):
        for lane, length in enumerate(jobs):
            kind = "slow" if length > 5 else "fast"
            parts.append(bar(left + unit * at, 46 + 24 * lane, unit * length - 2, 20, kind))
        at += max(jobs)
        x = left + unit * at - 1
        parts.append(line((x, 44), (x, 116), kind="faint"))
        parts.append(text(x - 4, 132, f"round {number + 1}", "soft small", "end"))
    parts.append(text(20, 170, "Lanes: a free lane takes the next job that is ready", "ink bold"))
    free = [0.0, 0.0, 0.0]
    for jobs in rounds:
        for length in jobs:
            lane = int(np.argmin(free))
            kind = "slow" if length > 5 else "fast"
            parts.append(
                bar(left + unit * free[lane], 184 + 24 * lane, unit * length - 2, 20, kind)
            )
            free[lane] += length
    x = left + unit * max(free)
    parts.append(text(x + 8, 220, f"done {1 - max(free) / at:.0%} earlier", "soft small"))
    write("lanes", 272, "Jobs in three lanes, with barriers and without", parts)


def appointments() -> None:
    """One message out, one back."""
    parts = [text(20, 60, "server", "ink bold"), text(20, 170, "client", "ink bold")]
    parts += [line((110, 55), (740, 55)), line((110, 165), (740, 165))]
    for tick, x in (("tick 3", 170), ("tick 4", 315), ("tick 5", 460), ("tick 6", 605)):
        parts += [line((x, 47), (x, 63)), text(x, 38, tick, "soft small", "middle")]
    for begin, end in ((170, 460), (605, 740)):
        parts += [line((begin, 58), (begin + 26, 158), arrow=True)]
        steps = 6 if end == 460 else 3
        width = (end - begin - 62) / steps if end == 460 else 36
        for step in range(steps):
            parts.append(bar(begin + 32 + width * step, 154, width - 3, 22, "fast"))
    parts += [line((432, 158), (458, 62), arrow=True)]
    parts += [
        text(208, 100, "model, “until tick 5, or K steps”", "ink small"),
        text(448, 122, "update, steps made", "ink small"),
        text(638, 100, "next model", "ink small"),
        text(317, 200, "local steps; the last one ends in time", "soft small", "middle"),
    ]
    write("appointments", 222, "A call says until when to train; there is one reply", parts)


def weights() -> None:
    """Who trains the model: fast clients' weight by method, from the plans of MNIST."""
    with (ROOT / "results" / "plan" / "shares.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    left, scale = 370.0, 480.0
    fair = float(rows[0]["fair"])
    parts = [text(20, 32, "Weight of the fast clients in the final model", "ink bold")]
    for number, row in enumerate(rows):
        y = 52 + 34 * number
        weight = float(row["weight"])
        high = float(row["high"])
        kind = "good" if float(row["low"]) <= fair <= high else "slow"
        parts.append(text(left - 12, y + 16, row["method"].replace("`", ""), "ink small", "end"))
        parts.append(bar(left, y, scale * weight, 22, kind))
        parts.append(text(left + scale * high + 8, y + 16, f"{weight:.0%}", "ink small"))
        low = left + scale * float(row["low"])
        parts.append(line((low, y + 11), (left + scale * high, y + 11)))
    bottom = 52 + 34 * len(rows)
    x = left + scale * fair
    parts.append(line((x, 44), (x, bottom + 4)))
    parts.append(text(x, bottom + 22, f"fair: {fair:.0%} of all clients are fast", "soft small"))
    write("weights", bottom + 40, "Weight of fast clients, by method, with intervals", parts)


def law() -> None:
    """How many local steps a fast and a slow client have made when they are asked."""
    fleet = favano.Fleet(clients=100, fast_fraction=0.5)
    plan = favano.plan("favano", "mnist", fleet, selected=20, horizon=40_000)
    timeline, mean = plan.planned.schedule, plan.planned.fleet.mean
    used = timeline.used_by < timeline.used_by.max()
    client, steps = timeline.client[used], timeline.steps[used]
    left, width, parts = 60.0, 31.0, []
    parts.append(text(20, 32, "Local steps of a client when the server asks for them", "ink bold"))
    for kind, own, shift in (("fast", mean[client] < 9, 0), ("slow", mean[client] > 9, 13)):
        share = np.bincount(steps[own], minlength=21) / own.sum()
        for count, each in enumerate(share):
            height = 420 * each
            x = left + width * count + shift
            parts.append(bar(x, 250 - height, 12, max(height, 0.6), kind, 1))
    for count in range(0, 21, 5):
        parts.append(text(left + width * count + 12, 270, f"{count}", "soft small", "middle"))
    parts.append(
        text(720, 292, "K = 20: a client waits when it has made all its steps", "soft small", "end")
    )
    parts += [bar(560, 52, 14, 14, "fast"), text(582, 64, "a fast client", "ink small")]
    parts += [bar(560, 76, 14, 14, "slow"), text(582, 88, "8 times slower", "ink small")]
    write("law", 308, "Distribution of the local steps of fast and slow clients", parts)


def doors() -> None:
    """Who can reach what in a federation."""
    parts = [
        bar(330, 24, 410, 216, "pale", 10),
        text(535, 48, "the server's machine", "soft small", "middle"),
        box(20, 52, 150, "a node", ["its own key"]),
        box(20, 160, 150, "an outsider", ["everything public"]),
        box(350, 62, 110, "door", ["TLS, keys"]),
        box(486, 62, 110, "SuperLink", ["loopback"]),
        box(622, 62, 100, "server", ["all models"]),
        box(350, 168, 110, "closed", ["/health only"]),
        line((172, 84), (346, 84), arrow=True), text(258, 76, "replies", "soft small", "middle"),
        line((346, 102), (174, 102), arrow=True),
        text(258, 120, "calls, each signed", "soft small", "middle"),
        line((172, 190), (346, 190), arrow=True),
        text(258, 182, "anything", "soft small", "middle"),
        line((462, 90), (483, 90), arrow=True), line((598, 90), (619, 90), arrow=True),
        text(662, 146, "operator's key", "soft small", "middle"),
        text(662, 164, "every field checked", "soft small", "middle"),
        text(662, 182, "bounds, if asked for", "soft small", "middle"),
    ]  # fmt: skip
    write("doors", 262, "A node's replies pass the door; an outsider meets a closed one", parts)


def main() -> None:
    """All drawings."""
    for draw in (halves, clocks, lanes, appointments, weights, law, doors):
        draw()


if __name__ == "__main__":
    main()
