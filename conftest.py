"""Modules are looked at only where what they need is installed."""

from importlib.util import find_spec

_NEEDS = {  # Triton: in CUDA builds of PyTorch
    "triton": "training/gpu_kernels/*", "flwr": "flower/*", "ray": "cluster/ray_cluster.py",
}  # fmt: skip

collect_ignore_glob = [
    f"src/favano/{files}" for package, files in _NEEDS.items() if not find_spec(package)
]
# Not compared yet: trained models are not recorded, and the other records are older than 0.3.1.
collect_ignore_glob += ["tests/golden/test_golden.py"]
