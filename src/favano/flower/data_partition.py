"""A client's share of a data set by name, with the network for it: the simulator's own split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor, nn

from favano.data.partition import partition
from favano.errors import BadInput, require
from favano.flower.client import Client
from favano.flower.limits import Limits
from favano.flower.memory import StateStore, Store
from favano.flower.partitioning import DEAL, Partitioning
from favano.flower.signed_calls import check_operator
from favano.run.samples import Samples, initial_module, load_samples, named_model
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec, required


@dataclass(frozen=True)
class DataPartition:
    """Which samples a node has: part `partition` of `partitions`, as client `partition` would.

    With the same seed and split as a simulation, it has the same samples in the same order.
    """

    partition: int
    partitions: int
    dataset: str = "digits"
    split: str | None = None  # None: that of the data set, as in a simulation
    model: str | None = None
    seed: int = 0
    data_dir: str | None = None  # with the files of the data set

    def __post_init__(self) -> None:
        count = self.partitions
        require(count >= 1, "partitions", count, "need 1 or more")
        require(0 <= self.partition < count, "partition", self.partition, f"need 0..{count - 1}")

    def client(
        self,
        *,
        device: str = "cpu",
        store: Store | None = None,
        pace: float = 0.0,
        limits: Limits | None = None,
    ) -> Client:
        """The client that has this share, with the network for the data set."""
        spec, samples = self._loaded()
        return Client(
            named_model(spec, samples),
            self._own(spec, samples),
            preprocessing=samples.preprocessing,
            notes={"partition": self.partition, DEAL: self.deal(spec).number},
            device=device,
            store=store,
            pace=pace,
            limits=limits,
        )

    def deal(self, spec: Spec) -> Partitioning:
        """The deal that this share is from."""
        return Partitioning(self.dataset, required(spec.problem.split), self.partitions, self.seed)

    def network(self, seed: int = 0) -> nn.Module:
        """The network for the data set, with the initial weights of a simulated run."""
        spec, samples = self._loaded()
        return initial_module(named_model(spec, samples), seed)

    def data(self) -> tuple[Tensor, Tensor]:
        """The samples of this share, and their labels."""
        spec, samples = self._loaded()
        rule = "has images that are augmented batch by batch; use `favano join` for it"
        require(samples.preprocessing is None, "dataset", self.dataset, rule)
        return self._own(spec, samples)

    def test_data(self) -> tuple[Tensor, Tensor]:
        """All samples of the test set, and their labels."""
        _, samples = self._loaded()
        return samples.test_features, samples.test_labels

    def _loaded(self) -> tuple[Spec, Samples]:
        asked = {"dataset": self.dataset, "split": self.split, "model": self.model}
        keys = {name: value for name, value in asked.items() if value is not None}
        spec = resolve(make_spec({**keys, "clients": self.partitions, "selected": 1}))
        return spec, load_samples(spec, None if self.data_dir is None else Path(self.data_dir))

    def _own(self, spec: Spec, samples: Samples) -> tuple[Tensor, Tensor]:
        how = required(spec.problem.split)
        own = partition(samples.traits, self.partitions, how, self.seed)[self.partition]
        return samples.features[own], samples.labels[own]


_WORDS = {"partition-id": "partition", "num-partitions": "partitions"}  # as Flower calls them
_KINDS = {int: "need a whole number", str: "need a text"}


def partition_of(config: Mapping[str, object]) -> tuple[DataPartition, float]:
    """The share in a SuperNode's configuration, and its pace."""
    others = ("operator", "calls", *Limits().words())
    config = {name: value for name, value in config.items() if name not in others}
    keys = {_WORDS.get(name, name.replace("-", "_")): value for name, value in config.items()}
    pace = keys.pop("pace", 0.0)
    if not isinstance(pace, float | int):
        raise BadInput("pace", pace, "need a number")
    known = DataPartition.__dataclass_fields__
    for name, value in keys.items():
        require(name in known, "node-config", name, f"unknown; known: {', '.join(known)}, pace")
        kind = int if name in ("partition", "partitions", "seed") else str
        require(isinstance(value, kind), name, value, _KINDS[kind])
    for name in ("partition", "partitions"):
        require(name in keys, "node-config", name, "is missing")
    return DataPartition(**keys), float(pace)  # type: ignore[arg-type]


app = ClientApp()


@app.train()
def _train(message: Message, context: Context) -> Message:
    """Answer a call with the share that the SuperNode was started with."""
    check_operator(message, context)
    share, pace = partition_of(context.node_config)
    limits = Limits.from_words(context.node_config)
    client = share.client(store=StateStore(context.state), pace=pace, limits=limits)
    return client.answer(message)
