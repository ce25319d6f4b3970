"""Modules are looked at only where what they need is installed."""

from importlib.util import find_spec

_NEEDS = {"triton": "training/gpu_kernels", "flwr": "flower"}  # Triton: in CUDA builds of PyTorch

collect_ignore_glob = [
    f"src/favano/{folder}/*" for package, folder in _NEEDS.items() if not find_spec(package)
]
