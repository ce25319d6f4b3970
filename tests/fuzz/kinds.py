"""The kinds of files that are read, and through which door. One more kind is one more line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import favano
from favano.cli import main
from favano.data import Dataset, load, partition
from favano.errors import BadInput
from tests.fuzz.samples import CODECS, ENDED, SIZES

Reader = Callable[[Path], object]
TAME = ("--horizon", "40", "--clients", "9", "--selected", "3", "--local-steps", "3")


_EXECUTES = re.compile(r" names .* \(SHA-256 \w+\), which is executed\n$")  # a notice


class Refused(BadInput):
    """The command line ended with exit code 2 and this message."""

    def __init__(self, message: str) -> None:
        ValueError.__init__(self, message)


@dataclass(frozen=True)
class Kind:
    """A file of a sample folder, and what reads it.

    A reader is given the path of the damaged file; the working folder is the file's sample folder.
    """

    file: str  # in the samples
    read: Reader
    named: str | None = None  # what a refusal has to name, by default the file
    trains: bool = False  # whether reading may take seconds

    @property
    def folder(self) -> str:
        """The sample folder."""
        return self.file.split("/")[0]


def command(*arguments: str) -> str:
    """Call the command line in this process; returns what it prints on standard output."""
    out, err, code = StringIO(), StringIO(), None
    sys.argv = ["favano", *arguments]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ending:
            code = ending.code
    said = "".join(line for line in err.getvalue().splitlines(True) if not _EXECUTES.search(line))
    if code == 2 and said.startswith("Usage: "):  # of a flag or word that no command has
        said = "favano: unusable words\n"
    if code == 2:
        raise Refused(said.removesuffix("\n"))
    assert code in (None, 0, 1), f"exit code {code}: {said}"
    assert code != 1 or "favano: " in said, f"exit code 1: {said}"
    return out.getvalue()


def _specification(path: Path) -> None:
    """Every key is checked, then the file is planned with sizes that end soon."""
    from favano.cli.flags import spec_from
    from favano.specification.presets import resolve

    resolve(spec_from(path, {}))
    try:
        command("plan", path.name, *TAME)
    except Refused as error:
        if "cannot be planned" not in str(error):
            raise


def _compared(path: Path) -> None:
    from favano.planning.comparison import comparison, keys_for
    from favano.specification.config import read_config

    file = read_config(path)
    comparison(keys_for(file.shared, file.methods, file.methods), file.methods)


def _data(path: Path) -> None:
    """A data set whose clients are in a column."""
    folder = path.parent
    if folder.name == "shakespeare":
        _deal(load(folder.name, data_dir=folder.parent), "column:character_id")
    else:
        _deal(load(str(folder)), "column:writer_id")


def _split(path: Path) -> None:
    images, how = Path(os.environ["FUZZ_SAMPLES"]) / "decoded" / "images", f"file:{path.name}"
    _deal(load(str(images), split=how), how)


def _deal(dataset: Dataset, how: str) -> None:
    traits = dataset.traits
    partition(traits, traits.clients_by(how), how, seed=0)


def _trace(path: Path) -> None:
    from favano.timing import read_trace

    read_trace(path)
    command("theory", "steps", "--step-law", f"trace:{path.name}", *TAME)


def _result(path: Path) -> None:
    """Read by Python, drawn as a page, and met by a run into the same folder."""
    result = favano.load(path.parent)
    result.history, result.final()
    command("report", str(path.parent.parent), "--out", "page.html")


def _used(path: Path) -> None:
    """A run into a folder that holds it already; it is made again if a file is damaged."""
    folder = path.parent
    command("run", "--algorithm", folder.name, "--out", str(folder), "--engine", "loop", "--json",
            "--clients", "8", "--selected", "2", "--local-steps", "3", "--horizon", "60",
            "--seeds", "2", "--evaluate-every", "20", "--evaluate-on", "both")  # fmt: skip


def _checkpoint(path: Path) -> None:
    """A run that goes on, from the checkpoint before a damaged one, or begins anew."""
    words = [f"--{key.replace('_', '-')}={value}" for key, value in ENDED.items()]
    command("run", *words, "--out", str(path.parents[1]), "--json")


def _bounds(path: Path) -> object:
    from favano.records import bounds_from_csv, read_file

    return read_file(path, bounds_from_csv)


def _run_file(path: Path) -> None:
    from favano.studies.request import Request
    from tests.run.small import reproduce_small

    reproduce_small(path.parents[2], Request(seeds=2))
    command("report", str(path.parents[2]), "--out", "page.html")


def _ledger(path: Path) -> object:
    from favano.report.reproduction import document, sheets
    from tests.run.small import SMALL

    return document(path.parent, SMALL), sheets(path.parent, SMALL, narrow=True)


def _curves(path: Path) -> None:
    from favano.report.figures import read_lines

    read_lines(path)


def _complexities(path: Path) -> object:
    from favano.report.complexity import number_sheets
    from favano.studies.paper.table_1 import FLEETS, NAMES

    return number_sheets(path, NAMES, FLEETS, "")


def _message(path: Path) -> object:
    import torch

    from favano.quantisation.wire import from_bytes

    if not path.is_file():
        return None  # messages are bytes, not files
    codec, key = CODECS[path.stem], torch.zeros(1, sum(SIZES), dtype=torch.float64)
    return codec.decode(from_bytes(codec, path.read_bytes(), SIZES), key, SIZES)


def _own_method(path: Path) -> object:
    return command("plan", "own.toml", *TAME), command("methods", "own.py:Half")


KINDS: Mapping[str, Kind] = {
    "specification-tables": Kind("specification/tables.toml", _specification, named=""),
    "specification-quantised": Kind("specification/quantised.toml", _specification, named=""),
    "specification-own": Kind("specification/own.toml", _specification, named=""),
    "comparison-tables": Kind("specification/tables.toml", _compared, named=""),
    "own-method": Kind("specification/own.py", _own_method, named=""),
    "trace": Kind("fleet/trace.csv", _trace),
    "split-npy": Kind("split/split.npy", _split),
    "split-csv": Kind("split/split.csv", _split),
    "split-text": Kind("split/split.txt", _split),
    "parquet": Kind("parquet/images/train-0.parquet", _data, named="images"),
    "parquet-test": Kind("parquet/images/test-0.parquet", _data, named="images"),
    "parquet-writers": Kind("parquet/images/writers.parquet", _data, named=""),
    "parquet-text": Kind("parquet/shakespeare/train-0.parquet", _data, named="shakespeare"),
    "decoded-images": Kind("decoded/images/train_images.npy", _data, named="images"),
    "decoded-labels": Kind("decoded/images/train_labels.npy", _data, named="images"),
    "decoded-classes": Kind("decoded/images/classes.npy", _data, named="images"),
    "decoded-owners": Kind("decoded/images/train_owners.npz", _data, named=""),
    "decoded-text": Kind("speeches/shakespeare/text.npy", _data, named="shakespeare"),
    "decoded-roles": Kind("speeches/shakespeare/roles.npy", _data, named="shakespeare"),
    "result-specification": Kind("results/favano/spec.toml", _result),
    "result-history": Kind("results/favano/history.csv", _result),
    "result-summary": Kind("results/favano/summary.json", _result),
    "result-participation": Kind("results/favano/participation.json", _result),
    "result-bound": Kind("results/favano/bound.csv", _bounds),
    "used-specification": Kind("results/fedbuff/spec.toml", _used, named="", trains=True),
    "used-history": Kind("results/fedbuff/history.csv", _used, trains=True),
    "used-summary": Kind("results/fedbuff/summary.json", _used, trains=True),
    "used-model": Kind("results/fedbuff/model.safetensors", _used, trains=True),
    "checkpoint": Kind("ended/checkpoints/*.checkpoint", _checkpoint, named="checkpoints"),
    "run-file": Kind("reproduced/runs/*/*.*", _run_file, named="runs", trains=True),
    "ledger": Kind("reproduced/small/runs.csv", _ledger),
    "curves": Kind("reproduced/small/curves.csv", _curves),
    "complexities": Kind("complexity/table.csv", _complexities),
    "message-lattice": Kind("messages/lattice.bin", _message, named=""),
    "message-min-max": Kind("messages/min-max.bin", _message, named=""),
    "message-qsgd": Kind("messages/qsgd.bin", _message, named=""),
}
