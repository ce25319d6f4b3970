"""Who trains the model, and what the theory says: audits, `favano theory`, and its formulas."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

import favano
from favano import theory
from favano.theory import TheoryProblem, TheorySetting
from tests.golden import schedules
from tests.golden.front_door import command, folder
from tests.golden.records import Values

TOLERANCE: Final = 1e-12

# Ways of the schedules whose audits are recorded, and options that weights depend on.
_UNEVEN: Final = {"split": "dirichlet:0.3", "sample_weights": True}
_OPTIONS: Final[dict[str, schedules.Keys]] = {
    "favano, exact": {"method": "favano"},
    "favano, deterministic": {"method": "favano", "reweight": "deterministic"},
    "favano, not reweighted": {"method": "favano", "reweight": "none"},
    "favano, monte-carlo": {"method": "favano", "weights": "monte-carlo"},
    "favano, given": {"method": "favano", "weights": "given", "given_weights": [0.9, 0.4]},
    "favano, exact, lost": {"method": "favano", "availability": "two-state:60:20"},
    "favano, exact, paused": {
        "method": "favano", "availability": "daily:0.5:3:80", "when_away": "paused",
    },
    "favano, exact, weighted": {"method": "favano", "selection": "weighted:3,1"},
    "favano, exact, lognormal": {"method": "favano", "step_law": "lognormal:0.5"},
    "favano, samples": {"method": "favano", **_UNEVEN},
    "favano, momentum": {"method": "favano", "momentum": 0.9},
    "favano-delta, deterministic": {"method": "favano-delta", "reweight": "deterministic"},
    "fedavg, samples": {"method": "fedavg", **_UNEVEN},
    "fedavg, nesterov": {"method": "fedavg", "momentum": 0.9, "nesterov": True},
    "fedavg, proximal, schedule": {
        "method": "fedavg", "proximal": 0.1, "rate_schedule": "cosine:0.1", "warm_up": 20.0,
    },
    "fedavg, decay": {"method": "fedavg", "rate_decay": True},
    "fedavg, server rate": {"method": "scaffold", "server_learning_rate": 0.5},
    "fedprox": {"method": "fedprox", "proximal": 0.5},
    "fednova, samples": {"method": "fednova", "deadline": 15.0, "at_deadline": "take", **_UNEVEN},
    "quafl, server alone": {"method": "quafl", "client_averaging": False},
    "quafl, dampening": {"method": "quafl", "dampening": True},
    "fedbuff, constant": {"method": "fedbuff", "buffer": 2, "staleness": "constant"},
    "fedbuff, hinge": {"method": "fedbuff", "buffer": 2, "staleness": "hinge:2:1", **_UNEVEN},
    "fedbuff, scaled": {"method": "fedbuff", "buffer": 2, "rate_scale": "buffer"},
    "asyncsgd, scale": {"method": "asyncsgd", "delays": "scale"},
    "asyncsgd, drop": {"method": "asyncsgd", "delays": "drop"},
    "fedasync, hinge": {"method": "fedasync", "staleness": "hinge:2:1", "max_staleness": 4},
    "fedasync, halved": {"method": "fedasync", "mixing": 0.3, "halve_mixing_at": 10},
    "aafl, mean": {"method": "aafl", "arrival_weights": "mean"},
    "aafl, samples": {"method": "aafl", **_UNEVEN},
    "fedfix, identical": {"method": "fedfix", "window_weights": "identical"},
    "fedfix, lognormal": {"method": "fedfix", "step_law": "lognormal:0.5"},
    "asofed, decimal": {"method": "asofed", "delay_logarithm": "decimal", "memory_decay": 0.1},
    "linear in groups": {
        "method": "fedavg",
        "group": [{"share": 0.25, "mean": 2.0, "name": "a"}, {"share": 0.75, "mean": 9.0}],
    },
    "not linear": {"method": "fedavg", "server_optimiser": "momentum"},
}  # fmt: skip
_LATE: Final = {"clients": 12, "horizon": 240.0, "seed": 1}

# Flags of fleets and clocks whose laws differ.
_THEORY: Final = ("steps", "alpha", "bound", "complexity", "learning-rate", "advise")
_CONSTANTS: Final = "--smoothness 2 --noise 0.5 --dissimilarity 3 --growth 1.5 --gap 4"
_FLEETS: Final = {
    "two speeds": "",
    "exponential": "--step-law exponential",
    "deterministic": "--step-law deterministic",
    "lognormal": "--step-law lognormal:0.5",
    "trace": "--step-law trace:steps.csv",
    "means": "--mean 1,1,2,2,2,3,3,5,8,8,13,21",
    "steps of each": "--local-steps 1,2,3,4,5,6,7,8,9,10,1,2",
    "deterministic rule": "--reweight deterministic",
    "all clients": "--selected 12",
    "resume": "--interruption resume",
    "idle": "--idle-in-interaction --waiting-time 2",
    "strict ties": "--strict-ties --step-law deterministic",
    "from zero": "--starts-at-zero",
    "literal": "--step-count literal",
    "literal zero": "--step-count literal-zero",
    "lost": "--availability two-state:60:20",
    "paused": "--availability daily:0.5:3:80 --when-away paused",
    "links": "--link 1:2",
    "1,000 clients": "--clients 1000 --selected 50 --fast-fraction 1/9",
}

_SETTINGS: Final = {
    "few": TheorySetting(clients=10, selected=2, local_steps=5, mean_a=0.6, b=1.4),
    "one": TheorySetting(clients=1, selected=1, local_steps=1, mean_a=1.0, b=1.0),
    "all": TheorySetting(clients=20, selected=20, local_steps=3, mean_a=0.3, b=2.5),
    "many": TheorySetting(clients=1000, selected=50, local_steps=20, mean_a=0.34, b=1.35),
}
_PROBLEM: Final = TheoryProblem(smoothness=2.0, noise=0.5, dissimilarity=3.0, growth=1.5, gap=4.0)
_DELAYS: Final = theory.Delays(largest=9.0, average=2.5, common_steps=3.0)
_LAWS: Final = {
    "even": theory.StepCount(np.array([0.25, 0.25, 0.25, 0.25])),
    "rare": theory.StepCount(np.array([0.95, 0.04, 0.01])),
    "always": theory.StepCount(np.array([0.0, 0.0, 0.5, 0.1, 0.4])),
}
_FLEET: Final = "--clients 12 --selected 3 --local-steps 4 --horizon 300"
_FORMS: Final[tuple[Literal["printed", "corrected"], ...]] = ("printed", "corrected")


def _audit(keys: schedules.Keys) -> dict[str, Any]:
    """Who trains the model by a plan."""
    with folder(schedules.FILES):
        document = favano.plan(**keys).document
    clients = document["clients"]
    assert isinstance(clients, list)
    columns = {name: [client[name] for client in clients] for name in clients[0]}
    return {"audit": document["audit"], "clients": columns}


def _theory(flags: str) -> dict[str, Any]:
    """What the commands say of a fleet: documents, or why they cannot."""
    made = {}
    with folder(schedules.FILES):
        for name in _THEORY:
            constants = _CONSTANTS if name not in ("steps", "alpha") else ""
            output = command(f"favano theory {name} {_FLEET} {flags} {constants} --json")
            document: dict[str, Any]
            document = json.loads(output.out) if output.code == 0 else {"refused": output.err}
            for row in document.get("methods", {}).values():
                del row["server_time_error"]  # of a quadrature: nothing but rounding
            made[name] = document
    return made


def _formulas(setting: TheorySetting) -> dict[str, Any]:
    """What follows from a setting and the constants of a problem."""
    both, rate, rounds, target = (setting, _PROBLEM), 1e-4, 1e6, 0.01
    expansion, cap = theory.full_expansion(*both), 1e-3
    made: dict[str, object] = {
        "expansions": [expansion, theory.printed_expansion(*both)],
        "bounds": [
            bound(*both, rate, rounds)
            for bound in (theory.bound_short, theory.bound_full, theory.bound_assembled)
        ],
        "descent": theory.descent(*both, rate),
        "descent_ratio": theory.descent_ratio(*both, rate),
        "conditions": [theory.proof_conditions(*both), theory.sufficient_conditions(*both)],
        "best_rate": theory.best_rate(expansion, cap, rounds),
        "fewest_rounds": theory.fewest_rounds(expansion, cap, target),
        "lemma_rate": theory.lemma_rate(expansion, cap, rounds),
        "lemma_rounds": theory.lemma_rounds(expansion, cap, target),
        "rounds_to_target": theory.rounds_to_target(*both, target),
    }
    for form in _FORMS:
        made[form] = {
            "kappa": theory.kappa(setting.clients, setting.selected, form),
            "contraction": theory.contraction(*both, rate, form),
            "contraction_limit": theory.contraction_limit(*both, form),
            "next_potential": theory.next_potential(
                *both, rate, potential=2.0, gradient=3.0, form=form
            ),
            "largest_rate": theory.largest_rate(*both, form),
            "lemma_bound": theory.lemma_bound(expansion, cap, rounds, form),
            "corollary": theory.corollary(*both, target, form),
            "table": {
                method: theory.table_complexity(method, *both, target, delays=_DELAYS, form=form)
                for method in get_args(theory.Method)
            },
        }
    return made


def _estimators(law: theory.StepCount) -> dict[str, Any]:
    """Weights, coefficients and variances of a law of the number of steps."""
    forms = get_args(theory.Form)
    return {
        rule: {
            "weight": theory.weight(law, rule),
            "mean": theory.estimator_mean(law, theory.weight(law, rule)),
            "variance": theory.estimator_variance(law, rule, mean=2.0, variance=3.0),
            "coefficients": [theory.coefficients(law, rule, form) for form in forms],
        }
        for rule in get_args(theory.Rule)
    }


def _inclusion(size: int) -> dict[str, Any]:
    """Chances to be among so many of twelve clients with weights 3 and 1."""
    return {"chances": theory.inclusion(np.repeat([3.0, 1.0], 6), size)}


def _plain(value: Any) -> Any:
    """Lists of what is alike, and everything else by its name."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    elif is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


_Case: TypeAlias = tuple[Callable[[Any], dict[str, Any]], object]
CASES: Final[dict[str, _Case]] = {
    **{
        f"audit: {name}": (_audit, keys)
        for name, keys in schedules.CASES.items()
        if name in schedules.WAYS
    },
    **{f"audit: {name}": (_audit, _LATE | keys) for name, keys in _OPTIONS.items()},
    **{f"theory: {name}": (_theory, flags) for name, flags in _FLEETS.items()},
    **{f"formulas: {name}": (_formulas, setting) for name, setting in _SETTINGS.items()},
    **{f"estimators: {name}": (_estimators, law) for name, law in _LAWS.items()},
    **{f"inclusion: {size}": (_inclusion, size) for size in (1, 3, 11, 12)},
}


_SLOW: Final = {f"audit: {name}" for name in schedules.WAYS} | {
    f"theory: {name}" for name in _FLEETS
}
QUICK: Final = {"theory: two speeds", *(CASES.keys() - _SLOW)}


def record(case: _Case) -> Values:
    """What a function makes of the rest of the case."""
    function, given = case
    made: Values = _plain(function(given))
    return made
