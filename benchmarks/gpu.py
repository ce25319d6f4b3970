"""One GPU: whole commands, and runs from the first update to the last or in their middle.

    python benchmarks/gpu.py [--against FOLDER] [--only table-2,lstm] [--repeats 5] [--out FILE]

Whole commands read MNIST and CIFAR-10 from `$FAVANO_DATA`, or from a copied cache. Start-up is that
of this machine as it is: kernels that an earlier line has compiled are on disk.
"""

from __future__ import annotations

from releases import Line, favano, main, work

GPU = ("--device", "cuda", "--json")
FOUR = "favano,fedavg,fedbuff,quafl"
EVERY = (
    "favano,fedavg,quafl,fedbuff,favano-delta,asyncsgd,fedasync,asyncsgd-adaptive,aafl,fedfix,"
    "scaffold,asyncfeded,fedprox,fednova,asofed"
)


def steady(network: str, methods: str, **keys: object) -> Line:
    """Steps per second in the middle of runs that share the GPU."""
    words = [f"{key}={value}" for key, value in {"device": "cuda", "seeds": 10, **keys}.items()]
    what = f"{network}, {methods}, steps/s"
    return work(what, "steps_per_second", "train", network, methods, *words, more_is_better=True)


def running(network: str, methods: str, **keys: object) -> Line:
    """Seconds from the first update to the last."""
    words = [f"{key}={value}" for key, value in {"device": "cuda", "seeds": 10, **keys}.items()]
    return work(f"{network}, {methods}, running", "running", "train", network, methods, *words)


LINES = {
    "table-2-command": favano("favano reproduce table-2", "reproduce", "table-2", *GPU),
    "methods": favano(
        "every method on MNIST",
        "compare",
        "--algorithms",
        EVERY,
        "--dataset",
        "mnist",
        "--horizon",
        "2000",
        "--seeds",
        "3",
        *GPU,
    ),
    "favano-mnist": favano("FAVANO on MNIST", "run", "--dataset", "mnist", *GPU),
    "favano-cifar10": favano(
        "FAVANO on CIFAR-10", "run", "--dataset", "cifar10", "--horizon", "500", *GPU
    ),
    "table-2": running("perceptron", FOUR, horizon=5000.0),
    "one-run": running("perceptron", "favano", horizon=5000.0, seeds=1),
    "perceptron": steady("perceptron", FOUR, horizon=5000.0),
    "resnet20": steady("resnet20", FOUR, seeds=1, horizon=500.0),
    "resnet20-bf16": steady("resnet20", FOUR, seeds=1, horizon=500.0, precision="bf16"),
    "convnet": steady("convnet", "favano", horizon=500.0),
    "lstm": steady("lstm", "favano", horizon=2000.0),
    "transformer": steady("transformer", "favano", horizon=1000.0),
}

if __name__ == "__main__":
    main("gpu.py", LINES, gpu=True)
