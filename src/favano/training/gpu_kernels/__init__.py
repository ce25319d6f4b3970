"""Triton kernels and layers for many models at once: each lane has its own weights and batch.

Importing this package needs Triton, which comes with the CUDA builds of PyTorch.
"""

from favano.training.gpu_kernels.compilation import compile_kernels as compile_kernels
from favano.training.gpu_kernels.descent import Descent as Descent
from favano.training.gpu_kernels.inputs import gather_inputs as gather_inputs
from favano.training.gpu_kernels.lane_functions import LaneFunctions as LaneFunctions
from favano.training.gpu_kernels.layers import LaneBatchNorm as LaneBatchNorm
from favano.training.gpu_kernels.layers import fused_lstm as fused_lstm
from favano.training.gpu_kernels.layers import with_kernels as with_kernels
from favano.training.gpu_kernels.perceptron import perceptron_steps as perceptron_steps
from favano.training.gpu_kernels.weighted_sums import weighted_sums as weighted_sums
