"""The problem of a run, from Python: your own network and data, or a data set by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from favano.errors import need
from favano.specification.parts import ProblemPart
from favano.specification.presets import OWN

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor, nn

    from favano.metrics.metric import Function, Metric
    from favano.training import Loss

    Array: TypeAlias = Tensor | npt.NDArray[np.generic]
    Pair: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Problem:
    """Network, data, their split over the clients, and batches.

    Args:
        model: your network: a module, whose weights are the initial ones of every seed, or a
            function that makes one, called once per seed; by default the paper's network for the
            named data set.
        train: your samples and targets, tensors or arrays; by default `dataset`. Whole numbers
            0..classes-1 are classes; other targets, of any shape, need a loss.
        test: the same for evaluation.
        dataset: a data set by name, or a folder of Parquet files.
        split: how samples are dealt out to the clients.
        batch_size: samples per local step.
        loss: a function of a batch of outputs and targets that returns their mean loss; cross
            entropy by default.
        metrics: by name, functions of outputs and targets, or `favano.Metric(...)` with direction
            and unit. The first is the one that methods are compared by. By default accuracy for
            classes, and nothing but the loss for other targets.
        data_dir: folder with the Parquet files of a named data set.
        batch_order: `epoch` or `replacement`.
        normalise: MNIST: subtract 0.1307, divide by 0.3081.
        holdout: test on this many training images instead of the test set.
        data_fraction: share of the training and test images in use.
    """

    model: nn.Module | Callable[[], nn.Module] | None = None
    train: Pair | None = None
    test: Pair | None = None
    dataset: str | None = None
    split: str | None = None
    batch_size: int | None = None
    loss: Loss | None = None
    metrics: Mapping[str, Metric | Function] | None = None
    data_dir: Path | str | None = None
    batch_order: str = "epoch"
    normalise: bool = False
    holdout: int = 0
    data_fraction: float = 1.0

    def __post_init__(self) -> None:
        both = (self.train is None) == (self.test is None)
        need(both, "test", "None", "goes with train: give both or neither")
        if self.train is not None:
            need(self.model is not None, "model", "None", "need a network for your own data")
            named = self.dataset is None
            need(named, "dataset", self.dataset, "own data were given; leave it out")
            for key, default in (("normalise", False), ("holdout", 0), ("data_fraction", 1.0)):
                value = getattr(self, key)
                rule = "is for data sets by name; prepare your own data"
                need(value == default, key, value, rule)
        else:
            rule = "need train and test, your own data"
            need(self.dataset != OWN, "dataset", OWN, rule)
        rule = "need a network or a function that makes one; data sets by name go to dataset="
        need(self.model is None or callable(self.model), "model", self.model, rule)
        rule = "need a function of outputs and targets"
        need(self.loss is None or callable(self.loss), "loss", self.loss, rule)
        place = self.data_dir is None or isinstance(self.data_dir, Path | str)
        need(place, "data_dir", self.data_dir, "need the path of a folder")
        assert self.part  # checks its values

    @property
    def is_own(self) -> bool:
        """Whether the data are the caller's own."""
        return self.train is not None

    @property
    def part(self) -> ProblemPart:
        """The keys of the problem."""
        return ProblemPart(
            dataset=OWN if self.is_own else self.dataset or "digits",
            model=None if self.model is None else OWN,
            split=self.split,
            batch_size=self.batch_size,
            batch_order=self.batch_order,  # type: ignore[arg-type]
            normalise=self.normalise,
            holdout=self.holdout,
            data_fraction=self.data_fraction,
        )


def as_problem(given: Problem | str) -> Problem:
    """The problem itself, or that of a named data set."""
    if isinstance(given, Problem):
        return given
    rule = "need a data set's name or favano.Problem(model, train=..., test=...)"
    need(isinstance(given, str), "problem", type(given).__name__, rule)
    return Problem(dataset=given)
