"""AsyncFedED: step sizes and job lengths from Euclidean distances (Wang, Zhang, Qiu, Wang 2022)."""

from __future__ import annotations

from favano.methods.arrays import numbers
from favano.methods.method import ClientUpdates, Method, ModelState
from favano.options import Count, PositiveTime, Rate, option
from favano.policies import Adaptive, Latency


class AsyncFedED(Method[ModelState]):
    """Every arrival Delta_i = x_end - x_start is a server step; its age is measured in distance.

        gamma = ||x_t - x_start|| / ||Delta_i||
        x <- x + lambda / (gamma + epsilon) Delta_i
        K_i <- max(1, K_i + floor((target - gamma) gain)),   K_max at most

    so that the next job of a client is shorter where the server has moved on by more than `target`
    times the client's own progress (`favano.policies.Adaptive`; since it looks at models, a run
    cannot be planned). A client that has not moved changes nothing. The server learning rate is
    lambda / epsilon.

    Limitations: with all n clients at work, gamma ~ n eta settles at a step of about
    1 / sqrt(n), which hardly learns; a server learning rate of 2 / n does (page "Readings").
    """

    plot_style, distances = 11, True
    suggests = {"local_steps": 10}
    meaningless = {"sample_weights": "distances decide what a client update counts"}

    server_learning_rate: Rate = option(1.0, "lambda / epsilon", source="its paper")
    distance_offset: PositiveTime = option(
        1.0, "added to gamma in the server step", symbol="epsilon", source="its paper"
    )
    distance_target: float = option(
        3.0, "the gamma at which jobs keep their length", symbol="gamma bar", source="its paper"
    )
    distance_gain: Rate = option(
        1.0, "steps a job changes by, for each unit of gamma", symbol="kappa", source="its paper"
    )
    most_local_steps: Count | None = option(None, "longest job", otherwise="10 K")
    latency: Latency = option("client", "who is busy during a communication")

    def policy(self) -> Adaptive:
        return Adaptive(
            local_steps=self.context.local_steps,
            most_steps=self.most_local_steps or 10 * self.context.longest_job,
            target=self.distance_target,
            gain=self.distance_gain,
            interaction_time=self.context.clock.interaction_time,
            latency=self.latency,
        )

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        start, progress = updates.start[0], updates.end[0] - updates.start[0]
        length, distance = numbers([progress.norm(), (state.model - start).norm()])
        if length == 0.0:
            return state
        scale = self.server_learning_rate * self.distance_offset  # lambda
        gamma = distance / length
        return ModelState(state.model + scale / (gamma + self.distance_offset) * progress)
