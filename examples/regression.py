"""Regression with unequal clients: few or many samples, fast or slow, each with its own offset.

    python examples/regression.py

Slow clients are those with large targets. FedAvg waits for them; FedBuff takes what comes first, so
that slow clients have a small share in the model, and its error is larger; FAVANO weighs by steps.
"""

import torch
from torch import nn

import favano

CLIENTS, SLOW = 12, 4
random = torch.Generator().manual_seed(0)
slopes = torch.randn(5, 1, generator=random)


def samples(client, count):
    """A line with noise; the clients from 0 to SLOW - 1 have an offset of 3."""
    x = torch.randn(count, 5, generator=random)
    noise = 0.1 * torch.randn(count, 1, generator=random)
    return x, x @ slopes + (3.0 if client < SLOW else 0.0) + noise


def error(outputs, targets):
    """The mean squared distance from the target."""
    return float((outputs - targets).square().mean())


def main(horizon=4000):
    train = [samples(client, 20 + 30 * client) for client in range(CLIENTS)]
    tests = [samples(client, 50) for client in range(CLIENTS)]  # as many of each client
    test = tuple(torch.cat(parts) for parts in zip(*tests, strict=True))
    problem = favano.Problem(
        nn.Linear(5, 1),
        train,
        test,
        loss=nn.functional.mse_loss,
        metrics={"error": favano.Metric(error, best="low")},
        batch_size=16,
    )
    fleet = favano.Fleet(mean=[20.0] * SLOW + [2.0] * (CLIENTS - SLOW))
    keys = {"selected": 4, "learning_rate": 0.01, "seeds": 2}
    compared = favano.compare(
        ["favano", "fedavg", "fedbuff"], problem, fleet, horizon=horizon, evaluate_every=500, **keys
    )
    for result in compared.results:
        share = sum(speed.weight for speed in result.audit.speeds if speed.name == "slow")
        mean = sum(result.final()) / len(result.final())
        print(f"{result.title:8} error {mean:.2f}, slow clients have {share:.0%} of the model")
    return compared


if __name__ == "__main__":
    main()
