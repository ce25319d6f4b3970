"""Tune two methods, then train the winner with early stopping and keep its best model.

python examples/tuned.py
"""

import favano

METHODS = ["favano", "fedbuff"]
RATES = {"learning_rate": [0.1, 0.3, 0.9], "fedbuff.server_learning_rate": [0.3, 1]}


def main(horizon: float = 600) -> favano.Result:
    """Print the trials, and what the best model of the winner is."""
    problem = favano.Problem(dataset="digits", split="iid", holdout=287)
    tuning = favano.tune(METHODS, problem, grid=RATES, seeds=2, horizon=horizon)
    print(tuning, *tuning.warnings(), sep="\n")
    winner = max(tuning.values, key=tuning.values.__getitem__)
    result = favano.simulate(
        winner,
        problem,
        horizon=2 * horizon,
        keep="best",
        on_evaluate=favano.EarlyStopping(patience=4),
        **tuning.best[winner],
    )
    row = result.kept[0]
    print(f"{winner}: {row.accuracy:.3f} at time {row.time:g}; stopped at {result.runs[0].time:g}")
    print(result.model())
    return result


if __name__ == "__main__":
    main()
