"""What runs are made of beside their specifications; it goes to other machines as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from favano.data import Dataset
from favano.metrics import as_metrics
from favano.run.own_data import OwnData, listed_owners, own_samples
from favano.run.problem import Problem
from favano.run.samples import ModelFactory, Samples, check_device, named_model, samples_of
from favano.specification.spec import Spec
from favano.training import Loss
from favano.types import Ints

if TYPE_CHECKING:
    from torch import nn

    from favano.metrics.metric import Function, Metric


@dataclass(frozen=True, eq=False)
class RunInputs:
    """Data, with network, loss and metrics where they are the user's own."""

    data: Dataset | OwnData
    model: nn.Module | ModelFactory | None = None
    loss: Loss | None = None
    metrics: Mapping[str, Metric | Function] | None = None
    listed: Mapping[str, Ints] = field(default_factory=dict)  # whose named data are

    @classmethod
    def of(cls, problem: Problem, data: OwnData | None) -> RunInputs:
        """Those of a problem; its own data were read before."""
        rest = problem.model, problem.loss, problem.metrics
        if data is not None:
            return cls(data, *rest)
        named = problem.named_data
        return cls(named, *rest, listed_owners(problem, len(named.train.labels)))

    def samples(self, device: str) -> Samples:
        """The data on a device, with their loss and metrics."""
        if isinstance(self.data, Dataset):
            samples = samples_of(self.data, check_device(device))
            owners = {**samples.owners, **self.listed}
            samples = replace(samples, owners=owners, loss=self.loss or samples.loss)
        else:
            samples = own_samples(self.data, device, self.loss)
        if self.metrics is None:
            return samples
        chosen = as_metrics(self.metrics)
        return replace(samples, metrics=chosen, open=samples.open - {"metrics"})

    def network(self, spec: Spec) -> nn.Module | ModelFactory:
        """The network of the runs, or what makes it."""
        return self.model or named_model(spec, self.data)
