"""Memory, bits and speed of low-rank adapters on a GPT-2 of 124 million parameters.

    python benchmarks/adapters.py                  # on the CPU
    python benchmarks/adapters.py --device cuda

The base has random weights and is frozen. Memory is that of this process and its workers together
(each shared page counted once), above what it was with the network alone, and on a GPU what
PyTorch had allocated at most. With more clients, both may grow by their adapters alone.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn import functional

import favano

MIB = 2**20


class Adapted(nn.Module):
    """A frozen layer, and a correction of low rank: W x + B A x."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        fixed = self.base(inputs.to(self.base.weight.dtype)).to(inputs.dtype)
        output: Tensor = fixed + self.up(self.down(inputs))
        return output


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wider, self.narrower = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        count, length, width = hidden.shape
        three = self.attention(self.first(hidden)).view(count, length, 3, self.heads, -1)
        query, key, value = three.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.mix(seen.transpose(1, 2).reshape(count, length, width))
        wide = functional.gelu(self.wider(self.second(hidden)), approximate="tanh")
        output: Tensor = hidden + self.narrower(wide)
        return output


class GPT2(nn.Module):
    """The layers of GPT-2; the output layer is that of the tokens."""

    def __init__(self, tokens: int, places: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(places, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, text: Tensor) -> Tensor:
        """(N, T) to (N, tokens, T)."""
        places = torch.arange(text.shape[1], device=text.device)
        hidden = self.norm(self.blocks(self.tokens(text) + self.places(places)))
        return (hidden @ self.tokens.weight.T).transpose(1, 2)


def adapted(rank: int, small: bool) -> GPT2:
    """The frozen network, with adapters in every attention."""
    torch.manual_seed(0)
    network = GPT2(99, 64, 32, 2, 4) if small else GPT2(50257, 1024, 768, 12, 12)
    network.requires_grad_(False)
    for block in network.blocks:
        block.attention = Adapted(block.attention, rank)
    return network


def shared_memory() -> int:
    """Bytes of this process and its children, every shared page in parts."""
    family = [os.getpid(), *_children(os.getpid())]
    total = 0
    for process in family:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 1024 * total


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


class Peak:
    """The most memory in a `with` block, looked at ten times per second."""

    def __enter__(self) -> Peak:
        self.most, self._ended = shared_memory(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self.most = max(self.most, shared_memory())

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


def measured(network: GPT2, clients: int, options: argparse.Namespace) -> dict[str, object]:
    tokens = network.tokens.num_embeddings
    text = torch.randint(0, tokens, (2 * clients + 4, options.length + 1))
    pair = text[:, :-1], text[:, 1:]
    train, test = (tuple(x[part] for x in pair) for part in (slice(4, None), slice(4)))
    problem = favano.Problem(network, train, test, split="iid", batch_size=2, metrics={})
    cuda = options.device == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    before, began = shared_memory(), perf_counter()
    with Peak() as peak:
        result = favano.simulate(
            "favano",
            problem,
            favano.Fleet(clients=clients),
            selected=max(1, clients // 10),
            local_steps=2,
            learning_rate=0.01,
            horizon=options.horizon,
            evaluate_every=options.horizon,
            device=options.device,
            progress=False,
        )
    last = result.rows[-1]
    trained = sum(p.numel() for p in network.parameters() if p.requires_grad)
    messages = last.bits_up / (32 * trained)
    return {
        "clients": clients,
        "trained": trained,
        "growth_mib": round((peak.most - before) / MIB),
        "gpu_peak_mib": round(torch.cuda.max_memory_allocated() / MIB) if cuda else None,
        "messages_up": messages,  # whole, if bits are those of the adapters
        "local_steps": last.local_steps,
        "seconds": round(perf_counter() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--horizon", type=float, default=20.0)
    parser.add_argument("--small", action="store_true", help="a network of 30,000 parameters")
    options = parser.parse_args()
    network = adapted(options.rank, options.small)
    frozen = sum(p.numel() for p in network.parameters() if not p.requires_grad)
    print(json.dumps({"frozen": frozen, "base_mib": round(4 * frozen / MIB)}))
    for clients in options.clients:
        print(json.dumps(measured(network, clients, options)), flush=True)


if __name__ == "__main__":
    main()
