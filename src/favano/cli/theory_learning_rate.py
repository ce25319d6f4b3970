"""`favano theory learning-rate`: how large the step may be, and how large it should be."""

from __future__ import annotations

from favano.cli.constants import (
    Dissimilarity,
    Gap,
    Growth,
    Noise,
    Pilot,
    Rounds,
    Smoothness,
    number,
    table_of,
)
from favano.cli.flags import Config, DataDir, Json, Values, spec_from
from favano.cli.shell import keep_to, print_json, screen
from favano.studies.guarantees import make_case, rates_of
from favano.theory import Problem


def learning_rate_command(
    flags: Values,
    config: Config = None,
    data_dir: DataDir = None,
    smoothness: Smoothness = 1.0,
    noise: Noise = 1.0,
    dissimilarity: Dissimilarity = 1.0,
    growth: Growth = 1.0,
    gap: Gap = 1.0,
    rounds: Rounds = None,
    pilot: Pilot = False,
    json: Json = False,
) -> None:
    """Every condition on the learning rate, and the rate that makes the bound smallest."""
    problem = Problem(
        smoothness=smoothness, noise=noise, dissimilarity=dissimilarity, growth=growth, gap=gap
    )
    case = make_case(spec_from(config, flags))
    if pilot:
        keep_to(case.spec.run.device)
        from favano.studies.pilot import estimate

        problem = estimate(case.spec, data_dir).problem
    found = rates_of(case, problem, rounds)
    if json:
        print_json(found.document)
        return
    stated = {f"{each.formula} *" if each.stated else each.formula: (each.limit, each.where)
              for each in found.printed}  # fmt: skip
    screen.print(table_of("used in the paper's proof (* stated)", ("eta <=", "", "for"), stated))
    enough = {each.formula: (each.limit, each.where) for each in found.sufficient}
    screen.print(table_of("sufficient, whatever K and s", ("eta <=", "", "for"), enough))
    screen.print(
        f"Best after {found.rounds:,} server steps: {number(found.best)}; "
        f"the run has {number(found.run)}.",
        soft_wrap=True,
    )
