"""A policy of one's own: whom the server asks, when, and what it waits for.

    favano plan --algorithm examples/own_policy.py:Turns --clients 20
    favano run --algorithm examples/own_policy.py:Turns --dataset digits --horizon 500
    favano run --algorithm fedavg --policy examples/own_policy.py:LeastRecent --horizon 500

A simulation and a federation (`favano serve`) tell it what happens and do what it says.
"""

import favano


class LeastRecent(favano.Policy):
    """Every `period`, the s clients that were asked longest ago; what has come by then is used."""

    selected: int = favano.option(5, "clients asked per tick", symbol="s")
    period: float = favano.option(7.0, "time between ticks")

    def start(self, seed):
        self.tick = 1
        self.waiting = []  # clients without a job, those asked longest ago first
        self.here = []

    def join(self, client, now):
        self.waiting.append(client)

    def leave(self, client, now):
        self.waiting = [other for other in self.waiting if other != client]

    def receive(self, update, now):
        self.here.append(update)
        self.waiting.append(update.client)

    def wakes(self):
        return self.tick * self.period

    def act(self, now):
        if now < self.wakes():
            return None
        self.tick += 1
        use, self.here = self.here, []
        asked, self.waiting = self.waiting[: self.selected], self.waiting[self.selected :]
        return favano.Action(
            use=use or None, dispatch=[favano.Dispatch(client) for client in asked]
        )


class Turns(favano.Method[favano.ModelState]):
    """The mean of what the clients have learnt, who take turns."""

    linear = True
    period: float = favano.option(7.0, "time between ticks")

    def policy(self):
        steps, selected = self.context.local_steps, self.context.selected
        return LeastRecent(selected=selected, period=self.period, local_steps=steps)

    def aggregate(self, state, updates):
        return favano.ModelState(state.model + (updates.end - updates.start).mean(0))
