"""`favano theory bound`: Theorem 1 in numbers."""

from __future__ import annotations

from favano.cli.constants import (
    PROBLEM,
    Rounds,
    print_setting,
    server_steps,
    table_of,
    with_constants,
)
from favano.cli.flags import Config, Json, Values, spec_from
from favano.cli.shell import print_json, screen
from favano.studies.guarantees import bound_document, bounds_of, make_case
from favano.theory import TheoryProblem


@with_constants
def bound_command(
    flags: Values,
    config: Config = None,
    problem: TheoryProblem = PROBLEM,
    rounds: Rounds = None,
    json: Json = False,
) -> None:
    """Show the three forms of the bound on the mean of ||grad f(mu_t)||^2."""
    case = make_case(spec_from(config, flags))
    if json:
        print_json(bound_document(case, problem, rounds))
        return
    bounds = bounds_of(case, problem, rounds)
    rows = {
        name: (each.learning_rate, each.short, each.full, each.assembled)
        for name, each in (("the run's rate", bounds.run), ("largest allowed", bounds.allowed))
    }
    print_setting(case.spec, problem)
    title = f"mean of ||grad f||^2 after {server_steps(bounds.rounds)} is at most"
    headings = ("", "learning rate", "as printed", "corrected", "assembled")
    screen.print(table_of(title, headings, rows))
    screen.print("The first two hold only up to the largest allowed rate; – means unknown.")
