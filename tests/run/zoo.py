"""Networks and losses as people write them, each with its verdict.

An entry is a network, perhaps a loss, and what must become of them: the numbers of a simulation by
hand, or the sentence with which they are refused. `test_zoo.py` trains all of them in every way.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
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
    drops: bool = False  # whether it has dropout
    refusal: str = ""  # the beginning of the sentence; empty: it is trained
    one_by_one: str = ""  # the same where many models at once cannot be trained


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
        hidden = self.layer(self.embed(tokens))
        output: Tensor = self.last((hidden[0] if isinstance(hidden, tuple) else hidden).mean(1))
        return output


class Heads(nn.Module):
    """Attention of a layer to itself, as written by hand around PyTorch's function."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 12)

    def forward(self, inputs: Tensor) -> Tensor:
        mixed = self.mix(inputs).view(*inputs.shape[:-1], 3, 2, 2).permute(2, 0, 3, 1, 4)
        query, key, value = mixed.unbind()
        p = 0.2 if self.training else 0.0
        attended = F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)
        return attended.transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    """A decoder that reads what it writes, with a mask of PyTorch's."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.last = nn.Embedding(7, 4), nn.Linear(4, 3)
        self.layer = nn.TransformerDecoderLayer(4, 2, 8, batch_first=True)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(5))

    def forward(self, tokens: Tensor) -> Tensor:
        inputs = self.embed(tokens)
        output: Tensor = self.last(self.layer(inputs, inputs, self.mask)[:, -1])
        return output


class Attention(nn.Module):
    """A head of attention that is weighed by a function of its buffers."""

    def __init__(self, weigh: Callable[[Any, Tensor], Tensor], **buffers: Tensor) -> None:
        super().__init__()
        self.embed, self.last, self.weigh = nn.Embedding(7, 4), nn.Linear(4, 3), weigh
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=not name.endswith("_cache"))

    def forward(self, tokens: Tensor) -> Tensor:
        inputs = self.embed(tokens)
        output: Tensor = self.last((self.weigh(self, inputs) @ inputs).mean(1))
        return output


def causal(net: Any, x: Tensor) -> Tensor:
    mask: Tensor = net.mask
    return (x @ x.mT + mask).softmax(-1)


def causal_in_bool(net: Any, x: Tensor) -> Tensor:
    return (x @ x.mT).masked_fill(~net.mask, -1e9).softmax(-1)


def rotary(net: Any, x: Tensor) -> Tensor:
    """Rotates pairs of numbers by an angle that grows with the place."""
    mask: Tensor = net.mask_cache
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], 2, 2)) * net.turns
    real = torch.view_as_real(turned).flatten(-2)
    return (real @ real.mT + mask).softmax(-1)


def by_places(net: Any, x: Tensor) -> Tensor:
    bias: Tensor = net.bias[net.places[:, None] - net.places + 4]
    return (x @ x.mT + bias).softmax(-1)


def turns() -> Tensor:
    return torch.polar(torch.ones(5, 2), torch.arange(5.0)[:, None] * torch.tensor([1.0, 0.1]))


UPPER = torch.full((5, 5), float("-inf")).triu(1)


def hashed(net: Any, x: Tensor) -> Tensor:
    """Features by a hash whose factor is beyond the whole numbers of float32."""
    places = ((x * 100).long() * net.factor) % 11
    return plain(net, x + net.steps + places.float() / 11)


def in_double(net: Any, x: Tensor) -> Tensor:
    return plain(net, (x.double() - net.centre).float())


def switching(net: Any, x: Tensor) -> Tensor:
    """As layers that set themselves up by their first batch do."""
    if net.training and not net.ready:
        net.shift.copy_(x.detach().mean(0))
        net.ready.fill_(True)
    return plain(net, x - net.shift)


def counting_far(net: Any, x: Tensor) -> Tensor:
    net.calls.add_(1)
    return plain(net, x)


def turning(net: Any, x: Tensor) -> Tensor:
    if net.training:
        net.phase.mul_(1j)
    return plain(net, x)


class Tied(nn.Module):
    """The same weights at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)
        self.last.weight = self.first.weight

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.last(self.first(inputs).relu())
        return output


class TwiceUsed(nn.Module):
    """The same layer under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        self.second = self.first

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.last(self.second(self.first(inputs).relu()))
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


def hooking(net: Any, x: Tensor) -> Tensor:
    hidden = net.first(x)
    if hidden.requires_grad:
        hidden.register_hook(double)
    output: Tensor = net.last(hidden.tanh())
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


def squares(net: Any) -> Tensor:
    return torch.stack([parameter.square().sum() for parameter in net.parameters()]).sum()


def with_penalty(net: Any, output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target) + 0.05 * squares(net)


def penalised(net: Any) -> Loss:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return with_penalty(net, output, target)

    return loss


def penalised_by_list(net: Any) -> Loss:
    weights = [weight for name, weight in net.named_parameters() if "weight" in name]
    return lambda output, target: (
        F.cross_entropy(output, target) + 0.05 * sum(weight.abs().sum() for weight in weights)
    )


def penalised_by_layer(net: Any) -> Loss:
    layer = net.last
    return lambda output, target: F.cross_entropy(output, target) + layer.weight.square().mean()


def penalised_by_global(net: Any) -> Loss:
    """As in a script or a notebook, where all names are global."""
    scope: dict[str, Any] = {"F": F, "net": net, "squares": squares}
    exec(
        "def penalty():\n    return 0.05 * squares(net)\n"
        "def loss(output, target):\n    return F.cross_entropy(output, target) + penalty()\n",
        scope,
    )
    made: Loss = scope["loss"]
    return made


class Trainer:
    """Holds a network, a loss, and what cannot be copied."""

    def __init__(self, net: nn.Module) -> None:
        self.net, self.lock = net, Lock()
        self.penalty: Callable[[], Tensor] = lambda: 0.05 * squares(self.net)
        self.loss: Loss = lambda output, target: F.cross_entropy(output, target) + self.penalty()

    def compute(self, output: Tensor, target: Tensor) -> Tensor:
        return with_penalty(self.net, output, target)


class Judging(nn.Module):
    """A network with a loss as its method."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return plain(self, inputs)

    def criterion(self, output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target) + self.first.weight.abs().mean()


class Weighted(nn.Module):
    """A loss with a temperature of its own, which is to be trained."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output / self.temperature, target)

    def harsh(self, output: Tensor, target: Tensor) -> Tensor:
        return 2 * self.forward(output, target)


class Proxies(nn.Module):
    """A loss with a vector per class, a constant, and a penalty over the network that it holds."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.scale = net, nn.Parameter(torch.tensor(4.0), requires_grad=False)
        self.proxies = nn.Parameter(torch.eye(3) + 0.1)
        self.register_buffer("prior", torch.tensor([0.1, 0.2, 0.3]))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        near = F.normalize(output, dim=1) @ F.normalize(self.proxies, dim=1).T
        prior = dict(self.named_buffers())["prior"]
        return F.cross_entropy(self.scale * near + prior, target) + 0.05 * squares(self.net)


def holding_another(net: Any) -> Loss:
    other = nn.Linear(3, 3)
    return lambda output, target: F.cross_entropy(other(output), target)


class Distilled(Weighted):
    """A teacher beside the temperature."""

    def __init__(self, frozen: bool) -> None:
        super().__init__()
        self.teacher = nn.Linear(3, 3).requires_grad_(not frozen)

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = self.teacher(output).softmax(1)
        return super().forward(output, target) + F.cross_entropy(output, wanted)


class Scaled(nn.Module):
    """A loss that keeps a running mean."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(()))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        loss, mean = F.cross_entropy(output, target), dict(self.named_buffers())["mean"]
        return loss / mean.mul_(0.9).add_(loss.detach(), alpha=0.1)


def input_slope(net: Any) -> Loss:
    """A penalty on the slope at fixed points, for which the loss calls the network."""

    def loss(output: Tensor, target: Tensor) -> Tensor:
        points = POINTS[:3].clone().requires_grad_()
        (slope,) = torch.autograd.grad(net(points).sum(), points, create_graph=True)
        return F.cross_entropy(output, target) + slope.square().mean()

    return loss


def own_slope(net: Any, x: Tensor) -> Tensor:
    """Outputs and, as a last one, the slope of their sum."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        output = plain(net, x)
        (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    return torch.cat([output, slope.square().sum(1, keepdim=True)], 1)


def with_own_slope(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output[:, :-1], target) + output[:, -1].mean()


def contrastive(output: Tensor, target: Tensor) -> Tensor:
    alike = (target[:, None] == target).float()
    near = (output @ output.T).log_softmax(1)
    return -(near * alike).sum(1).div(alike.sum(1)).mean()


def of_four(output: Tensor, target: Tensor) -> Tensor:
    assert len(output) >= 4, "need four rows"
    return F.cross_entropy(output, target) + output.var(0).mean()


def _with_zero_head() -> nn.Module:
    net: Any = around(plain)()
    nn.init.zeros_(net.last.weight)
    nn.init.zeros_(net.last.bias)
    made: nn.Module = net
    return made


def _with_a_lock() -> nn.Module:
    net = nn.Linear(6, 3)
    net.lock = Lock()  # type: ignore[assignment]
    return net


def one_or_other(net: Any, x: Tensor) -> Tensor:
    """The sign of a mean decides which layer is used."""
    way = net.left if float(net.first(x).detach().mean()) > 0 else net.right
    output: Tensor = way(net.first(x).tanh())
    return output


def kept_activation(net: Any) -> Loss:
    """Activity of a hidden layer, which a hook keeps."""
    kept: dict[str, Tensor] = {}

    def keep(layer: nn.Module, inputs: Any, output: Tensor) -> None:
        kept["hidden"] = output

    net.first.register_forward_hook(keep)
    return lambda output, target: F.cross_entropy(output, target) + kept["hidden"].abs().mean()


def equal(name: str, make: Callable[[], nn.Module], loss: Loss | None = None, **more: Any) -> Entry:
    """An entry that is trained; `loss` does not look at the network."""
    return Entry(name, make, **more) if loss is None else Entry(name, make, lambda _: loss, **more)


def refused(
    name: str, make: Callable[[], nn.Module], sentence: str, loss: Loss | None = None, **more: Any
) -> Entry:
    """An entry that is refused before training."""
    return equal(name, make, loss, refusal=sentence, **more)


def on_parameter(parameter: Tensor, hook: Callable[[Tensor], Tensor | None]) -> None:
    parameter.register_hook(hook)  # type: ignore[no-untyped-call]


def _with_hooks_on_parameters() -> nn.Module:
    first, other = nn.Linear(6, 4), nn.Linear(4, 3)
    on_parameter(first.weight, double)
    on_parameter(first.weight, lambda slope: slope.clamp(-0.1, 0.1))
    on_parameter(other.weight, lambda slope: slope / (1e-3 + slope.norm()))
    on_parameter(other.bias, lambda slope: None)
    return nn.Sequential(first, other)


def _with_a_hook_that_decays() -> nn.Module:
    net = nn.Linear(6, 3)
    on_parameter(net.weight, lambda slope: slope + 0.1 * net.weight.detach())
    return net


def _with_hooks_after_sums() -> nn.Module:
    net = nn.Linear(6, 3)
    net.weight.register_post_accumulate_grad_hook(lambda parameter: None)  # type: ignore[no-untyped-call]
    return net


def _with_backward_hook() -> nn.Module:
    def tripled(layer: nn.Module, given: Any, _: Any) -> tuple[Tensor]:
        return (3 * given[0],)

    net = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    net[1].register_full_backward_hook(tripled)
    return net


def _with_a_hook_that_holds_the_network() -> nn.Module:
    net: Any = around(plain, scale=lambda: nn.Parameter(torch.ones(3)))()
    net.last.register_forward_hook(lambda layer, given, output: output * net.scale)
    made: nn.Module = net
    return made


def _with_another_forward() -> nn.Module:
    net: Any = around(plain)()
    net.forward = lambda inputs: 2 * net.last(net.first(inputs).relu())
    made: nn.Module = net
    return made


def _with_old_weight_norm() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 4)), nn.Linear(4, 3))


def _hooked() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    net[0].register_forward_hook(lambda module, inputs, output: double(output))
    return net


NET = around(plain)
OPTIMISERS: Mapping[str, Mapping[str, object]] = {
    "momentum": {"momentum": 0.9, "learning_rate": 0.5},
    "decay": {"weight_decay": 0.1, "momentum": 0.9, "learning_rate": 0.5},
    "adam": {"optimiser": "adam", "learning_rate": 0.1},
    "adamw": {"optimiser": "adamw", "weight_decay": 0.1, "learning_rate": 0.1},
}
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
        "batch norm without momentum",
        stack(first, lambda: nn.BatchNorm1d(4, momentum=None), last),
        one_by_one=".*item",
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
        "spectral norm",
        stack(first, lambda: parametrizations.spectral_norm(nn.Linear(4, 4)), last),
        one_by_one=".*batching rule not|.*Batching rule not",
    ),
    equal("orthogonal", stack(first, lambda: parametrizations.orthogonal(nn.Linear(4, 4)), last)),
    equal("tied", Tied),
    equal("a layer that is used twice", TwiceUsed),
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
    equal("dropout", stack(first, nn.Dropout, last), drops=True),
    equal(
        "transformer with dropout",
        lambda: Reader(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)),
        data="tokens",
        drops=True,
    ),
    equal(
        "transformer of several layers, norm first",
        lambda: Reader(
            nn.TransformerEncoder(
                nn.TransformerEncoderLayer(4, 2, 8, 0.3, "gelu", batch_first=True, norm_first=True),
                2,
                enable_nested_tensor=False,
            )
        ),
        data="tokens",
        drops=True,
    ),
    equal("decoder and its causal mask", Decoder, data="tokens", drops=True),
    equal("attention with dropout", lambda: Reader(Heads()), data="tokens", drops=True),
    equal(
        "lstm with dropout",
        lambda: Reader(nn.LSTM(4, 4, 2, dropout=0.3, batch_first=True)),
        data="tokens",
        drops=True,
    ),
    equal(
        "gru both ways with dropout",
        lambda: Reader(nn.GRU(4, 2, 3, dropout=0.3, batch_first=True, bidirectional=True)),
        data="tokens",
        drops=True,
    ),
    equal(
        "bilinear",
        around(lambda net, x: net.last(net.pair(x, x)), pair=lambda: nn.Bilinear(6, 6, 4)),
    ),
    equal(
        "parameter of its own",
        around(lambda net, x: plain(net, x) * net.scale, scale=lambda: nn.Parameter(torch.ones(3))),
    ),
    equal(
        "hard mixture of experts",
        Experts,
        keys={"learning_rate": 0.5},
        one_by_one=".*dynamic shape",
    ),
    equal("buffer that is written", around(written, mean=lambda: torch.zeros(6))),
    equal("causal mask", lambda: Attention(causal, mask=UPPER), data="tokens"),
    equal("causal mask in bool", lambda: Attention(causal_in_bool, mask=UPPER == 0), data="tokens"),
    equal(
        "rotary embedding, and a mask that is not saved",
        lambda: Attention(rotary, turns=turns(), mask_cache=UPPER),
        data="tokens",
    ),
    equal(
        "places as whole numbers",
        lambda: Attention(by_places, bias=torch.linspace(-1, 1, 9), places=torch.arange(5)),
        data="tokens",
    ),
    equal(
        "large whole number",
        around(hashed, factor=lambda: torch.tensor(2**31 + 5), steps=lambda: torch.tensor(3)),
    ),
    equal(
        "float64 buffer",
        around(in_double, centre=lambda: torch.tensor([1 / 3, 0, 0, 0, 0, 1e-9]).double() / 3),
    ),
    equal(
        "set up by the first batch",
        around(switching, shift=lambda: torch.zeros(6), ready=lambda: torch.tensor(False)),
        one_by_one=".*data-dependent control flow",
    ),
    refused(
        "counts from a large number",
        around(counting_far, calls=lambda: torch.tensor(2**24 + 1)),
        r"changes its buffer calls \(torch.int64\) in training",
    ),
    refused(
        "complex buffer that is written",
        around(turning, phase=lambda: torch.ones(2, dtype=torch.complex64)),
        r"changes its buffer phase \(torch.complex64\) in training",
    ),
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
    equal(
        "hard samples alone",
        NET,
        hard_only,
        keys={"learning_rate": 0.5},
        one_by_one=".*dynamic shape",
    ),
    equal("a list of the host", NET, by_list, one_by_one=".*data pointer"),
    equal("an array of the host", NET, by_numpy, one_by_one=".*data pointer"),
    equal("a mask", NET, by_mask, one_by_one=".*dynamic shape"),
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
    Entry("a penalty over the parameters", NET, penalised),
    Entry("a penalty and Adam", NET, penalised, keys={"optimiser": "adam", "learning_rate": 0.01}),
    Entry("a penalty and batch norm", stack(first, lambda: nn.BatchNorm1d(4), last), penalised),
    Entry("a penalty by a partial", NET, lambda net: partial(with_penalty, net)),
    Entry(
        "a penalty over a list of parameters",
        NET,
        penalised_by_list,
        one_by_one=".*it keeps parameters of the network; let it keep",
    ),
    Entry("a penalty over a layer", NET, penalised_by_layer),
    Entry("a penalty over a global network", NET, penalised_by_global),
    Entry("a lambda that holds self", NET, lambda net: Trainer(net).loss),
    Entry("a method of what holds the network", NET, lambda net: Trainer(net).compute),
    Entry("a method of the network", Judging, lambda net: net.criterion),
    Entry("an activation kept by a hook", NET, kept_activation),
    Entry("a loss with weights", NET, lambda _: Weighted()),
    Entry("a loss with weights and momentum", NET, lambda _: Weighted(), keys={"momentum": 0.9}),
    Entry("a method of a loss with weights", NET, lambda _: Weighted().harsh),
    Entry("a loss with weights that holds the network", NET, Proxies),
    Entry(
        "a loss with weights and batch norm", stack(first, lambda: nn.BatchNorm1d(4), last), Proxies
    ),
    Entry(
        "a loss that holds another network",
        NET,
        holding_another,
        refusal=r"has a gradient for a tensor of shape \(3,",
    ),
    Entry("a loss with a frozen teacher", NET, lambda _: Distilled(True)),
    Entry(
        "a loss with a teacher",
        NET,
        lambda _: Distilled(False),
        refusal="has no gradient for its parameter teacher.weight",
    ),
    Entry("a loss with a running mean", NET, lambda _: Scaled(), refusal="changes its buffer mean"),
    Entry("a slope at fixed points", NET, input_slope, one_by_one=".*requires_grad_"),
    equal(
        "a slope among the outputs",
        around(own_slope),
        with_own_slope,
        one_by_one=".*requires_grad_",
    ),
    equal("a contrastive loss and a zero head", _with_zero_head, contrastive),
    equal("a loss of four rows", NET, of_four),
    equal("hooks on parameters", _with_hooks_on_parameters),
    equal("hooks on parameters and momentum", _with_hooks_on_parameters, keys={"momentum": 0.9}),
    equal(
        "a hook that reads a parameter",
        _with_a_hook_that_decays,
        one_by_one=".*it keeps parameters of the network; let it keep",
    ),
    refused("hooks after sums", _with_hooks_after_sums, "has hooks on parameters after gradients"),
    equal(
        "a hook on an activation", around(hooking), one_by_one=".*hooks on layers or activations"
    ),
    equal("backward hook", _with_backward_hook, one_by_one=".*hooks on layers or activations"),
    equal("a hook that holds the network", _with_a_hook_that_holds_the_network),
    equal("another forward", _with_another_forward),
    equal("old weight norm", _with_old_weight_norm),
    refused("a lock", _with_a_lock, "cannot be copied: TypeError"),
    refused("no values", lambda: nn.Linear(6, 3, device="meta"), "has no values for weight"),
    refused("detached", around(lambda net, x: plain(net, x).detach()), "has outputs without a"),
    *(
        equal(f"{what}, {how}", make, keys=keys, one_by_one=one_by_one)
        for what, make, one_by_one in (
            ("unused layer", around(plain, unused=lambda: nn.Linear(2, 2)), ""),
            ("layers used in turns", around(one_or_other, left=last, right=last), ".*item"),
        )
        for how, keys in OPTIMISERS.items()
    ),
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
