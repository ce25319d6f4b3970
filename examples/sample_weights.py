"""Clients of very different size: each alike, or by samples; who trains, and the table of it.

python examples/sample_weights.py
"""

import favano

problem = favano.Problem(dataset="digits", split="dirichlet:0.3")
fleet = favano.Fleet.two_speeds(20, fast=0.5)
keys = {"selected": 5, "learning_rate": 0.1}

for by_samples in (False, True):
    method = favano.Favano(sample_weights=by_samples)
    audit = favano.plan(method, problem, fleet, horizon=5000, **keys).audit
    print(f"FAVANO, sample_weights={by_samples}: {audit.verdict}")

methods = [
    favano.Favano(sample_weights=True, label="FAVANO"),
    favano.FedBuff(sample_weights=True, buffer=5, label="FedBuff"),
    favano.FedAvg(sample_weights=True, label="FedAvg"),
]
compared = favano.compare(methods, problem, fleet, horizon=1500, seeds=5, **keys)
table = compared.table(target=0.5)
for name, time in zip(table["method"], table["time_to_target"], strict=True):
    print(f"{name} reaches 50 % after {time:.0f} units of time")
print(compared.to_latex(target=0.5))
