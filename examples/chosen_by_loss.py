"""A method that chooses its clients by loss: those that the model serves worst are asked first.

    favano run --algorithm examples/chosen_by_loss.py:WorstFirst --dataset digits --horizon 2000

What it sees of a client is the mean training loss of its last job, so that the schedule grows with
the run: `favano plan` refuses it, and lanes, checkpoints and `favano verify` know it.
"""

from dataclasses import replace

import numpy as np

import favano


class HighestLoss(favano.Selection):
    """Those with the highest loss; who has not been heard of goes first."""

    sees = ("loss",)

    def select(self, clients, size):
        loss = np.nan_to_num(clients.loss, nan=np.inf)
        return clients.client[np.lexsort((clients.random, -loss))[:size]]


class WorstFirst(favano.Method[favano.ModelState]):
    """The mean of what the chosen clients have learnt.

    Limitations: clients with noisy labels have high losses for ever.
    """

    linear = True

    def policy(self):
        return replace(self.context.rounds(), selection=HighestLoss())

    def aggregate(self, state, updates):
        return favano.ModelState(updates.end.mean(0))
