"""`favano theory learning-rate`: the largest and the best learning rate."""

from __future__ import annotations

from favano.cli.constants import (
    PROBLEM,
    Pilot,
    Rounds,
    number,
    print_setting,
    server_steps,
    table_of,
    with_constants,
)
from favano.cli.flags import Config, DataDir, Json, Values, spec_from
from favano.cli.shell import keep_to, print_json, screen
from favano.studies.guarantees import make_case, rates_of
from favano.theory import TheoryProblem


@with_constants
def learning_rate_command(
    flags: Values,
    config: Config = None,
    data_dir: DataDir = None,
    problem: TheoryProblem = PROBLEM,
    rounds: Rounds = None,
    pilot: Pilot = False,
    json: Json = False,
) -> None:
    """Show every condition on the learning rate, and the rate with the smallest bound."""
    case = make_case(spec_from(config, flags))
    if pilot:
        keep_to(case.spec.run.device)
        from favano.studies.pilot import estimate

        problem = estimate(case.spec, data_dir).problem
    rates = rates_of(case, problem, rounds)
    if json:
        print_json(rates.document)
        return
    print_setting(case.spec, problem)
    headings = ("eta <=", "", "for")
    used = {each.formula + " *" * each.stated: (each.limit, each.where) for each in rates.printed}
    screen.print(table_of("used in the paper's proof (* stated)", headings, used))
    enough = {each.formula: (each.limit, each.where) for each in rates.sufficient}
    screen.print(table_of("sufficient for any K and s", headings, enough))
    screen.print(
        f"Best after {server_steps(rates.rounds)}: {number(rates.best)}; "
        f"the run has {number(rates.run)}.",
        soft_wrap=True,
    )
