"""The tables of `docs/how-to/large-runs.md`: unit costs, and what large runs need by them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from limits import NETWORKS
from speed_records import ClusterDriver, Gpu, Peers, Soak, UnitCosts
from speed_tables import page_sheet, rounded, shown, text

from favano.report.sheet import Sheet, markdown

RUNS, PARAMETERS = 1000, 100_000_000
CLIENTS, SELECTED, BATCH, PERCEPTRON = 100, 20, 128, 25_450  # of Table 2
GPU_BYTES = 141e9  # of an H200


def costs() -> UnitCosts:
    """What `benchmarks/unit_costs.py` has found."""
    unit_costs: UnitCosts = json.loads(text("unit_costs"))
    return unit_costs


def lines_of_gpu() -> Gpu:
    """What was measured on a GPU."""
    gpu: Gpu = json.loads(text("gpu"))
    return gpu


def steps_per_second(name: str) -> tuple[str, float]:
    """A processor, and local steps of the perceptron on all its cores."""
    peers: Peers = json.loads(text(name))
    machine, system = peers["machine"], peers["systems"]["favano"]
    return f"{machine['cores']} cores, {machine['cpu']}", system["steps_per_second"]["median"]


def seconds(value: float) -> str:
    """A time for people.

    >>> seconds(33_061), seconds(124.2), seconds(0.2558)
    ('9.18 h', '124 s', '256 ms')
    """
    for unit, name in ((3600, "h"), (1, "s")):
        if value >= unit:
            return f"{_three(value / unit)} {name}"
    return f"{_three(1000 * value)} ms"


def size(value: float) -> str:
    """Bytes for people.

    >>> size(40.8e9), size(108.2)
    ('40.8 GB', '108 B')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit:
            return f"{_three(value / unit)} {name}"
    return f"{value:.0f} B"


def _three(value: float) -> str:
    """Three digits that count."""
    return f"{float(f'{value:.3g}'):g}"


def unit_costs() -> str:
    """One line per cost."""
    unit = costs()
    plan = unit["planning"]
    rows = [
        ["plan, per client", f"{plan['us_per_client']:.1f} us", size(plan["bytes_per_client"])],
        ["plan, per poll and client", f"{plan['ns_per_poll_and_client']:.0f} ns", ""],
        ["plan, per contact", f"{plan['us_per_contact']:.1f} us", size(plan["bytes_per_contact"])],
        ["run on digits beside others", "", size(unit["run_mib"] * 2**20)],
        ["server version, per parameter", "", f"{unit['version_bytes']:.2f} B"],
        [
            "server step, per parameter and client update",
            f"{shown(unit['update_ns'], '.1f')} ns",
            "8 B",
        ],
        ["digest of a model, per parameter", f"{shown(unit['digest_ns'], '.1f')} ns", ""],
        ["checkpoint, per parameter", f"{shown(unit['checkpoint_ns'], '.1f')} ns",
         f"{unit['checkpoint_bytes']:.2f} B"],
    ]  # fmt: skip
    for name in ("peers", "peers_arm"):
        where, rate = steps_per_second(name)
        rows.append([f"local step of the perceptron, {where}", f"{1e6 / rate:.0f} us", ""])
    rate = lines_of_gpu()["lines"]["table-2"]["steps_per_second"]
    rows.append(["local step of the perceptron, H200", f"{1e6 / rate:.1f} us", ""])
    table = page_sheet(["", "time", "memory"], rows, unit)
    return f"{table} Local steps: [performance.md](../reference/performance.md)."


def needs(rows: Sequence[Sequence[str]]) -> str:
    """A table of what is needed, with the arithmetic."""
    return markdown(Sheet("", ["", "arithmetic", "needs"], rows))


def thousand_runs() -> str:
    """Runs like those of Table 2."""
    line, memory = lines_of_gpu()["lines"]["table-2"], 4 * PERCEPTRON
    steps = round(line["steps"] / line["runs"])
    rows = [["local steps", f"{RUNS:,} x {steps:,}", f"{RUNS * steps / 1e6:.0f} million"]]
    speeds = [("H200", line["steps_per_second"]), *map(steps_per_second, ("peers", "peers_arm"))]
    for where, rate in speeds:
        count = f"{RUNS * steps / 1e6:.0f} million / {rounded(rate)} per s"
        rows.append([where, count, seconds(RUNS * steps / rate)])
    models = (CLIENTS + 2) * memory
    rows += [
        [
            "models, at most",
            f"{RUNS:,} x {CLIENTS + 2} x 4 B x {PERCEPTRON:,}",
            size(RUNS * models),
        ],
        ["one checkpoint of each, at most", "the same", size(RUNS * models)],
    ]
    return needs(rows)


def million_clients() -> str:
    """A plan, predicted and measured; then models."""
    unit = costs()
    plan, made = unit["planning"], unit["million"]
    clients, polls, contacts = made["clients"], made["polls"], made["contacts"]
    parts = [
        plan["us_per_client"] * clients / 1e6,
        plan["ns_per_poll_and_client"] * polls * clients / 1e9,
        plan["us_per_contact"] * contacts / 1e6,
    ]
    held = [
        plan["start_mib"],
        plan["bytes_per_client"] * clients / 2**20,
        plan["bytes_per_contact"] * contacts / 2**20,
    ]
    version = unit["version_bytes"] * PERCEPTRON
    rows = [
        ["plan, time", " + ".join(f"{seconds:.1f} s" for seconds in parts),
         f"{sum(parts):.0f} s; measured {made['seconds']:.0f} s"],
        ["plan, peak memory", " + ".join(f"{mebibytes:.0f} MiB" for mebibytes in held),
         f"{sum(held):.0f} MiB; measured {made['peak']:.0f} MiB"],
        ["versions in use, at most", f"{polls + 1:,} x {size(version)}",
         size((polls + 1) * version)],
        ["clients with a memory of their own", f"{clients:,} x {size(4 * PERCEPTRON)}",
         size(4 * PERCEPTRON * clients)],
    ]  # fmt: skip
    return needs(rows)


def driver() -> ClusterDriver:
    """What `benchmarks/cluster_driver.py` has found."""
    found: ClusterDriver = json.loads(text("cluster_driver"))
    return found


def driver_costs() -> str:
    """One line per kind of message."""
    ray = driver()["ray"]
    rows = [
        ["pack, begun and ended", f"{ray['pack_ms']:.2f} ms"],
        ["message about progress", f"{ray['progress_ms']:.2f} ms"],
        ["checkpoint", f"{ray['checkpoint_ms']:.2f} ms"],
        ["checkpoint, per MiB", f"{ray['checkpoint_ms_per_mib']:.2f} ms"],
        ["result with a model of ResNet-20", f"{ray['result_ms']:.2f} ms"],
        ["evaluation, in a result", f"{ray['evaluation_ms']:.3f} ms"],
    ]
    return page_sheet(["driver, through Ray", "processor time"], rows, driver())


def _ray_seconds(found: ClusterDriver) -> float:
    """What Ray takes for the messages of the simulation."""
    ray, made = found["ray"], found["simulation"]
    sent, size_in_mib = made["messages"], made["checkpoint_bytes"] / 2**20
    result = ray["result_ms"] + made["evaluations"] * ray["evaluation_ms"]
    saved = ray["checkpoint_ms"] + size_in_mib * ray["checkpoint_ms_per_mib"]
    return 1e-3 * (
        sent["packs"] * ray["pack_ms"]
        + sent["Advanced"] * ray["progress_ms"]
        + sent["Ended"] * result
        + sent.get("SavedPack", 0) * saved
    )


def many_workers() -> str:
    """10,000 runs on 1,000 GPUs."""
    made = driver()["simulation"]
    runs, workers, sent = made["runs"], made["workers"], made["messages"]
    each = runs // workers
    own, ray = made["driver_seconds"], _ray_seconds(driver())
    share = (own + ray) / made["virtual_seconds"]
    rows = [
        ["a run of FAVANO on CIFAR-10, H200, TF32", "measured", seconds(made["seconds_per_run"])],
        [f"{runs:,} runs on {workers:,} GPUs",
         f"{each} x {seconds(made['seconds_per_run'])} + starts", seconds(made["virtual_seconds"])],
        ["before the first pack: specifications, lengths", "measured",
         seconds(made["preparing_seconds"])],
        ["messages", f"{sent['packs']:,} packs, {sent['Advanced']:,} about progress, "
         f"{sent.get('SavedPack', 0):,} checkpoints, {sent['Ended']:,} results",
         f"{sum(sent.values()) / made['virtual_seconds']:.0f} per s"],
        ["driver without Ray", "measured", seconds(own)],
        ["Ray in the driver", "messages x cost of each", seconds(ray)],
        ["share of a core", f"{seconds(own + ray)} / {seconds(made['virtual_seconds'])}",
         f"{100 * share:.0f} %"],
        ["memory of the driver, at most", "measured", size(made["peak_mib"] * 2**20)],
        ["models, if all are kept", f"{runs:,} x 4 B x 272,474", size(4 * 272_474 * runs)],
        ["one checkpoint of all runs under way",
         f"{workers * each // 2:,} x {size(made['checkpoint_bytes'])}",
         size(workers * each // 2 * made["checkpoint_bytes"])],
    ]  # fmt: skip
    return needs(rows)


def selected_ten_thousand() -> str:
    """One run with a million clients, 10,000 of them selected in each of 1,000 polls."""
    unit, parameters = costs(), 272_474
    plan = unit["planning"]
    clients, polls, chosen = 1_000_000, 1000, 10_000
    contacts = polls * chosen
    planned = (
        plan["us_per_client"] * clients / 1e6
        + plan["ns_per_poll_and_client"] * polls * clients / 1e9
        + plan["us_per_contact"] * contacts / 1e6
    )
    held = plan["bytes_per_client"] * clients + plan["bytes_per_contact"] * contacts
    rate = lines_of_gpu()["lines"]["resnet20-tf32"]["steps_per_second"]
    step = unit["update_ns"]["median"] * chosen * parameters / 1e9
    rows = [
        ["plan, time", f"{clients:,} clients, {polls:,} polls, {contacts:,} contacts",
         seconds(planned)],
        ["plan, memory", "the same", size(held)],
        ["local steps, 20 per contact, one H200", f"20 x {contacts:,} / {rounded(rate)} per s",
         f"{20 * contacts / rate / 86400:.1f} days"],
        ["the same on 1,000 H200, if it could be spread", "/ 1,000",
         seconds(20 * contacts / rate / 1000)],
        ["models between machines then", f"2 x {contacts:,} x {size(4 * parameters)}",
         f"{2 * contacts * 4 * parameters / 1e12:.1f} TB"],
        ["which per second", f"/ {seconds(20 * contacts / rate / 1000)}",
         f"{2 * contacts * 4 * parameters / (20 * contacts / rate / 1000) / 1e9:.1f} GB"],
        ["server steps, one core", f"{contacts:,} updates x {parameters:,} x "
         f"{unit['update_ns']['median']:.1f} ns", seconds(step * polls)],
        ["updates of a server step", f"2 x {chosen:,} x {size(4 * parameters)}",
         size(2 * chosen * 4 * parameters)],
    ]  # fmt: skip
    return needs(rows)


def large_model() -> str:
    """One model of 100 million parameters."""
    unit, rate = costs(), lines_of_gpu()["lines"]["resnet18-bf16"]["images_per_second"]
    model, reached = 4 * PARAMETERS, NETWORKS["resnet18"].flops * rate
    step = 6 * PARAMETERS * BATCH
    update = unit["update_ns"]["median"] * SELECTED * PARAMETERS / 1e9
    digest = unit["digest_ns"]["median"] * PARAMETERS / 1e9
    checkpoint = unit["checkpoint_ns"]["median"] * PARAMETERS / 1e9
    rows = [
        ["one model", f"4 B x {PARAMETERS:,}", size(model)],
        ["updates of a server step", f"2 x {SELECTED} x {size(model)}", size(2 * SELECTED * model)],
        ["an update, one core", f"{SELECTED} x {PARAMETERS:,} x "
         f"{unit['update_ns']['median']:.1f} ns", seconds(update)],
        ["a digest, one core", f"{PARAMETERS:,} x {unit['digest_ns']['median']:.1f} ns",
         seconds(digest)],
        ["a checkpoint, per model in use",
         f"{PARAMETERS:,} x {unit['checkpoint_ns']['median']:.1f} ns", seconds(checkpoint)],
        [f"versions in use by {CLIENTS} clients, at most", f"{CLIENTS + 2} x {size(model)}",
         size((CLIENTS + 2) * model)],
        ["a local step on an H200, dense layers",
         f"6 x {PARAMETERS:,} x {BATCH} FLOP / {reached / 1e12:.0f} TFLOP/s",
         seconds(step / reached)],
        ["lanes on an H200, without versions",
         f"{size(GPU_BYTES)} / (3 x {size(model)})", f"{GPU_BYTES / (3 * model):.0f}"],
    ]  # fmt: skip
    return needs(rows)


def soak() -> str:
    """Memory of comparisons that were repeated for a long time."""
    soak: Soak = json.loads(text("soak"))
    memory = soak["mebibytes"]
    rows = [
        ["at one minute", f"{memory['at_one_minute']:.0f} MiB"],
        ["most after it", f"{memory['most_afterwards']:.0f} MiB"],
        ["median of the first third", f"{memory['median_of_first_third']:.0f} MiB"],
        ["median of the last third", f"{memory['median_of_last_third']:.0f} MiB"],
        ["slope", f"{memory['slope_per_minute']:+.1f} MiB per minute"],
    ]
    title = f"{soak['minutes']:.0f} minutes, {soak['comparisons']} comparisons"
    return page_sheet([title, "memory"], rows, soak)


TABLES: Mapping[str, Callable[[], str]] = {
    "unit-costs": unit_costs,
    "thousand-runs": thousand_runs,
    "million-clients": million_clients,
    "driver-costs": driver_costs,
    "many-workers": many_workers,
    "selected-ten-thousand": selected_ten_thousand,
    "large-model": large_model,
    "soak": soak,
}
