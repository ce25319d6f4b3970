"""Networks and losses as people write them, each with its verdict.

An entry is a network, perhaps a loss, and what must become of them: the numbers of a simulation by
hand, or the sentence with which they are refused. `test_zoo.py` trains all of them in every way.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]

GENERATOR = torch.Generator().manual_seed(3)
POINTS = torch.randn(24, 6, generator=GENERATOR)
CLASSES = (POINTS[:, 0] > 0).long() + (POINTS[:, 1] > 0).long()
NUMBERS = POINTS @ torch.randn(6, 1, generator=GENERATOR)
DATA: Mapping[str, tuple[Tensor, Tensor]] = {
    "points": (POINTS, CLASSES),
    "numbers": (POINTS, NUMBERS),
    "images": (torch.randn(24, 2, 5, 5, generator=GENERATOR), CLASSES),
    "tokens": (torch.randint(0, 7, (24, 5), generator=GENERATOR), CLASSES),
}


@dataclass(frozen=True)
class Entry:
    """A network and a loss, and what must become of them."""

    name: str
    make: Callable[[], nn.Module]
    loss: Callable[[Any], Loss] = lambda net: F.cross_entropy  # given the network
    data: str = "points"
    keys: Mapping[str, object] = field(default_factory=dict)  # of local training
    refusal: str = ""  # the beginning of the sentence; empty: it is trained


def around(forward: Callable[[Any, Tensor], Tensor], **parts: Any) -> Callable[[], nn.Module]:
    """A network with `first`, a layer of 6 to 4, `last`, one of 4 to 3, and other parts."""

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(6, 4), nn.Linear(4, 3)
            for name, part in parts.items():
                made = part()
                if isinstance(made, Tensor) and not isinstance(made, nn.Parameter):
                    self.register_buffer(name, made)
                else:
                    setattr(self, name, made)

        def forward(self, inputs: Tensor) -> Tensor:
            return forward(self, inputs)

    return Around


def stack(*layers: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Layers one after the other."""
    return lambda: nn.Sequential(*(layer() for layer in layers))


def first() -> nn.Module:
    return nn.Linear(6, 4)


def last() -> nn.Module:
    return nn.Linear(4, 3)


def plain(net: Any, x: Tensor) -> Tensor:
    output: Tensor = net.last(net.first(x).tanh())
    return output


class Residual(nn.Module):
    """A block that adds what it makes."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = inputs + self.inner(inputs)
        return output


class Reader(nn.Module):
    """Tokens, embedded and read by a layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.embed, self.layer, self.last = nn.Embedding(7, 4), layer, nn.Linear(4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        found = self.layer(self.embed(tokens))
        output: Tensor = self.last((found[0] if isinstance(found, tuple) else found).mean(1))
        return output


class Tied(nn.Module):
    """The same weights at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)
        self.last.weight = self.first.weight

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.last(self.first(inputs).relu())
        return output


class LowRank(nn.Module):
    """A frozen layer and its adapter."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 3).requires_grad_(False)
        self.down, self.up = nn.Linear(6, 1, bias=False), nn.Linear(1, 3, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.base(inputs) + self.up(self.down(inputs))
        return output


class Experts(nn.Module):
    """A hard mixture: each sample goes to the expert with the largest gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 2)
        self.experts = nn.ModuleList(nn.Linear(6, 3) for _ in range(2))

    def forward(self, inputs: Tensor) -> Tensor:
        share, chosen = self.gate(inputs).softmax(1).max(1)
        output = inputs.new_zeros(len(inputs), 3)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().squeeze(1)
            if len(rows):
                output = output.index_put((rows,), expert(inputs[rows]) * share[rows, None])
        return output


def scripted(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made: nn.Module = torch.jit.script(module)
    return made


def double(values: Tensor) -> Tensor:
    return 2 * values


def hard_only(output: Tensor, target: Tensor) -> Tensor:
    """The samples that are still wrong, if there are any."""
    losses = F.cross_entropy(output, target, reduction="none")
    hard = (losses > 1.0).nonzero().squeeze(1)
    if len(hard) == 0:
        return losses.mean() * 0.5
    return losses[hard].mean()


def by_list(output: Tensor, target: Tensor) -> Tensor:
    right: list[bool] = (output.argmax(1) == target).tolist()
    return F.cross_entropy(output, target) * (1 + sum(right))


def by_numpy(output: Tensor, target: Tensor) -> Tensor:
    right = (output.argmax(1) == target).detach().numpy()
    return F.cross_entropy(output, target) * float(1 + right.sum())


def by_mask(output: Tensor, target: Tensor) -> Tensor:
    losses = F.cross_entropy(output, target, reduction="none")
    return losses[losses >= losses.detach().median()].mean()


def focal(output: Tensor, target: Tensor) -> Tensor:
    log = F.cross_entropy(output, target, reduction="none")
    return ((1 - (-log).exp()) ** 2 * log).mean()


def dice(output: Tensor, target: Tensor) -> Tensor:
    chance, wanted = output.softmax(1), F.one_hot(target, output.shape[1])
    return 1 - (2 * (chance * wanted).sum(0) / (chance + wanted).sum(0).clamp(min=1)).mean()


def in_place(net: Any, x: Tensor) -> Tensor:
    x[:, 0] = 0
    return plain(net, x)


def clamped(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, target.clamp_(-1, 1))


def counting(net: Any, x: Tensor) -> Tensor:
    net.calls = getattr(net, "calls", 0) + 1
    return plain(net, x) * (2.0 if net.calls % 3 == 0 else 1.0)


def growing(net: Any, x: Tensor) -> Tensor:
    net.seen.append(float(x.mean()))
    return plain(net, x)


def caching(net: Any, x: Tensor) -> Tensor:
    net.hidden, net.shape = net.first(x).tanh(), x.shape
    output: Tensor = net.last(net.hidden)
    return output


def max_norm(net: Any, x: Tensor) -> Tensor:
    net.first.weight.data = net.first.weight.data.renorm(2, 0, 1.0)
    return plain(net, x)


def assigned(net: Any, x: Tensor) -> Tensor:
    net.mean = 0.9 * net.mean + 0.1 * x.detach().mean(0)
    return plain(net, x - net.mean)


def written(net: Any, x: Tensor) -> Tensor:
    if net.training:
        net.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
    return plain(net, x - net.mean)


def forgetting(net: Any, x: Tensor) -> Tensor:
    net.zero_grad()
    return plain(net, x)


def rarely_random(net: Any, x: Tensor) -> Tensor:
    hidden = plain(net, x)
    return hidden + torch.rand(3) if float(hidden.detach().abs().max()) > 1.5 else hidden


HIDDEN, OWN, CALLS = np.random.default_rng(0), random.Random(0), [0]


def noisy_by_numpy(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output + float(HIDDEN.normal()), target)


def noisy_by_python(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target) * (1 + OWN.random())


def noisy_by_global(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target) * (1 + random.random())


def counting_loss(output: Tensor, target: Tensor) -> Tensor:
    CALLS[0] += 1
    return F.cross_entropy(output, target) * (1 + CALLS[0] % 2)


def penalised(net: Any) -> Loss:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        penalty = torch.stack([one.square().sum() for one in net.parameters()]).sum()
        return F.cross_entropy(output, target) + 0.01 * penalty

    return loss


class Weighted(nn.Module):
    """A loss with a temperature of its own, which is to be trained."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output / self.temperature, target)


def equal(name: str, make: Callable[[], nn.Module], loss: Loss | None = None, **more: Any) -> Entry:
    """An entry that is trained; `loss` does not look at the network."""
    return Entry(name, make, **more) if loss is None else Entry(name, make, lambda _: loss, **more)


def refused(
    name: str, make: Callable[[], nn.Module], sentence: str, loss: Loss | None = None, **more: Any
) -> Entry:
    """An entry that is refused before training."""
    return equal(name, make, loss, refusal=sentence, **more)


def _with_hooks_on_parameters() -> nn.Module:
    net = nn.Linear(6, 3)
    net.weight.register_hook(double)  # type: ignore[no-untyped-call]
    return net


def _hooked() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    net[0].register_forward_hook(lambda module, inputs, output: double(output))
    return net


NET = around(plain)
ZOO = [
    equal("linear", lambda: nn.Linear(6, 3)),
    equal("perceptron", stack(first, nn.ReLU, last)),
    equal("leaky", stack(first, nn.LeakyReLU, last)),
    equal("gelu", stack(first, nn.GELU, last)),
    equal("prelu", stack(first, nn.PReLU, last)),
    equal("in-place activation", stack(first, lambda: nn.ReLU(inplace=True), last)),
    equal("residual", stack(first, lambda: Residual(nn.Linear(4, 4)), last)),
    equal("batch norm", stack(first, lambda: nn.BatchNorm1d(4), last)),
    equal(
        "batch norm without momentum", stack(first, lambda: nn.BatchNorm1d(4, momentum=None), last)
    ),
    equal(
        "batch norm without statistics",
        stack(first, lambda: nn.BatchNorm1d(4, track_running_stats=False), last),
    ),
    equal("layer norm", stack(first, lambda: nn.LayerNorm(4), last)),
    equal("group norm", stack(first, lambda: nn.GroupNorm(1, 4), last)),
    equal("rms norm", stack(first, lambda: nn.RMSNorm(4), last)),
    equal("weight norm", stack(lambda: parametrizations.weight_norm(nn.Linear(6, 4)), last)),
    equal(
        "spectral norm", stack(first, lambda: parametrizations.spectral_norm(nn.Linear(4, 4)), last)
    ),
    equal("orthogonal", stack(first, lambda: parametrizations.orthogonal(nn.Linear(4, 4)), last)),
    equal("tied", Tied),
    equal("frozen layer and adapter", LowRank),
    equal(
        "convolutions",
        stack(lambda: nn.Conv2d(2, 4, 3), nn.ReLU, nn.Flatten, lambda: nn.Linear(36, 3)),
        data="images",
    ),
    equal(
        "convolutions, batch norm, pooling",
        stack(
            lambda: nn.Conv2d(2, 4, 3),
            lambda: nn.BatchNorm2d(4),
            lambda: nn.AdaptiveAvgPool2d(1),
            nn.Flatten,
            last,
        ),
        data="images",
    ),
    equal(
        "transposed convolution",
        stack(lambda: nn.ConvTranspose2d(2, 1, 2), nn.Flatten, lambda: nn.Linear(36, 3)),
        data="images",
    ),
    equal(
        "max pooling",
        stack(lambda: nn.MaxPool2d(2), nn.Flatten, lambda: nn.Linear(8, 3)),
        data="images",
    ),
    equal(
        "instance norm",
        stack(lambda: nn.InstanceNorm2d(2, affine=True), nn.Flatten, lambda: nn.Linear(50, 3)),
        data="images",
    ),
    equal("embedding", lambda: Reader(nn.Identity()), data="tokens"),
    equal("embedding bag", stack(lambda: nn.EmbeddingBag(7, 4), last), data="tokens"),
    equal("lstm", lambda: Reader(nn.LSTM(4, 4, batch_first=True)), data="tokens"),
    equal("gru", lambda: Reader(nn.GRU(4, 4, batch_first=True)), data="tokens"),
    equal("rnn", lambda: Reader(nn.RNN(4, 4, batch_first=True)), data="tokens"),
    equal(
        "transformer",
        lambda: Reader(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)),
        data="tokens",
    ),
    equal(
        "bilinear",
        around(lambda net, x: net.last(net.pair(x, x)), pair=lambda: nn.Bilinear(6, 6, 4)),
    ),
    equal(
        "parameter of its own",
        around(lambda net, x: plain(net, x) * net.scale, scale=lambda: nn.Parameter(torch.ones(3))),
    ),
    equal("hard mixture of experts", Experts, keys={"learning_rate": 0.5}),
    equal("buffer that is written", around(written, mean=lambda: torch.zeros(6))),
    equal("activations kept for later", around(caching)),
    equal("forward hook", _hooked),
    equal("focal loss", NET, focal),
    equal("dice loss", NET, dice),
    equal("label smoothing", NET, nn.CrossEntropyLoss(label_smoothing=0.1)),
    equal("weights of classes", NET, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))),
    equal("huber", lambda: nn.Linear(6, 1), nn.HuberLoss(), data="numbers"),
    equal("l1", lambda: nn.Linear(6, 1), F.l1_loss, data="numbers"),
    equal("momentum", NET, keys={"momentum": 0.9}),
    equal("adam", NET, keys={"optimiser": "adam", "learning_rate": 0.01}),
    equal("weight decay", NET, keys={"weight_decay": 0.1}),
    equal("hard samples alone", NET, hard_only, keys={"learning_rate": 0.5}),
    equal("a list of the host", NET, by_list),
    equal("an array of the host", NET, by_numpy),
    equal("a mask", NET, by_mask),
    equal("inputs changed in place", around(in_place)),
    equal("inputs changed by a layer", stack(lambda: nn.ReLU(inplace=True), first, last)),
    equal("targets changed in place", lambda: nn.Linear(6, 1), clamped, data="numbers"),
    refused("counts its calls", around(counting), "changes calls from call to call"),
    refused("a list that grows", around(growing, seen=list), "changes seen from call to call"),
    refused("max norm by .data", around(max_norm), "moves its parameter first.weight"),
    refused(
        "assigned buffer", around(assigned, mean=lambda: torch.zeros(6)), "moves its buffer mean"
    ),
    refused("zero_grad in forward", around(forgetting), "moves the gradient of first.weight"),
    refused("torchscript", lambda: scripted(nn.Linear(6, 3)), "has TorchScript modules"),
    refused(
        "torchscript inside",
        stack(first, lambda: scripted(nn.Linear(4, 3))),
        "has TorchScript modules",
    ),
    Entry(
        "a part of the network",
        around(plain, criterion=nn.CrossEntropyLoss),
        lambda net: net.criterion,
    ),
    Entry("a penalty over the parameters", NET, penalised, refusal="has a gradient for parameters"),
    Entry(
        "a loss with weights", NET, lambda _: Weighted(), refusal="has a gradient for parameters"
    ),
    refused("hooks on parameters", _with_hooks_on_parameters, "has hooks on parameters"),
    refused("noise", around(lambda net, x: plain(net, x) + torch.rand(3)), "draws random numbers"),
    refused("noise of a loss by NumPy", NET, "draws random numbers", noisy_by_numpy),
    refused("noise of a loss by Python", NET, "draws random numbers", noisy_by_python),
    refused(
        "noise of a loss by the generator of all", NET, "draws random numbers", noisy_by_global
    ),
    refused("a loss that counts", NET, "changes CALLS from call to call", counting_loss),
    refused(
        "noise in rare cases",
        around(rarely_random),
        "draws random numbers",
        keys={"learning_rate": 1.0},
    ),
]
