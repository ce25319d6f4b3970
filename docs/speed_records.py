"""What the files of `benchmarks/results/` hold, as far as the tables need it."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Spread(TypedDict, total=False):
    """Some samples; old results have the median only."""

    median: float
    min: float
    max: float


class Heading(TypedDict):
    """When, where and how a benchmark was made: by a command or, for old results, in words."""

    date: str
    release: str
    command: NotRequired[str]
    source: NotRequired[str]
    machine: dict[str, object]


class Peer(TypedDict, total=False):
    """A system of the comparison."""

    label: str
    version: str
    missing: str
    steps_per_second: Spread
    ratio: Spread | None


class Peers(Heading):
    """The comparison with other systems."""

    repeats: int
    seconds: float
    systems: dict[str, Peer]


class PeerOnGpu(TypedDict, total=False):
    """A system of the comparison on a GPU."""

    missing: str
    images_per_second: Spread
    ratio: Spread | None


class PeersNetwork(TypedDict):
    """One network in all systems."""

    label: str
    runs: int
    systems: dict[str, PeerOnGpu]


class PeersGpu(Heading):
    """The comparison with programs in JAX."""

    repeats: int
    seconds: float
    networks: dict[str, PeersNetwork]


class Line(TypedDict, total=False):
    """A line of the GPU's table; what it holds depends on the kind of line."""

    what: str
    date: str
    release: str
    source: str  # of old results
    missing: str
    seconds: float  # of a whole command
    runs: int
    steps: int
    running: float  # seconds from the first update to the last
    steps_per_second: float
    images_per_second: float
    loop_images_per_second: float
    start_up: float
    graphs: int
    capturing: float  # seconds
    first_start: float
    second_start: float
    ratio: float


class Gpu(Heading):
    """One GPU."""

    lines: dict[str, Line]


class Clients(TypedDict):
    """The cost for a number of clients."""

    clients: int
    step_us: Spread
    planning_us: Spread
    peak_mib: float


class Horizon(TypedDict):
    """The time of a longer run."""

    steps: int
    ms: Spread


class Kept(TypedDict, total=False):
    """Memory as versions pile up."""

    updates: int
    versions: int
    kept_mib: float
    peak_mib: float


class Scaling(Heading):
    """Cost against clients, horizon and server steps."""

    clients: list[Clients]
    horizons: list[Horizon]
    versions_kept: list[Kept]


class Planning(TypedDict):
    """Costs of a plan."""

    us_per_client: float
    ns_per_poll_and_client: float
    us_per_contact: float
    bytes_per_client: float
    bytes_per_contact: float
    start_mib: float  # of the process


class Planned(TypedDict):
    """A plan that was made."""

    clients: int
    polls: int
    contacts: int
    seconds: float
    peak: float  # MiB


class UnitCosts(Heading):
    """What one of each costs on a CPU."""

    planning: Planning
    version_bytes: float  # these five per parameter
    update_ns: Spread  # and per answer
    digest_ns: Spread
    checkpoint_ns: Spread
    checkpoint_bytes: float
    run_mib: float
    million: Planned


class RayCosts(TypedDict):
    """Processor time of a driver for each message that comes through Ray."""

    pack_ms: float
    progress_ms: float
    checkpoint_ms: float
    checkpoint_ms_per_mib: float
    result_ms: float
    evaluation_ms: float


class SimulatedDriver(TypedDict):
    """A driver with simulated workers."""

    workers: int
    runs: int
    seconds_per_run: float
    checkpoint_bytes: int
    virtual_seconds: float
    messages: dict[str, int]
    preparing_seconds: float
    driver_seconds: float
    evaluations: int  # of each run
    peak_mib: float


class ClusterDriver(Heading):
    """What a driver costs."""

    ray: RayCosts
    simulation: SimulatedDriver


class Soak(Heading):
    """Memory over a long time."""

    minutes: float
    comparisons: int
    mebibytes: dict[str, float]


class Contact(TypedDict):
    """Contacts with one kind of node and size of model."""

    node: str
    bytes_each_way: int
    seconds: list[float]  # of each, after the first
    median: float


class Contacts(Heading):
    """What a contact over loopback costs."""

    contacts: list[Contact]


class UnevenRun(TypedDict):
    """One method on the nodes."""

    method: str
    rows: list[tuple[int, float, float]]  # update, seconds, accuracy


class UnevenNodes(Heading):
    """Methods on the same uneven nodes."""

    runs: list[UnevenRun]
