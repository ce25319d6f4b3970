"""Modules are looked at only where their packages are: Triton comes with CUDA builds of PyTorch."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["src/favano/training/gpu_kernels/*"]
collect_ignore_glob += [] if find_spec("ray") else ["src/favano/cluster/ray_cluster.py"]
