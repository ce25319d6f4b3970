"""CA2FL: FedBuff with a cached update for each client (Wang, Cao, Wu, Chen, Chen 2024).

favano run --algorithm examples/own_method.py:Ca2fl
favano compare --algorithms fedbuff,examples/own_method.py:Ca2fl
"""

from typing import NamedTuple

import favano


class Ca2flState(NamedTuple):
    """The server model, and the last update of every client."""

    model: favano.Vector
    cache: favano.Stack  # (n, P), h_i


class Ca2fl(favano.Method[Ca2flState]):
    """The mean of all cached updates is corrected by those that have just come in.

        v = mean_i h_i + mean_{i in S} (Delta_i - h_i),    w <- w + eta_g v,    h_i <- Delta_i

    Limitations: the server keeps n models; the cache of a slow client is old.
    """

    title = "CA2FL"
    linear = True
    buffer: int = favano.option(10, "answers per update", symbol="M")
    server_learning_rate: float = favano.option(1.0, "step of the server", symbol="eta_g")

    def policy(self):
        return self.context.buffered(
            buffer=self.buffer, hand_out="idle", concurrency=self.context.selected
        )

    def init(self, model):
        return Ca2flState(model, favano.zeros(model, rows=self.context.clients))

    def aggregate(self, state, updates):
        new, cache = updates.end - updates.start, state.cache
        step = cache.mean(0) + (new - cache[updates.client]).mean(0)
        model = state.model + self.server_learning_rate * step
        return Ca2flState(model, favano.with_rows(cache, updates.client, new))
