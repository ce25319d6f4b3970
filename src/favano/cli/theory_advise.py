"""`favano theory advise`: how to run FAVANO to reach a target as soon as possible."""

from __future__ import annotations

from dataclasses import asdict

from favano import theory
from favano.cli.constants import (
    PROBLEM,
    Pilot,
    Target,
    number,
    print_setting,
    table_of,
    with_constants,
)
from favano.cli.flags import Config, DataDir, Json, Values, spec_from
from favano.cli.shell import keep_to, notes, print_json, screen
from favano.studies.guarantees import advice_of, make_case
from favano.theory import TheoryProblem


@with_constants
def advise_command(
    flags: Values,
    config: Config = None,
    data_dir: DataDir = None,
    problem: TheoryProblem = PROBLEM,
    target: Target = 0.1,
    pilot: Pilot = False,
    json: Json = False,
) -> None:
    """Find the run with the shortest guaranteed time to a target.

    That is s, K, the time between server steps, and the learning rate.
    """
    case = make_case(spec_from(config, flags))
    known = theory.estimates_of(problem)
    if pilot:
        keep_to(case.spec.run.device)
        from favano.studies.pilot import estimate

        with notes.status("measuring"):
            known = estimate(case.spec, data_dir)
    with notes.status("searching"):
        advice = advice_of(case, known, target)
    if json:
        print_json({"target": target, "estimates": asdict(known), "advice": asdict(advice)})
        return
    print_setting(case.spec, known.problem)
    steps = advice.local_steps
    rows = {
        "clients per step s": (advice.selected,),
        "local steps K": (steps if isinstance(steps, int) else "as given, for each client",),
        "time between server steps I + V": (advice.tick,),
        "learning rate": (advice.learning_rate,),
        "server steps": (advice.rounds,),
        "time": (advice.time,),
        "time with your options": (advice.present_time,),
    }
    screen.print(f"The fastest way to a mean ||grad f||^2 of {number(target)}:")
    screen.print(table_of("", ("", ""), rows))
    for line in advice.how_sure:
        screen.print(line, soft_wrap=True)
