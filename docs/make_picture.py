"""Draws `docs/images/results.svg`, the picture of the README, from `results/`.

python docs/make_picture.py [--check]

On the left the curves of `figure-mnist-slow`, on the right the weights of `plan/shares.csv`. The
greys and colours are readable on white as well as on black.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from pathlib import Path

from favano.methods import our_methods

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "results.svg"
GREY = "#7d828b"
COLOURS = {"favano": "#2f8fd8", "fedbuff": "#c9679f", "quafl": "#1f9f79", "fedavg": "#d96c22"}
LONGEST, WIDTH, HEIGHT, TOP, LEFT, RIGHT = 5000, 350, 220, 56, 40, 640
ROWS = {  # of `plan/shares.csv`: what the picture calls them, in two lines
    "FAVANO": ("favano", "FAVANO", ""),
    "FAVANO, `--reweight none`": ("favano", "FAVANO", "not reweighted"),
    "AsyncSGD, `--assignment same --concurrency 100`": (
        "asyncsgd",
        "AsyncSGD",
        "same client again",
    ),
    "QuAFL": ("quafl", "QuAFL", ""),
    "FedBuff, `--buffer-mode block`": ("fedbuff", "FedBuff", "clients wait"),
}


def read(name: str) -> list[dict[str, str]]:
    """The rows of a result file."""
    with (ROOT / "results" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def text(x: float, y: float, words: str, style: str = "") -> str:
    """Words at a place."""
    return f'<text x="{x:g}" y="{y:g}" {style}>{words}</text>'


def line(x: float, y: float, across: float, down: float, style: str = "") -> str:
    """A line from a place, so far to the right and down."""
    return f'<path d="M{x:g} {y:g}l{across:g} {down:g}" {style}/>'


def curves() -> Iterable[str]:
    """Accuracy against simulated time, with bands of a standard deviation."""
    yield text(LEFT, 22, "Test accuracy over simulated time", 'class="head"')
    yield text(LEFT, 40, "MNIST, two classes per client, one in nine fast; settings of the paper")
    for percent in (0, 25, 50, 75, 100):
        y = TOP + HEIGHT * (1 - percent / 100)
        yield line(LEFT, y, WIDTH, 0, 'class="rule"')
        yield text(LEFT - 6, y + 4, f"{percent}", 'class="end"')
    rows = read("figure-mnist-slow/curves.csv")
    for name, colour in COLOURS.items():
        own = [row for row in rows if row["algorithm"] == name]
        low, middle, high = (
            [place(row["time"], row[key]) for row in own]
            for key in ("accuracy_low", "accuracy", "accuracy_high")
        )
        yield f'<path d="M{" ".join([*high, *reversed(low)])}z" style="fill:{colour};opacity:.17"/>'
        yield f'<path d="M{" ".join(middle)}" class="curve" style="stroke:{colour}"/>'
        y = float(middle[-1].partition(",")[2]) + 4
        yield text(
            LEFT + WIDTH + 6, y, our_methods()[name].title, f'class="name" style="fill:{colour}"'
        )
    for time in range(0, LONGEST + 1, 1000):
        x = LEFT + WIDTH * time / LONGEST
        yield text(x, TOP + HEIGHT + 18, f"{time:,}", 'text-anchor="middle"')


def place(time: str, accuracy: str) -> str:
    """A point of the left picture."""
    x, y = LEFT + WIDTH * float(time) / LONGEST, TOP + HEIGHT * (1 - float(accuracy))
    return f"{x:.1f},{y:.1f}"


def weights() -> Iterable[str]:
    """How much the fast clients count, with intervals, beside what would be fair."""
    across, step = 280, HEIGHT / len(ROWS)
    yield text(RIGHT - 130, 22, "Who trains the model", 'class="head"')
    yield text(RIGHT - 130, 40, "weight of the fast ninth of the clients in the final model, %")
    rows = {row["method"]: row for row in read("plan/shares.csv")}
    for percent in (0, 25, 50, 75):
        x = RIGHT + across * percent / 75
        yield line(x, TOP, 0, HEIGHT, 'class="rule"')
        yield text(x, TOP + HEIGHT + 18, f"{percent}", 'text-anchor="middle"')
    fair = RIGHT + across * 100 * float(rows["FAVANO"]["fair"]) / 75
    yield line(fair, TOP, 0, HEIGHT, 'class="fair"')
    yield text(fair + 5, TOP + 12, "fair")
    for number, (key, (name, first, second)) in enumerate(ROWS.items()):
        low, at, high = (across * 100 * float(rows[key][k]) / 75 for k in ("low", "weight", "high"))
        y, colour = TOP + step * (number + 0.6), COLOURS.get(name, GREY)
        yield line(RIGHT + low, y, high - low, 0, f'class="interval" style="stroke:{colour}"')
        yield f'<circle cx="{RIGHT + at:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'
        up = 3 if second else -4
        yield text(RIGHT - 14, y - up, first, f'class="name end" style="fill:{colour}"')
        if second:
            yield text(RIGHT - 14, y + 12, second, 'class="end"')


def picture() -> str:
    """The whole of it."""
    css = (
        f"text{{font:12px system-ui,sans-serif;fill:{GREY}}}.head{{font-size:15px;font-weight:600}}"
        ".name{font-size:13px;font-weight:600}.end{text-anchor:end}path{fill:none}"
        f".rule{{stroke:{GREY};opacity:.3}}.fair{{stroke:{GREY};stroke-dasharray:4 3}}"
        ".curve{stroke-width:2.2;stroke-linejoin:round}.interval{stroke-width:2.5}"
    )
    about = "FAVANO beside other methods: accuracy, and the weight of fast clients"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 310" role="img">'
        f"<title>{about}</title><style>{css}</style>",
        *curves(), *weights(), "</svg>",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PICTURE.read_text(encoding="utf-8") != picture())
    PICTURE.write_text(picture(), encoding="utf-8")
