"""Layers that are fast for many lanes, in place of a network's own layers."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeGuard, cast

from torch import Tensor, nn
from torch.nn import functional

from favano.models.norm import BatchNorm2d, GroupNorm, Normalisation
from favano.models.resnet import FirstLayers, ResidualBlock
from favano.quantisation import Quantised
from favano.training.gpu_kernels.functions import (
    AlignedChannels,
    BatchNormalisation,
    Convolution,
    GroupNormalisation,
    Lstm,
    MaxPooling,
    QuantisedGradient,
    Rounding,
)
from favano.training.lane_recurrence import State

_ALIGNED = 4  # channels that are read at once at least
_FEW_CHANNELS = 16


class LaneConvolution(nn.Module):
    """A convolution with the parameters of `like`."""

    casts_itself = True

    def __init__(self, like: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = like.weight, like.bias
        self._stride, self._padding = like.stride[0], int(like.padding[0])

    def forward(self, images: Tensor) -> Tensor:
        """(B, I, H, W) to (B, O, h, w)."""
        return self.product(images, self.weight, self.bias)

    def product(self, images: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with other parameters."""
        return self._convolved(images, weight, bias)[0]

    def normalised(
        self, images: Tensor, norm: Normalisation, residual: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """relu(norm(convolution without bias) + residual), and the images for another use."""
        if isinstance(norm, LaneBatchNorm):
            out, images, sums = self._convolved(images, self.weight, None, norm.samples)
            return norm.rectified(out, residual, sums), images
        out, images, _ = self._convolved(images, self.weight, None)
        return norm.rectified(out, residual), images

    def _convolved(
        self,
        images: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The convolution, the images for another use, and sums for a batch normalisation."""
        stride, padding, kernel = self._stride, self._padding, weight.shape[-1]
        high, wide = ((side + 2 * padding - kernel) // stride + 1 for side in images.shape[-2:])
        folded, side = images, _side_of_squares(images, stride)
        if side > 1:
            first = -padding % side  # row of taps that begins a square
            last = -(kernel + first) % side
            weight = _folded(functional.pad(weight, (first, last, first, last)), side)
            folded = _folded(images, side)
            stride, padding = stride // side, (padding + first) // side
        elif images.shape[1] > 1 and (rest := -images.shape[1] % _ALIGNED):
            weight = functional.pad(weight, (0, 0, 0, 0, 0, rest))
            folded = AlignedChannels.apply(images, _ALIGNED)  # type: ignore[no-untyped-call]
        out: Tensor
        out, passed, sums = Convolution.apply(  # type: ignore[no-untyped-call]
            folded, weight, bias, samples, (high, wide), stride, padding
        )
        return out, passed if folded is images else images, sums


def _side_of_squares(images: Tensor, stride: int) -> int:
    """Side of the squares of pixels that become channels, so that a stride of few ones is 1."""
    channels, *sides = images.shape[1:]
    few = channels * stride**2 <= _FEW_CHANNELS
    return stride if few and not any(side % stride for side in sides) else 1


def _folded(tensor: Tensor, side: int) -> Tensor:
    """(N, C, H, W) as (N, C', H / side, W / side), with channels last in memory.

    Squares of pixels become channels, and there are zeros up to a multiple of four channels.
    """
    number, channels, height, width = tensor.shape
    squares = tensor.reshape(number, channels, height // side, side, width // side, side)
    squares = squares.permute(0, 2, 4, 1, 3, 5)
    squares = functional.pad(squares, (0, 0, 0, 0, 0, -channels % _ALIGNED))
    return squares.flatten(3).movedim(-1, 1)


class LaneBatchNorm(nn.Module):
    """A batch normalisation with the parameters and buffers of `like`.

    Its running statistics are moved where they are, also under `vmap`.
    """

    samples: Tensor | None = None  # real images, the first of a mini-batch that others pad
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor  # of PyTorch's own

    def __init__(self, like: BatchNorm2d | nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias = like.weight, like.bias
        for name, buffer in like.named_buffers():
            self.register_buffer(name, buffer)
        self._epsilon = like.epsilon if isinstance(like, BatchNorm2d) else like.eps
        assert like.momentum is not None
        self._momentum = like.momentum

    def rectified(
        self, images: Tensor, residual: Tensor | None = None, sums: Tensor | None = None
    ) -> Tensor:
        """relu(norm(images) + residual); a convolution gives the sums of its results."""
        return self.forward(images, residual, sums, relu=True)

    def forward(
        self,
        images: Tensor,
        residual: Tensor | None = None,
        sums: Tensor | None = None,
        relu: bool = False,
    ) -> Tensor:
        """Normalise (B, C, H, W)."""
        numbers = images.numel() // images.shape[1]
        out: Tensor
        if numbers == 1:  # no variance: see `favano.models.norm`; PyTorch's own refuses `vmap`
            scale = self.weight / (self.running_var + self._epsilon).sqrt()
            offset = self.bias - self.running_mean * scale
            out = (images * scale[:, None, None] + offset[:, None, None]).to(images.dtype)
            out = out if residual is None else out + residual
            return functional.relu(out) if relu else out
        out, *_ = BatchNormalisation.apply(  # type: ignore[no-untyped-call]
            images, self.weight, self.bias, residual, sums, relu, self._epsilon,
            self._momentum, self.running_mean, self.running_var, self.samples,
        )  # fmt: skip
        if "num_batches_tracked" in self._buffers:
            self.num_batches_tracked.add_(1)
        return out


class LaneGroupNorm(nn.Module):
    """A group normalisation with the parameters of `like`."""

    casts_itself = True

    def __init__(self, like: nn.GroupNorm) -> None:
        super().__init__()
        self.weight, self.bias = like.weight, like.bias
        self._groups, self._epsilon = like.num_groups, like.eps

    def rectified(self, images: Tensor, residual: Tensor | None = None) -> Tensor:
        """relu(norm(images) + residual)."""
        return self.forward(images, residual, relu=True)

    def forward(self, images: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        """Normalise (B, C, ...)."""
        flat = images if images.ndim == 4 else images.reshape(*images.shape[:2], 1, -1)
        out: Tensor
        out, *_ = GroupNormalisation.apply(  # type: ignore[no-untyped-call]
            flat, self.weight, self.bias, residual, None, relu, self._epsilon, self._groups
        )
        return out.view(images.shape) if flat is not images else out


class LaneMaxPool(nn.Module):
    """A max-pooling like `like`."""

    def __init__(self, like: nn.MaxPool2d) -> None:
        super().__init__()
        self._how = tuple(map(_side, (like.kernel_size, like.stride, like.padding)))

    def forward(self, images: Tensor, relu: bool = False) -> Tensor:
        """(B, C, H, W) to (B, C, h, w), with `relu` of relu(images)."""
        out: Tensor
        out, _ = MaxPooling.apply(images, *self._how, relu)  # type: ignore[no-untyped-call]
        return out


class LaneSequential(nn.Sequential):
    """Layers one after the other. A rectifier beside a normalisation or pooling is made by it."""

    def forward(self, inputs: Tensor) -> Tensor:
        """All layers in turn."""
        postponed = done = False  # a rectifier
        for layer, following in pairwise([*self, nn.Identity()]):
            if isinstance(layer, LaneMaxPool) and postponed:
                inputs, postponed = layer(inputs, relu=True), False
            elif isinstance(layer, LaneBatchNorm | LaneGroupNorm) and _is_rectifier(following):
                inputs, done = layer.rectified(inputs), True
            elif _is_rectifier(layer) and (done or isinstance(following, LaneMaxPool)):
                postponed, done = not done, False
            else:
                inputs = layer(inputs)
        return inputs


def fused_lstm(given: Tensor, recurrent: Tensor, state: State) -> tuple[Tensor, State]:
    """An LSTM over products of its inputs: hidden states after each step, and the last state."""
    hidden, cells, _ = Lstm.apply(given, recurrent, *state)  # type: ignore[no-untyped-call]
    return hidden[1:], (hidden[-1], cells[-1])


class LaneResidualBlock(nn.Module):
    """A residual block with the layers of `like`.

    The gradients of both uses of its inputs are added by the kernel of the first convolution.
    """

    def __init__(
        self, like: ResidualBlock, first: LaneConvolution, second: LaneConvolution
    ) -> None:
        super().__init__()
        self.conv1, self.norm1 = first, like.norm1
        self.conv2, self.norm2, self.shortcut = second, like.norm2, like.shortcut

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        hidden, inputs = self.conv1.normalised(inputs, self.norm1)
        out, _ = self.conv2.normalised(hidden, self.norm2, self.shortcut(inputs))
        return out


class LaneFirstLayers(nn.Sequential):
    """The first layers of a residual network: a convolution, its norm, and perhaps pooling."""

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, C, H, W) to the channels of the first stage."""
        convolution, norm, *pool = cast(
            tuple[LaneConvolution, Normalisation, nn.Module], tuple(self)
        )
        hidden, _ = convolution.normalised(inputs, norm)
        return pool[0](hidden) if pool else hidden


def with_kernels(module: nn.Module) -> nn.Module:
    """The network with the layers that have kernels replaced, in place."""
    if _is_convolution(module):
        return LaneConvolution(module)
    if isinstance(module, Quantised):
        module.rounding, module.quantised_gradient = Rounding, QuantisedGradient
        like = module.like
        if _is_convolution(like):
            module.product = LaneConvolution(like).product
        return module
    if _is_batch_norm(module):
        return LaneBatchNorm(module)
    if _is_pool(module):
        return LaneMaxPool(module)
    if isinstance(module, nn.GroupNorm) and _is_plain(module, nn.GroupNorm, GroupNorm):
        return LaneGroupNorm(module) if module.affine else module
    for name, child in [*module._modules.items()]:  # all places, also of one layer at several
        if child is not None:
            setattr(module, name, with_kernels(child))
    if type(module) is nn.Sequential:
        layers = LaneSequential()
        vars(layers).update(vars(module))  # with parameters of its own
        return layers
    if isinstance(module, ResidualBlock):
        first, second = module.conv1, module.conv2
        if isinstance(first, LaneConvolution) and isinstance(second, LaneConvolution):
            return LaneResidualBlock(module, first, second)
    if isinstance(module, FirstLayers) and isinstance(module[0], LaneConvolution):
        return LaneFirstLayers(*module)
    return module


def _is_plain(layer: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether a layer is one of these kinds, not the user's version of it, and without hooks."""
    changed = layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer)
    return type(layer) in kinds and not changed


def _is_rectifier(layer: nn.Module) -> bool:
    return _is_plain(layer, nn.ReLU)


def _is_convolution(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    if not isinstance(layer, nn.Conv2d) or not _is_plain(layer, nn.Conv2d):
        return False
    square = len({*layer.kernel_size}) == len({*layer.stride}) == len({*layer.padding}) == 1
    plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
    return square and plain


def _is_batch_norm(layer: nn.Module) -> TypeGuard[BatchNorm2d | nn.BatchNorm2d]:
    if not isinstance(layer, nn.BatchNorm2d):
        return _is_plain(layer, BatchNorm2d)
    kept = layer.affine and layer.track_running_stats and layer.momentum is not None
    return kept and _is_plain(layer, nn.BatchNorm2d)


def _is_pool(layer: nn.Module) -> TypeGuard[nn.MaxPool2d]:
    if not isinstance(layer, nn.MaxPool2d) or not _is_plain(layer, nn.MaxPool2d):
        return False
    sizes = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    square = all(isinstance(size, int) or len({*size}) == 1 for size in sizes)
    plain = layer.dilation in (1, (1, 1)) and not (layer.ceil_mode or layer.return_indices)
    return square and plain and _side(layer.kernel_size) < 16  # pixels are counted in bytes


def _side(length: int | tuple[int, ...]) -> int:
    return length if isinstance(length, int) else length[0]
