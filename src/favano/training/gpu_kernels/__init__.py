"""Layers for many models at once on a GPU: every lane has its own weights and its own batch.

Importing this package needs Triton, which comes with the CUDA builds of PyTorch.
"""

from favano.training.gpu_kernels.layers import for_lanes as for_lanes
