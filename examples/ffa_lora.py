"""FFA-LoRA: adapters B A x of which A is frozen, so that averages of clients are exact.

The mean of B_i A_i is not the mean of B_i times the mean of A_i; with one A for all it is (Sun et
al., "Improving LoRA in Privacy-preserving Federated Learning", 2024). The base is in bfloat16, and
B alone is trained, sent and saved.

python examples/ffa_lora.py
"""

import torch
from torch import nn

import favano


class Lora(nn.Module):
    """W x + B A x: W is the frozen base, A frozen noise, and B begins with zeros."""

    def __init__(self, base, rank=4, freeze_a=True):
        super().__init__()
        self.base = base.bfloat16().requires_grad_(False)
        self.a = nn.Linear(base.in_features, rank, bias=False).requires_grad_(not freeze_a)
        self.b = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x.bfloat16()).float() + self.b(self.a(x))


def network(freeze_a=True):
    torch.manual_seed(0)
    first, last = nn.Linear(20, 256), nn.Linear(256, 3)
    return nn.Sequential(Lora(first, 4, freeze_a), nn.ReLU(), Lora(last, 4, freeze_a))


def problem(model):
    x = torch.randn(1200, 20, generator=torch.Generator().manual_seed(1))
    y = x[:, :3].argmax(1)
    return favano.Problem(model, (x[:1000], y[:1000]), (x[1000:], y[1000:]), split="iid")


def simulated(model, **keys):
    fleet = favano.Fleet.two_speeds(20, fast=2 / 3)
    given = {"selected": 4, "learning_rate": 0.2, "horizon": 1000, **keys}
    return favano.simulate("fedavg", problem(model), fleet, **given)


if __name__ == "__main__":
    for name, freeze_a in (("FFA-LoRA", True), ("LoRA", False)):
        result = simulated(network(freeze_a))
        message = result.rows[0].bits_down / 32 / 4
        print(f"{name:8} {result.accuracy[0]:.0%}, {message:,.0f} numbers in a message")
