"""The problem of a run, from Python: your own network and data, or a data set by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from favano.errors import BadInput, require
from favano.specification.parts import ProblemPart
from favano.specification.presets import OWN, preset_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor, nn
    from torch.utils.data import Dataset as TorchDataset

    from favano.data import Dataset
    from favano.metrics.metric import Function, Metric
    from favano.training import Loss
    from favano.types import Ints

    Array: TypeAlias = Tensor | npt.NDArray[np.generic]
    Source: TypeAlias = tuple[Array, Array] | TorchDataset[Any] | Any

_SHORT = 60  # characters of a value in a sentence


@dataclass(frozen=True, eq=False)
class Problem:
    """Network, data, their split over the clients, and batches.

    Args:
        model: your network: a module, whose weights are the initial ones of every seed, or a
            function that makes one, called once per seed; by default the paper's network for the
            named data set.
        train: your data; by default `dataset`. A pair (samples, targets) of tensors or arrays, a
            data frame, a PyTorch data set of such pairs, or a Hugging Face data set. Samples may be
            a dictionary or a tuple of arrays, which the network takes by name or position. A list
            of these is split by client. Arrays that are mapped from files are never copied as a
            whole. Targets that are whole numbers 0..classes-1 are classes, and -100 is ignored
            among them; others, of any shape, need a loss.
        test: the same for evaluation.
        dataset: a data set by name, or a folder of Parquet files.
        split: how samples are dealt out to the clients: a name, or a list of samples per client.
        collate: makes (inputs, targets) from a list of samples, for samples of different lengths.
            It is called once for all training samples and once for all test samples.
        columns: those of inputs and of targets in a data frame or a Hugging Face data set, if not
            obvious: `("x", "y")` or `(["a", "b"], "y")`. Several with a number per sample are one
            matrix; others are several inputs, which the network takes by name.
        batch_size: samples per local step.
        loss: a function of a batch of outputs and targets that returns their mean loss; cross
            entropy by default.
        metrics: by name, functions of outputs and targets, or `favano.Metric(...)` with direction
            and unit. The first is the one that methods are compared by. By default accuracy for
            classes, and nothing but the loss for other targets.
        data_dir: folder with the Parquet files of a named data set.
        batch_order: `epoch` or `replacement`.
        normalise: give images mean 0 and deviation 1 per channel, as some always have.
        holdout: test on this many random training samples instead of the test set. Of your own data
            they are copied, and so are those that are left to train on.
        data_fraction: share of the training and test images in use; all that are held out are.
    """

    model: nn.Module | Callable[[], nn.Module] | None = None
    train: Source | Sequence[Source] | None = None
    test: Source | Sequence[Source] | None = None
    dataset: str | None = None
    split: str | Sequence[npt.ArrayLike] | None = None
    batch_size: int | None = None
    loss: Loss | None = None
    metrics: Mapping[str, Metric | Function] | None = None
    data_dir: Path | str | None = None
    batch_order: str = "epoch"
    normalise: bool = False
    holdout: int = 0
    data_fraction: float = 1.0
    collate: Callable[[list[Any]], object] | None = None
    columns: tuple[str | Sequence[str], str] | None = None

    def __repr__(self) -> str:
        """One line, as notebooks show it: what was given, data by their type."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        default = {field.name: field.default for field in fields(self)}
        words = (
            f"{name}={type(value).__name__ if name in ('train', 'test') else _in_short(value)}"
            for name, value in given.items()
            if value is not default[name]
        )
        return f"Problem({', '.join(words)})"

    def __post_init__(self) -> None:
        for name, other in (("train", "test"), ("test", "train")):
            given = getattr(self, name) is not None or getattr(self, other) is None
            require(given, name, "None", f"requires {other}: give both or neither")
        if self.train is not None:
            require(self.model is not None, "model", "None", "need a network for your own data")
            named = self.dataset is None
            require(named, "dataset", self.dataset, "own data were given; remove it")
            unused = {"normalise": False, "data_fraction": 1.0, "data_dir": None}
            for key, default in unused.items():
                value = getattr(self, key)
                rule = "is for data sets by name; prepare your own data"
                require(value == default, key, value, rule)
        else:
            rule = "need train and test, your own data"
            require(self.dataset != OWN, "dataset", OWN, rule)
            for key in ("collate", "columns"):
                value = getattr(self, key)
                require(value is None, key, value, "requires train and test, your own data")
        dealt = is_by_client(self.train, self.collate) and self.split is not None
        rule = "train is a list per client; remove it, or give collate= for a list of samples"
        require(not dealt, "split", _in_short(self.split), rule)
        rule = "need a network or a function that makes one; data sets by name go to dataset="
        require(self.model is None or callable(self.model), "model", self.model, rule)
        rule = "need a function of outputs and targets"
        require(self.loss is None or callable(self.loss), "loss", self.loss, rule)
        place = self.data_dir is None or isinstance(self.data_dir, Path | str)
        require(place, "data_dir", self.data_dir, "need the path of a folder")
        assert self.part  # checks its values

    @property
    def is_own(self) -> bool:
        """Whether the data are the caller's own."""
        return self.train is not None

    def as_in(self, part: ProblemPart) -> Problem:
        """The same problem with the data as a run with these keys has them."""
        keys = {key: getattr(part, key) for key in ("normalise", "holdout", "data_fraction")}
        if part.split not in (OWN, self.split or preset_of(part.dataset).split):
            keys["split"] = part.split
        if not self.is_own:
            keys["dataset"] = self.dataset or part.dataset
        same = all(getattr(self, key) == value for key, value in keys.items())
        return self if same else replace(self, **keys)

    @cached_property
    def named_data(self) -> Dataset:
        """The data set by name, read once."""
        from favano.run.data import load_data

        return load_data(self.part, None if self.data_dir is None else Path(self.data_dir))

    @cached_property
    def parts(self) -> list[Ints] | None:
        """The samples of each client, if `split` lists them."""
        import numpy as np

        if self.split is None or isinstance(self.split, str):
            return None
        rule = "need a name, or a list with the numbers of each client's samples"
        if not isinstance(self.split, Sequence):
            raise BadInput("split", _in_short(self.split), rule)
        require(len(self.split) > 0, "split", "[]", rule)
        parts = [np.asarray(part) for part in self.split]
        for client, part in enumerate(parts):
            whole = part.ndim == 1 and (part.dtype.kind in "iu" or part.size == 0)
            whole = whole and not np.ma.is_masked(self.split[client])
            require(whole, f"split[{client}]", _in_short(self.split[client]), rule)
        return [part.astype(np.int64) for part in parts]

    @property
    def part(self) -> ProblemPart:
        """The keys of the problem."""
        listed = self.parts is not None or is_by_client(self.train, self.collate)
        return ProblemPart(
            dataset=OWN if self.is_own else self.dataset or "digits",
            model=None if self.model is None else OWN,
            split=OWN if listed else self.split,  # type: ignore[arg-type]
            batch_size=self.batch_size,
            batch_order=self.batch_order,  # type: ignore[arg-type]
            normalise=self.normalise,
            holdout=self.holdout,
            data_fraction=self.data_fraction,
        )


def _in_short(given: object) -> str:
    """A value in a sentence; the name of its type if it is long or has several lines."""
    text = str(given)
    return text if len(text) <= _SHORT and "\n" not in text else type(given).__name__


def is_by_client(given: object, collate: object) -> bool:
    """Whether data are a list per client: not a pair of arrays, nor samples to be collated."""
    if not isinstance(given, list):
        return False
    if collate is None:
        return not (given and all(hasattr(part, "dtype") for part in given))
    return not (given and all(isinstance(sample, tuple | dict) for sample in given))


def as_problem(given: Problem | str) -> Problem:
    """The problem itself, or that of a named data set."""
    if isinstance(given, Problem):
        return given
    rule = "need a data set's name or favano.Problem(model, train=..., test=...)"
    require(isinstance(given, str), "problem", type(given).__name__, rule)
    return Problem(dataset=given)
