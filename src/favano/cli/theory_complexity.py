"""`favano theory complexity`: Table 1 in numbers."""

from __future__ import annotations

from favano.cli.constants import PROBLEM, Target, number, print_setting, table_of, with_constants
from favano.cli.flags import Config, Json, Values
from favano.cli.shell import print_json, screen
from favano.specification.config import read_config
from favano.studies.complexity import complexity_document, complexity_rows, favano_case
from favano.theory import TheoryProblem


@with_constants
def complexity_command(
    flags: Values,
    config: Config = None,
    problem: TheoryProblem = PROBLEM,
    target: Target = 0.1,
    json: Json = False,
) -> None:
    """Show how long each method takes to a target, up to numerical constants (Table 1)."""
    keys = {**read_config(config).shared, **flags}
    if json:
        print_json(complexity_document(keys, problem, target))
        return
    rows = {
        str(row.method): (row.printed.total, row.steps.total, *row.server_time, row.time)
        for row in complexity_rows(keys, problem, target)
    }
    print_setting(favano_case(keys).spec, problem)
    title = f"to a mean ||grad f||^2 of {number(target)}, up to constants"
    headings = ("method", "steps, printed", "steps", "time of a step", "its error", "time")
    screen.print(table_of(title, headings, rows))
