"""Short runs whose results must not change: a name, and flags of `favano run`.

Flags are the whole description of a run, so that the table outlives any change of the code behind
them. All are on the embedded digits and most take a fraction of a second. Kernels are named: the
automatic choice may rest on a measurement, though not in runs as short as these.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

METHODS: Final = (
    "favano",
    "favano-delta",
    "fedavg",
    "quafl",
    "fedbuff",
    "asyncsgd",
    "asyncsgd-adaptive",
    "fedasync",
    "aafl",
    "fedfix",
    "scaffold",
    "asyncfeded",
    "fedprox",
    "fednova",
)

TRACE_FILE: Final = "steps.csv"  # in the folder where the runs are made
TRACE: Final = "client,duration\n" + "".join(
    f"{client},{duration}\n"
    for client in range(9)
    for duration in (1 + client, 2.5, 4 + client % 3)
)

# Everything but the length of the run is left at its default.
_DEFAULTS: Final = "--dataset digits --horizon 150 --kernels native"
_SMALL: Final = (
    "--dataset digits --kernels native --clients 9 --batch-size 16 --horizon 300 "
    "--evaluate-every 50"
)
_RESIDUAL: Final = (
    "--dataset digits --kernels native --model resnet20 --clients 2 --selected 1 --local-steps 1 "
    "--batch-size 8 --horizon 22 --evaluate-every 22 --data-fraction 0.02 --split iid "
    "--learning-rate 0.05"
)

# Words by which a method does not look at the number of clients to select.
_NOT_SELECTING: Final = (
    *("aafl", "fedasync", "fedfix", "asyncfeded", "asyncsgd-adaptive"),
    *("--concurrency", "--buffer-mode", "--assignment"),
)

# Flags that are added to those of a small run.
_OPTIONS: Final[Mapping[str, str]] = {
    # Codecs
    "codec-none-favano": "--algorithm favano",
    "codec-lattice-favano": "--algorithm favano --codec lattice",
    "codec-lattice-quafl": "--algorithm quafl --codec lattice",
    "codec-lattice-scaffold": "--algorithm scaffold --codec lattice",
    "codec-lattice-fedbuff": "--algorithm fedbuff --buffer 2 --codec lattice",
    "codec-lattice-coarse-quafl": (
        "--algorithm quafl --codec lattice --codec-bits 10 --codec-scale 0.001"
    ),
    "codec-lattice-wrapped-fedavg": "--algorithm fedavg --codec lattice --codec-bits 4",
    "codec-dither-favano": "--algorithm favano --codec lattice --codec-dither",
    "codec-dither-quafl": "--algorithm quafl --codec lattice --codec-dither",
    "codec-dither-scaffold": "--algorithm scaffold --codec lattice --codec-dither",
    "codec-dither-fedbuff": "--algorithm fedbuff --buffer 2 --codec lattice --codec-dither",
    "codec-min-max-quafl": "--algorithm quafl --codec min-max",
    "codec-min-max-scaffold": "--algorithm scaffold --codec min-max",
    "codec-min-max-fedbuff": "--algorithm fedbuff --buffer 2 --codec min-max --codec-bits 4",
    "codec-min-max-aafl": "--algorithm aafl --codec min-max",
    "codec-qsgd-quafl": "--algorithm quafl --codec qsgd",
    "codec-qsgd-scaffold": "--algorithm scaffold --codec qsgd",
    "codec-qsgd-fedbuff": "--algorithm fedbuff --buffer 2 --codec qsgd --codec-bits 3",
    "codec-qsgd-fedasync": "--algorithm fedasync --codec qsgd",
    "codec-qsgd-fedfix": "--algorithm fedfix --codec qsgd",
    # Training with few bits
    "luq-favano": "--algorithm favano --quantise luq",
    "luq-fedbuff": "--algorithm fedbuff --buffer 2 --quantise luq",
    "luq-asyncfeded": "--algorithm asyncfeded --quantise luq",
    "luq-all-layers": "--algorithm favano --quantise luq --quantised-layers all",
    "luq-bits": (
        "--algorithm fedbuff --buffer 2 --quantise luq --weight-bits 2 --activation-bits 4 "
        "--quantised-layers all"
    ),
    "luq-weights": (
        "--algorithm favano --quantise luq --quantised-gradients weights --gradient-levels 8"
    ),
    "luq-no-gradients": (
        "--algorithm fedbuff --buffer 2 --quantise luq --quantised-gradients none "
        "--clipped-gradients mask --quantised-layers all"
    ),
    "luq-samples": (
        "--algorithm favano --quantise luq --gradient-samples 2 --gradient-levels 8 "
        "--quantised-layers all"
    ),
    "luq-released": (
        "--algorithm fedbuff --buffer 2 --quantise luq --quantiser-grid released "
        "--quantised-layers all"
    ),
    "luq-full-scores": (
        "--algorithm favano --quantise luq --evaluate-with full --quantised-layers all"
    ),
    "luq-codec": "--algorithm quafl --quantise luq --codec lattice",
    # Data
    "split-iid": "--split iid",
    "split-two-class-free": "--split two-class-free --clients 15",
    "split-two-class-trim": "--split two-class-trim",
    "split-shards": "--split shards:2",
    "split-dirichlet": "--split dirichlet:0.3 --seed 1",
    "holdout": "--holdout 200",
    "data-fraction": "--data-fraction 0.5",
    "batches-continuous": "--batch-order continuous",
    "batches-replacement": "--batch-order replacement",
    "epochs": "--algorithm fedavg --local-steps 5 --batch-size 32",  # those of a mean client
    # Step durations
    "law-exponential-favano": "--step-law exponential",
    "law-exponential-fedbuff": "--algorithm fedbuff --buffer 2 --step-law exponential",
    "law-deterministic-favano": "--step-law deterministic",
    "law-deterministic-fedasync": "--algorithm fedasync --step-law deterministic",
    "law-lognormal-favano": "--step-law lognormal",
    "law-lognormal-fedavg": "--algorithm fedavg --step-law lognormal:0.5",
    "law-trace-favano": f"--step-law trace:{TRACE_FILE}",
    "law-trace-fedbuff": f"--algorithm fedbuff --buffer 2 --step-law trace:{TRACE_FILE}",
    "law-trace-asyncfeded": f"--algorithm asyncfeded --step-law trace:{TRACE_FILE}",
    "speeds": "--fast-fraction 0.5 --fast-mean 3 --slow-mean 9",
    "speeds-ceil-slow": "--fast-fraction 0.4 --speed-rounding ceil-slow",
    "speeds-slow-first": "--algorithm quafl --speed-order slow-first",
    # The clock of the methods that poll
    "clock-resume": "--interruption resume",
    "clock-keep": "--interruption keep --weights empirical",
    "clock-keep-quafl": "--algorithm quafl --interruption keep",
    "clock-starts-at-zero": "--starts-at-zero",
    "clock-idle": "--idle-in-interaction",
    "clock-strict-ties": "--strict-ties",
    "clock-overrun": "--overrun",
    "clock-literal": "--step-count literal",
    "clock-literal-zero": "--algorithm favano-delta --step-count literal-zero",
    "clock-times": "--algorithm quafl --waiting-time 2 --interaction-time 1",
    # FAVANO
    "reweight-deterministic": "--reweight deterministic",
    "reweight-none": "--reweight none",
    "reweight-deterministic-delta": "--algorithm favano-delta --reweight deterministic",
    "reweight-none-delta": "--algorithm favano-delta --reweight none --server-learning-rate 0.5",
    "weights-empirical": "--weights empirical",
    "weights-empirical-deterministic": "--weights empirical --reweight deterministic",
    "weights-monte-carlo": "--weights monte-carlo",
    "weights-given-one": "--weights given --given-weights 0.7",
    "weights-given-classes": "--weights given --given-weights 0.9,0.4",
    "weights-given-clients": (
        "--algorithm favano-delta --weights given "
        "--given-weights 0.9,0.8,0.7,0.6,0.5,0.4,0.3,0.2,0.1"
    ),
    "track-bound": "--track-bound",
    "track-bound-deterministic": "--track-bound --reweight deterministic",
    "variance-live": "--variance live",
    "variance-live-fedbuff": "--algorithm fedbuff --buffer 2 --variance live",
    # Steps of the clients
    "rate-scale-none": "--algorithm quafl --rate-scale none",
    "rate-scale-selected": "--algorithm favano --rate-scale selected",
    "rate-scale-buffer": "--algorithm fedbuff --buffer 2 --rate-scale buffer",
    "rate-decay": "--rate-decay",
    "rate-decay-fedavg": "--algorithm fedavg --rate-decay --horizon 500",
    "proximal-favano": "--proximal 0.1",
    "proximal-fedprox": "--algorithm fedprox --proximal 0.5",
    "proximal-fednova": "--algorithm fednova --proximal 0.1",
    "proximal-scaffold": "--algorithm scaffold --proximal 0.1",
    # QuAFL
    "quafl-client-averaging": "--algorithm quafl --no-client-averaging",
    "quafl-server-averaging": "--algorithm quafl --no-server-averaging",
    "quafl-dampening": "--algorithm quafl --dampening",
    # FedBuff
    "fedbuff-block": "--algorithm fedbuff --buffer-mode block --buffer 3",
    "fedbuff-code": "--algorithm fedbuff --buffer-mode code --buffer 3",
    "fedbuff-reset": "--algorithm fedbuff --buffer-mode reset --buffer 3",
    "fedbuff-concurrency": "--algorithm fedbuff --buffer 3 --concurrency 6",
    "fedbuff-distinct": "--algorithm fedbuff --buffer 3 --concurrency 6 --distinct",
    "fedbuff-max-staleness": "--algorithm fedbuff --buffer 2 --concurrency 9 --max-staleness 1",
    "fedbuff-flush-at-end": "--algorithm fedbuff --buffer 7 --flush-at-end",
    "fedbuff-constant": "--algorithm fedbuff --buffer 2 --concurrency 9 --staleness constant",
    "fedbuff-hinge": "--algorithm fedbuff --buffer 2 --concurrency 9 --staleness hinge:2:1",
    "fedbuff-server-rate": "--algorithm fedbuff --buffer 2 --server-learning-rate 0.5",
    # AsyncSGD
    "asyncsgd-same": "--algorithm asyncsgd --assignment same",
    "asyncsgd-gradients": "--algorithm asyncsgd --gradients-per-job 3 --concurrency 5",
    "asyncsgd-scale": "--algorithm asyncsgd --delays scale --concurrency 9",
    "asyncsgd-drop": "--algorithm asyncsgd --delays drop --concurrency 9",
    "asyncsgd-latency-server": "--algorithm asyncsgd --latency server",
    "asyncsgd-latency-none": "--algorithm asyncsgd --latency none --server-learning-rate 0.2",
    "asyncsgd-adaptive-uniform": (
        "--algorithm asyncsgd-adaptive --assignment uniform --gradients-per-job 2"
    ),
    "asyncsgd-adaptive-drop": "--algorithm asyncsgd-adaptive --delays drop",
    "asyncsgd-adaptive-none": "--algorithm asyncsgd-adaptive --delays none --latency server",
    # FedAsync
    "fedasync-constant": "--algorithm fedasync --staleness constant",
    "fedasync-hinge": "--algorithm fedasync --staleness hinge:2:1",
    "fedasync-polynomial": "--algorithm fedasync --staleness polynomial:1",
    "fedasync-max-staleness": "--algorithm fedasync --max-staleness 4",
    "fedasync-mixing": "--algorithm fedasync --mixing 0.3 --concurrency 4",
    "fedasync-halved": "--algorithm fedasync --halve-mixing-at 10",
    "fedasync-not-halved": (
        "--algorithm fedasync --halve-mixing-at 0 --latency none --local-steps 1"
    ),
    "fedasync-latency-server": "--algorithm fedasync --latency server",
    # AAFL
    "aafl-fraction": "--algorithm aafl --arrival-fraction 0.5",
    "aafl-mean": "--algorithm aafl --arrival-fraction 0.4 --arrival-weights mean",
    "aafl-samples": "--algorithm aafl --sample-weights --split dirichlet:0.3 --seed 1",
    # FedFix
    "fedfix-window": "--algorithm fedfix --window 12 --server-learning-rate 0.5",
    "fedfix-identical": "--algorithm fedfix --window-weights identical",
    "fedfix-samples": "--algorithm fedfix --sample-weights --split dirichlet:0.3 --seed 1",
    # AsyncFedED
    "asyncfeded-offset": "--algorithm asyncfeded --distance-offset 2",
    "asyncfeded-target": "--algorithm asyncfeded --distance-target 1",
    "asyncfeded-gain": "--algorithm asyncfeded --distance-gain 2 --most-local-steps 6",
    "asyncfeded-latency-server": "--algorithm asyncfeded --latency server",
    "asyncfeded-latency-none": ("--algorithm asyncfeded --latency none --server-learning-rate 0.5"),
    # Methods that go by rounds
    "rounds-one-draw": "--algorithm fedavg --round-time one-draw",
    "rounds-mean": "--algorithm fednova --round-time mean",
    "rounds-drop": "--algorithm fedavg --deadline 20 --at-deadline drop",
    "rounds-take": "--algorithm fedavg --deadline 20 --at-deadline take",
    "rounds-take-fednova": "--algorithm fednova --deadline 20 --at-deadline take",
    "rounds-take-scaffold": "--algorithm scaffold --deadline 20 --at-deadline take",
    "rounds-drop-last": "--algorithm scaffold --drop-last",
    "rounds-samples-fedavg": "--algorithm fedavg --sample-weights --split dirichlet:0.3 --seed 1",
    "rounds-samples-fedprox": "--algorithm fedprox --sample-weights --split dirichlet:0.3 --seed 1",
    "rounds-samples-fednova": (
        "--algorithm fednova --sample-weights --split dirichlet:0.3 --seed 1 --deadline 20 "
        "--at-deadline take"
    ),
    "rounds-server-rate": "--algorithm scaffold --server-learning-rate 0.5",
    # The program itself
    "seeds": "--seeds 2 --seed 3",
    "seeds-scaffold": "--algorithm scaffold --seeds 2",
    "kernels-auto": "--algorithm fedavg --kernels auto",
    "non-finite-stop": "--algorithm fedavg --learning-rate 1e30",
    "non-finite-skip": "--algorithm fedbuff --buffer 2 --learning-rate 1e30 --non-finite skip",
}

_RESIDUAL_OPTIONS: Final[Mapping[str, str]] = {
    "residual-average": "--algorithm favano",
    "residual-local": "--algorithm favano --buffers local",
    "residual-groupnorm": "--algorithm fedbuff --buffer 1 --model resnet20-groupnorm",
    "residual-luq": "--algorithm favano --quantise luq",
}


def _small(flags: str) -> str:
    """Flags of a small run, as far as the method looks at them."""
    selects = not any(word in flags.split() for word in _NOT_SELECTING)
    steps = "asyncsgd" not in flags  # its jobs have a length of their own
    return f"{_SMALL}{' --selected 3' * selects}{' --local-steps 4' * steps}"


def _all_runs() -> Mapping[str, list[str]]:
    """Every run by its name, with its flags; where a flag is given twice the last one counts."""
    table = {f"default-{name}": f"{_DEFAULTS} --algorithm {name}" for name in METHODS}
    table |= {name: f"{_small(flags)} {flags}" for name, flags in _OPTIONS.items()}
    table |= {name: f"{_RESIDUAL} {flags}" for name, flags in _RESIDUAL_OPTIONS.items()}
    return {name: shlex.split(line) for name, line in table.items()}


RUNS: Final = _all_runs()
