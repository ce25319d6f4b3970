"""Kernels are looked at only where Triton is: it comes with the CUDA builds of PyTorch."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["src/favano/training/gpu_kernels/*"]
