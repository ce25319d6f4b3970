"""Table 1: the time that each method takes to reach a target, as printed and corrected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from favano.records import Complexity, complexities_to_csv, write_together
from favano.records.folder import COMPLEXITIES
from favano.studies.complexity import ComplexityRow, complexity_rows
from favano.studies.paper.methods import METHODS, MOSTLY_FAST, MOSTLY_SLOW, SETTINGS
from favano.theory import TheoryProblem

NAME: Final = "table-1"
PROBLEM: Final = TheoryProblem(smoothness=2.0)  # at L = 1 wrong units would not show
TARGET: Final = 0.1
FLEETS: Final[Mapping[str, str]] = {MOSTLY_FAST: "2/3 fast", MOSTLY_SLOW: "1/9 fast"}
NAMES: Final[Mapping[str, str]] = {
    "fedavg": "FedAvg",
    "fedbuff": "FedBuff",
    "asyncsgd": "AsyncSGD",
    "quafl": "QuAFL",
    "favano": "FAVANO",
}
FORMULAS: Final[Mapping[str, tuple[str, str]]] = {  # printed, corrected; "" where it is right
    "fedavg": (
        "(FLσ² + (1−s/n)KG²)/(sK) ε⁻² + F√L G ε^(−3/2) + LFB² ε⁻¹",
        "FL(σ² + (1−s/n)KG²)/(sK) ε⁻² + FLG ε^(−3/2) + FLB² ε⁻¹",
    ),
    "fedbuff": ("FL(σ²+G²) ε⁻² + FL √((τ_max²/s²+1)(σ²+nG²)) ε^(−3/2) + FL ε⁻¹", ""),
    "asyncsgd": (
        "FL(3σ²+4G²) ε⁻² + FLG √(sτ_avg) ε^(−3/2) + √(sτ_max F) ε⁻¹",
        "FL(3σ²+4G²) ε⁻² + FLG √(sτ_avg) ε^(−3/2) + FL √(sτ_max) ε⁻¹",
    ),
    "quafl": (
        "FLK(σ²+2KG²)/E² ε⁻² + n√n FKL √(σ²+2KG²)/(E√(Es)) ε^(−3/2) + n√n FBK²L/(E√s) ε⁻¹",
        "",
    ),
    "favano": (
        "FL(σ²ā+8G²b) ε⁻² + (n/s) FL² √(K²σ²+L²K²G²+s²σ²ā+s²G²b) ε^(−3/2) + nFB²KLb ε⁻¹",
        "FL(σ²ā+8G²b) ε⁻² + (n/s) FL √(K²σ²+K²G²+s²σ²ā+s²G²b) ε^(−3/2) "
        "+ nFL max(B√b, b, BK/s, K²/s, bB²/n) ε⁻¹",
    ),
}


NOTE: Final = (
    f"Up to numerical constants, at F = σ = G = B = 1, L = {PROBLEM.smoothness:g}, ε = {TARGET:g}, "
    "n = 100, s = 20, K = 20; C is the mean simulated time of a server step, ± the standard error "
    "where it is planned; delays are those of a planned schedule. The paper gives no C for "
    "QuAFL and FAVANO: it is I + V = 7."
)


def table_1() -> dict[str, list[ComplexityRow]]:
    """The rows of the table for both fleets of the paper; FedBuff is run as in Table 2."""
    keys = {"dataset": "mnist", **METHODS["fedbuff"]}
    del keys["server_learning_rate"]  # FedAvg would take it, too
    return {
        fleet: complexity_rows({**keys, **SETTINGS[fleet]}, PROBLEM, TARGET) for fleet in FLEETS
    }


def write_table_1(folder: Path) -> None:
    """Write the table as `table.csv`: server steps and times up to numerical constants."""
    lines = [
        Complexity(
            fleet=fleet,
            method=row.method,
            printed_steps=row.printed.total,
            corrected_steps=row.steps.total,
            step_time=row.server_time.mean,
            step_time_error=row.server_time.error,
            printed_time=row.printed.total * row.server_time.mean,
            corrected_time=row.time,
            largest_delay=row.delays.largest,
            average_delay=row.delays.average,
        )
        for fleet, rows in table_1().items()
        for row in rows
    ]
    write_together(folder, {COMPLEXITIES: complexities_to_csv(lines)})
