"""Valid files of every kind, written by the package itself."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

import favano
from favano.data import load
from favano.quantisation.codec import Codec
from favano.quantisation.lattice import Lattice
from favano.quantisation.min_max import MinMax
from favano.quantisation.qsgd import Qsgd
from favano.quantisation.wire import to_bytes
from favano.records import Complexity, complexities_to_csv
from favano.records.folder import CHECKPOINTS
from favano.run.checkpoints import Checkpoints
from favano.run.runner import run_together
from favano.run.samples import load_samples, named_model
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.studies.paper.table_1 import FLEETS, NAMES
from favano.studies.request import Request
from tests.run.small import reproduce_small
from tests.run.test_checkpoints import Interrupting

IMAGES = 40  # as many training images as the split files have lines
SIZES = (5, 12)  # of the tensors in a message
CODECS: Mapping[str, Codec] = {
    "lattice": Lattice(bits=14, dither=True), "min-max": MinMax(bits=5), "qsgd": Qsgd(bits=8),
}  # fmt: skip
ENDED: Mapping[str, object] = {
    "algorithm": "asofed", "clients": 8, "local_steps": 3, "horizon": 140.0,
    "evaluate_every": 20.0, "engine": "loop",
}  # fmt: skip
SPECS = {
    "tables.toml": """
[problem]
dataset = "digits"
split = "dirichlet:0.5"
data_fraction = 0.5
[fleet]
clients = 9
fast_fraction = "1/3"
step_law = "lognormal:0.5"
[clock]
selected = 3
strict_ties = true
[server]
server_optimiser = "adam"
server_momentum = 0.9
[training]
learning_rate = 0.1
local_steps = 4
rate_schedule = "steps:0.1:0.5:0.75"
optimiser = "adamw"
clip = 1.0
[run]
horizon = 60.0
evaluate_every = 20.0
codec = "qsgd"
codec_bits = 6
[[method]]
name = "favano"
reweight = "stochastic"
[[method]]
name = "favano"
label = "without weights"
reweight = "none"
[[method]]
name = "fedbuff"
buffer = 2
""",
    "quantised.toml": """
fleet.clients = 9
clock.selected = 3
training = {local_steps = 4, quantise = "luq", weight_bits = 3}
run = {horizon = 60, seeds = 2}
[method]
name = "fedbuff"
max_staleness = 5
""",
    "own.toml": """
fleet.clients = 9
clock.selected = 3
run.horizon = 60.0
[[method]]
name = "own.py:Half"
share = 0.25
""",
}
OWN_METHOD = '''
"""The server goes part of the way to the mean of its clients."""
import favano


class Half(favano.Method[favano.ModelState]):
    """w <- w + share mean_i (w_i - w)."""

    linear = True
    share: float = favano.option(0.5, "share of the way", symbol="c")

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        progress = (updates.end - updates.start).mean(0)
        return favano.ModelState(state.model + self.share * progress)
'''


def make_samples(folder: Path) -> None:
    """Write all files, a folder for each group of kinds."""
    _specifications(folder / "specification")
    _fleet(folder / "fleet")
    _splits(folder / "split")
    _images(folder / "parquet" / "images")
    _text(folder / "parquet" / "shakespeare")
    _decoded(str(folder / "parquet" / "images"), folder / "decoded" / "images")
    _decoded("shakespeare", folder / "speeches" / "shakespeare", folder / "parquet")
    _results(folder / "results")
    _ended(folder / "ended")
    reproduce_small(folder / "reproduced", Request(seeds=2))
    _complexities(folder / "complexity")
    _messages(folder / "messages")


def _specifications(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, text in SPECS.items():
        (folder / name).write_text(text)
    (folder / "own.py").write_text(OWN_METHOD)


def _fleet(folder: Path) -> None:
    folder.mkdir()
    rows = [f"{client},{1 + (7 * step + client) % 5}" for client in range(9) for step in range(4)]
    (folder / "trace.csv").write_text("\n".join(["client,duration", *rows]) + "\n")


def _images(folder: Path) -> None:
    import pyarrow
    from PIL import Image
    from pyarrow import parquet

    folder.mkdir(parents=True)
    for part, count in (("train", IMAGES), ("test", 10)):
        images, labels = [], [place % 4 for place in range(count)]
        for label in labels:
            file = io.BytesIO()
            Image.fromarray(np.full((6, 5), 60 * label, dtype=np.uint8)).save(file, format="PNG")
            images.append({"bytes": file.getvalue(), "path": None})
        table = pyarrow.table({"image": images, "label": labels})
        parquet.write_table(table, folder / f"{part}-0.parquet")
    parts = [*["train"] * IMAGES, *["test"] * 10]
    places = [*range(IMAGES), *range(10)]
    writers = {"split": parts, "index": places, "writer_id": [f"w{place % 5}" for place in places]}
    parquet.write_table(pyarrow.table(writers), folder / "writers.parquet")


def _text(folder: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    folder.mkdir()
    lines = ["To be, or not to be: that is the question. " * 20, "Words, words, words. " * 40] * 2
    table = pyarrow.table({"character_id": ["H", "H", "P", "P"], "text": lines})
    parquet.write_table(table, folder / "train-0.parquet")


def _splits(folder: Path) -> None:
    folder.mkdir()
    owners = np.arange(IMAGES) % 5
    np.save(folder / "split.npy", owners)
    rows = [f"{place},client {owner}" for place, owner in enumerate(owners)]
    (folder / "split.csv").write_text("\n".join(["sample,client", *rows]) + "\n")
    (folder / "split.txt").write_text("".join(f"{owner}\n" for owner in owners))


def _decoded(name: str, to: Path, data_dir: Path | None = None) -> None:
    load(name, data_dir=data_dir, cache_dir=to.parent)
    next(to.parent.iterdir()).rename(to)


def _results(folder: Path) -> None:
    for method in ("favano", "fedbuff"):
        result = favano.simulate(
            method, fleet=favano.Fleet(clients=8), selected=2, local_steps=3, horizon=60.0, seeds=2,
            evaluate_every=20.0, evaluate_on="both", track_bound=method == "favano", engine="loop",
        )  # fmt: skip
        result.save(folder / method)


def _ended(folder: Path) -> None:
    """Checkpoints of a run that was ended in the middle."""
    spec = resolve(make_spec(ENDED))
    samples, kept = load_samples(spec), Checkpoints([folder / CHECKPOINTS], every=0.0)
    model, progress = named_model(spec, samples), Interrupting(12)
    run_together([spec], samples, model, progress=progress, checkpoints=kept)
    assert len(list(folder.rglob("*.checkpoint"))) == 2


def _complexities(folder: Path) -> None:
    folder.mkdir()
    numbers = [1.5] * (len(Complexity._fields) - 2)
    rows = [Complexity(fleet, method, *numbers) for fleet in FLEETS for method in NAMES]
    (folder / "table.csv").write_text(complexities_to_csv(rows))


def _messages(folder: Path) -> None:
    folder.mkdir()
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(1, sum(SIZES), generator=generator, dtype=torch.float64)
    for name, codec in CODECS.items():
        noise = torch.full((1, codec.draws(sum(SIZES))), 0.5, dtype=torch.float64)
        coded = codec.encode(values, noise, SIZES)
        (folder / f"{name}.bin").write_bytes(to_bytes(codec, coded))
