"""A plain PyTorch loop, as people write it for a paper.

Equal work by construction: 20 of 100 clients, 20 steps each on 128 samples drawn by a shuffled
index that starts over when fewer than 128 are left, `torch.optim.SGD`, mean of the state dicts.
Threads are PyTorch's default, one per core.
"""

from __future__ import annotations

import torch
from common import (
    BATCH,
    CLASSES,
    CLIENTS,
    HIDDEN,
    INPUTS,
    LOCAL_STEPS,
    RATE,
    SAMPLES,
    SELECTED,
    Meter,
    samples,
    seconds_argument,
)
from torch import Tensor, nn
from torch.nn import functional


def train(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Take the local steps of one client."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    order, position = torch.randperm(SAMPLES), 0
    for _ in range(LOCAL_STEPS):
        if position + BATCH > SAMPLES:
            order, position = torch.randperm(SAMPLES), 0
        batch = order[position : position + BATCH]
        position += BATCH
        optimizer.zero_grad()
        functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()


def main() -> None:
    """Rounds of federated averaging until the time is over."""
    seconds = seconds_argument()
    torch.manual_seed(0)
    images, labels = map(torch.from_numpy, samples())
    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    server = {name: value.clone() for name, value in model.state_dict().items()}
    meter, done = Meter("plain", seconds), False
    while not done:
        replies = []
        for client in torch.randperm(CLIENTS)[:SELECTED].tolist():
            model.load_state_dict(server)
            train(model, images[client], labels[client])
            replies.append({name: value.clone() for name, value in model.state_dict().items()})
        server = {name: torch.stack([reply[name] for reply in replies]).mean(0) for name in server}
        done = meter.over()
    meter.report("torch")


if __name__ == "__main__":
    main()
