"""`summary.json`: how the runs of a result folder were made, and how they ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, ValidationInfo

from favano.errors import require
from favano.records.document import Number, from_json, omitted, spread, to_json
from favano.records.history import Row
from favano.records.metric import ACCURACY, LOSS, MetricRecord, leading

MEAN_MODEL: Final = "mean_model_"
Status: TypeAlias = Literal["complete", "stopped", "diverged", "partial"]  # the worst last


def worst(statuses: Iterable[Status]) -> Status:
    """The worst of several statuses, which is that of the whole.

    >>> worst(["complete", "partial", "diverged"])
    'partial'
    """
    return max(statuses, key=get_args(Status).index)


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The final numbers of one seed. NaN means unknown or not finite.

    The mean model is the mean of the server model and the models of all clients.
    """

    algorithm: str
    seed: int
    status: Status
    metrics: Mapping[str, Number] = spread()
    loss: Number
    variance: Number
    time: float  # simulated, in units of time
    server_steps: int
    local_steps: int
    bits_up: int
    bits_down: int
    energy: float | None = omitted(None)  # joules of all clients; None: it is not counted
    wall_seconds: Number = nan  # from the first to the last update
    mean_model: Mapping[str, Number] = spread(MEAN_MODEL)  # its metrics and its loss
    refused_updates: int = 0  # because of NaN or infinity
    decoding_failures: int = 0  # beyond the radius of the lattice, so decoded wrongly
    cause: str | None = omitted(None)  # why it ended before the horizon, if by NaN or infinity

    @property
    def accuracy(self) -> float:
        """The accuracy of a classifier, a share of one."""
        return self.metrics[ACCURACY.name]

    def value(self, metric: str) -> float:
        """A metric by its name, or the loss."""
        return self.loss if metric == LOSS.name else self.metrics[metric]


def final_values(
    runs: Iterable[RunRecord | Row], metrics: tuple[MetricRecord, ...], name: str | None = None
) -> list[float]:
    """The value of each run: of a metric by its name, by default of the leading one."""
    known = [*(metric.name for metric in metrics), LOSS.name]
    chosen = leading(metrics).name if name is None else name
    require(chosen in known, "metric", chosen, f"need one of {', '.join(known)}")
    return [run.value(chosen) for run in runs]


def run_record(algorithm: str, row: Row, status: Status) -> RunRecord:
    """The record of a run whose final numbers are those of a row."""
    return RunRecord(
        algorithm=algorithm,
        seed=row.seed,
        status=status,
        metrics=row.metrics,
        loss=row.loss,
        variance=row.variance,
        time=row.time,
        server_steps=row.server_step,
        local_steps=row.local_steps,
        bits_up=row.bits_up,
        bits_down=row.bits_down,
        energy=row.energy,
        mean_model=dict.fromkeys([*row.metrics, LOSS.name], nan),
    )


@dataclass(frozen=True)
class SpeedShare:
    """The share in the server model of all clients of one speed; all shares sum to one.

    Also that of all clients that are there as often.
    """

    name: str
    clients: int
    weight: Number
    low: Number  # of the confidence interval
    high: Number
    fair: Number


@dataclass(frozen=True)
class AuditRecord:
    """Who trains the model. The columns have one entry per client, or are empty."""

    seed: int
    verdict: str  # one sentence
    confidence: float  # level of the intervals
    fair: float  # 1/n, the target of every weight, or their mean
    speeds: tuple[SpeedShare, ...]
    mean_step_time: tuple[Number, ...]  # simulated, in units of time
    weight: tuple[Number, ...]  # effective weight in the final server model
    left_out: tuple[str, ...] = ()  # parts of the run that the audit leaves out
    # By how often clients are there; empty: they always are.
    availability: tuple[SpeedShare, ...] = omitted(())
    sizes: tuple[SpeedShare, ...] = omitted(())  # where samples count: halves by samples
    fair_weight: tuple[Number, ...] = omitted(())  # and each client's target, its share of them


@dataclass(frozen=True)
class SpeedScores:
    """All clients of one speed together."""

    name: str
    clients: int
    mean: Number
    worst: Number  # mean over the tenth that is served worst


@dataclass(frozen=True)
class ClientScores:
    """The leading metric of the final model of one seed, on samples of each client.

    Of very many clients only a sample is listed, and all means are over those.
    """

    seed: int
    metric: str
    mean: Number
    worst: Number  # mean over the tenth of the clients that is served worst
    speeds: tuple[SpeedScores, ...]
    client: tuple[int, ...]
    score: tuple[Number, ...]  # of each of these clients

    def __post_init__(self) -> None:
        if len(self.client) != len(self.score):
            raise ValueError("the columns of served clients differ in length")


@dataclass(frozen=True)
class CostRecord:
    """What a run of `favano reproduce` cost. Of such a run only numbers are kept, no models."""

    machine_seconds: float  # its share of the time of the whole machine
    energy_wh: float  # watt-hours
    co2_grams: float  # CO2 equivalents
    hardware: str
    constants: str  # used for energy and carbon


def _with_metrics(runs: object, summary: ValidationInfo) -> object:
    """Gather the metrics of each run; a run of earlier versions gets the status of the result."""
    if not isinstance(runs, list) or not {"status", "metrics"} <= summary.data.keys():
        return runs
    names = [metric.name for metric in summary.data["metrics"]]
    whole = {"status": summary.data["status"]}
    return [{**whole, **_gathered(run, names)} if isinstance(run, dict) else run for run in runs]


def _gathered(run: dict[str, object], names: list[str]) -> dict[str, object]:
    """A run of the file with its metrics in two mappings."""
    mean = {name: run.get(f"{MEAN_MODEL}{name}") for name in [*names, LOSS.name]}
    return {**run, "metrics": {name: run.get(name) for name in names}, "mean_model": mean}


@dataclass(kw_only=True)
class Summary:
    """The content of `summary.json`, which grows while runs are made. None means unknown."""

    status: Status
    metrics: tuple[MetricRecord, ...] = omitted((ACCURACY,))
    favano: str | None = None  # the version that wrote it
    command: str | None = None
    torch: str | None = None  # its version
    kernels: str | None = None  # CPU kernels used for training
    processor: str | None = None  # or the GPU
    data: str | None = None  # digest of training and test data
    test_samples: int | None = omitted(None)  # that scores are of; None: those of the clients
    code: Mapping[str, str] | None = omitted(None)  # of a user's network, loss and metrics: digests
    optimiser: str | None = omitted(None)  # of clients and server; None: plain SGD
    runs: Annotated[tuple[RunRecord, ...], BeforeValidator(_with_metrics)]
    audit: AuditRecord | None = None  # of the first seed
    trace: str | None = None  # digest of the recorded step times
    title: str | None = None  # the method's name in print
    source: str | None = None  # digest of the file of a user's method
    cost: CostRecord | None = omitted(None)  # noqa: RUF009 - of a run of `favano reproduce`
    served: ClientScores | None = None  # how well the first seed's final model serves the clients


def summary_to_json(summary: Summary) -> str:
    """The text of `summary.json`."""
    return to_json(summary, indent=2) + "\n"


summary_from_json = partial(from_json, Summary)
