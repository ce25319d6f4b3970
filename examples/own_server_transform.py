"""A server transform of your own: Gaussian noise on the server's step, after clipping.

favano run --algorithm fedavg --server clip:1.0,examples/own_server_transform.py:Noise:0.01
"""

import torch

import favano


class Noise(favano.ServerTransform[int]):
    """D <- D + scale xi_t with xi_t ~ N(0, I), drawn anew at each update t.

    The state is t, and the draw a function of t and the seed: the same inputs, the same noise.
    """

    scale: float = favano.option(0.01, "standard deviation of a parameter", symbol="sigma")
    noise_seed: int = favano.option(0, "of the draws")

    def init(self, model):
        return 0

    def step(self, state, step):
        draws = torch.Generator().manual_seed(1_000_003 * self.noise_seed + state)
        noise = torch.randn(len(step), generator=draws, dtype=step.dtype)
        return step + self.scale * noise.to(step.device), state + 1


if __name__ == "__main__":
    keys = {"clients": 20, "selected": 5, "local_steps": 10, "horizon": 500}
    for server in (["clip:1.0"], ["clip:1.0", Noise(scale=0.01)], ["clip:1.0", Noise(scale=0.1)]):
        result = favano.simulate("fedavg", "digits", server=server, **keys)
        print(*server, result)
